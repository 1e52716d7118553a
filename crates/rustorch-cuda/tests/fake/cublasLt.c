// A cuBLASLt that is not there: the functions of libcublasLt.so that the driver crate calls, over the fake GPU's memory.
//
// A product is computed when its stream comes to it, from what its descriptions said when it was given. It is stricter than a
// real one: descriptions that make no sense, attributes of another size, memory that is less aligned than was stated and
// temporary memory that is too small end the process with a message. It adds from the last term to the first.
//
// Settings by environment: FAKE_BLAS_CREATE, FAKE_BLAS_HEURISTIC and FAKE_BLAS_MATMUL (the status of these calls),
// FAKE_BLAS_FROM and FAKE_BLAS_UNTIL (the first product that fails so, and the first after those, counted from 0),
// FAKE_BLAS_CREATE_UNTIL (how often the library does not start), FAKE_BLAS_ALGORITHMS=0 (there is none), FAKE_BLAS_WORKSPACE (the bytes that its algorithm takes, if it may),
// FAKE_BLAS_WRONG (the number of a type whose results are wrong, of factors of that type), FAKE_BLAS_LOG (a file to which calls are appended).

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };

extern void _exit(int);
#define REQUIRE(condition, ...) \
    do { if (!(condition)) { fprintf(stderr, "fake cuBLASLt: " __VA_ARGS__); fputc('\n', stderr); _exit(87); } } while (0)

// The fake driver's.
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
void fake_require_memory(const void *address, size_t bytes);

static size_t setting(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void note(const char *what) {
    FILE *file = getenv("FAKE_BLAS_LOG") ? fopen(getenv("FAKE_BLAS_LOG"), "a") : NULL;
    if (!file) return;
    fprintf(file, "%s\n", what);
    fclose(file);
}

typedef struct { uint32_t magic, compute, scale; int32_t transposed[2]; } Product;
typedef struct { uint32_t magic, type; uint64_t rows, columns; int64_t pitch, step; int32_t batch; } Layout;
typedef struct { uint32_t magic, reduction, alignment[4]; uint64_t workspace, allowed; } Wishes;
typedef struct { uint64_t data[8]; } Algorithm;
typedef struct { Algorithm algorithm; size_t workspace; int32_t state; float waves; int32_t reserved[4]; } Found;
enum { HANDLE = 0x4a4d1e, PRODUCT = 0x960d, LAYOUT = 0x1a7, WISHES = 0x315, GONE = 0xdead };

static int handles;

static void *made(void **place, uint32_t magic, size_t size) {
    uint32_t *object = calloc(1, size);
    *object = magic;
    *place = object;
    return object;
}

// Objects are not freed, so that using one that is gone shows.
static int gone(void *object, uint32_t magic) {
    REQUIRE(object && *(uint32_t *)object == magic, "an object destroyed that is none, or twice");
    *(uint32_t *)object = GONE;
    return OK;
}

static void *living(void *object, uint32_t magic) {
    REQUIRE(object && *(uint32_t *)object == magic, "an object used that is of another kind, or gone");
    return object;
}

static void set(void *to, const void *from, size_t size, size_t wanted) {
    REQUIRE(size == wanted, "an attribute of %zu bytes set with %zu", wanted, size);
    memcpy(to, from, size);
}

int cublasLtCreate(void **handle) {
    static size_t calls;
    int status = (int)setting("FAKE_BLAS_CREATE", 0);
    if (calls++ < setting("FAKE_BLAS_CREATE_UNTIL", SIZE_MAX) && status) return status;
    made(handle, HANDLE, 4);
    handles++;
    note("create");
    return OK;
}
int cublasLtDestroy(void *handle) { handles--; note("destroy"); return gone(handle, HANDLE); }
#ifndef VERSION
#define VERSION 130401
#endif
size_t cublasLtGetVersion(void) { return VERSION; }

int cublasLtMatmulDescCreate(void **object, uint32_t compute, uint32_t scale) {
    Product *p = made(object, PRODUCT, sizeof *p);
    REQUIRE((compute == 68 && scale == R_32F) || (compute == 70 && scale == R_64F), "computing in %u, %u", compute, scale);
    p->compute = compute, p->scale = scale;
    return OK;
}
int cublasLtMatmulDescDestroy(void *object) { return gone(object, PRODUCT); }
int cublasLtMatmulDescSetAttribute(void *object, int attribute, const void *value, size_t size) {
    Product *p = living(object, PRODUCT);
    REQUIRE(attribute == 3 || attribute == 4, "attribute %d of a product", attribute);
    set(&p->transposed[attribute - 3], value, size, 4);
    int operation = p->transposed[attribute - 3];
    REQUIRE(operation == 0 || operation == 1, "operation %d", operation);
    return OK;
}

int cublasLtMatrixLayoutCreate(void **object, uint32_t type, uint64_t rows, uint64_t columns, int64_t pitch) {
    REQUIRE(type == R_32F || type == R_64F || type == R_16F || type == R_16BF, "type %u", type);
    REQUIRE(rows && columns && pitch >= (int64_t)rows, "a matrix of %zu rows that are %zd apart", (size_t)rows, (ssize_t)pitch);
    Layout *l = made(object, LAYOUT, sizeof *l);
    *l = (Layout){LAYOUT, type, rows, columns, pitch, 0, 1};
    return OK;
}
int cublasLtMatrixLayoutDestroy(void *object) { return gone(object, LAYOUT); }
int cublasLtMatrixLayoutSetAttribute(void *object, int attribute, const void *value, size_t size) {
    Layout *l = living(object, LAYOUT);
    switch (attribute) {
    case 5: set(&l->batch, value, size, 4); break;
    case 6: set(&l->step, value, size, 8); break;
    default: REQUIRE(0, "attribute %d of a layout", attribute);
    }
    return OK;
}

int cublasLtMatmulPreferenceCreate(void **object) {
    Wishes *w = made(object, WISHES, sizeof *w);
    *w = (Wishes){WISHES, 7, {256, 256, 256, 256}, 0, ~0ull};
    return OK;
}
int cublasLtMatmulPreferenceDestroy(void *object) { return gone(object, WISHES); }
int cublasLtMatmulPreferenceSetAttribute(void *object, int attribute, const void *value, size_t size) {
    Wishes *w = living(object, WISHES);
    switch (attribute) {
    case 1: set(&w->workspace, value, size, 8); break;
    case 3: set(&w->reduction, value, size, 4); break;
    case 5: case 6: case 7: case 8: set(&w->alignment[attribute - 5], value, size, 4); break;
    case 12: set(&w->allowed, value, size, 8); break;
    default: REQUIRE(0, "attribute %d of a preference", attribute);
    }
    return OK;
}

// Descriptions that belong together: the result of the first factor's rows and the second one's columns.
static void check(const Product *p, const Layout *a, const Layout *b, const Layout *c, const Layout *d) {
    uint64_t m = p->transposed[0] ? a->columns : a->rows, k = p->transposed[0] ? a->rows : a->columns;
    uint64_t n = p->transposed[1] ? b->rows : b->columns, k2 = p->transposed[1] ? b->columns : b->rows;
    REQUIRE(k == k2 && d->rows == m && d->columns == n, "matrices that do not fit together");
    int widens = d->type == R_32F && (a->type == R_16F || a->type == R_16BF);
    REQUIRE(a->type == b->type && (a->type == d->type || widens), "factors of types %u, %u, a result of %u", a->type, b->type, d->type);
    REQUIRE((d->type == R_64F) == (p->scale == R_64F), "sums of another type");
    REQUIRE(a->batch == d->batch && b->batch == d->batch && d->batch > 0, "batches of different lengths");
    REQUIRE(!memcmp(c, d, sizeof *c), "results that lie otherwise than what they are added to");
    REQUIRE(d->batch == 1 || d->step >= (int64_t)((d->columns - 1) * (uint64_t)d->pitch + d->rows), "results that overlap");
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d, void *wishes, int asked,
                                   Found *found, int *count) {
    living(handle, HANDLE);
    check(living(product, PRODUCT), living(a, LAYOUT), living(b, LAYOUT), living(c, LAYOUT), living(d, LAYOUT));
    Wishes *w = living(wishes, WISHES);
    uint32_t type = ((Layout *)a)->type;
    // Sums that are rounded between, in 16 bits or in TF32 are forbidden.
    REQUIRE(w->reduction == 2, "reduction %u", w->reduction);
    uint64_t forbidden = 0x100 | (type == R_32F || type == R_64F ? 0x070000 : 0) | (type == R_64F ? 0x080200 : 0);
    REQUIRE(!(w->allowed & forbidden) && (w->allowed | forbidden) == ~0ull, "implementations %llx", (unsigned long long)w->allowed);
    for (int i = 0; i < 4; i++)
        REQUIRE(w->alignment[i] && !(w->alignment[i] & (w->alignment[i] - 1)) && w->alignment[i] <= 256, "alignment");
    REQUIRE(asked == 1, "room for %d algorithms", asked);
    note("heuristic");
    *count = 0;
    int status = (int)setting("FAKE_BLAS_HEURISTIC", 0);
    if (status || !setting("FAKE_BLAS_ALGORITHMS", 1)) return status;
    size_t workspace = setting("FAKE_BLAS_WORKSPACE", 4096);
    *count = 1;
    *found = (Found){.workspace = workspace <= w->workspace ? workspace : 0, .state = OK, .waves = 1};
    // What the algorithm is for.
    found->algorithm = (Algorithm){{0xa160, found->workspace, type, w->alignment[0], w->alignment[1], w->alignment[3]}};
    return OK;
}

static double wide(uint32_t type, const char *at) {
    if (type == R_64F) return *(const double *)at;
    if (type == R_32F) return *(const float *)at;
    uint16_t bits = *(const uint16_t *)at;
    if (type == R_16BF) {
        uint32_t all = (uint32_t)bits << 16;
        float x;
        memcpy(&x, &all, 4);
        return x;
    }
    int exponent = bits >> 10 & 31, sign = bits >> 15, fraction = bits & 1023;
    double x = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return sign ? -x : x;
}

// To the nearest number with so many places behind the first, and no smaller unit than stated; ties to even.
static double rounded(double x, int places, int least) {
    if (x == 0 || !isfinite(x)) return x;
    int exponent;
    frexp(x, &exponent);
    int unit = exponent - 1 - places < least ? least : exponent - 1 - places;
    return ldexp(nearbyint(ldexp(x, -unit)), unit);
}

static void narrow(uint32_t type, double x, char *at) {
    if (type == R_64F) { *(double *)at = x; return; }
    if (type == R_32F) { *(float *)at = (float)x; return; }
    if (type == R_16BF) {
        float y = (float)rounded(x, 7, -133);
        uint32_t bits;
        memcpy(&bits, &y, 4);
        *(uint16_t *)at = (uint16_t)(bits >> 16 | (isnan(x) ? 0x40 : 0));
        return;
    }
    double y = fabs(rounded(x, 10, -24));
    uint16_t sign = signbit(x) ? 0x8000 : 0, bits;
    int exponent;
    if (isnan(x)) bits = 0x7e00;
    else if (y >= 65536) bits = 0x7c00;
    else if (y < ldexp(1, -14)) bits = (uint16_t)ldexp(y, 24);
    else {
        double fraction = frexp(y, &exponent);
        bits = (uint16_t)((exponent + 14) << 10 | ((int)ldexp(fraction, 11) & 1023));
    }
    *(uint16_t *)at = sign | bits;
}

static size_t bytes_of(uint32_t type) { return type == R_64F ? 8 : type == R_32F ? 4 : 2; }

static size_t reach(const Layout *l) {
    return bytes_of(l->type) * ((uint64_t)(l->batch - 1) * (uint64_t)l->step + (l->columns - 1) * (uint64_t)l->pitch + l->rows);
}

typedef struct { Product product; Layout a, b, d; const char *left, *right; char *to, *workspace; size_t bytes; double alpha, beta; } Call;

static void multiply(void *data) {
    Call *c = data;
    size_t size = bytes_of(c->a.type), out_size = bytes_of(c->d.type);
    fake_require_memory(c->left, reach(&c->a)), fake_require_memory(c->right, reach(&c->b));
    fake_require_memory(c->to, reach(&c->d));
    if (c->bytes) fake_require_memory(c->workspace, c->bytes), memset(c->workspace, 0x77, c->bytes);
    uint64_t inner = c->product.transposed[0] ? c->a.rows : c->a.columns;
    for (int32_t batch = 0; batch < c->d.batch; batch++)
        for (uint64_t column = 0; column < c->d.columns; column++)
            for (uint64_t row = 0; row < c->d.rows; row++) {
                double sum = 0;
                for (uint64_t i = inner; i-- > 0;) {
                    uint64_t x = c->product.transposed[0] ? i + row * (uint64_t)c->a.pitch : row + i * (uint64_t)c->a.pitch;
                    uint64_t y = c->product.transposed[1] ? column + i * (uint64_t)c->b.pitch : i + column * (uint64_t)c->b.pitch;
                    double product = wide(c->a.type, c->left + size * (x + (uint64_t)(batch * c->a.step)))
                                   * wide(c->b.type, c->right + size * (y + (uint64_t)(batch * c->b.step)));
                    sum = c->product.scale == R_64F ? sum + product : (float)((float)sum + (float)product);
                }
                char *at = c->to + out_size * (row + column * (uint64_t)c->d.pitch + (uint64_t)(batch * c->d.step));
                // Where the factor is 0, what stands there is not read.
                double result = c->alpha * sum + (c->beta != 0 ? c->beta * wide(c->d.type, at) : 0);
                if (c->a.type == setting("FAKE_BLAS_WRONG", 99) && row + column == 0) result += 0.5;
                narrow(c->d.type, result, at);
            }
    free(c);
}

int cublasLtMatmul(void *handle, void *product, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
                   const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const Algorithm *algorithm,
                   void *workspace, size_t bytes, void *stream) {
    living(handle, HANDLE);
    Product *p = living(product, PRODUCT);
    Layout *al = living(a_layout, LAYOUT), *bl = living(b_layout, LAYOUT), *dl = living(d_layout, LAYOUT);
    check(p, al, bl, living(c_layout, LAYOUT), dl);
    REQUIRE(c == d, "a result elsewhere than what it is added to");
    REQUIRE(algorithm->data[0] == 0xa160 && algorithm->data[2] == al->type, "an algorithm of another product");
    REQUIRE(bytes == algorithm->data[1] && (bytes == 0 || workspace), "temporary memory that is not the algorithm's");
    const void *addresses[] = {a, b, d};
    for (int i = 0; i < 3; i++)
        REQUIRE((uintptr_t)addresses[i] % algorithm->data[3 + i] == 0, "memory %d is less aligned than was stated", i);
    note("matmul");
    static size_t calls;
    int status = (int)setting("FAKE_BLAS_MATMUL", 0);
    size_t number = calls++;
    if (number >= setting("FAKE_BLAS_FROM", 0) && number < setting("FAKE_BLAS_UNTIL", SIZE_MAX) && status) return status;
    int wide_scale = p->scale == R_64F;
    Call *call = malloc(sizeof *call);
    *call = (Call){*p, *al, *bl, *dl, a, b, d, workspace, bytes,
                   wide_scale ? *(const double *)alpha : *(const float *)alpha, wide_scale ? *(const double *)beta : *(const float *)beta};
    return cuLaunchHostFunc(stream, multiply, call);
}
