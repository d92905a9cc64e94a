//! The files of one load: those that the source returned, and those that stay in force from before.
//!
//! If a domain had limits and has no rule any more, its last files are compiled again
//! ([`RuleSettings::allow_empty`](crate::RuleSettings::allow_empty)). So no limit is removed by an empty directory, by
//! a missing file, or by a file that is truncated before its first rule or in the middle of its domain's name.

use std::collections::{BTreeSet, HashSet};

use crate::language::error::{Problem, RuleError};
use crate::language::file::{self, DescriptorText, RuleFile};
use crate::language::lowered::LoweredRate;
use crate::language::source::RuleText;
use crate::set::rule::Rule;
use crate::set::rule_set::RuleSet;

/// A file as parsed, with its text.
pub(crate) struct ReadText<'t> {
    pub(crate) text: &'t RuleText,
    pub(crate) file: RuleFile,
}

/// The files to compile.
pub(crate) struct LoadedTexts<'t> {
    pub(crate) files: Vec<ReadText<'t>>,
    /// The domains whose last files stay in force, in the order in which they lost their rules.
    pub(crate) kept_domains: Vec<Box<str>>,
    pub(crate) errors: Vec<RuleError>,
}

/// Reads all texts. Domains of `before` that have no rule any more keep their last files, except the domains in
/// `dropped`.
pub(crate) fn read<'t>(
    texts: &'t [RuleText],
    before: Option<&'t RuleSet>,
    dropped: &[Box<str>],
) -> LoadedTexts<'t> {
    let mut read = LoadedTexts { files: Vec::new(), kept_domains: Vec::new(), errors: Vec::new() };
    texts.iter().for_each(|text| read.add(text));
    if let Some(rules) = before {
        let mut emptied = emptied(rules, &read.files);
        emptied.retain(|domain| !dropped.iter().any(|dropped| **dropped == **domain));
        read.files.retain(|read| !emptied.contains(read.file.domain.as_str()));
        let kept = emptied.iter().filter_map(|domain| rules.texts.get(*domain)).flatten();
        kept.for_each(|text| read.add(text));
        read.errors.extend(too_large(&read.files));
        let longer: Vec<&str> = rules.kept_domains().filter(|kept| emptied.remove(kept)).collect();
        read.kept_domains = longer.into_iter().chain(emptied).map(Into::into).collect();
    }
    read
}

impl<'t> LoadedTexts<'t> {
    fn add(&mut self, text: &'t RuleText) {
        match file::read(text.bytes()) {
            Ok(file) => self.files.push(ReadText { text, file }),
            Err(fault) => self.errors.push(fault.in_file(text.file())),
        }
    }
}

/// The lowered rates of all files, in the order of the files.
pub(crate) fn lowered(files: &[ReadText<'_>]) -> Vec<RuleError> {
    let mut found = Vec::new();
    for ReadText { text, file } in files {
        file.each_lowered(&mut |at, LoweredRate { asked, counted, window }| {
            let problem = Problem::Lowered { asked, counted, window };
            found.push(RuleError { file: text.file().to_owned(), at: Some(at), problem });
        });
    }
    found
}

/// The domains that had a limit before and have no rule now. An explicitly unlimited rule is a rule, but not a limit.
fn emptied<'r>(before: &'r RuleSet, files: &[ReadText<'_>]) -> BTreeSet<&'r str> {
    let have_rules: HashSet<&str> = files
        .iter()
        .map(|read| &read.file)
        .filter(|file| file.descriptors.iter().any(DescriptorText::has_rule))
        .map(|file| file.domain.as_str())
        .collect();
    let had_limits = before.rules.iter().filter(|rule| !rule.is_unlimited());
    had_limits.map(Rule::domain).filter(|domain| !have_rules.contains(domain)).collect()
}

/// Refuses files that are too large together. A source returns at most this many bytes, but files that stay in force
/// from before are added to these. Their sum must be bounded as well.
fn too_large(files: &[ReadText<'_>]) -> Option<RuleError> {
    let most = RuleText::MAX_BYTES_TOGETHER;
    let bytes = files.iter().map(|read| read.text.bytes().len()).sum::<usize>();
    let last = files.last().filter(|_| bytes > most)?;
    Some(RuleError {
        file: last.text.file().to_owned(),
        at: None,
        problem: Problem::TooLarge { most },
    })
}
