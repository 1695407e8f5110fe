/* SPDX-License-Identifier: MIT
 * Models in every form: written, recognised, read back.
 */
#include "lm/arch/stored_weights.h"
#include "lm/files/store.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "support/small_model.h"
#include "support/test.h"

static model_weights *random_model(void) {
    propane_error err = {0};
    static const small_model sizes = {32, 48, 2, 4, 2, 8, .vocabulary = 50, .positions = 16};
    model_config c = small_model_config(&sizes);
    c.rms_norm_eps = 1e-5;
    model_weights *w = NULL;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 7, 0);
    return w;
}

static double largest_difference(const model_weights *a, const model_weights *b) {
    double worst = 0;
    for (int64_t i = 0; i < a->floats; i++) worst = fmax(worst, fabs((double)a->data[i] - (double)b->data[i]));
    return worst;
}

static void round_trip(const char *name, model_form form, safetensors_dtype dtype, double tolerance) {
    propane_error err = {0};
    char *dir = test_temp_dir(), path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    model_weights *w = random_model(), *back = NULL;
    EXPECT_OK(model_store_write(w, path, form, dtype, &err));
    model_form found;
    EXPECT_OK(model_store_form(path, &found, &err));
    EXPECT(found == form);
    EXPECT_OK(model_store_read(path, false, &back, &err));
    w->config.bos_token_id = back->config.bos_token_id; /* llama2.c files do not hold these two */
    w->config.eos_token_id = back->config.eos_token_id;
    EXPECT(model_config_equal(&w->config, &back->config));
    EXPECT_MSG(largest_difference(w, back) <= tolerance, "difference %g", largest_difference(w, back));
    model_config config;
    EXPECT_OK(model_store_config(path, &config, &err));
    EXPECT(model_config_equal(&back->config, &config));
    model_weights_free(w);
    model_weights_free(back);
    mem_free(dir);
}

TEST(folder) { round_trip("model", MODEL_FORM_DIR, ST_F32, 0); }
TEST(folder_fp16) { round_trip("model", MODEL_FORM_DIR, ST_F16, 4e-4); }
TEST(file_bf16) { round_trip("m.safetensors", MODEL_FORM_SAFETENSORS, ST_BF16, 4e-3); }
TEST(file) { round_trip("m.safetensors", MODEL_FORM_SAFETENSORS, ST_F32, 0); }
TEST(llama2c) { round_trip("m.bin", MODEL_FORM_LLAMA2C, ST_F32, 0); }

TEST(refusals) {
    propane_error err = {0};
    char *dir = test_temp_dir(), path[300];
    model_weights *w = random_model(), *back = NULL;
    snprintf(path, sizeof path, "%s/none", dir);
    EXPECT_FAIL(model_store_read(path, false, &back, &err), PROPANE_ERR_NOT_FOUND, "none");
    snprintf(path, sizeof path, "%s/text.bin", dir);
    EXPECT_OK(file_write(path, "This is not a model, it is a text.", 34, &err));
    EXPECT_FAIL(model_store_read(path, false, &back, &err), PROPANE_ERR_INVALID, "not a model");
    EXPECT_FAIL(model_store_read(dir, false, &back, &err), PROPANE_ERR_NOT_FOUND, "model.safetensors");
    snprintf(path, sizeof path, "%s/a.bin", dir);
    EXPECT_FAIL(model_store_write(w, path, MODEL_FORM_DIR, ST_F32, &err), PROPANE_ERR_INVALID,
                "a folder was requested");
    EXPECT_FAIL(model_store_write(w, path, MODEL_FORM_LLAMA2C, ST_F16, &err), PROPANE_ERR_UNSUPPORTED, "only F32");

    safetensors_writer *writer = NULL; /* a file that lacks tensors */
    int64_t one = 1;
    float zero = 0;
    snprintf(path, sizeof path, "%s/part.safetensors", dir);
    EXPECT_OK(safetensors_writer_open(path, &writer, &err));
    EXPECT_OK(model_store_describe(&w->config, writer, &err));
    EXPECT_OK(safetensors_writer_declare(writer, "x", ST_F32, 1, &one, &err));
    EXPECT_OK(safetensors_writer_data(writer, &zero, sizeof zero, &err));
    EXPECT_OK(safetensors_writer_commit(writer, &err));
    EXPECT_FAIL(model_store_read(path, false, &back, &err), PROPANE_ERR_INVALID,
                "model.embed_tokens.weight is missing");
    EXPECT(back == NULL);
    model_weights_free(w);
    mem_free(dir);
}

/* The registry's tensors in two files, with an index. */
TEST(weights_in_several_files) {
    propane_error err = {0};
    char *dir = test_temp_dir(), path[300];
    model_weights *w = random_model(), *back = NULL;
    text index = {0};
    text_append(&index, "{\"metadata\":{},\"weight_map\":{");
    for (int part = 0; part < 2; part++) {
        safetensors_writer *writer;
        snprintf(path, sizeof path, "%s/model-%d.safetensors", dir, part);
        EXPECT_OK(safetensors_writer_open(path, &writer, &err));
        for (int i = part; i < w->count; i += 2) {
            const model_tensor *t = &w->tensors[i];
            EXPECT_OK(safetensors_writer_declare(writer, t->name, ST_F32, t->rank, t->dim, &err));
            text_printf(&index, "%s\"%s\":\"model-%d.safetensors\"", part || i ? "," : "", t->name, part);
        }
        for (int i = part; i < w->count; i += 2)
            EXPECT_OK(safetensors_writer_data(writer, model_weights_data(w, &w->tensors[i]),
                                              (size_t)w->tensors[i].count * sizeof(float), &err));
        EXPECT_OK(safetensors_writer_commit(writer, &err));
    }
    text_append(&index, "}}");
    snprintf(path, sizeof path, "%s/config.json", dir);
    EXPECT_OK(model_config_write(&w->config, path, &err));
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
    EXPECT_OK(file_write(path, index.data, index.length, &err));
    EXPECT_OK(model_store_read(dir, false, &back, &err));
    EXPECT(largest_difference(w, back) == 0);
    model_config c;
    EXPECT_OK(model_store_config(dir, &c, &err));
    EXPECT(model_config_equal(&w->config, &c));
    model_weights_free(back);
    EXPECT_OK(model_store_read(dir, true, &back, &err));
    EXPECT(!back->data);
    EXPECT_OK(stored_weights_expand(back, &err));
    EXPECT(largest_difference(w, back) == 0);
    model_weights_free(back);
    char *name = strstr(index.data, "model-1.safetensors"); /* a file outside the folder */
    memcpy(name, "../up-1.safetensors", 19);
    EXPECT_OK(file_write(path, index.data, index.length, &err));
    EXPECT_FAIL(model_store_read(dir, false, &back, &err), PROPANE_ERR_INVALID, "'../up-1.safetensors' is not one of");
    memcpy(name, "model-2.safetensors", 19);
    EXPECT_OK(file_write(path, index.data, index.length, &err));
    EXPECT_FAIL(model_store_read(dir, false, &back, &err), PROPANE_ERR_NOT_FOUND, "model-2.safetensors");
    EXPECT_OK(file_write(path, "{\"weight_map\":{}}", 17, &err));
    EXPECT_FAIL(model_store_read(dir, false, &back, &err), PROPANE_ERR_INVALID, "is missing in 'weight_map'");
    EXPECT(!back);
    text_deinit(&index);
    model_weights_free(w);
    mem_free(dir);
}

SUITE("model/store", T(folder), T(folder_fp16), T(file_bf16), T(file), T(llama2c), T(refusals),
      T(weights_in_several_files))
