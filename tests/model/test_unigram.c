/* SPDX-License-Identifier: MIT
 * Unigram vocabularies: the chosen split of a text against all possible ones, text normalisation, and invalid files.
 * Ids of the libraries are in test_hf_tokenizer.c.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/base/text.h"
#include "lm/text/charsmap.h"
#include "lm/text/tokenizer_hf.h"
#include "support/test.h"

/* ---- the best split against all splits --------------------------------------------------------------------------- */

enum { PIECES = 24, LONGEST = 4 };

typedef struct vocabulary {
    char text[PIECES][LONGEST + 1];
    double score[PIECES];
    int count;
} vocabulary;

/* Piece 0 represents unknown characters; a, b and c are pieces, d is in none. */
static void make(vocabulary *v, rng *g) {
    v->count = 1;
    strcpy(v->text[0], "?");
    v->score[0] = 0;
    while (v->count < PIECES) {
        char word[LONGEST + 1] = {0};
        const int length = 1 + (int)(rng_next(g) % LONGEST);
        for (int i = 0; i < length; i++) word[i] = (char)('a' + rng_next(g) % 3);
        if (v->count < 4) word[0] = (char)('a' + v->count - 1), word[1] = 0;
        bool known = false;
        for (int i = 0; i < v->count; i++) known |= strcmp(v->text[i], word) == 0;
        if (known) continue;
        strcpy(v->text[v->count], word);
        v->score[v->count++] = -(double)(rng_next(g) % 1000000) / 100000;
    }
}

static void print_vocabulary(const vocabulary *v, const char *more, text *out) {
    text_printf(out,
                "{\"added_tokens\":[],\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
                "\"vocab\":[");
    for (int i = 0; i < v->count; i++) text_printf(out, "%s[\"%s\",%.17g]", i ? "," : "", v->text[i], v->score[i]);
    text_printf(out, "]}%s}", more);
}

static double unknown_score(const vocabulary *v) {
    double least = 0;
    for (int i = 0; i < v->count; i++)
        if (v->score[i] < least) least = v->score[i];
    return least - 10;
}

/* Returns the best score over all ways to split the rest. */
static double best_of_all(const vocabulary *v, const char *left) {
    double best = -DBL_MAX, sum;
    bool alone = false;
    if (*left == 0) return 0;
    for (int i = 0; i < v->count; i++) {
        const size_t n = strlen(v->text[i]);
        if (strncmp(left, v->text[i], n) != 0) continue;
        sum = v->score[i] + best_of_all(v, left + n);
        if (sum > best) best = sum;
        alone |= n == 1;
    }
    sum = unknown_score(v) + best_of_all(v, left + 1);
    return !alone && sum > best ? sum : best;
}

/* Returns the score of the ids. Each must match the text at its place, or represent one run of d. */
static double cost_of(const vocabulary *v, const char *left, const token_list *ids) {
    double sum = 0;
    for (size_t i = 0; i < ids->count; i++) {
        const int32_t id = ids->ids[i];
        if (id == 0) {
            EXPECT(*left == 'd');
            for (; *left == 'd'; left++) sum += unknown_score(v);
            continue;
        }
        EXPECT(strncmp(left, v->text[id], strlen(v->text[id])) == 0);
        left += strlen(v->text[id]);
        sum += v->score[id];
    }
    EXPECT(*left == 0);
    return sum;
}

static void check_best(bool sentencepiece, double tolerance) {
    rng g;
    rng_init(&g, 21);
    for (int k = 0; k < 40; k++) {
        propane_error err = {0};
        vocabulary v;
        text file = {0};
        tokenizer *t = NULL;
        make(&v, &g);
        print_vocabulary(&v,
                         sentencepiece
                             ? ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[],"
                               "\"propane.sentencepiece\":{\"prefix\":false,\"squeeze\":false,\"escape\":true}}"
                             : "",
                         &file);
        EXPECT_OK(tokenizer_parse(file.data, file.length, "made", &t, &err));
        EXPECT_TEXT(tokenizer_model_name(t), "Unigram");
        for (int i = 0; i < 25; i++) {
            char input[13] = {0};
            token_list ids = {0};
            for (int j = 0; j < i % 13; j++) input[j] = (char)('a' + rng_next(&g) % 4);
            EXPECT_OK(tokenizer_encode(t, input, strlen(input), &ids, &err));
            const double got = cost_of(&v, input, &ids), want = best_of_all(&v, input);
            EXPECT_MSG(got <= want + tolerance && got >= want - tolerance, "'%s': %g, the best is %g", input, got,
                       want);
            token_list_deinit(&ids);
        }
        text_deinit(&file);
        tokenizer_free(t);
    }
}

TEST(the_best_of_all_ways) { check_best(false, 1e-9); }
TEST(the_best_of_all_ways_in_float) { check_best(true, 1e-3); }

/* ---- small files ------------------------------------------------------------------------------------------------------------- */

#define FILE_WITH(added, normalizer, own, model)                                                                       \
    "{\"added_tokens\":[" added "],\"normalizer\":" normalizer                                                         \
    ",\"pre_tokenizer\":null,\"decoder\":{\"type\":\"Fuse\"}," own "\"model\":{\"type\":\"Unigram\"," model "}}"
#define FEW "\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"b\",-2],[\"ab\",-3],[\"\xe2\x96\x81\",-2],[\"u\",-9]]"
#define SP(prefix, squeeze, escape)                                                                                    \
    "{\"type\":\"Sequence\",\"normalizers\":[],\"propane.sentencepiece\":{\"prefix\":" prefix ",\"squeeze\":" squeeze  \
    ",\"escape\":" escape ",\"unused\":[5,-1,99,\"a\"]}}"

static void expect_ids(const char *file, const char *input, const char *want) {
    propane_error err = {0};
    tokenizer *t = NULL;
    token_list ids = {0};
    text got = {0};
    EXPECT_OK(tokenizer_parse(file, strlen(file), "x.json", &t, &err));
    EXPECT_OK(tokenizer_encode(t, input, strlen(input), &ids, &err));
    for (size_t i = 0; i < ids.count; i++) text_printf(&got, "%s%d", i ? " " : "", ids.ids[i]);
    EXPECT_TEXT(got.length ? got.data : "", want);
    text_deinit(&got);
    token_list_deinit(&ids);
    tokenizer_free(t);
}

TEST(ties_unknown_runs_and_types) {
    const char *plain = FILE_WITH("", "null", "", FEW);
    expect_ids(plain, "ab", "3"); /* as good as a and b: the split that was found first stays */
    expect_ids(plain, "axyzb", "1 0 2");
    expect_ids(plain, "u<unk>x", "5 0"); /* the entry is a piece, and forms one run with unknown characters */
    const char *bytes = FILE_WITH(
        "", "null", "", "\"byte_fallback\":true,\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"<0x78>\",0],[\"a\",-1]]");
    expect_ids(bytes, "axa", "2 1 2");
    expect_ids(bytes, "axya", "2 0 2"); /* no piece for y, so the whole run is unknown */
    expect_ids(bytes, "<0x78>", "1");
    const char *own = FILE_WITH("{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":2,\"content\":\"b\"}",
                                SP("true", "true", "true"), "", FEW);
    expect_ids(own, "  ab  a ", "4 1 2 4 1"); /* b is user-defined and takes precedence; spaces are squeezed */
    expect_ids(own, "u", "4 0");              /* unused */
    expect_ids(own, "   ", "");
    expect_ids(FILE_WITH("", SP("false", "false", "true"), "", FEW), " a", "4 1");
    expect_ids(FILE_WITH("", SP("true", "false", "true"), "", FEW), " a", "4 4 1");
    expect_ids(FILE_WITH("", SP("true", "false", "false"), "", FEW), "a", "0 1"); /* spaces stay spaces */
}

TEST(control_characters_and_spaces) {
    const char *file = FILE_WITH("", "{\"type\":\"Nmt\"}", "",
                                 "\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"b\",-2],[\" \",-3]]");
    expect_ids(file,
               "a\x01\x08\x0b\x1f\x7f"
               "b\tb\n\xe2\x80\x8b\xe2\x96\x81",
               "1 2 3 2 3 3 3");
    expect_ids(file,
               "a\xc2\x9f"
               "b\xc2\x8f\xef\xbb\xbf\xe1\x9a\x80",
               "1 2 3 3");
    expect_ids(file, "a\xc2\x90", "1 0"); /* other control characters stay */
}

/* A text longer than a chunk, with and without word marks. */
TEST(long_texts) {
    propane_error err = {0};
    const char *file = FILE_WITH("", SP("true", "true", "true"), "", FEW);
    tokenizer *t = NULL;
    token_list ids = {0};
    const size_t length = 3 << 20;
    char *data = malloc(length);
    EXPECT(data);
    EXPECT_OK(tokenizer_parse(file, strlen(file), "x.json", &t, &err));
    for (int spaces = 0; spaces < 2; spaces++) {
        for (size_t i = 0; i < length; i++) data[i] = spaces && i % 4 == 3 ? ' ' : i % 4 == 1 ? 'b' : 'a';
        ids.count = 0;
        EXPECT_OK(tokenizer_encode(t, data, length, &ids, &err));
        EXPECT(ids.count > length / 2 && ids.ids[0] == 4);
        size_t bytes = 0;
        for (size_t i = 0; i < ids.count; i++) bytes += ids.ids[i] == 3 ? 2 : 1;
        EXPECT_MSG(bytes == length + !spaces, "%zu characters of %zu", bytes, length);
    }
    free(data);
    token_list_deinit(&ids);
    tokenizer_free(t);
}

static void expect_refused(const char *file, propane_status status, const char *part) {
    propane_error err = {0};
    tokenizer *t = NULL;
    EXPECT_FAIL(tokenizer_parse(file, strlen(file), "x.json", &t, &err), status, part);
    EXPECT(!t);
}

TEST(wrong_files) {
    const propane_status bad = PROPANE_ERR_INVALID;
    expect_refused(FILE_WITH("", "null", "", "\"vocab\":[]"), bad, "a list of 1 to");
    expect_refused(FILE_WITH("", "null", "", "\"vocab\":{\"a\":1}"), bad, "a list of 1 to");
    expect_refused(FILE_WITH("", "null", "", "\"vocab\":[[\"a\",-1],[\"b\"]]"), bad, "entry 1 of 'model.vocab'");
    expect_refused(FILE_WITH("", "null", "", "\"vocab\":[[\"a\",\"-1\"]]"), bad, "entry 0 of 'model.vocab'");
    expect_refused(FILE_WITH("", "null", "", "\"vocab\":[[\"a\",-1e200]]"), bad, "entry 0 of 'model.vocab'");
    expect_refused(FILE_WITH("", "null", "", "\"vocab\":[[\"a\",NaN]]"), bad, "x.json");
    expect_refused(FILE_WITH("", "null", "", "\"unk_id\":1,\"vocab\":[[\"a\",-1]]"), bad, "'unk_id'");
    expect_refused(FILE_WITH("", "null", "", "\"unk_id\":-1,\"vocab\":[[\"a\",-1]]"), bad, "'unk_id'");
    expect_refused(FILE_WITH("", "{\"type\":\"Precompiled\"}", "", FEW), bad, "precompiled_charsmap");
    expect_refused(FILE_WITH("", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A*==\"}", "", FEW), bad,
                   "is not base64");
    expect_refused(FILE_WITH("", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", "", FEW), bad,
                   "precompiled_charsmap has 3 bytes");
    propane_error err = {0};
    tokenizer *t = NULL;
    token_list ids = {0};
    const char *file = FILE_WITH("", "null", "", "\"unk_id\":null,\"vocab\":[[\"a\",-1]]");
    EXPECT_OK(tokenizer_parse(file, strlen(file), "x.json", &t, &err));
    EXPECT_FAIL(tokenizer_encode(t, "ax", 2, &ids, &err), bad, "the character 'x' is not in the vocabulary");
    token_list_deinit(&ids);
    tokenizer_free(t);
}

/* ---- normalisation rules ----------------------------------------------------------------------------------------- */

enum { UNITS = 256 };

/* Makes a double array of one block for the texts "A" and "AB": 'A' -> "x", "AB" -> "yz". */
static size_t make_rules(uint8_t *out) {
    uint32_t units[UNITS] = {0};
    units[0] = 0;                                       /* the root: children at 0 ^ label */
    units['A'] = 'A' | 1u << 8 | 128u << 10;            /* a rule ends here: leaf and children at 'A' ^ 128 */
    units['A' ^ 128] = 1u << 31;                        /* -> offset 0, "x" */
    units['A' ^ 128 ^ 'B'] = 'B' | 1u << 8 | 64u << 10; /* a rule ends here */
    units['A' ^ 128 ^ 'B' ^ 64] = 1u << 31 | 2;         /* -> offset 2, "yz" */
    const uint32_t size = sizeof units;
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(size >> 8 * i);
    for (size_t i = 0; i < UNITS; i++)
        for (int k = 0; k < 4; k++) out[4 + 4 * i + (size_t)k] = (uint8_t)(units[i] >> 8 * k);
    memcpy(out + 4 + size, "x\0yz\0", 5);
    return 4 + size + 5;
}

TEST(rules_the_two_ways) {
    propane_error err = {0};
    uint8_t data[4 + 4 * UNITS + 5];
    arena *a = arena_create();
    charsmap *m = NULL;
    text out = {0};
    const char *with;
    size_t length = 0;
    EXPECT(a);
    EXPECT_OK(charsmap_read(a, data, make_rules(data), "rules", &m, &err));
    charsmap_apply(m, "ABA\xcc\x81-B", 7, &out); /* by graphemes, the shortest rule: the accent belongs to its letter */
    EXPECT_TEXT(out.data, "xBx-B");
    EXPECT(charsmap_step(m, "ABA", 3, &with, &length) == 2 && length == 2 && memcmp(with, "yz", 2) == 0);
    EXPECT(charsmap_step(m, "A", 1, &with, &length) == 1 && length == 1 && *with == 'x');
    EXPECT(charsmap_step(m,
                         "\xc3\xa9"
                         "A",
                         3, &with, &length) == 2 &&
           length == 2 && memcmp(with, "\xc3\xa9", 2) == 0);
    EXPECT(charsmap_step(NULL, "A", 1, &with, &length) == 1 && length == 1 && *with == 'A');
    text_deinit(&out);
    arena_free(a);
}

static void expect_rules_refused(const uint8_t *data, size_t length, const char *part) {
    propane_error err = {0};
    arena *a = arena_create();
    charsmap *m = NULL;
    EXPECT(a);
    EXPECT_FAIL(charsmap_read(a, data, length, "rules", &m, &err), PROPANE_ERR_INVALID, part);
    EXPECT(!m);
    arena_free(a);
}

TEST(broken_rules) {
    uint8_t data[4 + 4 * UNITS + 5];
    const size_t length = make_rules(data), leaf = 4 + 4 * ('A' ^ 128);
    for (size_t n = 0; n < length; n++) /* truncated anywhere */
        if (n < length - 4) expect_rules_refused(data, n, "precompiled_charsmap");
    data[leaf] = 5; /* offsets: after the strings, far after them, inside a character, units of 3 bytes */
    expect_rules_refused(data, length, "unit 193 points to offset 5 of 5 bytes");
    data[leaf + 2] = 200;
    expect_rules_refused(data, length, "unit 193 points to offset 13107205");
    make_rules(data);
    memcpy(data + length - 5, "\xc3\xa9zz", 5);
    data[leaf] = 1;
    expect_rules_refused(data, length, "into the middle of a character");
    make_rules(data);
    data[length - 1] = 'z';
    expect_rules_refused(data, length, "end with a zero byte");
    data[length - 2] = 0xff;
    expect_rules_refused(data, length, "must be UTF-8");
    make_rules(data);
    data[0] = 3;
    expect_rules_refused(data, length, "claims a trie of");
    data[3] = 0xff;
    expect_rules_refused(data, length, "claims a trie of");
}

/* Whatever the units contain, nothing outside them is read. */
TEST(random_rules) {
    rng g;
    rng_init(&g, 3);
    uint8_t data[4 + 4 * UNITS + 5];
    for (int k = 0; k < 2000; k++) {
        propane_error err = {0};
        const size_t length = make_rules(data);
        arena *a = arena_create();
        charsmap *m = NULL;
        text out = {0};
        EXPECT(a);
        for (int i = 0; i < 1 + k % 40; i++) data[4 + rng_next(&g) % (4 * UNITS)] = (uint8_t)(rng_next(&g) % 256);
        if (charsmap_read(a, data, length, "rules", &m, &err) == PROPANE_OK) {
            charsmap_apply(m, "ABAB\xc3\xa9\xe2\x96\x81 zA\r\n", 15, &out);
            const char *with;
            size_t with_length = 0;
            static const char words[] = "ABAB\xe2\x96\x81"
                                        "AB";
            for (size_t i = 0; i < 9; i += charsmap_step(m, words + i, 9 - i, &with, &with_length))
                EXPECT(with_length < 6);
        }
        text_deinit(&out);
        arena_free(a);
    }
}

SUITE("model/unigram", T(the_best_of_all_ways), T(the_best_of_all_ways_in_float), T(ties_unknown_runs_and_types),
      T(control_characters_and_spaces), T(long_texts), T(wrong_files), T(rules_the_two_ways), T(broken_rules),
      T(random_rules))
