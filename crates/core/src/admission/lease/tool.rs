//! What a session waits for, by its own word: how long its room is worth keeping then.
//!
//! A wait of known length leaves nothing to guess: room is kept until then, and a quarter longer, when
//! that costs others less than a refill, else not at all. When the tool has ended the session is about
//! to come back, and its context is kept for it for a moment. One whose lease had run out is, too, where
//! engines heed leases; those that drop the least recently used first could keep it only with all that
//! came after it. O(log contexts).
use super::super::{Tool, Waits};
use super::Lease;
use super::waits::WaitKind;
use crate::{Micros, ProgramId};

/// How long a session may take from the end of its tool to its next turn.
const SOON: Micros = Micros::from_secs(10);

impl Lease {
    /// See [`Admission::tool`](super::super::Admission::tool).
    pub fn tool(&mut self, now: Micros, program: ProgramId, tool: Tool) {
        self.observe(now);
        let record = self.table.programs.get(&program);
        if record.is_none_or(|record| record.is_over || record.turn.is_some()) {
            return;
        }
        let Some((mut context, idle)) = self.table.idle(program) else {
            return;
        };
        let now = self.clock;
        let end = match tool {
            Tool::Started { expected: None } => {
                context.kind = WaitKind {
                    waits: Waits::Tool,
                    ..context.kind
                };
                let length = self.lengths.lease(context.kind, context.break_even);
                context.since.plus(length)
            }
            Tool::Started {
                expected: Some(expected),
            } => {
                context.kind = WaitKind {
                    waits: Waits::Tool,
                    ..context.kind
                };
                match expected <= context.break_even {
                    true => now.plus(expected).plus(Micros(expected.0 / 4)),
                    false => now,
                }
            }
            Tool::Ended => idle.end().max(now.plus(SOON.min(context.break_even))),
        };
        let worker = context.worker;
        self.table.lease_until(now, program, context, end);
        self.hint(program, worker, (end > now).then_some(end));
        self.is_news = true;
    }
}
