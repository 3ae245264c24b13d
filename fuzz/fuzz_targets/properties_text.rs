//! A properties text.
#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tests/it/parsers/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::properties_text(bytes));
