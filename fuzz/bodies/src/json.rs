//! Writes requests as JSON, and compares JSON bodies with answers, without the service's own types.

use serde_json::{Map, Value, json};
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::rls::{RateLimitRequest, RateLimitResponse};

/// The ways to write the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonStyle {
    /// Names are in camel case, numbers are numbers, and absent fields are left out.
    Camel,
    /// Names are as in the `.proto`, numbers are strings, and every field is written.
    Snake,
}

pub(crate) const STYLES: [JsonStyle; 2] = [JsonStyle::Camel, JsonStyle::Snake];

pub(crate) fn write(request: &RateLimitRequest, style: JsonStyle) -> String {
    let mut map = Map::new();
    put(&mut map, style, ["domain"; 2], json!(request.domain), request.domain.is_empty());
    let descriptors: Vec<Value> =
        request.descriptors.iter().map(|one| descriptor(one, style)).collect();
    put(&mut map, style, ["descriptors"; 2], json!(descriptors), descriptors.is_empty());
    let hits = number(request.hits_addend.into(), style);
    put(&mut map, style, ["hitsAddend", "hits_addend"], hits, request.hits_addend == 0);
    Value::Object(map).to_string()
}

fn descriptor(descriptor: &RateLimitDescriptor, style: JsonStyle) -> Value {
    let mut map = Map::new();
    let entry = |entry: &tollgate_service::protocol::common::rate_limit_descriptor::Entry| json!({"key": entry.key, "value": String::from_utf8_lossy(&entry.value)});
    let entries: Vec<Value> = descriptor.entries.iter().map(entry).collect();
    put(&mut map, style, ["entries"; 2], json!(entries), entries.is_empty());
    if let Some(limit) = &descriptor.limit {
        let mut own = Map::new();
        let requests = number(limit.requests_per_unit.into(), style);
        put(&mut own, style, ["requestsPerUnit", "requests_per_unit"], requests, false);
        put(&mut own, style, ["unit"; 2], json!(limit.unit), limit.unit == 0);
        map.insert("limit".to_owned(), Value::Object(own));
    }
    // A `hitsAddend` of 0 makes a request that only asks, so a field that is present is always written.
    if let Some(hits) = descriptor.hits_addend {
        put(&mut map, style, ["hitsAddend", "hits_addend"], number(hits, style), false);
    }
    let negative = descriptor.is_negative_hits;
    put(&mut map, style, ["isNegativeHits", "is_negative_hits"], json!(negative), !negative);
    Value::Object(map)
}

fn put(
    map: &mut Map<String, Value>,
    style: JsonStyle,
    names: [&str; 2],
    value: Value,
    absent: bool,
) {
    let [camel, snake] = names;
    match style {
        JsonStyle::Camel if absent => {}
        JsonStyle::Camel => drop(map.insert(camel.to_owned(), value)),
        JsonStyle::Snake => drop(map.insert(snake.to_owned(), value)),
    }
}

fn number(number: u64, style: JsonStyle) -> Value {
    match style {
        JsonStyle::Camel => json!(number),
        JsonStyle::Snake => json!(number.to_string()),
    }
}

/// Asserts that the body says the same as the answer.
pub(crate) fn is_told(body: &str, answer: &RateLimitResponse) {
    let told: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(told["overallCode"], answer.overall_code().as_str_name());
    let statuses: Vec<Value> = told["statuses"].as_array().cloned().unwrap_or_default();
    assert_eq!(statuses.len(), answer.statuses.len());
    for (told, status) in statuses.iter().zip(&answer.statuses) {
        assert_eq!(told["code"], status.code().as_str_name());
        let left = told.get("limitRemaining").and_then(Value::as_u64).unwrap_or_default();
        assert_eq!(left, u64::from(status.limit_remaining));
        let limit = told.get("currentLimit").map(|limit| limit["unit"].clone());
        let expected = status.current_limit.as_ref().map(|limit| json!(limit.unit().as_str_name()));
        assert_eq!(limit, expected);
    }
}
