//! The addresses to listen on, from the variables of envoyproxy/ratelimit.

use std::net::IpAddr;

use tollgate_service::{HostName, HostPort};

use super::environment::{BadVariable, Environment};
use super::given::usual_text;
use super::setting::{SettingError, SettingSource};
use super::values::Values;

const HOSTS: &str = "an IP address or a host name, as in 0.0.0.0";

/// A setting that is an address, and the variables for the same address.
struct AddressVariables {
    name: &'static str,
    host: &'static str,
    port: &'static str,
    /// The names of both variables, for the source of the value.
    both: &'static str,
}

const ALL: [AddressVariables; 3] = [
    AddressVariables { name: "http", host: "HOST", port: "PORT", both: "HOST, PORT" },
    AddressVariables {
        name: "grpc",
        host: "GRPC_HOST",
        port: "GRPC_PORT",
        both: "GRPC_HOST, GRPC_PORT",
    },
    AddressVariables {
        name: "admin",
        host: "DEBUG_HOST",
        port: "DEBUG_PORT",
        both: "DEBUG_HOST, DEBUG_PORT",
    },
];

/// Gives each address setting the address of its variables. If the rules come from variables and no host is named, the
/// service listens on IPv6 and IPv4, as envoyproxy/ratelimit does.
pub(super) fn layer(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    layer_of(values, environment, |_| true)
}

/// Like [`layer`], but only for the address at which a service answers health checks, because the variables of other
/// addresses may be wrong.
pub(super) fn layer_of_health(
    values: &mut Values,
    environment: &Environment,
) -> Result<(), SettingError> {
    let asked = if values.has("http-tls-cert") { "admin" } else { "http" };
    layer_of(values, environment, |name| name == asked)
}

fn layer_of(
    values: &mut Values,
    environment: &Environment,
    is_asked: impl Fn(&str) -> bool,
) -> Result<(), SettingError> {
    let by_variables =
        matches!(values.source("rules"), SettingSource::Default | SettingSource::Envoyproxy(_));
    for variables in ALL {
        if values.has(variables.name) || !is_asked(variables.name) {
            continue;
        }
        // The default of such a flag is always an address, because clap parses it as well and would report an error.
        let Ok(usual) = usual_text(variables.name).parse::<HostPort>() else { continue };
        let usual = if by_variables { as_in_go(usual) } else { usual };
        let (address, source) = variables.resolve(usual, environment)?;
        values.put(variables.name, address.to_string(), source);
    }
    Ok(())
}

/// Returns the address as Go understands it: in the variables of envoyproxy/ratelimit 0.0.0.0 means all addresses of
/// IPv6 and IPv4.
pub(super) fn as_in_go(address: HostPort) -> HostPort {
    match address {
        HostPort::Address(at) if at.ip().is_unspecified() => HostPort::Everywhere(at.port()),
        address => address,
    }
}

impl AddressVariables {
    /// Returns the address of the variables that are set. The host or port of `usual` stands for a variable that is not
    /// set.
    fn resolve(
        &self,
        usual: HostPort,
        environment: &Environment,
    ) -> Result<(HostPort, SettingSource), BadVariable> {
        let given_port: Option<u16> = environment.parsed(self.port, "a port, 0 to 65535")?;
        let port = given_port.unwrap_or(usual.port());
        let address = match environment.parsed::<IpAddr>(self.host, HOSTS) {
            Ok(Some(host)) => as_in_go((host, port).into()),
            Ok(None) => match usual {
                HostPort::Address(at) => (at.ip(), port).into(),
                HostPort::Name(name, _) => HostPort::Name(name, port),
                HostPort::Everywhere(_) => HostPort::Everywhere(port),
            },
            Err(refused) => match environment.parsed::<HostName>(self.host, HOSTS) {
                Ok(Some(name)) => HostPort::Name(name, port),
                _ => return Err(refused),
            },
        };
        let source = match (environment.text(self.host), given_port) {
            (None, None) => SettingSource::Default,
            (Some(_), None) => SettingSource::Envoyproxy(self.host),
            (None, Some(_)) => SettingSource::Envoyproxy(self.port),
            (Some(_), Some(_)) => SettingSource::Envoyproxy(self.both),
        };
        Ok((address, source))
    }
}
