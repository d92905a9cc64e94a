//! [`Verdict`] and [`Mark`]: the result of a decision, which both the arithmetic and the answers use.

/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Denied,
    Allowed,
}

/// Further information about a decision. It is separate from the verdict, because every caller reads the verdict and
/// few read the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// Admitted, but above the limit that a soft policy names.
    Over,
    /// Denied because the key was new and the table had no cell for it. The view shows an idle word at the instant at
    /// which the first cell becomes free.
    TableFull,
    /// Denied because of a penalty. The view shows an idle word at the end of the penalty.
    Penalty,
    /// Admitted by another source. Nothing was charged to the word of this view.
    Lent,
}
