//! Files of Kubernetes in the place of rule files.

use crate::common::refused;

#[test]
fn an_object_of_kubernetes_is_named_with_what_to_give_in_its_place() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata:\n  shop.yaml: |\n    domain: shop\n";
    assert_eq!(
        refused(map),
        "test.yaml:1:1: config error, this is a ConfigMap of Kubernetes, which holds the rule file shop.yaml; give that \
         file, as from yq '.data[\"shop.yaml\"]', or the directory where the ConfigMap is mounted"
    );
    assert_eq!(
        refused("{apiVersion: v1, kind: Secret}"),
        "test.yaml:1:1: config error, this is a Secret of Kubernetes, not a rule file; give a file that begins with domain:"
    );
}
