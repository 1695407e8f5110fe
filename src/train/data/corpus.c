/* SPDX-License-Identifier: MIT
 * Owns getting from the user's file to ids.
 */
#include "train/data/corpus.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/files/model_tokenizer.h"
#include "train/data/token_dump.h"

enum { TEXT_LIMIT = 1 << 30 };

static double corpus_unigram_entropy(const char *data, size_t length) {
    double counts[256] = {0}, nats = 0;
    for (size_t i = 0; i < length; i++) counts[(unsigned char)data[i]]++;
    for (int b = 0; b < 256; b++)
        if (counts[b] > 0) nats -= counts[b] / (double)length * log(counts[b] / (double)length);
    return nats;
}

/* The tokenizer that was given, or the model's. */
static propane_status corpus_take_tokenizer(const corpus_options *o, corpus *c, propane_error *err) {
    if (o->vocabulary) {
        c->tokenizer = (tokenizer *)(uintptr_t)o->vocabulary; /* only read */
        c->shared = true;
        return PROPANE_OK;
    }
    if (o->model || o->tokenizer) return model_tokenizer_open(o->tokenizer, o->model, &c->tokenizer, err);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s is instruction data: give the model that it is for with --init, or a --tokenizer", o->text);
}

static propane_status corpus_learn(const corpus_options *o, const char *data, size_t length, corpus *c,
                                   propane_error *err) {
    if (o->tokenizer || o->model || o->vocabulary) return corpus_take_tokenizer(o, c, err);
    if (strcmp(o->kind, "bytes") == 0) return tokenizer_create_bytes(&c->tokenizer, err);
    if (strcmp(o->kind, "chars") == 0) return tokenizer_create_chars(data, length, o->text, &c->tokenizer, err);
    return tokenizer_train_bpe(data, length, o->vocab, &c->tokenizer, err);
}

/* What would be learnt as if it were a text, but cannot be meant as one. A web page can. */
static propane_status corpus_check_text(const char *path, const char *data, size_t length, propane_error *err) {
    size_t at = 0;
    while (at < length && strchr(" \t\r\n", data[at]) && data[at]) at++;
    if (length == 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the file is empty; give a text to learn from", path);
    if (data[0] != '<' && *file_disguise(data, length))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a text%s", path, file_disguise(data, length));
    const char *zero = memchr(data, 0, length);
    if (zero)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: not a text: byte %zu is zero; give UTF-8 text, instruction data (.jsonl) or a token "
                            "file (of 'propane tokenize', llm.c, or nanoGPT's *.bin with --tokenizer)",
                            path, (size_t)(zero - data));
    if (text_ends_with(path, ".json") && at < length && (data[at] == '{' || data[at] == '['))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: instruction data is read from files called .jsonl, one JSON object a line; to learn the "
            "JSON itself as a text, call it .txt",
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
        return propane_fail(err, PROPANE_ERR_INVALID, "%s are tokens: give their tokenizer", o->text);
    c->ids = o->ids;
    c->count = o->id_count;
    c->unigram_nats = -1;
    return corpus_take_tokenizer(o, c, err);
}

static propane_status corpus_open_tokens(const corpus_options *o, corpus *c, bool foreign, propane_error *err) {
    if (!o->tokenizer && !o->model)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s is a token file: give its tokenizer with --tokenizer",
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

static propane_status corpus_open_examples(const corpus_options *o, corpus *c, propane_error *err) {
    PROPANE_TRY(corpus_take_tokenizer(o, c, err));
    PROPANE_TRY(chat_template_find(o->model ? o->model : o->tokenizer, c->tokenizer,
                                   o->chat && *o->chat ? o->chat : NULL, &c->chat, err));
    if (o->data)
        PROPANE_TRY(train_jsonl_parse(o->data, o->length, o->text, c->tokenizer, &c->chat, &c->examples, err));
    else
        PROPANE_TRY(train_jsonl_read(o->text, c->tokenizer, &c->chat, &c->examples, err));
    c->instructions = true;
    c->count = c->examples.start[c->examples.count];
    c->text_bytes = c->examples.text_bytes;
    c->unigram_nats = -1;
    return PROPANE_OK;
}

static propane_status corpus_is_token_file(const char *path, bool *own, bool *foreign, propane_error *err) {
    file_map map;
    PROPANE_TRY(file_map_open(path, &map, err));
    *own = token_file_is(map.data, map.bytes);
    *foreign = !*own && token_dump_is(path, map.data, map.bytes);
    file_map_close(&map);
    return PROPANE_OK;
}

propane_status corpus_open(const corpus_options *o, corpus *c, propane_error *err) {
    bool ready = false, foreign = false;
    const bool memory = o->data || o->ids;
    *c = (corpus){0};
    if (!memory) PROPANE_TRY(corpus_is_token_file(o->text, &ready, &foreign, err));
    propane_status status = o->ids                    ? corpus_take_ids(o, c, err)
                            : o->data && o->lines     ? corpus_open_examples(o, c, err)
                            : o->data                 ? corpus_take_text(o, o->data, o->length, c, err)
                            : ready || foreign        ? corpus_open_tokens(o, c, foreign, err)
                            : train_jsonl_is(o->text) ? corpus_open_examples(o, c, err)
                                                      : corpus_open_text(o, c, err);
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
}

const void *corpus_ids(const corpus *c, int *id_bytes) {
    *id_bytes = c->from_file ? c->file.id_bytes : 4;
    return c->from_file ? c->file.ids : c->ids;
}
