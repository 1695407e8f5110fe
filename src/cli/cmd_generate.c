/* SPDX-License-Identifier: MIT
 * propane generate: a model continues a prompt; ids or text, in and out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/ids.h"
#include "cli/runfolder.h"
#include "infer/generate.h"
#include "infer/sample.h"
#include "model/store.h"

typedef struct generate_job {
    const char *model, *prompt, *prompt_ids, *vocabulary, *device, *precision;
    int64_t count, context;
    infer_sampling sampling;
    bool print_ids, stop_at_end;
    tokenizer *tokenizer;
    model_weights *weights;
    propane_device *opened;
    infer *machine;
    token_list ids;
    tokenizer_stream stream;
    int64_t made;
} generate_job;

static propane_status read_prompt(generate_job *j, propane_error *err) {
    int64_t vocab = j->weights->config.vocab_size;
    if (j->prompt_ids) return ids_parse(j->prompt_ids, strlen(j->prompt_ids), "--prompt-ids", vocab, &j->ids, err);
    if (tokenizer_vocab_size(j->tokenizer) != vocab)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s has a vocabulary of %" PRId64 ", the tokenizer one of %d: they do not belong together",
                            j->model, vocab, tokenizer_vocab_size(j->tokenizer));
    int bos = tokenizer_bos(j->tokenizer);
    if (bos >= 0) PROPANE_TRY(token_list_add(&j->ids, bos, err));
    if (tokenizer_encode(j->tokenizer, j->prompt, strlen(j->prompt), &j->ids, err) != PROPANE_OK)
        return propane_fail_prefix(err, err->status, "--prompt");
    if (j->ids.count == 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--prompt: this tokenizer has no beginning-of-text id: give at least one character");
    return PROPANE_OK;
}

static void write_piece(text *piece) {
    if (piece->length) fwrite(piece->data, 1, piece->length, stdout);
    text_deinit(piece);
}

static bool write_token(generate_job *j, int32_t id) {
    if (j->print_ids) {
        printf(" %" PRId32, id);
    } else {
        text piece = {0};
        tokenizer_decode(j->tokenizer, &j->stream, id, &piece);
        write_piece(&piece);
    }
    return cli_flush() && !cli_interrupted;
}

static bool on_token(void *context, int32_t id, double nll) {
    generate_job *j = context;
    j->made++;
    return write_token(j, id);
}

static propane_status open_model(generate_job *j, propane_error *err) {
    const infer_options options = {.dtype = strcmp(j->precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32,
                                   .context = j->context};
    PROPANE_TRY(infer_sampling_check(&j->sampling, err));
    PROPANE_TRY(model_store_read(j->model, &j->weights, err));
    if (!j->print_ids || !j->prompt_ids) PROPANE_TRY(run_tokenizer(j->vocabulary, j->model, &j->tokenizer, err));
    PROPANE_TRY(read_prompt(j, err));
    PROPANE_TRY(propane_device_open(j->device, &j->opened, err));
    PROPANE_TRY(infer_create(j->opened, j->weights, &options, &j->machine, err));
    if ((int64_t)j->ids.count > infer_context(j->machine))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the prompt has %zu tokens, the context has room for %" PRId64 "; shorten it%s",
                            j->ids.count, infer_context(j->machine), j->context ? ", or give a larger --context" : "");
    return PROPANE_OK;
}

static propane_status generate(generate_job *j, propane_error *err) {
    PROPANE_TRY(open_model(j, err));
    for (size_t i = 0; i < j->ids.count; i++) {
        if (j->print_ids)
            printf("%s%" PRId32, i ? " " : "", j->ids.ids[i]);
        else
            write_token(j, j->ids.ids[i]);
    }
    int32_t eos = j->stop_at_end && j->tokenizer ? tokenizer_eos(j->tokenizer) : -1;
    int64_t start = clock_ns(), made = 0;
    cli_catch_signals();
    propane_status status = infer_generate(j->machine, j->ids.ids, (int64_t)j->ids.count, j->count, eos, &j->sampling,
                                           on_token, j, &made, err);
    if (!j->print_ids) {
        text rest = {0};
        tokenizer_decode_end(&j->stream, &rest);
        write_piece(&rest);
    }
    printf("\n");
    bool full = status == PROPANE_OK && made < j->count && (int64_t)j->ids.count + made > infer_context(j->machine);
    if (cli_flush() && full)
        fprintf(stderr,
                "propane generate: stopped after %" PRId64 " tokens: the context of %" PRId64 " positions is full\n",
                made, infer_context(j->machine));
    double seconds = (double)(clock_ns() - start) / 1e9;
    if (cli_is_terminal(2))
        fprintf(stderr, "%" PRId64 " tokens in %.2f s: %.0f tokens/s\n", made, seconds, (double)made / seconds);
    return status;
}

int cmd_generate(int argc, char **argv) {
    generate_job j = {.prompt = "",
                      .device = "cpu",
                      .precision = "fp32",
                      .count = 200,
                      .stop_at_end = true,
                      .sampling = {.temperature = 0.8, .top_p = 0.95}};
    int64_t top_k = 0, seed = 1, threads = 0;
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &j.model,
         .help = "a run's folder, a model's folder, a .safetensors, .gguf or llama2.c file", .required = true},
        {"--prompt", CLI_TEXT, &j.prompt, .words = "TEXT", .help = "what it goes on from"},
        {"--prompt-ids", CLI_TEXT, &j.prompt_ids, .words = "IDS", .help = "the same as token ids: '1 461 461'"},
        {"--print-ids", CLI_SWITCH, &j.print_ids, .help = "print ids instead of text"},
        {"--tokenizer", CLI_TEXT, &j.vocabulary, .words = "FILE", .help = "if there is none in the model's folder"},
        {"--count", CLI_INT, &j.count, 0, 1e9, "N", "tokens to make"},
        {"--temperature", CLI_REAL, &j.sampling.temperature, 0, 100, "X", "0: always the most likely token"},
        {"--top-k", CLI_INT, &top_k, 0, 1e9, "N", "only the N most likely; 0: all"},
        {"--top-p", CLI_REAL, &j.sampling.top_p, 0, 1, "X",
         "only the most likely that together have probability X; 0: all"},
        {"--seed", CLI_INT, &seed, 0, 9e15, "N", "of the draw"},
        {"--stop", CLI_SWITCH, &j.stop_at_end, .help = "stop at the end-of-text token (--no-stop: go on)"},
        {"--context", CLI_INT, &j.context, 0, 1048576, "N", "longest sequence; 0: the model's"},
        {"--device", CLI_TEXT, &j.device, .words = "URI", .help = "see 'propane devices'"},
        {"--precision", CLI_CHOICE, &j.precision, .words = "fp32|fp16", .help = "of the device's programs"},
        {"--threads", CLI_INT, &threads, 0, 256, "N", "0: one per core"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "generate MODEL [--prompt TEXT] [flags]",
                         "Lets a model go on from a prompt. The text is written as it comes.");
    if (code >= 0) return code;
    if (j.prompt_ids && j.prompt[0]) return cli_misuse("generate", "give --prompt or --prompt-ids, not both");
    j.sampling.top_k = (int)top_k;
    j.sampling.seed = (uint64_t)seed;
    propane_error err = {0};
    propane_status status = pool_set_threads((int)threads, &err);
    if (status == PROPANE_OK) status = generate(&j, &err);
    infer_free(j.machine);
    propane_device_close(j.opened);
    model_weights_free(j.weights);
    tokenizer_free(j.tokenizer);
    token_list_deinit(&j.ids);
    if (status != PROPANE_OK) return cli_error("generate", &err);
    return cli_interrupted ? CLI_INTERRUPTED : CLI_OK;
}
