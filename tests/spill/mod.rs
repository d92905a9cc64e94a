//! Keys for which a table has no cell: they are decided in the spill, are never admitted above their bound, and keep
//! their whole debt when they get a cell.

mod crowd;
mod flood;
mod hand_over;
mod kept;
mod look;
mod newcomer;
mod tick;
mod tiers;
mod verbs;
