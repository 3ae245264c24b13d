//! Where the fuzz targets begin: valid bytes of each kind, made from the code by the tests that also check them.

use std::io;

/// Keeps the seeds of a fuzz target as files, when `FUZZ_CORPUS` names the directory of all corpora (`make fuzz`).
///
/// # Errors
/// A file cannot be written.
pub fn keep(target: &str, seeds: &[Vec<u8>]) -> io::Result<()> {
    let Some(corpora) = std::env::var_os("FUZZ_CORPUS") else { return Ok(()) };
    let corpus = std::path::Path::new(&corpora).join(target);
    std::fs::create_dir_all(&corpus)?;
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{number}")), seed)?;
    }
    Ok(())
}
