/* SPDX-License-Identifier: MIT
 * Building of tasks: operands in memory and in the on-chip buffer, and the words that every task of a kind has. After
 * all tasks are built, the header words are derived from the rest (links, base registers, places in the program).
 *
 * An operation's file calls emit_task, fills in sources, result and engine, and continues with the next task. Nothing
 * here is specific to operations.
 */
#ifndef ANE_H13_TASK_EMIT_H
#define ANE_H13_TASK_EMIT_H

#include "ane/h13/object.h"
#include "ane/h13/patch.h"
#include "core/base/text.h"

enum { EMIT_NO_BAR = -1 };

/* A tensor [c, h, w] in memory: element (c, h, w) at base + c*plane + h*row + 2*w bytes of the base register's
 * buffer. */
typedef struct emit_tensor {
    int bar;
    int64_t base, c, h, w;
    int64_t row, plane, total; /* bytes; total: used for the depth and group strides */
} emit_tensor;

/* The same in the on-chip buffer; `depth` and `group` as in the registers. */
typedef struct emit_l2 {
    int64_t base, channel, row, depth, group;
} emit_l2;

typedef struct emitted {
    engine_task task;
    int source, source2, result, kernel; /* base registers or EMIT_NO_BAR */
    bool source_given, result_given;     /* words of a DMA are set, whether or not it is enabled */
    bool second_on_chip;                 /* there are two sources, the second in the on-chip buffer */
    bool unfinished;                     /* a later task stores to the same result */
    bool root;                           /* uses a square root's table */
    int64_t kernel_task;                 /* DTID: the task that wrote the kernel */
    int64_t bytes;                       /* moved through DMA, including kernels */
    int64_t channel_visits;              /* for vectors of channels: sources times channels */
} emitted;

/* The operand of a product with a constant, which lies turned on chip: its tensor in memory, and its place. */
typedef struct emit_turned {
    int count; /* of the emitter's tasks when it was there last; 0: none */
    emit_tensor x, staged;
    emit_l2 kept;
} emit_turned;

typedef struct emitter {
    arena *arena;
    emitted *tasks;
    int count;
    text constants;  /* the constant section */
    int64_t scratch; /* bytes of base register 3 */
    emit_turned turned;
    engine_patch *patches;
    int patch_count;
    uint32_t subtype; /* ENGINE_H13 or ENGINE_H14 */
    bool failed;      /* memory ran out */
} emitter;

/* Returns a tensor of a surface with Apple's strides: rows are multiples of 64 bytes. */
emit_tensor emit_surface(int bar, int64_t base, int64_t c, int64_t h, int64_t w);

/* Returns the next task, with all words of its kind that do not depend on operands. The pointer is valid until the
 * next call. */
emitted *emit_task(emitter *e, bool neural);
/* Adds a place of a constant that may be overwritten; does nothing without a name. */
void emit_add_patch(emitter *e, const engine_patch *p);

void emit_set(emitted *t, uint32_t address, int64_t value);
void emit_or(emitted *t, uint32_t address, int64_t bits);
/* Sets the width, height and channels of the input. The result has the same ones until emit_out changes them. */
void emit_dims(emitted *t, int64_t c, int64_t h, int64_t w);
void emit_out(emitted *t, int64_t c, int64_t h, int64_t w);

/* Loads source 1 by DMA into the on-chip buffer at `at`; type 2 passes through, 1 is kept for later tasks. */
void emit_source(emitted *t, const emit_tensor *x, const emit_l2 *at, int type);
void emit_source2(emitted *t, const emit_tensor *y, const emit_l2 *at);
/* Reads source 1 from the on-chip buffer; `config` is the register's low half and alias bits. */
void emit_source_l2(emitted *t, const emit_l2 *at, uint32_t config);
void emit_source2_l2(emitted *t, const emit_l2 *at);
/* Streams the result out through DMA; `base` is the place that it would have in the on-chip buffer. */
void emit_store(emitted *t, const emit_tensor *y, int64_t base, int interleave);
/* Keeps the result on chip. */
void emit_keep(emitted *t, const emit_l2 *at, uint32_t config);
/* Sets the words of the result's DMA without enabling it, as in staging tasks. */
void emit_result_words(emitted *t, int bar, int64_t row, int64_t plane, int64_t total);

/* Sets the kernel lanes: lane i of `lanes` fetches `bytes` at base + i * step of the base register. */
void emit_lanes(emitted *t, int bar, int lanes, int64_t base, int64_t step, int64_t bytes);
/* Sets ActiveNE for that many lanes (a power of two). */
void emit_active(emitted *t, int lanes);

/* Keeps the value that a stores for b on chip and returns NULL. b must directly follow a, and nothing else may read the
 * value. If the rules are not known or it does not fit, changes nothing and returns the reason. */
const char *emit_chain(emitted *a, emitted *b);

/* Computes sizes, links and headers of all tasks, and their bytes. Sets tasks, text and first_words of the object. */
PROPANE_CHECK propane_status emit_finish(emitter *e, engine_object *o, propane_error *err);

/* ---- rules of the on-chip buffer --------------------------------------------------------------------------------- */

int emit_log2(int64_t n);                                   /* rounded up */
int64_t emit_channel(int64_t w, bool neural);               /* bytes from channel to channel */
int64_t emit_pad(int64_t row);                              /* padding that keeps such rows out of the same banks */
emit_l2 emit_planar_l2(int64_t base, int64_t c, int64_t w); /* including that padding */
uint32_t emit_patch(int64_t h, int64_t w, bool two_dma);
uint32_t emit_shape(int64_t h, int64_t w); /* ShMax: the neural engine's work unit, 0 (128x1) to 4 (8x16) */
int emit_lane_count(int64_t c);            /* 1, 2, 4, 8 or 16 */
/* Returns the rows, at most h, for which the buffer holds `sources` sources and a result of `row` bytes each; 0 if
 * not even one fits. */
int64_t emit_tile(int64_t h, int64_t row, int sources);

#endif
