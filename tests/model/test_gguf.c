/* SPDX-License-Identifier: MIT
 * GGUF: models and vocabularies written and read back, blocks decoded and compared with a slow reading of their layout,
 * and files with wrong counts, lengths and offsets. tools/gguf_check.py compares with the package gguf.
 */
#include "lm/files/gguf.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/base/sha256.h"
#include "lm/files/store.h"
#include "lm/text/chat_find.h"
#include "support/hash_of.h"
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
    EXPECT_OK(model_store_read(path, false, &back, &err));
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

/* Observed 0.041: on the side opposite to the extreme, values are clipped at 7 eighths of it. */
TEST(q4_0) { round_trip(GGUF_TYPE_Q4_0, true, 0.05); }
TEST(q4_1) { round_trip(GGUF_TYPE_Q4_1, true, 0.05); }
TEST(q5_0) { round_trip(GGUF_TYPE_Q5_0, true, 0.025); }
TEST(q5_1) { round_trip(GGUF_TYPE_Q5_1, true, 0.025); }

/* Rows of 64 do not fill a block of 256: the types that replace Q4_K and Q6_K there. */
TEST(rows_decide_the_type) {
    static const gguf_type asked[] = {GGUF_TYPE_Q4_K, GGUF_TYPE_Q6_K, GGUF_TYPE_Q4_1},
                           got[] = {GGUF_TYPE_Q5_0, GGUF_TYPE_Q8_0, GGUF_TYPE_Q4_1};
    propane_error err = {0};
    char *dir = test_temp_dir(), path[300];
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    model_weights *w = small_model(true);
    for (int i = 0; i < 3; i++) {
        gguf *g = NULL;
        int64_t file_type = 0;
        EXPECT_OK(gguf_write_model(w, NULL, path, asked[i], &err));
        EXPECT_OK(gguf_open(path, &g, &err));
        EXPECT(gguf_find_tensor(g, "blk.0.attn_q.weight")->type->type == (int)got[i]);
        EXPECT(gguf_find_tensor(g, "blk.0.attn_norm.weight")->type->type == GGUF_TYPE_F32);
        EXPECT_OK(gguf_get_int(g, "general.file_type", true, 0, 100, &file_type, &err));
        EXPECT(file_type == gguf_type_get((int)asked[i])->file_type);
        gguf_close(g);
    }
    model_weights_free(w);
    mem_free(dir);
}

/* Returns the root mean square error of writing and reading, relative to that of the numbers. */
static double searched_error(gguf_type type, const float *v, int64_t count) {
    uint8_t raw[8 * 256];
    float back[8 * 256];
    double off = 0, all = 0;
    gguf_encode_blocks(type, v, count, raw);
    gguf_decode_blocks(type, raw, count, back);
    for (int64_t i = 0; i < count; i++) {
        off += pow((double)v[i] - (double)back[i], 2);
        all += pow((double)v[i], 2);
    }
    return all > 0 ? sqrt(off / all) : off;
}

TEST(searched_blocks) {
    float v[8 * 256];
    rng r;
    rng_init(&r, 11);
    for (int i = 0; i < 8 * 256; i++) v[i] = (float)rng_normal(&r) * (i % 512 < 256 ? 0.02f : 3);
    double q4 = searched_error(GGUF_TYPE_Q4_K, v, 8 * 256), q6 = searched_error(GGUF_TYPE_Q6_K, v, 8 * 256),
           plain = searched_error(GGUF_TYPE_Q4_0, v, 8 * 256);
    EXPECT_MSG(q4 < 0.075 && q4 < 0.9 * plain, "Q4_K %g, Q4_0 %g", q4, plain);
    EXPECT_MSG(q6 < 0.02, "Q6_K %g", q6);
    for (int i = 0; i < 256; i++) v[i] = 0;
    EXPECT(searched_error(GGUF_TYPE_Q4_K, v, 256) == 0 && searched_error(GGUF_TYPE_Q6_K, v, 256) == 0);
    for (int i = 0; i < 256; i++) v[i] = -0.5f; /* a single value: exact except for fp16 and six bits */
    EXPECT(searched_error(GGUF_TYPE_Q4_K, v, 256) < 1e-3 && searched_error(GGUF_TYPE_Q6_K, v, 256) < 1e-2);
    for (int i = 0; i < 256; i++) v[i] = (float)(i % 16) / 8; /* sixteen steps from zero */
    EXPECT(searched_error(GGUF_TYPE_Q4_K, v, 256) < 1e-3);
}

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

/* `count` bits starting at bit `first` of a byte string */
static uint32_t bits(const uint8_t *p, int first, int count) {
    uint32_t v = 0;
    for (int i = 0; i < count; i++) v |= (uint32_t)(p[(first + i) / 8] >> ((first + i) % 8) & 1) << i;
    return v;
}

static double half(const uint8_t *p) { return (double)fp16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

static int whole(uint32_t v, int count) { /* two's complement of `count` bits */
    return (int)v - (v >> (count - 1) ? 1 << count : 0);
}

/* Returns element i of a block of 32, decoded bit by bit from the layouts' description. */
static double element_of_32(gguf_type type, const uint8_t *b, int i) {
    static const double finer[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int nibble = 8 * (i % 16) + 4 * (i / 16);
    switch (type) {
    case GGUF_TYPE_Q4_0: return half(b) * ((double)bits(b + 2, nibble, 4) - 8);
    case GGUF_TYPE_Q4_1: return half(b) * bits(b + 4, nibble, 4) + half(b + 2);
    case GGUF_TYPE_Q5_0: return half(b) * ((double)(bits(b + 6, nibble, 4) + 16 * bits(b + 2, i, 1)) - 16);
    case GGUF_TYPE_Q5_1: return half(b) * (bits(b + 8, nibble, 4) + 16 * bits(b + 4, i, 1)) + half(b + 2);
    case GGUF_TYPE_Q8_0: return half(b) * whole(b[2 + i], 8);
    case GGUF_TYPE_IQ4_NL: return half(b) * finer[bits(b + 2, nibble, 4)];
    default: break; /* MXFP4 */
    }
    uint32_t q = bits(b + 1, nibble, 4);
    return ldexp(q & 8 ? -e2m1[q & 7] : e2m1[q], b[0] - 127);
}

static double element_of_256(gguf_type type, const uint8_t *b, int i) {
    static const double finer[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const int j = i / 32, part = i / 128, k = i % 128 / 32, l = i % 32;
    if (type == GGUF_TYPE_Q8_K) {
        float d;
        memcpy(&d, b, sizeof d);
        return (double)d * whole(b[4 + i], 8);
    }
    if (type == GGUF_TYPE_Q2_K)
        return half(b + 80) * bits(b + i / 16, 0, 4) * bits(b + 16 + 32 * part + l, 2 * k, 2) -
               half(b + 82) * bits(b + i / 16, 4, 4);
    if (type == GGUF_TYPE_Q3_K) {
        int s = i / 16;
        uint32_t scale = bits(b + 96 + s % 8, 4 * (s / 8), 4) | bits(b + 104 + s % 4, 2 * (s / 4), 2) << 4;
        double q = (double)bits(b + 32 + 32 * part + l, 2 * k, 2) - (bits(b + l, j, 1) ? 0 : 4);
        return half(b + 108) * ((double)scale - 32) * q;
    }
    if (type == GGUF_TYPE_IQ4_XS) {
        uint32_t scale = bits(b + 4, 4 * j, 4) | bits(b + 2, 2 * j, 2) << 4;
        return half(b) * ((double)scale - 32) * finer[bits(b + 8 + 16 * j, 8 * (l % 16) + 4 * (l / 16), 4)];
    }
    if (type == GGUF_TYPE_Q6_K) {
        uint32_t low = bits(b + 64 * part + 32 * (k % 2) + l, 4 * (k / 2), 4),
                 high = bits(b + 128 + 32 * part + l, 2 * k, 2);
        return half(b + 208) * (int8_t)b[192 + i / 16] * ((double)(low | high << 4) - 32);
    }
    double scale = j < 4 ? bits(b + 4 + j, 0, 6) : bits(b + 8 + j, 0, 4) | bits(b + j, 6, 2) << 4;
    double min = j < 4 ? bits(b + 8 + j, 0, 6) : bits(b + 8 + j, 4, 4) | bits(b + 4 + j, 6, 2) << 4;
    bool five = type == GGUF_TYPE_Q5_K;
    uint32_t q = bits(b + (five ? 48 : 16) + 32 * (j / 2) + l, 4 * (j % 2), 4);
    if (five) q += 16 * bits(b + 16 + l, j, 1);
    return half(b) * scale * q - half(b + 2) * min;
}

/* A type's blocks: the offsets of its fp16 numbers (-1 for none), and the beginning of the SHA-256 of the floats that
 * gguf-py decodes from the 50 blocks below (tools/gguf_check.py prints it; NULL if it does not know the type). */
static const struct block_kind {
    gguf_type type;
    int scale, min;
    const char *hash;
} block_kinds[] = {
    {GGUF_TYPE_Q4_0, 0, -1, "11a4fc4500a7e842"},
    {GGUF_TYPE_Q4_1, 0, 2, "85893d15e4079517"},
    {GGUF_TYPE_Q5_0, 0, -1, "4ab3915d7f635fc5"},
    {GGUF_TYPE_Q5_1, 0, 2, "4e3a742c1ce16648"},
    {GGUF_TYPE_Q8_0, 0, -1, "0095fca730dafe15"},
    {GGUF_TYPE_Q2_K, 80, 82, "f8f9c3505b7b8648"},
    {GGUF_TYPE_Q3_K, 108, -1, "9b16677fc2cb2a4a"},
    {GGUF_TYPE_Q4_K, 0, 2, "349b6d859adfba7d"},
    {GGUF_TYPE_Q5_K, 0, 2, "2cef07b1bccd5b7e"},
    {GGUF_TYPE_Q6_K, 208, -1, "5f077f911a257147"},
    {GGUF_TYPE_Q8_K, 2, -1, NULL},
    {GGUF_TYPE_IQ4_NL, 0, -1, "ac48e4b6ff2ab058"},
    {GGUF_TYPE_IQ4_XS, 0, -1, "a5a6764af2103104"},
    {GGUF_TYPE_MXFP4, -1, -1, "0de5cddbfc17f982"},
};

static void put_half(uint8_t *b, int at, int bits_of) {
    if (at < 0) return;
    b[at] = (uint8_t)bits_of;
    b[at + 1] = (uint8_t)(bits_of >> 8);
}

/* Makes block n: bytes from a multiplication, and numbers of moderate size at the offsets. */
static void make_block(const struct block_kind *k, int n, uint8_t *b) {
    const int bytes = gguf_type_get((int)k->type)->bytes;
    for (int i = 0; i < bytes; i++) b[i] = (uint8_t)((uint32_t)(n * bytes + i) * UINT32_C(2654435761) >> 24);
    put_half(b, k->scale, (k->type == GGUF_TYPE_Q8_K ? 0x3c00 : 0x2000) + 37 * n); /* Q8_K: the upper half of an fp32 */
    put_half(b, k->min, 0x2800 + 11 * n);
    if (k->type == GGUF_TYPE_MXFP4) b[0] = (uint8_t)(n < 2 ? n : 100 + n);
}

TEST(blocks_are_taken_apart) {
    for (size_t k = 0; k < sizeof block_kinds / sizeof block_kinds[0]; k++) {
        const gguf_type_info *info = gguf_type_get((int)block_kinds[k].type);
        uint8_t block[300];
        float out[256];
        uint8_t digest[32];
        char hex[65];
        sha256 h;
        sha256_init(&h);
        for (int n = 0; n < 50; n++) {
            make_block(&block_kinds[k], n, block);
            gguf_decode_blocks(block_kinds[k].type, block, info->block, out);
            sha256_update(&h, out, (size_t)info->block * sizeof *out);
            for (int i = 0; i < info->block; i++) {
                double want = info->block == 32 ? element_of_32(block_kinds[k].type, block, i)
                                                : element_of_256(block_kinds[k].type, block, i);
                /* two roundings of fp32; observed at most 1.2e-7 of the largest term */
                EXPECT_MSG(fabs((double)out[i] - want) <= 4e-7 * fmax(fabs(want), 1), "%s element %d: %g, want %g",
                           info->name, i, (double)out[i], want);
            }
        }
        sha256_final(&h, digest);
        sha256_hex(digest, hex);
        if (block_kinds[k].hash)
            EXPECT_MSG(strncmp(hex, block_kinds[k].hash, 16) == 0, "%s: the SHA-256 is %s", info->name, hex);
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

/* The chat template goes into a GGUF file, out of it, into Propane's own file and into a folder. */
TEST(chat_templates_stay) {
    static const char jinja[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    propane_error err = {0};
    tokenizer *t = NULL, *back = NULL, *own = NULL, *folder = NULL;
    gguf_header h = {0};
    text file = {0};
    chat_template c;
    char *dir = test_temp_dir(), path[300];
    EXPECT_OK(tokenizer_read("tests/data/tokenizers/gpt2.json", &t, &err));
    const tokenizer_chat said = {.jinja = jinja, .bos = "!", .eos = "?"};
    EXPECT_OK(tokenizer_set_chat(t, &said, &err));
    EXPECT_OK(gguf_put_tokenizer(&h, t, tokenizer_vocab_size(t), &err));
    gguf_print_header(&h, &file);
    EXPECT_OK(tokenizer_parse(file.data, file.length, "file.gguf", &back, &err));
    EXPECT(strcmp(tokenizer_get_chat(back)->jinja, jinja) == 0 && strcmp(tokenizer_get_chat(back)->bos, "!") == 0);
    EXPECT(tokenizer_bos(back) == tokenizer_bos(t)); /* the name of a bos token alone does not prepend it */
    snprintf(path, sizeof path, "%s/own.json", dir);
    EXPECT_OK(tokenizer_write(back, NULL, path, &err));
    EXPECT_OK(tokenizer_read(path, &own, &err));
    EXPECT(strcmp(tokenizer_get_chat(own)->jinja, jinja) == 0 && strcmp(tokenizer_get_chat(own)->bos, "!") == 0);
    EXPECT(strcmp(hash_of(own), hash_of(back)) == 0);
    EXPECT_OK(tokenizer_export(own, dir, 64, &err));
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    EXPECT_OK(tokenizer_read(path, &folder, &err));
    EXPECT(strcmp(tokenizer_get_chat(folder)->jinja, jinja) == 0);
    EXPECT_OK(chat_template_find("nowhere.gguf", own, NULL, &c, &err));
    EXPECT(strcmp(chat_format_name(c.format), "chatml") == 0 && strcmp(c.bos, "!") == 0);
    chat_template_deinit(&c);
    text_deinit(&file);
    gguf_header_deinit(&h);
    tokenizer_free(t);
    tokenizer_free(back);
    tokenizer_free(own);
    tokenizer_free(folder);
    mem_free(dir);
}

TEST(vocabulary_as_gpt2) { check_vocabulary("tests/data/tokenizers/gpt2.json"); }
TEST(vocabulary_as_llama3) { check_vocabulary("tests/data/tokenizers/llama3.json"); }
TEST(vocabulary_as_qwen) { check_vocabulary("tests/data/tokenizers/qwen.json"); }
/* A vocabulary from a tokenizer.model is the same after a GGUF file, as its identity shows. */
static void check_unigram(const char *source) {
    propane_error err = {0};
    tokenizer *t = NULL, *back = NULL;
    for (int more = 0; more < 2; more++) {
        gguf_header h = {0};
        text file = {0};
        token_list a = {0}, b = {0};
        EXPECT_OK(tokenizer_read(source, &t, &err));
        EXPECT_OK(gguf_put_tokenizer(&h, t, tokenizer_vocab_size(t) + 5 * more, &err));
        gguf_print_header(&h, &file);
        EXPECT_OK(tokenizer_parse(file.data, file.length, "file.gguf", &back, &err));
        EXPECT((strcmp(hash_of(back), hash_of(t)) == 0) == !more);
        EXPECT(tokenizer_bos(back) == tokenizer_bos(t) && tokenizer_eos(back) == tokenizer_eos(t));
        EXPECT_OK(tokenizer_encode(t, sample, sizeof sample - 1, &a, &err));
        EXPECT_OK(tokenizer_encode(back, sample, sizeof sample - 1, &b, &err));
        EXPECT(a.count > 20 && a.count == b.count && memcmp(a.ids, b.ids, a.count * sizeof *a.ids) == 0);
        token_list_deinit(&a);
        token_list_deinit(&b);
        text_deinit(&file);
        gguf_header_deinit(&h);
        tokenizer_free(t);
        tokenizer_free(back);
    }
}

TEST(vocabulary_as_unigram) {
    check_unigram("tests/data/tokenizers/unigram.model");
    check_unigram("tests/data/tokenizers/unigram_bytes.model");
    propane_error err = {0};
    tokenizer *t = NULL;
    gguf_header h = {0};
    EXPECT_OK(tokenizer_read("tests/data/tokenizers/unigram.json", &t, &err));
    EXPECT_FAIL(gguf_put_tokenizer(&h, t, tokenizer_vocab_size(t), &err), PROPANE_ERR_UNSUPPORTED,
                "kind hf (Unigram, not from a tokenizer.model)");
    gguf_header_deinit(&h);
    tokenizer_free(t);
}

TEST(vocabulary_as_sentencepiece) { check_vocabulary("tests/data/tokenizers/sentencepiece.json"); }
TEST(vocabulary_of_llama2) {
    const char *path = test_data("llama2_tokenizer.bin");
    if (!path) SKIP("llama2.c's tokenizer is not here");
    check_vocabulary(path);
}

/* Writes a small vocabulary of SentencePiece pairs, with tokens of chat formats. */
static void put_marked(gguf_header *h, const char *arch, bool marks) {
    static const struct {
        const char *text;
        float score;
        int type;
    } pieces[] = {{"<unk>", -1000, 3},
                  {"<s>", -1000, 3},
                  {"</s>", -1000, 4},
                  {"<|end|>", -1000, 3},
                  {"<|user|>", -1000, 3},
                  {"\xe2\x96\x81", -3, 1},
                  {"a", -4, 1},
                  {"b", -5, 1},
                  {"\xe2\x96\x81"
                   "a",
                   -1, 1},
                  {"ab", -2, 1},
                  {"[PAD]", -10000, 2}};
    enum { PIECES = sizeof pieces / sizeof pieces[0], SIZE = PIECES + 256 };
    char name[8];
    gguf_put_text(h, "general.architecture", arch);
    gguf_put_text(h, "tokenizer.ggml.model", "llama");
    gguf_put_array(h, "tokenizer.ggml.tokens", GGUF_TEXT, SIZE);
    for (int i = 0; i < SIZE; i++) {
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)(i - PIECES) & 255);
        const char *word = i < PIECES ? pieces[i].text : name;
        gguf_put_item_text(h, word, strlen(word));
    }
    gguf_put_array(h, "tokenizer.ggml.scores", GGUF_F32, SIZE);
    for (int i = 0; i < SIZE; i++) gguf_put_item_f32(h, i < PIECES ? pieces[i].score : 0);
    gguf_put_array(h, "tokenizer.ggml.token_type", GGUF_I32, SIZE);
    for (int i = 0; i < SIZE; i++)
        gguf_put_item_i32(h, i >= PIECES ? 6 : !marks && i > 1 && i < 5 ? (i == 2 ? 3 : 1) : pieces[i].type);
    gguf_put_u32(h, "tokenizer.ggml.bos_token_id", 1);
    gguf_put_u32(h, "tokenizer.ggml.eos_token_id", 2);
    gguf_put_u32(h, "tokenizer.ggml.unknown_token_id", 0);
}

/* Chat tokens are recognised in text; Phi-3's also match the white space after them, as its tokenizer.json specifies.
 * Without such tokens a vocabulary keeps the kind llama. */
TEST(tokens_of_chats_in_a_llama_vocabulary) {
    static const struct {
        const char *arch;
        bool marks;
        size_t count;
        int32_t ids[16];
    } kinds[] = {{"phi3", true, 9, {4, 8, 7, 3, 4, 8, 7, 3, 2}}, /* <|user|>, "_a", b, <|end|>, ... */
                 {"llama", true, 15, {4, 5, 21, 9, 3, 5, 21, 4, 5, 8, 7, 3, 5, 21, 2}},
                 {"llama", false, 0, {0}}};
    static const char talk[] = "<|user|>\nab<|end|>\n<|user|> ab<|end|>\n</s>";
    propane_error err = {0};
    for (int i = 0; i < 3; i++) {
        gguf_header h = {0}, again = {0};
        text file = {0}, copy = {0};
        tokenizer *t = NULL, *twice = NULL;
        token_list a = {0}, b = {0};
        put_marked(&h, kinds[i].arch, kinds[i].marks);
        gguf_print_header(&h, &file);
        EXPECT_OK(tokenizer_parse(file.data, file.length, "file.gguf", &t, &err));
        EXPECT(tokenizer_get_kind(t) == (kinds[i].marks ? TOKENIZER_HF : TOKENIZER_LLAMA) && tokenizer_bos(t) == 1);
        gguf_put_text(&again, "general.architecture", kinds[i].arch);
        if (kinds[i].marks) {
            EXPECT_OK(tokenizer_encode(t, talk, sizeof talk - 1, &a, &err));
            EXPECT(a.count == kinds[i].count && memcmp(a.ids, kinds[i].ids, a.count * sizeof *a.ids) == 0);
            EXPECT_OK(gguf_put_tokenizer(&again, t, tokenizer_vocab_size(t), &err));
            gguf_print_header(&again, &copy);
            EXPECT_OK(tokenizer_parse(copy.data, copy.length, "copy.gguf", &twice, &err));
            EXPECT_OK(tokenizer_encode(twice, talk, sizeof talk - 1, &b, &err));
            EXPECT(b.count == kinds[i].count && memcmp(b.ids, kinds[i].ids, b.count * sizeof *b.ids) == 0);
        }
        token_list_deinit(&a);
        token_list_deinit(&b);
        text_deinit(&file);
        text_deinit(&copy);
        gguf_header_deinit(&h);
        gguf_header_deinit(&again);
        tokenizer_free(t);
        tokenizer_free(twice);
    }
}

TEST(characters_have_no_form) {
    propane_error err = {0};
    tokenizer *t = NULL;
    gguf_header h = {0};
    EXPECT_OK(tokenizer_create_chars("abc", 3, "abc", &t, &err));
    EXPECT_FAIL(gguf_put_tokenizer(&h, t, 3, &err), PROPANE_ERR_UNSUPPORTED, "kind chars");
    EXPECT_FAIL(gguf_put_tokenizer(&h, t, 2, &err), PROPANE_ERR_INVALID, "do not match");
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
        /* exactly as large as the file, so that a sanitizer sees any read beyond it */
        uint8_t *exact = mem_alloc(n ? n : 1);
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
                "tensors, more than fit in the file");
    mem_free(copy);
    text_deinit(&file);
    gguf_header h = {0};
    const int64_t dim[2] = {32, 2};
    gguf_put_u32(&h, "a", 1);
    gguf_put_u32(&h, "a", 1);
    gguf_print_header(&h, &file);
    EXPECT_FAIL(gguf_parse(file.data, file.length, "x", &g, &err), PROPANE_ERR_INVALID, "'a' occurs twice");
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
    gguf_put_tensor(&h, "t", 2, dim, GGUF_TYPE_IQ2_XXS);
    gguf_print_header(&h, &file);
    char zeros[96] = {0};
    text_append_n(&file, zeros, sizeof zeros);
    EXPECT_OK(gguf_parse(file.data, file.length, "x", &g, &err));
    EXPECT_FAIL(gguf_f32(g, gguf_tensor_at(g, 0), out, &err), PROPANE_ERR_UNSUPPORTED, "tensor t is IQ2_XXS");
    gguf_close(g);
    gguf_header_deinit(&h);
    text_deinit(&file);
}

SUITE("model/gguf", T(f32), T(f16), T(bf16), T(q8_0), T(q4_0), T(q4_1), T(q5_0), T(q5_1), T(rows_decide_the_type),
      T(searched_blocks), T(queries_lie_in_pairs), T(blocks_are_taken_apart), T(chat_templates_stay),
      T(vocabulary_as_gpt2), T(vocabulary_as_llama3), T(vocabulary_as_qwen), T(vocabulary_as_sentencepiece),
      T(vocabulary_as_unigram), T(vocabulary_of_llama2), T(characters_have_no_form),
      T(tokens_of_chats_in_a_llama_vocabulary), T(every_truncation_is_refused), T(every_damaged_byte_is_survived),
      T(lies_are_named), T(other_types_are_refused_by_name))
