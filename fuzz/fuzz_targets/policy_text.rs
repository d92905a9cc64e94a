#![no_main]

libfuzzer_sys::fuzz_target!(|case: tollgate_model::TextCase<'_>| case.run());
