"""Prints what tests ran of the core, file by file: `coverage.py FILE`, a summary of cargo-llvm-cov as JSON.

Counts code that is run, not whether a test would notice a mistake in it: mutation tests (`.ci/mutants`) look for that.
Fails if less is run than the floors below, which are what was measured when they were written, less one percentage point.
"""

import json
import os
import sys

LINES, BRANCHES = 95.8, 83.7  # percent


def percent(part):
    return 100.0 * part["covered"] / part["count"] if part["count"] else 100.0


def complaint(total):
    for kind, floor in (("lines", LINES), ("branches", BRANCHES)):
        if total[kind] < floor:
            return f"{total[kind]:.2f} % of {kind} are less than {floor} %"
    return None


def main():
    data = json.load(open(sys.argv[1], encoding="utf-8"))["data"][0]
    rows = []
    for file in data["files"]:
        name = os.path.relpath(file["filename"])
        if not name.startswith("src/") or "tests" in name:
            continue
        name = name.removeprefix("src/")
        rows.append((percent(file["summary"]["branches"]), name, file["summary"]))
    if not rows:
        sys.exit("no file of the core was measured")
    for branches, name, summary in sorted(rows):
        print(f"{branches:6.1f} % of {summary['branches']['count']:4} branches, {percent(summary['lines']):6.1f} % of lines  {name}")
    total = {}
    for kind in ("lines", "branches"):
        both = {key: sum(summary[kind][key] for _, _, summary in rows) for key in ("count", "covered")}
        total[kind] = percent(both)
    print(f"{total['lines']:.1f} % of lines and {total['branches']:.1f} % of branches of {len(rows)} files of the core")
    # The control: tests that run two points less of either are noticed.
    for kind in total:
        if complaint({**total, kind: total[kind] - 2}) is None:
            sys.exit(f"a loss of two points of {kind} is not noticed: raise the floor")
    sys.exit(complaint(total))


main()
