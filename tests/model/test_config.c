/* SPDX-License-Identifier: MIT
 * Configurations and the registry of tensors: each invalid value has its message, and a written configuration reads
 * back the same.
 */
#include <math.h>

#include "core/base/memory.h"
#include "lm/arch/model_tensors.h"
#include "support/test.h"

static propane_error err;

#define BASE                                                                                                           \
    "\"hidden_size\": 64, \"intermediate_size\": 172, \"num_hidden_layers\": 5, \"num_attention_heads\": 8, "          \
    "\"vocab_size\": 512"

static propane_status parse(const char *extra, model_config *c) {
    char data[1000];
    snprintf(data, sizeof data, "{" BASE "%s%s}", *extra ? ", " : "", extra);
    return model_config_parse(data, strlen(data), "c.json", c, &err);
}

TEST(what_is_left_out_has_the_usual_value) {
    model_config c;
    EXPECT_OK(parse("", &c));
    EXPECT(c.num_key_value_heads == 8 && c.head_dim == 8 && c.max_position_embeddings == 2048);
    EXPECT(fabs(c.rms_norm_eps - 1e-6) < 1e-12 && fabs(c.rope_theta - 10000) < 1e-9 && !c.tie_word_embeddings);
    EXPECT(c.bos_token_id == -1 && c.eos_token_id == -1);
    EXPECT_OK(
        parse("\"rope_scaling\": null, \"attention_bias\": false, \"hidden_act\": \"silu\", \"eos_token_id\": [7, 8], "
              "\"torch_dtype\": \"bfloat16\"",
              &c));
    EXPECT(c.eos_token_id == 7);
}

#define LONG(rest) "\"rope_scaling\": {\"type\": \"longrope\", \"original_max_position_embeddings\": 8, " rest "}"

TEST(each_bad_value_has_its_message) {
    static const struct {
        const char *extra, *part;
        propane_status status;
    } cases[] = {
        {"\"model_type\": \"mamba\"",
         "c.json: model_type 'mamba' is not supported; the supported types are llama, qwen2, qwen3, gpt2",
         PROPANE_ERR_UNSUPPORTED},
        {"\"model_type\": \"gpt2\"", "'n_embd' is missing", PROPANE_ERR_INVALID},
        {"\"model_type\": \"qwen2\", \"use_sliding_window\": true",
         "use_sliding_window is 'true'; with model_type qwen2 only 'false' is supported", PROPANE_ERR_UNSUPPORTED},
        {"\"model_type\": \"qwen3\", \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "layer_types is 'sliding_attention'", PROPANE_ERR_UNSUPPORTED},
        {"\"quantization_config\": {\"bits\": 4}", "quantization_config is set", PROPANE_ERR_UNSUPPORTED},
        {"\"model_type\": \"gemma3_text\", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"\", \"\", "
         "\"\"]",
         "layer_types has no repeating pattern", PROPANE_ERR_UNSUPPORTED},
        {"\"model_type\": \"gemma3_text\", \"layer_types\": [\"full_attention\"]",
         "layer_types must be a list with one item for each of the 5 layers", PROPANE_ERR_INVALID},
        {"\"model_type\": \"gemma2\", \"attn_logit_softcapping\": 1e-9", "attn_logit_softcapping is 1e-09; it must be",
         PROPANE_ERR_INVALID},
        {"\"model_type\": \"gemma3_text\", \"rope_local_base_freq\": 0.5",
         "the rope_theta of sliding-window layers is 0.5", PROPANE_ERR_INVALID},
        {"\"model_type\": \"smollm3\", \"use_sliding_window\": true", "use_sliding_window is 'true'",
         PROPANE_ERR_UNSUPPORTED},
        {"\"model_type\": \"mistral\", \"sliding_window\": 0", "'sliding_window'", PROPANE_ERR_INVALID},
        {"\"partial_rotary_factor\": 0.5", "partial_rotary_factor is '0.5'", PROPANE_ERR_UNSUPPORTED},
        {"\"hidden_act\": \"gelu\"", "hidden_act is 'gelu'", PROPANE_ERR_UNSUPPORTED},
        {"\"attention_bias\": 1", "'attention_bias' must be true or false", PROPANE_ERR_INVALID},
        {"\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}", "rope_scaling has type 'dynamic'",
         PROPANE_ERR_UNSUPPORTED},
        {"\"rope_scaling\": {\"type\": \"linear\"}", "'factor' is missing", PROPANE_ERR_INVALID},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}", "factor is 0.5; it must be from 1",
         PROPANE_ERR_INVALID},
        {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, \"high_freq_factor\": "
         "4, "
         "\"original_max_position_embeddings\": 32}",
         "low_freq_factor is 4 and high_freq_factor 4", PROPANE_ERR_INVALID},
        {"\"rope_scaling\": \"llama3\"", "rope_scaling must be an object", PROPANE_ERR_INVALID},
        {"\"rope_scaling\": {\"type\": \"longrope\"}", "'original_max_position_embeddings' is missing",
         PROPANE_ERR_INVALID},
        {"\"rope_scaling\": {\"type\": \"su\", \"original_max_position_embeddings\": 8}", "short_factor must be a list",
         PROPANE_ERR_INVALID},
        {LONG("\"short_factor\": [1], \"long_factor\": [\"a\"]"), "long_factor must contain only numbers",
         PROPANE_ERR_INVALID},
        {LONG("\"short_factor\": [1], \"long_factor\": [1]"), "must be 4 numbers above 0, one for each pair",
         PROPANE_ERR_INVALID},
        {LONG("\"short_factor\": [1, 1, 1, 0], \"long_factor\": [1, 1, 1, 1]"), "must be 4 numbers above 0",
         PROPANE_ERR_INVALID},
        {LONG("\"short_factor\": [1, 1], \"long_factor\": [1, 1], \"attention_factor\": -1"),
         "attention_factor is -1; it must be above 0", PROPANE_ERR_INVALID},
        {"\"num_key_value_heads\": 3", "num_attention_heads (8) must be a multiple of num_key_value_heads (3)",
         PROPANE_ERR_INVALID},
        {"\"num_key_value_heads\": 0", "'num_key_value_heads' is 0", PROPANE_ERR_INVALID},
        {"\"head_dim\": 7", "head_dim is 7; it must be even", PROPANE_ERR_INVALID},
        {"\"head_dim\": \"8\"", "'head_dim' must be an integer, but is a string", PROPANE_ERR_INVALID},
        {"\"max_position_embeddings\": 0", "'max_position_embeddings' is 0", PROPANE_ERR_INVALID},
        {"\"rms_norm_eps\": 0", "rms_norm_eps is 0", PROPANE_ERR_INVALID},
        {"\"rms_norm_eps\": 1e400", "not valid JSON", PROPANE_ERR_INVALID},
        {"\"rope_theta\": 1", "rope_theta is 1", PROPANE_ERR_INVALID},
        {"\"rope_theta\": -5", "rope_theta is -5", PROPANE_ERR_INVALID},
        {"\"tie_word_embeddings\": 1", "'tie_word_embeddings' must be true or false", PROPANE_ERR_INVALID},
        {"\"bos_token_id\": 512", "bos_token_id is 512; it must be below vocab_size", PROPANE_ERR_INVALID},
        {"\"eos_token_id\": [\"x\"]", "'eos_token_id' must be an integer", PROPANE_ERR_INVALID},
        {"\"vocab_size\": 3", "duplicate", PROPANE_ERR_INVALID},
    };
    model_config c;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        EXPECT_FAIL(parse(cases[i].extra, &c), cases[i].status, cases[i].part);
    EXPECT_FAIL(model_config_parse("{}", 2, "c.json", &c, &err), PROPANE_ERR_INVALID, "'hidden_size' is missing");
    EXPECT_FAIL(model_config_parse("[]", 2, "c.json", &c, &err), PROPANE_ERR_INVALID, "must be an object");
    const char *odd = "{\"hidden_size\": 65, \"intermediate_size\": 1, \"num_hidden_layers\": 1, "
                      "\"num_attention_heads\": 8, \"vocab_size\": 9}";
    EXPECT_FAIL(model_config_parse(odd, strlen(odd), "c.json", &c, &err), PROPANE_ERR_INVALID,
                "hidden_size (65) must be a multiple");
    EXPECT_FAIL(model_config_read("/nonexistent/config.json", &c, &err), PROPANE_ERR_NOT_FOUND, "/nonexistent");
}

TEST(written_configurations_read_back) {
    char *dir = test_temp_dir(), path[300];
    model_config c, again;
    model_config_default(&c);
    c.rms_norm_eps = 1.0 / 3e5;
    c.rope_theta = 500000.125;
    c.bos_token_id = 3;
    snprintf(path, sizeof path, "%s/config.json", dir);
    EXPECT_OK(model_config_write(&c, path, &err));
    EXPECT_OK(model_config_read(path, &again, &err));
    EXPECT(model_config_equal(&c, &again));
    again.head_dim = 2;
    EXPECT(!model_config_equal(&c, &again));
    mem_free(dir);
}

TEST(the_registry_lists_every_tensor_once) {
    for (int tied = 0; tied < 2; tied++) {
        model_config c;
        model_config_default(&c);
        c.num_hidden_layers = 3;
        c.num_key_value_heads = 2;
        c.tie_word_embeddings = tied;
        model_weights *w;
        EXPECT_OK(model_weights_create(&c, &w, &err));
        EXPECT(w->count == 2 + 3 * 9 + !tied);
        int64_t end = 0, sum = 0;
        for (int i = 0; i < w->count; i++) {
            const model_tensor *t = &w->tensors[i];
            EXPECT(t->offset >= end && t->offset % 16 == 0 && t->count == t->dim[0] * t->dim[1]);
            EXPECT(model_weights_find(w, t->name) == t && model_weights_param(w, t->part, t->layer, t->param) == t);
            EXPECT(t->decay == (t->rank == 2));
            end = t->offset + t->count;
            sum += t->count;
        }
        EXPECT(end <= w->floats && sum == w->parameters);
        const model_tensor *k = model_weights_find(w, "model.layers.2.self_attn.k_proj.weight");
        EXPECT(k && k->dim[0] == 64 && k->dim[1] == 192 && k->layer == 2 && k->part == MODEL_ATTN);
        const model_tensor *head = model_weights_param(w, MODEL_HEAD, -1, "lm_head");
        EXPECT_TEXT(head->name, tied ? "model.embed_tokens.weight" : "lm_head.weight");
        EXPECT(!model_weights_find(w, "model.layers.3.self_attn.k_proj.weight") &&
               !model_weights_param(w, MODEL_FFN, 0, "q_proj"));
        model_weights_free(w);
    }
}

static double deviation_of(const model_weights *w, const char *name) {
    const model_tensor *t = model_weights_find(w, name);
    double sum = 0;
    for (int64_t i = 0; i < t->count; i++) sum += (double)w->data[t->offset + i] * (double)w->data[t->offset + i];
    return sqrt(sum / (double)t->count);
}

TEST(initial_weights_have_their_deviation) {
    model_config c;
    model_config_default(&c);
    model_weights *w, *v;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    EXPECT_OK(model_weights_create(&c, &v, &err));
    model_weights_init(w, 1, 0);
    EXPECT(fabs(deviation_of(w, "model.embed_tokens.weight") / 0.02 - 1) < 0.02);
    EXPECT(fabs(deviation_of(w, "model.layers.1.mlp.up_proj.weight") * sqrt(192) - 1) < 0.02);
    EXPECT(fabs(deviation_of(w, "model.layers.1.mlp.down_proj.weight") * sqrt(512) * sqrt(8) - 1) < 0.02);
    EXPECT(fabs(deviation_of(w, "model.layers.3.self_attn.o_proj.weight") * sqrt(192) * sqrt(8) - 1) < 0.02);
    EXPECT(deviation_of(w, "model.norm.weight") == 1);
    model_weights_init(v, 1, 0);
    EXPECT(memcmp(w->data, v->data, (size_t)w->floats * sizeof(float)) == 0);
    model_weights_init(v, 2, 0.02);
    EXPECT(memcmp(w->data, v->data, (size_t)w->floats * sizeof(float)) != 0);
    EXPECT(fabs(deviation_of(v, "model.layers.1.mlp.up_proj.weight") / 0.02 - 1) < 0.02);
    model_weights_free(w);
    model_weights_free(v);
    c.vocab_size = 1;
    EXPECT_FAIL(model_weights_create(&c, &w, &err), PROPANE_ERR_INVALID, "'vocab_size' is 1");
    EXPECT(w == NULL);
}

/* transformers 5 writes one object for theta and scaling. */
TEST(rope_parameters) {
    model_config c;
    char data[400];
    static const char sizes[] = "{\"hidden_size\":8,\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_"
                                "heads\":2,\"vocab_size\":9,";
    snprintf(data, sizeof data, "%s\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":50000.0}}", sizes);
    EXPECT_OK(model_config_parse(data, strlen(data), "c", &c, &err));
    EXPECT(c.rope_theta == 50000);
    snprintf(data, sizeof data, "%s\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":50000.0}}", sizes);
    EXPECT_FAIL(model_config_parse(data, strlen(data), "c", &c, &err), PROPANE_ERR_UNSUPPORTED, "rope_scaling");
}

SUITE("model/config", T(what_is_left_out_has_the_usual_value), T(each_bad_value_has_its_message),
      T(written_configurations_read_back), T(the_registry_lists_every_tensor_once),
      T(initial_weights_have_their_deviation), T(rope_parameters))
