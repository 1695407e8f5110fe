/* SPDX-License-Identifier: MIT
 * Tile programs: elementwise operations, reductions and softmax of one iteration space, run tile by tile so that
 * everything between loads and stores stays in the cache, in fp32.
 *
 * The iteration space has three parts: outer dimensions, folded dimensions (the reduced axes) and one inner dimension
 * after these. A tile is a box of `rows` of the last outer dimension, all of the folded part (or a chunk of it, if
 * nothing needs it whole) and `width` of the inner dimension, dense in the worker's scratch memory:
 *   no axes           [rows, 1, width]   strips of a plain map
 *   last axis folded  [rows, fold, 1]    rows of a softmax
 *   another axis      [1, fold, width]   columns of an RMSNorm over channels
 * A register is FULL (one float per element of the tile), REDUCED (one per element of rows x width), LINE (one per
 * line) or SCALAR. FULL registers consist of lines: [fold][width] for columns, else [rows][fold * width]. In scratch
 * memory, lines are contiguous. If a tensor's own memory is used instead, their distance is the tensor's stride.
 */
#ifndef CPU_LOOP_LOOP_H
#define CPU_LOOP_LOOP_H

#include "cpu/cpu_view.h"
#include "cpu/signed_rows.h"
#include "cpu/simd/kernels.h"

#define LOOP_MAX_REGISTERS 160
#define LOOP_MAX_RANK      MIL_MAX_RANK

#define LOOP_MAX_PASSES   8
#define LOOP_CHUNK_FLOATS 8192 /* folded elements of a row that are processed at a time */

typedef enum loop_class { LOOP_FULL, LOOP_REDUCED, LOOP_SCALAR, LOOP_LINE } loop_class;

typedef enum loop_kind {
    LOOP_LOAD,
    LOOP_UNARY,
    LOOP_BINARY,
    LOOP_SELECT,
    LOOP_FMA,    /* src[0] src[1] + src[2], or for code 1 src[2] - src[0] src[1]; src[0] is FULL */
    LOOP_SPREAD, /* spreads a register to FULL, or a SCALAR one to REDUCED */
    LOOP_REDUCE, /* reduces src[0], or the products src[0] src[1] if src[1] >= 0 */
    LOOP_LOG_SUM_EXP,
    LOOP_SOFTMAX,
    LOOP_STORE
} loop_kind;

typedef struct loop_instr {
    unsigned char kind, code;
    unsigned char extent; /* class of the result */
    short dst, src[3];    /* registers */
    short view;           /* view of a load or store */
    short place;          /* for reductions: the number of the reduction */
    float p, q;
} loop_instr;

typedef struct loop_view {
    cpu_ref at;
    mil_dtype dtype;
    unsigned char extent; /* class of what is loaded or stored */
    int element;          /* bytes per element */
    /* If not NULL, index i of the last outer dimension reads line pick[i].line, with the sign pick[i].sign. */
    const cpu_signed_row *pick;
    int64_t outer[LOOP_MAX_RANK], fold[LOOP_MAX_RANK], inner; /* strides in elements */
} loop_view;

typedef struct loop_register {
    loop_class extent;
    int64_t slot; /* offset in floats in the worker's scratch; -1 for a constant scalar, which has none */
    float value;  /* value of a constant scalar */
    short direct; /* view of a store in whose memory it is computed, if the tile is dense fp32 there; -1 if none */
} loop_register;

/* One traversal of the fold. Instructions [once, chunk) run before the traversal, [chunk, end) for each chunk. */
typedef struct loop_pass {
    int once, chunk, end;
} loop_pass;

typedef struct loop_program {
    const cpu_elementwise_kernels *map;
    const cpu_reduce_kernels *table;
    int outer_rank, fold_rank;
    int64_t outer[LOOP_MAX_RANK], fold[LOOP_MAX_RANK], inner;
    int64_t rows, width; /* size of a tile */
    int64_t chunk;       /* chunk size along fold[0] */
    bool columns;        /* REDUCED registers run along the inner dimension */
    int view_count, instr_count, register_count, pass_count;
    loop_pass passes[LOOP_MAX_PASSES];
    loop_view *views;
    loop_instr *instrs;
    loop_register *registers;
    cpu_ref scratch;
    int64_t scratch_bytes; /* per worker */
    int64_t row_chunks, width_chunks, tiles, tiles_a_task;
    /* If `parts` > 1, each pass divides a tile's fold into parts of `part_length` indices of fold[0]. Each part is a
     * task. Their reduced values are stored in `partial` until the next pass joins them, in the order of the parts. */
    int64_t parts, part_length;
    int reductions;
    cpu_ref partial;
} loop_program;

propane_status cpu_loop_run(const cpu_run *run, const void *args, propane_error *err);

#endif
