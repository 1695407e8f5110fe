/* SPDX-License-Identifier: MIT
 * Weight mode `packed`: everything that a kernel reads is in one input, [B,R,1,W], and is cut out by slices, for an
 * engine that accepts a single input. Parameters of equal width are stacked along the channels. Others are placed next
 * to each other along the last axis, as the published trainers pack activations and weights. The values do not change.
 */
#ifndef LM_STEP_WEIGHT_PACKING_H
#define LM_STEP_WEIGHT_PACKING_H

#include "core/mil/build.h"

#define PACKING_INPUT "packed"

/* The place of a parameter. `items` is 1 for parameters that do not depend on the batch; item 0 holds them. */
typedef struct packing_part {
    const char *name;
    mil_type type;
    int64_t items, rows, columns, first_row, first_column;
} packing_part;

typedef struct packing {
    mil_module *module;
    mil_function *function; /* has one parameter, PACKING_INPUT, and the results of the packed function */
    int count;
    packing_part *parts; /* in the order of its parameters */
} packing;

/* `f` must have at least one parameter, and all must have the same float type; otherwise returns
 * PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status packing_create(const mil_function *f, int64_t batch, packing **out, propane_error *err);
void packing_free(packing *p);
propane_io packing_dense_io(const packing_part *part); /* layout of the part without padding */

/* Copies a part into the packed input, whose layout is `packed`. The source has the same element type and the layout
 * `io`. */
void packing_put(const packing_part *part, void *target, const propane_io *packed, const void *source,
                 const propane_io *io);
/* Does the same from dense fp32, with a conversion. */
void packing_put_f32(const packing_part *part, void *target, const propane_io *packed, const float *source);

#endif
