/* SPDX-License-Identifier: MIT
 * Resolves named sizes of list elements, as in make_list(elem_shape = ("is42", 128)), which converters write for an
 * open batch. The sizes follow from the values written to the list. A function with such a list is therefore read a
 * second time once the sizes are known.
 */
#ifndef CORE_MIL_LIST_SIZES_H
#define CORE_MIL_LIST_SIZES_H

#include "core/mil/coreml/package.h"

/* State of one function while it is read; starts zeroed. */
typedef struct mil_list_sizes {
    /* One entry per list with named sizes, in the order of the file; `last` is the latest entry of this reading. */
    struct list_size *first, *last;
    const mil_op *unknown; /* the latest make_list whose sizes this reading does not know, or NULL */
    bool found;            /* this reading has found the sizes of a list */
} mil_list_sizes;

/* Call for every operation once its operands are set and before it has results. Replaces names of known sizes by
 * numbers. Sets *late if nothing can be checked yet because the operation needs unknown sizes or values of a run
 * (mil_read_late). */
PROPANE_CHECK propane_status mil_list_sizes_read(mil_list_sizes *s, const mil_read_options *options, mil_op *op,
                                                 bool *late, propane_error *err);
/* Call at the end of the function. Sets *again if the function was removed from its module and must be read again from
 * its beginning. Fails if nothing in the function determines the sizes. */
PROPANE_CHECK propane_status mil_list_sizes_end(mil_list_sizes *s, mil_function *f, bool *again, propane_error *err);

#endif
