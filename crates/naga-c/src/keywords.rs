//! Identifiers that a shader may use and C source must not.

use std::sync::LazyLock;

use naga::proc::KeywordSet;

/// Beginnings of names that belong to the dialects or to this writer.
pub(crate) const RESERVED_PREFIXES: &[&str] = &[
    "nc_",
    "as_",
    "convert_",
    "vload",
    "vstore",
    "native_",
    "atom_",
    "atomic_",
    "sub_group_",
    "work_group_",
    "async_work",
    "cl_",
    "CL_",
    "CLK_",
    "FLT_",
    "DBL_",
    "HALF_",
    "INT_",
    "UINT_",
    "CHAR_",
    "SHRT_",
    "LONG_",
    "M_",
    "FP_",
    "intel_",
];

/// Words that are no names, in C, C++, OpenCL C and CUDA C++; and the types that the writer defines.
pub(crate) static KEYWORDS: LazyLock<KeywordSet> = LazyLock::new(|| {
    let mut set = KeywordSet::from_iter(WORDS.split_whitespace());
    set.extend(BUILTINS.split_whitespace());
    set
});

const WORDS: &str = "
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept bitand bitor bool catch char8_t char16_t
    char32_t class compl concept consteval constexpr constinit const_cast co_await co_return co_yield decltype delete
    dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public reflexpr reinterpret_cast requires static_assert static_cast synchronized template this thread_local
    throw true try typeid typename typeof using virtual wchar_t xor xor_eq
    kernel global local constant generic pipe read_only write_only read_write uniform half quad complex imaginary
    uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t event_t sampler_t image1d_t image2d_t image3d_t
    image1d_array_t image1d_buffer_t image2d_array_t queue_t ndrange_t clk_event_t reserve_id_t cl_mem_fence_flags
    char2 char3 char4 char8 char16 uchar2 uchar3 uchar4 uchar8 uchar16 short2 short3 short4 short8 short16
    ushort2 ushort3 ushort4 ushort8 ushort16 int2 int3 int4 int8 int16 uint2 uint3 uint4 uint8 uint16
    long2 long3 long4 long8 long16 ulong2 ulong3 ulong4 ulong8 ulong16 float2 float3 float4 float8 float16
    double2 double3 double4 double8 double16 half2 half3 half4 half8 half16 bool2 bool3 bool4
    char1 uchar1 short1 ushort1 int1 uint1 long1 ulong1 longlong1 longlong2 longlong3 longlong4 ulonglong1 ulonglong2
    ulonglong3 ulonglong4 float1 double1 dim3 cudaError_t cudaStream_t clock_t int8_t int16_t int32_t int64_t uint8_t
    uint16_t uint32_t uint64_t
    i16 u16 i32 u32 i64 u64 f16 f32 f64
    i16x2 i16x3 i16x4 u16x2 u16x3 u16x4 i32x2 i32x3 i32x4 u32x2 u32x3 u32x4 i64x2 i64x3 i64x4 u64x2 u64x3 u64x4
    f16x2 f16x3 f16x4 f32x2 f32x3 f32x4 f64x2 f64x3 f64x4 boolx2 boolx3 boolx4
    i16x3_packed u16x3_packed i32x3_packed u32x3_packed i64x3_packed u64x3_packed f16x3_packed f32x3_packed f64x3_packed
    main NULL NAN INFINITY HUGE_VAL HUGE_VALF MAXFLOAT linux unix i386 assert defined
    threadIdx blockIdx blockDim gridDim warpSize
";

/// Functions and macros of OpenCL C, and of CUDA's device library as far as the writer calls it.
const BUILTINS: &str = "
    get_work_dim get_global_size get_global_id get_local_size get_local_id get_num_groups get_group_id get_global_offset
    get_enqueued_local_size get_global_linear_id get_local_linear_id get_sub_group_size get_max_sub_group_size
    get_num_sub_groups get_enqueued_num_sub_groups get_sub_group_id get_sub_group_local_id
    acos acosf acosh acoshf acospi asin asinf asinh asinhf asinpi atan atanf atan2 atan2f atanh atanhf atanpi atan2pi cbrt
    cbrtf ceil ceilf copysign copysignf cos cosf cosh coshf cospi erfc erfcf erf erff exp expf exp2 exp2f exp10 exp10f expm1
    expm1f fabs fabsf fdim fdimf floor floorf fma fmaf fmax fmaxf fmin fminf fmod fmodf fract frexp frexpf hypot hypotf
    ilogb ldexp ldexpf lgamma lgammaf lgamma_r log logf log2 log2f log10 log10f log1p log1pf logb mad maxmag minmag modf
    modff nan nextafter pow powf pown powr remainder remainderf remquo rint rintf rootn round roundf rsqrt rsqrtf sin sinf
    sincos sincosf sinh sinhf sinpi sqrt sqrtf tan tanf tanh tanhf tanpi tgamma tgammaf trunc truncf
    half_cos half_divide half_exp half_exp2 half_exp10 half_log half_log2 half_log10 half_powr half_recip half_rsqrt half_sin
    half_sqrt half_tan abs abs_diff add_sat hadd rhadd clamp clz ctz mad_hi mad_sat max min mul_hi rotate sub_sat upsample
    popcount mad24 mul24 degrees mix radians step smoothstep sign cross dot distance length normalize fast_distance
    fast_length fast_normalize isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater isfinite isinf
    isnan isnormal isordered isunordered signbit any all bitselect select shuffle shuffle2 printf prefetch barrier mem_fence
    read_mem_fence write_mem_fence wait_group_events vec_step dot_4x8packed_ss_int dot_4x8packed_uu_uint
    atomicAdd atomicSub atomicExch atomicMin atomicMax atomicInc atomicDec atomicCAS atomicAnd atomicOr atomicXor
    malloc free memcpy memset clock clock64
";
