/* SPDX-License-Identifier: MIT
 * tokenizer.json: ids and texts of tests/data/tokenizers, made by Hugging Face's `tokenizers`
 * (tools/tokenizer_reference.py), Propane's own kinds written in that form and read back, and refusals.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"
#include "support/failing.h"
#include "support/hash_of.h"
#include "support/test.h"

static void check_case(const tokenizer *t, const json_t *entry) {
    propane_error err = {0};
    const json_t *input = json_array_get(entry, 0), *want = json_array_get(entry, 1),
                 *decoded = json_array_get(entry, 2);
    token_list list = {0};
    text bytes = {0};
    EXPECT_OK(tokenizer_encode(t, json_string_value(input), json_string_length(input), &list, &err));
    EXPECT_MSG(list.count == json_array_size(want), "'%s': %zu ids, want %zu", json_string_value(input), list.count,
               json_array_size(want));
    for (size_t i = 0; i < list.count; i++)
        EXPECT_MSG(list.ids[i] == json_integer_value(json_array_get(want, i)), "'%s': id %zu is %d, want %lld",
                   json_string_value(input), i, list.ids[i], (long long)json_integer_value(json_array_get(want, i)));
    tokenizer_stream stream = {0};
    for (size_t i = 0; i < list.count; i++) tokenizer_decode(t, &stream, list.ids[i], &bytes);
    tokenizer_decode_end(&stream, &bytes);
    EXPECT_MSG(bytes.length == json_string_length(decoded) &&
                   (!bytes.length || memcmp(bytes.data, json_string_value(decoded), bytes.length) == 0),
               "'%s' decodes as '%s', want '%s'", json_string_value(input), bytes.length ? bytes.data : "",
               json_string_value(decoded));
    text_deinit(&bytes);
    token_list_deinit(&list);
}

static void check_file(const char *file, const char *cases_name) {
    propane_error err = {0};
    char path[200];
    tokenizer *t = NULL, *again = NULL;
    json_t *cases = NULL;
    snprintf(path, sizeof path, "tests/data/tokenizers/%s", file);
    EXPECT_OK(tokenizer_read(path, &t, &err));
    EXPECT(tokenizer_get_kind(t) == TOKENIZER_HF);
    snprintf(path, sizeof path, "tests/data/tokenizers/%s.cases.json", cases_name);
    EXPECT_OK(json_read(path, 1 << 20, &cases, &err));
    EXPECT(tokenizer_bos(t) == json_integer_value(json_object_get(cases, "bos")));
    const json_t *list = json_object_get(cases, "cases");
    EXPECT(json_array_size(list) > 40);
    for (size_t i = 0; i < json_array_size(list); i++) check_case(t, json_array_get(list, i));
    text printed = {0}; /* a run's folder holds the same tokenizer */
    tokenizer_print(t, &printed);
    EXPECT_OK(tokenizer_parse(printed.data, printed.length, "again", &again, &err));
    EXPECT_TEXT(hash_of(again), hash_of(t));
    EXPECT(tokenizer_eos(again) == tokenizer_eos(t));
    tokenizer_free(again);
    text_clear(&printed);
    EXPECT_OK(tokenizer_print_hf(t, &printed, &err));
    EXPECT_OK(tokenizer_parse(printed.data, printed.length, "exported", &again, &err));
    EXPECT_TEXT(hash_of(again), hash_of(t));
    text_deinit(&printed);
    json_decref(cases);
    tokenizer_free(again);
    tokenizer_free(t);
}

static void check_reference(const char *name) {
    char file[100];
    snprintf(file, sizeof file, "%s.json", name);
    check_file(file, name);
}

TEST(as_gpt2) { check_reference("gpt2"); }
TEST(as_llama3) { check_reference("llama3"); }
TEST(as_qwen) { check_reference("qwen"); }
TEST(as_sentencepiece) { check_reference("sentencepiece"); }

/* tools/unigram_reference.py: with normalisation rules, user-defined pieces, unknown characters as one token or as
 * bytes. */
TEST(as_unigram) {
    check_reference("unigram");
    check_reference("unigram_bytes");
}

/* The same vocabularies as SentencePiece itself reads them. */
TEST(as_unigram_model) {
    check_file("unigram.model", "unigram_model");
    check_file("unigram_bytes.model", "unigram_bytes_model");
}

/* ---- Propane's kinds in that form ------------------------------------------------------------------------------------ */

static const char sample[] = "The cat sat on the mat; the cat's hat isn't flat.\n\tnaïve café 你好 12345  the end\r\n";

static void check_export(tokenizer *t, const char *data, size_t length) {
    propane_error err = {0};
    text printed = {0};
    tokenizer *hf = NULL;
    token_list a = {0}, b = {0};
    EXPECT_OK(tokenizer_print_hf(t, &printed, &err));
    EXPECT_OK(tokenizer_parse(printed.data, printed.length, "exported", &hf, &err));
    EXPECT(tokenizer_vocab_size(hf) == tokenizer_vocab_size(t));
    EXPECT(tokenizer_bos(hf) == tokenizer_bos(t) && tokenizer_eos(hf) == tokenizer_eos(t));
    EXPECT_OK(tokenizer_encode(t, data, length, &a, &err));
    EXPECT_OK(tokenizer_encode(hf, data, length, &b, &err));
    EXPECT(a.count == b.count);
    EXPECT(memcmp(a.ids, b.ids, a.count * sizeof *a.ids) == 0);
    text_clear(&printed);
    tokenizer_decode_bytes(hf, b.ids, b.count, &printed);
    EXPECT(printed.length == length && memcmp(printed.data, data, length) == 0);
    text_deinit(&printed);
    token_list_deinit(&a);
    token_list_deinit(&b);
    tokenizer_free(hf);
    tokenizer_free(t);
}

TEST(bytes_chars_and_bpe_are_exported) {
    propane_error err = {0};
    tokenizer *t = NULL;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    check_export(t, sample, sizeof sample - 1);
    EXPECT_OK(tokenizer_create_chars(sample, sizeof sample - 1, "sample", &t, &err));
    check_export(t, sample, sizeof sample - 1);
    EXPECT_OK(tokenizer_train_bpe(sample, sizeof sample - 1, 290, &t, &err));
    check_export(t, sample, sizeof sample - 1);
}

TEST(llama2_vocabulary_is_exported) {
    propane_error err = {0};
    tokenizer *t = NULL;
    const char *path = test_data("llama2_tokenizer.bin");
    if (!path) SKIP("llama2.c's tokenizer.bin is not here");
    EXPECT_OK(tokenizer_read(path, &t, &err));
    check_export(t, sample, sizeof sample - 1);
}

TEST(what_the_form_cannot_say_is_refused) {
    propane_error err = {0};
    tokenizer *t = NULL;
    text printed = {0};
    EXPECT_OK(tokenizer_create_chars("a\xff", 2, "broken", &t, &err));
    EXPECT_FAIL(tokenizer_print_hf(t, &printed, &err), PROPANE_ERR_UNSUPPORTED, "not UTF-8");
    tokenizer_free(t);
    static const char twice[] = "{\"format\":\"propane-tokenizer\",\"version\":1,\"kind\":\"bpe\",\"merges\":[[97,97],["
                                "97,256],[256,97]],\"sha256\":\"x\"}";
    EXPECT_FAIL(tokenizer_parse(twice, sizeof twice - 1, "twice", &t, &err), PROPANE_ERR_INVALID, "SHA-256");
    char file[400], *hash = strstr(err.text, "SHA-256 ") + 8;
    snprintf(file, sizeof file,
             "{\"format\":\"propane-tokenizer\",\"version\":1,\"kind\":\"bpe\",\"merges\":[[97,97],[97,256],[256,97]],"
             "\"sha256\":\"%.64s\"}",
             hash);
    EXPECT_OK(tokenizer_parse(file, strlen(file), "twice", &t, &err));
    EXPECT_FAIL(tokenizer_print_hf(t, &printed, &err), PROPANE_ERR_UNSUPPORTED, "ids 257 and 258 are both 'aaa'");
    tokenizer_free(t);
    text_deinit(&printed);
}

/* ---- small files --------------------------------------------------------------------------------------------------------- */

#define FILE_OF(added, normalizer, pre, post, decoder, model)                                                          \
    "{\"added_tokens\":[" added "],\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre ",\"post_processor\":" post   \
    ",\"decoder\":" decoder ",\"model\":{" model "}}"
#define SMALL   "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"
#define UNKNOWN "\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3},\"merges\":[\"a b\"]"
#define FUSE    "{\"type\":\"Fuse\"}"

static void expect_refused(const char *file, propane_status status, const char *part) {
    propane_error err = {0};
    tokenizer *t = NULL;
    EXPECT_FAIL(tokenizer_parse(file, strlen(file), "x.json", &t, &err), status, part);
    EXPECT(!t);
}

TEST(unknown_parts_are_refused_by_name) {
    const propane_status no = PROPANE_ERR_UNSUPPORTED, bad = PROPANE_ERR_INVALID;
    expect_refused(FILE_OF("", "{\"type\":\"ByteLevel\"}", "null", "null", FUSE, SMALL), no, "normalizer 'ByteLevel'");
    expect_refused(FILE_OF("", "null", "{\"type\":\"BertPreTokenizer\"}", "null", FUSE, SMALL), no,
                   "pre_tokenizer 'BertPreTokenizer'");
    expect_refused(FILE_OF("", "null", "null", "{\"type\":\"BertProcessing\"}", FUSE, SMALL), no,
                   "post_processor 'BertProcessing'");
    expect_refused(FILE_OF("", "null", "null", "null", "{\"type\":\"WordPiece\"}", SMALL), no, "decoder 'WordPiece'");
    expect_refused(FILE_OF("", "null", "null", "null", "null", SMALL), no, "'decoder' must be ByteLevel");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"type\":\"WordPiece\",\"vocab\":{}"), no,
                   "model 'WordPiece'");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"end_of_word_suffix\":\"</w>\"," SMALL), no,
                   "end_of_word_suffix '</w>'");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"dropout\":0.1," SMALL), no, "dropout");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), bad,
                   "the id 0 twice");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"vocab\":{\"a\":0,\"b\":9000000},\"merges\":[]"), bad,
                   "id of 'b'");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"vocab\":{},\"merges\":[]"), bad, "empty");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]"), bad,
                   "needs 'ab'");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"vocab\":{\"a\":0},\"merges\":[\"a\"]"), bad, "merge 0");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]"), bad,
                   "merge 0");
    expect_refused(FILE_OF("", "null", "null", "null", FUSE, "\"unk_token\":\"?\"," SMALL), bad, "unk_token '?'");
    expect_refused(FILE_OF("", "null", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}",
                           "null", FUSE, SMALL),
                   bad, "the pattern '('");
    expect_refused(FILE_OF("", "null",
                           "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\h\"},\"behavior\":\"Isolated\"}", "null",
                           FUSE, SMALL),
                   no, "\\h");
    expect_refused(FILE_OF("", "null",
                           "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}", "null",
                           FUSE, SMALL),
                   no, "&&");
    expect_refused(FILE_OF("", "null", "{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}",
                           "null", FUSE, SMALL),
                   bad, "empty");
    expect_refused(FILE_OF("", "null", "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}",
                           "null", FUSE, SMALL),
                   no, "behavior 'Odd'");
}

static void expect_ids(const char *file, const char *input, size_t length, const char *want) {
    propane_error err = {0};
    tokenizer *t = NULL;
    token_list list = {0};
    text got = {0};
    EXPECT_OK(tokenizer_parse(file, strlen(file), "x.json", &t, &err));
    EXPECT_OK(tokenizer_encode(t, input, length, &list, &err));
    for (size_t i = 0; i < list.count; i++) text_printf(&got, "%s%d", i ? " " : "", list.ids[i]);
    EXPECT_TEXT(got.length ? got.data : "", want);
    text_deinit(&got);
    token_list_deinit(&list);
    tokenizer_free(t);
}

#define ADDED(content, flags) "{\"id\":5,\"content\":\"" content "\"" flags "}"

TEST(added_tokens_obey_their_flags) {
    const char *plain = FILE_OF(ADDED("<x>", ",\"special\":true"), "null", "null", "null", FUSE, SMALL);
    expect_ids(plain, "ab<x>a <x", 9, "2 5 0");
    expect_ids(FILE_OF(ADDED("<x>", ",\"lstrip\":true,\"normalized\":false"), "null", "null", "null", FUSE, UNKNOWN),
               "a  <x> a", 8, "0 5 3 0");
    expect_ids(FILE_OF(ADDED("<x>", ",\"rstrip\":true,\"normalized\":false"), "null", "null", "null", FUSE, UNKNOWN),
               "a <x>  a", 8, "0 3 5 0");
    expect_ids(FILE_OF(ADDED("x", ",\"single_word\":true,\"normalized\":false"), "null", "null", "null", FUSE, SMALL),
               "axa x a", 7, "0 0 5 0");
    expect_ids(FILE_OF(ADDED("X", ",\"normalized\":true"), "{\"type\":\"Lowercase\"}", "null", "null", FUSE, SMALL),
               "AxBXa", 5, "0 5 1 5 0");
}

TEST(unknown_characters_are_fused_or_left_out) {
    expect_ids(FILE_OF("", "null", "null", "null", FUSE, SMALL), "a??b", 4, "2");
    expect_ids(FILE_OF("", "null", "null", "null", FUSE, UNKNOWN), "a!!a", 4, "0 3 3 0");
    expect_ids(FILE_OF("", "null", "null", "null", FUSE, "\"fuse_unk\":true," UNKNOWN), "a!!a", 4, "0 3 0");
    expect_ids(FILE_OF("", "null", "null", "null", FUSE, "\"vocab\":{\"\\ufffd\":0,\"a\":1},\"merges\":[]"),
               "a\xe4\xbd"
               "a\xff\xf0\x9f\x98",
               7, "1 0 1 0 0");
}

static const char split_rows[][3][32] = {
    /* behaviour, invert, ids of "ab-ab--ab" with '-' = 3, "--" = 4, "-ab" = 5 ... */
    {"Removed", "false", "2 2 2"},
    {"Isolated", "false", "2 3 2 3 3 2"},
    {"Contiguous", "false", "2 3 2 4 2"},
    {"MergedWithNext", "false", "2 5 3 5"},
    {"MergedWithPrevious", "false", "6 6 3 2"},
    {"Removed", "true", "3 3 3"},
};

TEST(every_behaviour_of_splits) {
    for (size_t i = 0; i < sizeof split_rows / sizeof split_rows[0]; i++) {
        char file[900];
        snprintf(file, sizeof file,
                 FILE_OF("", "null",
                         "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"%s\",\"invert\":%s}",
                         "null", FUSE,
                         "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"-\":3,\"--\":4,\"-ab\":5,\"ab-\":6},\"merges\":[\"a "
                         "b\",\"- -\",\"- ab\",\"ab -\"]"),
                 split_rows[i][0], split_rows[i][1]);
        expect_ids(file, "ab-ab--ab", 9, split_rows[i][2]);
    }
}

TEST(long_words_are_not_quadratic) {
    size_t length = 4 << 20;
    char *data = mem_alloc(length);
    propane_error err = {0};
    tokenizer *t = NULL;
    token_list list = {0};
    const char *file = FILE_OF("", "null", "null", "null", FUSE, SMALL);
    EXPECT(data);
    for (size_t i = 0; i < length; i++) data[i] = i % 2 ? 'b' : 'a';
    EXPECT_OK(tokenizer_parse(file, strlen(file), "x.json", &t, &err));
    EXPECT_OK(tokenizer_encode(t, data, length, &list, &err));
    EXPECT(list.count == length / 2 && list.ids[0] == 2 && list.ids[list.count - 1] == 2);
    token_list_deinit(&list);
    tokenizer_free(t);
    mem_free(data);
}

static propane_status read_and_encode(void *context, text *result, propane_error *err) {
    const text *data = context;
    tokenizer *t = NULL;
    token_list list = {0};
    PROPANE_TRY(tokenizer_parse(data->data, data->length, "qwen", &t, err));
    propane_status status = tokenizer_encode(t, sample, sizeof sample - 1, &list, err);
    for (size_t i = 0; !status && i < list.count; i++) text_printf(result, "%d ", (int)list.ids[i]);
    if (!status && result->failed) status = propane_fail_memory(err, 0);
    tokenizer_free(t);
    token_list_deinit(&list);
    return status;
}

TEST(memory_that_runs_out_is_an_error) {
    static const char *const names[] = {"qwen.json", "unigram_bytes.json", "unigram.model"};
    for (int i = 0; i < 3; i++) {
        propane_error err = {0};
        text data = {0};
        char path[100];
        snprintf(path, sizeof path, "tests/data/tokenizers/%s", names[i]);
        EXPECT_OK(file_read(path, 1 << 20, &data.data, &data.length, &err));
        EXPECT(test_each_failing_allocation(names[i], read_and_encode, &data) > 10);
        mem_free(data.data);
    }
}

/* A pattern sees a newer character as an older one of its category and length. */
TEST(newer_characters_look_like_old_ones) {
    static const struct {
        int32_t first, last;
        int category;
    } rows[] = {
#define UNICODE_NEW(first, last, name) {first, last, UTF8PROC_CATEGORY_##name},
#define UNICODE_LOWER(first, last, distance)
#include "lm/text/unicode_new.def"
#undef UNICODE_NEW
#undef UNICODE_LOWER
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int end = 0; end < 2; end++) {
            char bytes[4];
            text seen = {0};
            int32_t code = end ? rows[i].last : rows[i].first;
            size_t n = hf_utf8_put(code, bytes), got = 0;
            EXPECT(i == 0 || rows[i].first > rows[i - 1].last);
            EXPECT_MSG(hf_show_old(bytes, n, &seen) && seen.length == n, "U+%X", (unsigned)code);
            int32_t old = hf_code_at(seen.data, seen.length, &got);
            int want = rows[i].category == UTF8PROC_CATEGORY_PD && n == 4 ? UTF8PROC_CATEGORY_PO : rows[i].category;
            EXPECT_MSG(got == n && (int)utf8proc_category(old) == want, "U+%X is shown as U+%X", (unsigned)code,
                       (unsigned)old);
            EXPECT(hf_category(code) == rows[i].category && !hf_show_old(seen.data, n, &seen));
            text_deinit(&seen);
        }
    text out = {0};
    EXPECT(hf_show_old("I \U0001FA77 you", 10, &out) && out.length == 10);
    EXPECT(memcmp(out.data, "I \U0001F600 you", 10) == 0);
    text_deinit(&out);
}

/* As in tokenizers 0.22, and two that the system's library knows. */
TEST(new_capitals_have_small_letters) {
    static const int32_t pairs[][2] = {{0x1c89, 0x1c8a},   {0xa7cb, 0x264},    {0xa7dc, 0x19b},
                                       {0x10d50, 0x10d70}, {0x10d65, 0x10d85}, {0x16eb8, 0x16ed3},
                                       {'A', 'a'},         {0x1c8a, 0x1c8a},   {0x10d66, 0x10d66}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        EXPECT_MSG(hf_lower(pairs[i][0]) == pairs[i][1], "%x: %x", (unsigned)pairs[i][0],
                   (unsigned)hf_lower(pairs[i][0]));
}

SUITE("model/hf_tokenizer", T(newer_characters_look_like_old_ones), T(as_gpt2), T(as_llama3), T(as_qwen),
      T(as_sentencepiece), T(as_unigram), T(as_unigram_model), T(bytes_chars_and_bpe_are_exported),
      T(llama2_vocabulary_is_exported), T(what_the_form_cannot_say_is_refused), T(unknown_parts_are_refused_by_name),
      T(added_tokens_obey_their_flags), T(unknown_characters_are_fused_or_left_out), T(every_behaviour_of_splits),
      T(long_words_are_not_quadratic), T(memory_that_runs_out_is_an_error), T(new_capitals_have_small_letters))
