//! The modules of a target of cargo: which file holds which, and which of them is compiled for tests only.

use std::collections::BTreeMap;

use crate::source::{RustFile, RustFiles, only_for_tests};

/// The root is the first module.
pub(crate) struct ModuleTree<'a> {
    pub(crate) modules: Vec<ModuleNode<'a>>,
}

pub(crate) struct ModuleNode<'a> {
    /// `keyed::table`; empty for the root.
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    pub(crate) file: &'a RustFile,
    pub(crate) items: &'a [syn::Item],
    pub(crate) is_test: bool,
}

/// A module that is still to be read.
struct Unread<'a> {
    name: String,
    parent: Option<usize>,
    file: &'a RustFile,
    items: &'a [syn::Item],
    is_test: bool,
    /// Where the files of its own modules are.
    folder: String,
}

impl<'a> ModuleTree<'a> {
    /// The modules under the file `root`. A module whose file is not among `files` (generated, or outside of the
    /// repository) is left out.
    pub(crate) fn of(root: &str, files: &'a RustFiles) -> Option<Self> {
        let file = files.get(root)?;
        let mut modules: Vec<ModuleNode<'a>> = Vec::new();
        let mut unread = vec![Unread {
            name: String::new(),
            parent: None,
            file,
            items: &file.syntax.items,
            is_test: only_for_tests(&file.syntax.attrs),
            folder: folder_of(root).to_owned(),
        }];
        while let Some(next) = unread.pop() {
            let index = modules.len();
            for item in next.items {
                if let syn::Item::Mod(module) = item {
                    unread.extend(child(index, &next, module, files));
                }
            }
            let Unread { name, parent, file, items, is_test, .. } = next;
            if let Some(parent) = parent {
                let last = name.rsplit("::").next().unwrap_or(&name).to_owned();
                modules[parent].children.insert(last, index);
            }
            let children = BTreeMap::new();
            modules.push(ModuleNode { name, parent, children, file, items, is_test });
        }
        Some(Self { modules })
    }

    /// Whether `above` is `module`, or holds it.
    pub(crate) fn holds(&self, above: usize, module: usize) -> bool {
        let mut next = Some(module);
        while let Some(module) = next {
            if module == above {
                return true;
            }
            next = self.modules[module].parent;
        }
        false
    }
}

fn child<'a>(
    parent: usize,
    above: &Unread<'a>,
    module: &'a syn::ItemMod,
    files: &'a RustFiles,
) -> Option<Unread<'a>> {
    let last = module.ident.to_string();
    let name = if above.name.is_empty() { last.clone() } else { format!("{}::{last}", above.name) };
    let is_test = above.is_test || only_for_tests(&module.attrs);
    let parent = Some(parent);
    if let Some((_, items)) = &module.content {
        let folder = joined(&above.folder, &last);
        return Some(Unread { name, parent, file: above.file, items, is_test, folder });
    }
    // A root at the top of the repository has no folder.
    let folder = |name: &str| joined(&above.folder, name);
    let (file, folder) = match path_attribute(&module.attrs) {
        Some(path) => {
            let path = joined(folder_of(&above.file.path), &path);
            // The compiler looks for the modules of such a file beside it.
            (files.get(&path)?, folder_of(&path).to_owned())
        }
        None => [folder(&format!("{last}.rs")), folder(&format!("{last}/mod.rs"))]
            .iter()
            .find_map(|path| Some((files.get(path)?, folder_under(path))))?,
    };
    Some(Unread { name, parent, file, items: &file.syntax.items, is_test, folder })
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn folder_under(path: &str) -> String {
    match path.strip_suffix("/mod.rs") {
        Some(folder) => folder.to_owned(),
        None => path.strip_suffix(".rs").unwrap_or(path).to_owned(),
    }
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use crate::fixture::repository;

    #[test]
    fn files_are_found_where_the_compiler_looks() {
        let all = repository(&[
            (
                "src/main.rs",
                "mod a; mod b; mod c { mod d; } #[path = \"../shared/e.rs\"] mod e; mod gone;",
            ),
            ("src/a.rs", "#[cfg(test)] mod deep;"),
            ("src/a/deep.rs", ""),
            ("src/b/mod.rs", "mod deep;"),
            ("src/b/deep.rs", ""),
            ("src/c/d.rs", ""),
            ("shared/e.rs", "mod f;"),
            ("shared/f.rs", ""),
        ]);
        let trees = all.trees();
        let mut found: Vec<(&str, &str, bool)> = trees[0]
            .modules
            .iter()
            .map(|module| (module.name.as_str(), module.file.path.as_str(), module.is_test))
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("", "src/main.rs", false),
                ("a", "src/a.rs", false),
                ("a::deep", "src/a/deep.rs", true),
                ("b", "src/b/mod.rs", false),
                ("b::deep", "src/b/deep.rs", false),
                ("c", "src/main.rs", false),
                ("c::d", "src/c/d.rs", false),
                ("e", "shared/e.rs", false),
                ("e::f", "shared/f.rs", false),
            ]
        );
    }
}
