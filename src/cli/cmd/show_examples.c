/* SPDX-License-Identifier: MIT
 * Owns the view of instruction data. What is learnt stands between [ and ]; on a terminal it is bright and the rest dim.
 */
#include "cli/cmd/show_examples.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "api/run_folder.h"
#include "cli/cli.h"
#include "train/data/corpus.h"

/* A special token has no text of its own: it is shown as its number. */
static void examples_print_token(const tokenizer *t, int32_t id) {
    size_t length;
    const char *piece = tokenizer_piece(t, id, &length);
    text out = {0};
    tokenizer_decode_bytes(t, &id, 1, &out);
    if (length == 0)
        printf("<%" PRId32 ">", id);
    else
        fwrite(out.length ? out.data : piece, 1, out.length ? out.length : length, stdout);
    text_deinit(&out);
}

static void examples_print_text(const tokenizer *t, const train_examples *e, int64_t i, bool terminal) {
    bool on = false;
    if (terminal) printf("\033[2m");
    for (int64_t k = e->start[i]; k <= e->start[i + 1]; k++) {
        bool learn = k < e->start[i + 1] && e->learn[k];
        if (learn != on) printf("%s", terminal ? (learn ? "\033[0m" : "\033[2m") : learn ? "[" : "]");
        on = learn;
        if (k < e->start[i + 1]) examples_print_token(t, e->ids[k]);
    }
    printf("%s\n", terminal ? "\033[0m" : "");
}

static void examples_print_list(const char *name, const train_examples *e, int64_t i, bool marks) {
    printf("\"%s\":[", name);
    for (int64_t k = e->start[i]; k < e->start[i + 1]; k++)
        printf("%s%" PRId32, k > e->start[i] ? "," : "", marks ? (int32_t)e->learn[k] : e->ids[k]);
    printf("]");
}

propane_status show_examples(const char *path, const char *model, const char *chat, bool json, propane_error *err) {
    corpus c = {0};
    const corpus_options options = {.text = path, .model = model, .chat = chat};
    if (!model)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s is instruction data: give the model that it is for with --model", path);
    PROPANE_TRY(corpus_open(&options, &c, err));
    const train_examples *e = &c.examples;
    bool terminal = !json && cli_has_colour(STDOUT_FILENO);
    if (!json)
        printf("%s: %" PRId64 " examples, %" PRId64 " of %" PRId64 " tokens are learnt, chat format %s\n", path,
               e->count, e->learnt, c.count, chat_format_name(c.chat.format));
    for (int64_t i = 0; i < e->count; i++) {
        if (json) {
            printf("{");
            examples_print_list("ids", e, i, false);
            printf(",");
            examples_print_list("learn", e, i, true);
            printf("}\n");
            continue;
        }
        printf("--- %" PRId64 ", %" PRId64 " tokens\n", i + 1, e->start[i + 1] - e->start[i]);
        examples_print_text(c.tokenizer, e, i, terminal);
    }
    corpus_close(&c);
    return PROPANE_OK;
}
