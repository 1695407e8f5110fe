/* SPDX-License-Identifier: MIT
 * Owns elementwise sums, differences and products of two fp16 tensors (switch `arithmetic`). The planar engine rounds
 * halves away from zero, while the cpu driver rounds them to even. 751K observed this on M4 and M6, and it is visible
 * in outputs recorded on an M3 Max.
 */
#include "ane/h13/accumulate.h"
#include "ane/sim/sim.h"
#include "core/base/float16.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops.h"
#include "core/mil/ops/shape_util.h"

enum { CHUNK = 256 };

bool sim_has_planar(const sim_numbers *n, const mil_op *op) {
    const mil_opcode code = op->info->code;
    return n->switches->value[SIM_arithmetic] && (code == MIL_OP_add || code == MIL_OP_sub || code == MIL_OP_mul) &&
           op->results[0]->type.dtype == MIL_fp16;
}

/* Computes a chunk. Sums and products of two fp16 are exact in a double. */
static void planar_chunk(mil_opcode code, const float *a, const float *b, float *out, int64_t n) {
    switch (code) {
    case MIL_OP_add:
        for (int64_t i = 0; i < n; i++) out[i] = accumulate_away((double)a[i] + (double)b[i]);
        break;
    case MIL_OP_sub:
        for (int64_t i = 0; i < n; i++) out[i] = accumulate_away((double)a[i] - (double)b[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) out[i] = accumulate_away((double)a[i] * (double)b[i]);
        break;
    }
}

/* Loads n elements of one operand's row as floats. If `step` is 0, repeats one element. */
static void planar_load(float *to, const uint16_t *from, int64_t step, int64_t n) {
    if (step) {
        fp16_to_f32_array(to, from, (size_t)n);
        return;
    }
    const float v = fp16_to_f32(*from);
    for (int64_t i = 0; i < n; i++) to[i] = v;
}

static void planar_row(mil_opcode code, const uint16_t *a, int64_t a_step, const uint16_t *b, int64_t b_step,
                       uint16_t *out, int64_t n) {
    float x[CHUNK], y[CHUNK], z[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t m = n - i < CHUNK ? n - i : CHUNK;
        planar_load(x, a + i * a_step, a_step, m);
        planar_load(y, b + i * b_step, b_step, m);
        planar_chunk(code, x, y, z, m);
        fp16_from_f32_array(out + i, z, (size_t)m);
    }
}

void sim_planar_run(const mil_op *op, const void *x, const void *y, void *result) {
    const mil_type *type = &op->results[0]->type;
    int64_t a[MIL_MAX_RANK], b[MIL_MAX_RANK], row = 1, rows = 1;
    const uint16_t *left = x, *right = y;
    uint16_t *out = result;
    mil_walk w;
    mil_broadcast_strides(&mil_in(op, "x")->type, type, a);
    mil_broadcast_strides(&mil_in(op, "y")->type, type, b);
    int rank = type->rank;
    int64_t a_step = 1, b_step = 1; /* step along a row: 1 or 0 */
    for (; rank > 0; rank--) {
        const int64_t size = type->dim[rank - 1];
        if (size == 1) continue;
        if (row == 1) a_step = a[rank - 1] != 0, b_step = b[rank - 1] != 0;
        if (a[rank - 1] != a_step * row || b[rank - 1] != b_step * row) break;
        row *= size;
    }
    mil_walk_begin(&w, rank, type->dim);
    mil_walk_add(&w, a);
    mil_walk_add(&w, b);
    for (int d = 0; d < rank; d++) rows *= type->dim[d];
    for (int64_t i = 0; i < rows; i++, out += row, mil_walk_next(&w))
        planar_row(op->info->code, left + w.at[0], a_step, right + w.at[1], b_step, out, row);
}
