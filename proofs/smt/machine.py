"""The operations of Rust's unsigned integers, for whole numbers of Python and of z3 alike.

A variable of the machine is a whole number with the bounds of its type, and each operation does what the machine does:
it saturates, it is `None`, or it wraps. So the models run on numbers, which gives the test vectors for the code, and on
z3's unknowns, which gives the proofs. A plain operation also says whether its result is the exact one. If it is not, a
debug build panics there, and a release build goes on with a wrong number; the proofs show that this never happens.
"""

import z3

MAX = 2**64 - 1


def when(condition, then, otherwise):
    if isinstance(condition, bool):
        return then if condition else otherwise
    return z3.If(condition, then, otherwise)


def both(*conditions):
    if all(isinstance(it, bool) for it in conditions):
        return all(conditions)
    return z3.And(*conditions)


def either(*conditions):
    if all(isinstance(it, bool) for it in conditions):
        return any(conditions)
    return z3.Or(*conditions)


def no(condition):
    return not condition if isinstance(condition, bool) else z3.Not(condition)


def if_then(condition, then):
    return either(no(condition), then)


def maximum(a, b):
    return when(a > b, a, b)


def minimum(a, b):
    return when(a < b, a, b)


def saturating_add(a, b):
    return minimum(a + b, MAX)


def saturating_sub(a, b):
    return maximum(a - b, 0)


def wrapping_add(a, b):
    """The sum of two numbers of 64 bits as the machine has it."""
    return when(a + b > MAX, a + b - MAX - 1, a + b)


def wrapping_sub(a, b):
    return when(a < b, a - b + MAX + 1, a - b)


def plain_add(a, b, most=MAX):
    """`a + b`, and whether it is the exact sum."""
    return wrapping_add(a, b), a + b <= most


def plain_sub(a, b):
    return wrapping_sub(a, b), b <= a


def u64(name):
    return z3.Int(name)


def in_u64(*terms):
    return [bound for term in terms for bound in (term >= 0, term <= MAX)]


class Facts(list):
    """Facts about unknowns, and the quotients that they define."""

    def __init__(self):
        super().__init__()
        self.quotients = []


def quotient(a, b, facts):
    """`a / b` for a positive `b`. Of unknowns it is a new one, and the facts define it."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    whole, rest = z3.FreshInt("quotient"), z3.FreshInt("rest")
    facts += [a == whole * b + rest, rest >= 0, rest < b]
    facts.quotients.append(whole)
    return whole
