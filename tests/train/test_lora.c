/* SPDX-License-Identifier: MIT
 * Adapters and frozen weights in a training step, with every program computed by the slow reference of its operations:
 * gradients against slopes of the loss, equal in every plan, and nothing kept or computed for weights that are not
 * trained.
 */
#include <math.h>
#include <string.h>

#include "core/base/rng.h"
#include "lm/arch/stored_weights.h"
#include "lm/step/step.h"
#include "support/test.h"
#include "train/eval_driver.h"
#include "train/step_bytes.h"

enum { BATCH = 2, CONTEXT = 7, COUNT = BATCH * CONTEXT, VOCAB = 11 };

static propane_error err;
static int32_t inputs[COUNT], targets[COUNT];

static const char *architecture = "llama";

static model_weights *make_weights(double dropout, const char *adapted, bool tied) {
    model_config c;
    model_weights *w = NULL;
    rng r;
    EXPECT_OK(model_config_default_of(&c, architecture, &err));
    c.hidden_size = 10, c.intermediate_size = 14, c.num_hidden_layers = 3, c.num_attention_heads = 4;
    c.num_key_value_heads = 2, c.head_dim = 4, c.vocab_size = VOCAB, c.max_position_embeddings = 16;
    if (strcmp(architecture, "gpt2") == 0) c.hidden_size = 12, c.num_attention_heads = c.num_key_value_heads = 3;
    c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = tied;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 5, 0.5);
    if (adapted) {
        model_lora l = {.rank = 3, .alpha = 6, .dropout = dropout};
        EXPECT_OK(model_lora_choose(&l, &c, adapted, &err));
        EXPECT_OK(model_weights_add_lora(w, &l, &err));
        model_lora_init(w, 9);
        rng_init(&r, 4);
        for (int64_t i = 0; i < w->adapter_floats; i++)
            w->adapter_data[i] += 0.2f * (float)rng_normal(&r); /* so that B is not 0 */
    }
    rng_init(&r, 21);
    for (int i = 0; i < COUNT; i++)
        inputs[i] = (int32_t)rng_below(&r, VOCAB), targets[i] = (int32_t)rng_below(&r, VOCAB);
    return w;
}

/* On two queues, updates continue during the next batch. */
static train_step *make_queues(model_weights *w, const char *plan_title, weight_mode how, bool two_queues) {
    train_step *s = NULL;
    train_step_options o = {
        .partition = {.name = plan_title, .precision = MIL_fp32, .batch = BATCH, .context = CONTEXT},
        .device = "cpu",
        .weights = how,
        .two_queues = two_queues,
        .overlap = two_queues};
    EXPECT_OK(train_step_create(&o, w, &s, &err));
    return s;
}

static train_step *make_step(model_weights *w, const char *plan_title, const bool *trained, weight_mode how) {
    train_step *s = NULL;
    train_step_options o = {
        .partition = {.name = plan_title, .precision = MIL_fp32, .batch = BATCH, .context = CONTEXT},
        .device = "cpu",
        .weights = how,
        .trained = trained};
    EXPECT_OK(train_step_create(&o, w, &s, &err));
    return s;
}

static float *gradient_of(train_step *s, const model_weights *w, int tensor) {
    float *g = mem_array((size_t)w->tensors[tensor].count, sizeof *g);
    EXPECT(g);
    EXPECT_OK(train_step_gradient(s, tensor, g, &err));
    return g;
}

/* Measures the slope of the loss along the gradient of each adapter, from the loss only. */
static void check_slopes(const char *plan_title, const char *adapted, double dropout) {
    model_weights *w = make_weights(dropout, adapted, true);
    train_step *s = make_step(w, plan_title, NULL, WEIGHT_MODE_INPUTS);
    double loss = 0;
    EXPECT_OK(train_step_dropout(s, 77, &err));
    for (int i = w->count; i < model_weights_total(w); i++) {
        EXPECT_OK(train_step_publish(s, &err));
        EXPECT_OK(train_step_batch(s, inputs, targets, true, 1, &loss, &err)); /* evaluations overwrite its gradients */
        const model_tensor *t = &w->tensors[i];
        float *data = model_weights_data(w, t), *g = gradient_of(s, w, i), *kept = mem_array((size_t)t->count, 4);
        static const double at[] = {1, -1, 2, -2};
        double length = 0, side[4], h = 2e-3;
        EXPECT(kept);
        memcpy(kept, data, (size_t)t->count * 4);
        for (int64_t k = 0; k < t->count; k++) length += (double)g[k] * (double)g[k];
        length = sqrt(length);
        EXPECT_MSG(length > 1e-4, "%s has no gradient", t->name);
        for (int n = 0; n < 4; n++) {
            for (int64_t k = 0; k < t->count; k++) data[k] = kept[k] + (float)(at[n] * h * (double)g[k] / length);
            EXPECT_OK(train_step_publish(s, &err));
            EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &side[n], &err));
        }
        double measured = (8 * (side[0] - side[1]) - (side[2] - side[3])) / (12 * h);
        EXPECT_MSG(fabs(measured - length) < 2e-3 * length, "%s %s: slope %.7g, measured %.7g", plan_title, t->name,
                   length, measured); /* observed 4e-4 */
        memcpy(data, kept, (size_t)t->count * 4);
        mem_free(kept);
        mem_free(g);
    }
    train_step_free(s);
    model_weights_free(w);
}

TEST(slopes_of_all_adapters) { check_slopes("layer", "all", 0); }
TEST(slopes_in_plan_six) { check_slopes("six", "q_proj,v_proj,down_proj", 0); }
TEST(slopes_in_plan_ten) { check_slopes("ten", "*", 0); }
TEST(slopes_with_dropout) { check_slopes("layer", "q_proj,o_proj,up_proj,down_proj", 0.3); }

/* GPT-2: queries, keys and values are adapted as one module. */
TEST(slopes_of_matrices_that_are_one_module) {
    architecture = "gpt2";
    check_slopes("layer", "all", 0);
    check_slopes("ten", "c_attn", 0.3);
    architecture = "llama";
}

/* The same key drops the same inputs, another key drops others. On average the scaling of kept inputs compensates. */
TEST(dropout_is_seeded) {
    model_weights *w = make_weights(0.4, "all", true);
    train_step *s = make_step(w, "layer", NULL, WEIGHT_MODE_INPUTS);
    double none, first, again, other, loss;
    EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &none, &err));
    EXPECT_OK(train_step_dropout(s, 5, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &first, &err));
    EXPECT_OK(train_step_dropout(s, 6, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &other, &err));
    EXPECT_OK(train_step_dropout(s, 5, &err));
    EXPECT_OK(train_step_batch(s, inputs, targets, true, 1, &again, &err));
    EXPECT(first == again && first != other && first != none);
    EXPECT_OK(train_step_dropout(s, 0, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &loss, &err));
    EXPECT(loss == none);
    train_step_free(s);
    model_weights_free(w);
}

/* Every plan and weight mode gives the same gradients; with constants, an update compiles nothing. */
TEST(plans_and_weight_modes_agree) {
    static const struct {
        const char *plan;
        weight_mode weights;
    } forms[] = {{"layer", WEIGHT_MODE_INPUTS}, {"six", WEIGHT_MODE_INPUTS},  {"ten", WEIGHT_MODE_INPUTS},
                 {"six", WEIGHT_MODE_BAKED},    {"layer", WEIGHT_MODE_BAKED}, {"six", WEIGHT_MODE_PACKED}};
    model_weights *w = make_weights(0, "all", false);
    train_step *first = make_step(w, "layer", NULL, WEIGHT_MODE_INPUTS);
    double want, loss;
    EXPECT_OK(train_step_batch(first, inputs, targets, true, 8, &want, &err));
    for (size_t f = 1; f < sizeof forms / sizeof forms[0]; f++) {
        train_step *s = make_step(w, forms[f].plan, NULL, forms[f].weights);
        EXPECT_OK(train_step_batch(s, inputs, targets, true, 8, &loss, &err));
        EXPECT(fabs(loss - want) < 1e-6);
        for (int i = w->count; i < model_weights_total(w); i++) {
            float *a = gradient_of(first, w, i), *b = gradient_of(s, w, i);
            double worst = 0, largest = 0;
            for (int64_t k = 0; k < w->tensors[i].count; k++) {
                worst = fmax(worst, fabs((double)a[k] - (double)b[k]));
                largest = fmax(largest, fabs((double)a[k]));
            }
            EXPECT_MSG(worst < 1e-5 * largest, "%s: %s is off by %g of %g", forms[f].plan, w->tensors[i].name, worst,
                       largest); /* observed 9e-7 */
            mem_free(a);
            mem_free(b);
        }
        EXPECT(train_step_refresh_cost(s) == 0);
        train_step_free(s);
    }
    const adamw_step adam = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1, .step = 1};
    train_step *baked = make_step(w, "six", NULL, WEIGHT_MODE_BAKED);
    EXPECT_OK(train_step_batch(baked, inputs, targets, true, 1, &loss, &err));
    EXPECT_OK(train_step_update(baked, &adam, &err));
    EXPECT(train_step_refresh_cost(baked) == 0);
    EXPECT_OK(train_step_evaluate(baked, inputs, targets, NULL, &loss, &err));
    EXPECT(loss < want - 1e-3); /* the adapters of a compiled program can be exchanged, because they are inputs */
    train_step_free(baked);
    train_step_free(first);
    model_weights_free(w);
}

/* A base in constants, whose adapters are updated during the next batch, ends with the same bits as one that is an
 * input. */
TEST(updates_beside_a_baked_base_keep_the_bits) {
    adamw_step adam = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1};
    for (int plan = 0; plan < 2; plan++) {
        model_weights *w[2] = {make_weights(0, "all", true), make_weights(0, "all", true)};
        double loss[2], first = 0;
        for (int i = 0; i < 2; i++) {
            train_step *s = make_queues(w[i], plan ? "layer" : "six", i ? WEIGHT_MODE_BAKED : WEIGHT_MODE_INPUTS, i);
            for (adam.step = 1; adam.step <= 5; adam.step++) {
                EXPECT_OK(train_step_batch(s, inputs, targets, true, 1, &loss[i], &err));
                if (adam.step == 1) first = loss[i];
                EXPECT_OK(train_step_update(s, &adam, &err));
                EXPECT(train_step_refresh_cost(s) == 0);
            }
            EXPECT_OK(train_step_settle(s, &err));
            train_step_free(s);
        }
        EXPECT(loss[0] == loss[1] && loss[0] < first - 0.01);
        EXPECT(memcmp(w[0]->adapter_data, w[1]->adapter_data, (size_t)w[0]->adapter_floats * sizeof(float)) == 0);
        for (int i = 0; i < 2; i++) model_weights_free(w[i]);
    }
}

static int kernels_with_weights(const partition *p) {
    int n = 0;
    for (int k = 0; k < p->kernel_count; k++) n += p->kernels[k].weights;
    return n;
}

/* Only trained tensors have moments, a gradient, and an operation that computes it. */
TEST(the_base_of_adapters_costs_nothing) {
    model_weights *w = make_weights(0, "q_proj,v_proj", true);
    train_step *s = make_step(w, "layer", NULL, WEIGHT_MODE_INPUTS);
    EXPECT(w->adapter_parameters == 3 * 3 * (10 + 16 + 10 + 8));
    EXPECT(step_state_bytes(s) == 3 * 4 * (size_t)w->adapter_floats);
    for (int i = 0; i < model_weights_total(w); i++)
        EXPECT(train_step_trains(s, i) == (i >= w->count) && !train_step_moment(s, 1, i) == (i < w->count));
    EXPECT(kernels_with_weights(s->partition) ==
           1); /* attnGrad: nothing is trained in the feed-forward half and the head */
    const partition_block *attn = &s->partition->blocks[0];
    for (int i = 0; i < attn->joint->result_count; i++)
        EXPECT(strncmp(attn->joint->results[i]->name, "d_", 2) != 0 || strstr(attn->joint->results[i]->name, "lora") ||
               strcmp(attn->joint->results[i]->name, "d_x") == 0);
    train_step_free(s);
    model_weights_free(w);
}

/* A trained tensor has the same gradient, whatever else is frozen. */
static void check_frozen(const char *plan_title, bool (*keep)(const model_tensor *t), int weight_kernels) {
    model_weights *w = make_weights(0, NULL, false);
    bool trained[64];
    double loss, want;
    EXPECT(w->count < 64);
    for (int i = 0; i < w->count; i++) trained[i] = keep(&w->tensors[i]);
    train_step *all = make_step(w, plan_title, NULL, WEIGHT_MODE_INPUTS),
               *some = make_step(w, plan_title, trained, WEIGHT_MODE_INPUTS);
    EXPECT_OK(train_step_batch(all, inputs, targets, true, 1, &want, &err));
    EXPECT_OK(train_step_batch(some, inputs, targets, true, 1, &loss, &err));
    EXPECT(loss == want);
    for (int i = 0; i < w->count; i++) {
        if (!trained[i]) {
            EXPECT(!train_step_moment(some, 2, i));
            continue;
        }
        float *a = gradient_of(all, w, i), *b = gradient_of(some, w, i);
        EXPECT_MSG(memcmp(a, b, (size_t)w->tensors[i].count * 4) == 0, "%s %s", plan_title, w->tensors[i].name);
        mem_free(a);
        mem_free(b);
    }
    EXPECT(kernels_with_weights(some->partition) == weight_kernels);
    const adamw_step adam = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1, .step = 1};
    float *before = mem_array((size_t)w->floats, 4);
    EXPECT(before);
    memcpy(before, w->data, (size_t)w->floats * 4);
    EXPECT_OK(train_step_update(some, &adam, &err));
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        EXPECT((memcmp(before + t->offset, w->data + t->offset, (size_t)t->count * 4) == 0) == !trained[i]);
    }
    mem_free(before);
    train_step_free(some);
    train_step_free(all);
    model_weights_free(w);
}

static bool last_layer(const model_tensor *t) { return t->layer == 2; }
static bool only_ffn_of_two(const model_tensor *t) { return t->part == MODEL_FFN && t->layer > 0; }
static bool queries_of_layer_1(const model_tensor *t) { return t->layer == 1 && strcmp(t->param, "q_proj") == 0; }
static bool all_but_embedding(const model_tensor *t) { return t->part != MODEL_EMBED; }
static bool embedding(const model_tensor *t) { return t->part == MODEL_EMBED; }
static bool nothing(const model_tensor *t) { return false; }

TEST(frozen_layers) { check_frozen("layer", last_layer, 2); }
TEST(frozen_halves) { check_frozen("six", only_ffn_of_two, 1); }
TEST(one_matrix) { check_frozen("ten", queries_of_layer_1, 1); }
TEST(frozen_embedding) { check_frozen("layer", all_but_embedding, 3); }
TEST(only_the_embedding) { check_frozen("six", embedding, 0); }

TEST(nothing_to_learn_is_refused) {
    model_weights *w = make_weights(0, NULL, false);
    bool trained[64];
    train_step *s = NULL;
    for (int i = 0; i < w->count; i++) trained[i] = nothing(&w->tensors[i]);
    train_step_options o = {.partition = {.name = "layer", .precision = MIL_fp32, .batch = 1, .context = 4},
                            .device = "cpu",
                            .trained = trained};
    EXPECT_FAIL(train_step_create(&o, w, &s, &err), PROPANE_ERR_INVALID,
                "none of the model's 30 tensors is selected for training");
    model_weights_free(w);
}

/* ---- a base in the form of its file --------------------------------------------------------------------------------- */

/* Makes a model whose matrices have one form, with the values of random weights. */
static model_weights *make_stored(const model_config *c, model_packing form) {
    model_weights *wide = NULL, *w = NULL;
    EXPECT_OK(model_weights_create(c, &wide, &err));
    model_weights_init(wide, 5, 0.5);
    EXPECT_OK(model_weights_declare(c, &w, &err));
    for (int i = 0; i < w->count; i++)
        w->tensors[i].form = w->tensors[i].rank == 2 ? model_packing_for(form, w->tensors[i].dim[1]) : MODEL_UNPACKED;
    EXPECT_OK(stored_weights_reserve(w, &err));
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        uint16_t *scales = NULL;
        void *to = stored_weights_at(w, t, &scales);
        if (t->form == MODEL_UNPACKED)
            memcpy(to, model_weights_data(wide, &wide->tensors[i]), (size_t)t->count * sizeof(float));
        else
            model_pack(t->form, model_weights_data(wide, &wide->tensors[i]), t->dim[0], t->dim[1], to, scales);
    }
    model_weights_free(wide);
    return w;
}

static void add_adapters(model_weights *w) {
    model_lora l = {.rank = 3, .alpha = 6};
    rng r;
    EXPECT_OK(model_lora_choose(&l, &w->config, "all", &err));
    EXPECT_OK(model_weights_add_lora(w, &l, &err));
    model_lora_init(w, 9);
    rng_init(&r, 4);
    for (int64_t i = 0; i < w->adapter_floats; i++) w->adapter_data[i] += 0.2f * (float)rng_normal(&r);
}

static void expect_same_step(model_weights *a, model_weights *b, const char *plan) {
    train_step *x = make_step(a, plan, NULL, WEIGHT_MODE_INPUTS), *y = make_step(b, plan, NULL, WEIGHT_MODE_INPUTS);
    double one = 0, two = 0;
    for (int round = 0; round < 2; round++) { /* the buffers hold other layers' weights the second time */
        EXPECT_OK(train_step_batch(x, inputs, targets, true, 1, &one, &err));
        EXPECT_OK(train_step_batch(y, inputs, targets, true, 1, &two, &err));
        EXPECT_MSG(one == two && isfinite(one), "%s: losses %.9g and %.9g", plan, one, two);
    }
    for (int i = a->count; i < model_weights_total(a); i++) {
        float *g = gradient_of(x, a, i), *h = gradient_of(y, b, i);
        EXPECT_MSG(memcmp(g, h, (size_t)a->tensors[i].count * sizeof *g) == 0, "%s: %s", plan, a->tensors[i].name);
        mem_free(g);
        mem_free(h);
    }
    train_step_free(x);
    train_step_free(y);
}

/* The base keeps its form on the cpu device, and the bits equal those of fp32 weights with the same values; also with
 * tables in pieces and learned positions. */
static void check_stored(const char *name, model_packing form, bool tied, int64_t piece) {
    static const char *const plans[] = {"layer", "six", "ten"};
    model_config c;
    EXPECT_OK(model_config_default_of(&c, name, &err));
    c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = 2, c.num_attention_heads = 2;
    c.num_key_value_heads = 2, c.head_dim = 16, c.vocab_size = 24, c.max_position_embeddings = 16;
    c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = tied;
    rng r;
    rng_init(&r, 21);
    for (int i = 0; i < COUNT; i++) inputs[i] = (int32_t)rng_below(&r, 24), targets[i] = (int32_t)rng_below(&r, 24);
    model_weights *whole = make_stored(&c, form), *kept = NULL, *wide = NULL;
    c.vocab_piece = piece;
    EXPECT_OK(model_weights_create(&c, &kept, &err));
    EXPECT_OK(model_weights_create(&c, &wide, &err));
    stored_weights_take(kept, whole);
    for (int i = 0; i < wide->count; i++)
        stored_weights_read(kept, &kept->tensors[i], 0, kept->tensors[i].count,
                            model_weights_data(wide, &wide->tensors[i]));
    add_adapters(kept);
    add_adapters(wide);
    for (int p = 0; p < 3; p++) expect_same_step(kept, wide, plans[p]);
    EXPECT_MSG(!kept->data && kept->stored, "%s: fp32 masters were made", name);
    model_weights_free(whole);
    model_weights_free(kept);
    model_weights_free(wide);
}

TEST(a_base_keeps_the_form_of_its_file) {
    check_stored("llama", MODEL_INT8, true, 0);
    check_stored("llama", MODEL_INT4, false, 8);
    check_stored("llama", MODEL_BF16, true, 8);
    check_stored("gpt2", MODEL_BF16, true, 0);
}

/* Other devices and forms of weights get masters. */
TEST(a_base_gets_masters_where_programs_need_them) {
    model_config c;
    EXPECT_OK(model_config_default_of(&c, "llama", &err));
    c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = 1, c.num_attention_heads = 2;
    c.num_key_value_heads = 2, c.head_dim = 16, c.vocab_size = 24, c.max_position_embeddings = 16;
    c.bos_token_id = c.eos_token_id = -1;
    model_weights *w = make_stored(&c, MODEL_INT8);
    add_adapters(w);
    train_step *s = make_step(w, "layer", NULL, WEIGHT_MODE_BAKED);
    EXPECT(w->data && !w->stored);
    train_step_free(s);
    model_weights_free(w);
}

SUITE("train/lora", T(slopes_of_all_adapters), T(slopes_in_plan_six), T(slopes_in_plan_ten), T(slopes_with_dropout),
      T(slopes_of_matrices_that_are_one_module), T(dropout_is_seeded), T(plans_and_weight_modes_agree),
      T(updates_beside_a_baked_base_keep_the_bits), T(the_base_of_adapters_costs_nothing), T(frozen_layers),
      T(frozen_halves), T(one_matrix), T(frozen_embedding), T(only_the_embedding), T(nothing_to_learn_is_refused),
      T(a_base_keeps_the_form_of_its_file), T(a_base_gets_masters_where_programs_need_them))
