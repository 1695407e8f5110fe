/* SPDX-License-Identifier: MIT
 * Owns the reading of instruction data. Every kind of line becomes a text with the positions of its answers, which one
 * encoder turns into ids and marks. An invalid line is an error for the whole file, because a run on the other lines
 * would train on other data than intended.
 */
#include "lm/data/jsonl.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "lm/data/example_keys.h"
#include "train/data/csv_rows.h"

enum { FILE_LIMIT = 1 << 30 };

/* Returns whether a file begins with an array, as the files of Alpaca and ShareGPT do. */
static bool jsonl_begins_array(const char *path) {
    char head[256];
    struct stat st;
    /* only regular files, because opening a pipe would block */
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    size_t n = file ? fread(head, 1, sizeof head, file) : 0, at = 0;
    if (file) fclose(file);
    while (at < n && strchr(" \t\r\n", head[at]) && head[at]) at++;
    return at < n && head[at] == '[';
}

bool train_jsonl_is(const char *path) {
    return text_ends_with(path, ".jsonl") || text_ends_with(path, ".csv") || text_ends_with(path, ".tsv") ||
           (text_ends_with(path, ".json") && jsonl_begins_array(path));
}

void train_examples_deinit(train_examples *e) {
    mem_free(e->start);
    mem_free(e->ids);
    mem_free(e->learn);
    *e = (train_examples){0};
}

uint64_t train_examples_sum(const train_examples *e) {
    uint64_t sum = (uint64_t)e->count;
    for (int64_t i = 0; i < e->count; i++) /* <= adds a value at the end of each example */
        for (int64_t k = e->start[i]; k <= e->start[i + 1]; k++) {
            uint64_t value = k < e->start[i + 1] ? (uint64_t)e->ids[k] * 2 + e->learn[k] : UINT64_MAX;
            sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
            sum ^= sum >> 32;
        }
    return sum;
}

/* ---- growing ----------------------------------------------------------------------------------------------------------------- */

static propane_status jsonl_make_room(train_examples *e, int64_t more, propane_error *err) {
    int64_t used = e->start ? e->start[e->count] : 0;
    int64_t *start = ARRAY_MORE(e->start, e->start ? e->count + 1 : 0, err);
    if (!start) return PROPANE_ERR_MEMORY;
    if (!e->start) start[0] = 0;
    e->start = start;
    if (used + more > e->ids_room) {
        int64_t room = 2 * e->ids_room > used + more ? 2 * e->ids_room : used + more + 4096;
        int32_t *ids = mem_resize(e->ids, (size_t)room * sizeof *ids);
        if (ids) e->ids = ids;
        uint8_t *learn = ids ? mem_resize(e->learn, (size_t)room) : NULL;
        if (!learn) return propane_fail_memory(err, (size_t)room * 5);
        e->learn = learn;
        e->ids_room = room;
    }
    return PROPANE_OK;
}

static propane_status jsonl_append(train_examples *e, const token_list *ids, const chat_span *answers, int answer_count,
                                   propane_error *err) {
    PROPANE_TRY(jsonl_make_room(e, (int64_t)ids->count, err));
    int64_t at = e->start[e->count], trained = 0;
    memcpy(e->ids + at, ids->ids, ids->count * sizeof(int32_t));
    memset(e->learn + at, 0, ids->count);
    for (int i = 0; i < answer_count; i++)
        for (size_t k = answers[i].begin > 0 ? answers[i].begin : 1; k < answers[i].end;
             k++) /* nothing predicts id 0 */
            e->learn[at + (int64_t)k] = 1, trained++;
    if (trained == 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "it has nothing to train on: %s",
                            ids->count == 1 ? "it is a single token with nothing before it" : "the answer is empty");
    e->start[++e->count] = at + (int64_t)ids->count;
    e->trained += trained;
    return PROPANE_OK;
}

/* ---- lines ----------------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const tokenizer *tokenizer;
    const chat_template *chat;
    train_examples *out;
    arena *arena;
    token_list ids;
    chat_text text;
    json_t *owned; /* JSON that holds texts of the current example; may be NULL */
} reader;

static propane_status jsonl_encode(reader *r, const chat_template *chat, bool framed, propane_error *err) {
    int bos = tokenizer_bos(r->tokenizer), eos = tokenizer_eos(r->tokenizer), count = r->text.answer_count;
    chat_span *answers = mem_array((size_t)count + 1, sizeof *answers);
    if (!answers) return propane_fail_memory(err, 0);
    r->ids.count = 0;
    propane_status status = PROPANE_OK;
    if (framed && bos >= 0) status = token_list_add(&r->ids, bos, err);
    if (status == PROPANE_OK) status = chat_encode(chat, r->tokenizer, &r->text, &r->ids, answers, err);
    if (status == PROPANE_OK && framed && eos >= 0) {
        status = token_list_add(&r->ids, eos, err);
        if (count > 0) answers[count - 1].end = r->ids.count;
    }
    if (status == PROPANE_OK) status = jsonl_append(r->out, &r->ids, answers, count, err);
    mem_free(answers);
    r->out->text_bytes += (int64_t)r->text.text.length;
    return status;
}

/* Adds an example without a chat format. The completion is trained, the prompt is not. */
static propane_status jsonl_plain_line(reader *r, const char *prompt, const char *completion, propane_error *err) {
    static const chat_template none;
    chat_span whole = {strlen(prompt), strlen(prompt) + strlen(completion)};
    text_append(&r->text.text, prompt);
    text_append(&r->text.text, completion);
    if (r->text.text.failed) return propane_fail_memory(err, whole.end);
    PROPANE_TRY(chat_text_add_answer(&r->text, whole, err));
    if (whole.begin == whole.end)
        return propane_fail(err, PROPANE_ERR_INVALID, "it has nothing to train on: the answer is empty");
    return jsonl_encode(r, &none, true, err);
}

static propane_status jsonl_chat_line(reader *r, const json_t *array, const json_t *tools, propane_error *err) {
    chat_message *messages = NULL;
    int count = 0;
    PROPANE_TRY(chat_messages_from_json(array, r->arena, &messages, &count, err));
    propane_status status = chat_render(r->chat, messages, count, tools, false, &r->text, err);
    mem_free(messages);
    if (status == PROPANE_OK && r->text.answer_count == 0)
        status = propane_fail(err, PROPANE_ERR_INVALID, "it has nothing to train on: no message is from the assistant");
    return status == PROPANE_OK ? jsonl_encode(r, r->chat, false, err) : status;
}

static propane_status jsonl_want_text(const json_t *object, const char *key, const char **out, propane_error *err) {
    *out = json_string_value(json_object_get(object, key));
    return *out ? PROPANE_OK : propane_fail(err, PROPANE_ERR_INVALID, "\"%s\" must be a string", key);
}

/* Reports an object without the expected keys. The message lists the object's keys. */
static propane_status jsonl_wrong_keys(const json_t *object, propane_error *err) {
    char keys[200] = "", shown[80];
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        size_t used = strlen(keys);
        if (used < 100)
            snprintf(keys + used, sizeof keys - used, "%s\"%s\"", used ? ", " : "",
                     text_quote(shown, key, strlen(key)));
    }
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "it has neither \"messages\" nor \"prompt\" and \"completion\" nor \"text\" (nor "
                        "\"conversations\", nor \"instruction\" and \"output\"), but %s; rename its keys",
                        *keys ? keys : "nothing");
}

static void jsonl_begin_example(reader *r) {
    r->text.text.length = 0;
    r->text.answer_count = 0;
}

/* Makes a conversation from a prompt (messages, or a text that becomes the user's message) and the messages of an
 * answer. A prompt that is a text is left out if the answer repeats it, as in some data sets. */
static propane_status jsonl_pair_messages(const json_t *prompt, const json_t *answer, json_t **out,
                                          propane_error *err) {
    const json_t *first = json_array_get(answer, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const bool begins = role && strcmp(role, "assistant") == 0;
    json_t *list = json_array();
    *out = NULL;
    if (begins && json_is_string(prompt))
        json_add(list, json_pack("{s:s, s:O}", "role", "user", "content", prompt));
    else if (json_is_array(prompt) && json_array_extend(list, (json_t *)(uintptr_t)prompt)) {
        json_decref(list);
        return propane_fail_memory(err, 0);
    }
    if (json_array_extend(list, (json_t *)(uintptr_t)answer)) {
        json_decref(list);
        return propane_fail_memory(err, 0);
    }
    *out = list;
    return PROPANE_OK;
}

static propane_status jsonl_pair_answer(reader *r, const json_t *object, const char *key, propane_error *err) {
    const json_t *prompt = json_object_get(object, "prompt"), *answer = json_object_get(object, key);
    jsonl_begin_example(r);
    if (json_is_string(answer) && (!prompt || json_is_string(prompt)))
        return jsonl_plain_line(r, prompt ? json_string_value(prompt) : "", json_string_value(answer), err);
    if (!json_is_array(answer))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "\"prompt\", \"chosen\" and \"rejected\" must all be strings, or the answers must be lists of messages");
    json_t *messages = NULL;
    PROPANE_TRY(jsonl_pair_messages(prompt, answer, &messages, err));
    json_decref(r->owned);
    r->owned = messages; /* owns the texts */
    const json_t *tools = json_object_get(object, "tools");
    return jsonl_chat_line(r, messages, json_is_array(tools) ? tools : NULL, err);
}

/* Reads a pair in trl's form as two consecutive examples. */
static propane_status jsonl_pair_line(reader *r, const json_t *object, propane_error *err) {
    PROPANE_TRY(jsonl_pair_answer(r, object, "chosen", err));
    return jsonl_pair_answer(r, object, "rejected", err);
}

static propane_status jsonl_one_line(reader *r, const json_t *object, propane_error *err) {
    const char *prompt = "", *completion;
    jsonl_begin_example(r);
    if (!json_is_object(object))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the line is not a JSON object; give one object per line, without []");
    const bool pair = json_object_get(object, "chosen") && json_object_get(object, "rejected");
    if (r->out->count == 0) r->out->pairs = pair;
    if (r->out->pairs != pair)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "pairs (\"chosen\" and \"rejected\") cannot be mixed with other examples");
    if (pair) return jsonl_pair_line(r, object, err);
    const json_t *messages = json_object_get(object, "messages");
    json_t *translated = NULL;
    if (!messages) PROPANE_TRY(example_keys_messages(object, &translated, err));
    if (translated) r->owned = translated; /* owns the texts */
    if (messages || translated) {
        const json_t *tools = json_object_get(object, "tools");
        return jsonl_chat_line(r, messages ? messages : translated, json_is_array(tools) ? tools : NULL, err);
    }
    if (json_object_get(object, "prompt") || json_object_get(object, "completion")) {
        if (!json_object_get(object, "prompt") || !json_object_get(object, "completion"))
            return jsonl_wrong_keys(object, err);
        PROPANE_TRY(jsonl_want_text(object, "prompt", &prompt, err));
        PROPANE_TRY(jsonl_want_text(object, "completion", &completion, err));
        return jsonl_plain_line(r, prompt, completion, err);
    }
    if (json_object_get(object, "text")) {
        PROPANE_TRY(jsonl_want_text(object, "text", &completion, err));
        return jsonl_plain_line(r, "", completion, err);
    }
    return jsonl_wrong_keys(object, err);
}

/* Adds the example of one object. Its texts are in a separate arena, because they are not kept. */
static propane_status jsonl_take(reader *r, const json_t *object, propane_error *err) {
    arena_free(r->arena);
    r->arena = arena_create();
    const propane_status status = r->arena ? jsonl_one_line(r, object, err) : propane_fail_memory(err, 0);
    json_decref(r->owned);
    r->owned = NULL;
    return status;
}

static propane_status jsonl_parse_line(reader *r, const char *line, size_t length, propane_error *err) {
    json_error_t wrong;
    json_t *object = json_load(line, length, &wrong);
    if (!object && *file_disguise(line, length))
        return propane_fail(err, PROPANE_ERR_INVALID, "not JSON%s", file_disguise(line, length));
    if (!object) return propane_fail(err, PROPANE_ERR_INVALID, "column %d: %s", wrong.column, wrong.text);
    propane_status status = jsonl_take(r, object, err);
    json_decref(object);
    return status;
}

static propane_status jsonl_take_lines(reader *r, const char *data, size_t length, const char *source,
                                       propane_error *err) {
    propane_status status = PROPANE_OK;
    int64_t number = 1;
    for (size_t at = 0; at < length && status == PROPANE_OK; number++) {
        const char *end = memchr(data + at, '\n', length - at);
        size_t next = end ? (size_t)(end - data) : length;
        size_t blank = at;
        while (blank < next && strchr(" \t\r", data[blank]) && data[blank]) blank++;
        if (blank < next) status = jsonl_parse_line(r, data + at, next - at, err);
        if (status != PROPANE_OK) return propane_fail_prefix(err, status, "%s:%lld", source, (long long)number);
        at = next + 1;
    }
    return PROPANE_OK;
}

static propane_status jsonl_take_rows(reader *r, const char *data, size_t length, const char *source,
                                      propane_error *err) {
    csv_rows rows = {0};
    json_t *row = NULL;
    propane_status status = csv_rows_begin(data, length, text_ends_with(source, ".tsv") ? '\t' : ',', &rows, err);
    while (status == PROPANE_OK && (status = csv_rows_next(&rows, &row, err)) == PROPANE_OK && row) {
        status = jsonl_take(r, row, err);
        json_decref(row);
        if (status != PROPANE_OK) status = propane_fail_prefix(err, status, "line %lld", (long long)rows.row);
    }
    csv_rows_end(&rows);
    return status == PROPANE_OK ? status : propane_fail_prefix(err, status, "%s", source);
}

static propane_status jsonl_take_array(reader *r, const char *data, size_t length, const char *source,
                                       propane_error *err) {
    json_t *list = NULL;
    PROPANE_TRY(json_parse(data, length, source, &list, err));
    propane_status status = PROPANE_OK;
    for (size_t i = 0; i < json_array_size(list) && status == PROPANE_OK; i++) {
        status = jsonl_take(r, json_array_get(list, i), err);
        if (status != PROPANE_OK) status = propane_fail_prefix(err, status, "%s: example %zu", source, i + 1);
    }
    json_decref(list);
    return status;
}

static propane_status jsonl_add(const char *data, size_t length, const char *source, const tokenizer *t,
                                const chat_template *chat, train_examples *out, propane_error *err) {
    reader r = {.tokenizer = t, .chat = chat, .out = out};
    const int64_t before = out->count;
    const bool table = text_ends_with(source, ".csv") || text_ends_with(source, ".tsv");
    propane_status status = (table                             ? jsonl_take_rows
                             : text_ends_with(source, ".json") ? jsonl_take_array
                                                               : jsonl_take_lines)(&r, data, length, source, err);
    if (status == PROPANE_OK && out->count == before)
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no examples; give one JSON object per line",
                              source);
    arena_free(r.arena);
    token_list_deinit(&r.ids);
    chat_text_deinit(&r.text);
    return status;
}

propane_status train_jsonl_parse(const char *data, size_t length, const char *source, const tokenizer *t,
                                 const chat_template *chat, train_examples *out, propane_error *err) {
    *out = (train_examples){0};
    const propane_status status = jsonl_add(data, length, source, t, chat, out, err);
    if (status != PROPANE_OK) train_examples_deinit(out);
    return status;
}

propane_status train_jsonl_append(const char *path, const tokenizer *t, const chat_template *chat, train_examples *out,
                                  propane_error *err) {
    char *data = NULL;
    size_t length = 0;
    PROPANE_TRY(file_read(path, FILE_LIMIT, &data, &length, err));
    const propane_status status = jsonl_add(data, length, path, t, chat, out, err);
    mem_free(data);
    return status;
}

propane_status train_jsonl_read(const char *path, const tokenizer *t, const chat_template *chat, train_examples *out,
                                propane_error *err) {
    *out = (train_examples){0};
    const propane_status status = train_jsonl_append(path, t, chat, out, err);
    if (status != PROPANE_OK) train_examples_deinit(out);
    return status;
}
