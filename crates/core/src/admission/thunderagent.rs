//! The published ThunderAgent controller.
