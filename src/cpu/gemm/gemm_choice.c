/* SPDX-License-Identifier: MIT
 * Owns the table of measured products and its file. A product is characterized by its sizes and the layout of its
 * operands, so generated operands of that layout serve as well as those of the step. A line that cannot be parsed, or a
 * full table, leads to measuring again, never to a wrong choice.
 */
#include "cpu/gemm/gemm_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/checksum.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/fork.h"
#include "core/base/int_math.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/text.h"
#include "core/base/user_cache.h"
#include "cpu/gemm/gemm_blas.h"

enum { CHOICE_ROWS = 1024, CHOICE_KEY_ROOM = 120, CHOICE_ITEMS = 4, CHOICE_FILE_LIMIT = 1 << 20 };
enum { CHOICE_MOST_ROUNDS = 7, CHOICE_LEAST_ROUNDS = 2 };
/* A choice counts if both times were reproduced to within 10 %, or if the same one was better twice. The library is chosen if
 * it saves at least 5 %, because within a program Propane's matrix product also adds to the existing values and packs ahead
 * for the next one. */
static const double gemm_choice_agreed = 1.1, gemm_choice_margin = 0.95;
/* For larger products the longest dimension is shortened before measuring. */
static const double gemm_choice_most_flops = 3e9;
static const int64_t gemm_choice_round_ns = 60000000; /* no new round after that if the times agree */
static const int64_t gemm_choice_most_ns = 300000000;

typedef struct gemm_choice_row {
    char key[CHOICE_KEY_ROOM];
    int64_t own_ns, library_ns;
    /* Other work on the machine did not affect the result: such rows are saved, others are valid only in this
     * process. */
    bool agreed;
} gemm_choice_row;

static struct {
    fork_mutex mutex;
    gemm_choice_row rows[CHOICE_ROWS];
    int count;
    bool read, reported;
} gemm_choice_table = {.mutex = FORK_MUTEX_INITIALIZER};

/* ---- kinds of products
 * ------------------------------------------------------------------------------------------------------ */

static char gemm_choice_orientation(const cpu_matrix *x) {
    return x->col_stride == 1 ? 'r' : x->row_stride == 1 ? 'c' : 'x';
}
static char gemm_choice_type(const cpu_matrix *x) { return x->dtype == CPU_F16 ? 'h' : 's'; }

/* Makes the key: machine, library, instruction set and threads as one word, then the sizes and the layout. */
static void gemm_choice_key(const cpu_blas *blas, const cpu_gemm *g, int threads, char key[CHOICE_KEY_ROOM]) {
    char host[256] = "", sum[17];
    checksum c;
    if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    checksum_init(&c);
    checksum_update(&c, host, strlen(host) + 1);
    checksum_update(&c, blas->identity, strlen(blas->identity) + 1);
    checksum_final(&c, sum);
    const bool shared_a = g->batch > 1 && !g->a.batch && !g->a.batch_stride;
    const bool shared_b = g->batch > 1 && !g->b.batch && !g->b.batch_stride;
    snprintf(key, CHOICE_KEY_ROOM,
             "%s-%s-%d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %c%c%s-%c%c%s-%c%c%s%s", sum,
             cpu_isa_name(g->kernels->isa), threads, g->m, g->n, g->k, g->batch, g->piece, gemm_choice_type(&g->a),
             gemm_choice_orientation(&g->a), shared_a ? "1" : "", gemm_choice_type(&g->b),
             gemm_choice_orientation(&g->b), shared_b ? "1" : "", gemm_choice_type(&g->c),
             gemm_choice_orientation(&g->c), g->bf16 ? "-bf16" : "", g->accumulate || g->residual ? "-add" : "");
}

/* ---- the file ----------------------------------------------------------------------------------------------------------------- */

static gemm_choice_row *gemm_choice_find(const char *key) {
    for (int i = 0; i < gemm_choice_table.count; i++)
        if (strcmp(gemm_choice_table.rows[i].key, key) == 0) return &gemm_choice_table.rows[i];
    return NULL;
}

static void gemm_choice_add(const char *key, const gemm_choice_row *measured) {
    gemm_choice_row *row = gemm_choice_find(key);
    if (!row && gemm_choice_table.count < CHOICE_ROWS) row = &gemm_choice_table.rows[gemm_choice_table.count++];
    if (!row) return;
    *row = *measured;
    snprintf(row->key, sizeof row->key, "%s", key);
}

/* Reads lines of "KEY: OWN LIBRARY" with times in nanoseconds. This process's own measurements take precedence. */
static void gemm_choice_read(void) {
    char path[USER_CACHE_PATH_ROOM], *data = NULL;
    size_t length;
    propane_error ignored = {0};
    gemm_choice_table.read = true;
    if (!user_cache_path("products.txt", path) || !file_exists(path)) return;
    if (file_read(path, CHOICE_FILE_LIMIT, &data, &length, &ignored) != PROPANE_OK) return;
    for (char *line = data, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        char *colon = strstr(line, ": ");
        long long own = 0, library = 0;
        int used = 0;
        if (!colon || colon - line >= CHOICE_KEY_ROOM) continue;
        *colon = 0;
        if (sscanf(colon + 2, "%18lld %18lld%n", &own, &library, &used) != 2 || colon[2 + used]) continue;
        const gemm_choice_row row = {.own_ns = own, .library_ns = library, .agreed = true};
        if (own > 0 && library > 0 && !gemm_choice_find(line)) gemm_choice_add(line, &row);
    }
    mem_free(data);
}

/* Writes the file, merged with the entries that other processes have written meanwhile. */
static void gemm_choice_write(void) {
    char folder[USER_CACHE_PATH_ROOM], path[USER_CACHE_PATH_ROOM];
    propane_error err = {0};
    text t = {0};
    if (!user_cache_path("", folder) || !user_cache_path("products.txt", path)) return;
    gemm_choice_read();
    for (int i = 0; i < gemm_choice_table.count; i++) {
        const gemm_choice_row *r = &gemm_choice_table.rows[i];
        if (r->agreed) text_printf(&t, "%s: %" PRId64 " %" PRId64 "\n", r->key, r->own_ns, r->library_ns);
    }
    propane_status status = t.failed ? propane_fail_memory(&err, t.capacity) : file_make_dir(folder, &err);
    if (status == PROPANE_OK) status = file_write(path, t.data, t.length, &err);
    if (status != PROPANE_OK && !gemm_choice_table.reported)
        log_print("%.900s; times of matrix products are not cached, so each process measures them", err.text);
    gemm_choice_table.reported |= status != PROPANE_OK;
    if (status != PROPANE_OK) mem_forget();
    text_deinit(&t);
}

/* ---- measuring ---------------------------------------------------------------------------------------------------------------- */

typedef struct gemm_choice_operand {
    void *memory;
    size_t bytes;
    int64_t *pieces;
} gemm_choice_operand;

static void gemm_choice_operand_free(gemm_choice_operand *o) {
    mem_pages_free(o->memory, o->bytes);
    mem_free(o->pieces);
}

typedef enum gemm_choice_k {
    CHOICE_K_NONE,
    CHOICE_K_ROWS,
    CHOICE_K_COLUMNS
} gemm_choice_k; /* which of the operand's directions is k */

/* Makes memory of that layout, filled with numbers: zeros and subnormals may have different timings. */
static bool gemm_choice_operand_make(gemm_choice_operand *o, cpu_matrix *x, int64_t rows, int64_t cols,
                                     const cpu_gemm *g, gemm_choice_k k) {
    const char form = gemm_choice_orientation(x);
    const bool shared = !x->batch && !x->batch_stride;
    const int64_t wide = form == 'x' ? 2 : 1, size = x->dtype == CPU_F16 ? 2 : 4;
    x->row_stride = form == 'c' ? 1 : cols * wide;
    x->col_stride = form == 'c' ? rows : wide;
    x->batch_stride = shared ? 0 : rows * cols * wide;
    x->batch = NULL;
    o->bytes = (size_t)(rows * cols * wide * size) * (size_t)(shared ? 1 : g->batch);
    o->memory = mem_pages_alloc(o->bytes);
    if (!o->memory) return false;
    for (size_t i = 0; i < o->bytes / 4; i++) ((uint32_t *)o->memory)[i] = size == 4 ? 0x3f000000u : 0x38003800u;
    x->data = o->memory;
    if (!g->piece || k == CHOICE_K_NONE) return true;
    const int64_t count = g->k / g->piece, stride = k == CHOICE_K_ROWS ? x->row_stride : x->col_stride;
    o->pieces = mem_array((size_t)count, sizeof *o->pieces);
    for (int64_t i = 0; o->pieces && i < count; i++) o->pieces[i] = i * g->piece * stride * size;
    x->pieces = o->pieces;
    return o->pieces != NULL;
}

static void gemm_choice_shorten(cpu_gemm *g) {
    if (g->batch > CHOICE_ITEMS) g->batch = CHOICE_ITEMS;
    for (int i = 0; i < 40; i++) {
        if (2.0 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch <= gemm_choice_most_flops) return;
        if (g->m >= g->n && (g->m >= g->k || g->piece))
            g->m = div_up(g->m, 2);
        else if (g->n >= g->k || g->piece)
            g->n = div_up(g->n, 2);
        else
            g->k = div_up(g->k, 2);
    }
}

static int64_t gemm_choice_time(const cpu_blas *blas, const cpu_gemm *g, void *scratch) {
    const int64_t start = clock_ns();
    if (blas)
        cpu_gemm_blas_run(blas, g, scratch);
    else
        cpu_gemm_run(g, scratch);
    return clock_ns() - start;
}

typedef struct gemm_choice_best {
    int64_t first, second;
} gemm_choice_best;

static void gemm_choice_note(gemm_choice_best *best, int64_t ns) {
    best->second = min_i64(best->second, max_i64(ns, best->first));
    best->first = min_i64(best->first, ns);
}

static bool gemm_choice_repeats(const gemm_choice_best *best) {
    return (double)best->second <= gemm_choice_agreed * (double)best->first;
}

/* Returns true if both times were reproduced, or if the second time of one is still better than the best of the
 * other. */
static bool gemm_choice_is_agreed(const gemm_choice_best *own, const gemm_choice_best *library) {
    return (gemm_choice_repeats(own) && gemm_choice_repeats(library)) || own->second < library->first ||
           (double)library->second < gemm_choice_margin * (double)own->first;
}

/* Runs both in alternation and keeps the best time of each. The first run of each is a warm-up. */
static void gemm_choice_alternate(const cpu_blas *blas, const cpu_gemm *g, void *scratch, gemm_choice_row *row) {
    gemm_choice_best own = {INT64_MAX, INT64_MAX}, library = own;
    const int64_t start = clock_ns();
    (void)gemm_choice_time(NULL, g, scratch);
    (void)gemm_choice_time(blas, g, scratch);
    row->agreed = false;
    for (int i = 0; i < CHOICE_MOST_ROUNDS; i++) {
        const int64_t spent = clock_ns() - start;
        if (i >= CHOICE_LEAST_ROUNDS && spent > (row->agreed ? gemm_choice_round_ns : gemm_choice_most_ns)) break;
        gemm_choice_note(&own, gemm_choice_time(NULL, g, scratch));
        gemm_choice_note(&library, gemm_choice_time(blas, g, scratch));
        row->agreed = gemm_choice_is_agreed(&own, &library);
    }
    row->own_ns = max_i64(own.first, 1), row->library_ns = max_i64(library.first, 1);
}

static bool gemm_choice_measure(const cpu_blas *blas, const cpu_gemm *wanted, gemm_choice_row *row) {
    cpu_gemm g = *wanted;
    gemm_choice_operand a = {0}, b = {0}, c = {0};
    gemm_choice_shorten(&g);
    g.accumulate = g.accumulate || g.residual;
    g.residual = NULL, g.squares = NULL, g.next = NULL;
    bool ready = gemm_choice_operand_make(&a, &g.a, g.m, g.k, &g, CHOICE_K_COLUMNS) &&
                 gemm_choice_operand_make(&b, &g.b, g.k, g.n, &g, CHOICE_K_ROWS) &&
                 gemm_choice_operand_make(&c, &g.c, g.m, g.n, &g, CHOICE_K_NONE);
    const size_t own = cpu_gemm_scratch_bytes(&g, pool_threads()),
                 other = cpu_gemm_blas_scratch_bytes(blas, &g, pool_threads());
    const size_t bytes = (own > other ? own : other) + 64;
    void *scratch = ready ? mem_pages_alloc(bytes) : NULL;
    ready = ready && scratch;
    if (ready)
        gemm_choice_alternate(blas, &g, scratch, row);
    else
        mem_forget();
    mem_pages_free(scratch, bytes);
    gemm_choice_operand_free(&a), gemm_choice_operand_free(&b), gemm_choice_operand_free(&c);
    return ready;
}

bool cpu_gemm_choose_blas(const cpu_blas *blas, const cpu_gemm *g) {
    char key[CHOICE_KEY_ROOM];
    gemm_choice_row now, *row;
    if (!blas || !cpu_gemm_blas_takes(blas, g)) return false;
    if (!blas->measured) return true;
    gemm_choice_key(blas, g, g->threads > 0 ? min_i64(g->threads, pool_threads()) : pool_threads(), key);
    fork_mutex_lock(&gemm_choice_table.mutex);
    if (!gemm_choice_table.read) gemm_choice_read();
    row = gemm_choice_find(key);
    if (!row && gemm_choice_measure(blas, g, &now)) {
        gemm_choice_add(key, &now);
        if (now.agreed) gemm_choice_write();
        row = &now;
    }
    const bool library = row && row->agreed && (double)row->library_ns < gemm_choice_margin * (double)row->own_ns;
    fork_mutex_unlock(&gemm_choice_table.mutex);
    return library;
}
