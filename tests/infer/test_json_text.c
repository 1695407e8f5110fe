/* SPDX-License-Identifier: MIT
 * JSON byte by byte: jansson agrees on complete texts, each prefix knows how many bytes it needs, and text drawn at
 * random from the allowed bytes, within a limit, is an object that jansson reads.
 */
#include "lm/infer/json_text.h"

#include <jansson.h>
#include <stdlib.h>

#include "core/base/rng.h"
#include "lm/infer/json_filter.h"
#include "support/test.h"

static bool whole(const char *bytes, size_t length) {
    json_text s = {0};
    return json_text_take_all(&s, bytes, length) && json_text_is_done(&s);
}

static bool parses(const char *bytes, size_t length) {
    json_t *v = json_loadb(bytes, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const bool object = json_is_object(v);
    json_decref(v);
    return object;
}

/* Valid objects, and the same with each byte left out, doubled or changed: whatever is accepted, jansson reads. */
TEST(what_is_taken_is_json) {
    static const char *const good[] = {
        "{}",
        " {\n} ",
        "{\"a\":1}",
        "{\"a\" : [ ] , \"b\":[1,-0.5e-3,true,false,null,\"x\"]}",
        "{\"\\u00e9\\n\\\"\\\\\\/\":{\"k\":[[{}],0,10]}}",
        "{\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\x8e\xed\x9f\xbf\":\"\xf4\x8f\xbf\xbf\"}",
        "{\"n\":[0,-1,12.5,1e5,1E+05,2e-9,0.0]}",
    };
    int changed = 0, taken = 0;
    for (size_t g = 0; g < sizeof good / sizeof good[0]; g++) {
        const size_t n = strlen(good[g]), length = good[g][n - 1] == ' ' ? n - 1 : n;
        EXPECT(whole(good[g], length));
        for (size_t at = 0; at < length; at++)
            for (int c = 0; c < 258; c++) {
                char bytes[200];
                size_t m = at;
                memcpy(bytes, good[g], at);
                if (c < 256) bytes[m++] = (char)c;
                if (c == 257) bytes[m++] = good[g][at], bytes[m++] = good[g][at];
                memcpy(bytes + m, good[g] + at + 1, length - at - 1);
                m += length - at - 1;
                changed++;
                if (!whole(bytes, m)) continue;
                taken++;
                EXPECT(parses(bytes, m));
            }
    }
    EXPECT(changed > 40000 && taken > 1000);
}

TEST(what_is_no_json_is_refused) {
    static const char *const bad[] = {"[]",
                                      "1",
                                      "{,}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{\"a\":[1,]}",
                                      "{\"a\":01}",
                                      "{\"a\":.5}",
                                      "{\"a\":1.}",
                                      "{\"a\":+1}",
                                      "{\"a\":tru}",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":\"\\ud800\"}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"a\":\"\xc0\x80\"}",
                                      "{\"a\":\"\xed\xa0\x80\"}",
                                      "{\"a\":1]",
                                      "{\"a\":1}}",
                                      "{\"a\":1} x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) EXPECT(!whole(bad[i], strlen(bad[i])));
}

/* Like a model over single bytes without preferences: each text is complete within its limit. */
TEST(drawn_text_ends_in_time) {
    propane_error err = {0};
    tokenizer *t;
    rng r;
    int lists = 0, numbers = 0;
    rng_init(&r, 7);
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    const int vocab = tokenizer_vocab_size(t);
    float *logits = calloc((size_t)vocab, sizeof *logits);
    for (int run = 0; run < 400 && logits; run++) {
        json_filter f = {.tokenizer = t};
        char bytes[130];
        const int most = 2 + run % 120;
        int n = 0;
        while (n < most && !json_filter_is_done(&f)) {
            for (int v = 0; v < vocab; v++) logits[v] = 0;
            if (!json_filter_mask(&f, logits, vocab, most - n)) break;
            int32_t id;
            do id = (int32_t)(rng_unit(&r) * vocab);
            while (logits[id] < 0);
            size_t length = 0;
            const char *piece = tokenizer_piece(t, id, &length);
            bytes[n++] = *piece;
            json_filter_take(&f, id);
        }
        EXPECT(json_filter_is_done(&f));
        EXPECT(parses(bytes, (size_t)n));
        lists += memchr(bytes, '[', (size_t)n) != NULL;
        numbers += memchr(bytes, '0', (size_t)n) != NULL;
    }
    EXPECT(lists > 0 && numbers > 0);
    free(logits);
    tokenizer_free(t);
}

/* Too few bytes for any object, and a vocabulary without a brace. */
TEST(nothing_may_come) {
    propane_error err = {0};
    tokenizer *t;
    float logits[300] = {0};
    json_filter f = {0};
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    f.tokenizer = t;
    EXPECT(!json_filter_mask(&f, logits, tokenizer_vocab_size(t), 1));
    memset(logits, 0, sizeof logits);
    EXPECT(json_filter_mask(&f, logits, tokenizer_vocab_size(t), 2));
    tokenizer_free(t);
    EXPECT_OK(tokenizer_create_chars("abc", 3, "text", &t, &err));
    f.tokenizer = t;
    memset(logits, 0, sizeof logits);
    EXPECT(!json_filter_mask(&f, logits, tokenizer_vocab_size(t), 50));
    tokenizer_free(t);
}
SUITE("infer/json_text", T(what_is_taken_is_json), T(what_is_no_json_is_refused), T(drawn_text_ends_in_time),
      T(nothing_may_come))
