//! Tests of [`survey`](super).

use super::*;
use crate::keyed::memory::layout::Layout;
use crate::keyed::quotas::book::own::QuotaId;
use crate::keyed::table::Table;
use crate::verb::Verb;

/// The offer of a shard in which `held` cells are not vacant, and the keys of `taken` cells are not idle.
fn offer(shard: usize, held: usize, taken: usize) -> Offer {
    let seen = |cell| Some(Seen { shard, cell, word: TableWord::VACANT });
    let vacant = if held < CELLS { seen(held) } else { None };
    let idle = if taken < held { seen(0) } else { None };
    Offer { shard, vacant, idle, held, taken, ..Offer::NONE }
}

/// The shard that is chosen, and whether it offers a vacant cell.
fn chosen(offers: &[Offer]) -> Option<(usize, bool)> {
    choose(offers).map(|choice| match choice {
        Choice::Claim(seen) => (seen.shard, offers[seen.shard].vacant.is_some()),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_new_key_goes_to_its_home_unit_unless_that_is_nearly_full_and_the_other_emptier() {
    // Each row begins with the number of cells that are not vacant in the home, in its sibling, and in both shards of
    // the second unit.
    for (held, shard) in [
        ([0, 0, 0, 0], 0),
        ([6, 0, 0, 0], 0),
        ([7, 4, 0, 0], 1),
        ([7, 5, 0, 0], 2),
        ([7, 5, 3, 2], 3),
        ([6, 6, 6, 6], 0),
        ([7, 6, 6, 6], 2),
        ([7, 6, 7, 6], 1),
        ([7, 7, 7, 6], 3),
    ] {
        let offers = [0, 1, 2, 3].map(|nth| offer(nth, held[nth], held[nth]));
        assert_eq!(chosen(&offers), Some((shard, true)), "{held:?}");
    }
    // Both units of this key are the same, so it has two shards.
    assert_eq!(chosen(&[offer(0, 7, 7), offer(1, 6, 6)]), Some((1, true)));
}

#[test]
fn an_idle_key_keeps_its_cell_while_another_is_vacant() {
    let offers = [offer(0, 7, 0), offer(1, 7, 0), offer(2, 7, 0), offer(3, 6, 6)];
    assert_eq!(chosen(&offers), Some((3, true)));
    let offers = [offer(0, 7, 7), offer(1, 7, 5), offer(2, 7, 6), offer(3, 7, 0)];
    assert_eq!(chosen(&offers), Some((3, false)));
    let offers = [offer(0, 7, 7), offer(1, 7, 4), offer(2, 7, 0), offer(3, 7, 0)];
    assert_eq!(chosen(&offers), Some((1, false)));
}

#[test]
fn full_units_send_away_and_wait_for_a_floor_if_that_frees_a_cell() {
    let full = [0, 1, 2, 3].map(|shard| offer(shard, 7, 7));
    assert!(choose(&full).is_none());
    let soon = Offer { idle_soon: true, ..full[2] };
    let choice = choose(&[full[0], full[1], soon, full[3]]);
    assert!(matches!(choice, Some(Choice::Advance(2))));
    let behind = Offer { behind: true, ..offer(1, 6, 6) };
    assert!(matches!(choose(&[full[0], behind]), Some(Choice::Follow(1))));
}

/// A request for one unit at the start of this granule.
fn ask_at(granule: u64) -> Ask {
    Ask {
        now_ns: granule << GRANULE_BITS,
        cost: 1,
        charge: true,
        verb: Verb::Check,
        quota: QuotaId::tier(0),
    }
}

fn offer_of(table: &Table, ask: &Ask) -> Offer {
    let mut reading = Reading::NONE;
    assert!(read_all(table.shard(0), 0, &mut reading), "no other thread changes it");
    let Ok(words) = table.words() else { panic!("a table of logs") };
    survey(&words, &reading, Tag::from_bits(1), ask, false).expect("no word of the tag")
}

#[test]
fn a_shard_whose_floor_is_an_epoch_behind_has_to_advance_first() {
    let policy = "gcra 1/s burst 1".parse().expect("a policy");
    let layout = Layout::plan(&policy).expect("a layout");
    let (table, epoch) = (Table::new(layout, 1, 10).expect("a table"), layout.division.epoch);
    for (granule, behind) in [(0, false), (9, false), (10 + epoch, false), (11 + epoch, true)] {
        let ask = ask_at(granule);
        let offer = offer_of(&table, &ask);
        assert_eq!(offer.behind, behind, "at granule {granule}");
        let follows = matches!(offer.vacant(), Some(Choice::Follow(0)));
        assert_eq!(follows, behind, "at granule {granule}");
    }
}

#[test]
fn claims_count_as_taken() {
    let policy = "gcra 1/s burst 1".parse().expect("a policy");
    let layout = Layout::plan(&policy).expect("a layout");
    let table = Table::new(layout, 1, 10).expect("a table");
    let ask = ask_at(11);
    for cell in 0..3 {
        let offer = offer_of(&table, &ask);
        assert_eq!(offer.taken, cell);
        assert!(table.shard(0).replace(
            cell,
            TableWord::VACANT,
            layout.division.claim(Tag::from_bits(7 << layout.division.state_bits), 1)
        ));
    }
}

#[test]
fn an_unfinished_install_of_the_key_is_taken_up_the_lowest_first() {
    let claim = |shard, cell| Some(Seen { shard, cell, word: TableWord::from_bits(1) });
    let chosen = |offers: &[Offer]| match choose(offers) {
        Some(Choice::Claim(seen)) => seen.position(),
        other => panic!("{other:?}"),
    };
    let home = Offer { own_claim: claim(3, 5), ..offer(3, 1, 1) };
    let second = Offer { own_claim: claim(2, 6), ..offer(2, 1, 1) };
    assert_eq!(chosen(&[home, second]), (2, 6));
    assert_eq!(chosen(&[home, offer(2, 0, 0)]), (3, 5));
}
