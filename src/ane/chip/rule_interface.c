/* SPDX-License-Identifier: MIT
 * Owns the checks of a program's interface through Core ML: its inputs, their allowed shapes, and the layout and type
 * of its outputs. Also owns checks of the total amount of work, which decides where Core ML puts the program.
 */
#include <string.h>

#include "ane/chip/check.h"
#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"

/* ---- inputs ----------------------------------------------------------------------------------------------------------------- */

static bool rule_interface_is_before_ios18(const chip_view *view) {
    const struct mil_package *p = view->module->package;
    return p && p->spec_version ? p->spec_version < MIL_IOS18 + CHIP_VERSION_OF_NONE
                                : view->function->opset < MIL_IOS18;
}

bool chip_rule_no_inputs(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_function *f = view->function;
    return f->param_count == 0 && f->result_count > 0 && rule_interface_is_before_ios18(view) &&
           chip_found(out, "function '%.60s' has no input, which needs ios18", f->name);
}

bool chip_rule_input_as_output(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_interface *face = mil_interface_of(view->module, view->function->name);
    for (int i = 0; face && i < face->output_count; i++)
        if (face->outputs[i].passed)
            return chip_found(out, "'%.60s' is an input and an output", face->outputs[i].passed);
    return false;
}

/* Counts the inputs with enumerated shapes. listed[0] receives the first such input. listed[1] receives the first one
 * with a different number of shapes or, if there is none, the second one. */
static int rule_interface_listed(const mil_interface *face, const mil_feature *listed[2]) {
    int count = 0;
    for (int i = 0; face && i < face->input_count; i++) {
        const mil_feature *f = &face->inputs[i];
        if (f->shape_count < 2) continue;
        if (count == 0)
            listed[0] = f;
        else if (count == 1 ||
                 (listed[1]->shape_count == listed[0]->shape_count && f->shape_count != listed[0]->shape_count))
            listed[1] = f;
        count++;
    }
    return count;
}

bool chip_rule_several_listed(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_feature *listed[2] = {NULL, NULL};
    const int count = rule_interface_listed(mil_interface_of(view->module, view->function->name), listed);
    if (count < 2) return false;
    if (rule_interface_is_before_ios18(view))
        return chip_found(out, "%d inputs have enumerated shapes, among them '%.60s' and '%.60s', which needs ios18",
                          count, listed[0]->name, listed[1]->name);
    return listed[0]->shape_count != listed[1]->shape_count &&
           chip_found(out, "'%.60s' has %d enumerated shapes, but '%.60s' has %d", listed[0]->name,
                      listed[0]->shape_count, listed[1]->name, listed[1]->shape_count);
}

bool chip_rule_paired_shapes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_feature *listed[2] = {NULL, NULL};
    return rule_interface_listed(mil_interface_of(view->module, view->function->name), listed) >= 2 &&
           chip_found(out, "'%.60s' and '%.60s' have enumerated shapes", listed[0]->name, listed[1]->name);
}

bool chip_rule_many_shapes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_interface *face = mil_interface_of(view->module, view->function->name);
    for (int i = 0; face && i < face->input_count; i++)
        if ((double)face->inputs[i].shape_count > view->limit->value)
            return chip_found(out, "input '%.60s' has %d enumerated shapes; the maximum is %.0f", face->inputs[i].name,
                              face->inputs[i].shape_count, view->limit->value);
    return false;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------------------- */

/* A single row has no padding that a reader could encounter. */
bool chip_rule_padded_outputs(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (int i = 0; i < view->function->result_count; i++) {
        const mil_type *t = &view->function->results[i]->type;
        if (t->rank < 2 || !mil_dtype_is_float(t->dtype) || t->container != MIL_TENSOR || mil_type_is_open(t)) continue;
        const int64_t width = t->dim[t->rank - 1], size = mil_dtype_get(t->dtype)->bits / 8;
        const int64_t row = (int64_t)chip_row_bytes(), padded = (width * size + row - 1) / row * row / size;
        if (width > 0 && padded != width && mil_type_count(t) > width)
            return chip_found(out, "the rows of '%.60s' have %lld element%s, and may be %lld apart",
                              view->function->results[i]->name, (long long)width, text_plural(width),
                              (long long)padded);
    }
    return false;
}

bool chip_rule_fp32_output(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (int i = 0; i < view->function->result_count; i++) {
        const mil_value *v = view->function->results[i];
        if (v->type.dtype == MIL_fp32 && v->def && v->def->info->code == MIL_OP_cast &&
            mil_in(v->def, "x")->type.dtype == MIL_fp16)
            return chip_found(out, "the output '%.60s' is fp32, made from fp16", v->name);
    }
    return false;
}

/* A pipeline's suppression returns only the boxes that it finds. A suppression inside a program returns a fixed number
 * of boxes. */
bool chip_rule_piped_suppression(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    if (!view->module->package) return false;
    for (const mil_op *op = view->function->first; op; op = op->next)
        if (op->info->code == MIL_OP_non_maximum_suppression && mil_type_is_open(&op->results[0]->type))
            return chip_found(out, "'%.60s' is the suppression of a pipeline", op->results[0]->name);
    return false;
}

/* ---- whole programs --------------------------------------------------------------------------------------------------------- */

/* Finds programs with matrix products whose weights have at most as many bytes as the limit, and in which no operand is
 * as large as that of a lone matrix product that ran on the engine (R26). */
bool chip_rule_small_whole(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int products = chip_product_count(view->op_counts);
    const double large = chip_limit_value("R26");
    double bytes = 0;
    if (!products) return false;
    for (const mil_op *op = view->function->first; op; op = op->next) {
        if (op->block_count) return false;
        if (op->info->code == MIL_OP_const) continue;
        const mil_value *weight = chip_is_product(op->info->code) ? chip_weight_of(op) : NULL;
        if (weight) bytes += chip_stored_bytes(weight);
        MIL_FOR_OPERANDS (op, x)
            if ((double)mil_type_count(&x->type) >= large) return false;
    }
    return bytes <= view->limit->value &&
           chip_found(out, "the program is small: its %d products have %.3g kB of weights", products, bytes / 1e3);
}
