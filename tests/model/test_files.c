/* SPDX-License-Identifier: MIT
 * safetensors files and llama2.c checkpoints: round trips, and a refusal with its place for each kind of damage.
 */
#include <math.h>

#include "core/base/checksum.h"
#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/files/safetensors.h"
#include "lm/files/llama2c.h"
#include "support/test.h"

static propane_error err;

/* ---- safetensors ------------------------------------------------------------------------------------------------------------- */

TEST(written_tensors_read_back) {
    char *dir = test_temp_dir(), path[300];
    snprintf(path, sizeof path, "%s/a.safetensors", dir);
    safetensors_writer *w;
    const float a[6] = {1, 2, 3, 4, 5, -6.5f};
    const uint16_t half[2] = {0x3c00, 0xc000};
    const int64_t step = -7;
    EXPECT_OK(safetensors_writer_open(path, &w, &err));
    EXPECT_OK(safetensors_writer_metadata(w, "format", "pt", &err));
    EXPECT_OK(safetensors_writer_metadata(w, "\"odd\"\n", "\xc3\xa9", &err));
    EXPECT_OK(safetensors_writer_declare(w, "a", ST_F32, 2, (const int64_t[]){2, 3}, &err));
    EXPECT_OK(safetensors_writer_declare(w, "half", ST_F16, 1, (const int64_t[]){2}, &err));
    EXPECT_OK(safetensors_writer_declare(w, "none", ST_BF16, 2, (const int64_t[]){0, 5}, &err));
    EXPECT_OK(safetensors_writer_declare(w, "step", ST_I64, 0, NULL, &err));
    EXPECT_FAIL(safetensors_writer_declare(w, "a", ST_F32, 0, NULL, &err), PROPANE_ERR_INVALID,
                "'a' is declared twice");
    EXPECT_OK(safetensors_writer_data(w, a, 10, &err));
    EXPECT_OK(safetensors_writer_data(w, (const char *)a + 10, sizeof a - 10, &err));
    EXPECT_OK(safetensors_writer_data(w, half, sizeof half, &err));
    EXPECT_FAIL(safetensors_writer_declare(w, "late", ST_F32, 0, NULL, &err), PROPANE_ERR_INVALID,
                "after the first data");
    EXPECT_FAIL(safetensors_writer_data(w, a, 9, &err), PROPANE_ERR_INVALID, "only 8 are left");
    EXPECT_OK(safetensors_writer_data(w, &step, 8, &err));
    EXPECT_OK(safetensors_writer_commit(w, &err));

    safetensors *s;
    EXPECT_OK(safetensors_open(path, &s, &err));
    EXPECT(safetensors_count(s) == 4);
    EXPECT_TEXT(safetensors_metadata(s, "format"), "pt");
    EXPECT_TEXT(safetensors_metadata(s, "\"odd\"\n"), "\xc3\xa9");
    EXPECT(safetensors_metadata(s, "nothing") == NULL && safetensors_find(s, "b") == NULL);
    const safetensors_tensor *t;
    EXPECT_OK(safetensors_expect(s, "a", ST_F32, 2, (const int64_t[]){2, 3}, &t, &err));
    float out[6];
    EXPECT_OK(safetensors_f32(s, t, out, &err));
    EXPECT(memcmp(out, a, sizeof a) == 0);
    EXPECT_OK(safetensors_f32(s, safetensors_find(s, "half"), out, &err));
    EXPECT(out[0] == 1 && out[1] == -2);
    EXPECT_FAIL(safetensors_f32(s, safetensors_find(s, "step"), out, &err), PROPANE_ERR_UNSUPPORTED, "'step' is I64");
    EXPECT(memcmp(safetensors_find(s, "step")->data, &step, 8) == 0);
    EXPECT_FAIL(safetensors_expect(s, "a", ST_F32, 2, (const int64_t[]){3, 2}, &t, &err), PROPANE_ERR_INVALID,
                "has the shape [2, 3]; it must be [3, 2]");
    EXPECT_FAIL(safetensors_expect(s, "a", ST_F16, -1, NULL, &t, &err), PROPANE_ERR_INVALID,
                "'a' is F32; it must be F16");
    EXPECT_FAIL(safetensors_expect(s, "b", ST_F16, -1, NULL, &t, &err), PROPANE_ERR_NOT_FOUND, "no tensor 'b'");
    safetensors_close(s);

    EXPECT_OK(safetensors_writer_open(path, &w, &err));
    EXPECT_OK(safetensors_writer_declare(w, "a", ST_F32, 1, (const int64_t[]){2}, &err));
    EXPECT_OK(safetensors_writer_data(w, a, 4, &err));
    EXPECT_FAIL(safetensors_writer_commit(w, &err), PROPANE_ERR_INVALID,
                "8 bytes of tensor data were declared, but 4 were given");
    EXPECT_OK(safetensors_writer_open(path, &w, &err));
    safetensors_writer_abort(w);
    EXPECT_OK(safetensors_open(path, &s, &err)); /* the old file still exists */
    EXPECT(safetensors_count(s) == 4);
    safetensors_close(s);
    mem_free(dir);
}

static propane_status parse(const char *header, size_t data_bytes, safetensors **out) {
    static unsigned char file[4000];
    size_t n = strlen(header);
    memset(file, 0, sizeof file);
    file[0] = (unsigned char)n;
    file[1] = (unsigned char)(n >> 8);
    memcpy(file + 8, header, n);
    return safetensors_parse(file, 8 + n + data_bytes, "f", out, &err);
}

TEST(wrong_headers_are_refused_with_their_place) {
    static const struct {
        const char *header;
        size_t data;
        const char *part;
    } cases[] = {
        {"[1]", 0, "offset 8: the header must begin with '{'"},
        {"{\"a\"", 0, "f: line 1, column"},
        {"{\"a\": 5}", 0, "tensor 'a': its header entry must be an object"},
        {"{\"a\": {\"dtype\": \"F31\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "unknown dtype 'F31'"},
        {"{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "unknown dtype ''"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": 1, \"data_offsets\": [0, 4]}}", 4, "'shape' must be a list"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,1], \"data_offsets\": [0, 4]}}", 4,
         "at most 8 sizes"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}", 4, "size 0 of 'shape'"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296, 4], \"data_offsets\": [0, 0]}}", 0,
         "size 1 of 'shape'"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0]}}", 4,
         "'data_offsets' must be two integers"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4.0]}}", 4,
         "'data_offsets' must be two integers"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [-4, 0]}}", 4,
         "data_offsets -4 to 0 are outside the data"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 0]}}", 4, "data_offsets 4 to 0"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}", 4,
         "which has 4 bytes; the file is truncated"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}", 4,
         "2 elements of F32 need 8 bytes, but it has 4"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}, "
         "\"b\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [2, 6]}}",
         6, "'b' begins at data offset 2, but overlaps"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}, "
         "\"b\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [5, 6]}}",
         6, "leaves a gap after the tensor before it, which ends at 4"},
        {"{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}}", 6,
         "2 bytes after the last tensor, at data offset 4"},
        {"{\"__metadata__\": 4}", 0, "'__metadata__' must be an object"},
        {"{\"__metadata__\": {\"k\": 4}}", 0, "the value of 'k' must be a string"},
        {"{\"a\": {}, \"a\": {}}", 0, "duplicate"},
    };
    safetensors *s;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_FAIL(parse(cases[i].header, cases[i].data, &s),
                    strstr(cases[i].part, "unknown dtype 'F31'") ? PROPANE_ERR_UNSUPPORTED : PROPANE_ERR_INVALID,
                    cases[i].part);
        EXPECT(s == NULL);
    }
    EXPECT_FAIL(safetensors_parse("1234567", 7, "f", &s, &err), PROPANE_ERR_INVALID, "7 bytes are too few");
    EXPECT_FAIL(safetensors_parse("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "f", &s, &err), PROPANE_ERR_INVALID,
                "not a safetensors file: its header would have");
    EXPECT_FAIL(safetensors_parse("\x64\0\0\0\0\0\0\0{}", 10, "f", &s, &err), PROPANE_ERR_INVALID, "truncated");
    EXPECT_OK(parse("{}   ", 0, &s));
    EXPECT(safetensors_count(s) == 0 && safetensors_find(s, "a") == NULL);
    safetensors_close(s);
    safetensors_close(NULL);
}

/* ---- llama2.c ------------------------------------------------------------------------------------------------------------------- */

static model_config shape(bool tied) {
    model_config c;
    model_config_default(&c);
    c.hidden_size = 24;
    c.intermediate_size = 20;
    c.num_hidden_layers = 2;
    c.num_attention_heads = 4;
    c.num_key_value_heads = 2;
    c.head_dim = 6;
    c.vocab_size = 11;
    c.max_position_embeddings = 9;
    c.tie_word_embeddings = tied;
    c.bos_token_id = 1;
    c.eos_token_id = 2;
    return c;
}

/* Writes a file of 4 tensors, one of them empty, in pieces that do not match the tensors. */
static void write_four(const char *path) {
    safetensors_writer *w;
    uint8_t data[90];
    for (int i = 0; i < 90; i++) data[i] = (uint8_t)(i * 7);
    EXPECT_OK(safetensors_writer_open(path, &w, &err));
    EXPECT_OK(safetensors_writer_declare(w, "first", ST_U8, 1, (const int64_t[]){40}, &err));
    EXPECT_OK(safetensors_writer_declare(w, "none", ST_F32, 1, (const int64_t[]){0}, &err));
    EXPECT_OK(safetensors_writer_declare(w, "second", ST_U8, 1, (const int64_t[]){33}, &err));
    EXPECT_OK(safetensors_writer_declare(w, "third", ST_U8, 1, (const int64_t[]){17}, &err));
    for (int at = 0; at < 90; at += 30) EXPECT_OK(safetensors_writer_data(w, data + at, 30, &err));
    EXPECT_OK(safetensors_writer_commit(w, &err));
}

static propane_status verify_bytes(const char *bytes, size_t length) {
    safetensors *s = NULL;
    propane_status status = safetensors_parse(bytes, length, "some.safetensors", &s, &err);
    if (status == PROPANE_OK) status = safetensors_verify(s, &err);
    safetensors_close(s);
    return status;
}

TEST(each_bit_of_a_written_file_is_seen_and_its_tensor_named) {
    char *dir = test_temp_dir(), path[300], *bytes = NULL;
    size_t length = 0;
    snprintf(path, sizeof path, "%s/a.safetensors", dir);
    write_four(path);
    EXPECT_OK(file_read(path, 1 << 20, &bytes, &length, &err));
    EXPECT_OK(verify_bytes(bytes, length));
    int unseen = 0, misnamed = 0;
    for (size_t i = 0; i < length; i++)
        for (int bit = 0; bit < 8; bit++) {
            const size_t at = i - (length - 90);
            const char *name = at < 40 ? "'first'" : at < 73 ? "'second'" : "'third'";
            bytes[i] ^= (char)(1 << bit);
            const bool seen = verify_bytes(bytes, length) != PROPANE_OK;
            bytes[i] ^= (char)(1 << bit);
            if (i < length - 90)
                unseen += !seen;
            else
                misnamed += !seen || !strstr(err.text, name) || !strstr(err.text, "some.safetensors");
        }
    /* Only changes to the keys "checksums" or "__metadata__" remove the sums, and they leave the data unchanged. */
    EXPECT(unseen <= 8 * (int)(strlen("checksums") + strlen("__metadata__")));
    EXPECT(misnamed == 0);
    mem_free(bytes);
    mem_free(dir);
}

TEST(the_checksum_of_older_files_is_compared) {
    char header[200], file[300], digits[17];
    snprintf(header, sizeof header, "%-120s",
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"__metadata__\":{\"checksum\":\""
             "0000000000000000\"}}");
    memcpy(file, "\x78\0\0\0\0\0\0\0", 8);
    memcpy(file + 8, header, 120);
    memcpy(file + 128, "abc", 3);
    checksum sum;
    checksum_init(&sum);
    checksum_update(&sum, file, 131);
    checksum_final(&sum, digits);
    memcpy(strstr(file + 8, "00000000"), digits, 16);
    EXPECT_OK(verify_bytes(file, 131));
    file[130] ^= 1;
    EXPECT_FAIL(verify_bytes(file, 131), PROPANE_ERR_INVALID, "its checksum is");
}

TEST(llama2c_files_read_back_and_have_the_documented_layout) {
    char *dir = test_temp_dir(), path[300], *data;
    size_t length;
    snprintf(path, sizeof path, "%s/m.bin", dir);
    for (int tied = 0; tied < 2; tied++) {
        model_config c = shape(tied);
        model_weights *w, *again;
        EXPECT_OK(model_weights_create(&c, &w, &err));
        model_weights_init(w, 5, 0.5);
        EXPECT_OK(llama2c_write(w, path, &err));
        EXPECT_OK(llama2c_read(path, &again, &err));
        EXPECT(model_config_equal(&c, &again->config));
        EXPECT(memcmp(w->data, again->data, (size_t)w->floats * sizeof(float)) == 0);
        EXPECT_OK(file_read(path, 1 << 20, &data, &length, &err));
        int32_t header[7];
        memcpy(header, data, 28);
        EXPECT(header[0] == 24 && header[5] == (tied ? 11 : -11) && header[6] == 9);
        const float *f = (const float *)(void *)data + 7;
        EXPECT(memcmp(f, w->data, 11 * 24 * sizeof(float)) == 0);
        /* layer 1's query rows follow the embedding, both norm weights and layer 0's queries; row 2i+1 of head 3 is our
         * row i + 3 */
        const float *q = f + 11 * 24 + 2 * 24 + 24 * 24;
        const model_tensor *t = model_weights_find(w, "model.layers.1.self_attn.q_proj.weight");
        for (int i = 0; i < 3; i++)
            for (int half = 0; half < 2; half++)
                EXPECT(memcmp(q + (3 * 6 + 2 * i + half) * 24, w->data + t->offset + (3 * 6 + i + 3 * half) * 24,
                              24 * sizeof(float)) == 0);
        EXPECT_OK(file_write(path, data, length, &err));
        for (size_t cut = 0; cut < length; cut += 97) {
            model_weights *none;
            EXPECT(llama2c_parse(data, cut, "cut", &none, &err) == PROPANE_ERR_INVALID && none == NULL);
        }
        mem_free(data);
        model_weights_free(w);
        model_weights_free(again);
    }
    mem_free(dir);
}

TEST(wrong_llama2c_files_are_refused) {
    int32_t h[7] = {24, 20, 2, 4, 2, 11, 9};
    model_weights *w;
    EXPECT_FAIL(llama2c_parse(h, 20, "f", &w, &err), PROPANE_ERR_INVALID, "20 bytes are too few");
    EXPECT_FAIL(llama2c_parse(h, 28, "f", &w, &err), PROPANE_ERR_INVALID, "it is truncated");
    h[3] = 5;
    EXPECT_FAIL(llama2c_parse(h, 28, "f", &w, &err), PROPANE_ERR_INVALID, "dim (24) must be a multiple of n_heads (5)");
    h[3] = 0;
    EXPECT_FAIL(llama2c_parse(h, 28, "f", &w, &err), PROPANE_ERR_INVALID, "offset 12: n_heads is 0");
    h[3] = 4, h[5] = INT32_MIN;
    EXPECT_FAIL(llama2c_parse(h, 28, "f", &w, &err), PROPANE_ERR_INVALID, "offset 20: vocab_size");
    h[5] = 11, h[2] = 2000000000;
    EXPECT_FAIL(llama2c_parse(h, 28, "f", &w, &err), PROPANE_ERR_INVALID, "'num_hidden_layers' is 2000000000");
    h[0] = 0x616b3432;
    EXPECT_FAIL(llama2c_parse(h, 28, "f", &w, &err), PROPANE_ERR_UNSUPPORTED, "version 1 or later");
    model_config c = shape(true);
    c.head_dim = 8;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    EXPECT_FAIL(llama2c_write(w, "/nonexistent/x", &err), PROPANE_ERR_UNSUPPORTED, "head_dim 8");
    w->config.head_dim = 6;
    w->config.rope_theta = 5e5;
    EXPECT_FAIL(llama2c_write(w, "/nonexistent/x", &err), PROPANE_ERR_UNSUPPORTED, "rope_theta 500000");
    w->config.rope_theta = 10000;
    EXPECT_FAIL(llama2c_write(w, "/nonexistent/x", &err), PROPANE_ERR_NOT_FOUND, "/nonexistent/x");
    model_weights_free(w);
}

TEST(the_pytorch_reference_is_whole) {
    const char *path = "tests/data/llama_gqa/reference.safetensors";
    if (!file_exists(path)) SKIP("%s is not here; run the tests from the repository's folder", path);
    safetensors *s;
    model_config c;
    model_weights *w;
    EXPECT_OK(model_config_read("tests/data/llama_gqa/config.json", &c, &err));
    EXPECT_OK(model_weights_create(&c, &w, &err));
    EXPECT_OK(safetensors_open(path, &s, &err));
    for (int i = 0; i < w->count; i++) {
        const safetensors_tensor *t;
        char name[200];
        snprintf(name, sizeof name, "grads.%s", w->tensors[i].name);
        EXPECT_OK(safetensors_expect(s, name, ST_F32, w->tensors[i].rank, w->tensors[i].dim, &t, &err));
    }
    EXPECT_TEXT(safetensors_metadata(s, "beta2"), "0.95");
    safetensors_close(s);
    model_weights_free(w);
}

SUITE("model/files", T(written_tensors_read_back), T(wrong_headers_are_refused_with_their_place),
      T(each_bit_of_a_written_file_is_seen_and_its_tensor_named), T(the_checksum_of_older_files_is_compared),
      T(llama2c_files_read_back_and_have_the_documented_layout), T(wrong_llama2c_files_are_refused),
      T(the_pytorch_reference_is_whole))
