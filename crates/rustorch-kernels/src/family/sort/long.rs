//! Sort of lines longer than workgroup memory: keys and indices are in scratch memory, several lines at once. Workgroups sort
//! chunks; then each step of the merge network is a launch, until compared elements are in one chunk again.

use super::super::lines::{LineParams, Lines};
use super::{CHUNK, exchange, key, key_bytes};
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::library::Order;
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Long {
    dtype: DType,
    part: Part,
}

/// What a launch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Makes keys, and sorts chunks.
    Pieces {
        /// Whether the largest come first.
        descending: bool,
        /// Dimensions of the lines.
        rank: usize,
    },
    /// Compares elements of different chunks.
    Step,
    /// Merges within chunks.
    Merge,
    /// Brings elements to the results.
    Take {
        /// Dimensions of the lines.
        rank: usize,
    },
}

/// Bytes of the keys that are sorted at once, where lines are not longer.
const BATCH: usize = 1 << 26;

/// Threads of a workgroup that sorts a chunk.
const THREADS: usize = 256;

/// Whether there is room for the keys of a line.
pub(super) fn fits(len: usize, dtype: DType, hardware: &Hardware) -> Result<(), Decline> {
    let most = hardware.max_binding.min(hardware.max_buffer).min(u32::MAX.into());
    let bytes = len.checked_next_power_of_two().and_then(|size| size.checked_mul(key_bytes(dtype)));
    match bytes {
        Some(bytes) if bytes as u64 <= most => Ok(()),
        _ => Err(Decline::Attr("the keys of a line are more than the device's kernels see at once")),
    }
}

/// Plans the launches.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    lines: &Lines,
    kept: usize,
    descending: bool,
) -> Result<(), Decline> {
    let (x, values, indices) = (request.arg(0), request.out(0), request.out(1));
    let hardware = request.hardware;
    let size = lines.len.next_power_of_two();
    let line_bytes = size * key_bytes(x.dtype);
    let most = hardware.max_binding.min(hardware.max_buffer).min(BATCH as u64) as usize;
    let batch = (most / line_bytes).clamp(1, lines.count.max(1));
    let keys = (plan.scratch(batch * line_bytes), (batch * line_bytes) as u64);
    let places = (plan.scratch(batch * size * 4), (batch * size * 4) as u64);
    let rank = lines.grid.ndim();
    let start = |part: Part| -> Result<StepBuilder<'_>, Decline> {
        let mut launch = StepBuilder::new(hardware, Long { dtype: x.dtype, part });
        if !matches!(part, Part::Take { .. }) {
            launch.bytes(keys.0, 0..keys.1, true)?;
        }
        launch.bytes(places.0, 0..places.1, true)?;
        Ok(launch)
    };
    for first in (0..lines.count).step_by(batch) {
        let count = batch.min(lines.count - first);
        let pieces = count * size / CHUNK;

        let mut launch = start(Part::Pieces { descending, rank })?;
        let x_start = launch.read(&x)?;
        launch.parameters(&PieceParams {
            count: pieces,
            of_line: size / CHUNK,
            len: lines.len,
            first_line: first,
            x: LineParams { start: x_start, stride: lines.steps[0] },
            grid: lines.grid.clone(),
        })?;
        plan.step(launch, line(pieces, hardware)?);

        let mut run = 2 * CHUNK;
        while run <= size {
            let mut apart = run / 2;
            while apart >= CHUNK {
                let mut launch = start(Part::Step)?;
                let pairs = count * size / 2;
                launch.parameters(&StepParams { count: pairs, of_line: size / 2, run, apart })?;
                plan.step(launch, line(pairs / WORKGROUP as usize, hardware)?);
                apart /= 2;
            }
            let mut launch = start(Part::Merge)?;
            launch.parameters(&MergeParams { count: pieces, of_line: size / CHUNK, run })?;
            plan.step(launch, line(pieces, hardware)?);
            run *= 2;
        }

        let mut launch = start(Part::Take { rank })?;
        let params = TakeParams {
            count: count * kept,
            kept,
            size,
            first_line: first,
            x: LineParams { start: launch.read(&x)?, stride: lines.steps[0] },
            y: LineParams { start: launch.write(&values)?, stride: lines.steps[1] },
            indices: LineParams { start: launch.write(&indices)?, stride: lines.steps[2] },
            grid: lines.grid.clone(),
        };
        launch.parameters(&params)?;
        plan.step(launch, line((count * kept).div_ceil(WORKGROUP as usize), hardware)?);
    }
    Ok(())
}

parameters! {
    /// Parameters of the kernel that sorts chunks of lines.
    struct PieceParams(rank: usize) {
        count: usize,
        of_line: usize,
        len: usize,
        first_line: usize,
        x: LineParams,
        grid: Grid = (rank, 3),
    }
}

parameters! {
    /// Parameters of the kernel that compares elements of different chunks.
    struct StepParams() {
        count: usize,
        of_line: usize,
        run: usize,
        apart: usize,
    }
}

parameters! {
    /// Parameters of the kernel that merges within chunks.
    struct MergeParams() {
        count: usize,
        of_line: usize,
        run: usize,
    }
}

parameters! {
    /// Parameters of the kernel that takes the results.
    struct TakeParams(rank: usize) {
        count: usize,
        kept: usize,
        size: usize,
        first_line: usize,
        x: LineParams,
        y: LineParams,
        indices: LineParams,
        grid: Grid = (rank, 3),
    }
}

impl Long {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Long { dtype, part } = *self;
        let order = Order::of(dtype);
        let mut module = Module::new();
        match part {
            Part::Pieces { descending, rank } => pieces(module, order, descending, rank, hardware),
            Part::Step => step(module, order),
            Part::Merge => {
                buffers(&mut module, order, "all_keys", "all_places");
                let MergeParams { count, of_line, run } = module.parameters::<MergeParams>(());
                shared(&mut module, order);
                let body = format!(
                    "let number = {LINEAR_GROUP};
                    if number >= {count} {{ return; }}
                    let begin = number * {CHUNK}u;
                    let first = number % {of_line} * {CHUNK}u;
                    for (var i = local; i < {CHUNK}u; i += {THREADS}u) {{
                        keys[i] = all_keys[begin + i];
                        places[i] = all_places[begin + i];
                    }}
                    workgroupBarrier();
                    {}
                    {}",
                    network(&run.to_string(), &format!("{}u", CHUNK / 2)),
                    write_back()
                );
                module.finish([THREADS as u32, 1, 1], &body)
            }
            Part::Take { rank } => take(module, order, dtype, rank, hardware),
        }
    }
}

/// Declares keys and places of all lines.
fn buffers(module: &mut Module, order: Order, keys: &str, places: &str) {
    module.buffer(keys, &format!("array<{}>", order.key()), true);
    module.buffer(places, "array<u32>", true);
}

/// Declares keys and places of a chunk.
fn shared(module: &mut Module, order: Order) {
    module.add(&order.text());
    module.add(&format!(
        "var<workgroup> keys: array<{}, {CHUNK}>;\nvar<workgroup> places: array<u32, {CHUNK}>;",
        order.key()
    ));
}

/// Statements that merge the chunk's part of runs of length `run` from the distance `apart` on, expressions. `first` is the
/// place in its line of the chunk's first element, which decides the direction.
fn network(run: &str, apart: &str) -> String {
    format!(
        "for (var apart = {apart}; apart > 0u; apart = apart >> 1u) {{
            for (var pair = local; pair < {}u; pair += {THREADS}u) {{
                let i = (pair / apart) * 2u * apart + pair % apart;
                let j = i + apart;
                {}
            }}
            workgroupBarrier();
        }}\n",
        CHUNK / 2,
        exchange("i", "j", &format!("((first + i) & {run}) == 0u")),
    )
}

/// Statements that bring a chunk back to where the lines are.
fn write_back() -> String {
    format!(
        "for (var i = local; i < {CHUNK}u; i += {THREADS}u) {{
            all_keys[begin + i] = keys[i];
            all_places[begin + i] = places[i];
        }}\n"
    )
}

fn pieces(mut module: Module, order: Order, descending: bool, rank: usize, hardware: &Hardware) -> Wgsl {
    buffers(&mut module, order, "all_keys", "all_places");
    let x = order.elements(&mut module, "x", hardware);
    let PieceParams { count, of_line, len, first_line, x: LineParams { start, stride }, grid } =
        module.parameters::<PieceParams>(rank);
    shared(&mut module, order);
    let body = format!(
        "let number = {LINEAR_GROUP};
        if number >= {count} {{ return; }}
        let begin = number * {CHUNK}u;
        let first = number % {of_line} * {CHUNK}u;
        let row = {first_line} + number / {of_line};
        var at = {start};
        {}
        for (var i = local; i < {CHUNK}u; i += {THREADS}u) {{
            // Beyond the line comes what is last anyway.
            var key = ~{}();
            if first + i < {len} {{ key = {}; }}
            keys[i] = key;
            places[i] = first + i;
        }}
        workgroupBarrier();
        for (var run = 2u; run <= {CHUNK}u; run = run << 1u) {{
            {}
        }}
        {}",
        grid.positions("row", &["at"]),
        order.key(),
        key(descending, &x.load(&format!("at + (first + i) * {stride}"))),
        network("run", "(run >> 1u)"),
        write_back()
    );
    module.finish([THREADS as u32, 1, 1], &body)
}

fn step(mut module: Module, order: Order) -> Wgsl {
    buffers(&mut module, order, "keys", "places");
    let StepParams { count, of_line, run, apart } = module.parameters::<StepParams>(());
    module.add(&order.text());
    let body = format!(
        "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
        if t >= {count} {{ return; }}
        let pair = t % {of_line};
        let place = pair / {apart} * 2u * {apart} + pair % {apart};
        let i = t / {of_line} * 2u * {of_line} + place;
        let j = i + {apart};
        {}",
        exchange("i", "j", &format!("(place & {run}) == 0u"))
    );
    module.finish([WORKGROUP, 1, 1], &body)
}

fn take(mut module: Module, order: Order, dtype: DType, rank: usize, hardware: &Hardware) -> Wgsl {
    module.buffer("places", "array<u32>", true);
    let x = order.elements(&mut module, "x", hardware);
    let y = match dtype.size() {
        Some(8) => module.bit_places("y", dtype),
        _ => module.places("y", dtype, hardware),
    };
    let indices = module.places("indices", DType::I64, hardware);
    let TakeParams { count, kept, size, first_line, x: x_line, y: y_line, indices: i_line, grid } =
        module.parameters::<TakeParams>(rank);
    let body = format!(
        "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
        if t >= {count} {{ return; }}
        let own = t / {kept};
        let i = t % {kept};
        let row = {first_line} + own;
        var at = {};\nvar y_at = {};\nvar i_at = {};
        {}
        let chosen = places[own * {size} + i];
        let v = {};
        {}{}",
        x_line.start,
        y_line.start,
        i_line.start,
        grid.positions("row", &["at", "y_at", "i_at"]),
        x.load(&format!("at + chosen * {}", x_line.stride)),
        y.store_one(&format!("y_at + i * {}", y_line.stride), "v"),
        indices.store_one(&format!("i_at + i * {}", i_line.stride), &indices.from_u32("chosen")),
    );
    module.finish([WORKGROUP, 1, 1], &body)
}
