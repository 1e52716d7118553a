// A GPU that is not there: the functions of libcuda.so that the driver crate calls, over memory of the process.
//
// It is as lazy as a real one may be: what is put into a stream is done when the stream is waited for, by the host or by another
// stream that has to wait, not before. Memory that is allocated in stream order is there only then, and free only when freeing it
// is done. It is stricter than a real one: memory that is not there, or whose context is not current, ends the process with a
// message. Its kernels are C functions below, of which one runs by the entry point's name, or those that the fake compiler has made
// of their text for the processor, which `emulator.c` runs. There is nothing right behind a device's memory: it ends where a page
// ends, for which it gives up the alignment beyond 16 bytes that a GPU's has and no kernel may rely on.
//
// Settings by environment: FAKE_INIT (the result of cuInit), FAKE_COUNT, FAKE_MEMORY (bytes), FAKE_POOL=0, FAKE_PINNED=0,
// FAKE_CAPABILITY, FAKE_LOAD (the result of loading a module), FAKE_PEER (whether devices reach each other), FAKE_PEER_COPY (the
// result of copies between them), FAKE_LOG (a file to which events, waits and copies between devices are appended).

#include "emulator.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { DEVICES = 4 };
static __thread int current; // the device, from 1, whose context is current in this thread
static int retained[DEVICES];
static int broken; // the sticky error
static uint64_t clock_ns;
static size_t used;

#define REQUIRE(condition, ...) \
    do { if (!(condition)) { fprintf(stderr, "fake driver: " __VA_ARGS__); fputc('\n', stderr); _exit(86); } } while (0)

static size_t setting(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void note(const char *what, int a, int b) {
    FILE *file = getenv("FAKE_LOG") ? fopen(getenv("FAKE_LOG"), "a") : NULL;
    if (!file) return;
    fprintf(file, "%s %d %d\n", what, a, b);
    fclose(file);
}

// Memory of devices and pinned memory.
typedef struct Block { char *start; size_t bytes; int pinned, device, ready; struct Block *next; char *pages; size_t mapped; Shadow *shadow; } Block;
static Block *blocks;

static Block *find(const void *address, size_t bytes, int pinned) {
    const char *at = address;
    for (Block *b = blocks; b; b = b->next)
        if (b->pinned == pinned && at >= b->start && at + bytes <= b->start + b->bytes) return b;
    return NULL;
}

static Block *there(const void *address, size_t bytes) { // now, in the order of streams
    Block *b = find(address, bytes, 0);
    REQUIRE(b && b->ready, "memory is used outside of it, or before it is there");
    return b;
}

enum { BEFORE = 0xa5 };

static Block *take(size_t bytes, int pinned) {
    // Pages for it, filled up before it, and one after it that nobody may touch.
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + 15) / 16 * 16, mapped = (size + page - 1) / page * page + page;
    char *pages = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(pages != MAP_FAILED && !mprotect(pages + mapped - page, page, PROT_NONE), "the machine has no more memory");
    memset(pages, BEFORE, mapped - page);
    Block *b = malloc(sizeof *b);
    *b = (Block){pages + mapped - page - size, bytes, pinned, current, 1, blocks, pages, mapped, NULL};
    blocks = b;
    if (!pinned) used += bytes;
    return b;
}

static void give_back(void *start, int pinned) {
    for (Block **p = &blocks; *p; p = &(*p)->next) {
        Block *b = *p;
        if (b->start != start) continue;
        REQUIRE(b->pinned == pinned, "memory of one kind freed as of another");
        if (!pinned) used -= b->bytes;
        for (char *at = b->pages; at < b->start; at++) REQUIRE(*(unsigned char *)at == BEFORE, "something was written before memory");
        munmap(b->pages, b->mapped);
        if (b->shadow) munmap(b->shadow, b->mapped / 4 * sizeof(Shadow));
        *p = b->next;
        free(b);
        return;
    }
    REQUIRE(0, "memory freed that is not allocated");
}

// Kernels.
typedef struct { uint32_t groups[3], size[3]; void *arguments[8]; char parameters[256]; } Call;

static size_t items(const Call *c) {
    size_t n = 1;
    for (int i = 0; i < 3; i++) n *= (size_t)c->groups[i] * c->size[i];
    return n;
}

static void step(const Call *c) { // y[i] = 3 y[i] + i
    uint32_t *y = c->arguments[0];
    there(y, items(c) * 4);
    for (size_t i = 0; i < items(c); i++) y[i] = 3 * y[i] + (uint32_t)i;
}

static void mix(const Call *c) { // z = x a + y b, with a and b of the parameters
    uint32_t *x = c->arguments[0], *y = c->arguments[1], *z = c->arguments[2];
    const uint32_t *p = (const uint32_t *)c->parameters;
    there(x, items(c) * 4), there(y, items(c) * 4), there(z, items(c) * 4);
    for (size_t i = 0; i < items(c); i++) z[i] = x[i] * p[1] + y[i] * p[3];
}

static void crash(const Call *c) { (void)c; broken = ILLEGAL_ADDRESS; }

static void probe(const Call *c) { there(c->arguments[0], 1); } // the engine's, of which nothing is learned

typedef struct {
    const char *name;
    void (*run)(const Call *);
    size_t sizes[5];
    const Module *module; // of one that is emulated
    const Entry *entry;
} Function;
static Function functions[] = {{"step", step, {8}, 0, 0}, {"mix", mix, {8, 8, 8, 16}, 0, 0}, {"crash", crash, {8}, 0, 0},
                               {"main_", probe, {8, 16}, 0, 0}};

// The arguments of an emulated kernel: places of values, and the values.
static void **packed(const Entry *e, void **places) {
    enum { ALIGN = 16 };
    size_t bytes = (e->count * sizeof(void *) + ALIGN - 1) / ALIGN * ALIGN, at = bytes;
    for (unsigned i = 0; i < e->count; i++) bytes += (e->sizes[i] + ALIGN - 1) / ALIGN * ALIGN;
    void **all = aligned_alloc(ALIGN, bytes + ALIGN);
    for (unsigned i = 0; i < e->count; i++) {
        all[i] = memcpy((char *)all + at, places[i], e->sizes[i]);
        at += (e->sizes[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    return all;
}

static void run_emulated(const Function *f, const Call *c, void **arguments) {
    Range ranges[32];
    size_t count = 0;
    for (unsigned i = 0; i < f->entry->count; i++) {
        if (!f->entry->pointers[i]) continue;
        Block *b = there(*(void **)arguments[i], 1);
        if (!b->shadow)
            b->shadow = mmap(NULL, b->mapped / 4 * sizeof(Shadow), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(b->shadow != MAP_FAILED && count < 31, "no memory for what is known of memory");
        ranges[count++] = (Range){b->start, b->start + b->bytes, b->shadow};
    }
    Triple groups = {c->groups[0], c->groups[1], c->groups[2]}, size = {c->size[0], c->size[1], c->size[2]};
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (emulate(f->module, f->entry, groups, size, arguments, ranges, count)) broken = ILLEGAL_ADDRESS;
    clock_gettime(CLOCK_MONOTONIC, &end);
    clock_ns += (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000 + (uint64_t)end.tv_nsec - (uint64_t)begin.tv_nsec;
}

// Streams.
typedef struct Stream Stream;
typedef struct { int reached; uint64_t time; Stream *stream; size_t until; } Event;
enum Kind { COPY, ALLOCATE, FREE, RECORD, WAIT, LAUNCH, HOST };
typedef struct { enum Kind kind; void *to; const void *from; size_t bytes; Function *function; Call call; void **arguments; Stream *stream; int device; } Work;
struct Stream { int device, number; Work *queue; size_t next, length, capacity, gone; Stream *other; };
static Stream *streams;
static int created;

static void push(Stream *s, Work work) {
    REQUIRE(s->device == current, "a stream of another device");
    if (s->length == s->capacity)
        s->queue = realloc(s->queue, (s->capacity = s->capacity ? 2 * s->capacity : 64) * sizeof *s->queue);
    s->queue[s->length++] = work;
}

static size_t end(const Stream *s) { return s->gone + s->length; } // counted from the stream's beginning

static int run(Stream *s, size_t until) {
    while (s->gone + s->next < until) {
        Work w = s->queue[s->next++];
        if (w.kind == ALLOCATE) { find(w.to, w.bytes, 0)->ready = 1; continue; }
        clock_ns += 1000;
        if (w.kind == FREE) { there(w.to, 1); give_back(w.to, 0); continue; }
        if (w.kind == RECORD) { ((Event *)w.to)->reached = 1; ((Event *)w.to)->time = clock_ns; continue; }
        if (w.kind == WAIT) { run(w.stream, w.bytes); continue; }
        if (w.kind == LAUNCH) {
            if (!broken && w.arguments) run_emulated(w.function, &w.call, w.arguments);
            else if (!broken) w.function->run(&w.call);
            free(w.arguments);
            continue;
        }
        if (broken) continue;
        if (w.kind == HOST) { ((void (*)(void *))(uintptr_t)w.from)(w.to); continue; }
        if (w.device & 1) there(w.to, w.bytes);
        if (w.device & 2) there(w.from, w.bytes);
        memcpy(w.to, w.from, w.bytes);
    }
    if (s->next == s->length) { s->gone += s->length; s->next = s->length = 0; }
    return broken;
}

static int drain(Stream *s) { return run(s, end(s)); }

static int drain_all(void) {
    for (Stream *s = streams; s; s = s->other) drain(s);
    return broken;
}

static int idle(int device) {
    for (Stream *s = streams; s; s = s->other)
        if (s->device == device && s->length) return 0;
    return 1;
}

#define ENTER() \
    pthread_mutex_lock(&lock); \
    REQUIRE(current && retained[current - 1], "%s without a context", __func__); \
    if (broken) return leave(broken)
static int leave(int result) { pthread_mutex_unlock(&lock); return result; }

// Devices and contexts.
int cuInit(unsigned flags) { (void)flags; return (int)setting("FAKE_INIT", 0); }
int cuDriverGetVersion(int *version) { *version = 12040; return OK; }
int cuDeviceGetCount(int *count) { *count = (int)setting("FAKE_COUNT", 1); return OK; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return OK; }
int cuDeviceGetName(char *name, int length, int device) { (void)device; snprintf(name, (size_t)length, "Fake GPU"); return OK; }
int cuDeviceGetPCIBusId(char *text, int length, int device) { snprintf(text, (size_t)length, "0000:%02X:00.0", 0x3a + device); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = setting("FAKE_MEMORY", 1 << 30); return OK; }
int cuDeviceGetAttribute(int *value, int what, int device) {
    (void)device;
    int capability = (int)setting("FAKE_CAPABILITY", 90);
    switch (what) {
    case 1: *value = 1024; break;
    case 8: *value = 48 << 10; break;
    case 10: *value = 32; break;
    case 75: *value = capability / 10; break;
    case 76: *value = capability % 10; break;
    case 115: *value = (int)setting("FAKE_POOL", 1); break;
    default: return INVALID;
    }
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &retained[device]; retained[device]++; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) {
    REQUIRE(retained[device]-- > 0, "a context released that is not retained");
    if (retained[device] == 0) REQUIRE(idle(device + 1), "a context released with commands in its streams");
    return OK;
}
int cuCtxSetCurrent(void *context) { current = (int)((int *)context - retained) + 1; return OK; }
int cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    ENTER();
    Stream *s = calloc(1, sizeof *s);
    *s = (Stream){.device = current, .number = created++, .other = streams};
    *stream = streams = s;
    return leave(OK);
}
// Not freed: events may still tell of it.
int cuStreamDestroy_v2(void *stream) {
    REQUIRE(((Stream *)stream)->length == 0 || broken, "a stream destroyed with commands in it");
    return OK;
}
int cuStreamSynchronize(void *stream) { ENTER(); return leave(drain(stream)); }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)flags;
    ENTER();
    Event *e = event;
    Stream *s = stream;
    REQUIRE(e->stream, "a wait for an event that is nowhere");
    push(s, (Work){.kind = WAIT, .stream = e->stream, .bytes = e->until});
    note("wait", s->number, e->stream->number);
    return leave(OK);
}

// Memory.
static int allocate(uint64_t *address, size_t bytes) {
    if (used + bytes > setting("FAKE_MEMORY", 1 << 30)) return NO_MEMORY;
    *address = (uint64_t)(uintptr_t)take(bytes, 0)->start;
    return OK;
}
int cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = &retained[device]; return OK; }
int cuMemPoolSetAttribute(void *pool, int what, void *value) { (void)pool; (void)value; return what == 4 ? OK : INVALID; }
int cuMemPoolTrimTo(void *pool, size_t keep) { (void)pool; (void)keep; return OK; }
int cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream) {
    ENTER();
    REQUIRE(setting("FAKE_POOL", 1), "a pool used that is not there");
    int result = allocate(address, bytes);
    if (result) return leave(result);
    void *start = (void *)(uintptr_t)*address;
    find(start, bytes, 0)->ready = 0;
    push(stream, (Work){.kind = ALLOCATE, .to = start, .bytes = bytes});
    return leave(OK);
}
int cuMemFreeAsync(uint64_t address, void *stream) {
    ENTER();
    push(stream, (Work){.kind = FREE, .to = (void *)(uintptr_t)address});
    return leave(OK);
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) { ENTER(); return leave(allocate(address, bytes)); }
int cuMemFree_v2(uint64_t address) {
    ENTER();
    int result = drain_all();
    give_back((void *)(uintptr_t)address, 0);
    return leave(result);
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    ENTER();
    if (!setting("FAKE_PINNED", 1)) return leave(NO_MEMORY);
    *address = take(bytes, 1)->start;
    return leave(OK);
}
int cuMemFreeHost(void *address) {
    pthread_mutex_lock(&lock);
    give_back(address, 1);
    return leave(OK);
}

// Copies: from and to pinned memory by the device, later; from and to other memory at once, after all earlier work.
static int on(const void *address, size_t bytes, int device) {
    Block *b = find(address, bytes, 0);
    return b && b->device == device;
}
static int copy(void *to, const void *from, size_t bytes, const void *host, Stream *stream) {
    int device = 1;
    if (host != to) device &= on(to, bytes, current);
    if (host != from) device &= on(from, bytes, current);
    REQUIRE(device, "a copy of %zu bytes outside of the device's memory", bytes);
    push(stream, (Work){.kind = COPY, .to = to, .from = from, .bytes = bytes, .device = (host != to) + 2 * (host != from)});
    return host && !find(host, bytes, 1) ? drain(stream) : OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    ENTER();
    return leave(copy((void *)(uintptr_t)to, from, bytes, from, stream));
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    ENTER();
    return leave(copy(to, (void *)(uintptr_t)from, bytes, to, stream));
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    ENTER();
    return leave(copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes, NULL, stream));
}

// Between devices.
static int device_of(const void *context) { return (int)((const int *)context - retained) + 1; }
int cuDeviceCanAccessPeer(int *can, int device, int other) { (void)device; (void)other; *can = (int)setting("FAKE_PEER", 1); return OK; }
typedef struct { int type, id, flags; } Access;
int cuMemPoolSetAccess(void *pool, const Access *list, size_t count) {
    REQUIRE(count == 1 && list->type == 1 && list->flags == 3, "access to a pool is asked for in a way that is not known");
    note("pool access", device_of(pool) - 1, list->id);
    return OK;
}
int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    ENTER();
    if (flags) return leave(INVALID);
    note("context access", device_of(context) - 1, current - 1);
    return leave(OK);
}
int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes, void *stream) {
    ENTER();
    if (setting("FAKE_PEER_COPY", 0)) return leave((int)setting("FAKE_PEER_COPY", 0));
    REQUIRE(on((void *)(uintptr_t)to, bytes, device_of(to_context)), "a copy to memory that is not the device's");
    REQUIRE(on((void *)(uintptr_t)from, bytes, device_of(from_context)), "a copy from memory that is not the device's");
    REQUIRE(idle(device_of(from_context)), "a copy from a device that is still at work");
    push(stream, (Work){.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .bytes = bytes, .device = 3});
    note("peer", device_of(from_context) - 1, device_of(to_context) - 1);
    return leave(OK);
}

// What other fakes do in a stream, and the memory that they use there.
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
    ENTER();
    push(stream, (Work){.kind = HOST, .to = data, .from = (const void *)(uintptr_t)function});
    return leave(OK);
}
void fake_require_memory(const void *address, size_t bytes) { there(address, bytes); }

// Events.
int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    ENTER();
    *event = calloc(1, sizeof(Event));
    return leave(OK);
}
// Not freed, so that a record in the stream has where to go: a real one outlives its handle too.
int cuEventDestroy_v2(void *event) { (void)event; return OK; }
int cuEventRecord(void *event, void *stream) {
    ENTER();
    Event *e = event;
    Stream *s = stream;
    push(s, (Work){.kind = RECORD, .to = event});
    *e = (Event){0, e->time, s, end(s)};
    note("record", s->number, 0);
    return leave(OK);
}
int cuEventSynchronize(void *event) { ENTER(); return leave(run(((Event *)event)->stream, ((Event *)event)->until)); }
int cuEventQuery(void *event) { ENTER(); return leave(((Event *)event)->reached ? OK : NOT_READY); }
int cuEventElapsedTime(float *milliseconds, void *a, void *b) {
    ENTER();
    *milliseconds = (float)((int64_t)((Event *)b)->time - (int64_t)((Event *)a)->time) / 1e6f;
    return leave(OK);
}

// Modules: the fake compiler's, which are their text after a mark, or a library for this processor after another one.
typedef struct { char *text; void *library; const Module *module; Function *functions; } Loaded;

static void load(Loaded *loaded, const char *image) {
    uint64_t bytes;
    memcpy(&bytes, image, sizeof bytes);
    char path[] = "/tmp/emulated-XXXXXX";
    int file = mkstemp(path);
    REQUIRE(file >= 0, "no file can be made in /tmp");
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(file, image + sizeof bytes + done, bytes - done);
        REQUIRE(count > 0, "a file in /tmp cannot be written");
        done += (size_t)count;
    }
    close(file);
    loaded->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    REQUIRE(loaded->library, "an emulated module cannot be loaded: %s", dlerror());
    const Module *module = loaded->module = dlsym(loaded->library, "emulated");
    REQUIRE(module, "an emulated module shows nothing");
    REQUIRE(module->shared_end - module->shared <= 48 << 10, "a kernel with more shared memory than a workgroup has");
    loaded->functions = calloc(module->count, sizeof *loaded->functions);
    for (size_t i = 0; i < module->count; i++)
        loaded->functions[i] = (Function){.name = module->entries[i].name, .module = module, .entry = &module->entries[i]};
}

int cuModuleLoadData(void **module, const void *image) {
    ENTER();
    if (setting("FAKE_LOAD", 0)) return leave((int)setting("FAKE_LOAD", 0));
    Loaded *loaded = calloc(1, sizeof *loaded);
    if (!memcmp(image, "EMULATED", 8)) load(loaded, (const char *)image + 8);
    else {
        REQUIRE(!memcmp(image, "FAKE ", 5), "an image of another compiler");
        loaded->text = strdup(image);
    }
    *module = loaded;
    return leave(OK);
}
int cuModuleUnload(void *module) {
    ENTER();
    REQUIRE(idle(current), "a module unloaded with commands in a stream");
    Loaded *loaded = module;
    if (loaded->library) dlclose(loaded->library);
    free(loaded->functions);
    free(loaded->text);
    free(loaded);
    return leave(OK);
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    ENTER();
    Loaded *loaded = module;
    Function *list = loaded->module ? loaded->functions : functions;
    size_t count = loaded->module ? loaded->module->count : sizeof functions / sizeof *functions;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i].name, name) && (loaded->module || strstr(loaded->text, name))) {
            *function = &list[i];
            return leave(OK);
        }
    return leave(NOT_FOUND);
}
int cuFuncGetAttribute(int *value, int what, void *function) {
    ENTER();
    const Entry *e = ((Function *)function)->entry;
    *value = e ? (int)e->bound : 1024;
    return leave(what == 0 ? OK : INVALID);
}
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
    ENTER();
    *offset = 8 * index;
    const Function *f = function;
    if (f->entry) *size = index < f->entry->count ? f->entry->sizes[index] : 0;
    else *size = index < 5 ? f->sizes[index] : 0;
    return leave(*size ? OK : INVALID);
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z, unsigned shared,
                   void *stream, void **places, void **extra) {
    ENTER();
    if (!gx || !gy || !gz || shared || extra) return leave(INVALID);
    Function *f = function;
    Work w = {.kind = LAUNCH, .function = f, .call = {.groups = {gx, gy, gz}, .size = {x, y, z}}};
    if (f->entry) {
        if ((uint64_t)x * y * z > f->entry->bound) return leave(INVALID);
        w.arguments = packed(f->entry, places);
    }
    for (int i = 0; i < 5 && f->sizes[i]; i++) {
        if (f->sizes[i] == 8) memcpy(&w.call.arguments[i], places[i], 8);
        else memcpy(w.call.parameters, places[i], f->sizes[i]);
    }
    push(stream, w);
    return leave(OK);
}
