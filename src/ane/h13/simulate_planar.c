/* SPDX-License-Identifier: MIT
 * Simulates the planar engine: elementwise arithmetic of one or two sources, a pair of constants per channel,
 * reductions of a channel's plane, and the reciprocal and reciprocal root of the result.
 */
#include <math.h>
#include <string.h>

#include "ane/h13/simulate_parts.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"

enum { OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_SQUARE };
enum { ONE = 2, TWO = 3, PAIR = 4, REDUCE = 5, REDUCE_TWO = 6 };

typedef struct planar {
    uint32_t mode, operation, pool, nonlinear;
    bool negate1, negate2, two, absolute, relu, clamp2;
    double scale, bias, epsilon, final;
} planar;

static double simulate_planar_half(sim *s, uint32_t address, int low) {
    return (double)fp16_to_f32((uint16_t)sim_bits(s, address, low, 16));
}

static propane_status simulate_planar_decode(sim *s, planar *p) {
    uint32_t cfg = engine_get(s->t, 0x8800), bits = engine_get(s->t, 0x880c);
    float final;
    memcpy(&final, &bits, sizeof final);
    *p = (planar){.mode = sim_bits(s, 0x34, 4, 3),
                  .operation = engine_bits(cfg, 2, 3),
                  .pool = engine_bits(cfg, 0, 2),
                  .nonlinear = engine_bits(cfg, 12, 2),
                  .negate1 = engine_bits(cfg, 16, 1),
                  .negate2 = engine_bits(cfg, 18, 1),
                  .two = engine_bits(cfg, 19, 1),
                  .relu = engine_bits(cfg, 5, 1),
                  .clamp2 = sim_bits(s, 0x4800, 4, 1),
                  .scale = simulate_planar_half(s, 0x8804, 16),
                  .bias = simulate_planar_half(s, 0x8804, 0),
                  .epsilon = simulate_planar_half(s, 0x8808, 0),
                  .final = (double) final};
    uint32_t condition = engine_bits(cfg, 6, 4);
    p->absolute = condition == 1;
    bool takes_two = p->mode == TWO || p->mode == PAIR || p->mode == REDUCE_TWO;
    bool reduces = p->mode == REDUCE || p->mode == REDUCE_TWO;
    if (condition > 1) return sim_refuse(s, 0x8800, "Condition %u", condition);
    if (p->operation > OP_SQUARE || (p->operation == OP_SQUARE && p->mode != REDUCE_TWO))
        return sim_refuse(s, 0x8800, "Operation %u in PeMode %u", p->operation, p->mode);
    if (p->two != takes_two) return sim_refuse(s, 0x8800, "TwoSources %u in PeMode %u", p->two, p->mode);
    if (p->pool == 1 || p->pool == 3 || (p->pool && !reduces))
        return sim_refuse(s, 0x8800, "PoolMode %u in PeMode %u", p->pool, p->mode);
    if (p->nonlinear == 3) return sim_refuse(s, 0x8800, "NonlinearMode 3");
    if (p->epsilon != 0 && p->nonlinear != 2) return sim_refuse(s, 0x8808, "Epsilon without a root");
    if (simulate_planar_half(s, 0x8808, 16) != 1) return sim_refuse(s, 0x8808, "PreScale is not 1");
    if (reduces && (p->scale != 1 || p->bias != 0)) return sim_refuse(s, 0x8804, "Scale and Bias of a reduction");
    if (!reduces && p->final != 1) return sim_refuse(s, 0x880c, "FinalScale without a reduction");
    return PROPANE_OK;
}

static double simulate_planar_combine(const planar *p, double a, double b) {
    if (p->negate1) a = -a;
    if (p->clamp2 && b < 0) b = 0;
    if (p->negate2) b = -b;
    switch (p->operation) {
    case OP_MUL: return a * b;
    case OP_MAX: return a > b ? a : b;
    case OP_MIN: return a < b ? a : b;
    case OP_SQUARE: return (a + b) * (a + b);
    default: return a + b;
    }
}

static double simulate_planar_finish(const planar *p, double v) {
    if (p->nonlinear == 1) v = 1 / v;
    if (p->nonlinear == 2) v = 1 / sqrt(v + p->epsilon);
    return p->relu && v < 0 ? 0 : v;
}

static double simulate_planar_value(const planar *p, const sim *s, int64_t i, int64_t channel) {
    double a = (double)s->a.data[i], v;
    if (p->absolute) a = fabs(a);
    if (p->mode == PAIR)
        v = simulate_planar_combine(p, a, (double)s->b.data[2 * channel]) * (double)s->b.data[2 * channel + 1];
    else if (p->two)
        v = simulate_planar_combine(p, a, (double)s->b.data[i]);
    else
        v = p->negate1 ? -a : a;
    return v;
}

static propane_status simulate_planar_elements(sim *s, const planar *p) {
    sim_shape n = s->a.shape;
    int64_t plane = n.h * n.w, i = 0;
    PROPANE_TRY(sim_allocate(s, &s->y, n));
    for (int64_t outer = 0; outer < n.g * n.d; outer++)
        for (int64_t c = 0; c < n.c; c++)
            for (int64_t k = 0; k < plane; k++, i++)
                s->y.data[i] =
                    sim_round(s, simulate_planar_finish(p, simulate_planar_value(p, s, i, c) * p->scale + p->bias));
    return PROPANE_OK;
}

static propane_status simulate_planar_reduction(sim *s, const planar *p) {
    sim_shape n = s->a.shape, out = {n.g, 1, n.c, 1, 1};
    int64_t plane = n.h * n.w;
    PROPANE_TRY(sim_allocate(s, &s->y, out));
    for (int64_t g = 0; g < n.g; g++)
        for (int64_t c = 0; c < n.c; c++) {
            double sum = p->pool == 2 ? -INFINITY : 0;
            for (int64_t d = 0; d < n.d; d++) {
                int64_t i = ((g * n.d + d) * n.c + c) * plane;
                for (int64_t k = 0; k < plane; k++) {
                    double v = simulate_planar_value(p, s, i + k, c);
                    sum = p->pool == 2 ? (v > sum || isnan(v) ? v : sum) : sum + v;
                }
            }
            s->y.data[g * n.c + c] = sim_round(s, simulate_planar_finish(p, sum * p->final));
        }
    return PROPANE_OK;
}

propane_status sim_planar(sim *s) {
    planar p;
    PROPANE_TRY(simulate_planar_decode(s, &p));
    if (sim_bits(s, 0x1f800, 6, 1)) return sim_refuse(s, 0x1f800, "a kernel for the planar engine");
    return p.mode == REDUCE || p.mode == REDUCE_TWO ? simulate_planar_reduction(s, &p)
                                                    : simulate_planar_elements(s, &p);
}
