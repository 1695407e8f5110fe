/* SPDX-License-Identifier: MIT
 * Owns the iteration space of a fused loop: its dimensions, the tile, the tasks.
 */
#include <string.h>

#include "core/base/int_math.h"
#include "cpu/loop/loop_draft.h"

#define COLUMN_FLOATS  24576   /* per register of a column tile, which stays in the L2 cache */
#define COLUMN_CHUNK   4096    /* per register of a column tile that traverses the fold in passes, for the L1 cache */
#define COLUMN_TILES   4       /* wide tiles read memory in long lines, but every core needs one */
#define PART           16384   /* elements of a column tile that form a separate task in each pass */
#define PART_WIDTH     1024    /* columns of a tile in parts; whole rows are the fastest way to read memory */
#define PART_CHUNK     2048    /* like COLUMN_CHUNK, for tiles in parts */
#define ROW_FLOATS     4096    /* floats of a tile that holds whole rows */
#define STRIP          2048    /* floats per elementwise tile */
#define TASK_WORK      16384.0 /* element operations that justify a task */
#define TASKS_A_THREAD 8

#define ROWS_LIMIT    32768 /* most reduced elements of a row that one tile holds whole */
#define COLUMNS_LIMIT 4096  /* the same limit for columns side by side */

static bool loop_space_reduces_last(const mil_type *shape, unsigned axes) {
    for (int d = shape->rank - 1; d >= 0; d--)
        if (shape->dim[d] != 1) return axes >> d & 1;
    return false;
}

int64_t cpu_loop_reduced_count(const mil_type *shape, unsigned axes) {
    int64_t n = 1;
    for (int d = 0; d < shape->rank; d++)
        if (axes >> d & 1) n *= shape->dim[d];
    return n;
}

bool cpu_loop_fits(const mil_type *shape, unsigned axes) {
    return cpu_loop_reduced_count(shape, axes) <= (loop_space_reduces_last(shape, axes) ? ROWS_LIMIT : COLUMNS_LIMIT);
}

/* ---- the loops --------------------------------------------------------------------------------------------------- */

typedef struct space {
    int rank[3];                /* outer, fold, inner */
    int axis[3][LOOP_MAX_RANK]; /* axes of the node's shape; for merged axes, the innermost */
    int64_t dim[3][LOOP_MAX_RANK];
} space;

static bool loop_space_mergeable(const loop_draft *t, int a, int b, int64_t below) {
    const int lines = t->shape.rank - 2;
    for (int v = 0; v < t->view_count; v++)
        if (t->views[v].pick && (a == lines || b == lines)) return false;
    for (int v = 0; v < t->view_count; v++)
        if (t->views[v].stride[a] != t->views[v].stride[b] * below) return false;
    return true;
}

static void loop_space_add_axis(const loop_draft *t, space *s, int part, int axis) {
    int64_t dim = t->shape.dim[axis];
    int last = s->rank[part] - 1;
    if (last >= 0 && loop_space_mergeable(t, s->axis[part][last], axis, dim)) {
        s->axis[part][last] = axis;
        s->dim[part][last] *= dim;
        return;
    }
    s->axis[part][s->rank[part]] = axis;
    s->dim[part][s->rank[part]++] = dim;
}

/* Finds the loops. The inner dimension is the last kept dimension, if no folded dimension comes after it. Kept
 * dimensions before it are merged into it if they are contiguous in memory and no folded dimension is in between. */
static void loop_space_make(const loop_draft *t, space *s) {
    const mil_type *shape = &t->shape;
    unsigned axes = t->has_axes ? t->axes : 0;
    memset(s, 0, sizeof *s);
    int kept[LOOP_MAX_RANK], kept_count = 0;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == 1) continue;
        if (axes >> d & 1)
            loop_space_add_axis(t, s, 1, d);
        else
            kept[kept_count++] = d;
    }
    int outer_count = kept_count;
    if (!loop_space_reduces_last(shape, axes) && kept_count) {
        outer_count--;
        while (outer_count > 0 && kept[outer_count - 1] + 1 == kept[outer_count] &&
               loop_space_mergeable(t, kept[outer_count - 1], kept[outer_count], shape->dim[kept[outer_count]]))
            outer_count--;
        for (int k = outer_count; k < kept_count; k++) loop_space_add_axis(t, s, 2, kept[k]);
        /* Merging is pairwise and can leave more than one inner dimension; all but the last then become outer
         * dimensions. */
        while (s->rank[2] > 1) {
            s->rank[2] = 0;
            outer_count++;
            for (int k = outer_count; k < kept_count; k++) loop_space_add_axis(t, s, 2, kept[k]);
        }
    }
    for (int k = 0; k < outer_count; k++) loop_space_add_axis(t, s, 0, kept[k]);
}

/* Chooses the number of columns side by side in a tile that traverses the fold in passes. */
static int64_t loop_space_column_width(const loop_program *t) {
    int64_t width = 256, others = 1;
    for (int d = 0; d < t->outer_rank; d++) others *= t->outer[d];
    while (width > 64 && others * div_up(t->inner, width) < COLUMN_TILES) width /= 2;
    return width;
}

/* Chooses parts for tiles so large that their fold is divided. Such tiles are as wide as possible. */
static void loop_space_choose_parts(loop_program *out, int64_t fold, int64_t below) {
    int64_t width = min_i64(out->inner, PART_WIDTH);
    if (fold * width < 2 * PART) return;
    int64_t chunk = min_i64(max_i64(PART_CHUNK / (below * width), 1), out->fold[0]);
    int64_t length = max_i64(PART / (below * width) / chunk, 1) * chunk;
    if (length >= out->fold[0]) return;
    out->width = width;
    out->chunk = chunk;
    out->part_length = length;
    out->parts = div_up(out->fold[0], length);
}

void cpu_loop_tile(loop_program *out, bool has_axes, bool passes) {
    int64_t fold = 1, below = 1, rows = out->outer_rank ? out->outer[out->outer_rank - 1] : 1;
    for (int d = 0; d < out->fold_rank; d++) fold *= out->fold[d];
    for (int d = 1; d < out->fold_rank; d++) below *= out->fold[d];
    int64_t whole_chunk = out->fold_rank ? out->fold[0] : 1;
    out->rows = 1;
    out->width = 1;
    out->chunk = whole_chunk;
    out->parts = 1;
    if (!has_axes) {
        out->width = min_i64(out->inner, STRIP);
        if (out->width == out->inner) out->rows = min_i64(max_i64(STRIP / out->width, 1), rows);
    } else if (out->columns) {
        int64_t width = passes ? loop_space_column_width(out) : COLUMN_FLOATS / fold / 16 * 16;
        out->width = min_i64(max_i64(min_i64(width, 512), 16), out->inner);
        if (passes) out->chunk = min_i64(max_i64(COLUMN_CHUNK / (below * out->width), 1), whole_chunk);
        if (passes && out->fold_rank) loop_space_choose_parts(out, fold, below);
    } else {
        if (passes) out->chunk = min_i64(max_i64(LOOP_CHUNK_FLOATS / below, 1), whole_chunk);
        out->rows = min_i64(max_i64(ROW_FLOATS / fold, 1), rows);
    }
}

/* Turns loads of class LINE into FULL ones unless they repeat along the tile's inner dimension; after an exchange of
 * axes, they may not. Then sets the class of each view. */
static void loop_space_check_lines(loop_draft *t, loop_program *out) {
    for (int i = 0; i < t->instr_count; i++) {
        loop_instr *in = &t->instrs[i];
        if (in->kind != LOOP_LOAD || in->extent != LOOP_LINE) continue;
        if ((out->columns || !t->has_axes) && out->views[in->view].inner == 0) continue;
        in->extent = LOOP_FULL;
        t->registers[in->dst].extent = LOOP_FULL;
    }
    for (int i = 0; i < t->instr_count; i++)
        if (t->instrs[i].view >= 0) out->views[t->instrs[i].view].extent = t->instrs[i].extent;
}

void cpu_loop_turn_channels(loop_draft *t) {
    static const int order[4] = {0, 2, 3, 1};
    const mil_type was = t->shape;
    const unsigned axes = t->axes;
    int so = 0, other = 0;
    for (int v = 0; v < t->view_count && was.rank == 4; v++) {
        const int64_t *s = t->views[v].stride;
        if (t->views[v].pick) return;
        if (!s[1] || !s[3]) continue;
        if (s[1] < s[3])
            so++;
        else
            other++;
    }
    if (so <= other) return;
    t->axes = 0;
    for (int d = 0; d < 4; d++) {
        t->shape.dim[d] = was.dim[order[d]];
        t->axes |= (axes >> order[d] & 1) << d;
    }
    for (int v = 0; v < t->view_count; v++) {
        const loop_operand view = t->views[v];
        for (int d = 0; d < 4; d++) t->views[v].stride[d] = view.stride[order[d]];
    }
}

propane_status cpu_loop_space(loop_draft *t, loop_program *out, propane_error *err) {
    space s;
    loop_space_make(t, &s);
    out->outer_rank = s.rank[0];
    out->fold_rank = s.rank[1];
    memcpy(out->outer, s.dim[0], sizeof out->outer);
    memcpy(out->fold, s.dim[1], sizeof out->fold);
    out->inner = s.rank[2] ? s.dim[2][0] : 1;
    out->columns = t->has_axes && (s.rank[2] || !s.rank[1]);
    out->view_count = t->view_count;
    out->views = ARENA_ARRAY(t->arena, t->view_count + 1, loop_view);
    if (!out->views) return cpu_program_no_memory(err);
    for (int v = 0; v < t->view_count; v++) {
        loop_view *to = &out->views[v];
        const loop_operand *from = &t->views[v];
        to->at = cpu_view_ref(&from->view);
        to->dtype = from->view.dtype;
        to->element = cpu_view_dtype_bytes(from->view.dtype);
        to->pick = from->pick;
        for (int d = 0; d < s.rank[0]; d++) to->outer[d] = from->stride[s.axis[0][d]];
        for (int d = 0; d < s.rank[1]; d++) to->fold[d] = from->stride[s.axis[1][d]];
        to->inner = s.rank[2] ? from->stride[s.axis[2][0]] : 0;
    }
    loop_space_check_lines(t, out);
    return PROPANE_OK;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

void cpu_loop_tasks(const loop_draft *t, loop_program *out, double work, int threads) {
    const int64_t count = mil_type_count(&t->shape);
    out->row_chunks = out->outer_rank ? div_up(out->outer[out->outer_rank - 1], out->rows) : 1;
    out->width_chunks = div_up(out->inner, out->width);
    out->tiles = count ? out->row_chunks * out->width_chunks : 0;
    for (int d = 0; d + 1 < out->outer_rank; d++) out->tiles *= out->outer[d];
    double total = (double)count * (work + 2 * t->view_count);
    int64_t tasks = (int64_t)(total / TASK_WORK);
    tasks = min_i64(max_i64(tasks, 1), (int64_t)threads * TASKS_A_THREAD);
    out->tiles_a_task = max_i64(div_up(out->tiles, tasks), 1);
}
