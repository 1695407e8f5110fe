/* SPDX-License-Identifier: MIT
 * Tile programs: elementwise operations, reductions and softmax of one iteration space, run tile by tile so that all that
 * lies between loads and stores stays in the nearest caches, in fp32.
 *
 * The iteration space has three parts: outer dimensions, folded ones (the reduced axes) and one inner one behind them. A
 * tile is a box of `rows` of the last outer dimension, all of the folded part (or a chunk of it, when nothing needs it
 * whole) and `width` of the inner dimension, dense in the worker's scratch memory:
 *   no axes           [rows, 1, width]   strips of a plain map
 *   last axis folded  [rows, fold, 1]    rows of a softmax
 *   another axis      [1, fold, width]   columns of an RMSNorm over channels
 * A register is FULL (a float for each element of the tile), REDUCED (one for each of rows x width) or SCALAR.
 */
#ifndef DRIVERS_CPU_TILE_H
#define DRIVERS_CPU_TILE_H

#include "drivers/cpu/map.h"
#include "drivers/cpu/plan.h"
#include "drivers/cpu/rows.h"

#define TILE_MAX_REGISTERS 160
#define TILE_MAX_RANK      MIL_MAX_RANK

typedef enum tile_class { TILE_FULL, TILE_REDUCED, TILE_SCALAR } tile_class;

typedef enum tile_kind {
    TILE_LOAD,
    TILE_UNARY,
    TILE_BINARY,
    TILE_SELECT,
    TILE_SPREAD, /* REDUCED or SCALAR to FULL */
    TILE_REDUCE,
    TILE_LOG_SUM_EXP,
    TILE_SOFTMAX,
    TILE_STORE
} tile_kind;

typedef struct tile_instr {
    unsigned char kind, code;
    unsigned char klass; /* of the result */
    unsigned char late;  /* depends on a reduction of the whole fold: runs after the last chunk */
    short dst, src[3];   /* registers */
    short view;          /* loads and stores */
    float p, q;
} tile_instr;

typedef struct tile_view {
    cpu_plan_ref at;
    mil_dtype dtype;
    int element;                                              /* bytes */
    int64_t outer[TILE_MAX_RANK], fold[TILE_MAX_RANK], inner; /* strides in elements */
} tile_view;

typedef struct tile_register {
    tile_class klass;
    int64_t slot; /* floats from the worker's scratch; -1: none (constant scalar) */
    float value;  /* constant scalars */
    short direct; /* >= 0: computed straight into that store's memory where its tile is dense fp32 */
} tile_register;

typedef struct tile_program {
    const cpu_map_table *map;
    const cpu_rows_table *table;
    int outer_rank, fold_rank;
    int64_t outer[TILE_MAX_RANK], fold[TILE_MAX_RANK], inner;
    int64_t rows, width; /* of a tile */
    int64_t chunk;       /* of fold[0] */
    bool columns;        /* REDUCED lies along the inner dimension */
    int view_count, instr_count, register_count;
    tile_view *views;
    tile_instr *instrs;
    tile_register *registers;
    cpu_plan_ref scratch;
    int64_t scratch_bytes; /* of one worker */
    int64_t row_chunks, width_chunks, tiles, tiles_a_task;
} tile_program;

propane_status cpu_tile_run(const cpu_run *run, const void *args, propane_error *err);

/* A box of elements in memory to dense floats and back. Integers are cut towards zero and clamped to the type. */
void cpu_tile_load(float *target, const void *source, mil_dtype dtype, int rank, const int64_t *dim,
                   const int64_t *stride);
void cpu_tile_store(void *target, mil_dtype dtype, int rank, const int64_t *dim, const int64_t *stride,
                    const float *source);
bool cpu_tile_dtype(mil_dtype dtype); /* whether both work on it */

#endif
