//! The prefix index.
