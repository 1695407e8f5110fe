/* SPDX-License-Identifier: MIT
 * Owns the lines of case_json.h. Numbers are written as Python's json reads them: NaN, Infinity, -0.0, 17 digits.
 */
#include "support/case_json.h"

#include <math.h>

static void write_number(FILE *f, double v) {
    if (isnan(v))
        fputs("NaN", f);
    else if (isinf(v))
        fputs(v < 0 ? "-Infinity" : "Infinity", f);
    else if (v == 0)
        fputs(signbit(v) ? "-0.0" : "0.0", f);
    else
        fprintf(f, "%.17g", v);
}

static void write_tensor(FILE *f, const mil_type *type, const double *data, const mil_const *constant) {
    fprintf(f, "{\"dtype\": \"%s\", \"shape\": [", mil_dtype_get(type->dtype)->name);
    for (int d = 0; d < type->rank; d++) fprintf(f, "%s%lld", d ? ", " : "", (long long)type->dim[d]);
    fputs("], \"values\": [", f);
    for (int64_t i = 0; i < mil_type_count(type); i++) {
        if (i) fputs(", ", f);
        write_number(f, data ? data[i] : mil_const_f64(constant, i));
    }
    fputs("]}", f);
}

static void write_operand(FILE *f, const op_case *c, const mil_value *v) {
    for (int i = 0; i < c->input_count; i++)
        if (c->function->params[i] == v) {
            write_tensor(f, &v->type, c->inputs[i].data, NULL);
            return;
        }
    if (v->constant && v->type.dtype == MIL_string && !v->type.rank)
        fprintf(f, "\"%s\"", mil_const_text(v->constant, 0));
    else if (v->constant && v->type.dtype != MIL_string)
        write_tensor(f, &v->type, NULL, v->constant);
    else
        fputs("null", f);
}

void case_json_write(FILE *f, const op_case *c, double *const *got) {
    const char *between = "";
    fprintf(f, "{\"op\": \"%s\", \"label\": \"%s\", \"operands\": {", c->op->info->name, c->label);
    for (int p = 0; p < c->op->info->param_count; p++) {
        if (!c->op->operands[p].count) continue;
        fprintf(f, "%s\"%s\": [", between, c->op->info->params[p].name);
        for (int k = 0; k < c->op->operands[p].count; k++) {
            if (k) fputs(", ", f);
            write_operand(f, c, c->op->operands[p].values[k]);
        }
        fputs("]", f);
        between = ", ";
    }
    fputs("}, \"results\": [", f);
    for (int k = 0; k < c->function->result_count; k++) {
        if (k) fputs(", ", f);
        write_tensor(f, &c->function->results[k]->type, got[k], NULL);
    }
    fputs("]}\n", f);
}
