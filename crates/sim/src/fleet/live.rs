//! A turn on its way, and the memory that turns share while they pass.
use warmpath_trace::{Next, Workload};

use super::content::TurnKey;
use super::meter::Times;
use crate::event::EngineEvent;
use crate::router::Promise;

/// Where a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// In the router's hands.
    Router,
    /// On an engine.
    Worker(u32),
    /// With its client, who asks again.
    Client,
}

/// A turn on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) key: TurnKey,
    pub(crate) session: u64,
    pub(crate) at: Whereabouts,
    pub(crate) times: Times,
    /// Tokens that its first admission found; `None` before.
    pub(crate) cached: Option<u32>,
    /// What the router has said of the cache that it was sent to.
    pub(crate) promise: Option<Promise>,
    /// Whether something had changed there by then that the router could not know.
    pub(crate) is_behind: bool,
    /// The turn of its session before it.
    pub(crate) before: Option<u32>,
    /// What its session does after it.
    pub(crate) next: Next,
}

#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) events: Vec<EngineEvent>,
    pub(crate) names: Vec<u64>,
    pub(crate) session: String,
    pub(crate) parent: String,
}

impl Scratch {
    /// What the session and its parent are called in this instance.
    pub(crate) fn name(&mut self, workload: &Workload, session: u32, instance: u32) {
        let info = &workload.sessions()[session as usize];
        write_name(&mut self.session, &info.name, instance);
        if let Some(parent) = info.parent {
            write_name(
                &mut self.parent,
                &workload.sessions()[parent as usize].name,
                instance,
            );
        }
    }
}

fn write_name(out: &mut String, name: &str, instance: u32) {
    out.clear();
    out.push_str(name);
    if instance > 0 {
        out.push('#');
        out.push_str(&instance.to_string());
    }
}
