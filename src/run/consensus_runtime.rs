//! The runtime of consensus: a thread of its own, so that elections and heartbeats never wait for requests.

use crate::node::RunError;
use raft::{niceness, set_niceness};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

/// Niceness of the thread. Only a process with CAP_SYS_NICE may go below its own.
const NICENESS: i32 = -10;

/// A runtime with one thread; ends with this.
pub(super) struct ConsensusRuntime {
    /// `None` when the caller's runtime has one thread: consensus runs there too.
    runtime: Option<Runtime>,
}

impl ConsensusRuntime {
    pub(super) fn start() -> Result<Self, RunError> {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Ok(Self { runtime: None });
        }
        // The worker starts first. Threads for work that blocks come later, and inherit its priority.
        let (own, is_first) = (niceness(), AtomicBool::new(true));
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("consensus")
            .on_thread_start(move || {
                let is_worker = is_first.swap(false, Ordering::Relaxed);
                set_niceness(if is_worker { NICENESS.min(own) } else { own });
            })
            .enable_all()
            .build()
            .map_err(|e| RunError::Failed(format!("the thread of consensus cannot be started: {e}")))?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs a task there, to its end.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RunError> {
        let Some(runtime) = &self.runtime else { return Ok(task.await) };
        runtime.spawn(task).await.map_err(|e| RunError::Failed(e.to_string()))
    }
}

impl Drop for ConsensusRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Work that blocks on a hung disk must not keep the process alive.
            runtime.shutdown_background();
        }
    }
}

/// Makes the runtime in which this is called wait for a listener's connections.
pub(super) fn adopt(listener: TcpListener) -> Result<TcpListener, RunError> {
    let adopted = listener.into_std().and_then(TcpListener::from_std);
    adopted.map_err(|error| RunError::Listen(error.to_string()))
}
