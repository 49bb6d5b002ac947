//! Dynamo's `ConcurrentRadixTreeCompressed`: one tree that any thread reads.
//!
//! Its only public way to take events is a worker loop that owns the per-worker maps and reads a
//! channel. So it runs on a thread of its own, `apply` sends and waits until all is done, and what
//! counts is that thread's CPU time. Woken for every turn it would be charged for waking up, so turn
//! by turn it is looked up in but its stores are not timed.
use std::sync::Arc;
use std::thread::JoinHandle;

use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::{LocalBlockHash, OverlapScores, RouterEvent};
use tokio::sync::oneshot;

use super::{CRTC, Index, Prompt, Stretch, radix};
use crate::measure::CpuClock;

pub(super) struct Crtc {
    tree: Arc<ConcurrentRadixTreeCompressed>,
    tasks: flume::Sender<WorkerTask>,
    lane: Option<JoinHandle<()>>,
    clock: CpuClock,
    prompt: Vec<LocalBlockHash>,
    scores: OverlapScores,
    queue: Vec<RouterEvent>,
}

impl Crtc {
    pub(super) fn new() -> Self {
        use std::os::unix::thread::JoinHandleExt;
        let tree = Arc::new(ConcurrentRadixTreeCompressed::new());
        let (tasks, inbox) = flume::unbounded();
        let shared = Arc::clone(&tree);
        let lane = std::thread::spawn(move || {
            let ended = shared.worker(inbox, None);
            ended.expect("the loop ends when it is told to");
        });
        let clock = CpuClock::of(lane.as_pthread_t()).expect("a running thread has a clock");
        Self {
            tree,
            tasks,
            lane: Some(lane),
            clock,
            prompt: Vec::new(),
            scores: OverlapScores::new(),
            queue: Vec::new(),
        }
    }

    fn send(&self, task: WorkerTask) {
        self.tasks
            .send(task)
            .expect("the lane runs as long as this");
    }
}

impl Index for Crtc {
    fn name(&self) -> &'static str {
        CRTC
    }

    fn ready_find(&mut self, prompt: &Prompt<'_>) {
        self.prompt = radix::locals(prompt);
    }

    fn find(&mut self) {
        self.scores = self.tree.find_matches(&self.prompt, false);
    }

    fn answer(&mut self) -> u64 {
        radix::sum(&std::mem::take(&mut self.scores))
    }

    fn ready_store(&mut self, worker: usize, event: &Stretch<'_>) {
        self.queue.push(radix::stored(worker, event));
    }

    fn ready_remove(&mut self, worker: usize, names: &[u64]) {
        self.queue.push(radix::removed(worker, names));
    }

    fn ready_clear(&mut self, worker: usize) {
        self.queue.push(radix::cleared(worker));
    }

    fn apply(&mut self) {
        for event in std::mem::take(&mut self.queue) {
            self.send(WorkerTask::Event(event));
        }
        let (done, applied) = oneshot::channel();
        self.send(WorkerTask::Flush(done));
        applied.blocking_recv().expect("the lane answers");
    }

    fn clock(&self) -> CpuClock {
        self.clock
    }

    fn applies_here(&self) -> bool {
        false
    }

    fn rest(&mut self) {
        self.prompt = Vec::new();
        self.queue = Vec::new();
    }
}

impl Drop for Crtc {
    fn drop(&mut self) {
        self.send(WorkerTask::Terminate);
        if let Some(lane) = self.lane.take() {
            lane.join().expect("the lane does not panic");
        }
    }
}
