/* SPDX-License-Identifier: MIT
 * Emits operations that copy elements from positions that are specific to the operation: pad in all its modes (if plain
 * copies do not suffice), reverse_sequence, band_part, fill_like, sliding_windows. A task writes some lines of the
 * result.
 */
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/ops/emitters.h"

typedef struct spread_args spread_args;
/* Writes line `line` of the result to y. */
typedef void (*spread_kernel)(const spread_args *a, const unsigned char *x, const double *lengths, int64_t line,
                              unsigned char *y);

struct spread_args {
    spread_kernel kernel;
    int rank, element;
    int64_t lines, width, from_width, dim[MIL_MAX_RANK]; /* width: elements per line; dim: of the result */
    int64_t *from[MIL_MAX_RANK];  /* pad: source index for each index of a dimension; -1 if outside */
    int64_t stride[MIL_MAX_RANK]; /* strides of x */
    int64_t lower, upper;         /* band_part */
    int seq, batch;
    bool has_x;
    unsigned char value[8]; /* for elements outside */
    mil_dtype lengths_type;
    cpu_ref x, lengths, y, scratch;
    const char *where;
};

static void emit_pad_fill_line(unsigned char *y, const unsigned char *value, int element, int64_t count) {
    if (count <= 0) return;
    memcpy(y, value, (size_t)element);
    for (int64_t done = 1; done < count; done *= 2) {
        const int64_t more = count - done < done ? count - done : done;
        memcpy(y + done * element, y, (size_t)(more * element));
    }
}

static void emit_pad_line(const spread_args *a, const unsigned char *x, const double *lengths, int64_t line,
                          unsigned char *y) {
    const int64_t *last = a->from[a->rank - 1];
    const int64_t element = a->element;
    int64_t base = 0, rest = line;
    (void)lengths;
    for (int d = a->rank - 2; d >= 0; d--) {
        const int64_t at = a->from[d][rest % a->dim[d]];
        if (at < 0) {
            emit_pad_fill_line(y, a->value, a->element, a->width);
            return;
        }
        base += at * a->stride[d];
        rest /= a->dim[d];
    }
    for (int64_t i = 0, run; i < a->width; i += run) { /* in runs of neighbours */
        run = 1;
        if (last[i] < 0) {
            memcpy(y + i * element, a->value, (size_t)element);
            continue;
        }
        while (i + run < a->width && last[i + run] == last[i] + run) run++;
        memcpy(y + i * element, x + (base + last[i]) * element, (size_t)(run * element));
    }
}

/* Writes a line of reverse_sequence. A line consists of the dimensions after the later of the two axes. */
static void emit_pad_sequence_line(const spread_args *a, const unsigned char *x, const double *lengths, int64_t line,
                                   unsigned char *y) {
    int64_t at[MIL_MAX_RANK] = {0}, rest = line;
    const int last = a->seq > a->batch ? a->seq : a->batch;
    for (int d = last; d >= 0; d--) {
        at[d] = rest % a->dim[d];
        rest /= a->dim[d];
    }
    const int64_t length = (int64_t)lengths[at[a->batch]];
    const int64_t from = at[a->seq] < length ? length - 1 - at[a->seq] : at[a->seq];
    const size_t bytes = (size_t)(a->width * a->element);
    memcpy(y, x + (line * a->width + (from - at[a->seq]) * a->stride[a->seq]) * a->element, bytes);
}

static void emit_pad_band_line(const spread_args *a, const unsigned char *x, const double *lengths, int64_t line,
                               unsigned char *y) {
    const int64_t row = line % a->dim[a->rank - 2], element = a->element;
    int64_t first = a->lower < 0 ? 0 : row - a->lower, last = a->upper < 0 ? a->width : row + a->upper + 1;
    (void)lengths;
    if (first < 0) first = 0;
    if (last > a->width) last = a->width;
    if (first > a->width) first = a->width;
    if (last < first) last = first;
    memset(y, 0, (size_t)(first * element));
    memcpy(y + first * element, x + (line * a->width + first) * element, (size_t)((last - first) * element));
    memset(y + last * element, 0, (size_t)((a->width - last) * element));
}

static void emit_pad_value_line(const spread_args *a, const unsigned char *x, const double *lengths, int64_t line,
                                unsigned char *y) {
    (void)x;
    (void)lengths;
    (void)line;
    emit_pad_fill_line(y, a->value, a->element, a->width);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct spread_call {
    const spread_args *a;
    const unsigned char *x;
    const double *lengths;
    unsigned char *y;
} spread_call;

static void emit_pad_spread_lines(const void *context, int64_t first, int64_t last, int worker) {
    const spread_call *c = context;
    (void)worker;
    for (int64_t line = first; line < last; line++)
        c->a->kernel(c->a, c->x, c->lengths, line, c->y + line * c->a->width * c->a->element);
}

static propane_status emit_pad_read_lengths(const cpu_run *run, const spread_args *a, double *lengths,
                                            propane_error *err) {
    cpu_dense_load(lengths, a->lengths_type, cpu_ref_at(run, a->lengths), 0, 1, a->dim[a->batch]);
    for (int64_t b = 0; b < a->dim[a->batch]; b++)
        if (lengths[b] < 0 || lengths[b] > (double)a->dim[a->seq])
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: lengths[%lld] is %.0f, but dimension %d of x has %lld elements", a->where,
                                (long long)b, lengths[b], a->seq, (long long)a->dim[a->seq]);
    return PROPANE_OK;
}

static propane_status emit_pad_spread_run(const cpu_run *run, const void *args, propane_error *err) {
    const spread_args *a = args;
    spread_call c = {.a = a, .y = cpu_ref_at(run, a->y)};
    if (a->has_x) c.x = cpu_ref_at(run, a->x);
    if (a->kernel == emit_pad_sequence_line) {
        double *lengths = cpu_ref_at(run, a->scratch);
        PROPANE_TRY(emit_pad_read_lengths(run, a, lengths, err));
        c.lengths = lengths;
    }
    cpu_dense_each(run, a->lines, cpu_dense_part(a->width), emit_pad_spread_lines, &c);
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int64_t emit_pad_padded_index(const mil_pad *pad, int64_t at, int64_t size) {
    if (at >= 0 && at < size) return at;
    if (pad->mode == MIL_PAD_CONSTANT) return -1;
    if (pad->mode == MIL_PAD_REPLICATE) return at < 0 ? 0 : size - 1;
    return at < 0 ? -at : 2 * (size - 1) - at;
}

static propane_status emit_pad_plan_pad(planner *p, const mil_op *op, spread_args *a, propane_error *err) {
    const mil_type *x = &mil_in(op, "x")->type;
    mil_pad pad;
    PROPANE_TRY(mil_pad_read(op, &pad, err));
    for (int d = 0; d < a->rank; d++) {
        a->from[d] = ARENA_ARRAY(p->arena, a->dim[d], int64_t);
        if (!a->from[d]) return cpu_program_no_memory(err);
        for (int64_t i = 0; i < a->dim[d]; i++)
            a->from[d][i] = emit_pad_padded_index(&pad, i - pad.before[d], x->dim[d]);
    }
    mil_pack_f64(a->value, x->dtype, &pad.value, 1);
    a->kernel = emit_pad_line;
    return PROPANE_OK;
}

static propane_status emit_pad_plan_kernel(planner *p, const mil_op *op, spread_args *a, propane_error *err) {
    switch (op->info->code) {
    case MIL_OP_pad: return emit_pad_plan_pad(p, op, a, err);
    case MIL_OP_band_part:
        a->kernel = emit_pad_band_line;
        PROPANE_TRY(mil_attr_int(op, "lower", &a->lower, err));
        return mil_attr_int(op, "upper", &a->upper, err);
    case MIL_OP_reverse_sequence:
        a->kernel = emit_pad_sequence_line;
        PROPANE_TRY(mil_attr_axis(op, "seq_axis", a->rank, &a->seq, err));
        PROPANE_TRY(mil_attr_axis(op, "batch_axis", a->rank, &a->batch, err));
        a->width = 1;
        for (int d = (a->seq > a->batch ? a->seq : a->batch) + 1; d < a->rank; d++) a->width *= a->dim[d];
        return PROPANE_OK;
    default: { /* fill_like */
        const mil_value *v = mil_in(op, "value");
        const double value = v ? mil_const_f64(v->constant, 0) : 0.0;
        mil_pack_f64(a->value, op->results[0]->type.dtype, &value, 1);
        a->kernel = emit_pad_value_line;
        return PROPANE_OK;
    }
    }
}

propane_status cpu_emit_spread(planner *p, const mil_op *op, propane_error *err) {
    static const char *const x_alone[] = {"x", NULL}, *const sequences[] = {"x", "lengths", NULL},
                             *const none[] = {NULL};
    const mil_type *y = &op->results[0]->type;
    const mil_opcode code = op->info->code;
    spread_args *a = ARENA_NEW(p->arena, spread_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    a->has_x = code != MIL_OP_fill_like;
    PROPANE_TRY(cpu_emit_begin(p, op,
                               code == MIL_OP_reverse_sequence ? sequences
                               : a->has_x                      ? x_alone
                                                               : none,
                               &d, err));
    a->rank = y->rank;
    a->element = cpu_view_dtype_bytes(y->dtype);
    memcpy(a->dim, y->dim, sizeof a->dim);
    a->width = y->rank ? y->dim[y->rank - 1] : 1;
    if (a->has_x) {
        a->x = cpu_view_ref(&d.in[0]);
        mil_strides(&mil_in(op, "x")->type, a->stride);
    }
    a->y = cpu_view_ref(&d.out[0]);
    PROPANE_TRY(emit_pad_plan_kernel(p, op, a, err));
    a->lines = a->width ? mil_type_count(y) / a->width : 0;
    a->where = cpu_emit_where(p, op);
    if (!a->where) return cpu_program_no_memory(err);
    if (code == MIL_OP_reverse_sequence) {
        a->lengths = cpu_view_ref(&d.in[1]);
        a->lengths_type = d.in[1].dtype;
        PROPANE_TRY(cpu_emit_scratch(p, a->dim[a->batch] * (int64_t)sizeof(double), &a->scratch, err));
    }
    return cpu_emit_end(p, op, &d, emit_pad_spread_run, a, op->info->name, 0, err);
}

static bool emit_pad_takes_spread(const mil_op *op) {
    const mil_value *value = op->info->code == MIL_OP_fill_like ? mil_in(op, "value") : NULL;
    if (value && !(value->constant && value->constant->data)) return false;
    return mil_dtype_get(op->results[0]->type.dtype)->bits >= 8;
}

const cpu_emitter cpu_emitter_spread = {.emit = cpu_emit_spread, .takes = emit_pad_takes_spread};

/* ---- sliding_windows: x read with overlapping strides ------------------------------------------------------------ */

static propane_status emit_windows(planner *p, const mil_op *op, propane_error *err) {
    cpu_view x, from, y;
    mil_windows w;
    PROPANE_TRY(mil_windows_read(op, &w, err));
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_emit_result(p, op->results[0], &y, err));
    from = cpu_view_insert(&x, w.axis + 1);
    from.dim[w.axis] = w.count;
    from.stride[w.axis] = x.stride[w.axis] * w.stride;
    from.dim[w.axis + 1] = w.size;
    from.stride[w.axis + 1] = x.stride[w.axis];
    return cpu_emit_copy(p, op->results[0], &from, &y, err);
}

static bool emit_pad_takes_windows(const mil_op *op) {
    return mil_dtype_get(op->results[0]->type.dtype)->bits >= 8 && mil_in(op, "x")->type.rank < MIL_MAX_RANK;
}

const cpu_emitter cpu_emitter_windows = {.emit = emit_windows, .takes = emit_pad_takes_windows};
