/* SPDX-License-Identifier: MIT
 * Builds tasks: sets the words of operands in memory and in the on-chip buffer, and the words that every task of an
 * engine has. After all tasks are built, emit_finish derives their header words (links, base registers, places in the
 * program).
 *
 * The file that lowers an operation calls emit_task, fills in sources, result and engine, and continues with the next
 * task. Nothing in this file is specific to an operation.
 */
#ifndef ANE_H13_TASK_EMIT_H
#define ANE_H13_TASK_EMIT_H

#include "ane/h13/object.h"
#include "ane/h13/patch.h"
#include "core/base/text.h"

enum { EMIT_NO_BAR = -1 };

/* A tensor [c, h, w] in memory. Element (c, h, w) is at byte base + c*plane + h*row + 2*w of the base register's
 * buffer. */
typedef struct emit_tensor {
    int bar;
    int64_t base, c, h, w;
    int64_t row, plane, total; /* in bytes; `total` becomes the depth and group strides */
} emit_tensor;

/* A tensor's place in the on-chip buffer: the offset of its first byte, and its strides in bytes, one per register. */
typedef struct emit_l2 {
    int64_t base, channel, row, depth, group;
} emit_l2;

typedef struct emitted {
    engine_task task;
    int source, source2, result, kernel; /* base registers or EMIT_NO_BAR */
    bool source_given, result_given;     /* the DMA's words are set, whether or not the DMA is enabled */
    bool second_on_chip;                 /* there are two sources, and the second is in the on-chip buffer */
    bool unfinished;                     /* a later task stores to the same result */
    bool root;                           /* uses a square root's table */
    int64_t kernel_task;                 /* DTID: index of the task that wrote the kernel */
    int64_t bytes;                       /* moved through DMA, including kernels */
    int64_t channel_visits;              /* channels, summed over the sources with one pixel per channel */
} emitted;

/* The transposed operand of a product with a constant, which stays on chip for a product that follows: its tensor in
 * memory, and its place. */
typedef struct emit_turned {
    int count; /* the emitter's task count when the operand was last on chip; 0 if there is none */
    emit_tensor x, staged;
    emit_l2 kept;
} emit_turned;

typedef struct emitter {
    arena *arena;
    emitted *tasks;
    int count;
    text constants;  /* the constant section */
    int64_t scratch; /* bytes of scratch memory (base register 3) */
    emit_turned turned;
    engine_patch *patches;
    int patch_count;
    uint32_t subtype; /* ENGINE_H13 or ENGINE_H14 */
    bool failed;      /* memory ran out */
} emitter;

/* Returns the tensor of a surface with Apple's strides, in which rows are multiples of 64 bytes. */
emit_tensor emit_surface(int bar, int64_t base, int64_t c, int64_t h, int64_t w);

/* Appends a task with all words of its engine that do not depend on operands. The returned pointer is valid until the
 * next call. If memory runs out, sets e->failed and returns a task that is not part of the program. */
emitted *emit_task(emitter *e, bool neural);
/* Records a place of a constant that may be overwritten. Does nothing if p->constant is NULL. */
void emit_add_patch(emitter *e, const engine_patch *p);

void emit_set(emitted *t, uint32_t address, int64_t value);
void emit_or(emitted *t, uint32_t address, int64_t bits);
/* Sets channels, height and width of the input and of the result. emit_out changes only the result's dimensions. */
void emit_dims(emitted *t, int64_t c, int64_t h, int64_t w);
void emit_out(emitted *t, int64_t c, int64_t h, int64_t w);

/* Loads source 1 by DMA into the on-chip buffer at `at`. With type 2, the source passes through; with type 1, the
 * source stays for later tasks. */
void emit_source(emitted *t, const emit_tensor *x, const emit_l2 *at, int type);
void emit_source2(emitted *t, const emit_tensor *y, const emit_l2 *at);
/* Reads source 1 from the on-chip buffer; `config` is the value of register 0x4804. */
void emit_source_l2(emitted *t, const emit_l2 *at, uint32_t config);
void emit_source2_l2(emitted *t, const emit_l2 *at);
/* Streams the result out through DMA, with `interleave` channels side by side. `base` is the offset that the result
 * would have in the on-chip buffer. */
void emit_store(emitted *t, const emit_tensor *y, int64_t base, int interleave);
/* Keeps the result on chip. */
void emit_keep(emitted *t, const emit_l2 *at, uint32_t config);
/* Sets the words of the result's DMA without enabling the DMA, as staging tasks need. */
void emit_result_words(emitted *t, int bar, int64_t row, int64_t plane, int64_t total);

/* Sets the kernel's lanes: lane i of `lanes` fetches `bytes` bytes at base + i * step of the base register's buffer. */
void emit_lanes(emitted *t, int bar, int lanes, int64_t base, int64_t step, int64_t bytes);
/* Sets ActiveNE to `lanes` lanes (a power of two). */
void emit_active(emitted *t, int lanes);

/* Keeps on chip the value that `a` stores for `b`, and returns NULL. `b` must directly follow `a`, and no other task
 * may read the value. If no published program shows such a pair, or the value does not fit, changes nothing and returns
 * the reason. */
const char *emit_chain(emitted *a, emitted *b);

/* Computes the sizes, links, headers and bytes of all tasks. Sets the object's tasks, task_count, text, text_bytes and
 * first_words. */
PROPANE_CHECK propane_status emit_finish(emitter *e, engine_object *o, propane_error *err);

/* ---- rules of the on-chip buffer --------------------------------------------------------------------------------- */

int emit_log2(int64_t n);                                   /* rounded up */
int64_t emit_channel(int64_t w, bool neural);               /* bytes from channel to channel */
int64_t emit_pad(int64_t row);                              /* padding that keeps rows out of the same banks */
emit_l2 emit_planar_l2(int64_t base, int64_t c, int64_t w); /* with emit_pad's padding for narrow channels */
uint32_t emit_patch(int64_t h, int64_t w, bool two_dma);
uint32_t emit_shape(int64_t h, int64_t w); /* ShMax: the neural engine's work unit, 0 (128x1) to 4 (8x16) */
int emit_lane_count(int64_t c);            /* 1, 2, 4, 8 or 16 */
/* Returns how many rows of `row` bytes, at most h, a task can process at a time. The buffer holds that many rows of
 * each of `sources` sources, and one row of the result. Returns 0 if not even one row fits. */
int64_t emit_tile(int64_t h, int64_t row, int sources);

#endif
