//! The facade against written-out expectations.
