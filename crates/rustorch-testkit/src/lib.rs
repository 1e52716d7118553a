//! Conformance suite and scripted fake devices for testing RusTorch backends and the executor.
