// Prints the rate at which so many threads read memory, in GB/s: the best of ten passes over 1 GiB in huge pages.
// cc -O3 -march=native -pthread read_rate.c && ./a.out THREADS
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
static volatile uint64_t sink;

static void *read_part(void *part) {
    size_t words = BYTES / sizeof *memory / threads;
    const uint64_t *from = memory + (size_t)part * words;
    uint64_t sums[32] = {0};
    for (size_t i = 0; i + 32 <= words; i += 32)
        for (size_t j = 0; j < 32; j++) sums[j] ^= from[i + j];
    for (size_t j = 0; j < 32; j++) sink ^= sums[j];
    return NULL;
}

int main(int count, char **arguments) {
    threads = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;
    if (threads == 0 || threads > 1024) return fprintf(stderr, "usage: read_rate THREADS\n"), 1;
    if (posix_memalign((void **)&memory, 2 << 20, BYTES)) return perror("memory"), 1;
    madvise(memory, BYTES, MADV_HUGEPAGE);
    memset(memory, 1, BYTES);
    double best = 0;
    for (int pass = 0; pass < 10; pass++) {
        struct timespec a, b;
        pthread_t all[1024];
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (size_t i = 1; i < threads; i++)
            if (pthread_create(&all[i], NULL, read_part, (void *)i)) return perror("thread"), 1;
        read_part(NULL);
        for (size_t i = 1; i < threads; i++) pthread_join(all[i], NULL);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double rate = BYTES / ((b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec)) / 1e9;
        if (rate > best) best = rate;
    }
    printf("%.2f\n", best);
}
