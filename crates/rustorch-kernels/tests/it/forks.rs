//! Loops have few forks, for compilers that follow every path through a loop: in one kernel of one kind in six, in each combination
//! of dtypes, or all with `RUSTORCH_CONFORMANCE=all`.
//!
//! SwiftShader, WebGPU's device in browsers without a GPU, does so (`ExistsPath` in its `SpirvShaderControlFlow.cpp`): 20
//! forks one after another in a loop took it 0.4 seconds, 26 took it 19.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests tell what they saw")]

use crate::common::paper as common;
use crate::common::paper::kinds;
use naga::{Block, Function, Handle, Module, Statement};
use rustorch_kernels::{Arithmetic, Hardware, Kernel, Subgroups};
use std::collections::HashMap;

/// How many forks a loop may have one after another.
const MOST: usize = 20;

/// Forks that follow one another in a piece of code.
#[derive(Clone, Copy, Default)]
struct Forks {
    /// On the way that has the most of them.
    here: usize,
    /// In any loop of it.
    in_loop: usize,
}

impl Forks {
    /// Of one piece after the other.
    fn then(self, next: Forks) -> Forks {
        Forks { here: self.here + next.here, in_loop: self.in_loop.max(next.in_loop) }
    }

    /// Of either piece.
    fn or(self, other: Forks) -> Forks {
        Forks { here: self.here.max(other.here), in_loop: self.in_loop.max(other.in_loop) }
    }
}

/// Counts forks as they are once calls are replaced by what they call.
struct Count<'a> {
    module: &'a Module,
    known: HashMap<Handle<Function>, Forks>,
}

impl Count<'_> {
    fn function(&mut self, function: Handle<Function>) -> Forks {
        if let Some(&known) = self.known.get(&function) {
            return known;
        }
        let forks = self.block(&self.module.functions[function].body);
        self.known.insert(function, forks);
        forks
    }

    fn block(&mut self, block: &Block) -> Forks {
        block.iter().fold(Forks::default(), |before, statement| before.then(self.statement(statement)))
    }

    fn statement(&mut self, statement: &Statement) -> Forks {
        let forks = |here| Forks { here, in_loop: 0 };
        match statement {
            Statement::Block(block) => self.block(block),
            // What is left out if a condition does not hold is no fork; `a && b` is one, with a block for each outcome.
            Statement::If { accept, reject, .. } => {
                let leaves = matches!(
                    accept.last(),
                    Some(Statement::Return { .. } | Statement::Break | Statement::Continue)
                );
                let own = forks(usize::from(!reject.is_empty() || leaves));
                own.then(self.block(accept).or(self.block(reject)))
            }
            Statement::Switch { cases, .. } => {
                let most = cases.iter().fold(Forks::default(), |most, case| most.or(self.block(&case.body)));
                forks(cases.len().next_power_of_two().ilog2() as usize).then(most)
            }
            Statement::Loop { body, continuing, .. } => {
                let inside = self.block(body).then(self.block(continuing));
                Forks { in_loop: inside.in_loop.max(inside.here), ..inside }
            }
            Statement::Call { function, .. } => self.function(*function),
            _ => Forks::default(),
        }
    }
}

fn forks_in_a_loop(code: &str) -> usize {
    let module = naga::front::wgsl::parse_str(code).unwrap();
    let mut count = Count { module: &module, known: HashMap::new() };
    count.block(&module.entry_points[0].function.body).in_loop
}

fn check(hardware: &Hardware) {
    let kernels = kinds::asked_for(6, common::kernels(hardware), hardware);
    assert!(kernels.len() > 100, "only {} kernels", kernels.len());
    let forks = |kernel: &Kernel| forks_in_a_loop(&kernel.wgsl(hardware).code);
    let (most, kernel) =
        kernels.iter().map(|kernel| (forks(kernel), kernel)).max_by_key(|(forks, _)| *forks).unwrap();
    eprintln!("{} kernels, the most forks in a loop: {most}, of {kernel:?}", kernels.len());
    assert!(most <= MOST, "{most} forks follow one another in a loop of {kernel:?}");
}

/// What SwiftShader is: by hand it computes fused products.
fn swiftshader() -> Hardware {
    let arithmetic = Arithmetic { contracts: false, divides: true, faithful: true, ..Arithmetic::default() };
    Hardware { arithmetic, ..common::weak() }
}

#[test]
fn are_few() {
    check(&swiftshader());
}

#[test]
fn are_few_with_subgroups() {
    check(&Hardware { subgroups: Some(Subgroups { least: 4, most: 4 }), ..swiftshader() });
}

#[test]
fn are_few_where_all_is_by_hand() {
    check(&common::weak());
}

#[test]
fn are_counted() {
    let kernel = |body: &str| {
        let text = format!(
            "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
            fn early(v: f32) -> f32 {{ if v > 1.0 {{ return v; }} return v * v; }}
            @compute @workgroup_size(1) fn main() {{ {body} }}"
        );
        forks_in_a_loop(&text)
    };
    let inside =
        |body: &str| kernel(&format!("for (var i = 0u; i < x[0]; i++) {{ {body} }}").replace("x[0]", "9u"));
    let loop_itself = inside("x[i] += 1.0;");
    assert_eq!(kernel("x[0] = early(early(x[1]));"), 0);
    assert_eq!(inside("x[i] = early(early(x[i]));"), loop_itself + 2);
    assert_eq!(inside("if x[i] > 0.0 { x[i] = 1.0; }"), loop_itself);
    assert_eq!(inside("if x[i] > 0.0 { x[i] = 1.0; } else { x[i] = 2.0; }"), loop_itself + 1);
    assert_eq!(inside("x[i] = select(1.0, 2.0, x[i] > 0.0 && x[i] < 3.0);"), loop_itself + 1);
    assert_eq!(inside("if x[i] > 0.0 { x[i] = early(x[i]); } else { x[i] = 2.0; }"), loop_itself + 2);
}
