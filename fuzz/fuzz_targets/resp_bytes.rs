#![no_main]

libfuzzer_sys::fuzz_target!(|case: tollgate_fuzz_bodies::RespCase<'_>| case.run());
