//! How is a page of a shared store cut into objects?
use std::num::NonZeroU32;

use crate::error::{Error, Result};

/// The most objects of one page.
pub const MAX_PARTS: u32 = 1_024;

/// Into how many a page is cut, by kind; the objects of a page are all combinations. Of latent attention,
/// where every tensor-parallel rank has the same, `tensor` is 1 and so is `halves`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Tensor-parallel ranks.
    pub tensor: NonZeroU32,
    /// Pipeline ranks.
    pub pipeline: NonZeroU32,
    /// Ranks of prefill context parallelism.
    pub prefill_context: NonZeroU32,
    /// Ranks of decode context parallelism.
    pub decode_context: NonZeroU32,
    /// Cache groups.
    pub groups: NonZeroU32,
    /// 2 where keys and values are objects of their own.
    pub halves: NonZeroU32,
}

/// Which object of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// Tensor-parallel rank.
    pub tensor: u32,
    /// Pipeline rank.
    pub pipeline: u32,
    /// Rank of prefill context parallelism.
    pub prefill_context: u32,
    /// Rank of decode context parallelism.
    pub decode_context: u32,
    /// Cache group.
    pub group: u32,
    /// 1 for values that are an object of their own.
    pub half: u32,
}

impl Default for Layout {
    fn default() -> Self {
        let one = NonZeroU32::MIN;
        Self {
            tensor: one,
            pipeline: one,
            prefill_context: one,
            decode_context: one,
            groups: one,
            halves: one,
        }
    }
}

impl Layout {
    fn dimensions(&self) -> [u32; 6] {
        [
            self.tensor.get(),
            self.pipeline.get(),
            self.prefill_context.get(),
            self.decode_context.get(),
            self.groups.get(),
            self.halves.get(),
        ]
    }

    /// Objects of a page.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for more than [`MAX_PARTS`].
    pub fn parts(&self) -> Result<u32> {
        let all = self
            .dimensions()
            .into_iter()
            .try_fold(1_u32, u32::checked_mul);
        all.filter(|&all| all <= MAX_PARTS).ok_or_else(|| {
            Error::invalid_argument(format!("a page has at most {MAX_PARTS} objects"))
        })
    }

    /// The number of an object among those of its page; `None` where the layout has no such part.
    #[must_use]
    pub fn number(&self, part: &Part) -> Option<u32> {
        let at = [
            part.tensor,
            part.pipeline,
            part.prefill_context,
            part.decode_context,
            part.group,
            part.half,
        ];
        let mut pairs = self.dimensions().into_iter().zip(at);
        pairs.try_fold(0, |number, (size, at)| {
            (at < size).then(|| number * size + at)
        })
    }
}
