//! Files and functions that are larger than one can hold in mind.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::report::Offender;
use crate::source::RustFile;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{file, whats};

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
}
