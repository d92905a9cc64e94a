"""The sliding window of two counters: `src/algorithm/sliding_window.rs`, on a word of a limit without keys.

A word is `[window | previous | current]`, a triple of any numbers that fit: every word, also those that the code never
writes. W is the window's length in nanoseconds, and e the nanoseconds of it that have passed. Products have 128 bits in the
code; that none is larger is among the proofs. An assumption that multiplies two numbers of known sign follows from the
others; the solver finds no such products by itself.
"""

from dataclasses import dataclass
from typing import Any

from z3 import Int

from fixed_window import seen_from, time_of
from machine import (MAX, Facts, both, either, if_then, in_u64, maximum, minimum, no, plain_add, plain_sub, quotient,
                     saturating_add, saturating_sub, when)
from prover import Claim, prove
from ticks import LATEST_NS

EXACT, DOWN, STRICT = "exact", "down", "strict"


@dataclass
class Turned:
    ahead: Any
    previous: Any
    current: Any
    elapsed: Any


def turn(time, previous, current, moment, into_ns, fault=None):
    """`SlidingWindow::turn`."""
    held = seen_from(time, (previous, current), moment)
    # The word's own window, or the one before the moment's; else neither count matters.
    is_own, is_last = held.behind == 0, held.behind == 1
    if fault == "both counts are dropped when the window turns":
        is_last = held.behind == -1
    counted = when(is_own, previous, when(is_last, current, 0)), when(is_own, current, 0)
    elapsed = when(held.ahead > 0, 0, into_ns)
    if fault == "a late request has its own window's time":
        elapsed = into_ns
    return Turned(held.ahead, *counted, elapsed)


def allowance(rounding, window, spare, fault=None):
    """`SlidingWindow::allowance`, and whether it has at most 128 bits."""
    if rounding == DOWN or fault == "the share is rounded down":
        largest = (spare + 1) * window - 1
    else:
        largest = spare * window
    return largest, largest < 2**128


def covered_ns(rounding, window, elapsed):
    return window if rounding == STRICT else window - elapsed


def step(rounding, window, limit, turned, cost, fault=None):
    """`SlidingWindow::step`, behind the test that the cost is at most the limit: whether it admits, the current count
    behind it, and whether nothing wrapped."""
    is_possible = cost <= limit
    room, room_exact = plain_sub(limit, cost)
    spare = room - turned.current
    has_spare = turned.current <= room  # `checked_sub`
    share = turned.previous * covered_ns(rounding, window, turned.elapsed)
    largest, product_exact = allowance(rounding, window, spare, fault)
    fits = share <= largest
    if fault == "the previous window is forgotten":
        fits = has_spare
    admitted = both(is_possible, has_spare, fits)
    grown, sum_exact = plain_add(turned.current, 0 if fault == "the cost is forgotten" else cost)
    exact = both(if_then(is_possible, room_exact), if_then(both(is_possible, has_spare), both(share < 2**128, product_exact)),
                 if_then(admitted, sum_exact))
    return admitted, grown, exact


def check(rounding, window, limit, word, moment, into_ns, cost, fault=None):
    """`Meter::check` of a plain policy: whether it admits, the fields behind it, and whether nothing wrapped."""
    time, previous, current = word
    turned = turn(time, previous, current, moment, into_ns, fault)
    admitted, grown, exact = step(rounding, window, limit, turned, cost, fault)
    held = seen_from(time, 0, moment)
    held.ahead, held.behind = turned.ahead, 0
    written, time_exact = time_of(held, moment)
    charges = both(admitted, cost != 0)
    after = tuple(when(charges, *pair) for pair in ((written, time), (turned.previous, previous), (grown, current)))
    if fault == "a denial turns the window":
        after = written, turned.previous, when(charges, grown, turned.current)
    return admitted, after, both(exact, if_then(charges, time_exact))


def used(rounding, window, turned, facts):
    """`SlidingWindow::used`."""
    share = turned.previous * covered_ns(rounding, window, turned.elapsed)
    weighed = quotient(share if rounding == DOWN else share + window - 1, window, facts)
    return saturating_add(minimum(weighed, MAX), turned.current)


def wait_in_window(rounding, window, previous, spare, facts):
    """`SlidingWindow::wait_in_window`: whether it is `Some`, and the nanoseconds."""
    fits = either(previous == 0, previous <= spare)
    if rounding == STRICT:
        return fits, 0
    covered = minimum(quotient(allowance(rounding, window, spare)[0], maximum(previous, 1), facts), window)
    return fits == fits, when(fits, 0, window - covered)


def ready(rounding, window, limit, turned, cost, facts):
    """`SlidingWindow::ready_ns`: how many windows behind the one in force, and the nanoseconds into that."""
    spare = limit - cost
    has_here, here = wait_in_window(rounding, window, turned.previous, spare - turned.current, facts)
    has_next, there = wait_in_window(rounding, window, turned.current, spare, facts)
    is_here = both(turned.current <= spare, has_here)
    return (when(is_here, 0, when(has_next, 1, 2)), when(is_here, here, when(has_next, there, 0)))


# What is proved.

names = ("window", "previous", "current", "moment", "W", "e", "limit", "cost", "count_end", "window_end")
time, previous, current, moment, W, e, limit, cost, count_end, time_end = numbers = [Int(name) for name in names]
SHOWN = dict(zip(names[:8], numbers))
PROMISED = in_u64(time, previous, current, moment, W, e, limit, cost) + [
    W >= 1, e < W, limit >= 1, limit < count_end, previous < count_end, current < count_end, count_end <= MAX + 1,
    time < time_end, moment < time_end, moment <= LATEST_NS, time_end <= MAX + 1,
]
word = time, previous, current
in_force = maximum(time, moment)


def signs(turned):
    """Products of numbers of 64 bits with what is left of W: of known sign, and below 2^128."""
    weights = [W - turned.elapsed, W]
    spare = limit - cost - turned.current
    return [fact for weight in weights for fact in (
        turned.previous * weight >= 0, (MAX - turned.previous) * weight >= 0,
        if_then(spare >= 0, spare * weight >= 0), if_then(spare < 0, (spare + 1) * weight <= 0),
        if_then(spare <= MAX, (MAX - spare) * weight >= 0), if_then(turned.previous > 0, (turned.previous - 1) * weight >= 0),
        if_then(spare >= 1, (spare - 1) * weight >= 0),
    )]


def asked(rounding, fault=None):
    turned = turn(*word, moment, e, fault)
    admitted, after, exact = check(rounding, W, limit, word, moment, e, cost, fault)
    return turned, admitted, after, exact, PROMISED + signs(turned)


def nothing_wraps(rounding):
    def claim(fault):
        _, _, after, exact, assumed = asked(rounding, fault)
        if fault:
            assumed = [it for it in assumed if str(it) != str(limit < count_end)]
        return Claim(assumed, [exact, after[0] < time_end, after[1] < count_end, after[2] < count_end], SHOWN)
    return claim


def as_defined(rounding):
    def claim(fault):
        _, admitted, _, _, assumed = asked(rounding, fault)
        # The definition's own reading of the word.
        before, here = when(time >= moment, previous, when(time == moment - 1, current, 0)), when(time >= moment, current, 0)
        left, spare = W - when(time > moment, 0, e), limit - cost - here
        facts = Facts()
        assumed += [if_then(spare < 0, (spare + 1) * W <= 0), before * left >= 0]
        if rounding == EXACT:
            fits = before * left + (here + cost) * W <= limit * W
        else:
            share = before if rounding == STRICT else quotient(before * left, W, facts)
            fits = share + here + cost <= limit
            assumed += facts + [if_then(share <= spare, (spare - share) * W >= 0),
                                if_then(share > spare, (share - spare - 1) * W >= 0)]
        return Claim(assumed, [admitted == fits], SHOWN)
    return claim


def charges_exactly(rounding):
    def claim(fault):
        turned, admitted, after, _, assumed = asked(rounding, fault)
        follows = [after[0] == in_force, after[1] == turned.previous, after[2] == turned.current + cost, after[2] <= limit]
        return Claim(assumed + [admitted, cost != 0], follows, SHOWN)
    return claim


def denial_writes_nothing(rounding):
    def claim(fault):
        _, admitted, after, _, assumed = asked(rounding, fault)
        follows = [now == was for now, was in zip(after, word)]
        return Claim(assumed + [either(no(admitted), cost == 0)], follows, SHOWN)
    return claim


def bounded(rounding):
    """Any time of length W, by induction over the decisions.

    Let `before` and `sum` be what was admitted in the windows v - 1 and v. Neither is above the limit, and as long as the
    word is of one of these windows, its counts are no less. A time of length W that ends with an admission in window v
    holds nothing from before v - 1, so no more than both sums then.
    """
    def claim(fault):
        v, before, total = Int("v"), Int("before"), Int("sum")
        turned, admitted, after, _, assumed = asked(rounding, fault)
        is_here = both(admitted, in_force == v)
        grown = total + when(is_here, cost, 0)
        grown_before = before + when(both(admitted, in_force == v - 1), cost, 0)

        def holds(word, before, total):
            time, previous, current = word
            return both(
                before >= 0, before <= limit, total >= 0, total <= limit,
                if_then(time < v - 1, both(before == 0, total == 0)),
                if_then(time == v - 1, both(before <= current, total == 0)),
                if_then(time == v, both(before <= previous, total <= current)),
            )

        most = {EXACT: 2 * limit - 1, DOWN: 2 * limit, STRICT: limit}[rounding]
        assumed = assumed + [v >= 1, v <= MAX, cost != 0, holds(word, before, total)]
        within = if_then(is_here, grown_before + grown <= most)
        shown = {**SHOWN, "v": v, "before": before, "sum": total}
        return Claim(assumed, [holds(after, grown_before, grown), within], shown)
    return claim


def remaining_is_exact(rounding):
    def claim(fault):
        turned, admitted, _, _, assumed = asked(rounding)
        told_by = {"rounded down": DOWN, "rounded up": EXACT, "weighed by the time": EXACT}.get(fault, rounding)
        spare, facts = limit - cost - turned.current, Facts()
        told = saturating_sub(limit, used(told_by, W, turned, facts))
        weighed, = facts.quotients
        assumed += facts + [if_then(weighed <= spare, (spare - weighed) * W >= 0),
                            if_then(weighed > spare, (weighed - spare - 1) * W >= 0),
                            if_then(weighed > MAX, (weighed - MAX - 1) * W >= 0)]
        return Claim(assumed + [cost != 0], [admitted == (cost <= told)], SHOWN)
    return claim


def wait_is_least(rounding):
    """The word of a denial stays. So at a later instant, e nanoseconds into the window that is `windows` behind the one in
    force, the cost fits if and only if `ready` is no later. `divisor.py` and `ticks.py` are not needed: window and e are
    whole numbers of the clock."""
    def claim(fault):
        facts, windows = Facts(), Int("windows")
        turned = turn(*word, moment, e)
        denied = no(step(rounding, W, limit, turned, cost)[0])
        ready_windows, ready_into = ready(rounding, W, limit, turned, cost, facts)
        if fault == "a nanosecond too short":
            ready_into = ready_into - 1
        if fault == "always the next window":
            ready_windows, ready_into = 1, 0
        into = Int("into")
        later = Turned(0, when(windows == 0, turned.previous, when(windows == 1, turned.current, 0)),
                       when(windows == 0, turned.current, 0), into)
        fits = step(rounding, W, limit, later, cost)[0]
        # The instant is not before the denied one, and a late request's is in force from the window's beginning on.
        assumed = PROMISED + facts + [cost <= limit, denied, windows >= 0, into >= 0, into < W,
                                      if_then(windows == 0, into >= turned.elapsed)]
        for spare, counted in ((limit - cost - turned.current, turned.previous), (limit - cost, turned.current)):
            assumed += [counted * (W - into) >= 0, if_then(spare >= 0, spare * W >= 0), if_then(spare >= 0, spare * into >= 0),
                        if_then(both(spare >= 0, counted <= spare), (spare - counted) * (W - into) >= 0),
                        if_then(counted > spare, (counted - spare - 1) * W >= 0)]
            for whole in facts.quotients:
                divisor = maximum(counted, 1)
                assumed += [if_then(W - into <= whole, (whole - (W - into)) * divisor >= 0),
                            if_then(W - into > whole, (W - into - whole - 1) * divisor >= 0)]
        is_ready = either(windows > ready_windows, both(windows == ready_windows, into >= ready_into))
        return Claim(assumed, [fits == is_ready], {**SHOWN, "windows": windows, "into": into})
    return claim


def main():
    every = "all words, moments, windows, limits, costs"
    kept = []
    for rounding in (EXACT, DOWN, STRICT):
        subject = f"sliding {rounding}"
        kept += [
            prove(subject, "nothing wraps, and each number fits in its field", every, nothing_wraps(rounding),
                  ["the limit is as wide as it likes"]),
            prove(subject, "the decision is the definition's", every, as_defined(rounding),
                  ["the previous window is forgotten"] + ["a late request has its own window's time"] * (rounding != STRICT)
                  + ["the share is rounded down"] * (rounding == EXACT)),
            prove(subject, "an admission adds its cost, up to the limit", every, charges_exactly(rounding),
                  ["the cost is forgotten"]),
            prove(subject, "a denial and a question leave the word", every, denial_writes_nothing(rounding),
                  ["a denial turns the window"]),
            prove(subject, {EXACT: "any W admits at most 2 limits less a unit", DOWN: "any W admits at most 2 limits",
                            STRICT: "any W admits at most the limit"}[rounding], every + "; induction", bounded(rounding),
                  ["the cost is forgotten", "both counts are dropped when the window turns"]
                  + ["the share is rounded down"] * (rounding == EXACT)
                  + ["the previous window is forgotten"] * (rounding == STRICT)),
            prove(subject, "remaining is the largest cost that fits", every, remaining_is_exact(rounding),
                  [{EXACT: "rounded down", DOWN: "rounded up", STRICT: "weighed by the time"}[rounding]]),
            prove(subject, "a denial's wait is enough, and the least", every + ", later instants", wait_is_least(rounding),
                  ["a nanosecond too short", "always the next window"] if rounding != STRICT else ["always the next window"]),
        ]
    return all(kept)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
