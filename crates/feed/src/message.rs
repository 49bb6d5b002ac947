//! What number does a message have, and what does it say?

/// A numbered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its number.
    pub sequence: u64,
    /// What it says.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads the parts of a message from the last one back: before them stand a topic, an empty part, or
    /// both, depending on who sent it and when that was built. A number may be longer than 8 bytes.
    #[must_use]
    pub fn parse(parts: &'a [Vec<u8>]) -> Option<Self> {
        let [.., sequence, payload] = parts else {
            return None;
        };
        Some(Self {
            sequence: u64::from_be_bytes(*sequence.first_chunk()?),
            payload,
        })
    }

    /// Whether it is the end of a replay.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.sequence == u64::MAX
    }
}
