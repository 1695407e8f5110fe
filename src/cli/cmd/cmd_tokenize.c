/* SPDX-License-Identifier: MIT
 * propane tokenize: learns a vocabulary from a text, or takes one that exists, and writes the text as ids.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/run_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "model/files/model_tokenizer.h"
#include "train/data/corpus.h"

/* The ids of each line of a text (without its end), a line each; or of the text as a whole. */
static propane_status cmd_tokenize_print_ids(const tokenizer *t, const char *path, bool lines, propane_error *err) {
    char *data = NULL;
    size_t length = 0;
    token_list list = {0};
    PROPANE_TRY(file_read_stream(path, (size_t)1 << 30, &data, &length, err));
    propane_status status = PROPANE_OK;
    for (size_t i = 0; status == PROPANE_OK && i < length;) {
        const char *end = lines ? memchr(data + i, '\n', length - i) : NULL;
        size_t next = end ? (size_t)(end - data) : length;
        list.count = 0;
        status = tokenizer_encode(t, data + i, next - i, &list, err);
        for (size_t k = 0; status == PROPANE_OK && k < list.count; k++) printf("%s%" PRId32, k ? " " : "", list.ids[k]);
        if (status == PROPANE_OK) printf("\n");
        i = next + 1;
    }
    token_list_deinit(&list);
    mem_free(data);
    return status;
}

static int cmd_tokenize_print_only(const char *path, const char *use, bool lines) {
    propane_error err = {0};
    tokenizer *t = NULL;
    propane_status status = model_tokenizer_open(use, use, &t, &err);
    if (status == PROPANE_OK) status = cmd_tokenize_print_ids(t, path, lines, &err);
    tokenizer_free(t);
    return status == PROPANE_OK ? CLI_OK : cli_error("tokenize", &err);
}

static int cmd_tokenize_write(const corpus_options *options, const char *out, const char *tokens_out) {
    propane_error err = {0};
    corpus c = {0};
    int64_t start = clock_ns();
    propane_status status = corpus_open(options, &c, &err);
    if (status == PROPANE_OK && out) status = tokenizer_write(c.tokenizer, out, &err);
    if (status == PROPANE_OK && out && tokens_out && file_same(out, tokens_out))
        status = propane_fail(&err, PROPANE_ERR_INVALID, "cannot write %s: it is the file that --out has just written",
                              tokens_out);
    if (status == PROPANE_OK && tokens_out)
        status = token_file_write(tokens_out, c.tokenizer, c.ids, c.count, c.text_bytes, &err);
    if (status == PROPANE_OK)
        printf("%s: %" PRId64 " bytes, %" PRId64 " tokens (%.2f bytes each), %s vocabulary of %d, %.1f s\n",
               options->text, c.text_bytes, c.count, (double)c.text_bytes / (double)c.count,
               tokenizer_kind_name(tokenizer_get_kind(c.tokenizer)), tokenizer_vocab_size(c.tokenizer),
               (double)(clock_ns() - start) / 1e9);
    corpus_close(&c);
    return status == PROPANE_OK ? CLI_OK : cli_error("tokenize", &err);
}

int cmd_tokenize(int argc, char **argv) {
    const char *path = NULL, *use = NULL, *kind = "bpe", *out = NULL, *tokens_out = NULL, *shown = NULL;
    int64_t vocab = 4096;
    bool kind_given = false, vocab_given = false;
    const cli_flag flags[] = {
        {"TEXT", CLI_TEXT, &path, .help = "the text: any bytes, UTF-8 for kind chars", .required = true},
        {"--kind", CLI_CHOICE, &kind, .words = "bpe|chars|bytes", .help = "what to learn", .given = &kind_given},
        {"--vocab", CLI_INT, &vocab, 257, 65536, "N", "ids that bpe may have", .given = &vocab_given},
        {"--tokenizer", CLI_TEXT, &use, .words = "FILE",
         .help = "use this one (or a model's folder) instead of learning one"},
        {"--out", CLI_TEXT, &out, .words = "FILE", .help = "where the tokenizer goes"},
        {"--tokens", CLI_TEXT, &tokens_out, .words = "FILE", .help = "where the token file goes"},
        {"--print-ids", CLI_CHOICE, &shown, .words = "lines|text",
         .help = "print the ids that --tokenizer gives each line, or the text as a whole; nothing is written"},
    };
    int code = cli_parse(
        argc, argv, flags, sizeof flags / sizeof flags[0],
        "tokenize TEXT [--kind bpe|chars|bytes] [--vocab N] --out FILE [--tokens FILE]",
        "Learns a vocabulary from a text (byte-level BPE, its characters, or plain bytes), or takes an existing "
        "tokenizer (Propane's, a tokenizer.json or llama2.c's), and writes the text as a token file for 'propane "
        "train'.");
    if (code >= 0) return code;
    if (vocab_given && strcmp(kind, "bpe") != 0)
        return cli_misuse("tokenize", "--vocab is for --kind bpe; %s has as many ids as it needs", kind);
    if (use && (kind_given || vocab_given))
        return cli_misuse("tokenize", "--tokenizer takes a vocabulary that exists; %s would learn one",
                          kind_given ? "--kind" : "--vocab");
    if (use && out)
        return cli_misuse("tokenize", "--out writes a tokenizer that was learnt; with --tokenizer there is none");
    if (shown && (!use || tokens_out))
        return cli_misuse("tokenize", "--print-ids goes with --tokenizer and nothing that is written");
    if (shown) return cmd_tokenize_print_only(path, use, strcmp(shown, "lines") == 0);
    if (!out && !tokens_out) return cli_misuse("tokenize", "nothing to write: give --out, --tokens or both");
    if (!use && !out)
        return cli_misuse("tokenize",
                          "--tokens without --out: the tokenizer would be lost, and nothing could read the tokens");
    const char *const outputs[] = {out, tokens_out}, *const inputs[] = {path, use, out};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2 + i; k++)
            if (outputs[i] && inputs[k] && file_same(outputs[i], inputs[k]))
                return cli_misuse("tokenize", "%s %s would overwrite %s", i ? "--tokens" : "--out", outputs[i],
                                  k == 0   ? "the text"
                                  : k == 1 ? "the tokenizer"
                                           : "what --out writes");
    const corpus_options options = {.text = path, .tokenizer = use, .kind = kind, .vocab = (int)vocab};
    return cmd_tokenize_write(&options, out, tokens_out);
}
