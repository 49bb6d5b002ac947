//! Changes of the fleet: groups, targets and workers come, workers go and change their health.
//!
//! Rare, so each may cost O(turns): holds that nobody is left to take are failed at once, and every
//! room that knows workers is told.

use std::collections::BTreeSet;

use hashbrown::HashSet;

use crate::error::Result;
use crate::id::{GroupId, Micros, PlaceId, TargetId, WorkerId};
use crate::load::Untracked;
use crate::prefix::{PlaceOptions, Tier};

use super::Scheduler;
use super::config::{GroupOptions, UNKNOWN_TTL, WorkerOptions};
use super::pace::Pace;
use super::topology::{CacheScope, Health, Worker};
use super::turn::Settled;

impl Scheduler {
    /// Adds an empty group.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a block of no tokens.
    pub fn add_group(&mut self, now: Micros, options: GroupOptions) -> Result<GroupId> {
        self.set_time(now);
        let id = self.topology.add_group(options)?;
        let weights = &self.config.weights;
        self.admission.push(self.config.admission.policy(weights)?);
        let queue = &self.config.queue;
        self.gates.push(self.config.gates.gates(queue, weights)?);
        self.paces.push(Pace::default());
        Ok(id)
    }

    /// Adds a target that `group` serves.
    ///
    /// # Errors
    /// `DUPLICATE_ID`, `UNKNOWN_ID`, `INVALID_ARGUMENT`.
    pub fn add_target(&mut self, name: &str, group: GroupId) -> Result<TargetId> {
        self.topology.add_target(name, group)
    }

    /// Says what a target's prompts share in the caches of its workers. To be called before its first
    /// turn.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such target.
    pub fn set_cache_scope(&mut self, target: TargetId, scope: CacheScope) -> Result<()> {
        self.topology.set_cache_scope(target, scope)
    }

    /// The target takes no new turns, and its name may be used again. Turns that it has, held ones
    /// too, go on; sessions that are bound to it are bound anew by their next turn, and what leans on
    /// ids that it has issued is passed over, which the receipt says. O(1).
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such target (any more).
    pub fn remove_target(&mut self, id: TargetId) -> Result<()> {
        self.topology.remove_target(id)
    }

    /// Adds a worker; turns may go to it at once. O(turns + workers of its group).
    ///
    /// # Errors
    /// `DUPLICATE_ID`, `UNKNOWN_ID`, `INVALID_ARGUMENT`.
    pub fn add_worker(
        &mut self,
        now: Micros,
        options: WorkerOptions,
        settled: &mut Vec<Settled>,
    ) -> Result<WorkerId> {
        let group = options.group;
        self.advance(now, settled);
        let id = self.register(options)?;
        self.fleet_changed(group, settled);
        Ok(id)
    }

    /// Adds many at once, in their order. O(turns + workers) for each group, however many come.
    ///
    /// # Errors
    /// As [`Scheduler::add_worker`]; those before the one that is refused are there then.
    pub fn add_workers(
        &mut self,
        now: Micros,
        workers: impl IntoIterator<Item = WorkerOptions>,
        settled: &mut Vec<Settled>,
    ) -> Result<Vec<WorkerId>> {
        self.advance(now, settled);
        let mut groups = BTreeSet::new();
        let added = workers.into_iter().map(|options| {
            groups.insert(options.group);
            self.register(options)
        });
        let added = added.collect();
        for group in groups {
            if group.index() < self.topology.groups() {
                self.fleet_changed(group, settled);
            }
        }
        added
    }

    /// Another worker takes the place and the name of one that is there, in one step: whoever waits for
    /// the group does not find it empty. The old one is gone as with [`Health::Removed`]. Returns the
    /// number of the new one. O(turns + workers of the groups).
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such worker (any more); `INVALID_ARGUMENT`. Nothing has changed then.
    pub fn replace_worker(
        &mut self,
        now: Micros,
        old: WorkerId,
        options: WorkerOptions,
        settled: &mut Vec<Settled>,
    ) -> Result<WorkerId> {
        self.advance(now, settled);
        let (name, left) = {
            let worker = self.topology.present(old)?;
            (worker.name.clone(), worker.group)
        };
        let options = WorkerOptions { name, ..options };
        self.topology.check_worker(&options)?;
        let joined = options.group;
        self.forget(old)?;
        let id = self.register(options)?;
        self.fleet_changed(joined, settled);
        if left != joined {
            self.fleet_changed(left, settled);
        }
        Ok(id)
    }

    /// Says how many tokens a worker's cache holds, or that it is not known any more. What the router
    /// believes to be there beyond that is forgotten, oldest first, and turns that now have room start.
    /// O(turns + what is forgotten).
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such worker (any more); `INVALID_ARGUMENT` for none at all.
    pub fn set_capacity(
        &mut self,
        now: Micros,
        id: WorkerId,
        capacity_tokens: Option<u64>,
        settled: &mut Vec<Settled>,
    ) -> Result<()> {
        self.advance(now, settled);
        let (group, place) = {
            let worker = self.topology.set_capacity(id, capacity_tokens)?;
            (worker.group, worker.place)
        };
        let terms = self.place_options(group, capacity_tokens);
        self.prefix.set_ttl(place, terms.ttl);
        self.prefix.set_capacity(place, terms.capacity_tokens);
        self.looks.doubt(self.now, id);
        self.fleet_changed(group, settled);
        self.look_at_homes(settled);
        Ok(())
    }

    /// Says what a worker does that did not come through here. Counts as load from the next decision on;
    /// turns that now have room start. O(1), and O(turns + workers of the group) when it is less.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such worker (any more).
    pub fn set_untracked(
        &mut self,
        now: Micros,
        id: WorkerId,
        untracked: Untracked,
        settled: &mut Vec<Settled>,
    ) -> Result<()> {
        self.advance(now, settled);
        let group = self.topology.present(id)?.group;
        let before = self.load.set_untracked(id, untracked);
        if untracked.tokens < before.tokens || untracked.requests < before.requests {
            self.fleet_changed(group, settled);
        }
        Ok(())
    }

    /// A worker that admission has not heard of yet.
    fn register(&mut self, options: WorkerOptions) -> Result<WorkerId> {
        self.topology.check_worker(&options)?;
        let worker = Worker {
            name: options.name,
            group: options.group,
            health: Health::Up,
            capacity_tokens: options.capacity_tokens,
            place: PlaceId::default(),
            feed: None,
            since: self.now,
        };
        let terms = self.place_options(options.group, options.capacity_tokens);
        let prefix = &mut self.prefix;
        let add_place = |id| prefix.add_place(id, 0, Tier::Device, terms);
        let id = self.topology.add_worker(worker, add_place)?;
        self.load.add_worker(id);
        self.learnt.add(id, options.group);
        Ok(id)
    }

    /// Says whether a worker takes turns. `Removed` forgets its cache and its load as well; turns
    /// that it still answers end as usual.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such worker (any more).
    pub fn set_health(
        &mut self,
        now: Micros,
        id: WorkerId,
        health: Health,
        settled: &mut Vec<Settled>,
    ) -> Result<()> {
        self.advance(now, settled);
        self.change_health(id, health, settled)
    }

    /// The same, now.
    pub(super) fn change_health(
        &mut self,
        id: WorkerId,
        health: Health,
        settled: &mut Vec<Settled>,
    ) -> Result<()> {
        match health {
            Health::Removed => self.forget(id)?,
            _ => self.topology.set_health(id, health)?,
        }
        self.departures.forget(id);
        let group = self.topology.worker(id)?.group;
        self.fleet_changed(group, settled);
        Ok(())
    }

    /// Takes a worker out of every room but admission's.
    fn forget(&mut self, id: WorkerId) -> Result<()> {
        self.topology.set_health(id, Health::Removed)?;
        let place = self.topology.worker(id)?.place;
        self.paths.leave_all(&mut self.prefix, place);
        self.prefix.remove_place(place);
        self.departures.forget(id);
        self.drop_feed(id);
        self.load.remove_worker(id);
        self.learnt.remove(id);
        Ok(())
    }

    /// What a worker of that group and capacity is believed to keep of what the router sends there.
    pub(super) fn place_options(
        &self,
        group: GroupId,
        capacity_tokens: Option<u64>,
    ) -> PlaceOptions {
        let group = self.topology.groups.get(group.index());
        PlaceOptions {
            capacity_tokens,
            ttl: group
                .and_then(|group| group.ttl)
                .or(capacity_tokens.is_none().then_some(UNKNOWN_TTL)),
            matching: group.map(|group| group.matching).unwrap_or_default(),
            dropping: group.map(|group| group.dropping).unwrap_or_default(),
            ..PlaceOptions::default()
        }
    }

    /// Tells admission which workers of the group are up, and fails the holds that nobody is left
    /// to take. O(turns): the fleet changes rarely.
    fn fleet_changed(&mut self, group: GroupId, settled: &mut Vec<Settled>) {
        let live: Vec<(WorkerId, Option<u64>)> = self
            .topology
            .up(group)
            .map(|(id, worker)| (id, worker.capacity_tokens))
            .collect();
        self.admission[group.index()].set_workers(self.now, &live);
        if let Some(gates) = &mut self.gates[group.index()] {
            gates.set_workers(self.now, live.iter().map(|&(id, _)| id));
        }
        self.placer().tell_who_leaves(group);
        let up: HashSet<WorkerId> = live.iter().map(|&(id, _)| id).collect();
        let stranded = self.reservations.held_where(|reservation| {
            reservation.route.group == group
                && !reservation.route.is_waiting
                && reservation
                    .route
                    .pin
                    .map_or(live.is_empty(), |pin| !up.contains(&pin))
        });
        for id in stranded {
            self.strand(id, settled);
        }
        self.release(group.index(), Vec::new(), settled);
        self.owners_changed(group, settled);
        self.end_lost_leads(settled);
    }
}
