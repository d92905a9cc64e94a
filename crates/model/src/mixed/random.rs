//! Random worlds, drawn from a seed. They run the same code as the fuzz target, for any time and on stable Rust.

use super::{Judges, Mixed, MixedCase, SubjectFault, SubjectKind};
use crate::draw::Draw;
use crate::plant::Plant;
use crate::step::{Span, StepCost, Steps};
use crate::verbs::LimitVerb;

/// The settings of a search for a failure.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// The seed from which worlds are drawn.
    pub seed: u64,
    /// The maximum number of steps.
    pub steps: u64,
    /// The fault of the limiter.
    pub fault: SubjectFault,
    /// The error in the expectation.
    pub plant: Plant,
    /// The references that judge.
    pub judges: Judges,
}

/// A failure that was found.
#[derive(Clone, Debug)]
pub struct FoundFailure {
    /// The world.
    pub case: MixedCase,
    /// The text of the failure.
    pub what: String,
}

/// Draws worlds until one fails. Returns the number of steps that were compared, and the failure.
#[must_use]
pub fn hunt(hunt: Hunt) -> (u64, Option<FoundFailure>) {
    let mut draw = Draw::new(hunt.seed);
    let mut steps = 0;
    while steps < hunt.steps {
        let case = draw.case();
        match case.follow(hunt.plant, hunt.fault, hunt.judges) {
            Ok(more) => steps += more,
            Err(what) => return (steps, Some(shrunk(case, what, hunt))),
        }
    }
    (steps, None)
}

/// Removes every step without which the case still fails.
fn shrunk(case: MixedCase, what: String, hunt: Hunt) -> FoundFailure {
    let mut found = FoundFailure { case, what };
    loop {
        let ops = &found.case.ops.0;
        let fewer = (0..ops.len()).rev().find_map(|left_out| {
            let mut ops = ops.clone();
            ops.remove(left_out);
            let case = MixedCase { ops: Steps(ops), ..found.case };
            let what = case.follow(hunt.plant, hunt.fault, hunt.judges).err()?;
            Some(FoundFailure { case, what })
        });
        match fewer {
            Some(fewer) => found = fewer,
            None => return found,
        }
    }
}

impl Draw {
    fn case(&mut self) -> MixedCase {
        let mut case: MixedCase = self.any();
        if !self.one_in(4) {
            case.rules = Default::default();
        }
        // In most worlds nearly all steps concern one key. In the other worlds many steps are spread over the keys of a
        // table.
        let crowd = self.one_in(4);
        let steps = if crowd { 64 + self.next() % 128 } else { 8 + self.next() % 56 };
        if crowd && self.one_in(2) {
            case.kind = SubjectKind::Table(self.any());
        }
        // In half of all worlds times never go back. In a quarter of all worlds they leap far.
        let [back, far] = [self.one_in(2), self.one_in(4)];
        // In half of all worlds most requests have the same cost.
        let usual = self.one_in(2).then(|| StepCost::Units((self.next() % 9) as u8));
        let ops = (0..steps).map(|_| self.op(back, far, crowd).costs(usual, self)).collect();
        MixedCase { ops: Steps(ops), ..case }
    }

    fn op(&mut self, back: bool, far: bool, crowd: bool) -> Mixed {
        loop {
            // Three in four operations are verbs.
            let op = if self.one_in(4) {
                self.any()
            } else {
                Mixed::Does { key: self.any(), verb: self.any() }
            };
            let is_drawn = match op {
                Mixed::Does { verb: LimitVerb::Earlier { span, .. }, .. } => {
                    back && (far || !is_far(span))
                }
                Mixed::Does { verb: LimitVerb::Later { span, .. }, .. } => far || !is_far(span),
                Mixed::Does { verb: LimitVerb::Reset, .. }
                | Mixed::Again { .. }
                | Mixed::Foreign { .. }
                | Mixed::Change { .. }
                | Mixed::ChangeBack { .. } => self.one_in(4),
                _ => true,
            };
            if is_drawn {
                return if crowd { op } else { op.of_one_key() };
            }
        }
    }
}

fn is_far(span: Span) -> bool {
    matches!(span, Span::To(_) | Span::Turns(_) | Span::Periods(_))
}

impl Mixed {
    /// The same step, three times in four with the usual cost. A step that gives units back then gives back the whole
    /// charge.
    fn costs(mut self, usual: Option<StepCost>, draw: &mut Draw) -> Self {
        let Some(usual) = usual.filter(|_| !draw.one_in(4)) else { return self };
        match &mut self {
            Self::Does { verb, .. } => match verb {
                LimitVerb::Take { cost }
                | LimitVerb::UpTo { cost }
                | LimitVerb::Charge { cost } => *cost = usual,
                LimitVerb::Reserve { cost, .. } => *cost = usual,
                LimitVerb::Refund { most, .. } => *most = u8::MAX,
                _ => {}
            },
            Self::Foreign { cost, .. } | Self::Looks { cost, .. } => *cost = usual,
            Self::Again { most, .. } | Self::Unqueue { most, .. } => *most = u8::MAX,
            _ => {}
        }
        self
    }

    fn of_one_key(mut self) -> Self {
        match &mut self {
            Self::Does { key, .. }
            | Self::Looks { key, .. }
            | Self::Again { key, .. }
            | Self::Unqueue { key, .. }
            | Self::Foreign { key, .. }
            | Self::Migrate { key, .. } => *key = 0,
            _ => {}
        }
        self
    }
}
