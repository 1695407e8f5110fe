/* SPDX-License-Identifier: MIT
 * Declarations that the files of matrix products share. Private to ane/h13/lower_matmul.c and lower_product.c.
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
/* Sets what a product does to its sums. */
void lower_matmul_product_words(emitted *t, const lower_product *p);
/* Lowers a product whose second operand is constant. */
PROPANE_CHECK propane_status lower_matmul_by_constant(emitter *e, const lower_product *p, const emit_tensor *x,
                                                      const emit_tensor *y, propane_error *err);

#endif
