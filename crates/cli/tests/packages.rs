//! Packages are named after their folders, and published packages have the metadata that registries show.

use std::fs;

use crate::pages::{read, root};

/// Returns the folders of `crates`.
fn folders() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the crates");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names.map(|name| name.into_string().expect("a name in ASCII")).collect()
}

#[test]
fn a_package_is_named_after_its_folder() {
    for folder in folders() {
        let manifest = read(&format!("crates/{folder}/Cargo.toml"));
        let named = format!("[package]\nname = \"tollgate-{folder}\"\n");
        assert!(manifest.starts_with(&named), "crates/{folder} is not of tollgate-{folder}");
    }
}

#[test]
fn what_is_published_says_what_registries_show() {
    let crates = folders().into_iter().map(|folder| (format!("crates/{folder}"), folder));
    let crates = crates.map(|(path, folder)| (path, format!("tollgate-{folder}")));
    let mut published = 0;
    for (path, name) in [(".".to_owned(), "tollgate".to_owned())].into_iter().chain(crates) {
        let manifest = read(&format!("{path}/Cargo.toml"));
        if manifest.contains("\npublish = false\n") {
            continue;
        }
        for line in [
            "\ndescription = \"",
            "\nlicense.workspace = true\n",
            "\nrepository.workspace = true\n",
            &format!("\ndocumentation = \"https://docs.rs/{name}\"\n"),
            "\nreadme = \"README.md\"\n",
            "\nkeywords = [\"",
            "\ncategories = [\"",
            "\n[package.metadata.docs.rs]\nall-features = true\nrustdoc-args = [\"--cfg\", \"docsrs\"]\n",
        ] {
            assert!(manifest.contains(line), "{path}/Cargo.toml: {}", line.trim());
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert_eq!(read(&format!("{path}/{licence}")), read(licence), "{path}");
        }
        assert!(read(&format!("{path}/README.md")).starts_with("# "), "{path}");
        let library = read(&format!("{path}/src/lib.rs"));
        assert!(library.contains("#![cfg_attr(docsrs, feature(doc_cfg))]\n"), "{path}");
        published += 1;
    }
    assert_eq!(published, 10);
}
