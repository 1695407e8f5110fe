/* SPDX-License-Identifier: MIT
 * Weight mode `packed`, for an engine that accepts a single input. All parameters of a kernel are packed into one input
 * [B,R,1,W], and slices in the kernel cut them out again. If all parameters have the same width, they are stacked along
 * the channels. Otherwise they are placed next to each other along the last axis, as the published trainers pack
 * activations and weights. The values do not change.
 */
#ifndef LM_STEP_WEIGHT_PACKING_H
#define LM_STEP_WEIGHT_PACKING_H

#include "core/mil/build.h"

#define PACKING_INPUT "packed"

/* The place of a parameter. `items` is 1 for parameters that do not depend on the batch; these are in item 0. */
typedef struct packing_part {
    const char *name;
    mil_type type;
    int64_t items, rows, columns, first_row, first_column;
} packing_part;

typedef struct packing {
    mil_module *module;
    mil_function *function; /* has one parameter, PACKING_INPUT, and the results of the packed function */
    int count;
    packing_part *parts; /* in the order of the packed function's parameters */
} packing;

/* Packs `f`, which must have at least one parameter. Returns PROPANE_ERR_UNSUPPORTED if the parameters have different
 * types. */
PROPANE_CHECK propane_status packing_create(const mil_function *f, int64_t batch, packing **out, propane_error *err);
void packing_free(packing *p);
propane_io packing_dense_io(const packing_part *part); /* layout of the parameter without padding */

/* Copies a parameter into the packed input `target`, whose layout is `packed`. `source` has the same element type and
 * the layout `io`. */
void packing_put(const packing_part *part, void *target, const propane_io *packed, const void *source,
                 const propane_io *io);
/* Copies a parameter from dense fp32 values, and converts them to the type of the packed input. */
void packing_put_f32(const packing_part *part, void *target, const propane_io *packed, const float *source);

#endif
