/* SPDX-License-Identifier: MIT
 * Owns linear models, feature vectorizers, scalers, normalizers, imputers and extractors as programs. One idea: every
 * feature is an array of fp32, a number being an array of one element, so a linear model is a matrix product.
 * tabular_keys.c reads the models that encode text and dictionaries.
 */
#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/neural_network/tabular.h"

mil_value *tabular_do(tabular *t, mil_opcode code, const mil_argument *arguments, int count) {
    const mil_op *op = t->b.err.status ? NULL : mil_build_op(&t->b, code, NULL, arguments, count);
    return op && op->result_count ? op->results[0] : NULL;
}

void tabular_fail(tabular *t, const char *format, ...) {
    va_list args;
    if (t->b.err.status) return;
    va_start(args, format);
    (void)!propane_vfail(&t->b.err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    (void)!propane_fail_prefix(&t->b.err, PROPANE_ERR_INVALID, "%s", t->b.module->source);
}

mil_value *tabular_real(tabular *t, double value) { return mil_build_scalar(&t->b, MIL_fp32, value); }

mil_value *tabular_list(tabular *t, const char *name, const double *values, int64_t count) {
    if (t->b.err.status || count < 1) return NULL;
    const mil_type type = mil_type_tensor(MIL_fp32, 1, &count);
    return mil_build_const_f64(&t->b, name, &type, values);
}

int64_t tabular_count(const mil_value *v) { return v ? mil_type_count(&v->type) : 0; }

bool tabular_begin(tabular *t, mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                   const mil_read_options *options) {
    *t = (tabular){.seen = &m->package->interfaces[0], .body = {data, bytes, NULL}};
    t->body.broken = &t->broken;
    mil_build_begin(&t->b, m, "main", opset);
    t->in = ARENA_ARRAY(m->arena, t->seen->input_count + 1, mil_value *);
    if (!t->in) (void)!propane_fail_memory(&t->b.err, 0);
    enum { MOST_FEATURES = 4096 };
    if (!t->seen->input_count) tabular_fail(t, "the model has no input");
    if (t->seen->input_count > MOST_FEATURES) tabular_fail(t, "the model has more than %d inputs", MOST_FEATURES);
    for (int i = 0; i < t->seen->input_count && !t->b.err.status; i++) {
        mil_value *v = interface_param(&t->b, &t->seen->inputs[i], options);
        if (v && v->type.dtype != MIL_fp32) v = mil_build_cast(&t->b, v, MIL_fp32);
        const int64_t count = tabular_count(v);
        t->in[i] = v && v->type.rank != 1 ? mil_build_reshape(&t->b, v, &count, 1) : v;
    }
    return !t->b.err.status;
}

propane_status tabular_end(tabular *t, mil_value *y, propane_error *err) {
    if (t->broken) tabular_fail(t, "the model's message ends early or has too many numbers");
    if (y && t->seen->output_count) interface_result(&t->b, &t->seen->outputs[0], y);
    if (!t->seen->output_count) tabular_fail(t, "the model has no output");
    return mil_build_end(&t->b, err);
}

mil_value *tabular_joined(tabular *t) {
    return t->seen->input_count == 1 ? t->in[0] : mil_build_concat(&t->b, t->in, t->seen->input_count, 0);
}

/* ---- linear models ---------------------------------------------------------------------------------------------------------- */

/* Applies the rows of weights (field 1) and one offset per row (field 2). Returns [rows]. */
static mil_value *tabular_linear(tabular *t, mil_value *x) {
    const int64_t rows = wire_count(t->body, 1), columns = tabular_count(x);
    wire_view rest = t->body, row;
    int64_t done = 0;
    if (t->b.err.status) return NULL;
    const int64_t offsets = wire_doubles(t->body, 2, NULL, 0);
    if (rows < 1 || offsets != rows) {
        tabular_fail(t, "the linear model has %lld rows of weights, but %lld offsets", (long long)rows,
                     (long long)offsets);
        return NULL;
    }
    for (wire_view all = t->body; wire_each(&all, 1, &row);)
        if (wire_doubles(row, 1, NULL, 0) != columns) {
            tabular_fail(t, "a row has %lld weights, but the input has %lld elements",
                         (long long)wire_doubles(row, 1, NULL, 0), (long long)columns);
            return NULL;
        }
    double *data = mem_array((size_t)(rows * columns + rows), sizeof *data);
    if (!data) (void)!propane_fail_memory(&t->b.err, (size_t)(rows * columns) * sizeof *data);
    if (!data) return NULL;
    while (wire_each(&rest, 1, &row)) (void)wire_doubles(row, 1, data + done++ * columns, columns);
    (void)wire_doubles(t->body, 2, data + rows * columns, rows);
    const mil_type type = mil_type_tensor(MIL_fp32, 2, (int64_t[]){rows, columns});
    mil_value *weight = mil_build_const_f64(&t->b, "weight", &type, data);
    mil_value *bias = tabular_list(t, "offset", data + rows * columns, rows);
    mem_free(data);
    mil_value *batch = mil_build_reshape(&t->b, x, (int64_t[]){1, columns}, 2);
    mil_value *y = DO(t, linear, IN("x", batch), IN("weight", weight), IN("bias", bias));
    return y ? mil_build_reshape(&t->b, y, &rows, 1) : NULL;
}

/* Applies the normal distribution function: (1 + erf(x / sqrt 2)) / 2. */
static mil_value *tabular_probit(tabular *t, mil_value *x) {
    mil_value *e = DO(t, erf, IN("x", DO(t, mul, IN("x", x), IN("y", tabular_real(t, sqrt(0.5))))));
    return DO(t, mul, IN("x", DO(t, add, IN("x", e), IN("y", tabular_real(t, 1)))), IN("y", tabular_real(t, 0.5)));
}

propane_status tabular_read_glm_regressor(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                          const mil_read_options *options, propane_error *err) {
    tabular t;
    mil_value *y = NULL;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        const int64_t transform = wire_whole(t.body, 3, 0);
        y = tabular_linear(&t, tabular_joined(&t));
        if (transform == 1) y = DO(&t, sigmoid, IN("x", y));
        if (transform == 2) y = tabular_probit(&t, y);
        if (transform < 0 || transform > 2) tabular_fail(&t, "a transform of kind %lld", (long long)transform);
    }
    return tabular_end(&t, y, err);
}

mil_value *tabular_two_classes(tabular *t, mil_value *p) {
    mil_value *both[2] = {DO(t, sub, IN("x", tabular_real(t, 1)), IN("y", p)), p};
    return both[0] ? mil_build_concat(&t->b, both, 2, 0) : NULL;
}

/* Returns the probabilities of the classes. A multinomial logit model applies softmax, with a score of 0 for a class
 * without a row. Any other model applies its function to each row; a single row then produces [1 - p, p], and several
 * rows are divided by their sum. */
static mil_value *tabular_probabilities(tabular *t, mil_value *scores, int64_t classes) {
    static const double zero = 0;
    const int64_t rows = tabular_count(scores), transform = wire_whole(t->body, 3, 0);
    const bool rest = wire_whole(t->body, 4, 0) == 1;
    if (t->b.err.status) return NULL;
    if (rows != classes && rows != classes - 1) {
        tabular_fail(t, "%lld rows of weights do not match %lld classes", (long long)rows, (long long)classes);
        return NULL;
    }
    if (!rest && transform == 0) {
        mil_value *both[2] = {tabular_list(t, "reference", &zero, 1), scores};
        return mil_build_softmax(&t->b, rows == classes ? scores : mil_build_concat(&t->b, both, 2, 0), 0);
    }
    mil_value *p = transform == 1 ? tabular_probit(t, scores) : DO(t, sigmoid, IN("x", scores));
    if (rows == 1) return tabular_two_classes(t, p);
    mil_value *sum = p ? mil_build_reduce(&t->b, MIL_OP_reduce_sum, p, &(int64_t){0}, 1, true) : NULL;
    return DO(t, real_div, IN("x", p), IN("y", sum));
}

propane_status tabular_read_glm_classifier(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                           const mil_read_options *options, propane_error *err) {
    tabular t;
    wire_view strings, numbers;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        mil_value *scores = tabular_linear(&t, tabular_joined(&t));
        (void)wire_part(t.body, 100, &strings);
        (void)wire_part(t.body, 101, &numbers);
        mil_value *labels = interface_labels(&t.b, strings, numbers);
        if (!labels) tabular_fail(&t, "a classifier without labels");
        interface_classify(&t.b, t.seen, tabular_probabilities(&t, scores, tabular_count(labels)), labels);
    }
    return tabular_end(&t, NULL, err);
}

/* ---- columns ---------------------------------------------------------------------------------------------------------------- */

/* Returns the numbers of a field: a scalar, or one number per element of the input. The default is `standard`. */
static mil_value *tabular_numbers(tabular *t, wire_view message, uint32_t field, const char *name, double standard) {
    const int64_t count = wire_doubles(message, field, NULL, 0);
    double *list = mem_array((size_t)count + 1, sizeof *list);
    if (!list) (void)!propane_fail_memory(&t->b.err, 0);
    if (!list) return NULL;
    list[0] = standard;
    (void)wire_doubles(message, field, list, count);
    if (count > 1 && count != tabular_count(t->in[0]))
        tabular_fail(t, "%lld values of %s for %lld elements", (long long)count, name,
                     (long long)tabular_count(t->in[0]));
    mil_value *out = count > 1 ? tabular_list(t, name, list, count) : tabular_real(t, list[0]);
    mem_free(list);
    return out;
}

/* Returns what replaces missing values: a number (fields 1 and 2), or one per element (4 and 5). */
static mil_value *tabular_imputed(tabular *t) {
    wire_view list;
    const double real = wire_real(t->body, 1, NAN), whole = (double)wire_whole(t->body, 2, 0);
    if (wire_part(t->body, 4, &list)) return tabular_numbers(t, list, 1, "imputed", 0);
    if (!wire_part(t->body, 5, &list)) return tabular_real(t, isnan(real) ? whole : real);
    const int64_t room = tabular_count(t->in[0]);
    int64_t *wholes = mem_array((size_t)room + 1, sizeof *wholes);
    double *reals = mem_array((size_t)room + 1, sizeof *reals);
    if (!wholes || !reals) (void)!propane_fail_memory(&t->b.err, 0);
    const int count = wholes && reals && room < INT32_MAX ? wire_wholes(list, 1, wholes, (int)room) : 0;
    if (!t->b.err.status && count != 1 && count != room)
        tabular_fail(t, "%d imputed values for %lld elements", count, (long long)room);
    for (int i = 0; i < count; i++) reals[i] = (double)wholes[i];
    mil_value *out = count == 1 ? tabular_real(t, reals[0]) : tabular_list(t, "imputed", reals, count);
    mem_free(wholes);
    mem_free(reals);
    return out;
}

/* Replaces missing values, which are NaN or a number that represents them. */
propane_status tabular_read_imputer(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                    const mil_read_options *options, propane_error *err) {
    tabular t;
    mil_value *y = NULL;
    wire_view list;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        const int64_t whole = wire_whole(t.body, 12, INT64_MIN);
        const double replaced = whole != INT64_MIN ? (double)whole : wire_real(t.body, 11, NAN);
        mil_value *by = tabular_imputed(&t);
        if (wire_part(t.body, 3, &list) || wire_part(t.body, 6, &list) || wire_part(t.body, 7, &list))
            tabular_fail(
                &t, "an imputer of strings or dictionaries, which no ML Program has: impute in the app, and convert "
                    "what follows");
        mil_value *gone = isnan(replaced) ? DO(&t, not_equal, IN("x", t.in[0]), IN("y", t.in[0]))
                                          : DO(&t, equal, IN("x", t.in[0]), IN("y", tabular_real(&t, replaced)));
        mil_value *like = DO(
            &t, add, IN("x", DO(&t, mul, IN("x", mil_build_cast(&t.b, gone, MIL_fp32)), IN("y", tabular_real(&t, 0)))),
            IN("y", by));
        y = DO(&t, select, IN("cond", gone), IN("a", like), IN("b", t.in[0]));
    }
    return tabular_end(&t, y, err);
}

/* Turns a dictionary of numbers, which an earlier encoder made, into an array of the size that the vectorizer
 * declares. */
static void tabular_size_dictionaries(mil_module *m, wire_view body) {
    const mil_interface *seen = &m->package->interfaces[0];
    for (wire_view one; wire_each(&body, 1, &one);) {
        const char *name = wire_text(m->arena, one, 1);
        const int64_t count = wire_whole(one, 2, 0);
        for (int i = 0; name && count > 0 && i < seen->input_count; i++) {
            mil_feature *f = &seen->inputs[i];
            if (f->kind != MIL_FEATURE_DICT_INT64 || strcmp(f->name, name) != 0) continue;
            f->kind = MIL_FEATURE_ARRAY, f->dtype = MIL_fp32;
            f->shape = mil_type_tensor(MIL_fp32, 1, &count);
        }
    }
}

/* Concatenates columns. The message is a list of {name, elements}. */
propane_status tabular_read_vectorizer(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                       const mil_read_options *options, propane_error *err) {
    tabular t;
    mil_value *y = NULL;
    char shown[80];
    arena *a = m->arena;
    const mil_interface *seen = &m->package->interfaces[0];
    const char **was = ARENA_ARRAY(a, seen->input_count + 1, const char *);
    if (!was) return propane_fail_memory(err, 0);
    for (int i = 0; i < seen->input_count; i++) was[i] = seen->inputs[i].name;
    tabular_size_dictionaries(m, (wire_view){data, bytes, &(bool){false}});
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        const int count = wire_count(t.body, 1);
        if (count > seen->input_count * 2) tabular_fail(&t, "%d columns of %d inputs", count, seen->input_count);
        mil_value **parts = ARENA_ARRAY(a, count + 1, mil_value *);
        int done = 0;
        if (!parts) (void)!propane_fail_memory(&t.b.err, 0);
        for (wire_view rest = t.body, one; parts && !t.b.err.status && wire_each(&rest, 1, &one); done++) {
            const char *name = wire_text(a, one, 1);
            for (int i = 0; name && i < seen->input_count; i++)
                if (strcmp(was[i], name) == 0) parts[done] = t.in[i];
            if (name && parts[done] && tabular_count(parts[done]) == wire_whole(one, 2, 0)) continue;
            tabular_fail(&t, "column '%s' is not an input of %lld elements",
                         text_quote(shown, name ? name : "", name ? strlen(name) : 0),
                         (long long)wire_whole(one, 2, 0));
            break;
        }
        if (!count) tabular_fail(&t, "a vectorizer without columns");
        if (!t.b.err.status) y = count == 1 ? parts[0] : mil_build_concat(&t.b, parts, count, 0);
    }
    return tabular_end(&t, y, err);
}

propane_status tabular_read_scaler(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                   const mil_read_options *options, propane_error *err) {
    tabular t;
    mil_value *y = NULL;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        y = DO(&t, add, IN("x", t.in[0]), IN("y", tabular_numbers(&t, t.body, 1, "shift", 0)));
        y = DO(&t, mul, IN("x", y), IN("y", tabular_numbers(&t, t.body, 2, "scale", 1)));
    }
    return tabular_end(&t, y, err);
}

/* Divides by a norm. A norm of 0 leaves the values unchanged. */
propane_status tabular_read_normalizer(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                       const mil_read_options *options, propane_error *err) {
    static const mil_opcode norms[] = {MIL_OP_reduce_max, MIL_OP_reduce_l1_norm, MIL_OP_reduce_l2_norm};
    tabular t;
    mil_value *y = NULL;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        const int64_t type = wire_whole(t.body, 1, 0);
        if (type < 0 || type > 2) tabular_fail(&t, "unknown norm kind %lld", (long long)type);
        mil_value *norm = t.b.err.status ? NULL : mil_build_reduce(&t.b, norms[type], t.in[0], &(int64_t){0}, 1, true);
        mil_value *none = DO(&t, equal, IN("x", norm), IN("y", tabular_real(&t, 0)));
        if (none) none = mil_build_cast(&t.b, none, MIL_fp32);
        y = DO(&t, real_div, IN("x", t.in[0]), IN("y", DO(&t, add, IN("x", norm), IN("y", none))));
    }
    return tabular_end(&t, y, err);
}

propane_status tabular_read_extractor(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                      const mil_read_options *options, propane_error *err) {
    enum { MOST = 4096 };
    tabular t;
    mil_value *y = NULL;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        int64_t *list = mem_array(MOST, sizeof *list);
        if (!list) (void)!propane_fail_memory(&t.b.err, 0);
        const int count = list ? wire_wholes(t.body, 1, list, MOST) : 0;
        if (!count) tabular_fail(&t, "the extractor has no indices");
        for (int i = 0; i < count; i++)
            if (list[i] < 0 || list[i] >= tabular_count(t.in[0]))
                tabular_fail(&t, "index %lld is outside the input, which has %lld elements", (long long)list[i],
                             (long long)tabular_count(t.in[0]));
        if (!t.b.err.status)
            y = DO(&t, gather, IN("x", t.in[0]), IN("indices", mil_build_ints(&t.b, list, count)),
                   IN("axis", mil_build_int(&t.b, 0)));
        mem_free(list);
    }
    return tabular_end(&t, y, err);
}

/* Output i is input i. */
propane_status tabular_read_identity(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                     const mil_read_options *options, propane_error *err) {
    tabular t;
    if (tabular_begin(&t, m, data, bytes, opset, options))
        for (int i = 1; i < t.seen->output_count && i < t.seen->input_count; i++)
            interface_result(&t.b, &t.seen->outputs[i], mil_build_unary(&t.b, MIL_OP_identity, t.in[i]));
    return tabular_end(&t, t.b.err.status ? NULL : mil_build_unary(&t.b, MIL_OP_identity, t.in[0]), err);
}
