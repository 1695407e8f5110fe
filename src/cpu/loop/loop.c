/* SPDX-License-Identifier: MIT
 * Runs tile programs. A task runs consecutive tiles. For each tile, loads point registers to memory or convert elements
 * into scratch, the other instructions compute, and results are stored. Each pass over a large tile of columns is
 * divided into tasks, one per part of the fold. The next pass joins the parts' reduced values. Which tiles form a task
 * depends on the number of threads, but what a tile or a part computes does not.
 */
#include "cpu/loop/loop.h"

#include "core/base/int_math.h"
#include "cpu/loop/loop_box.h"

/* ---- one tile ---------------------------------------------------------------------------------------------------- */

typedef struct loop_state {
    const loop_program *t;
    const cpu_run *run;
    float *scratch;
    int64_t outer[LOOP_MAX_RANK]; /* first index of the tile */
    int64_t inner_at, fold_at;
    int64_t rows, width, fold, chunk; /* this tile's extents; fold is the number of elements in the chunk */
    int64_t lines, length;            /* number and length of a FULL register's lines */
    int64_t reduced;                  /* floats in a REDUCED register */
    const float *in[LOOP_MAX_REGISTERS];
    float *out[LOOP_MAX_REGISTERS];
    int64_t step[LOOP_MAX_REGISTERS]; /* FULL: from one line to the next */
    struct {
        unsigned char *at; /* this tile's element at index 0 of the fold */
        int64_t step;
        bool serves; /* can be used as a register in place */
    } view[LOOP_MAX_REGISTERS];
    int64_t part_at;                 /* where the part of the fold begins */
    int64_t known_rows, known_width; /* of the tile for which `serves` and `step` were determined */
} loop_state;

static unsigned char *loop_view_at(const loop_state *s, int view) {
    const loop_view *v = &s->t->views[view];
    return s->view[view].at + (s->t->fold_rank ? s->fold_at * v->fold[0] * v->element : 0);
}

static void loop_view_box(const loop_state *s, const loop_view *v, loop_class extent, loop_box *b) {
    const loop_program *t = s->t;
    int64_t dim[LOOP_MAX_RANK + 2], stride[LOOP_MAX_RANK + 2];
    int n = 0;
    if (t->outer_rank) {
        dim[n] = s->rows;
        stride[n++] = v->outer[t->outer_rank - 1];
    }
    if (extent == LOOP_FULL || extent == LOOP_LINE)
        for (int d = 0; d < t->fold_rank; d++) {
            dim[n] = d ? t->fold[d] : s->chunk;
            stride[n++] = v->fold[d];
        }
    if (extent != LOOP_LINE) {
        dim[n] = s->width;
        stride[n++] = v->inner;
    }
    loop_box_collapse(b, n, dim, stride);
}

/* Returns true if the tensor's own memory can be used as a register. *step is then the distance between lines. */
static bool loop_view_serves(const loop_state *s, const loop_view *v, int64_t *step) {
    loop_box b;
    if (v->dtype != MIL_fp32 || v->pick) return false;
    loop_view_box(s, v, (loop_class)v->extent, &b);
    *step = s->length;
    if (b.rank == 1) return b.stride[0] == 1 || b.count == 1;
    *step = b.stride[0];
    return v->extent == LOOP_FULL && b.rank == 2 && b.stride[1] == 1 && b.dim[1] == s->length && b.dim[0] == s->lines;
}

/* Loads picked lines with their signs. */
static void loop_load_picked(loop_state *s, const loop_instr *i) {
    const loop_view *v = &s->t->views[i->view];
    const int last = s->t->outer_rank - 1;
    const cpu_elementwise_kernels *map = s->t->map;
    float *to = s->out[i->dst];
    const cpu_signed_row *first = &v->pick[s->outer[last]];
    bool as_they_lie = v->dtype == MIL_fp32 && v->inner == 1;
    for (int64_t r = 0; r < s->rows && as_they_lie; r++)
        as_they_lie = first[r].line == first->line + r && first[r].sign > 0;
    if (as_they_lie) {
        s->in[i->dst] = (const float *)(const void *)s->view[i->view].at + first->line * v->outer[last];
        s->step[i->dst] = v->outer[last];
        return;
    }
    for (int64_t r = 0; r < s->rows; r++, to += s->length) {
        const cpu_signed_row *p = &v->pick[s->outer[last] + r];
        const unsigned char *from = s->view[i->view].at + p->line * v->outer[last] * v->element;
        cpu_elementwise_unary sign = map->unary[p->sign < 0 ? CPU_ELEMENTWISE_neg : CPU_ELEMENTWISE_copy];
        if (v->dtype == MIL_fp32 && v->inner == 1) {
            sign(to, (const float *)(const void *)from, s->length, 0, 0);
            continue;
        }
        loop_load_line(to, from, v->dtype, s->length, v->inner);
        if (p->sign < 0) sign(to, to, s->length, 0, 0);
    }
}

static void loop_run_load(loop_state *s, const loop_instr *i) {
    const loop_view *v = &s->t->views[i->view];
    if (v->pick) {
        loop_load_picked(s, i);
        return;
    }
    const unsigned char *source = loop_view_at(s, i->view);
    if (i->extent == LOOP_SCALAR) {
        loop_load_line(s->out[i->dst], source, v->dtype, 1, 1);
        return;
    }
    if (s->view[i->view].serves) {
        s->in[i->dst] = (const float *)(const void *)source;
        s->step[i->dst] = s->view[i->view].step;
        return;
    }
    loop_box b;
    loop_view_box(s, v, i->extent, &b);
    loop_box_load(s->out[i->dst], source, v->dtype, v->element, &b);
}

static void loop_run_store(loop_state *s, const loop_instr *i) {
    const loop_view *v = &s->t->views[i->view];
    int reg = i->src[0];
    const float *source = s->in[reg];
    unsigned char *target = loop_view_at(s, i->view);
    if ((const unsigned char *)source == target) return; /* the value was computed in its target */
    if (i->extent == LOOP_FULL && s->step[reg] != s->length &&
        s->lines > 1) { /* pack the lines in the register's slot */
        float *close = s->scratch + s->t->registers[reg].slot;
        for (int64_t l = 0; l < s->lines; l++)
            loop_copy_line(close + l * s->length, source + l * s->step[reg], s->length);
        source = close;
    }
    loop_box b;
    loop_view_box(s, v, i->extent, &b);
    loop_box_store(target, v->dtype, v->element, &b, source);
}

/* Decides where a register is computed: in its slot, or directly in the memory where it would be stored. */
static void loop_aim(loop_state *s, int reg) {
    const loop_register *r = &s->t->registers[reg];
    bool direct = r->direct >= 0 && s->view[r->direct].serves;
    float *at = direct ? (float *)(void *)loop_view_at(s, r->direct) : s->scratch + r->slot;
    s->out[reg] = at;
    s->in[reg] = at;
    s->step[reg] = direct ? s->view[r->direct].step : s->length;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

/* An operand of an instruction that processes the lines of FULL registers. For each line, it is an array or one
 * number. */
typedef struct operand {
    const float *at;
    int64_t step;
    bool array;
} operand;

static operand loop_operand_of(const loop_state *s, int reg) {
    switch (s->t->registers[reg].extent) {
    case LOOP_FULL: return (operand){s->in[reg], s->step[reg], true};
    case LOOP_REDUCED: return (operand){s->in[reg], !s->t->columns, s->t->columns};
    case LOOP_LINE: return (operand){s->in[reg], 1, false};
    default: return (operand){s->in[reg], 0, false};
    }
}

/* Returns true if the lines of all operands are contiguous, so that they form a single line. */
static bool loop_in_one(const loop_state *s, const operand *o, int count) {
    for (int k = 0; k < count; k++)
        if (o[k].step != (o[k].array ? s->length : 0)) return false;
    return true;
}

static void loop_run_binary(loop_state *s, const loop_instr *i) {
    const loop_program *t = s->t;
    const cpu_elementwise_binary *f = t->map->binary[i->code - CPU_ELEMENTWISE_UNARY_END];
    float *z = s->out[i->dst];
    if (i->extent != LOOP_FULL) {
        bool x_one = t->registers[i->src[0]].extent == LOOP_SCALAR,
             y_one = t->registers[i->src[1]].extent == LOOP_SCALAR;
        f[x_one   ? CPU_ELEMENTWISE_SV
          : y_one ? CPU_ELEMENTWISE_VS
                  : CPU_ELEMENTWISE_VV](z, s->in[i->src[0]], s->in[i->src[1]], s->reduced);
        return;
    }
    const operand o[3] = {loop_operand_of(s, i->src[0]), loop_operand_of(s, i->src[1]), {z, s->step[i->dst], true}};
    cpu_elementwise_binary line = f[!o[0].array   ? CPU_ELEMENTWISE_SV
                                    : !o[1].array ? CPU_ELEMENTWISE_VS
                                                  : CPU_ELEMENTWISE_VV];
    if (s->lines == 1 || loop_in_one(s, o, 3)) {
        line(z, o[0].at, o[1].at, s->lines * s->length);
        return;
    }
    for (int64_t r = 0; r < s->lines; r++)
        line(z + r * o[2].step, o[0].at + r * o[0].step, o[1].at + r * o[1].step, s->length);
}

static void loop_run_unary(loop_state *s, const loop_instr *i) {
    cpu_elementwise_unary f = s->t->map->unary[i->code];
    float *y = s->out[i->dst];
    const float *x = s->in[i->src[0]];
    if (i->extent != LOOP_FULL) {
        f(y, x, i->extent == LOOP_REDUCED ? s->reduced : 1, i->p, i->q);
        return;
    }
    int64_t to = s->step[i->dst], from = s->step[i->src[0]];
    if (s->lines == 1 || (to == s->length && from == s->length)) {
        f(y, x, s->lines * s->length, i->p, i->q);
        return;
    }
    for (int64_t r = 0; r < s->lines; r++, y += to, x += from) f(y, x, s->length, i->p, i->q);
}

static void loop_run_spread(loop_state *s, const loop_instr *i) {
    const cpu_elementwise_kernels *map = s->t->map;
    float *z = s->out[i->dst];
    const operand x = loop_operand_of(s, i->src[0]);
    if (i->extent != LOOP_FULL) {
        map->unary[CPU_ELEMENTWISE_fill](z, x.at, s->reduced, x.at[0], 0);
        return;
    }
    for (int64_t r = 0; r < s->lines; r++, z += s->step[i->dst])
        if (x.array)
            loop_copy_line(z, x.at + r * x.step, s->length);
        else
            map->unary[CPU_ELEMENTWISE_fill](z, x.at, s->length, x.at[r * x.step], 0);
}

static void loop_run_select(loop_state *s, const loop_instr *i) {
    operand o[4] = {loop_operand_of(s, i->src[0]), loop_operand_of(s, i->src[1]), loop_operand_of(s, i->src[2]), {0}};
    float *z = s->out[i->dst];
    const bool full = i->extent == LOOP_FULL;
    o[3] = (operand){z, s->step[i->dst], true};
    for (int k = 0; !full && k < 3; k++) o[k].array = s->t->registers[i->src[k]].extent != LOOP_SCALAR;
    bool one = !full || s->lines == 1 || loop_in_one(s, o, 4);
    int64_t lines = one ? 1 : s->lines, length = !full ? s->reduced : one ? s->lines * s->length : s->length;
    for (int64_t r = 0; r < lines; r++)
        s->t->map->select(z + r * o[3].step, o[0].at + r * o[0].step, o[0].array, o[1].at + r * o[1].step, o[1].array,
                          o[2].at + r * o[2].step, o[2].array, length);
}

/* Combines the reduced values in y with those in `more`. */
static void loop_join(const loop_state *s, cpu_reduce_code code, float *y, const float *more) {
    static const cpu_elementwise_code joins[CPU_REDUCE_COUNT] = {CPU_ELEMENTWISE_add, CPU_ELEMENTWISE_add,
                                                                 CPU_ELEMENTWISE_add, CPU_ELEMENTWISE_max,
                                                                 CPU_ELEMENTWISE_min, CPU_ELEMENTWISE_mul};
    s->t->map->binary[joins[code] - CPU_ELEMENTWISE_UNARY_END][CPU_ELEMENTWISE_VV](y, y, more, s->reduced);
}

/* Computes a b + c or c - a b; c may be one number for all. */
static void loop_run_fma(loop_state *s, const loop_instr *i) {
    const cpu_elementwise_fma f = s->t->map->fma[i->code];
    float *z = s->out[i->dst];
    const operand o[4] = {loop_operand_of(s, i->src[0]),
                          loop_operand_of(s, i->src[1]),
                          loop_operand_of(s, i->src[2]),
                          {z, s->step[i->dst], true}};
    const bool one = s->lines == 1 || loop_in_one(s, o, 4);
    const int64_t lines = one ? 1 : s->lines, length = one ? s->lines * s->length : s->length;
    for (int64_t r = 0; r < lines; r++)
        f(z + r * o[3].step, o[0].at + r * o[0].step, o[1].at + r * o[1].step, o[1].array, o[2].at + r * o[2].step,
          o[2].array, length);
}

static void loop_reduce_products(const loop_state *s, float *y, int a, int b) {
    const cpu_reduce_kernels *f = s->t->table;
    if (s->t->columns)
        f->dot_strided(y, s->in[a], s->in[b], s->lines, s->length, s->step[a], s->step[b]);
    else
        for (int64_t r = 0; r < s->lines; r++)
            y[r] = f->dot(s->in[a] + r * s->step[a], s->in[b] + r * s->step[b], s->length);
}

static void loop_run_reduce(loop_state *s, const loop_instr *i) {
    const loop_program *t = s->t;
    const float *x = s->in[i->src[0]];
    bool more = s->fold_at > s->part_at; /* later chunks are reduced to a second place and then joined */
    float *y = s->out[i->dst] + (more ? t->rows * t->width : 0);
    if (i->src[1] >= 0)
        loop_reduce_products(s, y, i->src[0], i->src[1]);
    else if (t->columns)
        t->table->reduce_strided[i->code](y, x, s->lines, s->length, s->step[i->src[0]]);
    else
        t->table->reduce[i->code](y, x, s->lines, s->length, s->step[i->src[0]]);
    if (more) loop_join(s, i->code, s->out[i->dst], y);
}

static void loop_run_softmax(loop_state *s, const loop_instr *i) {
    const cpu_reduce_kernels *f = s->t->table;
    (s->t->columns ? f->softmax_strided : f->softmax)(s->out[i->dst], s->in[i->src[0]], s->lines, s->length,
                                                      s->step[i->dst], s->step[i->src[0]]);
}

static void loop_run_log_sum_exp(loop_state *s, const loop_instr *i) {
    const cpu_reduce_kernels *f = s->t->table;
    (s->t->columns ? f->log_sum_exp_strided : f->log_sum_exp)(s->out[i->dst], s->in[i->src[0]], s->lines, s->length,
                                                              s->step[i->src[0]]);
}

static void loop_run_instr(loop_state *s, const loop_instr *i) {
    if (i->kind != LOOP_STORE) loop_aim(s, i->dst);
    switch ((loop_kind)i->kind) {
    case LOOP_LOAD: loop_run_load(s, i); break;
    case LOOP_STORE: loop_run_store(s, i); break;
    case LOOP_UNARY: loop_run_unary(s, i); break;
    case LOOP_BINARY: loop_run_binary(s, i); break;
    case LOOP_SPREAD: loop_run_spread(s, i); break;
    case LOOP_SELECT: loop_run_select(s, i); break;
    case LOOP_FMA: loop_run_fma(s, i); break;
    case LOOP_REDUCE: loop_run_reduce(s, i); break;
    case LOOP_LOG_SUM_EXP: loop_run_log_sum_exp(s, i); break;
    case LOOP_SOFTMAX: loop_run_softmax(s, i); break;
    }
}

static void loop_set_extents(loop_state *s) {
    const loop_program *t = s->t;
    const int last = t->outer_rank - 1;
    s->width = t->inner - s->inner_at < t->width ? t->inner - s->inner_at : t->width;
    s->rows = 1;
    if (last >= 0) s->rows = t->outer[last] - s->outer[last] < t->rows ? t->outer[last] - s->outer[last] : t->rows;
    s->reduced = s->rows * s->width;
}

static void loop_first_tile(loop_state *s, int64_t tile) {
    const loop_program *t = s->t;
    int64_t rest = tile / t->width_chunks;
    s->inner_at = tile % t->width_chunks * t->width;
    for (int d = t->outer_rank - 1; d >= 0; d--) {
        int64_t extent = d == t->outer_rank - 1 ? t->row_chunks : t->outer[d];
        s->outer[d] = rest % extent * (d == t->outer_rank - 1 ? t->rows : 1);
        rest /= extent;
    }
    loop_set_extents(s);
}

/* Steps to the next tile without divisions. */
static void loop_next_tile(loop_state *s) {
    const loop_program *t = s->t;
    s->inner_at += t->width;
    if (s->inner_at >= t->inner) {
        s->inner_at = 0;
        for (int d = t->outer_rank - 1; d >= 0; d--) {
            s->outer[d] += d == t->outer_rank - 1 ? t->rows : 1;
            if (s->outer[d] < t->outer[d]) break;
            s->outer[d] = 0;
        }
    }
    loop_set_extents(s);
}

static void loop_set_chunk(loop_state *s, int64_t at, int64_t chunk) {
    const loop_program *t = s->t;
    s->fold_at = at;
    s->chunk = s->fold = chunk;
    for (int d = 1; d < t->fold_rank; d++) s->fold *= t->fold[d];
    s->lines = t->columns ? s->fold : s->rows;
    s->length = t->columns ? s->width : s->fold * s->width;
}

/* Finds the address of the tile in each tensor. Which views serve as registers is decided for full chunks, and also
 * holds for a smaller last chunk. */
static void loop_find_views(loop_state *s) {
    const loop_program *t = s->t;
    const bool known = s->rows == s->known_rows && s->width == s->known_width;
    loop_set_chunk(s, 0, t->chunk);
    for (int i = 0; i < t->view_count; i++) {
        const loop_view *v = &t->views[i];
        int64_t offset = s->inner_at * v->inner;
        for (int d = 0; d < t->outer_rank - (v->pick != NULL); d++) offset += s->outer[d] * v->outer[d];
        s->view[i].at = (unsigned char *)cpu_ref_at(s->run, v->at) + offset * v->element;
        if (!known) s->view[i].serves = loop_view_serves(s, v, &s->view[i].step);
    }
    s->known_rows = s->rows;
    s->known_width = s->width;
}

static void loop_run_once(loop_state *s, const loop_pass *pass) {
    const loop_program *t = s->t;
    loop_set_chunk(s, 0, t->fold_rank ? t->fold[0] : 1);
    for (int i = pass->once; i < pass->chunk; i++) loop_run_instr(s, &t->instrs[i]);
}

static void loop_run_chunks(loop_state *s, const loop_pass *pass, int64_t begin, int64_t end) {
    const loop_program *t = s->t;
    s->part_at = begin;
    for (int64_t at = begin; at < end && pass->chunk < pass->end; at += t->chunk) {
        loop_set_chunk(s, at, end - at < t->chunk ? end - at : t->chunk);
        for (int i = pass->chunk; i < pass->end; i++) loop_run_instr(s, &t->instrs[i]);
    }
}

static void loop_one(loop_state *s) {
    const loop_program *t = s->t;
    loop_find_views(s);
    for (int p = 0; p < t->pass_count; p++) {
        loop_run_once(s, &t->passes[p]);
        loop_run_chunks(s, &t->passes[p], 0, t->fold_rank ? t->fold[0] : 1);
    }
}

typedef struct loop_context {
    const cpu_run *run;
    const loop_program *t;
    int64_t tile; /* the tile that is divided into parts */
    int pass;
} loop_context;

static void loop_begin_task(loop_state *s, const loop_context *c, int worker) {
    const loop_program *t = c->t;
    s->t = t;
    s->run = c->run;
    s->known_rows = s->known_width = -1;
    s->scratch = (float *)(void *)((unsigned char *)cpu_ref_at(c->run, t->scratch) + worker * t->scratch_bytes);
    for (int r = 0; r < t->register_count; r++)
        if (t->registers[r].slot < 0) {
            s->in[r] = &t->registers[r].value;
            s->out[r] = NULL;
        }
}

static void loop_task(void *context, int task, int worker) {
    const loop_context *c = context;
    const loop_program *t = c->t;
    loop_state s;
    loop_begin_task(&s, c, worker);
    int64_t first = (int64_t)task * t->tiles_a_task, last = first + t->tiles_a_task;
    if (last > t->tiles) last = t->tiles;
    loop_first_tile(&s, first);
    for (int64_t i = first; i < last; i++, loop_next_tile(&s)) loop_one(&s);
}

/* ---- a tile in parts --------------------------------------------------------------------------------------------- */

static float *loop_partial_of(const loop_state *s, const loop_instr *i, int64_t part) {
    const loop_program *t = s->t;
    return (float *)cpu_ref_at(s->run, t->partial) + (part * t->reductions + i->place) * t->width;
}

/* Joins the values that the parts reduced in an earlier pass. */
static void loop_join_parts(loop_state *s, const loop_pass *pass) {
    const loop_program *t = s->t;
    for (const loop_instr *i = &t->instrs[pass->chunk]; i < &t->instrs[pass->end]; i++) {
        if (i->kind != LOOP_REDUCE) continue;
        loop_aim(s, i->dst);
        loop_copy_line(s->out[i->dst], loop_partial_of(s, i, 0), s->reduced);
        for (int64_t p = 1; p < t->parts; p++) loop_join(s, i->code, s->out[i->dst], loop_partial_of(s, i, p));
    }
}

/* Runs a pass over one part. Every other pass processes the parts in reverse order, starting where the previous one
 * ended, because that data is still cached. */
static void loop_part_task(void *context, int task, int worker) {
    const loop_context *c = context;
    const loop_program *t = c->t;
    const loop_pass *pass = &t->passes[c->pass];
    const int64_t part = c->pass % 2 ? t->parts - 1 - task : task;
    loop_state s;
    loop_begin_task(&s, c, worker);
    loop_first_tile(&s, c->tile);
    loop_find_views(&s);
    for (int p = 0; p <= c->pass; p++) {
        loop_run_once(&s, &t->passes[p]);
        if (p < c->pass) loop_join_parts(&s, &t->passes[p]);
    }
    const int64_t begin = part * t->part_length, end = begin + t->part_length;
    loop_run_chunks(&s, pass, begin, end < t->fold[0] ? end : t->fold[0]);
    for (const loop_instr *i = &t->instrs[pass->chunk]; i < &t->instrs[pass->end]; i++)
        if (i->kind == LOOP_REDUCE) loop_copy_line(loop_partial_of(&s, i, part), s.in[i->dst], s.reduced);
}

static void loop_run_parts(loop_context *c) {
    const loop_program *t = c->t;
    for (c->tile = 0; c->tile < t->tiles; c->tile++)
        for (c->pass = 0; c->pass < t->pass_count; c->pass++) {
            const loop_pass *pass = &t->passes[c->pass];
            if (pass->chunk < pass->end)
                cpu_run_parallel(c->run, loop_part_task, c, (int)t->parts);
            else if (pass->once < pass->chunk) /* stores of reduced values */
                cpu_run_parallel(c->run, loop_part_task, c, 1);
        }
}

propane_status cpu_loop_run(const cpu_run *run, const void *args, propane_error *err) {
    (void)err;
    loop_context c = {.run = run, .t = args};
    if (c.t->parts > 1) {
        loop_run_parts(&c);
        return PROPANE_OK;
    }
    int64_t tasks = div_up(c.t->tiles, c.t->tiles_a_task);
    cpu_run_parallel(run, loop_task, &c, (int)tasks);
    return PROPANE_OK;
}
