/* SPDX-License-Identifier: MIT
 * Owns the chat formats and the text that they write. A format is a row of strings, in which {bos} and {eos} are
 * replaced by the model's tokens; nothing else is interpreted. A template that matches no row is run (chat_jinja.c).
 * chat_find.c decides whether a format or a template applies.
 */
#include "lm/text/chat.h"

#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/memory.h"
#include "lm/text/chat_jinja.h"

enum {
    TRIM = 1,      /* white space around each content is removed */
    MERGE = 2,     /* the system message is part of the first user message */
    ALTERNATE = 4, /* user and assistant alternate, beginning with the user */
    THINKS = 8     /* an empty thought precedes the last answer; earlier answers lose their thoughts */
};

typedef struct chat_role {
    const char *before, *after;
} chat_role;

enum { CHAT_KNOWN = 8 };

struct chat_format {
    const char *name, *summary;
    const char *known
        /* SHA-256 of published templates with the same result; tools/chat_check.py --templates prints them */
        [CHAT_KNOWN];
    const char *begin;      /* start of the conversation */
    const char *assumed;    /* system message if none is given; NULL means none */
    chat_role system, user; /* with MERGE, `system` is inside the user's message */
    const char *ask;        /* before an answer, not part of it */
    const char *lead, *end; /* the answer: lead, content, end */
    const char *behind;     /* after an answer, not part of it */
    int flags;
};

#define IM(role)     "<|im_start|>" role "\n"
#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define CHATML       {IM("system"), "<|im_end|>\n"}, {IM("user"), "<|im_end|>\n"}, IM("assistant"), "", "<|im_end|>", "\n"
#define LLAMA3(more)                                                                                                   \
    {HEADER("system") more, "<|eot_id|>"}, {HEADER("user"), "<|eot_id|>"}, HEADER("assistant"), "", "<|eot_id|>", ""

static const chat_format formats[] = {
    {"qwen3",
     "Qwen3: ChatML with thoughts",
     {"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5"},
     "",
     NULL,
     CHATML,
     THINKS},
    {"qwen2.5",
     "Qwen2.5: ChatML",
     {"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a"},
     "",
     "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     CHATML,
     0},
    {"smollm2",
     "SmolLM2: ChatML",
     {"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"},
     "",
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     CHATML,
     0},
    {"qwen2",
     "Qwen2: ChatML",
     {"793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb"},
     "",
     "You are a helpful assistant.",
     CHATML,
     0},
    {"chatml",
     "ChatML",
     {"fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e",
      "eae48a3307931acb10a6fce475a36b711709672ea79ee1a9bc52f083d8b0a2af",
      "94d754f89b5c462771bdd267b01a769ab6c028d5e077e0ade4e9f837c248e31d"},
     "",
     NULL,
     CHATML,
     0},
    {"llama3.1",
     "Llama 3.1 and 3.3",
     {"93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7"},
     "{bos}",
     "",
     LLAMA3("Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"),
     TRIM},
    {"llama3",
     "Llama 3",
     {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122"},
     "{bos}",
     NULL,
     LLAMA3(""),
     TRIM},
    {"llama2",
     "Llama 2",
     {"e8d5b5a546d3f19df16a5320c614fab05bdc4edd50e850f1afd947b503ea41cf"},
     "",
     NULL,
     {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     {"{bos}[INST] ", " [/INST]"},
     "",
     " ",
     " {eos}",
     "",
     TRIM | MERGE | ALTERNATE},
    {"zephyr",
     "TinyLlama and Zephyr",
     {"66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362"},
     "",
     NULL,
     {"<|system|>\n", "{eos}\n"},
     {"<|user|>\n", "{eos}\n"},
     "<|assistant|>\n",
     "",
     "{eos}",
     "\n",
     0},
    {"plain",
     "models without a chat format",
     {NULL},
     "{bos}",
     NULL,
     {"", "\n\n"},
     {"User: ", "\n"},
     "Assistant:",
     " ",
     "\n{eos}",
     "",
     TRIM},
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

/* The model's own template, which is not a row. */
static const chat_format own_template = {.name = "jinja", .summary = "the model's own template, run by Jinja2"};

int chat_format_count(void) { return FORMATS; }
const chat_format *chat_format_at(int index) { return &formats[index]; }
const char *chat_format_name(const chat_format *f) { return f->name; }

propane_status chat_format_find(const char *name, const chat_format **out, propane_error *err) {
    char known[200] = "";
    if (strcmp(name, own_template.name) == 0) {
        *out = &own_template;
        return PROPANE_OK;
    }
    for (int i = 0; i < FORMATS; i++) {
        size_t used = strlen(known);
        if (strcmp(formats[i].name, name) == 0) {
            *out = &formats[i];
            return PROPANE_OK;
        }
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", formats[i].name);
    }
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "there is no chat format '%.40s'; the formats are %s, %s", name,
                        known, own_template.name);
}

bool chat_format_is_template(const chat_format *f) { return f == &own_template; }

const chat_format *chat_format_known(const char *sha256) {
    for (int i = 0; i < FORMATS; i++)
        for (int k = 0; k < CHAT_KNOWN && formats[i].known[k]; k++)
            if (strcmp(formats[i].known[k], sha256) == 0) return &formats[i];
    return NULL;
}

/* ---- rendering ------------------------------------------------------------------------------------------------------------- */

void chat_template_deinit(chat_template *c) {
    mem_free(c->jinja);
    mem_free(c->tools);
    c->jinja = c->tools = NULL;
}

const char *chat_template_end(const chat_template *c) {
    if (c->format == &own_template) return c->end;
    const char *end = c->format->end + strspn(c->format->end, " \n");
    return strcmp(end, "{eos}") == 0 ? c->eos : end;
}

void chat_text_deinit(chat_text *t) {
    text_deinit(&t->text);
    mem_free(t->answers);
    *t = (chat_text){0};
}

/* Appends a piece of a row, with {bos} and {eos} filled in. */
static void chat_put(const chat_template *c, text *out, const char *piece) {
    for (const char *at = piece; *at;) {
        const char *brace = strchr(at, '{');
        size_t plain = brace ? (size_t)(brace - at) : strlen(at);
        text_append_n(out, at, plain);
        if (!brace) break;
        bool bos = strncmp(brace, "{bos}", 5) == 0, eos = strncmp(brace, "{eos}", 5) == 0;
        text_append(out, bos ? c->bos : eos ? c->eos : "{");
        at = brace + (bos || eos ? 5 : 1);
    }
}

/* White space as in Python's str.strip(), which the templates call. Returns the bytes of the character at p, or 0 if it
 * is not white space. */
static size_t chat_space_at(const char *p, size_t left) {
    const unsigned char *u = (const unsigned char *)p;
    if (left >= 1 && ((u[0] >= 9 && u[0] <= 13) || (u[0] >= 28 && u[0] <= 32))) return 1;
    if (left >= 2 && u[0] == 0xC2 && (u[1] == 0x85 || u[1] == 0xA0)) return 2;
    if (left < 3) return 0;
    uint32_t code = (uint32_t)u[0] << 16 | (uint32_t)u[1] << 8 | u[2];
    bool space = code == 0xE19A80 || (code >= 0xE28080 && code <= 0xE2808A) || code == 0xE280A8 || code == 0xE280A9 ||
                 code == 0xE280AF || code == 0xE2819F || code == 0xE38080;
    return space ? 3 : 0;
}

static void chat_trim(const char **data, size_t *length) {
    for (size_t n; (n = chat_space_at(*data, *length)) > 0;) *data += n, *length -= n;
    for (bool more = true; more && *length > 0;) {
        more = false;
        for (size_t n = 1; n <= 3 && n <= *length && !more; n++)
            if (chat_space_at(*data + *length - n, n) == n) *length -= n, more = true;
    }
}

/* Writes or omits an answer's thought as Qwen3's template does. The thought is omitted if a question follows (`newest`
 * means that none does). The last answer of a conversation gets an empty thought if it has none. */
static void chat_put_thought(text *out, const char **data, size_t *length, bool newest, bool last) {
    static const char open[] = "<think>", close[] = "</think>";
    const char *end = NULL, *thought = *data;
    size_t thought_length = 0;
    for (const char *at = *data; (at = strstr(at, close)); at += sizeof close - 1) end = at;
    if (end) {
        const char *begin = *data; /* after the last opening mark before the first closing mark */
        const char *first = strstr(*data, close);
        for (const char *at = *data; (at = strstr(at, open)) && at < first; at += sizeof open - 1)
            begin = at + sizeof open - 1;
        thought = begin;
        thought_length = (size_t)(first - begin);
        const char *rest = end + sizeof close - 1;
        *length -= (size_t)(rest - *data);
        *data = rest;
    }
    while (end && *length > 0 && **data == '\n') ++*data, --*length;
    while (thought_length > 0 && *thought == '\n') thought++, thought_length--;
    while (thought_length > 0 && thought[thought_length - 1] == '\n') thought_length--;
    if (!newest || (!last && thought_length == 0)) return;
    while (*length > 0 && **data == '\n') ++*data, --*length;
    text_append(out, "<think>\n");
    text_append_n(out, thought, thought_length);
    text_append(out, "\n</think>\n\n");
}

static void chat_put_content(const chat_format *f, text *out, const char *content) {
    size_t length = strlen(content);
    if (f->flags & TRIM) chat_trim(&content, &length);
    text_append_n(out, content, length);
}

propane_status chat_text_add_answer(chat_text *out, chat_span answer, propane_error *err) {
    chat_span *answers = ARRAY_MORE(out->answers, out->answer_count, err);
    if (!answers) return PROPANE_ERR_MEMORY;
    out->answers = answers;
    answers[out->answer_count++] = answer;
    return PROPANE_OK;
}

static propane_status chat_put_answer(const chat_template *c, const chat_message *m, bool newest, bool last,
                                      chat_text *out, propane_error *err) {
    const chat_format *f = c->format;
    const char *content = m->content;
    size_t length = strlen(content);
    chat_put(c, &out->text, f->ask);
    const size_t begin = out->text.length;
    chat_put(c, &out->text, f->lead);
    if (f->flags & TRIM) chat_trim(&content, &length);
    if (f->flags & THINKS) chat_put_thought(&out->text, &content, &length, newest, last);
    text_append_n(&out->text, content, length);
    chat_put(c, &out->text, f->end);
    const chat_span answer = {begin, out->text.length};
    chat_put(c, &out->text, f->behind);
    return chat_text_add_answer(out, answer, err);
}

/* Writes a user's message. `system` is the system message that is written inside it, or NULL. */
static void chat_put_user(const chat_template *c, const char *system, const char *content, text *out) {
    const chat_format *f = c->format;
    chat_put(c, out, f->user.before);
    if (system) { /* white space after the combined message is removed, but not before it */
        size_t begin = out->length;
        chat_put(c, out, f->system.before);
        text_append(out, system);
        chat_put(c, out, f->system.after);
        text_append(out, content);
        const char *joined = out->failed ? "" : out->data + begin;
        size_t length = out->failed ? 0 : out->length - begin;
        chat_trim(&joined, &length);
        if (!out->failed) out->data[out->length = begin + length] = 0;
    } else {
        chat_put_content(f, out, content);
    }
    chat_put(c, out, f->user.after);
}

static propane_status chat_check_turns(const chat_format *f, const chat_message *messages, int count,
                                       propane_error *err) {
    int turn = 0;
    for (int i = 0; i < count; i++) {
        const char *role = messages[i].role;
        bool user = strcmp(role, "user") == 0, assistant = strcmp(role, "assistant") == 0;
        if (!user && !assistant && strcmp(role, "system") != 0)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "message %d has the role '%.40s'; roles are system, user and assistant", i + 1, role);
        if (!user && !assistant && i > 0)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "message %d is a system message; only the first message may be one", i + 1);
        if (!user && !assistant) continue;
        if (f->flags & ALTERNATE && user != (turn % 2 == 0))
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "message %d is from the %s; in the format %s, user and assistant take turns, starting with the user",
                i + 1, role, f->name);
        turn++;
    }
    if (turn == 0) return propane_fail(err, PROPANE_ERR_INVALID, "there is no message from a user or an assistant");
    return PROPANE_OK;
}

/* Reads and checks the answers' positions that a template's process returned. */
static propane_status chat_take_answers(const json_t *list, size_t base, chat_text *out, propane_error *err) {
    size_t count = json_array_size(list), last = base;
    if (!json_is_array(list))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "the answers cannot be located in the model's chat template (a longer conversation does "
                            "not begin with the shorter one); choose a format with --chat");
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(list, i);
        size_t begin = base + (size_t)json_integer_value(json_array_get(pair, 0)),
               end = base + (size_t)json_integer_value(json_array_get(pair, 1));
        if (begin < last || end < begin || end > out->text.length)
            return propane_fail(err, PROPANE_ERR_INVALID, "the model's chat template: answer %zu is outside the text",
                                i + 1);
        PROPANE_TRY(chat_text_add_answer(out, (chat_span){begin, end}, err));
        last = end;
    }
    return PROPANE_OK;
}

/* Returns the message as given, without keys whose value is null. A missing content stays missing, because some
 * templates test for it. */
static json_t *chat_template_message(const chat_message *m) {
    json_t *o = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)m->whole, key, value) if (!json_is_null(value))
        json_put(o, key, json_incref(value));
    const json_t *content = json_object_get(m->whole, "content");
    json_put(o, "role", json_words(m->role));
    if (!m->whole || (content && !json_is_null(content)))
        json_put(o, "content", json_words(m->content));
    else if (content)
        json_put(o, "content", json_null());
    return o;
}

static propane_status chat_render_template(const chat_template *c, const chat_message *messages, int count,
                                           const json_t *tools, bool ask, chat_text *out, propane_error *err) {
    json_t *list = json_array(), *answer;
    for (int i = 0; i < count; i++) json_add(list, chat_template_message(&messages[i]));
    const char *jinja = tools && c->tools ? c->tools : c->jinja;
    PROPANE_TRY(chat_jinja_render(&(chat_jinja){jinja, c->bos, c->eos, c->date}, list, tools, ask, &answer, err));
    const json_t *said = json_object_get(answer, "text");
    const size_t base = out->text.length;
    text_append_n(&out->text, json_string_length(said) ? json_string_value(said) : "", json_string_length(said));
    propane_status status = out->text.failed ? propane_fail_memory(err, json_string_length(said)) : PROPANE_OK;
    if (!status && !ask) status = chat_take_answers(json_object_get(answer, "answers"), base, out, err);
    json_decref(answer);
    return status;
}

bool chat_template_is_dated(const chat_template *c) {
    return chat_format_is_template(c->format) && c->jinja && strstr(c->jinja, "strftime_now") != NULL;
}

bool chat_template_calls_tools(const chat_template *c) {
    const char *jinja = c->tools ? c->tools : c->jinja;
    return jinja && strstr(jinja, "<tool_call>") != NULL;
}

/* Checks that a format can write the messages: each has a role and a content, and nothing else. */
static propane_status chat_check_plain(const chat_format *f, const chat_message *messages, int count,
                                       const json_t *tools, propane_error *err) {
    for (int i = 0; i < count && !tools; i++) {
        const char *thought = messages[i].more ? chat_message_thought(messages[i].more) : NULL;
        if (thought)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "message %d has a thought under \"%s\", which needs the model's own chat template; "
                                "with the format %s, put it into the content or leave it out",
                                i + 1, thought, f->name);
        if (messages[i].more) tools = messages[i].more;
    }
    if (!tools) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "tool calls need the model's own chat template; the format %s does not support them", f->name);
}

propane_status chat_render(const chat_template *c, const chat_message *messages, int count, const json_t *tools,
                           bool ask, chat_text *out, propane_error *err) {
    const chat_format *f = c->format;
    bool more = tools != NULL;
    for (int i = 0; i < count; i++) more |= messages[i].more != NULL;
    if (f == &own_template || (more && c->jinja)) return chat_render_template(c, messages, count, tools, ask, out, err);
    PROPANE_TRY(chat_check_plain(f, messages, count, tools, err));
    PROPANE_TRY(chat_check_turns(f, messages, count, err));
    bool given = strcmp(messages[0].role, "system") == 0;
    const char *system = given ? messages[0].content : f->assumed;
    bool merge = system && f->flags & MERGE;
    chat_put(c, &out->text, f->begin);
    if (system && !merge) {
        chat_put(c, &out->text, f->system.before);
        chat_put_content(f, &out->text, system);
        chat_put(c, &out->text, f->system.after);
    }
    int last_user = count; /* if there is no question, no answer follows one */
    for (int i = 0; i < count; i++)
        if (strcmp(messages[i].role, "user") == 0) last_user = i;
    for (int i = given; i < count; i++) {
        if (strcmp(messages[i].role, "user") == 0)
            chat_put_user(c, merge && i == given ? system : NULL, messages[i].content, &out->text);
        else
            PROPANE_TRY(chat_put_answer(c, &messages[i], i > last_user, i == count - 1, out, err));
    }
    if (ask) chat_put(c, &out->text, f->ask);
    return out->text.failed ? propane_fail_memory(err, out->text.length) : PROPANE_OK;
}

/* ---- to ids ------------------------------------------------------------------------------------------------------------------ */

/* Returns the position of the next occurrence of a name at or after `from`, or the text's length if there is none. */
static size_t chat_next_name(const char *data, size_t length, size_t from, const char *name) {
    const size_t n = strlen(name);
    for (size_t at = from; n && at + n <= length; at++) {
        const char *first = memchr(data + at, name[0], length - n + 1 - at);
        if (!first) break;
        at = (size_t)(first - data);
        if (memcmp(first, name, n) == 0) return at;
    }
    return length;
}

/* Encodes a text. If the tokenizer does not recognise special tokens in a text, they are inserted between its parts. */
static propane_status chat_do_encode(const chat_template *c, const tokenizer *t, const char *data, size_t length,
                                     token_list *out, propane_error *err) {
    if (tokenizer_get_kind(t) == TOKENIZER_HF) return tokenizer_encode(t, data, length, out, err);
    const int32_t ids[] = {tokenizer_bos(t), tokenizer_eos(t)};
    const char *const names[] = {ids[0] < 0 ? "" : c->bos, ids[1] < 0 ? "" : c->eos};
    size_t next[] = {chat_next_name(data, length, 0, names[0]), chat_next_name(data, length, 0, names[1])};
    for (size_t at = 0; at < length;) {
        const int which = next[1] < next[0];
        const size_t cut = next[which];
        if (cut > at) PROPANE_TRY(tokenizer_encode(t, data + at, cut - at, out, err));
        if (cut == length) break;
        PROPANE_TRY(token_list_add(out, ids[which], err));
        at = cut + strlen(names[which]);
        for (int i = 0; i < 2; i++)
            if (next[i] < at) next[i] = chat_next_name(data, length, at, names[i]);
    }
    return PROPANE_OK;
}

/* Sets *out to the number of ids in `whole` that belong to the first `bytes` bytes of the text: ids that stay the same
 * if the text ends there. */
static propane_status chat_ids_before(const chat_template *c, const tokenizer *t, const chat_text *from, size_t bytes,
                                      const token_list *whole, size_t first, size_t *out, propane_error *err) {
    token_list part = {0};
    propane_status status = chat_do_encode(c, t, from->text.data, bytes, &part, err);
    size_t n = 0;
    while (n < part.count && first + n < whole->count && part.ids[n] == whole->ids[first + n]) n++;
    token_list_deinit(&part);
    *out = first + n;
    return status;
}

/* Finds the answers' positions by encoding the answers and the parts between them separately. Sets *same to whether the
 * result has the same ids as the whole, as it has if a special token is at each border. The time grows with the length
 * of the text, not with its square. */
static propane_status chat_place_parts(const chat_template *c, const tokenizer *t, const chat_text *from,
                                       const token_list *whole, size_t first, chat_span *answers, bool *same,
                                       propane_error *err) {
    token_list parts = {0};
    propane_status status = PROPANE_OK;
    size_t at = 0;
    for (int i = 0; i <= 2 * from->answer_count && !status; i++) {
        const chat_span *answer = &from->answers[i / 2];
        const size_t to = i == 2 * from->answer_count ? from->text.length : i % 2 ? answer->end : answer->begin;
        if (to > at) status = chat_do_encode(c, t, from->text.data + at, to - at, &parts, err);
        if (i < 2 * from->answer_count) *(i % 2 ? &answers[i / 2].end : &answers[i / 2].begin) = first + parts.count;
        at = to > at ? to : at;
    }
    *same = !status && parts.count == whole->count - first &&
            (!parts.count || memcmp(parts.ids, whole->ids + first, parts.count * sizeof *parts.ids) == 0);
    token_list_deinit(&parts);
    return status;
}

propane_status chat_encode(const chat_template *c, const tokenizer *t, const chat_text *from, token_list *out,
                           chat_span *answers, propane_error *err) {
    size_t first = out->count;
    if (from->text.length > 0) PROPANE_TRY(chat_do_encode(c, t, from->text.data, from->text.length, out, err));
    bool same = false;
    if (answers && from->answer_count > 1) PROPANE_TRY(chat_place_parts(c, t, from, out, first, answers, &same, err));
    for (int i = 0; answers && !same && i < from->answer_count; i++) {
        PROPANE_TRY(chat_ids_before(c, t, from, from->answers[i].begin, out, first, &answers[i].begin, err));
        if (from->answers[i].end == from->text.length)
            answers[i].end = out->count;
        else
            PROPANE_TRY(chat_ids_before(c, t, from, from->answers[i].end, out, first, &answers[i].end, err));
    }
    return PROPANE_OK;
}
