//! Which module names which: by `use`, and by a path within an expression, a type or a macro.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::modules::ModuleTree;
use crate::source::{attributes_of, only_for_tests};

/// One import: the module that asks, the module that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// As an editor counts: from 1.
    pub(crate) line: usize,
}

/// A path as it is written.
struct NamedPath {
    path: Vec<String>,
    line: usize,
}

/// What a path leads to: a module, and the names that are left within it.
struct ReachedModule {
    module: usize,
    rest: Vec<String>,
}

/// The names that the modules of a tree bind by `use`, and the paths that they name.
pub(crate) struct ImportMap<'a> {
    pub(crate) tree: &'a ModuleTree<'a>,
    /// Every import of one module by another, outside of tests.
    pub(crate) imports: Vec<Import>,
    bound: Vec<BTreeMap<String, Vec<String>>>,
}

impl<'a> ImportMap<'a> {
    pub(crate) fn of(tree: &'a ModuleTree<'a>) -> Self {
        let (named, bound): (Vec<_>, Vec<_>) = tree
            .modules
            .iter()
            .map(|module| {
                let mut found = PathFinder::default();
                module.items.iter().for_each(|item| found.visit_item(item));
                (found.named, found.bound)
            })
            .unzip();
        let mut map = Self { tree, imports: Vec::new(), bound };
        map.imports = map.between(&named);
        map
    }

    fn between(&self, named: &[Vec<NamedPath>]) -> Vec<Import> {
        let is_test = |module: usize| self.tree.modules[module].is_test;
        let mut imports = Vec::new();
        for (from, named) in named.iter().enumerate().filter(|(from, _)| !is_test(*from)) {
            for NamedPath { path, line } in named {
                let Some(reached) = self.reach(from, path) else { continue };
                let to = self.behind_ancestors(from, reached);
                if to != from && !is_test(to) {
                    imports.push(Import { from, to, line: *line });
                }
            }
        }
        imports
    }

    /// The module that defines what `path` names, as far as `use` tells.
    pub(crate) fn definition(&self, from: usize, path: &[String]) -> Option<(usize, String)> {
        let mut reached = match self.reach(from, path) {
            Some(reached) => reached,
            None => self.reach(from, self.bound[from].get(path.first()?)?)?,
        };
        // Each step follows one `use`; a circle of them does not compile.
        for _ in 0..16 {
            let name = reached.rest.first()?.clone();
            match self.bound[reached.module].get(&name) {
                Some(next) => match self.reach(reached.module, next) {
                    Some(next) => reached = next,
                    None => break,
                },
                None => return Some((reached.module, name)),
            }
        }
        None
    }

    /// What a module takes from one that holds it may be there by another `use`: then the import is of the module
    /// that this names, else siblings could use one another through their parent and no circle would be seen.
    fn behind_ancestors(&self, from: usize, mut reached: ReachedModule) -> usize {
        for _ in 0..16 {
            if !self.tree.holds(reached.module, from) {
                break;
            }
            let next = reached.rest.first().and_then(|name| self.bound[reached.module].get(name));
            match next.and_then(|path| self.reach(reached.module, path)) {
                Some(next) => reached = next,
                None => break,
            }
        }
        reached.module
    }

    /// The last module on a path, if the path is one of this tree.
    fn reach(&self, from: usize, path: &[String]) -> Option<ReachedModule> {
        let modules = &self.tree.modules;
        let mut parts = path.iter().peekable();
        let mut at = match parts.peek()?.as_str() {
            "crate" => 0,
            "self" | "super" => from,
            child => *modules[from].children.get(child).map(|_| &from)?,
        };
        while let Some(part) =
            parts.next_if(|part| ["crate", "self", "super"].contains(&part.as_str()))
        {
            if part == "super" {
                at = modules[at].parent?;
            }
        }
        while let Some(child) = parts.peek().and_then(|&part| modules[at].children.get(part)) {
            at = *child;
            parts.next();
        }
        Some(ReachedModule { module: at, rest: parts.cloned().collect() })
    }
}

/// Collects the paths of one module, without those of modules within it and of tests.
#[derive(Default)]
struct PathFinder {
    named: Vec<NamedPath>,
    bound: BTreeMap<String, Vec<String>>,
    parts: Vec<String>,
}

impl PathFinder {
    fn keep(&mut self, path: Vec<String>, line: usize) {
        if path.len() > 1 {
            self.named.push(NamedPath { path, line });
        }
    }

    /// The leaves of a `use`. A `pub use` hands a name on and is no import of the module that says it.
    fn leaves(&mut self, tree: &syn::UseTree, hands_on: bool) {
        let before = self.parts.len();
        let (name, line) = match tree {
            syn::UseTree::Path(path) => {
                self.parts.push(path.ident.to_string());
                self.leaves(&path.tree, hands_on);
                self.parts.truncate(before);
                return;
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.leaves(tree, hands_on));
                return;
            }
            syn::UseTree::Name(name) => {
                if name.ident != "self" {
                    self.parts.push(name.ident.to_string());
                }
                (self.parts.last().cloned(), name.ident.span().start().line)
            }
            syn::UseTree::Rename(rename) => {
                self.parts.push(rename.ident.to_string());
                (Some(rename.rename.to_string()), rename.ident.span().start().line)
            }
            syn::UseTree::Glob(glob) => {
                if !hands_on {
                    let line = glob.star_token.spans[0].start().line;
                    self.named.push(NamedPath { path: self.parts.clone(), line });
                }
                return;
            }
        };
        if let Some(name) = name {
            self.bound.insert(name, self.parts.clone());
        }
        if !hands_on {
            self.keep(self.parts.clone(), line);
        }
        self.parts.truncate(before);
    }

    /// The paths in what a macro is given, which is not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons, mut line) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(word) if path.is_empty() || colons == 2 => {
                    if path.is_empty() {
                        line = word.span().start().line;
                    }
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark)
                    if mark.as_char() == ':' && !path.is_empty() && colons < 2 =>
                {
                    colons += 1;
                }
                other => {
                    self.keep(std::mem::take(&mut path), line);
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Ident(word) => {
                            line = word.span().start().line;
                            path.push(word.to_string());
                        }
                        _ => {}
                    }
                }
            }
        }
        self.keep(path, line);
    }
}

impl<'ast> Visit<'ast> for PathFinder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !matches!(item, syn::Item::Mod(_)) && !only_for_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.leaves(&item.tree, !matches!(item.vis, syn::Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let parts = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.keep(parts, path.segments[0].ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    /// `pub(in crate::keyed)` names a module and takes nothing from it.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}
