/* SPDX-License-Identifier: MIT
 * Owns the reading of vocabularies of ranks. Two neighbours are joined if their combined bytes are a token; the pair
 * whose token has the lowest rank is joined first. Each way to split a token in two is therefore a merge, and all
 * merges of a token have the token's rank ("ranks" in the resulting file).
 */
#include "lm/text/tokenizer_ranks.h"

#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"

enum { RANKS_TOKEN_MAX = 512 }; /* bytes */

typedef struct rank_token {
    const char *bytes;
    uint32_t length;
} rank_token;

typedef struct rank_list {
    arena *arena;
    rank_token *tokens; /* indexed by rank */
    int64_t count;
    piece_map ranks;    /* bytes -> rank */
    char shown[256][4]; /* each byte as GPT-2 prints it */
    uint8_t shown_length[256];
} rank_list;

/* How a vocabulary splits text, and the names of its special tokens. */
typedef struct rank_form {
    int64_t ranks;
    const char *pattern;
    int first_special; /* id of the first of `special` */
    const char *const *special;
    int special_count, bos, eos; /* ids, or -1 for none */
} rank_form;

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS        CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define LARGE        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD         "[^\\r\\n\\p{L}\\p{N}]?"

static const char *const gpt2_special[] = {"<|endoftext|>"};
static const char *const cl100k_special[] = {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"};
static const char *const qwen_special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
static const char *const llama3_special[] = {"<|begin_of_text|>",
                                             "<|end_of_text|>",
                                             "<|reserved_special_token_0|>",
                                             "<|reserved_special_token_1|>",
                                             "<|reserved_special_token_2|>",
                                             "<|reserved_special_token_3|>",
                                             "<|start_header_id|>",
                                             "<|end_header_id|>",
                                             "<|reserved_special_token_4|>",
                                             "<|eot_id|>"};
#define SPECIAL(list) list, (int)(sizeof list / sizeof list[0])

static const rank_form forms[] = {
    {50256, HF_GPT2_PATTERN, 50256, SPECIAL(gpt2_special), -1, 50256},
    {100256,
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     100257, SPECIAL(cl100k_special), -1, 100257},
    {128000, WORDS "\\p{N}{1,3}" TAIL, 128000, SPECIAL(llama3_special), 128000, 128001},
    {151643, WORDS "\\p{N}" TAIL, 151643, SPECIAL(qwen_special), -1, 151643},
    {199998,
     LEAD LARGE "*" SMALL "+" CONTRACTIONS "?|" LEAD LARGE "+" SMALL "*" CONTRACTIONS
                "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     199999, SPECIAL(gpt2_special), -1, 199999},
};

/* ---- the list ------------------------------------------------------------------------------------------------------------- */

/* Adds the token of the next rank. Ranks are in the order 0, 1, ... */
static propane_status ranks_add(rank_list *l, const char *base64, size_t length, const char *source,
                                propane_error *err) {
    char bytes[RANKS_TOKEN_MAX];
    const int n = (int)text_from_base64(base64, length, bytes, RANKS_TOKEN_MAX);
    if (n < 1)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the token of rank %lld must be 1 to %d bytes in base64",
                            source, (long long)l->count, RANKS_TOKEN_MAX);
    if (l->count >= TOKENIZER_VOCAB_MAX / 2)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: more than %d tokens", source, TOKENIZER_VOCAB_MAX / 2);
    rank_token *tokens = ARRAY_MORE(l->tokens, l->count, err);
    if (!tokens) return PROPANE_ERR_MEMORY;
    l->tokens = tokens;
    char *copy = arena_copy(l->arena, bytes, (size_t)n);
    const int32_t *rank = copy ? piece_map_enter(&l->ranks, copy, (size_t)n, (int32_t)l->count) : NULL;
    if (!rank) return propane_fail_memory(err, (size_t)n);
    if (*rank != (int32_t)l->count)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tokens of ranks %d and %lld are the same", source,
                            (int)*rank, (long long)l->count);
    l->tokens[l->count++] = (rank_token){copy, (uint32_t)n};
    return PROPANE_OK;
}

static void ranks_deinit(rank_list *l) {
    mem_free(l->tokens);
    piece_map_deinit(&l->ranks);
    arena_free(l->arena);
}

static propane_status ranks_init(rank_list *l, propane_error *err) {
    *l = (rank_list){.arena = arena_create()};
    for (int i = 0; i < 256; i++)
        l->shown_length[i] = (uint8_t)hf_utf8_put(hf_byte_to_char((unsigned char)i), l->shown[i]);
    return l->arena ? PROPANE_OK : propane_fail_memory(err, 0);
}

/* ---- as a tokenizer.json ----------------------------------------------------------------------------------------------------- */

/* Writes bytes as GPT-2 prints them; `out` has room for two bytes per byte and the terminator. */
static void ranks_print(const rank_list *l, const char *bytes, size_t length, char *out) {
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        memcpy(out, l->shown[byte], l->shown_length[byte]);
        out += l->shown_length[byte];
    }
    *out = 0;
}

static propane_status ranks_put_tokens(const rank_list *l, int64_t first_id, json_t *vocab, json_t *merges,
                                       propane_error *err) {
    char key[2 * RANKS_TOKEN_MAX + 1], pair[2 * RANKS_TOKEN_MAX + 2]; /* "left right": neither contains a space */
    bool ok = true;
    for (int64_t r = 0; r < l->count && ok; r++) {
        const rank_token *t = &l->tokens[r];
        ranks_print(l, t->bytes, t->length, key);
        ok = json_object_set_new_nocheck(vocab, key, json_integer(first_id + r)) == 0;
        for (uint32_t cut = 1; cut < t->length && ok; cut++) {
            const int32_t *a = piece_map_find(&l->ranks, t->bytes, cut);
            const int32_t *b = piece_map_find(&l->ranks, t->bytes + cut, t->length - cut);
            if (!a || !b) continue;
            ranks_print(l, t->bytes, cut, pair);
            const size_t left = strlen(pair);
            pair[left] = ' ';
            ranks_print(l, t->bytes + cut, t->length - cut, pair + left + 1);
            ok = json_array_append_new(merges, json_string_nocheck(pair)) == 0;
        }
    }
    return ok ? PROPANE_OK : propane_fail_memory(err, 0);
}

bool tokenizer_json_special(json_t *file, int64_t id, const char *content, bool special) {
    return json_array_append_new(json_object_get(file, "added_tokens"),
                                 json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                                           content, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                                           "special", special)) == 0;
}

static json_t *ranks_begin_file(const char *pattern) {
    json_t *cut = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern, "behavior",
                            "Isolated", "invert", 0);
    json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                              "use_regex", 0);
    return json_pack("{s:s, s:[], s:n, s:{s:s, s:[o, o]}, s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:b, s:{}, s:[]}}",
                     "version", "1.0", "added_tokens", "normalizer", "pre_tokenizer", "type", "Sequence",
                     "pretokenizers", cut, bytes, "post_processor", "decoder", "type", "ByteLevel", "add_prefix_space",
                     1, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE", "ignore_merges", 1, "vocab",
                     "merges");
}

propane_status tokenizer_json_ends(json_t *file, int64_t bos, const char *bos_name, int64_t eos, bool ranks,
                                   propane_error *err) {
    json_put(file, HF_OWN_KEY, json_pack("{s:I, s:b}", "eos", (json_int_t)eos, "ranks", ranks));
    if (bos < 0) return PROPANE_OK;
    json_t *post = json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[], s:{s:{s:s, s:[I], s:[s]}}}", "type",
                             "TemplateProcessing", "single", "SpecialToken", "id", bos_name, "type_id", 0, "Sequence",
                             "id", "A", "type_id", 0, "pair", "special_tokens", bos_name, "id", bos_name, "ids",
                             (json_int_t)bos, "tokens", bos_name);
    return json_object_set_new(file, "post_processor", post) == 0 ? PROPANE_OK : propane_fail_memory(err, 0);
}

static propane_status ranks_put_all(const rank_list *l, int64_t first_id, json_t *file, propane_error *err) {
    json_t *model = json_object_get(file, "model");
    if (!file) return propane_fail_memory(err, 0);
    return ranks_put_tokens(l, first_id, json_object_get(model, "vocab"), json_object_get(model, "merges"), err);
}

/* ---- tiktoken -------------------------------------------------------------------------------------------------------------------- */

/* In all tiktoken files, the token of rank 0 is a single byte, as in "IQ== 0". A text whose first line is "line 0" is
 * therefore not such a file. */
bool tokenizer_is_tiktoken(const char *data, size_t length) {
    char byte;
    return length > 6 && memcmp(data + 2, "== 0", 4) == 0 && (data[6] == '\n' || data[6] == '\r') &&
           text_from_base64(data, 4, &byte, 1) == 1;
}

static propane_status ranks_read_lines(rank_list *l, const char *data, size_t length, const char *source,
                                       propane_error *err) {
    char want[32];
    for (size_t at = 0; at < length;) {
        const char *line = data + at, *end = memchr(line, '\n', length - at);
        size_t n = end ? (size_t)(end - line) : length - at;
        at += n + 1;
        while (n && (line[n - 1] == '\r' || line[n - 1] == ' ')) n--;
        if (n == 0) continue;
        const char *space = memchr(line, ' ', n);
        const size_t digits = (size_t)snprintf(want, sizeof want, "%lld", (long long)l->count);
        if (!space || (size_t)(line + n - space - 1) != digits || memcmp(space + 1, want, digits) != 0)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: line %lld is not \"BASE64 %s\": ranks must follow one another from 0", source,
                                (long long)l->count + 1, want);
        PROPANE_TRY(ranks_add(l, line, (size_t)(space - line), source, err));
    }
    return PROPANE_OK;
}

static propane_status ranks_make_tiktoken(const rank_list *l, const char *source, tokenizer **out, propane_error *err) {
    const rank_form *form = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].ranks == l->count) form = &forms[i];
    if (!form)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: %lld ranks belong to no known vocabulary (GPT-2 50256, cl100k 100256, Llama 3 128000, Qwen 151643, "
            "o200k 199998), and the file does not define how to split text; give a tokenizer.json",
            source, (long long)l->count);
    json_t *file = ranks_begin_file(form->pattern);
    propane_status status = ranks_put_all(l, 0, file, err);
    for (int i = 0; !status && i < form->special_count; i++)
        if (!tokenizer_json_special(file, form->first_special + i, form->special[i], true))
            status = propane_fail_memory(err, 0);
    if (!status) status = tokenizer_json_ends(file, form->bos, form->special[0], form->eos, true, err);
    if (!status) status = hf_parse(file, NULL, source, out, err);
    json_decref(file);
    return status;
}

propane_status tokenizer_parse_tiktoken(const char *data, size_t length, const char *source, tokenizer **out,
                                        propane_error *err) {
    rank_list l;
    PROPANE_TRY(ranks_init(&l, err));
    propane_status status = ranks_read_lines(&l, data, length, source, err);
    if (!status) status = ranks_make_tiktoken(&l, source, out, err);
    ranks_deinit(&l);
    return status;
}

/* ---- tekken ------------------------------------------------------------------------------------------------------------------------ */

/* Special tokens of files before version 8, which do not list them. */
static const char *const tekken_special[] = {"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};
enum { TEKKEN_SPECIAL = sizeof tekken_special / sizeof tekken_special[0] };

bool tokenizer_is_tekken(const char *data, size_t length) {
    static const char word[] = "\"token_bytes\"";
    return length > 0 && memmem(data, length < 65536 ? length : 65536, word, sizeof word - 1) != NULL;
}

static propane_status ranks_put_tekken_special(const json_t *object, int64_t count, const char *source, json_t *file,
                                               propane_error *err) {
    const json_t *list = json_object_get(object, "special_tokens");
    char name[40];
    for (int64_t i = 0; i < count; i++) {
        const json_t *token = json_array_get(list, (size_t)i);
        const char *content = json_string_value(json_object_get(token, "token_str"));
        if (token && (!content || json_integer_value(json_object_get(token, "rank")) != i))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: special token %lld must have its number as 'rank' and a 'token_str'", source,
                                (long long)i);
        if (!content && !json_is_array(list) && i < TEKKEN_SPECIAL) content = tekken_special[i];
        if (!content) snprintf(name, sizeof name, "<SPECIAL_%lld>", (long long)i);
        if (!tokenizer_json_special(file, i, content ? content : name, true)) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

static propane_status ranks_read_tekken(rank_list *l, const json_t *object, int64_t count, const char *source,
                                        propane_error *err) {
    const json_t *vocab = json_object_get(object, "vocab");
    if ((int64_t)json_array_size(vocab) < count)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'config' requires %lld tokens, but 'vocab' has %zu", source,
                            (long long)count, json_array_size(vocab));
    for (int64_t i = 0; i < count; i++) {
        const json_t *token = json_array_get(vocab, (size_t)i), *bytes = json_object_get(token, "token_bytes");
        const json_t *rank = json_object_get(token, "rank");
        if (!json_is_string(bytes) || !json_is_integer(rank) || json_integer_value(rank) != i)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: token %lld must have its number as 'rank' and 'token_bytes' in base64", source,
                                (long long)i);
        PROPANE_TRY(ranks_add(l, json_string_value(bytes), json_string_length(bytes), source, err));
    }
    return PROPANE_OK;
}

static propane_status ranks_make_tekken(rank_list *l, const json_t *object, const char *source, tokenizer **out,
                                        propane_error *err) {
    const json_t *config = json_object_get(object, "config");
    const char *pattern;
    int64_t size, special;
    PROPANE_TRY(json_get_text(config, source, "pattern", true, &pattern, err));
    PROPANE_TRY(json_get_int(config, source, "default_vocab_size", true, 4, TOKENIZER_VOCAB_MAX / 2, &size, err));
    PROPANE_TRY(json_get_int(config, source, "default_num_special_tokens", true, 3, 10000, &special, err));
    if (size <= special)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %lld special tokens do not fit into a vocabulary of %lld",
                            source, (long long)special, (long long)size);
    PROPANE_TRY(ranks_read_tekken(l, object, size - special, source, err));
    json_t *file = ranks_begin_file(pattern);
    propane_status status = ranks_put_all(l, special, file, err);
    if (!status) status = ranks_put_tekken_special(object, special, source, file, err);
    if (!status) status = tokenizer_json_ends(file, 1, "<s>", 2, true, err);
    if (!status) status = hf_parse(file, NULL, source, out, err);
    json_decref(file);
    return status;
}

propane_status tokenizer_parse_tekken(const char *data, size_t length, const char *source, tokenizer **out,
                                      propane_error *err) {
    rank_list l;
    json_t *object;
    PROPANE_TRY(json_parse_nul(data, length, source, &object, err));
    propane_status status = ranks_init(&l, err);
    if (!status) {
        status = ranks_make_tekken(&l, object, source, out, err);
        ranks_deinit(&l);
    }
    json_decref(object);
    return status;
}
