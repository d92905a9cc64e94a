//! Circles of imports: modules of which each uses each, if only by way of others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::imports::ImportMap;
use crate::modules::ModuleTree;
use crate::report::Offender;

/// Which imports make a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CircleRule {
    /// Imports of a module that does not hold the one that asks.
    Beside,
    /// Also what a module takes from one that holds it.
    WithParents,
}

/// An import of one file by another, with the line that says it.
type FileEdges<'a> = BTreeMap<(&'a str, &'a str), usize>;

/// The circles of all trees. A module counts with the file that it is in; a file that several targets hold is
/// counted once.
pub(crate) fn circles(maps: &[ImportMap<'_>], rule: CircleRule) -> Vec<Offender> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for imports in maps {
        let edges = edges(imports, rule);
        let graph: DiGraphMap<&str, ()> = edges.keys().copied().collect();
        let mut circles: Vec<BTreeSet<&str>> = tarjan_scc(&graph)
            .into_iter()
            .filter(|files| files.len() > 1)
            .map(BTreeSet::from_iter)
            .collect();
        circles.sort();
        for files in circles {
            if seen.insert(files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>()) {
                found.push(described(imports.tree, &files, &edges));
            }
        }
    }
    found
}

fn edges<'a>(imports: &ImportMap<'a>, rule: CircleRule) -> FileEdges<'a> {
    let tree = imports.tree;
    let mut edges = FileEdges::new();
    for import in &imports.imports {
        let (from, to) = (tree.modules[import.from].file, tree.modules[import.to].file);
        let of_parent = tree.holds(import.to, import.from);
        if from.path != to.path && (rule == CircleRule::WithParents || !of_parent) {
            edges.entry((&from.path, &to.path)).or_insert(import.line);
        }
    }
    edges
}

fn described(tree: &ModuleTree<'_>, files: &BTreeSet<&str>, edges: &FileEdges<'_>) -> Offender {
    let name = |file: &str| {
        let module = tree.modules.iter().find(|module| module.file.path == file);
        match module.map_or("", |module| &module.name) {
            "" => "the root".to_owned(),
            name => name.to_owned(),
        }
    };
    let names: Vec<String> = files.iter().map(|&file| name(file)).collect();
    let way = shortest_way(files, edges);
    let steps: Vec<String> = way
        .iter()
        .map(|&(from, to)| format!("{from}:{} uses {}", edges[&(from, to)], name(to)))
        .collect();
    let (from, to) = way[0];
    Offender {
        path: from.to_owned(),
        line: edges[&(from, to)],
        what: format!(
            "{} modules: {}; shortest: {}",
            names.len(),
            names.join(", "),
            steps.join(", ")
        ),
    }
}

/// The fewest imports that lead from one of the files back to it.
fn shortest_way<'a>(files: &BTreeSet<&'a str>, edges: &FileEdges<'a>) -> Vec<(&'a str, &'a str)> {
    let mut best: Vec<(&str, &str)> = Vec::new();
    for &start in files {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(at) = next.pop_front().filter(|_| !came_from.contains_key(start)) {
            for &(_, to) in edges.keys().filter(|(from, to)| *from == at && files.contains(to)) {
                came_from.entry(to).or_insert_with(|| {
                    next.push_back(to);
                    at
                });
            }
        }
        let mut way = Vec::new();
        let mut at = start;
        while let Some(&from) = came_from.get(at) {
            way.insert(0, (from, at));
            at = from;
            if at == start {
                break;
            }
        }
        if best.is_empty() || way.len() < best.len() {
            best = way;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::repository;

    /// The circles of a crate with these modules under its root.
    fn found(rule: CircleRule, root: &str, modules: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = modules.iter().map(|(name, _)| format!("src/{name}.rs")).collect();
        let mut files = vec![("src/lib.rs", root)];
        files.extend(paths.iter().map(String::as_str).zip(modules.iter().map(|(_, text)| *text)));
        let all = repository(&files);
        let trees = all.trees();
        let maps: Vec<ImportMap<'_>> = trees.iter().map(ImportMap::of).collect();
        let name = |circle: Offender| circle.what.split("; ").next().unwrap_or_default().to_owned();
        circles(&maps, rule).into_iter().map(name).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        let root = "mod a; mod b; mod c; mod d;";
        let a = ("a", "\nuse crate::b::B;");
        let b = ("b", "fn f() { super::c::g(); }");
        let d = ("d", "use crate::a::A;");
        let closed = [a, b, ("c", "fn g() { assert!(crate::a::h()); }"), d];
        let open = [a, b, ("c", "fn g() {}"), d];
        assert_eq!(found(CircleRule::Beside, root, &closed), ["3 modules: a, b, c"]);
        assert_eq!(found(CircleRule::Beside, root, &open), [""; 0]);
    }

    #[test]
    fn a_circle_is_told_with_the_lines_that_close_it() {
        let all = repository(&[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "\nuse crate::b::B;"),
            ("src/b.rs", "use crate::a::A;"),
        ]);
        let trees = all.trees();
        let circles = circles(&[ImportMap::of(&trees[0])], CircleRule::Beside);
        assert_eq!((circles[0].path.as_str(), circles[0].line), ("src/a.rs", 2));
        assert!(circles[0].what.ends_with("shortest: src/a.rs:2 uses b, src/b.rs:1 uses a"));
    }

    #[test]
    fn what_a_parent_hands_on_and_what_tests_use_is_no_import_of_theirs() {
        let modules = [
            ("a", "pub use b::B; pub(crate) mod b; #[cfg(test)] mod tests { use crate::c::C; }"),
            ("a/b", "pub struct B;"),
            ("c", "use crate::a::B;"),
        ];
        assert_eq!(found(CircleRule::WithParents, "mod a; mod c;", &modules), [""; 0]);
    }

    #[test]
    fn what_a_child_takes_from_its_parent_counts_only_with_parents() {
        let modules = [("a", "mod b; use b::B; pub struct A;"), ("a/b", "use super::A;")];
        assert_eq!(found(CircleRule::Beside, "mod a;", &modules), [""; 0]);
        assert_eq!(found(CircleRule::WithParents, "mod a;", &modules), ["2 modules: a, a::b"]);
        let starred = [("a", "mod b; use b::B; pub struct A;"), ("a/b", "use super::*;")];
        assert_eq!(found(CircleRule::WithParents, "mod a;", &starred), ["2 modules: a, a::b"]);
    }

    #[test]
    fn siblings_that_meet_by_way_of_their_parent_are_a_circle() {
        let root = "mod a; mod b; pub use a::A; use b::B;";
        let modules = [("a", "use super::B; pub struct A;"), ("b", "use crate::A; pub struct B;")];
        assert_eq!(found(CircleRule::Beside, root, &modules), ["2 modules: a, b"]);
        let open = [("a", "use super::B; pub struct A;"), ("b", "pub struct B;")];
        assert_eq!(found(CircleRule::Beside, root, &open), [""; 0]);
    }
}
