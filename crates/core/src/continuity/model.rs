//! What is known of a model: how strong it is, what it costs, how much it can read.

use std::ops::{Add, AddAssign, Mul};

use crate::{Error, Result};

/// US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Usd(pub f64);

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Mul<f64> for Usd {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }
}

/// How good a model's answers are, as a share in [0, 1].
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Quality(f64);

impl Quality {
    /// # Errors
    /// `INVALID_ARGUMENT` outside [0, 1].
    pub fn new(share: f64) -> Result<Self> {
        if (0.0..=1.0).contains(&share) {
            return Ok(Self(share));
        }
        let detail = format!("quality is {share}; it must be in [0, 1]");
        Err(Error::invalid_argument(detail))
    }

    /// The share.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// How strong a model is among those that a client may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// Enough for what is easy.
    Small,
    /// Enough for most.
    #[default]
    Middle,
    /// For what is hard.
    Large,
}

impl Grade {
    /// All, the weakest first.
    pub const ALL: [Self; 3] = [Self::Small, Self::Middle, Self::Large];

    /// The quality that a model of this grade is taken to have when nobody says otherwise: those of
    /// the published experiment.
    #[must_use]
    pub const fn quality(self) -> Quality {
        Quality(match self {
            Self::Small => 0.64,
            Self::Middle => 0.78,
            Self::Large => 0.94,
        })
    }

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Prices in US dollars per million tokens, each finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    input: f64,
    cached: f64,
    write: f64,
    output: f64,
}

/// Dollars a token are this part of dollars a million tokens.
const MILLION: f64 = 1e6;

impl Prices {
    /// `input` is what uncached prompt tokens cost where nothing is written to a cache, `cached` what is
    /// read from it, `write` what is read and written.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` names the price that is negative or no number.
    pub fn new(input: f64, cached: f64, write: f64, output: f64) -> Result<Self> {
        let named = [
            ("input", input),
            ("cached", cached),
            ("write", write),
            ("output", output),
        ];
        let bad = named.iter().find(|(_, p)| !(0.0..f64::MAX).contains(p));
        if let Some((name, price)) = bad {
            let detail = format!("{name} price is {price}; it must be at least 0 and finite");
            return Err(Error::invalid_argument(detail));
        }
        Ok(Self {
            input,
            cached,
            write,
            output,
        })
    }

    /// Prices of a model whose cache is not known: nothing is cheaper for being cached.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn without_cache(input: f64, output: f64) -> Result<Self> {
        Self::new(input, input, input, output)
    }

    /// Uncached input, $ per million tokens.
    #[must_use]
    pub const fn input(&self) -> f64 {
        self.input
    }

    /// Input that is read from a cache, $ per million tokens.
    #[must_use]
    pub const fn cached(&self) -> f64 {
        self.cached
    }

    /// Input that is written to a cache, $ per million tokens.
    #[must_use]
    pub const fn write(&self) -> f64 {
        self.write
    }

    /// Output, $ per million tokens.
    #[must_use]
    pub const fn output(&self) -> f64 {
        self.output
    }

    /// What leaving a warm cache costs a million tokens: the checkout.
    #[must_use]
    pub fn checkout(&self) -> f64 {
        (self.write - self.cached).max(0.0)
    }

    /// A prompt of which `warm` tokens are read from the cache and `cold` ones are written to it.
    #[must_use]
    pub fn prompt(&self, warm: f64, cold: f64) -> Usd {
        Usd((warm * self.cached + cold * self.write) / MILLION)
    }

    /// An answer of so many tokens.
    #[must_use]
    pub fn answer(&self, tokens: f64) -> Usd {
        Usd(tokens * self.output / MILLION)
    }

    /// The numbers, for a fingerprint.
    pub(super) const fn list(&self) -> [f64; 4] {
        [self.input, self.cached, self.write, self.output]
    }
}

/// A model as a policy sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// How strong it is.
    pub grade: Grade,
    /// How good its answers are.
    pub quality: Quality,
    /// What it costs; `None` when nobody has said. It is then taken to be free, and the receipt says so.
    pub prices: Option<Prices>,
    /// Tokens of prompt and answer that it can read; `None` when unknown.
    pub context_tokens: Option<u32>,
    /// What it cannot take.
    pub lacks: Abilities,
}

/// What not every model can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Images in the prompt.
    pub images: bool,
    /// Tools that it may call.
    pub tools: bool,
}

impl Abilities {
    /// Whether there is one that both name.
    #[must_use]
    pub const fn meet(self, other: Self) -> bool {
        self.images && other.images || self.tools && other.tools
    }
}

impl Model {
    /// A model of this grade with its usual quality.
    #[must_use]
    pub const fn of(grade: Grade, prices: Prices) -> Self {
        Self {
            grade,
            quality: grade.quality(),
            prices: Some(prices),
            context_tokens: None,
            lacks: Abilities {
                images: false,
                tools: false,
            },
        }
    }
}
