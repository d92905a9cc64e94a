//! The addresses to listen on, from flags and variables.

use std::net::{IpAddr, Ipv4Addr};

use tollgate_service::{HostName, HostPort};

use super::certificates::http_tls;
use super::environment::{BadVariable, Environment};
use super::given::Given;
use super::setting::{Setting, SettingError, VariableValue, first, own};

const HOSTS: &str = "an IP address or a host name, as in 0.0.0.0";

/// A flag that takes an address, the variables of envoyproxy/ratelimit for the same address, and the default port.
struct AddressSetting {
    flag: &'static str,
    host: &'static str,
    port: &'static str,
    /// The names of both variables, for the source of the value.
    both: &'static str,
    usual_port: u16,
}

const HTTP: AddressSetting = AddressSetting {
    flag: "http",
    host: "HOST",
    port: "PORT",
    both: "HOST, PORT",
    usual_port: 8080,
};
const GRPC: AddressSetting = AddressSetting {
    flag: "grpc",
    host: "GRPC_HOST",
    port: "GRPC_PORT",
    both: "GRPC_HOST, GRPC_PORT",
    usual_port: 8081,
};
const ADMIN: AddressSetting = AddressSetting {
    flag: "admin",
    host: "DEBUG_HOST",
    port: "DEBUG_PORT",
    both: "DEBUG_HOST, DEBUG_PORT",
    usual_port: 6070,
};

/// The address at which a service with these settings answers health checks without TLS.
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
    HTTP.resolve(given.args.http.as_ref(), everywhere(given), given, environment)
}

pub(super) fn grpc(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<HostPort>, BadVariable> {
    GRPC.resolve(given.args.grpc.as_ref(), everywhere(given), given, environment)
}

pub(super) fn admin(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<HostPort>, BadVariable> {
    let loopback = |port| (Ipv4Addr::LOCALHOST, port).into();
    ADMIN.resolve(given.args.admin.as_ref(), loopback, given, environment)
}

/// The default address of a port. A service that is started by variables of envoyproxy/ratelimit listens on IPv6 and
/// IPv4, as envoyproxy/ratelimit does.
fn everywhere(given: &Given) -> impl Fn(u16) -> HostPort {
    let by_variables = given.args.rules.is_none();
    move |port| match by_variables {
        true => HostPort::Everywhere(port),
        false => (Ipv4Addr::UNSPECIFIED, port).into(),
    }
}

/// The address as Go understands it: in the variables of envoyproxy/ratelimit 0.0.0.0 means all addresses of IPv6 and
/// IPv4.
pub(super) fn as_in_go(address: HostPort) -> HostPort {
    match address {
        HostPort::Address(at) if at.ip().is_unspecified() => HostPort::Everywhere(at.port()),
        address => address,
    }
}

impl AddressSetting {
    /// `usual` makes the address of a port if no host is named.
    fn resolve(
        &self,
        flag: Option<&HostPort>,
        usual: impl Fn(u16) -> HostPort,
        given: &Given,
        environment: &Environment,
    ) -> Result<Setting<HostPort>, BadVariable> {
        let given_port: Option<u16> = environment.parsed(self.port, "a port, 0 to 65535")?;
        let port = given_port.unwrap_or(self.usual_port);
        let address = match environment.parsed::<IpAddr>(self.host, HOSTS) {
            Ok(Some(host)) => as_in_go((host, port).into()),
            Ok(None) => usual(port),
            Err(refused) => match environment.parsed::<HostName>(self.host, HOSTS) {
                Ok(Some(name)) => HostPort::Name(name, port),
                _ => return Err(refused),
            },
        };
        let variable = match (environment.text(self.host), given_port) {
            (None, None) => None,
            (Some(_), None) => Some(self.host),
            (None, Some(_)) => Some(self.port),
            (Some(_), Some(_)) => Some(self.both),
        };
        let flag = given.setting(self.flag, flag.cloned());
        Ok(match variable {
            Some(name) => first(flag, VariableValue::of(name, Some(address.clone())), address),
            None => own(flag, address),
        })
    }
}
