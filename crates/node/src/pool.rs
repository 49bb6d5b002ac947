//! The stores that groups share: their options, the calls that change them, and what is told of them.
//!
//! What a store publishes comes through the process's one feed like what engines publish. Whoever asks the
//! store itself, over HTTP and beside the turns, says here what came of it.
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use napi::bindgen_prelude::{External, Float64Array, Result};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Value, json};

use warmpath_core::event::Doubt;
use warmpath_core::pool::Layout;
use warmpath_core::scheduler::PoolOptions;
use warmpath_core::{GroupId, Micros};
use warmpath_feed::{Endpoint, ObjectRules, Sample, StreamKey, Whose};

use crate::error::{Code, guard, invalid, refused};
use crate::feed::{IDLE_SLICE, parsed};
use crate::handle::{Handle, State};
use crate::journal::{Act, bare};
use crate::report;
use crate::scheduler::{room, time};

/// A store that is gone if so much of what is asked for is gone: one in so many.
const GONE: usize = 4;

/// A store to add.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewPool {
    name: String,
    pub(crate) group: u32,
    /// Where it publishes; absent where nobody listens.
    pub(crate) events: Option<String>,
    space: Option<String>,
    tenant: Option<String>,
    layout: NewLayout,
    pages: usize,
}

/// Into how many objects a page is cut, by kind.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewLayout {
    tensor_parallel: NonZeroU32,
    /// Ranks that have the same, of which one writes.
    copies: NonZeroU32,
    pipeline_parallel: NonZeroU32,
    prefill_context_parallel: NonZeroU32,
    decode_context_parallel: NonZeroU32,
    cache_groups: NonZeroU32,
    halves: NonZeroU32,
}

/// A store that is there.
pub(crate) struct KnownPool {
    name: String,
    pub(crate) group: GroupId,
    rules: ObjectRules,
}

/// Those of a scheduler, by numbers that no other one has had.
#[derive(Default)]
pub(crate) struct Pools {
    known: BTreeMap<u32, KnownPool>,
    next: u32,
}

impl NewPool {
    /// Reads one store as JSON text.
    pub(crate) fn parse(text: &str) -> Result<Self, Code> {
        serde_json::from_str(text).map_err(|error| invalid(format!("pool: {error}")))
    }

    /// Where it publishes.
    pub(crate) fn endpoint(&self) -> Result<Option<Endpoint>, Code> {
        self.events.as_deref().map(parsed).transpose()
    }

    fn options(&self) -> Result<PoolOptions, Code> {
        let NewLayout {
            tensor_parallel,
            copies,
            pipeline_parallel,
            prefill_context_parallel,
            decode_context_parallel,
            cache_groups,
            halves,
        } = self.layout.clone();
        let tensor = NonZeroU32::new(tensor_parallel.get() / copies);
        let is_whole = tensor_parallel.get() % copies == 0;
        let tensor = tensor.filter(|_| is_whole);
        let tensor =
            tensor.ok_or_else(|| invalid("copies must divide the tensor-parallel ranks"))?;
        Ok(PoolOptions {
            layout: Layout {
                tensor,
                pipeline: pipeline_parallel,
                prefill_context: prefill_context_parallel,
                decode_context: decode_context_parallel,
                groups: cache_groups,
                halves,
            },
            pages: self.pages,
        })
    }

    fn rules(&self) -> ObjectRules {
        ObjectRules {
            space: self.space.clone(),
            tenant: self.tenant.clone(),
            copies: self.layout.copies,
            sample: Arc::new(Sample::default()),
        }
    }
}

impl Pools {
    /// The group of the store with that number, unless it is gone.
    pub(crate) fn group(&self, number: u32) -> Option<GroupId> {
        self.known.get(&number).map(|pool| pool.group)
    }
}

impl State {
    /// Adds a store and listens to it. Returns its number.
    pub(crate) fn add_pool(&mut self, now: Micros, pool: &NewPool) -> Result<u32, Code> {
        let (options, endpoint) = (pool.options()?, pool.endpoint()?);
        let (group, rules) = (GroupId(pool.group), pool.rules());
        let added = self.core.add_pool(now, group, options);
        added.map_err(|error| refused(&error))?;
        let number = self.pools.next;
        self.pools.next += 1;
        if let Some(endpoint) = endpoint {
            self.ear.listen_to_pool(number, endpoint, &rules)?;
        }
        let name = pool.name.clone();
        self.pools
            .known
            .insert(number, KnownPool { name, group, rules });
        Ok(number)
    }

    /// What was known of a store is void at once. Returns whether it was there.
    pub(crate) fn remove_pool(&mut self, now: Micros, number: u32) -> bool {
        let Some(pool) = self.pools.known.remove(&number) else {
            return false;
        };
        self.ear.deafen(Whose::Pool(number));
        self.core.remove_pool(now, pool.group)
    }

    /// Figures of each store.
    pub(crate) fn pool_figures(&self) -> Vec<Value> {
        let all = self.pools.known.iter();
        all.filter_map(|(&number, pool)| {
            let status = self.core.pool_status(pool.group)?;
            let stream = self.ear.pool_stream(number);
            Some(json!({
                "id": pool.name,
                "evidence": report::evidence(&status.evidence),
                "pages": status.pages,
                "wholePages": status.whole,
                "unplacedPages": status.unplaced,
                "refused": status.refused,
                "foreign": status.foreign,
                "cleared": status.cleared,
                "promisedTokens": status.promised_tokens,
                "readTokens": status.read_tokens,
                "bytes": status.bytes,
                "stream": stream.as_ref().map(report::pool_stream),
            }))
        })
        .collect()
    }

    /// Takes note of what the store itself has answered.
    fn pool_told(
        &mut self,
        now: Micros,
        number: u32,
        (publishes, asked): (Option<bool>, usize),
        gone: &[String],
    ) -> Option<()> {
        let pool = self.pools.known.get(&number)?;
        let known = self.core.pool_status(pool.group)?.evidence.doubt;
        let is_heard = self
            .ear
            .pool_stream(number)
            .is_some_and(|stream| stream.messages > 0);
        let key = StreamKey::Pool(number);
        match publishes {
            Some(false) if !is_heard && known != Some(Doubt::NoEvents) => {
                self.ear.doubt(key, Doubt::NoEvents);
            }
            Some(true) if known == Some(Doubt::NoEvents) => {
                self.ear.doubt(key, Doubt::JoinedLate);
            }
            _ => {}
        }
        // What the events have taken meanwhile is nothing that they have not told of.
        let sample = &pool.rules.sample;
        let gone: Vec<&String> = gone.iter().filter(|key| sample.holds(key)).collect();
        if !gone.is_empty() && gone.len() * GONE >= asked {
            sample.clear();
            self.ear.doubt(key, Doubt::Stale);
        } else {
            for key in gone {
                sample.removed(key);
                if let Some(change) = pool.rules.change(key, false) {
                    let object = (change.page, &change.part);
                    self.core.apply_object(now, pool.group, object, false);
                }
            }
        }
        Some(())
    }
}

/// Adds a store that a group shares (JSON). Returns its number.
#[napi]
pub(crate) fn add_pool(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    pool: String,
    mut out: Float64Array,
) -> Result<u32, Code> {
    guard(|| {
        let kept = bare(&pool)?;
        let pool = NewPool::parse(&pool)?;
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::AddPool { options: kept });
            state.add_pool(time(now), &pool)
        })
    })
}

/// The store is not there any more; what was known of it is void at once.
#[napi]
pub(crate) fn remove_pool(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    pool: u32,
    mut out: Float64Array,
) -> Result<bool, Code> {
    guard(|| {
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::RemovePool { pool });
            Ok(state.remove_pool(time(now), pool))
        })
    })
}

/// Numbers and names of the stores that are there, as JSON.
#[napi]
pub(crate) fn pools(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
) -> Result<String, Code> {
    guard(|| {
        Ok(handle.look(|state| {
            let all = state.pools.known.iter();
            let all = all.map(|(number, pool)| json!({ "number": number, "id": pool.name }));
            Value::Array(all.collect()).to_string()
        }))
    })
}

/// Keys of some objects that are there by the store's events; null when the store is gone.
#[napi]
pub(crate) fn pool_sample(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    pool: u32,
    most: u32,
) -> Result<Option<Vec<String>>, Code> {
    guard(|| {
        Ok(handle.look(|state| {
            let pool = state.pools.known.get(&pool)?;
            Some(pool.rules.sample.next(most as usize))
        }))
    })
}

/// What a store has answered to who asked it: whether it publishes events, and which of `asked` keys it does
/// not have, at the second look. Returns false when the store is gone.
#[napi]
pub(crate) fn pool_told(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    pool: u32,
    publishes: Option<bool>,
    asked: u32,
    gone: Vec<String>,
    mut out: Float64Array,
) -> Result<bool, Code> {
    guard(|| {
        handle.call(room(&mut out)?, |state, _| {
            let answer = (publishes, asked as usize);
            let told = state.pool_told(time(now), pool, answer, &gone);
            state.hear(time(now), IDLE_SLICE);
            Ok(told.is_some())
        })
    })
}
