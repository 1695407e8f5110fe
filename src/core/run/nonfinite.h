/* SPDX-License-Identifier: MIT
 * Finds the operation of a session's program that produces numbers that are not finite.
 */
#ifndef CORE_RUN_NONFINITE_H
#define CORE_RUN_NONFINITE_H

#include "core/base/text.h"
#include "core/run/session.h"

typedef struct nonfinite_count {
    int64_t numbers, nan, infinite;
} nonfinite_count;

typedef struct nonfinite_found {
    nonfinite_count results; /* all results of the function, except values that are outputs only because of `keep` */
    /* True if an operation produces numbers that are not finite, or a constant holds some; false if they come only from
     * inputs. */
    bool made;
    /* The first value that is not finite although its operation's operands are, else a constant or an input that is not
     * finite. May be NULL. */
    const mil_value *from;
    const mil_op *taken_by; /* the operation whose operand the constant `from` is; else NULL */
    /* The first value in which an operation makes NaN from infinities; NULL if there is none. */
    const mil_value *turn;
    nonfinite_count from_count, turn_count;
} nonfinite_found;

/* Runs the session once. If values are kept (session_options), also looks for `from` and `turn`. */
PROPANE_CHECK propane_status nonfinite_run(session *s, nonfinite_found *out, propane_error *err);
/* Returns the value to name in a message: `from` if an operation produces it or there is no `turn`, else `turn`. May be
 * NULL. */
const mil_value *nonfinite_culprit(const nonfinite_found *found);
/* Returns the value's name; for a literal, the name of the result computed from it. */
const char *nonfinite_name(const nonfinite_found *found, const mil_value *v);
/* Returns "operation", "constant" or "input". */
const char *nonfinite_kind(const mil_value *v);
const char *nonfinite_op(const mil_value *v); /* returns the kind of the operation that produces v; NULL if none does */
/* Prints "real_div 'y' produces the first of them from finite numbers (2 NaN, 1 infinity of 6)", for example. If no
 * operation can be named, prints the counts. */
void nonfinite_print(const nonfinite_found *found, text *out);

#endif
