/* SPDX-License-Identifier: MIT
 * Owns the printer. Floats are written as hex floats and NaNs by their bits, so the output reads back to the same
 * program bit by bit. In the canonical dialect, literals in argument lists become const statements, because the
 * compilers that need that dialect require them.
 */
#include <stdio.h>
#include <string.h>

#include "core/mil/ir_edit.h"
#include "core/mil/text/mil_text.h"

typedef struct printer {
    text *out;
    mil_dialect dialect;
    bool inline_blobs, name_literals;
    const char *indent;
} printer;

/* ---- types and literals -------------------------------------------------------------------------------------------------- */

static void print_type(printer *p, const mil_type *type) {
    char buffer[160];
    if (type->rank == 0 && type->container == MIL_TENSOR && p->dialect == MIL_CANONICAL)
        text_printf(p->out, "tensor<%s, []>", mil_dtype_get(type->dtype)->name);
    else
        text_append(p->out, mil_type_print(buffer, type));
}

static void print_string(text *out, const char *s) {
    text_append(out, "\"");
    while (*s) {
        size_t plain = 0;
        while ((unsigned char)s[plain] >= 0x20 && s[plain] != 0x7f && s[plain] != '"' && s[plain] != '\\') plain++;
        text_append_n(out, s, plain);
        s += plain;
        if (!*s) break;
        if (*s == '"' || *s == '\\')
            text_printf(out, "\\%c", *s);
        else if (*s == '\n')
            text_append(out, "\\n");
        else if (*s == '\t')
            text_append(out, "\\t");
        else if (*s == '\r')
            text_append(out, "\\r");
        else
            text_printf(out, "\\x%02x", (unsigned char)*s);
        s++;
    }
    text_append(out, "\"");
}

static void print_float(text *out, const mil_const *c, int64_t index) {
    char buffer[40];
    double value = mil_const_f64(c, index);
    if (value == value) {
        text_append(out, mil_number_print(buffer, value));
        return;
    }
    unsigned char plain[8]; /* the bits that "nan" reads back to */
    uint64_t bits = mil_element_bits(c->data, c->type.dtype, index);
    double nan;
    (void)mil_number_real("nan", 3, &nan);
    (void)mil_element_store_real(plain, c->type.dtype, 0, nan);
    if (bits == mil_element_bits(plain, c->type.dtype, 0))
        text_append(out, "nan");
    else
        text_printf(out, "nan(0x%llx)", (unsigned long long)bits);
}

static void print_element(text *out, const mil_const *c, int64_t index) {
    switch (mil_dtype_get(c->type.dtype)->kind) {
    case MIL_KIND_FLOAT: print_float(out, c, index); break;
    case MIL_KIND_INT: text_printf(out, "%lld", (long long)mil_const_i64(c, index)); break;
    case MIL_KIND_UINT:
        text_printf(out, "%llu", (unsigned long long)mil_element_bits(c->data, c->type.dtype, index));
        break;
    case MIL_KIND_BOOL: text_append(out, mil_const_i64(c, index) ? "true" : "false"); break;
    case MIL_KIND_STRING: print_string(out, mil_const_text(c, index)); break;
    }
}

/* Prints the list of dimension `level`, starting at element `first`; returns the element after it. */
static int64_t print_list(text *out, const mil_const *c, int level, int64_t first) {
    if (level == c->type.rank) {
        print_element(out, c, first);
        return first + 1;
    }
    text_append(out, "[");
    for (int64_t i = 0; i < c->type.dim[level] && !out->failed; i++) {
        if (i) text_append(out, ", ");
        first = print_list(out, c, level + 1, first);
    }
    text_append(out, "]");
    return first;
}

static void print_elements(text *out, const mil_const *c) {
    if (c->type.container != MIL_LIST) {
        print_list(out, c, 0, 0);
        return;
    }
    for (int64_t i = 0; i < mil_type_count(&c->type) && !out->failed; i++) {
        text_append(out, i ? ", " : "[");
        print_element(out, c, i);
    }
    text_append(out, "]");
}

static void print_wrapped_string(printer *p, const char *s) {
    text_append(p->out, p->dialect == MIL_CANONICAL ? "tensor<string, []>(" : "string(");
    print_string(p->out, s);
    text_append(p->out, ")");
}

static void print_const(printer *p, const mil_const *c) {
    print_type(p, &c->type);
    text_append(p->out, "(");
    if (c->blob_path && (!p->inline_blobs || !c->data)) {
        text_append(p->out, "BLOBFILE(path = ");
        print_wrapped_string(p, c->blob_path);
        text_printf(p->out, ", offset = %s(%llu))", p->dialect == MIL_CANONICAL ? "tensor<uint64, []>" : "uint64",
                    (unsigned long long)c->blob_offset);
    } else {
        print_elements(p->out, c);
    }
    text_append(p->out, ")");
}

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

/* Names a literal that becomes a statement. Ids are unique, so no two names are the same. */
static void print_literal_name(char out[200], const mil_op *op, int param, const mil_value *v) {
    const char *result = op->result_count ? op->results[0]->name : op->info->name;
    snprintf(out, 200, "%.100s_%s_%d", result, op->info->params[param].name, v->id);
    for (size_t n = strlen(out); n < 199 && mil_scope_find(op->function, out, n); n++) {
        out[n] = '_';
        out[n + 1] = 0;
    }
}

static void print_const_statement(printer *p, const char *name, const mil_const *c) {
    print_type(p, &c->type);
    text_printf(p->out, " %s = const()[name = ", name);
    print_wrapped_string(p, name);
    text_append(p->out, ", val = ");
    print_const(p, c);
    text_append(p->out, "];\n");
    text_append(p->out, p->indent);
}

/* Returns whether op is const or constexpr_...; Core ML requires their operands as literals in the square brackets. */
static bool print_has_attributes(const mil_op *op) { return strncmp(op->info->name, "const", 5) == 0; }

const mil_value *mil_written(const mil_value *v) {
    while (v->outer) {
        const mil_value *outer = v->constant ? v->outer : mil_captured(v->home->owner, v->home, v->index);
        if (v->constant && outer->def && !outer->def->function) return v; /* removed since, so print a literal */
        v = outer;
    }
    return v;
}

static bool print_becomes_statement(const printer *p, const mil_op *op, const mil_value *v) {
    return v->is_inline && p->name_literals && !print_has_attributes(op);
}

static void print_operand(printer *p, const mil_op *op, int param) {
    const mil_operand *o = &op->operands[param];
    bool list = op->info->params[param].need == MIL_VARIADIC;
    text_printf(p->out, "%s = %s", op->info->params[param].name, list ? "(" : "");
    for (int k = 0; k < o->count; k++) {
        const mil_value *v = mil_written(o->values[k]);
        char name[200];
        if (k) text_append(p->out, ", ");
        if (!v->constant || (!v->is_inline && !print_has_attributes(op))) { /* computed, or itself compressed */
            text_append(p->out, v->name);
        } else if (print_becomes_statement(p, op, v)) {
            print_literal_name(name, op, param, v);
            text_append(p->out, name);
        } else {
            print_const(p, v->constant);
        }
    }
    if (list) text_append(p->out, ")");
}

static void print_literal_statements(printer *p, const mil_op *op) {
    for (int i = 0; i < op->info->param_count; i++)
        for (int k = 0; k < op->operands[i].count; k++) {
            const mil_value *v = mil_written(op->operands[i].values[k]);
            char name[200];
            if (!print_becomes_statement(p, op, v)) continue;
            print_literal_name(name, op, i, v);
            print_const_statement(p, name, v->constant);
        }
}

static void print_body(printer *p, const mil_function *f);

/* Prints [ "(" inputs ")" ] "{" statements "}" "->" "(" results ")", indented one step deeper. */
static void print_block(printer *p, const mil_function *f) {
    const char *indent = p->indent;
    char deeper[160];
    int own = f->param_count - f->captured;
    if (own) text_append(p->out, "(");
    for (int i = 0; i < own; i++) {
        if (i) text_append(p->out, ", ");
        print_type(p, &f->params[i]->type);
        text_printf(p->out, " %s", f->params[i]->name);
    }
    text_append(p->out, own ? ") {\n" : "{\n");
    snprintf(deeper, sizeof deeper, "%.150s    ", indent);
    p->indent = deeper;
    print_body(p, f);
    p->indent = indent;
}

static void print_statement(printer *p, const mil_op *op) {
    bool attributes = print_has_attributes(op);
    print_literal_statements(p, op);
    for (int i = 0; i < op->result_count; i++) {
        if (i) text_append(p->out, ", ");
        print_type(p, &op->results[i]->type);
        text_printf(p->out, " %s", op->results[i]->name);
    }
    text_printf(p->out, "%s%s(", op->result_count ? " = " : "", op->info->name);
    bool first = true;
    for (int i = 0; i < op->info->param_count && !attributes; i++) {
        if (!op->operands[i].count || op->info->params[i].need == MIL_CAPTURED) continue;
        if (!first) text_append(p->out, ", ");
        print_operand(p, op, i);
        first = false;
    }
    text_append(p->out, ")[name = ");
    print_wrapped_string(p, op->label ? op->label : op->result_count ? op->results[0]->name : "");
    for (int i = 0; i < op->info->param_count && attributes; i++) {
        if (!op->operands[i].count) continue;
        text_append(p->out, ", ");
        print_operand(p, op, i);
    }
    text_append(p->out, "]");
    for (int i = 0; i < op->block_count; i++) {
        text_append(p->out, i ? ", " : " ");
        print_block(p, op->blocks[i]);
    }
    text_append(p->out, ";");
}

/* Prints statements and results; the closing bracket is indented one step less. */
static void print_body(printer *p, const mil_function *f) {
    for (const mil_op *op = f->first; op && !p->out->failed; op = op->next) {
        text_append(p->out, p->indent);
        print_statement(p, op);
        text_append(p->out, "\n");
    }
    text_append(p->out, p->indent + (strlen(p->indent) < 4 ? 0 : 4));
    text_append(p->out, "} -> (");
    for (int i = 0; i < f->result_count; i++)
        text_printf(p->out, "%s%s", i ? ", " : "", mil_written(f->results[i])->name);
    text_append(p->out, ")");
}

/* ---- the program --------------------------------------------------------------------------------------------------------- */

static void print_function(printer *p, const mil_function *f) {
    text_printf(p->out, "    func %s<%s>(", f->name, mil_opset_name(f->opset));
    for (int i = 0; i < f->param_count; i++) {
        if (i) text_append(p->out, ", ");
        print_type(p, &f->params[i]->type);
        text_printf(p->out, " %s", f->params[i]->name);
    }
    text_append(p->out, ") {\n");
    print_body(p, f);
    text_append(p->out, ";\n");
}

static void print_build_info(printer *p, const mil_module *m) {
    const char *string = p->dialect == MIL_CANONICAL ? "tensor<string, []>" : "string";
    if (!m->build_info_count) return;
    text_printf(p->out, "[buildInfo = dict<%s, %s>({", string, string);
    for (int i = 0; i < m->build_info_count; i++) {
        text_append(p->out, i ? ", {" : "{");
        print_string(p->out, m->build_info[i].key);
        text_append(p->out, ", ");
        print_string(p->out, m->build_info[i].value);
        text_append(p->out, "}");
    }
    text_append(p->out, "})]\n");
}

void mil_print(text *out, const mil_module *m, const mil_print_options *options) {
    static const mil_print_options standard = {.dialect = MIL_SHORT};
    if (!options) options = &standard;
    bool name = options->name_literals || options->dialect == MIL_CANONICAL;
    printer p = {out, options->dialect, options->inline_blobs, name, "        "};
    int minor = p.dialect == MIL_CANONICAL ? 0 : m->version_minor < 3 ? 3 : m->version_minor;
    text_printf(out, "program(1.%d)\n", minor);
    print_build_info(&p, m);
    text_append(out, "{\n");
    for (const mil_function *f = m->functions; f && !out->failed; f = f->next) print_function(&p, f);
    text_append(out, "}\n");
}
