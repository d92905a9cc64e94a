//! Addresses that commonly break limiters, by the numbers of the project's list of bad inputs (D, 55 to 60).

use std::net::IpAddr;

use http::{Extensions, HeaderName, Request};
use tollgate_http::keys::{
    ClientAddress, Extract, Head, Key, NoKey, PeerAddress, Warning, Warnings,
};

/// A request whose connection comes from this address.
fn from(peer: &str) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(PeerAddress(peer.parse::<IpAddr>().unwrap()));
    request
}

/// A request from this address, with headers.
fn with(peer: &str, headers: &[(&'static str, &str)]) -> Request<()> {
    let mut request = from(peer);
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

fn key(by: &ClientAddress, request: &Request<()>) -> Key {
    let mut key = Key::new();
    by.extract(&Head::of(request), &mut key).unwrap();
    key
}

/// Whether all these peers are charged to one key.
fn are_one(by: &ClientAddress, peers: &[&str]) -> bool {
    let first = key(by, &from(peers[0]));
    peers.iter().all(|peer| key(by, &from(peer)) == first)
}

#[test]
fn row_55_a_client_that_rotates_within_a_64_is_one_client() {
    let peer = ClientAddress::peer();
    assert!(are_one(&peer, &["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"]));
    assert!(!are_one(&peer, &["2001:db8:1:2::1", "2001:db8:1:3::1"]));
}

#[test]
fn row_56_larger_networks_can_be_one_client_too() {
    let of = |bits| ClientAddress::peer().v6_prefix(bits).unwrap();
    let (street, town) = (["2001:db8:1:200::1", "2001:db8:1:2ff::1"], "2001:db8:1:300::1");
    assert!(are_one(&of(56), &street));
    assert!(!are_one(&of(56), &[street[0], town]));
    assert!(are_one(&of(48), &[street[0], town]));
}

#[test]
fn networks_of_ipv4_addresses_can_be_one_client() {
    let of = |bits| ClientAddress::peer().v4_prefix(bits).unwrap();
    assert!(are_one(&of(24), &["203.0.113.7", "203.0.113.200"]));
    assert!(!are_one(&of(24), &["203.0.113.7", "203.0.112.7"]));
    assert!(are_one(&of(1), &["203.0.113.7", "128.0.0.1"]));
    assert!(!are_one(&of(32), &["203.0.113.7", "203.0.113.6"]));
    // The key of an IPv6 address may consist of all its bits, or of one.
    let of = |bits| ClientAddress::peer().v6_prefix(bits).unwrap();
    assert!(!are_one(&of(128), &["2001:db8::1", "2001:db8::2"]));
    assert!(are_one(&of(1), &["8000::1", "ffff::1"]));
}

#[test]
fn row_57_an_ipv4_address_within_ipv6_is_the_ipv4_address() {
    let peer = ClientAddress::peer();
    assert!(are_one(&peer, &["1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304"]));
    assert!(!are_one(&peer, &["1.2.3.4", "::ffff:1.2.3.5"]));
}

#[test]
fn row_58_dotted_digits_make_no_ipv4_address_of_another_range() {
    let peer = ClientAddress::peer();
    assert!(are_one(&peer, &["2001:db8::1.2.3.4", "2001:db8::1"]));
    assert!(!are_one(&peer, &["2001:db8::1.2.3.4", "1.2.3.4"]));
}

#[test]
fn row_59_ranges_that_carry_ipv4_addresses_are_ipv6_by_their_64() {
    let peer = ClientAddress::peer();
    // NAT64, 6to4, Teredo.
    for carried in ["64:ff9b::1.2.3.4", "2002:102:304::1", "2001:0:102:304::1"] {
        assert!(!are_one(&peer, &[carried, "1.2.3.4"]), "{carried}");
    }
    assert!(are_one(&peer, &["64:ff9b::1.2.3.4", "64:ff9b::5.6.7.8"]));
    assert!(!are_one(&peer, &["2002:102:304::1", "2002:102:305::1"]));
}

#[test]
fn row_60_an_address_with_a_scope_is_read_without_it() {
    let hops = ClientAddress::trusting_hops(1);
    let scoped = with("10.0.0.1", &[("x-forwarded-for", "[fe80::1%eth0]:4711")]);
    let found = hops.find(&Head::of(&scoped)).map(|address| address.to_string());
    assert_eq!(found.as_deref(), Some("fe80::1"));
}

#[test]
fn a_header_of_one_address_is_believed_behind_so_many_hops() {
    let behind = with("10.0.0.1", &[("cf-connecting-ip", "198.51.100.9")]);
    let name = HeaderName::from_static("cf-connecting-ip");
    let by = ClientAddress::trusting_hops(1).in_header(name.clone());
    assert_eq!(by.find(&Head::of(&behind)), Some([198, 51, 100, 9].into()));
    assert_eq!(by.find(&Head::of(&from("10.0.0.1"))), Some([10, 0, 0, 1].into()));
    let elsewhere = ClientAddress::trusting(["192.0.2.0/24".parse().unwrap()]).in_header(name);
    assert_eq!(elsewhere.find(&Head::of(&behind)), Some([10, 0, 0, 1].into()));
}

#[test]
fn a_peer_is_where_a_function_finds_it_and_nowhere_else() {
    #[derive(Clone)]
    struct Connection(IpAddr);
    let noted = |extensions: &Extensions| Some(extensions.get::<Connection>()?.0);
    let by = ClientAddress::peer().with_peer_from(noted);
    let mut request = from("203.0.113.7");
    assert_eq!(by.find(&Head::of(&request)), None);
    request.extensions_mut().insert(Connection("::ffff:198.51.100.9".parse().unwrap()));
    assert_eq!(by.find(&Head::of(&request)), Some([198, 51, 100, 9].into()));
}

#[test]
fn a_limit_of_ipv6_networks_alone_is_not_concerned_with_ipv4() {
    let by = ClientAddress::peer().v6_prefix(48).unwrap().v6_only();
    let extract = |peer| by.extract(&Head::of(&from(peer)), &mut Key::new());
    assert_eq!(extract("2001:db8::1"), Ok(()));
    assert_eq!(extract("203.0.113.7"), Err(NoKey::NotConcerned));
    assert_eq!(extract("::ffff:203.0.113.7"), Err(NoKey::NotConcerned));
    assert_eq!(by.extract(&Head::of(&Request::new(())), &mut Key::new()), Err(NoKey::Missing));
}

#[test]
fn undeclared_forwarding_headers_are_told_once() {
    for header in ["x-forwarded-for", "forwarded"] {
        let by = ClientAddress::peer();
        key(&by, &from("203.0.113.7"));
        assert_eq!(by.warnings(), Warnings::NONE);
        let undeclared = with("203.0.113.7", &[(header, "for=192.0.2.1")]);
        assert_eq!(key(&by, &undeclared), key(&by, &from("203.0.113.7")));
        assert_eq!(by.warnings().iter().collect::<Vec<_>>(), [Warning::ForwardingIgnored]);
    }
    // After the first 1,024 requests one request in 64 is inspected. The header is still found.
    let by = ClientAddress::peer();
    for _ in 0..2_000 {
        key(&by, &from("203.0.113.7"));
    }
    assert_eq!(by.warnings(), Warnings::NONE);
    for _ in 0..64 {
        key(&by, &with("203.0.113.7", &[("x-forwarded-for", "192.0.2.1")]));
    }
    assert!(by.warnings().contains(Warning::ForwardingIgnored));
    let everybody = ClientAddress::trusting(["0.0.0.0/0".parse().unwrap()]);
    assert!(everybody.warnings().contains(Warning::EverybodyTrusted));
    let proxies = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
    assert_eq!(ClientAddress::trusting(proxies).warnings(), Warnings::NONE);
}
