//! The run of a world: its threads, and the verdict on their answers.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use shuttle::thread;
use tollgate::{Timestamp, control};
use tollgate_model::Draw;

use crate::hand::Hand;
use crate::kinds::Family;
use crate::state::{self, fail, words_of};
use crate::world::{BASE_NS, World};

/// Runs the world of the seed that the scheduler has drawn, and records its failure, if there was one.
pub(crate) fn run_world(tell: bool) {
    let seed = state::seed();
    state::begin();
    let fault = control::fault();
    let mut random = Draw::new(seed.rotate_left(32));
    let mask = random.next() & random.next() & random.next();
    control::fail_spuriously(u32::try_from(mask >> 32).expect("32 bits"));
    // The table has units of two shards, as in production, or of one shard. With units of one shard, fewer keys have
    // floors that differ.
    control::use_unit(random.of(&[1, 2]));
    let world = Arc::new(World::new(seed));
    // A log whose limit is lowered gives up soon, because reading the same marks again leads to no other case.
    control::use_rounds(if world.family == Family::LiveLog {
        random.index(3) + 1
    } else {
        usize::MAX
    });
    let mut own = Hand::new();
    let mut clock_ns = 0;
    for ask in &world.setup {
        // In a world with a clock, the setup sets the clock to the times of its requests, and leaves it at the base
        // time or later.
        clock_ns = clock_ns.max(ask.time_ns);
        own.ask_at(&world, ask);
    }
    if !world.is_of_callers() {
        world.clock.set(Timestamp::from_nanos(clock_ns.max(BASE_NS)));
    }
    control::run_in_turns(true);
    let threads: Vec<_> = (0..world.lists.len())
        .map(|nth| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let asked = panic::catch_unwind(AssertUnwindSafe(|| {
                    let mut hand = Hand::new();
                    for ask in &world.lists[nth] {
                        hand.ask(&world, ask);
                    }
                    hand.close(&world)
                }));
                asked.map_err(|payload| fail(words_of(&*payload)))
            })
        })
        .collect();
    let told: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().ok()?.ok()).collect();
    control::run_in_turns(false);
    if state::has_failed() {
        return;
    }
    control::plant(None); // only what the threads have left behind is checked
    let verbs: Vec<_> = told.iter().map(|told| told.verbs.clone()).collect();
    state::count_pairs(&verbs);
    let mut events = own.close(&world).events;
    let (mut changes, mut files) = (Vec::new(), Vec::new());
    for told in told {
        events.extend(told.events);
        changes.extend(told.changes);
        files.extend(told.files);
    }
    let verdict = world.verdict(events, &changes, &files, tell);
    control::plant(fault);
    if let Err(what) = verdict {
        fail(what);
    }
}
