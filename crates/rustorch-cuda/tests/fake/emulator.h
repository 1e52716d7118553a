// What kernels that were compiled for the processor (`kernel.h`) and the emulator that runs them (`emulator.c`) know of each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct { unsigned x, y, z; } Triple;

// What an invocation asks of the emulator. `line` is that of the kernel's text.
typedef struct {
    // Waits for all invocations of the workgroup.
    void (*barrier)(int line);
    // Waits for all of the warp; gives what each of its lanes has brought.
    const uint64_t *(*exchange)(int line, unsigned mask, uint64_t value);
    unsigned (*lane)(void);
    // Tells of an access to memory, before it.
    void (*access)(const void *address, size_t bytes, int kind);
} Calls;
enum { READS, WRITES, LOADS, ATOMIC }; // the last two are of atomics: only loads, and all else

// A kernel of a module.
typedef struct {
    const char *name;
    unsigned bound; // invocations in a workgroup, at most
    unsigned count; // of parameters
    const size_t *sizes; // of these, in bytes
    const char *pointers; // which of these are
    void (*invoke)(void **arguments);
} Entry;

// What a compiled text shows, as `emulated`.
typedef struct {
    const Calls **calls; // for the emulator to fill in
    Triple *thread, *block, *size, *groups; // threadIdx, blockIdx, blockDim, gridDim
    char *shared, *shared_end; // the workgroup's memory
    const Entry *entries;
    size_t count;
} Module;

#ifndef __cplusplus
// Who has last written and read a word, and when; `emulator.c` says how.
typedef struct { unsigned written, read; uint16_t writer, reader; } Shadow;

// Memory in which races are looked for, with a shadow for each of its words, which begins as zeros.
typedef struct { const char *start, *end; Shadow *shadow; } Range;

// Runs a kernel of a module over workgroups; `arguments` are the places of its parameters' values. Not 0 if it touched memory that
// is not there, after a message.
int emulate(const Module *module, const Entry *kernel, Triple groups, Triple size, void **arguments, const Range *ranges, size_t count);
#endif
