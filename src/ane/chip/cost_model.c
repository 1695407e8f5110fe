/* SPDX-License-Identifier: MIT
 * Owns the model of one call: the formula, the correction through the published points, and the energy. The constants
 * are data (cost_constants.def). The formula is the same as in tools/fit_cost_model.py, which compares its results with
 * those of this file.
 *
 * The facts behind the formula, each seen by more than one source:
 * - A call has a fixed cost.
 * - An engine has 16 cores x 256 multiply-adds, and a marginal layer runs near the peak.
 * - Weights stream at a rate of the package's memory. Weights that all layers share stream once.
 * - Activations beyond 1 MiB are tiled, and every tile reads the weights again.
 * - Few channels or few pixels leave lanes idle.
 * - The M5 and later use Winograd for 3x3 and skip weights that are 0.
 * - The rate of decoding limits weights with look-up tables.
 */
#include "ane/chip/cost_model.h"

#include <math.h>
#include <string.h>

#include "ane/chip/limit.h"

#define MIB  1048576.0
#define AXES 8

static const cost_constants constants[CHIP_COUNT] = {
#define COST_CHIP(chip, ...) [CHIP_##chip] = {__VA_ARGS__},
#include "ane/chip/cost_constants.def"
};

static const double scale[AXES] = {
#define COST_SCALE(...) __VA_ARGS__
#include "ane/chip/cost_constants.def"
};

enum {
#define COST_DIFFERENT(name, factor) DIFFERENT_##name,
#include "ane/chip/cost_constants.def"
    DIFFERENT_COUNT
};

static const double different[DIFFERENT_COUNT] = {
#define COST_DIFFERENT(name, factor) [DIFFERENT_##name] = factor,
#include "ane/chip/cost_constants.def"
};

/* Weight of what the points of one chip, path and source have in common. A user's program has no source. */
static const double shared =
#define COST_SHARED(weight) weight
#include "ane/chip/cost_constants.def"
    ;

static const struct {
    double similarity, median, p90;
} bands[] = {
#define COST_BAND(...) {__VA_ARGS__},
#include "ane/chip/cost_constants.def"
};

typedef struct published {
    short which;
    unsigned char path, kind, quant, runtime, slope, task, cold, sparse;
    uint32_t os, source, sub;
    short place[AXES]; /* x 100 */
    float alpha;
} published;

static const published points[] = {
#define COST_POINT(chip, path, kind, quant, runtime, slope, task, cold, sparse, os, source, sub, a, b, c, d, e, f, g,  \
                   h, alpha)                                                                                           \
    {CHIP_##chip, path, kind, quant, runtime, slope, task, cold, sparse, os, source, sub, {a, b, c, d, e, f, g, h},    \
     alpha##f},
#include "ane/chip/cost_constants.def"
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *cost_path_name(cost_path path) {
    static const char *const names[] = {"direct", "e5rt", "coreml", "linux"};
    return names[path];
}

const char *cost_kind_name(cost_kind kind) {
    static const char *const names[] = {"matmul", "conv1x1", "conv3x3", "chain", "elementwise", "softmax"};
    return names[kind];
}

const cost_constants *cost_constants_of(chip_id id) { return &constants[id]; }

uint32_t cost_hash(const char *text, size_t length) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

/* ---- the formula -------------------------------------------------------------------------------------------------- */

static double cost_model_engines_of(const cost_call *c) {
    if (c->chip != CHIP_m6) return 1;
    return c->engines > 0 ? c->engines : 2;
}

static double cost_model_compute_ms(const cost_call *c, const cost_constants *q) {
    double pixels = fmax(c->pixels, 1), engines = cost_model_engines_of(c), lanes = 32 * engines;
    double rate = q->tflops * 1e9 * engines * (c->both_int8 ? q->int8 : 1);
    if (c->cin > 0) {
        double used = c->cin * c->kernel / 128;
        rate *= fmin(1, fmax(0.05, used * used));
        if (c->kind != COST_MATMUL) rate *= fmax(0.05, pixels / (lanes * ceil(pixels / lanes)));
    }
    if (c->kernel == 9 && c->dilation == 1 && pixels >= 256 && !c->fp8) rate *= q->winograd;
    return c->flops * fmax(0.05, 1 - c->zeros * q->zeros) / rate;
}

static bool cost_model_is_multiple(double v, double of) { return v > 0 && fmod(v, of) == 0; }

static double cost_model_weights_ms(const cost_call *c, const cost_constants *q, double layers) {
    double pixels = fmax(c->pixels, 1), one = c->slope ? c->weight_bytes : c->weight_bytes / c->layers;
    double loads = c->shared && one <= 1.05 * MIB ? 1 : layers;
    double tiles = one > MIB ? fmax(1, ceil(c->cin * pixels * 2 / MIB)) : 1;
    bool power = c->kernel == 1 && cost_model_is_multiple(c->cin, 4096) && fmod(c->cout, 4096) == 0 &&
                 c->cout <= 8192 && c->kind != COST_MATMUL;
    double ms = loads * one / 1e6 * (1 / (power ? q->pow2 : q->stream) + (tiles - 1) / q->again);
    if (c->lut_bits > 0) ms = fmax(ms, c->cin * c->cout * c->kernel * layers / (q->decode * 1e9));
    return ms;
}

static double cost_model_formula(const cost_call *c, cost_time *out) {
    const cost_constants *q = &constants[c->chip];
    const double t0[] = {q->t0_direct, q->t0_e5rt, q->t0_coreml, q->t0_linux};
    const double io[] = {q->io_direct, q->io_e5rt, q->io_coreml, q->io_direct};
    double layers = c->slope ? 1 : c->layers;
    out->fixed_ms = c->slope ? 0 : c->task ? 0.02 : c->cold ? q->t0_cold : t0[c->path];
    out->layers_ms = q->layer_us * 1e-3 * (layers - 1);
    out->compute_ms = cost_model_compute_ms(c, q);
    out->weights_ms = cost_model_weights_ms(c, q, layers);
    out->io_ms = c->slope || c->task ? 0 : c->io_bytes / 1e6 / (c->slow_host ? q->io_slow : io[c->path]);
    return out->fixed_ms + out->layers_ms + fmax(out->compute_ms, out->weights_ms) + out->io_ms;
}

/* ---- the correction ------------------------------------------------------------------------------------------------ */

static double cost_model_axis(double v) { return rint(log2(fmax(v, 1e-3)) * 100) / 100; }

static double cost_model_similarity(const cost_call *c, const double at[AXES], const published *p) {
    double square = 0, factor = 1;
    for (int i = 0; i < AXES; i++) {
        double d = (at[i] - p->place[i] / 100.0) / scale[i];
        square += d * d;
    }
    if ((int)c->chip != p->which) factor *= different[DIFFERENT_chip];
    if (c->path != p->path) factor *= different[DIFFERENT_path];
    if (c->kind != p->kind) factor *= different[DIFFERENT_kind];
    if (c->os != p->os) factor *= different[DIFFERENT_os];
    if (c->quant != p->quant) factor *= different[DIFFERENT_quant];
    if (c->source != p->source) factor *= different[DIFFERENT_source];
    if (c->runtime != p->runtime) factor *= different[DIFFERENT_runtime];
    if (c->sub != p->sub) factor *= different[DIFFERENT_sub];
    if (c->slope != p->slope) factor *= different[DIFFERENT_slope];
    if (c->task != p->task) factor *= different[DIFFERENT_task];
    if (c->cold != (p->cold != 0)) factor *= different[DIFFERENT_cold];
    if ((c->zeros > 0) != (p->sparse != 0)) factor *= different[DIFFERENT_sparse];
    return factor * exp(-sqrt(square));
}

void cost_call_parts(const cost_call *c, cost_time *out) {
    *out = (cost_time){.correction = 1};
    out->ms = cost_model_formula(c, out);
}

void cost_call_time(const cost_call *c, cost_time *out) {
    *out = (cost_time){0};
    const double at[AXES] = {cost_model_axis(c->flops + 1),       cost_model_axis(c->weight_bytes + 1024),
                             cost_model_axis(c->io_bytes + 1024), cost_model_axis(c->pixels + 1),
                             cost_model_axis(c->cin + 1),         cost_model_axis(c->cout + 1),
                             cost_model_axis(c->layers),          cost_model_axis(c->kernel)};
    double sum = 0;
    for (size_t i = 0; i < COUNT(points); i++) {
        const published *p = &points[i];
        const bool related = (int)c->chip == p->which && (int)c->path == p->path && c->source == p->source;
        double s = cost_model_similarity(c, at, p);
        sum += (s + (related ? shared : 0)) / (1 + shared) * (double)p->alpha;
        out->similarity = fmax(out->similarity, s);
    }
    out->correction = exp(sum);
    out->ms = cost_model_formula(c, out) * out->correction;
    size_t band = 0;
    while (band + 1 < COUNT(bands) && out->similarity < bands[band].similarity) band++;
    out->typical = bands[band].median;
    out->low_ms = out->ms / (1 + bands[band].p90);
    out->high_ms = out->ms * (1 + bands[band].p90);
}

/* ---- energy ---------------------------------------------------------------------------------------------------------- */

/* pJ per operation, pJ per byte, W. The ranges over the chips with points are 0.36-0.73, 0-28 and 0.07-1.47. The fit of
 * the M5 is not identified, so the M5 uses the fit of the M5 Pro. Chips without points use the fit of their
 * generation. */
static const struct {
    chip_generation generation;
    double operation, byte, watt;
} energies[] = {
    {CHIP_H12, 0.55, 11, 0.8},   {CHIP_H13, 0.54, 11, 0.76},  {CHIP_H14, 0.36, 28, 1.47}, {CHIP_H15, 0.55, 15, 0.8},
    {CHIP_H16, 0.68, 9.6, 0.25}, {CHIP_H17, 0.73, 8.3, 0.66}, {CHIP_H18, 0.65, 9, 0.6},   {CHIP_H19, 0.65, 9, 0.6},
};

double cost_byte_pj(const chip *c) {
    for (size_t i = 0; i < COUNT(energies); i++)
        if (energies[i].generation == c->generation) return energies[i].byte;
    return 0;
}

double cost_energy_mj(const chip *c, double flops, double bytes, double ms) {
    for (size_t i = 0; i < COUNT(energies); i++)
        if (energies[i].generation == c->generation)
            return flops * energies[i].operation * 1e-9 + bytes * energies[i].byte * 1e-9 + energies[i].watt * ms;
    return 0;
}

/* Small programs compile in 11-30 ms (M4, M5). Each of 60 programs of Stories110M with 5.4 MB of weights compiles in 59
 * ms (M5), 58 (M4 Pro), or 118 to 142 ms (M1 Pro, M1 Max). */
double cost_compile_ms(const chip *c, double weight_bytes) {
    double slow = c->generation <= CHIP_H13 ? 2.1 : c->generation <= CHIP_H15 ? 1.3 : 1;
    return slow * (20 + weight_bytes / 1e6 * 7);
}

/* Through Core ML, a first load does more than run the engine's compiler. The encoder of Whisper turbo, 1.27 GB, took
 * 440 s on an M4 Pro and 560 s on an M2 Pro (argmaxinc/argmax-oss-swift issue 309), 50 times cost_compile_ms. On the M1
 * and A14, programs with hundreds of megabytes take up to hours (rule X7b): three for an encoder of 600 MB on an M1 Max
 * (ggml-org/whisper.cpp issue 937), 1,200 times cost_compile_ms. */
double cost_first_load_most_ms(const chip *c, cost_path path, double weight_bytes) {
    const bool hours = c->generation <= CHIP_H13 && weight_bytes > chip_limit_value("X7b");
    const double coreml = hours ? 1200 : 50, direct = 2;
    return cost_compile_ms(c, weight_bytes) * (path == COST_COREML ? coreml : direct);
}

/* Loading 72 compiled kernels takes 700 ms, and compiling them takes 3,800 (the same author's figures, M4). Another
 * trainer loads 60 kernels in 494 ms (M4 Max), which is 8.2 ms each. */
double cost_reload_ms(const chip *c, double weight_bytes) { return cost_compile_ms(c, weight_bytes) * 700 / 3800; }
