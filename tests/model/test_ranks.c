/* SPDX-License-Identifier: MIT
 * Vocabularies of ranks, from tiktoken and tekken files and from SentencePiece's. Random ones give the ids of a slow
 * definition (the neighbours whose bytes have the lowest rank join, the leftmost among equals), also after being
 * written and read again. Errors in a file are reported.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/text/tokenizer.h"
#include "lm/text/tokenizer_ranks.h"
#include "support/hash_of.h"
#include "support/test.h"

enum { TOKENS = 340, GPT2 = 50256, SPECIALS = 25, WORD = 30 };

static propane_error err;

typedef struct ranks {
    char bytes[TOKENS][16];
    int length[TOKENS];
} ranks;

static int rank_of(const ranks *r, const char *bytes, int length) {
    for (int i = 0; i < TOKENS; i++)
        if (r->length[i] == length && memcmp(r->bytes[i], bytes, (size_t)length) == 0) return i;
    return -1;
}

/* Makes all bytes, then strings over "abc" that earlier ones form in some way, in no order of length. */
static void make(ranks *r, rng *g) {
    memset(r, 0, sizeof *r);
    for (int i = 0; i < TOKENS; i++) {
        do {
            r->length[i] = 1;
            r->bytes[i][0] = (char)i;
            if (i < 256) break;
            int a = (int)(rng_next(g) % 3), b = (int)(rng_next(g) % 3), n = 0;
            a = i > 262 && rng_next(g) % 2 ? 256 + (int)(rng_next(g) % (uint64_t)(i - 256)) : 'a' + a;
            b = i > 262 && rng_next(g) % 2 ? 256 + (int)(rng_next(g) % (uint64_t)(i - 256)) : 'a' + b;
            if (r->length[a] + r->length[b] > 12) a = 'a', b = 'b';
            memcpy(r->bytes[i], r->bytes[a], (size_t)(n = r->length[a]));
            memcpy(r->bytes[i] + n, r->bytes[b], (size_t)r->length[b]);
            r->length[i] = n + r->length[b];
        } while (rank_of(r, r->bytes[i], r->length[i]) != i);
    }
}

static void put_base64(text *out, const char *bytes, int length) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = 0; i < length; i += 3) {
        uint32_t v = 0;
        for (int k = 0; k < 3; k++) v = v << 8 | (i + k < length ? (unsigned char)bytes[i + k] : 0);
        for (int k = 0; k < 4; k++) text_printf(out, "%c", i + k > length ? '=' : digits[v >> (18 - 6 * k) & 63]);
    }
}

/* `at_once` means that a word that is a token is not split. */
static int slow(const ranks *r, const char *word, int length, bool at_once, int32_t *ids) {
    int begin[WORD + 1], n = length;
    for (int i = 0; i <= length; i++) begin[i] = i;
    int whole = rank_of(r, word, length);
    if (at_once && whole >= 0) {
        ids[0] = whole;
        return 1;
    }
    for (;;) {
        int best = TOKENS, at = -1;
        for (int i = 0; i + 2 <= n; i++) {
            int rank = rank_of(r, word + begin[i], begin[i + 2] - begin[i]);
            if (rank >= 0 && rank < best) best = rank, at = i;
        }
        if (at < 0) break;
        memmove(begin + at + 1, begin + at + 2, (size_t)(n - at - 1) * sizeof *begin);
        n--;
    }
    for (int i = 0; i < n; i++) ids[i] = rank_of(r, word + begin[i], begin[i + 1] - begin[i]);
    return n;
}

/* `mark` is a token before every text, or -1 for none; words that are tokens are then merged like others. */
static void compare(const tokenizer *t, const ranks *r, rng *g, int first_id, int mark) {
    for (int k = 0; k < 400; k++) {
        char word[WORD];
        int32_t want[WORD];
        token_list got = {0};
        int length = 1 + (int)(rng_next(g) % WORD);
        for (int i = 0; i < length; i++) word[i] = (char)('a' + (int)(rng_next(g) % 3));
        int n = slow(r, word, length, mark < 0, want), front = mark >= 0;
        EXPECT_OK(tokenizer_encode(t, word, (size_t)length, &got, &err));
        EXPECT_MSG((int)got.count == n + front, "%.*s: %zu ids, want %d", length, word, got.count, n);
        EXPECT(!front || got.ids[0] == mark);
        for (int i = 0; i < n; i++)
            EXPECT_MSG(got.ids[i + front] == want[i] + first_id, "%.*s: id %d", length, word, i);
        token_list_deinit(&got);
    }
}

/* Repeats the comparison with the tokenizer.json that is written. */
static void compare_twice(tokenizer *t, const ranks *r, rng *g, int first_id, int mark) {
    text printed = {0};
    tokenizer *again = NULL;
    compare(t, r, g, first_id, mark);
    tokenizer_print(t, &printed);
    EXPECT_OK(tokenizer_parse(printed.data, printed.length, "again", &again, &err));
    EXPECT_TEXT(hash_of(again), hash_of(t));
    compare(again, r, g, first_id, mark);
    tokenizer_free(again);
    text_deinit(&printed);
}

static void print_tekken(const ranks *r, text *out) {
    text_printf(out,
                "{\"config\": {\"pattern\": \"\\\\S+|\\\\s+\", \"default_vocab_size\": %d, "
                "\"default_num_special_tokens\": %d, \"version\": \"v3\"}, \"vocab\": [",
                TOKENS + SPECIALS, SPECIALS);
    for (int i = 0; i < TOKENS; i++) {
        text_printf(out, "%s{\"rank\": %d, \"token_str\": \"\\u0000\", \"token_bytes\": \"", i ? ", " : "", i);
        put_base64(out, r->bytes[i], r->length[i]);
        text_append(out, "\"}");
    }
    text_append(out, "]}");
}

TEST(tekken) {
    rng g;
    rng_init(&g, 11);
    for (int k = 0; k < 5; k++) {
        ranks r;
        text file = {0};
        tokenizer *t = NULL;
        token_list ids = {0};
        make(&r, &g);
        print_tekken(&r, &file);
        EXPECT_OK(tokenizer_parse(file.data, file.length, "tekken.json", &t, &err));
        EXPECT(tokenizer_vocab_size(t) == TOKENS + SPECIALS && tokenizer_bos(t) == 1 && tokenizer_eos(t) == 2);
        compare_twice(t, &r, &g, SPECIALS, -1);
        EXPECT_OK(tokenizer_encode(t, "[INST]<SPECIAL_24>", 18, &ids, &err));
        EXPECT(ids.count == 2 && ids.ids[0] == 3 && ids.ids[1] == 24);
        token_list_deinit(&ids);
        tokenizer_free(t);
        text_deinit(&file);
    }
}

static void print_tiktoken(const ranks *r, int count, text *out) {
    for (int i = 0; i < count; i++) {
        char filler[4] = {(char)0xff, (char)(i >> 14), (char)(i >> 7 & 127), (char)(i & 127)};
        put_base64(out, i < TOKENS ? r->bytes[i] : filler, i < TOKENS ? r->length[i] : 4);
        text_printf(out, " %d\n", i);
    }
}

TEST(tiktoken) {
    rng g;
    ranks r;
    text file = {0};
    tokenizer *t = NULL;
    rng_init(&g, 12);
    make(&r, &g);
    print_tiktoken(&r, GPT2, &file);
    EXPECT_OK(tokenizer_parse(file.data, file.length, "gpt2.tiktoken", &t, &err));
    EXPECT(tokenizer_vocab_size(t) == GPT2 + 1 && tokenizer_bos(t) == -1 && tokenizer_eos(t) == GPT2);
    compare_twice(t, &r, &g, 0, -1);
    tokenizer_free(t);
    text_deinit(&file);
}

static void put_field(text *out, int number, const char *data, int length) {
    text_printf(out, "%c", number << 3 | 2);
    if (length > 127) text_printf(out, "%c", (length & 127) | 128);
    text_printf(out, "%c", length > 127 ? length >> 7 : length);
    text_append_n(out, data, (size_t)length);
}

static void put_number(text *out, int number, int value) {
    if (number > 15) text_printf(out, "%c", ((number << 3) & 127) | 128);
    const char last = (char)(number > 15 ? number >> 4 : number << 3), small = (char)value;
    text_append_n(out, &last, 1);
    text_append_n(out, &small, 1);
}

static void put_piece(text *out, const char *bytes, int length, float score, int type) {
    text piece = {0};
    const char key = 2 << 3 | 5;
    put_field(&piece, 1, bytes, length);
    text_append_n(&piece, &key, 1);
    text_append_n(&piece, (const char *)&score, 4);
    if (type != 1) put_number(&piece, 3, type);
    put_field(out, 1, piece.data, (int)piece.length);
    text_deinit(&piece);
}

enum { SP_FIRST = 3 + 256 + 1 }; /* unknown, begin, end; bytes; the mark */

/* Writes the random tokens after the bytes, preceded by a, b and c. */
static void print_sentencepiece(const ranks *r, int kind, bool squeeze, text *out) {
    static const char *const names[] = {"<unk>", "<s>", "</s>"};
    text part = {0};
    char byte[8];
    for (int i = 0; i < 3; i++) put_piece(out, names[i], (int)strlen(names[i]), 0, i ? 3 : 2);
    for (int i = 0; i < 256; i++) {
        snprintf(byte, sizeof byte, "<0x%02X>", i);
        put_piece(out, byte, 6, 0, 6);
    }
    put_piece(out, "\xe2\x96\x81", 3, 0, 1);
    for (int i = 0; i < 3; i++) put_piece(out, &"abc"[i], 1, -1 - (float)i, 1);
    for (int i = 256; i < TOKENS; i++) put_piece(out, r->bytes[i], r->length[i], -(float)i, 1);
    put_number(&part, 3, kind);
    put_number(&part, 35, 1);
    put_field(out, 2, part.data, (int)part.length);
    text_clear(&part);
    put_number(&part, 3, 1);
    put_number(&part, 4, squeeze);
    put_field(out, 3, part.data, (int)part.length);
    text_deinit(&part);
}

/* The slow definition's 'a' is piece SP_FIRST, and token 256 is the third after it. */
static void as_pieces(const ranks *r, ranks *pieces) {
    memset(pieces, 0, sizeof *pieces);
    for (int i = 0; i < TOKENS; i++) {
        const int from = i < 3 ? 'a' + i : i - 3 + 256;
        if (from >= TOKENS) continue;
        memcpy(pieces->bytes[i], r->bytes[from], sizeof r->bytes[from]);
        pieces->length[i] = r->length[from];
    }
}

TEST(sentencepiece) {
    rng g;
    ranks r, pieces;
    text file = {0};
    tokenizer *t = NULL;
    token_list ids = {0};
    rng_init(&g, 13);
    make(&r, &g);
    as_pieces(&r, &pieces);
    print_sentencepiece(&r, 2, false, &file);
    EXPECT_OK(tokenizer_parse(file.data, file.length, "tokenizer.model", &t, &err));
    EXPECT(tokenizer_bos(t) == 1 && tokenizer_eos(t) == 2 && tokenizer_vocab_size(t) == SP_FIRST + 3 + TOKENS - 256);
    compare_twice(t, &pieces, &g, SP_FIRST, SP_FIRST - 1);
    /* A space at the beginning stays; a character without a piece becomes its bytes; the end token is recognised in
     * text. */
    EXPECT_OK(tokenizer_encode(t, " \xc3\xa9</s>", 7, &ids, &err));
    const int32_t want[] = {SP_FIRST - 1, SP_FIRST - 1, 3 + 0xc3, 3 + 0xa9, 2};
    EXPECT(ids.count == 5 && memcmp(ids.ids, want, sizeof want) == 0);
    token_list_deinit(&ids);
    tokenizer_free(t);
    for (size_t n = 20; n < file.length; n += 97) { /* truncated anywhere: an error, or a smaller vocabulary */
        propane_status status = tokenizer_parse(file.data, n, "tokenizer.model", &t, &err);
        EXPECT(status == PROPANE_ERR_INVALID || status == PROPANE_ERR_UNSUPPORTED);
    }
    text_clear(&file);
    print_sentencepiece(&r, 3, false, &file);
    EXPECT_FAIL(tokenizer_parse(file.data, file.length, "m", &t, &err), PROPANE_ERR_UNSUPPORTED,
                "m: it is neither a BPE nor a Unigram model");
    text_clear(&file); /* white space that is removed: the same pieces, one space for several and none at the ends */
    print_sentencepiece(&r, 2, true, &file);
    EXPECT_OK(tokenizer_parse(file.data, file.length, "m", &t, &err));
    ids.count = 0;
    EXPECT_OK(tokenizer_encode(t, "  a  b ", 7, &ids, &err));
    const int32_t squeezed[] = {SP_FIRST - 1, SP_FIRST, SP_FIRST - 1, SP_FIRST + 1};
    EXPECT(ids.count == 4 && memcmp(ids.ids, squeezed, sizeof squeezed) == 0);
    token_list_deinit(&ids);
    tokenizer_free(t);
    text_deinit(&file);
}

TEST(what_is_wrong_is_said) {
    static const struct {
        const char *data, *part;
        propane_status status;
    } cases[] = {
        {"YQ== 0\nYg== 1\n", "2 ranks belong to no known vocabulary", PROPANE_ERR_UNSUPPORTED},
        {"YQ== 0\nYg== 2\n", "line 2 is not \"BASE64 1\"", PROPANE_ERR_INVALID},
        {"YQ== 0\nYQ== 1\n", "the tokens of ranks 0 and 1 are the same", PROPANE_ERR_INVALID},
        {"YQ== 0\n!!!! 1\n", "the token of rank 1 must be 1 to 512 bytes", PROPANE_ERR_INVALID},
        {"YQ== 0\nYg==", "line 2 is not", PROPANE_ERR_INVALID},
        {"{\"token_bytes\": 1}", "'pattern'", PROPANE_ERR_INVALID},
        {"{\"config\": {\"pattern\": \"a\", \"default_vocab_size\": 301, \"default_num_special_tokens\": 300}, "
         "\"vocab\": [{\"rank\": 0, \"token_bytes\": 1}]}",
         "token 0 must have its number as 'rank'", PROPANE_ERR_INVALID},
        {"{\"config\": {\"pattern\": \"a\", \"default_vocab_size\": 400, \"default_num_special_tokens\": 300}, "
         "\"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ==\"}]}",
         "'config' requires 100 tokens, but 'vocab' has 1", PROPANE_ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tokenizer *t = NULL;
        EXPECT_FAIL(tokenizer_parse(cases[i].data, strlen(cases[i].data), "f", &t, &err), cases[i].status,
                    cases[i].part);
        EXPECT(t == NULL);
    }
}

SUITE("model/ranks", T(tekken), T(tiktoken), T(sentencepiece), T(what_is_wrong_is_said))
