/* SPDX-License-Identifier: MIT
 * Copies boxes of elements from memory to dense fp32 and back, for loads and stores of tiles whose memory cannot be
 * used as a register in place.
 */
#ifndef CPU_LOOP_LOOP_BOX_H
#define CPU_LOOP_LOOP_BOX_H

#include <string.h>

#include "cpu/cpu_view.h"

typedef struct loop_box {
    int rank;
    int64_t dim[MIL_MAX_RANK + 2], stride[MIL_MAX_RANK + 2];
    int64_t count;
} loop_box;

/* Returns true if boxes support the element type. A number that is stored as an integer is truncated toward zero and
 * clamped to the type's range. */
bool cpu_loop_dtype(mil_dtype dtype);

/* Drops extents of 1 and merges dimensions that are contiguous in memory. At least one dimension remains. */
void loop_box_collapse(loop_box *b, int rank, const int64_t *dim, const int64_t *stride);
/* Copy a box between memory and dense fp32. `element` is the number of bytes per element in memory. */
void loop_box_load(float *target, const unsigned char *source, mil_dtype dtype, int element, const loop_box *b);
void loop_box_store(unsigned char *target, mil_dtype dtype, int element, const loop_box *b, const float *source);
/* Loads `count` elements, `stride` apart. */
void loop_load_line(float *target, const void *source, mil_dtype dtype, int64_t count, int64_t stride);

/* Copies a line inline: lines of a box are short, and a call would cost more than the copy. */
static inline void loop_copy_line(float *restrict target, const float *restrict source, int64_t count) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) memcpy(target + i, source + i, 16 * sizeof *target);
    for (; i < count; i++) target[i] = source[i];
}

#endif
