#!/usr/bin/env python3
"""What no other tool looks at: `.ci/shape.py` prints each place that breaks one of these rules, and fails if there is one.

circles    No two modules of a crate use each other, directly or by others: they could be read and changed only together.
           A path counts for the module that it names. So a circle is not seen that runs through what a module hands on
           by `pub use`; nor is what a module takes from one that holds it.
orderings  A comment beside each ordering of an atomic says why it is enough.
readme     README.md is a page: 6,000 bytes at most.
tests      Where a manifest lists its test programs, each file of `tests` is one of them, or a module of one.

`.ci/shape.py --control` plants one place of each kind, and fails if it is not found.
"""

import re
import subprocess
import sys
from pathlib import Path

CRATES = [Path("src"), *sorted(Path("crates").glob("*/src"))]
REASONS = re.compile(r"relaxed|acquire|release|acqrel|seqcst|ordering|fence|as in", re.IGNORECASE)
ORDERING = re.compile(r"\bOrdering::(Relaxed|Acquire|Release|AcqRel|SeqCst)\b")


def without_tests(text):
    """The text with its unit tests blanked, which end a file."""
    return re.split(r"^#\[cfg\((?:all\()?test\b[^\n]*\n(?:#\[[^\n]*\n)*mod \w+ \{", text, maxsplit=1, flags=re.M)[0]


class Crate:
    """The modules of a crate, each with the paths that it uses and the names that these bring into it."""

    def __init__(self, files):
        self.text = {self.module(path): without_tests(text) for path, text in files.items()}
        self.uses = {module: self.paths(module, text) for module, text in self.text.items()}

    @staticmethod
    def module(path):
        parts = list(path.with_suffix("").parts)
        return tuple(parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts)

    def paths(self, module, text):
        """Every path of this crate that a module names, with the name that it has there, and how it is named: `use` for
        itself, `hand on` to others, or `inline`."""
        code = re.sub(r"//[^\n]*", "", text)
        found = []
        statement = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;\"]+);", re.MULTILINE)
        for public, use in statement.findall(code):
            how = "hand on" if public else "use"
            found += [(*each, how) for each in self.expanded(re.sub(r"\s+", " ", use))]
        code = statement.sub("", code)
        found += [(path.split("::"), None, "inline") for path in re.findall(r"\b(?:crate|super|self)(?:::\w+)+", code)]
        return [(self.absolute(module, path), name, how) for path, name, how in found]

    def expanded(self, use, prefix=()):
        use = use.strip()
        head, brace, rest = use.partition("{")
        if not brace:
            path, _, name = use.partition(" as ")
            parts = [*prefix, *(part.strip() for part in path.split("::"))]
            if parts[-1] == "self":
                parts.pop()
            return [(parts, name.strip() or parts[-1])] if path.strip() else []
        depth, start, found = 0, 0, []
        inner = rest[: rest.rindex("}")] + ","
        for at, char in enumerate(inner):
            depth += (char == "{") - (char == "}")
            if char == "," and depth == 0:
                found += self.expanded(inner[start:at], (*prefix, *(p for p in head.strip().split("::") if p)))
                start = at + 1
        return found

    def absolute(self, module, path):
        path = list(path)
        if path[0] == "crate":
            return tuple(path[1:])
        base = list(module)
        while path and path[0] in ("self", "super"):
            if path.pop(0) == "super":
                base = base[:-1]
        is_own = (*module, path[0]) in self.text if path else True
        return (*base, *path) if is_own or base != list(module) else None

    def asked(self, module, path, steps=16):
        """The module that a path leads to. Through one that holds this module, to where that has it from: else siblings
        could use each other through their parent. None if it is of that itself, or of another crate."""
        at = ()
        while path[len(at) : len(at) + 1] and (*at, path[len(at)]) in self.text:
            at = (*at, path[len(at)])
        if at != module[: len(at)]:
            return at
        for target, name, _ in self.uses[at] if steps and path[len(at) :] else ():
            if name is not None and name == path[len(at)] and target is not None:
                return self.asked(module, (*target, *path[len(at) + 1 :]), steps - 1)
        return None

    def circles(self):
        edges = {module: set() for module in self.text}
        for module, uses in self.uses.items():
            for path, _, how in uses:
                # What is handed on is used where it arrives.
                target = self.asked(module, path) if path is not None and how != "hand on" else None
                if target is not None:
                    edges[module].add(target)
        reach = {module: set(asked) for module, asked in edges.items()}
        for by in reach:
            for module in reach:
                if by in reach[module]:
                    reach[module] |= reach[by]
        return sorted({tuple(sorted(b for b in reach[a] if a in reach[b])) for a in edges if a in reach[a]})


def orderings(path, text):
    lines = without_tests(text).split("\n")
    for n, line in enumerate(lines):
        code = line.split("//")[0]
        # Beside: in the six lines above the statement, or in it.
        start = n
        while start > 0 and not re.search(r"[;{}]\s*(//.*)?$", lines[start - 1]) and n - start < 6:
            start -= 1
        comments = [one.split("//", 1)[1] for one in lines[max(start - 6, 0) : n + 1] if "//" in one and "///" not in one]
        named = ORDERING.search(code) and not code.lstrip().startswith("use ")
        if named and not any(REASONS.search(comment) for comment in comments):
            yield f"{path}:{n + 1}: an ordering without its reason: {line.strip()}"


def never_run(package, texts):
    """The test files of a package that no program of its manifest is made of."""
    programs = re.findall(r'^\[\[test\]\]\nname = "(\w+)"', texts[package / "Cargo.toml"], re.MULTILINE)
    modules = {path.stem: re.findall(r"^mod (\w+);", text, re.MULTILINE) for path, text in texts.items()}
    compiled = {*programs, *(module for program in programs for module in modules.get(program, ()))}
    for path in texts:
        name = path.parent.name if path.name == "mod.rs" else path.stem
        if path.suffix == ".rs" and name not in compiled:
            yield f"{path}: no program in {package / 'Cargo.toml'} has it as a module"


def complaints(files, readme_bytes, test_texts):
    for crate in CRATES:
        own = {path.relative_to(crate): text for path, text in files.items() if path.is_relative_to(crate)}
        for circle in Crate(own).circles():
            yield f"{crate}: a circle of " + ", ".join("::".join(module) or "the crate" for module in circle)
    for path, text in files.items():
        yield from orderings(path, text)
    if readme_bytes > 6000:
        yield f"README.md: {readme_bytes} bytes"
    for package, texts in test_texts.items():
        yield from never_run(package, texts)


def main():
    listed = subprocess.run(["git", "ls-files", "*.rs"], capture_output=True, text=True, check=True).stdout.split()
    paths = [path for path in map(Path, listed) if any(path.is_relative_to(crate) for crate in CRATES)]
    files = {path: path.read_text() for path in paths if "tests" not in path.with_suffix("").parts}
    readme_bytes = Path("README.md").stat().st_size
    test_texts = {}
    for manifest in [Path("Cargo.toml"), *Path("crates").glob("*/Cargo.toml")]:
        if "\nautotests = false" in manifest.read_text():
            package = manifest.parent
            test_texts[package] = {path: path.read_text() for path in [manifest, *package.glob("tests/*.rs"), *package.glob("tests/*/mod.rs")]}
    if "--control" in sys.argv:
        files[Path("src/one.rs")] = "use crate::other::B;\nfn f() { x.load(Ordering::Relaxed); }\n"
        files[Path("src/other.rs")] = "use super::one::A;\n"
        package = Path("crates/rules")
        test_texts[package][package / "tests/forgotten.rs"] = ""
        test_texts[package][package / "tests/forgotten_too/mod.rs"] = ""
        found = list(complaints(files, 6001, test_texts))
        assert len(found) == 5, found
        return
    found = list(complaints(files, readme_bytes, test_texts))
    print("\n".join(found) or f"{len(files)} files: no circle, a reason beside each ordering, a README of {readme_bytes} bytes")
    sys.exit(bool(found))


main()
