/* SPDX-License-Identifier: MIT
 * Tests every call of lm.h with each argument wrong in turn (call_table.h), on a run of a tiny model and its adapter.
 */
#include "api/call_table.h"
#include "core/base/file.h"
#include "support/test.h"

static const char said[] =
    "a small text that is long enough to learn from: one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three\n";
static const char small[] =
    "{\"kind\": \"bytes\", \"layers\": 1, \"width\": 8, \"heads\": 2, \"hidden\": 16, \"context\": 64, \"batch\": 1, "
    "\"steps\": 1, \"held-out\": 0.5, \"eval-batches\": 1, \"lr\": 1e-2, \"warmup\": 0}";
static const char lora[] =
    "{\"lora-rank\": 2, \"context\": 64, \"batch\": 1, \"steps\": 1, \"held-out\": 0.5, \"eval-batches\": 1}";
static const char pairs[] = "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"c\", \"completion\": \"d\"}\n";

enum { PATH_ROOM = 1200 };

static struct {
    char *dir, run_path[PATH_ROOM], adapter_path[PATH_ROOM], text_path[PATH_ROOM], examples_path[PATH_ROOM],
        made_weights[PATH_ROOM], made_gguf[PATH_ROOM], made_tokenizer[PATH_ROOM], made_tokens[PATH_ROOM],
        made_logits[PATH_ROOM];
    propane_model *model;
    propane_tokenizer *tokenizer;
    propane_corpus *corpus;
    propane_generator *generator, *streamer;
    propane_stream *stream;
    propane_chat *chat;
    propane_plan *plan;
    propane_trainer *trainer;
    /* The objects that arguments point to. */
    propane_model_info model_info;
    propane_export_options export;
    propane_tokenizer_info tokenizer_info;
    propane_corpus_options corpus_options;
    propane_generator_options generator_options;
    propane_sampling sampling;
    propane_generation generation;
    propane_chat_message messages[1];
    propane_gradient_options gradient_options;
    propane_plan_options plan_options;
    propane_training_estimate_options estimate_options;
    propane_where_options where_options;
    int32_t ids[4], drawn[8];
    double nll[4], real;
    float embedding[8];
    char words[200];
    int64_t count, byte_count;
    size_t size;
    int number;
    /* Results of calls, freed after each call. */
    struct {
        propane_model *model;
        propane_module *module;
        propane_tokenizer *tokenizer;
        propane_corpus *corpus;
        propane_generator *generator;
        propane_stream *stream;
        propane_chat *chat;
        propane_plan *plan;
        const char *hash;
        int32_t *ids;
        char *text;
    } out;
} f;

static propane_error err;

static bool take_token(void *context, const propane_token *token) {
    (void)context;
    return token->id >= -1;
}

static bool go_on(void *context, int64_t done, int64_t total, double mean) {
    (void)context, (void)mean;
    return done <= total;
}

static void free_all(void) {
    propane_stream_free(f.out.stream);
    propane_generator_free(f.out.generator);
    propane_chat_free(f.out.chat);
    propane_plan_free(f.out.plan);
    propane_corpus_free(f.out.corpus);
    propane_tokenizer_free(f.out.tokenizer);
    propane_module_free(f.out.module);
    propane_model_free(f.out.model);
    propane_free(f.out.ids);
    propane_free(f.out.text);
    memset(&f.out, 0, sizeof f.out);
}

/* ---- state that no refused call may change
 * ------------------------------------------------------------------------------------- */

static void look_at_all(text *to) {
    propane_trainer_info info = {.size = sizeof info};
    double nll[3];
    const char *hash = NULL;
    EXPECT_OK(propane_generator_score(f.generator, f.ids, 4, nll, &err));
    EXPECT_OK(propane_tokenizer_hash(f.tokenizer, &hash, &err));
    EXPECT(propane_trainer_describe(f.trainer, &info));
    text_printf(to, "%a %a, %s, step %lld, %d\n", nll[0], nll[2], hash, (long long)info.step,
                (int)propane_corpus_id(f.corpus, 5));
}

/* ---- the fixture --------------------------------------------------------------------------------------------------------------- */

static void make_path(char out[PATH_ROOM], const char *name) { snprintf(out, PATH_ROOM, "%s/%s", f.dir, name); }

static void make_paths(void) {
    f.dir = test_temp_dir();
    make_path(f.run_path, "run");
    make_path(f.adapter_path, "adapter");
    make_path(f.text_path, "text.txt");
    make_path(f.examples_path, "examples.jsonl");
    make_path(f.made_weights, "made.safetensors");
    make_path(f.made_gguf, "made.gguf");
    make_path(f.made_tokenizer, "made.json");
    make_path(f.made_tokens, "made.bin");
    make_path(f.made_logits, "logits.safetensors");
    EXPECT_OK(file_write(f.text_path, said, sizeof said - 1, &err));
    EXPECT_OK(file_write(f.examples_path, pairs, sizeof pairs - 1, &err));
}

static propane_trainer *train(const char *how, const char *run, const char *init) {
    propane_options *o = NULL;
    propane_trainer *t = NULL;
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, &err));
    EXPECT_OK(propane_options_parse(o, how, strlen(how), "o.json", &err));
    EXPECT_OK(propane_options_set(o, "data", f.text_path, &err));
    EXPECT_OK(propane_options_set(o, "run", run, &err));
    if (init) EXPECT_OK(propane_options_set(o, "init", init, &err));
    EXPECT_OK(propane_trainer_create(o, NULL, &t, &err));
    EXPECT_OK(propane_trainer_run(t, NULL, &err));
    propane_options_free(o);
    return t;
}

static void make_all(void) {
    const propane_generator_options two = {.size = sizeof two, .parallel = 2};
    make_paths();
    f.trainer = train(small, f.run_path, NULL);
    propane_trainer_free(train(lora, f.adapter_path, f.run_path));
    EXPECT_OK(propane_model_open(f.run_path, NULL, &f.model, &err));
    EXPECT_OK(propane_model_tokenizer(f.model, &f.tokenizer, &err));
    EXPECT_OK(propane_corpus_open(f.text_path, NULL, &f.corpus, &err));
    EXPECT_OK(propane_generator_create(f.model, f.tokenizer, NULL, &f.generator, &err));
    EXPECT_OK(propane_generator_create(f.model, f.tokenizer, &two, &f.streamer, &err));
    f.sampling.size = sizeof f.sampling;
    propane_sampling_default(&f.sampling);
    f.sampling.count = 2;
    f.messages[0] = (propane_chat_message){"user", "a"};
    for (int i = 0; i < 4; i++) f.ids[i] = 'a' + i;
    EXPECT_OK(propane_stream_begin(f.streamer, f.ids, 3, &f.sampling, NULL, NULL, &f.stream, &err));
    while (!propane_stream_done(f.stream)) EXPECT_OK(propane_generator_advance(f.streamer, &err));
    EXPECT_OK(propane_chat_open(f.model, f.tokenizer, "plain", &f.chat, &err));
    const propane_plan_options for_engine = {.size = sizeof for_engine, .precision = "fp16", .context = 64};
    EXPECT_OK(propane_plan_create(f.run_path, &for_engine, &f.plan, &err));
}

static void free_fixture(void) {
    propane_trainer_free(f.trainer);
    propane_plan_free(f.plan);
    propane_chat_free(f.chat);
    propane_stream_free(f.stream);
    propane_generator_free(f.generator);
    propane_generator_free(f.streamer);
    propane_corpus_free(f.corpus);
    propane_tokenizer_free(f.tokenizer);
    propane_model_free(f.model);
    propane_free(f.dir);
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------ */

#include "api/call_rows.h"
#include "api/calls/lm.def"

static const call_row rows[] = {
#define CALL_LIST
#include "api/call_rows.h"
#include "api/calls/lm.def"
};

TEST(each_argument_wrong_in_turn) {
    static const char *const headers[] = {"lm", NULL};
    const call_table table = {rows, (int)(sizeof rows / sizeof rows[0]), headers, free_all, look_at_all};
    make_all();
    calls_check(&table);
    free_fixture();
}

/* ---- lists and structures ------------------------------------------------------------------------------------------------------ */

static void refuse_sampling(propane_sampling s, const char *part) {
    propane_stream *stream = NULL;
    EXPECT_FAIL(propane_sampling_check(&s, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_generate_ids(f.generator, f.ids, 3, &s, NULL, NULL, NULL, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_generate(f.generator, "a", 1, &s, NULL, NULL, NULL, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_generate_chat(f.generator, "plain", f.messages, 1, &s, NULL, NULL, NULL, &err),
                PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_stream_begin(f.streamer, f.ids, 3, &s, NULL, NULL, &stream, &err), PROPANE_ERR_INVALID, part);
    EXPECT(!stream);
}

TEST(how_ids_are_drawn) {
    const char *const stops[] = {"a", NULL};
    make_all();
    propane_sampling s = f.sampling;
    s.stop_count = 1;
    refuse_sampling(s, "stops must not be NULL if stop_count is 1");
    s.stops = stops, s.stop_count = 2;
    refuse_sampling(s, "stops[1] must not be NULL");
    s.stop_count = -1;
    refuse_sampling(s, "stop_count is -1");
    s.stop_count = PROPANE_MAX_STOPS + 1;
    refuse_sampling(s, "17 stop strings");
    s.stop_count = 0, s.count = -1;
    refuse_sampling(s, "count");
    s.count = 1, s.logprobs = PROPANE_MAX_LOGPROBS + 1;
    refuse_sampling(s, "logprobs");
    s.logprobs = -1, s.temperature = -1;
    refuse_sampling(s, "temperature");
    free_fixture();
}

static void refuse_messages(const propane_chat_message *messages, const char *part) {
    int32_t *ids = NULL;
    int64_t count = 0;
    EXPECT_FAIL(propane_chat_encode(f.chat, messages, 1, 60, &ids, &count, NULL, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_generate_chat(f.generator, "plain", messages, 1, NULL, NULL, NULL, NULL, &err),
                PROPANE_ERR_INVALID, part);
    EXPECT(!ids);
}

TEST(messages_options_and_ids) {
    const int32_t high[4] = {1, 2, 100000, 3}, low[4] = {1, -2, 3, 4};
    const int64_t lengths[1] = {0};
    propane_export_options export = {.size = sizeof export, .length_count = 1};
    propane_generator_options options = {.size = sizeof options, .parallel = PROPANE_MAX_PARALLEL + 1};
    propane_module *m = NULL;
    propane_generator *g = NULL;
    propane_tokenizer *large = NULL;
    char *text_of = NULL;
    double nll[4];
    make_all();
    refuse_messages(&(propane_chat_message){NULL, "a"}, "messages[0] has no role");
    refuse_messages(&(propane_chat_message){"user", NULL}, "messages[0] has no content");
    EXPECT_FAIL(propane_model_export(f.model, &export, &m, &err), PROPANE_ERR_INVALID, "lengths must not be NULL");
    export.lengths = lengths;
    EXPECT_FAIL(propane_model_export(f.model, &export, &m, &err), PROPANE_ERR_INVALID, "0");
    EXPECT_FAIL(propane_generator_create(f.model, NULL, &options, &g, &err), PROPANE_ERR_INVALID, "parallel is 257");
    options.parallel = 0, options.context = -1;
    EXPECT_FAIL(propane_generator_create(f.model, NULL, &options, &g, &err), PROPANE_ERR_INVALID, "-1");
    options.context = 0, options.chunk = -1;
    EXPECT_FAIL(propane_generator_create(f.model, NULL, &options, &g, &err), PROPANE_ERR_INVALID, "-1");
    /* ids of another vocabulary, and the vocabulary itself */
    EXPECT_FAIL(propane_generator_score(f.generator, high, 4, nll, &err), PROPANE_ERR_INVALID, "100000");
    EXPECT_FAIL(propane_generator_score(f.generator, low, 4, nll, &err), PROPANE_ERR_INVALID, "-2");
    EXPECT_FAIL(propane_generate_ids(f.generator, high, 4, NULL, NULL, NULL, NULL, &err), PROPANE_ERR_INVALID,
                "100000");
    EXPECT_FAIL(propane_model_write_gradients(f.model, high, 4, NULL, f.made_logits, NULL, &err), PROPANE_ERR_INVALID,
                "100000");
    EXPECT_FAIL(propane_generator_write_logits(f.generator, low, 4, f.made_logits, &err), PROPANE_ERR_INVALID, "-2");
    EXPECT_FAIL(propane_tokenizer_decode(f.tokenizer, high, 4, &text_of, NULL, &err), PROPANE_ERR_INVALID, "100000");
    EXPECT_OK(propane_tokenizer_show(f.tokenizer, high + 2, 1, false, &text_of, NULL, &err));
    EXPECT_TEXT(text_of, "");
    propane_free(text_of);
    text_of = NULL;
    EXPECT_OK(propane_tokenizer_train("bpe", said, strlen(said), 270, &large, &err));
    EXPECT_FAIL(propane_generator_create(f.model, large, NULL, &g, &err), PROPANE_ERR_INVALID, "vocabulary");
    EXPECT_FAIL(propane_model_takes(f.model, large, &err), PROPANE_ERR_INVALID, "vocabulary");
    EXPECT(!m && !g && !text_of);
    propane_tokenizer_free(large);
    free_fixture();
}

SUITE("api/calls_lm", T(each_argument_wrong_in_turn), T(how_ids_are_drawn), T(messages_options_and_ids))
