//! What takes the place of `wide` where there is no AVX2 to ask for: a proof that nobody can have.
use std::convert::Infallible;

use crate::Secret;
use crate::digest::Lanes;

/// Never there.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(Infallible);

impl Avx2 {
    pub(crate) const fn detect() -> Option<Self> {
        None
    }

    pub(crate) fn hash64(self, _: &[u8], _: &Secret) -> u64 {
        match self.0 {}
    }

    pub(crate) fn hash_each<'a>(
        self,
        _: impl Iterator<Item = &'a [u8]>,
        _: &Secret,
        _: impl FnMut(u64),
    ) {
        match self.0 {}
    }

    pub(crate) fn consume(self, _: &mut Lanes, _: &[[u8; 64]], _: &Secret) {
        match self.0 {}
    }

    pub(crate) fn finish128(self, _: &Lanes, _: &[u8; 64], _: u64, _: &Secret) -> u128 {
        match self.0 {}
    }
}
