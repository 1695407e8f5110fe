/* SPDX-License-Identifier: MIT
 * Copies between layouts. Dimensions that are contiguous on both sides are merged. The last two form a plane of rows,
 * which is copied in whole rows if both sides are contiguous, and in 8x8 squares otherwise.
 */
#include "cpu/loop/strided_copy.h"

#include <string.h>

#define TASK_BYTES 65536

static void strided_copy_collapse(cpu_copy *c, const cpu_view *from, const cpu_view *to) {
    c->rank = 0;
    for (int d = 0; d < from->rank; d++) {
        int64_t n = from->dim[d];
        int last = c->rank - 1;
        if (n == 1) continue;
        if (last >= 0 && c->from_stride[last] == from->stride[d] * n && c->to_stride[last] == to->stride[d] * n) {
            c->dim[last] *= n;
            c->from_stride[last] = from->stride[d];
            c->to_stride[last] = to->stride[d];
            continue;
        }
        c->dim[c->rank] = n;
        c->from_stride[c->rank] = from->stride[d];
        c->to_stride[c->rank++] = to->stride[d];
    }
    while (c->rank < 2) {
        for (int d = c->rank; d > 0; d--) {
            c->dim[d] = c->dim[d - 1];
            c->from_stride[d] = c->from_stride[d - 1];
            c->to_stride[d] = c->to_stride[d - 1];
        }
        c->dim[0] = 1;
        c->from_stride[0] = c->to_stride[0] = 0;
        if (!c->rank++) c->from_stride[0] = c->to_stride[0] = 1;
    }
}

void cpu_copy_plan(cpu_copy *c, const cpu_view *from, const cpu_view *to) {
    c->from = cpu_view_ref(from);
    c->to = cpu_view_ref(to);
    c->element = cpu_view_dtype_bytes(from->dtype);
    strided_copy_collapse(c, from, to);
    c->lines = 1;
    for (int d = 0; d + 2 < c->rank; d++) c->lines *= c->dim[d];
    int64_t rows = c->dim[c->rank - 2], row_bytes = c->dim[c->rank - 1] * c->element;
    int64_t a_task = row_bytes ? TASK_BYTES / row_bytes / 8 * 8 : rows;
    c->rows_a_task = a_task < 8 ? 8 : a_task;
    c->tasks_a_line = (rows + c->rows_a_task - 1) / c->rows_a_task;
    c->tasks = cpu_view_count(from) ? (int)(c->lines * c->tasks_a_line) : 0;
}

#define PLANE(name, type)                                                                                              \
    static void name(void *to, const void *from, int64_t rows, int64_t columns, int64_t to_row, int64_t to_column,     \
                     int64_t from_row, int64_t from_column) {                                                          \
        type *t = to;                                                                                                  \
        const type *f = from;                                                                                          \
        for (int64_t i = 0; i < rows; i += 8)                                                                          \
            for (int64_t j = 0; j < columns; j += 8)                                                                   \
                for (int64_t r = i; r < i + 8 && r < rows; r++)                                                        \
                    for (int64_t c = j; c < j + 8 && c < columns; c++)                                                 \
                        t[r * to_row + c * to_column] = f[r * from_row + c * from_column];                             \
    }

PLANE(plane_1, uint8_t)
PLANE(plane_2, uint16_t)
PLANE(plane_4, uint32_t)
PLANE(plane_8, uint64_t)

static void strided_copy_plane(const cpu_copy *c, unsigned char *to, const unsigned char *from, int64_t rows) {
    int r = c->rank - 2, k = c->rank - 1;
    int64_t columns = c->dim[k];
    if (c->from_stride[k] == 1 && c->to_stride[k] == 1) {
        for (int64_t i = 0; i < rows; i++)
            memcpy(to + i * c->to_stride[r] * c->element, from + i * c->from_stride[r] * c->element,
                   (size_t)(columns * c->element));
        return;
    }
    void (*plane)(void *, const void *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) =
        c->element == 1   ? plane_1
        : c->element == 2 ? plane_2
        : c->element == 4 ? plane_4
                          : plane_8;
    plane(to, from, rows, columns, c->to_stride[r], c->to_stride[k], c->from_stride[r], c->from_stride[k]);
}

typedef struct copy_context {
    const cpu_copy *c;
    unsigned char *to;
    const unsigned char *from;
} copy_context;

static void strided_copy_task(void *context, int task, int worker) {
    const copy_context *x = context;
    const cpu_copy *c = x->c;
    (void)worker;
    int64_t line = task / c->tasks_a_line, first = task % c->tasks_a_line * c->rows_a_task;
    int64_t to = first * c->to_stride[c->rank - 2], from = first * c->from_stride[c->rank - 2];
    for (int d = c->rank - 3; d >= 0; d--) {
        to += line % c->dim[d] * c->to_stride[d];
        from += line % c->dim[d] * c->from_stride[d];
        line /= c->dim[d];
    }
    int64_t rows = c->dim[c->rank - 2] - first;
    if (rows > c->rows_a_task) rows = c->rows_a_task;
    strided_copy_plane(c, x->to + to * c->element, x->from + from * c->element, rows);
}

propane_status cpu_copy_run(const cpu_run *run, const void *args, propane_error *err) {
    const cpu_copy *c = args;
    (void)err;
    copy_context x = {c, cpu_ref_at(run, c->to), cpu_ref_at(run, c->from)};
    cpu_run_parallel(run, strided_copy_task, &x, c->tasks);
    return PROPANE_OK;
}
