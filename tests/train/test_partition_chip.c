/* SPDX-License-Identifier: MIT
 * Code that Propane emits against the known limits of the engines: the claims of the plans, each in both precisions,
 * with equal and with grouped heads, and the functions of generation with weights as inputs and as constants.
 */
#include "ane/chip/check.h"
#include "core/base/memory.h"
#include "lm/arch/forward.h"
#include "lm/step/kernel_rewrite.h"
#include "lm/step/partition.h"
#include "support/test.h"

static model_config config_of(int64_t heads, int64_t kv, int64_t vocab) {
    model_config c;
    model_config_default(&c);
    c.hidden_size = 128;
    c.intermediate_size = 320;
    c.num_hidden_layers = 1;
    c.num_attention_heads = heads;
    c.num_key_value_heads = kv;
    c.head_dim = 32;
    c.vocab_size = vocab;
    return c;
}

static partition *make(const model_config *c, const char *name, mil_dtype precision, int64_t batch) {
    propane_error err = {0};
    partition *p = NULL;
    EXPECT_OK(partition_create(c, &(partition_options){name, precision, batch, 64}, &p, &err));
    return p;
}

/* Returns the first rule that refuses a device kernel, found only with the checker; NULL if none does. */
static const char *refusing_rule(const partition *p, const chip *c) {
    propane_error err = {0};
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, 0, 1, CHIP_PATH_DIRECT, false});
    EXPECT(r != NULL);
    for (int i = 0; i < p->kernel_count; i++)
        if (p->kernels[i].place == PARTITION_DEVICE) EXPECT_OK(chip_check_function(r, p->kernels[i].function, &err));
    const char *id = NULL;
    for (int i = 0; i < chip_report_count(r) && !id; i++)
        if (chip_report_get(r, i)->severity == CHIP_REFUSE) id = chip_report_get(r, i)->limit->id;
    chip_report_free(r);
    return id;
}

static void expect_claims(const model_config *config, const char *name, mil_dtype precision, int64_t batch) {
    partition *p = make(config, name, precision, batch);
    for (int i = 0; i < CHIP_COUNT; i++) {
        const chip *c = chip_get((chip_id)i);
        if (c->is_phone) continue;
        propane_error why = {0};
        const char *rule = refusing_rule(p, c);
        bool claimed = chip_listed(partition_chips(name, precision, false), c);
        EXPECT_MSG(!claimed || !rule, "plan %s claims the %s, and rule %s refuses it", name, c->title,
                   rule ? rule : "");
        propane_status status = partition_supports(p, c, 0, WEIGHT_MODE_INPUTS, &why);
        EXPECT_MSG((status == PROPANE_OK) == claimed, "plan %s on %s: %s", name, c->title, why.text);
        EXPECT(status == PROPANE_OK || status == PROPANE_ERR_UNSUPPORTED);
        EXPECT_MSG(!rule || strstr(why.text, rule), "the rule %s is not named: %s", rule ? rule : "", why.text);
    }
    partition_free(p);
}

TEST(plans_keep_their_claims) {
    const model_config configs[] = {config_of(4, 4, 512), config_of(4, 2, 512), config_of(4, 1, 512)};
    for (int i = 0; i < partition_name_count(); i++)
        for (int c = 0; c < 3; c++)
            for (int half = 0; half < 2; half++)
                expect_claims(&configs[c], partition_name(i), half ? MIL_fp16 : MIL_fp32, 1 + (c == 1));
}

/* With the residual stream in fp16, no chip of plan six refuses whole halves, forward or backward, with the head or
 * without. */
TEST(the_layer_plan_with_its_stream_in_fp16_is_taken_by_all) {
    const model_config config = config_of(4, 2, 512);
    const partition_head heads[] = {PARTITION_HEAD_HOST, PARTITION_HEAD_DEVICE};
    for (int h = 0; h < 2; h++) {
        propane_error err = {0};
        partition *p = NULL;
        const partition_options o = {"layer", MIL_fp16, 1, 64, .head = heads[h], .half_stream = true};
        EXPECT_OK(partition_create(&config, &o, &p, &err));
        for (int i = 0; i < CHIP_COUNT; i++) {
            const chip *c = chip_get((chip_id)i);
            if (!chip_listed(partition_chips("six", MIL_fp16, false), c)) continue;
            const propane_status status = partition_supports(p, c, 0, WEIGHT_MODE_INPUTS, &err);
            EXPECT_MSG(status == PROPANE_OK, "%s: %s", c->name, err.text);
        }
        partition_free(p);
    }
}

TEST(plans_refuse_with_the_rule) {
    propane_error err = {0};
    model_config c = config_of(4, 4, 512), words = config_of(4, 4, 70000);
    partition *p = make(&c, "layer", MIL_fp16, 1);
    EXPECT_FAIL(partition_supports(p, chip_get(CHIP_m1), 0, WEIGHT_MODE_INPUTS, &err), PROPANE_ERR_UNSUPPORTED,
                "plan layer, kernel fwdAttn");
    EXPECT(strstr(err.text, "rule C18a") && strstr(err.text, "M1"));
    partition_free(p);
    p = make(&c, "six", MIL_fp32, 1);
    EXPECT_FAIL(partition_supports(p, chip_get(CHIP_m4), 0, WEIGHT_MODE_INPUTS, &err), PROPANE_ERR_UNSUPPORTED,
                "rule C18c");
    partition_free(p);
    p = make(&words, "layer", MIL_fp16, 1); /* a head with more channels than possible */
    EXPECT_FAIL(partition_supports(p, chip_get(CHIP_m4), 0, WEIGHT_MODE_INPUTS, &err), PROPANE_ERR_UNSUPPORTED,
                "rule C27d");
    EXPECT(strstr(err.text, "headFwd"));
    partition_free(p);
    partition_split_head(&words, 1, 64);
    EXPECT(words.vocab_piece > 0);
    p = make(&words, "layer", MIL_fp16, 1); /* the same in pieces */
    EXPECT_OK(partition_supports(p, chip_get(CHIP_m4), 0, WEIGHT_MODE_INPUTS, &err));
    partition_free(p);
    words.vocab_piece = 0;
    p = make(&words, "six", MIL_fp16, 1); /* its head runs on the host */
    EXPECT_OK(partition_supports(p, chip_get(CHIP_m1), 0, WEIGHT_MODE_INPUTS, &err));
    partition_free(p);
    EXPECT_TEXT(partition_chips("six", MIL_fp32, false), "");
    EXPECT_TEXT(partition_chips("none", MIL_fp16, false), "");
}

/* Constants of all ones, in fp16, for every weight of the block. */
typedef struct bake_context {
    const partition_block *block;
    const uint16_t *ones;
} bake_context;

static propane_status one_of(void *context, const mil_value *param, const void **data, propane_error *err) {
    const bake_context *b = context;
    *data = partition_is_weight(b->block, param->name) ? b->ones : NULL;
    return PROPANE_OK;
}

static int check_baked_kernels(const partition *p, const partition_block *b, const uint16_t *ones) {
    int baked = 0;
    for (int i = b->first; i < b->first + b->count; i++) {
        const partition_kernel *k = &p->kernels[i];
        propane_error err = {0};
        if (k->place != PARTITION_DEVICE) continue;
        mil_module *m = mil_module_create("baked");
        mil_function *f;
        EXPECT(m != NULL);
        EXPECT_OK(train_bake(k->function, m, k->name, one_of, &(bake_context){b, ones}, &f, &err));
        baked += f->param_count < k->function->param_count;
        for (int c = 0; c < CHIP_COUNT; c++)
            if (chip_listed(partition_chips(p->options.name, MIL_fp16, false), chip_get((chip_id)c)))
                EXPECT_OK(chip_check_refusal(f, chip_get((chip_id)c), 2603, &err));
        mil_module_free(m);
    }
    return baked;
}

TEST(kernels_with_baked_weights_are_taken_too) {
    model_config c = config_of(4, 2, 512);
    enum { MOST = 512 * 128 };
    uint16_t *ones = mem_array(MOST, sizeof *ones);
    EXPECT(ones != NULL);
    for (int i = 0; i < MOST; i++) ones[i] = 0x3c00;
    for (int i = 0; i < partition_name_count(); i++) {
        partition *p = make(&c, partition_name(i), MIL_fp16, 1);
        int baked = 0;
        for (int b = 0; b < p->block_count; b++) baked += check_baked_kernels(p, &p->blocks[b], ones);
        EXPECT_MSG(baked >= 4, "plan %s: %d kernels have weights", partition_name(i), baked);
        partition_free(p);
    }
    mem_free(ones);
}

/* Packed kernels are separate programs. Every chip that the plan claims either accepts them or refuses them by the rule
 * of slices along the last axis, which applies to the M1 and earlier chips. */
TEST(packed_kernels_are_taken_or_refused_by_their_rule) {
    model_config c = config_of(4, 2, 512);
    for (int i = 0; i < partition_name_count(); i++) {
        partition *p = make(&c, partition_name(i), MIL_fp16, 1 + i % 2);
        for (int n = 0; n < CHIP_COUNT; n++) {
            const chip *at = chip_get((chip_id)n);
            propane_error err = {0};
            if (!chip_listed(partition_chips(partition_name(i), MIL_fp16, false), at)) continue;
            propane_status status = partition_supports(p, at, 0, WEIGHT_MODE_PACKED, &err);
            if (strcmp(partition_name(i), "layer") == 0)
                EXPECT_MSG(status == PROPANE_ERR_UNSUPPORTED && strstr(err.text, "one type"), "%s", err.text);
            else if (at->generation <= CHIP_H13)
                EXPECT_MSG(status == PROPANE_ERR_UNSUPPORTED && strstr(err.text, "rule C29a"), "%s", err.text);
            else
                EXPECT_MSG(status == PROPANE_OK, "plan %s on the %s: %s", partition_name(i), at->title, err.text);
        }
        partition_free(p);
    }
}

static const float *zeros(void *context, model_part part, int layer, const char *param) { return context; }

static void expect_no_refusal(const mil_function *f) {
    for (int i = 0; i < CHIP_COUNT; i++) {
        propane_error err = {0};
        const chip *c = chip_get((chip_id)i);
        if (!c->is_phone) EXPECT_OK(chip_check_refusal(f, c, 2603, &err));
    }
}

TEST(functions_of_the_model_are_taken_by_all_chips) {
    propane_error err = {0};
    float *data = mem_array(512 * 320, sizeof *data);
    EXPECT(data != NULL);
    for (int64_t kv = 1; kv <= 4; kv *= 2)
        for (int baked = 0; baked < 2; baked++)
            for (int64_t n = 1; n <= 16; n += 15) {
                model_config c = config_of(4, kv, 512);
                model_build_options o = {
                    .batch = 1, .sequence = n, .dtype = MIL_fp16, .baked = baked ? zeros : NULL, .baked_context = data};
                mil_module *m = mil_module_create("model");
                mil_function *f[4];
                EXPECT(m != NULL);
                EXPECT_OK(model_build_attn_decode(m, "decode", &c, &o, 0, 48, &f[0], &err));
                EXPECT_OK(model_build_ffn(m, "ffn", &c, &o, 0, &f[1], &err));
                EXPECT_OK(model_build_head(m, "head", &c, &o, &f[2], &err));
                EXPECT_OK(model_build_attn(m, "attn", &c, &o, 0, &f[3], &err));
                for (int i = 0; i < 4; i++) expect_no_refusal(f[i]);
                mil_module_free(m);
            }
    mem_free(data);
}

SUITE("train/plan_chip", T(plans_keep_their_claims), T(the_layer_plan_with_its_stream_in_fp16_is_taken_by_all),
      T(plans_refuse_with_the_rule), T(kernels_with_baked_weights_are_taken_too),
      T(packed_kernels_are_taken_or_refused_by_their_rule), T(functions_of_the_model_are_taken_by_all_chips))
