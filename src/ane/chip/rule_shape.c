/* SPDX-License-Identifier: MIT
 * Owns the checks of modules, of functions with their inputs and outputs, and of tensors. They are about sizes, ranks,
 * types and names.
 */
#include <stdio.h>
#include <string.h>

#include "ane/chip/check.h"
#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/base/text.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"

bool chip_rule_none(const chip_view *view, char out[CHIP_TEXT_BYTES]) { return false; }
bool chip_rule_text(const chip_view *view, char out[CHIP_TEXT_BYTES]) { return chip_found(out, "%s", view->text); }

/* ---- modules ------------------------------------------------------------------------------------------------------------ */

bool chip_rule_build_info(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->module->build_info_count == 0 && chip_found(out, "the program has no buildInfo");
}

bool chip_rule_short_syntax(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_module *m = view->module;
    if (m->version_major > 1 || m->version_minor > 0)
        return chip_found(out, "the program is program(%d.%d)", m->version_major, m->version_minor);
    for (const mil_function *f = m->functions; f; f = f->next)
        if (f->opset > MIL_IOS16) return chip_found(out, "function '%.60s' is %s", f->name, mil_opset_name(f->opset));
    return false;
}

bool chip_rule_weight_bytes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    double bytes = 0;
    for (const mil_function *f = view->module->functions; f; f = f->next)
        for (const mil_op *op = f->first; op; op = op->next)
            if (op->info->code == MIL_OP_const && op->results[0]->type.rank > 0 &&
                op->results[0]->type.dtype != MIL_string && op->results[0]->type.dtype != MIL_int32)
                bytes += (double)mil_type_bytes(&op->results[0]->type);
    return bytes > view->limit->value &&
           chip_found(out, "its constants have %.0f bytes; the maximum is %.0f", bytes, view->limit->value);
}

/* Returns the first weight file of the program other than `but`, or NULL if there is none. If `but` is NULL, no file is
 * excluded. */
static const char *rule_shape_weight_file(const mil_module *m, const char *but) {
    for (const mil_function *f = m->functions; f; f = f->next)
        for (const mil_op *op = f->first; op; op = op->next)
            for (int i = 0; i < op->info->param_count; i++)
                for (int k = 0; k < op->operands[i].count; k++) {
                    const mil_const *c = op->operands[i].values[k]->constant;
                    if (c && c->blob_path && (!but || strcmp(c->blob_path, but) != 0)) return c->blob_path;
                }
    return NULL;
}

bool chip_rule_weight_files(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const char *first = rule_shape_weight_file(view->module, NULL),
               *second = first ? rule_shape_weight_file(view->module, first) : NULL;
    return second && chip_found(out, "its constants are in '%.200s' and in '%.200s'", first, second);
}

/* ---- functions ---------------------------------------------------------------------------------------------------------- */

static int rule_shape_op_total(const chip_view *view) {
    int total = 0;
    for (int i = 0; i < MIL_OP_COUNT; i++)
        if (i != MIL_OP_const) total += view->op_counts[i];
    return total;
}

bool chip_rule_conv_count(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int count = view->op_counts[MIL_OP_conv];
    return count > view->limit->value &&
           chip_found(out, "%d convolutions; the maximum is %.0f", count, view->limit->value);
}

bool chip_rule_op_count(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int count = rule_shape_op_total(view);
    return count > view->limit->value &&
           chip_found(out, "%d operations; %.0f are known to be safe", count, view->limit->value);
}

bool chip_rule_layout_ops(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    static const mil_opcode codes[] = {MIL_OP_concat,     MIL_OP_pad,        MIL_OP_reduce_sum, MIL_OP_reduce_mean,
                                       MIL_OP_reduce_max, MIL_OP_reduce_min, MIL_OP_reshape,    MIL_OP_transpose};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (view->op_counts[codes[i]])
            return chip_found(out, "it uses %s, %d time%s", mil_op_get(codes[i])->name, view->op_counts[codes[i]],
                              text_plural(view->op_counts[codes[i]]));
    return false;
}

bool chip_rule_has_matmul(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int count = view->op_counts[MIL_OP_matmul];
    return count > 0 && chip_found(out, "%d matrix product%s", count, text_plural(count));
}

/* rule_shape_first_io calls an io_test with each input, then with each result. It returns the first wrong value, or
 * NULL, and counts all wrong values. */
typedef bool (*io_test)(const chip_view *view, const mil_value *v);

static const mil_value *rule_shape_first_io(const chip_view *view, io_test wrong, int *count) {
    const mil_function *f = view->function;
    const mil_value *first = NULL;
    *count = 0;
    for (int i = 0; i < f->param_count + f->result_count; i++) {
        const mil_value *v = i < f->param_count ? f->params[i] : f->results[i - f->param_count];
        if (!wrong(view, v)) continue;
        if (!first) first = v;
        ++*count;
    }
    return first;
}

static bool rule_shape_found_io(const chip_view *view, io_test wrong, char out[CHIP_TEXT_BYTES]) {
    int count;
    char type[160];
    const mil_value *v = rule_shape_first_io(view, wrong, &count);
    if (!v) return false;
    chip_found(out, "'%.60s' is %s", v->name, mil_type_print(type, &v->type));
    if (count > 1) {
        size_t used = strlen(out);
        snprintf(out + used, CHIP_TEXT_BYTES - used, ", and %d other%s in the same way", count - 1,
                 count == 2 ? "" : "s");
    }
    return true;
}

static bool rule_shape_is_fp32(const chip_view *view, const mil_value *v) { return v->type.dtype == MIL_fp32; }
static bool rule_shape_is_odd(const chip_view *view, const mil_value *v) {
    mil_dtype t = v->type.dtype;
    return t != MIL_fp16 && t != MIL_fp32 && t != MIL_int8 && t != MIL_uint8;
}
static bool rule_shape_has_short_rows(const chip_view *view, const mil_value *v) {
    int64_t bits = mil_dtype_get(v->type.dtype)->bits;
    return v->type.rank > 0 && v->type.dim[v->type.rank - 1] * bits % ((int64_t)chip_row_bytes() * 8) != 0;
}
static bool rule_shape_is_unused(const chip_view *view, const mil_value *v) {
    return !v->def && v->id < view->function->value_count && view->uses[v->id] == 0;
}

bool chip_rule_fp32_io(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_shape_found_io(view, rule_shape_is_fp32, out);
}
bool chip_rule_odd_io(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_shape_found_io(view, rule_shape_is_odd, out);
}
bool chip_rule_short_rows(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_shape_found_io(view, rule_shape_has_short_rows, out);
}
bool chip_rule_unused_input(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_shape_found_io(view, rule_shape_is_unused, out);
}

bool chip_rule_returned_input(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_function *f = view->function;
    const mil_op *op = f->result_count == 1 ? f->results[0]->def : NULL;
    while (op && op->info->code == MIL_OP_identity && mil_in(op, "x")->def) op = mil_in(op, "x")->def;
    return op && op->info->code == MIL_OP_identity &&
           chip_found(out, "its only output '%.60s' is its input '%.60s'", f->results[0]->name, mil_in(op, "x")->name);
}

bool chip_rule_output_read_inside(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_function *f = view->function;
    for (int i = 0; i < f->result_count; i++)
        for (const mil_op *op = view->uses[f->results[i]->id] > 1 ? f->results[i]->def : NULL; op; op = op->next)
            MIL_FOR_OPERANDS (op, v)
                if (v == f->results[i])
                    return chip_found(out, "the output '%.60s' is read by %s", v->name, op->info->name);
    return false;
}

static bool rule_shape_unsorted(mil_value *const *values, int count, char out[CHIP_TEXT_BYTES]) {
    for (int i = 1; i < count; i++)
        if (strcmp(values[i - 1]->name, values[i]->name) > 0)
            return chip_found(out, "'%.60s' is declared before '%.60s'", values[i - 1]->name, values[i]->name);
    return false;
}

bool chip_rule_unsorted_names(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_function *f = view->function;
    return rule_shape_unsorted(f->params, f->param_count, out) || rule_shape_unsorted(f->results, f->result_count, out);
}

bool chip_rule_unequal_inputs(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_function *f = view->function;
    for (int i = 1; i < f->param_count; i++) {
        size_t a = chip_surface_bytes(&f->params[0]->type, 0), b = chip_surface_bytes(&f->params[i]->type, 0);
        if (a != b)
            return chip_found(out, "%d inputs; '%.60s' needs a surface of %zu bytes and '%.60s' one of %zu",
                              f->param_count, f->params[0]->name, a, f->params[i]->name, b);
    }
    return false;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------ */

static bool rule_shape_too_long(const chip_view *view, const char *axis, int index, char out[CHIP_TEXT_BYTES]) {
    const mil_value *v = view->value;
    int64_t n = v->type.dim[index];
    return (double)n > view->limit->value && chip_found(out, "the %s of '%.60s' has %lld elements; the maximum is %.0f",
                                                        axis, chip_value_name(v), (long long)n, view->limit->value);
}

bool chip_rule_width(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int rank = view->value->type.rank;
    return rank > 0 && rule_shape_too_long(view, "last axis", rank - 1, out);
}

bool chip_rule_large_tensor(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *t = &view->value->type;
    if (t->container != MIL_TENSOR || mil_type_is_open(t) || t->dtype == MIL_string) return false;
    const double bytes = (double)mil_type_bytes(t);
    return bytes > view->limit->value && !chip_is_constant(view->value) &&
           chip_found(out, "'%.60s' is large: %.0f MB", chip_value_name(view->value), bytes / 1e6);
}

bool chip_rule_height(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int rank = view->value->type.rank;
    return rank > 2 && rule_shape_too_long(view, "height", rank - 2, out);
}

/* Skips constants, because their axes have another meaning and values computed from them are checked. */
bool chip_rule_channels(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int rank = view->value->type.rank;
    if (rank < 3 || chip_is_constant(view->value)) return false;
    return rule_shape_too_long(view, "channel axis", rank == 3 ? 0 : 1, out);
}

/* Skips constants, which the compiler lays out. For example, tables of palettes have six or more axes. */
bool chip_rule_rank(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int rank = chip_is_constant(view->value) ? 0 : view->value->type.rank;
    return rank > view->limit->value && chip_found(out, "'%.60s' has %d axes; the maximum is %.0f",
                                                   chip_value_name(view->value), rank, view->limit->value);
}
