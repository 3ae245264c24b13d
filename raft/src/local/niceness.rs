//! Niceness of threads: Linux has one for each.

/// That of the calling thread.
#[must_use]
pub fn niceness() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or_default()
}

/// Sets that of the calling thread. Only a process with CAP_SYS_NICE may lower it; otherwise it stays.
pub fn set_niceness(niceness: i32) {
    if let Err(e) = rustix::process::setpriority_process(None, niceness) {
        tracing::debug!("a thread does not get niceness {niceness}: {e}");
    }
}
