/* SPDX-License-Identifier: MIT
 * Owns the search for the operation that produces NaN or infinity. The search starts only from results that are not
 * finite and goes back through operands that are not finite. An infinity in a mask that a softmax absorbs is therefore
 * not reported. An operation is reported if its operands are all finite, or if it produces NaN from infinities.
 *
 * Values that no session can output (in blocks, or of unsupported types) count as finite.
 */
#include "core/run/nonfinite.h"

#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops.h"

typedef struct nonfinite_walk {
    const session *s;
    const nonfinite_count *inputs; /* [s->inputs]: counted before the run, because the run changes states */
    int input_count;
    nonfinite_count *of;  /* [value_count] */
    bool *known, *behind; /* [value_count]: counted; reached from a result via values that are not finite */
} nonfinite_walk;

static bool nonfinite_any(nonfinite_count c) { return c.nan || c.infinite; }

static void nonfinite_add(nonfinite_count *c, double v) {
    c->numbers++;
    c->nan += isnan(v) != 0;
    c->infinite += isinf(v) != 0;
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* Counts an input or output of the program; anything but floats counts as finite. */
static propane_status nonfinite_count_at(const session *s, int at, nonfinite_count *out, propane_error *err) {
    const propane_io *io = runner_io(&s->run, at);
    const int64_t count = propane_io_count(io);
    *out = (nonfinite_count){.numbers = count};
    if (io->dtype != PROPANE_FP16 && io->dtype != PROPANE_FP32 && io->dtype != PROPANE_BF16) return PROPANE_OK;
    float *values = mem_array((size_t)count + 1, sizeof *values);
    if (!values) return propane_fail_memory(err, (size_t)count * sizeof *values);
    propane_status status = propane_buffer_read(s->run.bindings[at].buffer, io, PROPANE_FP32, values, count, err);
    out->numbers = 0;
    for (int64_t i = 0; i < count && !status; i++) nonfinite_add(out, (double)values[i]);
    mem_free(values);
    return status;
}

static propane_status nonfinite_count_results(const nonfinite_walk *w, nonfinite_found *out, propane_error *err) {
    const session *s = w->s;
    const mil_function *f = s->function;
    for (int i = 0; i < f->result_count; i++) {
        const mil_value *v = f->results[i];
        const int at = session_find_output(s, v->name);
        if (at < 0) continue;
        PROPANE_TRY(nonfinite_count_at(s, at, &w->of[v->id], err));
        w->known[v->id] = true;
        if (i >= s->own_results) continue;
        w->behind[v->id] = true;
        out->results.numbers += w->of[v->id].numbers;
        out->results.nan += w->of[v->id].nan;
        out->results.infinite += w->of[v->id].infinite;
    }
    return PROPANE_OK;
}

/* Returns the count of a value. Values that are not results are inputs, as they were before the run, or constants;
 * others count as finite. */
static nonfinite_count nonfinite_of(const nonfinite_walk *w, const mil_value *v) {
    if (w->known[v->id]) return w->of[v->id];
    w->known[v->id] = true;
    if (v->constant) {
        const bool floats = v->constant->data && mil_dtype_is_float(v->type.dtype) && v->type.container == MIL_TENSOR;
        for (int64_t i = 0; floats && i < mil_type_count(&v->constant->type); i++)
            nonfinite_add(&w->of[v->id], mil_const_f64(v->constant, i));
    } else if (!v->def) {
        const int at = session_find_input(w->s, v->name);
        if (at >= 0 && at < w->input_count) w->of[v->id] = w->inputs[at];
    }
    return w->of[v->id];
}

/* ---- the way back ------------------------------------------------------------------------------------------------ */

/* Examines the operation of a value that results depend on, and marks its operands that are not finite. */
static void nonfinite_look_at(const nonfinite_walk *w, const mil_op *op, const mil_value *v, nonfinite_found *out) {
    bool all_finite = true, no_nan = true;
    const nonfinite_count mine = nonfinite_of(w, v);
    MIL_FOR_OPERANDS (op, x) {
        const nonfinite_count theirs = nonfinite_of(w, x);
        if (!nonfinite_any(theirs)) continue;
        all_finite = false;
        no_nan &= !theirs.nan;
        w->behind[x->id] = true;
    }
    if (all_finite) out->from = v, out->from_count = mine;
    if (mine.nan && no_nan && !all_finite) out->turn = v, out->turn_count = mine;
}

/* Looks for a constant that is not finite, else for such an input. */
static void nonfinite_look_at_sources(const nonfinite_walk *w, nonfinite_found *out) {
    const mil_function *f = w->s->function;
    for (const mil_op *op = f->first; op && !out->from; op = op->next)
        MIL_FOR_OPERANDS (op, x) {
            if (!x->constant || !w->behind[x->id] || out->from) continue;
            out->from = x;
            out->taken_by = op;
            out->from_count = nonfinite_of(w, x);
        }
    out->made |= out->from != NULL;
    for (int i = 0; i < f->param_count && !out->from; i++) {
        const mil_value *v = f->params[i];
        const nonfinite_count c = nonfinite_of(w, v);
        if (w->behind[v->id] && nonfinite_any(c)) out->from = v, out->from_count = c;
    }
}

/* Searches from the last operation to the first, so that the earliest culprit remains. */
static void nonfinite_search(const nonfinite_walk *w, nonfinite_found *out) {
    for (const mil_op *op = w->s->function->last; op; op = op->prev)
        for (int i = op->result_count - 1; i >= 0; i--) {
            const mil_value *v = op->results[i];
            if (w->behind[v->id] && !v->constant && nonfinite_any(nonfinite_of(w, v))) nonfinite_look_at(w, op, v, out);
        }
    out->made = out->from || out->turn;
    if (!out->from) nonfinite_look_at_sources(w, out);
}

static propane_status nonfinite_look(nonfinite_walk *w, nonfinite_found *out, propane_error *err) {
    const size_t room = (size_t)w->s->function->value_count + 1;
    w->of = mem_array(room, sizeof *w->of);
    w->known = mem_array(room, sizeof *w->known);
    w->behind = mem_array(room, sizeof *w->behind);
    if (!w->of || !w->known || !w->behind) return propane_fail_memory(err, room * sizeof *w->of);
    PROPANE_TRY(nonfinite_count_results(w, out, err));
    if (nonfinite_any(out->results) && w->s->keep && !w->s->keep_count) nonfinite_search(w, out);
    return PROPANE_OK;
}

propane_status nonfinite_run(session *s, nonfinite_found *out, propane_error *err) {
    int64_t ns;
    nonfinite_count *inputs = mem_array((size_t)s->inputs + 1, sizeof *inputs);
    nonfinite_walk w = {.s = s, .inputs = inputs, .input_count = s->inputs};
    propane_status status = inputs ? PROPANE_OK : propane_fail_memory(err, (size_t)s->inputs * sizeof *inputs);
    *out = (nonfinite_found){0};
    for (int i = 0; i < w.input_count && !status; i++) status = nonfinite_count_at(s, i, &inputs[i], err);
    if (!status) status = session_run(s, &ns, err);
    if (!status) status = nonfinite_look(&w, out, err);
    mem_free(inputs);
    mem_free(w.of);
    mem_free(w.known);
    mem_free(w.behind);
    return status;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static bool nonfinite_is_made(const mil_value *v) { return v && v->def && !v->constant; }

const char *nonfinite_kind(const mil_value *v) { return v->constant ? "constant" : v->def ? "operation" : "input"; }

const char *nonfinite_name(const nonfinite_found *found, const mil_value *v) {
    return v->name || !found->taken_by ? v->name : mil_op_result_name(found->taken_by);
}

const mil_value *nonfinite_culprit(const nonfinite_found *found) {
    return nonfinite_is_made(found->from) || !found->turn ? found->from : found->turn;
}

const char *nonfinite_op(const mil_value *v) { return nonfinite_is_made(v) ? v->def->info->name : NULL; }

/* Prints "2 NaN, 1 infinity". */
static void nonfinite_print_count(nonfinite_count c, text *out) {
    if (c.nan) text_printf(out, "%lld NaN", (long long)c.nan);
    if (c.infinite)
        text_printf(out, "%s%lld infinit%s", c.nan ? ", " : "", (long long)c.infinite, c.infinite == 1 ? "y" : "ies");
}

static void nonfinite_print_made(const mil_value *v, const char *does, nonfinite_count c, text *out) {
    text_printf(out, "%s '%s' %s (", v->def->info->name, v->name, does);
    nonfinite_print_count(c, out);
    text_printf(out, " of %lld)", (long long)c.numbers);
}

void nonfinite_print(const nonfinite_found *found, text *out) {
    const mil_value *v = found->from;
    if (!v) {
        nonfinite_print_count(found->results, out);
        text_printf(out, " of %lld", (long long)found->results.numbers);
    } else if (nonfinite_is_made(v)) {
        nonfinite_print_made(v, "produces the first of them from finite numbers", found->from_count, out);
    } else {
        if (v->name) text_printf(out, "%s '%s' ", nonfinite_kind(v), v->name);
        if (found->taken_by) {
            const char *result = mil_op_result_name(found->taken_by);
            text_printf(out, v->name ? "(of %s '%s') " : "a constant of %s '%s' ", found->taken_by->info->name,
                        result ? result : "");
        }
        text_printf(out, "holds ");
        nonfinite_print_count(found->from_count, out);
        if (!found->made) text_printf(out, ", and no operation produces any");
    }
    if (found->turn && !(nonfinite_is_made(v) && found->from_count.nan)) {
        text_printf(out, "; ");
        nonfinite_print_made(found->turn, "makes NaN of infinities", found->turn_count, out);
    }
}
