//! CUDA C++ for NVRTC.

use naga::{
    AddressSpace, AtomicFunction, Barrier, BuiltIn, CollectiveOperation, Scalar, ScalarKind, StorageAccess,
    SubgroupOperation, VectorSize,
};

use super::cuda_text::{HALF, LANES};
use super::{Atomic, Collective, Gather, Needs, Target, scalar_name};
use crate::Error;

/// CUDA C++17 without headers.
pub(crate) struct Cuda;

impl Target for Cuda {
    fn name(&self) -> &'static str {
        "CUDA"
    }

    fn header(&self, needs: &Needs) -> String {
        let mut text = String::new();
        if needs.half {
            text += HALF;
        }
        if needs.subgroups {
            text += LANES;
        }
        text
    }

    fn extensions(&self, _: &Needs) -> Vec<&'static str> {
        Vec::new()
    }

    fn define_scalar(&self, scalar: Scalar) -> &'static str {
        match scalar {
            Scalar::I16 => "typedef short i16;",
            Scalar::U16 => "typedef unsigned short u16;",
            Scalar::I32 => "typedef int i32;",
            Scalar::U32 => "typedef unsigned int u32;",
            Scalar::I64 => "typedef long long i64;",
            Scalar::U64 => "typedef unsigned long long u64;",
            Scalar::F32 => "typedef float f32;",
            Scalar::F64 => "typedef double f64;",
            // `bool` is built in, `f16` is defined in the header.
            _ => "",
        }
    }

    fn define_vector(&self, name: &str, scalar_name: &str, scalar: Scalar, size: VectorSize) -> String {
        let width = u32::from(scalar.width);
        let (align, names) = match size {
            VectorSize::Bi => (2 * width, "x, y"),
            VectorSize::Tri => (width, "x, y, z"),
            VectorSize::Quad => (4 * width, "x, y, z, w"),
        };
        format!("struct __align__({align}) {name} {{ {scalar_name} {names}; }};\n")
    }

    fn native_vectors(&self) -> bool {
        false
    }

    fn bool_component(&self) -> &'static str {
        "bool"
    }

    fn vector(&self, ty: &str, _: VectorSize, components: &[String]) -> String {
        format!("{ty}{{{}}}", components.join(", "))
    }

    fn aggregate(&self, ty: &str, members: &str) -> String {
        format!("{ty}{{{members}}}")
    }

    fn space(&self, space: AddressSpace) -> &'static str {
        match space {
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => "",
            AddressSpace::Storage { .. } | AddressSpace::Uniform => "const ",
            _ => "",
        }
    }

    fn constant(&self) -> &'static str {
        // Not `__constant__`, which serialises invocations that read different elements and ends at 64 kB.
        "static __device__ const "
    }

    fn function(&self) -> &'static str {
        "static __device__ "
    }

    fn helper(&self) -> &'static str {
        "__device__ __forceinline__ "
    }

    fn kernel(&self, [x, y, z]: [u32; 3]) -> String {
        format!(
            "extern \"C\" __global__ void __launch_bounds__({})\n",
            u64::from(x) * u64::from(y) * u64::from(z)
        )
    }

    fn workgroup(&self) -> &'static str {
        "__shared__ "
    }

    fn by_value(&self) -> &'static str {
        // Its address is passed to functions: without this, that would copy it to each thread's stack.
        "const __grid_constant__ "
    }

    fn restrict(&self) -> &'static str {
        " __restrict__"
    }

    fn long_suffix(&self) -> &'static str {
        "LL"
    }

    fn f32_from_bits(&self, bits: u32) -> String {
        format!("__int_as_float(0x{bits:08x})")
    }

    fn f64_from_bits(&self, bits: u64) -> String {
        format!("__longlong_as_double(0x{bits:016x}LL)")
    }

    fn half_literal(&self, bits: u16, _: &str) -> String {
        format!("f16{{0x{bits:04x}}}")
    }

    fn convert(&self, from: Scalar, to: Scalar, text: &str) -> Result<String, Error> {
        Ok(match (from, to) {
            (Scalar::F64 | Scalar::F32, Scalar::F16) => format!("nc_f16({text})"),
            // An integer that is not exact as f32 is beyond the range of f16.
            (_, Scalar::F16) => format!("nc_f16((float){text})"),
            (Scalar::F16, Scalar::F32) => format!("(float){text}"),
            (Scalar::F16, to) => format!("({})(float){text}", crate::scalars::name(to)?),
            (_, to) => format!("({}){text}", crate::scalars::name(to)?),
        })
    }

    fn bitcast(&self, from: Scalar, to: Scalar, text: &str) -> String {
        let call = |name: &str| format!("{name}({text})");
        match (from, to) {
            (Scalar::F32, Scalar::I32) => call("__float_as_int"),
            (Scalar::F32, Scalar::U32) => call("__float_as_uint"),
            (Scalar::I32, Scalar::F32) => call("__int_as_float"),
            (Scalar::U32, Scalar::F32) => call("__uint_as_float"),
            (Scalar::F64, Scalar::I64) => call("__double_as_longlong"),
            (Scalar::F64, Scalar::U64) => format!("(unsigned long long)__double_as_longlong({text})"),
            (Scalar::I64 | Scalar::U64, Scalar::F64) => format!("__longlong_as_double((long long){text})"),
            (Scalar::F16, Scalar::I16 | Scalar::U16) => format!("({})({text}).bits", scalar_name(to)),
            (Scalar::I16 | Scalar::U16, Scalar::F16) => format!("f16{{(unsigned short)({text})}}"),
            (_, to) => format!("({}){text}", scalar_name(to)),
        }
    }

    fn float_function(&self, name: &str, scalar: Scalar, arguments: &[&str]) -> String {
        match scalar {
            Scalar::F64 => format!("{name}({})", arguments.join(", ")),
            Scalar::F16 if name == "fma" => format!("nc_fma_f16({})", arguments.join(", ")),
            Scalar::F16 => {
                let wide: Vec<_> = arguments.iter().map(|text| format!("(float){text}")).collect();
                format!("nc_f16({name}f({}))", wide.join(", "))
            }
            _ => format!("{name}f({})", arguments.join(", ")),
        }
    }

    fn popcount(&self, scalar: Scalar, text: &str) -> String {
        format!("__popc{}({text})", if scalar.width == 8 { "ll" } else { "" })
    }

    fn leading_zeros(&self, scalar: Scalar, text: &str) -> String {
        if scalar.width == 8 { format!("__clzll((long long){text})") } else { format!("__clz((int){text})") }
    }

    fn reverse_bits(&self, scalar: Scalar) -> &'static str {
        if scalar.width == 8 { "return __brevll(x);" } else { "return __brev(x);" }
    }

    fn half_bits(&self) -> &'static str {
        "unsigned short bits;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x));
    return bits;"
    }

    fn half_value(&self) -> &'static str {
        "float value;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(value) : \"h\"((unsigned short)x));
    return value;"
    }

    fn dot4(&self, signed: bool) -> &'static str {
        if signed { "return __dp4a((int)a, (int)b, 0);" } else { "return __dp4a(a, b, 0u);" }
    }

    fn builtin(&self, builtin: BuiltIn, [x, y, z]: [u32; 3]) -> Option<Vec<String>> {
        let each = |text: &dyn Fn(char, u32) -> String| {
            Some([('x', x), ('y', y), ('z', z)].into_iter().map(|(axis, size)| text(axis, size)).collect())
        };
        let index = || {
            let mut text = String::from("threadIdx.x");
            for (axis, size, below) in [('y', y, x), ('z', z, x * y)] {
                if size > 1 {
                    text += &format!(" + threadIdx.{axis} * {below}u");
                }
            }
            format!("({text})")
        };
        match builtin {
            BuiltIn::GlobalInvocationId => each(&|axis, size| match size {
                1 => format!("blockIdx.{axis}"),
                _ => format!("blockIdx.{axis} * {size}u + threadIdx.{axis}"),
            }),
            BuiltIn::LocalInvocationId => each(&|axis, _| format!("threadIdx.{axis}")),
            BuiltIn::WorkGroupId => each(&|axis, _| format!("blockIdx.{axis}")),
            BuiltIn::NumWorkGroups => each(&|axis, _| format!("gridDim.{axis}")),
            BuiltIn::WorkGroupSize => each(&|_, size| format!("{size}u")),
            BuiltIn::LocalInvocationIndex => Some(vec![index()]),
            BuiltIn::SubgroupSize => Some(vec!["32u".into()]),
            BuiltIn::SubgroupInvocationId => Some(vec!["nc_lane()".into()]),
            BuiltIn::SubgroupId => Some(vec![format!("({} >> 5)", index())]),
            BuiltIn::NumSubgroups => Some(vec![format!("{}u", (x * y * z).div_ceil(32))]),
            _ => None,
        }
    }

    fn barrier(&self, barrier: Barrier, control: bool) -> Vec<&'static str> {
        match (control, barrier) {
            (true, barrier) if barrier.contains(Barrier::SUB_GROUP) => vec!["__syncwarp(nc_lanes());"],
            (true, _) => vec!["__syncthreads();"],
            (false, barrier) if barrier.contains(Barrier::STORAGE) => vec!["__threadfence();"],
            (false, _) => vec!["__threadfence_block();"],
        }
    }

    fn atomic(&self, atomic: &Atomic<'_>, _: &mut Needs) -> Option<String> {
        let Atomic { fun, scalar, pointer, value, compare } = *atomic;
        let name = match fun {
            AtomicFunction::Add => "atomicAdd",
            // There is no atomicSub for floats and 64 bits: add the negative.
            AtomicFunction::Subtract if scalar == Scalar::F32 => {
                return Some(format!("atomicAdd({pointer}, -({value}))"));
            }
            AtomicFunction::Subtract if scalar.width == 8 => {
                return Some(format!(
                    "({})atomicAdd((unsigned long long*){pointer}, 0ULL - (unsigned long long){value})",
                    scalar_name(scalar)
                ));
            }
            AtomicFunction::Subtract => "atomicSub",
            AtomicFunction::And => "atomicAnd",
            AtomicFunction::ExclusiveOr => "atomicXor",
            AtomicFunction::InclusiveOr => "atomicOr",
            AtomicFunction::Min => "atomicMin",
            AtomicFunction::Max => "atomicMax",
            AtomicFunction::Exchange { compare: None } => "atomicExch",
            AtomicFunction::Exchange { compare: Some(_) } => {
                return Some(if scalar == Scalar::I64 {
                    format!(
                        "(long long)atomicCAS((unsigned long long*){pointer}, (unsigned long long){compare}, (unsigned long long){value})"
                    )
                } else {
                    format!("atomicCAS({pointer}, {compare}, {value})")
                });
            }
        };
        let unsigned_only = !matches!(fun, AtomicFunction::Min | AtomicFunction::Max);
        Some(if scalar == Scalar::I64 && unsigned_only {
            format!("(long long){name}((unsigned long long*){pointer}, (unsigned long long){value})")
        } else {
            format!("{name}({pointer}, {value})")
        })
    }

    fn collective_condition(&self) -> Option<&'static str> {
        Some("__CUDA_ARCH__ >= 800")
    }

    fn ballot(&self, predicate: &str, _: &mut Needs) -> String {
        format!("u32x4{{__ballot_sync(nc_lanes(), {predicate}), 0u, 0u, 0u}}")
    }

    fn vote(&self, all: bool, predicate: &str, _: &mut Needs) -> String {
        format!("(__{}_sync(nc_lanes(), {predicate}) != 0)", if all { "all" } else { "any" })
    }

    fn gather(&self, gather: Gather, scalar: Scalar, text: &str, index: &str, _: &mut Needs) -> String {
        let (name, index) = match gather {
            Gather::First => ("__shfl_sync", "0".to_string()),
            Gather::Broadcast | Gather::Shuffle => ("__shfl_sync", format!("(int){index}")),
            Gather::Up => ("__shfl_up_sync", index.to_string()),
            Gather::Down => ("__shfl_down_sync", index.to_string()),
            Gather::Xor => ("__shfl_xor_sync", format!("(int){index}")),
            Gather::Quad => ("__shfl_sync", format!("(int)((nc_lane() & ~3u) + {index})")),
        };
        match scalar {
            Scalar::F16 => {
                format!("f16{{(unsigned short){name}(nc_lanes(), (unsigned int)({text}).bits, {index})}}")
            }
            Scalar::I16 | Scalar::U16 => {
                format!("({}){name}(nc_lanes(), (unsigned int){text}, {index})", scalar_name(scalar))
            }
            _ => format!("{name}(nc_lanes(), {text}, {index})"),
        }
    }

    fn collective(
        &self,
        collective: Collective,
        text: &str,
        scalar: Scalar,
        _: &mut Needs,
    ) -> Option<String> {
        // Compute capability 8.0 reduces 32-bit integers in hardware; the sums of floats are built of shuffles.
        if collective.scope != CollectiveOperation::Reduce
            || scalar.kind == ScalarKind::Float
            || scalar.width != 4
        {
            return None;
        }
        let name = match collective.op {
            SubgroupOperation::Add => "add",
            SubgroupOperation::Min => "min",
            SubgroupOperation::Max => "max",
            SubgroupOperation::And => "and",
            SubgroupOperation::Or => "or",
            SubgroupOperation::Xor => "xor",
            _ => return None,
        };
        // and, or and xor exist for unsigned numbers only.
        Some(if scalar == Scalar::I32 && !matches!(name, "add" | "min" | "max") {
            format!("(int)__reduce_{name}_sync(nc_lanes(), (unsigned int){text})")
        } else {
            format!("__reduce_{name}_sync(nc_lanes(), {text})")
        })
    }
}
