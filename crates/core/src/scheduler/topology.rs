//! The fleet: groups, targets, workers and their health. Small tables indexed by id; a worker that
//! was removed leaves its id behind unused.

use std::num::NonZeroU32;

use hashbrown::HashMap;

use crate::block::{Namespace, TokenRate};
use crate::continuity::{Fleet, Presence};
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, PlaceId, TargetId, WorkerId};
use crate::prefix::{Dropping, Matching};

use super::config::{GroupOptions, WorkerOptions};
use super::feed::Feed;
use super::pools::SharedPool;
use super::turn::{Prompt, Turn};

/// Whether a worker takes turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It does.
    #[default]
    Up,
    /// It finishes what it has and takes nothing new.
    Draining,
    /// It does not answer.
    Down,
    /// It takes nothing from us for a while, because of a quota or of our credentials: sessions move away.
    Limited,
    /// It is gone for good.
    Removed,
}

/// One engine replica or hosted deployment.
#[derive(Clone, Debug)]
pub struct Worker {
    /// What an operator calls it.
    pub name: String,
    /// The group it serves in.
    pub group: GroupId,
    /// Whether it takes turns.
    pub health: Health,
    /// Tokens that its cache holds.
    pub capacity_tokens: Option<u64>,
    /// What the router's own decisions leave there.
    pub(super) place: PlaceId,
    /// What its engine tells.
    pub(super) feed: Option<Box<Feed>>,
    /// When it was registered.
    pub(super) since: Micros,
}

/// A model as served by a group.
#[derive(Clone, Debug)]
pub struct Target {
    /// What an operator calls it.
    pub name: String,
    /// Who serves it.
    pub group: GroupId,
    /// What its prompts share in the caches of its workers.
    pub(super) scope: CacheScope,
    /// It takes no turns any more; what it has goes on.
    pub is_removed: bool,
}

/// What a target's prompts share in the caches of its workers. Default: everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheScope {
    /// Targets of one namespace share what is cached of their prompts; those of two models have two.
    pub namespace: Namespace,
    /// Who shares it.
    pub shared_by: SharedBy,
}

/// Whose prompts may read what was cached of each other's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedBy {
    /// Everybody's.
    #[default]
    All,
    /// Those of one tenant, as where each sends a credential of its own to a hosted provider.
    Tenant,
}

/// What sets a turn apart in a cache beside the target that it goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Apart {
    salt: Namespace,
    tenant: Namespace,
}

impl Apart {
    pub(super) fn of(turn: &Turn<'_>) -> Self {
        let named = |kind: &[u8], name: &[u8]| match name {
            [] => Namespace::COMMON,
            name => Namespace::of(&[kind, name]),
        };
        Self {
            // The hash of the first of a prompt's tokens has it.
            salt: match turn.prompt {
                Prompt::Tokens(_) => Namespace::COMMON,
                _ => named(b"salt", turn.cache_salt),
            },
            tenant: named(b"tenant", turn.tenant.as_bytes()),
        }
    }

    /// The same for tokens of a turn whose prompt is text.
    pub(super) fn of_tokens(self) -> Self {
        Self {
            salt: Namespace::COMMON,
            ..self
        }
    }
}

/// Workers that can serve the same model.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) workers: Vec<WorkerId>,
    pub(super) block_tokens: NonZeroU32,
    pub(super) ttl: Option<Micros>,
    pub(super) matching: Matching,
    pub(super) dropping: Dropping,
    pub(super) rate: TokenRate,
    /// What its engines share.
    pub(super) pool: Option<Box<SharedPool>>,
}

/// Groups, targets and workers.
#[derive(Debug, Default)]
pub struct Topology {
    pub(super) groups: Vec<Group>,
    targets: Vec<Target>,
    workers: Vec<Worker>,
    /// Those that have not been removed, by name.
    targets_named: HashMap<String, TargetId>,
    workers_named: HashMap<String, WorkerId>,
    epoch: u32,
}

impl Topology {
    /// Grows with every change, so that a caller knows when to read again.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Every worker ever registered, by id.
    #[must_use]
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Every target ever registered, by id.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// How many groups there are.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The worker.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when it was never registered.
    pub fn worker(&self, id: WorkerId) -> Result<&Worker> {
        self.workers
            .get(id.index())
            .ok_or_else(|| Error::unknown_id(format!("no worker has number {}", id.0)))
    }

    /// The worker, if it was ever registered.
    pub(super) fn worker_mut(&mut self, id: WorkerId) -> Option<&mut Worker> {
        self.workers.get_mut(id.index())
    }

    /// The target.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when it was never registered.
    pub fn target(&self, id: TargetId) -> Result<&Target> {
        self.targets
            .get(id.index())
            .ok_or_else(|| Error::unknown_id(format!("no target has number {}", id.0)))
    }

    pub(super) fn add_group(&mut self, options: GroupOptions) -> Result<GroupId> {
        let block_tokens = NonZeroU32::new(options.block_tokens)
            .ok_or_else(|| Error::invalid_argument("block_tokens is 0; it must be at least 1"))?;
        let id = GroupId(number(self.groups.len())?);
        self.groups.push(Group {
            workers: Vec::new(),
            block_tokens,
            ttl: options.ttl,
            matching: options.matching,
            dropping: options.dropping,
            rate: TokenRate::default(),
            pool: None,
        });
        self.epoch += 1;
        Ok(id)
    }

    pub(super) fn add_target(&mut self, name: &str, group: GroupId) -> Result<TargetId> {
        self.check_group(group)?;
        check_name("target", name, self.target_named(name).is_some())?;
        let id = TargetId(number(self.targets.len())?);
        self.targets_named.insert(name.to_owned(), id);
        self.targets.push(Target {
            name: name.to_owned(),
            group,
            scope: CacheScope::default(),
            is_removed: false,
        });
        self.epoch += 1;
        Ok(id)
    }

    pub(super) fn set_cache_scope(&mut self, id: TargetId, scope: CacheScope) -> Result<()> {
        self.target(id)?;
        self.targets[id.index()].scope = scope;
        Ok(())
    }

    /// Its name may be used again.
    pub(super) fn remove_target(&mut self, id: TargetId) -> Result<()> {
        let target = self.targets.get_mut(id.index());
        let Some(target) = target.filter(|target| !target.is_removed) else {
            return Err(Error::unknown_id(format!("no target has number {}", id.0)));
        };
        target.is_removed = true;
        self.targets_named.remove(&target.name);
        self.epoch += 1;
        Ok(())
    }

    /// The target of that name, unless it has been removed.
    #[must_use]
    pub fn target_named(&self, name: &str) -> Option<TargetId> {
        self.targets_named.get(name).copied()
    }

    /// The worker of that name, unless it has been removed.
    #[must_use]
    pub fn worker_named(&self, name: &str) -> Option<WorkerId> {
        self.workers_named.get(name).copied()
    }

    /// Registers a worker whose place is not known yet; `place` follows from the id.
    pub(super) fn add_worker(
        &mut self,
        worker: Worker,
        place: impl FnOnce(WorkerId) -> Result<PlaceId>,
    ) -> Result<WorkerId> {
        check_name(
            "worker",
            &worker.name,
            self.worker_named(&worker.name).is_some(),
        )?;
        let id = WorkerId(number(self.workers.len())?);
        let place = place(id)?;
        self.groups[worker.group.index()].workers.push(id);
        self.workers_named.insert(worker.name.clone(), id);
        self.workers.push(Worker { place, ..worker });
        self.epoch += 1;
        Ok(id)
    }

    /// What is wrong with a worker in itself, whatever its name.
    pub(super) fn check_worker(&self, options: &WorkerOptions) -> Result<()> {
        self.check_group(options.group)?;
        check_capacity(&options.name, options.capacity_tokens)
    }

    /// A worker that has not been removed.
    pub(super) fn present(&self, id: WorkerId) -> Result<&Worker> {
        let worker = self.workers.get(id.index());
        worker
            .filter(|worker| worker.health != Health::Removed)
            .ok_or_else(|| Error::unknown_id(format!("no worker has number {}", id.0)))
    }

    pub(super) fn set_capacity(&mut self, id: WorkerId, tokens: Option<u64>) -> Result<&Worker> {
        check_capacity(&self.present(id)?.name, tokens)?;
        let worker = &mut self.workers[id.index()];
        worker.capacity_tokens = tokens;
        Ok(worker)
    }

    /// Sets the health of a worker that has not been removed; a removed one leaves its group.
    pub(super) fn set_health(&mut self, id: WorkerId, health: Health) -> Result<()> {
        self.present(id)?;
        let worker = &mut self.workers[id.index()];
        if worker.health == health {
            return Ok(());
        }
        worker.health = health;
        if health == Health::Removed {
            let group = worker.group.index();
            self.workers_named.remove(&worker.name);
            self.groups[group].workers.retain(|&other| other != id);
        }
        self.epoch += 1;
        Ok(())
    }

    /// Whose cached blocks a turn may read at the target.
    pub(super) fn namespace(&self, target: TargetId, apart: Apart) -> Namespace {
        let scope = self.targets[target.index()].scope;
        let own = scope.namespace.and(apart.salt);
        match scope.shared_by {
            SharedBy::All => own,
            SharedBy::Tenant => own.and(apart.tenant),
        }
    }

    /// The workers of a group that take turns.
    pub(super) fn up(&self, group: GroupId) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.groups[group.index()]
            .workers
            .iter()
            .map(|&id| (id, &self.workers[id.index()]))
            .filter(|(_, worker)| worker.health == Health::Up)
    }

    fn check_group(&self, group: GroupId) -> Result<()> {
        if group.index() < self.groups.len() {
            return Ok(());
        }
        Err(Error::unknown_id(format!(
            "no group has number {}",
            group.0
        )))
    }
}

impl Fleet for Topology {
    fn can_serve(&self, target: TargetId) -> bool {
        self.targets
            .get(target.index())
            .filter(|target| !target.is_removed)
            .is_some_and(|target| self.up(target.group).next().is_some())
    }

    /// A worker that was added again under its name is another one: it does not have what was kept.
    fn presence(&self, target: TargetId, pin: Option<WorkerId>) -> Presence {
        let target = self.targets.get(target.index());
        let Some(target) = target.filter(|target| !target.is_removed) else {
            return Presence::Gone;
        };
        let workers = self.groups[target.group.index()].workers.iter();
        let may = workers.filter(|&&id| pin.is_none_or(|pin| pin == id));
        let mut presence = Presence::Gone;
        for id in may {
            match self.workers[id.index()].health {
                Health::Up => return Presence::Here,
                Health::Draining | Health::Down => presence = Presence::Away,
                Health::Limited if presence == Presence::Gone => presence = Presence::Limited,
                Health::Limited => {}
                Health::Removed => {}
            }
        }
        presence
    }
}

fn number(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| Error::invalid_argument("too many"))
}

fn check_capacity(name: &str, tokens: Option<u64>) -> Result<()> {
    if tokens == Some(0) {
        return Err(Error::invalid_argument(format!(
            "capacity_tokens of worker \"{name}\" is 0; leave it out when it is not known"
        )));
    }
    Ok(())
}

fn check_name(what: &str, name: &str, is_taken: bool) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid_argument(format!("a {what} without a name")));
    }
    if is_taken {
        return Err(Error::duplicate_id(format!(
            "there is a {what} called \"{name}\" already"
        )));
    }
    Ok(())
}
