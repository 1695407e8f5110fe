/* SPDX-License-Identifier: MIT
 * propane eval: a model's mean loss on a text or on a given sequence of ids.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/run_folder.h"
#include "api/weight_format.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/cmd/eval_gradients.h"
#include "cli/ids.h"
#include "cli/progress.h"
#include "infer/generate.h"
#include "model/files/model_tokenizer.h"
#include "model/files/store.h"
#include "model/text/tokens.h"

typedef struct eval_job {
    const char *model, *adapter, *data, *ids_path, *vocabulary, *device, *precision, *form, *logits, *gradients, *plan;
    int64_t context;
    bool json;
    tokenizer *tokenizer;
    model_weights *weights;
    propane_device *opened;
    infer *machine;
    token_list ids;
    size_t text_bytes; /* 0: not known */
} eval_job;

/* The ids of a file of 'propane tokenize'. */
static propane_status cmd_eval_take_tokens(eval_job *j, const char *data, size_t length, propane_error *err) {
    token_file t;
    PROPANE_TRY(token_file_parse(data, length, j->data, &t, err));
    PROPANE_TRY(token_file_check(&t, j->data, j->tokenizer, j->vocabulary ? j->vocabulary : j->model, err));
    for (int64_t i = 0; i < t.count; i++) PROPANE_TRY(token_list_add(&j->ids, token_file_get(&t, i), err));
    j->text_bytes = (size_t)t.text_bytes;
    return PROPANE_OK;
}

static propane_status cmd_eval_read_ids(eval_job *j, propane_error *err) {
    const char *path = j->ids_path ? j->ids_path : j->data;
    char *data = NULL;
    size_t length = 0;
    if (!j->ids_path) PROPANE_TRY(model_tokenizer_open(j->vocabulary, j->model, &j->tokenizer, err));
    PROPANE_TRY(file_read_stream(path, (size_t)1 << 30, &data, &length, err));
    propane_status status;
    if (j->ids_path) {
        status = ids_parse(data, length, path, j->weights->config.vocab_size, &j->ids, err);
    } else if (token_file_is(data, length)) {
        status = cmd_eval_take_tokens(j, data, length, err);
    } else {
        j->text_bytes = length;
        status = run_vocabulary(j->model, j->weights->config.vocab_size, j->tokenizer, err);
        if (status == PROPANE_OK && tokenizer_encode(j->tokenizer, data, length, &j->ids, err) != PROPANE_OK)
            status = propane_fail_prefix(err, err->status, "%s", path);
    }
    mem_free(data);
    if (status == PROPANE_OK && j->ids.count < 2)
        status =
            propane_fail(err, PROPANE_ERR_INVALID, "%s: %zu token(s); a loss needs at least two", path, j->ids.count);
    return status;
}

/* Before anything is computed: what is written comes from one stretch; of gradients the last id is a target only. */
static propane_status cmd_eval_check_room(const eval_job *j, propane_error *err) {
    int64_t window = j->context ? j->context : j->weights->config.max_position_embeddings;
    int64_t room = j->logits ? window : window + 1;
    if ((j->logits || j->gradients) && (int64_t)j->ids.count > room)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s takes one stretch of at most %" PRId64 " ids (a context of %" PRId64
                            "), and there are %zu: give fewer",
                            j->logits ? "--logits" : "--gradients", room, window, j->ids.count);
    return PROPANE_OK;
}

static propane_status cmd_eval_write_gradients(eval_job *j, propane_error *err) {
    const eval_step how = {.plan = j->plan, .precision = j->precision, .device = j->device};
    double loss = 0;
    return eval_gradients(j->weights, j->ids.ids, (int64_t)j->ids.count, &how, j->gradients, &loss, err);
}

static propane_status cmd_eval_eval(eval_job *j, propane_error *err) {
    infer_options options = {.dtype = strcmp(j->precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32, .context = j->context};
    double mean = 0;
    int64_t predictions = 0;
    PROPANE_TRY(run_model(j->model, j->adapter, &j->weights, err));
    options.weights = form_of(j->form, j->device, options.dtype, j->weights);
    PROPANE_TRY(cmd_eval_read_ids(j, err));
    PROPANE_TRY(cmd_eval_check_room(j, err));
    PROPANE_TRY(propane_device_open(j->device, &j->opened, err));
    PROPANE_TRY(infer_create(j->opened, j->weights, &options, &j->machine, err));
    PROPANE_TRY(infer_loss(j->machine, j->ids.ids, (int64_t)j->ids.count, &mean, &predictions, err));
    if (!isfinite(mean)) {
        const char *name = model_weights_not_finite(j->weights);
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: the loss is not a number%s%.200s%s", j->model,
                            name ? ": the weights '" : "", name ? name : "", name ? "' hold some that are none" : "");
    }
    if (j->logits) PROPANE_TRY(eval_logits(j->machine, j->weights, j->ids.ids, (int64_t)j->ids.count, j->logits, err));
    if (j->gradients) PROPANE_TRY(cmd_eval_write_gradients(j, err));
    double per_byte = j->text_bytes ? mean * (double)predictions / (double)j->text_bytes : -1;
    if (j->json) {
        printf("{\"predictions\":%" PRId64, predictions);
        progress_number("loss", mean);
        progress_number("perplexity", exp(mean));
        if (j->text_bytes) progress_number("nats_per_byte", per_byte);
        printf("}\n");
    } else {
        printf("loss %.6f nats per token over %" PRId64 " predictions", mean, predictions);
        printf(", perplexity %.4f", exp(mean));
        if (j->text_bytes) printf(", %.6f nats per byte", per_byte);
        printf("\n");
    }
    return PROPANE_OK;
}

int cmd_eval(int argc, char **argv) {
    eval_job j = {.device = "cpu", .precision = "fp32", .form = "auto", .plan = "layer"};
    int64_t threads = 0;
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &j.model,
         .help = "a run's folder, a model's folder, a .safetensors, .gguf or llama2.c file", .required = true},
        {"--adapter", CLI_TEXT, &j.adapter, .words = "DIR", .help = "a LoRA adapter of the model"},
        {"--data", CLI_TEXT, &j.data, .words = "FILE", .help = "a text, or a token file of 'propane tokenize'"},
        {"--ids", CLI_TEXT, &j.ids_path, .words = "FILE",
         .help = "token ids instead, whole numbers with blanks between them"},
        {"--tokenizer", CLI_TEXT, &j.vocabulary, .words = "FILE", .help = "if there is none in the model's folder"},
        {"--context", CLI_INT, &j.context, 0, 1048576, "N", "longest stretch with one cache; 0: the model's"},
        {"--device", CLI_TEXT, &j.device, .words = "URI", .help = "see 'propane devices'"},
        {"--precision", CLI_CHOICE, &j.precision, .words = "fp32|fp16", .help = "of the device's programs"},
        {"--weights", CLI_CHOICE, &j.form, .words = FORM_WORDS, .help = FORM_HELP},
        {"--logits", CLI_TEXT, &j.logits, .words = "FILE", .help = "write the logits after each id, as safetensors"},
        {"--gradients", CLI_TEXT, &j.gradients, .words = "FILE",
         .help = "write the gradients of the mean loss, named like the model's weights"},
        {"--plan", CLI_TEXT, &j.plan, .words = "NAME", .help = "of --gradients: see 'propane plan'"},
        {"--threads", CLI_INT, &threads, 0, 256, "N", "0: one per core"},
        {"--json", CLI_SWITCH, &j.json, .help = "one JSON object"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "eval MODEL --data FILE | --ids FILE [flags]",
                  "Tells a model's mean loss: -log p of each token given those before it, natural logarithm.");
    if (code >= 0) return code;
    if (!j.data == !j.ids_path)
        return cli_misuse("eval",
                          j.data ? "give --data or --ids, not both" : "give a text with --data, or ids with --ids");
    propane_error err = {0};
    propane_status status = pool_set_threads((int)threads, &err);
    if (status == PROPANE_OK) status = cmd_eval_eval(&j, &err);
    infer_free(j.machine);
    propane_device_close(j.opened);
    model_weights_free(j.weights);
    tokenizer_free(j.tokenizer);
    token_list_deinit(&j.ids);
    return status == PROPANE_OK ? CLI_OK : cli_error("eval", &err);
}
