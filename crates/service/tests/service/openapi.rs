//! `/openapi.json` describes what the HTTP address serves. `packaging/openapi` sends requests that are made from it.

use std::collections::BTreeSet;

use crate::common::{RULES, exchange, serve};
use serde_json::Value;
use tollgate_rules::RuleSettings;

/// The methods that a document of OpenAPI 3.1 can describe.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

#[tokio::test]
async fn the_document_is_served_and_has_each_path_with_its_methods() {
    let world = serve("openapi", RULES, RuleSettings::default()).await;
    let address = world.running.http;
    let (status, head, body) = exchange(address, "GET", "/openapi.json", "").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let document: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    for path in ["/v1/nothing", "/v1/reset", "/rlconfig", "/openapi.yaml"] {
        assert_eq!(exchange(address, "POST", path, "{}").await.0, 404, "{path}");
    }
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        let item = item.as_object().expect("operations");
        let described: BTreeSet<&str> =
            METHODS.into_iter().filter(|method| item.contains_key(*method)).collect();
        assert!(!described.is_empty(), "{path}");
        for method in METHODS {
            let (status, ..) = exchange(address, &method.to_uppercase(), path, "").await;
            assert_ne!(status, 404, "{method} {path}");
            // Each GET is also answered as HEAD, which the document leaves out.
            let is_served =
                described.contains(method) || (method == "head" && described.contains("get"));
            assert_eq!(status != 405, is_served, "{method} {path}: {status}");
            if described.contains(method) {
                let responses = item[method]["responses"].as_object().expect("responses");
                assert!(responses.contains_key(&status.to_string()), "{method} {path}: {status}");
                asked += 1;
            }
        }
    }
    assert_eq!(asked, 12 + METHODS.len());
}
