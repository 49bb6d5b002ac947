//! Tokens or text to block hashes.
