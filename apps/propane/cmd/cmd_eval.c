/* SPDX-License-Identifier: MIT
 * propane eval: computes a model's mean loss on a text or on a given sequence of ids.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/model_flags.h"
#include "apps/propane/ids.h"
#include "apps/propane/progress.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

typedef struct eval_job {
    opened_model m;
    const char *data, *chat, *ids_path, *logits, *gradients, *plan;
    bool json;
    const char *progress; /* the value of --progress */
    bool drawn;           /* a redrawn line is on the terminal */
    int64_t begun_ns, shown_ns;
    int32_t *ids;
    int64_t count;
    int64_t text_bytes; /* size of the text; 0 if not known */
    int64_t examples;   /* number of examples of instruction data; 0 for other data */
} eval_job;

static propane_status cmd_eval_parse_ids(eval_job *j, propane_error *err) {
    char *data = NULL;
    size_t length = 0;
    id_list list = {0};
    PROPANE_TRY(file_read_stream(j->ids_path, (size_t)1 << 30, &data, &length, err));
    propane_status status = ids_parse(data, length, j->ids_path, j->m.info.vocabulary, &list, err);
    j->ids = list.ids;
    j->count = list.count;
    mem_free(data);
    return status;
}

static propane_status cmd_eval_read_ids(eval_job *j, propane_error *err) {
    const char *path = j->ids_path ? j->ids_path : j->data;
    if (j->ids_path) {
        PROPANE_TRY(cmd_eval_parse_ids(j, err));
    } else {
        PROPANE_TRY(opened_model_tokenizer(&j->m, err));
        PROPANE_TRY(propane_tokenizer_encode_file(j->m.tokenizer, j->m.vocabulary ? j->m.vocabulary : j->m.model, path,
                                                  &j->ids, &j->count, &j->text_bytes, err));
    }
    if (j->count >= 2) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: %" PRId64 " token%s; a loss needs at least two", path, j->count,
                        text_plural(j->count));
}

/* Checks before anything is computed that the ids fit into one context, for which logits and gradients are written. For
 * gradients there may be one more id, because the last one is only a target. */
static propane_status cmd_eval_check_room(const eval_job *j, propane_error *err) {
    int64_t window = j->m.context ? j->m.context : j->m.info.context;
    int64_t room = j->logits ? window : window + 1;
    if ((j->logits || j->gradients) && j->count > room)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s accepts at most %" PRId64 " ids (a context of %" PRId64 "), but there are %" PRId64
                            ": give fewer",
                            j->logits ? "--logits" : "--gradients", room, window, j->count);
    return PROPANE_OK;
}

static propane_status cmd_eval_write_gradients(eval_job *j, propane_error *err) {
    const propane_gradient_options how = {
        .size = sizeof how, .uri = j->m.device, .precision = j->m.precision, .plan = j->plan};
    return propane_model_write_gradients(j->m.weights, j->ids, j->count, &how, j->gradients, NULL, err);
}

/* Shows the progress on standard error, because the result is printed to standard output. Redraws one line, or prints a
 * line every ten seconds. */
static bool cmd_eval_on_progress(void *context, int64_t done, int64_t total, double mean) {
    eval_job *j = context;
    const int64_t now = clock_ns();
    const bool bar = progress_is_bar(j->progress, false, STDERR_FILENO);
    if (strcmp(j->progress, "none") == 0 || (now - j->shown_ns < (bar ? 200000000 : 10000000000) && done < total))
        return true;
    if (!bar && now - j->begun_ns < 10000000000) return true; /* a short evaluation prints no line, even at its end */
    const double seconds = (double)(now - j->begun_ns) / 1e9;
    char left[32];
    j->shown_ns = now;
    j->drawn = bar && done < total;
    fprintf(stderr, "%s%3.0f %%  loss %.4f  %s left%s", bar ? "\r" : "", 100.0 * (double)done / (double)total, mean,
            text_duration(left, seconds * (double)(total - done) / (double)done), bar ? "\033[K" : "\n");
    if (bar && done == total) fprintf(stderr, "\r\033[K"); /* the result replaces it */
    fflush(stderr);
    return true;
}

static propane_status cmd_eval_start(eval_job *j, propane_error *err) {
    PROPANE_TRY(opened_model_start(&j->m, err));
    j->begun_ns = j->shown_ns = clock_ns();
    propane_generator_on_progress(j->m.generator, cmd_eval_on_progress, j);
    return PROPANE_OK;
}

/* Evaluates the answers of instruction data, which is read as in training. */
static propane_status cmd_eval_examples(eval_job *j, double *mean, int64_t *predictions, propane_error *err) {
    propane_chat *chat = NULL;
    if (j->logits || j->gradients)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s is instruction data; --logits and --gradients need a text or --ids", j->data);
    PROPANE_TRY(opened_model_tokenizer(&j->m, err));
    PROPANE_TRY(cmd_eval_start(j, err));
    PROPANE_TRY(propane_chat_open(j->m.weights, j->m.tokenizer, j->chat, &chat, err));
    const propane_status status =
        propane_generator_loss_examples(j->m.generator, chat, j->data, mean, predictions, &j->examples, err);
    propane_chat_free(chat);
    return status;
}

static propane_status cmd_eval_text(eval_job *j, double *mean, int64_t *predictions, propane_error *err) {
    PROPANE_TRY(cmd_eval_read_ids(j, err));
    PROPANE_TRY(cmd_eval_check_room(j, err));
    PROPANE_TRY(cmd_eval_start(j, err));
    PROPANE_TRY(propane_generator_loss(j->m.generator, j->ids, j->count, mean, predictions, err));
    if (j->logits) PROPANE_TRY(propane_generator_write_logits(j->m.generator, j->ids, j->count, j->logits, err));
    return j->gradients ? cmd_eval_write_gradients(j, err) : PROPANE_OK;
}

static bool cmd_eval_is_examples(const eval_job *j) { return j->data && cli_file_is(j->data, "examples"); }

static propane_status cmd_eval_eval(eval_job *j, propane_error *err) {
    double mean = 0;
    int64_t predictions = 0;
    const bool lines = cmd_eval_is_examples(j);
    PROPANE_TRY(opened_model_read(&j->m, err));
    PROPANE_TRY((lines ? cmd_eval_examples : cmd_eval_text)(j, &mean, &predictions, err));
    double per_byte = j->text_bytes ? mean * (double)predictions / (double)j->text_bytes : -1;
    if (j->json) {
        printf("{\"predictions\":%" PRId64, predictions);
        progress_number("loss", mean);
        progress_number("perplexity", exp(mean));
        if (j->text_bytes) progress_number("nats_per_byte", per_byte);
        if (j->examples) printf(",\"examples\":%" PRId64, j->examples);
        printf("}\n");
    } else {
        printf("loss %.6f nats per token over %" PRId64 " prediction%s", mean, predictions, text_plural(predictions));
        printf(", perplexity %.4f", exp(mean));
        if (j->text_bytes) printf(", %.6f nats per byte", per_byte);
        if (j->examples) printf(", the answers of %" PRId64 " example%s", j->examples, text_plural(j->examples));
        printf("\n");
    }
    return PROPANE_OK;
}

int cmd_eval(int argc, char **argv) {
    eval_job j = {.m = {OPENED_MODEL_STANDARD}, .plan = "layer", .progress = "auto"};
    const cli_flag flags[] = {
        OPENED_MODEL_FLAG(j.m),
        OPENED_ADAPTER_FLAG(j.m),
        {"--data", CLI_TEXT, &j.data, .words = "FILE",
         .help = "a text, a token file from 'propane tokenize', or instruction data (.jsonl), whose answers are "
                 "scored"},
        {"--chat", CLI_TEXT, &j.chat, .words = "NAME",
         .help = "chat format for a .jsonl file, instead of the model's own"},
        {"--ids", CLI_TEXT, &j.ids_path, .words = "FILE",
         .help = "file of token ids, separated by blanks, instead of --data"},
        OPENED_TOKENIZER_FLAG(j.m),
        {"--context", CLI_INT, &j.m.context, 0, 1048576, "N", "longest window in tokens; 0: the model's"},
        OPENED_DEVICE_FLAGS(j.m),
        {"--logits", CLI_TEXT, &j.logits, .words = "FILE",
         .help = "write the logits after each id to a safetensors file", .writes = "logits"},
        {"--gradients", CLI_TEXT, &j.gradients, .words = "FILE",
         .help = "write the gradients of the mean loss to a safetensors file, under the names of the weights",
         .writes = "gradients"},
        {"--plan", CLI_TEXT, &j.plan, .words = "NAME", .help = "plan for --gradients (see 'propane plan')"},
        OPENED_THREADS_FLAG(j.m),
        {"--json", CLI_SWITCH, &j.json, .help = "print one JSON object"},
        {"--progress", CLI_CHOICE, &j.progress, .words = PROGRESS_FORMS,
         .help = "how to show progress on standard error; auto: a bar on a terminal, else a line every ten seconds"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "eval MODEL --data FILE | --ids FILE [flags]",
                  "Prints a model's mean loss: the mean of -ln p over tokens, where p is the probability of a token "
                  "given those before it.");
    if (code >= 0) return code;
    if (!j.data == !j.ids_path)
        return cli_misuse("eval",
                          j.data ? "give --data or --ids, not both" : "give a text with --data, or ids with --ids");
    if (!j.gradients && (code = cli_refuse("eval", "--plan", "a loss; it is the plan of --gradients")) >= 0)
        return code;
    if (!j.data && (code = cli_refuse("eval", "--chat|--tokenizer", "ids")) >= 0) return code;
    if (!cmd_eval_is_examples(&j) && (code = cli_refuse("eval", "--chat", "a text, only to instruction data")) >= 0)
        return code;
    if (j.logits && j.gradients && file_same(j.logits, j.gradients))
        return cli_misuse("eval", "--logits and --gradients would both write %s; give two names", j.gradients);
    propane_error err = {0};
    propane_status status = propane_set_threads((int)j.m.threads, &err);
    if (status == PROPANE_OK) status = cmd_eval_eval(&j, &err);
    if (j.drawn) fprintf(stderr, "\n"); /* the evaluation failed before its end, so the line is still there */
    opened_model_close(&j.m);
    propane_free(j.ids);
    return status == PROPANE_OK ? CLI_OK : cli_error("eval", &err);
}
