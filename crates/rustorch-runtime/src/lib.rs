//! The hybrid executor: chooses a device for every operation, falls back, and says why.
