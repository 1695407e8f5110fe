/* SPDX-License-Identifier: MIT
 * Owns writing any tokenizer as Hugging Face's tokenizer.json and tokenizer_config.json. Each kind becomes a BPE model
 * with the pre-tokeniser, normaliser and decoder that produce the same ids: byte-level for bytes and bpe, without
 * merges for chars, and SentencePiece's form with merges made from the scores for llama.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json_memory.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"

#define MARK "\xe2\x96\x81"

/* Sets `out` to the key of an id in the file. out->failed means that memory ran out. */
static void tokenizer_export_key_of(const tokenizer *t, int id, text *out) {
    const char *piece = t->pieces[id];
    size_t length = t->lengths[id];
    char bytes[4];
    text_clear(out);
    if (t->kind == TOKENIZER_CHARS) {
        text_append_n(out, piece, length);
    } else if (t->kind != TOKENIZER_LLAMA) {
        for (size_t i = 0; i < length; i++)
            text_append_n(out, bytes, hf_utf8_put(hf_byte_to_char((unsigned char)piece[i]), bytes));
    } else if (length == 0) {
        text_append(out, id == t->bos ? "<s>" : id == t->eos ? "</s>" : "<unk>");
    } else if (length == 1 && t->byte_id[(unsigned char)piece[0]] == id) {
        text_printf(out, "<0x%02X>", (unsigned char)piece[0]);
    } else {
        for (size_t i = 0; i < length; i++)
            text_append_n(out, piece[i] == ' ' ? MARK : piece + i, piece[i] == ' ' ? 3 : 1);
    }
}

static propane_status tokenizer_export_enter_key(json_t *vocab, const text *key, int id, propane_error *err) {
    const json_t *taken = json_object_get(vocab, key->length ? key->data : "");
    char shown[80];
    if (key->failed) return propane_fail_memory(err, key->capacity);
    text_quote(shown, key->data, key->length);
    if (key->length == 0 || memchr(key->data, 0, key->length))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "piece %d is empty or contains a zero byte, which tokenizer.json cannot represent", id);
    if (taken)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ids %lld and %d are both '%s', but tokenizer.json has one id per string",
                            (long long)json_integer_value(taken), id, shown);
    json_t *value = json_integer(id);
    if (!value || json_object_set_new(vocab, key->data, value) != 0) /* jansson checks that keys are UTF-8 */
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "piece %d ('%s') is not UTF-8, which tokenizer.json cannot represent", id, shown);
    return PROPANE_OK;
}

static propane_status tokenizer_export_make_vocab(const tokenizer *t, json_t *vocab, propane_error *err) {
    text key = {0};
    propane_status status = vocab ? PROPANE_OK : propane_fail_memory(err, 0);
    for (int i = 0; !status && i < t->vocab; i++) {
        tokenizer_export_key_of(t, i, &key);
        status = tokenizer_export_enter_key(vocab, &key, i, err);
    }
    text_deinit(&key);
    return status;
}

/* ---- merges ------------------------------------------------------------------------------------------------------------ */

static bool tokenizer_export_add_merge(json_t *list, const tokenizer *t, int left, int right, text keys[2]) {
    tokenizer_export_key_of(t, left, &keys[0]);
    tokenizer_export_key_of(t, right, &keys[1]);
    return !keys[0].failed && !keys[1].failed &&
           json_array_append_new(list, json_pack("[s, s]", keys[0].data, keys[1].data)) == 0;
}

typedef struct scored {
    float score;
    int32_t result, left, right;
} scored;

static int tokenizer_export_compare_scored(const void *a, const void *b) {
    const scored *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    if (x->result != y->result) return x->result < y->result ? -1 : 1;
    return x->left < y->left ? -1 : x->left > y->left;
}

/* llama: finds every way to make a piece from two others, with better scores first. */
static propane_status tokenizer_export_scored_merges(const tokenizer *t, scored **out, size_t *count,
                                                     propane_error *err) {
    *out = NULL;
    *count = 0;
    for (int i = 0; i < t->vocab; i++) {
        for (uint32_t k = 1; k < t->lengths[i]; k++) {
            const int32_t *left = piece_map_find(&t->lookup, t->pieces[i], k);
            const int32_t *right = left ? piece_map_find(&t->lookup, t->pieces[i] + k, t->lengths[i] - k) : NULL;
            if (!right || *piece_map_find(&t->lookup, t->pieces[i], t->lengths[i]) != i) continue;
            scored *more = ARRAY_MORE(*out, *count, err);
            if (!more) return PROPANE_ERR_MEMORY;
            *out = more;
            (*out)[(*count)++] = (scored){t->scores[i], i, *left, *right};
        }
    }
    if (*count) qsort(*out, *count, sizeof **out, tokenizer_export_compare_scored);
    return PROPANE_OK;
}

static propane_status tokenizer_export_make_merges(const tokenizer *t, json_t *list, propane_error *err) {
    text keys[2] = {{0}, {0}};
    scored *ways = NULL;
    size_t count = 0;
    bool good = list != NULL;
    propane_status status = PROPANE_OK;
    for (int i = 256; good && t->kind == TOKENIZER_BPE && i < t->vocab; i++)
        good = tokenizer_export_add_merge(list, t, t->merges[i - 256].left, t->merges[i - 256].right, keys);
    if (t->kind == TOKENIZER_LLAMA) status = tokenizer_export_scored_merges(t, &ways, &count, err);
    for (size_t i = 0; !status && good && i < count; i++)
        good = tokenizer_export_add_merge(list, t, ways[i].left, ways[i].right, keys);
    mem_free(ways);
    text_deinit(&keys[0]);
    text_deinit(&keys[1]);
    if (!status && !good) status = propane_fail_memory(err, 0);
    return status;
}

/* ---- the file ------------------------------------------------------------------------------------------------------------ */

/* Parses a JSON template that uses single quotes instead of double ones. */
static json_t *tokenizer_export_object_of(const char *quoted) {
    char *copy = mem_copy_string(quoted);
    for (char *c = copy; c && *c; c++)
        if (*c == '\'') *c = '"';
    json_t *object = copy ? json_memory_load(copy, strlen(copy), 0, NULL) : NULL;
    mem_free(copy);
    return object;
}

static const char byte_file[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':[],'normalizer':null,"
    "'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':true},'post_"
    "processor':null,"
    "'decoder':{'type':'ByteLevel','add_prefix_space':true,'trim_offsets':true,'use_regex':true},"
    "'model':{'type':'BPE','dropout':null,'unk_token':null,'continuing_subword_prefix':null,'end_of_word_suffix':null,"
    "'fuse_unk':false,'byte_fallback':false,'ignore_merges':false}}";
static const char chars_file[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':[],'normalizer':null,'pre_tokenizer':null,"
    "'post_processor':null,'decoder':{'type':'Fuse'},"
    "'model':{'type':'BPE','dropout':null,'unk_token':null,'continuing_subword_prefix':null,'end_of_word_suffix':null,"
    "'fuse_unk':false,'byte_fallback':false,'ignore_merges':false}}";
static const char llama_file[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':[],"
    "'normalizer':{'type':'Sequence','normalizers':[{'type':'Prepend','prepend':'" MARK "'},"
    "{'type':'Replace','pattern':{'String':' '},'content':'" MARK "'}]},'pre_tokenizer':null,"
    "'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'<s>','type_id':0}},{'Sequence':{'"
    "id':'A','type_id':0}}],"
    "'pair':[{'SpecialToken':{'id':'<s>','type_id':0}},{'Sequence':{'id':'A','type_id':0}},{'SpecialToken':{'id':'<s>',"
    "'type_id':1}},{'Sequence':{'id':'B','type_id':1}}],"
    "'special_tokens':{'<s>':{'id':'<s>','ids':[1],'tokens':['<s>']}}},"
    "'decoder':{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'" MARK
    "'},'content':' '},{'type':'ByteFallback'},"
    "{'type':'Fuse'},{'type':'Strip','content':' ','start':1,'stop':0}]},"
    "'model':{'type':'BPE','dropout':null,'unk_token':'<unk>','continuing_subword_prefix':null,'end_of_word_suffix':"
    "null,"
    "'fuse_unk':true,'byte_fallback':true,'ignore_merges':false}}";

/* llama: adds the tokens without text, which are matched in the input. Removes the post-processor, which adds <s>,
 * unless bos is token 1. */
static bool tokenizer_export_add_specials(const tokenizer *t, json_t *file) {
    text key = {0};
    bool good = true;
    for (int i = 0; good && i < t->vocab; i++) {
        if (t->kind != TOKENIZER_LLAMA || t->lengths[i]) continue;
        tokenizer_export_key_of(t, i, &key);
        good = !key.failed && json_array_append_new(json_object_get(file, "added_tokens"),
                                                    json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", i, "content",
                                                              key.data, "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                              "normalized", 0, "special", 1)) == 0;
    }
    text_deinit(&key);
    if (good && t->kind == TOKENIZER_LLAMA && t->bos != 1)
        good = json_object_set_new(file, "post_processor", json_null()) == 0;
    return good;
}

static propane_status tokenizer_export_build(const tokenizer *t, json_t *file, propane_error *err) {
    json_t *model = json_object_get(file, "model"), *vocab = json_object(), *merges = json_array();
    if (json_object_set_new(model, "vocab", vocab) != 0) vocab = NULL;
    if (json_object_set_new(model, "merges", merges) != 0) merges = NULL;
    PROPANE_TRY(tokenizer_export_make_vocab(t, vocab, err));
    PROPANE_TRY(tokenizer_export_make_merges(t, merges, err));
    if (t->kind == TOKENIZER_BYTES) json_put(json_object_get(file, "pre_tokenizer"), "use_regex", json_false());
    return tokenizer_export_add_specials(t, file) ? PROPANE_OK : propane_fail_memory(err, 0);
}

/* Appends an object's text and consumes the object. */
static propane_status tokenizer_export_print_object(json_t *object, text *out, propane_error *err) {
    char *printed = NULL;
    propane_status status = json_print_checked(object, JSON_INDENT(2), &printed, NULL, err);
    json_decref(object);
    if (printed) text_append(out, printed);
    mem_free(printed);
    return !status && out->failed ? propane_fail_memory(err, 0) : status;
}

propane_status tokenizer_print_hf(const tokenizer *t, text *out, propane_error *err) {
    json_t *file;
    if (t->hf) {
        PROPANE_TRY(json_parse(t->hf->json, t->hf->json_length, "tokenizer.json", &file, err));
        (void)json_object_del(file, HF_OWN_KEY);
        return tokenizer_export_print_object(file, out, err);
    }
    file = tokenizer_export_object_of(t->kind == TOKENIZER_LLAMA   ? llama_file
                                      : t->kind == TOKENIZER_CHARS ? chars_file
                                                                   : byte_file);
    propane_status status = file ? tokenizer_export_build(t, file, err) : propane_fail_memory(err, 0);
    if (!status) return tokenizer_export_print_object(file, out, err);
    json_decref(file);
    return status;
}

static const char *tokenizer_export_special_name(const tokenizer *t, int id) {
    if (id < 0) return NULL;
    if (t->kind == TOKENIZER_LLAMA) return id == t->bos ? "<s>" : "</s>";
    for (int i = 0; t->hf && i < t->hf->added_count; i++)
        if (t->hf->added[i].id == id) return t->hf->added[i].content;
    return NULL;
}

static propane_status tokenizer_export_print_config(const tokenizer *t, int64_t longest, text *out,
                                                    propane_error *err) {
    json_t *o = json_pack("{s:s, s:b, s:I}", "tokenizer_class", "PreTrainedTokenizerFast",
                          "clean_up_tokenization_spaces", 0, "model_max_length", (json_int_t)longest);
    const char *bos = tokenizer_export_special_name(t, t->bos), *eos = tokenizer_export_special_name(t, t->eos);
    if (t->chat.bos) bos = t->chat.bos;
    if (t->chat.eos) eos = t->chat.eos;
    if (o && t->chat.jinja) json_put(o, "chat_template", tokenizer_chat_put_templates(&t->chat));
    /* other programs ignore this key */
    if (o && t->chat.format) json_put(o, TOKENIZER_CHAT_FORMAT, json_string(t->chat.format));
    if (o && bos) json_put(o, "bos_token", json_string(bos));
    if (o && eos) json_put(o, "eos_token", json_string(eos));
    if (o && t->kind == TOKENIZER_LLAMA) json_put(o, "unk_token", json_string("<unk>"));
    return tokenizer_export_print_object(o, out, err);
}

static propane_status tokenizer_export_write_text(const char *dir, const char *name, const text *content,
                                                  propane_error *err) {
    text path = {0};
    text_printf(&path, "%s/%s", dir, name);
    propane_status status =
        path.failed ? propane_fail_memory(err, 0) : file_write(path.data, content->data, content->length, err);
    text_deinit(&path);
    return status;
}

propane_status tokenizer_export(const tokenizer *t, const char *dir, int64_t longest, propane_error *err) {
    text file = {0}, config = {0};
    propane_status status = tokenizer_print_hf(t, &file, err);
    if (!status) status = tokenizer_export_print_config(t, longest, &config, err);
    if (!status) status = tokenizer_export_write_text(dir, "tokenizer.json", &file, err);
    if (!status) status = tokenizer_export_write_text(dir, "tokenizer_config.json", &config, err);
    text_deinit(&file);
    text_deinit(&config);
    return status;
}
