// CUDA's words as C++20 for a processor: workgroups one after the other, their invocations as threads. For tests of text alone.
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __grid_constant__
struct dim3_t { unsigned int x, y, z; };
static thread_local dim3_t threadIdx;
static dim3_t blockIdx, blockDim, gridDim;

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
// Atomics: exchange until nobody came between.
template <class T, class F> static T nc_shim_atomic(T* p, F f) {
    T old, value;
    __atomic_load(p, &old, __ATOMIC_SEQ_CST);
    do value = f(old);
    while (!__atomic_compare_exchange(p, &old, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
}
template <class T> static T atomicAdd(T* p, T v) { return nc_shim_atomic(p, [=](T old) { return (T)(old + v); }); }
template <class T> static T atomicSub(T* p, T v) { return nc_shim_atomic(p, [=](T old) { return (T)(old - v); }); }
template <class T> static T atomicAnd(T* p, T v) { return nc_shim_atomic(p, [=](T old) { return (T)(old & v); }); }
template <class T> static T atomicOr(T* p, T v) { return nc_shim_atomic(p, [=](T old) { return (T)(old | v); }); }
template <class T> static T atomicXor(T* p, T v) { return nc_shim_atomic(p, [=](T old) { return (T)(old ^ v); }); }
template <class T> static T atomicMin(T* p, T v) { return nc_shim_atomic(p, [=](T old) { return v < old ? v : old; }); }
template <class T> static T atomicMax(T* p, T v) { return nc_shim_atomic(p, [=](T old) { return old < v ? v : old; }); }
template <class T> static T atomicExch(T* p, T v) { return nc_shim_atomic(p, [=](T) { return v; }); }
template <class T> static T atomicCAS(T* p, T c, T v) { return nc_shim_atomic(p, [=](T old) { return old == c ? v : old; }); }

// Barriers, and warps of 32 invocations that exchange values through slots.
struct nc_shim_warp {
    std::barrier<> barrier;
    unsigned lanes;
    uint64_t slots[32] = {};
    explicit nc_shim_warp(unsigned n) : barrier(n), lanes(n) {}
};
static std::unique_ptr<std::barrier<>> nc_shim_block;
static std::vector<std::unique_ptr<nc_shim_warp>> nc_shim_warps;
static unsigned nc_shim_index() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
static void __syncthreads() { nc_shim_block->arrive_and_wait(); }
static void __syncwarp(unsigned) { nc_shim_warps[nc_shim_index() / 32]->barrier.arrive_and_wait(); }
template <class T, class F> static auto nc_shim_with_slots(T value, F f) {
    nc_shim_warp& warp = *nc_shim_warps[nc_shim_index() / 32];
    memcpy(&warp.slots[nc_shim_index() & 31], &value, sizeof value);
    warp.barrier.arrive_and_wait();
    auto result = f(warp);
    warp.barrier.arrive_and_wait();
    return result;
}
// What a lane that does not exist would give is undefined: something that spoils results.
template <class T> static T nc_shim_lane(T value, unsigned lane) {
    return nc_shim_with_slots(value, [=](nc_shim_warp& warp) {
        T other;
        memset(&other, 0x5a, sizeof other);
        if (lane < warp.lanes) memcpy(&other, &warp.slots[lane], sizeof other);
        return other;
    });
}
template <class T> static T __shfl_sync(unsigned, T v, int lane) { return nc_shim_lane(v, lane & 31); }
template <class T> static T __shfl_xor_sync(unsigned, T v, int by) { return nc_shim_lane(v, (nc_shim_index() & 31) ^ by); }
template <class T> static T __shfl_up_sync(unsigned, T v, unsigned by) {
    unsigned lane = nc_shim_index() & 31;
    return nc_shim_lane(v, lane < by ? lane : lane - by);
}
template <class T> static T __shfl_down_sync(unsigned, T v, unsigned by) {
    unsigned lane = nc_shim_index() & 31;
    return nc_shim_lane(v, lane + by > 31 ? lane : lane + by);
}
static unsigned __ballot_sync(unsigned, bool v) {
    return nc_shim_with_slots(v, [](nc_shim_warp& warp) {
        unsigned bits = 0;
        for (unsigned lane = 0; lane < warp.lanes; lane++) bits |= (unsigned)(warp.slots[lane] & 1) << lane;
        return bits;
    });
}
static int __any_sync(unsigned mask, bool v) { return __ballot_sync(mask, v) != 0; }
static int __all_sync(unsigned mask, bool v) { return __ballot_sync(mask, !v) == 0; }

template <class... A, size_t... I>
static void nc_shim_call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_const_t<A>*)arguments[I]...);
}
template <class... A>
static void nc_shim_launch(void (*kernel)(A...), void** arguments, const unsigned* groups, const unsigned* size) {
    gridDim = {groups[0], groups[1], groups[2]};
    blockDim = {size[0], size[1], size[2]};
    unsigned threads = size[0] * size[1] * size[2];
    auto run = [=](unsigned t) {
        threadIdx = {t % size[0], t / size[0] % size[1], t / size[0] / size[1]};
        nc_shim_call(kernel, arguments, std::index_sequence_for<A...>{});
    };
    for (unsigned b = 0; b < groups[0] * groups[1] * groups[2]; b++) {
        blockIdx = {b % groups[0], b / groups[0] % groups[1], b / groups[0] / groups[1]};
        nc_shim_block = std::make_unique<std::barrier<>>(threads);
        nc_shim_warps.clear();
        for (unsigned first = 0; first < threads; first += 32) {
            nc_shim_warps.push_back(std::make_unique<nc_shim_warp>(threads - first < 32 ? threads - first : 32));
        }
        if (threads == 1) {
            run(0);
            continue;
        }
        std::vector<std::thread> pool;
        for (unsigned t = 0; t < threads; t++) pool.emplace_back(run, t);
        for (std::thread& thread : pool) thread.join();
    }
}
