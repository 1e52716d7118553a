//! The CPU device of RusTorch: complete reference and first-class engine.
