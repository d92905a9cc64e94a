"""Looks whether every link of the built documentation leads somewhere: `doc_links.py target/doc`, after `cargo doc`, or
`doc_links.py target/book`, after `mdbook build`.

rustdoc's own lints see links to items, and no relative link that a page of Markdown brings along. The `href` of each link and
the `src` of each picture is resolved here as a browser would resolve it: to a file of the documentation, and in it to the
place behind `#`. Links to files of this repository and to pages of its crates are looked up in the repository. Other sites
are not asked.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent

# Relative links in comments of other crates, which rustdoc shows with the traits that they implement for every type; and
# a page above all crates, which there is where they are published.
OF_OTHERS = {"dispatcher#setting-the-default-subscriber", "futures_core::future::TryFuture", "Context", "./index.html"}

# rustdoc does not encode the # in the name of this generated file.
UNENCODED = "envoy.r#type.v3.rs.html#"


class Page(HTMLParser):
    """The links of a page, and the places that can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places, self.moved_to = [], {""}, None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if attributes.get("id"):
            self.places.add(attributes["id"])
        link = attributes.get("src" if tag == "img" else "href")
        if link is not None:
            self.links.append(link)
        if tag == "meta" and attributes.get("http-equiv") == "refresh":
            self.moved_to = attributes["content"].partition("URL=")[2]


def repository():
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    return re.search(r'^repository = "(.+)"$', manifest, re.MULTILINE).group(1)


def is_crate(name):
    return name == "tollgate" or (ROOT / "crates" / re.sub("^tollgate[-_]", "", name) / "src/lib.rs").is_file()


def places_of_markdown(path):
    """The anchors of the headings, in lower case, with dashes for spaces."""
    names = {""}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            kept = (c for c in line.lstrip("#").strip().lower() if c.isalnum() or c in " -_")
            names.add("".join(kept).replace(" ", "-"))
    return names


def fault_of(link, page, docs, pages, files):
    """Why a link leads nowhere, or None."""
    link_parts = urlsplit(link)
    place = link_parts.fragment
    if link.startswith(files):
        target = ROOT / unquote(urlsplit(link[len(files):]).path)
        if not target.exists():
            return "is no file of the repository"
        found = target.suffix != ".md" or unquote(place) in places_of_markdown(target)
        return None if found else "has no such heading"
    own = re.match(r"https://docs\.rs/(tollgate[a-z-]*)(?:$|/latest/|/$)", link)
    if own and not is_crate(own[1]):
        return "is no crate of this workspace"
    if own and (docs / own[1].replace("-", "_")).is_dir():
        # A page on docs.rs has the place that it has here.
        page, link_parts = docs / "of_docs_rs.html", urlsplit(link[own.end():] or own[1].replace("-", "_"))
    elif link_parts.scheme or link_parts.netloc:
        return None
    # An item of a crate that was being documented at the same time: rustdoc has looked it up, but has not known its page.
    # Where crates are published it is told where the pages of others are.
    item = re.fullmatch(r"(tollgate\w*)(::\w+)+", link)
    if item:
        return None if is_crate(item[1]) else "is no crate of this workspace"
    target = (page.parent / unquote(link_parts.path)).resolve() if link_parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "is not there"
    while target in pages and pages[target].moved_to:
        target = (target.parent / unquote(pages[target].moved_to)).resolve()
    # The lines of a source file have places that a script makes, as in #12-20.
    is_lines = docs / "src" in target.parents and re.fullmatch(r"[0-9]+(-[0-9]+)?", place)
    # rustdoc's own places are percent-encoded; those of headings are not.
    found = target not in pages or is_lines or {place, unquote(place)} & pages[target].places
    return None if found else "has no such place"


def main():
    docs = Path(sys.argv[1]).resolve()
    files = repository() + "/blob/main/"
    pages = {path: Page(path) for path in sorted(docs.rglob("*.html"))}
    faults, links = [], 0
    for path, page in pages.items():
        links += len(page.links)
        for link in dict.fromkeys(page.links):
            if link in OF_OTHERS or UNENCODED in link:
                continue
            fault = fault_of(link, path, docs, pages, files)
            if fault:
                faults.append(f"{path.relative_to(docs)}: {link} {fault}")
    for fault in faults:
        print(fault)
    print(f"{links} links of {len(pages)} pages, {len(faults)} of them dead")
    return 1 if faults or not links else 0


if __name__ == "__main__":
    sys.exit(main())
