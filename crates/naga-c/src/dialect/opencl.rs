//! OpenCL C.

use naga::{
    AddressSpace, AtomicFunction, Barrier, BuiltIn, CollectiveOperation, Scalar, ScalarKind, StorageAccess,
    SubgroupOperation, VectorSize,
};

use super::{Atomic, Collective, Gather, Needs, Target, scalar_name};
use crate::Error;

/// OpenCL C 1.2, or 2.0 with subgroups.
pub(crate) struct OpenCl;

impl Target for OpenCl {
    fn name(&self) -> &'static str {
        "OpenCL C"
    }

    fn header(&self, needs: &Needs) -> String {
        let mut text = String::from("#pragma OPENCL FP_CONTRACT OFF\n");
        let subgroups = needs.subgroups.then_some("cl_khr_subgroups");
        for extension in self.extensions(needs).into_iter().chain(subgroups) {
            text += &format!("#ifdef {extension}\n#pragma OPENCL EXTENSION {extension} : enable\n#endif\n");
        }
        text
    }

    fn extensions(&self, needs: &Needs) -> Vec<&'static str> {
        [
            (needs.half, "cl_khr_fp16"),
            (needs.double, "cl_khr_fp64"),
            (needs.long_atomics, "cl_khr_int64_base_atomics"),
            (needs.long_extended_atomics, "cl_khr_int64_extended_atomics"),
            (needs.subgroup_ballot, "cl_khr_subgroup_ballot"),
            (needs.subgroup_arithmetic, "cl_khr_subgroup_non_uniform_arithmetic"),
            (needs.subgroup_shuffle, "cl_khr_subgroup_shuffle"),
            (needs.subgroup_shuffle_relative, "cl_khr_subgroup_shuffle_relative"),
            (needs.subgroup_extended_types, "cl_khr_subgroup_extended_types"),
        ]
        .into_iter()
        .filter_map(|(needed, name)| needed.then_some(name))
        .collect()
    }

    fn define_scalar(&self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::I16 => "typedef short i16;",
            Scalar::U16 => "typedef ushort u16;",
            Scalar::I32 => "typedef int i32;",
            Scalar::U32 => "typedef uint u32;",
            Scalar::I64 => "typedef long i64;",
            Scalar::U64 => "typedef ulong u64;",
            Scalar::F16 => "typedef half f16;",
            Scalar::F32 => "typedef float f32;",
            Scalar::F64 => "typedef double f64;",
            _ => "",
        }
    }

    fn define_vector(&self, name: &str, _: &str, scalar: Scalar, size: VectorSize) -> String {
        let native = match scalar {
            Scalar::I16 => "short",
            Scalar::U16 => "ushort",
            Scalar::U32 => "uint",
            Scalar::I64 => "long",
            Scalar::U64 => "ulong",
            Scalar::F16 => "half",
            Scalar::F32 => "float",
            Scalar::F64 => "double",
            // `bool` has no vectors: 0 and 1 as integers stand for them.
            _ => "int",
        };
        format!("typedef {native}{} {name};\n", size as u8)
    }

    fn native_vectors(&self) -> bool {
        true
    }

    fn bool_component(&self) -> &'static str {
        "int"
    }

    fn vector(&self, ty: &str, _: VectorSize, components: &[String]) -> String {
        format!("({ty})({})", components.join(", "))
    }

    fn aggregate(&self, ty: &str, members: &str) -> String {
        format!("({ty}){{{members}}}")
    }

    fn space(&self, space: AddressSpace) -> &'static str {
        match space {
            AddressSpace::WorkGroup => "__local ",
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => "__global ",
            AddressSpace::Storage { .. } => "const __global ",
            AddressSpace::Uniform => "const __private ",
            _ => "__private ",
        }
    }

    fn constant(&self) -> &'static str {
        "__constant "
    }

    fn function(&self) -> &'static str {
        "static "
    }

    fn helper(&self) -> &'static str {
        "static inline "
    }

    fn kernel(&self, [x, y, z]: [u32; 3]) -> String {
        format!("__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))\nvoid ")
    }

    fn workgroup(&self) -> &'static str {
        "__local "
    }

    fn by_value(&self) -> &'static str {
        "const "
    }

    fn restrict(&self) -> &'static str {
        " restrict"
    }

    fn long_suffix(&self) -> &'static str {
        "L"
    }

    fn f32_from_bits(&self, bits: u32) -> String {
        format!("as_float(0x{bits:08x}u)")
    }

    fn f64_from_bits(&self, bits: u64) -> String {
        format!("as_double(0x{bits:016x}UL)")
    }

    fn half_literal(&self, bits: u16, value: &str) -> String {
        if bits & 0x7c00 == 0x7c00 {
            format!("as_half((ushort)0x{bits:04x})")
        } else {
            format!("((f16){value}f)")
        }
    }

    fn convert(&self, _: Scalar, to: Scalar, text: &str) -> Result<String, Error> {
        Ok(format!("({}){text}", crate::scalars::name(to)?))
    }

    fn bitcast(&self, from: Scalar, to: Scalar, text: &str) -> String {
        if from.kind != ScalarKind::Float && to.kind != ScalarKind::Float {
            return format!("({}){text}", scalar_name(to));
        }
        let to = match to {
            Scalar::I16 => "short",
            Scalar::U16 => "ushort",
            Scalar::F16 => "half",
            Scalar::I64 => "long",
            Scalar::U64 => "ulong",
            Scalar::F64 => "double",
            Scalar::I32 => "int",
            Scalar::U32 => "uint",
            _ => "float",
        };
        format!("as_{to}({text})")
    }

    fn float_function(&self, name: &str, _: Scalar, arguments: &[&str]) -> String {
        format!("{name}({})", arguments.join(", "))
    }

    fn popcount(&self, _: Scalar, text: &str) -> String {
        format!("popcount({text})")
    }

    fn leading_zeros(&self, _: Scalar, text: &str) -> String {
        format!("clz({text})")
    }

    fn reverse_bits(&self, scalar: Scalar) -> &'static str {
        if scalar.width == 8 {
            "x = ((x >> 1) & 0x5555555555555555UL) | ((x & 0x5555555555555555UL) << 1);
    x = ((x >> 2) & 0x3333333333333333UL) | ((x & 0x3333333333333333UL) << 2);
    x = ((x >> 4) & 0x0f0f0f0f0f0f0f0fUL) | ((x & 0x0f0f0f0f0f0f0f0fUL) << 4);
    x = ((x >> 8) & 0x00ff00ff00ff00ffUL) | ((x & 0x00ff00ff00ff00ffUL) << 8);
    x = ((x >> 16) & 0x0000ffff0000ffffUL) | ((x & 0x0000ffff0000ffffUL) << 16);
    return (x >> 32) | (x << 32);"
        } else {
            "x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
    x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
    x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
    x = ((x >> 8) & 0x00ff00ffu) | ((x & 0x00ff00ffu) << 8);
    return (x >> 16) | (x << 16);"
        }
    }

    fn half_bits(&self) -> &'static str {
        "ushort bits;
    vstore_half_rte(x, 0, (__private half*)&bits);
    return bits;"
    }

    fn half_value(&self) -> &'static str {
        "ushort bits = (ushort)x;
    return vload_half(0, (const __private half*)&bits);"
    }

    fn dot4(&self, signed: bool) -> &'static str {
        if signed {
            "#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
    return dot_4x8packed_ss_int(a, b);
#else
    char4 p = as_char4(a);
    char4 q = as_char4(b);
    return (int)p.x * q.x + (int)p.y * q.y + (int)p.z * q.z + (int)p.w * q.w;
#endif"
        } else {
            "#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
    return dot_4x8packed_uu_uint(a, b);
#else
    uchar4 p = as_uchar4(a);
    uchar4 q = as_uchar4(b);
    return (uint)p.x * q.x + (uint)p.y * q.y + (uint)p.z * q.z + (uint)p.w * q.w;
#endif"
        }
    }

    fn builtin(&self, builtin: BuiltIn, [x, y, z]: [u32; 3]) -> Option<Vec<String>> {
        let each = |name: &str| Some((0..3).map(|axis| format!("(u32){name}({axis})")).collect());
        let one = |name: &str| Some(vec![format!("(u32){name}()")]);
        match builtin {
            BuiltIn::GlobalInvocationId => each("get_global_id"),
            BuiltIn::LocalInvocationId => each("get_local_id"),
            BuiltIn::WorkGroupId => each("get_group_id"),
            BuiltIn::NumWorkGroups => each("get_num_groups"),
            BuiltIn::WorkGroupSize => Some(vec![format!("{x}u"), format!("{y}u"), format!("{z}u")]),
            BuiltIn::LocalInvocationIndex => {
                let mut text = String::from("(u32)get_local_id(0)");
                for (axis, (size, below)) in [(y, x), (z, x * y)].into_iter().enumerate() {
                    if size > 1 {
                        text += &format!(" + (u32)get_local_id({}) * {below}u", axis + 1);
                    }
                }
                Some(vec![format!("({text})")])
            }
            BuiltIn::SubgroupSize => one("get_max_sub_group_size"),
            BuiltIn::SubgroupInvocationId => one("get_sub_group_local_id"),
            BuiltIn::SubgroupId => one("get_sub_group_id"),
            BuiltIn::NumSubgroups => one("get_num_sub_groups"),
            _ => None,
        }
    }

    fn barrier(&self, barrier: Barrier, control: bool) -> Vec<&'static str> {
        if control && barrier.contains(Barrier::SUB_GROUP) {
            return vec!["sub_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"];
        }
        let local = barrier.contains(Barrier::WORK_GROUP);
        let global = barrier.contains(Barrier::STORAGE);
        vec![match (control, local, global) {
            (true, true, true) => "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
            (true, false, true) => "barrier(CLK_GLOBAL_MEM_FENCE);",
            (true, _, false) => "barrier(CLK_LOCAL_MEM_FENCE);",
            (false, true, false) => "mem_fence(CLK_LOCAL_MEM_FENCE);",
            (false, false, true) => "mem_fence(CLK_GLOBAL_MEM_FENCE);",
            (false, ..) => "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
        }]
    }

    fn atomic(&self, atomic: &Atomic<'_>, needs: &mut Needs) -> Option<String> {
        let Atomic { fun, scalar, pointer, value, compare } = *atomic;
        if scalar == Scalar::F32 {
            // Sums of floats are a loop over compare-exchange: see `Program::float_atomic`.
            return matches!(fun, AtomicFunction::Exchange { compare: None })
                .then(|| format!("atomic_xchg({pointer}, {value})"));
        }
        let prefix = if scalar.width == 8 { "atom" } else { "atomic" };
        let (name, extended) = match fun {
            AtomicFunction::Add => ("add", false),
            AtomicFunction::Subtract => ("sub", false),
            AtomicFunction::And => ("and", true),
            AtomicFunction::ExclusiveOr => ("xor", true),
            AtomicFunction::InclusiveOr => ("or", true),
            AtomicFunction::Min => ("min", true),
            AtomicFunction::Max => ("max", true),
            AtomicFunction::Exchange { compare: None } => ("xchg", false),
            AtomicFunction::Exchange { compare: Some(_) } => {
                needs.long_atomics |= scalar.width == 8;
                return Some(format!("{prefix}_cmpxchg({pointer}, {compare}, {value})"));
            }
        };
        if scalar.width == 8 {
            needs.long_atomics |= !extended;
            needs.long_extended_atomics |= extended;
        }
        Some(format!("{prefix}_{name}({pointer}, {value})"))
    }

    fn collective_condition(&self) -> Option<&'static str> {
        None
    }

    fn ballot(&self, predicate: &str, needs: &mut Needs) -> String {
        needs.subgroup_ballot = true;
        format!("sub_group_ballot({predicate})")
    }

    fn vote(&self, all: bool, predicate: &str, _: &mut Needs) -> String {
        format!("(sub_group_{}({predicate}) != 0)", if all { "all" } else { "any" })
    }

    fn gather(&self, gather: Gather, scalar: Scalar, text: &str, index: &str, needs: &mut Needs) -> String {
        needs.subgroup_extended_types |=
            is_short(scalar) && matches!(gather, Gather::First | Gather::Broadcast);
        match gather {
            Gather::First => format!("sub_group_broadcast({text}, 0u)"),
            Gather::Broadcast => format!("sub_group_broadcast({text}, {index})"),
            Gather::Up | Gather::Down => {
                needs.subgroup_shuffle_relative = true;
                let name = if gather == Gather::Up { "up" } else { "down" };
                format!("sub_group_shuffle_{name}({text}, {index})")
            }
            Gather::Shuffle => {
                needs.subgroup_shuffle = true;
                format!("sub_group_shuffle({text}, {index})")
            }
            Gather::Xor => {
                needs.subgroup_shuffle = true;
                format!("sub_group_shuffle_xor({text}, {index})")
            }
            Gather::Quad => {
                needs.subgroup_shuffle = true;
                format!("sub_group_shuffle({text}, (get_sub_group_local_id() & ~3u) + {index})")
            }
        }
    }

    fn collective(
        &self,
        collective: Collective,
        text: &str,
        scalar: Scalar,
        needs: &mut Needs,
    ) -> Option<String> {
        needs.subgroup_extended_types |= is_short(scalar);
        let scope = match collective.scope {
            CollectiveOperation::Reduce => "reduce",
            CollectiveOperation::InclusiveScan => "scan_inclusive",
            CollectiveOperation::ExclusiveScan => "scan_exclusive",
        };
        let (prefix, op) = match collective.op {
            SubgroupOperation::Add => ("sub_group", "add"),
            SubgroupOperation::Min => ("sub_group", "min"),
            SubgroupOperation::Max => ("sub_group", "max"),
            SubgroupOperation::Mul => ("sub_group_non_uniform", "mul"),
            SubgroupOperation::And => ("sub_group_non_uniform", "and"),
            SubgroupOperation::Or => ("sub_group_non_uniform", "or"),
            SubgroupOperation::Xor => ("sub_group_non_uniform", "xor"),
            SubgroupOperation::All | SubgroupOperation::Any => return None,
        };
        needs.subgroup_arithmetic |= prefix.ends_with("uniform");
        Some(format!("{prefix}_{scope}_{op}({text})"))
    }
}

/// Whether subgroups exchange this type only by an extension.
fn is_short(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::I16 | Scalar::U16)
}
