/* SPDX-License-Identifier: MIT
 * Emits operations that work along one axis of [outer, size, inner], each column independently: gather_along_axis,
 * scatter_along_axis, one_hot, cumsum, reduce_argmax and reduce_argmin. A task handles some columns of one image. Lines
 * of columns are processed as doubles, so that sums of fp16 round once and integers are exact.
 */
#include <math.h>
#include <stdatomic.h>

#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/plan/emit.h"
#include "cpu/simd/kernels.h"

enum { COLUMNS = 128 }; /* per task, so that their lines stay in L1 */

typedef struct along_args along_args;
typedef struct along_call {
    const along_args *a;
    const unsigned char *x, *indices, *updates;
    unsigned char *y;
    double *wide;        /* for a scatter */
    atomic_llong *wrong; /* position of the first index that is out of range; LLONG_MAX if there is none */
} along_call;

/* Processes columns first .. first+count-1 of image `outer`. */
typedef void (*along_kernel)(const along_call *c, int64_t outer, int64_t first, int64_t count);

struct along_args {
    along_kernel kernel;
    int64_t outer, size, inner, picks; /* picks: number of indices per column of a gather or scatter; 0 for others */
    int64_t columns;                   /* per task */
    mil_dtype dtype, index_type, out_type;
    mil_scatter_mode mode;
    bool flag, reverse; /* flag: argmin, or exclusive */
    bool strict;        /* negative indices are out of range */
    double on, off;
    cpu_ref x, indices, updates, y, wide;
    const cpu_reduce_kernels *rows;
    const char *where;
};

/* Returns the element that index `given` names; -1 if it is out of range. `which` is its position in `indices`; the
 * first wrong position is recorded. */
static inline int64_t emit_axis_resolve(const along_call *c, int64_t given, int64_t which) {
    const int64_t at = given < 0 && !c->a->strict ? given + c->a->size : given;
    if (at >= 0 && at < c->a->size) return at;
    long long before = atomic_load(c->wrong);
    while (which < before && !atomic_compare_exchange_weak(c->wrong, &before, which)) {
    }
    return -1;
}

/* Loads indices at .. at+count-1. */
static void emit_axis_load_indices(const along_call *c, int64_t *to, int64_t at, int64_t count) {
    double line[COLUMNS];
    if (c->a->index_type == MIL_int32) {
        const int32_t *from = (const int32_t *)(const void *)c->indices + at;
        for (int64_t i = 0; i < count; i++) to[i] = from[i];
        return;
    }
    cpu_dense_load(line, c->a->index_type, c->indices, at, 1, count);
    for (int64_t i = 0; i < count; i++) to[i] = (int64_t)line[i];
}

#define TAKE(type)                                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const int64_t from = emit_axis_resolve(c, line[i], at + i);                                                    \
        if (from < 0) continue;                                                                                        \
        ((type *)(void *)c->y)[at + i] = ((const type *)(const void *)c->x)[base + from * a->inner + i * across];      \
    }                                                                                                                  \
    break

/* Gathers picks at .. at+n-1, with n at most COLUMNS, from adjacent columns, or from a single column if `across` is
 * 0. */
static void emit_axis_take(const along_call *c, int64_t at, int64_t n, int64_t base, int64_t across) {
    const along_args *a = c->a;
    int64_t line[COLUMNS];
    emit_axis_load_indices(c, line, at, n);
    switch (cpu_view_dtype_bytes(a->dtype)) {
    case 1: TAKE(uint8_t);
    case 2: TAKE(uint16_t);
    case 4: TAKE(uint32_t);
    default: TAKE(uint64_t);
    }
}

static void emit_axis_gather_columns(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    for (int64_t p = 0; p < a->picks; p++)
        emit_axis_take(c, (outer * a->picks + p) * a->inner + first, count, outer * a->size * a->inner + first, 1);
}

static void emit_axis_gather_line(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    (void)first;
    (void)count;
    for (int64_t p = 0; p < a->picks; p += COLUMNS)
        emit_axis_take(c, outer * a->picks + p, a->picks - p < COLUMNS ? a->picks - p : COLUMNS, outer * a->size, 0);
}

static double emit_axis_joined(double to, double value, mil_scatter_mode mode) {
    switch (mode) {
    case MIL_SCATTER_ADD: return to + value;
    case MIL_SCATTER_SUB: return to - value;
    case MIL_SCATTER_MUL: return to * value;
    case MIL_SCATTER_DIV: return to / value;
    case MIL_SCATTER_MAX: return isnan(to) || to > value ? to : value;
    case MIL_SCATTER_MIN: return isnan(to) || to < value ? to : value;
    default: return value;
    }
}

/* Uses doubles until the end, so that repeated indices round once. */
static void emit_axis_scatter_columns(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    const int64_t base = outer * a->size * a->inner + first;
    const bool line = a->inner == 1;
    int64_t places[COLUMNS];
    double updates[COLUMNS];
    if (line) cpu_dense_load(c->wide + base, a->dtype, c->x, base, 1, a->size);
    for (int64_t k = 0; k < a->size && !line; k++)
        cpu_dense_load(c->wide + base + k * a->inner, a->dtype, c->x, base + k * a->inner, 1, count);
    for (int64_t p = 0; p < a->picks; p += line ? COLUMNS : 1) {
        const int64_t at = (outer * a->picks + p) * a->inner + first;
        const int64_t n = !line ? count : a->picks - p < COLUMNS ? a->picks - p : COLUMNS;
        emit_axis_load_indices(c, places, at, n);
        cpu_dense_load(updates, a->dtype, c->updates, at, 1, n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t to = emit_axis_resolve(c, places[i], at + i);
            if (to < 0) continue;
            double *value = c->wide + base + to * a->inner + (line ? 0 : i);
            *value = emit_axis_joined(*value, updates[i], a->mode);
        }
    }
    if (line) cpu_dense_store(c->y, a->out_type, base, 1, c->wide + base, a->size);
    for (int64_t k = 0; k < a->size && !line; k++)
        cpu_dense_store(c->y, a->out_type, base + k * a->inner, 1, c->wide + base + k * a->inner, count);
}

static void emit_axis_one_hot_columns(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    double hit[COLUMNS], line[COLUMNS];
    cpu_dense_load(hit, a->index_type, c->indices, outer * a->inner + first, 1, count);
    for (int64_t k = 0; k < a->size; k++) {
        for (int64_t i = 0; i < count; i++) line[i] = hit[i] == (double)k ? a->on : a->off;
        cpu_dense_store(c->y, a->out_type, (outer * a->size + k) * a->inner + first, 1, line, count);
    }
}

/* Writes row by row: the hot dimension is the last dimension of the result. */
static void emit_axis_one_hot_rows(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    double line[COLUMNS], hit = 0;
    (void)first;
    (void)count;
    cpu_dense_load(&hit, a->index_type, c->indices, outer, 1, 1);
    for (int64_t i = 0; i < COLUMNS; i++) line[i] = a->off;
    for (int64_t k = 0; k < a->size; k += COLUMNS)
        cpu_dense_store(c->y, a->out_type, outer * a->size + k, 1, line, a->size - k < COLUMNS ? a->size - k : COLUMNS);
    if (hit >= 0 && hit < (double)a->size)
        cpu_dense_store(c->y, a->out_type, outer * a->size + (int64_t)hit, 1, &a->on, 1);
}

static void emit_axis_cumsum_columns(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    double sum[COLUMNS] = {0}, line[COLUMNS];
    for (int64_t k = 0; k < a->size; k++) {
        const int64_t at = (outer * a->size + (a->reverse ? a->size - 1 - k : k)) * a->inner + first;
        cpu_dense_load(line, a->dtype, c->x, at, 1, count);
        if (a->flag) cpu_dense_store(c->y, a->dtype, at, 1, sum, count);
        for (int64_t i = 0; i < count; i++) sum[i] += line[i];
        if (!a->flag) cpu_dense_store(c->y, a->dtype, at, 1, sum, count);
    }
}

/* Processes one column with contiguous elements, a stretch at a time. */
static void emit_axis_cumsum_line(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    const int64_t base = outer * a->size, step = a->reverse ? -1 : 1, begin = a->reverse ? base + a->size - 1 : base;
    double line[COLUMNS], sum = 0;
    (void)first;
    (void)count;
    for (int64_t k = 0; k < a->size; k += COLUMNS) {
        const int64_t n = a->size - k < COLUMNS ? a->size - k : COLUMNS;
        cpu_dense_load(line, a->dtype, c->x, begin + k * step, step, n);
        for (int64_t i = 0; i < n; i++) {
            const double before = sum;
            sum += line[i];
            line[i] = a->flag ? before : sum;
        }
        cpu_dense_store(c->y, a->dtype, begin + k * step, step, line, n);
    }
}

/* Returns elements at .. at+n-1 as floats, in place or converted in `memory`. */
static const float *emit_axis_floats_at(const along_call *c, int64_t at, int64_t n, float *memory) {
    if (c->a->dtype == MIL_fp32) return (const float *)(const void *)c->x + at;
    fp16_to_f32_array(memory, (const uint16_t *)(const void *)c->x + at, (size_t)n);
    return memory;
}

/* Prefers the first NaN, else the first of the best, like NumPy and PyTorch. */
static inline bool emit_axis_beats(double v, double best) { return v > best || (isnan(v) && !isnan(best)); }

static void emit_axis_best_columns(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    const double sign = a->flag ? -1.0 : 1.0;
    double best[COLUMNS], where[COLUMNS] = {0}, line[COLUMNS];
    cpu_dense_load(best, a->dtype, c->x, outer * a->size * a->inner + first, 1, count);
    for (int64_t i = 0; i < count; i++) best[i] *= sign;
    for (int64_t k = 1; k < a->size; k++) {
        cpu_dense_load(line, a->dtype, c->x, (outer * a->size + k) * a->inner + first, 1, count);
        for (int64_t i = 0; i < count; i++)
            if (emit_axis_beats(sign * line[i], best[i])) best[i] = sign * line[i], where[i] = (double)k;
    }
    cpu_dense_store(c->y, a->out_type, outer * a->inner + first, 1, where, count);
}

/* Processes one column of contiguous floats: vector kernels find the best of each block, then the position within the
 * best block. */
static void emit_axis_best_floats(const along_call *c, int64_t outer, int64_t first, int64_t count) {
    const along_args *a = c->a;
    const cpu_reduce_code code = a->flag ? CPU_REDUCE_MIN : CPU_REDUCE_MAX;
    const int64_t base = outer * a->size;
    float memory[CPU_REDUCE_BLOCK], best = 0, top = 0;
    int64_t block = 0, at = 0;
    (void)first;
    (void)count;
    for (int64_t k = 0; k < a->size; k += CPU_REDUCE_BLOCK) {
        const int64_t n = a->size - k < CPU_REDUCE_BLOCK ? a->size - k : CPU_REDUCE_BLOCK;
        a->rows->reduce[code](&top, emit_axis_floats_at(c, base + k, n, memory), 1, n, n);
        if (k && !isnan(top) && !(a->flag ? top < best : top > best)) continue;
        best = top, block = k;
        if (isnan(top)) break;
    }
    const int64_t n = a->size - block < CPU_REDUCE_BLOCK ? a->size - block : CPU_REDUCE_BLOCK;
    const float *x = emit_axis_floats_at(c, base + block, n, memory);
    while (at < n - 1 && !(x[at] == best || isnan(x[at]))) at++;
    const double where = (double)(block + at);
    cpu_dense_store(c->y, a->out_type, outer, 1, &where, 1);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void emit_axis_run_tasks(const void *context, int64_t first, int64_t last, int worker) {
    const along_call *c = context;
    const along_args *a = c->a;
    const int64_t each = (a->inner + a->columns - 1) / a->columns;
    (void)worker;
    for (int64_t t = first; t < last; t++) {
        const int64_t column = t % each * a->columns;
        a->kernel(c, t / each, column, a->inner - column < a->columns ? a->inner - column : a->columns);
    }
}

static propane_status emit_axis_along_run(const cpu_run *run, const void *args, propane_error *err) {
    const along_args *a = args;
    atomic_llong wrong;
    atomic_init(&wrong, INT64_MAX);
    along_call c = {.a = a, .y = cpu_ref_at(run, a->y), .wrong = &wrong};
    if (a->x.buffer >= 0) c.x = cpu_ref_at(run, a->x);
    if (a->indices.buffer >= 0) c.indices = cpu_ref_at(run, a->indices);
    if (a->updates.buffer >= 0) {
        c.updates = cpu_ref_at(run, a->updates);
        c.wide = cpu_ref_at(run, a->wide);
    }
    const int64_t tasks = a->outer * ((a->inner + a->columns - 1) / a->columns);
    const int64_t longest = a->size > a->picks ? a->size : a->picks;
    cpu_dense_each(run, tasks, cpu_dense_part(longest * a->columns), emit_axis_run_tasks, &c);
    const long long at = atomic_load(&wrong);
    if (at == INT64_MAX) return PROPANE_OK;
    double given = 0;
    cpu_dense_load(&given, a->index_type, c.indices, at, 1, 1);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: index %lld is %.0f, but there are %lld elements", a->where, at,
                        given, (long long)a->size);
}

static propane_status emit_axis_read_axis(const mil_op *op, const mil_type *x, along_args *a, propane_error *err) {
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &axis, err));
    a->outer = a->inner = 1;
    for (int d = 0; d < axis; d++) a->outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) a->inner *= x->dim[d];
    a->size = x->dim[axis];
    return PROPANE_OK;
}

static double emit_axis_number_of(const mil_op *op, const char *param, double standard) {
    const mil_value *v = mil_in(op, param);
    return v && v->constant ? mil_const_f64(v->constant, 0) : standard;
}

static propane_status emit_axis_read_args(const mil_op *op, along_args *a, propane_error *err) {
    mil_gather g;
    switch (op->info->code) {
    case MIL_OP_gather_along_axis:
    case MIL_OP_scatter_along_axis: {
        const bool scatter = op->info->code == MIL_OP_scatter_along_axis;
        PROPANE_TRY(mil_along_read(op, scatter ? "data" : "x", &g, err));
        if (scatter) PROPANE_TRY(mil_scatter_mode_read(op, &a->mode, err));
        a->outer = g.outer, a->size = g.size, a->inner = g.inner, a->picks = g.picks;
        a->strict = mil_index_strict(op);
        a->kernel = scatter         ? emit_axis_scatter_columns
                    : a->inner == 1 ? emit_axis_gather_line
                                    : emit_axis_gather_columns;
        return PROPANE_OK;
    }
    case MIL_OP_one_hot:
        PROPANE_TRY(emit_axis_read_axis(op, &op->results[0]->type, a, err));
        a->on = emit_axis_number_of(op, "on_value", 1), a->off = emit_axis_number_of(op, "off_value", 0);
        a->kernel = a->inner == 1 ? emit_axis_one_hot_rows : emit_axis_one_hot_columns;
        return PROPANE_OK;
    case MIL_OP_cumsum:
        PROPANE_TRY(emit_axis_read_axis(op, &mil_in(op, "x")->type, a, err));
        PROPANE_TRY(mil_attr_bool(op, "exclusive", &a->flag, err));
        PROPANE_TRY(mil_attr_bool(op, "reverse", &a->reverse, err));
        a->kernel = a->inner == 1 ? emit_axis_cumsum_line : emit_axis_cumsum_columns;
        return PROPANE_OK;
    default:
        PROPANE_TRY(emit_axis_read_axis(op, &mil_in(op, "x")->type, a, err));
        a->flag = op->info->code == MIL_OP_reduce_argmin;
        a->kernel = a->inner == 1 && mil_dtype_is_float(mil_in(op, "x")->type.dtype) ? emit_axis_best_floats
                                                                                     : emit_axis_best_columns;
        return PROPANE_OK;
    }
}

static propane_status emit_along(planner *p, const mil_op *op, propane_error *err) {
    static const char *const names[][4] = {
        {"x", NULL}, {"indices", NULL}, {"x", "indices", NULL}, {"data", "indices", "updates", NULL}};
    const mil_opcode code = op->info->code;
    const int form = code == MIL_OP_one_hot              ? 1
                     : code == MIL_OP_gather_along_axis  ? 2
                     : code == MIL_OP_scatter_along_axis ? 3
                                                         : 0;
    along_args *a = ARENA_NEW(p->arena, along_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(emit_axis_read_args(op, a, err));
    PROPANE_TRY(cpu_emit_begin(p, op, names[form], &d, err));
    a->rows = &p->g.options.kernels->reduce;
    a->columns = a->inner < COLUMNS ? a->inner : COLUMNS;
    if (a->columns < 1) a->columns = 1;
    a->x.buffer = a->indices.buffer = a->updates.buffer = -1;
    if (form != 1) a->x = cpu_view_ref(&d.in[0]);
    if (form) a->indices = cpu_view_ref(&d.in[form > 1]);
    if (form == 3) a->updates = cpu_view_ref(&d.in[2]);
    a->dtype = d.in[0].dtype;
    a->index_type = d.in[form > 1].dtype;
    a->out_type = d.out[0].dtype;
    a->y = cpu_view_ref(&d.out[0]);
    a->where = cpu_emit_where(p, op);
    if (!a->where) return cpu_program_no_memory(err);
    if (form == 3) PROPANE_TRY(cpu_emit_scratch(p, cpu_view_count(&d.in[0]) * (int64_t)sizeof(double), &a->wide, err));
    return cpu_emit_end(p, op, &d, emit_axis_along_run, a, op->info->name, 0, err);
}

static bool emit_axis_takes_along(const mil_op *op) {
    return mil_dtype_get(op->results[0]->type.dtype)->bits >= 8 && op->operands[0].values[0]->type.rank > 0;
}

const cpu_emitter cpu_emitter_along = {.emit = emit_along, .takes = emit_axis_takes_along};
