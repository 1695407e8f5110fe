/* SPDX-License-Identifier: MIT
 * Owns the replacement of one value by another: at once, in all operands and results of its function, or deferred while
 * a pass runs.
 */
#include "core/mil/build.h"

mil_value *mil_replaced(mil_value *v) {
    while (v->replaced_by) v = v->replaced_by;
    return v;
}

void mil_replace_settle(mil_op *op) {
    for (int i = 0; i < op->info->param_count; i++)
        for (int k = 0; k < op->operands[i].count; k++)
            op->operands[i].values[k] = mil_replaced(op->operands[i].values[k]);
}

void mil_replace_begin(mil_function *f) { f->replaces_later = true; }

void mil_replace_end(mil_function *f) {
    f->replaces_later = false;
    for (mil_op *op = f->first; op; op = op->next) mil_replace_settle(op);
}

void mil_replace_uses(mil_function *f, mil_value *from, mil_value *to) {
    if (f->replaces_later) from->replaced_by = to;
    for (mil_op *op = f->replaces_later ? NULL : f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++)
                if (op->operands[i].values[k] == from) op->operands[i].values[k] = to;
    for (int i = 0; i < f->result_count; i++)
        if (f->results[i] == from) f->results[i] = to;
}
