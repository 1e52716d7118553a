// Runs kernels that were compiled for the processor (`kernel.h`): workgroups one after the other, the invocations of one as fibers
// that take turns where they wait for each other. The caller sees to it that one launch runs at a time.
//
// Stricter than a GPU: invocations that wait at different barriers, or for one that has returned, and exchanges in which not the
// whole warp takes part, end the process with a message. Workgroup memory is spoilt before each workgroup. Workgroups run in the order
// of their numbers in one launch and in the opposite one in the next, and so do invocations from one workgroup to the next; a warp
// goes on as far as it can before another one does. So a barrier that is missing shows. FAKE_ORDER=0 makes all orders those of numbers,
// FAKE_ORDER=1 the opposite ones. Races end the process, too: two invocations that access a word, one of which writes, and neither a
// barrier nor an atomic operation in both is between them. An access to memory that is not there ends the kernel as on a GPU.

#include "emulator.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef __x86_64__
#include <ucontext.h>
#endif

enum { WARP = 32, MOST = 1024, STACK = 64 << 10, GUARD = 64 << 10 };

typedef struct Fiber Fiber;
struct Fiber {
#ifdef __x86_64__
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    Triple thread;
    unsigned index;
    int line; // where it waits
    Fiber *next; // of those that wait for the same, or can go on, or have nothing to do
};
typedef struct { Fiber *first, *last; } Line;
typedef struct { Line waiting; unsigned count, mask; int line; uint64_t brought[WARP], given[WARP]; } Warp;

static const Entry *entry;
static const Module *module;
static void **arguments;
static unsigned threads, started, finished, at_barrier, launches;
static int backwards;
static unsigned now, group_began, launch_began; // in barriers and beginnings of workgroups
static Triple group;
static Line ready, barrier_line;
static Warp warps[MOST / WARP];
static Fiber *current, *idle;
static Fiber host; // the thread that launches
static sigjmp_buf out;
static volatile sig_atomic_t inside; // a kernel runs in this process
static __thread volatile sig_atomic_t mine; // and in this thread

static void fail(const char *format, ...) {
    fprintf(stderr, "emulator: kernel `%s`, workgroup %u %u %u: ", entry->name, group.x, group.y, group.z);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    _exit(86);
}

static void append(Line *line, Fiber *f) {
    f->next = NULL;
    if (line->first) line->last->next = f;
    else line->first = f;
    line->last = f;
}

static Fiber *first(Line *line) {
    Fiber *f = line->first;
    if (f) line->first = f->next;
    return f;
}

static void release(Line *line) {
    for (Fiber *f; (f = first(line));) append(&ready, f);
}

// Switching.
#ifdef __x86_64__
// Saves what a function must keep, and its place on the stack.
void emulator_switch(void **from, void *to);
__asm__(
    ".text\n.globl emulator_switch\n.hidden emulator_switch\n.type emulator_switch, @function\n"
    "emulator_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n    ret\n"
    ".size emulator_switch, .-emulator_switch\n");
#endif

static void go(Fiber *to) {
    Fiber *from = current;
    if (to == from) return;
    current = to;
    *module->thread = to->thread;
#ifdef __x86_64__
    emulator_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
}

// Lets others go on, until somebody makes this one ready.
static void suspend(void) {
    Fiber *next = first(&ready);
    go(next ? next : &host);
}

// What invocations call.
static void barrier(int line) {
    if (at_barrier && barrier_line.first->line != line)
        fail("a barrier for only a part of the workgroup: some wait in line %d, some in line %d", barrier_line.first->line, line);
    current->line = line;
    append(&barrier_line, current);
    if (++at_barrier == threads) {
        at_barrier = 0;
        now++;
        release(&barrier_line);
    }
    suspend();
}

static unsigned lane(void) { return current->index % WARP; }

static const uint64_t *exchange(int line, unsigned mask, uint64_t value) {
    Warp *warp = &warps[current->index / WARP];
    if (mask != warp->mask) fail("an exchange of lanes %08x in line %d, in a warp of lanes %08x", mask, line, warp->mask);
    if (warp->count && warp->line != line)
        fail("an exchange for only a part of a warp: some wait in line %d, some in line %d", warp->line, line);
    current->line = warp->line = line;
    warp->brought[lane()] = value;
    // None can bring something anew before all have taken what is given, since each has to come here for it.
    if (++warp->count == (unsigned)__builtin_popcount(mask)) {
        warp->count = 0;
        memcpy(warp->given, warp->brought, sizeof warp->given);
        release(&warp->waiting);
        return warp->given;
    }
    append(&warp->waiting, current);
    suspend();
    return warp->given;
}

// Races. Time is counted in barriers and beginnings of workgroups, since nothing else orders what invocations do: an exchange in a
// warp makes no memory seen.
enum { SEVERAL = 0xffff, FROM_OTHER_GROUPS = 0xfffe, ATOMICALLY = 0xfffd };
static const Range *ranges;
static size_t range_count;
static Shadow shared_shadow[(48 << 10) / 4];

static void race(const Range *r, const char *p, const char *does, unsigned other, const char *did, unsigned when) {
    const char *whose = when < group_began ? "of another workgroup" : "of this one", *whom = "an invocation";
    char number[32];
    if (other < ATOMICALLY) {
        snprintf(number, sizeof number, "invocation %u", other);
        whom = number;
    }
    fail("a race: invocation %u %s byte %zu of %s, which %s %s has %s%s; its last barrier was in line %d", current->index, does,
         (size_t)(p - r->start), r->start == module->shared ? "the workgroup's memory" : "a buffer", whom, whose, did,
         other == ATOMICALLY ? " atomically" : "", current->line);
}

static void access_word(const Range *r, const char *p, Shadow *s, int kind) {
    unsigned me = current->index;
    const char *does = kind == READS || kind == LOADS ? "reads" : kind == WRITES ? "writes" : "changes";
    // Whether somebody else did it, with nothing between.
    int written = s->written >= launch_began && (s->written < group_began || (s->written == now && s->writer != me));
    if (written && !(kind >= LOADS && s->writer == ATOMICALLY)) race(r, p, does, s->writer, "written", s->written);
    // An atomic load is not remembered, for what may follow it is an atomic change.
    if (kind == LOADS) return;
    if (kind == READS) {
        if (s->read < launch_began) s->reader = (uint16_t)me;
        else if (s->reader == FROM_OTHER_GROUPS || s->read < group_began) s->reader = FROM_OTHER_GROUPS;
        else s->reader = s->read < now || s->reader == me ? (uint16_t)me : SEVERAL;
        s->read = now;
        return;
    }
    if (s->read >= launch_began &&
        (s->read < group_began || s->reader == FROM_OTHER_GROUPS || (s->read == now && s->reader != me)))
        race(r, p, does, s->reader, "read", s->read);
    s->writer = kind == ATOMIC ? ATOMICALLY : (uint16_t)me;
    s->written = now;
}

static void access_memory(const void *address, size_t bytes, int kind) {
    const char *p = address;
    for (size_t i = 0; i < range_count; i++) {
        const Range *r = &ranges[i];
        if (p < r->start || p >= r->end) continue;
        size_t first = (size_t)(p - r->start) / 4, last = ((size_t)(p - r->start) + bytes - 1) / 4;
        for (size_t word = first; word <= last && r->start + 4 * word < r->end; word++)
            access_word(r, r->start + 4 * word, &r->shadow[word], kind);
        return;
    }
}

static const Calls calls = {barrier, exchange, lane, access_memory};

// Fibers: each runs one invocation after the other, as long as there are some that nobody has begun.
static void work(void) {
    for (;;) {
        while (started < threads) {
            unsigned i = started++;
            current->index = i = backwards ? threads - 1 - i : i;
            Triple size = *module->size;
            *module->thread = current->thread = (Triple){i % size.x, i / size.x % size.y, i / size.x / size.y};
            entry->invoke(arguments);
            finished++;
        }
        current->next = idle;
        idle = current;
        suspend();
    }
}

// Makes a fiber that has not begun, with a stack above `stack`.
static void prepare(Fiber *f, char *stack) {
#ifdef __x86_64__
    // As if `work` had been called there: its return address is never used, and the stack is aligned as after a call.
    void **top = (void **)(stack + STACK);
    top[-1] = NULL;
    top[-2] = (void *)work;
    f->stack_pointer = &top[-2 - 6];
    memset(f->stack_pointer, 0, 6 * sizeof *top);
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = STACK;
    makecontext(&f->context, work, 0);
#endif
}

static Fiber *fiber(void) {
    Fiber *f = idle;
    if (f) {
        idle = f->next;
        return f;
    }
    char *stack = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    f = calloc(1, sizeof *f);
    if (stack == MAP_FAILED || !f || mprotect(stack, GUARD, PROT_NONE)) fail("no memory for the stack of an invocation");
    prepare(f, stack + GUARD);
    return f;
}

static void run_group(void) {
    started = finished = at_barrier = 0;
    group_began = ++now;
    ready = barrier_line = (Line){NULL, NULL};
    for (unsigned i = 0; i * WARP < threads; i++) {
        unsigned left = threads - i * WARP;
        warps[i].waiting = (Line){NULL, NULL};
        warps[i].count = 0;
        warps[i].mask = left >= WARP ? ~0u : (1u << left) - 1;
        memset(warps[i].brought, 0x5a, sizeof warps[i].brought);
    }
    if (module->shared) {
        size_t bytes = (size_t)(module->shared_end - module->shared);
        memset(module->shared, 0xa5, bytes);
        memset(shared_shadow, 0, (bytes + 3) / 4 * sizeof *shared_shadow);
    }
    while (finished < threads) {
        if (started < threads) go(fiber());
        else if (ready.first) go(first(&ready));
        else break;
    }
    if (finished == threads) return;
    // Whoever waits does so for ever.
    for (unsigned i = 0; i * WARP < threads; i++)
        if (warps[i].count)
            fail("%u invocations of warp %u wait in line %d, %u of the workgroup at a barrier, and %u have returned", warps[i].count,
                 i, warps[i].line, at_barrier, finished);
    fail("%u of %u invocations wait at the barrier in line %d, and %u have returned", at_barrier, threads, barrier_line.first->line,
         finished);
}

// Memory that is not there, and what else the processor refuses.
static struct sigaction before[65];
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (!inside || !mine) { // not a kernel's: as if we were not here
        sigaction(number, &before[number], NULL);
        return;
    }
    char text[256];
    int length = snprintf(text, sizeof text, "emulator: kernel `%s`, workgroup %u %u %u, invocation %u: signal %d at address %p\n",
                          entry->name, group.x, group.y, group.z, current->index, number, info->si_addr);
    if (write(2, text, (size_t)length) < 0) _exit(86);
    siglongjmp(out, 1);
}

int emulate(const Module *in, const Entry *what, Triple groups, Triple size, void **with, const Range *memory, size_t memories) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    Range all[32];
    all[0] = (Range){in->shared, in->shared_end, shared_shadow};
    range_count = 1 + memories;
    module = in, entry = what, arguments = with;
    group = (Triple){0, 0, 0};
    threads = size.x * size.y * size.z;
    if (threads > entry->bound || threads > MOST) fail("launched with %u invocations, of %u that it takes", threads, entry->bound);
    if (range_count > sizeof all / sizeof *all) fail("more buffers than %zu", sizeof all / sizeof *all - 1);
    memcpy(all + 1, memory, memories * sizeof *memory);
    ranges = all;
    launch_began = now + 1;
    *module->calls = &calls;
    *module->size = size, *module->groups = groups;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigaction(faults[i], &action, &before[faults[i]]);
    current = &host;
    inside = mine = 1;
    int crashed = sigsetjmp(out, 1);
    if (!crashed) {
        const char *order = getenv("FAKE_ORDER");
        unsigned turned = order ? (unsigned)atoi(order) : launches;
        uint64_t count = (uint64_t)groups.x * groups.y * groups.z;
        for (uint64_t n = 0; n < count; n++) {
            uint64_t g = turned & 1 ? count - 1 - n : n;
            *module->block = group = (Triple){(unsigned)(g % groups.x), (unsigned)(g / groups.x % groups.y), (unsigned)(g / groups.x / groups.y)};
            backwards = (turned ^ (order ? 0 : g)) & 1;
            run_group();
        }
        launches++;
    } else {
        // The fibers stand in the midst of it; they are left to lie.
        idle = NULL;
    }
    inside = mine = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigaction(faults[i], &before[faults[i]], NULL);
    return crashed;
}
