/* SPDX-License-Identifier: MIT
 * Declarations that the files of matrix products and reductions share. Private to ane/h13/lower_*.c.
 */
#ifndef ANE_H13_LOWER_MATMUL_H
#define ANE_H13_LOWER_MATMUL_H

#include "ane/h13/lower_parts.h"

/* Returns matrices [batches, rows, columns] with their rows as channels: [rows, batches, columns]. */
emit_tensor lower_matmul_rows_as_channels(const emit_tensor *x);
/* Returns the bytes from channel to channel of a transposed matrix on chip: n pixels, and padding after multiples of
 * 0x40 bytes, which would be in the same banks. */
int64_t lower_matmul_channel(int64_t n);
/* Makes a task of the neural engine that reads x to `base` on chip and exchanges its channels and width. `shape` has
 * the scheduling words of H13. */
emitted *lower_matmul_turn(emitter *e, const emit_tensor *x, int64_t base, int64_t shape);
/* Returns the scheduling words of such an exchange on H14, in which a lane takes 1, 2, 4 or 8 rows side by side. */
int64_t lower_matmul_turn_shape(const emit_tensor *x);
/* Transposes x [1, m, k] on chip, starting at `base`: channels k, width m. *staged receives it as if it were in
 * scratch memory; lower_matmul_source_staged makes it the source of a task. */
emit_l2 lower_matmul_stage(emitter *e, const emit_tensor *x, int64_t base, emit_tensor *staged);
void lower_matmul_source_staged(emitted *t, const emit_tensor *staged, const emit_l2 *kept);
/* Sets the operations that a product applies to its sums. */
void lower_matmul_product_words(emitted *t, const lower_product *p);
/* Lowers a product whose second operand is constant. */
PROPANE_CHECK propane_status lower_matmul_by_constant(emitter *e, const lower_product *p, const emit_tensor *x,
                                                      const emit_tensor *y, propane_error *err);

#endif
