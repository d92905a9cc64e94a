"""The fixed window: `src/algorithm/fixed_window.rs`, on a word of a limit without keys (`src/word.rs`, `Fields`).

A word is `[window | count]`. Every number of 64 bits is such a pair, so the variables `window` and `count` are every word,
also those that the code never writes. `fields.py` proves that packing and unpacking are that pair. A policy promises that its limit
fits in the field of the count, and that the latest window of the clock fits in the field of the window. Behind the latest
instant the clock stands still, so no moment is above that instant.

`moment` is the number of the window that holds now: `divisor.py` proves its division.
"""

from dataclasses import dataclass
from typing import Any

from z3 import Int

from machine import (MAX, both, either, if_then, in_u64, maximum, no, plain_add, plain_sub, saturating_add, saturating_sub,
                     u64, when, wrapping_add, wrapping_sub)
from prover import Claim, prove
from ticks import LATEST_NS


@dataclass
class Held:
    ahead: Any
    behind: Any
    counts: Any


@dataclass
class Step:
    admitted: Any
    held: Held
    exact: Any


def seen_from(time, counts, moment):
    """`Fields::unpack`, of a word that is divided already."""
    return Held(saturating_sub(time, moment), saturating_sub(moment, time), counts)


def time_of(held, moment):
    """The time that `Fields::pack` writes, and whether it is the exact one."""
    time = wrapping_sub(wrapping_add(moment, held.ahead), held.behind)
    return time, time == moment + held.ahead - held.behind


def turn(held, fault=None):
    """`FixedWindow::turn`: the window in force."""
    is_over = held.behind > 0
    if fault == "a window that is over still counts":
        is_over = held.behind > 1
    return Held(when(is_over, 0, held.ahead), when(is_over, 0, held.behind), when(is_over, 0, held.counts))


def step(limit, held, cost, fault=None):
    """`FixedWindow::step`, behind the test of `by_counts.rs` that the cost is at most the limit."""
    is_possible = cost <= limit
    if fault == "a cost above the limit is let through":
        is_possible = cost == cost
    room, room_exact = plain_sub(limit, cost)
    window = turn(held, fault)
    fits = window.counts <= room
    if fault == "< in place of <=":
        fits = window.counts < room
    if fault == "one unit too much is admitted":
        fits = window.counts <= room + 1
    grown, sum_exact = plain_add(window.counts, 0 if fault == "the cost is forgotten" else cost)
    admitted = both(is_possible, fits)
    exact = both(if_then(is_possible, room_exact), if_then(admitted, sum_exact))
    return Step(admitted, Held(window.ahead, window.behind, grown), exact)


def check(limit, time, counts, moment, cost, fault=None):
    """`Meter::check` of a plain policy: whether it admits, window and count behind it, and whether nothing wrapped."""
    stepped = step(limit, seen_from(time, counts, moment), cost, fault)
    written, time_exact = time_of(stepped.held, moment)
    charges = both(stepped.admitted, cost != 0)
    kept = maximum(time, moment) if fault == "a denial turns the window" else time
    after = when(charges, written, kept), when(charges, stepped.held.counts, counts)
    return stepped.admitted, after, both(stepped.exact, if_then(charges, time_exact))


def remaining(limit, time, counts, moment):
    """`FixedWindow::remaining`."""
    return saturating_sub(limit, turn(seen_from(time, counts, moment)).counts)


def ready_window(limit, time, counts, moment, cost):
    """The window with whose first nanosecond `FixedWindow::ready_ns` answers a denial. The cost is at most the limit."""
    window = turn(seen_from(time, counts, moment))
    return saturating_add(moment, saturating_add(window.ahead, 1))


# What is proved.

time, counts, moment, later = (u64(name) for name in ("window", "count", "moment", "later"))
limit, cost = u64("limit"), u64("cost")
# The fields end at these numbers: 2^b, and 2^(64 - b).
count_end, time_end = Int("count_end"), Int("window_end")
PROMISED = in_u64(time, counts, moment, later, limit, cost) + [
    counts < count_end, time < time_end, moment < time_end, later < time_end, moment <= LATEST_NS, later <= LATEST_NS,
    limit < count_end, limit >= 1,
    count_end >= 1, time_end >= 1, count_end <= MAX + 1, time_end <= MAX + 1,
]
SHOWN = {"window": time, "count": counts, "moment": moment, "limit": limit, "cost": cost}
in_force = maximum(time, moment)
used = when(time >= moment, counts, 0)


def nothing_wraps(fault):
    _, after, exact = check(limit, time, counts, moment, cost, fault)
    return Claim(PROMISED, [exact, after[0] < time_end, after[1] < count_end], SHOWN)


def as_defined(fault):
    admitted, _, _ = check(limit, time, counts, moment, cost, fault)
    return Claim(PROMISED, [admitted == (used + cost <= limit)], SHOWN)


def charges_exactly(fault):
    admitted, after, _ = check(limit, time, counts, moment, cost, fault)
    follows = [after[0] == in_force, after[1] == used + cost, after[1] <= limit]
    return Claim(PROMISED + [admitted, cost != 0], follows, SHOWN)


def denial_writes_nothing(fault):
    admitted, after, _ = check(limit, time, counts, moment, cost, fault)
    return Claim(PROMISED + [either(no(admitted), cost == 0)], [after[0] == time, after[1] == counts], SHOWN)


def bounded(fault):
    """Let `sum` be what was admitted in window v, by induction: it is at most the limit, and as long as the word is of v
    the count is no less. Before v it is 0. The word's window never falls."""
    v, total = u64("v"), u64("sum")
    admitted, after, _ = check(limit, time, counts, moment, cost, fault)
    grown = total + when(both(admitted, in_force == v), cost, 0)

    def holds(time, counts, total):
        return both(total >= 0, total <= limit, if_then(total > 0, either(time > v, both(time == v, counts >= total))))

    assumed = PROMISED + in_u64(v) + [holds(time, counts, total)]
    return Claim(assumed, [holds(after[0], after[1], grown), after[0] >= time], {**SHOWN, "v": v, "sum": total})


def remaining_is_exact(fault):
    admitted, _, _ = check(limit, time, counts, moment, cost)
    told = remaining(limit, time, counts, moment) + (1 if fault else 0)
    return Claim(PROMISED + [cost != 0], [admitted == (cost <= told)], SHOWN)


def wait_is_least(fault):
    admitted, _, _ = check(limit, time, counts, moment, cost)
    fits, _, _ = check(limit, time, counts, later, cost)
    ready = ready_window(limit, time, counts, moment, cost)
    if fault == "the wait of a late request is for its own window's end":
        ready = moment + 1
    if fault == "a window too much":
        ready = ready + 1
    assumed = PROMISED + [no(admitted), cost <= limit, later >= moment]
    return Claim(assumed, [fits == (later >= ready)], {**SHOWN, "later": later})


def main():
    every = "all words, moments, limits, costs"
    return all([
        prove("fixed", "nothing wraps, and each number fits in its field", every, nothing_wraps,
              ["a cost above the limit is let through"]),
        prove("fixed", "the decision is the definition's", every, as_defined,
              ["a window that is over still counts", "< in place of <=", "one unit too much is admitted"]),
        prove("fixed", "an admission adds its cost, up to the limit", every, charges_exactly,
              ["the cost is forgotten", "one unit too much is admitted"]),
        prove("fixed", "a denial and a question leave the word", every, denial_writes_nothing,
              ["a denial turns the window"]),
        prove("fixed", "a window admits at most the limit", every + "; induction", bounded,
              ["the cost is forgotten", "one unit too much is admitted", "a cost above the limit is let through"]),
        prove("fixed", "remaining is the largest cost that fits", every, remaining_is_exact, ["a unit too many"]),
        prove("fixed", "a denial's wait is enough, and the least", every + ", later moments", wait_is_least,
              ["the wait of a late request is for its own window's end", "a window too much"]),
    ])


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
