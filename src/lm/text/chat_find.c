/* SPDX-License-Identifier: MIT
 * Owns the choice of a model's chat format. Nothing is guessed from words in a template. The template is run on
 * conversations on which formats differ, and its output is compared with each format's. Without Jinja2, only templates
 * whose SHA-256 the formats list are known. Results are cached for the process. A template that is neither known nor
 * can be run is refused.
 */
#include "lm/text/chat_find.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "lm/text/chat_jinja.h"

/* ---- test conversations ------------------------------------------------------------------------------------------ */

enum { TRY_MESSAGES = 6 };

#define S(text) {"system", text, NULL}
#define U(text) {"user", text, NULL}
#define A(text) {"assistant", text, NULL}

/* Test conversations: with and without a system message, several turns, white space at the edges, thoughts, empty
 * ones, turns that do not alternate, and words that some templates look for. */
static const struct {
    bool ask;
    chat_message talk[TRY_MESSAGES];
} tries[] = {
    {true, {U("a")}},
    {false, {U("a")}},
    {true, {S("s"), U("a")}},
    {false, {U("a"), A("b")}},
    {false, {S("s"), U("a"), A("b")}},
    {true, {S("s"), U("a"), A("b"), U("c")}},
    {false, {U("a"), A("b"), U("c"), A("d"), U("e"), A("f")}},
    {true, {U("a"), A("b"), U("c"), A("d"), U("e")}},
    {true, {S("\n s\t\n "), U(" \n u \n"), A("\n\n a \n"), U("\tv ")}},
    {false, {S(" s"), U("u\n\n"), A("  a\n b\n")}},
    {false,
     {U("\xc2\xa0u\xe3\x80\x80"), A("\xe2\x80\x83"
                                    "b\xc2\x85")}},
    {true, {S("\xc2\xa0s\xc2\xa0"), U("\xe2\x80\x89u")}},
    {true, {U("a"), A("<think>\nt\n</think>\n\nb"), U("c")}},
    {false, {U("a"), A("<think>\nt\n</think>\n\nb"), U("c"), A("<think>\n\nw\n\n</think>\n\nd")}},
    {false, {U("a"), A("<think>t</think>b")}},
    {false, {U("a"), A("t</think>\nb"), U("c"), A("d")}},
    {false, {U("a"), A("\n<think>b")}},
    {true, {U("")}},
    {true, {S(""), U("a")}},
    {true, {S(" \n"), U("a")}},
    {false, {U("a"), A("")}},
    {true, {U("a"), A("b"), U("")}},
    {true, {U("a"), U("b")}},
    {true, {A("a"), U("b")}},
    {false, {U("a"), A("b"), A("c")}},
    {true, {S("/no_think /think detailed thinking off"), U("b /no_think"), A("c"), U("/think")}},
    {true,
     {S("{bos} <<SYS>> <|im_end|>"), U("[INST] & <b> 'x' \"y\" \\ {{ z }} <|user|>"), A("{eos}"),
      U("\xf0\x9f\x99\x82")}},
};

enum { TRIES = sizeof tries / sizeof tries[0] };

static int chat_try_count(int index) {
    int count = 0;
    while (count < TRY_MESSAGES && tries[index].talk[count].role) count++;
    return count;
}

/* [{"messages", "ask"}, ...] */
static json_t *chat_tries(void) {
    json_t *list = json_array();
    for (int i = 0; i < TRIES; i++) {
        json_t *talk = json_object(), *messages = json_array();
        for (int k = 0; k < chat_try_count(i); k++) {
            json_t *m = json_object();
            json_put(m, "role", json_words(tries[i].talk[k].role));
            json_put(m, "content", json_words(tries[i].talk[k].content));
            json_add(messages, m);
        }
        json_put(talk, "messages", messages);
        json_put(talk, "ask", json_boolean(tries[i].ask));
        json_add(list, talk);
    }
    return list;
}

/* Sets *same to whether a format writes these texts. The format must also refuse the conversations that the template
 * refuses. */
static propane_status chat_writes(const chat_template *c, const json_t *texts, bool *same, propane_error *err) {
    *same = json_array_size(texts) == TRIES;
    for (int i = 0; i < TRIES && *same; i++) {
        const json_t *want = json_array_get(texts, (size_t)i);
        chat_text got = {0};
        propane_error why = {0};
        const propane_status status = chat_render(c, tries[i].talk, chat_try_count(i), NULL, tries[i].ask, &got, &why);
        if (status)
            *same = json_is_null(want);
        else
            *same = json_string_length(want) == got.text.length && json_is_string(want) &&
                    (!got.text.length || memcmp(json_string_value(want), got.text.data, got.text.length) == 0);
        chat_text_deinit(&got);
        if (status == PROPANE_ERR_MEMORY) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

typedef struct chat_verdict {
    char key[65]; /* "" if there is none */
    const chat_format *format;
    char end[CHAT_JINJA_END];
} chat_verdict;

enum { VERDICTS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static chat_verdict verdicts[VERDICTS];
static unsigned next_verdict;

static bool chat_recall(const char *key, chat_template *out) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < VERDICTS && !found; i++) {
        found = strcmp(verdicts[i].key, key) == 0;
        if (found) out->format = verdicts[i].format;
        if (found) memcpy(out->end, verdicts[i].end, sizeof verdicts[i].end);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void chat_remember(const char *key, const chat_template *c) {
    pthread_mutex_lock(&lock);
    chat_verdict *v = &verdicts[next_verdict++ % VERDICTS];
    snprintf(v->key, sizeof v->key, "%s", key);
    v->format = c->format;
    memcpy(v->end, c->end, sizeof v->end);
    pthread_mutex_unlock(&lock);
}

/* Hashes a template without one newline at its end, which Jinja drops. If `more` is not NULL, its names of tokens are
 * hashed, too. */
static void chat_hash(const char *jinja, const chat_template *more, char out[65]) {
    size_t length = strlen(jinja);
    uint8_t digest[32];
    sha256 h;
    if (length && jinja[length - 1] == '\n') length--;
    if (length && jinja[length - 1] == '\r' && jinja[length]) length--;
    sha256_init(&h);
    sha256_update(&h, jinja, length);
    if (more) sha256_update(&h, more->bos, sizeof more->bos);
    if (more) sha256_update(&h, more->eos, sizeof more->eos);
    sha256_final(&h, digest);
    sha256_hex(digest, out);
}

/* ---- a model's template ---------------------------------------------------------------------------------------------------- */

/* Runs the template and finds the text that ends its answers. With `texts`, also sets *texts to the text of each test
 * conversation. */
static propane_status chat_run_template(const char *source, chat_template *out, json_t **texts, propane_error *err) {
    propane_error why = {0};
    json_t *talks = texts ? chat_tries() : json_array();
    const propane_status status =
        chat_jinja_probe(&(chat_jinja){out->jinja, out->bos, out->eos}, talks, out->end, texts, &why);
    if (status == PROPANE_OK || status == PROPANE_ERR_MEMORY)
        return status ? propane_fail(err, status, "%s", why.text) : PROPANE_OK;
    if (status == PROPANE_ERR_UNSUPPORTED)
        return propane_fail(err, status,
                            "%s: its chat template matches no known format; to run it, install Python's jinja2 (%s), "
                            "or choose a format with --chat",
                            source, why.text);
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s; choose a format with --chat", source, why.text);
}

/* Chooses the first format that writes the same texts as the template, or else the template itself. */
static propane_status chat_compare(const char *source, chat_template *out, propane_error *err) {
    json_t *texts = NULL;
    PROPANE_TRY(chat_run_template(source, out, &texts, err));
    propane_status status = chat_format_find("jinja", &out->format, err);
    for (int i = 0; i < chat_format_count() && status == PROPANE_OK; i++) {
        bool same = false;
        chat_template tried = *out;
        tried.format = chat_format_at(i);
        status = chat_writes(&tried, texts, &same, err);
        if (same) out->format = tried.format;
        if (same) break;
    }
    json_decref(texts);
    return status;
}

static propane_status chat_decide(const char *source, chat_template *out, propane_error *err) {
    char hash[65], key[65];
    chat_hash(out->jinja, NULL, hash);
    chat_hash(out->jinja, out, key);
    out->format = chat_format_known(hash);
    if (out->format || chat_recall(key, out)) return PROPANE_OK;
    PROPANE_TRY(chat_compare(source, out, err));
    chat_remember(key, out);
    return PROPANE_OK;
}

/* If no format is requested, keeps the model's template and lets it decide. The template is kept for conversations that
 * no format can write. */
static propane_status chat_take_template(const char *source, const tokenizer_chat *said, chat_template *out,
                                         propane_error *err) {
    const char *jinja = said->jinja;
    const bool own = out->format && chat_format_is_template(out->format);
    if (own && !jinja)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no chat template to run; choose a format",
                            source);
    if (!jinja || (out->format && !own)) return PROPANE_OK;
    out->jinja = mem_copy_string(jinja);
    if (said->tools) out->tools = mem_copy_string(said->tools);
    if (!out->jinja || (said->tools && !out->tools)) return propane_fail_memory(err, strlen(jinja));
    return own ? chat_run_template(source, out, NULL, err) : chat_decide(source, out, err);
}

static bool chat_is_one_token(const tokenizer *t, const char *string) {
    token_list list = {0};
    bool one = tokenizer_get_kind(t) == TOKENIZER_HF &&
               tokenizer_encode(t, string, strlen(string), &list, NULL) == PROPANE_OK && list.count == 1;
    token_list_deinit(&list);
    return one;
}

/* Chooses a format for a model without a template, from its special tokens. Logs the choice, because it may be
 * wrong. */
static const chat_format *chat_from_tokens(const char *path, const tokenizer *t) {
    const chat_format *found = NULL;
    const char *mark = t && chat_is_one_token(t, "<|im_start|>")          ? "<|im_start|>"
                       : t && chat_is_one_token(t, "<|start_header_id|>") ? "<|start_header_id|>"
                                                                          : NULL;
    const char *name = !mark ? "plain" : strcmp(mark, "<|im_start|>") == 0 ? "chatml" : "llama3";
    if (mark)
        log_print(
            "%.300s has no chat template; using the format %s, because the model has the token %s (--chat selects "
            "another)",
            path ? path : "the tokenizer", name, mark);
    return chat_format_find(name, &found, NULL) == PROPANE_OK ? found : NULL;
}

/* Sets the first and last token of a tokenizer without a configuration. */
static void chat_default_tokens(const tokenizer *t, chat_template *out) {
    if (!t || tokenizer_get_kind(t) == TOKENIZER_HF) return;
    if (!*out->bos && tokenizer_bos(t) >= 0) snprintf(out->bos, sizeof out->bos, "<s>");
    if (!*out->eos && tokenizer_eos(t) >= 0) snprintf(out->eos, sizeof out->eos, "</s>");
}

/* Collects the chat data of the tokenizer and of the files next to the model `path` (may be NULL). The data inside a
 * GGUF file take precedence. */
static propane_status chat_sources(const char *path, const tokenizer *t, arena *a, tokenizer_chat *out,
                                   propane_error *err) {
    const tokenizer_chat *own = t ? tokenizer_get_chat(t) : &(tokenizer_chat){0};
    bool inside = !path || (text_ends_with(path, ".gguf") && own->jinja);
    *out = (tokenizer_chat){0};
    if (!inside) PROPANE_TRY(tokenizer_chat_read(path, a, out, err));
    if (!out->tools && own->jinja && (!out->jinja || strcmp(out->jinja, own->jinja) == 0)) out->tools = own->tools;
    if (!out->jinja) out->jinja = own->jinja;
    if (!out->format) out->format = own->format;
    if (!out->bos) out->bos = own->bos;
    if (!out->eos) out->eos = own->eos;
    return PROPANE_OK;
}

propane_status chat_template_find(const char *path, const tokenizer *t, const char *wanted, chat_template *out,
                                  propane_error *err) {
    tokenizer_chat said;
    *out = (chat_template){0};
    if (wanted) PROPANE_TRY(chat_format_find(wanted, &out->format, err));
    arena *a = arena_create();
    propane_status status = a ? chat_sources(path, t, a, &said, err) : propane_fail_memory(err, sizeof said);
    if (!status && said.bos) snprintf(out->bos, sizeof out->bos, "%s", said.bos);
    if (!status && said.eos) snprintf(out->eos, sizeof out->eos, "%s", said.eos);
    if (!status && !wanted && said.format) status = chat_format_find(said.format, &out->format, err);
    chat_default_tokens(t, out);
    if (!status) status = chat_take_template(path ? path : "the tokenizer", &said, out, err);
    arena_free(a);
    if (status != PROPANE_OK)
        chat_template_deinit(out);
    else if (!out->format)
        out->format = chat_from_tokens(path, t);
    return status;
}
