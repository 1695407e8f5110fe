/* SPDX-License-Identifier: MIT
 * Weights in the form of their file: the same numbers as the fp32 reading of the same file, to the bit, for every form,
 * order of rows and kind of file; text from them; fp32 masters made while a generator holds them, and afterwards.
 */
#include "lm/arch/stored_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/files/gguf.h"
#include "lm/files/store.h"
#include "lm/infer/generate.h"
#include "support/small_model.h"
#include "support/test.h"

static propane_error err;

/* Two ways of reading one file. */
typedef struct pair {
    model_weights *wide, *stored;
    char *dir;
} pair;

static const small_model sizes = {64, 96, 2, 4, 2, 16, .vocabulary = 50, .positions = 64};
/* Rows of blocks of 256. */
static const small_model wide_sizes = {256, 512, 3, 4, 2, 64, .vocabulary = 50, .positions = 64};

static pair read_twice(const char *path, char *dir) {
    pair p = {.dir = dir};
    EXPECT_OK(model_store_read(path, false, &p.wide, &err));
    EXPECT_OK(model_store_read(path, true, &p.stored, &err));
    EXPECT(!p.stored->data && p.stored->stored && p.wide->data && !p.wide->stored);
    return p;
}

static pair pair_of_gguf(const char *architecture, gguf_type type) {
    char *dir = test_temp_dir(), path[300];
    model_config c = small_model_config(gguf_type_get((int)type)->block > 32 ? &wide_sizes : &sizes);
    snprintf(c.model_type, sizeof c.model_type, "%s", architecture);
    model_weights *w;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 3, 0.15);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    EXPECT_OK(gguf_write_model(w, NULL, path, type, &err));
    model_weights_free(w);
    return read_twice(path, dir);
}

static pair pair_of_folder(safetensors_dtype dtype, model_form form) {
    char *dir = test_temp_dir(), path[300];
    model_weights *w = small_model_make(&sizes, 3, 0.15);
    snprintf(path, sizeof path, form == MODEL_FORM_DIR ? "%s/model" : "%s/model.safetensors", dir);
    EXPECT_OK(model_store_write(w, path, form, dtype, &err));
    model_weights_free(w);
    return read_twice(path, dir);
}

static void pair_free(pair *p) {
    model_weights_free(p->wide);
    model_weights_free(p->stored);
    mem_free(p->dir);
}

/* Blocks with any bytes as codes and scales; fp16 numbers so small that weights are below 0.3. */
static void fill_blocks(const model_weights *w, const model_tensor *t, rng *r) {
    const kquant_form f = kquant_forms[t->form - MODEL_KQUANT];
    const int code = f.steps ? 127 : (1 << (f.low + f.high)) - 1 - f.bias, scale = f.block == 32 ? 1 : 255;
    const float least = 0.07f / (float)(code * scale);
    int64_t scale_bytes, bytes = model_packing_bytes(t->form, t->count, &scale_bytes);
    uint16_t *scales;
    uint8_t *data = stored_weights_at(w, t, &scales);
    for (int64_t i = 0; i < bytes; i++) data[i] = (uint8_t)rng_below(r, 256);
    for (int64_t i = 128; t->form == MODEL_IQ4_XS && i < bytes; i++) /* scales of six bits */
        if (i % 136 >= 128) data[i] = (uint8_t)(KQUANT_SCALE_BIAS - 32 + (int)rng_below(r, 64));
    for (int64_t i = 0; i < scale_bytes / 2; i++) scales[i] = fp16_from_f32(least * (float)(1 + rng_below(r, 4)));
}

/* A model that was never in a file: each matrix in the form that `form_of` gives. */
static pair pair_of_forms(model_packing (*form_of)(const model_tensor *t, model_packing form), model_packing form) {
    pair p = {0};
    model_config c = small_model_config(&wide_sizes);
    rng r;
    rng_init(&r, 11);
    EXPECT_OK(model_weights_create(&c, &p.wide, &err));
    model_weights_init(p.wide, 3, 0.15);
    EXPECT_OK(model_weights_declare(&c, &p.stored, &err));
    for (int i = 0; i < p.stored->count; i++)
        if (p.stored->tensors[i].rank == 2) p.stored->tensors[i].form = form_of(&p.stored->tensors[i], form);
    EXPECT_OK(stored_weights_reserve(p.stored, &err));
    for (int i = 0; i < p.stored->count; i++) {
        const model_tensor *t = &p.stored->tensors[i];
        float *wide = model_weights_data(p.wide, &p.wide->tensors[i]);
        if (t->form == MODEL_UNPACKED)
            memcpy(stored_weights_at(p.stored, t, NULL), wide, (size_t)t->count * sizeof *wide);
        else
            fill_blocks(p.stored, t, &r);
        stored_weights_read(p.stored, t, 0, t->count, wide);
    }
    return p;
}

/* All of it, and a block from the middle. */
static void expect_same_numbers(const pair *p, model_packing form) {
    int in_form = 0;
    for (int i = 0; i < p->wide->count; i++) {
        const model_tensor *t = &p->stored->tensors[i];
        const float *want = model_weights_data(p->wide, &p->wide->tensors[i]);
        const int64_t block = model_packing_block(t->form) > 32 ? model_packing_block(t->form) : 32;
        float *got = mem_array((size_t)t->count, sizeof *got), some[256];
        in_form += t->form == form;
        stored_weights_read(p->stored, t, 0, t->count, got);
        EXPECT_MSG(memcmp(want, got, (size_t)t->count * sizeof *got) == 0, "%s", t->name);
        if (t->rank == 2) {
            const int64_t middle = t->count / block / 2 * block;
            stored_weights_read(p->stored, t, middle, block, some);
            EXPECT_MSG(memcmp(want + middle, some, (size_t)block * sizeof *some) == 0, "%s", t->name);
        }
        mem_free(got);
    }
    EXPECT(in_form >= 7 * 2 + 1); /* matrices of two layers, and the embedding */
}

static void read_all(model_weights *w, const infer_options *o, int32_t *ids, float *logits) {
    propane_device *d;
    infer *m;
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_OK(infer_create(d, w, o, &m, &err));
    EXPECT_OK(infer_read(m, ids, 39, logits, &err)); /* a chunk, then one token */
    EXPECT_OK(infer_read(m, ids + 39, 1, logits, &err));
    infer_free(m);
    propane_device_close(d);
}

static void expect_same_text(const pair *p, double tolerance) {
    int32_t ids[40];
    float want[50], got[50];
    for (int i = 0; i < 40; i++) ids[i] = i * 7 % 50;
    read_all(p->wide, &(infer_options){.dtype = MIL_fp32}, ids, want);
    for (int k = 0; k < 3; k++) { /* as the file has them; fp32; fp16, which rounds: seen 1e-2 */
        const infer_options o = {.dtype = MIL_fp32, .exact = k == 0, .weights = k == 2 ? MODEL_FP16 : MODEL_UNPACKED};
        read_all(p->stored, &o, ids, got);
        int best = 0, best_wanted = 0; /* the next ids of greedy text */
        for (int i = 1; i < 50; i++) {
            if (got[i] > got[best]) best = i;
            if (want[i] > want[best_wanted]) best_wanted = i;
        }
        EXPECT(k == 2 || best == best_wanted);
        for (int i = 0; i < 50; i++)
            EXPECT_MSG(fabs((double)got[i] - (double)want[i]) < (k == 2 ? 3e-2 : tolerance), "way %d: %g, want %g", k,
                       (double)got[i], (double)want[i]);
    }
}

static void expect_one_form(const pair *p, model_packing form) {
    for (model_part part = MODEL_ATTN; part <= MODEL_HEAD; part++) EXPECT(infer_exact_packing(p->stored, part) == form);
}

static const struct {
    gguf_type type;
    model_packing form;
    double tolerance; /* of logits of about 3; seen 0, 0, then 4e-5 to 2e-4: products of blocks may be in integers */
} types[] = {
    {GGUF_TYPE_F16, MODEL_FP16, 1e-5},  {GGUF_TYPE_BF16, MODEL_BF16, 1e-5}, {GGUF_TYPE_Q8_0, MODEL_INT8, 1e-3},
    {GGUF_TYPE_Q4_0, MODEL_INT4, 1e-3}, {GGUF_TYPE_Q4_1, MODEL_Q4_1, 1e-3}, {GGUF_TYPE_Q5_0, MODEL_Q5_0, 1e-3},
    {GGUF_TYPE_Q5_1, MODEL_Q5_1, 1e-3}, {GGUF_TYPE_Q4_K, MODEL_Q4_K, 1e-3}, {GGUF_TYPE_Q6_K, MODEL_Q6_K, 1e-3}};
enum { TYPES = sizeof types / sizeof types[0] };

TEST(a_gguf_file_s_numbers_and_text) {
    for (int i = 0; i < TYPES; i++) {
        pair p = pair_of_gguf("llama", types[i].type); /* in whose files rows of q and k are in pairs */
        expect_same_numbers(&p, types[i].form);
        expect_one_form(&p, types[i].form);
        expect_same_text(&p, types[i].tolerance);
        pair_free(&p);
    }
}

/* Matrices that the file holds as one: queries, keys and values; gate and up. */
TEST(rows_of_joint_matrices) {
    for (int i = 0; i < TYPES; i++) {
        pair p = pair_of_gguf("phi3", types[i].type);
        expect_same_numbers(&p, types[i].form);
        pair_free(&p);
    }
}

TEST(a_folder_s_and_a_safetensors_file_s_numbers_and_text) {
    for (int dtype = 0; dtype < 2; dtype++)
        for (int folder = 0; folder < 2; folder++) {
            const model_packing form = dtype ? MODEL_BF16 : MODEL_FP16;
            pair p = pair_of_folder(dtype ? ST_BF16 : ST_F16, folder ? MODEL_FORM_DIR : MODEL_FORM_SAFETENSORS);
            expect_same_numbers(&p, form);
            expect_one_form(&p, form);
            expect_same_text(&p, 1e-5);
            pair_free(&p);
        }
}

static model_packing all_alike(const model_tensor *t, model_packing form) { return form; }

TEST(blocks_of_every_kind) {
    for (int form = MODEL_KQUANT; form < MODEL_PACKINGS; form++) {
        pair p = pair_of_forms(all_alike, (model_packing)form);
        expect_same_numbers(&p, (model_packing)form);
        expect_one_form(&p, (model_packing)form);
        expect_same_text(&p, 1e-3);
        pair_free(&p);
    }
}

/* Mixed as in llama.cpp: some matrices of some layers in more bits, one in fp32, the head in another form. */
static model_packing mixed(const model_tensor *t, model_packing form) {
    if (t->layer < 0) return MODEL_Q6_K;
    if (strcmp(t->param, "o_proj") == 0 && t->layer == 1) return MODEL_UNPACKED;
    return (strcmp(t->param, "v_proj") == 0 || strcmp(t->param, "down_proj") == 0) && t->layer != 1 ? MODEL_Q6_K : form;
}

TEST(layers_of_different_forms) {
    pair p = pair_of_forms(mixed, MODEL_Q4_K);
    EXPECT(infer_exact_packing(p.stored, MODEL_ATTN) == MODEL_UNPACKED);
    expect_same_text(&p, 1e-3);
    propane_device *d;
    infer *m;
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_OK(infer_create(d, p.stored, &(infer_options){.dtype = MIL_fp32, .exact = true}, &m, &err));
    EXPECT(infer_weight_bytes(m) <
           (int64_t)p.stored->stored_bytes); /* the norms count; apart from them, the embedding is a head */
    EXPECT_MSG(strcmp(infer_weight_forms(m), "q4_k and q6_k and fp32") == 0, "%s", infer_weight_forms(m));
    infer_free(m);
    propane_device_close(d);
    pair_free(&p);
}

/* A head in more bits than the layers, as llama.cpp writes Q4_0: each part has its own form. */
TEST(parts_of_different_forms) {
    pair p = pair_of_gguf("llama", GGUF_TYPE_Q4_0);
    for (int i = 0; i < p.stored->count; i++)
        if (p.stored->tensors[i].layer < 0 && p.stored->tensors[i].rank == 2) p.stored->tensors[i].form = MODEL_INT8;
    EXPECT(infer_exact_packing(p.stored, MODEL_ATTN) == MODEL_INT4);
    EXPECT(infer_exact_packing(p.stored, MODEL_FFN) == MODEL_INT4);
    EXPECT(infer_exact_packing(p.stored, MODEL_HEAD) == MODEL_INT8);
    p.stored->tensors[1].form = MODEL_INT8; /* one matrix of a part is enough */
    p.stored->tensors[2].form = MODEL_INT8;
    EXPECT(infer_exact_packing(p.stored, MODEL_ATTN) == MODEL_UNPACKED);
    pair_free(&p);
}

TEST(masters_are_made_once_and_the_rest_goes_when_nobody_holds_it) {
    for (int i = 0; i < TYPES; i++) {
        pair p = pair_of_gguf("llama", types[i].type);
        stored_weights_hold(p.stored);
        EXPECT_OK(stored_weights_expand(p.stored, &err));
        const float *made = p.stored->data;
        EXPECT(p.stored->stored && made);
        expect_same_numbers(&p, types[i].form);
        EXPECT_OK(stored_weights_expand(p.stored, &err));
        EXPECT(p.stored->data == made && p.stored->stored);
        stored_weights_release(p.stored);
        EXPECT(p.stored->data == made && !p.stored->stored);
        expect_same_numbers(&p, types[i].form);
        EXPECT(memcmp(made, p.wide->data, (size_t)p.wide->floats * sizeof *made) == 0);
        pair_free(&p);
    }
    pair p = pair_of_gguf("llama", GGUF_TYPE_Q8_0);
    EXPECT_OK(stored_weights_expand(p.stored, &err));
    EXPECT(!p.stored->stored && memcmp(p.stored->data, p.wide->data, (size_t)p.wide->floats * sizeof(float)) == 0);
    pair_free(&p);
}

TEST(numbers_that_are_none_are_found_in_every_form) {
    for (int i = 0; i < TYPES; i++) {
        pair p = pair_of_gguf("llama", types[i].type);
        uint16_t *scales;
        EXPECT(!stored_weights_not_finite(p.stored));
        const model_tensor *t = model_weights_param(p.stored, MODEL_FFN, 1, "up_proj");
        uint16_t *numbers = stored_weights_at(p.stored, t, &scales);
        *(scales ? scales + 5 : numbers + 77) = types[i].form == MODEL_BF16 ? 0x7f80 : 0x7c00; /* infinity */
        const char *name = stored_weights_not_finite(p.stored);
        EXPECT(name && strcmp(name, t->name) == 0);
        pair_free(&p);
    }
}

SUITE("infer/stored", T(a_gguf_file_s_numbers_and_text), T(rows_of_joint_matrices),
      T(a_folder_s_and_a_safetensors_file_s_numbers_and_text), T(blocks_of_every_kind), T(layers_of_different_forms),
      T(parts_of_different_forms), T(masters_are_made_once_and_the_rest_goes_when_nobody_holds_it),
      T(numbers_that_are_none_are_found_in_every_form))
