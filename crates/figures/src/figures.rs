//! Every figure by its name: what it counts, and of which files.

use anyhow::{Context, Result, bail, ensure};

use crate::api::PublicItems;
use crate::circles::{CircleRule, circles};
use crate::imports::ImportMap;
use crate::limits::{FigureLimit, LimitsFile};
use crate::report::{FigureCount, Offender, as_value};
use crate::source::{LineKind, RustFile};
use crate::workspace::Repository;
use crate::{names, orderings, prose, shapes};

const CORE: &str = "src/";
const TABLE: &str = "src/keyed/";
const PUBLIC_ITEMS: &str = "docs/api.txt";
const README: &str = "README.md";

/// In the order of the table.
const FIGURES: [&str; 19] = [
    "core-lines",
    "core-code",
    "core-comments-per-code",
    "table-comments-per-code",
    "public-items",
    "public-types",
    "limiter-types",
    "at-twins",
    "circles",
    "circles-with-parents",
    "long-files",
    "long-functions",
    "large-types",
    "recurring-type-names",
    "readme-bytes",
    "orderings-without-reason",
    "subject-words",
    "banned-phrases",
    "banned-names",
];

/// A figure without a limit would be held by nothing, and none would notice.
pub(crate) fn all_limited(limits: &LimitsFile) -> Result<()> {
    let limited: Vec<&str> = limits.limit.iter().map(|limit| limit.figure.as_str()).collect();
    ensure!(
        limited == FIGURES,
        "the limits are to be these, in this order: {}",
        FIGURES.join(", ")
    );
    Ok(())
}

pub(crate) struct FigureCounter<'a> {
    repository: &'a Repository,
    imports: &'a [ImportMap<'a>],
}

impl<'a> FigureCounter<'a> {
    pub(crate) fn of(repository: &'a Repository, imports: &'a [ImportMap<'a>]) -> Self {
        Self { repository, imports }
    }

    pub(crate) fn count(&self, limit: &FigureLimit) -> Result<FigureCount> {
        Ok(match self.value(limit)? {
            Some(value) => FigureCount::Value(value),
            None => {
                let covered = |place: &Offender| limit.covers(&place.path);
                FigureCount::Places(self.places(limit)?.into_iter().filter(covered).collect())
            }
        })
    }

    /// FigureCounter that are sizes.
    fn value(&self, limit: &FigureLimit) -> Result<Option<f64>> {
        Ok(Some(match limit.figure.as_str() {
            "core-lines" => as_value(self.lines(CORE, None)),
            "core-code" => as_value(self.lines(CORE, Some(LineKind::Code))),
            "core-comments-per-code" => self.comments_per_code(CORE),
            "table-comments-per-code" => self.comments_per_code(TABLE),
            "public-items" => as_value(self.public_items()?.count()),
            "readme-bytes" => as_value(self.repository.text(README)?.len()),
            _ => return Ok(None),
        }))
    }

    /// FigureCounter that are counts of places.
    fn places(&self, limit: &FigureLimit) -> Result<Vec<Offender>> {
        let files = self.files(limit);
        Ok(match limit.figure.as_str() {
            "public-types" => self.public_items()?.types(),
            "limiter-types" => self.public_items()?.limiters(),
            "at-twins" => self.public_items()?.at_twins(),
            "circles" => circles(self.imports, CircleRule::Beside),
            "circles-with-parents" => circles(self.imports, CircleRule::WithParents),
            "long-files" => shapes::long_files(&files, each(limit)?),
            "long-functions" => shapes::long_functions(&files, each(limit)?),
            "large-types" => shapes::large_types(self.imports, each(limit)?),
            "recurring-type-names" => names::recurring_types(&files),
            "banned-names" => names::beginning_with(&files, words(limit)?),
            "orderings-without-reason" => orderings::without_reason(&files, words(limit)?),
            "subject-words" | "banned-phrases" => self.said(limit, words(limit)?),
            unknown => bail!("there is no figure {unknown}"),
        })
    }

    fn files(&self, limit: &FigureLimit) -> Vec<&'a RustFile> {
        self.repository.rust.values().filter(|file| limit.covers(&file.path)).collect()
    }

    fn lines(&self, folder: &str, kind: Option<LineKind>) -> usize {
        let within = self.repository.rust.values().filter(|file| file.path.starts_with(folder));
        within.map(|file| kind.map_or(file.lines.len(), |kind| file.count(kind))).sum()
    }

    /// Lines that hold nothing but a comment, without documentation, per line of code; without tests.
    fn comments_per_code(&self, folder: &str) -> f64 {
        let count = |kind| as_value(self.lines(folder, Some(kind)));
        count(LineKind::Comment) / count(LineKind::Code).max(1.0)
    }

    fn public_items(&self) -> Result<PublicItems<'a>> {
        Ok(PublicItems::of(PUBLIC_ITEMS, self.repository.text(PUBLIC_ITEMS)?))
    }

    /// In comments and on pages.
    fn said(&self, limit: &FigureLimit, words: &[String]) -> Vec<Offender> {
        let comments =
            self.files(limit).into_iter().flat_map(|file| prose::in_comments(file, words));
        let pages = self.repository.pages.iter().filter(|(path, _)| path.ends_with(".md"));
        let pages = pages.flat_map(|(path, text)| prose::on_page(path, text, words));
        comments.chain(pages).collect()
    }
}

fn each(limit: &FigureLimit) -> Result<usize> {
    limit.each.with_context(|| {
        format!("the limit of {} does not say how large each may be", limit.figure)
    })
}

/// Without words a figure about words would count nothing, and hold for ever.
fn words(limit: &FigureLimit) -> Result<&[String]> {
    ensure!(!limit.words.is_empty(), "the limit of {} does not say which words", limit.figure);
    Ok(&limit.words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::repository;
    use crate::report::FiguresReport;

    const LIMITS: &str = include_str!("../../../figures.toml");

    /// What is counted for a limit of `figures.toml` in a repository of these files.
    fn counted(figure: &str, files: &[(&str, &str)], pages: &[(&str, &str)]) -> FigureCount {
        let mut all = repository(files);
        all.pages = pages.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
        let trees = all.trees();
        let imports: Vec<ImportMap<'_>> = trees.iter().map(ImportMap::of).collect();
        let limits = LimitsFile::parse(LIMITS).unwrap();
        let limit = limits.limit.iter().find(|limit| limit.figure == figure).unwrap();
        FigureCounter::of(&all, &imports).count(limit).unwrap()
    }

    #[test]
    fn the_limits_of_this_repository_are_complete() {
        let mut limits = LimitsFile::parse(LIMITS).unwrap();
        all_limited(&limits).unwrap();
        limits.limit.pop();
        assert!(all_limited(&limits).is_err());
    }

    #[test]
    fn every_figure_is_counted() {
        let mut all = repository(&[("src/lib.rs", "fn f() {}")]);
        all.pages = [PUBLIC_ITEMS, README].map(|path| (path.to_owned(), String::new())).into();
        let limits = LimitsFile::parse(LIMITS).unwrap();
        let figures = FigureCounter::of(&all, &[]);
        let report = FiguresReport::of(&limits, |limit| figures.count(limit)).unwrap();
        assert_eq!(report.table().lines().count(), FIGURES.len() + 1);
    }

    #[test]
    fn a_figure_about_words_needs_words() {
        let all = repository(&[("src/lib.rs", "fn f() {}")]);
        let figures = FigureCounter::of(&all, &[]);
        for mut limit in LimitsFile::parse(LIMITS).unwrap().limit {
            let asks = !limit.words.is_empty();
            limit.words.clear();
            assert!(!asks || figures.count(&limit).is_err(), "{}", limit.figure);
        }
    }

    #[test]
    fn the_core_is_counted_without_its_tests_and_other_crates() {
        let core = "//! Doc.\n\nfn f() {\n    // Why.\n}\n#[cfg(test)]\nmod tests {}\n";
        let files = [("src/lib.rs", core), ("crates/cli/src/lib.rs", core)];
        let value = |figure| counted(figure, &files, &[]);
        assert_eq!(value("core-lines"), FigureCount::Value(7.0));
        assert_eq!(value("core-code"), FigureCount::Value(2.0));
        assert_eq!(value("core-comments-per-code"), FigureCount::Value(0.5));
        assert_eq!(value("table-comments-per-code"), FigureCount::Value(0.0));
    }

    #[test]
    fn the_readme_is_that_of_the_root() {
        let pages = [("README.md", "Four"), ("crates/redis/README.md", "Seventeen")];
        assert_eq!(counted("readme-bytes", &[("src/lib.rs", "")], &pages), FigureCount::Value(4.0));
    }

    #[test]
    fn folders_that_a_limit_leaves_out_are_left_out() {
        let long = format!("fn f() {{\n{}}}\n", ";\n".repeat(70));
        let at = |path: &str| match counted("long-functions", &[(path, &long)], &[]) {
            FigureCount::Places(places) => places.len(),
            FigureCount::Value(_) => panic!("a count of places"),
        };
        assert_eq!((at("src/lib.rs"), at("tests/worlds/main.rs")), (1, 0));
    }

    #[test]
    fn words_are_looked_for_in_comments_and_on_pages() {
        let files = [("src/lib.rs", "// Whoever asks.\n")];
        let pages = [("docs/a.md", "Nobody asks.\n"), ("docs/api.txt", "nobody\n")];
        let FigureCount::Places(places) = counted("subject-words", &files, &pages) else {
            panic!()
        };
        assert_eq!(crate::fixture::lines(&places), ["src/lib.rs:1", "docs/a.md:1"]);
    }
}
