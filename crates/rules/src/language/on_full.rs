//! [`OnFull`]: the key `on_full`.

/// How a rule treats a client that has no cell because the table is full: `on_full` in a file.
///
/// ```
/// assert_eq!(tollgate_rules::OnFull::default(), tollgate_rules::OnFull::Spill);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// Decide by the table's spill. It never admits more than the limit, but may admit less, because clients share
    /// counts there ([`tollgate::WhenFull::Spill`]). The client is denied if the rule's limits can have no spill:
    /// windows that open with the first request (`fixed-window from-first`), a `sliding-log`, and limits that are
    /// soft, count denials or penalise (`mode: soft`, `count_rejected`, `penalty`).
    #[default]
    Spill,
    /// Deny the client until there is a cell for it.
    Deny,
    /// Admit the client. Its charges are recorded in the spill if there is room, and are taken over when it gets a
    /// cell.
    Allow,
}
