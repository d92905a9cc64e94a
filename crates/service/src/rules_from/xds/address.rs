//! [`XdsRules`]: the address of a control plane, and the settings for asking it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tollgate_rules::RuleText;
use tonic::transport::Endpoint;

use crate::address_error::AddressError;

const PLAIN: &str = "xds";
const SECURE: &str = "xdss";

const SYNTAX: &str =
    "xds://host:port/node, or xdss://host:port/node?ca=FILE&cert=FILE&key=FILE&name=NAME over TLS";

/// A control plane that sends rules. Its address is `xds://host:port/node`, or `xdss://host:port/node` over TLS.
///
/// The service asks it for all resources of the type `ratelimit.config.ratelimit.v3.RateLimitConfig`, over one stream
/// of the aggregated discovery service (ADS, state of the world). The part after the `/` is the name of this node;
/// without it the name is `default`. Over TLS, the server's certificate must be for the host of the address or for
/// `name`, and must be signed by an authority of this machine or of the file `ca`. `cert` and `key` are the files of
/// the certificate that this node presents, and of its key.
///
/// ```
/// use tollgate_service::XdsRules;
/// let rules: XdsRules = "xds://gateway:18001/limits".parse()?;
/// assert_eq!((rules.host.as_str(), rules.node.as_str()), ("gateway:18001", "limits"));
/// let secure: XdsRules = "xdss://gateway:18001?ca=/certs/ca.crt".parse()?;
/// assert_eq!(secure.to_string(), "xdss://gateway:18001/default");
/// assert!("xds://gateway:18001?ca=x".parse::<XdsRules>().is_err());
/// # Ok::<(), tollgate_service::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct XdsRules {
    /// Host and port.
    pub host: String,
    /// The name of this node.
    pub node: String,
    /// Names and texts that describe this node. They are sent to the control plane, which may choose by them which
    /// rules it sends. Default: none.
    pub metadata: Vec<(String, String)>,
    /// Set if the stream is encrypted.
    pub tls: Option<XdsTls>,
    /// The wait after the first attempt that fails. The wait doubles with each further failure, and returns to this time
    /// after an answer. Default: 1 s.
    pub backoff_initial: Duration,
    /// The maximum wait between two attempts. Default: 60 s.
    pub backoff_max: Duration,
    /// The largest share of a wait, from 0 to 1, that is subtracted at random. Default: 0.5.
    pub backoff_random: f64,
    /// The maximum number of bytes of a message: 4 MiB by default, and at most 64 MiB.
    pub max_message_bytes: usize,
}

/// The certificates by which the control plane and this node identify themselves. The files are PEM, and are read for
/// each connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdsTls {
    /// The authority that must have signed the server's certificate; `None` for the authorities of the machine.
    pub authority: Option<PathBuf>,
    /// The certificate of this node.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate of this node.
    pub key: Option<PathBuf>,
    /// The name in the server's certificate; `None` if it is the host of the address.
    pub name: Option<String>,
}

impl XdsRules {
    /// The usual maximum size of a message in gRPC.
    const USUAL_BYTES: usize = 4 << 20;

    /// The control plane at this host and port, unencrypted.
    ///
    /// # Errors
    /// The text is not a host and a port.
    ///
    /// ```
    /// use tollgate_service::XdsRules;
    /// let rules = XdsRules::new("gateway:18001")?;
    /// assert_eq!(rules.to_string(), "xds://gateway:18001/default");
    /// assert_eq!(rules.backoff_initial.as_secs(), 1);
    /// assert!(XdsRules::new("gateway").is_err());
    /// # Ok::<(), tollgate_service::AddressError>(())
    /// ```
    pub fn new(host: impl Into<String>) -> Result<Self, AddressError> {
        let host = host.into();
        let endpoint = Endpoint::from_shared(format!("http://{host}"));
        let has_port = endpoint.is_ok_and(|endpoint| endpoint.uri().port_u16().is_some());
        if !has_port || host.contains(['/', '?', '#', '@']) {
            return Err(refused(&format!("'{}' is no host and port", host.escape_debug())));
        }
        Ok(Self {
            host,
            node: "default".to_owned(),
            metadata: Vec::new(),
            tls: None,
            backoff_initial: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            backoff_random: 0.5,
            max_message_bytes: Self::USUAL_BYTES,
        })
    }

    /// Whether a text is the address of a control plane.
    pub(in crate::rules_from) fn is_address(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| scheme == PLAIN || scheme == SECURE)
    }

    /// The maximum size of a message, which is at most the maximum size of all rules together.
    pub(super) fn message_bytes(&self) -> usize {
        self.max_message_bytes.min(RuleText::MAX_BYTES_TOGETHER)
    }
}

fn refused(reason: &str) -> AddressError {
    AddressError::ControlPlane { reason: format!("{reason}; use {SYNTAX}") }
}

impl FromStr for XdsRules {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, node) = rest.split_once('/').unwrap_or((rest, ""));
        let mut rules = Self::new(host)?;
        if !node.is_empty() {
            node.clone_into(&mut rules.node);
        }
        let mut tls = XdsTls::default();
        for (name, value) in query.split('&').filter(|part| !part.is_empty()).map(of_query) {
            match name {
                _ if value.is_empty() => return Err(refused(&format!("{name} has no value"))),
                "ca" => tls.authority = Some(value.into()),
                "cert" => tls.certificate = Some(value.into()),
                "key" => tls.key = Some(value.into()),
                "name" => tls.name = Some(value.to_owned()),
                _ => return Err(refused(&format!("'{}' is no setting", name.escape_debug()))),
            }
        }
        if tls.certificate.is_some() != tls.key.is_some() {
            return Err(refused("cert and key belong together"));
        }
        match scheme {
            SECURE => rules.tls = Some(tls),
            PLAIN if tls == XdsTls::default() => {}
            PLAIN => return Err(refused("certificates need TLS")),
            _ => return Err(refused(&format!("'{}' is no scheme", scheme.escape_debug()))),
        }
        Ok(rules)
    }
}

fn of_query(part: &str) -> (&str, &str) {
    part.split_once('=').unwrap_or((part, ""))
}

impl fmt::Display for XdsRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { SECURE } else { PLAIN };
        write!(f, "{scheme}://{}/{}", self.host, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_as_which_node_and_how_securely() {
        let text = "xdss://[::1]:1/a/b?ca=/ca&cert=/c&key=/k&name=plane";
        let rules: XdsRules = text.parse().expect("an address");
        let path = |path: &str| Some(PathBuf::from(path));
        let tls = XdsTls {
            authority: path("/ca"),
            certificate: path("/c"),
            key: path("/k"),
            name: Some("plane".to_owned()),
        };
        assert_eq!((rules.host.as_str(), rules.node.as_str()), ("[::1]:1", "a/b"));
        assert_eq!(rules.tls, Some(tls));
        assert_eq!(rules.message_bytes(), 4 << 20);
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_would_be() {
        for (address, begins) in [
            ("xds://", "'' is no host and port; "),
            ("xds://host", "'host' is no host and port; "),
            ("xds://me@host:1", "'me@host:1' is no host and port; "),
            ("xds://host:70000", "'host:70000' is no host and port; "),
            ("xds://host:1?ca=x", "certificates need TLS; "),
            ("xdss://host:1?ca", "ca has no value; "),
            ("xdss://host:1?cert=x", "cert and key belong together; "),
            ("xdss://host:1?sni=x", "'sni' is no setting; "),
            ("http://host:1", "'http' is no scheme; "),
        ] {
            let error = address.parse::<XdsRules>().expect_err(address).to_string();
            let expected = format!("the address of the rules is not understood: {begins}");
            assert!(error.starts_with(&expected) && error.contains("xdss://host:port"), "{error}");
        }
    }
}
