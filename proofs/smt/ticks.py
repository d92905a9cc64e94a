"""Ticks: `src/ticks.rs`. `ticks(ns) = floor(ns * factor / 2^shift)`, of numbers of 64 bits, so the product has 128.

A line of an assumption that multiplies an inequality by a positive number only helps the solver, which finds no such
products by itself: it follows from the lines before it.
"""

from z3 import UGE, ULT, And, BitVec, Extract, If, Int, LShR

from machine import MAX, both, if_then
from prover import Claim, prove

LATEST_NS = 4_102_444_800_000_000_000


def unit_bits(count, period_ns, burst):
    """`Quota::unit_bits`, for numbers."""
    if count * LATEST_NS // period_ns >= 2**63 or burst >= 2**63:
        return None
    bits = 0
    while bits < 62 and (count << bits + 1) * LATEST_NS // period_ns < 2**63 and burst << bits + 1 < 2**63:
        bits += 1
    return bits


def scale(count, period_ns, bits):
    """`TickScale::new`, for numbers: the factor and the shift."""
    quotient, remainder = divmod(count << bits, period_ns)
    shift = 0
    while quotient < 2**63 and shift < 127:
        remainder *= 2
        quotient, remainder = 2 * quotient + (remainder >= period_ns), remainder - period_ns * (remainder >= period_ns)
        shift += 1
    quotient += remainder != 0
    return (quotient >> 1, shift - 1) if quotient == 2**64 else (quotient, shift)


def ticks(at_ns, factor, shift):
    return at_ns * factor >> shift


def first_ns(tick, factor, shift):
    """`TickScale::first_ns`, for numbers."""
    if 128 - tick.bit_length() < shift:
        return MAX
    return min(-(-(tick << shift) // factor), MAX)


# What is proved. The long division first, over whole numbers.

quotient, remainder, period, total, power = (Int(name) for name in ("quotient", "remainder", "period", "total", "power"))
# So far the quotient is that of total * power by the period. `power` is 2^shift.
IS_QUOTIENT = [quotient >= 0, period >= 1, remainder >= 0, remainder < period, power >= 1,
               quotient * period + remainder == total * power]
DIVIDED = {"quotient": quotient, "remainder": remainder, "period": period, "ticks_per_period": total}


def digit(fault):
    """A turn of the loop of `TickScale::new` keeps that."""
    doubled = 2 * remainder
    is_one = doubled >= period
    if fault == "a digit is lost when the remainder is the period":
        is_one = doubled > period
    later = If(is_one, doubled - period, doubled)
    digits = 2 * quotient + If(is_one, 1, 0)
    kept = both(digits * period + later == total * (2 * power), later >= 0, later < period)
    return Claim(IS_QUOTIENT, [kept], DIVIDED)


def rounded_up(fault):
    """Behind the loop the factor is the quotient rounded up."""
    factor = quotient + If(remainder != 0, 1, 0)
    if fault == "the factor is rounded down":
        factor = quotient
    up = both(factor * period >= total * power, factor * period < total * power + period)
    return Claim(IS_QUOTIENT, [up], DIVIDED)


def moments_fit(fault):
    """No moment lies above 2^63. F is the product of the latest instant and the factor, and P that of F and the period."""
    factor, F, P = Int("factor"), Int("F"), Int("P")
    most = 2**63
    assumed = [period >= 1, power >= 1, total >= 1, factor >= 2**63, F == LATEST_NS * factor, P == F * period]
    if fault == "the rate may be twice as high":
        most = 2**64
        assumed += [period == 10**9, power == 2**61]  # so that the solver need not guess at products
    assumed += [total * LATEST_NS < most * period,  # as `unit_bits` ensures
                factor * period >= total * power, factor * period < total * power + period]
    large = (2**63 + 1) * power
    if fault is None:
        assumed += [
            # The last line, times the latest instant; and the one of `unit_bits`, times the power.
            P < LATEST_NS * (total * power) + LATEST_NS * period,
            (total * LATEST_NS) * power < most * period * power,
            # A larger number times the period is larger.
            if_then(F >= large, P >= large * period),
            if_then(power + 1 <= LATEST_NS, (power + 1) * period <= LATEST_NS * period),
            if_then(F >= most * power + LATEST_NS, P >= (most * power + LATEST_NS) * period),
        ]
    return Claim(assumed, [F < large], {"factor": factor, "power": power, "ticks_per_period": total, "period": period})


# Readings. D stands for 2^shift, and a product of 128 bits is a whole number: no more is needed of either.

D = Int("D")


def one_tick(fault):
    """Between two instants pass no more ticks than in the time between them, and one; and time never runs back."""
    names = ("ticks_before", "rest_before", "ticks_between", "rest_between", "ticks_after", "rest_after")
    before, rest, between, rest_between, after, rest_after = numbers = [Int(name) for name in names]
    assumed = [D >= 1, *(number >= 0 for number in numbers)]
    assumed += [it < D for it in (rest, rest_between, rest_after)]
    # (a + b) * factor = a * factor + b * factor
    assumed.append(after * D + rest_after == before * D + rest + between * D + rest_between)
    more = Int("more")
    assumed += [more == after - before - between,
                if_then(more >= 2, more * D >= 2 * D), if_then(more <= -1, more * D <= -D),
                more * D == after * D - before * D - between * D]
    if fault:
        assumed.append(D == 4)
    most = 0 if fault else 1
    return Claim(assumed, [more >= 0, more <= most], {"D": D, **dict(zip(names, numbers))})


def first_is_first(fault):
    """`first_ns`: `ns = (tick * D).div_ceil(factor)`. By the definition of division there is a rest below the factor with
    ns * factor = tick * D - rest, and + factor if there is a rest. An instant has reached the tick if and only if its
    product with the factor is at least tick * D."""
    dividend, factor, rest = Int("tick_times_D"), Int("factor"), Int("rest")
    up = 0 if fault else If(rest == 0, 0, factor)
    product = dividend - rest + up
    assumed = [dividend >= 0, factor >= 1, rest >= 0, rest < factor, rest <= dividend]
    reached, not_before = product >= dividend, product - factor < dividend
    return Claim(assumed, [reached, not_before], {"tick_times_D": dividend, "factor": factor, "rest": rest})


def far_is_far(fault):
    """Where tick * D has more than 128 bits, no instant of 64 bits reaches the tick, whatever the factor."""
    ns, factor, dividend = Int("ns"), Int("factor"), Int("tick_times_D")
    most = 2**127 if fault else 2**128
    assumed = [ns >= 0, ns <= MAX, factor >= 1, factor <= MAX, dividend >= most]
    assumed.append(factor == MAX if fault else (MAX - ns) * factor >= 0)
    return Claim(assumed, [ns * factor < dividend], {"ns": ns, "factor": factor, "tick_times_D": dividend})


# Shifts of machine words, over bit vectors.

P, shift, tick = BitVec("product", 128), BitVec("shift", 128), BitVec("tick", 128)
SHIFTS = [ULT(shift, 128)]


def low_bits(fault):
    """`ticks_low` for shifts below 64: the low 64 bits of the product, shifted by words."""
    by = Extract(63, 0, shift)
    high, low = Extract(127, 64, P), Extract(63, 0, P)
    if fault == "one shift by 64 - shift":
        # In Rust such a shift is by the low six bits of its number.
        moved = high << ((64 - by) & 63)
    else:
        moved = (high << 1) << (by ^ 63)
    exact = Extract(63, 0, LShR(P, shift))
    return Claim([ULT(shift, 64)], [moved | LShR(low, by) == exact], {"product": P, "shift": shift})


def high_bits(fault):
    """`ticks_low` for shifts of 64 and more."""
    by = Extract(63, 0, shift)
    told = LShR(Extract(127, 64, P), by if fault else by & 63)
    return Claim(SHIFTS + [UGE(shift, 64)], [told == Extract(63, 0, LShR(P, shift))], {"product": P, "shift": shift})


def loses_bits(fault):
    """`first_ns` asks for the leading zeros of the tick to know if tick << shift fits in 128 bits."""
    is_lost = LShR(tick << shift, shift) != tick
    # Fewer leading zeros than the shift: some bit of the topmost `shift` ones is set.
    below = shift - 1 if fault else shift
    told = And(below != 0, LShR(tick, 128 - below) != 0)
    return Claim(SHIFTS, [is_lost == told], {"tick": tick, "shift": shift})


def main():
    every = "all 128-bit products, all shifts"
    return all([
        prove("ticks", "the factor's long division keeps its quotient", "all numbers; induction", digit,
              ["a digit is lost when the remainder is the period"]),
        prove("ticks", "the factor is the exact rate, rounded up", "all numbers", rounded_up, ["the factor is rounded down"]),
        prove("ticks", "no moment lies above 2^63 ticks", "all quotas that are accepted", moments_fit,
              ["the rate may be twice as high"]),
        prove("ticks", "a reading is rounded by less than a tick, and never back", "all numbers", one_tick,
              ["no tick of rounding"]),
        prove("ticks", "first_ns is the first nanosecond of a tick", "all numbers", first_is_first, ["rounded down"]),
        prove("ticks", "a tick of more bits lies beyond every clock", "all instants, factors", far_is_far,
              ["cut at 127 bits"]),
        prove("ticks", "first_ns knows when bits would be lost", "all 128-bit ticks, shifts", loses_bits,
              ["a bit too many"]),
        prove("ticks", "ticks_low shifts right, below 64", every, low_bits, ["one shift by 64 - shift"]),
        prove("ticks", "ticks_low shifts right, from 64 on", every, high_bits, ["the shift is not cut to 6 bits"]),
    ])


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
