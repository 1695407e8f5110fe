/* SPDX-License-Identifier: MIT
 * Expands conv_quantized. Constant parts are computed when the program is planned.
 */
#include "core/mil/conv_expanded.h"
#include "cpu/lower/lower.h"

propane_status cpu_lower_quantized(mil_builder *b, mil_op *op, propane_error *err) {
    mil_value *y = mil_conv_expanded(b, op);
    (void)err;
    if (!y) return b->err.status;
    mil_replace_uses(op->function, op->results[0], y);
    mil_op_remove(op);
    return PROPANE_OK;
}
