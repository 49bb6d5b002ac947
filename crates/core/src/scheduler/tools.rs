//! What a harness tells of its tools between two turns of a session.

use crate::admission::Tool;
use crate::id::{Micros, ProgramId};

use super::Scheduler;
use super::record::derived_hash;
use super::turn::Settled;

impl Scheduler {
    /// A tool of a session has begun or ended: its idle branches are expected back accordingly. Unknown
    /// sessions, and those with no idle branch, are passed over. O(branches × log contexts).
    pub fn tool(
        &mut self,
        now: Micros,
        (tenant, name): (&str, &str),
        tool: Tool,
        settled: &mut Vec<Settled>,
    ) {
        self.advance(now, settled);
        let named = self.sessions.by_name(tenant, name);
        let derived = || self.sessions.by_derived(tenant, derived_hash(name)?);
        let Some(session) = named.or_else(derived).and_then(|id| self.sessions.get(id)) else {
            return;
        };
        let idle = session
            .branches()
            .iter()
            .filter(|branch| !branch.in_flight());
        let idle: Vec<ProgramId> = idle.map(|branch| branch.program).collect();
        for program in idle {
            for gates in self.gates.iter_mut().flatten() {
                if tool == Tool::Ended {
                    gates.refresh(self.now, program);
                }
            }
            for admission in &mut self.admission {
                admission.tool(self.now, program, tool);
            }
        }
        for group in 0..self.admission.len() {
            self.release(group, Vec::new(), settled);
        }
    }
}
