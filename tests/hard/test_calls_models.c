/* SPDX-License-Identifier: MIT
 * Calls on language models, vocabularies and training with each of their requests for memory failing (calls.h).
 */
#include "hard/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

static propane_status models(void *context, text *result, propane_error *err) {
    propane_model *m = NULL;
    propane_tokenizer *t = NULL;
    propane_model_info info = {.size = sizeof info};
    char types[200];
    propane_status status = propane_model_open("r", NULL, &m, err);
    STEP(propane_model_tokenizer(m, &t, err));
    STEP(propane_model_takes(m, t, err));
    TELL("%d %s", propane_model_describe(m, &info), info.architecture);
    TELL("%s", propane_model_types("|", types, sizeof types));
    STEP(propane_model_save(m, t, "out/m.safetensors", "bf16", err));
    STEP(propane_model_save(m, t, "out/m.gguf", NULL, err));
    STEP(propane_model_save(m, t, "out/m", NULL, err));
    propane_tokenizer_free(t);
    propane_model_free(m);
    return calls_end(status, result, err);
}

static propane_status exported(void *context, text *result, propane_error *err) {
    const propane_export_options o = {.size = sizeof o, .stateless = 4};
    propane_model *m = NULL;
    propane_module *program = NULL;
    double loss = 0;
    propane_status status = propane_model_open("r", NULL, &m, err);
    STEP(propane_model_export(m, &o, &program, err));
    STEP(propane_module_write(program, "out/m.mil", PROPANE_MIL_SHORT, err));
    STEP(propane_model_write_gradients(m, (const int32_t[]){1, 2, 3, 4}, 4, NULL, "out/g.safetensors", &loss, err));
    TELL("%.9g", loss);
    propane_module_free(program);
    propane_model_free(m);
    return calls_end(status, result, err);
}

static void print_ids(text *result, const int32_t *ids, int64_t count) {
    for (int64_t i = 0; i < count; i++) text_printf(result, " %d", (int)ids[i]);
}

static propane_status tokenizers(void *context, text *result, propane_error *err) {
    static const char given[] = "line after line, and line after line again";
    propane_tokenizer *t = NULL, *again = NULL;
    propane_tokenizer_info info = {.size = sizeof info};
    int32_t *ids = NULL, *file = NULL;
    int64_t count = 0, file_count = 0, bytes = 0;
    char *decoded = NULL, *shown = NULL;
    const char *hash = NULL;
    size_t length = 0, shown_length = 0;
    propane_status status = propane_tokenizer_train("bpe", given, strlen(given), 262, &t, err);
    STEP(propane_tokenizer_write(t, "out/t.json", err));
    STEP(propane_tokenizer_open("out/t.json", &again, err));
    STEP(propane_tokenizer_encode(again, given, strlen(given), &ids, &count, err));
    STEP(propane_tokenizer_decode(again, ids, count, &decoded, &length, err));
    STEP(propane_tokenizer_show(again, ids, count, true, &shown, &shown_length, err));
    STEP(propane_tokenizer_hash(again, &hash, err));
    STEP(propane_tokenizer_encode_file(again, "t.json", "text.txt", &file, &file_count, &bytes, err));
    if (!status) {
        print_ids(result, ids, count);
        TELL("%s %s %d %d", decoded, shown, (int)file_count, (int)bytes);
        TELL("%d %s %s", propane_tokenizer_describe(t, &info), info.kind, hash);
    }
    propane_free(ids);
    propane_free(file);
    propane_free(decoded);
    propane_free(shown);
    propane_tokenizer_free(again);
    propane_tokenizer_free(t);
    return calls_end(status, result, err);
}

static propane_status corpora(void *context, text *result, propane_error *err) {
    const propane_corpus_options o = {.size = sizeof o, .kind = "chars"};
    propane_corpus *c = NULL;
    propane_tokenizer_info info = {.size = sizeof info};
    propane_status status = propane_corpus_open("text.txt", &o, &c, err);
    STEP(propane_corpus_write(c, "out/t.bin", err));
    if (!status) {
        TELL("%d %d %d", (int)propane_corpus_count(c), (int)propane_corpus_bytes(c), (int)propane_corpus_id(c, 3));
        TELL("%d %s", propane_tokenizer_describe(propane_corpus_tokenizer(c), &info), info.kind);
    }
    propane_corpus_free(c);
    return calls_end(status, result, err);
}

/* A model with its tokenizer and a generator. */
typedef struct writer {
    propane_model *m;
    propane_tokenizer *t;
    propane_generator *g;
    propane_sampling sampling;
} writer;

static propane_status writer_open(writer *w, int parallel, propane_error *err) {
    const propane_generator_options o = {.size = sizeof o, .parallel = parallel, .weights = "fp32"};
    *w = (writer){.sampling = {.size = sizeof w->sampling}};
    propane_sampling_default(&w->sampling);
    w->sampling.count = 3;
    w->sampling.temperature = 0;
    propane_status status = propane_model_open("r", NULL, &w->m, err);
    STEP(propane_model_tokenizer(w->m, &w->t, err));
    STEP(propane_generator_create(w->m, w->t, &o, &w->g, err));
    return status;
}

static void writer_close(writer *w) {
    propane_generator_free(w->g);
    propane_tokenizer_free(w->t);
    propane_model_free(w->m);
}

static bool take_token(void *context, const propane_token *token) {
    text_printf(context, " %d", (int)token->id);
    text_append_n(context, token->text ? token->text : "", token->length);
    return true;
}

static propane_status generated(void *context, text *result, propane_error *err) {
    static const propane_chat_message say[] = {{"user", "a"}};
    propane_generation made = {.size = sizeof made};
    writer w;
    text got = {0};
    propane_status status = writer_open(&w, 1, err);
    w.sampling.logprobs = 2;
    STEP(propane_sampling_check(&w.sampling, err));
    STEP(propane_generate(w.g, "li", 2, &w.sampling, take_token, &got, &made, err));
    STEP(propane_generate_ids(w.g, (const int32_t[]){1, 2}, 2, &w.sampling, take_token, &got, &made, err));
    w.sampling.count = 2;
    STEP(propane_generate_chat(w.g, "plain", say, 1, &w.sampling, take_token, &got, &made, err));
    TELL("%s %s %d", got.data ? got.data : "", propane_finish_name(made.finish), (int)propane_generator_context(w.g));
    if (!status && got.failed)
        status = propane_generate(w.g, "", 0, NULL, NULL, NULL, NULL, err); /* reports the lack of memory */
    text_deinit(&got);
    writer_close(&w);
    return calls_end(status, result, err);
}

static propane_status scored(void *context, text *result, propane_error *err) {
    static const int32_t ids[] = {108, 105, 110, 101, 32, 49};
    double nll[5] = {0}, mean = 0, mean_examples = 0;
    float embedding[64] = {0};
    int64_t predictions = 0, examples = 0;
    propane_chat *chat = NULL;
    writer w;
    propane_status status = writer_open(&w, 1, err);
    STEP(propane_generator_score(w.g, ids, 6, nll, err));
    STEP(propane_generator_embed(w.g, ids, 6, embedding, err));
    STEP(propane_generator_loss(w.g, ids, 6, &mean, &predictions, err));
    STEP(propane_generator_write_logits(w.g, ids, 6, "out/l.safetensors", err));
    STEP(propane_chat_open(w.m, w.t, "plain", &chat, err));
    STEP(propane_generator_loss_examples(w.g, chat, "examples.jsonl", &mean_examples, &predictions, &examples, err));
    TELL("%.6g %.6g %.6g %.6g %d", (double)embedding[0], nll[0], mean, mean_examples, (int)examples);
    propane_chat_free(chat);
    writer_close(&w);
    return calls_end(status, result, err);
}

static propane_status chats(void *context, text *result, propane_error *err) {
    static const propane_chat_message say[] = {{"system", "be short"}, {"user", "a"}};
    propane_model *m = NULL;
    propane_tokenizer *t = NULL;
    propane_chat *c = NULL;
    int32_t *ids = NULL;
    int64_t count = 0;
    int dropped = -1;
    propane_status status = propane_model_open("r", NULL, &m, err);
    STEP(propane_model_tokenizer(m, &t, err));
    STEP(propane_chat_open(m, t, "chatml", &c, err));
    STEP(propane_chat_encode(c, say, 2, 200, &ids, &count, &dropped, err));
    if (!status) print_ids(result, ids, count);
    TELL("%d %s", dropped, propane_chat_format(c));
    propane_free(ids);
    propane_chat_free(c);
    propane_tokenizer_free(t);
    propane_model_free(m);
    return calls_end(status, result, err);
}

static propane_status streams(void *context, text *result, propane_error *err) {
    propane_stream *s[2] = {0};
    propane_generation made = {.size = sizeof made};
    text got[2] = {{0}};
    writer w;
    propane_status status = writer_open(&w, 2, err);
    for (int i = 0; i < 2; i++)
        STEP(propane_stream_begin(w.g, (const int32_t[]){108, 105 + i}, 2, &w.sampling, take_token, &got[i], &s[i],
                                  err));
    while (!status && !(propane_stream_done(s[0]) && propane_stream_done(s[1])))
        STEP(propane_generator_advance(w.g, err));
    for (int i = 0; i < 2; i++) STEP(propane_stream_result(s[i], &made, err));
    TELL("%d %s|%s", propane_generator_parallel(w.g), got[0].data ? got[0].data : "", got[1].data ? got[1].data : "");
    if (!status && (got[0].failed || got[1].failed)) /* reports the lack of memory */
        status = propane_generate(w.g, "", 0, NULL, NULL, NULL, NULL, err);
    for (int i = 0; i < 2; i++) {
        propane_stream_free(s[i]);
        text_deinit(&got[i]);
    }
    writer_close(&w);
    return calls_end(status, result, err);
}

/* ---- training --------------------------------------------------------------------------------------------------------------- */

static propane_status options(void *context, text *result, propane_error *err) {
    propane_options *o = NULL;
    propane_option_info info = {.size = sizeof info};
    char *lr = NULL;
    propane_status status = propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, err);
    STEP(propane_options_set(o, "data", "text.txt", err));
    STEP(propane_options_parse(o, "{\"steps\": 3}", 12, "options", err));
    STEP(propane_options_load(o, "options.json", err));
    STEP(propane_options_get(o, "lr", &lr, err));
    STEP(propane_options_recall(o, err));
    STEP(propane_options_check(o, err));
    TELL("%s %d %s", lr, propane_options_describe(o, 0, &info), info.name);
    if (!status) propane_options_set_ranks(o, NULL);
    propane_free(lr);
    propane_options_free(o);
    return calls_end(status, result, err);
}

static propane_status set_all(propane_options *o, const char *const (*set)[2], int count, propane_error *err) {
    propane_status status = PROPANE_OK;
    for (int i = 0; i < count; i++) STEP(propane_options_set(o, set[i][0], set[i][1], err));
    return status;
}

static void print_trainer(text *result, const propane_trainer *t) {
    propane_trainer_info info = {.size = sizeof info};
    propane_tokenizer_info vocabulary = {.size = sizeof vocabulary};
    propane_trained_tensor tensor = {.size = sizeof tensor};
    propane_profile_row row = {.size = sizeof row};
    int32_t ids[8];
    text_printf(result, "%d %d %d", propane_trainer_describe(t, &info), (int)info.step, (int)info.parameters);
    text_printf(result, "%d %s", propane_trainer_tensor(t, 0, &tensor), tensor.name);
    text_printf(result, "%d", propane_tokenizer_describe(propane_trainer_tokenizer(t), &vocabulary));
    text_printf(result, "%d %d", (int)propane_trainer_prompt(t, 0, 1, ids, 8), propane_trainer_profile_count(t) > 0);
    text_printf(result, "%d", propane_trainer_profile_get(t, 0, &row));
}

static propane_status trained(void *context, text *result, propane_error *err) {
    static const char *const set[][2] = {{"kind", "bytes"},     {"layers", "1"},      {"width", "16"},
                                         {"heads", "2"},        {"context", "16"},    {"batch", "2"},
                                         {"steps", "4"},        {"data", "text.txt"}, {"run", "out/r"},
                                         {"eval-batches", "1"}, {"profile", "true"}};
    propane_options *o = NULL;
    propane_device *d = NULL;
    propane_trainer *t = NULL;
    propane_model *m = NULL;
    propane_step step = {.size = sizeof step};
    propane_evaluation evaluation = {.size = sizeof evaluation};
    propane_trained_tensor tensor = {.size = sizeof tensor};
    static float values[65536];
    char *facts = NULL, *option = NULL;
    propane_status status = propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, err);
    STEP(set_all(o, set, sizeof set / sizeof set[0], err));
    STEP(propane_device_open("cpu", &d, err));
    STEP(propane_options_set_device(o, d, err));
    STEP(propane_trainer_create(o, NULL, &t, err));
    STEP(propane_trainer_step(t, &step, err));
    STEP(propane_trainer_advance(t, 1, NULL, err));
    STEP(propane_trainer_evaluate(t, &evaluation, err));
    if (!status) status = propane_trainer_tensor(t, 0, &tensor) ? PROPANE_OK : PROPANE_ERR_INVALID;
    STEP(propane_trainer_get(t, 0, values, tensor.count, err));
    if (!status) {
        propane_tensor again = {.name = tensor.name, .dtype = PROPANE_FP32, .rank = tensor.rank, .values = values};
        memcpy(again.dim, tensor.dim, sizeof again.dim);
        status = propane_trainer_set(t, &again, 1, err);
    }
    STEP(propane_trainer_facts(t, &facts, err));
    STEP(propane_trainer_option(t, "lr", &option, err));
    STEP(propane_trainer_model(t, &m, err));
    STEP(propane_trainer_save(t, err));
    STEP(propane_trainer_write(t, "out/w.safetensors", err));
    if (!status) propane_trainer_ask_save(t);
    STEP(propane_trainer_run(t, NULL, err));
    if (!status) propane_trainer_cancel(t);
    TELL("%.9g %.9g %s", step.loss, evaluation.loss, option);
    if (!status) print_trainer(result, t);
    propane_free(facts);
    propane_free(option);
    propane_model_free(m);
    propane_trainer_free(t);
    propane_device_close(d);
    propane_options_free(o);
    return calls_end(status, result, err);
}

static propane_status resumed(void *context, text *result, propane_error *err) {
    static const char *const set[][2] = {{"data", "text.txt"}, {"run", "out/r"}, {"resume", "true"}, {"steps", "3"}};
    propane_options *o = NULL;
    propane_trainer *t = NULL;
    propane_status status = system("cp -r r out/r") ? PROPANE_ERR_IO : PROPANE_OK;
    STEP(propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, err));
    STEP(set_all(o, set, 4, err));
    STEP(propane_trainer_create(o, NULL, &t, err));
    STEP(propane_trainer_run(t, NULL, err));
    propane_trainer_free(t);
    propane_options_free(o);
    return calls_end(status, result, err);
}

static propane_status program_trained(void *context, text *result, propane_error *err) {
    static const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, y[8] = {1, 0, 0, 1, 1, 1, 0, 0};
    const propane_tensor arrays[] = {{"x", PROPANE_FP32, 3, {4, 1, 3}, x}, {"y", PROPANE_FP32, 3, {4, 1, 2}, y}};
    const propane_data data = {.size = sizeof data, .arrays = arrays, .array_count = 2};
    static const char *const set[][2] = {
        {"model", "m.mil"}, {"steps", "2"}, {"val-fraction", "0"}, {"loss", "mse"}, {"trainable", "*"}};
    propane_options *o = NULL;
    propane_trainer *t = NULL;
    propane_step step = {.size = sizeof step};
    propane_status status = propane_options_create(PROPANE_TRAIN_PROGRAM, &o, err);
    STEP(set_all(o, set, 5, err));
    STEP(propane_trainer_create(o, &data, &t, err));
    STEP(propane_trainer_step(t, &step, err));
    STEP(propane_trainer_run(t, NULL, err));
    TELL("%.9g", step.loss);
    propane_trainer_free(t);
    propane_options_free(o);
    return calls_end(status, result, err);
}

#define TRY(title, ...)                                                                                                \
    TEST(title) {                                                                                                      \
        static const calls_row rows[] = {__VA_ARGS__};                                                                 \
        calls_enter(true);                                                                                             \
        calls_try(rows, sizeof rows / sizeof rows[0]);                                                                 \
    }

TRY(calls_on_models, {"models", models}, {"export", exported}, {"tokenizers", tokenizers}, {"corpora", corpora})
TRY(calls_on_generators, {"generate", generated}, {"score", scored}, {"chats", chats}, {"streams", streams})
TRY(calls_on_trainers, {"options", options}, {"program", program_trained}, {"trainer", trained}, {"resume", resumed})

SUITE("hard/calls_models", T(calls_on_models), T(calls_on_generators), T(calls_on_trainers))
