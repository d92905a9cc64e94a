//! Where to listen, from flags and variables.

use std::net::{IpAddr, Ipv4Addr};

use tollgate_service::{HostName, HostPort};

use super::certificates::http_tls;
use super::environment::{BadVariable, Environment};
use super::given::Given;
use super::setting::{Setting, SettingError, SettingSource, first};

const HOSTS: &str = "an IP address or a host name, as in 0.0.0.0";

/// The variables of an address: host, port, and their name as a source.
type AddressNames = (&'static str, &'static str, &'static str);

const HTTP: AddressNames = ("HOST", "PORT", "HOST, PORT");
const GRPC: AddressNames = ("GRPC_HOST", "GRPC_PORT", "GRPC_HOST, GRPC_PORT");
const ADMIN: AddressNames = ("DEBUG_HOST", "DEBUG_PORT", "DEBUG_HOST, DEBUG_PORT");

/// Where a service with these settings answers to health checks without TLS.
pub(super) fn health(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<HostPort>, SettingError> {
    let is_secure = http_tls(given)?.value.is_some();
    let address = if is_secure { admin(given, environment) } else { http(given, environment) };
    Ok(address?)
}

pub(super) fn http(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<HostPort>, BadVariable> {
    let flag = (&given.args.http, given.source("http"));
    address(flag, HTTP, (&everywhere(given), 8080), environment)
}

pub(super) fn grpc(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<HostPort>, BadVariable> {
    let flag = (&given.args.grpc, given.source("grpc"));
    address(flag, GRPC, (&everywhere(given), 8081), environment)
}

pub(super) fn admin(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<HostPort>, BadVariable> {
    let flag = (&given.args.admin, given.source("admin"));
    address(flag, ADMIN, (&|port| (Ipv4Addr::LOCALHOST, port).into(), 6070), environment)
}

/// Started by the variables of envoyproxy/ratelimit it listens on both families, as there.
fn everywhere(given: &Given) -> impl Fn(u16) -> HostPort {
    let is_as_there = given.args.rules.is_none();
    move |port| match is_as_there {
        true => HostPort::Everywhere(port),
        false => (Ipv4Addr::UNSPECIFIED, port).into(),
    }
}

/// In the variables of envoyproxy/ratelimit 0.0.0.0 is what it is for Go: all addresses of both families.
pub(super) fn as_in_go(address: HostPort) -> HostPort {
    match address {
        HostPort::Address(at) if at.ip().is_unspecified() => HostPort::Everywhere(at.port()),
        address => address,
    }
}

fn address(
    (given, from): (&Option<HostPort>, SettingSource),
    (host_name, port_name, both_names): AddressNames,
    (usual, usual_port): (&dyn Fn(u16) -> HostPort, u16),
    environment: &Environment,
) -> Result<Setting<HostPort>, BadVariable> {
    let given_port: Option<u16> = environment.parsed(port_name, "a port, 0 to 65535")?;
    let port = given_port.unwrap_or(usual_port);
    let address = match environment.parsed::<IpAddr>(host_name, HOSTS) {
        Ok(Some(host)) => as_in_go((host, port).into()),
        Ok(None) => usual(port),
        Err(refused) => match environment.parsed::<HostName>(host_name, HOSTS) {
            Ok(Some(name)) => HostPort::Name(name, port),
            _ => return Err(refused),
        },
    };
    let variable = match (environment.text(host_name), given_port) {
        (None, None) => (None, ""),
        (Some(_), None) => (Some(address.clone()), host_name),
        (None, Some(_)) => (Some(address.clone()), port_name),
        (Some(_), Some(_)) => (Some(address.clone()), both_names),
    };
    Ok(first((given.clone(), from), variable, address))
}
