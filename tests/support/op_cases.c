/* SPDX-License-Identifier: MIT
 * Owns building cases from lines. A line is a list of param=spec, interpreted by the class of the parameter in its row:
 *
 *   tensors    [2,3]          an input of that shape and the case's element type (bool and int32 if the class requires it)
 *              int8[2,3]      of a given element type ($[3]: the case's)
 *              [2,3]~apart    drawn in a given way; otherwise as op_defaults or the row's DRAW column say
 *              [2]~=1.5,-2    these values
 *              [2,3]!         a constant instead of an input
 *              fp32(1.5)      a constant scalar
 *              @x             the same value as parameter x
 *              [2]|[3]        several values (variadic parameters)
 *   K_INTS, K_BOOLS   [1,-1]  [true,false]         K_INT, K_BOOL, K_FLOAT, K_TEXT   3  true  0.5  valid
 *
 * and for=float, for=int, for=fp16, ... restricts the element types; without it the class of the first tensor decides.
 * opset=ios15 makes the function one of that opset (else ios18).
 */
#include "support/op_cases.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "support/op_lines.h"
#include "support/test.h"

enum { WORDS = 24, SHORT = 80, SLOTS = 1024 };

/* ---- columns of ops.def as text ------------------------------------------------------------------------------------- */

#define SHAPE(x)                                               #x
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) rule,
static const char *const rule_names[MIL_OP_COUNT] = {
#include "core/mil/ops.def"
};
#define GRAD(x)                                                #x
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) grad,
static const char *const grad_names[MIL_OP_COUNT] = {
#include "core/mil/ops.def"
};

const char *op_rule_name(mil_opcode code) { return rule_names[code]; }
const char *op_grad_name(mil_opcode code) { return grad_names[code]; }

/* ---- random values -------------------------------------------------------------------------------------------------- */

typedef struct maker {
    const mil_op_info *info;
    mil_dtype dtype;
    rng random;
    double slots[SLOTS]; /* for ~apart: shuffled, all different, shared by all inputs of a case */
    int slot_count, slot_next;
    op_case *out;
    mil_builder build;
    double *data[OP_CASE_INPUTS];
    char *line;            /* its words end in 0 */
    char *words[WORDS][2]; /* name, spec */
    int word_count;
    char label[400];
    const op_case_growth *growth; /* NULL for the operation alone */
    mil_value *values[OP_CASE_INPUTS];
} maker;

static double between(maker *m, double low, double high) { return low + (high - low) * rng_unit(&m->random); }
static double whole(maker *m, int low, int high) {
    return low + (double)rng_below(&m->random, (uint64_t)(high - low + 1));
}
static double signed_(maker *m, double v) { return rng_next(&m->random) & 1 ? v : -v; }

/* Fills numbers that are 0.02 apart (integers if not float) and not within 0.05 of 0, +-1 or +-6. */
static void fill_slots(maker *m, bool is_float) {
    m->slot_count = m->slot_next = 0;
    for (int k = 0; k < SLOTS; k++) {
        const double v = is_float ? 0.02 * (k - SLOTS / 2) + 0.01 : k - SLOTS / 2, size = fabs(v);
        const bool near = size < 0.05 || fabs(size - 1) < 0.05 || fabs(size - 6) < 0.05;
        if (!near) m->slots[m->slot_count++] = v;
    }
    for (int k = m->slot_count - 1; k > 0; k--) {
        const int other = (int)rng_below(&m->random, (uint64_t)k + 1);
        const double keep = m->slots[k];
        m->slots[k] = m->slots[other];
        m->slots[other] = keep;
    }
}

static double draw_apart(maker *m, bool is_float) {
    if (m->slot_count == 0) fill_slots(m, is_float);
    ck_assert_msg(m->slot_next < m->slot_count, "%s: too many elements for ~apart", m->label);
    return m->slots[m->slot_next++];
}

static double any_of(maker *m, bool is_float) { return is_float ? rng_normal(&m->random) : whole(m, -9, 9); }
static double positive_of(maker *m, bool is_float) { return is_float ? between(m, 0.2, 3) : whole(m, 1, 5); }
static double nonzero_of(maker *m, bool is_float) {
    return is_float ? signed_(m, between(m, 0.3, 3)) : signed_(m, whole(m, 1, 5));
}
static double unit_of(maker *m, bool is_float) { return is_float ? between(m, -0.9, 0.9) : whole(m, -1, 1); }
static double integer_of(maker *m, bool is_float) { return whole(m, -3, 3); }
static double bit_of(maker *m, bool is_float) { return whole(m, 0, 1); }
static double byte_of(maker *m, bool is_float) { return whole(m, 0, 127); }
/* Returns n plus a fraction of 0.1 to 0.4 or 0.6 to 0.9, away from the jumps of floor, ceil and round. */
static double fraction_of(maker *m, bool is_float) {
    return whole(m, -4, 4) + 0.5 * (double)bit_of(m, true) + between(m, 0.1, 0.4);
}
static double half_of(maker *m, bool is_float) { return whole(m, -9, 9) / 2; }
static double near_one_of(maker *m, bool is_float) {
    return is_float ? signed_(m, between(m, 0.7, 1.4)) : signed_(m, rng_below(&m->random, 8) ? 1 : 2);
}
/* Ensures that mod_x / mod_y is at least 0.1 away from any integer. */
static double mod_x_of(maker *m, bool is_float) { return is_float ? 0.75 * whole(m, -8, 8) + 0.3 : whole(m, -20, 20); }
static double mod_y_of(maker *m, bool is_float) {
    return is_float ? signed_(m, 1.5 * whole(m, 1, 2)) : signed_(m, whole(m, 1, 5));
}
/* Returns multiples of decimal fractions, whose quotients are close to integers, and the limits of the types. */
static double one_of(maker *m, const double *list, int count) {
    return signed_(m, list[rng_below(&m->random, (uint64_t)count)]);
}
static double decimal_of(maker *m, bool is_float) {
    static const double ends[] = {0,        1e-45,      1e-40, 6e-8,   1,        2049, 65504,
                                  16777215, 2147483647, 1e10,  3.4e38, INFINITY, NAN};
    if (!is_float) return one_of(m, ends, 9);
    if (!rng_below(&m->random, 3)) return one_of(m, ends, sizeof ends / sizeof ends[0]);
    static const double steps[] = {0.1, 0.01, 0.7};
    return whole(m, 1, 300) * one_of(m, steps, 3);
}
static double divisor_of(maker *m, bool is_float) {
    static const double list[] = {0.1, 0.01, 0.7, 0.1, 0.01, 0.7, 3, 1e10, 3e38, 1e-40, 0, INFINITY, NAN},
                        integers[] = {0, 1, 2, 3, 7, 46341, 2147483647};
    return is_float ? one_of(m, list, sizeof list / sizeof list[0]) : one_of(m, integers, 7);
}
static double large_of(maker *m, bool is_float) { return between(m, -200, 300); }

static const struct drawing {
    const char *name;
    double (*of)(maker *m, bool is_float);
    bool smooth;
} drawings[] = {
    {"any", any_of, true},           {"positive", positive_of, true}, {"nonzero", nonzero_of, true},
    {"unit", unit_of, true},         {"apart", draw_apart, true},     {"integer", integer_of, false},
    {"custom", any_of, true},        {"bits", bit_of, false},         {"bytes", byte_of, false},
    {"fraction", fraction_of, true}, {"halves", half_of, false},      {"near_one", near_one_of, true},
    {"mod_x", mod_x_of, true},       {"mod_y", mod_y_of, true},       {"large", large_of, false},
    {"decimal", decimal_of, false},  {"divisor", divisor_of, false},
};

static const char *const draw_names[] = {
    /* Indexed by mil_draw. */
    [MIL_DRAW_any] = "any",       [MIL_DRAW_positive] = "positive", [MIL_DRAW_nonzero] = "nonzero",
    [MIL_DRAW_unit] = "unit",     [MIL_DRAW_apart] = "apart",       [MIL_DRAW_integer] = "integer",
    [MIL_DRAW_custom] = "custom",
};

/* Reads "[1,2]", "1,2)" or "true,false" and returns the number of values. */
static int read_numbers(const char *text, double *out, int limit) {
    int count = 0;
    if (*text == '[') text++;
    while (*text && *text != ']' && *text != ')') {
        ck_assert_msg(count < limit, "too many numbers in %s", text);
        if (!strncmp(text, "true", 4) || !strncmp(text, "false", 5)) {
            out[count++] = *text == 't';
            text += *text == 't' ? 4 : 5;
        } else {
            char *end = NULL;
            out[count++] = strtod(text, &end);
            ck_assert_msg(end > text, "not a number: %s", text);
            text = end;
        }
        if (*text == ',') text++;
    }
    return count;
}

/* Fills `data` and returns false if such values have kinks. "index:N" is -N .. N-1, "below:N" is 0 .. N-1, and "mask"
 * is bits, the first of each row set. */
static bool draw(maker *m, const char *how, const mil_type *type, double *data) {
    const int64_t count = mil_type_count(type);
    const bool is_float = mil_dtype_is_float(type->dtype);
    if (how[0] == '=') {
        ck_assert_msg(read_numbers(how + 1, data, (int)count) == count, "%s: not %d values", m->label, (int)count);
        for (int64_t i = 0; i < count; i++) data[i] = mil_round(type->dtype, data[i]);
        return false;
    }
    const int n = strchr(how, ':') ? atoi(strchr(how, ':') + 1) : 0;
    const struct drawing *found = NULL;
    for (size_t k = 0; k < sizeof drawings / sizeof drawings[0]; k++)
        if (!strcmp(how, drawings[k].name)) found = &drawings[k];
    ck_assert_msg(found || n > 0 || !strcmp(how, "mask"), "%s: no such drawing: %s", m->label, how);
    for (int64_t i = 0; i < count; i++) {
        const bool first = type->rank > 0 && i % type->dim[type->rank - 1] == 0;
        double v = found   ? found->of(m, is_float)
                   : n > 0 ? whole(m, how[0] == 'i' ? -n : 0, n - 1)
                           : first || bit_of(m, false);
        data[i] = mil_round(type->dtype, v);
    }
    return is_float && found && found->smooth;
}

/* ---- reading specs -------------------------------------------------------------------------------------------------- */

static mil_value *read_attribute(maker *m, const mil_param *p, const char *spec) {
    double numbers[64];
    int64_t ints[64];
    uint8_t bools[64];
    const int count = p->type_class == MIL_CLASS_K_TEXT ? 0 : read_numbers(spec, numbers, 64);
    for (int k = 0; k < count; k++) ints[k] = (int64_t)numbers[k], bools[k] = numbers[k] != 0;
    const mil_type list = {.dtype = MIL_bool, .rank = 1, .dim = {count}};
    switch (p->type_class) {
    case MIL_CLASS_K_INT: return mil_build_int(&m->build, (int32_t)ints[0]);
    case MIL_CLASS_K_INTS: return mil_build_ints(&m->build, ints, count);
    case MIL_CLASS_K_BOOL: return mil_build_bool(&m->build, bools[0]);
    case MIL_CLASS_K_BOOLS: return mil_build_const(&m->build, p->name, &list, bools);
    case MIL_CLASS_K_TEXT: return mil_build_text(&m->build, spec);
    case MIL_CLASS_K_NUM: return mil_build_scalar(&m->build, m->dtype, numbers[0]);
    default: return mil_build_scalar(&m->build, m->dtype == MIL_fp16 ? MIL_fp16 : MIL_fp32, numbers[0]);
    }
}

static mil_dtype class_dtype(const maker *m, mil_class type_class) {
    switch (type_class) {
    case MIL_CLASS_BOOL: return MIL_bool;
    case MIL_CLASS_INT: return MIL_int32;
    case MIL_CLASS_QUANT: return MIL_int8;
    default: return m->dtype;
    }
}

static const char *default_of(const maker *m, const char *param) {
    for (int k = 0; k < op_default_count; k++)
        if (!strcmp(op_defaults[k].op, m->info->name) && !strcmp(op_defaults[k].param, param))
            return op_defaults[k].text;
    return NULL;
}

/* Returns how a tensor is drawn: by the spec, the defaults, the requirements of its type, or the row. */
static const char *drawing_of(maker *m, const mil_param *p, mil_dtype dtype, const char *given) {
    const char *standard = default_of(m, p->name);
    if (given) return given;
    if (standard) return standard;
    if (dtype == MIL_bool) return "bits";
    return dtype == MIL_uint8 || dtype == MIL_int8 || dtype == MIL_uint16 ? "bytes" : draw_names[m->info->draw];
}

/* Returns whether any number is legal: not for indices, masks and values that a line specifies. */
static bool takes_any_number(const mil_param *p, const char *how) {
    return p->type_class != MIL_CLASS_INT && how[0] != '=' && !strchr(how, ':') && strcmp(how, "mask") != 0 &&
           strcmp(how, "bits") != 0;
}

static bool fill_tensor(maker *m, const mil_param *p, const char *given, const mil_type *type, double *data) {
    const char *how = drawing_of(m, p, type->dtype, given);
    if (!m->growth || !m->growth->numbers || !takes_any_number(p, how)) return draw(m, how, type, data);
    m->growth->numbers(type, how, data, m->growth->context);
    return false;
}

static mil_value *find_value(maker *m, const char *name) {
    for (int k = 0; k < m->build.function->param_count; k++)
        if (!strcmp(m->build.function->params[k]->name, name)) return m->values[k];
    ck_abort_msg("%s: @%s is not an input", m->label, name);
    return NULL;
}

static mil_value *read_tensor(maker *m, const mil_param *p, char *spec, const char *name) {
    char prefix[SHORT];
    double numbers[MIL_MAX_RANK + 1];
    if (*spec == '@') return find_value(m, spec + 1);
    const size_t length = strcspn(spec, "[(");
    snprintf(prefix, sizeof prefix, "%.*s", (int)length, spec);
    mil_type type = {.dtype = class_dtype(m, p->type_class)};
    if (prefix[0]) type.dtype = prefix[0] == '$' ? m->dtype : mil_dtype_from_name(prefix, strlen(prefix));
    ck_assert_msg(type.dtype != MIL_DTYPE_NONE, "%s: unknown element type %s", m->label, prefix);
    if (spec[length] == '(') {
        ck_assert(read_numbers(spec + length + 1, numbers, 1) == 1);
        return mil_build_scalar(&m->build, type.dtype, numbers[0]);
    }
    const bool constant = strchr(spec, '!') || p->type_class == MIL_CLASS_K_TENSOR;
    char *how = strchr(spec, '~');
    type.rank = read_numbers(spec + length, numbers, MIL_MAX_RANK);
    for (int d = 0; d < type.rank; d++) type.dim[d] = (int64_t)numbers[d];
    spec[strcspn(spec, "!")] = 0;
    double *data = mem_array((size_t)mil_type_count(&type), sizeof *data);
    ck_assert(data != NULL);
    const bool smooth = fill_tensor(m, p, how ? how + 1 : NULL, &type, data);
    if (constant) {
        mil_value *v = mil_build_const_f64(&m->build, name, &type, data);
        mem_free(data);
        return v;
    }
    const int index = m->out->input_count++;
    ck_assert_msg(index < OP_CASE_INPUTS, "%s: too many inputs", m->label);
    m->out->inputs[index] = (mil_tensor){.type = type, .data = data};
    m->out->smooth[index] = smooth;
    const op_case_growth *g = m->growth;
    m->values[index] =
        g && g->before ? g->before(&m->build, name, type, g->context) : mil_build_param(&m->build, name, type);
    if (g && !m->build.err.status) m->out->inputs[index].type = m->build.function->params[index]->type;
    return m->values[index];
}

static bool is_tensor(mil_class type_class) { return type_class < MIL_CLASS_K_INT || type_class == MIL_CLASS_K_TENSOR; }

/* Builds the values that a spec assigns to a parameter. */
static int read_values(maker *m, const mil_param *p, char *spec, mil_value *out[OP_CASE_INPUTS]) {
    char name[64];
    int count = 0;
    for (char *next; spec; spec = next) {
        next = strchr(spec, '|');
        if (next) *next++ = 0;
        if (!is_tensor(p->type_class)) {
            out[count++] = read_attribute(m, p, spec);
            continue;
        }
        snprintf(name, sizeof name, p->need == MIL_VARIADIC ? "%s%d" : "%s", p->name, count);
        ck_assert_msg(count < OP_CASE_INPUTS, "%s: too many values", m->label);
        out[count++] = read_tensor(m, p, spec, name);
    }
    return count;
}

static void split_words(maker *m) {
    for (char *word = strtok(m->line, " "); word; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        ck_assert_msg(m->word_count < WORDS && equals, "bad line: %s", m->label);
        *equals = 0;
        m->words[m->word_count][0] = word;
        m->words[m->word_count++][1] = equals + 1;
    }
}

static char *word_of(const maker *m, const char *name) {
    for (int k = 0; k < m->word_count; k++)
        if (!strcmp(m->words[k][0], name)) return m->words[k][1];
    return NULL;
}

/* ---- cases ---------------------------------------------------------------------------------------------------------- */

static mil_op *build_op(maker *m) {
    mil_value *values[MIL_MAX_PARAMS][OP_CASE_INPUTS];
    mil_argument arguments[MIL_MAX_PARAMS];
    int count = 0;
    for (int p = 0; p < m->info->param_count; p++) {
        const mil_param *param = &m->info->params[p];
        char standard[SHORT], *spec = word_of(m, param->name);
        if (!spec && !is_tensor(param->type_class) && default_of(m, param->name)) {
            snprintf(standard, sizeof standard, "%s", default_of(m, param->name));
            spec = standard;
        }
        if (!spec) continue;
        arguments[count] = (mil_argument){param->name, read_values(m, param, spec, values[p]), values[p]};
        count++;
    }
    if (m->info->code == MIL_OP_const) return values[0][0] ? values[0][0]->def : NULL;
    return mil_build_op(&m->build, m->info->code, "y", arguments, count);
}

op_case *op_case_make_grown(mil_opcode code, mil_dtype dtype, const char *line, uint64_t seed, const op_case_growth *g,
                            propane_error *err) {
    maker *m = mem_alloc(sizeof *m);
    op_case *out = mem_alloc(sizeof *out);
    ck_assert(m && out);
    m->info = mil_op_get(code), m->dtype = dtype, m->out = out, m->growth = g;
    m->line = mem_copy_string(line);
    rng_init(&m->random, seed);
    snprintf(m->label, sizeof m->label, "%s %s: %s", m->info->name, mil_dtype_get(dtype)->name, line);
    *out = (op_case){
        .label = mem_copy_string(m->label), .code = code, .dtype = dtype, .module = mil_module_create("case.mil")};
    ck_assert(m->line && out->label && out->module);
    split_words(m);
    const char *opset = word_of(m, "opset");
    mil_build_begin(&m->build, out->module, "main", opset ? mil_opset_from_name(opset, strlen(opset)) : MIL_IOS18);
    const mil_op *op = build_op(m);
    const bool grown = g && g->after;
    if (op && grown) g->after(&m->build, op, g->context);
    for (int k = 0; op && !grown && k < op->result_count; k++) mil_build_result(&m->build, op->results[k]);
    const propane_status status = mil_build_end(&m->build, err);
    out->op = op;
    out->function = m->build.function;
    mem_free(m->line);
    mem_free(m);
    if (!status) return out;
    op_case_free(out);
    return NULL;
}

op_case *op_case_make(mil_opcode code, mil_dtype dtype, const char *line, uint64_t seed, propane_error *err) {
    return op_case_make_grown(code, dtype, line, seed, NULL, err);
}

void op_case_free(op_case *c) {
    if (!c) return;
    for (int k = 0; k < c->input_count; k++) mem_free(c->inputs[k].data);
    mil_module_free(c->module);
    mem_free((void *)(uintptr_t)c->label);
    mem_free(c);
}

/* Lists the element types with which a line is tried. */
static int dtypes_of(const mil_op_info *info, const char *text, mil_dtype out[8]) {
    const mil_class type_class = info->params[0].type_class;
    char only[SHORT] = "";
    if (!strncmp(text, "for=", 4)) snprintf(only, sizeof only, "%.*s", (int)strcspn(text + 4, " "), text + 4);
    const bool is_int = !strcmp(only, "int"), is_float = !strcmp(only, "float");
    if (only[0] && !is_int && !is_float) {
        out[0] = mil_dtype_from_name(only, strlen(only));
        ck_assert_msg(out[0] != MIL_DTYPE_NONE, "bad line: %s", text);
        return 1;
    }
    int count = 0;
    if (!is_int) out[count++] = MIL_fp32;
    if (type_class != MIL_CLASS_FLOAT && type_class != MIL_CLASS_NUM && type_class != MIL_CLASS_TENSOR &&
        type_class != MIL_CLASS_EITHER && type_class != MIL_CLASS_BOOL && type_class != MIL_CLASS_FACTOR &&
        type_class != MIL_CLASS_ORDERED && !is_float)
        return 1;
    if (info->param_count > 1 && type_class == MIL_CLASS_BOOL && info->params[1].type_class == MIL_CLASS_BOOL) return 1;
    if (info->param_count == 1 && type_class == MIL_CLASS_BOOL) return 1;
    if (!is_int) out[count++] = MIL_fp16;
    if (!is_float && type_class != MIL_CLASS_FLOAT) out[count++] = MIL_int32;
    if (!is_float && !is_int && (type_class == MIL_CLASS_TENSOR || type_class == MIL_CLASS_EITHER))
        out[count++] = MIL_bool;
    return count;
}

int op_cases_list(int code, op_case_row *out, int limit) {
    int count = 0;
    for (int op = 0; op < MIL_OP_COUNT; op++) {
        if (code != OP_CASES_ALL && code != op) continue;
        const mil_op_info *info = mil_op_get((mil_opcode)op);
        const op_line *line;
        for (int k = 0; (line = op_line_at(k)); k++) {
            if (strcmp(line->key, info->name) != 0 && strcmp(line->key, rule_names[op]) != 0) continue;
            mil_dtype dtypes[8];
            const int dtype_count = dtypes_of(info, line->text, dtypes);
            for (int t = 0; t < dtype_count; t++, count++)
                if (out && count < limit)
                    out[count] = (op_case_row){info->code, dtypes[t], line->text, (uint64_t)k * 8 + (uint64_t)t};
        }
    }
    return count;
}

int op_cases_each(int code, uint64_t seed, op_case_visit visit, void *context) {
    const int count = op_cases_list(code, NULL, 0);
    op_case_row *rows = mem_array((size_t)count + 1, sizeof *rows);
    ck_assert(rows != NULL);
    op_cases_list(code, rows, count);
    for (int i = 0; i < count; i++) {
        propane_error err = {0};
        op_case *c = op_case_make(rows[i].code, rows[i].dtype, rows[i].line, seed * 1000003 + rows[i].number, &err);
        if (!c) ck_abort_msg("%s: \"%s\" cannot be built: %s", mil_op_get(rows[i].code)->name, rows[i].line, err.text);
        visit(c, context);
        op_case_free(c);
    }
    mem_free(rows);
    return count;
}
