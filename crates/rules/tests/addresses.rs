//! Clients are identified by the networks of their addresses.

use crate::common::{World, compat_is, refused, with};
use tollgate_rules::{Answer, Descriptor, DescriptorEntry, Override, Request, Unit};

fn rules(more: &str) -> String {
    with(&format!(
        "{{key: remote_address, capacity: 1000, {more} rate_limit: {{unit: hour, requests_per_unit: 200}}}}"
    ))
}

fn from(world: &World, address: &str) -> Answer {
    world.check("d", &[&[("remote_address", address)]])
}

/// The number of requests that are admitted, if each of this many addresses in one /64 sends one.
fn served_of_one_network(world: &World, addresses: u32) -> usize {
    let served = |host: &u32| from(world, &format!("2001:db8:1:2::{host:x}")).is_allowed();
    (0..addresses).filter(served).count()
}

#[test]
fn three_hundred_addresses_of_one_64_are_one_client() {
    let world = World::new(&rules(""));
    assert_eq!(served_of_one_network(&world, 300), 200);
    // The next network is another client.
    assert_eq!(from(&world, "2001:db8:1:3::1").statuses()[0].remaining, 199);
    // Each IPv4 address is one client, in every spelling.
    for (address, left) in [("192.0.2.1", 199), ("192.0.2.2", 199), ("::ffff:192.0.2.1", 198)] {
        assert_eq!(from(&world, address).statuses()[0].remaining, left, "{address}");
    }
}

#[test]
fn prefix_v6_says_how_many_bits_tell_clients_apart() {
    let world = World::new(&rules("prefix_v6: 128,"));
    assert_eq!(served_of_one_network(&world, 300), 300);
    let world = World::new(&rules("prefix_v6: 48,"));
    assert_eq!(served_of_one_network(&world, 100), 100);
    assert_eq!(from(&world, "2001:db8:1:ffff::1").statuses()[0].remaining, 99);
}

#[test]
fn prefix_v4_makes_each_network_one_client_also_under_compat() {
    for compat in [false, true] {
        let world = World::with(&rules("prefix_v4: 24,"), compat_is(compat));
        for (address, left) in [
            ("192.0.2.1", 199),
            ("192.0.2.255", 198),
            ("::ffff:192.0.2.7", 197),
            ("192.0.3.1", 199),
        ] {
            assert_eq!(from(&world, address).statuses()[0].remaining, left, "{address}");
        }
    }
}

#[test]
fn compat_counts_values_as_they_are_unless_the_rule_says_otherwise() {
    let world = World::with(&rules(""), compat_is(true));
    assert_eq!(served_of_one_network(&world, 300), 300);
    for (address, left) in [("2001:db8::1", 199), ("2001:DB8::1", 199), ("::ffff:192.0.2.1", 199)] {
        assert_eq!(from(&world, address).statuses()[0].remaining, left, "{address}");
    }
    let world = World::with(&rules("prefix_v6: 64,"), compat_is(true));
    assert_eq!(served_of_one_network(&world, 300), 200);
}

#[test]
fn addresses_are_known_by_their_values_whatever_the_key_and_matched_as_they_are() {
    let world = World::new(
        "domain: d\ndescriptors:\n  - {key: client, rate_limit: {unit: hour, requests_per_unit: 2}}\n  \
         - {key: client, value: '2001:db8::1', rate_limit: {unit: hour, requests_per_unit: 9}}\n  \
         - {key: user, descriptors: [{key: client, rate_limit: {unit: hour, requests_per_unit: 2}}]}\n",
    );
    let left =
        |entries: &[DescriptorEntry<'_>]| world.check("d", &[entries]).statuses()[0].remaining;
    assert_eq!(left(&[("client", "2001:db8::1")]), 8);
    assert_eq!(left(&[("client", "2001:db8::2")]), 1);
    assert_eq!(left(&[("client", "2001:db8::3")]), 0);
    assert_eq!(left(&[("user", "alice"), ("client", "2001:db8::2")]), 1);
    assert_eq!(left(&[("user", "alice"), ("client", "2001:db8::3")]), 0);
    assert_eq!(left(&[("user", "bob"), ("client", "2001:db8::3")]), 1);
}

#[test]
fn limits_that_come_with_requests_count_networks_too() {
    let world = World::new(&rules(""));
    let limit = Some(Override { requests_per_unit: 200, unit: Unit::Hour });
    let served = (0..300).filter(|host| {
        let address = format!("2001:db8:1:2::{host:x}");
        let entries = [("remote_address", address.as_str())];
        let descriptors = [Descriptor { limit, ..Descriptor::new(&entries) }];
        world.ask(&Request::new("d", &descriptors)).expect("a good request").is_allowed()
    });
    assert_eq!(served.count(), 200);
}

#[test]
fn a_rule_whose_prefix_changes_begins_anew_and_says_so() {
    let world = World::new(&rules(""));
    assert_eq!(served_of_one_network(&world, 10), 10);
    world.load(&rules("prefix_v6: 64,")).unwrap();
    assert_eq!(from(&world, "2001:db8:1:2::77").statuses()[0].remaining, 189);
    world.load(&rules("prefix_v6: 56,")).unwrap();
    assert_eq!(
        world.changes()[0],
        "d.remote_address: fixed-window 200/h and begins anew: its clients are told apart by other bits of their \
         addresses"
    );
    assert_eq!(from(&world, "2001:db8:1:2::77").statuses()[0].remaining, 199);
}

#[test]
fn bits_that_no_address_has_are_refused_with_what_is_accepted() {
    let six = (6, "1 to 128, as in 64", &["0", "129", "256", "-1", "64.0", "wide"][..]);
    let four = (4, "1 to 32, as in 24", &["0", "33", "256", "/24"][..]);
    for (version, accepted, refused_bits) in [six, four] {
        for bits in refused_bits {
            let expected = format!(
                "test.yaml:3:54: error checking config: prefix_v{version} '{bits}' is not understood; use the bits that \
                 tell IPv{version} clients apart, {accepted}"
            );
            assert_eq!(refused(rules(&format!("prefix_v{version}: {bits},"))), expected);
        }
    }
}
