//! Grouping of rows of activations that selected the same expert, so that they share its matrix in one tile.

use crate::Hardware;
use crate::plan::parameters::parameters;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::DType;

/// Choices of a tile.
pub(super) const TILE: usize = 4;

/// What stands where a tile has no choice.
pub(super) const NONE: &str = "0xffffffffu";

/// The kernel: a thread for each expert goes through the choices and puts its own into tiles, in order. The table has as many
/// rows of `TILE` words as there are choices. A tile stands in the row of its first choice, as the choices' numbers, and
/// `NONE` where it has fewer; rows of choices that are in another one's tile begin with `NONE`, and the rest of them means nothing.
///
/// One thread more has the choices of experts that do not exist. Matmuls note these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The dtype of the choices.
    pub(super) choices: DType,
}

parameters! {
    /// Kernel parameters.
    pub(super) struct GroupParams() {
        rows: usize,
        experts: usize,
        start: u32,
    }
}

impl Group {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let mut module = Module::new();
        let choices = module.elements("choices", self.choices, false, hardware);
        module.buffer("tiles", "array<u32>", true);
        let GroupParams { rows, experts, start } = module.parameters::<GroupParams>(());
        let body = format!(
            "let expert = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if expert > {experts} {{ return; }}
            var first = 0u;
            var count = 0u;
            for (var i = 0u; i < {rows}; i++) {{
                {}
                let exists = choice_h == 0u && choice_l < {experts};
                if select({experts}, choice_l, exists) != expert {{ continue; }}
                if count == 0u {{
                    first = i;
                    tiles[{TILE}u * i] = i;
                }} else {{
                    tiles[{TILE}u * i] = {NONE};
                    tiles[{TILE}u * first + count] = i;
                }}
                count = (count + 1u) % {TILE}u;
            }}
            if count == 0u {{ return; }}
            for (; count < {TILE}u; count++) {{ tiles[{TILE}u * first + count] = {NONE}; }}",
            choices.index_words("choice", &format!("{start} + i")),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
