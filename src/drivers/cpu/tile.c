/* SPDX-License-Identifier: MIT
 * Runs tile programs. A task is a run of tiles; a tile is: point the loads at memory (or convert into scratch), run the
 * instructions, store. Which tiles make a task depends on the number of threads, what a tile computes does not.
 */
#include "drivers/cpu/tile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/half.h"

/* ---- boxes in memory ------------------------------------------------------------------------------------------------ */

bool cpu_tile_dtype(mil_dtype dtype) {
    switch (dtype) {
    case MIL_fp32:
    case MIL_fp16:
    case MIL_bool:
    case MIL_int8:
    case MIL_uint8:
    case MIL_int16:
    case MIL_uint16:
    case MIL_int32: return true;
    default: return false;
    }
}

#define TILE_LOAD_LOOP(type)                                                                                           \
    do {                                                                                                               \
        const type *s = source;                                                                                        \
        for (int64_t i = 0; i < count; i++) target[i] = (float)s[i * stride];                                          \
    } while (0)

/* Lines of a box are short, and a call for each would cost more than the copy. */
static inline void copy_line(float *restrict target, const float *restrict source, int64_t count) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) memcpy(target + i, source + i, 16 * sizeof *target);
    for (; i < count; i++) target[i] = source[i];
}

/* A box of fp32 rows, one side of it dense; false: it is not one. */
static bool copy_rows(float *target, int64_t target_step, const float *source, int64_t source_step, int64_t rows,
                      int64_t width) {
    enum { AHEAD = 8 };
    if (width < 8 || width > 1024) return false;
    for (int64_t r = 0; r < rows; r++, target += target_step, source += source_step) {
        if (r + AHEAD < rows) /* rows apart by kilobytes: nothing but this fetches them in time */
            for (int64_t i = 0; i < width; i += 16) {
                __builtin_prefetch(source + AHEAD * source_step + i);
                __builtin_prefetch(target + AHEAD * target_step + i, 1);
            }
        copy_line(target, source, width);
    }
    return true;
}

/* Rows that repeat one number each: a weight beside its channel's positions. */
static void fill_rows(float *target, const float *source, int64_t step, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++, target += width, source += step) {
        float line[16];
        for (int i = 0; i < 16; i++) line[i] = *source;
        int64_t i = 0;
        for (; i + 16 <= width; i += 16) memcpy(target + i, line, sizeof line);
        for (; i < width; i++) target[i] = *source;
    }
}

/* `count` elements, `stride` apart. */
static void load_line(float *target, const void *source, mil_dtype dtype, int64_t count, int64_t stride) {
    switch (dtype) {
    case MIL_fp32:
        if (stride == 1)
            memcpy(target, source, (size_t)count * sizeof *target);
        else if (stride == 0)
            for (int64_t i = 0; i < count; i++) target[i] = *(const float *)source;
        else
            TILE_LOAD_LOOP(float);
        break;
    case MIL_fp16:
        if (stride == 1) {
            fp16_to_f32_array(target, source, (size_t)count);
        } else if (stride == 0) {
            float value = fp16_to_f32(*(const uint16_t *)source);
            for (int64_t i = 0; i < count; i++) target[i] = value;
        } else {
            uint16_t block[64];
            const uint16_t *s = source;
            for (int64_t i = 0; i < count; i += 64) {
                int64_t n = count - i < 64 ? count - i : 64;
                for (int64_t j = 0; j < n; j++) block[j] = s[(i + j) * stride];
                fp16_to_f32_array(target + i, block, (size_t)n);
            }
        }
        break;
    case MIL_bool: {
        const uint8_t *s = source;
        for (int64_t i = 0; i < count; i++) target[i] = s[i * stride] ? 1.0f : 0.0f;
        break;
    }
    case MIL_uint8: TILE_LOAD_LOOP(uint8_t); break;
    case MIL_int8: TILE_LOAD_LOOP(int8_t); break;
    case MIL_int16: TILE_LOAD_LOOP(int16_t); break;
    case MIL_uint16: TILE_LOAD_LOOP(uint16_t); break;
    case MIL_int32: TILE_LOAD_LOOP(int32_t); break;
    default: assert(!"no such element type in a tile");
    }
}

/* NaN becomes 0; what does not fit becomes the nearest number that does. */
static double clamp_cut(float x, double low, double high) {
    if (!(x == x)) return 0;
    double t = trunc((double)x);
    return t < low ? low : t > high ? high : t;
}

#define TILE_STORE_LOOP(type, low, high)                                                                               \
    do {                                                                                                               \
        type *t = target;                                                                                              \
        for (int64_t i = 0; i < count; i++) t[i * stride] = (type)clamp_cut(source[i], low, high);                     \
    } while (0)

static void store_line(void *target, mil_dtype dtype, int64_t count, int64_t stride, const float *source) {
    switch (dtype) {
    case MIL_fp32:
        if (stride == 1)
            memcpy(target, source, (size_t)count * sizeof *source);
        else
            for (int64_t i = 0; i < count; i++) ((float *)target)[i * stride] = source[i];
        break;
    case MIL_fp16:
        if (stride == 1) {
            fp16_from_f32_array(target, source, (size_t)count);
        } else {
            uint16_t block[64], *t = target;
            for (int64_t i = 0; i < count; i += 64) {
                int64_t n = count - i < 64 ? count - i : 64;
                fp16_from_f32_array(block, source + i, (size_t)n);
                for (int64_t j = 0; j < n; j++) t[(i + j) * stride] = block[j];
            }
        }
        break;
    case MIL_bool: {
        uint8_t *t = target;
        for (int64_t i = 0; i < count; i++) t[i * stride] = source[i] != 0;
        break;
    }
    case MIL_uint8: TILE_STORE_LOOP(uint8_t, 0, 255); break;
    case MIL_int8: TILE_STORE_LOOP(int8_t, -128, 127); break;
    case MIL_int16: TILE_STORE_LOOP(int16_t, -32768, 32767); break;
    case MIL_uint16: TILE_STORE_LOOP(uint16_t, 0, 65535); break;
    case MIL_int32: TILE_STORE_LOOP(int32_t, -2147483648.0, 2147483647.0); break;
    default: assert(!"no such element type in a tile");
    }
}

typedef struct box {
    int rank;
    int64_t dim[TILE_MAX_RANK + 2], stride[TILE_MAX_RANK + 2];
    int64_t count;
} box;

/* Extents of 1 fall out, neighbours that follow one another in memory become one. Always at least one dimension. */
static void box_collapse(box *b, int rank, const int64_t *dim, const int64_t *stride) {
    b->rank = 0;
    b->count = 1;
    for (int d = 0; d < rank; d++) {
        b->count *= dim[d];
        if (dim[d] == 1) continue;
        int last = b->rank - 1;
        if (last >= 0 && b->stride[last] == dim[d] * stride[d]) {
            b->dim[last] *= dim[d];
            b->stride[last] = stride[d];
        } else {
            b->dim[b->rank] = dim[d];
            b->stride[b->rank++] = stride[d];
        }
    }
    if (!b->rank) {
        b->rank = 1;
        b->dim[0] = 1;
        b->stride[0] = 1;
    }
}

/* Moves to the next line of the box; false behind the last one. */
static bool box_next(const box *b, int64_t *index, int64_t *offset) {
    for (int d = b->rank - 2; d >= 0; d--) {
        *offset += b->stride[d];
        if (++index[d] < b->dim[d]) return true;
        *offset -= b->dim[d] * b->stride[d];
        index[d] = 0;
    }
    return false;
}

static void box_load(float *target, const unsigned char *source, mil_dtype dtype, int element, const box *b) {
    int64_t index[TILE_MAX_RANK + 2] = {0}, offset = 0, line = b->dim[b->rank - 1];
    if (!b->count) return;
    if (dtype == MIL_fp32 && b->rank == 2 && b->stride[1] == 1 &&
        copy_rows(target, line, (const float *)(const void *)source, b->stride[0], b->dim[0], line))
        return;
    if (dtype == MIL_fp32 && b->rank == 2 && b->stride[1] == 0) {
        fill_rows(target, (const float *)(const void *)source, b->stride[0], b->dim[0], line);
        return;
    }
    do {
        load_line(target, source + offset * element, dtype, line, b->stride[b->rank - 1]);
        target += line;
    } while (box_next(b, index, &offset));
}

static void box_store(unsigned char *target, mil_dtype dtype, int element, const box *b, const float *source) {
    int64_t index[TILE_MAX_RANK + 2] = {0}, offset = 0, line = b->dim[b->rank - 1];
    if (!b->count) return;
    if (dtype == MIL_fp32 && b->rank == 2 && b->stride[1] == 1 &&
        copy_rows((float *)(void *)target, b->stride[0], source, line, b->dim[0], line))
        return;
    do {
        store_line(target + offset * element, dtype, line, b->stride[b->rank - 1], source);
        source += line;
    } while (box_next(b, index, &offset));
}

void cpu_tile_load(float *target, const void *source, mil_dtype dtype, int rank, const int64_t *dim,
                   const int64_t *stride) {
    box b;
    box_collapse(&b, rank, dim, stride);
    box_load(target, source, dtype, cpu_plan_dtype_bytes(dtype), &b);
}

void cpu_tile_store(void *target, mil_dtype dtype, int rank, const int64_t *dim, const int64_t *stride,
                    const float *source) {
    box b;
    box_collapse(&b, rank, dim, stride);
    box_store(target, dtype, cpu_plan_dtype_bytes(dtype), &b, source);
}

/* ---- one tile --------------------------------------------------------------------------------------------------------- */

typedef struct tile_state {
    const tile_program *t;
    const cpu_run *run;
    float *scratch;
    int64_t outer[TILE_MAX_RANK]; /* first index of the tile */
    int64_t inner_at, fold_at;
    int64_t rows, width, fold, chunk; /* this tile's extents: fold counts the elements of the chunk */
    int64_t full, reduced;            /* floats of the classes */
    const float *in[TILE_MAX_REGISTERS];
    float *out[TILE_MAX_REGISTERS];
} tile_state;

static int64_t view_offset(const tile_state *s, const tile_view *v) {
    int64_t offset = s->inner_at * v->inner;
    for (int d = 0; d < s->t->outer_rank; d++) offset += s->outer[d] * v->outer[d];
    if (s->t->fold_rank) offset += s->fold_at * v->fold[0];
    return offset;
}

static void view_box(const tile_state *s, const tile_view *v, tile_class klass, box *b) {
    const tile_program *t = s->t;
    int64_t dim[TILE_MAX_RANK + 2], stride[TILE_MAX_RANK + 2];
    int n = 0;
    if (t->outer_rank) {
        dim[n] = s->rows;
        stride[n++] = v->outer[t->outer_rank - 1];
    }
    if (klass == TILE_FULL)
        for (int d = 0; d < t->fold_rank; d++) {
            dim[n] = d ? t->fold[d] : s->chunk;
            stride[n++] = v->fold[d];
        }
    dim[n] = s->width;
    stride[n++] = v->inner;
    box_collapse(b, n, dim, stride);
}

static void run_load(tile_state *s, const tile_instr *i) {
    const tile_view *v = &s->t->views[i->view];
    const unsigned char *source = (const unsigned char *)cpu_plan_at(s->run, v->at) + view_offset(s, v) * v->element;
    if (i->klass == TILE_SCALAR) {
        load_line(s->out[i->dst], source, v->dtype, 1, 1);
        return;
    }
    box b;
    view_box(s, v, i->klass, &b);
    if (v->dtype == MIL_fp32 && b.rank == 1 && (b.stride[0] == 1 || b.count == 1)) {
        s->in[i->dst] = (const float *)(const void *)source;
        return;
    }
    s->in[i->dst] = s->out[i->dst];
    box_load(s->out[i->dst], source, v->dtype, v->element, &b);
}

static void run_store(tile_state *s, const tile_instr *i) {
    const tile_view *v = &s->t->views[i->view];
    const float *source = s->in[i->src[0]];
    unsigned char *target = (unsigned char *)cpu_plan_at(s->run, v->at) + view_offset(s, v) * v->element;
    if ((const unsigned char *)source == target) return; /* computed there */
    box b;
    view_box(s, v, i->klass, &b);
    box_store(target, v->dtype, v->element, &b, source);
}

/* Where a register is computed: in its slot, or straight in the memory that it would be stored to. */
static void aim(tile_state *s, int reg) {
    const tile_register *r = &s->t->registers[reg];
    float *slot = s->scratch + r->slot;
    if (r->direct >= 0) {
        const tile_view *v = &s->t->views[r->direct];
        box b;
        view_box(s, v, r->klass, &b);
        if (b.rank == 1 && (b.stride[0] == 1 || b.count == 1))
            slot = (float *)(void *)((unsigned char *)cpu_plan_at(s->run, v->at) + view_offset(s, v) * v->element);
    }
    s->out[reg] = slot;
    s->in[reg] = slot;
}

static void run_binary(tile_state *s, const tile_instr *i) {
    const tile_program *t = s->t;
    const cpu_map_binary *f = t->map->binary[i->code - CPU_MAP_UNARY_END];
    float *z = s->out[i->dst];
    const float *x = s->in[i->src[0]], *y = s->in[i->src[1]];
    tile_class cx = t->registers[i->src[0]].klass, cy = t->registers[i->src[1]].klass;
    int64_t count = i->klass == TILE_FULL ? s->full : s->reduced;
    if (cx == TILE_SCALAR) {
        f[CPU_MAP_SV](z, x, y, count);
    } else if (cy == TILE_SCALAR) {
        f[CPU_MAP_VS](z, x, y, count);
    } else if (cx == cy) {
        f[CPU_MAP_VV](z, x, y, count);
    } else {
        /* one FULL, one REDUCED */
        bool reduced_x = cx == TILE_REDUCED;
        if (t->columns) {
            for (int64_t r = 0; r < s->fold; r++) {
                f[CPU_MAP_VV](z, x, y, s->width);
                z += s->width;
                if (!reduced_x) x += s->width;
                if (reduced_x) y += s->width;
            }
        } else {
            for (int64_t r = 0; r < s->rows; r++) {
                f[reduced_x ? CPU_MAP_SV : CPU_MAP_VS](z, x, y, s->fold);
                z += s->fold;
                x += reduced_x ? 1 : s->fold;
                y += reduced_x ? s->fold : 1;
            }
        }
    }
}

static void run_spread(tile_state *s, const tile_instr *i) {
    const tile_program *t = s->t;
    float *z = s->out[i->dst];
    const float *x = s->in[i->src[0]];
    tile_class klass = t->registers[i->src[0]].klass;
    if (klass == TILE_SCALAR) {
        t->map->unary[CPU_MAP_fill](z, x, i->klass == TILE_FULL ? s->full : s->reduced, x[0], 0);
    } else if (t->columns) {
        for (int64_t r = 0; r < s->fold; r++, z += s->width) memcpy(z, x, (size_t)s->width * sizeof *z);
    } else {
        for (int64_t r = 0; r < s->rows; r++, z += s->fold) t->map->unary[CPU_MAP_fill](z, x, s->fold, x[r], 0);
    }
}

static void run_reduce(tile_state *s, const tile_instr *i) {
    static const cpu_map_code join[CPU_REDUCE_COUNT] = {CPU_MAP_add, CPU_MAP_add, CPU_MAP_add,
                                                        CPU_MAP_max, CPU_MAP_min, CPU_MAP_mul};
    const tile_program *t = s->t;
    const float *x = s->in[i->src[0]];
    bool more = s->fold_at > 0; /* behind the first chunk: into a second place, then joined */
    float *y = s->out[i->dst] + (more ? t->rows * t->width : 0);
    if (t->columns)
        t->table->reduce_strided[i->code](y, x, s->fold, s->width, s->width);
    else
        t->table->reduce[i->code](y, x, s->rows, s->fold, s->fold);
    if (more)
        t->map->binary[join[i->code] - CPU_MAP_UNARY_END][CPU_MAP_VV](s->out[i->dst], s->out[i->dst], y, s->reduced);
}

static void run_instr(tile_state *s, const tile_instr *i) {
    const tile_program *t = s->t;
    int64_t count = i->klass == TILE_FULL ? s->full : i->klass == TILE_REDUCED ? s->reduced : 1;
    if (i->kind != TILE_STORE) aim(s, i->dst);
    switch ((tile_kind)i->kind) {
    case TILE_LOAD: run_load(s, i); break;
    case TILE_STORE: run_store(s, i); break;
    case TILE_UNARY: t->map->unary[i->code](s->out[i->dst], s->in[i->src[0]], count, i->p, i->q); break;
    case TILE_BINARY: run_binary(s, i); break;
    case TILE_SPREAD: run_spread(s, i); break;
    case TILE_SELECT:
        t->map->select(s->out[i->dst], s->in[i->src[0]], t->registers[i->src[0]].klass != TILE_SCALAR, s->in[i->src[1]],
                       t->registers[i->src[1]].klass != TILE_SCALAR, s->in[i->src[2]],
                       t->registers[i->src[2]].klass != TILE_SCALAR, count);
        break;
    case TILE_REDUCE: run_reduce(s, i); break;
    case TILE_LOG_SUM_EXP:
        if (t->columns)
            t->table->log_sum_exp_strided(s->out[i->dst], s->in[i->src[0]], s->fold, s->width, s->width);
        else
            t->table->log_sum_exp(s->out[i->dst], s->in[i->src[0]], s->rows, s->fold, s->fold);
        break;
    case TILE_SOFTMAX:
        if (t->columns)
            t->table->softmax_strided(s->out[i->dst], s->in[i->src[0]], s->fold, s->width, s->width, s->width);
        else
            t->table->softmax(s->out[i->dst], s->in[i->src[0]], s->rows, s->fold, s->fold, s->fold);
        break;
    }
}

static void tile_extents(tile_state *s, int64_t tile) {
    const tile_program *t = s->t;
    int64_t w = tile % t->width_chunks, rest = tile / t->width_chunks;
    s->inner_at = w * t->width;
    s->width = t->inner - s->inner_at < t->width ? t->inner - s->inner_at : t->width;
    s->rows = 1;
    for (int d = t->outer_rank - 1; d >= 0; d--) {
        int64_t extent = d == t->outer_rank - 1 ? t->row_chunks : t->outer[d];
        s->outer[d] = rest % extent;
        rest /= extent;
        if (d == t->outer_rank - 1) {
            s->outer[d] *= t->rows;
            s->rows = t->outer[d] - s->outer[d] < t->rows ? t->outer[d] - s->outer[d] : t->rows;
        }
    }
    s->reduced = s->rows * s->width;
}

static void tile_one(tile_state *s, int64_t tile) {
    const tile_program *t = s->t;
    tile_extents(s, tile);
    int64_t below = 1;
    for (int d = 1; d < t->fold_rank; d++) below *= t->fold[d];
    int64_t whole = t->fold_rank ? t->fold[0] : 1;
    for (int64_t at = 0; at < whole; at += t->chunk) {
        s->fold_at = at;
        s->chunk = whole - at < t->chunk ? whole - at : t->chunk;
        s->fold = s->chunk * below;
        s->full = s->fold * s->reduced;
        for (int i = 0; i < t->instr_count; i++)
            if (!t->instrs[i].late) run_instr(s, &t->instrs[i]);
    }
    s->fold_at = 0;
    for (int i = 0; i < t->instr_count; i++)
        if (t->instrs[i].late) run_instr(s, &t->instrs[i]);
}

typedef struct tile_context {
    const cpu_run *run;
    const tile_program *t;
} tile_context;

static void tile_task(void *context, int task, int worker) {
    const tile_context *c = context;
    const tile_program *t = c->t;
    tile_state s;
    s.t = t;
    s.run = c->run;
    s.scratch = (float *)(void *)((unsigned char *)cpu_plan_at(c->run, t->scratch) + worker * t->scratch_bytes);
    for (int r = 0; r < t->register_count; r++)
        if (t->registers[r].slot < 0) {
            s.in[r] = &t->registers[r].value;
            s.out[r] = NULL;
        }
    int64_t first = (int64_t)task * t->tiles_a_task, last = first + t->tiles_a_task;
    if (last > t->tiles) last = t->tiles;
    for (int64_t i = first; i < last; i++) tile_one(&s, i);
}

propane_status cpu_tile_run(const cpu_run *run, const void *args, propane_error *err) {
    (void)err;
    tile_context c = {run, args};
    int64_t tasks = (c.t->tiles + c.t->tiles_a_task - 1) / c.t->tiles_a_task;
    cpu_plan_parallel(run, tile_task, &c, (int)tasks);
    return PROPANE_OK;
}
