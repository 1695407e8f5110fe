/* SPDX-License-Identifier: MIT
 * Owns the model of published training steps. They differ in what they give to the engine; a style is such a division of
 * work, and each part scales with the sizes that make it: the engine's with weights and calls, staging with activations,
 * the host's products with FLOPs. The unit of the constants is the step of Stories110M (12 layers, width 768, hidden 2048,
 * 256 positions, 32000 words), for which parts were published.
 */
#include "ane/chip/cost_step.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Per chip: the host, then ms of parts of a Stories110M step.
 *   gemm     25.2 GFLOP of the head take 9.1 (M4), 5.5 (M4 Max), 4.4 (M3 Ultra), 10.8 ms (M5); others by their cores
 *   shared   nine tenths of the bandwidth that Apple states for the chip's memory (68, 200, 400, 100, 100, 819, 120, 273, 546, 153
 *            GB/s in the order below; the M5 Max's is a guess)
 *   waiting  what is left of published static steps for 81.2 GFLOP of the head and of weight gradients
 *   call     ms of a call inside the static loop: 9.6 (M4), 8.9 (M4 Pro), 15 (M3 Ultra), 9.3 (M5), 33.5 ms (M1 Pro) for 72
 *   packed   GB/s at which fp16 weights that lie beside the activation are cut out and used: 170 MB in 21 (M4), 18.3 (M4
 *            Pro), 32.7 ms (M3 Ultra) forward
 *   io       ms of staging in a static and in a packed step; element: elementwise work on the host */
static const struct host_row {
    chip_id chip;
    cost_host host;
    double call, packed, io_static, io_packed, element;
} hosts[] = {
    {CHIP_m1, {1.2, 0.5, 25, 50, 61}, 0.37, 5, 8, 40, 22},
    {CHIP_m1_pro, {2.2, 0.85, 40, 120, 180}, 0.37, 5, 6, 30, 20},
    {CHIP_m1_max, {2.2, 0.88, 45, 180, 360}, 0.40, 5, 6, 30, 18},
    {CHIP_m2, {1.5, 0.6, 30, 80, 90}, 0.30, 6, 6, 35, 18},
    {CHIP_m3, {1.9, 0.8, 35, 80, 90}, 0.20, 6.5, 5, 30, 16},
    {CHIP_m3_ultra, {5.8, 1.55, 70, 300, 737}, 0.135, 4.9, 3.6, 19, 13.6},
    {CHIP_m4, {2.75, 1.04, 45, 95, 108}, 0.062, 7.2, 4.1, 22, 14.4},
    {CHIP_m4_pro, {3.6, 1.36, 60, 200, 245}, 0.055, 8.3, 4, 13.5, 13.5},
    {CHIP_m4_max, {4.6, 1.98, 70, 350, 491}, 0.065, 8.3, 4, 13, 12.5},
    {CHIP_m5, {2.4, 0.96, 50, 120, 138}, 0.058, 8, 4.7, 22, 15.3},
    {CHIP_m5_max, {5, 2, 75, 400, 500}, 0.058, 9.5, 4, 13, 12.5},
};

static const struct host_row *cost_step_row_of(const chip *c) {
    size_t count = sizeof hosts / sizeof hosts[0];
    for (size_t i = 0; i < count; i++)
        if (hosts[i].chip == c->id) return &hosts[i];
    /* The base chip of the generation, or the nearest before it. */
    const struct host_row *best = &hosts[0];
    for (size_t i = 0; i < count; i++)
        if (chip_get(hosts[i].chip)->generation <= c->generation &&
            chip_get(hosts[i].chip)->generation > chip_get(best->chip)->generation)
            best = &hosts[i];
    return best;
}

cost_host cost_host_of(const chip *c) { return cost_step_row_of(c)->host; }

const char *cost_host_sources(void) {
    return "  products: from the classifier's time in published steps of Stories110M (25.2 GFLOP: M4 9.1 ms, M4 Max "
           "5.5, "
           "M3 "
           "Ultra 4.4, M5 10.8; other chips by their cores); code: a CBLAS such as Accelerate (--blas auto), never "
           "timed "
           "on "
           "a Mac by Propane; with --blas off own NEON kernels, which are slower\n"
           "  elementwise: from the parts that published trainers print (staging, elementwise work); code: loops of "
           "the "
           "thread pool\n"
           "  AdamW: assumed, about 0.8 of the memory's bandwidth; code: one sweep of the pool, bytes by --moments; "
           "from one "
           "set to another (--overlap early) the same bytes, as lines that are written whole are not read first "
           "(STREAM on "
           "an M4: 103 of 120 GB/s, arXiv 2502.05317)\n"
           "  all at once: nine tenths of the bandwidth that Apple states for the chip; engine, products and update "
           "share "
           "it\n"
           "  engine: the model behind 'propane estimate PROGRAM', fitted to published calls (docs/estimate.md)\n"
           "  order: the queues of train/step: updates go on beside the next batch (--overlap on), as --trace shows "
           "them\n";
}

double cost_packed_gbs(const chip *c) { return cost_step_row_of(c)->packed; }

const char *cost_style_name(cost_style style) {
    static const char *const names[] = {
        "baked",  "baked, head on the engine",  "baked, norms on the host", "packed",
        "inputs", "packed, one call at a time", "forward half, packed",     "engine's part of baked"};
    return names[style];
}

double cost_layer_weights(const cost_sizes *s) {
    return s->width * (s->q + 2 * s->kv) + s->q * s->width + 3 * s->width * s->hidden;
}

/* Of Stories110M. */
#define UNIT_WEIGHTS    (12.0 * (4.0 * 768 * 768 + 3.0 * 768 * 2048))
#define UNIT_ACTIVATION (12.0 * 768 * 256)
#define UNIT_HIDDEN     (12.0 * 2048 * 256)

static void cost_step_sync_step(const chip *c, const cost_sizes *s, cost_style style, cost_step *out) {
    /* ms for a million weights, M4 Max: forward 0.30 at 256 and 0.415 at 512 positions, backward 0.69 and 1.03, update 0.097;
     * the M3 Ultra takes 1.42 times that; hidden layers of four times the width 1.12 times (24 published sizes). */
    double millions = s->layers * cost_layer_weights(s) / 1e6 * s->batch;
    double slow = (c->id == CHIP_m3_ultra ? 1.42 : 1) * (s->hidden / s->width > 3.5 ? 1.14 : 1);
    double forward = millions * slow * (0.185 + 0.00045 * s->context);
    double backward = millions * slow * (0.35 + 0.00133 * s->context);
    double whole = style == COST_STYLE_FORWARD ? forward : forward + backward;
    out->engine_ms = 0.55 * whole; /* one layer: about half engine, 26-30 % staging, 15-20 % reading back */
    out->staging_ms = 0.45 * whole;
    out->update_ms = style == COST_STYLE_FORWARD ? 0 : 0.097 * slow * millions;
}

static void cost_step_packed_step(const struct host_row *h, const cost_sizes *s, cost_style style, cost_step *out) {
    double weights = s->layers * cost_layer_weights(s),
           activation = s->layers * s->width * s->context / UNIT_ACTIVATION;
    double head =
        4 * s->width * fmin(s->vocab, 32000) * s->context / 1e9; /* large vocabularies are cut to the words in use */
    double cut = style == COST_STYLE_INPUTS ? 0.42 : 1; /* without cutting weights out: 77 instead of 110 ms (M4) */
    out->engine_ms = 2 * cut * weights * 2 / (h->packed * 1e6);
    out->staging_ms = (style == COST_STYLE_INPUTS ? 0.6 : 1) * h->io_packed * activation;
    out->elementwise_ms = 0.8 * h->element * s->layers * s->hidden * s->context / UNIT_HIDDEN + 3 * activation;
    out->gemm_ms = head / fmin(h->host.gemm_tflops, 2.2);
}

static void cost_step_static_step(const chip *c, const struct host_row *h, const cost_sizes *s, cost_style style,
                                  cost_step *out) {
    double weights = s->layers * cost_layer_weights(s),
           activation = s->layers * s->width * s->context / UNIT_ACTIVATION;
    double engine = 4 * weights * s->context / 1e9 + 6 * activation; /* forward and dX; attention's backward */
    double head = 2 * s->width * s->vocab * s->context / 1e9, products = 3 * head + 2 * weights * s->context / 1e9;
    double calls = 6 * s->layers;
    if (style == COST_STYLE_STATIC_HEAD) {
        calls += 14;
        engine += head;
        products -= head;
    }
    out->engine_ms = calls * h->call + engine / cost_constants_of(c->id)->tflops;
    if (style == COST_STYLE_ENGINE) return;
    out->staging_ms = h->io_static * activation;
    out->elementwise_ms = h->element * activation * (style == COST_STYLE_STATIC_PLAIN ? 3.7 : 1);
    out->gemm_ms = products / h->host.waiting_tflops;
}

void cost_step_published(const chip *c, const cost_sizes *s, cost_style style, cost_step *out) {
    const struct host_row *h = cost_step_row_of(c);
    *out = (cost_step){0};
    if (style == COST_STYLE_SYNC || style == COST_STYLE_FORWARD)
        cost_step_sync_step(c, s, style, out);
    else if (style == COST_STYLE_PACKED || style == COST_STYLE_INPUTS)
        cost_step_packed_step(h, s, style, out);
    else
        cost_step_static_step(c, h, s, style, out);
    out->ms = out->engine_ms + out->staging_ms + out->elementwise_ms + out->gemm_ms + out->update_ms;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

static bool cost_step_has(const char *text, const char *word) { return strcasestr(text, word) != NULL; }

static double cost_step_size_in(const char *shape, const char *name) {
    size_t n = strlen(name);
    for (const char *at = shape; (at = strstr(at, name)); at++)
        if (at[n] == '=' && (at == shape || !isalpha((unsigned char)at[-1]))) return strtod(at + n + 1, NULL);
    return 0;
}

static bool cost_step_read_sizes(const char *shape, const char *note, cost_sizes *s) {
    bool stories = cost_step_has(shape, "Stories110M"),
         rustane = cost_step_size_in(shape, "D") > 0 && !stories && !cost_step_has(shape, "Qwen");
    *s = stories ? (cost_sizes){12, 768, 2048, 768, 768, 32000, 256, 1} : (cost_sizes){.batch = 1};
    if (stories) return true;
    s->layers = cost_step_size_in(shape, "L");
    s->width = cost_step_size_in(shape, "D");
    s->hidden = cost_step_size_in(shape, "F");
    s->vocab = cost_step_size_in(shape, "V") > 0 ? cost_step_size_in(shape, "V") : 32000;
    s->context = cost_step_size_in(shape, "S") > 0 ? cost_step_size_in(shape, "S") : 256;
    s->q = s->kv = s->width;
    if (cost_step_has(shape, "Qwen3-0.6B")) s->q = 2048, s->kv = 1024;
    (void)note;
    return s->layers > 0 && s->width > 0 && s->hidden > 0 && (rustane || cost_step_has(shape, "Qwen"));
}

static const char *cost_step_read_style(const char *id, const char *shape, const char *note, cost_style *out) {
    bool dynamic = cost_step_has(shape, "dynamic") || cost_step_has(note, "dynamic");
    if (cost_step_has(shape, "kernel ") || cost_step_has(shape, "one layer") || cost_step_has(shape, "dispatches"))
        return "part of a step";
    if (cost_step_has(shape, "dynamic:")) return "part of a step";
    if (cost_step_has(note, "pipelined")) return "another way of overlapping";
    if (cost_step_has(shape, "ANE part")) {
        *out = COST_STYLE_ENGINE;
    } else if (cost_step_has(shape, "forward only")) {
        *out = COST_STYLE_FORWARD;
    } else if (!cost_step_has(shape, "Stories") && !cost_step_has(shape, "Qwen")) {
        *out = COST_STYLE_SYNC;
    } else if (cost_step_has(note, "function-parameter")) {
        *out = COST_STYLE_INPUTS;
    } else if (dynamic || cost_step_has(note, "steady state") || cost_step_has(note, "compiled once") ||
               cost_step_has(note, "overlapped") || cost_step_has(note, "fused into ANE")) {
        *out = COST_STYLE_PACKED;
    } else if (cost_step_has(note, "60 kernels") || cost_step_has(id, "noextra")) {
        *out = COST_STYLE_STATIC_PLAIN;
    } else if (cost_step_has(note, "86 kernels") || cost_step_has(note, "on ANE") || cost_step_has(id, "static-ane")) {
        *out = COST_STYLE_STATIC_HEAD;
    } else {
        *out = COST_STYLE_STATIC;
    }
    return NULL;
}

bool cost_step_point_read(const char *id, const char *title, const char *workload, const char *shape, const char *note,
                          double ms, cost_step_point *out) {
    const chip *c = NULL;
    *out = (cost_step_point){.id = id, .chip = title, .shape = shape, .published_ms = ms};
    if (strcmp(workload, "train_step") != 0) return false;
    if (ms <= 0)
        out->reason = "no latency published";
    else if (chip_find(title, &c, NULL) != PROPANE_OK || strcasecmp(c->title, title) != 0)
        out->reason = "chip not known";
    else if (!cost_step_read_sizes(shape, note, &out->sizes))
        out->reason = "sizes not stated";
    else
        out->reason = cost_step_read_style(id, shape, note, &out->style);
    out->covered = !out->reason;
    if (out->covered) cost_step_published(c, &out->sizes, out->style, &out->step);
    return true;
}
