/* SPDX-License-Identifier: MIT
 * Simulates the neural engine: convolutions with kernels from sixteen lanes, copies and the maximum over channels, each
 * followed by scale, and clamp or table. Kernels are fetched by lane, unpacked, and used as [output, input, tap].
 */
#include <math.h>
#include <string.h>

#include "ane/h13/accumulate.h"
#include "ane/h13/activation.h"
#include "ane/h13/kernel.h"
#include "ane/h13/simulate_parts.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

enum { MODE_CONVOLUTION = 0, MODE_BIASED = 8, MODE_MAXIMUM = 11, MODE_PASS = 12 };

typedef struct neural {
    uint32_t mode, nonlinear;
    double scale, bias;
    int kw, kh, sx, sy, px, py;
    int lanes;
    const uint8_t *lane[ENGINE_LANES];
    int64_t bytes[ENGINE_LANES];
    uint16_t table[ENGINE_LANES][ENGINE_TABLE_HALVES];
    sim_shape out;
} neural;

static propane_status simulate_neural_lanes(sim *s, neural *n) {
    if (!sim_bits(s, 0x1f800, 6, 1)) return PROPANE_OK;
    if (!engine_head(s->t, 9, 5, 1))
        return sim_refuse(s, 0x1f800, "word 9, 0x%08x, enables no base register for kernels", s->t->header[9]);
    const engine_memory *m = &s->buffers[engine_head(s->t, 9, 0, 5)];
    for (uint32_t i = 0; i < ENGINE_LANES; i++) {
        if (!sim_bits(s, 0x1f808 + 4 * i, 0, 1)) continue;
        uint64_t base = engine_get(s->t, 0x1f848 + 4 * i), bytes = engine_get(s->t, 0x1f888 + 4 * i);
        if (i != (uint32_t)n->lanes)
            return sim_refuse(s, 0x1f808 + 4 * i, "lane %u is used, lane %d is not", i, n->lanes);
        if (!m->data || base > m->bytes || bytes > m->bytes - base)
            return sim_refuse(s, 0x1f848 + 4 * i, "it needs 0x%llx bytes, but the buffer has 0x%llx",
                              (unsigned long long)bytes, (unsigned long long)(m->data ? m->bytes : 0));
        n->lane[i] = m->data + base;
        n->bytes[i] = (int64_t)bytes;
        n->lanes++;
    }
    return n->lanes ? PROPANE_OK : sim_refuse(s, 0x1f800, "no lane is used");
}

static propane_status simulate_neural_tables(sim *s, neural *n) {
    if (n->nonlinear != 2) return PROPANE_OK;
    if (!n->lanes) return sim_refuse(s, 0xc804, "a table without lanes");
    for (int i = 0; i < n->lanes; i++) {
        if (n->bytes[i] < ENGINE_TABLE_BYTES)
            return sim_refuse(s, 0x1f888, "a table of %lld bytes", (long long)n->bytes[i]);
        for (int k = 0; k < ENGINE_TABLE_HALVES; k++)
            n->table[i][k] = (uint16_t)(n->lane[i][2 * k] | n->lane[i][2 * k + 1] << 8);
        if (!engine_table_known(n->table[i])) return sim_refuse(s, 0xc804, "a table of kind 0x%x", n->table[i][42]);
    }
    return PROPANE_OK;
}

static propane_status simulate_neural_decode(sim *s, neural *n) {
    uint32_t conv = engine_get(s->t, 0x1c);
    memset(n, 0, sizeof *n);
    n->mode = sim_bits(s, 0xc804, 0, 4);
    n->nonlinear = sim_bits(s, 0xc804, 16, 2);
    n->scale = (double)fp16_to_f32((uint16_t)sim_bits(s, 0xc810, 0, 16));
    n->bias = (double)fp16_to_f32((uint16_t)sim_bits(s, 0xc80c, 0, 16));
    n->kw = (int)engine_bits(conv, 0, 5), n->kh = (int)engine_bits(conv, 5, 5);
    n->sx = (int)engine_bits(conv, 13, 2), n->sy = (int)engine_bits(conv, 15, 2);
    n->px = (int)engine_bits(conv, 17, 5), n->py = (int)engine_bits(conv, 22, 5);
    n->out = (sim_shape){s->a.shape.g, engine_get(s->t, 0x18), sim_bits(s, 0x10, 0, 17), sim_bits(s, 0x14, 16, 15),
                         sim_bits(s, 0x14, 0, 15)};
    if (n->mode != MODE_CONVOLUTION && n->mode != MODE_BIASED && n->mode != MODE_MAXIMUM && n->mode != MODE_PASS)
        return sim_refuse(s, 0xc804, "OpMode %u", n->mode);
    if (n->mode != MODE_BIASED && n->bias != 0) return sim_refuse(s, 0xc80c, "AccBias with OpMode %u", n->mode);
    if (n->nonlinear == 3) return sim_refuse(s, 0xc804, "NonlinearMode 3");
    if (!n->kw || !n->kh || !n->sx || !n->sy)
        return sim_refuse(s, 0x1c, "kernel %dx%d, stride %dx%d", n->kw, n->kh, n->sx, n->sy);
    if (s->a.shape.d != 1 || n->out.d != 1) return sim_refuse(s, 4, "depth on the neural engine");
    if (engine_get(s->t, 0x30)) return sim_refuse(s, 0x30, "operand flags on the neural engine");
    if (sim_bits(s, 0x4800, 4, 1)) return sim_refuse(s, 0x4800, "ClampSource2 on the neural engine");
    PROPANE_TRY(simulate_neural_lanes(s, n));
    return simulate_neural_tables(s, n);
}

static float simulate_neural_finish(const sim *s, const neural *n, double acc, int lane) {
    double v = acc * n->scale;
    if (n->nonlinear == 1 && v < 0) v = 0;
    if (n->nonlinear == 2) v = engine_table_value(n->table[lane], (double)sim_round(s, v));
    return sim_round(s, v);
}

/* ---- convolution --------------------------------------------------------------------------------------------------------------- */

/* Adds `weight` times the source plane, as one tap sees it, to the result's pixels in `acc`. */
static void simulate_neural_tap(const neural *n, const sim_shape *in, const float *plane, int ky, int kx, double weight,
                                double *acc) {
    for (int64_t oy = 0; oy < n->out.h; oy++) {
        int64_t iy = oy * n->sy + ky - n->py;
        if (iy < 0 || iy >= in->h) continue;
        const float *row = plane + iy * in->w;
        double *to = acc + oy * n->out.w;
        if (n->sx == 1 && n->kw == 1 && n->px == 0 && n->out.w <= in->w) {
            for (int64_t ox = 0; ox < n->out.w; ox++) to[ox] += weight * (double)row[ox];
            continue;
        }
        for (int64_t ox = 0; ox < n->out.w; ox++) {
            int64_t ix = ox * n->sx + kx - n->px;
            if (ix >= 0 && ix < in->w) to[ox] += weight * (double)row[ix];
        }
    }
}

/* Copies the plane to `to` as one tap sees it, with zeros outside. accumulate_read converts each value. */
static void simulate_neural_gather(const neural *n, const sim_shape *in, const float *plane, int ky, int kx,
                                   float *to) {
    for (int64_t oy = 0; oy < n->out.h; oy++)
        for (int64_t ox = 0; ox < n->out.w; ox++) {
            int64_t iy = oy * n->sy + ky - n->py, ix = ox * n->sx + kx - n->px;
            bool inside = iy >= 0 && iy < in->h && ix >= 0 && ix < in->w;
            *to++ = inside ? accumulate_read(plane[iy * in->w + ix]) : 0;
        }
}

/* Computes one output plane in `acc` with the multiply-add array's arithmetic. `acc` has room for three planes of
 * doubles. */
static void simulate_neural_accumulate(sim *s, const neural *n, const engine_kernel *k, const uint16_t *weights,
                                       int64_t first, float bias, double *acc) {
    const sim_shape *in = &s->a.shape;
    int64_t pixels = n->out.h * n->out.w, taps = (int64_t)n->kh * n->kw;
    double *worst = acc + pixels;
    float *row = (float *)(void *)(acc + 2 * pixels);
    accumulate_begin(acc, worst, pixels, bias);
    for (int64_t i = 0; i < k->inputs * taps; i++) {
        int tap = (int)(i % taps);
        const float *plane = s->a.data + (first + i / taps) * in->h * in->w;
        simulate_neural_gather(n, in, plane, tap / n->kw, tap % n->kw, row);
        accumulate_add(acc, worst, accumulate_read(fp16_to_f32(weights[i])), row, pixels);
    }
    for (int64_t i = 0; i < pixels; i++) acc[i] = accumulate_value(acc[i], worst[i]);
}

static void simulate_neural_output(sim *s, const neural *n, const engine_kernel *k, int64_t output,
                                   const uint16_t *weight, const uint16_t *bias, double *acc) {
    const sim_shape *in = &s->a.shape;
    int64_t group = output / k->outputs, pixels = n->out.h * n->out.w, plane = in->h * in->w;
    int64_t first = k->depthwise ? output : group * in->c;
    bool array = s->machine->how == ENGINE_ACCUMULATOR;
    if (array)
        simulate_neural_accumulate(s, n, k, weight + output * k->inputs * k->taps, first, fp16_to_f32(bias[output]),
                                   acc);
    for (int64_t i = 0; i < pixels && !array; i++) acc[i] = (double)fp16_to_f32(bias[output]);
    for (int64_t c = 0; c < k->inputs && !array; c++)
        for (int tap = 0; tap < n->kh * n->kw; tap++) {
            double w = (double)fp16_to_f32(weight[(output * k->inputs + c) * k->taps + tap]);
            if (w != 0) simulate_neural_tap(n, in, s->a.data + (first + c) * plane, tap / n->kw, tap % n->kw, w, acc);
        }
    float *to = s->y.data + output * pixels;
    int lane = (int)(output % k->outputs / k->interleave % k->lanes);
    for (int64_t i = 0; i < pixels; i++) to[i] = simulate_neural_finish(s, n, acc[i], lane);
}

static propane_status simulate_neural_kernel(sim *s, const neural *n, engine_kernel *k) {
    uint32_t sparse = sim_bits(s, 0x1f800, 5, 1);
    *k = (engine_kernel){.outputs = n->out.c,
                         .inputs = s->a.shape.c,
                         .groups = s->a.shape.g,
                         .taps = (int64_t)n->kh * n->kw,
                         .lanes = n->lanes,
                         .interleave = 1 << sim_bits(s, 0x1c, 10, 3),
                         .depthwise = sim_bits(s, 0x24, 14, 1),
                         .bias = sim_bits(s, 0xc804, 4, 1),
                         .sparse = sparse,
                         .table = n->nonlinear == 2};
    if (k->depthwise) k->inputs = 1;
    if (!n->lanes) return sim_refuse(s, 0x1f800, "a convolution without a kernel");
    if (sim_bits(s, 0xc800, 0, 2) != 2) return sim_refuse(s, 0xc800, "KernelFmt %u", sim_bits(s, 0xc800, 0, 2));
    if (sim_bits(s, 0xc800, 8, 1) != sparse) return sim_refuse(s, 0xc800, "SparseFmt and 0x1f800 disagree");
    if (k->depthwise && (n->out.c != s->a.shape.c || k->groups != 1))
        return sim_refuse(s, 0x24, "depthwise with %lld channels in, %lld out", (long long)s->a.shape.c,
                          (long long)n->out.c);
    if (k->sparse && (n->kh != 1 || n->kw != 1 || k->interleave > 8))
        return sim_refuse(s, 0xc800, "the order of this kernel without zeros is unknown");
    return PROPANE_OK;
}

static propane_status simulate_neural_convolution(sim *s, const neural *n) {
    engine_kernel k;
    PROPANE_TRY(simulate_neural_kernel(s, n, &k));
    PROPANE_TRY(sim_allocate(s, &s->y, n->out));
    int64_t outputs = k.groups * k.outputs;
    if (outputs > SIM_ELEMENTS_MAX / max_i64(1, k.inputs * k.taps))
        return sim_refuse(s, 0x10, "the kernel is too large");
    size_t pixels = (size_t)(n->out.h * n->out.w);
    uint16_t *weight = mem_array((size_t)(outputs * k.inputs * k.taps), 2), *bias = mem_array((size_t)outputs, 2);
    double *acc = mem_array(3 * pixels, sizeof *acc);
    propane_status status = PROPANE_OK;
    if (!weight || !bias || !acc)
        status = propane_fail_memory(s->err, (size_t)(outputs * k.inputs * k.taps) * 2);
    else
        status = engine_kernel_unpack(&k, n->lane, n->bytes, weight, bias, s->err);
    if (status == PROPANE_ERR_INVALID) status = propane_fail_prefix(s->err, status, "task %d", s->index);
    for (int64_t o = 0; o < outputs && !status; o++) simulate_neural_output(s, n, &k, o, weight, bias, acc);
    mem_free(weight);
    mem_free(bias);
    mem_free(acc);
    return status;
}

/* ---- without a kernel ------------------------------------------------------------------------------------------------------------ */

static propane_status simulate_neural_pass(sim *s, const neural *n) {
    sim_shape in = s->a.shape;
    int64_t plane = in.h * in.w;
    if (in.c != n->out.c || in.h < n->out.h || in.w < n->out.w || in.h * in.w != n->out.h * n->out.w)
        return sim_refuse(s, 0x14, "a copy that changes the shape");
    if (!sim_bits(s, 0x24, 14, 1)) return sim_refuse(s, 0x24, "a copy that is not channel by channel");
    PROPANE_TRY(sim_allocate(s, &s->y, n->out));
    for (int64_t c = 0; c < in.g * in.c; c++)
        for (int64_t i = c * plane; i < (c + 1) * plane; i++)
            s->y.data[i] =
                simulate_neural_finish(s, n, (double)s->a.data[i] + n->bias, n->lanes ? (int)(c % n->lanes) : 0);
    return PROPANE_OK;
}

static propane_status simulate_neural_maximum(sim *s, const neural *n) {
    sim_shape in = s->a.shape;
    int64_t plane = in.h * in.w;
    if (n->out.c != 1 || n->out.h != in.h || n->out.w != in.w || in.g != 1)
        return sim_refuse(s, 0x10, "a maximum over channels with %lld results", (long long)n->out.c);
    PROPANE_TRY(sim_allocate(s, &s->y, n->out));
    for (int64_t i = 0; i < plane; i++) {
        double best = -INFINITY;
        for (int64_t c = 0; c < in.c; c++) {
            double v = (double)s->a.data[c * plane + i];
            if (v > best || isnan(v)) best = v;
        }
        s->y.data[i] = simulate_neural_finish(s, n, best, 0);
    }
    return PROPANE_OK;
}

propane_status sim_neural(sim *s) {
    neural *n = mem_alloc(sizeof *n);
    if (!n) return propane_fail_memory(s->err, sizeof *n);
    propane_status status = simulate_neural_decode(s, n);
    if (!status)
        status = n->mode == MODE_CONVOLUTION ? simulate_neural_convolution(s, n)
                 : n->mode == MODE_MAXIMUM   ? simulate_neural_maximum(s, n)
                                             : simulate_neural_pass(s, n);
    mem_free(n);
    return status;
}
