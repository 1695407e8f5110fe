/* SPDX-License-Identifier: MIT
 * Tokenizers and token files: encoded text decodes to itself, trained merges equal those of a slow trainer that
 * recounts everything for each merge, files read back to the same tokenizer, and damage is refused.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/text/tokenizer.h"
#include "lm/text/tokenizer_internal.h"
#include "lm/text/tokens.h"
#include "support/failing.h"
#include "support/hash_of.h"
#include "support/test.h"

static propane_error err;

static const char sample[] =
    "The cat's hat sat on that mat; they'll see the 42 cats\n\n  and the other 1234 hats... d\xc3\xa9j\xc3\xa0 vu, "
    "na\xc3\xafve! "
    "\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80\xf0\x9f\x98\x80 the the the cat cat hat  \t x\xff\xfe\x80y end \n";

static token_list encode(const tokenizer *t, const char *data, size_t length) {
    token_list list = {0};
    EXPECT_OK(tokenizer_encode(t, data, length, &list, &err));
    for (size_t i = 0; i < list.count; i++) EXPECT(list.ids[i] >= 0 && list.ids[i] < tokenizer_vocab_size(t));
    return list;
}

static void round_trip(const tokenizer *t, const char *data, size_t length) {
    token_list list = encode(t, data, length);
    text out = {0};
    tokenizer_decode_bytes(t, list.ids, list.count, &out);
    EXPECT_MSG(out.length == length && (length == 0 || memcmp(out.data, data, length) == 0),
               "%zu bytes became %zu: '%s'", length, out.length, out.data ? out.data : "");
    text_deinit(&out);
    token_list_deinit(&list);
}

static void round_trip_many(const tokenizer *t) {
    rng r;
    rng_init(&r, 5);
    round_trip(t, sample, sizeof sample - 1);
    round_trip(t, "", 0);
    char noise[700];
    for (int i = 0; i < 300; i++) {
        size_t n = (size_t)rng_below(&r, sizeof noise);
        for (size_t k = 0; k < n; k++) noise[k] = (char)(rng_below(&r, i % 3 ? 256 : 4) + (i % 3 == 0 ? 'a' : 0));
        round_trip(t, noise, n);
    }
}

/* ---- splitting ------------------------------------------------------------------------------------------------------------ */

static void expect_words(const char *data, size_t length, const char *const *words, int count) {
    splitter s;
    const char *word;
    size_t n;
    int i = 0;
    splitter_init(&s, data, length);
    for (; splitter_next(&s, &word, &n); i++)
        EXPECT_MSG(i < count && n == strlen(words[i]) && memcmp(word, words[i], n) == 0, "word %d is '%.*s', want '%s'",
                   i, (int)n, word, i < count ? words[i] : "none");
    EXPECT_MSG(i == count, "%d words, want %d", i, count);
}
#define WORDS(input, ...)                                                                                              \
    do {                                                                                                               \
        const char *const want[] = {__VA_ARGS__};                                                                      \
        expect_words(input, sizeof(input) - 1, want, (int)(sizeof want / sizeof want[0]));                             \
    } while (0)

TEST(words_are_those_of_gpt2) {
    WORDS("Hello world's best,  they'll go!", "Hello", " world", "'s", " best", ",", " ", " they", "'ll", " go", "!");
    WORDS("a  b\n\n  c\n", "a", " ", " b", "\n\n ", " c", "\n");
    WORDS("x = 10;\n\treturn x1", "x", " =", " 10", ";", "\n", "\t", "return", " x", "1");
    WORDS("d\xc3\xa9j\xc3\xa0 \xe4\xbd\xa0\xe5\xa5\xbd\xc2\xa0z", "d\xc3\xa9j\xc3\xa0", " \xe4\xbd\xa0\xe5\xa5\xbd",
          "\xc2\xa0", "z");
    WORDS("   ", "   ");
    WORDS(" \xff z", " ", "\xff", " z");
}

/* The pattern itself, run by PCRE2, on random text of all classes. */
TEST(words_are_those_of_the_pattern) {
    static const char pattern[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    static const char *const signs[] = {" ",
                                        " ",
                                        " ",
                                        "\n",
                                        "\t",
                                        "a",
                                        "b",
                                        "s",
                                        "t",
                                        "l",
                                        "ll",
                                        "ve",
                                        "'",
                                        "'",
                                        "7",
                                        "42",
                                        ".",
                                        "=",
                                        "(",
                                        "\xc3\xa9",
                                        "\xce\xa9",
                                        "\xe4\xbd\xa0",
                                        "\xc2\xa0",
                                        "\xe2\x80\x83",
                                        "\xc2\x85",
                                        "\xd9\xa3",
                                        "\xc2\xbd",
                                        "\xcc\x81",
                                        "\xf0\x9f\x98\x80",
                                        "\x01",
                                        "\x1f"};
    int code;
    PCRE2_SIZE where;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &where, NULL);
    EXPECT(compiled != NULL);
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(compiled, NULL);
    rng r;
    rng_init(&r, 8);
    for (int round = 0; round < 2000; round++) {
        char data[400];
        size_t length = 0;
        for (int i = (int)rng_below(&r, 40); i > 0; i--) {
            const char *sign = signs[rng_below(&r, sizeof signs / sizeof signs[0])];
            memcpy(data + length, sign, strlen(sign));
            length += strlen(sign);
        }
        splitter s;
        const char *word;
        size_t n, at = 0;
        splitter_init(&s, data, length);
        while (splitter_next(&s, &word, &n)) {
            EXPECT(pcre2_match(compiled, (PCRE2_SPTR)data, length, at, 0, match, NULL) > 0);
            const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
            EXPECT_MSG(span[0] == at && span[1] == at + n && word == data + at, "'%.*s' at %zu: %zu bytes, want %zu",
                       (int)length, data, at, n, (size_t)(span[1] - at));
            at += n;
        }
        EXPECT(at == length);
    }
    pcre2_match_data_free(match);
    pcre2_code_free(compiled);
}

TEST(long_words_are_cut_between_characters) {
    char big[3000];
    for (int i = 0; i < 3000; i += 3) memcpy(big + i, "\xe4\xbd\xa0", 3);
    splitter s;
    const char *word;
    size_t n, total = 0;
    splitter_init(&s, big, sizeof big);
    while (splitter_next(&s, &word, &n)) {
        EXPECT(n <= TOKENIZER_WORD_MAX && n % 3 == 0 && n > 0);
        total += n;
    }
    EXPECT(total == sizeof big);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* The definition: count all pairs, merge the best one everywhere, start over. */
static int slow_merges(const char *data, size_t length, tokenizer_pair *merges, int wanted) {
    int32_t(*words)[TOKENIZER_WORD_MAX] = mem_array(4000, sizeof *words);
    int lengths[4000], count = 0, made = 0;
    splitter s;
    const char *word;
    size_t n;
    splitter_init(&s, data, length);
    while (splitter_next(&s, &word, &n)) {
        EXPECT(count < 4000);
        for (size_t i = 0; i < n; i++) words[count][i] = (unsigned char)word[i];
        lengths[count++] = (int)n;
    }
    enum { IDS = 400 };
    int *counts = mem_array(IDS * IDS, sizeof *counts);
    for (; made < wanted; made++) {
        memset(counts, 0, IDS * IDS * sizeof *counts);
        for (int w = 0; w < count; w++)
            for (int i = 0; i + 1 < lengths[w]; i++) counts[words[w][i] * IDS + words[w][i + 1]]++;
        int best = 0;
        for (int i = 1; i < IDS * IDS; i++)
            if (counts[i] > counts[best]) best = i;
        if (counts[best] < 2) break;
        merges[made] = (tokenizer_pair){best / IDS, best % IDS};
        for (int w = 0; w < count; w++) {
            int k = 0;
            for (int i = 0; i < lengths[w]; i++) {
                bool hit = i + 1 < lengths[w] && words[w][i] == best / IDS && words[w][i + 1] == best % IDS;
                words[w][k++] = hit ? 256 + made : words[w][i];
                i += hit;
            }
            lengths[w] = k;
        }
    }
    mem_free(counts);
    mem_free(words);
    return made;
}

/* Makes words over a small alphabet with many repeats of one letter: pairs that overlap themselves. */
static size_t draw_text(char *data, size_t room, uint64_t seed) {
    rng r;
    rng_init(&r, seed);
    size_t n = 0;
    while (n + 12 < room) {
        int length = 1 + (int)rng_below(&r, 9);
        char last = 'a';
        for (int i = 0; i < length; i++) data[n++] = last = rng_below(&r, 2) ? last : (char)('a' + rng_below(&r, 4));
        data[n++] = ' ';
    }
    return n;
}

TEST(learned_merges_equal_the_definition) {
    static char data[6000];
    for (uint64_t seed = 0; seed < 6; seed++) {
        size_t length = draw_text(data, seed < 5 ? 6000 : 100, seed);
        tokenizer_pair want[120];
        tokenizer *t;
        int made = slow_merges(data, length, want, 120);
        EXPECT_OK(tokenizer_train_bpe(data, length, 256 + 120, &t, &err));
        EXPECT_MSG(t->vocab == 256 + made, "%d merges, want %d", t->vocab - 256, made);
        for (int i = 0; i < made; i++)
            EXPECT_MSG(t->merges[i].left == want[i].left && t->merges[i].right == want[i].right,
                       "merge %d is %d %d, want %d %d", i, (int)t->merges[i].left, (int)t->merges[i].right,
                       (int)want[i].left, (int)want[i].right);
        round_trip_many(t);
        tokenizer_free(t);
    }
}

/* Encoding by definition: the merge that was trained first goes first, the leftmost first. */
TEST(encoding_follows_the_order_of_merges) {
    static char data[6000];
    size_t length = draw_text(data, sizeof data, 77);
    tokenizer *t;
    EXPECT_OK(tokenizer_train_bpe(data, length, 330, &t, &err));
    splitter s;
    const char *word;
    size_t n;
    splitter_init(&s, data, length);
    while (splitter_next(&s, &word, &n)) {
        int32_t ids[TOKENIZER_WORD_MAX];
        int count = (int)n;
        for (int i = 0; i < count; i++) ids[i] = (unsigned char)word[i];
        for (int merge = 0; merge < t->vocab - 256; merge++) {
            int k = 0;
            for (int i = 0; i < count; i++) {
                bool hit = i + 1 < count && ids[i] == t->merges[merge].left && ids[i + 1] == t->merges[merge].right;
                ids[k++] = hit ? 256 + merge : ids[i];
                i += hit;
            }
            count = k;
        }
        token_list list = encode(t, word, n);
        EXPECT((int)list.count == count && memcmp(list.ids, ids, (size_t)count * sizeof *ids) == 0);
        token_list_deinit(&list);
    }
    tokenizer_free(t);
}

TEST(wrong_vocabulary_sizes_are_refused) {
    tokenizer *t;
    EXPECT_FAIL(tokenizer_train_bpe("ab", 2, 256, &t, &err), PROPANE_ERR_INVALID, "a vocabulary of 256 ids");
    EXPECT_FAIL(tokenizer_train_bpe("ab", 2, 65537, &t, &err), PROPANE_ERR_INVALID, "257 to 65536");
    EXPECT_FAIL(tokenizer_train_bpe("", 0, 300, &t, &err), PROPANE_ERR_INVALID, "empty");
    EXPECT_OK(tokenizer_train_bpe("ab", 2, 300, &t, &err));
    EXPECT(tokenizer_vocab_size(t) == 256);
    tokenizer_free(t);
    EXPECT_FAIL(tokenizer_create_chars("", 0, "x.txt", &t, &err), PROPANE_ERR_INVALID, "x.txt: the text is empty");
}

/* ---- the other kinds ---------------------------------------------------------------------------------------------------------- */

TEST(bytes_and_characters) {
    tokenizer *t;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    EXPECT(tokenizer_vocab_size(t) == 256 && tokenizer_bos(t) == -1);
    round_trip_many(t);
    tokenizer_free(t);
    EXPECT_OK(tokenizer_create_chars(sample, sizeof sample - 1, "sample", &t, &err));
    round_trip(t, sample, sizeof sample - 1);
    token_list list = {0};
    EXPECT_FAIL(tokenizer_encode(t, "the Z\n", 6, &list, &err), PROPANE_ERR_INVALID, "the character 'Z' at offset 4");
    token_list_deinit(&list);
    list = encode(t, "\xe4\xbd\xa0", 3);
    EXPECT(list.count == 1);
    token_list_deinit(&list);
    tokenizer_free(t);
    EXPECT_OK(tokenizer_create_chars("banana", 6, "s", &t, &err));
    EXPECT(tokenizer_vocab_size(t) == 3);
    list = encode(t, "nab", 3);
    EXPECT(list.count == 3 && list.ids[0] == 2 && list.ids[1] == 0 && list.ids[2] == 1);
    token_list_deinit(&list);
    tokenizer_free(t);
}

/* Makes a tiny llama2.c tokenizer: the three special pieces, 256 bytes, then those of the test. */
static size_t tiny_llama(uint8_t *p, const char *const *pieces, const float *scores, int count) {
    size_t at = 4;
    memcpy(p, "\x07\0\0\0", 4);
    for (int i = 0; i < 259 + count; i++) {
        char spelled[16];
        snprintf(spelled, sizeof spelled, "<0x%02X>", (unsigned)(i - 3) & 255u);
        const char *s = i == 0    ? "<unk>"
                        : i == 1  ? "\n<s>\n"
                        : i == 2  ? "\n</s>\n"
                        : i < 259 ? spelled
                                  : pieces[i - 259];
        float score = i < 259 ? 0 : scores[i - 259];
        uint32_t n = (uint32_t)strlen(s);
        memcpy(p + at, &score, 4);
        memcpy(p + at + 4, &n, 4);
        memcpy(p + at + 8, s, n);
        at += 8 + n;
    }
    return at;
}

TEST(llama_merges_by_score_and_falls_back_to_bytes) {
    static uint8_t file[10000];
    const char *const pieces[] = {" ", "a", "b", "c", "ab", "bc", "abc", " a"};
    const float scores[] = {-10, -11, -12, -13, -2, -1, -3, -4};
    size_t length = tiny_llama(file, pieces, scores, 8);
    tokenizer *t;
    EXPECT_OK(tokenizer_parse(file, length, "tiny", &t, &err));
    EXPECT(tokenizer_get_kind(t) == TOKENIZER_LLAMA && tokenizer_vocab_size(t) == 267);
    EXPECT(tokenizer_bos(t) == 1 && tokenizer_eos(t) == 2);
    /* " abc": "bc" (-1) goes first, then " a" (-4) and "abc" (-3): "abc" */
    token_list list = encode(t, "abc", 3);
    EXPECT(list.count == 2 && list.ids[0] == 259 && list.ids[1] == 265);
    token_list_deinit(&list);
    list = encode(t, "ab\xc3\xa9", 4); /* "ab" (-2) before " a"; two bytes */
    EXPECT(list.count == 4 && list.ids[1] == 263 && list.ids[2] == 3 + 0xc3 && list.ids[3] == 3 + 0xa9);
    tokenizer_stream s = {0};
    text out = {0};
    tokenizer_decode(t, &s, 1, &out); /* bos has no text */
    for (size_t i = 0; i < list.count; i++) {
        tokenizer_decode(t, &s, list.ids[i], &out);
        if (i == 2) EXPECT_TEXT(out.data, "ab"); /* half of a character waits */
    }
    tokenizer_decode_end(&s, &out);
    EXPECT_TEXT(out.data, "ab\xc3\xa9");
    text_deinit(&out);
    token_list_deinit(&list);
    round_trip_many(t);
    tokenizer_free(t);
    for (size_t cut = 0; cut < length; cut += 13) {
        tokenizer *u = NULL;
        propane_status status = tokenizer_parse(file, cut, "cut", &u, &err);
        if (status == PROPANE_OK)
            tokenizer_free(u); /* a file may end between two pieces */
        else
            EXPECT(status == PROPANE_ERR_INVALID && u == NULL && strstr(err.text, "cut: "));
    }
}

TEST(llama2_vocabulary_gives_known_ids) {
    const char *path = test_data("llama2_tokenizer.bin");
    if (!path) SKIP("llama2_tokenizer.bin is not here");
    tokenizer *t;
    EXPECT_OK(tokenizer_read(path, &t, &err));
    EXPECT(tokenizer_vocab_size(t) == 32000);
    /* from llama2.c's own test of its tokenizer (test.c), without the bos at the beginning */
    static const struct {
        const char *prompt;
        int count, ids[30];
    } cases[] = {
        {"I believe the meaning of life is", 7, {306, 4658, 278, 6593, 310, 2834, 338}},
        {"Simply put, the theory of relativity states that ",
         11,
         {3439, 17632, 1925, 29892, 278, 6368, 310, 14215, 537, 5922, 393}},
    };
    for (int k = 0; k < 2; k++) {
        token_list list = encode(t, cases[k].prompt, strlen(cases[k].prompt));
        for (int i = 0; i < cases[k].count; i++)
            EXPECT_MSG(list.ids[i] == cases[k].ids[i], "case %d, token %d is %d", k, i, (int)list.ids[i]);
        EXPECT((int)list.count == cases[k].count + (k == 1)); /* the trailing space is a separate token */
        token_list_deinit(&list);
    }
    round_trip_many(t);
    text out = {0};
    tokenizer *again;
    tokenizer_print(t, &out);
    EXPECT_OK(tokenizer_parse(out.data, out.length, "again", &again, &err));
    EXPECT_TEXT(hash_of(again), hash_of(t));
    text_deinit(&out);
    tokenizer_free(again);
    tokenizer_free(t);
}

TEST(broken_utf8_streams_as_replacement_signs) {
    tokenizer *t;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\xc3\xa9z", "a\xc3\xa9z"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xe4\xbd"
         "x",
         "\xef\xbf\xbd\xef\xbf\xbdx"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\x98", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc3\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        tokenizer_stream s = {0};
        text out = {0};
        for (const char *p = cases[k].in; *p; p++) tokenizer_decode(t, &s, (unsigned char)*p, &out);
        tokenizer_decode_end(&s, &out);
        EXPECT_TEXT(out.data, cases[k].out);
        text_deinit(&out);
    }
    tokenizer_free(t);
}

/* ---- files --------------------------------------------------------------------------------------------------------------------- */

TEST(files_give_the_same_tokenizer) {
    char *dir = test_temp_dir(), path[300];
    tokenizer *t[3], *again;
    EXPECT_OK(tokenizer_create_bytes(&t[0], &err));
    EXPECT_OK(tokenizer_create_chars(sample, sizeof sample - 1, "sample", &t[1], &err));
    EXPECT_OK(tokenizer_train_bpe(sample, sizeof sample - 1, 270, &t[2], &err));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/t%d.json", dir, i);
        EXPECT_OK(tokenizer_write(t[i], NULL, path, &err));
        EXPECT_OK(tokenizer_read(path, &again, &err));
        EXPECT_TEXT(hash_of(again), hash_of(t[i]));
        EXPECT(tokenizer_get_kind(again) == tokenizer_get_kind(t[i]));
        round_trip(again, sample, sizeof sample - 1);
        for (int k = 0; k < i; k++) EXPECT(strcmp(hash_of(t[i]), hash_of(t[k])) != 0);
        tokenizer_free(again);
    }
    for (int i = 0; i < 3; i++) tokenizer_free(t[i]);
    mem_free(dir);
}

#define HEAD "{\"format\": \"propane-tokenizer\", \"version\": 1, \"sha256\": \"00\", "
TEST(wrong_files_are_refused) {
    static const struct {
        const char *file, *part;
    } cases[] = {
        {"{}", "key 'format' is missing"},
        {"{\"format\": \"x\"}", "'format' is 'x'"},
        {"{\"format\": \"propane-tokenizer\", \"version\": 2, \"kind\": \"bpe\"}", "version 2"},
        {"{\"format\": \"propane-tokenizer\", \"version\": 1, \"kind\": \"bpe\"}", "'sha256' is missing"},
        {HEAD "\"kind\": \"wordpiece\"}", "kind is 'wordpiece'"},
        {HEAD "\"kind\": \"bytes\"}", "the file was changed"},
        {HEAD "\"kind\": \"bpe\"}", "'merges' must be a list"},
        {HEAD "\"kind\": \"bpe\", \"merges\": [[1]]}", "merge 0 must be a pair"},
        {HEAD "\"kind\": \"bpe\", \"merges\": [[1, 256]]}", "merge 0 joins 1 and 256"},
        {HEAD "\"kind\": \"bpe\", \"merges\": [[1, 2], [1, 2]]}", "merges 0 and 1 are the same"},
        {HEAD "\"kind\": \"bpe\", \"merges\": [[97,97],[256,256],[257,257],[258,258],[259,259],[260,260],[261,261],"
              "[262,262],[263,263],[264,264],[265,265]]}",
         "a piece of 2048 bytes"},
        {HEAD "\"kind\": \"chars\"}", "'pieces' must be a list"},
        {HEAD "\"kind\": \"chars\", \"pieces\": [\"6\"]}", "piece 0 must be a string"},
        {HEAD "\"kind\": \"chars\", \"pieces\": [\"6g\"]}", "'6g' is not a pair of hex"},
        {HEAD "\"kind\": \"chars\", \"pieces\": [\"6162\"]}", "piece 0 is not one character"},
        {HEAD "\"kind\": \"chars\", \"pieces\": [\"61\", \"61\"]}", "pieces 0 and 1 are both 'a'"},
        {HEAD "\"kind\": \"llama\", \"pieces\": [\"61\"]}", "'scores' must be a list"},
        {"text", "neither a Propane tokenizer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tokenizer *t = NULL;
        propane_status status = tokenizer_parse(cases[i].file, strlen(cases[i].file), "f", &t, &err);
        EXPECT_MSG(status != PROPANE_OK && strstr(err.text, cases[i].part) && !t, "case %zu: '%s', want '%s'", i,
                   err.text, cases[i].part);
    }
}

static propane_status train_encode_and_read(void *context, text *result, propane_error *why) {
    tokenizer *t = NULL, *again = NULL;
    token_list list = {0};
    text out = {0};
    propane_status status = tokenizer_train_bpe(sample, sizeof sample - 1, 280, &t, why);
    if (!status) status = tokenizer_encode(t, sample, sizeof sample - 1, &list, why);
    if (!status) tokenizer_print(t, &out);
    if (!status && out.failed) status = propane_fail_memory(why, 0);
    if (!status) status = tokenizer_parse(out.data, out.length, "f", &again, why);
    for (size_t i = 0; !status && i < list.count; i++) text_printf(result, "%d ", (int)list.ids[i]);
    if (!status && result->failed) status = propane_fail_memory(why, 0);
    tokenizer_free(t);
    tokenizer_free(again);
    token_list_deinit(&list);
    text_deinit(&out);
    return status;
}

TEST(memory_that_runs_out_is_an_error_everywhere) {
    EXPECT(test_each_failing_allocation("tokenizer", train_encode_and_read, NULL) > 10);
}

TEST(token_files_know_their_tokenizer) {
    char *dir = test_temp_dir(), path[300], *data;
    size_t length;
    tokenizer *t, *other;
    token_file f;
    EXPECT_OK(tokenizer_train_bpe(sample, sizeof sample - 1, 300, &t, &err));
    EXPECT_OK(tokenizer_create_bytes(&other, &err));
    token_list list = encode(t, sample, sizeof sample - 1);
    snprintf(path, sizeof path, "%s/a.tokens", dir);
    EXPECT_OK(token_file_write(path, t, list.ids, (int64_t)list.count, sizeof sample - 1, &err));
    EXPECT_OK(token_file_open(path, &f, &err));
    EXPECT(f.count == (int64_t)list.count && f.vocab_size == tokenizer_vocab_size(t) && f.id_bytes == 2);
    EXPECT(f.text_bytes == sizeof sample - 1);
    for (int64_t i = 0; i < f.count; i++) EXPECT(token_file_get(&f, i) == list.ids[i]);
    EXPECT_OK(token_file_check(&f, path, t, "t.json", &err));
    EXPECT_FAIL(token_file_check(&f, path, other, "other.json", &err), PROPANE_ERR_INVALID, "other.json");
    EXPECT(strstr(err.text, path) != NULL);
    token_file_close(&f);
    EXPECT_OK(file_read(path, 1 << 20, &data, &length, &err));
    static const struct {
        size_t at;
        const char *part;
    } damages[] = {{0, "not a token file"}, {8, "offset 8: version"}, {12, "offset 12"}, {20, "offset 16"},
                   {24, "offset 24"},       {40, "checksum"},         {131, "checksum"}};
    for (int i = 0; i < 7; i++) {
        data[damages[i].at] ^= 0x55;
        EXPECT_MSG(token_file_parse(data, length, "f", &f, &err) != PROPANE_OK && strstr(err.text, damages[i].part),
                   "damage at %zu: %s", damages[i].at, err.text);
        data[damages[i].at] ^= 0x55;
    }
    for (size_t cut = 0; cut < length; cut++) EXPECT(token_file_parse(data, cut, "f", &f, &err) == PROPANE_ERR_INVALID);
    mem_free(data);
    list.ids[3] = tokenizer_vocab_size(t); /* an id that the writer does not check */
    EXPECT_OK(token_file_write(path, t, list.ids, (int64_t)list.count, 1, &err));
    EXPECT_FAIL(token_file_open(path, &f, &err), PROPANE_ERR_INVALID, "token 3 (offset 134)");
    token_list_deinit(&list);
    tokenizer_free(t);
    tokenizer_free(other);
    mem_free(dir);
}

SUITE("model/tokenizer", T(words_are_those_of_gpt2), T(words_are_those_of_the_pattern),
      T(long_words_are_cut_between_characters), T(learned_merges_equal_the_definition),
      T(encoding_follows_the_order_of_merges), T(wrong_vocabulary_sizes_are_refused), T(bytes_and_characters),
      T(llama_merges_by_score_and_falls_back_to_bytes), T(llama2_vocabulary_gives_known_ids),
      T(broken_utf8_streams_as_replacement_signs), T(files_give_the_same_tokenizer), T(wrong_files_are_refused),
      T(memory_that_runs_out_is_an_error_everywhere), T(token_files_know_their_tokenizer))
