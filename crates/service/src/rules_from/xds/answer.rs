//! Reads a control plane's response, and makes the request that answers it.

use std::collections::HashSet;

use prost::Message;
use tollgate_rules::{RuleError, RuleText};

use super::address::XdsRules;
use super::{TYPE, text};
use crate::protocol::config::RateLimitConfig;
use crate::protocol::core::Node;
use crate::protocol::discovery::{DiscoveryRequest, DiscoveryResponse};
use crate::protocol::google::rpc::Status;
use crate::rules_from::hash::MAX_TEXTS;

/// INVALID_ARGUMENT of gRPC.
const INVALID: i32 = 3;

/// The maximum length of a reason in bytes. It is bounded because control planes log it.
const MAX_REASON: usize = 4096;

/// The description of this node that is sent to the control plane.
pub(super) fn node(rules: &XdsRules) -> Node {
    let field = |(name, text): &(String, String)| {
        let kind = Some(prost_types::value::Kind::StringValue(text.clone()));
        (name.clone(), prost_types::Value { kind })
    };
    let fields = rules.metadata.iter().map(field).collect();
    let metadata = (!rules.metadata.is_empty()).then_some(prost_types::Struct { fields });
    Node { id: rules.node.clone(), metadata }
}

/// The rules of a response. They are not validated yet.
#[derive(Debug)]
pub(super) struct RulesOffer {
    pub(super) texts: Vec<RuleText>,
    configs: Vec<RateLimitConfig>,
}

impl RulesOffer {
    /// Decodes a response. `from` names the control plane in errors.
    ///
    /// # Errors
    /// The reason to refuse the response as a whole.
    pub(super) fn of(response: &DiscoveryResponse, from: &str) -> Result<Self, String> {
        if response.type_url != TYPE {
            let found = response.type_url.escape_debug();
            return Err(format!("type_url is '{found}'; only {TYPE} was asked for"));
        }
        if response.resources.len() > MAX_TEXTS {
            let found = response.resources.len();
            return Err(format!("{found} resources; at most {MAX_TEXTS}"));
        }
        let (mut texts, mut configs) = (Vec::new(), Vec::new());
        let (mut names, mut bytes) = (HashSet::new(), 0);
        for (n, resource) in response.resources.iter().enumerate() {
            if resource.type_url != TYPE {
                let found = resource.type_url.escape_debug();
                return Err(format!("resources[{n}].type_url is '{found}'; use {TYPE}"));
            }
            let config = RateLimitConfig::decode(&resource.value[..])
                .map_err(|error| format!("resources[{n}] is no RateLimitConfig: {error}"))?;
            // Control planes choose the names of resources. If a name is missing, the domain serves as the name.
            let name = if config.name.is_empty() { &config.domain } else { &config.name };
            if !names.insert(name.clone()) {
                let found = name.escape_debug();
                return Err(format!("resources[{n}].name '{found}' is there twice; rename one"));
            }
            let text = text::text(&config, format!("{from}/{name}"));
            bytes += text.bytes().len();
            if bytes > RuleText::MAX_BYTES_TOGETHER {
                let most = RuleText::MAX_BYTES_TOGETHER;
                return Err(format!("the resources are larger than {most} bytes as text"));
            }
            texts.push(text);
            configs.push(config);
        }
        Ok(Self { texts, configs })
    }

    /// The reason for refusing the response, made from these errors.
    pub(super) fn reason(&self, errors: &[RuleError]) -> String {
        let told = errors.iter().map(|error| {
            let mut texts = self.texts.iter().zip(&self.configs);
            let of = texts.find(|(text, _)| text.file() == error.file);
            of.map_or_else(|| error.to_string(), |(_, config)| text::told(config, error))
        });
        told.collect::<Vec<_>>().join("\n")
    }
}

/// The requests of one node.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) node: Node,
    /// The version in force, as the control plane sent it; empty before the first version.
    pub(super) version: String,
}

impl Asker {
    /// The first request of a stream. A `reason` refuses the last response of the previous stream, which could not be
    /// read at all.
    pub(super) fn first(&self, reason: Option<String>) -> DiscoveryRequest {
        self.request(String::new(), reason)
    }

    /// Accepts a response.
    pub(super) fn accept(&mut self, response: DiscoveryResponse) -> DiscoveryRequest {
        self.version = response.version_info;
        self.request(response.nonce, None)
    }

    /// Refuses a response. The request names the version that stays in force.
    pub(super) fn refuse(&self, response: DiscoveryResponse, reason: String) -> DiscoveryRequest {
        self.request(response.nonce, Some(reason))
    }

    fn request(&self, response_nonce: String, reason: Option<String>) -> DiscoveryRequest {
        let error_detail = reason.map(|mut message| {
            if message.len() > MAX_REASON {
                let end = (0..=MAX_REASON).rev().find(|end| message.is_char_boundary(*end));
                message.truncate(end.unwrap_or(0));
                message += "...";
            }
            Status { code: INVALID, message }
        });
        DiscoveryRequest {
            version_info: self.version.clone(),
            node: Some(self.node.clone()),
            resource_names: Vec::new(),
            type_url: TYPE.to_owned(),
            response_nonce,
            error_detail,
        }
    }
}
