//! Which user may use a data directory: the one of the node, and no other.

use crate::node::RunError;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Rights of all users but the owner.
const OF_OTHERS: u32 = 0o077;
/// Made by the file system, not by a node.
const LOST_AND_FOUND: &str = "lost+found";

/// Takes the rights of others away from a data directory and all in it: a node of an earlier version left them.
pub(super) fn keep_private(path: &Path) {
    if let Err(error) = restrict(path) {
        tracing::warn!(path = %path.display(), %error, "other users may read the data directory");
    }
}

fn restrict(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    // A link has no rights of its own, and what it leads to may be shared.
    if metadata.is_symlink() {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    if mode & OF_OTHERS != 0 {
        fs::set_permissions(path, Permissions::from_mode(mode & !OF_OTHERS))?;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name() != LOST_AND_FOUND {
                restrict(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// An error of the file system: the operator must act when the directory is not this user's, everything else is the disk.
pub(super) fn explain(path: &Path, kind: ErrorKind, error: String) -> RunError {
    match kind {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
            let user = rustix::process::geteuid().as_raw();
            RunError::Refused(format!(
                "data directory {} cannot be used: {error}; it and all in it must belong to the user of this process (uid \
                 {user}) on a file system that can be written: change its owner (chown -R), or name another with --data",
                path.display()
            ))
        }
        _ => RunError::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_another_user_is_refused_and_a_broken_disk_is_a_failure() {
        let path = Path::new("/var/lib/ns");
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            let RunError::Refused(text) = explain(path, kind, "cannot make x".into()) else { panic!() };
            assert!(
                text.contains("/var/lib/ns") && text.contains("cannot make x") && text.contains("chown"),
                "{text}"
            );
        }
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            assert!(matches!(explain(path, kind, "x".into()), RunError::Failed(text) if text == "x"));
        }
    }

    #[test]
    fn the_rights_of_others_go_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        fs::write(&shared, "").unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o644)).unwrap();
        let data = dir.path().join("data");
        fs::create_dir_all(data.join("log")).unwrap();
        fs::write(data.join("log/1"), "").unwrap();
        std::os::unix::fs::symlink(&shared, data.join("link")).unwrap();
        for (name, mode) in [("", 0o755), ("log", 0o775), ("log/1", 0o644)] {
            fs::set_permissions(data.join(name), Permissions::from_mode(mode)).unwrap();
        }
        keep_private(&data);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(["", "log", "log/1"].map(|name| mode(&data.join(name))), [0o700, 0o700, 0o600]);
        assert_eq!(mode(&shared), 0o644);
    }
}
