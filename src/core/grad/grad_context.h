/* SPDX-License-Identifier: MIT
 * The state of one walk in reverse mode: what is known about each forward value. Private to grad.c and grad_adjoint.c;
 * rules use core/grad/grad.h and core/grad/rules.h.
 */
#ifndef CORE_GRAD_GRAD_CONTEXT_H
#define CORE_GRAD_GRAD_CONTEXT_H

#include "core/grad/grad.h"
#include "core/mil/build.h"

struct grad_context {
    const mil_function *forward;
    mil_builder build;
    mil_value **map;     /* forward value id -> value in the joint function */
    mil_value **adjoint; /* forward value id -> adjoint, possibly thin */
    const char **stage;  /* forward value id -> stage of the op that last contributed to its adjoint */
    bool *varied;        /* forward value id -> whether it depends on a wanted parameter and is a float or quantized */
};

/* Returns `adjoint`, tiled to `type`'s dimensions if it is thin. */
mil_value *grad_fill_out(grad_context *g, const mil_type *type, mil_value *adjoint);

#endif
