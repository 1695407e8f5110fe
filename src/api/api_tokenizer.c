/* SPDX-License-Identifier: MIT
 * Owns the public calls on vocabularies: text to ids and back. The vocabularies are model/text/tokenizer.h's.
 */
#include <string.h>

#include "api/api.h"
#include "base/file.h"
#include "base/memory.h"
#include "model/files/model_tokenizer.h"
#include "model/text/tokenizer.h"

propane_status propane_tokenizer_open(const char *path, propane_tokenizer **out, propane_error *err) {
    API_ERROR(err);
    *out = NULL;
    return model_tokenizer_open(NULL, path, out, err) == PROPANE_OK ? PROPANE_OK : err->status;
}

propane_status propane_tokenizer_train(const char *kind, const char *data, size_t length, int vocabulary,
                                       propane_tokenizer **out, propane_error *err) {
    *out = NULL;
    if (strcmp(kind, "bytes") == 0) return tokenizer_create_bytes(out, err);
    if (strcmp(kind, "chars") == 0) return tokenizer_create_chars(data, length, "the text", out, err);
    if (strcmp(kind, "bpe") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "kind '%.40s' is not one of bpe, chars, bytes", kind);
    if (vocabulary < 257 || vocabulary > 65536)
        return propane_fail(err, PROPANE_ERR_INVALID, "vocabulary is %d; bpe has 257 to 65536 ids", vocabulary);
    return tokenizer_train_bpe(data, length, vocabulary, out, err);
}

propane_status propane_tokenizer_write(const propane_tokenizer *t, const char *path, propane_error *err) {
    return tokenizer_write(t, path, err);
}

void propane_tokenizer_free(propane_tokenizer *t) { tokenizer_free(t); }

bool propane_tokenizer_describe(const propane_tokenizer *t, propane_tokenizer_info *out) {
    const propane_tokenizer_info mine = {.kind = tokenizer_kind_name(tokenizer_get_kind(t)),
                                         .hash = tokenizer_hash(t),
                                         .size_of_vocabulary = tokenizer_vocab_size(t),
                                         .bos = tokenizer_bos(t),
                                         .eos = tokenizer_eos(t)};
    return api_give(out, &mine, sizeof mine);
}

propane_status propane_tokenizer_encode(const propane_tokenizer *t, const char *data, size_t length, int32_t **ids,
                                        int64_t *count, propane_error *err) {
    token_list list = {0};
    *ids = NULL;
    *count = 0;
    propane_status status = tokenizer_encode(t, data, length, &list, err);
    if (!status && !list.ids) status = token_list_reserve(&list, 1, err);
    if (status) {
        token_list_deinit(&list);
        return status;
    }
    *ids = list.ids;
    *count = (int64_t)list.count;
    return PROPANE_OK;
}

propane_status propane_tokenizer_decode(const propane_tokenizer *t, const int32_t *ids, int64_t count, char **out,
                                        size_t *length, propane_error *err) {
    text all = {0};
    *out = NULL;
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= tokenizer_vocab_size(t))
            return propane_fail(err, PROPANE_ERR_INVALID, "id %d is not in the vocabulary of %d", (int)ids[i],
                                tokenizer_vocab_size(t));
    tokenizer_decode_bytes(t, ids, (size_t)count, &all);
    return api_give_text(&all, out, length, err);
}
