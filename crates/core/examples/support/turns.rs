//! Turns of canonical text through the scheduler, as the addon submits them: for counting their
//! instructions and for timing them.
use warmpath_core::scheduler::{
    Completion, Config, GroupOptions, Prompt, Scheduler, Segment, Submitted, Turn, WorkerOptions,
};
use warmpath_core::{Micros, TargetId};

/// Bytes of a message: about what a tool returns.
const MESSAGE: usize = 2_400;

/// A prompt, and how its text is cut into segments.
pub(crate) struct Written {
    pub(crate) text: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
}

/// A prompt of so many messages. Two of one session begin alike.
pub(crate) fn prompt(session: u64, messages: usize) -> Written {
    let byte = |at: usize| b' ' + ((at as u64).wrapping_mul(2 * session + 1) >> 3) as u8 % 90;
    Written {
        text: (0..messages * MESSAGE).map(byte).collect(),
        segments: vec![Segment::plain(MESSAGE as u32); messages],
    }
}

/// A scheduler with one target of so many workers.
pub(crate) fn fleet(workers: usize) -> Scheduler {
    let mut scheduler = Scheduler::new(Config::default()).expect("a sound configuration");
    let added = scheduler.add_group(Micros(1), GroupOptions::default());
    let group = added.expect("a first group");
    (scheduler.add_target("t", group)).expect("a first target");
    for n in 0..workers {
        let options = WorkerOptions {
            name: format!("w{n}"),
            group,
            capacity_tokens: None,
        };
        let added = scheduler.add_worker(Micros(1), options, &mut Vec::new());
        added.expect("a new worker");
    }
    scheduler
}

/// Submits a turn of the session.
pub(crate) fn submit(
    scheduler: &mut Scheduler,
    at: Micros,
    session: &str,
    prompt: Prompt,
) -> Submitted {
    let turn = Turn {
        session: Some(session),
        ..Turn::new(&[TargetId(0)], prompt)
    };
    let submitted = scheduler.submit(at, &turn, &mut Vec::new());
    submitted.expect("there is a worker")
}

/// The turn has been answered.
pub(crate) fn complete(scheduler: &mut Scheduler, at: Micros, turn: &Submitted) {
    let answer = Completion::default();
    scheduler.complete(at, turn.reservation, &answer, &mut Vec::new());
}
