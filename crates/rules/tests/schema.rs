//! The JSON Schema of rule files says what the parser accepts: the same keys in each map, the same words, the same
//! bounds. `packaging/schema` validates the files of the repository by it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollgate_rules::{Problem, RULES_SCHEMA, RuleCache, RuleSettings, RuleText, Unit};

fn schema() -> Value {
    serde_json::from_str(RULES_SCHEMA).expect("the schema is JSON")
}

/// A file with a map in every place that can have one.
fn every_map() -> Value {
    json!({
        "domain": "d",
        "pool": {"unit": "second", "requests_per_unit": 5},
        "forward_auth": [{"user": "path"}],
        "descriptors": [
            {"key": "user", "metadata": {"tier": 1}, "rate_limit": one_limit(), "descriptors": [{"key": "path"}]},
            {"key": "address", "limits": [one_limit()]},
        ],
    })
}

fn one_limit() -> Value {
    json!({"unit": "day", "requests_per_unit": 5, "name": "own", "replaces": [{"name": "other"}]})
}

/// The problem for which a file is refused; `None` if it is accepted. JSON is YAML.
fn problem(file: &Value) -> Option<Problem> {
    let cache = RuleCache::new(RuleSettings::default());
    let text = RuleText::new("test.yaml", file.to_string().as_str());
    cache.load(&[text]).err().map(|errors| errors[0].problem.clone())
}

/// A map of a file: its place in the file, its place in the schema, and its properties there.
struct FoundMap {
    in_file: String,
    in_schema: String,
    properties: Option<Value>,
}

/// Goes through a file and its schema at once, and collects all maps.
fn collect(root: &Value, in_schema: &str, file: &Value, in_file: &str, found: &mut Vec<FoundMap>) {
    let part = root.pointer(in_schema).expect("a place of the schema");
    if let Some(target) = part["$ref"].as_str() {
        return collect(root, target.trim_start_matches('#'), file, in_file, found);
    }
    match file {
        Value::Object(members) => {
            let properties = part.get("properties").cloned();
            for (name, member) in members {
                if part["properties"].get(name).is_some() {
                    let below = format!("{in_schema}/properties/{name}");
                    collect(root, &below, member, &format!("{in_file}/{name}"), found);
                }
            }
            let (in_file, in_schema) = (in_file.to_owned(), in_schema.to_owned());
            found.push(FoundMap { in_file, in_schema, properties });
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                let below = format!("{in_schema}/items");
                collect(root, &below, item, &format!("{in_file}/{n}"), found);
            }
        }
        _ => {}
    }
}

fn maps() -> Vec<FoundMap> {
    let mut found = Vec::new();
    collect(&schema(), "", &every_map(), "", &mut found);
    found
}

fn keys(properties: &Value) -> BTreeSet<&str> {
    properties.as_object().expect("a map").keys().map(String::as_str).collect()
}

#[test]
fn each_map_has_the_keys_that_the_parser_lists_when_it_refuses_another() {
    assert_eq!(problem(&every_map()), None);
    let mut compared = BTreeSet::new();
    for FoundMap { in_file, in_schema, properties } in maps() {
        let Some(properties) = properties else { continue };
        let mut file = every_map();
        file.pointer_mut(&in_file).expect("a map of the file")["zzz"] = json!(1);
        let Some(Problem::UnknownKey { key, accepted }) = problem(&file) else {
            panic!("an unknown key is accepted at {in_file}");
        };
        assert_eq!(key, "zzz");
        assert_eq!(keys(&properties), accepted.iter().copied().collect(), "{in_schema}");
        compared.insert(in_schema);
    }
    let expected = [
        "",
        "/$defs/descriptor",
        "/$defs/limit",
        "/$defs/limit/properties/replaces/items",
        "/$defs/pool",
    ];
    assert_eq!(compared, expected.map(str::to_owned).into());
}

/// The places in the schema of all parts for which `is_asked` holds.
fn places(part: &Value, at: &str, is_asked: &impl Fn(&Value) -> bool, found: &mut Vec<String>) {
    let below = |name: &str| format!("{at}/{name}");
    match part {
        Value::Object(members) => {
            if is_asked(part) {
                found.push(at.to_owned());
            }
            for (name, member) in members {
                places(member, &below(name), is_asked, found);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                places(item, &below(&n.to_string()), is_asked, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_map_of_the_schema_is_closed_or_has_keys_of_the_users_choice() {
    let schema = schema();
    let mut objects = Vec::new();
    places(&schema, "", &|part| part["type"] == "object", &mut objects);
    let is_open = |place: &&String| schema.pointer(place).unwrap()["additionalProperties"] != false;
    let open: Vec<&String> = objects.iter().filter(is_open).collect();
    assert_eq!(open, ["/$defs/descriptor/properties/metadata", "/properties/forward_auth/items"]);
    // The file of these tests has them all, so that no map of the schema is left out.
    let in_file: BTreeSet<String> = maps().into_iter().map(|map| map.in_schema).collect();
    assert_eq!(in_file, objects.into_iter().collect());
}

#[test]
fn every_key_has_one_sentence() {
    let schema = schema();
    let mut seen = 0;
    for FoundMap { in_schema, properties, .. } in maps() {
        for (key, property) in properties.iter().flat_map(|all| all.as_object().unwrap()) {
            let said = property["description"].as_str().unwrap_or_default();
            assert!(said.len() > 20 && said.ends_with('.'), "{in_schema} {key}: '{said}'");
            assert!(!said.contains(". "), "{in_schema} {key}: more than one sentence");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen} keys");
    assert!(schema["description"].is_string());
}

/// A file with one rule, which has this key: in its descriptor, in its limit, or in the pool.
fn with_key(place: &str, key: &str, value: &Value) -> Value {
    let mut file = every_map();
    let at = match place {
        "/$defs/descriptor" => "/descriptors/0",
        "/$defs/limit" => "/descriptors/0/rate_limit",
        _ => "/pool",
    };
    let map = file.pointer_mut(at).expect("a map of the file");
    map[key] = value.clone();
    if matches!(key, "burst" | "queue" | "wait") && place == "/$defs/limit" {
        map["algorithm"] = json!("gcra");
    }
    if key == "algorithm" {
        let unit = ["week", "month", "year"].into_iter().find(|unit| {
            value.as_str().is_some_and(|name| name.starts_with(&format!("calendar-{unit}")))
        });
        map["unit"] = json!(unit.unwrap_or("day"));
    }
    file
}

/// The schema of a key, with what it refers to.
fn resolved(schema: &Value, property: &Value) -> Value {
    match property["$ref"].as_str() {
        Some(target) => schema.pointer(&target[1..]).expect("a definition").clone(),
        None => property.clone(),
    }
}

#[test]
fn the_bounds_of_numbers_are_the_parsers() {
    let schema = schema();
    let mut bounds = BTreeSet::new();
    for place in ["/$defs/descriptor", "/$defs/limit", "/$defs/pool"] {
        for (key, property) in schema.pointer(place).unwrap()["properties"].as_object().unwrap() {
            if property["type"] != "integer" {
                continue;
            }
            let refused = |number: u64| problem(&with_key(place, key, &json!(number))).is_some();
            let least = property["minimum"].as_u64().expect("every number has a bound");
            assert!(!refused(least.max(1)), "{place} {key}: {least}");
            assert!(least == 0 || refused(least - 1), "{place} {key}: below {least}");
            assert!(problem(&with_key(place, key, &json!("many"))).is_some(), "{key}: a text");
            bounds.insert(key.as_str());
            if let Some(most) = property["maximum"].as_u64() {
                assert!(!refused(most), "{place} {key}: {most}");
                assert!(refused(most + 1), "{place} {key}: above {most}");
            }
        }
    }
    let expected =
        ["burst", "capacity", "prefix_v4", "prefix_v6", "queue", "requests_per_unit", "weight"];
    assert_eq!(bounds, expected.into());
}

#[test]
fn the_words_of_the_schema_are_those_of_the_parser() {
    let schema = schema();
    let mut read = 0;
    for place in ["/$defs/descriptor", "/$defs/limit", "/$defs/pool"] {
        for (key, property) in schema.pointer(place).unwrap()["properties"].as_object().unwrap() {
            let property = resolved(&schema, property);
            let none = Vec::new();
            let either = property["anyOf"].as_array().unwrap_or(&none);
            let words = either.iter().chain([&property]).find_map(|one| one["enum"].as_array());
            let Some(words) = words else { continue };
            // A truth in quotes is a text for the parser.
            if property == schema["$defs"]["truth"] {
                continue;
            }
            for word in words {
                assert_eq!(problem(&with_key(place, key, word)), None, "{place} {key}: {word}");
                read += 1;
            }
            assert!(problem(&with_key(place, key, &json!("zzz"))).is_some(), "{key}: zzz");
        }
    }
    assert_eq!(read, 3 + 3 + 3 + 7 + 7 + 2 + 25);
    let units = Unit::ALL.map(|unit| json!(unit.to_string()));
    assert_eq!(schema["$defs"]["unit"]["enum"], json!(units));
    for (key, accepted) in [
        ("on_error", "local, allow or deny"),
        ("accuracy", "exact, leased or async"),
        ("on_full", "spill, deny or allow"),
    ] {
        let found = problem(&with_key("/$defs/descriptor", key, &json!("zzz")));
        let Some(Problem::Value { accepted: listed, .. }) = found else {
            panic!("{key}: {found:?}");
        };
        assert_eq!(listed, accepted);
        let words = schema["$defs"]["descriptor"]["properties"][key]["enum"].as_array().unwrap();
        let words: BTreeSet<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
        assert_eq!(words, accepted.split([' ', ',']).filter(|w| !["", "or"].contains(w)).collect());
    }
}
