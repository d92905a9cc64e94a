//! Orderings of atomics, and whether a comment beside each says why it is enough.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::prose::lines_saying;
use crate::report::Offender;
use crate::source::RustFile;

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// So many lines above an ordering, or above the statement that it is in, a comment is beside it.
const LINES_ABOVE: usize = 6;

/// Lines that name an ordering, outside of tests, where no comment of the same function has one of `reasons`.
///
/// Documentation is no reason: it tells a caller what a function does, not a reader why this line may do it so.
pub(crate) fn without_reason(files: &[&RustFile], reasons: &[String]) -> Vec<Offender> {
    files.iter().flat_map(|file| of_file(file, reasons)).collect()
}

fn of_file(file: &RustFile, reasons: &[String]) -> Vec<Offender> {
    let plain = file.comments.iter().filter(|comment| !comment.is_doc);
    let said = lines_saying(plain.map(|comment| (comment.line, comment.text.as_str())), reasons);
    let mut scan = OrderingScan { bare: imported_alone(file), ..OrderingScan::default() };
    scan.visit_file(&file.syntax);
    let without = scan.orderings.into_iter().filter(|(line, ordering)| {
        let beside = |to: usize| {
            let from = to.saturating_sub(LINES_ABOVE).max(ordering.function);
            from <= to && said.range(from..=to).next().is_some()
        };
        !file.is_test(*line) && !beside(*line) && !beside(ordering.statement)
    });
    without.map(|(line, _)| file.offender(line, file.line(line).trim())).collect()
}

/// Orderings that a file uses by their last name alone: `use std::sync::atomic::Ordering::Relaxed`.
fn imported_alone(file: &RustFile) -> BTreeSet<String> {
    struct OrderingUses(BTreeSet<String>);
    impl OrderingUses {
        fn leaves(&mut self, tree: &syn::UseTree) {
            match tree {
                syn::UseTree::Name(name) => drop(self.0.insert(name.ident.to_string())),
                syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.leaves(tree)),
                _ => {}
            }
        }
    }
    impl<'ast> Visit<'ast> for OrderingUses {
        fn visit_use_path(&mut self, path: &'ast syn::UsePath) {
            if path.ident == "Ordering" {
                self.leaves(&path.tree);
            }
            visit::visit_use_path(self, path);
        }
    }
    let mut uses = OrderingUses(BTreeSet::new());
    uses.visit_file(&file.syntax);
    uses.0
}

/// Where an ordering is named: the first lines of the function and of the innermost statement around it.
struct OrderingAt {
    function: usize,
    statement: usize,
}

#[derive(Default)]
struct OrderingScan {
    bare: BTreeSet<String>,
    /// By their lines.
    orderings: BTreeMap<usize, OrderingAt>,
    function: usize,
    statement: Option<usize>,
}

impl OrderingScan {
    fn keep(&mut self, owner: Option<&str>, last: &proc_macro2::Ident) {
        let name = last.to_string();
        let is_owned = match owner {
            Some(owner) => owner == "Ordering",
            None => self.bare.contains(&name),
        };
        if is_owned && ORDERINGS.contains(&name.as_str()) {
            let line = last.span().start().line;
            let statement = self.statement.unwrap_or(line);
            self.orderings.entry(line).or_insert(OrderingAt { function: self.function, statement });
        }
    }

    fn within(&mut self, function: &syn::Signature, look: impl FnOnce(&mut Self)) {
        let line = function.span().start().line;
        let outer = (std::mem::replace(&mut self.function, line), self.statement.take());
        look(self);
        (self.function, self.statement) = outer;
    }

    /// What a macro is given is not parsed: there the owner is what stands before `::`.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut before: Vec<String> = Vec::new();
        for token in tokens {
            if let TokenTree::Ident(last) = &token {
                let owner = match before.as_slice() {
                    [.., owner, first, second] if first == ":" && second == ":" => {
                        Some(owner.clone())
                    }
                    _ => None,
                };
                self.keep(owner.as_deref(), last);
            }
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                token => before.push(token.to_string()),
            }
        }
    }
}

impl<'ast> Visit<'ast> for OrderingScan {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(&item.sig, |scan| visit::visit_item_fn(scan, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(&item.sig, |scan| visit::visit_impl_item_fn(scan, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.within(&item.sig, |scan| visit::visit_trait_item_fn(scan, item));
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        let outer = self.statement.replace(statement.span().start().line);
        visit::visit_stmt(self, statement);
        self.statement = outer;
    }

    /// An import uses no ordering.
    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut from_last = path.segments.iter().rev();
        if let Some(last) = from_last.next() {
            let owner = from_last.next().map(|segment| segment.ident.to_string());
            self.keep(owner.as_deref(), &last.ident);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{file, lines, words};

    fn found(text: &str) -> Vec<String> {
        lines(&without_reason(&[&file(text)], &words(&["relaxed", "as in"])))
    }

    #[test]
    fn an_ordering_needs_a_comment_that_gives_a_reason() {
        let bare = "fn f(a: &A) {\n    a.load(Ordering::Relaxed);\n}";
        assert_eq!(found(bare), ["a.rs:2"]);
        let silent = "fn f(a: &A) {\n    // Counted.\n    a.load(Ordering::Relaxed);\n}";
        assert_eq!(found(silent), ["a.rs:3"]);
        let told = "fn f(a: &A) {\n    // Relaxed: a counter.\n    a.load(Ordering::Relaxed);\n}";
        assert_eq!(found(told), [""; 0]);
        let over_two =
            "fn f(a: &A) {\n    // Counted as\n    // in `g`.\n    a.load(Ordering::Relaxed);\n}";
        assert_eq!(found(over_two), [""; 0]);
        let beside = "fn f(a: &A) {\n    a.load(Ordering::Relaxed); // as in `g`\n}";
        assert_eq!(found(beside), [""; 0]);
    }

    #[test]
    fn a_reason_is_near_and_in_the_same_function() {
        let gap = "\n".repeat(LINES_ABOVE);
        let far = format!(
            "fn f(a: &A) {{\n    // Relaxed.{gap}    ;\n    a.load(Ordering::Relaxed);\n}}"
        );
        assert_eq!(found(&far), ["a.rs:9"]);
        let other = "fn g() {\n    // Relaxed: a counter.\n}\nfn f(a: &A) {\n    a.load(Ordering::Relaxed);\n}";
        assert_eq!(found(other), ["a.rs:5"]);
        let doc = "/// Relaxed.\nfn f(a: &A) {\n    a.load(Ordering::Relaxed);\n}";
        assert_eq!(found(doc), ["a.rs:3"]);
        let call = format!(
            "fn f(a: &A) {{\n    // Relaxed.\n    a.swap(\n        {gap}1,\n        Ordering::Relaxed,\n    );\n}}"
        );
        assert_eq!(found(&call), [""; 0]);
    }

    #[test]
    fn orderings_are_seen_in_macros_and_by_their_last_name() {
        let text = "use std::sync::atomic::Ordering::{self, SeqCst};\nfn f(a: &A) {\n    \
                    assert!(a.load(Ordering::Acquire));\n    a.load(SeqCst);\n}";
        assert_eq!(found(text), ["a.rs:3", "a.rs:4"]);
        let others = "use std::cmp::Ordering;\nfn f(a: &A) {\n    g(Ordering::Less, Fault::Release, Relaxed);\n}";
        assert_eq!(found(others), [""; 0]);
        let test = "#[cfg(test)]\nmod tests {\n    fn f(a: &A) { a.load(Ordering::Acquire); }\n}";
        assert_eq!(found(test), [""; 0]);
    }
}
