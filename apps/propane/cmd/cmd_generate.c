/* SPDX-License-Identifier: MIT
 * propane generate: lets a model continue a prompt, or each line of a file. Input and output are text or ids.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#include "apps/propane/cli.h"
#include "apps/propane/cmd/model_flags.h"
#include "apps/propane/ids.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/json_memory.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { QUEUE_ROOM = 4 * PROPANE_MAX_PARALLEL };

typedef struct generate_job {
    opened_model m;
    const char *prompt, *prompt_ids, *prompts;
    char *piped; /* the prompt from standard input */
    propane_sampling sampling;
    bool print_ids, json;
    char *stop_items[PROPANE_MAX_STOPS];
    cli_list stops;
    int64_t made; /* ids generated for all prompts */
} generate_job;

/* A prompt and the text generated after it. */
typedef struct item {
    generate_job *j;
    text prompt;
    char source[300]; /* the prompt's name in messages */
    id_list ids;
    propane_stream *stream; /* NULL before the stream begins and after it has ended */
    propane_generation result;
    bool done, lost; /* lost: memory ran out, so a part of the text is missing */
    text out;        /* output that is not yet printed */
    json_t *tokens;  /* with --json: the drawn ids */
    text completion; /* with --json: the generated text */
} item;

/* ---- prompts -------------------------------------------------------------------------------------------------------- */

/* Encodes the prompt, preceded by the id that begins a text. A vocabulary that a run has trained has no such id; an
 * empty prompt is then replaced by a newline. */
static propane_status cmd_generate_encode(item *it, propane_error *err) {
    generate_job *j = it->j;
    const char *prompt = it->prompt.data ? it->prompt.data : "";
    const bool line = it->prompt.length == 0 && j->m.vocabulary_info.bos < 0;
    int32_t *ids = NULL;
    int64_t count = 0;
    it->ids.count = 0;
    if (j->prompt_ids) return ids_parse(prompt, it->prompt.length, it->source, j->m.info.vocabulary, &it->ids, err);
    if (j->m.vocabulary_info.bos >= 0) PROPANE_TRY(ids_add(&it->ids, j->m.vocabulary_info.bos, err));
    propane_status status =
        propane_tokenizer_encode(j->m.tokenizer, line ? "\n" : prompt, line ? 1 : it->prompt.length, &ids, &count, err);
    if (status && line && status != PROPANE_ERR_MEMORY)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: this vocabulary has no token for the beginning of a text or line: give at least one character",
            it->source);
    if (status) return propane_fail_prefix(err, status, "%s", it->source);
    status = ids_append(&it->ids, ids, count, err);
    propane_free(ids);
    if (!status && it->ids.count == 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no ids: give at least one", it->source);
    return status;
}

static propane_status cmd_generate_check_length(const item *it, propane_error *err) {
    const generate_job *j = it->j;
    const int64_t room = propane_generator_context(j->m.generator);
    if (it->ids.count <= room) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s%sthe prompt has %" PRId64 " tokens, but the context has room for %" PRId64 "; shorten it%s",
                        j->prompts ? it->source : "", j->prompts ? ": " : "", it->ids.count, room,
                        j->m.context ? ", or give a larger --context" : "");
}

/* ---- output --------------------------------------------------------------------------------------------------------- */

/* Returns the text of ids for display; free it with propane_free. If memory runs out, marks the item as lost and
 * returns NULL. */
static char *cmd_generate_text_of(item *it, const int32_t *ids, int64_t count, bool inside, size_t *length) {
    char *shown = NULL;
    *length = 0;
    it->lost |= propane_tokenizer_show(it->j->m.tokenizer, ids, count, inside, &shown, length, NULL) != PROPANE_OK;
    return shown;
}

static json_t *cmd_generate_logprob_of(item *it, propane_logprob p) {
    const generate_job *j = it->j;
    json_t *o = json_pack("{s:I}", "id", (json_int_t)p.id);
    if (o && j->m.tokenizer) {
        size_t length;
        char *shown = cmd_generate_text_of(it, &p.id, 1, true, &length);
        json_put(o, "text", json_stringn(shown ? shown : "", length));
        propane_free(shown);
    }
    if (o && j->sampling.logprobs >= 0) json_put(o, "logprob", json_real(p.logprob));
    return o;
}

static void cmd_generate_add_token(item *it, const propane_token *token) {
    const generate_job *j = it->j;
    json_t *o = cmd_generate_logprob_of(it, (propane_logprob){token->id, token->logprob});
    if (o && j->sampling.logprobs > 0) {
        json_t *top = json_array();
        for (int i = 0; i < token->top_count; i++) json_add(top, cmd_generate_logprob_of(it, token->top[i]));
        json_put(o, "top", top);
    }
    json_add(it->tokens, o);
}

static void cmd_generate_show_logprobs(item *it, const propane_token *token) {
    char quoted[80];
    json_t *o = cmd_generate_logprob_of(it, (propane_logprob){token->id, token->logprob});
    const char *shown = json_string_value(json_object_get(o, "text"));
    text_printf(&it->out, "%8.4f  %6" PRId32 "  '%s'", token->logprob, token->id,
                shown ? text_quote(quoted, shown, strlen(shown)) : "");
    json_decref(o);
    for (int i = 0; i < token->top_count; i++) {
        o = cmd_generate_logprob_of(it, token->top[i]);
        shown = json_string_value(json_object_get(o, "text"));
        text_printf(&it->out, "%s '%s' %.4f", i ? "," : "   of", shown ? text_quote(quoted, shown, strlen(shown)) : "",
                    token->top[i].logprob);
        json_decref(o);
    }
    text_append(&it->out, "\n");
}

static bool cmd_generate_on_step(void *context, const propane_token *step) {
    item *it = context;
    generate_job *j = it->j;
    if (step->id >= 0) j->made++;
    if (j->json) {
        if (step->id >= 0) cmd_generate_add_token(it, step);
        text_append_n(&it->completion, step->text, step->length);
    } else if (j->sampling.logprobs >= 0) {
        if (step->id >= 0) cmd_generate_show_logprobs(it, step);
    } else if (j->print_ids) {
        if (step->id >= 0) text_printf(&it->out, " %" PRId32, step->id);
    } else {
        text_append_n(&it->out, step->text, step->length);
    }
    return !cli_interrupted;
}

static void cmd_generate_show_prompt(item *it) {
    const generate_job *j = it->j;
    size_t length;
    if (j->json || j->sampling.logprobs >= 0 || (it->prompt.length == 0 && !j->print_ids)) return;
    for (int64_t i = 0; j->print_ids && i < it->ids.count; i++)
        text_printf(&it->out, "%s%" PRId32, i ? " " : "", it->ids.ids[i]);
    if (j->print_ids) return;
    char *shown = cmd_generate_text_of(it, it->ids.ids, it->ids.count, false, &length);
    if (shown) text_append_n(&it->out, shown, length);
    propane_free(shown);
}

static propane_status cmd_generate_add_json(item *it, propane_error *err) {
    json_t *o = json_pack("{s:o?,s:o,s:s,s:I,s:I,s:O,s:I}", "prompt", json_stringn(it->prompt.data, it->prompt.length),
                          "text", json_stringn(it->completion.data ? it->completion.data : "", it->completion.length),
                          "finish", propane_finish_name(it->result.finish), "prompt_tokens", (json_int_t)it->ids.count,
                          "completion_tokens", (json_int_t)it->result.made, "tokens", it->tokens, "seed",
                          (json_int_t)it->j->sampling.seed);
    char *line = NULL;
    propane_status status = json_print(o, JSON_COMPACT | JSON_REAL_PRECISION(9), &line, NULL, err);
    json_decref(o);
    if (line) text_printf(&it->out, "%s\n", line);
    mem_free(line);
    return status;
}

/* ---- an item -------------------------------------------------------------------------------------------------------- */

static void cmd_generate_item_free(item *it) {
    if (!it) return;
    propane_stream_free(it->stream);
    ids_deinit(&it->ids);
    text_deinit(&it->prompt);
    text_deinit(&it->out);
    text_deinit(&it->completion);
    json_decref(it->tokens);
    mem_free(it);
}

/* Returns NULL if memory runs out. */
static item *cmd_generate_item_new(generate_job *j, const char *prompt, size_t length, const char *source) {
    item *it = mem_alloc(sizeof *it);
    if (!it) return NULL;
    *it = (item){.j = j, .tokens = json_array(), .result = {.size = sizeof it->result}};
    snprintf(it->source, sizeof it->source, "%s", source);
    text_append_n(&it->prompt, prompt, length);
    text_append_n(&it->prompt, "", 0);
    if (it->tokens && !it->prompt.failed) return it;
    cmd_generate_item_free(it);
    return NULL;
}

/* Returns an error if memory ran out for a part of the item, so that none of it is printed. */
static propane_status cmd_generate_item_check(const item *it, propane_error *err) {
    const bool good = !it->lost && !it->out.failed && !it->completion.failed;
    return good ? PROPANE_OK : propane_fail_memory(err, it->out.capacity);
}

static propane_status cmd_generate_item_begin(item *it, propane_error *err) {
    generate_job *j = it->j;
    PROPANE_TRY(cmd_generate_encode(it, err));
    PROPANE_TRY(cmd_generate_check_length(it, err));
    cmd_generate_show_prompt(it);
    PROPANE_TRY(cmd_generate_item_check(it, err));
    return propane_stream_begin(j->m.generator, it->ids.ids, it->ids.count, &j->sampling, cmd_generate_on_step, it,
                                &it->stream, err);
}

static propane_status cmd_generate_item_end(item *it, propane_error *err) {
    propane_status status = propane_stream_result(it->stream, &it->result, err);
    propane_stream_free(it->stream);
    it->stream = NULL;
    it->done = true;
    if (!status) status = cmd_generate_item_check(it, err);
    if (status) return status;
    if (it->j->json) return cmd_generate_add_json(it, err);
    if (it->j->sampling.logprobs < 0) text_append(&it->out, "\n");
    return cmd_generate_item_check(it, err);
}

/* Prints the item's pending output, and a message after a text that had to end early. Returns false if the reader has
 * closed the output. */
static bool cmd_generate_item_print(item *it) {
    const generate_job *j = it->j;
    if (it->out.length) fwrite(it->out.data, 1, it->out.length, stdout);
    text_clear(&it->out);
    if (!cli_flush()) return false;
    if (it->done && !j->json && it->result.finish == PROPANE_FINISH_CONTEXT)
        fprintf(stderr,
                "propane generate: stopped after %" PRId64 " token%s, because the context of %" PRId64
                " positions is full\n",
                it->result.made, text_plural(it->result.made), propane_generator_context(j->m.generator));
    return true;
}

/* ---- the work ------------------------------------------------------------------------------------------------------- */

/* A file of prompts. Each line is a prompt. In a .jsonl file, a line is a string, or an object whose "prompt" is the
 * prompt. Empty lines are skipped. */
typedef struct prompt_file {
    generate_job *j;
    char *data;
    size_t length, at;
    int64_t number;
    bool jsonl;
} prompt_file;

static propane_status cmd_generate_item_of_json(prompt_file *f, const char *line, size_t n, const char *source,
                                                item **out, propane_error *err) {
    json_error_t why;
    json_t *o = json_memory_load(line, n, JSON_DECODE_ANY, &why);
    json_t *prompt = json_is_object(o) ? json_object_get(o, "prompt") : o;
    propane_status status = PROPANE_OK;
    if (!json_is_string(prompt))
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: neither an object with a \"prompt\" nor a string%s%s",
                              source, o ? "" : ": ", o ? "" : why.text);
    else if (!(*out = cmd_generate_item_new(f->j, json_string_value(prompt), json_string_length(prompt), source)))
        status = propane_fail_memory(err, n);
    json_decref(o);
    return status;
}

/* Sets *out to an item for the next prompt, or to NULL if there are no more prompts. */
static propane_status cmd_generate_next_item(prompt_file *f, item **out, propane_error *err) {
    char source[300];
    *out = NULL;
    while (f->at < f->length) {
        const char *line = f->data + f->at;
        const char *stop = memchr(line, '\n', f->length - f->at);
        size_t n = stop ? (size_t)(stop - line) : f->length - f->at;
        f->at += n + 1;
        f->number++;
        if (n && line[n - 1] == '\r') n--;
        if (!n) continue;
        snprintf(source, sizeof source, "%.250s:%" PRId64, f->j->prompts, f->number);
        if (f->jsonl) return cmd_generate_item_of_json(f, line, n, source, out, err);
        *out = cmd_generate_item_new(f->j, line, n, source);
        return *out ? PROPANE_OK : propane_fail_memory(err, n);
    }
    return PROPANE_OK;
}

/* The items that have begun and are not yet completely printed, in the order of the file. */
typedef struct queue {
    item *items[QUEUE_ROOM];
    int count;
    int64_t ran;
} queue;

/* Begins further prompts as long as the generator has free streams and the queue has free places. The queue may hold
 * many finished items, because they are printed only after the first one has ended. */
static propane_status cmd_generate_begin_more(generate_job *j, prompt_file *f, queue *q, propane_error *err) {
    int running = 0;
    for (int i = 0; i < q->count; i++) running += q->items[i]->stream != NULL;
    for (; running < propane_generator_parallel(j->m.generator) && q->count < QUEUE_ROOM; running++) {
        item *it;
        PROPANE_TRY(cmd_generate_next_item(f, &it, err));
        if (!it) return PROPANE_OK;
        q->items[q->count++] = it;
        if (q->ran++ && !j->json && !j->print_ids) text_append(&it->out, "\n");
        propane_status status = cmd_generate_item_begin(it, err);
        if (status) {
            text_clear(&it->out);
            return status;
        }
    }
    return PROPANE_OK;
}

/* Prints the new text of the first item. If that item is done, removes it and continues with the next one. Returns
 * false if the reader has closed the output. */
static bool cmd_generate_print_first(queue *q) {
    bool wanted = true;
    while (wanted && q->count) {
        bool done = q->items[0]->done;
        wanted = cmd_generate_item_print(q->items[0]);
        if (!done) break;
        cmd_generate_item_free(q->items[0]);
        memmove(q->items, q->items + 1, (size_t)--q->count * sizeof q->items[0]);
    }
    return wanted;
}

static propane_status cmd_generate_advance(generate_job *j, queue *q, propane_error *err) {
    PROPANE_TRY(propane_generator_advance(j->m.generator, err));
    for (int i = 0; i < q->count; i++) PROPANE_TRY(cmd_generate_item_check(q->items[i], err));
    for (int i = 0; i < q->count; i++)
        if (q->items[i]->stream && propane_stream_done(q->items[i]->stream))
            PROPANE_TRY(cmd_generate_item_end(q->items[i], err));
    return PROPANE_OK;
}

static propane_status cmd_generate_run_queue(generate_job *j, prompt_file *f, queue *q, propane_error *err) {
    propane_status status = PROPANE_OK;
    while (!status) {
        status = cli_interrupted ? PROPANE_OK : cmd_generate_begin_more(j, f, q, err);
        if (status || !q->count) break;
        if (cmd_generate_print_first(q)) status = cmd_generate_advance(j, q, err);
        if (!status && !cmd_generate_print_first(q)) break;
    }
    /* After an error in a later prompt, complete and print the items before it. */
    while (status && q->count && cmd_generate_print_first(q) && q->count && q->items[0]->stream) {
        propane_error later = {0};
        if (cli_interrupted || cmd_generate_advance(j, q, &later)) break;
    }
    return status;
}

static propane_status cmd_generate_run_file(generate_job *j, propane_error *err) {
    prompt_file f = {.j = j};
    size_t n = strlen(j->prompts);
    PROPANE_TRY(file_read_stream(j->prompts, (size_t)1 << 30, &f.data, &f.length, err));
    f.jsonl = n > 6 && strcmp(j->prompts + n - 6, ".jsonl") == 0;
    queue *q = mem_alloc(sizeof *q);
    if (q) *q = (queue){.count = 0};
    propane_status status = q ? cmd_generate_run_queue(j, &f, q, err) : propane_fail_memory(err, sizeof *q);
    int64_t ran = q ? q->ran : 0;
    for (int i = 0; q && i < q->count; i++) cmd_generate_item_free(q->items[i]);
    mem_free(q);
    mem_free(f.data);
    if (!status && !ran && !cli_interrupted)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no prompts", j->prompts);
    return status;
}

static propane_status cmd_generate_run_one(item *it, propane_error *err) {
    PROPANE_TRY(cmd_generate_item_begin(it, err));
    propane_status status = PROPANE_OK;
    bool wanted = true;
    while (!status && !propane_stream_done(it->stream) && (wanted = cmd_generate_item_print(it)))
        if (!(status = propane_generator_advance(it->j->m.generator, err))) status = cmd_generate_item_check(it, err);
    if (!status && wanted) status = cmd_generate_item_end(it, err);
    (void)cmd_generate_item_print(it);
    return status;
}

/* Opens the model. `single` is the only prompt, or NULL for a file of prompts. */
static propane_status cmd_generate_open_model(generate_job *j, item *single, propane_error *err) {
    PROPANE_TRY(propane_sampling_check(&j->sampling, err));
    PROPANE_TRY(opened_model_read(&j->m, err));
    bool wants_text = !j->print_ids || !j->prompt_ids || j->stops.count || j->m.vocabulary;
    if (wants_text) PROPANE_TRY(opened_model_tokenizer(&j->m, err));
    if (single) PROPANE_TRY(cmd_generate_encode(single, err)); /* check the prompt before opening a device */
    return opened_model_start(&j->m, err);
}

static propane_status cmd_generate_generate(generate_job *j, propane_error *err) {
    const char *prompt = j->prompt_ids ? j->prompt_ids : j->prompt;
    item *single = NULL;
    if (!j->prompts &&
        !(single = cmd_generate_item_new(j, prompt, strlen(prompt), j->prompt_ids ? "--prompt-ids" : "--prompt")))
        return propane_fail_memory(err, strlen(prompt));
    if (single) j->m.parallel = 1;
    propane_status status = cmd_generate_open_model(j, single, err);
    int64_t start = clock_ns();
    if (!status) {
        cli_catch_signals();
        status = single ? cmd_generate_run_one(single, err) : cmd_generate_run_file(j, err);
    }
    cmd_generate_item_free(single);
    double seconds = (double)(clock_ns() - start) / 1e9;
    if (!status && cli_is_terminal(2))
        fprintf(stderr, "%" PRId64 " token%s in %.2f s: %.0f tokens/s, weights in %s\n", j->made, text_plural(j->made),
                seconds, (double)j->made / seconds, propane_generator_weights(j->m.generator));
    return status;
}

/* ---- the command ---------------------------------------------------------------------------------------------------- */

/* Returns whether standard input is a pipe or a regular file, which may hold a prompt. A terminal would wait for a
 * person to type. */
static bool cmd_generate_is_piped(void) {
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

/* Reads the prompt from standard input if --prompt is "-", or if no prompt was given and standard input is a pipe or a
 * file. Removes a newline at the end, which echo adds. */
static propane_status cmd_generate_read_prompt(generate_job *j, bool given, propane_error *err) {
    size_t length = 0;
    if (given ? strcmp(j->prompt, "-") != 0 : j->prompts || j->prompt_ids || !cmd_generate_is_piped())
        return PROPANE_OK;
    PROPANE_TRY(file_read_stream("/dev/stdin", (size_t)1 << 24, &j->piped, &length, err));
    if (memchr(j->piped, 0, length))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the prompt from standard input contains NUL bytes; give plain text");
    if (length && j->piped[length - 1] == '\n') j->piped[length - 1] = 0;
    j->prompt = j->piped;
    return PROPANE_OK;
}

/* Draws a seed for a run without --seed, small enough to type. Returns false if no random numbers are needed. */
static bool cmd_generate_draw_seed(generate_job *j) {
    uint32_t seed = 1;
    if (j->sampling.temperature <= 0) return false;
    if (getentropy(&seed, sizeof seed) != 0) seed = (uint32_t)clock_ns();
    j->sampling.seed = seed;
    return true;
}

/* Returns -1 if the command line is correct, otherwise the exit code after a message. */
static int cmd_generate_check(const generate_job *j, int64_t logprobs) {
    if (j->prompt_ids && j->prompt[0]) return cli_misuse("generate", "give --prompt or --prompt-ids, not both");
    if (j->prompts && (j->prompt_ids || j->prompt[0]))
        return cli_misuse("generate", "give --prompts or --prompt, not both");
    if (j->print_ids && (j->json || logprobs >= 0))
        return cli_misuse("generate",
                          "--print-ids is for plain output; --json and --logprobs print the ids in any case");
    return -1;
}

static int cmd_generate_do(generate_job *j, bool given, bool draw) {
    propane_error err = {0};
    propane_status status = propane_set_threads((int)j->m.threads, &err);
    if (status == PROPANE_OK) status = cmd_generate_read_prompt(j, given, &err);
    const bool drawn = draw && cmd_generate_draw_seed(j);
    if (status == PROPANE_OK) status = cmd_generate_generate(j, &err);
    if (status == PROPANE_OK && drawn && !j->json) fprintf(stderr, "seed %" PRIu64 "\n", j->sampling.seed);
    mem_free(j->piped);
    opened_model_close(&j->m);
    if (status != PROPANE_OK) return cli_error("generate", &err);
    return cli_interrupted ? cli_interrupt_code() : CLI_OK;
}

int cmd_generate(int argc, char **argv) {
    generate_job j = {
        .prompt = "", .m = {OPENED_MODEL_STANDARD, .parallel = 8}, .sampling = {.size = sizeof j.sampling}};
    int64_t top_k = 0, seed = -1, logprobs = -1;
    const char *positional = NULL;
    bool prompt_given = false;
    propane_sampling_default(&j.sampling);
    j.stops.items = j.stop_items;
    const cli_flag flags[] = {
        OPENED_MODEL_FLAG(j.m),
        OPENED_ADAPTER_FLAG(j.m),
        {"PROMPT", CLI_TEXT, &positional, .help = "same as --prompt"},
        {"--prompt", CLI_TEXT, &j.prompt, .words = "TEXT",
         .help = "text to continue; -: standard input, the default in a pipe", .given = &prompt_given},
        {"--prompt-ids", CLI_TEXT, &j.prompt_ids, .words = "IDS", .help = "prompt as token ids: '1 461 461'"},
        {"--prompts", CLI_TEXT, &j.prompts, .words = "FILE",
         .help = "file with one prompt per line, or .jsonl objects with \"prompt\""},
        OPENED_TOKENIZER_FLAG(j.m),
        {"--context", CLI_INT, &j.m.context, 0, 1048576, "N", "longest sequence in tokens; 0: the model's"},
        {"drawing", CLI_HEADING, .help = "Sampling"},
        SAMPLING_FLAGS(j.sampling, top_k),
        {"--frequency-penalty", CLI_REAL, &j.sampling.frequency, -100, 100, "X",
         "penalty on a token's logit for each time it was generated"},
        {"--presence-penalty", CLI_REAL, &j.sampling.presence, -100, 100, "X",
         "penalty on a token's logit if it was generated at all"},
        {"--seed", CLI_INT, &seed, -1, 9e15, "N", "seed for sampling; -1: pick a new one and print it"},
        {"end", CLI_HEADING, .help = "End of the text"},
        {"--count", CLI_INT, &j.sampling.count, 0, 1e9, "N", "tokens to generate"},
        {"--stop", CLI_TEXTS, &j.stops, 0, PROPANE_MAX_STOPS, "TEXT", "stop before this text; up to 16 times"},
        {"--ignore-end", CLI_SWITCH, &j.sampling.ignore_end, .help = "continue after the end-of-text token"},
        {"output", CLI_HEADING, .help = "Output"},
        {"--print-ids", CLI_SWITCH, &j.print_ids, .help = "print ids instead of text"},
        {"--logprobs", CLI_INT, &logprobs, -1, PROPANE_MAX_LOGPROBS, "N",
         "print a line per token: log p, id, text, and the N most likely tokens; -1: print text"},
        {"--json", CLI_SWITCH, &j.json, .help = "print one JSON object per prompt"},
        {"work", CLI_HEADING, .help = "Machine"},
        OPENED_WORK_FLAGS(j.m),
        {"--parallel", CLI_INT, &j.m.parallel, 1, PROPANE_MAX_PARALLEL, "N", "prompts to process in parallel"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "generate MODEL [PROMPT] [flags]",
                         "Generates text from a prompt. The text appears as it is generated.");
    if (code >= 0) return code;
    if (positional && prompt_given) return cli_misuse("generate", "one prompt too many: '%.100s'", positional);
    if (positional) j.prompt = positional, prompt_given = true;
    if ((code = cmd_generate_check(&j, logprobs)) >= 0) return code;
    j.sampling.top_k = (int)top_k;
    j.sampling.seed = seed < 0 ? 1 : (uint64_t)seed;
    j.sampling.logprobs = (int)logprobs;
    j.sampling.stops = (const char *const *)j.stops.items;
    j.sampling.stop_count = j.stops.count;
    return cmd_generate_do(&j, prompt_given, seed < 0);
}
