/* SPDX-License-Identifier: MIT
 * Tests several texts at the same time: each is the same as when generated alone, their number is limited, and each
 * memory request may fail. Also tests losses and corpora through propane.h.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "propane.h"
#include "support/failing.h"
#include "support/test.h"

#define FOLDER "tests/data/arch_llama3"
enum { STREAMS = 3, IDS = 6 };

typedef struct written {
    int32_t ids[IDS];
    int count;
} written;

static bool note(void *context, const propane_token *token) {
    written *w = context;
    if (token->id >= 0 && w->count < IDS) w->ids[w->count++] = token->id;
    return true;
}

static const int32_t prompts[STREAMS][4] = {{1, 2, 3, 4}, {7, 5}, {9, 9, 9}};
static const int lengths[STREAMS] = {4, 2, 3};

static propane_sampling sampling_of(int index) {
    propane_sampling s = {.size = sizeof s};
    propane_sampling_default(&s);
    s.count = IDS - index; /* they end at different times */
    s.seed = (uint64_t)index + 5;
    return s;
}

static propane_status write_all(propane_generator *g, written out[STREAMS], propane_error *err) {
    propane_stream *streams[STREAMS] = {NULL};
    propane_status status = PROPANE_OK;
    bool going = true;
    for (int i = 0; i < STREAMS && !status; i++) {
        const propane_sampling s = sampling_of(i);
        status = propane_stream_begin(g, prompts[i], lengths[i], &s, note, &out[i], &streams[i], err);
    }
    while (!status && going) {
        going = false;
        status = propane_generator_advance(g, err);
        for (int i = 0; i < STREAMS; i++) going |= !propane_stream_done(streams[i]);
    }
    for (int i = 0; i < STREAMS; i++) {
        propane_generation done = {.size = sizeof done};
        if (!status) status = propane_stream_result(streams[i], &done, err);
        if (!status) EXPECT(done.made == IDS - i && done.finish == PROPANE_FINISH_LENGTH);
        propane_stream_free(streams[i]);
    }
    return status;
}

TEST(each_text_is_what_it_is_alone) {
    propane_error err = {0};
    propane_model *m = NULL;
    propane_generator *one = NULL, *several = NULL;
    propane_stream *extra = NULL;
    written together[STREAMS] = {{{0}, 0}}, alone[STREAMS] = {{{0}, 0}};
    const propane_generator_options options = {.size = sizeof options, .parallel = STREAMS};
    EXPECT_OK(propane_model_open(FOLDER, NULL, &m, &err));
    EXPECT_OK(propane_generator_create(m, NULL, NULL, &one, &err));
    EXPECT_OK(propane_generator_create(m, NULL, &options, &several, &err));
    EXPECT(propane_generator_parallel(one) == 1 && propane_generator_parallel(several) == STREAMS);
    for (int round = 0; round < 2; round++) { /* the slots are free again */
        memset(together, 0, sizeof together);
        EXPECT_OK(write_all(several, together, &err));
    }
    for (int i = 0; i < STREAMS; i++) {
        const propane_sampling s = sampling_of(i);
        EXPECT_OK(propane_generate_ids(one, prompts[i], lengths[i], &s, note, &alone[i], NULL, &err));
        EXPECT_MSG(memcmp(&alone[i], &together[i], sizeof alone[i]) == 0, "text %d: %d ids, first %d and %d", i,
                   together[i].count, alone[i].ids[0], together[i].ids[0]);
    }
    const propane_sampling s = sampling_of(0);
    propane_stream *held = NULL;
    EXPECT_OK(propane_stream_begin(one, prompts[0], 4, &s, NULL, NULL, &held, &err));
    EXPECT_FAIL(propane_stream_begin(one, prompts[1], 2, &s, NULL, NULL, &extra, &err), PROPANE_ERR_LIMIT, "parallel");
    EXPECT_FAIL(propane_generate_ids(one, prompts[1], 2, &s, NULL, NULL, NULL, &err), PROPANE_ERR_LIMIT, "stream");
    EXPECT_FAIL(propane_stream_result(held, NULL, &err), PROPANE_ERR_INVALID, "still");
    propane_stream_free(held);
    propane_stream_free(NULL);
    EXPECT_FAIL(propane_stream_begin(one, prompts[1], 0, &s, NULL, NULL, &extra, &err), PROPANE_ERR_INVALID, "empty");
    propane_generator_free(one);
    propane_generator_free(several);
    EXPECT_FAIL(propane_generator_create(
                    m, NULL, &(propane_generator_options){.size = sizeof(propane_generator_options), .parallel = 257},
                    &one, &err),
                PROPANE_ERR_INVALID, "parallel is 257");
    propane_model_free(m);
}

TEST(a_loss_is_the_mean_of_the_scores) {
    propane_error err = {0};
    propane_model *m = NULL;
    propane_generator *g = NULL;
    const int32_t ids[] = {3, 1, 4, 1, 5, 9};
    double nll[5], mean = 0, sum = 0;
    int64_t predictions = 0;
    EXPECT_OK(propane_model_open(FOLDER, NULL, &m, &err));
    EXPECT_OK(propane_generator_create(m, NULL, NULL, &g, &err));
    EXPECT_OK(propane_generator_score(g, ids, 6, nll, &err));
    EXPECT_OK(propane_generator_loss(g, ids, 6, &mean, &predictions, &err));
    for (int i = 0; i < 5; i++) sum += nll[i];
    EXPECT_MSG(predictions == 5 && fabs(sum / 5 - mean) < 1e-9, "%g and %g", sum / 5, mean);
    EXPECT_FAIL(propane_generator_loss(g, ids, 1, &mean, NULL, &err), PROPANE_ERR_INVALID,
                "there is nothing to predict");
    EXPECT_FAIL(propane_model_write_gradients(m, ids, 1, NULL, "/nowhere/g", NULL, &err), PROPANE_ERR_INVALID,
                "there is nothing to predict");
    propane_generator_free(g);
    propane_model_free(m);
}

TEST(a_corpus_is_its_text) {
    static const char said[] = "one two three two one two three";
    propane_error err = {0};
    propane_corpus *c = NULL, *again = NULL;
    char *dir = test_temp_dir(), path[1200], tokens[1200], vocabulary[1200];
    snprintf(path, sizeof path, "%s/said.txt", dir);
    snprintf(tokens, sizeof tokens, "%s/said.tokens", dir);
    snprintf(vocabulary, sizeof vocabulary, "%s/v.json", dir);
    FILE *f = fopen(path, "wb");
    EXPECT(f && fwrite(said, 1, sizeof said - 1, f) == sizeof said - 1 && fclose(f) == 0);
    propane_corpus_options options = {.size = sizeof options, .vocabulary = 260};
    EXPECT_OK(propane_corpus_open(path, &options, &c, &err));
    EXPECT(propane_corpus_bytes(c) == (int64_t)sizeof said - 1 && propane_corpus_count(c) > 0);
    EXPECT_OK(propane_corpus_write(c, tokens, &err));
    EXPECT_OK(propane_tokenizer_write(propane_corpus_tokenizer(c), vocabulary, &err));
    options.tokenizer = vocabulary;
    EXPECT_OK(propane_corpus_open(tokens, &options, &again, &err));
    EXPECT(propane_corpus_count(again) == propane_corpus_count(c));
    for (int64_t i = 0; i < propane_corpus_count(c); i++)
        EXPECT(propane_corpus_id(c, i) == propane_corpus_id(again, i));
    EXPECT(propane_corpus_id(c, -1) == -1 && propane_corpus_id(again, propane_corpus_count(again)) == -1);
    propane_corpus_free(c);
    propane_corpus_free(again);
    options.kind = "words";
    EXPECT_FAIL(propane_corpus_open(path, &options, &c, &err), PROPANE_ERR_INVALID, "'words'");
    mem_free(dir);
}

static propane_status attempt_streams(void *context, text *result, propane_error *err) {
    propane_model *m = NULL;
    propane_generator *g = NULL;
    written out[STREAMS] = {{{0}, 0}};
    const propane_generator_options options = {.size = sizeof options, .parallel = STREAMS};
    (void)context;
    propane_status status = propane_model_open(FOLDER, NULL, &m, err);
    if (!status) status = propane_generator_create(m, NULL, &options, &g, err);
    if (!status) status = write_all(g, out, err);
    for (int i = 0; i < STREAMS && !status; i++) text_printf(result, "%d ", (int)out[i].ids[0]);
    propane_generator_free(g);
    propane_model_free(m);
    return !status && result->failed ? propane_fail(err, PROPANE_ERR_MEMORY, "no memory") : status;
}

TEST(without_memory) { EXPECT(test_each_failing_allocation("api streams", attempt_streams, NULL) > 50); }

SUITE("api/stream", T(each_text_is_what_it_is_alone), T(a_loss_is_the_mean_of_the_scores), T(a_corpus_is_its_text),
      T(without_memory))
