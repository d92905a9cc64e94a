#![no_main]

libfuzzer_sys::fuzz_target!(|case: tollgate_model::SlidingLogCase| case.run());
