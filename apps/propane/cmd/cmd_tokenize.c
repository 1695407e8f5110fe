/* SPDX-License-Identifier: MIT
 * propane tokenize: encodes a text as ids, with a vocabulary that it trains on the text or with an existing one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

static propane_status cmd_tokenize_print_line(const propane_tokenizer *t, const char *data, size_t length,
                                              propane_error *err) {
    int32_t *ids = NULL;
    int64_t count = 0;
    PROPANE_TRY(propane_tokenizer_encode(t, data, length, &ids, &count, err));
    for (int64_t k = 0; k < count; k++) printf("%s%" PRId32, k ? " " : "", ids[k]);
    printf("\n");
    propane_free(ids);
    return PROPANE_OK;
}

/* Prints the ids of a text on one line. If `lines` is set, encodes each line of the text separately, without its
 * newline, and prints its ids on a separate line. */
static propane_status cmd_tokenize_print_ids(const propane_tokenizer *t, const char *path, bool lines,
                                             propane_error *err) {
    char *data = NULL;
    size_t length = 0;
    PROPANE_TRY(file_read_stream(path, (size_t)1 << 30, &data, &length, err));
    propane_status status = PROPANE_OK;
    for (size_t i = 0; status == PROPANE_OK && i < length;) {
        const char *end = lines ? memchr(data + i, '\n', length - i) : NULL;
        size_t next = end ? (size_t)(end - data) : length;
        status = cmd_tokenize_print_line(t, data + i, next - i, err);
        i = next + 1;
    }
    mem_free(data);
    return status;
}

static int cmd_tokenize_print_only(const char *path, const char *use, bool lines) {
    propane_error err = {0};
    propane_tokenizer *t = NULL;
    propane_status status = propane_tokenizer_open(use, &t, &err);
    if (status == PROPANE_OK) status = cmd_tokenize_print_ids(t, path, lines, &err);
    propane_tokenizer_free(t);
    return status == PROPANE_OK ? CLI_OK : cli_error("tokenize", &err);
}

static propane_status cmd_tokenize_files(const propane_corpus *c, const char *out, const char *tokens_out,
                                         propane_error *err) {
    if (out) PROPANE_TRY(propane_tokenizer_write(propane_corpus_tokenizer(c), out, err));
    if (out && tokens_out && file_same(out, tokens_out))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "cannot write %s: it is the file that --out has just written; give another name",
                            tokens_out);
    return tokens_out ? propane_corpus_write(c, tokens_out, err) : PROPANE_OK;
}

static int cmd_tokenize_write(const char *path, const propane_corpus_options *options, const char *out,
                              const char *tokens_out) {
    propane_error err = {0};
    propane_corpus *c = NULL;
    propane_tokenizer_info info = {.size = sizeof info};
    int64_t start = clock_ns();
    propane_status status = propane_corpus_open(path, options, &c, &err);
    if (status == PROPANE_OK) status = cmd_tokenize_files(c, out, tokens_out, &err);
    if (status == PROPANE_OK && propane_tokenizer_describe(propane_corpus_tokenizer(c), &info))
        printf("%s: %" PRId64 " byte%s, %" PRId64 " token%s (%.2f bytes each), %s vocabulary of %d, %.1f s\n", path,
               propane_corpus_bytes(c), text_plural(propane_corpus_bytes(c)), propane_corpus_count(c),
               text_plural(propane_corpus_count(c)), (double)propane_corpus_bytes(c) / (double)propane_corpus_count(c),
               info.kind, info.size_of_vocabulary, (double)(clock_ns() - start) / 1e9);
    propane_corpus_free(c);
    return status == PROPANE_OK ? CLI_OK : cli_error("tokenize", &err);
}

int cmd_tokenize(int argc, char **argv) {
    const char *path = NULL, *use = NULL, *kind = "bpe", *out = NULL, *tokens_out = NULL, *shown = NULL;
    int64_t vocab = 4096;
    bool kind_given = false, vocab_given = false;
    const cli_flag flags[] = {
        {"TEXT", CLI_TEXT, &path, .help = "a text without zero bytes; for kind chars, UTF-8", .required = true},
        {"--kind", CLI_CHOICE, &kind, .words = "bpe|chars|bytes", .help = "kind of vocabulary to learn",
         .given = &kind_given},
        {"--vocab", CLI_INT, &vocab, 257, 65536, "N", "maximum size of the bpe vocabulary", .given = &vocab_given},
        {"--tokenizer", CLI_TEXT, &use, .words = "FILE",
         .help = "use this tokenizer, or that of a model folder, instead of learning one"},
        {"--out", CLI_TEXT, &out, .words = "FILE", .help = "file for the tokenizer", .writes = "tokenizer"},
        {"--tokens", CLI_TEXT, &tokens_out, .words = "FILE", .help = "file for the tokens", .writes = "tokens"},
        {"--print-ids", CLI_CHOICE, &shown, .words = "lines|text",
         .help = "with --tokenizer, print the ids of each line or of the whole text, and write no file"},
    };
    int code = cli_parse(
        argc, argv, flags, sizeof flags / sizeof flags[0],
        "tokenize TEXT [--kind bpe|chars|bytes] [--vocab N] --out FILE [--tokens FILE]",
        "Learns a vocabulary from a text (byte-level BPE, characters or bytes), or reads a tokenizer (Propane's, a "
        "tokenizer.json or llama2.c's). Writes the encoded text as a token file for 'propane train'.");
    if (code >= 0) return code;
    if (vocab_given && strcmp(kind, "bpe") != 0)
        return cli_misuse("tokenize", "--vocab applies to --kind bpe; %s has as many ids as it needs", kind);
    if (use && (kind_given || vocab_given))
        return cli_misuse("tokenize",
                          "--tokenizer uses an existing vocabulary, but %s would learn one; give only one of them",
                          kind_given ? "--kind" : "--vocab");
    if (use && out)
        return cli_misuse("tokenize", "--out writes a newly trained tokenizer; with --tokenizer, none is trained");
    if (shown && (!use || tokens_out))
        return cli_misuse("tokenize", "--print-ids needs --tokenizer and excludes the flags that write files");
    if (shown) return cmd_tokenize_print_only(path, use, strcmp(shown, "lines") == 0);
    if (!out && !tokens_out) return cli_misuse("tokenize", "nothing to write: give --out, --tokens or both");
    if (!use && !out)
        return cli_misuse("tokenize",
                          "--tokens without --out: the tokenizer would be lost, and nothing could read the tokens");
    if (out && tokens_out && file_same(out, tokens_out))
        return cli_misuse("tokenize", "--tokens %s would overwrite what --out writes", tokens_out);
    const propane_corpus_options options = {
        .size = sizeof options, .tokenizer = use, .kind = kind, .vocabulary = (int)vocab};
    return cmd_tokenize_write(path, &options, out, tokens_out);
}
