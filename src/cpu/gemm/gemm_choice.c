/* SPDX-License-Identifier: MIT
 * Owns the table of measured products and its file. A row compares two ways to compute the same product. A product is
 * characterized by its sizes and the layout of its operands, so generated operands of the same layout serve as well as
 * the step's own. A line that cannot be parsed, or a full table, leads to measuring again, never to a wrong choice.
 */
#include "cpu/gemm/gemm_choice.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

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
/* A comparison is valid if both times were reproduced to within 10 %, or if the same way was better twice. The second
 * way is chosen only if it saves more than 5 %. If it is a library, the reason is that Propane's matrix product also
 * packs ahead for the next product of a program. If it is bf16, the reason is that bf16 changes a run's numbers. */
static const double gemm_choice_agreed = 1.1;
const double cpu_gemm_choice_margin = 0.95;
/* Larger products are shortened along their longest dimension before they are measured. */
static const double gemm_choice_most_flops = 3e9, gemm_choice_most_elements = 1 << 25;
static const double gemm_choice_least_flops = 4e6;    /* smaller products are not measured in two types */
static const int64_t gemm_choice_round_ns = 60000000; /* no new round begins after that time if the times agree */
static const int64_t gemm_choice_most_ns = 300000000;

typedef struct gemm_choice_way {
    const cpu_blas *blas; /* NULL: Propane's kernels */
    bool bf16;
} gemm_choice_way;

typedef struct gemm_choice_row {
    char key[CHOICE_KEY_ROOM];
    int64_t ns[2]; /* of the two ways */
    /* Set if other work on the machine did not affect the result. Such rows are saved; others are valid only in this
     * process. */
    bool agreed;
} gemm_choice_row;

static struct {
    fork_mutex mutex;
    gemm_choice_row rows[CHOICE_ROWS];
    int count;
    bool read, reported;
} gemm_choice_table = {.mutex = FORK_MUTEX_INITIALIZER};

/* ---- kinds of products ------------------------------------------------------------------------------------------- */

static char gemm_choice_orientation(const cpu_matrix *x) {
    return x->col_stride == 1 ? 'r' : x->row_stride == 1 ? 'c' : 'x';
}
static char gemm_choice_type(const cpu_matrix *x) { return x->dtype == CPU_F16 ? 'h' : 's'; }

/* Returns the processor's name, or "" if it is not known. It is part of the key because a virtual machine may start on
 * another processor next time. */
static const char *gemm_choice_processor(char out[49]) {
    memset(out, 0, 49);
#ifdef __x86_64__
    unsigned int words[4];
    for (unsigned int i = 0; i < 3; i++) {
        if (!__get_cpuid(0x80000002u + i, &words[0], &words[1], &words[2], &words[3])) break;
        memcpy(out + 16 * i, words, 16);
    }
#endif
    return out;
}

static void gemm_choice_add_word(checksum *c, const char *word) { checksum_update(c, word, strlen(word) + 1); }

/* Makes the key: machine, processor, libraries, instruction set and threads as one word, then the sizes and the
 * layout. */
static void gemm_choice_key(const gemm_choice_way ways[2], const cpu_gemm *g, char key[CHOICE_KEY_ROOM]) {
    char host[256] = "", processor[49], sum[17];
    checksum c;
    const int threads = g->threads > 0 ? (int)min_i64(g->threads, pool_threads()) : pool_threads();
    if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    checksum_init(&c);
    gemm_choice_add_word(&c, host);
    gemm_choice_add_word(&c, gemm_choice_processor(processor));
    for (int i = 0; i < 2; i++)
        if (ways[i].blas) gemm_choice_add_word(&c, ways[i].blas->identity);
    checksum_final(&c, sum);
    const char *types = ways[0].bf16 != ways[1].bf16 ? "-or-bf16" : ways[0].bf16 ? "-bf16" : "";
    const bool shared_a = g->batch > 1 && !g->a.batch && !g->a.batch_stride;
    const bool shared_b = g->batch > 1 && !g->b.batch && !g->b.batch_stride;
    snprintf(key, CHOICE_KEY_ROOM,
             "%s-%s-%d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %c%c%s-%c%c%s-%c%c%s%s", sum,
             cpu_isa_name(g->kernels->isa), threads, g->m, g->n, g->k, g->batch, g->piece, gemm_choice_type(&g->a),
             gemm_choice_orientation(&g->a), shared_a ? "1" : "", gemm_choice_type(&g->b),
             gemm_choice_orientation(&g->b), shared_b ? "1" : "", gemm_choice_type(&g->c),
             gemm_choice_orientation(&g->c), types, g->accumulate || g->residual ? "-add" : "");
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

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

/* Reads lines of "KEY: FIRST SECOND" with times in nanoseconds. This process's own measurements take precedence. */
static void gemm_choice_read(void) {
    char path[USER_CACHE_PATH_ROOM], *data = NULL;
    size_t length;
    propane_error ignored = {0};
    gemm_choice_table.read = true;
    if (!user_cache_path("products.txt", path) || !file_exists(path)) return;
    if (file_read(path, CHOICE_FILE_LIMIT, &data, &length, &ignored) != PROPANE_OK) {
        mem_forget();
        return;
    }
    for (char *line = data, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        char *colon = strstr(line, ": ");
        long long first = 0, second = 0;
        int used = 0;
        if (!colon || colon - line >= CHOICE_KEY_ROOM) continue;
        *colon = 0;
        if (sscanf(colon + 2, "%18lld %18lld%n", &first, &second, &used) != 2 || colon[2 + used]) continue;
        const gemm_choice_row row = {.ns = {first, second}, .agreed = true};
        if (first > 0 && second > 0 && !gemm_choice_find(line)) gemm_choice_add(line, &row);
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
        if (r->agreed) text_printf(&t, "%s: %" PRId64 " %" PRId64 "\n", r->key, r->ns[0], r->ns[1]);
    }
    propane_status status = t.failed ? propane_fail_memory(&err, t.capacity) : file_make_dir(folder, &err);
    if (status == PROPANE_OK) status = file_write(path, t.data, t.length, &err);
    if (status != PROPANE_OK && !gemm_choice_table.reported)
        log_print("%.900s; times of matrix products are not cached, so each process measures them", err.text);
    gemm_choice_table.reported |= status != PROPANE_OK;
    if (status != PROPANE_OK) mem_forget();
    text_deinit(&t);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

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

/* Allocates an operand with the layout of *x and points *x to it. Its elements are normal numbers, because zeros and
 * subnormals may take another time. Returns false if there is no memory. */
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
    for (int i = 0; i < 80; i++) {
        const double m = (double)g->m, n = (double)g->n, k = (double)g->k, items = (double)g->batch;
        const double elements = fmax(fmax(m * n, m * k), n * k) * items;
        if (2 * m * n * k * items <= gemm_choice_most_flops && elements <= gemm_choice_most_elements) return;
        if (g->m >= g->n && (g->m >= g->k || g->piece))
            g->m = div_up(g->m, 2);
        else if (g->n >= g->k || g->piece)
            g->n = div_up(g->n, 2);
        else
            g->k = div_up(g->k, 2);
    }
}

/* Returns the time of one run in nanoseconds. If Propane's kernels run on one thread, this is the thread's processor
 * time, which does not include other work on the machine. */
static int64_t gemm_choice_time(const gemm_choice_way *way, const cpu_gemm *g, void *scratch) {
    int64_t (*clock)(void) = g->threads == 1 && !way->blas ? clock_thread_ns : clock_ns;
    cpu_gemm now = *g;
    now.bf16 = way->bf16;
    const int64_t start = clock();
    if (way->blas)
        cpu_gemm_blas_run(way->blas, &now, scratch);
    else
        cpu_gemm_run(&now, scratch);
    return clock() - start;
}

static size_t gemm_choice_scratch_bytes(const gemm_choice_way *way, const cpu_gemm *g) {
    cpu_gemm now = *g;
    now.bf16 = way->bf16;
    return way->blas ? cpu_gemm_blas_scratch_bytes(way->blas, &now, pool_threads())
                     : cpu_gemm_scratch_bytes(&now, pool_threads());
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

/* Returns true if both times were reproduced, or if the second-best time of one way still beats the best time of the
 * other. */
static bool gemm_choice_is_agreed(const gemm_choice_best best[2]) {
    return (gemm_choice_repeats(&best[0]) && gemm_choice_repeats(&best[1])) || best[0].second < best[1].first ||
           (double)best[1].second < cpu_gemm_choice_margin * (double)best[0].first;
}

/* Runs both ways in alternation and keeps the best time of each. The first run of each is a warm-up. */
static void gemm_choice_alternate(const gemm_choice_way ways[2], const cpu_gemm *g, void *scratch,
                                  gemm_choice_row *row) {
    gemm_choice_best best[2] = {{INT64_MAX, INT64_MAX}, {INT64_MAX, INT64_MAX}};
    const int64_t start = clock_ns();
    for (int way = 0; way < 2; way++) (void)gemm_choice_time(&ways[way], g, scratch);
    row->agreed = false;
    for (int i = 0; i < CHOICE_MOST_ROUNDS; i++) {
        const int64_t spent = clock_ns() - start;
        if (i >= CHOICE_LEAST_ROUNDS && spent > (row->agreed ? gemm_choice_round_ns : gemm_choice_most_ns)) break;
        for (int way = 0; way < 2; way++) gemm_choice_note(&best[way], gemm_choice_time(&ways[way], g, scratch));
        row->agreed = gemm_choice_is_agreed(best);
    }
    for (int way = 0; way < 2; way++) row->ns[way] = max_i64(best[way].first, 1);
}

static bool gemm_choice_measure(const gemm_choice_way ways[2], const cpu_gemm *wanted, gemm_choice_row *row) {
    cpu_gemm g = *wanted;
    gemm_choice_operand a = {0}, b = {0}, c = {0};
    gemm_choice_shorten(&g);
    g.accumulate = g.accumulate || g.residual;
    g.residual = NULL, g.squares = NULL, g.next = NULL;
    bool ready = gemm_choice_operand_make(&a, &g.a, g.m, g.k, &g, CHOICE_K_COLUMNS) &&
                 gemm_choice_operand_make(&b, &g.b, g.k, g.n, &g, CHOICE_K_ROWS) &&
                 gemm_choice_operand_make(&c, &g.c, g.m, g.n, &g, CHOICE_K_NONE);
    const size_t first = gemm_choice_scratch_bytes(&ways[0], &g), second = gemm_choice_scratch_bytes(&ways[1], &g);
    const size_t bytes = (first > second ? first : second) + 64;
    void *scratch = ready ? mem_pages_alloc(bytes) : NULL;
    ready = ready && scratch;
    if (ready)
        gemm_choice_alternate(ways, &g, scratch, row);
    else
        mem_forget();
    mem_pages_free(scratch, bytes);
    gemm_choice_operand_free(&a), gemm_choice_operand_free(&b), gemm_choice_operand_free(&c);
    return ready;
}

/* Fills *out from the table or, if the product is not in the table, by measuring. Returns false if there is no
 * memory. */
static bool gemm_choice_compare(const gemm_choice_way ways[2], const cpu_gemm *g, gemm_choice_row *out) {
    char key[CHOICE_KEY_ROOM];
    gemm_choice_key(ways, g, key);
    fork_mutex_lock(&gemm_choice_table.mutex);
    if (!gemm_choice_table.read) gemm_choice_read();
    const gemm_choice_row *row = gemm_choice_find(key);
    if (row) *out = *row;
    const bool known = row || gemm_choice_measure(ways, g, out);
    if (!row && known) {
        gemm_choice_add(key, out);
        if (out->agreed) gemm_choice_write();
    }
    fork_mutex_unlock(&gemm_choice_table.mutex);
    return known;
}

bool cpu_gemm_choose_blas(const cpu_blas *blas, const cpu_gemm *g) {
    const gemm_choice_way ways[2] = {{NULL, g->bf16}, {blas, g->bf16}};
    gemm_choice_row row;
    if (!blas || !cpu_gemm_blas_takes(blas, g)) return false;
    if (!blas->measured) return true;
    return gemm_choice_compare(ways, g, &row) && row.agreed &&
           (double)row.ns[1] < cpu_gemm_choice_margin * (double)row.ns[0];
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Returns the way in which a program would compute the product in that type. */
static gemm_choice_way gemm_choice_way_of(const cpu_blas *blas, const cpu_gemm *g, bool bf16) {
    cpu_gemm typed = *g;
    typed.bf16 = bf16;
    return (gemm_choice_way){cpu_gemm_choose_blas(blas, &typed) ? blas : NULL, bf16};
}

void cpu_gemm_compare_bf16(const cpu_blas *blas, const cpu_gemm *g, cpu_gemm_types *sum) {
    gemm_choice_row row = {.agreed = false};
    if (2 * (double)g->m * (double)g->n * (double)g->k >= gemm_choice_least_flops) {
        const gemm_choice_way ways[2] = {gemm_choice_way_of(blas, g, false), gemm_choice_way_of(blas, g, true)};
        const bool both = ways[0].blas && ways[1].blas; /* the library multiplies fp32 numbers in either case */
        cpu_gemm single = *g;
        if (!ways[0].blas && !ways[1].blas) single.threads = 1;
        if (both || !gemm_choice_compare(ways, &single, &row)) row = (gemm_choice_row){.agreed = false};
    }
    sum->fp32_ns += row.ns[0], sum->bf16_ns += row.ns[1];
    sum->agreed = sum->agreed && row.agreed;
}
