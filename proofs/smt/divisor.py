"""Division by a number that is known in advance: `src/divisor.rs`, for every number and divisor of 64 bits.

The steps of the proof are those of Granlund and Montgomery. L is 2^l, with L/2 < d <= L. A machine's product is a whole
number here, so no width is given up. An assumption that multiplies two numbers of known sign follows from the others.
"""

from z3 import Int

from machine import MAX, both, if_then
from prover import Claim, prove

N = 2**64


def multiplier(divisor):
    """`Divisor::new`, for numbers."""
    beyond = (1 << (divisor - 1).bit_length()) - divisor
    return beyond * N // divisor + 1


def divide(divisor, number):
    """`Divisor::divide`, for numbers: the quotient and the remainder, with every wrap of the machine."""
    log = (divisor - 1).bit_length()
    taken = multiplier(divisor) * number >> 64
    first, rest = (0, 0) if log == 0 else (1, log - 1)
    quotient = (taken + (((number - taken) % N) >> first)) % N >> rest
    return quotient, (number - quotient * divisor) % N


d, L, m, rho = (Int(name) for name in ("d", "L", "multiplier", "rho"))
n, q, r, X = (Int(name) for name in ("n", "quotient", "remainder", "X"))
DIVISOR = [d >= 1, d <= MAX, L <= 2 * d - 1, d <= L]


def multiplier_fits(fault):
    """m = floor(2^64 (L - d) / d) + 1 has 64 bits, and 0 < (2^64 + m) d - 2^64 L <= L."""
    one = 0 if fault else 1
    quotient = m - one
    assumed = DIVISOR + [rho >= 0, rho < d, quotient >= 0, quotient * d + rho == N * (L - d)]
    if fault:
        assumed += [d == 3, L == 4]
    # A larger quotient times d is larger.
    assumed.append(if_then(quotient >= N - 1, quotient * d >= (N - 1) * d))
    excess = (N + m) * d - N * L
    return Claim(assumed, [m <= MAX, excess > 0, excess <= L], {"d": d, "multiplier": m})


def quotient_is_exact(fault):
    """floor((2^64 + m) n / (2^64 L)) is the quotient of n = q d + r. X is the long product, and e the excess above."""
    e = Int("excess")
    assumed = DIVISOR + [n == q * d + r, q >= 0, r >= 0, r < d, n >= 0, n <= MAX, X >= 0, e > 0]
    # X d = (2^64 + m) d n = (2^64 L + e) n
    assumed.append(X * d == N * L * n + e * n)
    if fault:
        assumed += [d == 3, L == 4, e == 2 * L]
    else:
        assumed += [e <= L, e * n >= 0, e * (MAX - n) >= 0, n * L == q * d * L + r * L, L * (d - 1 - r) >= 0,
                    if_then(X < q * N * L, X * d <= (q * N * L - 1) * d),
                    if_then(X >= (q + 1) * N * L, X * d >= (q + 1) * N * L * d)]
    return Claim(assumed, [X >= q * N * L, X < (q + 1) * N * L], {"d": d, "n": n, "long_product": X, "quotient": q})


def taken_is_less(fault):
    """t = floor(m n / 2^64) is at most n, since m is below 2^64."""
    assumed = [n >= 0, n <= MAX, X >= 0, X * N <= m * n, m * n < (X + 1) * N]
    assumed += [m == 2 * N] if fault else [m >= 0, m <= N, (N - m) * n >= 0]
    return Claim(assumed, [X <= n], {"n": n, "multiplier": m, "taken": X})


def no_sum_wraps(fault):
    """t + floor((n - t) / 2) does not wrap, and its quotient by L / 2 is that of t + n by L. H is L / 2."""
    taken, half, bit, H, rest = (Int(name) for name in ("taken", "half", "bit", "H", "rest"))
    assumed = [n >= 0, n <= MAX, taken >= 0, taken <= n, n - taken == 2 * half + bit, bit >= 0, bit <= 1, H >= 1]
    total = taken + half
    if fault == "the difference is not halved first":
        return Claim(assumed, [taken + n <= MAX], {"n": n, "taken": taken})
    q_times_H = Int("q_times_H")
    assumed += [total == q_times_H + rest, rest >= 0, rest < H]
    exact = both(taken + n >= 2 * q_times_H, taken + n < 2 * q_times_H + 2 * H)
    return Claim(assumed, [total <= MAX, exact], {"n": n, "taken": taken})


def main():
    return all([
        prove("divisor", "the multiplier has 64 bits, and is just large enough", "all divisors", multiplier_fits,
              ["the one is not added"]),
        prove("divisor", "the quotient of the long product is exact", "all numbers, divisors", quotient_is_exact,
              ["the excess may be twice as large"]),
        prove("divisor", "the part that is taken is at most the number", "all numbers, divisors", taken_is_less,
              ["a multiplier of 65 bits"]),
        prove("divisor", "the sum does not wrap, and gives the same quotient", "all numbers, divisors", no_sum_wraps,
              ["the difference is not halved first"]),
    ])


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
