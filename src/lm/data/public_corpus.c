/* SPDX-License-Identifier: MIT
 * Owns the public functions on texts as ids, which lm/data/corpus.h reads. Instruction data are refused, because they
 * are not a single text.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/data/corpus.h"

struct propane_corpus {
    corpus c;
};

propane_status propane_corpus_open(const char *path, const propane_corpus_options *options, propane_corpus **out,
                                   propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    API_ERROR(err);
    propane_corpus_options o = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_corpus_options", err));
    const corpus_options own = {.text = path,
                                .tokenizer = o.tokenizer,
                                .whole = true,
                                .kind = o.kind ? o.kind : "bpe",
                                .vocab = o.vocabulary ? o.vocabulary : 4096};
    if (strcmp(own.kind, "bpe") != 0 && strcmp(own.kind, "chars") != 0 && strcmp(own.kind, "bytes") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "kind '%.40s' is not one of bpe, chars, bytes", own.kind);
    propane_corpus *c = mem_alloc(sizeof *c);
    if (!c) return propane_fail_memory(err, sizeof *c);
    propane_status status = corpus_open(&own, &c->c, err);
    if (!status && c->c.instructions)
        status =
            propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s is instruction data, but a corpus must be a text", path);
    if (!status && c->c.parts) log_print("%s", c->c.parts);
    if (status)
        propane_corpus_free(c);
    else
        *out = c;
    return status;
}

void propane_corpus_free(propane_corpus *c) {
    if (!c) return;
    corpus_close(&c->c);
    mem_free(c);
}

int64_t propane_corpus_count(const propane_corpus *c) { return c ? c->c.count : 0; }
int64_t propane_corpus_bytes(const propane_corpus *c) { return c ? c->c.text_bytes : 0; }
const propane_tokenizer *propane_corpus_tokenizer(const propane_corpus *c) { return c ? c->c.tokenizer : NULL; }

int32_t propane_corpus_id(const propane_corpus *c, int64_t index) {
    if (!c) return -1;
    if (index < 0 || index >= c->c.count) return -1;
    return c->c.from_file ? token_file_get(&c->c.file, index) : c->c.ids[index];
}

propane_status propane_corpus_write(const propane_corpus *c, const char *path, propane_error *err) {
    NEED_AS(err, "corpus, path", c, path);
    NEED_TEXT(err, path);
    if (c->c.ids) return token_file_write(path, c->c.tokenizer, c->c.ids, c->c.count, c->c.text_bytes, err);
    int32_t *ids = mem_array((size_t)c->c.count + 1, sizeof *ids);
    if (!ids) return propane_fail_memory(err, (size_t)c->c.count * sizeof *ids);
    for (int64_t i = 0; i < c->c.count; i++) ids[i] = propane_corpus_id(c, i);
    propane_status status = token_file_write(path, c->c.tokenizer, ids, c->c.count, c->c.text_bytes, err);
    mem_free(ids);
    return status;
}
