/* SPDX-License-Identifier: MIT
 * Owns the public functions on vocabularies, which convert text to ids and back. lm/text/tokenizer.h declares the
 * vocabularies.
 */
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/files/model_tokenizer.h"
#include "lm/files/public_model.h"
#include "lm/text/tokenizer.h"
#include "lm/text/tokens.h"

propane_status propane_tokenizer_open(const char *path, propane_tokenizer **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    API_ERROR(err);
    propane_error none = {0};
    if (model_tokenizer_open(path, path, out, err) == PROPANE_OK) return PROPANE_OK;
    /* if `path` is a model's file, use the tokenizer next to it */
    if (!file_is_dir(path) && propane_model_form(path) && model_tokenizer_open(NULL, path, out, &none) == PROPANE_OK)
        return PROPANE_OK;
    return err->status;
}

propane_status propane_model_tokenizer(const propane_model *model, propane_tokenizer **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, model, out);
    return model_tokenizer_open(NULL, model->path, out, err);
}

propane_status propane_tokenizer_train(const char *kind, const char *data, size_t length, int vocabulary,
                                       propane_tokenizer **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, kind, out);
    PROPANE_TRY(need_list(err, __func__, "text", "length", data, length));
    if (strcmp(kind, "bytes") == 0) return tokenizer_create_bytes(out, err);
    if (strcmp(kind, "chars") == 0) return tokenizer_create_chars(data, length, "the text", out, err);
    if (strcmp(kind, "bpe") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "kind '%.40s' is not one of bpe, chars, bytes", kind);
    if (vocabulary < 257 || vocabulary > 65536)
        return propane_fail(err, PROPANE_ERR_INVALID, "vocabulary is %d; for bpe it must be 257 to 65536 ids",
                            vocabulary);
    return tokenizer_train_bpe(data, length, vocabulary, out, err);
}

propane_status propane_tokenizer_write(const propane_tokenizer *t, const char *path, propane_error *err) {
    NEED_AS(err, "tokenizer, path", t, path);
    NEED_TEXT(err, path);
    return tokenizer_write(t, NULL, path, err);
}

void propane_tokenizer_free(propane_tokenizer *t) { tokenizer_free(t); }

bool propane_tokenizer_describe(const propane_tokenizer *t, propane_tokenizer_info *out) {
    if (!t || !out) return false;
    const propane_tokenizer_info mine = {.kind = tokenizer_kind_name(tokenizer_get_kind(t)),
                                         .size_of_vocabulary = tokenizer_vocab_size(t),
                                         .bos = tokenizer_bos(t),
                                         .eos = tokenizer_eos(t)};
    return api_give(out, &mine, sizeof mine);
}

propane_status propane_tokenizer_hash(const propane_tokenizer *t, const char **hash, propane_error *err) {
    if (hash) *hash = NULL;
    NEED_AS(err, "tokenizer, hash", t, hash);
    API_ERROR(err);
    return tokenizer_hash(t, hash, err);
}

/* Passes the list's memory to the caller, or frees it after an error. */
static propane_status api_tokenizer_give(token_list *list, propane_status status, int32_t **ids, int64_t *count,
                                         propane_error *err) {
    if (!status && !list->ids) status = token_list_reserve(list, 1, err);
    *ids = status ? NULL : list->ids;
    *count = status ? 0 : (int64_t)list->count;
    if (status) token_list_deinit(list);
    return status;
}

propane_status propane_tokenizer_encode(const propane_tokenizer *t, const char *data, size_t length, int32_t **ids,
                                        int64_t *count, propane_error *err) {
    if (ids) *ids = NULL;
    NEED_AS(err, "tokenizer, ids, count", t, ids, count);
    PROPANE_TRY(need_list(err, __func__, "text", "length", data, length));
    token_list list = {0};
    return api_tokenizer_give(&list, tokenizer_encode(t, data, length, &list, err), ids, count, err);
}

static propane_status api_tokenizer_take_tokens(const tokenizer *t, const char *name, const char *path,
                                                const char *data, size_t length, token_list *list, int64_t *bytes,
                                                propane_error *err) {
    token_file file;
    PROPANE_TRY(token_file_parse(data, length, path, &file, err));
    PROPANE_TRY(token_file_check(&file, path, t, name, err));
    for (int64_t i = 0; i < file.count; i++) PROPANE_TRY(token_list_add(list, token_file_get(&file, i), err));
    *bytes = file.text_bytes;
    return PROPANE_OK;
}

propane_status propane_tokenizer_encode_file(const propane_tokenizer *t, const char *name, const char *path,
                                             int32_t **ids, int64_t *count, int64_t *bytes, propane_error *err) {
    if (ids) *ids = NULL;
    NEED_AS(err, "tokenizer, path, ids, count, bytes", t, path, ids, count, bytes);
    NEED_TEXT(err, path);
    API_ERROR(err);
    token_list list = {0};
    char *data = NULL;
    size_t length = 0;
    *count = *bytes = 0;
    PROPANE_TRY(file_read_stream(path, (size_t)1 << 30, &data, &length, err));
    propane_status status = PROPANE_OK;
    if (token_file_is(data, length)) {
        status = api_tokenizer_take_tokens(t, name ? name : "the tokenizer", path, data, length, &list, bytes, err);
    } else {
        *bytes = (int64_t)length;
        status = token_text_check(path, data, length, err);
        if (!status && tokenizer_encode(t, data, length, &list, err))
            status = propane_fail_prefix(err, err->status, "%s", path);
    }
    mem_free(data);
    return api_tokenizer_give(&list, status, ids, count, err);
}

static propane_status api_tokenizer_check_ids(const tokenizer *t, const int32_t *ids, int64_t count,
                                              propane_error *err) {
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= tokenizer_vocab_size(t))
            return propane_fail(err, PROPANE_ERR_INVALID, "id %d is not in the vocabulary of %d", (int)ids[i],
                                tokenizer_vocab_size(t));
    return PROPANE_OK;
}

propane_status propane_tokenizer_decode(const propane_tokenizer *t, const int32_t *ids, int64_t count, char **out,
                                        size_t *length, propane_error *err) {
    if (out) *out = NULL;
    NEED_AS(err, "tokenizer, text", t, out);
    NEED_LIST(err, ids, count);
    text all = {0};
    PROPANE_TRY(api_tokenizer_check_ids(t, ids, count, err));
    tokenizer_decode_bytes(t, ids, (size_t)count, &all);
    return api_give_text(&all, out, length, err);
}

propane_status propane_tokenizer_show(const propane_tokenizer *t, const int32_t *ids, int64_t count, bool inside,
                                      char **out, size_t *length, propane_error *err) {
    if (out) *out = NULL;
    NEED_AS(err, "tokenizer, text", t, out);
    NEED_LIST(err, ids, count);
    text all = {0};
    tokenizer_stream stream = {.begun = inside};
    for (int64_t i = 0; i < count; i++) tokenizer_decode(t, &stream, ids[i], &all);
    tokenizer_decode_end(&stream, &all);
    return api_give_text(&all, out, length, err);
}
