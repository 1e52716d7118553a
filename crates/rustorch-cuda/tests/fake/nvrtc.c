// A compiler that is not there: the functions of libnvrtc.so that the driver crate calls. What it compiles is the text after a mark.
// Text with the word `mistake` does not compile. How often it has compiled is appended to the file that FAKE_COMPILED names.
//
// With FAKE_EMULATOR, the folder of `kernel.h`, it compiles the text for this processor, with the compiler that CXX names, else
// `c++`. The result is, after a mark, the length and bytes of a library for `emulator.c`. FAKE_TEXTS names a folder to which each
// text is written before it is compiled.

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INTERNAL = 11, COMPILATION = 6, INVALID_OPTION = 5 };
typedef struct { char *source, *name, *image, *log; size_t bytes; } Program;

#ifndef VERSION
#define VERSION 1209
#endif
int nvrtcVersion(int *major, int *minor) { *major = VERSION / 100; *minor = VERSION % 100; return OK; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 3; return OK; }
int nvrtcGetSupportedArchs(int *list) { list[0] = 75; list[1] = 80; list[2] = 90; return OK; }
int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts, const char **names) {
    (void)headers; (void)texts; (void)names;
    Program *p = calloc(1, sizeof *p);
    p->source = strdup(source);
    p->name = strdup(name);
    p->log = strdup("");
    *program = p;
    return OK;
}
int nvrtcDestroyProgram(void **program) {
    Program *p = *program;
    free(p->source); free(p->name); free(p->image); free(p->log); free(p);
    *program = NULL;
    return OK;
}

// The text as C++ of the processor.

// `asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to) : "f"(x))` as `ptx_cvt_rn_f16_f32(to , x)`; gives what follows, or NULL where it is
// something else.
static const char *instruction(const char *at, FILE *file) {
    if (strncmp(at, "asm(\"", 5)) return NULL;
    const char *end = at + 5, *close = strchr(end, '"');
    fputs("ptx_", file);
    for (; close && end < close && *end != ' '; end++) fputc(*end == '.' ? '_' : *end, file);
    int number = 0; // the operands stand in order
    for (; close && end < close; end++)
        if (*end == '%' && atoi(end + 1) != number++) return NULL;
    if (!close) return NULL;
    fputc('(', file);
    int depth = 0, operands = 0;
    for (at = close + 1; *at && depth >= 0; at++) {
        if (depth == 0 && *at == '"') { // what kind of register it is in
            for (at++; *at && *at != '"'; at++) {}
            if (operands++) fputc(',', file);
            continue;
        }
        depth += (*at == '(') - (*at == ')');
        if (depth > 0) fputc(*at, file);
        if (depth == 0 && *at == ')') fputc(')', file);
    }
    fputc(')', file);
    return operands == number && depth < 0 ? at : NULL;
}

static int word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// Writes the text with instructions replaced, and after it its kernels as the emulator finds them. Whether that is possible.
static int write_text(const char *source, FILE *file) {
    for (const char *at = source; *at;) {
        if (strncmp(at, "asm", 3) || (at > source && word(at[-1])) || word(at[3])) {
            fputc(*at++, file);
            continue;
        }
        if (!(at = instruction(at, file))) return 0;
    }
    const char *mark = "extern \"C\" __global__ void", *bounds = "__launch_bounds__(";
    fputs("\nEMULATED_MODULE(", file);
    int count = 0;
    for (const char *at = source; (at = strstr(at, mark)); count++) {
        at += strlen(mark);
        at += strspn(at, " \n");
        unsigned long bound = 1024;
        if (!strncmp(at, bounds, strlen(bounds))) {
            bound = strtoul(at + strlen(bounds), NULL, 10);
            at = strchr(at, ')') + 1;
            at += strspn(at, " \n");
        }
        int length = (int)strcspn(at, " (\n");
        fprintf(file, "%sEMULATED(%.*s, %lu)", count ? ", " : "", length, at, bound);
    }
    fputs(")\n", file);
    return count;
}

static char *contents(const char *path, size_t before, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *all = calloc(1, before + *bytes + 1);
    int whole = fread(all + before, 1, *bytes, file) == *bytes;
    fclose(file);
    if (whole) return all;
    free(all);
    return NULL;
}

static int emulated(Program *p, const char *headers, const char *architecture) {
    char folder[] = "/tmp/emulator-XXXXXX", text[64], library[64], log[64], command[4096];
    if (!mkdtemp(folder)) return INTERNAL;
    snprintf(text, sizeof text, "%s/kernel.cpp", folder);
    snprintf(library, sizeof library, "%s/kernel.so", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    FILE *file = fopen(text, "w");
    if (!file) return INTERNAL;
    int known = write_text(p->source, file);
    fprintf(file, "// %s\n", p->name);
    fclose(file);
    const char *fused = "";
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma")) fused = "-mfma"; // for `fma` itself; nothing else becomes one
#endif
    const char *compiler = getenv("CXX");
    // An older architecture than the GPU's, to see what kernels do without its instructions.
    const char *older = getenv("FAKE_ARCHITECTURE");
    int capability = atoi(older ? older : strchr(architecture, '_') + 1);
    snprintf(command, sizeof command,
             "%s -std=c++17 -O0 -w -D__CUDA_ARCH__=%d0 %s -ffp-contract=off -fno-fast-math -fno-math-errno -fwrapv "
             "-fno-strict-aliasing -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -fvisibility=hidden -fPIC -shared "
             "-nostartfiles -nodefaultlibs -fsanitize=thread --param tsan-distinguish-volatile=1 -Wno-narrowing -Wl,-z,defs -I '%s' -include kernel.h -o %s %s "
             "-lm -lc -lgcc > %s 2>&1",
             compiler ? compiler : "c++", capability, fused, headers, library, text, log);
    int result = known && system(command) == 0 ? OK : COMPILATION;
    size_t bytes = 0;
    if (result) {
        free(p->log);
        p->log = known ? contents(log, 0, &bytes) : strdup("there is no kernel in it, or an instruction in `asm` that cannot be read");
    } else if ((p->image = contents(library, 16, &bytes))) {
        memcpy(p->image, "EMULATED", 8);
        uint64_t length = bytes;
        memcpy(p->image + 8, &length, sizeof length);
        p->bytes = bytes + 16;
    } else result = INTERNAL;
    if (getenv("FAKE_TEXTS")) {
        snprintf(command, sizeof command, "cp %s '%s/%s.cpp'", text, getenv("FAKE_TEXTS"), folder + strlen("/tmp/emulator-"));
        if (system(command)) result = INTERNAL;
    }
    unlink(text), unlink(library), unlink(log), rmdir(folder);
    return result;
}

int nvrtcCompileProgram(void *program, int count, const char **options) {
    Program *p = program;
    const char *architecture = NULL;
    int fused = 1;
    for (int i = 0; i < count; i++) {
        fused &= strcmp(options[i], "--fmad=false") != 0;
        if (!strncmp(options[i], "--gpu-architecture=", 19)) architecture = options[i];
    }
    if (fused || !architecture || !strchr(architecture, '_')) return INVALID_OPTION;
    FILE *file = getenv("FAKE_COMPILED") ? fopen(getenv("FAKE_COMPILED"), "a") : NULL;
    if (file) { fputs(options[0], file); fputc('\n', file); fclose(file); }
    if (getenv("FAKE_EMULATOR")) return emulated(p, getenv("FAKE_EMULATOR"), architecture);
    p->bytes = strlen(p->source) + 6;
    p->image = malloc(p->bytes);
    sprintf(p->image, "FAKE %s", p->source);
    if (!strstr(p->source, "mistake")) return OK;
    free(p->log);
    p->log = malloc(strlen(p->name) + 64);
    sprintf(p->log, "%s(1): error: a mistake", p->name);
    return COMPILATION;
}
int nvrtcGetProgramLogSize(void *program, size_t *size) { *size = strlen(((Program *)program)->log) + 1; return OK; }
int nvrtcGetProgramLog(void *program, char *log) { strcpy(log, ((Program *)program)->log); return OK; }
int nvrtcGetCUBINSize(void *program, size_t *size) { *size = ((Program *)program)->bytes; return OK; }
int nvrtcGetCUBIN(void *program, char *image) { memcpy(image, ((Program *)program)->image, ((Program *)program)->bytes); return OK; }
int nvrtcGetPTXSize(void *program, size_t *size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(void *program, char *image) { return nvrtcGetCUBIN(program, image); }
