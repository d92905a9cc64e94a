//! Names: types that are called alike, and words that names must not begin with.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::report::Offender;
use crate::source::RustFile;

/// Names that more than one struct, enum, union, trait or alias has, anywhere in the repository: each once, at
/// its first place.
pub(crate) fn recurring_types(files: &[&RustFile]) -> Vec<Offender> {
    struct TypeNames<'a> {
        path: &'a str,
        places: BTreeMap<String, Vec<(String, usize)>>,
    }
    impl TypeNames<'_> {
        fn keep(&mut self, name: &syn::Ident) {
            let place = (self.path.to_owned(), name.span().start().line);
            self.places.entry(name.to_string()).or_default().push(place);
        }
    }
    impl<'ast> Visit<'ast> for TypeNames<'_> {
        fn visit_item(&mut self, item: &'ast syn::Item) {
            match item {
                syn::Item::Struct(item) => self.keep(&item.ident),
                syn::Item::Enum(item) => self.keep(&item.ident),
                syn::Item::Union(item) => self.keep(&item.ident),
                syn::Item::Trait(item) => self.keep(&item.ident),
                syn::Item::Type(item) => self.keep(&item.ident),
                _ => {}
            }
            visit::visit_item(self, item);
        }
    }
    let mut found = TypeNames { path: "", places: BTreeMap::new() };
    for file in files {
        found.path = &file.path;
        found.visit_file(&file.syntax);
    }
    let recurring = found.places.into_iter().filter(|(_, places)| places.len() > 1);
    recurring
        .map(|(name, mut places)| {
            let count = places.len();
            let (path, line) = places.swap_remove(0);
            Offender { path, line, what: format!("{name}: {count} types") }
        })
        .collect()
}

/// Lines with a name that begins with one of these, whatever its case.
pub(crate) fn beginning_with(files: &[&RustFile], prefixes: &[String]) -> Vec<Offender> {
    fn look(tokens: TokenStream, prefixes: &[String], found: &mut BTreeMap<usize, String>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => look(group.stream(), prefixes, found),
                TokenTree::Ident(name) => {
                    let lower = name.to_string().to_lowercase();
                    if prefixes.iter().any(|prefix| lower.starts_with(prefix)) {
                        found.entry(name.span().start().line).or_insert(name.to_string());
                    }
                }
                _ => {}
            }
        }
    }
    let mut offenders = Vec::new();
    for file in files {
        let mut found = BTreeMap::new();
        look(file.tokens.clone(), prefixes, &mut found);
        offenders.extend(found.into_iter().map(|(line, name)| file.offender(line, name)));
    }
    offenders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{file, lines, whats, words};

    #[test]
    fn a_type_name_recurs_if_two_types_have_it() {
        let both =
            file("struct Table;\nmod a { enum Table {} }\ntype Row = u8;\nfn f() { struct Line; }");
        assert_eq!(whats(&recurring_types(&[&both])), ["Table: 2 types"]);
        assert_eq!(lines(&recurring_types(&[&both])), ["a.rs:1"]);
        // The name of an associated type is the trait's choice, and a type is not called alike with its uses.
        let one =
            file("struct Table; impl Iterator for Table { type Item = Table; }\ntrait Item {}");
        assert_eq!(recurring_types(&[&one]), []);
    }

    #[test]
    fn names_are_looked_at_in_whatever_case_and_texts_are_not() {
        let file = file(
            "const MOST_UNITS: u64 = 1;\nfn f(most_read: u64) -> u64 {\n    most_read\n}\n\
             // most_ of all\nfn almost_there(most: &str) { g(\"most_units\") }\n",
        );
        let found = beginning_with(&[&file], &words(&["most_"]));
        assert_eq!(lines(&found), ["a.rs:1", "a.rs:2", "a.rs:3"]);
    }
}
