// A monitor of a GPU that is not there: the functions of libnvidia-ml.so that metrics are read by, as NVIDIA's nvml.h declares
// them. It knows the GPU at 0000:65:00.0; FAKE_NVML=lacking makes it a card that neither tells its power nor its load, as slices
// of a card do, and FAKE_NVML=broken a library that finds no driver.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, VERSION_MISMATCH = 25 };

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;

static int gpu; // its address is the handle

static int is(const char *mode) {
    const char *set = getenv("FAKE_NVML");
    return set && strcmp(set, mode) == 0;
}

int nvmlInit_v2(void) { return is("broken") ? DRIVER_NOT_LOADED : SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 1;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index != 0) return INVALID_ARGUMENT;
    *device = &gpu;
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) {
    if (strcasecmp(address, "0000:65:00.0") != 0 && strcasecmp(address, "00000000:65:00.0") != 0) return NOT_FOUND;
    *device = &gpu;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) {
    if (device != &gpu) return INVALID_ARGUMENT;
    if (memory->version != (sizeof *memory | 2u << 24)) return VERSION_MISMATCH;
    memory->total = 150754820096;
    memory->reserved = 671088640;
    memory->used = 5368709120;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, Utilization *rates) {
    if (device != &gpu) return INVALID_ARGUMENT;
    if (is("lacking")) return NOT_SUPPORTED;
    *rates = (Utilization){.gpu = 87, .memory = 41};
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius) {
    if (device != &gpu || sensor != 0) return INVALID_ARGUMENT;
    *celsius = 64;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    if (device != &gpu) return INVALID_ARGUMENT;
    if (is("lacking")) return NOT_SUPPORTED;
    *milliwatts = 412650;
    return SUCCESS;
}
