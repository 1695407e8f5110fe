/* SPDX-License-Identifier: MIT
 * Weight mode `packed`: everything that a kernel reads lies in one input, [B,R,1,W], and is cut out by slices, for an
 * engine that wants a single input. Parameters of one width are stacked along the channels; otherwise they lie side by
 * side along the last axis, as the published trainers pack activations and weights. The values do not change.
 */
#ifndef LM_STEP_WEIGHT_PACKING_H
#define LM_STEP_WEIGHT_PACKING_H

#include "core/mil/build.h"

#define PACKING_INPUT "packed"

/* Where a parameter lies. `items` is 1 for what does not depend on the batch (item 0 holds it). */
typedef struct packing_part {
    const char *name;
    mil_type type;
    int64_t items, rows, columns, first_row, first_column;
} packing_part;

typedef struct packing {
    mil_module *module;
    mil_function *function; /* one parameter, PACKING_INPUT; the results of the function that was packed */
    int count;
    packing_part *parts; /* in the order of its parameters */
} packing;

/* `f` must have at least one parameter, all of one float type, otherwise PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status packing_create(const mil_function *f, int64_t batch, packing **out, propane_error *err);
void packing_free(packing *p);
propane_io packing_dense_io(const packing_part *part); /* the part alone, without padding */

/* Copies a part into the packed input, which is laid out as `packed` says, from elements of its own type laid out as
 * `io` says. */
void packing_put(const packing_part *part, void *target, const propane_io *packed, const void *source,
                 const propane_io *io);
/* The same from dense fp32, converted. */
void packing_put_f32(const packing_part *part, void *target, const propane_io *packed, const float *source);

#endif
