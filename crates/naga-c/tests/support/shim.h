// CUDA's words as C++ for a processor: one invocation after the other, so without barriers. For tests of text alone.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __grid_constant__
struct dim3_t { unsigned int x, y, z; };
static dim3_t threadIdx, blockIdx, blockDim, gridDim;

template <class To, class From> static To nc_shim_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static int __float_as_int(float x) { return nc_shim_bits<int>(x); }
static unsigned __float_as_uint(float x) { return nc_shim_bits<unsigned>(x); }
static float __int_as_float(int x) { return nc_shim_bits<float>(x); }
static float __uint_as_float(unsigned x) { return nc_shim_bits<float>(x); }
static long long __double_as_longlong(double x) { return nc_shim_bits<long long>(x); }
static double __longlong_as_double(long long x) { return nc_shim_bits<double>(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
static int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
static unsigned long long __brevll(unsigned long long x) {
    unsigned long long r = 0;
    for (int i = 0; i < 64; i++) r |= ((x >> i) & 1) << (63 - i);
    return r;
}
static unsigned __brev(unsigned x) { return __brevll(x) >> 32; }
static int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int8_t)(a >> (8 * i)) * (int8_t)(b >> (8 * i));
    return c;
}
static unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (uint8_t)(a >> (8 * i)) * (uint8_t)(b >> (8 * i));
    return c;
}
template <class T, class U> static T nc_shim_exchange(T* p, U value) {
    T old = *p;
    *p = value;
    return old;
}
template <class T> static T atomicAdd(T* p, T v) { return nc_shim_exchange(p, *p + v); }
template <class T> static T atomicSub(T* p, T v) { return nc_shim_exchange(p, *p - v); }
template <class T> static T atomicAnd(T* p, T v) { return nc_shim_exchange(p, *p & v); }
template <class T> static T atomicOr(T* p, T v) { return nc_shim_exchange(p, *p | v); }
template <class T> static T atomicXor(T* p, T v) { return nc_shim_exchange(p, *p ^ v); }
template <class T> static T atomicMin(T* p, T v) { return nc_shim_exchange(p, v < *p ? v : *p); }
template <class T> static T atomicMax(T* p, T v) { return nc_shim_exchange(p, v < *p ? *p : v); }
template <class T> static T atomicExch(T* p, T v) { return nc_shim_exchange(p, v); }
template <class T> static T atomicCAS(T* p, T c, T v) { return nc_shim_exchange(p, *p == c ? v : *p); }

template <class... A, size_t... I>
static void nc_shim_call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_const_t<A>*)arguments[I]...);
}
template <class... A>
static void nc_shim_launch(void (*kernel)(A...), void** arguments, const unsigned* groups, const unsigned* size) {
    gridDim = {groups[0], groups[1], groups[2]};
    blockDim = {size[0], size[1], size[2]};
    for (unsigned b = 0; b < groups[0] * groups[1] * groups[2]; b++) {
        blockIdx = {b % groups[0], b / groups[0] % groups[1], b / groups[0] / groups[1]};
        for (unsigned t = 0; t < size[0] * size[1] * size[2]; t++) {
            threadIdx = {t % size[0], t / size[0] % size[1], t / size[0] / size[1]};
            nc_shim_call(kernel, arguments, std::index_sequence_for<A...>{});
        }
    }
}
