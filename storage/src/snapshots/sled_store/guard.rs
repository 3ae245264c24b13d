//! sled panics on some kinds of damage. Here a panic becomes an error, without a backtrace on the operator's screen.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside of [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Why a guarded call failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// sled gave an error.
    Error(sled::Error),
    /// sled panicked, with this message.
    Panicked(String),
}

/// Calls into sled.
///
/// The closure must not leave anything of ours half changed when it unwinds: it calls sled and nothing else.
pub(super) fn guarded<T>(call: impl FnOnce() -> sled::Result<T>) -> Result<T, Failed> {
    mute_guarded_panics();
    GUARDED.with(|guarded| guarded.set(true));
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.with(|guarded| guarded.set(false));
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Failed::Error(error)),
        Err(payload) => Err(Failed::Panicked(message(&*payload))),
    }
}

/// Adds to the process's panic hook, once: panics of guarded calls print nothing, those of sled's own threads one
/// line in the log; all others go on to the hook that was there before.
fn mute_guarded_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if GUARDED.try_with(Cell::get).unwrap_or(false) {
                return;
            }
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| name.starts_with("sled-io-")) {
                tracing::error!("sled's writer thread panicked: {}", message(info.payload()));
                return;
            }
            previous(info);
        }));
    });
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        let failed = guarded::<()>(|| panic!("segment {} is odd", 7)).unwrap_err();
        assert!(matches!(failed, Failed::Panicked(message) if message == "segment 7 is odd"));
        assert!(!GUARDED.get());
    }

    #[test]
    fn values_and_errors_pass() {
        assert_eq!(guarded(|| Ok(1)).unwrap(), 1);
        let failed = guarded::<()>(|| Err(sled::Error::Unsupported("x".into()))).unwrap_err();
        assert!(matches!(failed, Failed::Error(sled::Error::Unsupported(_))));
    }
}
