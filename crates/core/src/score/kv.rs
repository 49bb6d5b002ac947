//! The KvRouter cost.
