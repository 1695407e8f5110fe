/* SPDX-License-Identifier: MIT
 * One walk in reverse mode: what is known of each forward value. Private to grad.c and grad_adjoint.c; rules see it
 * through core/grad/grad.h and core/grad/rules.h.
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
    const char **stage;  /* forward value id -> stage of the op that gave to its adjoint last */
    bool *varied;        /* forward value id -> depends on a wanted parameter, and is a float or a quantized one */
};

/* `adjoint`, thin or not, with `type`'s dimensions. */
mil_value *grad_fill_out(grad_context *g, const mil_type *type, mil_value *adjoint);

#endif
