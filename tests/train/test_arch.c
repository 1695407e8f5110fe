/* SPDX-License-Identifier: MIT
 * Training each architecture: loss and all gradients equal those of transformers in every plan, gradients add up over
 * batches, and plans obey the rules of the chips that they claim.
 */
#include "support/arch_data.h"

#include "ane/chip/chip.h"
#include "lm/step/step.h"

static propane_error err;

/* Compares gradients in the form of the model's file with transformers' under the same names. */
static double gradients_off(const arch_data *d, train_step *s, double scale) {
    model_weights *g = NULL;
    safetensors *ours = NULL;
    double worst = 0;
    char *dir = test_temp_dir(), path[300], name[200];
    EXPECT_OK(model_weights_create(&d->weights->config, &g, &err));
    g->gradients = true;
    for (int i = 0; i < g->count; i++)
        EXPECT_OK(train_step_gradient(s, i, model_weights_data(g, &g->tensors[i]), &err));
    snprintf(path, sizeof path, "%s/g.safetensors", dir);
    EXPECT_OK(model_store_write(g, path, MODEL_FORM_SAFETENSORS, ST_F32, &err));
    EXPECT_OK(safetensors_open(path, &ours, &err));
    EXPECT(safetensors_count(ours) + 3 == safetensors_count(d->file)); /* the others are tokens, logits and loss */
    for (int i = 0; i < safetensors_count(ours); i++) {
        const safetensors_tensor *t = safetensors_at(ours, i), *r = NULL;
        snprintf(name, sizeof name, "grads.%s", t->name);
        EXPECT_OK(safetensors_expect(d->file, name, ST_F32, t->rank, t->dim, &r, &err));
        float *got = mem_array((size_t)t->count, 4), *want = mem_array((size_t)t->count, 4);
        double off = 0, largest = 0;
        EXPECT(got && want);
        EXPECT_OK(safetensors_f32(ours, t, got, &err));
        EXPECT_OK(safetensors_f32(d->file, r, want, &err));
        for (int64_t k = 0; k < t->count; k++) {
            off = isfinite(got[k]) ? fmax(off, fabs((double)got[k] / scale - (double)want[k])) : INFINITY;
            largest = fmax(largest, fabs((double)want[k]));
        }
        worst = fmax(worst, off / largest);
        mem_free(got);
        mem_free(want);
    }
    safetensors_close(ours);
    model_weights_free(g);
    mem_free(dir);
    return worst;
}

static void check(const char *title, mil_dtype precision, bool accumulate, double tolerance) {
    double scale = precision == MIL_fp16 ? 1024 : 1;
    for (int i = 0; i < ARCH_NAMES; i++) {
        arch_data d;
        train_step *s = NULL;
        double loss = 0, part = 0;
        arch_open(&d, arch_names[i]);
        int batches = accumulate ? ARCH_BATCH : 1;
        train_step_options o = {.partition = {.name = title,
                                              .precision = precision,
                                              .batch = ARCH_BATCH / batches,
                                              .context = ARCH_SEQUENCE},
                                .device = "cpu",
                                .accumulate = accumulate};
        EXPECT_OK(train_step_create(&o, d.weights, &s, &err));
        for (int b = 0; b < batches; b++, loss += part)
            EXPECT_OK(train_step_batch(s, d.inputs + b * ARCH_SEQUENCE, d.targets + b * ARCH_SEQUENCE, b == 0, scale,
                                       &part, &err));
        EXPECT_MSG(fabs(loss / batches - d.loss) < tolerance * d.loss, "%s: loss %.9g, want %.9g", arch_names[i],
                   loss / batches, d.loss);
        double off = gradients_off(&d, s, scale * batches);
        EXPECT_MSG(off < tolerance, "%s, plan %s: gradients off by %g", arch_names[i], title, off);
        if (getenv("TEST_VERBOSE"))
            printf("%s %s %s: %g\n", arch_names[i], title, precision == MIL_fp16 ? "fp16" : "fp32", off);
        train_step_free(s);
        arch_close(&d);
    }
}

TEST(layer_fp32) { check("layer", MIL_fp32, false, 2e-5); } /* observed 2e-6 */
TEST(six_fp32) { check("six", MIL_fp32, false, 2e-5); }
TEST(ten_fp32) { check("ten", MIL_fp32, false, 2e-5); }
TEST(layer_fp16) { check("layer", MIL_fp16, false, 2e-2); } /* observed 6e-3 */
TEST(six_fp16) { check("six", MIL_fp16, false, 2e-2); }
TEST(ten_fp16) { check("ten", MIL_fp16, false, 2e-2); }
TEST(accumulated) { check("layer", MIL_fp32, true, 2e-5); }

/* A plan's claims hold for every architecture, at sizes that meet the chips' row rules. */
TEST(plans_keep_to_the_rules_of_their_chips) {
    for (int i = 0; i < model_arch_count(); i++)
        for (int n = 0; n < partition_name_count(); n++) {
            partition *p = NULL;
            model_config c;
            EXPECT_OK(model_config_default_of(&c, model_arch_at(i)->type, &err));
            c.hidden_size = 256, c.num_attention_heads = c.num_key_value_heads = 4, c.head_dim = 64;
            c.intermediate_size = 1024;
            c.attention_bias = c.mlp_bias = true;
            partition_options o = {.name = partition_name(n), .precision = MIL_fp16, .batch = 1, .context = 64};
            EXPECT_OK(partition_create(&c, &o, &p, &err));
            for (int k = 0; k < CHIP_COUNT; k++) {
                const chip *on = chip_get((chip_id)k);
                if (chip_listed(partition_chips(partition_name(n), MIL_fp16, false), on))
                    EXPECT_MSG(partition_supports(p, on, 0, WEIGHT_MODE_INPUTS, &err) == PROPANE_OK, "%s: %s",
                               c.model_type, err.text);
            }
            partition_free(p);
        }
}

SUITE("train/arch", T(layer_fp32), T(six_fp32), T(ten_fp32), T(layer_fp16), T(six_fp16), T(ten_fp16), T(accumulated),
      T(plans_keep_to_the_rules_of_their_chips))
