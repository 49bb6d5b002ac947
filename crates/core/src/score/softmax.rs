//! Choosing among costs at random, with weights.
