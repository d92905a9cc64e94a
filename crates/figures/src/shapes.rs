//! Files, types and functions that are larger than one can hold in mind.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::imports::ImportMap;
use crate::modules::ModuleTree;
use crate::report::Offender;
use crate::source::{RustFile, attributes_of, only_for_tests};

/// Files with more lines than `max`, tests included.
pub(crate) fn long_files(files: &[&RustFile], max: usize) -> Vec<Offender> {
    let long = files.iter().filter(|file| file.lines.len() > max);
    long.map(|file| file.offender(file.lines.len(), format!("{} lines", file.lines.len())))
        .collect()
}

/// Functions with more lines than `max`, from `fn` to the closing brace, tests included.
pub(crate) fn long_functions(files: &[&RustFile], max: usize) -> Vec<Offender> {
    struct FunctionScan<'a> {
        path: &'a str,
        max: usize,
        offenders: Vec<Offender>,
    }
    impl FunctionScan<'_> {
        fn look(&mut self, signature: &syn::Signature, block: &syn::Block) {
            let line = signature.span().start().line;
            let lines = block.span().end().line - line + 1;
            if lines > self.max {
                let what = format!("{}: {lines} lines", signature.ident);
                self.offenders.push(Offender { path: self.path.to_owned(), line, what });
            }
        }
    }
    impl<'ast> Visit<'ast> for FunctionScan<'_> {
        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            self.look(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
        fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
            self.look(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
        fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
            item.default.iter().for_each(|block| self.look(&item.sig, block));
            visit::visit_trait_item_fn(self, item);
        }
    }
    let mut offenders = Vec::new();
    for file in files {
        let mut found = FunctionScan { path: &file.path, max, offenders: Vec::new() };
        found.visit_file(&file.syntax);
        offenders.append(&mut found.offenders);
    }
    offenders
}

/// Where a type is defined: file and line.
type DefinedAt<'a> = (&'a str, usize);

/// The methods of one type.
#[derive(Default)]
struct MethodSet<'a> {
    name: String,
    /// Several targets may hold one file, so that a method is met more than once.
    places: BTreeSet<(&'a str, LineColumn)>,
}

/// Types with more inherent methods than `max`, over all `impl` blocks and files, without those for tests.
pub(crate) fn large_types(maps: &[ImportMap<'_>], max: usize) -> Vec<Offender> {
    let mut types: BTreeMap<DefinedAt<'_>, MethodSet<'_>> = BTreeMap::new();
    for imports in maps {
        let tree = imports.tree;
        let defined = definitions(tree);
        for (from, module) in tree.modules.iter().enumerate().filter(|(_, module)| !module.is_test)
        {
            for block in inherent_impls(module.items) {
                let Some(path) = path_of(&block.self_ty) else { continue };
                let Some((name, place)) = defining(from, &path, &defined, imports) else {
                    continue;
                };
                let methods = types.entry(place).or_default();
                methods.name = name;
                let starts = block.items.iter().filter_map(method_start);
                methods.places.extend(starts.map(|start| (module.file.path.as_str(), start)));
            }
        }
    }
    let large = types.into_iter().filter(|(_, methods)| methods.places.len() > max);
    large
        .map(|((path, line), methods)| {
            let files: BTreeSet<&str> = methods.places.iter().map(|(path, _)| *path).collect();
            let what = format!(
                "{}: {} methods in {} files",
                methods.name,
                methods.places.len(),
                files.len()
            );
            Offender { path: path.to_owned(), line, what }
        })
        .collect()
}

fn definitions<'a>(tree: &ModuleTree<'a>) -> BTreeMap<(usize, String), DefinedAt<'a>> {
    let mut defined = BTreeMap::new();
    for (index, module) in tree.modules.iter().enumerate() {
        for item in module.items {
            let name = match item {
                syn::Item::Struct(item) => &item.ident,
                syn::Item::Enum(item) => &item.ident,
                syn::Item::Union(item) => &item.ident,
                _ => continue,
            };
            let place = (module.file.path.as_str(), name.span().start().line);
            defined.insert((index, name.to_string()), place);
        }
    }
    defined
}

fn inherent_impls(items: &[syn::Item]) -> impl Iterator<Item = &syn::ItemImpl> {
    items.iter().filter(|item| !only_for_tests(attributes_of(item))).filter_map(|item| match item {
        syn::Item::Impl(block) if block.trait_.is_none() => Some(block),
        _ => None,
    })
}

fn path_of(of: &syn::Type) -> Option<Vec<String>> {
    match of {
        syn::Type::Path(of) => {
            Some(of.path.segments.iter().map(|segment| segment.ident.to_string()).collect())
        }
        _ => None,
    }
}

fn method_start(item: &syn::ImplItem) -> Option<LineColumn> {
    match item {
        syn::ImplItem::Fn(method) if !only_for_tests(&method.attrs) => {
            Some(method.sig.ident.span().start())
        }
        _ => None,
    }
}

/// The type that an `impl` is for: of its own module, or of the one that its `use` names. Where neither is seen
/// (a `use` with a star), the only one of that name in the tree.
fn defining<'a>(
    from: usize,
    path: &[String],
    defined: &BTreeMap<(usize, String), DefinedAt<'a>>,
    imports: &ImportMap<'_>,
) -> Option<(String, DefinedAt<'a>)> {
    let name = path.last()?;
    let own = (path.len() == 1).then(|| (from, name.clone()));
    let used = imports.definition(from, path);
    if let Some(key) = own.into_iter().chain(used).find(|key| defined.contains_key(key)) {
        return Some((key.1.clone(), defined[&key]));
    }
    let mut named = defined.iter().filter(|((_, other), _)| other == name);
    match (named.next(), named.next()) {
        (Some((_, &place)), None) => Some((name.clone(), place)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{file, lines, repository, whats};

    #[test]
    fn files_are_long_beyond_the_limit() {
        let file = file("struct A;\nstruct B;\nstruct C;\n");
        assert_eq!(whats(&long_files(&[&file], 2)), ["3 lines"]);
        assert_eq!(long_files(&[&file], 3), []);
    }

    #[test]
    fn functions_are_long_beyond_the_limit_wherever_they_are() {
        let file = file(
            "/// Documentation does not count.\n#[inline]\nfn a() {\n}\n\
             impl A {\n fn b() {\n ;\n }\n}\n\
             trait T {\n fn c() {\n ;\n }\n fn d(\n x: u8,\n y: u8\n );\n}\n",
        );
        assert_eq!(whats(&long_functions(&[&file], 2)), ["b: 3 lines", "c: 3 lines"]);
        assert_eq!(long_functions(&[&file], 3), []);
    }

    #[test]
    fn the_methods_of_a_type_add_up_over_files_and_not_over_types() {
        let all = repository(&[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "\npub struct Table<K>(K);\nimpl<K> Table<K> { fn a() {} fn b() {} }"),
            (
                "src/b.rs",
                "use crate::c::Table; impl<K> Table<K> { fn c() {} #[cfg(test)] fn test() {} }
                 impl<K> Drop for Table<K> { fn drop(&mut self) {} }",
            ),
            ("src/c.rs", "pub use super::a::Table; pub struct Other; impl Other { fn a() {} }"),
        ]);
        let trees = all.trees();
        let maps = [ImportMap::of(&trees[0])];
        let large = large_types(&maps, 2);
        assert_eq!(whats(&large), ["Table: 3 methods in 2 files"]);
        assert_eq!(lines(&large), ["src/a.rs:2"]);
        assert_eq!(large_types(&maps, 3), []);
    }

    #[test]
    fn types_that_are_called_alike_are_told_apart() {
        let all = repository(&[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "struct Table; impl Table { fn a() {} fn b() {} }"),
            ("src/b.rs", "struct Table; impl Table { fn a() {} fn b() {} }"),
        ]);
        let trees = all.trees();
        assert_eq!(large_types(&[ImportMap::of(&trees[0])], 2), []);
    }
}
