/* SPDX-License-Identifier: MIT
 * Declarations shared by the files of the matrix product: its plan, the state of a run, and the layout of packed
 * operands. gemm_blocking.c makes plans, gemm_pack.c packs, gemm_prefetch.c packs and prefetches while tiles are
 * computed, gemm_vector.c handles products with a single row or column, and gemm_run.c all others.
 */
#ifndef CPU_GEMM_GEMM_BLOCKING_H
#define CPU_GEMM_GEMM_BLOCKING_H

#include "core/base/int_math.h"
#include "cpu/gemm/gemm.h"

enum { GEMM_ALIGN = 64 };

typedef enum gemm_path { PATH_NOTHING, PATH_VECTOR, PATH_STATIONARY, PATH_ITEMS } gemm_path;

typedef struct gemm_plan {
    cpu_gemm g; /* transposed if gemm_plan_transposes, so that C's rows are contiguous */
    const cpu_gemm_kernels *kernels;
    const cpu_gemm_sizes *sizes;
    gemm_path path;
    bool round;
    int threads;
    bool a_stationary; /* A is the stationary operand */
    bool a_quads;      /* A is packed in quads */
    bool by_item;      /* the stationary operand differs between items, which run one after the other */
    int64_t a_panels, b_panels, a_height; /* a_height: rows, including the last panel's padding */
    int64_t item_panels;       /* panels of B of one item; fewer than b_panels if the items' B are side by side */
    int last_height;           /* height of the last panel of A */
    gemm_tile tile, last_tile; /* for full panels of A, and for the last one */
    /* Packs a full panel of a streamed A in the first tile that reads it; NULL if no tile does. */
    gemm_pack_a_tile pack_a_tile;
    gemm_pack_b_tile pack_b_tile; /* the same for a streamed B */
    int64_t k_blocks, k_block;
    int64_t items, streamed_blocks; /* items whose tasks run together, and tasks per item */
    bool needs_partial;             /* C cannot hold partial sums */
    bool residual_first;            /* nothing but the residual is added, and tiles can add it as they write C */
    bool packs_ahead;               /* tasks pack their next block during the tiles of the current one */
    size_t stationary_bytes, partial_bytes, squares_bytes, block_bytes, worker_bytes;
} gemm_plan;

static inline size_t gemm_bytes(int64_t floats) { return (size_t)round_up(floats * 4, GEMM_ALIGN); }

/* Plans `g` for that many threads. `residual` is storage for the transposed residual and must live as long as the
 * plan. */
void gemm_plan_make(gemm_plan *p, const cpu_gemm *g, int threads, cpu_matrix *residual);
bool gemm_plan_transposes(
    const cpu_gemm *g); /* true if only C's columns are contiguous: the transposed product is computed instead */
/* Turns `g` into the transposed product. `residual` stores the transposed residual. */
void gemm_plan_turn(cpu_gemm *g, cpu_matrix *residual);
bool gemm_adds_to_itself(const cpu_gemm *g);                   /* returns true if the residual is C's own content */
bool gemm_plan_shares(const cpu_gemm *g, const cpu_matrix *x); /* true if all items read the same x */
int64_t gemm_plan_block_words(const gemm_plan *p);             /* words of k per pass */

typedef struct gemm_run {
    const gemm_plan *p;
    char *stationary_memory, *partial_memory, *worker_memory;
    int64_t first_item;
    int64_t pass, k0, k1;
    const gemm_plan *next; /* plan of the next product; NULL if unknown */
    double *squares;       /* as in gemm_finish, for all passes; NULL if not wanted */
} gemm_run;

static inline cpu_matrix_view view_of(const cpu_matrix *m, int64_t item) {
    const void *data = m->batch ? m->batch[item] : cpu_element(m->data, m->dtype, item * m->batch_stride);
    return (cpu_matrix_view){data, m->dtype, m->row_stride, m->col_stride};
}

static inline int64_t words_of(const gemm_plan *p, int64_t k0, int64_t k1) { return div_up(k1 - k0, p->kernels->pair); }
static inline int64_t padded_words(const gemm_plan *p, int64_t k0, int64_t k1) {
    return div_up(words_of(p, k0, k1), GEMM_BLOCK) * GEMM_BLOCK;
}

static inline int64_t panel_rows(const gemm_plan *p, int64_t panel) {
    return min_i64(p->kernels->mr, p->g.m - panel * p->kernels->mr);
}
static inline int panel_height(const gemm_plan *p, int64_t panel) {
    return panel == p->a_panels - 1 ? p->last_height : p->kernels->mr;
}
static inline int64_t panel_cols(const gemm_plan *p, int64_t panel) {
    return min_i64(p->kernels->nr, p->g.n - panel % p->item_panels * p->kernels->nr);
}

/* Sets *from and *to to the first panel of this block of the streamed operand and to the panel after its last. */
static inline void gemm_block_panels(const gemm_plan *p, int64_t block, int64_t *from, int64_t *to) {
    int64_t panels = p->a_stationary ? p->b_panels : p->a_panels;
    *from = panels * block / p->streamed_blocks;
    *to = panels * (block + 1) / p->streamed_blocks;
}

static inline const void *element(const cpu_matrix_view *v, int64_t index) {
    return cpu_element(v->data, v->dtype, index);
}

/* Returns what is needed to finish an item's tiles in the pass k0 .. k1. */
gemm_finish gemm_finish_of(const gemm_run *r, int64_t item, int64_t k0, int64_t k1);

/* Packs panels from .. to-1 of one operand for the pass k0 .. k1, but only the part part0 .. part1 of k. The packed
 * panel `from` begins at `words`. */
void gemm_pack_panels(const gemm_plan *p, bool is_a, const cpu_matrix_view *v, float *words, int64_t from, int64_t to,
                      int64_t k0, int64_t k1, int64_t part0, int64_t part1);

/* gemm_task_vector is the task of a product with a single row or column; its context is a gemm_run. gemm_vector_chunk
 * returns the number of outputs that each task computes. */
void gemm_task_vector(void *context, int task, int worker);
int64_t gemm_vector_chunk(const gemm_plan *p);

#endif
