#![no_main]

libfuzzer_sys::fuzz_target!(|case: tollgate_fuzz_bodies::MixedCase| case.run());
