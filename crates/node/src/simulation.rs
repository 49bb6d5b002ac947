//! The native face of the engine model.
