//! The verdict on a world whose time stands still.

use crate::history::{Event, Kind, LOST_CHARGE, REFUSED};
use crate::kinds::Verb;

/// Judges one key at one instant, at which nothing drains. Each refusal must have had a reason, and the units left must
/// be exactly what the calls imply. The limit is kept in `words` words, and `left` units are left now.
pub(crate) fn judge_instant(
    of_key: &[Event],
    burst: u64,
    words: u64,
    left: Option<u64>,
) -> Result<(), String> {
    let charges = || {
        let is_charge =
            |event: &&Event| !matches!(event.kind, Kind::Denied | Kind::Asked | Kind::Forgiven);
        of_key.iter().filter(is_charge)
    };
    for denied in of_key.iter().filter(|event| event.kind == Kind::Denied) {
        let began = charges().filter(|event| event.begin < denied.end);
        // While the limit is in debt, a lease gives back fewer units than it has left, and no call says how many.
        let is_gone = |event: &Event| event.back_end < denied.begin && event.verb != Verb::Lease;
        let held = began.map(|event| event.units - if is_gone(event) { event.back } else { 0 });
        let beside = of_key.iter().filter(|other| {
            other.kind == Kind::Denied
                && other.begin != denied.begin
                && other.begin < denied.end
                && denied.begin < other.end
        });
        let most = held.chain(beside.map(|event| event.units)).sum::<u64>();
        if most + words * denied.units <= burst {
            return Err(format!("{REFUSED}: {denied}, at most {most} of {burst} were charged"));
        }
    }
    let Some(left) = left else { return Ok(()) };
    if of_key.iter().any(|event| event.kind == Kind::Forgiven) {
        return Ok(());
    }
    let (sure, unsure): (Vec<&Event>, Vec<&Event>) =
        charges().partition(|event| event.kind != Kind::Unsure);
    let sure: u64 = sure.iter().map(|event| event.units - event.back).sum();
    let leases = charges().filter(|event| event.verb == Verb::Lease).map(|event| event.back);
    let unsure: u64 = unsure.iter().map(|event| event.units).chain(leases).sum();
    if left > burst.saturating_sub(sure) {
        return Err(format!("{LOST_CHARGE}: {left} of {burst} are left, {sure} were charged"));
    }
    if left < burst.saturating_sub(sure + unsure) {
        let most = sure + unsure;
        return Err(format!("{REFUSED}: {left} of {burst} are left, at most {most} were charged"));
    }
    Ok(())
}
