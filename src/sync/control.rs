//! The settings that a model makes before it runs. Loom and shuttle run all threads of a model on one thread of the
//! system, so thread-local settings belong to one model.

use std::cell::Cell;

pub use super::faults::Fault;

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    static SPURIOUS: Cell<u32> = const { Cell::new(0) };
    static CELLS: Cell<usize> = const { Cell::new(if cfg!(loom) { 2 } else { usize::MAX }) };
    static UNIT: Cell<usize> = const { Cell::new(if cfg!(loom) { 1 } else { usize::MAX }) };
    static VACANCIES: Cell<usize> = const { Cell::new(if cfg!(loom) { usize::MAX } else { 0 }) };
    static ROUNDS: Cell<usize> = const { Cell::new(if cfg!(loom) { 3 } else { usize::MAX }) };
    static APART: Cell<Option<u64>> = const { Cell::new(None) };
    static MARKS: Cell<bool> = const { Cell::new(true) };
    static ROW_BITS: Cell<u32> = const { Cell::new(u32::MAX) };
    static ANSWERS: Cell<bool> = const { Cell::new(true) };
}

/// Plants a fault, or removes it.
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// The planted fault.
#[must_use]
pub fn fault() -> Option<Fault> {
    PLANTED.get()
}

pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Makes weak compare-and-swaps fail spuriously, as hardware may and loom never does. If bit n of the mask is set, the
/// n-th compare-and-swap after this call fails, counted from 0.
pub fn fail_spuriously(mask: u32) {
    SPURIOUS.set(mask);
}

pub(crate) fn fails_spuriously() -> bool {
    let mask = SPURIOUS.replace(SPURIOUS.get() >> 1);
    mask & 1 == 1
}

#[cfg(loom)]
loom::thread_local! {
    static NUMBER: Cell<u32> = Cell::new(0);
}

/// Sets the number of this thread of a model.
#[cfg(loom)]
pub fn number_thread(number: u32) {
    NUMBER.with(|own| own.set(number));
}

#[cfg(loom)]
pub(crate) fn thread_number() -> u32 {
    NUMBER.with(Cell::get)
}

#[cfg(shuttle)]
pub use super::switched::{run_in_turns, thread_number, writes};

/// Sets the number of cells that are used in each shard.
pub fn use_cells(cells: usize) {
    CELLS.set(cells);
}

/// Sets the number of shards in a unit: one or two.
pub fn use_unit(shards: usize) {
    UNIT.set(shards);
}

/// Sets the number of failed rounds after which an install gives up.
pub fn use_rounds(rounds: usize) {
    ROUNDS.set(rounds);
}

/// Sets how many cells must seem vacant so that an install takes one of them without reading every word.
pub fn use_vacancies(least: usize) {
    VACANCIES.set(least);
}

/// Sets whether the count of claims is kept outside of the headers, where loom does not see it.
///
/// The count orders no other memory, and its values only have to differ. If the count is in a header, loom has to
/// explore more values for every load of the header, all with the same floor. If it is outside, a model can explore
/// more threads.
pub fn count_apart(apart: bool) {
    APART.set(apart.then_some(0));
}

/// Sets whether a thread that opens a claim leaves a trace in the header when it reads its floor. A model whose threads
/// all stay within one epoch does not need this trace, and without it the model has fewer states.
pub fn mark_floors(mark: bool) {
    MARKS.set(mark);
}

/// Sets the number of slots in a row of a log, as a power of two.
pub fn use_row_bits(bits: u32) {
    ROW_BITS.set(bits);
}

/// Sets whether a decision that has charged a log reads the slots for its answers.
///
/// The setting changes no decision, but every slot that is read is another load to explore. Without these loads, a
/// model can explore more threads.
pub fn tell_answers(tell: bool) {
    ANSWERS.set(tell);
}

pub(crate) mod scale {
    pub(crate) fn tells_answers() -> bool {
        super::ANSWERS.get()
    }

    pub(crate) fn row_bits(most: u32) -> u32 {
        super::ROW_BITS.get().min(most)
    }

    pub(crate) fn count_apart() -> Option<u64> {
        let count = super::APART.get();
        super::APART.set(count.map(|count| count + 1));
        count
    }

    pub(crate) fn marks_floors() -> bool {
        super::MARKS.get()
    }

    pub(crate) fn cells(most: usize) -> usize {
        super::CELLS.get().min(most)
    }

    pub(crate) fn unit(most: usize) -> usize {
        super::UNIT.get().min(most)
    }

    pub(crate) fn rounds(most: usize) -> usize {
        super::ROUNDS.get().min(most)
    }

    pub(crate) fn vacancies(least: usize) -> usize {
        let set = super::VACANCIES.get();
        if set == 0 { least } else { set }
    }
}
