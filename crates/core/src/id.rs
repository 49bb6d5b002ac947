//! Names of things that cross rooms: small integers with a type, so that a worker is never taken
//! for a target. None of them carries meaning beyond identity.

/// A point in time or a duration, in microseconds. The origin is the caller's; the core only
/// compares and subtracts, and treats a time that goes backwards as "no time has passed".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// `n` milliseconds; saturates.
    #[must_use]
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` seconds; saturates.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// The sum; saturates at the end of time.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The time from `earlier` to this; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// Declares a small integer with a type of its own.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index into a dense table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// One engine replica or one hosted deployment. Never reused while the scheduler lives.
    WorkerId(u32)
}
id! {
    /// Workers that can serve the same model. A worker belongs to exactly one group.
    GroupId(u32)
}
id! {
    /// What a request is sent to: a model as served by a group.
    TargetId(u32)
}
id! {
    /// Where blocks live: one (worker, rank, tier). Given out by the prefix index.
    PlaceId(u32)
}
id! {
    /// One chain of turns as admission sees it: a session, or a concurrent branch of one.
    ProgramId(u64)
}
id! {
    /// What a turn occupies from submit until its end. Below 2^53, so that a JS number can hold it.
    ReservationId(u64)
}
