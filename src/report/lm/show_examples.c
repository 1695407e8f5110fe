/* SPDX-License-Identifier: MIT
 * Owns the text about instruction data. The trained part of an example is printed between [ and ]. With styles, that
 * part is bright and the rest is dim.
 */
#include <inttypes.h>

#include "core/base/text.h"
#include "lm/data/corpus.h"
#include "report/show.h"

/* Prints a token's text, or the number of a special token, which has no text. */
static void api_examples_print_token(text *to, const tokenizer *t, int32_t id) {
    size_t length;
    const char *piece = tokenizer_piece(t, id, &length);
    text out = {0};
    tokenizer_decode_bytes(t, &id, 1, &out);
    if (length == 0)
        text_printf(to, "<%" PRId32 ">", id);
    else
        text_append_n(to, out.length ? out.data : piece, out.length ? out.length : length);
    text_deinit(&out);
}

static void api_examples_print_text(text *to, const tokenizer *t, const train_examples *e, int64_t i, bool styled) {
    bool on = false;
    if (styled) text_printf(to, "\033[2m");
    for (int64_t k = e->start[i]; k <= e->start[i + 1]; k++) {
        bool learn = k < e->start[i + 1] && e->learn[k];
        if (learn != on) text_printf(to, "%s", styled ? (learn ? "\033[0m" : "\033[2m") : learn ? "[" : "]");
        on = learn;
        if (k < e->start[i + 1]) api_examples_print_token(to, t, e->ids[k]);
    }
    text_printf(to, "%s\n", styled ? "\033[0m" : "");
}

static void api_examples_print_list(text *to, const char *name, const train_examples *e, int64_t i, bool marks) {
    text_printf(to, "\"%s\":[", name);
    for (int64_t k = e->start[i]; k < e->start[i + 1]; k++)
        text_printf(to, "%s%" PRId32, k > e->start[i] ? "," : "", marks ? (int32_t)e->learn[k] : e->ids[k]);
    text_printf(to, "]");
}

propane_status api_show_examples(const char *path, const propane_show_options *o, text *to, propane_error *err) {
    corpus c = {0};
    const corpus_options options = {.text = path, .model = o->model, .chat = o->chat};
    if (!o->model)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s is instruction data; name the model that reads it with --model", path);
    PROPANE_TRY(corpus_open(&options, &c, err));
    const train_examples *e = &c.examples;
    const bool json = o->form == PROPANE_JSON, styled = !json && o->styled;
    if (!json)
        text_printf(
            to, "%s: %" PRId64 " example%s, %" PRId64 " of %" PRId64 " tokens count toward the loss, chat format %s\n",
            path, e->count, text_plural(e->count), e->trained, c.count, chat_format_name(c.chat.format));
    for (int64_t i = 0; i < e->count; i++) {
        if (json) {
            text_printf(to, "{");
            api_examples_print_list(to, "ids", e, i, false);
            text_printf(to, ",");
            api_examples_print_list(to, "learn", e, i, true);
            text_printf(to, "}\n");
            continue;
        }
        text_printf(to, "--- %" PRId64 ", %" PRId64 " token%s\n", i + 1, e->start[i + 1] - e->start[i],
                    text_plural(e->start[i + 1] - e->start[i]));
        api_examples_print_text(to, c.tokenizer, e, i, styled);
    }
    corpus_close(&c);
    return PROPANE_OK;
}
