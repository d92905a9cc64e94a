"""Test vectors: what the models of the proofs answer, on numbers. `src/algorithm/proofs.rs` compares the code with them.

    vectors.py > FILE        writes the vectors
    vectors.py --check FILE  fails unless the file has exactly these

One vector a line, `=` between the question and the answer; a wait of `-` is none. Drawn by a fixed seed.
"""

import random
import sys

import divisor
import fixed_window
import gcra
import sliding_window
import ticks
from machine import MAX

DRAW = random.Random(20261128)
NEVER = "-"


def number(most=MAX):
    """Of any length, or beside a power of two."""
    if DRAW.random() < 0.4:
        return min(max((1 << DRAW.randrange(64)) + DRAW.randint(-2, 2), 0), most)
    return min(DRAW.randrange(1 << 64) >> DRAW.randrange(64), most)


def near(around, by):
    """A number that is near another: equal to it, beside it, or `by` away."""
    step = DRAW.choice([0, 0, 1, -1, 2, by, -by, by + 1, by - 1, by // 2])
    return min(max(around + step, 0), MAX)


def line(*columns):
    return " ".join(str(int(it)) if isinstance(it, (int, bool)) else it for it in columns)


def divisions():
    for divided_by in [1, 2, 3, 7, 10, 1_000_000_000, 60_000_000_000, 2**31, 2**63 - 1, 2**63, 2**63 + 1, MAX - 1, MAX]:
        for dividend in [0, 1, divided_by - 1, divided_by, MAX // divided_by * divided_by - 1, MAX // 2, MAX - 1, MAX]:
            dividend %= MAX + 1
            yield line("divide", divided_by, dividend, "=", divisor.multiplier(divided_by), *divisor.divide(divided_by, dividend))


def quotas():
    for count, period_ns, burst in [(100, 10**9, 20), (1, 86_400 * 10**9, 1), (7, 10**9, 7), (1, 1, 1), (2_000_000_000, 10**9, 2**40),
                                    (3, MAX, 5), (1, MAX, 2**63 - 1), (600_000_000, 60 * 10**9, 3)]:
        if ticks.unit_bits(count, period_ns, burst) is not None:
            yield count, period_ns, burst
    found = 0
    while found < 12:
        quota = number(10**12) or 1, number() or 1, number(2**62) or 1
        if ticks.unit_bits(*quota) is not None:
            found += 1
            yield quota


def of_gcra():
    for count, period_ns, burst in quotas():
        bits = ticks.unit_bits(count, period_ns, burst)
        factor, shift = ticks.scale(count, period_ns, bits)
        quota = (count, period_ns, burst)
        yield line("scale", *quota, "=", bits, factor, shift)
        burst_ticks = burst << bits
        for nth in range(11):
            at_ns = number(ticks.LATEST_NS)
            moment = ticks.ticks(at_ns, factor, shift)
            word = near(moment, burst_ticks) if DRAW.random() < 0.7 else number()
            room = max((moment + burst_ticks - max(word, moment)) >> bits, 0)
            cost = near(room, burst) if DRAW.random() < 0.7 else number()
            if nth == 0:
                # The one word whose distance is cut.
                word, at_ns, moment, cost = MAX, 0, 0, 1
            cost_ticks = cost << bits
            admitted, after, exact = gcra.check(burst_ticks, word, moment, cost_ticks)
            assert exact
            left = gcra.remaining(burst_ticks, bits, gcra.unpack(after, moment), 0)
            wait = NEVER
            if not admitted and cost <= burst:
                ready = ticks.first_ns(gcra.ready_tick(burst_ticks, word, moment, cost_ticks), factor, shift)
                wait = max(ready - at_ns, 0)
            yield line("gcra", *quota, word, at_ns, cost, "=", admitted, after, left, wait)
        for _ in range(4):
            held = gcra.Held(near(burst_ticks, burst_ticks), 0) if DRAW.random() < 0.5 else gcra.Held(number(), 0)
            late, cost = number(), number(burst)
            stepped = gcra.step(burst_ticks, held, late, cost << bits)
            left = gcra.remaining(burst_ticks, bits, held, late)
            yield line("late", *quota, held.ahead, late, cost, "=", stepped.admitted, stepped.held.ahead if stepped.admitted else 0, left)


def windows(limits_of_a_word):
    """A policy of a window, and how its word is divided: limit, W, and the bits of a count, which leave room for the window
    at the latest instant."""
    for limit, window_ns in [(100, 60 * 10**9), (1, 1), (1, ticks.LATEST_NS), (2**31 - 1, 10**9), (65_535, 10**9), (7, MAX)]:
        bits = limit.bit_length()
        if limits_of_a_word * bits + (ticks.LATEST_NS // window_ns).bit_length() <= 64:
            yield limit, window_ns, bits
    found = 0
    while found < 12:
        limit, window_ns = number(2**40) or 1, number() or 1
        bits = limit.bit_length()
        if limits_of_a_word * bits < 64 and limits_of_a_word * bits + (ticks.LATEST_NS // window_ns).bit_length() <= 64:
            found += 1
            yield limit, window_ns, bits


def window_word(moment, limit, bits, counts):
    time_end = 1 << (64 - counts * bits)
    time = min(near(moment, 1), time_end - 1) if DRAW.random() < 0.8 else number(time_end - 1)
    most = (1 << bits) - 1
    return time, [min(DRAW.choice([near(limit, limit), number(limit), number(limit), number(most)]), most) for _ in range(counts)]


def start_ns(at_ns, window_ns, ahead):
    """`window_start_ns`."""
    return min(min(at_ns // window_ns + ahead, MAX) * window_ns, MAX)


def of_fixed_windows():
    for limit, window_ns, bits in windows(1):
        for _ in range(10):
            at_ns = number(ticks.LATEST_NS)
            moment = divisor.divide(window_ns, at_ns)[0]
            time, (count,) = window_word(moment, limit, bits, 1)
            cost = near(max(limit - count, 0), limit) if DRAW.random() < 0.7 else number()
            admitted, (after, grown), exact = fixed_window.check(limit, time, count, moment, cost)
            assert exact
            left = fixed_window.remaining(limit, after, grown, moment)
            wait = NEVER
            if not admitted and cost <= limit:
                ready = fixed_window.ready_window(limit, time, count, moment, cost)
                wait = max(start_ns(at_ns, window_ns, ready - moment) - at_ns, 0)
            yield line("fixed", limit, window_ns, bits, time << bits | count, at_ns, cost, "=", admitted, after << bits | grown, left, wait)


def of_sliding_windows():
    for limit, window_ns, bits in windows(2):
        for rounding in (sliding_window.EXACT, sliding_window.DOWN, sliding_window.STRICT):
            for _ in range(6):
                at_ns = number(ticks.LATEST_NS)
                moment, into_ns = divisor.divide(window_ns, at_ns)
                time, counts = window_word(moment, limit, bits, 2)
                cost = near(max(limit - counts[1], 0), limit) if DRAW.random() < 0.7 else number()
                word = (time, *counts)
                admitted, after, exact = sliding_window.check(rounding, window_ns, limit, word, moment, into_ns, cost)
                assert exact
                behind = sliding_window.turn(*after, moment, into_ns)
                left = max(limit - sliding_window.used(rounding, window_ns, behind, None), 0)
                wait = NEVER
                if not admitted and cost <= limit:
                    turned = sliding_window.turn(*word, moment, into_ns)
                    ahead, into = sliding_window.ready(rounding, window_ns, limit, turned, cost, None)
                    ready = min(start_ns(at_ns, window_ns, min(turned.ahead + ahead, MAX)) + into, MAX)
                    wait = max(max(ready, at_ns) - at_ns, 0)
                packed = [it[0] << 2 * bits | it[1] << bits | it[2] for it in (word, after)]
                yield line("sliding", rounding, limit, window_ns, bits, packed[0], at_ns, cost, "=", admitted, packed[1], left, wait)


def main():
    made = "".join(f"{it}\n" for kind in (divisions, of_gcra, of_fixed_windows, of_sliding_windows) for it in kind())
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.write(made)
        return 0
    with open(sys.argv[2], encoding="utf-8") as file:
        same = file.read() == made
    print(f"vectors: {made.count(chr(10))} lines, " + ("as in the file" if same else "NOT as in the file: write it anew"))
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
