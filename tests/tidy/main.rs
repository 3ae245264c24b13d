//! House rules as tests. Each test reads every file that git knows (and new ones that it does not ignore) and fails
//! with the list of all offenders.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod module_graph;
mod module_source;
mod rust_source;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rust_source::RustSource;

/// Lines of a Rust file, without its tests.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// One tracked text file.
struct Source {
    /// Relative to the root of the repository, with `/`.
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All text files of the repository, except those that tools write.
fn sources() -> Vec<Source> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listing.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&listing.stderr));
    let listing = String::from_utf8(listing.stdout).unwrap();
    listing
        .lines()
        .filter(|path| !path.ends_with("Cargo.lock") && !path.ends_with("go.sum"))
        // A deleted file may still be in the index; binary files have no lines.
        .filter_map(|path| {
            Some(Source { path: path.into(), text: std::fs::read_to_string(root().join(path)).ok()? })
        })
        .collect()
}

fn rust_sources() -> Vec<Source> {
    let mut all = sources();
    all.retain(|source| source.path.ends_with(".rs"));
    assert!(all.len() > 10, "only {} Rust files found: the listing is wrong", all.len());
    all
}

/// Whether the whole file is test code.
fn is_test_file(path: &str) -> bool {
    let path = Path::new(path);
    path.file_stem().is_some_and(|stem| stem == "tests")
        || path
            .components()
            .any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "benches" | "fuzz")))
}

fn assert_none(what: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{} {what}:\n  {}\n", offenders.len(), offenders.join("\n  "));
}

#[test]
fn files_stay_short() {
    let offenders: Vec<_> = rust_sources()
        .iter()
        .filter(|source| !is_test_file(&source.path))
        .map(|source| (source, RustSource::parse(&source.text).lines_without_tests()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(source, lines)| format!("{}: {lines} lines", source.path))
        .collect();
    assert_none(&format!("files have more than {FILE_LINES_MAX} lines without tests"), &offenders);
}

/// The files that may call the system's files and sockets, of the parts that a simulation must own. All else there goes
/// through the traits that these implement.
const MAY_TOUCH_THE_SYSTEM: [&str; 9] = [
    "raft/src/peer/stream.rs",
    "storage/src/disk/guard.rs",
    "storage/src/disk/reserve.rs",
    "storage/src/disk/space.rs",
    "storage/src/files/system.rs",
    "storage/src/snapshots/sled_store/database.rs",
    "storage/src/snapshots/sled_store/directories.rs",
    "storage/src/snapshots/sled_store/mod.rs",
    "storage/src/snapshots/sled_store/seal.rs",
];

#[test]
fn only_few_files_touch_the_system() {
    let simulated = ["raft/src/", "storage/src/", "src/liveness/"];
    let mut offenders = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for source in rust_sources() {
        // What `checks` hold is built for tests and fuzzing only.
        let checks = source.path.contains("/checks");
        if is_test_file(&source.path) || checks || !simulated.iter().any(|dir| source.path.starts_with(dir)) {
            continue;
        }
        for (number, line) in RustSource::parse(&source.text).code_without_tests() {
            if !names_the_system(line) {
                continue;
            }
            if MAY_TOUCH_THE_SYSTEM.contains(&source.path.as_str()) {
                seen.insert(source.path.clone());
            } else {
                offenders.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    let stale = MAY_TOUCH_THE_SYSTEM.iter().filter(|path| !seen.contains(**path));
    offenders.extend(stale.map(|path| format!("{path}: need not be on the list")));
    assert_none("places touch files or sockets past the traits", &offenders);
}

/// Whether a line of code names a module of files or sockets, by its path or in a `use` of several.
fn names_the_system(line: &str) -> bool {
    let crates = ["std", "tokio", "rustix"];
    let path = |module: &str| crates.iter().any(|from| line.contains(&format!("{from}::{module}")));
    let words: Vec<&str> = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let several = crates.iter().any(|from| line.contains(&format!("{from}::{{")));
    ["fs", "net"].iter().any(|module| path(module) || several && words.contains(module))
}

#[test]
fn files_and_sockets_are_recognized() {
    for line in [
        "use std::fs;",
        "use std::{fs, io};",
        "    let s = tokio::net::TcpStream::connect(a)",
        "rustix::fs::fallocate(",
    ] {
        assert!(names_the_system(line), "{line}");
    }
    for line in ["use std::io;", "use std::{io, sync};", "use crate::files::Files;", "self.net.connect(a)"] {
        assert!(!names_the_system(line), "{line}");
    }
}

/// A branch chosen by chance is one that a simulation cannot repeat.
#[test]
fn selects_are_biased() {
    let mut offenders = Vec::new();
    for source in rust_sources().iter().filter(|source| !is_test_file(&source.path)) {
        let mut lines = (1..).zip(source.text.lines()).peekable();
        while let Some((number, line)) = lines.next() {
            let next = lines.peek().map_or("", |(_, next)| next.trim());
            if line.contains("tokio::select! {") && next != "biased;" && !source.path.starts_with("src/cli/")
            {
                offenders.push(format!("{}:{number}", source.path));
            }
        }
    }
    assert_none("`select!`s choose by chance", &offenders);
}

#[test]
fn functions_fit_a_screen() {
    let mut offenders = Vec::new();
    for source in rust_sources() {
        for function in RustSource::parse(&source.text).functions() {
            if function.lines > FUNCTION_LINES_MAX {
                offenders.push(format!(
                    "{}:{}: fn {}, {} lines",
                    source.path, function.at, function.name, function.lines
                ));
            }
        }
    }
    assert_none(&format!("functions have more than {FUNCTION_LINES_MAX} lines"), &offenders);
}

#[test]
fn no_type_hides_behind_an_empty_name() {
    const EMPTY_ENDINGS: [&str; 5] = ["Manager", "Helper", "Util", "Utils", "Impl"];
    let mut offenders = Vec::new();
    for source in rust_sources() {
        for (at, name) in RustSource::parse(&source.text).type_names() {
            if EMPTY_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                offenders.push(format!("{}:{at}: {name}", source.path));
            }
        }
    }
    assert_none("types have a name that says nothing", &offenders);
}

/// Words that mark unfinished work, and texts that only mean something on their author's machine.
#[test]
fn no_leftovers_and_no_machine_paths() {
    // In pieces, so that this file does not find itself.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
    let texts = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("../sh", "ared"),
        concat!("deb.deb", "ian.org"),
        concat!("repo1.maven", ".org"),
        concat!("proxy.go", "lang.org"),
        concat!("static.crates", ".io"),
        concat!("index.crates", ".io"),
        concat!("artif", "actory"),
    ];
    let mut offenders = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            let unfinished = line
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .find(|word| words.contains(word));
            // The replay of recordings is the one thing that CI takes from beside the clone.
            let foreign =
                texts.iter().find(|text| line.contains(**text) && source.path != ".ci/run").copied();
            if let Some(found) = unfinished.or(foreign) {
                offenders.push(format!("{}:{}: {found}", source.path, number + 1));
            }
        }
    }
    assert_none("lines hold a leftover or a path or host of one machine", &offenders);
}

/// Whatever is executable under `scripts/` explains itself; the rest there is made to be sourced.
#[test]
fn scripts_are_strict_and_explain_themselves() {
    let mut offenders = Vec::new();
    for source in
        sources().iter().filter(|source| source.path.starts_with("scripts/") && source.path.ends_with(".sh"))
    {
        let path = root().join(&source.path);
        if !is_executable(&path) {
            continue;
        }
        if !source.text.starts_with("#!/usr/bin/env bash\n") || !source.text.contains("\nset -euo pipefail\n")
        {
            offenders.push(format!(
                "{}: begins without '#!/usr/bin/env bash' or 'set -euo pipefail'",
                source.path
            ));
        }
        // Only run what knows the flag: anything else might do its work instead.
        if !source.text.contains("--help") {
            offenders.push(format!("{}: no --help", source.path));
            continue;
        }
        let output =
            Command::new(&path).arg("--help").stdin(Stdio::null()).output().expect("the script starts");
        if !output.status.success() || output.stdout.trim_ascii().is_empty() {
            offenders.push(format!(
                "{}: --help ends with {} and {} bytes",
                source.path,
                output.status,
                output.stdout.len()
            ));
        }
    }
    assert_none("faults in scripts", &offenders);
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

/// A link in a page leads to something that is there.
#[test]
fn pages_link_to_what_exists() {
    let mut offenders = Vec::new();
    for source in sources().iter().filter(|source| source.path.ends_with(".md")) {
        let folder: PathBuf = root().join(&source.path).parent().unwrap().into();
        for (number, line) in source.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let file = link.split('#').next().unwrap();
                if !file.is_empty() && !file.contains("://") && !folder.join(file).exists() {
                    offenders.push(format!("{}:{}: {link}", source.path, number + 1));
                }
            }
        }
    }
    assert_none("links lead nowhere", &offenders);
}
