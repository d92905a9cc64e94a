//! [`Turns`] decides which thread of a world runs next. The choice is drawn from the world's seed.
//!
//! A schedule that switches threads at every step finds other mistakes than a schedule that lets one thread run for
//! long. For most mistakes in a lock-free protocol, one thread must pause between two of its steps while other threads
//! take many. So each world draws how readily its threads give way, and two worlds in three also draw one thread that
//! is held up.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use tollgate_model::Draw;

use crate::state;

/// The probability, out of 256, that a thread goes on instead of giving way. Each world draws one of these.
const STAYS: [u64; 4] = [0, 128, 224, 248];

/// A thread that is held up: its number, the number of steps that it makes first, and the number of steps of other
/// threads until it goes on.
#[derive(Clone, Copy)]
struct Hold {
    task: usize,
    steps: u64,
    length: u64,
}

pub(crate) struct Turns {
    random: Draw,
    stay: u64,
    hold: Option<Hold>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self { random: Draw::new(0), stay: 0, hold: None }
    }

    /// The thread that is held up now, if any. First its own steps are counted down, then those of the other threads.
    fn is_held(&mut self, current: usize) -> Option<usize> {
        let hold = self.hold.as_mut()?;
        if hold.steps > 0 {
            hold.steps -= u64::from(hold.task == current);
            return None;
        }
        hold.length = hold.length.checked_sub(1)?;
        Some(hold.task)
    }
}

impl Scheduler for Turns {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = state::next_seed()?;
        let mut random = Draw::new(!seed);
        self.stay = STAYS[random.index(STAYS.len())];
        self.hold = (random.below(3) > 0).then(|| Hold {
            task: 1 + random.index(3),
            steps: 1 + random.below(120),
            length: 1 << random.below(14),
        });
        self.random = random;
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, tasks: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        if let [only] = tasks {
            return Some(only.id());
        }
        state::count_point();
        let current = current.map_or(0, usize::from);
        let held = self.is_held(current);
        let ready = |task: &&&Task| Some(usize::from(task.id())) != held;
        let stays = self.random.below(256) < self.stay;
        let own = tasks.iter().filter(ready).find(|task| usize::from(task.id()) == current);
        if let (true, Some(own)) = (stays, own) {
            return Some(own.id());
        }
        let count = tasks.iter().filter(ready).count();
        tasks.iter().filter(ready).nth(self.random.index(count)).map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}
