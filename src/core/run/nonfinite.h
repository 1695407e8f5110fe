/* SPDX-License-Identifier: MIT
 * Which operation of a session's program makes the numbers that are none.
 */
#ifndef CORE_RUN_NONFINITE_H
#define CORE_RUN_NONFINITE_H

#include "core/base/text.h"
#include "core/run/session.h"

typedef struct nonfinite_count {
    int64_t numbers, nan, infinite;
} nonfinite_count;

typedef struct nonfinite_found {
    nonfinite_count results; /* all that the function gives, values that only `keep` gives left out */
    /* An operation makes some of them, or a constant holds some: not the inputs alone. */
    bool made;
    /* the first that an operation makes of finite operands, else the constant or the input; NULL */
    const mil_value *from;
    const mil_op *taken_by; /* of a constant: the operation whose operand it is; else NULL */
    const mil_value *turn; /* the first NaN that an operation makes of infinities, behind `from`; NULL: there is none */
    nonfinite_count from_count, turn_count;
} nonfinite_found;

/* Runs once. Where values are kept (session_options), `from` and `turn` are looked for. */
PROPANE_CHECK propane_status nonfinite_run(session *s, nonfinite_found *out, propane_error *err);
/* The value to name where there is room for one: what the first operation makes, else a constant or an input; may be
 * NULL. */
const mil_value *nonfinite_culprit(const nonfinite_found *found);
/* Its name; of a literal, that of what is made of it. */
const char *nonfinite_name(const nonfinite_found *found, const mil_value *v);
/* "operation", "constant" or "input". */
const char *nonfinite_kind(const mil_value *v);
const char *nonfinite_op(const mil_value *v); /* the operation's kind; NULL: none made it */
/* "real_div 'y' makes the first of them out of finite numbers (2 NaN, 1 infinity of 6)"; if no operation can be named, how
 * many. */
void nonfinite_tell(const nonfinite_found *found, text *out);
/* "2 NaN, 1 infinity" */
void nonfinite_tell_count(nonfinite_count c, text *out);

#endif
