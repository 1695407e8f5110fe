/* SPDX-License-Identifier: MIT
 * Architectures: the rows are complete; models that transformers wrote are read, and their logits match (with the slow
 * reference of the operations); every form reads back as it was written; and a model that a form cannot hold is
 * refused.
 */
#include "lm/arch/arch.h"

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/mil/eval/eval.h"
#include "lm/arch/forward.h"
#include "lm/files/gguf.h"
#include "support/arch_data.h"
#include "support/whole_model.h"

static propane_error err;

TEST(rows_name_each_tensor_once) {
    for (int i = 0; i < model_arch_count(); i++) {
        const model_arch *a = model_arch_at(i);
        model_config c;
        model_weights *w = NULL;
        EXPECT_OK(model_config_default_of(&c, a->type, &err));
        c.num_hidden_layers = 2;
        c.attention_bias = c.mlp_bias = true;
        c.tie_word_embeddings = false;
        EXPECT_OK(model_weights_create(&c, &w, &err));
        EXPECT(w->parameters == model_arch_parameters(&c) && model_arch_find(a->type) == a);
        /* GGUF files may name an architecture after another one with the same files. */
        EXPECT(model_arch_gguf(a->gguf) == a || strcmp(a->type, "mistral") == 0);
        for (int k = 0; k < w->count; k++) {
            const model_tensor *t = &w->tensors[k];
            EXPECT_MSG(model_weights_find(w, t->name) == t, "%s twice", t->name);
            EXPECT_MSG(model_weights_param(w, t->part, t->layer, t->param) == t, "%s", t->name);
            for (int n = 0; n < k; n++)
                EXPECT_MSG((strcmp(w->tensors[n].stored, t->stored) == 0) == (strcmp(w->tensors[n].gguf, t->gguf) == 0),
                           "%s and %s", w->tensors[n].name, t->name);
            int64_t rows = 0;
            const model_tensor *piece;
            for (int n = 0; (piece = model_weights_piece(w, t, n)); n++) {
                EXPECT(piece->first_row == rows && piece->stored_rows == t->stored_rows && piece->dim[1] == t->dim[1]);
                rows += piece->dim[0];
            }
            EXPECT(rows == t->stored_rows);
        }
        model_weights_free(w);
    }
    model_config c;
    EXPECT_FAIL(model_config_default_of(&c, "mamba", &err), PROPANE_ERR_UNSUPPORTED,
                "unknown architecture 'mamba'; the known ones are llama, qwen2, qwen3, gpt2");
}

TEST(known_sizes) {
    static const struct {
        const char *json;
        int64_t parameters;
    } cases[] = {
        /* Qwen/Qwen3-0.6B, Qwen/Qwen2.5-0.5B, openai-community/gpt2, meta-llama/Llama-3.2-1B: as published */
        {"{\"model_type\":\"qwen3\",\"hidden_size\":1024,\"intermediate_size\":3072,\"num_hidden_layers\":28,"
         "\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_size\":151936,"
         "\"max_position_embeddings\":40960,\"rope_theta\":1000000,\"tie_word_embeddings\":true}",
         596049920},
        /* Qwen/Qwen3-30B-A3B */
        {"{\"model_type\":\"qwen3_moe\",\"hidden_size\":2048,\"intermediate_size\":6144,\"num_hidden_layers\":48,"
         "\"num_attention_heads\":32,\"num_key_value_heads\":4,\"head_dim\":128,\"vocab_size\":151936,"
         "\"num_experts\":128,\"num_experts_per_tok\":8,\"moe_intermediate_size\":768,\"norm_topk_prob\":true,"
         "\"decoder_sparse_step\":1,\"mlp_only_layers\":[],\"rope_theta\":1000000.0,\"tie_word_embeddings\":false}",
         30532122624},
        {"{\"model_type\":\"qwen2\",\"hidden_size\":896,\"intermediate_size\":4864,\"num_hidden_layers\":24,"
         "\"num_attention_heads\":14,\"num_key_value_heads\":2,\"vocab_size\":151936,\"rope_theta\":1000000,"
         "\"sliding_window\":32768,\"use_sliding_window\":false,\"tie_word_embeddings\":true}",
         494032768},
        {"{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_positions\":1024,\"n_ctx\":1024,"
         "\"vocab_size\":50257,\"activation_function\":\"gelu_new\",\"layer_norm_epsilon\":1e-05}",
         124439808},
        {"{\"model_type\":\"llama\",\"hidden_size\":2048,\"intermediate_size\":8192,\"num_hidden_layers\":16,"
         "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":64,\"vocab_size\":128256,"
         "\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
         "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},\"tie_word_embeddings\":true}",
         1235814400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model_config c;
        EXPECT_OK(model_config_parse(cases[i].json, strlen(cases[i].json), "c", &c, &err));
        EXPECT_MSG(model_arch_parameters(&c) == cases[i].parameters, "%s: %lld parameters", c.model_type,
                   (long long)model_arch_parameters(&c));
    }
}

static const float *baked(void *context, model_part part, int layer, const char *param) {
    return model_weight_from(context, part, layer, param);
}

/* Returns the largest difference between the whole model's logits and transformers', relative to the largest. */
static double logits_off(const arch_data *d, mil_dtype dtype) {
    const model_config *c = &d->weights->config;
    arena *a = arena_create();
    mil_module *m = mil_module_create("test");
    mil_function *f = NULL;
    model_build_options o = {
        .batch = ARCH_BATCH, .sequence = ARCH_SEQUENCE, .dtype = dtype, .baked = baked, .baked_context = d->weights};
    EXPECT_OK(whole_model_build(m, "whole", c, &o, &f, &err));
    EXPECT(f->param_count == 1);
    const float *table =
        model_weights_data(d->weights, model_weights_param(d->weights, MODEL_EMBED, -1, "embed_tokens"));
    const model_tensor *learned = model_weights_param(d->weights, MODEL_EMBED, -1, "embed_positions");
    const float *places = learned ? model_weights_data(d->weights, learned) : NULL;
    mil_tensor x = {f->params[0]->type, ARENA_ARRAY(a, ARCH_TOKENS * c->hidden_size, double)}, *out = NULL;
    for (int b = 0; b < ARCH_BATCH; b++)
        for (int64_t k = 0; k < c->hidden_size; k++)
            for (int s = 0; s < ARCH_SEQUENCE; s++)
                x.data[(b * c->hidden_size + k) * ARCH_SEQUENCE + s] =
                    (double)table[d->inputs[b * ARCH_SEQUENCE + s] * c->hidden_size + k] +
                    (places ? (double)places[s * c->hidden_size + k] : 0);
    EXPECT_OK(mil_eval_function(f, &x, dtype == MIL_fp16, a, &out, &err));
    double worst = 0, largest = 0;
    for (int b = 0; b < ARCH_BATCH; b++)
        for (int v = 0; v < ARCH_VOCABULARY; v++)
            for (int s = 0; s < ARCH_SEQUENCE; s++) {
                double got = out[0].data[(b * ARCH_VOCABULARY + v) * ARCH_SEQUENCE + s];
                double want = (double)d->logits[(b * ARCH_SEQUENCE + s) * ARCH_VOCABULARY + v];
                worst = isfinite(got) ? fmax(worst, fabs(got - want)) : INFINITY;
                largest = fmax(largest, fabs(want));
            }
    mil_module_free(m);
    arena_free(a);
    return worst / largest;
}

TEST(logits_are_those_of_transformers) {
    for (int i = 0; i < ARCH_NAMES; i++) {
        arch_data d;
        arch_open(&d, arch_names[i]);
        double exact = logits_off(&d, MIL_fp32), half = logits_off(&d, MIL_fp16);
        /* observed 2e-7: transformers computes RoPE in fp32 */
        EXPECT_MSG(exact < 1e-6, "%s: %g", arch_names[i], exact);
        EXPECT_MSG(half < 1e-2, "%s, fp16: %g", arch_names[i], half); /* observed 4e-3 */
        if (getenv("TEST_VERBOSE")) printf("%s: %g, fp16 %g\n", arch_names[i], exact, half);
        arch_close(&d);
    }
}

TEST(every_form_reads_back) {
    static const struct {
        const char *name;
        model_form form;
    } forms[] = {
        {"folder", MODEL_FORM_DIR}, {"one.safetensors", MODEL_FORM_SAFETENSORS}, {"one.gguf", MODEL_FORM_GGUF}};
    for (int i = 0; i < ARCH_NAMES; i++) {
        arch_data d;
        char *dir = test_temp_dir(), path[300];
        arch_open(&d, arch_names[i]);
        for (int k = 0; k < 3; k++) {
            model_weights *back = NULL;
            snprintf(path, sizeof path, "%s/%s", dir, forms[k].name);
            if (forms[k].form == MODEL_FORM_GGUF && d.weights->config.num_experts &&
                !d.weights->config.norm_topk_prob) {
                EXPECT_FAIL(model_store_write(d.weights, path, forms[k].form, ST_F32, &err), PROPANE_ERR_UNSUPPORTED,
                            "the expert weights of a qwen3_moe are divided by their sum");
                continue;
            }
            EXPECT_OK(model_store_write(d.weights, path, forms[k].form, ST_F32, &err));
            EXPECT_OK(model_store_read(path, false, &back, &err));
            if (forms[k].form == MODEL_FORM_GGUF && strcmp(arch_names[i], "mistral") == 0)
                /* in that file it is a llama */
                snprintf(back->config.model_type, sizeof back->config.model_type, "mistral");
            EXPECT_MSG(model_config_equal(&d.weights->config, &back->config), "%s: %s", arch_names[i], forms[k].name);
            EXPECT_MSG(memcmp(d.weights->data, back->data, (size_t)back->floats * sizeof(float)) == 0, "%s: %s",
                       arch_names[i], forms[k].name);
            model_weights_free(back);
        }
        snprintf(path, sizeof path, "%s/one.bin", dir);
        EXPECT_FAIL(model_store_write(d.weights, path, MODEL_FORM_LLAMA2C, ST_F32, &err), PROPANE_ERR_UNSUPPORTED,
                    "a llama2.c checkpoint can hold only a Llama without biases and rope scaling");
        arch_close(&d);
        mem_free(dir);
    }
}

/* Writing a model that transformers wrote gives the same tensors: names, shapes and bits. */
TEST(written_files_are_those_of_transformers) {
    for (int i = 0; i < ARCH_NAMES; i++) {
        arch_data d;
        safetensors *theirs = NULL, *ours = NULL;
        char *dir = test_temp_dir(), path[300];
        arch_open(&d, arch_names[i]);
        snprintf(path, sizeof path, "%s/m.safetensors", dir);
        EXPECT_OK(model_store_write(d.weights, path, MODEL_FORM_SAFETENSORS, ST_F32, &err));
        EXPECT_OK(safetensors_open(path, &ours, &err));
        snprintf(path, sizeof path, "tests/data/arch_%s/model.safetensors", arch_names[i]);
        EXPECT_OK(safetensors_open(path, &theirs, &err));
        EXPECT(safetensors_count(ours) == safetensors_count(theirs));
        for (int k = 0; k < safetensors_count(theirs); k++) {
            const safetensors_tensor *want = safetensors_at(theirs, k), *got = NULL;
            EXPECT_OK(safetensors_expect(ours, want->name, ST_F32, want->rank, want->dim, &got, &err));
            EXPECT_MSG(memcmp(got->data, want->data, want->bytes) == 0, "%s", want->name);
        }
        safetensors_close(ours);
        safetensors_close(theirs);
        arch_close(&d);
        mem_free(dir);
    }
}

TEST(llama3_scaling_is_found_again_in_gguf) {
    static const struct {
        double factor, low, high;
        int64_t original;
        bool known;
    } cases[] = {{8, 1, 4, 8192, true}, {32, 1, 4, 8192, true}, {4, 1, 4, 64, true}, {8, 2, 3, 8192, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model_config c;
        model_weights *w = NULL, *back = NULL;
        char *dir = test_temp_dir(), path[300];
        model_config_default(&c);
        c.hidden_size = 64, c.intermediate_size = 32, c.num_hidden_layers = 1, c.vocab_size = 8;
        c.num_attention_heads = c.num_key_value_heads = 1, c.head_dim = 64, c.rope_theta = 500000;
        c.rope_scaling = MODEL_ROPE_LLAMA3, c.rope_factor = cases[i].factor, c.rope_low_factor = cases[i].low;
        c.rope_high_factor = cases[i].high, c.rope_original = cases[i].original;
        EXPECT_OK(model_weights_create(&c, &w, &err));
        snprintf(path, sizeof path, "%s/m.gguf", dir);
        EXPECT_OK(gguf_write_model(w, NULL, path, GGUF_TYPE_F32, &err));
        if (cases[i].known) {
            EXPECT_OK(model_store_read(path, false, &back, &err));
            EXPECT(model_config_equal(&c, &back->config));
        } else {
            EXPECT_FAIL(model_store_read(path, false, &back, &err), PROPANE_ERR_UNSUPPORTED, "not Llama 3's");
        }
        model_weights_free(w);
        model_weights_free(back);
        mem_free(dir);
    }
}

SUITE("model/arch", T(rows_name_each_tensor_once), T(known_sizes), T(logits_are_those_of_transformers),
      T(every_form_reads_back), T(written_files_are_those_of_transformers), T(llama3_scaling_is_found_again_in_gguf))
