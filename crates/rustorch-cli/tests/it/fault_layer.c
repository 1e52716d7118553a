// A layer between the OpenCL loader and its drivers (OPENCL_LAYERS) that lets launches of kernels fail: from the launch FAULT_FROM on, counted
// from 0, clEnqueueNDRangeKernel answers FAULT_STATUS. The file FAULT_MARK is made as soon as a loader has asked the layer in.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_API_VERSION = 0x4240, INVALID_VALUE = -30, LAUNCH = 59, MOST = 512 };

typedef int (*Launch)(void *, void *, unsigned, const size_t *, const size_t *, const size_t *, unsigned, const void *const *, void **);

// The functions of the layer, in the order of the loader's table, of which clEnqueueNDRangeKernel is number 59.
static void *table[MOST];
static Launch next;

static int launch(void *queue, void *kernel, unsigned dimensions, const size_t *offset, const size_t *global, const size_t *local,
                  unsigned count, const void *const *events, void **event) {
    static int launches;
    if (__atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED) >= atoi(getenv("FAULT_FROM"))) return atoi(getenv("FAULT_STATUS"));
    return next(queue, kernel, dimensions, offset, global, local, count, events, event);
}

int clGetLayerInfo(unsigned what, size_t size, void *value, size_t *needed) {
    const unsigned version = 100;
    if (what != LAYER_API_VERSION || (value && size < sizeof version)) return INVALID_VALUE;
    if (value) memcpy(value, &version, sizeof version);
    if (needed) *needed = sizeof version;
    return 0;
}

int clInitLayer(unsigned count, void *const *target, unsigned *entries, void *const **layer) {
    if (count <= LAUNCH || count > MOST) return INVALID_VALUE;
    memcpy(table, target, count * sizeof *table);
    next = (Launch)table[LAUNCH];
    table[LAUNCH] = (void *)launch;
    FILE *mark = fopen(getenv("FAULT_MARK"), "w");
    if (mark) fclose(mark);
    *entries = count;
    *layer = table;
    return 0;
}
