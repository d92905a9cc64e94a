//! One file of Rust: its syntax, its comments, and what each of its lines is.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::report::Offender;

/// Files by their path from the root of the repository, with `/` between folders.
pub(crate) type RustFiles = BTreeMap<String, RustFile>;

pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) tokens: TokenStream,
    pub(crate) syntax: syn::File,
    /// The text of each line of a comment, in the order of the file.
    pub(crate) comments: Vec<CommentLine>,
    /// What each line is; the first line of the file is at 0.
    pub(crate) lines: Vec<LineKind>,
    /// Whether the file is compiled for tests only, as its parent says.
    pub(crate) only_tests: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommentLine {
    /// As an editor counts: from 1.
    pub(crate) line: usize,
    pub(crate) is_doc: bool,
    /// Without its marks.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Blank,
    /// Holds a token, whatever else it holds.
    Code,
    Doc,
    /// A comment that is no documentation, alone on its line.
    Comment,
    /// Anything within an item that is compiled for tests only.
    Test,
}

impl RustFile {
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self> {
        let at = || format!("{path} is not Rust");
        let tokens: TokenStream =
            text.parse().map_err(|error| anyhow!("{error}")).with_context(at)?;
        let syntax: syn::File = syn::parse2(tokens.clone()).with_context(at)?;
        let mut scan = LineScan {
            text,
            kinds: vec![LineKind::Blank; text.lines().count()],
            comments: Vec::new(),
            line_starts: std::iter::once(0)
                .chain(text.match_indices('\n').map(|(at, _)| at + 1))
                .collect(),
            end: 0,
        };
        scan.tokens(tokens.clone());
        scan.gap(text.len());
        let LineScan { mut kinds, comments, .. } = scan;
        for lines in test_lines(&syntax) {
            let end = lines.end.min(kinds.len());
            kinds[lines.start..end].fill(LineKind::Test);
        }
        let (path, text) = (path.to_owned(), text.to_owned());
        Ok(Self { path, text, tokens, syntax, comments, lines: kinds, only_tests: false })
    }

    /// Whether this line, counted from 1, is compiled for tests only.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.only_tests || self.lines.get(line - 1) == Some(&LineKind::Test)
    }

    /// The text of a line, counted from 1.
    pub(crate) fn line(&self, line: usize) -> &str {
        self.text.lines().nth(line - 1).unwrap_or_default()
    }

    pub(crate) fn offender(&self, line: usize, what: impl Into<String>) -> Offender {
        Offender { path: self.path.clone(), line, what: what.into() }
    }

    pub(crate) fn count(&self, kind: LineKind) -> usize {
        match (self.only_tests, kind) {
            (true, LineKind::Test) => self.lines.len(),
            (true, _) => 0,
            (false, _) => self.lines.iter().filter(|&&line| line == kind).count(),
        }
    }
}

/// Tells comments from code. The tokens of a file leave out its plain comments, so these are what is found
/// between one token and the next; a doc comment is a token, whose text begins as a comment does.
struct LineScan<'a> {
    text: &'a str,
    kinds: Vec<LineKind>,
    comments: Vec<CommentLine>,
    line_starts: Vec<usize>,
    /// The byte after the last token.
    end: usize,
}

impl LineScan<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    self.token(group.span_open().byte_range());
                    self.tokens(group.stream());
                    self.token(group.span_close().byte_range());
                }
                other => self.token(other.span().byte_range()),
            }
        }
    }

    fn token(&mut self, range: Range<usize>) {
        // Every token of a doc comment has the whole comment's range: the first of them has said all.
        if range.start < self.end || range.is_empty() {
            return;
        }
        self.gap(range.start);
        self.end = range.end;
        let text = &self.text[range.clone()];
        if text.starts_with("//") || text.starts_with("/*") {
            self.comment(range, true);
        } else {
            let (first, last) = (self.line_of(range.start), self.line_of(range.end - 1));
            self.kinds[first..=last].fill(LineKind::Code);
        }
    }

    /// What stands between the last token and `until`: blanks and comments.
    fn gap(&mut self, until: usize) {
        let mut at = self.end;
        while let Some(found) = self.text[at..until].find('/') {
            let start = at + found;
            let rest = &self.text[start..until];
            let length = if rest.starts_with("/*") {
                end_of_block(rest)
            } else {
                rest.find('\n').unwrap_or(rest.len())
            };
            self.comment(start..start + length, false);
            at = start + length;
        }
    }

    fn comment(&mut self, range: Range<usize>, is_doc: bool) {
        let first = self.line_of(range.start);
        for (below, text) in self.text[range].lines().enumerate() {
            let kind = &mut self.kinds[first + below];
            if *kind == LineKind::Blank {
                *kind = if is_doc { LineKind::Doc } else { LineKind::Comment };
            }
            let text = text.trim().trim_start_matches(['/', '*', '!']).trim_end_matches("*/");
            self.comments.push(CommentLine {
                line: first + below + 1,
                is_doc,
                text: text.trim().to_owned(),
            });
        }
    }

    /// From 0.
    fn line_of(&self, byte: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= byte) - 1
    }
}

/// Block comments nest.
fn end_of_block(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The lines of items that are compiled for tests only, counted from 0.
fn test_lines(syntax: &syn::File) -> Vec<Range<usize>> {
    struct TestScan(Vec<Range<usize>>);
    impl TestScan {
        fn keep(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) -> bool {
            let is_test = only_for_tests(attributes);
            if is_test {
                let span = item.span();
                self.0.push(span.start().line - 1..span.end().line);
            }
            is_test
        }
    }
    impl<'ast> Visit<'ast> for TestScan {
        fn visit_item(&mut self, item: &'ast syn::Item) {
            if !self.keep(attributes_of(item), item) {
                visit::visit_item(self, item);
            }
        }
        fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
            if !self.keep(&item.attrs, item) {
                visit::visit_impl_item_fn(self, item);
            }
        }
    }
    let mut found = TestScan(Vec::new());
    found.visit_file(syntax);
    found.0
}

/// Whether a `#[cfg(..)]` holds for tests only.
pub(crate) fn only_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && needs_test(list.tokens.clone()),
        _ => false,
    })
}

/// `test` alone or among others in `all(..)`, or in every part of `any(..)`.
fn needs_test(condition: TokenStream) -> bool {
    let mut operator = String::new();
    condition.into_iter().any(|token| match token {
        TokenTree::Ident(word) => {
            operator = word.to_string();
            operator == "test"
        }
        TokenTree::Group(group) if operator == "any" => {
            let parts: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma = |token: &TokenTree| token.to_string() == ",";
            parts.split(is_comma).all(|part| needs_test(part.iter().cloned().collect()))
        }
        TokenTree::Group(group) => operator != "not" && needs_test(group.stream()),
        _ => false,
    })
}

pub(crate) fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{file, repository};

    const FILE: &str = r##"//! A file.

/* Of two
   lines. */
fn first() -> &'static str {
    // Alone.
    let text = "// no comment, nor /* this */"; // beside code
    r#"
// nor this"#
}

/** Told /* once */
 * in two lines. */
struct Told;

#[cfg(test)]
mod tests {
    // Not counted.
}

#[cfg(not(test))]
fn last() {}
"##;

    #[test]
    fn each_line_is_what_it_holds() {
        use LineKind::{Blank, Code, Comment, Doc, Test};
        let expected = [
            (Doc, 1),
            (Blank, 1),
            (Comment, 2),
            (Code, 1),
            (Comment, 1),
            (Code, 4),
            (Blank, 1),
            (Doc, 2),
            (Code, 1),
            (Blank, 1),
            (Test, 4),
            (Blank, 1),
            (Code, 2),
        ];
        let expected: Vec<LineKind> =
            expected.iter().flat_map(|&(kind, count)| std::iter::repeat_n(kind, count)).collect();
        assert_eq!(file(FILE).lines, expected);
    }

    #[test]
    fn comments_are_found_with_their_lines_and_strings_are_not() {
        let comments = file(FILE).comments;
        let told: Vec<(usize, bool, &str)> =
            comments.iter().map(|line| (line.line, line.is_doc, line.text.as_str())).collect();
        assert_eq!(
            told,
            [
                (1, true, "A file."),
                (3, false, "Of two"),
                (4, false, "lines."),
                (6, false, "Alone."),
                (7, false, "beside code"),
                (12, true, "Told /* once"),
                (13, true, "in two lines."),
                (18, false, "Not counted."),
            ]
        );
    }

    #[test]
    fn a_condition_is_for_tests_only_if_it_needs_them() {
        let only = |condition: &str| {
            let item: syn::Item = syn::parse_str(&format!("#[cfg({condition})] mod x;")).unwrap();
            only_for_tests(attributes_of(&item))
        };
        assert!(only("test"));
        assert!(only("all(test, not(loom))"));
        assert!(only("any(test, all(loom, test))"));
        assert!(!only("not(test)"));
        assert!(!only("all(loom, not(test))"));
        assert!(!only("any(test, loom)"));
        assert!(!only("feature = \"test\""));
    }

    #[test]
    fn a_file_that_is_a_module_for_tests_only_has_no_code() {
        let all = repository(&[
            ("src/lib.rs", "#[cfg(test)] mod checks; mod heart;"),
            ("src/checks.rs", "fn check() {}"),
            ("src/heart.rs", "fn beat() {}"),
        ]);
        let code = |path: &str| all.rust[path].count(LineKind::Code);
        assert_eq!((code("src/checks.rs"), code("src/heart.rs")), (0, 1));
        assert!(all.rust["src/checks.rs"].is_test(1));
        assert!(!all.rust["src/heart.rs"].is_test(1));
    }
}
