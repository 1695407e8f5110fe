/* SPDX-License-Identifier: MIT
 * Lists whose elements have sizes by name, make_list(elem_shape = ("is42", 128)): what converters make of an open
 * batch. The sizes follow from what is written to the list, so a function with such a list is read again once that has
 * been seen.
 */
#ifndef CORE_MIL_LIST_SIZES_H
#define CORE_MIL_LIST_SIZES_H

#include "core/mil/coreml/package.h"

/* Of one function while it is read; zeros at first. */
typedef struct mil_list_sizes {
    struct list_size *first, *last; /* of each list with names, in the order of the file; last: of this reading */
    const mil_op *unknown;          /* a list whose sizes this reading did not know; NULL: there is none */
    bool learnt;                    /* this reading found sizes of one */
} mil_list_sizes;

/* Every operation, when its operands are there and its results are not. Names whose sizes are known become numbers.
 * *late: nothing can be checked of it yet, because it needs such sizes, or (mil_read_late) values of a run. */
PROPANE_CHECK propane_status mil_list_sizes_read(mil_list_sizes *s, const mil_read_options *options, mil_op *op,
                                                 bool *late, propane_error *err);
/* At the function's end. *again: it is off its module, and must be read from its beginning. Fails where nothing that
 * was read says the sizes. */
PROPANE_CHECK propane_status mil_list_sizes_end(mil_list_sizes *s, mil_function *f, bool *again, propane_error *err);

#endif
