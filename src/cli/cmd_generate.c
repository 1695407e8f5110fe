/* SPDX-License-Identifier: MIT
 * propane generate: a model continues a prompt, or each line of a file; ids or text, in and out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/ids.h"
#include "cli/opened_model.h"
#include "infer/complete.h"

enum { MAX_STOPS = 16 };

typedef struct generate_job {
    opened_model m;
    const char *prompt, *prompt_ids, *prompts;
    int64_t count, logprobs;
    infer_sampling sampling;
    bool print_ids, ignore_end, json;
    char *stop_items[MAX_STOPS];
    cli_list stops;
    token_list ids;
    int64_t made;    /* of all prompts */
    json_t *tokens;  /* --json: what was drawn */
    text completion; /* --json */
} generate_job;

/* ---- prompts -------------------------------------------------------------------------------------------------------- */

/* The ids of a prompt; `source` names it in messages. */
static propane_status encode(generate_job *j, const char *prompt, size_t length, const char *source,
                             propane_error *err) {
    j->ids.count = 0;
    if (j->prompt_ids) return ids_parse(prompt, length, source, j->m.weights->config.vocab_size, &j->ids, err);
    int bos = tokenizer_bos(j->m.tokenizer);
    if (bos >= 0) PROPANE_TRY(token_list_add(&j->ids, bos, err));
    if (tokenizer_encode(j->m.tokenizer, prompt, length, &j->ids, err) != PROPANE_OK)
        return propane_fail_prefix(err, err->status, "%s", source);
    if (j->ids.count == 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: this tokenizer has no beginning-of-text id: give at least one character", source);
    return PROPANE_OK;
}

static propane_status check_length(const generate_job *j, const char *source, propane_error *err) {
    if ((int64_t)j->ids.count <= infer_context(j->m.machine)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s%sthe prompt has %zu tokens, the context has room for %" PRId64 "; shorten it%s",
                        j->prompts ? source : "", j->prompts ? ": " : "", j->ids.count, infer_context(j->m.machine),
                        j->m.context ? ", or give a larger --context" : "");
}

/* ---- output --------------------------------------------------------------------------------------------------------- */

static json_t *logprob_of(const generate_job *j, infer_logprob p) {
    json_t *o = json_pack("{s:I}", "id", (json_int_t)p.id);
    if (o && j->m.tokenizer) {
        text shown = {0};
        tokenizer_stream s = {.begun = true};
        tokenizer_decode(j->m.tokenizer, &s, p.id, &shown);
        tokenizer_decode_end(&s, &shown);
        json_object_set_new(o, "text", json_stringn(shown.data ? shown.data : "", shown.length));
        text_deinit(&shown);
    }
    if (o && j->logprobs >= 0) json_object_set_new(o, "logprob", json_real(p.logprob));
    return o;
}

static void add_token(generate_job *j, const infer_step *step) {
    json_t *o = logprob_of(j, step->chosen);
    if (o && j->logprobs > 0) {
        json_t *top = json_array();
        for (int i = 0; i < step->top_count; i++) json_array_append_new(top, logprob_of(j, step->top[i]));
        json_object_set_new(o, "top", top);
    }
    json_array_append_new(j->tokens, o);
}

static void show_logprobs(const generate_job *j, const infer_step *step) {
    char quoted[80];
    json_t *o = logprob_of(j, step->chosen);
    const char *shown = json_string_value(json_object_get(o, "text"));
    printf("%8.4f  %6" PRId32 "  '%s'", step->chosen.logprob, step->id,
           shown ? text_quote(quoted, shown, strlen(shown)) : "");
    json_decref(o);
    for (int i = 0; i < step->top_count; i++) {
        o = logprob_of(j, step->top[i]);
        shown = json_string_value(json_object_get(o, "text"));
        printf("%s '%s' %.4f", i ? "," : "   of", shown ? text_quote(quoted, shown, strlen(shown)) : "",
               step->top[i].logprob);
        json_decref(o);
    }
    printf("\n");
}

static bool on_step(void *context, const infer_step *step) {
    generate_job *j = context;
    if (step->id >= 0) j->made++;
    if (j->json) {
        if (step->id >= 0) add_token(j, step);
        text_append_n(&j->completion, step->text, step->length);
    } else if (j->logprobs >= 0) {
        if (step->id >= 0) show_logprobs(j, step);
    } else if (j->print_ids) {
        if (step->id >= 0) printf(" %" PRId32, step->id);
    } else {
        fwrite(step->text, 1, step->length, stdout);
    }
    return (j->json || cli_flush()) && !cli_interrupted;
}

static void show_prompt(generate_job *j) {
    if (j->json || j->logprobs >= 0) return;
    if (j->print_ids) {
        for (size_t i = 0; i < j->ids.count; i++) printf("%s%" PRId32, i ? " " : "", j->ids.ids[i]);
        return;
    }
    text shown = {0};
    tokenizer_stream s = {0};
    for (size_t i = 0; i < j->ids.count; i++) tokenizer_decode(j->m.tokenizer, &s, j->ids.ids[i], &shown);
    tokenizer_decode_end(&s, &shown);
    fwrite(shown.data ? shown.data : "", 1, shown.length, stdout);
    text_deinit(&shown);
}

static propane_status print_json(generate_job *j, const char *prompt, size_t length, const infer_result *result,
                                 propane_error *err) {
    json_t *o = json_pack("{s:o?,s:o,s:s,s:I,s:I,s:O}", "prompt", json_stringn(prompt, length), "text",
                          json_stringn(j->completion.data ? j->completion.data : "", j->completion.length), "finish",
                          infer_finish_name(result->finish), "prompt_tokens", (json_int_t)j->ids.count,
                          "completion_tokens", (json_int_t)result->made, "tokens", j->tokens);
    char *line = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (!line) return propane_fail_memory(err, j->completion.length);
    printf("%s\n", line);
    free(line);
    return PROPANE_OK;
}

/* ---- the work ------------------------------------------------------------------------------------------------------- */

static propane_status run_one(generate_job *j, const char *prompt, size_t length, const char *source,
                              propane_error *err) {
    PROPANE_TRY(encode(j, prompt, length, source, err));
    PROPANE_TRY(check_length(j, source, err));
    show_prompt(j);
    int32_t eos = j->m.tokenizer && !j->ignore_end ? tokenizer_eos(j->m.tokenizer) : -1;
    const infer_task task = {.tokenizer = j->m.tokenizer,
                             .prompt = j->ids.ids,
                             .prompt_count = (int64_t)j->ids.count,
                             .count = j->count,
                             .ends = &eos,
                             .end_count = eos >= 0,
                             .stops = (const char *const *)j->stops.items,
                             .stop_count = j->stops.count,
                             .logprobs = (int)j->logprobs,
                             .sampling = j->sampling};
    infer_result result;
    text_clear(&j->completion);
    json_array_clear(j->tokens);
    propane_status status = infer_complete(j->m.machine, &task, on_step, j, &result, err);
    if (!j->json && j->logprobs < 0) printf("\n");
    if (!status && j->json) status = print_json(j, prompt, length, &result, err);
    if (cli_flush() && !status && !j->json && result.finish == INFER_FINISH_CONTEXT)
        fprintf(stderr,
                "propane generate: stopped after %" PRId64 " tokens: the context of %" PRId64 " positions is full\n",
                result.made, infer_context(j->m.machine));
    return status;
}

/* Each line of the file is a prompt; empty lines are left out. */
static propane_status run_file(generate_job *j, propane_error *err) {
    char *data;
    size_t length;
    PROPANE_TRY(file_read(j->prompts, (size_t)1 << 30, &data, &length, err));
    propane_status status = PROPANE_OK;
    int64_t number = 0, ran = 0;
    for (size_t at = 0; !status && at < length && !cli_interrupted; number++) {
        size_t n = strcspn(data + at, "\n"), end = at + n + 1;
        if (n && data[at + n - 1] == '\r') n--;
        char source[300];
        snprintf(source, sizeof source, "%.250s:%" PRId64, j->prompts, number + 1);
        if (n) {
            if (ran++ && !j->json && !j->print_ids) printf("\n");
            status = run_one(j, data + at, n, source, err);
        }
        at = end;
    }
    mem_free(data);
    if (!status && !ran && !cli_interrupted)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: there is no prompt in it", j->prompts);
    return status;
}

static propane_status open_model(generate_job *j, propane_error *err) {
    PROPANE_TRY(infer_sampling_check(&j->sampling, err));
    PROPANE_TRY(opened_model_read(&j->m, err));
    bool wants_text = !j->print_ids || !j->prompt_ids || j->stops.count || j->m.vocabulary;
    if (wants_text) PROPANE_TRY(opened_model_tokenizer(&j->m, !j->prompt_ids, err));
    if (!j->prompts) { /* before the work of opening a device */
        const char *prompt = j->prompt_ids ? j->prompt_ids : j->prompt;
        PROPANE_TRY(encode(j, prompt, strlen(prompt), j->prompt_ids ? "--prompt-ids" : "--prompt", err));
    }
    return opened_model_start(&j->m, err);
}

static propane_status generate(generate_job *j, propane_error *err) {
    PROPANE_TRY(open_model(j, err));
    if (!(j->tokens = json_array())) return propane_fail_memory(err, 0);
    int64_t start = clock_ns();
    cli_catch_signals();
    const char *prompt = j->prompt_ids ? j->prompt_ids : j->prompt;
    propane_status status = j->prompts
                                ? run_file(j, err)
                                : run_one(j, prompt, strlen(prompt), j->prompt_ids ? "--prompt-ids" : "--prompt", err);
    double seconds = (double)(clock_ns() - start) / 1e9;
    if (!status && cli_is_terminal(2))
        fprintf(stderr, "%" PRId64 " tokens in %.2f s: %.0f tokens/s\n", j->made, seconds, (double)j->made / seconds);
    return status;
}

static void release(generate_job *j) {
    opened_model_close(&j->m);
    token_list_deinit(&j->ids);
    text_deinit(&j->completion);
    json_decref(j->tokens);
}

int cmd_generate(int argc, char **argv) {
    generate_job j = {.prompt = "",
                      .m = {OPENED_MODEL_STANDARD},
                      .count = 200,
                      .logprobs = -1,
                      .sampling = {.temperature = 0.8, .top_p = 0.95, .repetition = 1}};
    int64_t top_k = 0, seed = 1;
    j.stops.items = j.stop_items;
    const cli_flag flags[] = {
        OPENED_MODEL_FLAG(j.m),
        OPENED_ADAPTER_FLAG(j.m),
        {"--prompt", CLI_TEXT, &j.prompt, .words = "TEXT", .help = "what it goes on from"},
        {"--prompt-ids", CLI_TEXT, &j.prompt_ids, .words = "IDS", .help = "the same as token ids: '1 461 461'"},
        {"--prompts", CLI_TEXT, &j.prompts, .words = "FILE", .help = "a prompt in each line, one after the other"},
        OPENED_TOKENIZER_FLAG(j.m),
        {"--context", CLI_INT, &j.m.context, 0, 1048576, "N", "longest sequence; 0: the model's"},
        {"drawing", CLI_HEADING, .help = "what is drawn:"},
        {"--temperature", CLI_REAL, &j.sampling.temperature, 0, 100, "X", "0: always the most likely token"},
        {"--top-k", CLI_INT, &top_k, 0, 1e9, "N", "only the N most likely; 0: all"},
        {"--top-p", CLI_REAL, &j.sampling.top_p, 0, 1, "X",
         "only the most likely that together have probability X; 0: all"},
        {"--min-p", CLI_REAL, &j.sampling.min_p, 0, 1, "X", "only those X times as likely as the most likely one"},
        {"--repetition-penalty", CLI_REAL, &j.sampling.repetition, 0, 100, "X",
         "divides the logits of tokens that came before; 1: none"},
        {"--frequency-penalty", CLI_REAL, &j.sampling.frequency, -100, 100, "X",
         "taken off for each time it was drawn"},
        {"--presence-penalty", CLI_REAL, &j.sampling.presence, -100, 100, "X", "taken off once if it was drawn"},
        {"--seed", CLI_INT, &seed, 0, 9e15, "N", "of the draw"},
        {"end", CLI_HEADING, .help = "where it ends:"},
        {"--count", CLI_INT, &j.count, 0, 1e9, "N", "tokens to make"},
        {"--stop", CLI_TEXTS, &j.stops, 0, MAX_STOPS, "TEXT", "ends in front of this text (up to 16 times)"},
        {"--ignore-end", CLI_SWITCH, &j.ignore_end, .help = "goes on behind the end-of-text token"},
        {"output", CLI_HEADING, .help = "what is written:"},
        {"--print-ids", CLI_SWITCH, &j.print_ids, .help = "ids instead of text"},
        {"--logprobs", CLI_INT, &j.logprobs, -1, INFER_MAX_LOGPROBS, "N",
         "a line for each token: log p, id, text, the N most likely; -1: text"},
        {"--json", CLI_SWITCH, &j.json, .help = "one JSON object for each prompt"},
        {"work", CLI_HEADING, .help = "how:"},
        OPENED_WORK_FLAGS(j.m),
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "generate MODEL [--prompt TEXT] [flags]",
                         "Lets a model go on from a prompt. The text is written as it comes.");
    if (code >= 0) return code;
    if (j.prompt_ids && j.prompt[0]) return cli_misuse("generate", "give --prompt or --prompt-ids, not both");
    if (j.prompts && (j.prompt_ids || j.prompt[0]))
        return cli_misuse("generate", "give --prompts or --prompt, not both");
    if (j.print_ids && (j.json || j.logprobs >= 0))
        return cli_misuse("generate", "--print-ids is for plain output; --json and --logprobs tell the ids anyway");
    j.sampling.top_k = (int)top_k;
    j.sampling.seed = (uint64_t)seed;
    propane_error err = {0};
    propane_status status = pool_set_threads((int)j.m.threads, &err);
    if (status == PROPANE_OK) status = generate(&j, &err);
    release(&j);
    if (status != PROPANE_OK) return cli_error("generate", &err);
    return cli_interrupted ? CLI_INTERRUPTED : CLI_OK;
}
