//! Lines that are longer than what a workgroup has memory for: keys and places lie in temporary memory, several lines at
//! once. Pieces are sorted by workgroups; then each step of the merging network is a launch, until elements that are
//! compared lie in one piece again.

use super::super::lines::Lines;
use super::super::strided;
use super::{CHUNK, exchange, key, key_bytes};
use crate::Hardware;
use crate::library::Order;
use crate::plan::{Plan, Request, StepBuilder, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Long {
    dtype: DType,
    part: Part,
}

/// What a launch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Makes keys, and sorts pieces.
    Pieces {
        /// Whether the largest come first.
        descending: bool,
        /// Dimensions of the lines.
        rank: usize,
    },
    /// Compares elements of different pieces.
    Step,
    /// Merges within pieces.
    Merge,
    /// Brings elements to the results.
    Take {
        /// Dimensions of the lines.
        rank: usize,
    },
}

/// Bytes of the keys that are sorted at once, where lines are not longer.
const BATCH: usize = 1 << 26;

/// Threads of a workgroup that sorts a piece.
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

/// Adds the launches.
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
    let rank = lines.grid.rank();
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
        let from = launch.read(&x)?;
        launch.number(pieces)?.number(size / CHUNK)?.number(lines.len)?.number(first)?;
        launch.word(from).number(lines.steps[0])?;
        lines.grid.describe(&mut launch)?;
        plan.step(launch, line(pieces, hardware)?);

        let mut run = 2 * CHUNK;
        while run <= size {
            let mut apart = run / 2;
            while apart >= CHUNK {
                let mut launch = start(Part::Step)?;
                let pairs = count * size / 2;
                launch.number(pairs)?.number(size / 2)?.number(run)?.number(apart)?;
                plan.step(launch, line(pairs / WORKGROUP as usize, hardware)?);
                apart /= 2;
            }
            let mut launch = start(Part::Merge)?;
            launch.number(pieces)?.number(size / CHUNK)?.number(run)?;
            plan.step(launch, line(pieces, hardware)?);
            run *= 2;
        }

        let mut launch = start(Part::Take { rank })?;
        let starts = [launch.read(&x)?, launch.write(&values)?, launch.write(&indices)?];
        launch.number(count * kept)?.number(kept)?.number(size)?.number(first)?;
        for (start, step) in starts.into_iter().zip(&lines.steps) {
            launch.word(start).number(*step)?;
        }
        lines.grid.describe(&mut launch)?;
        plan.step(launch, line((count * kept).div_ceil(WORKGROUP as usize), hardware)?);
    }
    Ok(())
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
                let (count, of_line, run) = (module.word(), module.word(), module.word());
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

/// Declares keys and places of a piece.
fn shared(module: &mut Module, order: Order) {
    module.add(&order.text());
    module.add(&format!(
        "var<workgroup> keys: array<{}, {CHUNK}>;\nvar<workgroup> places: array<u32, {CHUNK}>;",
        order.key()
    ));
}

/// Statements that merge the piece's part of runs of length `run` from the distance `apart` on, expressions. `first` is the
/// place in its line of the piece's first element, which decides the direction.
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

/// Statements that bring a piece back to where the lines are.
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
    let (count, of_line, len, line) = (module.word(), module.word(), module.word(), module.word());
    let (x_from, x_step) = (module.word(), module.word());
    let grid = strided::parameters(&mut module, rank, 3);
    shared(&mut module, order);
    let body = format!(
        "let number = {LINEAR_GROUP};
        if number >= {count} {{ return; }}
        let begin = number * {CHUNK}u;
        let first = number % {of_line} * {CHUNK}u;
        let row = {line} + number / {of_line};
        var at = {x_from};
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
        key(descending, &x.load(&format!("at + (first + i) * {x_step}"))),
        network("run", "(run >> 1u)"),
        write_back()
    );
    module.finish([THREADS as u32, 1, 1], &body)
}

fn step(mut module: Module, order: Order) -> Wgsl {
    buffers(&mut module, order, "keys", "places");
    let (count, of_line, run, apart) = (module.word(), module.word(), module.word(), module.word());
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
    let (count, kept, size, line) = (module.word(), module.word(), module.word(), module.word());
    let [(x_from, x_step), (y_from, y_step), (i_from, i_step)] =
        std::array::from_fn(|_| (module.word(), module.word()));
    let grid = strided::parameters(&mut module, rank, 3);
    let body = format!(
        "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
        if t >= {count} {{ return; }}
        let own = t / {kept};
        let i = t % {kept};
        let row = {line} + own;
        var at = {x_from};\nvar y_at = {y_from};\nvar i_at = {i_from};
        {}
        let chosen = places[own * {size} + i];
        let v = {};
        {}{}",
        grid.positions("row", &["at", "y_at", "i_at"]),
        x.load(&format!("at + chosen * {x_step}")),
        y.store_one(&format!("y_at + i * {y_step}"), "v"),
        indices.store_one(&format!("i_at + i * {i_step}"), &indices.from_u32("chosen")),
    );
    module.finish([WORKGROUP, 1, 1], &body)
}
