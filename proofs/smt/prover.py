"""Proves claims with z3, and plants the faults that each proof must catch.

A claim is a function of a fault, `None` for the code as it is. It returns a `Claim`: what is assumed, what follows, and
the numbers to print. A proof asks the solver for numbers that fulfil the assumptions and break the conclusion; there must
be none. A control asks the same of a model with a fault; there must be some, and they are printed.
"""

import sys
import time
from dataclasses import dataclass, field

from z3 import And, Not, Solver, sat, unknown, unsat

# A query that takes longer than this has failed. The slowest takes a tenth of it on an idle core.
LIMIT_MS = 60_000


@dataclass
class Claim:
    assumed: list
    follows: list
    shown: dict = field(default_factory=dict)


def solve(claim):
    solver = Solver()
    solver.set("timeout", LIMIT_MS)
    solver.add(*claim.assumed)
    solver.add(Not(And(*claim.follows)))
    return solver.check(), solver


def is_empty(claim):
    """True if nothing fulfils the assumptions, so that anything follows from them."""
    solver = Solver()
    solver.set("timeout", LIMIT_MS)
    solver.add(*claim.assumed)
    return solver.check() == unsat


def numbers(solver, claim):
    model = solver.model()
    told = (f"{name}={model.eval(value, model_completion=True)}" for name, value in claim.shown.items())
    return " ".join(told)


def row(columns):
    print(" | ".join(columns), flush=True)


def prove(subject, name, bound, claim, faults=()):
    """Proves a claim, and catches each fault. Prints a row of the table, and the numbers of each control behind it.
    Returns whether all of that succeeded."""
    begun = time.monotonic()
    found, solver = solve(claim(None))
    if is_empty(claim(None)):
        found = "empty"
    result = "proved" if found == unsat else "REFUTED" if found == sat else "UNKNOWN" if found == unknown else "EMPTY"
    details = [f"  counterexample: {numbers(solver, claim(None))}"] if found == sat else []
    caught = []
    for fault in faults:
        planted = claim(fault)
        found_fault, solver = solve(planted)
        caught.append(found_fault == sat)
        told = numbers(solver, planted) if caught[-1] else f"NOT CAUGHT ({found_fault})"
        details.append(f"  control, {fault}: {told}")
    controls = f"{sum(caught)} of {len(caught)}"
    row(["z3", subject, name, bound, result, controls])
    print("\n".join(details), flush=True)
    print(f"{subject}: {name}: {time.monotonic() - begun:.1f} s", file=sys.stderr)
    return result == "proved" and all(caught)
