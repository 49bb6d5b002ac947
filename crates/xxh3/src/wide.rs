//! How does XXH3 run on 256-bit vectors?
//!
//! Written from the published description of XXH3 for large inputs: eight lanes of 64 bits, two
//! vectors of four here; stripes of 64 bytes go into them, each under a key of 64 bytes that moves
//! through the secret by 8 bytes a stripe; after 16 stripes the lanes are scrambled; the last 64
//! bytes of the input go in once more at the end, under a key of their own; then pairs of lanes are
//! multiplied and folded.
//!
//! It only knows inputs above [`SHORT`] bytes; shorter ones are not its business.
//!
//! `unsafe` is needed for two things: for loads and stores through pointers, which take arrays of exactly the
//! vector's size, and for calling what is compiled for AVX2, which takes a value of [`Avx2`].
use std::arch::x86_64::{
    __m256i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_mul_epu32, _mm256_set_epi64x,
    _mm256_set1_epi64x, _mm256_shuffle_epi32, _mm256_slli_epi64, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_xor_si256,
};
use std::is_x86_feature_detected;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::digest::{Lanes, START};
use crate::{SHORT, Secret};

const P32: u64 = START[7];
const P64_1: u64 = START[1];
const P64_2: u64 = START[2];
const AVALANCHE: u64 = 0x1656_6791_9E37_79F9;

/// Stripes until the lanes are scrambled; the keys of these stripes start 8 bytes apart.
const STRIPES: usize = 16;

/// Where in the secret the keys of the other steps start.
mod key {
    pub(super) const SCRAMBLE: usize = 128;
    pub(super) const LAST_STRIPE: usize = 121;
    pub(super) const LOW: usize = 11;
    pub(super) const HIGH: usize = 117;
}

/// Proof that this machine has AVX2: without the check there is no value of this type.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Asks the machine; the standard library remembers the answer, so this is a load and a test.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// XXH3-64 of more than [`SHORT`] bytes.
    #[inline]
    pub(crate) fn hash64(self, bytes: &[u8], secret: &Secret) -> u64 {
        debug_assert!(bytes.len() > SHORT);
        // SAFETY: `self` proves that the machine has AVX2.
        unsafe { hash64(bytes, secret) }
    }

    /// XXH3-64 of each block, of any length.
    #[inline]
    pub(crate) fn hash_each<'a>(
        self,
        blocks: impl Iterator<Item = &'a [u8]>,
        secret: &Secret,
        out: impl FnMut(u64),
    ) {
        // SAFETY: `self` proves that the machine has AVX2.
        unsafe { hash_each(blocks, secret, out) }
    }

    /// Takes stripes in after which there is more input.
    #[inline]
    pub(crate) fn consume(self, lanes: &mut Lanes, stripes: &[[u8; 64]], secret: &Secret) {
        // SAFETY: `self` proves that the machine has AVX2.
        unsafe { consume(lanes, stripes, secret) }
    }

    /// XXH3-128 of an input of `total` bytes, more than [`SHORT`].
    #[inline]
    pub(crate) fn finish128(
        self,
        lanes: &Lanes,
        last: &[u8; 64],
        total: u64,
        secret: &Secret,
    ) -> u128 {
        // SAFETY: `self` proves that the machine has AVX2.
        unsafe { finish128(lanes, last, total, secret) }
    }
}

/// Eight lanes in registers.
#[derive(Clone, Copy)]
struct Wide([__m256i; 2]);

impl Wide {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; 64]) -> Self {
        let from = bytes.as_ptr().cast::<__m256i>();
        // SAFETY: both loads are inside of the 64 bytes and need no alignment.
        unsafe { Self([_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))]) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(lanes: &[u64; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = lanes.map(u64::cast_signed);
        let halves = [_mm256_set_epi64x(d, c, b, a), _mm256_set_epi64x(h, g, f, e)];
        Self(halves)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes(self) -> [u64; 8] {
        let mut lanes = [0_u64; 8];
        let to = lanes.as_mut_ptr().cast::<__m256i>();
        // SAFETY: both stores are inside of the eight lanes and need no alignment.
        unsafe {
            _mm256_storeu_si256(to, self.0[0]);
            _mm256_storeu_si256(to.add(1), self.0[1]);
        }
        lanes
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn accumulate(self, stripe: &[u8; 64], key: &[u8; 64]) -> Self {
        let (data, key) = (Self::load(stripe).0, Self::load(key).0);
        let half = |i: usize| {
            let keyed = _mm256_xor_si256(data[i], key[i]);
            let product = _mm256_mul_epu32(keyed, _mm256_srli_epi64::<32>(keyed));
            // The data itself goes to the neighbour lane.
            let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(data[i]);
            _mm256_add_epi64(product, _mm256_add_epi64(self.0[i], swapped))
        };
        Self([half(0), half(1)])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn scramble(self, key: &[u8; 64]) -> Self {
        let key = Self::load(key).0;
        let prime = _mm256_set1_epi64x(P32.cast_signed());
        let half = |i: usize| {
            let lane = self.0[i];
            let mixed = _mm256_xor_si256(
                _mm256_xor_si256(lane, _mm256_srli_epi64::<47>(lane)),
                key[i],
            );
            // 64 x 32 bits, in two multiplications of 32 x 32.
            let low = _mm256_mul_epu32(mixed, prime);
            let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(mixed), prime);
            _mm256_add_epi64(low, _mm256_slli_epi64::<32>(high))
        };
        Self([half(0), half(1)])
    }

    /// One half of the digest; `start` and the key tell which.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn merge(self, start: u64, key: &[u8; 64]) -> u64 {
        let key = Self::load(key).0;
        let keyed = [0, 1].map(|i: usize| _mm256_xor_si256(self.0[i], key[i]));
        let [a, b, c, d, e, f, g, h] = Self(keyed).lanes();
        let sum =
            (fold(a, b).wrapping_add(fold(c, d))).wrapping_add(fold(e, f).wrapping_add(fold(g, h)));
        avalanche(start.wrapping_add(sum))
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn avalanche(x: u64) -> u64 {
    let x = (x ^ (x >> 37)).wrapping_mul(AVALANCHE);
    x ^ (x >> 32)
}

/// The 64 bytes of the secret from `at` on, which is at most 128.
#[inline]
fn key_at(secret: &Secret, at: usize) -> &[u8; 64] {
    secret.bytes[at..]
        .first_chunk()
        .expect("keys start at 128 or before")
}

/// Takes in stripes of one block, the first being its stripe number `at`.
#[inline]
#[target_feature(enable = "avx2")]
fn accumulate(mut wide: Wide, at: usize, stripes: &[[u8; 64]], secret: &Secret) -> Wide {
    for (i, stripe) in stripes.iter().enumerate() {
        wide = wide.accumulate(stripe, key_at(secret, 8 * (at + i)));
    }
    wide
}

/// Takes in stripes from the start of a block on. There must be more input after them: a full block
/// is scrambled at once, and the last one of an input never is.
#[inline]
#[target_feature(enable = "avx2")]
fn accumulate_blocks(mut wide: Wide, stripes: &[[u8; 64]], secret: &Secret) -> Wide {
    let (blocks, rest) = stripes.as_chunks::<STRIPES>();
    for block in blocks {
        wide = accumulate(wide, 0, block, secret).scramble(key_at(secret, key::SCRAMBLE));
    }
    accumulate(wide, 0, rest, secret)
}

#[inline]
#[target_feature(enable = "avx2")]
fn finish64(wide: Wide, last: &[u8; 64], total: u64, secret: &Secret) -> u64 {
    let wide = wide.accumulate(last, key_at(secret, key::LAST_STRIPE));
    wide.merge(total.wrapping_mul(P64_1), key_at(secret, key::LOW))
}

#[target_feature(enable = "avx2")]
fn finish128(lanes: &Lanes, last: &[u8; 64], total: u64, secret: &Secret) -> u128 {
    let wide = Wide::of(&lanes.lanes).accumulate(last, key_at(secret, key::LAST_STRIPE));
    let low = wide.merge(total.wrapping_mul(P64_1), key_at(secret, key::LOW));
    let high = wide.merge(!total.wrapping_mul(P64_2), key_at(secret, key::HIGH));
    u128::from(high) << 64 | u128::from(low)
}

#[inline]
#[target_feature(enable = "avx2")]
fn long64(bytes: &[u8], secret: &Secret) -> u64 {
    let last = bytes.last_chunk().expect("longer than a stripe");
    // The last byte never goes in with the stripes: what is full may still be the end.
    let (stripes, _) = bytes[..bytes.len() - 1].as_chunks();
    let wide = accumulate_blocks(Wide::of(&START), stripes, secret);
    finish64(wide, last, bytes.len() as u64, secret)
}

/// A block of 64 tokens, the usual one: as [`long64`], without a loop.
#[inline]
#[target_feature(enable = "avx2")]
fn hash64_256(bytes: &[u8; 256], secret: &Secret) -> u64 {
    let [stripes @ .., last] = bytes.as_chunks().0 else {
        unreachable!("256 bytes are four stripes")
    };
    let wide = accumulate(Wide::of(&START), 0, stripes, secret);
    finish64(wide, last, 256, secret)
}

#[target_feature(enable = "avx2")]
fn hash64(bytes: &[u8], secret: &Secret) -> u64 {
    match <&[u8; 256]>::try_from(bytes) {
        Ok(block) => hash64_256(block, secret),
        Err(_) => long64(bytes, secret),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn hash_each<'a>(
    blocks: impl Iterator<Item = &'a [u8]>,
    secret: &Secret,
    mut out: impl FnMut(u64),
) {
    for block in blocks {
        out(match block.len() {
            ..=SHORT => xxh3_64_with_seed(block, secret.seed),
            _ => match <&[u8; 256]>::try_from(block) {
                Ok(block) => hash64_256(block, secret),
                Err(_) => long64(block, secret),
            },
        });
    }
}

#[target_feature(enable = "avx2")]
fn consume(lanes: &mut Lanes, stripes: &[[u8; 64]], secret: &Secret) {
    let mut wide = Wide::of(&lanes.lanes);
    let to_end = STRIPES - lanes.stripes;
    let rest = match stripes.split_at_checked(to_end) {
        None => {
            wide = accumulate(wide, lanes.stripes, stripes, secret);
            lanes.stripes += stripes.len();
            &[]
        }
        Some((end, rest)) => {
            wide = accumulate(wide, lanes.stripes, end, secret);
            wide = wide.scramble(key_at(secret, key::SCRAMBLE));
            lanes.stripes = rest.len() % STRIPES;
            rest
        }
    };
    lanes.lanes = accumulate_blocks(wide, rest, secret).lanes();
}
