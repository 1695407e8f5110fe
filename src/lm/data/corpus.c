/* SPDX-License-Identifier: MIT
 * Owns the conversion of the user's files to ids.
 */
#include "lm/data/corpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "lm/data/data_files.h"
#include "lm/data/token_dump.h"
#include "lm/files/model_tokenizer.h"
#include "lm/text/chat_find.h"

enum { TEXT_LIMIT = 1 << 30 };

static double corpus_unigram_entropy(const char *data, size_t length) {
    double counts[256] = {0}, nats = 0;
    for (size_t i = 0; i < length; i++) counts[(unsigned char)data[i]]++;
    for (int b = 0; b < 256; b++)
        if (counts[b] > 0) nats -= counts[b] / (double)length * log(counts[b] / (double)length);
    return nats;
}

/* Sets the given tokenizer or the model's. */
static propane_status corpus_take_tokenizer(const corpus_options *o, corpus *c, propane_error *err) {
    if (o->vocabulary) {
        c->tokenizer = (tokenizer *)(uintptr_t)o->vocabulary; /* read only */
        c->shared = true;
        return PROPANE_OK;
    }
    if (o->model || o->tokenizer) return model_tokenizer_open(o->tokenizer, o->model, &c->tokenizer, err);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s is instruction data; give the model to train with --init, or a --tokenizer", o->text);
}

static propane_status corpus_learn(const corpus_options *o, const char *data, size_t length, corpus *c,
                                   propane_error *err) {
    if (o->tokenizer || o->model || o->vocabulary) return corpus_take_tokenizer(o, c, err);
    if (strcmp(o->kind, "bytes") == 0) return tokenizer_create_bytes(&c->tokenizer, err);
    if (strcmp(o->kind, "chars") == 0) return tokenizer_create_chars(data, length, o->text, &c->tokenizer, err);
    return tokenizer_train_bpe(data, length, o->vocab, &c->tokenizer, err);
}

/* Refuses data that can be read as text but cannot be meant as text. */
static propane_status corpus_check_text(const char *path, const char *data, size_t length, propane_error *err) {
    size_t at = 0;
    while (at < length && strchr(" \t\r\n", data[at]) && data[at]) at++;
    if (length == 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the file is empty; give a text to train on", path);
    PROPANE_TRY(token_text_check(path, data, length, err));
    if (text_ends_with(path, ".json") && at < length && (data[at] == '{' || data[at] == '['))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: instruction data must be in a .jsonl file, one JSON object per line; to train on the "
                            "JSON itself as text, rename the file to .txt",
                            path);
    return PROPANE_OK;
}

static propane_status corpus_take_text(const corpus_options *o, const char *data, size_t length, corpus *c,
                                       propane_error *err) {
    propane_status status = corpus_check_text(o->text, data, length, err);
    if (status == PROPANE_OK) status = corpus_learn(o, data, length, c, err);
    if (status == PROPANE_OK && tokenizer_encode(c->tokenizer, data, length, &c->list, err) != PROPANE_OK)
        status = propane_fail_prefix(err, err->status, "%s", o->text);
    c->text_bytes = (int64_t)length;
    c->unigram_nats = length ? corpus_unigram_entropy(data, length) : 0;
    c->ids = c->list.ids;
    c->count = (int64_t)c->list.count;
    return status;
}

static propane_status corpus_open_text(const corpus_options *o, corpus *c, propane_error *err) {
    char *data = NULL;
    size_t length = 0;
    PROPANE_TRY(file_read_stream(o->text, TEXT_LIMIT, &data, &length, err));
    const propane_status status = corpus_take_text(o, data, length, c, err);
    mem_free(data);
    return status;
}

static propane_status corpus_take_ids(const corpus_options *o, corpus *c, propane_error *err) {
    if (!o->tokenizer && !o->model && !o->vocabulary)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s is a token file; give its tokenizer", o->text);
    c->ids = o->ids;
    c->count = o->id_count;
    c->unigram_nats = -1;
    return corpus_take_tokenizer(o, c, err);
}

static propane_status corpus_open_tokens(const corpus_options *o, corpus *c, bool foreign, propane_error *err) {
    if (!o->tokenizer && !o->model)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s is a token file; give its tokenizer with --tokenizer",
                            o->text);
    PROPANE_TRY(corpus_take_tokenizer(o, c, err));
    if (foreign)
        PROPANE_TRY(token_dump_open(o->text, c->tokenizer, &c->file, err));
    else
        PROPANE_TRY(token_file_open(o->text, &c->file, err));
    c->from_file = true;
    c->count = c->file.count;
    c->text_bytes = c->file.text_bytes;
    c->unigram_nats = -1;
    if (foreign) return PROPANE_OK;
    return token_file_check(&c->file, o->text, c->tokenizer, o->tokenizer ? o->tokenizer : o->model, err);
}

static propane_status corpus_find_chat(const corpus_options *o, corpus *c, propane_error *err) {
    const char *wanted = o->chat && *o->chat ? o->chat : NULL;
    PROPANE_TRY(chat_template_find(o->model ? o->model : o->tokenizer, c->tokenizer, wanted, &c->chat, err));
    if (o->date) snprintf(c->chat.date, sizeof c->chat.date, "%s", o->date);
    return PROPANE_OK;
}

/* Reads instruction data from memory. */
static propane_status corpus_open_examples(const corpus_options *o, corpus *c, propane_error *err) {
    PROPANE_TRY(corpus_take_tokenizer(o, c, err));
    PROPANE_TRY(corpus_find_chat(o, c, err));
    PROPANE_TRY(train_jsonl_parse(o->data, o->length, o->text, c->tokenizer, &c->chat, &c->examples, err));
    c->instructions = true;
    c->count = c->examples.start[c->examples.count];
    c->text_bytes = c->examples.text_bytes;
    c->unigram_nats = -1;
    return PROPANE_OK;
}

/* ---- which files, of which kind ------------------------------------------------------------------------------------------- */

typedef enum corpus_kind { CORPUS_TEXT, CORPUS_TOKENS, CORPUS_FOREIGN, CORPUS_EXAMPLES } corpus_kind;

static propane_status corpus_kind_of(const char *path, corpus_kind *kind, propane_error *err) {
    file_map map;
    PROPANE_TRY(file_map_open(path, &map, err));
    *kind = token_file_is(map.data, map.bytes)         ? CORPUS_TOKENS
            : token_dump_is(path, map.data, map.bytes) ? CORPUS_FOREIGN
            : train_jsonl_is(path)                     ? CORPUS_EXAMPLES
                                                       : CORPUS_TEXT;
    file_map_close(&map);
    return PROPANE_OK;
}

/* Requires all files to be of the kind of `first`, because a text would be trained in another way than instruction
 * data. */
static propane_status corpus_one_kind(const data_files *f, const char *first, corpus_kind *kind, propane_error *err) {
    for (int i = 0; i < f->count; i++) {
        corpus_kind one;
        PROPANE_TRY(corpus_kind_of(f->paths[i], &one, err));
        if (f->paths[i] == first) *kind = one;
        if ((one == CORPUS_FOREIGN ? CORPUS_TOKENS : one) != (*kind == CORPUS_FOREIGN ? CORPUS_TOKENS : *kind))
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "%s and %s are of different kinds (text, token file, instruction data); give only one kind", first,
                f->paths[i]);
    }
    return PROPANE_OK;
}

/* ---- several files -------------------------------------------------------------------------------------------------------- */

static propane_status corpus_join_texts(const data_files *f, text *out, propane_error *err) {
    for (int i = 0; i < f->count; i++) {
        char *data = NULL;
        size_t length = 0;
        PROPANE_TRY(file_read_stream(f->paths[i], TEXT_LIMIT, &data, &length, err));
        propane_status status = corpus_check_text(f->paths[i], data, length, err);
        if (status == PROPANE_OK) text_append_n(out, data, length);
        if (status == PROPANE_OK && length && data[length - 1] != '\n') text_append(out, "\n");
        mem_free(data);
        if (status == PROPANE_OK && out->failed) status = propane_fail_memory(err, out->length);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

static propane_status corpus_add_text(corpus *c, const data_files *f, propane_error *err) {
    text joined = {0};
    propane_status status = corpus_join_texts(f, &joined, err);
    if (status == PROPANE_OK) status = tokenizer_encode(c->tokenizer, joined.data, joined.length, &c->list, err);
    c->text_bytes += (int64_t)joined.length;
    text_deinit(&joined);
    return status;
}

static propane_status corpus_open_texts(const corpus_options *o, const data_files f[2], corpus *c, propane_error *err) {
    text joined = {0};
    propane_status status = corpus_join_texts(&f[0], &joined, err);
    if (status == PROPANE_OK) status = corpus_take_text(o, joined.data, joined.length, c, err);
    text_deinit(&joined);
    c->train_count = f[1].count ? c->count : 0;
    if (status == PROPANE_OK && f[1].count) status = corpus_add_text(c, &f[1], err);
    c->ids = c->list.ids;
    c->count = (int64_t)c->list.count;
    return status;
}

static propane_status corpus_add_tokens(const corpus_options *o, corpus *c, const char *path, propane_error *err) {
    corpus_kind kind;
    token_file file = {0};
    PROPANE_TRY(corpus_kind_of(path, &kind, err));
    PROPANE_TRY(kind == CORPUS_FOREIGN ? token_dump_open(path, c->tokenizer, &file, err)
                                       : token_file_open(path, &file, err));
    propane_status status = PROPANE_OK;
    if (kind == CORPUS_TOKENS)
        status = token_file_check(&file, path, c->tokenizer, o->tokenizer ? o->tokenizer : o->model, err);
    for (int64_t i = 0; i < file.count && status == PROPANE_OK; i++)
        status = token_list_add(&c->list, token_file_get(&file, i), err);
    c->text_bytes += file.text_bytes;
    token_file_close(&file);
    return status;
}

static propane_status corpus_open_token_files(const corpus_options *o, const data_files f[2], corpus *c,
                                              propane_error *err) {
    if (!o->tokenizer && !o->model && !o->vocabulary)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s is a token file; give its tokenizer with --tokenizer",
                            f[0].paths[0]);
    PROPANE_TRY(corpus_take_tokenizer(o, c, err));
    for (int part = 0; part < 2; part++) {
        if (part && f[1].count) c->train_count = (int64_t)c->list.count;
        for (int i = 0; i < f[part].count; i++) PROPANE_TRY(corpus_add_tokens(o, c, f[part].paths[i], err));
    }
    c->ids = c->list.ids;
    c->count = (int64_t)c->list.count;
    c->unigram_nats = -1;
    return PROPANE_OK;
}

static propane_status corpus_open_example_files(const corpus_options *o, const data_files f[2], corpus *c,
                                                propane_error *err) {
    PROPANE_TRY(corpus_take_tokenizer(o, c, err));
    PROPANE_TRY(corpus_find_chat(o, c, err));
    c->instructions = true;
    for (int part = 0; part < 2; part++) {
        if (part && f[1].count) c->train_count = c->examples.count;
        for (int i = 0; i < f[part].count; i++)
            PROPANE_TRY(train_jsonl_append(f[part].paths[i], c->tokenizer, &c->chat, &c->examples, err));
    }
    c->count = c->examples.start[c->examples.count];
    c->text_bytes = c->examples.text_bytes;
    c->unigram_nats = -1;
    return PROPANE_OK;
}

static propane_status corpus_open_files(const corpus_options *o, const data_files f[2], corpus *c, propane_error *err) {
    corpus_options one = *o;
    corpus_kind kind = CORPUS_TEXT;
    one.text = f[0].paths[0];
    PROPANE_TRY(corpus_one_kind(&f[0], one.text, &kind, err));
    PROPANE_TRY(corpus_one_kind(&f[1], one.text, &kind, err));
    c->files = f[0].count + f[1].count;
    if (kind == CORPUS_EXAMPLES) return corpus_open_example_files(&one, f, c, err);
    /* read as it is, even from a pipe */
    if (c->files == 1 && kind == CORPUS_TEXT) return corpus_open_text(&one, c, err);
    if (c->files == 1) return corpus_open_tokens(&one, c, kind == CORPUS_FOREIGN, err);
    return kind == CORPUS_TEXT ? corpus_open_texts(&one, f, c, err) : corpus_open_token_files(&one, f, c, err);
}

static propane_status corpus_find_files(const corpus_options *o, corpus *c, propane_error *err) {
    data_set own = {0}, other = {0};
    const bool held = o->held && *o->held;
    const data_use use = held || o->whole ? DATA_TO_LEARN : DATA_TO_DIVIDE;
    arena *a = arena_create();
    propane_status status = a ? data_files_find(o->text, use, a, &own, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK && held) status = data_files_find(o->held, DATA_TO_VALIDATE, a, &other, err);
    if (status == PROPANE_OK && !own.train.count)
        status = propane_fail(err, PROPANE_ERR_INVALID, "there is no file to train on");
    c->left_out = own.left_out + other.left_out;
    c->divided = own.valid.count > 0;
    if (status == PROPANE_OK && own.division && !(c->parts = mem_copy_string(own.division)))
        status = propane_fail_memory(err, strlen(own.division));
    const data_files files[2] = {own.train, held ? other.valid : own.valid};
    if (status == PROPANE_OK) status = corpus_open_files(o, files, c, err);
    arena_free(a);
    return status;
}

propane_status corpus_open(const corpus_options *o, corpus *c, propane_error *err) {
    *c = (corpus){0};
    propane_status status = o->ids                ? corpus_take_ids(o, c, err)
                            : o->data && o->lines ? corpus_open_examples(o, c, err)
                            : o->data             ? corpus_take_text(o, o->data, o->length, c, err)
                                                  : corpus_find_files(o, c, err);
    if (status != PROPANE_OK) {
        corpus_close(c);
        *c = (corpus){0};
    }
    return status;
}

void corpus_close(corpus *c) {
    if (c->from_file) token_file_close(&c->file);
    token_list_deinit(&c->list);
    train_examples_deinit(&c->examples);
    if (!c->shared) tokenizer_free(c->tokenizer);
    chat_template_deinit(&c->chat);
    mem_free(c->parts);
}

const void *corpus_ids(const corpus *c, int *id_bytes) {
    *id_bytes = c->from_file ? c->file.id_bytes : 4;
    return c->from_file ? c->file.ids : c->ids;
}
