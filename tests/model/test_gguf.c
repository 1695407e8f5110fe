/* SPDX-License-Identifier: MIT
 * GGUF: models and vocabularies written and read back, blocks taken apart against a slow reading of their layout, and files
 * that lie about counts, lengths and offsets. tools/gguf_check.py compares with the package gguf.
 */
#include "model/files/gguf.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/float16.h"
#include "base/memory.h"
#include "base/rng.h"
#include "model/files/store.h"
#include "support/test.h"

static model_weights *small_model(bool tied) {
    propane_error err = {0};
    model_config c;
    model_config_default(&c);
    c.hidden_size = 64;
    c.intermediate_size = 96;
    c.num_hidden_layers = 2;
    c.num_attention_heads = 4;
    c.num_key_value_heads = 2;
    c.head_dim = 16;
    c.vocab_size = 300;
    c.rope_theta = 50000;
    c.rms_norm_eps = 1e-6;
    c.tie_word_embeddings = tied;
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

static void round_trip(gguf_type type, bool tied, double tolerance) {
    propane_error err = {0};
    char *dir = test_temp_dir(), path[300];
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    model_weights *w = small_model(tied), *back = NULL;
    EXPECT_OK(gguf_write_model(w, NULL, path, type, &err));
    model_form form;
    EXPECT_OK(model_store_form(path, &form, &err));
    EXPECT(form == MODEL_FORM_GGUF);
    EXPECT_OK(model_store_read(path, &back, &err));
    EXPECT(model_config_equal(&w->config, &back->config));
    double worst = largest_difference(w, back);
    EXPECT_MSG(worst <= tolerance && (tolerance == 0 || worst > 0), "difference %g", worst);
    model_weights_free(w);
    model_weights_free(back);
    mem_free(dir);
}

TEST(f32) { round_trip(GGUF_TYPE_F32, true, 0); }
TEST(f16) { round_trip(GGUF_TYPE_F16, false, 3e-4); }   /* observed 2.4e-4 */
TEST(bf16) { round_trip(GGUF_TYPE_BF16, false, 3e-3); } /* observed 1.9e-3 */
TEST(q8_0) { round_trip(GGUF_TYPE_Q8_0, true, 3e-3); }  /* observed 2.2e-3: half a step of the largest block */

/* Observed 0.041: the extreme's other side is cut at 7 eighths of it. */
TEST(q4_0) { round_trip(GGUF_TYPE_Q4_0, true, 0.05); }

TEST(queries_lie_in_pairs) {
    propane_error err = {0};
    char *dir = test_temp_dir(), path[300];
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    model_weights *w = small_model(true);
    const model_tensor *q = model_weights_find(w, "model.layers.1.self_attn.q_proj.weight");
    float *data = model_weights_data(w, q);
    for (int64_t r = 0; r < q->dim[0]; r++)
        for (int64_t i = 0; i < q->dim[1]; i++) data[r * q->dim[1] + i] = (float)r;
    EXPECT_OK(gguf_write_model(w, NULL, path, GGUF_TYPE_F32, &err));
    gguf *g = NULL;
    EXPECT_OK(gguf_open(path, &g, &err));
    const gguf_tensor *t = gguf_find_tensor(g, "blk.1.attn_q.weight");
    EXPECT(t && t->rank == 2 && t->dim[0] == 64 && t->dim[1] == 64);
    static const int want[] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 16, 24}; /* heads of 16 rows */
    for (int r = 0; r < 18; r++) {
        float value;
        memcpy(&value, t->data + (size_t)r * 64 * 4, 4);
        EXPECT_MSG(value == (float)want[r], "row %d of the file is our row %g, want %d", r, (double)value, want[r]);
    }
    gguf_close(g);
    model_weights_free(w);
    mem_free(dir);
}

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

static uint32_t bits(const uint8_t *p, int first, int count) { /* `count` bits from bit `first` of a byte string */
    uint32_t v = 0;
    for (int i = 0; i < count; i++) v |= (uint32_t)(p[(first + i) / 8] >> ((first + i) % 8) & 1) << i;
    return v;
}

static double half(const uint8_t *p) { return (double)fp16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

/* Element i of a block, from the layouts' description and bit by bit. */
static double element(gguf_type type, const uint8_t *b, int i) {
    if (type == GGUF_TYPE_Q4_0) return half(b) * ((double)bits(b + 2, 8 * (i % 16) + 4 * (i / 16), 4) - 8);
    if (type == GGUF_TYPE_Q8_0) return half(b) * (int8_t)b[2 + i];
    if (type == GGUF_TYPE_Q4_K) {
        int j = i / 32;
        double scale = j < 4 ? bits(b + 4 + j, 0, 6) : bits(b + 8 + j, 0, 4) | bits(b + j, 6, 2) << 4;
        double min = j < 4 ? bits(b + 8 + j, 0, 6) : bits(b + 8 + j, 4, 4) | bits(b + 4 + j, 6, 2) << 4;
        return half(b) * scale * bits(b + 16 + 32 * (j / 2) + i % 32, 4 * (j % 2), 4) - half(b + 2) * min;
    }
    int part = i / 128, k = i % 128 / 32, l = i % 32;
    uint32_t low = bits(b + 64 * part + 32 * (k % 2) + l, 4 * (k / 2), 4),
             high = bits(b + 128 + 32 * part + l, 2 * k, 2);
    return half(b + 208) * (int8_t)b[192 + i / 16] * ((double)(low | high << 4) - 32);
}

TEST(blocks_are_taken_apart) {
    static const gguf_type kinds[] = {GGUF_TYPE_Q4_0, GGUF_TYPE_Q8_0, GGUF_TYPE_Q4_K, GGUF_TYPE_Q6_K};
    rng r;
    rng_init(&r, 5);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const gguf_type_info *info = gguf_type_get(kinds[k]);
        uint8_t block[256] = {0};
        float out[256];
        for (int round = 0; round < 50; round++) {
            for (int i = 0; i < info->bytes; i++) block[i] = (uint8_t)rng_next(&r);
            uint16_t d = fp16_from_f32(0.01f), m = fp16_from_f32(0.03f);
            size_t at = kinds[k] == GGUF_TYPE_Q6_K ? 208 : 0;
            block[at] = (uint8_t)d, block[at + 1] = (uint8_t)(d >> 8);
            if (kinds[k] == GGUF_TYPE_Q4_K) block[2] = (uint8_t)m, block[3] = (uint8_t)(m >> 8);
            gguf_decode_blocks(kinds[k], block, info->block, out);
            for (int i = 0; i < info->block; i++) {
                double want =
                    element(kinds[k], block, i); /* observed error 6e-6: two fp32 roundings of values up to 41 */
                EXPECT_MSG(fabs((double)out[i] - want) <= 1e-5, "%s element %d: %g, want %g", info->name, i,
                           (double)out[i], want);
            }
        }
    }
}

/* ---- vocabularies ----------------------------------------------------------------------------------------------------------- */

static const char sample[] = "The cat sat on the mat; it's 12345 naïve cafés. 你好\n\n  and a tab\t end\r\n";

static void check_vocabulary(const char *source) {
    propane_error err = {0};
    tokenizer *t = NULL, *back = NULL;
    gguf_header h = {0};
    text file = {0};
    token_list a = {0}, b = {0};
    EXPECT_OK(tokenizer_read(source, &t, &err));
    EXPECT_OK(gguf_put_tokenizer(&h, t, tokenizer_vocab_size(t) + 5, &err)); /* a model may have more rows */
    gguf_print_header(&h, &file);
    EXPECT_OK(tokenizer_parse(file.data, file.length, "file.gguf", &back, &err));
    EXPECT(tokenizer_bos(back) == tokenizer_bos(t) && tokenizer_eos(back) == tokenizer_eos(t));
    EXPECT_OK(tokenizer_encode(t, sample, sizeof sample - 1, &a, &err));
    EXPECT_OK(tokenizer_encode(back, sample, sizeof sample - 1, &b, &err));
    EXPECT(a.count == b.count && memcmp(a.ids, b.ids, a.count * sizeof *a.ids) == 0);
    text_clear(&file);
    tokenizer_decode_bytes(back, b.ids, b.count, &file);
    EXPECT(file.length == sizeof sample - 1 && memcmp(file.data, sample, file.length) == 0);
    token_list_deinit(&a);
    token_list_deinit(&b);
    text_deinit(&file);
    gguf_header_deinit(&h);
    tokenizer_free(t);
    tokenizer_free(back);
}

TEST(vocabulary_as_gpt2) { check_vocabulary("tests/data/tokenizers/gpt2.json"); }
TEST(vocabulary_as_llama3) { check_vocabulary("tests/data/tokenizers/llama3.json"); }
TEST(vocabulary_as_qwen) { check_vocabulary("tests/data/tokenizers/qwen.json"); }
TEST(vocabulary_as_sentencepiece) { check_vocabulary("tests/data/tokenizers/sentencepiece.json"); }
TEST(vocabulary_of_llama2) {
    const char *path = test_data("llama2_tokenizer.bin");
    if (!path) SKIP("llama2.c's tokenizer is not here");
    check_vocabulary(path);
}

TEST(characters_have_no_form) {
    propane_error err = {0};
    tokenizer *t = NULL;
    gguf_header h = {0};
    EXPECT_OK(tokenizer_create_chars("abc", 3, "abc", &t, &err));
    EXPECT_FAIL(gguf_put_tokenizer(&h, t, 3, &err), PROPANE_ERR_UNSUPPORTED, "kind chars");
    EXPECT_FAIL(gguf_put_tokenizer(&h, t, 2, &err), PROPANE_ERR_INVALID, "do not belong together");
    tokenizer_free(t);
    gguf_header_deinit(&h);
}

/* ---- hostile files ------------------------------------------------------------------------------------------------------------- */

static void make_file(text *file) {
    gguf_header h = {0};
    const int64_t dim[2] = {32, 2};
    gguf_put_text(&h, "general.architecture", "llama");
    gguf_put_u32(&h, "llama.block_count", 1);
    gguf_put_array(&h, "words", GGUF_TEXT, 2);
    gguf_put_item_text(&h, "one", 3);
    gguf_put_item_text(&h, "two", 3);
    gguf_put_tensor(&h, "t", 2, dim, GGUF_TYPE_F32);
    gguf_print_header(&h, file);
    char zeros[256] = {0};
    text_append_n(file, zeros, sizeof zeros);
    gguf_header_deinit(&h);
}

TEST(every_truncation_is_refused) {
    propane_error err = {0};
    text file = {0};
    gguf *g = NULL;
    make_file(&file);
    EXPECT_OK(gguf_parse(file.data, file.length, "whole", &g, &err));
    const gguf_value *words;
    uint64_t at = 0;
    size_t length;
    EXPECT_OK(gguf_get_array(g, "words", true, GGUF_TEXT, &words, &err));
    EXPECT(memcmp(gguf_next_text(words, &at, &length), "one", 3) == 0 && length == 3);
    EXPECT(memcmp(gguf_next_text(words, &at, &length), "two", 3) == 0 && at == words->bytes);
    gguf_close(g);
    for (size_t n = 0; n < file.length; n++) {
        uint8_t *exact = mem_alloc(n ? n : 1); /* as large as the file: a sanitizer sees a step behind it */
        memcpy(exact, file.data, n);
        EXPECT_MSG(gguf_parse(exact, n, "cut", &g, &err) != PROPANE_OK && !g && err.text[0], "cut to %zu bytes", n);
        mem_free(exact);
    }
    text_deinit(&file);
}

TEST(every_damaged_byte_is_survived) {
    propane_error err = {0};
    text file = {0};
    make_file(&file);
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < file.length - 256; i++)
        for (size_t k = 0; k < sizeof values; k++) {
            char kept = file.data[i];
            gguf *g = NULL;
            model_config c;
            file.data[i] = (char)values[k];
            if (gguf_parse(file.data, file.length, "damaged", &g, &err) == PROPANE_OK)
                EXPECT(gguf_config(g, &c, &err) != PROPANE_OK);
            gguf_close(g);
            file.data[i] = kept;
        }
    text_deinit(&file);
}

TEST(lies_are_named) {
    propane_error err = {0};
    text file = {0};
    gguf *g = NULL;
    make_file(&file);
    EXPECT_FAIL(gguf_parse("GGML....", 8, "x", &g, &err), PROPANE_ERR_INVALID, "not a GGUF file");
    char *copy = mem_alloc(file.length);
    memcpy(copy, file.data, file.length);
    copy[4] = 1;
    EXPECT_FAIL(gguf_parse(copy, file.length, "x", &g, &err), PROPANE_ERR_UNSUPPORTED, "version 1");
    copy[4] = 3;
    memset(copy + 8, 0xff, 8);
    EXPECT_FAIL(gguf_parse(copy, file.length, "x", &g, &err), PROPANE_ERR_INVALID,
                "tensors, more than the file has room for");
    mem_free(copy);
    text_deinit(&file);
    gguf_header h = {0};
    const int64_t dim[2] = {32, 2};
    gguf_put_u32(&h, "a", 1);
    gguf_put_u32(&h, "a", 1);
    gguf_print_header(&h, &file);
    EXPECT_FAIL(gguf_parse(file.data, file.length, "x", &g, &err), PROPANE_ERR_INVALID, "'a' is there twice");
    gguf_header_deinit(&h);
    h = (gguf_header){0};
    text_clear(&file);
    gguf_put_tensor(&h, "t", 2, dim, GGUF_TYPE_F32);
    gguf_print_header(&h, &file);
    EXPECT_FAIL(gguf_parse(file.data, file.length, "x", &g, &err), PROPANE_ERR_INVALID,
                "tensor t: 256 bytes at offset 0");
    gguf_header_deinit(&h);
    text_deinit(&file);
}

TEST(other_types_are_refused_by_name) {
    propane_error err = {0};
    gguf_header h = {0};
    text file = {0};
    gguf *g = NULL;
    float out[256];
    const int64_t dim[2] = {256, 1};
    gguf_put_tensor(&h, "t", 2, dim, (gguf_type)10);
    gguf_print_header(&h, &file);
    char zeros[96] = {0};
    text_append_n(&file, zeros, sizeof zeros);
    EXPECT_OK(gguf_parse(file.data, file.length, "x", &g, &err));
    EXPECT_FAIL(gguf_f32(g, gguf_tensor_at(g, 0), out, &err), PROPANE_ERR_UNSUPPORTED, "tensor t is Q2_K");
    gguf_close(g);
    gguf_header_deinit(&h);
    text_deinit(&file);
}

SUITE("model/gguf", T(f32), T(f16), T(bf16), T(q8_0), T(q4_0), T(queries_lie_in_pairs), T(blocks_are_taken_apart),
      T(vocabulary_as_gpt2), T(vocabulary_as_llama3), T(vocabulary_as_qwen), T(vocabulary_as_sentencepiece),
      T(vocabulary_of_llama2), T(characters_have_no_form), T(every_truncation_is_refused),
      T(every_damaged_byte_is_survived), T(lies_are_named), T(other_types_are_refused_by_name))
