/* SPDX-License-Identifier: MIT
 * An update that runs concurrently with the kernels of other layers must produce the same bits as one that does not.
 * Tested on the processor with two queues, on a simulated engine and on the ane device's stand-in, for each form of
 * weights, moments and heads. Runs language models of a few thousand parameters, some of whose tensors are several
 * pieces of the optimiser's sweep.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/run/language_run.h"
#include "support/ane_rig.h"
#include "support/test.h"

enum { TOKENS = 3000, MOST_STEPS = 200, WIDE_LAYERS = 3 };
/* Sanitizers make a step five times as long, ThreadSanitizer thirty times, so they test fewer steps and forms.
 * ThreadSanitizer tests no simulated engine, whose queues are the processor's. */
#if defined __SANITIZE_THREAD__
enum { RUN_STEPS = 12, EACH = 5, SIMULATED = 0 };
#elif defined __SANITIZE_ADDRESS__
enum { RUN_STEPS = 20, EACH = 3, SIMULATED = 1 };
#else
enum { RUN_STEPS = MOST_STEPS, EACH = 1, SIMULATED = 1 };
#endif

typedef struct how {
    const char *device, *precision, *weights, *moments, *clipping;
    bool two_queues, untied, recompute, pieces, wide;
    const char *trace;
    int64_t steps, accumulate, lora_rank;
    double lr, clip;
} how;

typedef struct seen {
    double losses[MOST_STEPS + 1], norms[MOST_STEPS + 1];
    uint64_t blocks[2]; /* allocated before step 10 and before the last one */
    int skipped;
    float *weights;
    size_t bytes;
    int64_t steps;
} seen;

static bool has_stand_in; /* set by main */
static uint16_t tokens[TOKENS];

static void on_step(void *context, const train_report *r) {
    seen *s = context;
    s->losses[r->step] = r->loss;
    s->norms[r->step] = r->gradient_norm;
    s->skipped += r->skipped;
    if (r->step == 10) s->blocks[0] = mem_alloc_count();
    if (r->step == s->steps - 1) s->blocks[1] = mem_alloc_count();
}

static model_config config_of(const how *h) {
    model_config c;
    model_config_default(&c);
    c.hidden_size = 64, c.intermediate_size = 320, c.num_hidden_layers = 2, c.num_attention_heads = 2;
    c.num_key_value_heads = 2, c.head_dim = 32, c.vocab_size = h->pieces ? 3 * 4096 : 600;
    c.max_position_embeddings = 32, c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = !h->untied;
    if (h->wide) c.hidden_size = 192, c.head_dim = 96, c.num_hidden_layers = WIDE_LAYERS;
    return c;
}

static train_options options_of(const how *h, const char *overlap) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.steps = h->steps ? h->steps : 12;
    o.batch = 2, o.context = 32, o.lr = h->lr > 0 ? h->lr : 3e-3, o.warmup = 2, o.eval_interval = 7, o.eval_batches = 1;
    o.checkpoint_interval = 0, o.run_dir = NULL, o.plan = "six";
    if (h->steps == MOST_STEPS || h->trace) o.eval_interval = 0;
    o.device = h->device, o.precision = h->precision ? h->precision : "fp16";
    o.weights = h->weights ? h->weights : "inputs";
    if (h->moments) o.moments = h->moments;
    if (h->trace) o.trace = h->trace;
    if (h->clipping) o.clipping = h->clipping;
    if (h->clip > 0) o.clip = h->clip;
    o.two_queues = h->two_queues && strcmp(overlap, "off") != 0;
    o.overlap = overlap, o.accumulate = h->accumulate ? h->accumulate : 1;
    o.recompute = h->recompute, o.lora_rank = h->lora_rank;
    return o;
}

static propane_status learn(const how *h, const char *overlap, seen *s, propane_error *err) {
    const model_config c = config_of(h);
    const train_options o = options_of(h, overlap);
    model_weights *initial = NULL, *end = NULL;
    train_run *t = NULL;
    bool restart = false;
    *s = (seen){.steps = o.steps};
    if (h->lora_rank) {
        PROPANE_TRY(model_weights_create(&c, &initial, err));
        model_weights_init(initial, 3, 0);
    }
    const train_input in = {.config = &c,
                            .initial = initial,
                            .tokens = tokens,
                            .token_bytes = 2,
                            .token_count = TOKENS,
                            .source = "text",
                            .tokenizer_hash = ""};
    const train_callbacks callbacks = {.context = s, .on_step = on_step};
    propane_status status = language_run_create(&o, &in, &t, err);
    if (status == PROPANE_OK) status = train_run_go_until(t, INT64_MAX, &callbacks, NULL, &restart, err);
    if (status == PROPANE_OK) status = language_run_model(t, &end, err);
    if (status == PROPANE_OK) {
        s->bytes = (size_t)end->floats * sizeof(float);
        s->weights = mem_alloc(s->bytes);
        memcpy(s->weights, end->data, s->bytes);
    }
    model_weights_free(end);
    if (t) train_run_free(t);
    model_weights_free(initial);
    return status;
}

static void make_tokens(void) {
    rng r;
    rng_init(&r, 5);
    for (int i = 0, t = 0; i < TOKENS; i++) {
        t = rng_below(&r, 8) == 0 ? (int)rng_below(&r, 600) : (t * 5 + 1) % 600;
        tokens[i] = (uint16_t)t;
    }
}

static seen seen_with, seen_without;

static void expect_same_bits(const how *h, const char *overlap, const char *what) {
    propane_error err = {0};
    make_tokens();
    EXPECT_OK(learn(h, overlap, &seen_with, &err));
    EXPECT_OK(learn(h, "off", &seen_without, &err));
    EXPECT(seen_with.bytes > 0 && seen_with.bytes == seen_without.bytes);
    for (int64_t i = 1; i <= seen_with.steps; i++) {
        EXPECT_MSG(memcmp(&seen_with.losses[i], &seen_without.losses[i], sizeof seen_with.losses[i]) == 0,
                   "%s, step %d: %.17g, %.17g", what, (int)i, seen_with.losses[i], seen_without.losses[i]);
        EXPECT_MSG(memcmp(&seen_with.norms[i], &seen_without.norms[i], sizeof seen_with.norms[i]) == 0,
                   "%s, step %d: norm %.17g, %.17g", what, (int)i, seen_with.norms[i], seen_without.norms[i]);
    }
    EXPECT_MSG(memcmp(seen_with.weights, seen_without.weights, seen_with.bytes) == 0, "%s: the weights differ", what);
    if (seen_with.steps == MOST_STEPS)
        EXPECT_MSG(seen_with.losses[MOST_STEPS] < seen_with.losses[1] - 1, "%s learns nothing: %g after %g", what,
                   seen_with.losses[MOST_STEPS], seen_with.losses[1]);
    mem_free(seen_with.weights);
    mem_free(seen_without.weights);
}

static void expect_same(const how *h, const char *what) { expect_same_bits(h, "on", what); }

static void two_hundred(const char *device, const char *precision) {
    how h = {.device = device, .precision = precision, .steps = RUN_STEPS, .two_queues = true};
    expect_same(&h, device);
    h.clipping = "lagged", h.steps = RUN_STEPS < 40 ? RUN_STEPS : 40;
    expect_same(&h, "lagged");
}

TEST(the_processor_with_two_queues) { two_hundred("cpu", "fp32"); }
TEST(the_simulated_engine) {
    if (!SIMULATED) SKIP("too slow under ThreadSanitizer");
    two_hundred("sim:m4", "fp16");
}
TEST(the_stand_in) {
    if (!has_stand_in) SKIP("there is no stand-in for Apple's libraries here");
    two_hundred("ane", "fp16");
}

TEST(every_form_of_a_run) {
    static const struct {
        const char *what;
        how h;
    } cases[] = {
        {"fp16", {.precision = "fp16"}},
        {"untied", {.precision = "fp32", .untied = true}},
        {"accumulate", {.precision = "fp32", .accumulate = 3}},
        {"packed", {.precision = "fp16", .weights = "packed"}},
        {"int8", {.precision = "fp32", .moments = "int8"}},
        {"bf16", {.precision = "fp16", .moments = "bf16"}},
        {"recompute", {.precision = "fp32", .recompute = true}},
        {"adapters", {.precision = "fp32", .lora_rank = 2}},
        {"a head in pieces", {.precision = "fp32", .pieces = true, .steps = 4}},
        {"pieces, untied", {.precision = "fp32", .pieces = true, .untied = true, .steps = 4}},
        {"baked", {.precision = "fp32", .weights = "baked", .steps = 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i += EACH)
        for (int lagged = 0; lagged < 2; lagged++) {
            how h = cases[i].h;
            h.device = "cpu", h.two_queues = true, h.clipping = lagged ? "lagged" : "exact";
            expect_same(&h, cases[i].what);
        }
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns a gradient norm that about half of the run's norms exceed, so that some updates are confirmed and some repeated. */
static double middle_norm(how h) {
    propane_error err = {0};
    double norms[MOST_STEPS];
    h.clip = 1e9;
    make_tokens();
    EXPECT_OK(learn(&h, "off", &seen_without, &err));
    mem_free(seen_without.weights);
    for (int64_t i = 0; i < seen_without.steps; i++) norms[i] = seen_without.norms[i + 1];
    qsort(norms, (size_t)seen_without.steps, sizeof *norms, by_size);
    return norms[seen_without.steps / 2];
}

/* A speculative update, made before the norm is known and then confirmed or repeated, produces the same bits as one
 * that waits for the norm. */
static void expect_early(how h, const char *what) {
    int right = 0, wrong = 0;
    if (!h.steps) h.steps = 24;
    h.clip = middle_norm(h);
    expect_same_bits(&h, "early", what);
    for (int64_t i = 2; i <= h.steps; i++) {
        if (!(seen_with.norms[i - 1] <= h.clip)) continue;
        right += seen_with.norms[i] <= h.clip, wrong += seen_with.norms[i] > h.clip;
    }
    EXPECT_MSG(right > 0 && wrong > 0, "%s: %d were confirmed and %d repeated", what, right, wrong);
    h.clip = 1e9;
    expect_same_bits(&h, "early", what);
}

TEST(speculative_updates) {
    const how cases[] = {{.device = "cpu", .two_queues = true},
                         {.device = "cpu", .two_queues = true, .moments = "int8"},
                         {.device = "cpu", .two_queues = true, .moments = "bf16", .untied = true},
                         {.device = "cpu", .two_queues = true, .accumulate = 3},
                         {.device = "cpu", .two_queues = true, .lora_rank = 2, .lr = 0.02},
                         {.device = "cpu", .two_queues = true, .recompute = true},
                         {.device = "cpu", .two_queues = true, .pieces = true, .moments = "int8"},
                         {.device = "cpu", .two_queues = true, .weights = "packed"},
                         {.device = "cpu", .two_queues = true, .precision = "fp32"},
                         {.device = "sim:m4"},
                         {.device = "ane"}};
    const how patched = {.device = "registers", .weights = "patched", .steps = 6, .clip = 1e9};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i += EACH) {
        char what[40];
        snprintf(what, sizeof what, "case %d", (int)i);
        if (has_stand_in || strcmp(cases[i].device, "ane") != 0) expect_early(cases[i], what);
    }
    expect_same_bits(&patched, "early", "patched");
}

/* A separate step, and the batch that it always gets. */
typedef struct lone {
    model_weights *weights;
    train_step *step;
    int32_t inputs[64], targets[64];
} lone;

static propane_status lone_open(lone *l, train_step_options o, propane_error *err) {
    const how h = {.precision = "fp16"};
    const model_config c = config_of(&h);
    *l = (lone){NULL};
    for (int i = 0; i < 64; i++) l->inputs[i] = i * 7 % 600, l->targets[i] = i * 11 % 600;
    PROPANE_TRY(model_weights_create(&c, &l->weights, err));
    model_weights_init(l->weights, 7, 0);
    o.partition = (partition_options){.name = "six", .precision = MIL_fp16, .batch = 2, .context = 32};
    o.device = "cpu";
    return train_step_create(&o, l->weights, &l->step, err);
}

static void lone_close(lone *l) {
    train_step_free(l->step);
    model_weights_free(l->weights);
}

static adamw_step lone_update(int64_t number, double scale) {
    return (adamw_step){.lr = 0.1,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .epsilon = 1e-8,
                        .gradient_scale = 1 / scale,
                        .step = number,
                        .guarded = true};
}

/* Runs three batches. The second one moves nothing. Returns the evaluation after it, and the weights at the end. */
static propane_status a_batch_without_update(bool speculative, int late, double *loss, float *out, propane_error *err) {
    lone l;
    double ignored;
    propane_status status = lone_open(
        &l, (train_step_options){.two_queues = true, .moments = MOMENT_INT8, .overlap = true, .early = speculative},
        err);
    for (int n = 1; n <= 3 && status == PROPANE_OK; n++) {
        adamw_step step = lone_update(n, 1);
        train_step_update_speculative(l.step, &step);
        status = train_step_batch(l.step, l.inputs, l.targets, true, 1, &ignored, err);
        if (n == late) step.gradient_scale = 0.5; /* so that it is not confirmed */
        if (status == PROPANE_OK && n != 2) status = train_step_update(l.step, &step, err);
        if (status == PROPANE_OK && n == 2) status = train_step_evaluate(l.step, l.inputs, l.targets, NULL, loss, err);
    }
    if (status == PROPANE_OK) status = train_step_settle(l.step, err);
    if (status == PROPANE_OK) memcpy(out, l.weights->data, (size_t)l.weights->floats * sizeof *out);
    lone_close(&l);
    return status;
}

TEST(a_speculative_update_that_nobody_confirms_has_never_been) {
    propane_error err = {0};
    enum { FLOATS = 1 << 20 };
    static float with[FLOATS], without[FLOATS];
    for (int late = 0; late <= 3; late++) {
        double loss[2];
        EXPECT_OK(a_batch_without_update(true, late, &loss[1], with, &err));
        EXPECT_OK(a_batch_without_update(false, late, &loss[0], without, &err));
        EXPECT_MSG(memcmp(&loss[0], &loss[1], sizeof loss[0]) == 0, "evaluated: %.17g, %.17g", loss[0], loss[1]);
        EXPECT_MSG(memcmp(with, without, sizeof with) == 0, "wrong in batch %d: the weights differ", late);
    }
}

static propane_status two_batches(double scale, bool overlap, float *out, propane_error *err) {
    lone l;
    double loss;
    propane_status status = lone_open(&l, (train_step_options){.two_queues = overlap, .overlap = overlap}, err);
    for (int n = 1; n <= 2 && status == PROPANE_OK; n++) {
        const adamw_step step = lone_update(n, scale);
        train_step_update_in_batch(l.step, &step);
        status = train_step_batch(l.step, l.inputs, l.targets, true, n == 1 ? scale : 1024, &loss, err);
        if (status == PROPANE_OK) status = train_step_settle(l.step, err);
        const int64_t floats = l.weights->floats;
        for (int64_t i = 0; i < floats; i++) out[(n - 1) * floats + i] = l.weights->data[i];
    }
    lone_close(&l);
    return status;
}

static double part_that_is(const float *a, const float *b, int64_t count) {
    int64_t same = 0;
    for (int64_t i = 0; i < count; i++) same += a[i] == b[i];
    return (double)same / (double)count;
}

/* A loss scale that is too large for some gradients: their weights stay and the others move, identically in both
 * orders. */
TEST(gradients_that_are_no_numbers) {
    propane_error err = {0};
    const how h = {.precision = "fp16"};
    const model_config c = config_of(&h);
    model_weights *start = NULL;
    double least = 1, most = 0;
    EXPECT_OK(model_weights_create(&c, &start, &err));
    model_weights_init(start, 7, 0);
    const int64_t n = start->floats;
    float *with = mem_array((size_t)n, 8), *without = mem_array((size_t)n, 8);
    for (double scale = 1024; scale < 1e9; scale *= 8) {
        EXPECT_OK(two_batches(scale, true, with, &err));
        EXPECT_OK(two_batches(scale, false, without, &err));
        EXPECT_MSG(memcmp(with, without, (size_t)n * 8) == 0, "scale %g", scale);
        for (int64_t i = 0; i < 2 * n; i++) EXPECT(isfinite(with[i]));
        const double kept = part_that_is(with, start->data, n);
        least = fmin(least, kept), most = fmax(most, kept);
    }
    EXPECT_MSG(least < 0.01 && most > 0.5, "from %g to %g of the weights stayed", least, most);
    mem_free(with), mem_free(without);
    model_weights_free(start);
}

/* ---- the trace ------------------------------------------------------------------------------------------------------------ */

typedef struct span {
    const char *lane;
    char name[40];
    int part;
    double submitted, begin, end;
    int batch;
} span;

enum { MOST_SPANS = 20000, TRACED_STEPS = 30 };
static span spans[MOST_SPANS];

static int by_begin(const void *a, const void *b) {
    const double x = ((const span *)a)->begin, y = ((const span *)b)->begin;
    return (x > y) - (x < y);
}

/* Reads the spans of a run, in order. Kernels and updates are numbered by the batch, which begins with an "embed". */
static int read_spans(const json_t *root) {
    const json_t *events = json_object_get(root, "traceEvents");
    int n = 0, batch = 0;
    for (size_t i = 0; i < json_array_size(events) && n < MOST_SPANS; i++) {
        const json_t *e = json_array_get(events, i);
        span s = {.submitted = -1, .part = -1};
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0) continue;
        s.lane = json_string_value(json_object_get(e, "cat"));
        EXPECT(sscanf(json_string_value(json_object_get(e, "name")), "%39s %d", s.name, &s.part) >= 1);
        s.begin = json_number_value(json_object_get(e, "ts"));
        s.end = s.begin + json_number_value(json_object_get(e, "dur"));
        const json_t *submitted = json_object_get(json_object_get(e, "args"), "submitted");
        if (submitted) s.submitted = json_number_value(submitted);
        EXPECT(s.begin >= 0 && s.end >= s.begin && (!submitted || s.submitted <= s.begin + 0.001));
        spans[n++] = s;
    }
    qsort(spans, (size_t)n, sizeof *spans, by_begin);
    for (int i = 0; i < n; i++) {
        if (strcmp(spans[i].name, "embed") == 0) batch++;
        spans[i].batch = batch;
    }
    return n;
}

static bool is_update(const span *s) { return strcmp(s->lane, "update") == 0; }
static bool is_kernel(const span *s) { return s->submitted >= 0; }

/* The nth update of a part, in a run that updates each part in each step, and its order among all traced ones. */
typedef struct part_update {
    double begin, end;
} part_update;
enum { MOST_PARTS = 16 };
static part_update updates[MOST_PARTS][TRACED_STEPS + 1];
static int counts[MOST_PARTS], order[MOST_PARTS * TRACED_STEPS], ordered;

static void read_updates(int n) {
    memset(counts, 0, sizeof counts), ordered = 0;
    for (int i = 0; i < n; i++) {
        if (!is_update(&spans[i])) continue;
        EXPECT(spans[i].part >= 0 && spans[i].part < MOST_PARTS && counts[spans[i].part] < TRACED_STEPS);
        updates[spans[i].part][++counts[spans[i].part]] = (part_update){spans[i].begin, spans[i].end};
        order[ordered++] = spans[i].part;
    }
}

/* Checks that each kernel of batch b ends before its part's update b begins and, if it reads weights forward, begins
 * after update b - 1 has ended. Returns how many updates ran while another part's kernel was submitted and not done. */
static int overlaps(int n) {
    int found = 0;
    for (int i = 0; i < n; i++) {
        const span *k = &spans[i];
        if (!is_kernel(k)) continue;
        const bool reads = strncmp(k->name, "fwd", 3) == 0 || strcmp(k->name, "headFwd") == 0;
        const part_update *before = reads && k->batch > 1 ? &updates[k->part][k->batch - 1] : NULL;
        EXPECT_MSG(!before || before->end <= k->begin, "%s %d of batch %d began at %g, its weights came at %g", k->name,
                   k->part, k->batch, k->begin, before ? before->end : 0);
        EXPECT_MSG(k->end <= updates[k->part][k->batch].begin, "%s %d of batch %d ended at %g, its weights moved at %g",
                   k->name, k->part, k->batch, k->end, updates[k->part][k->batch].begin);
        for (int p = 0; p < MOST_PARTS; p++)
            for (int b = 1; b <= counts[p]; b++)
                found += p != k->part && k->submitted < updates[p][b].end && updates[p][b].begin < k->end;
    }
    return found;
}

static void traced(const char *clipping, const char *overlap, int *found, int *lanes) {
    propane_error err = {0};
    static seen s;
    char *dir = test_temp_dir(), path[1200];
    json_t *root = NULL;
    const how h = {.device = has_stand_in ? "ane" : "sim:m4",
                   .clipping = clipping,
                   .steps = TRACED_STEPS,
                   .wide = true,
                   .clip = strcmp(overlap, "early") == 0 ? 1e9 : 0,
                   .trace = path};
    snprintf(path, sizeof path, "%s/trace.json", dir);
    EXPECT_OK(learn(&h, overlap, &s, &err));
    mem_free(s.weights);
    EXPECT_OK(json_read(path, (size_t)1 << 28, &root, &err));
    const int n = read_spans(root);
    *lanes = 0;
    for (int i = 0; i < n; i++) *lanes |= is_kernel(&spans[i]) ? strcmp(spans[i].lane, "device queue") == 0 ? 1 : 2 : 4;
    *found = 0;
    if (strcmp(overlap, "off") != 0) {
        read_updates(n);
        *found = overlaps(n);
    }
    json_decref(root);
    mem_free(dir);
}

/* Parts are halves of layers, and the head with its table. */
static void expect_order(bool forward) {
    const int parts = 2 * WIDE_LAYERS + 1;
    EXPECT(ordered == TRACED_STEPS * parts);
    for (int i = parts; i < ordered; i++) /* lagged: the first step is exact, and the table is always moved last */
        if (forward || order[i] < parts - 1)
            EXPECT_MSG(order[i] == (forward ? i % parts : parts - 2 - i % parts), "update %d is of part %d", i,
                       order[i]);
}

TEST(a_trace_shows_updates_beside_kernels) {
    int found, lanes;
    traced("exact", "on", &found, &lanes);
    expect_order(true);
    EXPECT(lanes == 7);
    EXPECT_MSG(found > 0, "no update of %d went on while a kernel was in the queue", ordered);
}

TEST(lagged_it_shows_them_in_backward_order) {
    int found, lanes;
    traced("lagged", "on", &found, &lanes);
    expect_order(false);
    EXPECT_MSG(found > 0, "no update of %d went on while a kernel was in the queue", ordered);
}

/* Nothing is clipped here, but still no norm is known when the updates begin. */
TEST(a_speculative_update_shows_them_in_backward_order) {
    int found, lanes;
    traced("exact", "early", &found, &lanes);
    expect_order(false);
    EXPECT_MSG(found > 0, "no update of %d went on while a kernel was in the queue", ordered);
}

TEST(a_step_allocates_nothing) {
    propane_error err = {0};
    static seen s;
    for (int way = 0; way < 3; way++) {
        how h = {.device = "cpu", .two_queues = true, .steps = MOST_STEPS, .clipping = way == 1 ? "lagged" : "exact"};
        EXPECT_OK(learn(&h, way == 2 ? "early" : "on", &s, &err));
        EXPECT_MSG(s.blocks[0] == s.blocks[1], "%llu blocks", (unsigned long long)(s.blocks[1] - s.blocks[0]));
        mem_free(s.weights);
    }
}

int main(int argc, char **argv) {
    static const test_case cases[] = {T(the_processor_with_two_queues),
                                      T(the_simulated_engine),
                                      T(the_stand_in),
                                      T(every_form_of_a_run),
                                      T(speculative_updates),
                                      T(a_speculative_update_that_nobody_confirms_has_never_been),
                                      T(gradients_that_are_no_numbers),
                                      T(a_trace_shows_updates_beside_kernels),
                                      T(lagged_it_shows_them_in_backward_order),
                                      T(a_speculative_update_shows_them_in_backward_order),
                                      T(a_step_allocates_nothing)};
    has_stand_in = ane_rig_enter(argv[0]);
    const int code = test_main("drivers/update_overlap", cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
    if (has_stand_in) ane_rig_leave();
    return code;
}
