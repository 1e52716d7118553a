// CUDA's words as C++ of the processor, for texts that `naga-c` writes. A text is compiled with this before it (`nvrtc.c`) and run
// by `emulator.c`. There are no headers of the system here, since reading them takes longer than compiling a kernel; a word that
// is not here does not compile.
//
// As on a GPU under the options that the driver crate states: each operation rounds once, to nearest, and keeps subnormal
// numbers. Not as there: transcendental functions are those of the system's C library, which differ in last bits; NaNs have the
// processor's bits; `__threadfence` does nothing, since invocations take turns.
#include "emulator.h"

#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __grid_constant__
// Together, so that the emulator can spoil them before each workgroup and see how much there is.
#define __shared__ static __attribute__((section("emulated_shared")))

struct __align__(16) uint4 { unsigned x, y, z, w; };

static Triple threadIdx, blockIdx, blockDim, gridDim;
static const Calls *emulator;

// Accesses to memory, of which the compiler tells as it would ThreadSanitizer (`-fsanitize=thread`). `naga-c` writes loads and stores of
// atomics as volatile ones.
#define UNSEEN __attribute__((no_sanitize("thread")))
#define TOLD extern "C" __attribute__((visibility("hidden"))) UNSEEN void
TOLD __tsan_init() {}
TOLD __tsan_func_entry(void *) {}
TOLD __tsan_func_exit(void *) {}
#define TOLD_OF(bytes) \
    TOLD __tsan_read##bytes(void *p) { emulator->access(p, bytes, READS); } \
    TOLD __tsan_write##bytes(void *p) { emulator->access(p, bytes, WRITES); } \
    TOLD __tsan_volatile_read##bytes(void *p) { emulator->access(p, bytes, LOADS); } \
    TOLD __tsan_volatile_write##bytes(void *p) { emulator->access(p, bytes, ATOMIC); } \
    TOLD __tsan_unaligned_read##bytes(void *p) { emulator->access(p, bytes, READS); } \
    TOLD __tsan_unaligned_write##bytes(void *p) { emulator->access(p, bytes, WRITES); }
TOLD_OF(1) TOLD_OF(2) TOLD_OF(4) TOLD_OF(8) TOLD_OF(16)
TOLD __tsan_read_range(void *p, size_t bytes) { emulator->access(p, bytes, READS); }
TOLD __tsan_write_range(void *p, size_t bytes) { emulator->access(p, bytes, WRITES); }

// Bits.
template <class To, class From> static inline To emulated_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) { return emulated_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulated_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
static inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long r = 0;
    for (int i = 0; i < 64; i++) r |= ((x >> i) & 1) << (63 - i);
    return r;
}
static inline unsigned __brev(unsigned x) { return (unsigned)(__brevll(x) >> 32); }
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (unsigned)(unsigned char)(a >> i) * (unsigned char)(b >> i);
    return c;
}

// Functions on floats: the C library's.
extern "C" {
#define FLOATS_1(name) float name##f(float); double name(double);
FLOATS_1(cos) FLOATS_1(cosh) FLOATS_1(sin) FLOATS_1(sinh) FLOATS_1(tan) FLOATS_1(tanh) FLOATS_1(acos) FLOATS_1(asin) FLOATS_1(atan)
FLOATS_1(asinh) FLOATS_1(acosh) FLOATS_1(atanh) FLOATS_1(ceil) FLOATS_1(floor) FLOATS_1(rint) FLOATS_1(trunc) FLOATS_1(exp)
FLOATS_1(exp2) FLOATS_1(log) FLOATS_1(log2) FLOATS_1(sqrt) FLOATS_1(fabs)
#define FLOATS_2(name) float name##f(float, float); double name(double, double);
FLOATS_2(atan2) FLOATS_2(pow) FLOATS_2(fmin) FLOATS_2(fmax) FLOATS_2(fmod) FLOATS_2(copysign)
float fmaf(float, float, float);
double fma(double, double, double);
float ldexpf(float, int);
double ldexp(double, int);
float frexpf(float, int *);
double frexp(double, int *);
}

// PTX on 16-bit floats, by way of f64, in which their sums and products are exact. `nvrtc.c` turns each `asm` with an instruction
// into a call by its name.
static inline float emulated_wide(unsigned short half) {
    unsigned sign = (unsigned)(half & 0x8000) << 16, exponent = half >> 10 & 31, rest = half & 1023;
    if (exponent == 0) return __uint_as_float(sign | __float_as_uint((float)rest * 0x1p-24f));
    return __uint_as_float(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | rest << 13);
}
static inline unsigned short emulated_half(double x) {
    unsigned long long bits = emulated_bits<unsigned long long>(x);
    unsigned sign = (unsigned)(bits >> 48) & 0x8000;
    bits &= ~(1ull << 63);
    if (x != x) return 0x7fff;
    double size = emulated_bits<double>(bits);
    if (size >= 65520) return (unsigned short)(sign | 0x7c00);
    // In units of the smallest; the largest of these is the first normal one.
    if (size < 0x1p-14) return (unsigned short)(sign | (unsigned)rint(size * 0x1p24));
    bits += (1ull << 41) - 1 + (bits >> 42 & 1);
    return (unsigned short)(sign | (unsigned)((bits >> 42) - (1008 << 10)));
}
static inline void ptx_cvt_f32_f16(float &r, unsigned short x) { r = emulated_wide(x); }
static inline void ptx_cvt_rn_f16_f32(unsigned short &r, float x) { r = emulated_half(x); }
static inline void ptx_cvt_rn_f16_f64(unsigned short &r, double x) { r = emulated_half(x); }
static inline void ptx_add_rn_f16(unsigned short &r, unsigned short a, unsigned short b) {
    r = emulated_half((double)emulated_wide(a) + emulated_wide(b));
}
static inline void ptx_sub_rn_f16(unsigned short &r, unsigned short a, unsigned short b) {
    r = emulated_half((double)emulated_wide(a) - emulated_wide(b));
}
static inline void ptx_mul_rn_f16(unsigned short &r, unsigned short a, unsigned short b) {
    r = emulated_half((double)emulated_wide(a) * emulated_wide(b));
}
static inline void ptx_fma_rn_f16(unsigned short &r, unsigned short a, unsigned short b, unsigned short c) {
    // The product is exact, the sum may not be: rounded to the odd neighbour, it rounds to f16 as the exact one would.
    double p = (double)emulated_wide(a) * emulated_wide(b), q = emulated_wide(c), s = p + q;
    double part = s - p, lost = (p - (s - part)) + (q - part);
    unsigned long long bits = emulated_bits<unsigned long long>(s);
    if (lost < 0 || lost > 0) {
        if (!(bits & 1)) bits = (lost > 0) == (s > 0) ? bits + 1 : bits - 1;
        s = emulated_bits<double>(bits);
    }
    r = emulated_half(s);
}

// Atomics: invocations take turns, and only where they wait.
#define ATOMICALLY(name, expression) \
    template <class T> static UNSEEN T name(T *p, T v) { \
        emulator->access(p, sizeof *p, ATOMIC); \
        T old = *p; \
        *p = (T)(expression); \
        return old; \
    }
ATOMICALLY(atomicAdd, old + v)
ATOMICALLY(atomicSub, old - v)
ATOMICALLY(atomicAnd, old & v)
ATOMICALLY(atomicOr, old | v)
ATOMICALLY(atomicXor, old ^ v)
ATOMICALLY(atomicMin, v < old ? v : old)
ATOMICALLY(atomicMax, old < v ? v : old)
ATOMICALLY(atomicExch, v)
template <class T> static UNSEEN T atomicCAS(T *p, T compare, T v) {
    emulator->access(p, sizeof *p, ATOMIC);
    T old = *p;
    if (old == compare) *p = v;
    return old;
}

// Where invocations wait for each other. That a barrier is the same one for all is told by its line, which stays whatever the
// compiler does with it.
#define __syncthreads() emulator->barrier(__LINE__)
static inline void __threadfence() {}
static inline void __threadfence_block() {}
#define __syncwarp(mask) ((void)emulator->exchange(__LINE__, mask, 0))
#define __shfl_sync(mask, v, from) emulated_shuffle(__LINE__, mask, v, (unsigned)(from) & 31)
#define __shfl_xor_sync(mask, v, by) emulated_shuffle(__LINE__, mask, v, (emulator->lane() ^ (unsigned)(by)) & 31)
#define __shfl_up_sync(mask, v, by) emulated_shuffle(__LINE__, mask, v, emulated_lane(-(long long)(unsigned)(by)))
#define __shfl_down_sync(mask, v, by) emulated_shuffle(__LINE__, mask, v, emulated_lane((unsigned)(by)))
static inline unsigned emulated_lane(long long by) {
    long long lane = emulator->lane() + by;
    return lane < 0 || lane > 31 ? emulator->lane() : (unsigned)lane;
}
template <class T> static inline T emulated_shuffle(int line, unsigned mask, T v, unsigned from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA exchanges 32 and 64 bits");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &v, sizeof v);
    bits = emulator->exchange(line, mask, bits)[from];
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
}
#define __ballot_sync(mask, v) emulated_ballot(__LINE__, mask, v)
#define __any_sync(mask, v) ((int)(emulated_ballot(__LINE__, mask, v) != 0))
#define __all_sync(mask, v) ((int)(emulated_ballot(__LINE__, mask, !(v)) == 0))
static inline unsigned emulated_ballot(int line, unsigned mask, bool v) {
    const uint64_t *given = emulator->exchange(line, mask, v);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) bits |= (unsigned)given[lane] << lane;
    return bits;
}
#define REDUCE(name, type, expression) \
    static inline type emulated_reduce_##name(int line, unsigned mask, type v) { \
        const uint64_t *given = emulator->exchange(line, mask, (uint64_t)(unsigned)v); \
        type a = (type)(unsigned)given[0]; \
        for (int lane = 1; lane < 32; lane++) { \
            type b = (type)(unsigned)given[lane]; \
            if (mask >> lane & 1) a = (expression); \
        } \
        return a; \
    }
#if __CUDA_ARCH__ >= 800
REDUCE(add, unsigned, a + b) REDUCE(add, int, a + b)
REDUCE(min, unsigned, b < a ? b : a) REDUCE(min, int, b < a ? b : a)
REDUCE(max, unsigned, a < b ? b : a) REDUCE(max, int, a < b ? b : a)
REDUCE(and, unsigned, a & b) REDUCE(or, unsigned, a | b) REDUCE(xor, unsigned, a ^ b)
#define __reduce_add_sync(mask, v) emulated_reduce_add(__LINE__, mask, v)
#define __reduce_min_sync(mask, v) emulated_reduce_min(__LINE__, mask, v)
#define __reduce_max_sync(mask, v) emulated_reduce_max(__LINE__, mask, v)
#define __reduce_and_sync(mask, v) emulated_reduce_and(__LINE__, mask, v)
#define __reduce_or_sync(mask, v) emulated_reduce_or(__LINE__, mask, v)
#define __reduce_xor_sync(mask, v) emulated_reduce_xor(__LINE__, mask, v)

// Products of small matrices by a warp: C[16, 8] += A[16, k] · B[k, 8] of 8-bit integers. Where the elements are is of the PTX ISA,
// "Matrix Fragments for mma.m16n8k16" and "mma.m16n8k32 with .u8/.s8": of A and B each register has four along k, those of a
// thread's later registers are 8 rows below (A, odd ones) or 16 along k on.
template <int K> static inline void emulated_mma(int *d, const unsigned *a, const unsigned *b, const int *c) {
    static_assert(K == 16 || K == 32, "");
    signed char left[16][K], right[K][8];
    for (int register_of = 0; register_of < K / 8; register_of++) {
        const uint64_t *given = emulator->exchange(__LINE__, 0xffffffffu, a[register_of]);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++)
                left[lane / 4 + 8 * (register_of % 2)][lane % 4 * 4 + i + 16 * (register_of / 2)] = (signed char)(given[lane] >> 8 * i);
    }
    for (int register_of = 0; register_of < K / 16; register_of++) {
        const uint64_t *given = emulator->exchange(__LINE__, 0xffffffffu, b[register_of]);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) right[lane % 4 * 4 + i + 16 * register_of][lane / 4] = (signed char)(given[lane] >> 8 * i);
    }
    int own = (int)emulator->lane();
    for (int i = 0; i < 4; i++) {
        int row = own / 4 + 8 * (i / 2), column = own % 4 * 2 + i % 2, sum = c[i];
        for (int k = 0; k < K; k++) sum += left[row][k] * right[k][column];
        d[i] = sum;
    }
}
static inline void ptx_mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(
    int &d0, int &d1, int &d2, int &d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1, int c0, int c1, int c2, int c3) {
    int d[4];
    const unsigned a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    const int c[] = {c0, c1, c2, c3};
    emulated_mma<32>(d, a, b, c);
    d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
}
static inline void ptx_mma_sync_aligned_m16n8k16_row_col_s32_s8_s8_s32(
    int &d0, int &d1, int &d2, int &d3, unsigned a0, unsigned a1, unsigned b0, int c0, int c1, int c2, int c3) {
    int d[4];
    const unsigned a[] = {a0, a1}, b[] = {b0};
    const int c[] = {c0, c1, c2, c3};
    emulated_mma<16>(d, a, b, c);
    d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
}
#endif

// How a kernel is called, from its type.
template <class T> struct Parameter { static const char pointer = 0; };
template <class T> struct Parameter<T *> { static const char pointer = 1; };
template <class T> struct Parameter<T *__restrict> { static const char pointer = 1; };
template <class... A> struct Called {
    static constexpr size_t sizes[] = {sizeof(A)..., 0};
    static constexpr char pointers[] = {Parameter<A>::pointer..., 0};
    template <void (*kernel)(A...), size_t... I> struct With {
        static void invoke(void **arguments) { kernel(*(A *)arguments[I]...); }
    };
    template <void (*kernel)(A...), size_t... I> static constexpr Entry numbered(const char *name, unsigned bound) {
        return {name, bound, sizeof...(A), sizes, pointers, With<kernel, I...>::invoke};
    }
};
template <size_t... I> struct Numbers {};
template <size_t N, size_t... I> struct Count : Count<N - 1, N - 1, I...> {};
template <size_t... I> struct Count<0, I...> { using Type = Numbers<I...>; };
template <auto kernel, class... A, size_t... I>
static constexpr Entry emulated_entry(void (*)(A...), Numbers<I...>, const char *name, unsigned bound) {
    return Called<A...>::template numbered<kernel, I...>(name, bound);
}
template <class... A> static constexpr typename Count<sizeof...(A)>::Type emulated_numbers(void (*)(A...)) { return {}; }
#define EMULATED(kernel, bound) emulated_entry<&kernel>(&kernel, emulated_numbers(&kernel), #kernel, bound)

extern "C" char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
// Closes a text.
#define EMULATED_MODULE(...) \
    static const Entry emulated_entries[] = {__VA_ARGS__}; \
    extern "C" __attribute__((visibility("default"))) const Module emulated = { \
        &emulator, &threadIdx, &blockIdx, &blockDim, &gridDim, __start_emulated_shared, __stop_emulated_shared, \
        emulated_entries, sizeof emulated_entries / sizeof *emulated_entries};
