/* SPDX-License-Identifier: MIT
 * Declarations shared by attention's two directions (attention_forward.c, attention_backward.c): the layout of a
 * thread's memory, how operands are packed for the tiles of gemm_ukernel.h, and which keys a row sees. Private to these
 * files.
 */
#ifndef CPU_ATTENTION_ATTENTION_INTERNAL_H
#define CPU_ATTENTION_ATTENTION_INTERNAL_H

#include "core/base/int_math.h"
#include "cpu/attention/attention.h"

enum { ATTENTION_ALIGN = 16, ATTENTION_COLUMNS = 64, ATTENTION_GROUP = 4 };

/* Exponentials are computed as powers of 2, so scores are multiplied by this. */
#define ATTENTION_LOG2_E 1.44269504f

/* The working memory of one thread, in floats. */
typedef struct attention_room {
    int64_t keys;        /* rounded up to whole panels, with space after them */
    int64_t width, tall; /* width: rounded up to panels of columns; tall: rounded up to panels of rows */
    int64_t rows, span;  /* query rows and keys that are processed at a time */
    int64_t k, kt, v, q, o, qt, ot, s, d, copy, out, turned, dk, dv, top, sums, totals; /* offset of each part */
    int64_t floats;
} attention_room;

typedef struct attention_run {
    const cpu_attention *a;
    const cpu_gemm_kernels *g;
    const cpu_attention_kernels *rows;
    attention_room room;
    float *scratch;
    int tallest;      /* the index of the tiles of mr rows */
    int64_t chunks;   /* forward: number of chunks of an item's rows */
    int64_t together; /* items per task, if chunks is 1 */
} attention_run;

/* What is prefetched line by line while an item's tiles are computed: the operands of the next item, and this item's
 * result. */
typedef struct attention_ahead {
    const char *at[CPU_ATTENTION_ROLES];
    int64_t lines[CPU_ATTENTION_ROLES];
    int count;
} attention_ahead;

/* Returns what to prefetch during an item: its result and, if the task has a next item, the operands of that item.
 * Operands that are not dense or are too large are left out. */
attention_ahead attention_look_ahead(const attention_run *r, int64_t item, int64_t end);
/* Sets what a tile of `depth` steps prefetches in addition to `next->row`, which is unchanged. */
static inline void attention_fetch(attention_ahead *f, int64_t depth, gemm_next *next) {
    while (f->count && f->lines[f->count - 1] <= 0) f->count--;
    next->step = f->count ? 128 : 0;
    next->second = f->count ? 64 : 0;
    if (!f->count) return;
    next->at = f->at[f->count - 1];
    f->at[f->count - 1] += depth / 4 * 64;
    f->lines[f->count - 1] -= depth / 4;
}

int64_t attention_take(attention_room *r, int64_t floats);
/* Returns the size of equal blocks of at most about `span` keys, a multiple of `step`. */
int64_t attention_span(int64_t keys, int64_t span, int64_t step);
void attention_plan_backward(attention_room *r, const cpu_attention *a, const cpu_gemm_kernels *g);
void attention_backward_item(const attention_run *r, float *m, int64_t item, attention_ahead *ahead);

/* Stores `rows` lines of `width` floats, `step` apart, to elements whose lines are `row` and whose columns are `col`
 * apart. */
void attention_store(void *to, cpu_dtype dtype, int64_t row, int64_t col, const float *from, int64_t step, int64_t rows,
                     int64_t width);
unsigned char *attention_item(const cpu_attention_operand *x, int64_t item);
int attention_height(const attention_run *r, int64_t rows);
gemm_tile attention_tile(const attention_run *r, int64_t rows, bool form);
/* Packs rows of an operand in panels of mr rows, one after the other, [width][height]. */
void attention_pack_rows(const attention_run *r, const cpu_attention_operand *x, int64_t item, float *to, int64_t first,
                         int64_t rows);
/* Packs rows of an operand, transposed, as the first operand of a product. Panels of mr channels follow each other, and
 * `rows` is their k. Returns true if the panels are packed in quads. */
bool attention_pack_turned(const attention_run *r, const cpu_attention_operand *x, int64_t item, float *to,
                           int64_t first, int64_t rows);

/* Returns how many keys the rows up to local row `last` see. */
static inline int64_t seen(const cpu_attention *a, int64_t last) {
    return a->causal ? min_i64(a->keys, last + 1) : a->keys;
}

#endif
