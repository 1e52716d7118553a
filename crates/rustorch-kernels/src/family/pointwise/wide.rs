//! Pointwise kernels for large tensors on GPUs: a thread computes a run of elements, which it reads and writes by vectors of
//! up to 128 bits.
//!
//! Memory is only used in full where enough of it is under way, and where few instructions ask for it. Small tensors keep
//! the kernels of one word for each thread ([`frame`](super::frame)).

use super::frame::{Frame, Params};
use crate::Hardware;
use crate::library::strided::Grid;
use crate::plan::Request;
use crate::plan::parameters::Names;
use crate::wgsl::vectors::{self, Vectors, WORKGROUP};
use crate::wgsl::{Elements, LINEAR_GROUP, Module};
use rustorch_core::Layout;
use smallvec::SmallVec;
use std::fmt::Write;

/// What a kernel of this kind depends on beside its dtypes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wide {
    /// Of each input: whether its innermost dimension is one element, repeated.
    repeated: SmallVec<[bool; 3]>,
}

/// An input: runs, or one element for each run.
enum Input {
    Run(Vectors),
    Repeated(Elements),
}

/// The kernel for a request, if it is of this kind, and the grid of runs. `layouts` are the inputs', `grid` is that of
/// elements: of the inputs and, if it is `rows`, of the result.
pub(super) fn wide(
    request: &Request<'_>,
    layouts: &[Layout],
    grid: Option<&Grid>,
    rows: bool,
) -> Option<(Wide, Option<Grid>)> {
    let out = request.outs[0];
    let dtypes = request.args.iter().map(|x| x.dtype).chain([out.dtype]);
    let run = vectors::run(dtypes.clone());
    if !vectors::suit(out.layout.numel() / run, request.hardware) {
        return None;
    }
    // Runs begin where vectors may if tensors do, and rows follow at such distances.
    let begins = |dtype, at| vectors::begins(dtype, run, at);
    let starts = layouts.iter().chain([out.layout]).map(Layout::offset);
    let Some(grid) = grid else {
        let fits = dtypes.zip(starts).all(|(dtype, start)| begins(dtype, start));
        return fits.then(|| (Wide { repeated: layouts.iter().map(|_| false).collect() }, None));
    };
    let inner = grid.ndim() - 1;
    let tensors = layouts.len() + usize::from(rows);
    let repeated: SmallVec<[bool; 3]> = (0..tensors).map(|i| grid.strides[i][inner] == 0).collect();
    let fits = dtypes.zip(starts).enumerate().all(|(i, (dtype, start))| match grid.strides.get(i) {
        Some(strides) if strides[inner] != 0 => {
            strides[inner] == 1
                && begins(dtype, start)
                && strides[..inner].iter().all(|&stride| begins(dtype, stride))
        }
        Some(_) => i < layouts.len(),
        None => begins(dtype, start),
    });
    if !fits || !grid.dims[inner].is_multiple_of(run) {
        return None;
    }
    let mut runs = grid.clone();
    runs.dims[inner] /= run;
    runs.strides.iter_mut().for_each(|strides| strides[inner] *= run);
    Some((Wide { repeated: repeated[..layouts.len()].into() }, Some(runs)))
}

/// The workgroups of a launch for so many elements.
pub(super) fn groups(frame: &Frame, elements: usize) -> usize {
    elements.div_ceil(run(frame)).div_ceil(WORKGROUP as usize)
}

/// The elements of a thread.
fn run(frame: &Frame) -> usize {
    vectors::run(frame.inputs.iter().copied().chain([frame.output]))
}

/// The buffers of a kernel, and the source of `main`.
pub(super) struct Source {
    run: usize,
    inputs: Vec<Input>,
    output: Vectors,
}

impl Source {
    /// Declares the buffers.
    pub(super) fn declare(frame: &Frame, wide: &Wide, module: &mut Module, hardware: &Hardware) -> Source {
        let run = run(frame);
        let inputs = frame.inputs.iter().zip(&wide.repeated).enumerate().map(|(i, (&dtype, &repeated))| {
            let name = format!("x{i}");
            match repeated {
                true => Input::Repeated(module.elements(&name, dtype, false, hardware)),
                false => Input::Run(module.vectors(&name, dtype, run, false, hardware)),
            }
        });
        let inputs = inputs.collect();
        Source { run, inputs, output: module.vectors("y", frame.output, run, true, hardware) }
    }

    /// The source of `main`. `params` are the kernel's, `numbers` what the function gets of them; the result may be `rows`.
    pub(super) fn main(&self, params: &Params<Names>, numbers: &[String], rows: bool) -> String {
        let Params { n, starts, y_start, grid, .. } = params;
        let run = self.run;
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\nif t > ({n} - 1u) / {run}u {{ return; }}\n\
             let rest = {n} - t * {run}u;\n"
        );
        // Runs follow each other where no grid says where they are.
        let own = |moved: bool| if moved { String::new() } else { format!(" + t * {run}u") };
        let names: Vec<String> = (0..starts.len()).map(|i| format!("at{i}")).collect();
        for (name, start) in names.iter().zip(starts) {
            let _ = writeln!(body, "var {name} = {start}{};", own(grid.is_some()));
        }
        let _ = writeln!(body, "var place = {y_start}{};", own(rows));
        if let Some(grid) = grid {
            let moved = names.iter().map(String::as_str).chain(rows.then_some("place"));
            body.push_str(&grid.positions("t", &moved.collect::<Vec<_>>()));
        }
        // Rows are whole runs; of a run of all there may be a part at the end.
        let ends = grid.is_none();
        let (mut whole, mut some) = (String::new(), String::new());
        for (i, (input, at)) in self.inputs.iter().zip(&names).enumerate() {
            match input {
                Input::Run(x) => {
                    body.push_str(&x.declare(&format!("r{i}")));
                    whole.push_str(&x.read(&format!("r{i}"), at));
                    some.push_str(&x.read_some(&format!("r{i}"), at, "rest"));
                }
                Input::Repeated(x) => {
                    let _ = writeln!(body, "let r{i} = {};", x.load(at));
                }
            }
        }
        let choose = |whole: &str, some: &str| match ends {
            true => format!("if rest >= {run}u {{\n{whole}}} else {{\n{some}}}\n"),
            false => whole.to_owned(),
        };
        body.push_str(&choose(&whole, &some));
        let mut values = Vec::new();
        for k in 0..run {
            let inputs = self.inputs.iter().enumerate().map(|(i, input)| match input {
                Input::Run(x) => x.value(&format!("r{i}"), k),
                Input::Repeated(_) => format!("r{i}"),
            });
            let given: Vec<String> = inputs.chain(numbers.iter().cloned()).collect();
            let _ = writeln!(body, "let v{k} = f({});", given.join(", "));
            values.push(format!("v{k}"));
        }
        body.push_str(&self.output.pack("w", &values));
        body.push_str(&choose(
            &self.output.write("w", "place"),
            &self.output.write_some("w", "place", "rest"),
        ));
        body
    }
}
