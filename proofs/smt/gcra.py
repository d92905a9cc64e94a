"""GCRA: `src/algorithm/gcra.rs`, on a word of a limit without keys (`src/word.rs`, `Fields::TIME_ALONE`).

A word is a time in ticks, the TAT. The variables have 64 bits and any value, the word also those that the code never
writes. A quota promises two things: the burst is below 2^63 ticks, and no moment lies above 2^63 ticks, which `ticks.py`
proves of every quota.

A cost of n units is n * 2^k ticks. The proofs hold for every number of ticks up to 2^128, so also for those products.
"""

from dataclasses import dataclass
from typing import Any

from machine import (MAX, both, either, if_then, in_u64, maximum, no, plain_add, plain_sub, saturating_add,
                     saturating_sub, u64, when, wrapping_add, wrapping_sub)
from prover import Claim, prove

# In ticks.
MOST_BURST = 2**63 - 1
MOST_MOMENT = 2**63


@dataclass
class Held:
    ahead: Any
    behind: Any


@dataclass
class Step:
    admitted: Any
    held: Held
    # True if no plain operation has wrapped.
    exact: Any


def unpack(word, moment):
    """`Fields::unpack`, where the counts have no bits."""
    return Held(saturating_sub(word, moment), saturating_sub(moment, word))


def pack(held, moment):
    """`Fields::pack`: the word, and whether it is the exact sum although the operations wrap."""
    word = wrapping_sub(wrapping_add(moment, held.ahead), held.behind)
    return word, word == moment + held.ahead - held.behind


def room_for(burst, cost_ticks, fault=None):
    """`Gcra::room_for`: whether it is `Some`, the cost in ticks, the room, and whether that is exact."""
    # `checked_mul`
    fits, ticks = cost_ticks <= MAX, cost_ticks
    if fault == "the cost wraps in place of being checked":
        fits, ticks = cost_ticks == cost_ticks, cost_ticks % (MAX + 1)
    # `checked_sub`
    room, exact = plain_sub(burst, ticks)
    is_some = both(fits, exact)
    if fault == "a cost above the burst is let through":
        is_some = fits
    return is_some, ticks, room, exact


def step(burst, held, late, cost_ticks, fault=None):
    """`Gcra::step`."""
    is_some, ticks, room, room_exact = room_for(burst, cost_ticks, fault)
    used = saturating_add(held.ahead, late)
    if fault == "the lateness is added without saturation":
        used = wrapping_add(held.ahead, late)
    denied = used > room
    if fault == ">= in place of >":
        denied = used >= room
    if fault == "one tick too much is admitted":
        denied = used > room + 1
    admitted = both(is_some, no(denied))
    charged = ticks
    if fault == "the cost is forgotten":
        charged = 0
    if fault == "the cost is charged less a tick":
        charged = ticks - 1
    ahead, sum_exact = plain_add(held.ahead, charged)
    if fault == "the debt is forgotten":
        ahead = charged
    return Step(admitted, Held(ahead, 0), both(if_then(is_some, room_exact), if_then(admitted, sum_exact)))


def check(burst, word, moment, cost_ticks, fault=None):
    """`Meter::check` of a plain policy: whether it admits, the word behind it, and whether nothing wrapped."""
    stepped = step(burst, unpack(word, moment), 0, cost_ticks, fault)
    written, pack_exact = pack(stepped.held, moment)
    charges = both(stepped.admitted, cost_ticks != 0)
    kept = word
    if fault == "a denial brings the word to now":
        kept = maximum(word, moment)
    return stepped.admitted, when(charges, written, kept), both(stepped.exact, if_then(charges, pack_exact))


def remaining_ticks(burst, held, late):
    """The ticks that are left, of which `Gcra::remaining` tells the whole units."""
    return saturating_sub(burst, saturating_add(held.ahead, late))


def remaining(burst, unit_bits, held, late):
    """`Gcra::remaining`, for numbers."""
    return remaining_ticks(burst, held, late) >> unit_bits


def ready_tick(burst, word, moment, cost_ticks):
    """The tick whose first nanosecond `Gcra::ready_ns` tells. The cost is at most the burst."""
    ahead = unpack(word, moment).ahead
    # A word whose distance fills 64 bits may lie anywhere behind it.
    is_cut = ahead == MAX
    return when(is_cut, 2**128 - 1, maximum(moment + ahead - (burst - cost_ticks), 0))


# What is proved.

word, moment, late, later = (u64(name) for name in ("word", "moment", "late", "later"))
burst, cost = u64("burst_ticks"), u64("cost_ticks")
PROMISED = in_u64(word, moment, late, later) + [
    burst >= 1, burst <= MOST_BURST, moment <= MOST_MOMENT, cost >= 0, cost < 2**128
]
SHOWN = {"word": word, "moment": moment, "cost_ticks": cost, "burst_ticks": burst}
latest = maximum(word, moment)


def nothing_wraps(fault):
    return Claim(PROMISED, [check(burst, word, moment, cost, fault)[2]], SHOWN)


def as_defined(fault):
    """max(TAT, now) + cost - now + late <= burst, in numbers without an end."""
    stepped = step(burst, unpack(word, moment), late, cost, fault)
    defined = latest + cost - moment + late <= burst
    return Claim(PROMISED, [stepped.admitted == defined], {**SHOWN, "late": late})


def charges_exactly(fault):
    admitted, after, _ = check(burst, word, moment, cost, fault)
    follows = [after == latest + cost, after <= moment + burst, after >= word]
    return Claim(PROMISED + [admitted, cost != 0], follows, {**SHOWN, "after": after})


def denial_writes_nothing(fault):
    admitted, after, _ = check(burst, word, moment, cost, fault)
    return Claim(PROMISED + [either(no(admitted), cost == 0)], [after == word], {**SHOWN, "after": after})


def bounded(fault):
    """The bound of every interval, by induction over the decisions.

    Let `sum` be the ticks that were admitted at moments of `start` or later. The invariant is: the sum is 0, or the TAT
    is at least `start + sum`. It holds at first, since the sum is 0. No decision breaks it, in whatever order the moments
    come. An admission at a moment up to `end` then leaves a sum of at most `burst + (end - start)`.
    """
    admitted, after, _ = check(burst, word, moment, cost, fault)
    start, end, total = u64("start"), u64("end"), u64("sum")
    counts = both(admitted, moment >= start)
    grown = total + when(counts, cost, 0)

    def holds(tat, total):
        return either(total == 0, tat >= start + total)

    within = if_then(both(counts, moment <= end), grown <= burst + end - start)
    assumed = PROMISED + in_u64(start, end) + [total >= 0, holds(word, total), start <= end]
    return Claim(assumed, [holds(after, grown), within], {**SHOWN, "start": start, "end": end, "sum": total})


def remaining_is_exact(fault):
    """In ticks. `whole_units` takes it to units."""
    held = unpack(word, moment)
    admitted = step(burst, held, late, cost).admitted
    left = remaining_ticks(burst, held, 0 if fault == "the lateness is left out" else late)
    return Claim(PROMISED + [cost != 0], [admitted == (cost <= left)], {**SHOWN, "late": late})


def whole_units(fault):
    """A cost is at most the whole units in `left` ticks if and only if it is, in ticks, at most `left`."""
    units, size, whole, rest = (u64(name) for name in ("units", "ticks_of_a_unit", "whole", "rest"))
    left = whole * size + rest  # so `whole` is the quotient
    assumed = [units >= 0, size >= 1, whole >= 0, rest >= 0, rest < size]
    # A product of a difference and a size: of the two signs that the difference may have.
    assumed += [if_then(units <= whole, (whole - units) * size >= 0),
                if_then(units > whole, (units - whole - 1) * size >= 0)]
    told = whole + when(rest > 0, 1, 0) if fault == "rounded up" else whole
    return Claim(assumed, [(units <= told) == (units * size <= left)],
                 {"units": units, "ticks_of_a_unit": size, "left": left})


def wait_is_least(fault):
    """The word of a denial stays. So the cost fits from the tick of `ready_tick` on, and not before. `ticks.py` proves
    that `first_ns` is the first nanosecond of a tick. One case is told too long: the word 2^64 - 1 at moment 0."""
    ready = ready_tick(burst, word, moment, cost)
    if fault == "a tick too short":
        ready = ready - 1
    if fault == "until the whole burst is there":
        ready = ready + (burst - cost)
    denied = no(step(burst, unpack(word, moment), 0, cost).admitted)
    fits = step(burst, unpack(word, later), 0, cost).admitted
    is_cut = both(word == MAX, moment == 0)
    # No moment that a clock can have lies above the promised one.
    assumed = PROMISED + [cost <= burst, denied, later >= moment, later <= MOST_MOMENT]
    is_enough, is_least = if_then(later >= ready, fits), if_then(fits, either(later >= ready, is_cut))
    return Claim(assumed, [is_enough, is_least], {**SHOWN, "later": later})


def main():
    every = "all words, moments, costs, bursts"
    return all([
        prove("gcra", "nothing wraps, not even for words never written", every, nothing_wraps,
              ["a cost above the burst is let through"]),
        prove("gcra", "the decision is the definition's", every + ", lateness", as_defined,
              ["the cost wraps in place of being checked", "the lateness is added without saturation",
               ">= in place of >", "one tick too much is admitted"]),
        prove("gcra", "an admission adds its cost; at most the burst is owed", every, charges_exactly,
              ["the cost is forgotten", "the cost is charged less a tick", "the debt is forgotten",
               "one tick too much is admitted"]),
        prove("gcra", "a denial and a question leave the word", every, denial_writes_nothing,
              ["a denial brings the word to now"]),
        prove("gcra", "any interval admits at most burst + what drains", every + ", intervals", bounded,
              ["the cost is forgotten", "the cost is charged less a tick", "the debt is forgotten",
               "one tick too much is admitted"]),
        prove("gcra", "remaining, in ticks, is the most that fits", every + ", lateness", remaining_is_exact,
              ["the lateness is left out"]),
        prove("gcra", "remaining, in units, is the largest cost that fits", "all numbers", whole_units, ["rounded up"]),
        prove("gcra", "a denial's wait is enough, and the least", every + ", later moments", wait_is_least,
              ["a tick too short", "until the whole burst is there"]),
    ])


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
