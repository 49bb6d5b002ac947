//! What was in the messages that the index has no use for?

/// Something that was passed over, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// An event of a kind that is not known here.
    UnknownEvent,
    /// A field that is not known here; the event counts.
    UnknownField,
    /// An event whose fields are missing or of the wrong type.
    Malformed,
    /// A store whose tokens are not those of its blocks: masked or partial ones.
    Sparse,
    /// A store of token pairs, as engines that draft by pairs send.
    TokenPairs,
    /// An event of layers that see only a window or keep a state.
    OtherGroup,
    /// An event of a store that many share.
    Remote,
    /// An event of a medium that is not known here.
    UnknownMedium,
    /// An object whose key is none of a page.
    OtherObject,
    /// An object of another tenant.
    OtherTenant,
    /// An object of another model, or of another writer.
    OtherSpace,
}

impl Oddity {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::UnknownEvent,
        Self::UnknownField,
        Self::Malformed,
        Self::Sparse,
        Self::TokenPairs,
        Self::OtherGroup,
        Self::Remote,
        Self::UnknownMedium,
        Self::OtherObject,
        Self::OtherTenant,
        Self::OtherSpace,
    ];

    /// A stable name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownEvent => "unknown-event",
            Self::UnknownField => "unknown-field",
            Self::Malformed => "malformed",
            Self::Sparse => "sparse",
            Self::TokenPairs => "token-pairs",
            Self::OtherGroup => "other-group",
            Self::Remote => "remote",
            Self::UnknownMedium => "unknown-medium",
            Self::OtherObject => "other-object",
            Self::OtherTenant => "other-tenant",
            Self::OtherSpace => "other-space",
        }
    }
}

/// How often each [`Oddity`] was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: [u64; Oddity::ALL.len()],
}

impl Tally {
    /// How often.
    #[must_use]
    pub const fn of(&self, oddity: Oddity) -> u64 {
        self.counts[oddity as usize]
    }

    /// Each kind that was met, and how often.
    pub fn met(&self) -> impl Iterator<Item = (Oddity, u64)> {
        let all = Oddity::ALL.into_iter().zip(self.counts);
        all.filter(|&(_, count)| count > 0)
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in self.counts.iter_mut().zip(other.counts) {
            *own += more;
        }
    }

    /// One more.
    pub fn count(&mut self, oddity: Oddity) {
        self.counts[oddity as usize] += 1;
    }
}
