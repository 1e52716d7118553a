//! Workgroup reductions and scans, shared by all families, with or without subgroups.
//!
//! Without subgroups, a tree in workgroup memory halves the number of values per step. With subgroups, each subgroup reduces by
//! shuffles and writes one value to workgroup memory, and every thread combines those few in order. The order depends only on
//! the subgroup size, so results are reproducible on a device.
//!
//! Subgroups may have any size, and the last may be partial. The engine has verified on the device (`engine/probe.rs`) that
//! invocations are assigned to subgroups and lanes in linear order.

use crate::wgsl::{Module, WORKGROUP};
use crate::{Hardware, Subgroups};

/// How a value moves between invocations, which exchange numbers and vectors of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// At once.
    Whole,
    /// As two words: not every device that computes in 64-bit integers exchanges them.
    Halves,
    /// By the fields of a structure.
    Fields(&'static [&'static str]),
}

/// What a workgroup reduces.
#[derive(Debug)]
pub struct WorkgroupReduce {
    /// Invocations of the workgroup.
    threads: u32,
    ty: String,
    parts: Parts,
    subgroups: Option<Subgroups>,
    /// Whether workgroup memory may still be read from the time before.
    used: bool,
}

/// In which direction values move.
#[derive(Clone, Copy)]
enum Way {
    Down,
    Up,
}

impl WorkgroupReduce {
    /// Values of a type of WGSL in workgroups of [`WORKGROUP`] threads, as many of a thread's at a time as `arrays` says.
    pub fn new(
        module: &mut Module,
        ty: &str,
        parts: Parts,
        arrays: usize,
        hardware: &Hardware,
    ) -> WorkgroupReduce {
        WorkgroupReduce::of(WORKGROUP, module, ty, parts, arrays, hardware)
    }

    /// The same in workgroups of so many threads, a power of two.
    pub fn of(
        threads: u32,
        module: &mut Module,
        ty: &str,
        parts: Parts,
        arrays: usize,
        hardware: &Hardware,
    ) -> WorkgroupReduce {
        for i in 0..arrays {
            module.add(&format!("var<workgroup> partial{i}: array<{ty}, {threads}>;"));
        }
        if hardware.subgroups.is_some() {
            module.use_subgroups();
            if parts == Parts::Halves {
                for way in ["Down", "Up"] {
                    module.add(&format!(
                        "fn halves{way}(v: {ty}, d: u32) -> {ty} {{
                            let moved = subgroupShuffle{way}(vec2<u32>(u32(v), u32(v >> 32u)), d);
                            return {ty}(u64(moved.x) | (u64(moved.y) << 32u));
                        }}"
                    ));
                }
            }
        }
        WorkgroupReduce { threads, ty: ty.to_owned(), parts, subgroups: hardware.subgroups, used: false }
    }

    /// Statements after which the variables `values` of each thread hold what `merge`, an expression of `a` and `b`, makes
    /// of those of all threads. All threads must reach them.
    pub fn reduce(&mut self, values: &[&str], merge: &str) -> String {
        let each = |text: &dyn Fn(usize, &str) -> String| -> String {
            values.iter().enumerate().map(|(i, value)| text(i, value)).collect()
        };
        let guard = if std::mem::replace(&mut self.used, true) { "workgroupBarrier();\n" } else { "" };
        let Some(subgroups) = self.subgroups else {
            let store = each(&|i, value| format!("partial{i}[local] = {value};\n"));
            let step = each(&|i, _| {
                format!(
                    "{{ let a = partial{i}[local]; let b = partial{i}[local + half]; partial{i}[local] = {merge}; }}\n"
                )
            });
            let load = each(&|i, value| format!("{value} = partial{i}[0];\n"));
            return format!(
                "{guard}{store}workgroupBarrier();
                for (var half = {}u; half > 0u; half = half >> 1u) {{
                    if local < half {{\n{step}}}
                    workgroupBarrier();
                }}
                {load}",
                self.threads / 2
            );
        };
        let step = each(&|_, value| {
            let other = self.moved(Way::Down, value);
            format!(
                "{{ let a = {value}; let b = {other}; if sub_lane + d < sub_size {{ {value} = {merge}; }} }}\n"
            )
        });
        let store = each(&|i, value| format!("partial{i}[sub_group] = {value};\n"));
        let load = each(&|i, value| format!("{value} = partial{i}[0];\n"));
        let rest =
            each(&|i, value| format!("{{ let a = {value}; let b = partial{i}[k]; {value} = {merge}; }}\n"));
        format!(
            "for (var d = 1u; d < {}u; d = d << 1u) {{\n{step}}}
            {guard}if sub_lane == 0u {{\n{store}}}
            workgroupBarrier();
            {load}for (var k = 1u; k < sub_groups; k++) {{\n{rest}}}\n",
            self.reach(subgroups)
        )
    }

    /// Statements after which the variable `value` of each thread holds what `merge` makes of `before`, the values of the
    /// threads before it and its own, in this order; and `before` what it makes of all. All threads must reach them.
    pub fn scan(&mut self, value: &str, before: &str, merge: &str) -> String {
        let (ty, threads) = (&self.ty, self.threads);
        let guard = if std::mem::replace(&mut self.used, true) { "workgroupBarrier();\n" } else { "" };
        let Some(subgroups) = self.subgroups else {
            return format!(
                "{guard}partial0[local] = {value};
                workgroupBarrier();
                for (var reach = 1u; reach < {threads}u; reach = reach << 1u) {{
                    if local >= reach {{ let a = partial0[local - reach]; let b = {value}; {value} = {merge}; }}
                    workgroupBarrier();
                    partial0[local] = {value};
                    workgroupBarrier();
                }}
                {{ let a = {before}; let b = {value}; {value} = {merge}; }}
                {{ let a = {before}; let b = partial0[{}u]; {before} = {merge}; }}
                workgroupBarrier();\n",
                threads - 1
            );
        };
        let other = self.moved(Way::Up, value);
        format!(
            "for (var d = 1u; d < {}u; d = d << 1u) {{
                let a: {ty} = {other}; let b = {value};
                if sub_lane >= d {{ {value} = {merge}; }}
            }}
            {guard}if sub_lane + 1u == sub_size {{ partial0[sub_group] = {value}; }}
            workgroupBarrier();
            for (var k = 0u; k < sub_groups; k++) {{
                if k == sub_group {{ let a = {before}; let b = {value}; {value} = {merge}; }}
                {{ let a = {before}; let b = partial0[k]; {before} = {merge}; }}
            }}
            workgroupBarrier();\n",
            self.reach(subgroups)
        )
    }

    /// From where on no two invocations of a workgroup are in one subgroup.
    fn reach(&self, subgroups: Subgroups) -> u32 {
        subgroups.most.min(self.threads)
    }

    /// The value of the invocation that is `d` further on, or back, in the subgroup.
    fn moved(&self, way: Way, value: &str) -> String {
        let way = match way {
            Way::Down => "Down",
            Way::Up => "Up",
        };
        match self.parts {
            Parts::Whole => format!("subgroupShuffle{way}({value}, d)"),
            Parts::Halves => format!("halves{way}({value}, d)"),
            Parts::Fields(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|field| format!("subgroupShuffle{way}({value}.{field}, d)")).collect();
                format!("{}({})", self.ty, fields.join(", "))
            }
        }
    }
}

/// Whether each so many neighbours of a workgroup are in one subgroup, so that [`add_lanes`] adds what they have.
pub fn adds_lanes(hardware: &Hardware, lanes: usize) -> bool {
    hardware.subgroups.is_some_and(|subgroups| subgroups.least.is_multiple_of(lanes as u32))
}

/// How far apart those are that a tree of sums over so many lanes, a power of two, adds.
fn distances(lanes: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(lanes / 2), |d| Some(d / 2)).take_while(|&d| d > 0)
}

/// Statements by which the threads of each so many neighbours add up a variable of theirs: those farthest apart first. All
/// threads must reach them, in a module that uses subgroups.
pub fn add_lanes(value: &str, lanes: usize) -> String {
    distances(lanes).map(|d| format!("{value} += subgroupShuffleXor({value}, {d}u);\n")).collect()
}

/// The same by an array of the workgroup with an element for each thread, where subgroups may be smaller; afterwards the first
/// of the neighbours has the sum. All threads must reach them, and they find `lane`, a thread's number among its neighbours.
pub fn add_lanes_in_memory(value: &str, array: &str, lanes: usize) -> String {
    let mut text = format!("workgroupBarrier();\n{array}[local] = {value};\nworkgroupBarrier();\n");
    for d in distances(lanes) {
        text +=
            &format!("if lane < {d}u {{ {array}[local] += {array}[local + {d}u]; }}\nworkgroupBarrier();\n");
    }
    text + &format!("{value} = {array}[local];\n")
}
