/* SPDX-License-Identifier: MIT
 * Declares what the files of matrix products and reductions share. Private to ane/h13/lower_*.c.
 */
#ifndef ANE_H13_LOWER_MATMUL_H
#define ANE_H13_LOWER_MATMUL_H

#include "ane/h13/lower_parts.h"

/* Returns a view of matrices [batches, rows, columns] with rows as channels: [rows, batches, columns]. */
emit_tensor lower_matmul_rows_as_channels(const emit_tensor *x);
/* Returns the bytes from channel to channel of a transposed matrix on chip that has n pixels per channel. Channels of a
 * multiple of 0x40 bytes are padded, because they would be in the same banks. */
int64_t lower_matmul_channel(int64_t n);
/* Makes a neural task that loads x to `base` on chip and exchanges channels and width. `shape` holds the scheduling
 * bits for H13; those for H14 follow from x. */
emitted *lower_matmul_turn(emitter *e, const emit_tensor *x, int64_t base, int64_t shape);
/* Returns the scheduling bits of such a task on H14, where a lane processes 1, 2, 4 or 8 rows side by side. */
int64_t lower_matmul_turn_shape(const emit_tensor *x);
/* Transposes x, [1, m, k], on chip starting at `base`, and returns the place of the result: k channels of width m.
 * *staged describes the result as if it were in scratch memory. lower_matmul_source_staged makes the result the source
 * of a task. */
emit_l2 lower_matmul_stage(emitter *e, const emit_tensor *x, int64_t base, emit_tensor *staged);
void lower_matmul_source_staged(emitted *t, const emit_tensor *staged, const emit_l2 *kept);
/* Sets the words for the operations that a product applies to its sums: bias, scale, and ReLU or table. */
void lower_matmul_product_words(emitted *t, const lower_product *p);
/* Lowers a product whose second operand is constant. */
PROPANE_CHECK propane_status lower_matmul_by_constant(emitter *e, const lower_product *p, const emit_tensor *x,
                                                      const emit_tensor *y, propane_error *err);

#endif
