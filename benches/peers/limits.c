// Prints what so many threads can do: the rate at which they read memory (1 GiB in huge pages), in GB/s, and that of multiply-adds of f32 in
// registers, in GFLOP/s. The best of ten passes each.
// cc -O3 -march=native -pthread limits.c && ./a.out THREADS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BYTES = 1 << 30 };
static uint64_t *memory;
static size_t threads;

static void *read_part(void *part) {
    size_t words = BYTES / sizeof *memory / threads;
    const uint64_t *from = memory + (size_t)part * words;
    uint64_t sums[32] = {0};
    for (size_t i = 0; i + 32 <= words; i += 32)
        for (size_t j = 0; j < 32; j++) sums[j] ^= from[i + j];
    for (size_t j = 1; j < 32; j++) sums[0] ^= sums[j];
    // Returned, so that it is computed.
    return (void *)(uintptr_t)sums[0];
}

// As many chains of vectors as two units with a latency of four and five need, and some more.
enum { VECTORS = 12, STEPS = 1 << 22 };
#ifdef __AVX512F__
typedef float Vector __attribute__((vector_size(64)));
#else
typedef float Vector __attribute__((vector_size(32)));
#endif

static void *multiply_part(void *part) {
    Vector chains[VECTORS], factor = (Vector){0} + 0.999f, add = (Vector){0} + 1e-3f + (float)(size_t)part * 1e-6f;
    // Unrolled everywhere, or they would not be registers.
#pragma GCC unroll 12
    for (size_t j = 0; j < VECTORS; j++) chains[j] = factor * (float)j;
    for (size_t i = 0; i < STEPS; i++) {
#pragma GCC unroll 12
        for (size_t j = 0; j < VECTORS; j++) {
            chains[j] = chains[j] * factor + add;
            __asm__ volatile("" : "+v"(chains[j]));
        }
    }
    float sum = 0;
#pragma GCC unroll 12
    for (size_t j = 0; j < VECTORS; j++) sum += chains[j][0];
    return (void *)(uintptr_t)sum;
}

// Seconds of the fastest of ten runs by all threads.
static double best(void *(*part)(void *)) {
    double least = 1e9;
    for (int pass = 0; pass < 10; pass++) {
        struct timespec a, b;
        pthread_t all[1024];
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (size_t i = 1; i < threads; i++)
            if (pthread_create(&all[i], NULL, part, (void *)i)) perror("thread"), exit(1);
        part(NULL);
        for (size_t i = 1; i < threads; i++) pthread_join(all[i], NULL);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double seconds = (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
        if (seconds < least) least = seconds;
    }
    return least;
}

int main(int count, char **arguments) {
    threads = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;
    if (threads == 0 || threads > 1024) return fprintf(stderr, "usage: limits THREADS\n"), 1;
    if (posix_memalign((void **)&memory, 2 << 20, BYTES)) return perror("memory"), 1;
    madvise(memory, BYTES, MADV_HUGEPAGE);
    memset(memory, 1, BYTES);
    double read = BYTES / best(read_part) / 1e9;
    double flops = 2.0 * VECTORS * STEPS * threads * (sizeof(Vector) / sizeof(float));
    printf("%.2f %.1f\n", read, flops / best(multiply_part) / 1e9);
}
