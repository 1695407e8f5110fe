/* SPDX-License-Identifier: MIT
 * Tests language models through propane.h: opening, describing, saving in another form, exporting and generating;
 * vocabularies encoded and decoded; and the failure of each memory request.
 */
#include <math.h>
#include <stdlib.h>

#include "propane.h"
#include "support/failing.h"
#include "support/test.h"

#define FOLDER "tests/data/arch_llama3"

static bool collect(void *context, const propane_token *token) {
    text_append_n(context, token->text, token->length);
    return true;
}

static bool first_only(void *context, const propane_token *token) {
    *(double *)context = token->logprob;
    return false;
}

TEST(a_model_is_described_saved_and_exported) {
    propane_error err = {0};
    propane_model *m = NULL, *again = NULL;
    propane_module *program = NULL;
    propane_model_info info = {.size = sizeof info}, other = {.size = sizeof other};
    char *dir = test_temp_dir(), path[1200];
    EXPECT_TEXT(propane_model_form(FOLDER), "folder");
    EXPECT(!propane_model_form("Makefile") && !propane_model_form("/nowhere"));
    EXPECT_OK(propane_model_open(FOLDER, NULL, &m, &err));
    EXPECT(propane_model_describe(m, &info) && info.layers > 0 && info.parameters > 0);
    EXPECT_TEXT(info.architecture, "llama");
    static const char *const names[] = {"a.safetensors", "b.gguf", "c"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        EXPECT_OK(propane_model_save(m, NULL, path, "f32", &err));
        EXPECT_OK(propane_model_open(path, NULL, &again, &err));
        EXPECT(propane_model_describe(again, &other) && other.parameters == info.parameters);
        propane_model_free(again);
    }
    EXPECT_FAIL(propane_model_save(m, NULL, path, "q4_0", &err), PROPANE_ERR_INVALID, "for GGUF files");
    EXPECT_OK(propane_model_export(m, &(propane_export_options){.size = sizeof(propane_export_options), .wide = true},
                                   &program, &err));
    EXPECT(propane_module_feature_count(program, NULL, PROPANE_STATE) == 2);
    propane_module_free(program);
    propane_model_free(m);
    propane_model_free(NULL);
    EXPECT_FAIL(propane_model_open("/nowhere", NULL, &m, &err), PROPANE_ERR_NOT_FOUND, "/nowhere");
    EXPECT(!m);
    propane_free(dir);
}

TEST(ids_are_drawn_scored_and_stopped) {
    static const int32_t prompt[3] = {1, 2, 3};
    propane_error err = {0};
    propane_model *m = NULL;
    propane_generator *g = NULL;
    propane_generation made = {.size = sizeof made};
    double first = 0, nll[3];
    EXPECT_OK(propane_model_open(FOLDER, NULL, &m, &err));
    EXPECT_OK(propane_generator_create(m, NULL, NULL, &g, &err));
    propane_sampling s = {.size = sizeof s};
    propane_sampling_default(&s);
    s.count = 5;
    s.temperature = 0;
    s.logprobs = 0;
    EXPECT_OK(propane_generate_ids(g, prompt, 3, &s, NULL, NULL, &made, &err));
    EXPECT(made.finish == PROPANE_FINISH_LENGTH && made.made == 5 && made.prompt_count == 3);
    EXPECT_OK(propane_generate_ids(g, prompt, 3, &s, first_only, &first, &made, &err));
    EXPECT(made.finish == PROPANE_FINISH_CALLER && made.made == 1 && first < 0 && made.reused > 0);
    EXPECT_OK(propane_generator_score(g, (const int32_t[]){1, 2, 3, 4}, 4, nll, &err));
    for (int i = 0; i < 3; i++) EXPECT(nll[i] > 0 && isfinite(nll[i]));
    EXPECT_FAIL(propane_generate(g, "a", 1, &s, NULL, NULL, NULL, &err), PROPANE_ERR_INVALID, "no tokenizer");
    EXPECT_FAIL(propane_generate_ids(g, prompt, 0, &s, NULL, NULL, NULL, &err), PROPANE_ERR_INVALID, "empty");
    s.logprobs = 99;
    EXPECT_FAIL(propane_generate_ids(g, prompt, 3, &s, NULL, NULL, NULL, &err), PROPANE_ERR_INVALID, "logprobs");
    propane_generator_free(g);
    EXPECT_FAIL(propane_generator_create(
                    m, NULL, &(propane_generator_options){.size = sizeof(propane_generator_options), .weights = "int3"},
                    &g, &err),
                PROPANE_ERR_INVALID, "'int3'");
    EXPECT(!g);
    propane_model_free(m);
}

TEST(text_becomes_ids_and_comes_back) {
    static const char said[] = "the cat sat on the mat, the cat sat";
    propane_error err = {0};
    propane_tokenizer *t = NULL;
    propane_tokenizer_info info = {.size = sizeof info};
    int32_t *ids = NULL;
    int64_t count = 0;
    char *back = NULL;
    size_t length = 0;
    EXPECT_OK(propane_tokenizer_train("bpe", said, strlen(said), 270, &t, &err));
    EXPECT(propane_tokenizer_describe(t, &info) && info.size_of_vocabulary > 256 && strcmp(info.kind, "bpe") == 0);
    EXPECT_OK(propane_tokenizer_encode(t, said, strlen(said), &ids, &count, &err));
    EXPECT(count > 0 && count < (int64_t)strlen(said));
    EXPECT_OK(propane_tokenizer_decode(t, ids, count, &back, &length, &err));
    EXPECT(length == strlen(said));
    EXPECT_TEXT(back, said);
    propane_free(back);
    propane_free(ids);
    EXPECT_FAIL(propane_tokenizer_decode(t, (const int32_t[]){-1}, 1, &back, NULL, &err), PROPANE_ERR_INVALID, "id -1");
    EXPECT_OK(propane_tokenizer_encode(t, "", 0, &ids, &count, &err));
    EXPECT(ids && count == 0);
    propane_free(ids);
    propane_tokenizer_free(t);
    EXPECT_FAIL(propane_tokenizer_train("words", said, 1, 300, &t, &err), PROPANE_ERR_INVALID, "'words'");
    EXPECT_FAIL(propane_tokenizer_train("bpe", said, 1, 5, &t, &err), PROPANE_ERR_INVALID, "257");
}

static propane_status attempt_generator(void *context, text *result, propane_error *err) {
    propane_model *m = NULL;
    propane_generator *g = NULL;
    propane_tokenizer *t = NULL;
    propane_generation made = {.size = sizeof made};
    propane_sampling s = {.size = sizeof s};
    (void)context;
    propane_sampling_default(&s);
    s.count = 2;
    s.temperature = 0;
    propane_status status = propane_tokenizer_train("bytes", NULL, 0, 0, &t, err);
    if (!status) status = propane_model_open(FOLDER, NULL, &m, err);
    if (!status) status = propane_generator_create(m, NULL, NULL, &g, err);
    if (!status) status = propane_generate_ids(g, (const int32_t[]){1, 2}, 2, &s, collect, result, &made, err);
    if (!status) text_printf(result, "%d", (int)made.made);
    propane_generator_free(g);
    propane_model_free(m);
    propane_tokenizer_free(t);
    return !status && result->failed ? propane_fail(err, PROPANE_ERR_MEMORY, "no memory") : status;
}

TEST(without_memory) { EXPECT(test_each_failing_allocation("api generator", attempt_generator, NULL) > 50); }

SUITE("api/generator", T(a_model_is_described_saved_and_exported), T(ids_are_drawn_scored_and_stopped),
      T(text_becomes_ids_and_comes_back), T(without_memory))
