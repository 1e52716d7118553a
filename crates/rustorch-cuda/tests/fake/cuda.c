// A GPU that is not there: the functions of libcuda.so that the driver crate calls, over memory of the process.
//
// It is as lazy as a real one may be: what is put into a stream is done when the stream is waited for, not before. Memory that is
// freed in stream order is free only then. It is stricter than a real one: memory that is not allocated, or whose context is not
// current, ends the process with a message. Its kernels are C functions below; which one runs goes by the entry point's name.
//
// Settings by environment: FAKE_INIT (the result of cuInit), FAKE_COUNT, FAKE_MEMORY (bytes), FAKE_POOL=0, FAKE_PINNED=0,
// FAKE_CAPABILITY, FAKE_LOAD (the result of loading a module).

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current; // whether the context is current in this thread
static int retained;
static int broken; // the sticky error
static uint64_t clock_ns;
static size_t used;

#define REQUIRE(condition, ...) \
    do { if (!(condition)) { fprintf(stderr, "fake driver: " __VA_ARGS__); fputc('\n', stderr); _exit(86); } } while (0)
extern void _exit(int);

static size_t setting(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

// Memory of the device and pinned memory.
typedef struct Block { char *start; size_t bytes; int pinned; struct Block *next; } Block;
static Block *blocks;

static Block *find(const void *address, size_t bytes, int pinned) {
    const char *at = address;
    for (Block *b = blocks; b; b = b->next)
        if (b->pinned == pinned && at >= b->start && at + bytes <= b->start + b->bytes) return b;
    return NULL;
}

static void *take(size_t bytes, int pinned) {
    Block *b = malloc(sizeof *b);
    *b = (Block){aligned_alloc(256, (bytes + 255) / 256 * 256), bytes, pinned, blocks};
    memset(b->start, 0xa5, bytes);
    blocks = b;
    if (!pinned) used += bytes;
    return b->start;
}

static void give_back(void *start, int pinned) {
    for (Block **p = &blocks; *p; p = &(*p)->next) {
        Block *b = *p;
        if (b->start != start) continue;
        REQUIRE(b->pinned == pinned, "memory of one kind freed as of another");
        if (!pinned) used -= b->bytes;
        memset(b->start, 0x5a, b->bytes);
        free(b->start);
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
    REQUIRE(find(y, items(c) * 4, 0), "step writes outside of memory");
    for (size_t i = 0; i < items(c); i++) y[i] = 3 * y[i] + (uint32_t)i;
}

static void mix(const Call *c) { // z = x a + y b, with a and b of the parameters
    uint32_t *x = c->arguments[0], *y = c->arguments[1], *z = c->arguments[2];
    const uint32_t *p = (const uint32_t *)c->parameters;
    REQUIRE(find(x, items(c) * 4, 0) && find(y, items(c) * 4, 0) && find(z, items(c) * 4, 0), "mix reaches outside of memory");
    for (size_t i = 0; i < items(c); i++) z[i] = x[i] * p[1] + y[i] * p[3];
}

static void crash(const Call *c) { (void)c; broken = ILLEGAL_ADDRESS; }

typedef struct { const char *name; void (*run)(const Call *); size_t sizes[5]; } Function;
static Function functions[] = {{"step", step, {8}}, {"mix", mix, {8, 8, 8, 16}}, {"crash", crash, {8}}};

// The stream.
typedef struct { int reached; uint64_t time; } Event;
enum Kind { COPY, FREE, RECORD, LAUNCH };
typedef struct { enum Kind kind; void *to; const void *from; size_t bytes; Function *function; Call call; } Work;
static Work *queue;
static size_t length, capacity;

static void push(Work work) {
    if (length == capacity) queue = realloc(queue, (capacity = capacity ? 2 * capacity : 64) * sizeof *queue);
    queue[length++] = work;
}

static int drain(void) {
    for (size_t i = 0; i < length; i++) {
        Work *w = &queue[i];
        clock_ns += 1000;
        if (w->kind == FREE) { give_back(w->to, 0); continue; }
        if (w->kind == RECORD) { *(Event *)w->to = (Event){1, clock_ns}; continue; }
        if (broken) continue;
        if (w->kind == LAUNCH) { w->function->run(&w->call); continue; }
        memcpy(w->to, w->from, w->bytes);
    }
    length = 0;
    return broken;
}

#define ENTER() \
    pthread_mutex_lock(&lock); \
    REQUIRE(current && retained, "%s without a context", __func__); \
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
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &retained; retained++; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    REQUIRE(retained-- > 0, "a context released that is not retained");
    if (retained == 0) REQUIRE(length == 0, "a context released with %zu commands in its stream", length);
    return OK;
}
int cuCtxSetCurrent(void *context) { current = context == &retained; return OK; }
int cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = &queue; return OK; }
int cuStreamDestroy_v2(void *stream) { (void)stream; return OK; }
int cuStreamSynchronize(void *stream) { (void)stream; ENTER(); return leave(drain()); }

// Memory.
static int allocate(uint64_t *address, size_t bytes) {
    if (used + bytes > setting("FAKE_MEMORY", 1 << 30)) return NO_MEMORY;
    *address = (uint64_t)(uintptr_t)take(bytes, 0);
    return OK;
}
int cuDeviceGetDefaultMemPool(void **pool, int device) { (void)device; *pool = &used; return OK; }
int cuMemPoolSetAttribute(void *pool, int what, void *value) { (void)pool; (void)value; return what == 4 ? OK : INVALID; }
int cuMemPoolTrimTo(void *pool, size_t keep) { (void)pool; (void)keep; return OK; }
int cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream) {
    (void)stream;
    ENTER();
    REQUIRE(setting("FAKE_POOL", 1), "a pool used that is not there");
    return leave(allocate(address, bytes));
}
int cuMemFreeAsync(uint64_t address, void *stream) {
    (void)stream;
    ENTER();
    push((Work){.kind = FREE, .to = (void *)(uintptr_t)address});
    return leave(OK);
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) { ENTER(); return leave(allocate(address, bytes)); }
int cuMemFree_v2(uint64_t address) {
    ENTER();
    int result = drain();
    give_back((void *)(uintptr_t)address, 0);
    return leave(result);
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    ENTER();
    if (!setting("FAKE_PINNED", 1)) return leave(NO_MEMORY);
    *address = take(bytes, 1);
    return leave(OK);
}
int cuMemFreeHost(void *address) {
    pthread_mutex_lock(&lock);
    give_back(address, 1);
    return leave(OK);
}

// Copies: from and to pinned memory by the device, later; from and to other memory at once, after all earlier work.
static int copy(void *to, const void *from, size_t bytes, const void *host) {
    int device = 1;
    if (host != to) device &= find(to, bytes, 0) != NULL;
    if (host != from) device &= find(from, bytes, 0) != NULL;
    REQUIRE(device, "a copy of %zu bytes outside of memory", bytes);
    push((Work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    return host && !find(host, bytes, 1) ? drain() : OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    ENTER();
    return leave(copy((void *)(uintptr_t)to, from, bytes, from));
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    ENTER();
    return leave(copy(to, (void *)(uintptr_t)from, bytes, to));
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    ENTER();
    return leave(copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes, NULL));
}

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
    (void)stream;
    ENTER();
    ((Event *)event)->reached = 0;
    push((Work){.kind = RECORD, .to = event});
    return leave(OK);
}
int cuEventSynchronize(void *event) { (void)event; ENTER(); return leave(drain()); }
int cuEventQuery(void *event) { ENTER(); return leave(((Event *)event)->reached ? OK : NOT_READY); }
int cuEventElapsedTime(float *milliseconds, void *a, void *b) {
    ENTER();
    *milliseconds = (float)(((Event *)b)->time - ((Event *)a)->time) / 1e6f;
    return leave(OK);
}

// Modules: the fake compiler's, which are their text after a mark.
int cuModuleLoadData(void **module, const void *image) {
    ENTER();
    if (setting("FAKE_LOAD", 0)) return leave((int)setting("FAKE_LOAD", 0));
    REQUIRE(!memcmp(image, "FAKE ", 5), "an image of another compiler");
    *module = strdup(image);
    return leave(OK);
}
int cuModuleUnload(void *module) {
    ENTER();
    REQUIRE(length == 0, "a module unloaded with %zu commands in the stream", length);
    free(module);
    return leave(OK);
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    ENTER();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name) && strstr(module, name)) {
            *function = &functions[i];
            return leave(OK);
        }
    return leave(NOT_FOUND);
}
int cuFuncGetAttribute(int *value, int what, void *function) { (void)function; ENTER(); *value = 1024; return leave(what == 0 ? OK : INVALID); }
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
    ENTER();
    *offset = 8 * index;
    *size = index < 5 ? ((Function *)function)->sizes[index] : 0;
    return leave(*size ? OK : INVALID);
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z, unsigned shared,
                   void *stream, void **places, void **extra) {
    (void)stream;
    ENTER();
    if (!gx || !gy || !gz || shared || extra) return leave(INVALID);
    Function *f = function;
    Work w = {.kind = LAUNCH, .function = f, .call = {.groups = {gx, gy, gz}, .size = {x, y, z}}};
    for (int i = 0; i < 5 && f->sizes[i]; i++) {
        if (f->sizes[i] == 8) memcpy(&w.call.arguments[i], places[i], 8);
        else memcpy(w.call.parameters, places[i], f->sizes[i]);
    }
    push(w);
    return leave(OK);
}
