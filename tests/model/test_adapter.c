/* SPDX-License-Identifier: MIT
 * LoRA adapters: the adapted matrices, the result of merging, folders that are written and read back, and refusals.
 */
#include <math.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/words.h"
#include "core/files/safetensors.h"
#include "lm/arch/model_tensors.h"
#include "support/test.h"

static propane_error err;

static model_weights *model(const char *targets) {
    model_config c;
    model_weights *w = NULL;
    model_config_default(&c);
    c.hidden_size = 12, c.intermediate_size = 20, c.num_hidden_layers = 2, c.num_attention_heads = 2;
    c.num_key_value_heads = 1, c.head_dim = 4, c.vocab_size = 16, c.bos_token_id = c.eos_token_id = -1;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 3, 0);
    if (targets) {
        model_lora l = {.rank = 2, .alpha = 5};
        EXPECT_OK(model_lora_choose(&l, &c, targets, &err));
        EXPECT_OK(model_weights_add_lora(w, &l, &err));
        model_lora_init(w, 1);
        for (int64_t i = 0; i < w->adapter_floats; i++) w->adapter_data[i] += 0.01f * (float)(i % 17);
    }
    return w;
}

TEST(targets_are_chosen) {
    static const struct {
        const char *list, *targets;
    } cases[] = {{"q_proj,v_proj", "q_proj,v_proj"},
                 {" v_proj , q_proj,v_proj", "v_proj,q_proj"},
                 {"all", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"},
                 {"?_proj,self_attn.o_proj", NULL},
                 {"*_proj", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"},
                 {"self_attn.o_proj", "o_proj"},
                 {"lm_head", NULL},
                 {"norm_weight", NULL}};
    model_weights *w = model(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model_lora l = {.rank = 2, .alpha = 1};
        if (cases[i].targets) {
            EXPECT_OK(model_lora_choose(&l, &w->config, cases[i].list, &err));
            EXPECT_TEXT(l.targets, cases[i].targets);
        } else {
            EXPECT_FAIL(model_lora_choose(&l, &w->config, cases[i].list, &err), PROPANE_ERR_NOT_FOUND,
                        "to adapt; the matrices are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj");
        }
    }
    model_lora l = {.rank = 0, .alpha = 1};
    EXPECT_FAIL(model_lora_choose(&l, &w->config, "all", &err), PROPANE_ERR_INVALID, "rank is 0");
    l = (model_lora){.rank = 1, .alpha = 0};
    EXPECT_FAIL(model_lora_choose(&l, &w->config, "all", &err), PROPANE_ERR_INVALID, "alpha is 0");
    l = (model_lora){.rank = 1, .alpha = 1, .dropout = 1};
    EXPECT_FAIL(model_lora_choose(&l, &w->config, "all", &err), PROPANE_ERR_INVALID, "dropout is 1");
    EXPECT(words_match("a*c", "abbc") && words_match("*", "") && !words_match("a*c", "abcb"));
    model_weights_free(w);
}

TEST(merging_adds_the_product) {
    model_weights *plain = model(NULL), *w = model("k_proj,down_proj");
    EXPECT(w->adapter_count == 8 && w->adapter_parameters == 2 * 2 * (12 + 4 + 20 + 12));
    const model_tensor *t = model_weights_find(w, "model.layers.1.mlp.down_proj.weight");
    const float *a =
        model_weights_data(w, model_weights_find(w, "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"));
    const float *b = model_weights_data(w, model_weights_param(w, MODEL_FFN, 1, "down_proj_lora_b"));
    double want[12][20];
    for (int o = 0; o < 12; o++)
        for (int i = 0; i < 20; i++) {
            want[o][i] = (double)plain->data[t->offset + o * 20 + i];
            for (int r = 0; r < 2; r++) want[o][i] += 2.5 * (double)b[o * 2 + r] * (double)a[r * 20 + i];
        }
    EXPECT_OK(model_lora_merge(w, &err));
    EXPECT(w->adapter_count == 0 && w->lora.rank == 0);
    for (int o = 0; o < 12; o++)
        for (int i = 0; i < 20; i++)
            EXPECT(fabs((double)w->data[model_weights_find(w, t->name)->offset + o * 20 + i] - want[o][i]) < 1e-6);
    const model_tensor *q = model_weights_find(w, "model.layers.0.self_attn.q_proj.weight");
    EXPECT(memcmp(model_weights_data(w, q), plain->data + q->offset, (size_t)q->count * 4) == 0);
    model_weights_free(w);
    model_weights_free(plain);
}

TEST(a_folder_gives_back_what_was_written) {
    char *dir = test_temp_dir();
    model_weights *w = model("q_proj,up_proj"), *again = model(NULL);
    w->lora.dropout = 0.25;
    EXPECT_OK(model_adapter_write(w, dir, "some/base", &err));
    EXPECT(model_adapter_is(dir));
    EXPECT_OK(model_adapter_read(again, dir, &err));
    EXPECT_TEXT(again->lora.targets, w->lora.targets);
    EXPECT(again->lora.rank == w->lora.rank && again->lora.dropout == 0.25 && again->lora.alpha == 5);
    EXPECT(again->adapter_count == w->adapter_count);
    for (int i = w->count; i < model_weights_total(w); i++)
        EXPECT(memcmp(model_weights_data(again, &again->tensors[i]), model_weights_data(w, &w->tensors[i]),
                      (size_t)w->tensors[i].count * 4) == 0);
    model_weights_free(again);
    model_weights_free(w);
    mem_free(dir);
}

static void write_config(const char *dir, const char *text) {
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", dir, MODEL_ADAPTER_CONFIG);
    EXPECT_OK(file_write(path, text, strlen(text), &err));
}

TEST(other_settings_are_refused) {
    static const struct {
        const char *config, *message;
        propane_status status;
    } cases[] = {
        {"{", "adapter_config.json: line 1", PROPANE_ERR_INVALID},
        {"{}", "peft_type", PROPANE_ERR_INVALID},
        {"{\"peft_type\": \"LOHA\"}", "peft_type is 'LOHA'; only LORA", PROPANE_ERR_UNSUPPORTED},
        {"{\"peft_type\": \"LORA\", \"bias\": \"all\"}", "bias is 'all'", PROPANE_ERR_UNSUPPORTED},
        {"{\"peft_type\": \"LORA\", \"use_dora\": true}", "'use_dora' is set", PROPANE_ERR_UNSUPPORTED},
        {"{\"peft_type\": \"LORA\", \"modules_to_save\": [\"lm_head\"]}", "'modules_to_save' is set",
         PROPANE_ERR_UNSUPPORTED},
        {"{\"peft_type\": \"LORA\", \"rank_pattern\": {\"q\": 2}}", "'rank_pattern' is set", PROPANE_ERR_UNSUPPORTED},
        {"{\"peft_type\": \"LORA\", \"r\": 0}", "'r'", PROPANE_ERR_INVALID},
        {"{\"peft_type\": \"LORA\", \"r\": 2}", "target_modules is missing", PROPANE_ERR_INVALID},
        {"{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": \".*(q|v)_proj\"}", "regular expression",
         PROPANE_ERR_UNSUPPORTED},
        {"{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"c_attn\"]}", "no matrix 'c_attn'",
         PROPANE_ERR_NOT_FOUND},
    };
    char *dir = test_temp_dir();
    model_weights *w = model(NULL);
    model_lora l;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_config(dir, cases[i].config);
        EXPECT_FAIL(model_adapter_config(dir, &w->config, &l, &err), cases[i].status, cases[i].message);
    }
    write_config(dir, "{\"peft_type\": \"LORA\", \"r\": 4, \"use_rslora\": true, \"target_modules\": [\"q_proj\"], "
                      "\"lora_alpha\": 6, \"layers_to_transform\": [1]}");
    EXPECT_OK(model_adapter_config(dir, &w->config, &l, &err));
    EXPECT(l.rank == 4 && fabs(model_lora_scale(&l) - 3) < 1e-12);
    model_weights_free(w);
    mem_free(dir);
}

TEST(weights_that_do_not_fit_are_refused) {
    char *dir = test_temp_dir(), path[1000];
    model_weights *w = model("q_proj"), *other = model(NULL);
    EXPECT_OK(model_adapter_write(w, dir, "", &err));
    write_config(dir, "{\"peft_type\": \"LORA\", \"r\": 3, \"target_modules\": [\"q_proj\"]}");
    EXPECT_FAIL(model_adapter_read(other, dir, &err), PROPANE_ERR_INVALID,
                "'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight' is not [3,12]");
    model_weights_free(other);
    other = model(NULL);
    write_config(dir, "{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"k_proj\"]}");
    EXPECT_FAIL(model_adapter_read(other, dir, &err), PROPANE_ERR_INVALID, "belongs to no adapter of this model");
    model_weights_free(other);
    other = model(NULL);
    snprintf(path, sizeof path, "%s/%s", dir, MODEL_ADAPTER_WEIGHTS);
    remove(path);
    EXPECT_FAIL(model_adapter_read(other, dir, &err), PROPANE_ERR_NOT_FOUND, "cannot open");
    model_weights_free(other);
    model_weights_free(w);
    mem_free(dir);
}

/* GPT-2's files hold queries, keys and values as one matrix: one module, with one A for all three, and separate rows of
 * B. */
TEST(matrices_that_files_hold_together_are_adapted_together) {
    static const struct {
        const char *list, *targets, *modules;
    } cases[] = {{"", "q_proj,k_proj,v_proj", "c_attn"},
                 {"c_attn", "q_proj,k_proj,v_proj", "c_attn"},
                 {"c_proj", "o_proj,down_proj", "c_proj"},
                 {"mlp.c_proj,c_fc", "down_proj,up_proj", "mlp.c_proj,c_fc"},
                 {"transformer.h.0.attn.c_proj", "o_proj", "attn.c_proj"},
                 {"all", "q_proj,k_proj,v_proj,o_proj,up_proj,down_proj", "c_attn,c_proj,c_fc"}};
    static const char gpt2[] = "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 2, \"n_head\": 2, "
                               "\"vocab_size\": 16, \"n_positions\": 16}";
    model_config c;
    model_weights *w = NULL, *again = NULL;
    model_lora l = {.rank = 3, .alpha = 6};
    EXPECT_OK(model_config_parse(gpt2, strlen(gpt2), "c.json", &c, &err));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_OK(model_lora_choose(&l, &c, cases[i].list, &err));
        EXPECT_TEXT(l.targets, cases[i].targets);
        EXPECT_TEXT(l.modules, cases[i].modules);
    }
    EXPECT_FAIL(model_lora_choose(&l, &c, "q_proj", &err), PROPANE_ERR_NOT_FOUND,
                "no matrix 'q_proj' to adapt; the matrices are c_attn, c_proj, c_fc");
    EXPECT_OK(model_lora_choose(&l, &c, "c_attn,mlp.c_proj", &err));
    EXPECT_OK(model_weights_create(&c, &w, &err));
    EXPECT_OK(model_weights_add_lora(w, &l, &err));
    EXPECT(w->adapter_count == 2 * (1 + 3 + 2) && w->adapter_parameters == 2 * 3 * (8 + 24 + 32 + 8));
    for (int i = w->count; i < model_weights_total(w); i++)
        for (int64_t k = 0; k < w->tensors[i].count; k++)
            model_weights_data(w, &w->tensors[i])[k] = (float)(i - w->count) + 0.01f * (float)k;

    char *dir = test_temp_dir();
    EXPECT_OK(model_adapter_write(w, dir, "base", &err));
    EXPECT_OK(model_weights_create(&c, &again, &err));
    EXPECT_OK(model_adapter_read(again, dir, &err));
    EXPECT_TEXT(again->lora.targets, w->lora.targets);
    EXPECT(again->adapter_floats == w->adapter_floats);
    EXPECT(memcmp(again->adapter_data, w->adapter_data, (size_t)w->adapter_floats * sizeof(float)) == 0);

    /* in the file, c_attn has one B of 24 rows: queries, keys, values */
    char path[1000];
    safetensors *s = NULL;
    float b[24 * 3];
    snprintf(path, sizeof path, "%s/%s", dir, MODEL_ADAPTER_WEIGHTS);
    EXPECT_OK(safetensors_open(path, &s, &err));
    EXPECT(safetensors_count(s) == 2 * 4);
    const safetensors_tensor *t = safetensors_find(s, "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight");
    EXPECT(t && t->rank == 2 && t->dim[0] == 24 && t->dim[1] == 3);
    EXPECT_OK(safetensors_f32(s, t, b, &err));
    const float *v = model_weights_data(w, model_weights_param(w, MODEL_ATTN, 1, "v_proj_lora_b"));
    EXPECT(memcmp(b + 16 * 3, v, 8 * 3 * sizeof(float)) == 0);
    safetensors_close(s);

    /* merging: v_proj reads the A of the module */
    const float *a = model_weights_data(w, model_weights_param(w, MODEL_ATTN, 1, "q_proj_lora_a"));
    double want = 0;
    for (int r = 0; r < 3; r++) want += 2 * (double)v[5 * 3 + r] * (double)a[r * 8 + 6];
    EXPECT_OK(model_lora_merge(w, &err));
    double got = (double)model_weights_data(w, model_weights_param(w, MODEL_ATTN, 1, "v_proj"))[5 * 8 + 6];
    EXPECT_MSG(fabs(got - want) < 1e-5 * fabs(want), "%g, not %g", got, want); /* observed 5e-8 */
    model_weights_free(again);
    model_weights_free(w);
    mem_free(dir);
}

SUITE("model/adapter", T(targets_are_chosen), T(merging_adds_the_product), T(a_folder_gives_back_what_was_written),
      T(other_settings_are_refused), T(weights_that_do_not_fit_are_refused),
      T(matrices_that_files_hold_together_are_adapted_together))
