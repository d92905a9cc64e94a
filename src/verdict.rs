//! [`Verdict`] and [`Mark`]: how a decision went, for the arithmetic and for the answers alike.

/// How a decision went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Denied,
    Allowed,
}

/// Further information on a decision. It is not part of the verdict, which every caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// Admitted, but above the limit that a soft policy names.
    Over,
    /// Denied because the key was new and the table had no cell; the view is of an idle word at the
    /// instant at which the first cell can be had.
    TableFull,
    /// Denied because the word is penalised; the view is of an idle word at the end of the penalty.
    Penalty,
    /// Admitted by something else than the word of this view, which was charged nothing.
    Lent,
}
