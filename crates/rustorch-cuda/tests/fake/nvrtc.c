// A compiler that is not there: the functions of libnvrtc.so that the driver crate calls. What it compiles is the text after a mark.
// Text with the word `mistake` does not compile. How often it has compiled is appended to the file that FAKE_COMPILED names.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, COMPILATION = 6, INVALID_OPTION = 5 };
typedef struct { char *image, *log; } Program;

int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 9; return OK; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 3; return OK; }
int nvrtcGetSupportedArchs(int *list) { list[0] = 75; list[1] = 80; list[2] = 90; return OK; }
int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts, const char **names) {
    (void)headers; (void)texts; (void)names;
    Program *p = calloc(1, sizeof *p);
    p->image = malloc(strlen(source) + 6);
    sprintf(p->image, "FAKE %s", source);
    p->log = malloc(strlen(name) + 64);
    sprintf(p->log, "%s(1): error: a mistake", name);
    *program = p;
    return OK;
}
int nvrtcDestroyProgram(void **program) {
    Program *p = *program;
    free(p->image); free(p->log); free(p);
    *program = NULL;
    return OK;
}
int nvrtcCompileProgram(void *program, int count, const char **options) {
    int fused = 1;
    for (int i = 0; i < count; i++) fused &= strcmp(options[i], "--fmad=false") != 0;
    if (fused) return INVALID_OPTION;
    FILE *file = getenv("FAKE_COMPILED") ? fopen(getenv("FAKE_COMPILED"), "a") : NULL;
    if (file) { fputs(options[0], file); fputc('\n', file); fclose(file); }
    return strstr(((Program *)program)->image, "mistake") ? COMPILATION : OK;
}
int nvrtcGetProgramLogSize(void *program, size_t *size) { *size = strlen(((Program *)program)->log) + 1; return OK; }
int nvrtcGetProgramLog(void *program, char *log) { strcpy(log, ((Program *)program)->log); return OK; }
int nvrtcGetCUBINSize(void *program, size_t *size) { *size = strlen(((Program *)program)->image) + 1; return OK; }
int nvrtcGetCUBIN(void *program, char *image) { strcpy(image, ((Program *)program)->image); return OK; }
int nvrtcGetPTXSize(void *program, size_t *size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(void *program, char *image) { return nvrtcGetCUBIN(program, image); }
