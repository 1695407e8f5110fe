/* SPDX-License-Identifier: MIT
 * Owns the model of published training steps. The steps differ in the part of the work that the engine does. A style is
 * one such division of work. Each part scales with the sizes that determine it: the engine's with weights and calls,
 * staging with activations, the host's matrix products with FLOPs. The constants refer to the step of Stories110M (12
 * layers, width 768, hidden 2048, 256 positions, 32000 words), because its parts were published.
 */
#include "ane/chip/cost_step.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"

static const struct host_row {
    chip_id chip;
    cost_host host;
    double call, packed, io_static, io_packed, element, logit;
} hosts[] = {
#define HOST(id, sgemm, waiting, stream, memory, shared, watts, call, packed, io_static, io_packed, element, logit,    \
             source)                                                                                                   \
    {CHIP_##id, {sgemm, waiting, stream, memory, shared, watts, source}, call, packed, io_static, io_packed, element,  \
     logit},
#include "ane/chip/hosts.def"
};

static const struct host_row *cost_step_row_of(const chip *c) {
    size_t count = sizeof hosts / sizeof hosts[0];
    for (size_t i = 0; i < count; i++)
        if (hosts[i].chip == c->id) return &hosts[i];
    /* Otherwise, use the base chip of the generation, or of the nearest earlier one. A phone's chip uses a phone's
     * row. */
    const struct host_row *best = &hosts[0];
    for (size_t i = 0; i < count; i++) {
        const chip *other = chip_get(hosts[i].chip), *now = chip_get(best->chip);
        if (other->generation > c->generation || (other->is_phone && !c->is_phone)) continue;
        if (other->generation > now->generation || (c->is_phone && other->is_phone && !now->is_phone)) best = &hosts[i];
    }
    return best;
}

cost_host cost_host_of(const chip *c) { return cost_step_row_of(c)->host; }

const char *cost_host_sources(void) {
    return "  products: fp32 sgemm as others measured it on the chip, or its nearest; code: a CBLAS such as Accelerate "
           "(--blas auto), never timed on a Mac by Propane; with --blas off the built-in NEON kernels, which are "
           "slower\n  elementwise: from the parts that published trainers print (staging, elementwise work); code: "
           "loops of the thread pool\n  AdamW: assumed, about 0.8 of the memory's bandwidth; code: one sweep of the "
           "pool, bytes by --moments; from one set to another (--overlap early) the same bytes, as lines that are "
           "written whole are not read first (STREAM on an M4: 103 of 120 GB/s, arXiv 2502.05317)\n  all at once: nine "
           "tenths of the bandwidth that Apple states for the chip; engine, products and update share it\n  engine: "
           "the model behind 'propane estimate PROGRAM', fitted to published calls (docs/estimate.md)\n  joules: the "
           "processor's watts while it computes, the engine's by its operations and bytes, memory for what the "
           "processor moves, 0.3 W idle (M3 Pro, slavko); a range of a factor of two\n  order: the queues of "
           "lm/step: updates continue during the next batch (--overlap on), as --trace shows them\n";
}

/* Returns the time for a number of positions, relative to 256. Each position costs time: rustane's 24 published sizes
 * (M4 Max) follow 0.535 + 0.00178 x positions for forward and backward combined, which is 1.46 times as long at 512
 * positions as at 256. */
static double cost_step_positions(double positions) { return (0.535 + 0.00178 * positions) / (0.535 + 0.00178 * 256); }

double cost_packed_ms(const chip *c, double weight_bytes, double positions) {
    return weight_bytes / (cost_step_row_of(c)->packed * 1e6) * cost_step_positions(positions);
}

const char *cost_style_name(cost_style style) {
    static const char *const names[] = {"baked",
                                        "baked, head on the engine",
                                        "baked, norms on the host",
                                        "packed",
                                        "inputs",
                                        "packed, one call at a time",
                                        "forward half, packed",
                                        "engine's part of baked",
                                        "packed, a call a product"};
    return names[style];
}

double cost_layer_weights(const cost_sizes *s) {
    return s->width * (s->q + 2 * s->kv) + s->q * s->width + 3 * s->width * s->hidden;
}

/* Sizes of Stories110M. */
#define UNIT_WEIGHTS    (12.0 * (4.0 * 768 * 768 + 3.0 * 768 * 2048))
#define UNIT_ACTIVATION (12.0 * 768 * 256)
#define UNIT_HIDDEN     (12.0 * 2048 * 256)

static void cost_step_sync_step(const chip *c, const cost_sizes *s, cost_style style, cost_step *out) {
    /* ms per million weights, M4 Max: forward 0.30 at 256 and 0.415 at 512 positions, backward 0.69 and 1.03, update
     * 0.097. The M3 Ultra takes 1.42 times that; hidden layers of four times the width take 1.14 times (24 published
     * sizes). */
    double millions = s->layers * cost_layer_weights(s) / 1e6 * s->batch;
    double slow = (c->id == CHIP_m3_ultra ? 1.42 : 1) * (s->hidden / s->width > 3.5 ? 1.14 : 1);
    double forward = millions * slow * (0.185 + 0.00045 * s->context);
    double backward = millions * slow * (0.35 + 0.00133 * s->context);
    double whole = style == COST_STYLE_FORWARD ? forward : forward + backward;
    out->engine_ms = 0.55 * whole; /* of one layer, about half is engine time, 26-30 % staging, 15-20 % reading back */
    out->staging_ms = 0.45 * whole;
    out->update_ms = style == COST_STYLE_FORWARD ? 0 : 0.097 * slow * millions;
}

/* Trainers with packed weights cut the vocabulary to the words in use: 9,205 for TinyStories. */
#define PACKED_VOCAB 9205

static double cost_step_head_ms(const struct host_row *h, const cost_sizes *s) {
    const double vocab = s->vocab > 0 ? s->vocab : PACKED_VOCAB;
    return 4 * s->width * vocab * s->context / (h->host.gemm_tflops * 1e9) + h->logit * vocab * s->context / 1e6;
}

static void cost_step_packed_step(const chip *c, const struct host_row *h, const cost_sizes *s, cost_style style,
                                  cost_step *out) {
    double weights = s->layers * cost_layer_weights(s),
           activation = s->layers * s->width * s->context / UNIT_ACTIVATION;
    double cut = style == COST_STYLE_INPUTS ? 0.42 : 1; /* without cutting weights out: 77 instead of 110 ms (M4) */
    out->engine_ms = cut * cost_packed_ms(c, 2 * 2 * weights, s->context);
    out->staging_ms = (style == COST_STYLE_INPUTS ? 0.6 : 1) * h->io_packed * activation;
    /* Norms take 3 to 6 ms, copies for weight gradients take 2.5 to 3.1 ms, and parts that the logs do not name take 1
     * to 7 ms. */
    out->elementwise_ms = 0.8 * h->element * s->layers * s->hidden * s->context / UNIT_HIDDEN + 8 * activation;
    out->gemm_ms = cost_step_head_ms(h, s);
}

/* Models AutoANE (M2 Pro): one engine call per matrix product, seven forward and seven backward, and everything else
 * on the CPU. A call with its staging took 0.27 ms at 960 x 256 (MeZO, 360M), and 0.1 ms are left for one at 512 x
 * 128 (36M). In a step of 95M parameters, the CPU's work apart from matrix products takes 30.3 of 102.2 ms: 28.9 ns
 * per activation. */
static void cost_step_product_step(const chip *c, const struct host_row *h, const cost_sizes *s, cost_step *out) {
    double weights = s->layers * cost_layer_weights(s), calls = 14 * s->layers;
    double vocab = s->vocab > 0 ? s->vocab : PACKED_VOCAB;
    out->engine_ms = cost_packed_ms(c, 2 * 2 * weights, s->context) + calls * 0.038;
    out->staging_ms = calls * s->width * s->context * 0.94e-6;
    out->elementwise_ms = s->layers * s->width * s->context * COST_ELEMENT_NS / 1e6;
    out->gemm_ms = (2 * weights + 6 * s->width * vocab) * s->context / (h->host.gemm_tflops * 1e9);
}

static void cost_step_static_step(const chip *c, const struct host_row *h, const cost_sizes *s, cost_style style,
                                  cost_step *out) {
    double weights = s->layers * cost_layer_weights(s),
           activation = s->layers * s->width * s->context / UNIT_ACTIVATION;
    double engine = 4 * weights * s->context / 1e9 + 6 * activation; /* forward and dX; backward of attention */
    double vocab = s->vocab > 0 ? s->vocab : 32000;
    double head = 2 * s->width * vocab * s->context / 1e9, products = 3 * head + 2 * weights * s->context / 1e9;
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
        cost_step_packed_step(c, h, s, style, out);
    else if (style == COST_STYLE_PRODUCTS)
        cost_step_product_step(c, h, s, out);
    else
        cost_step_static_step(c, h, s, style, out);
    out->ms = out->engine_ms + out->staging_ms + out->elementwise_ms + out->gemm_ms + out->update_ms;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

static bool cost_step_has(const char *shape, const char *word) { return strcasestr(shape, word) != NULL; }

/* Returns the number after NAME=. Returns 0 if there is none, and NAN if it cannot be the size of a model. */
static double cost_step_size_in(const char *shape, const char *name) {
    size_t n = strlen(name);
    for (const char *at = shape; (at = strstr(at, name)); at++) {
        if (at[n] != '=' || (at > shape && isalpha((unsigned char)at[-1]))) continue;
        double v;
        return text_read_real(at + n + 1, &v) && v >= 1 && v <= 1e7 ? v : NAN;
    }
    return 0;
}

/* Reads the sizes. Returns why they cannot be used, or NULL if they can. */
static const char *cost_step_read_sizes(const char *shape, cost_sizes *s) {
    static const char *const names[] = {"L", "D", "F", "S", "V"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (isnan(cost_step_size_in(shape, names[i])))
            return "a size in the shape is not a number from 1 to 10 million";
    bool stories = cost_step_has(shape, "Stories110M"),
         rustane = cost_step_size_in(shape, "D") > 0 && !stories && !cost_step_has(shape, "Qwen");
    *s = stories ? (cost_sizes){12, 768, 2048, 768, 768, 0, 256, 1} : (cost_sizes){.batch = 1};
    s->vocab = cost_step_size_in(shape, "V");
    if (stories) return NULL;
    s->layers = cost_step_size_in(shape, "L");
    s->width = cost_step_size_in(shape, "D");
    s->hidden = cost_step_size_in(shape, "F");
    s->context = cost_step_size_in(shape, "S") > 0 ? cost_step_size_in(shape, "S") : 256;
    s->q = s->kv = s->width;
    if (cost_step_has(shape, "Qwen3-0.6B")) s->q = 2048, s->kv = 1024;
    const bool stated = s->layers > 0 && s->width > 0 && s->hidden > 0 && (rustane || cost_step_has(shape, "Qwen"));
    return stated ? NULL : "sizes not stated";
}

static const char *cost_step_read_style(const char *id, const char *shape, const char *note, cost_style *out) {
    bool dynamic = cost_step_has(shape, "dynamic") || cost_step_has(note, "dynamic");
    if (cost_step_has(shape, "kernel ") || cost_step_has(shape, "one layer") || cost_step_has(shape, "dispatches"))
        return "part of a step";
    if (cost_step_has(shape, "dynamic:")) return "part of a step";
    if (cost_step_has(shape, "microbatches")) return "one time for several batches";
    if (cost_step_has(note, "pipelined")) return "overlapped in a different way";
    if (cost_step_has(shape, "ANE part")) {
        *out = COST_STYLE_ENGINE;
    } else if (cost_step_has(shape, "forward only")) {
        *out = COST_STYLE_FORWARD;
    } else if (!cost_step_has(shape, "Stories") && !cost_step_has(shape, "Qwen")) {
        *out = COST_STYLE_SYNC;
    } else if (cost_step_has(id, "matmul") || cost_step_has(note, "matmul-only")) {
        *out = COST_STYLE_PRODUCTS;
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
    else
        out->reason = cost_step_read_sizes(shape, &out->sizes);
    if (!out->reason) out->reason = cost_step_read_style(id, shape, note, &out->style);
    out->covered = !out->reason;
    /* Rows state the model's vocabulary, not the trainer's: packed trainers of Stories110M keep only the words in
     * use. */
    const bool packed = out->style == COST_STYLE_PACKED || out->style == COST_STYLE_INPUTS;
    if (packed && out->sizes.vocab >= 32000 && cost_step_has(shape, "Stories110M")) out->sizes.vocab = PACKED_VOCAB;
    if (out->covered) cost_step_published(c, &out->sizes, out->style, &out->step);
    return true;
}
