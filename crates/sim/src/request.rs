//! What is asked of the engine, reduced to what the model needs: lengths and block identities.
//!
//! The tokens themselves are not kept. Each complete block of prompt and answer gets a chain hash
//! (its own tokens and everything before it), computed once here in O(tokens). The answer's tokens
//! are part of the request, because a model that decides them beforehand lets the next prompt hit
//! the blocks of this answer. The hash is the simulator's own and not the router's, on purpose: a
//! double that shared the code it checks would share its mistakes. It trusts 64 bits to tell blocks
//! apart; it is no defence against chosen collisions.
use std::fmt;

use crate::random::mix;

/// One request, ready to be submitted to engines of one block size.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) id: u64,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    pub(crate) hashes: Box<[u64]>,
}

/// Why a request cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// There is nothing to compute.
    EmptyPrompt,
    /// An engine always makes at least one token.
    EmptyOutput,
    /// Prompt and answer together exceed 2^31 tokens.
    TooLong,
    /// A request with this id is still in the engine.
    DuplicateId(u64),
    /// A block size of 0.
    BlockSize,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyPrompt => f.write_str("the prompt must have at least one token"),
            Self::EmptyOutput => f.write_str("the output must have at least one token"),
            Self::TooLong => f.write_str("prompt and output must be at most 2^31 tokens together"),
            Self::DuplicateId(id) => write!(f, "request {id} is still in the engine"),
            Self::BlockSize => f.write_str("the block size must be at least 1"),
        }
    }
}

impl std::error::Error for RequestError {}

impl Request {
    /// A request whose answer will be exactly `output`. O(tokens).
    pub fn new(
        id: u64,
        prompt: &[u32],
        output: &[u32],
        block_size: u32,
    ) -> Result<Self, RequestError> {
        let (prompt_len, output_len) = lengths(prompt.len(), output.len())?;
        if block_size == 0 {
            return Err(RequestError::BlockSize);
        }
        let hashes = chain(prompt.iter().chain(output).copied(), block_size);
        Ok(Self {
            id,
            prompt: prompt_len,
            output: output_len,
            hashes,
        })
    }

    /// A request with an answer of `output` tokens that no other request's answer equals; `seed`
    /// makes them, so the same seed gives the same tokens. O(tokens).
    pub fn drawn(
        id: u64,
        prompt: &[u32],
        output: u32,
        seed: u64,
        block_size: u32,
    ) -> Result<Self, RequestError> {
        let tokens: Vec<u32> = (0..u64::from(output))
            .map(|i| (mix(seed.wrapping_add(i.wrapping_mul(STEP))) >> 32) as u32)
            .collect();
        Self::new(id, prompt, &tokens, block_size)
    }

    /// A request whose block identities were computed elsewhere, one for each complete block from
    /// the first token on; blocks without one are computed but never reused. O(1).
    pub fn from_hashes(
        id: u64,
        prompt: u32,
        output: u32,
        hashes: Box<[u64]>,
    ) -> Result<Self, RequestError> {
        lengths(prompt as usize, output as usize)?;
        Ok(Self {
            id,
            prompt,
            output,
            hashes,
        })
    }
}

fn lengths(prompt: usize, output: usize) -> Result<(u32, u32), RequestError> {
    const MOST: usize = 1 << 31;
    match (prompt, output) {
        (0, _) => Err(RequestError::EmptyPrompt),
        (_, 0) => Err(RequestError::EmptyOutput),
        (p, o) if p > MOST || o > MOST || p + o > MOST => Err(RequestError::TooLong),
        (p, o) => Ok((p as u32, o as u32)),
    }
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// One hash a complete block, each over all tokens up to its end.
fn chain(tokens: impl Iterator<Item = u32>, block_size: u32) -> Box<[u64]> {
    let mut hashes = Vec::new();
    let mut state = STEP;
    let mut filled = 0;
    for token in tokens {
        // Odd multiplier and xor-shift are both invertible: a step loses nothing of the state.
        state = (state ^ u64::from(token)).wrapping_mul(STEP);
        state ^= state >> 32;
        filled += 1;
        if filled == block_size {
            state = mix(state);
            hashes.push(state);
            filled = 0;
        }
    }
    hashes.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_known_by_everything_before_it() {
        let of = |tokens: &[u32]| chain(tokens.iter().copied(), 2);
        assert_eq!(of(&[1, 2, 3, 4, 5]).len(), 2);
        assert_eq!(of(&[1, 2, 3, 4])[..1], of(&[1, 2, 9, 9])[..1]);
        assert_ne!(of(&[1, 2, 3, 4])[1], of(&[2, 1, 3, 4])[1]);
        assert_ne!(of(&[0, 0, 0, 0])[0], of(&[0, 0, 0, 0])[1]);
    }

    #[test]
    fn empty_parts_are_refused() {
        assert_eq!(
            Request::new(1, &[], &[1], 16).unwrap_err(),
            RequestError::EmptyPrompt
        );
        assert_eq!(
            Request::new(1, &[1], &[], 16).unwrap_err(),
            RequestError::EmptyOutput
        );
        assert_eq!(
            Request::new(1, &[1], &[1], 0).unwrap_err(),
            RequestError::BlockSize
        );
        let long = Request::from_hashes(1, u32::MAX, 1, Box::default());
        assert_eq!(long.unwrap_err(), RequestError::TooLong);
    }
}
