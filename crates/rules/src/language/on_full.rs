//! [`OnFull`]: the key `on_full`.

/// The way in which a rule treats a client that has no cell because the table is full: `on_full` in a file.
///
/// ```
/// assert_eq!(tollgate_rules::OnFull::default(), tollgate_rules::OnFull::Spill);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// Decide by the table's spill: never above the limit, but possibly below it, because clients share counts there
    /// ([`tollgate::WhenFull::Spill`]). Windows that open with the first request (`fixed-window from-first`) have no
    /// spill: under them the client is denied.
    #[default]
    Spill,
    /// Deny it until there is a cell.
    Deny,
    /// Admit it. Its charges are recorded in the spill if there is room, and are taken over when it gets a cell.
    Allow,
}
