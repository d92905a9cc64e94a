//! [`CompilerPlace`]: where in the files the compiler is.

use crate::counts::series::LevelName;
use crate::language::error::{Problem, RuleError};
use crate::language::file::DescriptorText;
use crate::language::position::Position;
use crate::language::rule_id::{PathStep, RuleId};

/// The file, and the path down to the descriptor.
pub(super) struct CompilerPlace<'f> {
    pub(super) file: &'f str,
    pub(super) id: RuleId,
    pub(super) path: String,
    /// For each level, whether its value is part of the names of series.
    shown: Vec<bool>,
}

impl<'f> CompilerPlace<'f> {
    /// The place above all descriptors of a domain.
    pub(super) fn new(file: &'f str, domain: &str) -> Self {
        let id = RuleId { domain: domain.into(), steps: Vec::new() };
        Self { file, id, path: String::new(), shown: Vec::new() }
    }

    /// Goes down to a descriptor. Returns the number that [`leave`](CompilerPlace::leave) needs to
    /// come back.
    pub(super) fn enter(&mut self, descriptor: &DescriptorText, step: PathStep) -> usize {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path += &step.name();
        self.id.steps.push(step);
        self.shown.push(descriptor.value_to_metric);
        outer
    }

    pub(super) fn leave(&mut self, outer: usize) {
        self.path.truncate(outer);
        self.id.steps.pop();
        self.shown.pop();
    }

    /// The names of the series of the rule at this place, if it has any.
    pub(super) fn series(&self, is_detailed: bool) -> Option<Box<[LevelName]>> {
        LevelName::of(&self.id.steps, &self.shown, is_detailed)
    }

    pub(super) fn error(&self, at: Position, problem: Problem) -> RuleError {
        RuleError { file: self.file.to_owned(), at: Some(at), problem }
    }
}
