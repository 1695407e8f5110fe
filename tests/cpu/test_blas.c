/* SPDX-License-Identifier: MIT
 * Products by a CBLAS (tests/cpu/cblas): every layout, type, batch form and addend, against sums in double; the choice
 * between the library and Propane's kernels, and its file; libraries that are missing or wrong.
 *
 * Bound per element: (k + 8) eps sum |a||b|, and half a unit in the last place if C is fp16. Observed: at most 0.11 of
 * it with fp32 results (the test library adds in double), 1.0 with fp16.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "cpu/gemm/gemm_blas.h"
#include "cpu/gemm/gemm_choice.h"
#include "cpu/profile.h"
#include "drivers/conformance.h"
#include "support/test.h"

static char library[1100];

/* Opens the test library so that it computes every product. */
static cpu_blas open_double(bool single) {
    propane_error err = {0};
    const cpu_blas *found = NULL;
    EXPECT_OK(cpu_blas_choose(library, &err));
    EXPECT_OK(cpu_blas_current(&found, &err));
    EXPECT(found != NULL && !found->measured && found->single);
    cpu_blas b = *found;
    b.least_flops = 0;
    b.single = single;
    return b;
}

static long calls(void) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    EXPECT(handle != NULL);
    const _Atomic long *count = dlsym(handle, "cblas_double_calls");
    const long n = *count;
    dlclose(handle);
    return n;
}

/* ---- products ------------------------------------------------------------------------------------------------------------- */

typedef enum layout { ROWS, COLS, ODD, LAYOUTS } layout;

typedef struct plan {
    int64_t m, n, k, batch, piece;
    layout a, b, c;
    cpu_dtype a_type, b_type, c_type;
    float alpha;
    bool accumulate, residual, own, bf16, pointers, share_a, share_b, squares;
} plan;

typedef struct operand {
    cpu_matrix x;
    char *memory;
    size_t bytes;
    const void *items[8];
    int64_t pieces[16];
} operand;

static float load(const cpu_matrix *x, int64_t item, int64_t i, int64_t j) {
    const char *data = x->batch ? x->batch[item] : x->data;
    const int64_t at = i * x->row_stride + j * x->col_stride + (x->batch ? 0 : item * x->batch_stride);
    return x->dtype == CPU_F16 ? fp16_to_f32(((const uint16_t *)(const void *)data)[at])
                               : ((const float *)(const void *)data)[at];
}

/* Pieces of k are stored in reverse, so that no stride leads from one to the next. `k_rows` means that k is the
 * operand's rows. */
static void make(operand *o, rng *r, const plan *p, int64_t rows, int64_t cols, layout l, cpu_dtype dtype, bool shared,
                 bool pieces, bool k_rows) {
    cpu_matrix *x = &o->x;
    const int64_t gap = (int64_t)rng_below(r, 3), size = dtype == CPU_F16 ? 2 : 4;
    *x = (cpu_matrix){.dtype = dtype};
    x->row_stride = l == ROWS ? cols + gap : l == COLS ? 1 : 2 * cols + 1;
    x->col_stride = l == ROWS ? 1 : l == COLS ? rows + gap : 2;
    const int64_t item = (rows - 1) * x->row_stride + (cols - 1) * x->col_stride + 1;
    x->batch_stride = shared ? 0 : item + gap;
    o->bytes = (size_t)((shared ? 0 : (p->batch - 1) * x->batch_stride) + item + 8) * (size_t)size;
    o->memory = mem_alloc(o->bytes);
    EXPECT(o->memory != NULL);
    for (size_t i = 0; i < o->bytes / (size_t)size; i++) {
        const float v = (float)(rng_unit(r) * 2 - 1);
        if (dtype == CPU_F16)
            ((uint16_t *)(void *)o->memory)[i] = fp16_from_f32(v);
        else
            ((float *)(void *)o->memory)[i] = v;
    }
    x->data = o->memory + 3 * size;
    for (int64_t b = 0; p->pointers && b < p->batch; b++)
        o->items[b] = (const char *)x->data + b * x->batch_stride * size;
    if (p->pointers) x->batch = o->items;
    const int64_t step = (k_rows ? x->row_stride : x->col_stride) * size;
    for (int64_t i = 0; pieces && i < p->k / p->piece; i++) o->pieces[i] = (p->k - (i + 1) * p->piece) * step;
    if (pieces) x->pieces = o->pieces;
}

/* Returns the position of element k of a product in pieces, by the operand's own strides. */
static int64_t place(const plan *p, int64_t k) {
    return p->piece ? p->k - (k / p->piece + 1) * p->piece + k % p->piece : k;
}

static double rounded(const plan *p, float x) { return (double)(p->bf16 ? bf16_to_f32(bf16_from_f32(x)) : x); }

static double check(const plan *p, const cpu_gemm *g, const operand *before, const char *what) {
    double worst = 0, squares = 0;
    for (int64_t item = 0; item < p->batch; item++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                double sum = 0, magnitude = 0;
                for (int64_t k = 0; k < p->k; k++) {
                    const double x =
                        rounded(p, load(&g->a, item, i, place(p, k))) * rounded(p, load(&g->b, item, place(p, k), j));
                    sum += x, magnitude += fabs(x);
                }
                cpu_matrix was = before->x;
                sum *= (double)p->alpha;
                for (int t = 0; t < 2; t++) { /* what is accumulated; a residual, which may be C itself */
                    if (!(t ? p->residual || p->own : p->accumulate)) continue;
                    const double x =
                        (double)(t && p->residual ? load(g->residual, item, i, j) : load(&was, item, i, j));
                    sum += x, magnitude += fabs(x);
                }
                const double got = (double)load(&g->c, item, i, j), error = fabs(got - sum);
                const double bound = (double)(p->k + 8) * 0x1p-24 * magnitude +
                                     (p->c_type == CPU_F16 ? fabs(sum) * 0x1p-11 + 0x1p-25 : 0) + 1e-30;
                EXPECT_MSG(error <= bound * 1.001, "%s: item %d (%d,%d) is %.9g, not %.9g", what, (int)item, (int)i,
                           (int)j, got, sum);
                worst = fmax(worst, error / bound);
                squares += got * got;
            }
    if (p->squares)
        EXPECT_MSG(fabs(*g->squares - squares) <= 1e-9 * squares, "%s: squares %g, not %g", what, *g->squares, squares);
    return worst;
}

static double multiply(const cpu_blas *blas, const plan *p, uint64_t seed) {
    char what[200];
    rng r;
    double squares = NAN;
    operand a = {0}, b = {0}, c = {0}, residual = {0}, before;
    snprintf(what, sizeof what, "plan %d: %dx%dx%d batch %d, %d %d %d", (int)seed, (int)p->m, (int)p->n, (int)p->k,
             (int)p->batch, p->a, p->b, p->c);
    rng_init(&r, seed);
    make(&a, &r, p, p->m, p->k, p->a, p->a_type, p->share_a, p->piece, false);
    make(&b, &r, p, p->k, p->n, p->b, p->b_type, p->share_b, p->piece, true);
    make(&c, &r, p, p->m, p->n, p->c, p->c_type, false, false, false);
    make(&residual, &r, p, p->m, p->n, p->c, p->a_type, false, false, false);
    cpu_matrix own = c.x;
    cpu_gemm g = {.kernels = cpu_kernels_of(cpu_isa_best()),
                  .bf16 = p->bf16,
                  .m = p->m,
                  .n = p->n,
                  .k = p->k,
                  .batch = p->batch,
                  .piece = p->piece,
                  .a = a.x,
                  .b = b.x,
                  .c = c.x,
                  .alpha = p->alpha,
                  .accumulate = p->accumulate,
                  .residual = p->residual ? &residual.x
                              : p->own    ? &own
                                          : NULL,
                  .squares = p->squares ? &squares : NULL};
    before = c; /* C's original memory */
    before.memory = mem_alloc(c.bytes);
    EXPECT(before.memory != NULL);
    memcpy(before.memory, c.memory, c.bytes);
    before.x.data = before.memory + ((const char *)c.x.data - c.memory);
    for (int64_t i = 0; p->pointers && i < p->batch; i++)
        before.items[i] = before.memory + ((const char *)c.items[i] - c.memory);
    if (p->pointers) before.x.batch = before.items;
    EXPECT_MSG(cpu_gemm_blas_takes(blas, &g), "%s is not taken", what);
    const size_t bytes = cpu_gemm_blas_scratch_bytes(blas, &g, pool_threads());
    char *scratch = mem_pages_alloc(bytes + 64);
    EXPECT(scratch != NULL);
    memset(scratch, 0xff, bytes), memset(scratch + bytes, 0x5a, 64);
    const long asked = calls();
    cpu_gemm_blas_run(blas, &g, scratch);
    EXPECT_MSG(calls() > asked, "%s: the library was not called", what);
    for (int i = 0; i < 64; i++) EXPECT_MSG(scratch[bytes + (size_t)i] == 0x5a, "%s: writes beyond its scratch", what);
    const double worst = check(p, &g, &before, what);
    mem_pages_free(scratch, bytes + 64);
    mem_free(a.memory), mem_free(b.memory), mem_free(c.memory), mem_free(residual.memory), mem_free(before.memory);
    return p->c_type == CPU_F16 ? 0 : worst;
}

static plan random_plan(rng *r) {
    plan p = {
        .m = 2 + (int64_t)rng_below(r, 70), .n = 2 + (int64_t)rng_below(r, 70), .k = 1 + (int64_t)rng_below(r, 70)};
    p.batch = rng_below(r, 3) ? 1 : 2 + (int64_t)rng_below(r, 4);
    p.a = (layout)rng_below(r, LAYOUTS), p.b = (layout)rng_below(r, LAYOUTS), p.c = (layout)rng_below(r, 2);
    p.a_type = (cpu_dtype)rng_below(r, 2), p.b_type = (cpu_dtype)rng_below(r, 2), p.c_type = (cpu_dtype)rng_below(r, 2);
    p.alpha = rng_below(r, 2) ? 1.0f : -0.375f;
    p.accumulate = rng_below(r, 3) == 0;
    p.residual = rng_below(r, 3) == 0;
    p.own = !p.residual && rng_below(r, 3) == 0;
    p.bf16 = rng_below(r, 4) == 0;
    p.pointers = rng_below(r, 4) == 0;
    p.share_a = !p.pointers && rng_below(r, 3) == 0, p.share_b = !p.pointers && rng_below(r, 3) == 0;
    p.squares = p.batch == 1 && p.c_type == CPU_F32 && rng_below(r, 2);
    if (p.batch == 1 && rng_below(r, 4) == 0) {
        p.piece = CPU_GEMM_PIECE * (1 + (int64_t)rng_below(r, 2));
        p.k = p.piece * (1 + (int64_t)rng_below(r, 4));
        p.pointers = false;
    }
    return p;
}

TEST(products) {
    propane_error err = {0};
    double worst = 0;
    rng r;
    rng_init(&r, 5);
    EXPECT_OK(pool_set_threads(3, &err));
    const cpu_blas one = open_double(true), many = open_double(false);
    for (int i = 0; i < 300; i++) {
        const plan p = random_plan(&r);
        worst = fmax(worst, multiply(i % 2 ? &one : &many, &p, (uint64_t)i));
    }
    if (getenv("TEST_VERBOSE")) printf("largest error of fp32 results: %.3f of its bound\n", worst);
}

/* More than one block in each direction, with operands converted block by block. */
TEST(blocks) {
    const cpu_blas blas = open_double(true);
    static const plan plans[] = {
        {.m = 530, .n = 20, .k = 600, .batch = 1, .alpha = 1, .a_type = CPU_F16, .accumulate = true},
        {.m = 20, .n = 530, .k = 600, .batch = 1, .alpha = 1, .b_type = CPU_F16, .b = COLS},
        {.m = 520, .n = 530, .k = 20, .batch = 1, .alpha = 0.5f, .c_type = CPU_F16, .residual = true},
        {.m = 18, .n = 515, .k = 1040, .batch = 1, .alpha = 1, .bf16 = true, .a = COLS, .squares = true},
        {.m = 40, .n = 50, .k = 640, .piece = 320, .batch = 1, .alpha = 1, .a_type = CPU_F16, .squares = true},
    };
    static const plan thin = {
        .m = 9, .n = 7, .k = 1, .batch = 1, .alpha = 1, .b = COLS}; /* both strides of B may be 1 */
    for (int i = 0; i < (int)(sizeof plans / sizeof plans[0]); i++) (void)multiply(&blas, &plans[i], (uint64_t)i);
    for (int i = 0; i < 8; i++) (void)multiply(&blas, &thin, (uint64_t)i);
}

TEST(what_it_does_not_take) {
    const cpu_blas blas = open_double(true);
    cpu_blas larger = blas;
    cpu_gemm g = {.m = 8,
                  .n = 9,
                  .k = 4,
                  .batch = 1,
                  .a = {.row_stride = 4, .col_stride = 1},
                  .b = {.row_stride = 9, .col_stride = 1},
                  .c = {.row_stride = 9, .col_stride = 1}};
    EXPECT(cpu_gemm_blas_takes(&blas, &g));
    larger.least_flops = 2 * 8 * 9 * 4 + 1;
    EXPECT(!cpu_gemm_blas_takes(&larger, &g));
    cpu_gemm odd = g, packed = g, vector = g;
    odd.c.col_stride = 2, odd.c.row_stride = 20;
    packed.a.packed = &g;
    vector.n = 1;
    EXPECT(!cpu_gemm_blas_takes(&blas, &odd) && !cpu_gemm_blas_takes(&blas, &packed) &&
           !cpu_gemm_blas_takes(&blas, &vector));
}

/* ---- libraries ------------------------------------------------------------------------------------------------------------ */

static char printed[1200];
static void listen(void *context, const char *sentence) { snprintf(printed, sizeof printed, "%s", sentence); }

TEST(libraries_that_cannot_be_used) {
    propane_error err = {0};
    const cpu_blas *blas = NULL;
    void *device = NULL;
    extern const propane_driver cpu_driver;
    propane_set_log(listen, NULL);
    EXPECT_OK(cpu_blas_choose("/nowhere/libblas.so", &err));
    EXPECT_FAIL(cpu_blas_current(&blas, &err), PROPANE_ERR_UNSUPPORTED, "/nowhere/libblas.so cannot be loaded");
    EXPECT_FAIL(cpu_driver.open("", &device, &err), PROPANE_ERR_UNSUPPORTED, "--blas (PROPANE_BLAS)");
    EXPECT_OK(cpu_blas_choose("auto:/nowhere/libblas.so", &err));
    EXPECT_OK(cpu_blas_current(&blas, &err));
    EXPECT(blas == NULL && strstr(printed, "using the built-in kernels for all matrix products") &&
           strstr(printed, "/nowhere"));
    setenv("CBLAS_DOUBLE", "wrong", 1);
    EXPECT_OK(cpu_blas_choose(library, &err));
    EXPECT_FAIL(cpu_blas_current(&blas, &err), PROPANE_ERR_DEVICE, "gives a wrong product");
    EXPECT_OK(cpu_blas_choose("off", &err));
    EXPECT_OK(cpu_blas_current(&blas, &err));
    EXPECT(blas == NULL);
    EXPECT_OK(cpu_blas_choose(NULL, &err));
    setenv("PROPANE_BLAS", "libm.so.6", 1);
#ifdef __linux__
    EXPECT_FAIL(cpu_blas_current(&blas, &err), PROPANE_ERR_UNSUPPORTED, "has no cblas_sgemm");
#endif
    propane_set_log(NULL, NULL);
}

/* ---- the choice ------------------------------------------------------------------------------------------------------------- */

static cpu_gemm shape_of(int64_t m, int64_t n, int64_t k) {
    return (cpu_gemm){.kernels = cpu_kernels_of(cpu_isa_best()),
                      .m = m,
                      .n = n,
                      .k = k,
                      .batch = 1,
                      .alpha = 1,
                      .a = {.row_stride = k, .col_stride = 1},
                      .b = {.row_stride = n, .col_stride = 1},
                      .c = {.row_stride = n, .col_stride = 1}};
}

/* The test library is slow, so Propane's kernels win, but a file with the opposite result is trusted. Damaged lines
 * lead to measuring again. */
TEST(the_choice_is_measured_once_and_kept) {
    propane_error err = {0};
    char path[1200], line[2000], *data = NULL, *folder = test_temp_dir();
    size_t length;
    cpu_blas blas = open_double(true);
    blas.measured = true;
    setenv("CBLAS_DOUBLE", "slow", 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(path, sizeof path, "%s/propane/products.txt", folder);
    const cpu_gemm g = shape_of(96, 80, 64), other = shape_of(96, 80, 65);
    long before = calls();
    EXPECT(!cpu_gemm_choose_blas(&blas, &g));
    EXPECT(calls() > before);
    before = calls();
    EXPECT(!cpu_gemm_choose_blas(&blas, &g));
    EXPECT(calls() == before);
    EXPECT_OK(file_read(path, 10000, &data, &length, &err));
    char *times = strstr(data, ": ");
    EXPECT(times && strchr(data, '\n') == data + length - 1 && strstr(data, " 96 80 64 1 0 sr-sr-sr: "));
    char *sizes = strstr(data, " 96 80 64");
    snprintf(line, sizeof line,
             "nonsense\n%.*s 96 80 65 1 0 sr-sr-sr: 2000 1000\n%.*s 96 80 66 1 0 sr-sr-sr: 20x0 1000\n",
             (int)(sizes - data), data, (int)(sizes - data), data);
    EXPECT_OK(file_write(path, line, strlen(line), &err));
    const cpu_gemm third = shape_of(96, 80, 66);
    EXPECT(!cpu_gemm_choose_blas(&blas, &third)); /* measured, after reading the file again for results of others */
    before = calls();
    EXPECT(cpu_gemm_choose_blas(&blas, &other));
    EXPECT(calls() == before);
    blas.measured = false;
    EXPECT(cpu_gemm_choose_blas(&blas, &g) && !cpu_gemm_choose_blas(NULL, &g));
    unsetenv("CBLAS_DOUBLE");
    mem_free(data);
    mem_free(folder);
}

/* ---- types ------------------------------------------------------------------------------------------------------------------- */

/* Both types are the same for a product that the library computes, and for one that is too small: nothing is
 * measured. */
TEST(types_are_compared_only_where_they_differ) {
    cpu_blas blas = open_double(true);
    cpu_gemm_types sum = {.agreed = true};
    const cpu_gemm small = shape_of(96, 80, 64), large = shape_of(160, 160, 160);
    cpu_gemm_compare_bf16(NULL, &small, &sum);
    EXPECT(!sum.agreed && sum.fp32_ns == 0 && sum.bf16_ns == 0);
    sum.agreed = true;
    const long before = calls();
    cpu_gemm_compare_bf16(&blas, &large, &sum);
    EXPECT(!sum.agreed && sum.fp32_ns == 0 && calls() == before);
    cpu_gemm_compare_bf16(NULL, &large, &sum);
    EXPECT(!sum.agreed && sum.fp32_ns > 0 && sum.bf16_ns > 0); /* one product that was not compared spoils the sum */
    const int64_t fp32_ns = sum.fp32_ns;
    cpu_gemm_compare_bf16(NULL, &large, &sum);
    EXPECT(sum.fp32_ns == 2 * fp32_ns); /* from the table */
}

TEST(a_device_times_products_of_any_size) {
    propane_error err = {0};
    propane_device *cpu = NULL, *null = NULL;
    propane_product_times t = {.size = sizeof t};
    EXPECT_OK(propane_device_open("cpu", &cpu, &err));
    EXPECT_OK(propane_device_open("null", &null, &err));
    EXPECT_OK(propane_device_time_products(cpu, 8, 8, 8, &t, &err));
    EXPECT(t.fp32_ms == 0 && t.bf16_ms == 0 && !t.reproduced && !t.bf16_pays);
    EXPECT_OK(propane_device_time_products(cpu, 1 << 30, 1, 1, &t, &err)); /* measured in part */
    EXPECT(t.fp32_ms > 0 && t.bf16_ms > 0);
    EXPECT_FAIL(propane_device_time_products(cpu, 8, 0, 8, &t, &err), PROPANE_ERR_INVALID, "columns is 0");
    EXPECT_FAIL(propane_device_time_products(cpu, 8, 8, (1LL << 30) + 1, &t, &err), PROPANE_ERR_INVALID, "positions");
    EXPECT_FAIL(propane_device_time_products(null, 8, 8, 8, &t, &err), PROPANE_ERR_UNSUPPORTED, "use 'cpu'");
    propane_device_close(null);
    propane_device_close(cpu);
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

static void run_product(float *z, bool *by_library) {
    static const char source[] =
        CONFORMANCE_HEAD "    func main<ios18>(tensor<fp32, [130, 150]> x, tensor<fp32, [150, 140]> y) {\n"
                         "        bool no = const()[name = string(\"no\"), val = bool(false)];\n"
                         "        tensor<fp32, [130, 140]> z = matmul(x = x, y = y, transpose_x = no, transpose_y = "
                         "no)[name = string(\"z\")];\n"
                         "    } -> (z);\n}\n";
    static float x[130 * 150], y[150 * 140];
    extern const propane_driver cpu_driver;
    propane_error err = {0};
    propane_module *m = NULL;
    void *device = NULL;
    driver_program program = {.arena = arena_create()};
    for (int i = 0; i < 130 * 150; i++) x[i] = (float)sin(i);
    for (int i = 0; i < 150 * 140; i++) y[i] = (float)cos(i);
    driver_buffer b[3] = {
        {.bytes = sizeof x, .memory = x}, {.bytes = sizeof y, .memory = y}, {.bytes = 130 * 140 * 4, .memory = z}};
    driver_buffer *in[2] = {&b[0], &b[1]}, *out[1] = {&b[2]};
    EXPECT_OK(propane_module_parse(source, strlen(source), "product", NULL, &m, &err));
    EXPECT_OK(cpu_driver.open("", &device, &err));
    EXPECT_OK(cpu_driver.compile(device, mil_module_function(m, NULL, &err), NULL, &program, &err));
    propane_completion done = {.size = sizeof done};
    EXPECT_OK(cpu_driver.execute(device, &(driver_execution){&program, in, out}, &done, &err));
    cpu_profile_row row;
    cpu_profile_get(&program, 0, &row);
    *by_library = strcmp(row.kind, "blas") == 0;
    cpu_driver.program_free(device, &program);
    cpu_driver.close(device);
    propane_module_free(m);
    arena_free(program.arena);
}

TEST(programs) {
    static float own[130 * 140], other[130 * 140], again[130 * 140];
    propane_error err = {0};
    bool library_did = true;
    const cpu_blas_counts before = cpu_blas_counted();
    EXPECT_OK(cpu_blas_choose("off", &err));
    run_product(own, &library_did);
    EXPECT(!library_did && cpu_blas_counted().own == before.own);
    EXPECT_OK(cpu_blas_choose(library, &err));
    run_product(other, &library_did);
    EXPECT(library_did && cpu_blas_counted().library == before.library + 1);
    EXPECT(cpu_blas_counted().library_flops - before.library_flops == 2.0 * 130 * 150 * 140);
    double worst = 0;
    for (int i = 0; i < 130 * 140; i++) {
        const double off = fabs((double)own[i] - (double)other[i]);
        if (off > worst) worst = off;
    }
    EXPECT_MSG(worst > 0 && worst < 1e-4, "%g", worst); /* other bits; observed 6e-6 */
    EXPECT_OK(cpu_blas_choose("off", &err));
    run_product(again, &library_did);
    EXPECT(memcmp(own, again, sizeof own) == 0);
}

int main(int argc, char **argv) {
    static const test_case cases[] = {T(products),
                                      T(blocks),
                                      T(what_it_does_not_take),
                                      T(libraries_that_cannot_be_used),
                                      T(the_choice_is_measured_once_and_kept),
                                      T(types_are_compared_only_where_they_differ),
                                      T(a_device_times_products_of_any_size),
                                      T(programs)};
    const char *slash = strrchr(argv[0], '/');
    snprintf(library, sizeof library, "%.*s/cblas/cblas_double.so", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    return test_main("cpu/blas", cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
