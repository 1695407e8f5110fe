/* SPDX-License-Identifier: MIT
 * Hugging Face's tokenizer.json: what its reader, its cutting of text and its encoder share. Not for other parts; they see
 * tokenizer.h.
 *
 *     text -> special tokens cut out -> normalisers -> tokens of the normalised text cut out -> words -> pair encoding
 */
#ifndef MODEL_TEXT_TOKENIZER_HF_H
#define MODEL_TEXT_TOKENIZER_HF_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/json.h"
#include "model/text/tokenizer_internal.h"

#define HF_OWN_KEY "propane" /* in files that Propane wrote: {"eos": id, "ranks": true} */

enum { HF_STEPS_MAX = 16 }; /* of one kind, Sequences opened */

/* How the pieces around a match are cut; the names are those of the file. */
typedef enum hf_behaviour { HF_REMOVED, HF_ISOLATED, HF_WITH_PREVIOUS, HF_WITH_NEXT, HF_CONTIGUOUS } hf_behaviour;

typedef enum hf_kind {
    HF_NFC,
    HF_NFD,
    HF_NFKC,
    HF_NFKD,
    HF_LOWERCASE,
    HF_REPLACE,
    HF_PREPEND,
    HF_STRIP, /* normalisers */
    HF_SPLIT,
    HF_BYTE_LEVEL,
    HF_METASPACE,
    HF_DIGITS,
    HF_PUNCTUATION /* pre-tokenisers */
} hf_kind;

typedef enum hf_scheme { HF_ALWAYS, HF_FIRST, HF_NEVER } hf_scheme;

typedef struct hf_step {
    hf_kind kind;
    hf_behaviour behaviour;
    bool invert;
    pcre2_code *regex;       /* split, replace, byte level with a pattern; NULL: `find` */
    const char *find, *with; /* literal text, and what replaces it; prepend, metaspace: `with` */
    size_t find_length, with_length;
    hf_scheme scheme;        /* metaspace; byte level: always or never a space in front */
    bool split, left, right; /* metaspace; strip */
} hf_step;

typedef struct hf_added {
    const char *content;
    size_t length;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} hf_added;

/* Finds the longest of many texts at a place. */
typedef struct hf_trie {
    id_map edges;      /* node << 8 | byte -> node */
    int32_t *terminal; /* of a node: index of the added token, -1: none */
    int nodes, capacity;
    bool first[256];
} hf_trie;

struct hf_tokenizer {
    hf_step normalizers[HF_STEPS_MAX], splits[HF_STEPS_MAX];
    int normalizer_count, split_count;
    hf_added *added;
    int added_count;
    hf_trie raw, normal; /* added tokens to be found before and after normalising */
    int32_t *merged;     /* what merge number i becomes */
    int merge_count;
    int32_t unk; /* -1: none */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool by_result;  /* a merge's rank is the id that it makes ("ranks") */
    bool cut_spaces; /* no merge joins across a word mark: words may be cut there */
    bool drop_space; /* decoding drops the space in front */
    char *json;      /* the file, for writing */
    size_t json_length;
};

/* Reads a tokenizer.json; `config` is tokenizer_config.json beside it, or NULL. */
PROPANE_CHECK propane_status hf_parse(const json_t *object, const json_t *config, const char *source, tokenizer **out,
                                      propane_error *err);
PROPANE_CHECK propane_status hf_encode(const tokenizer *t, const char *data, size_t length, token_list *out,
                                       propane_error *err);

/* Normalisers and pre-tokenisers from JSON (null: none), appended to steps. */
PROPANE_CHECK propane_status hf_read_normalizers(arena *a, const json_t *value, const char *source, hf_step *steps,
                                                 int *count, propane_error *err);
PROPANE_CHECK propane_status hf_read_splits(arena *a, const json_t *value, const char *source, hf_step *steps,
                                            int *count, propane_error *err);

/* Normalises; the result is `data` itself or lies in one of the two buffers. */
PROPANE_CHECK propane_status hf_normalize(const hf_step *steps, int count, const char *data, size_t length,
                                          text buffers[2], const char **out, size_t *out_length, propane_error *err);

/* Cuts into words, which are given one by one. */
typedef propane_status (*hf_sink)(void *context, const char *word, size_t length, propane_error *err);
typedef struct hf_cutter {
    const hf_step *steps;
    int count;
    hf_sink sink;
    void *context;
    pcre2_match_data *match;
    text buffers[HF_STEPS_MAX];
} hf_cutter;
PROPANE_CHECK propane_status hf_cutter_init(hf_cutter *c, const hf_step *steps, int count, hf_sink sink, void *context,
                                            propane_error *err);
void hf_cutter_deinit(hf_cutter *c);
/* `first`: this piece begins the whole text. The text must be UTF-8. */
PROPANE_CHECK propane_status hf_cut(hf_cutter *c, const char *data, size_t length, bool first, propane_error *err);

/* White space and word characters as the format's own implementation sees them; `bytes`: of the character. */
int32_t hf_lower(int32_t code); /* the small letter of a capital whose small form is one character */
int hf_category(
    int32_t code); /* utf8proc's number of its general category, the same with every version of the library */
/* A text as a pattern shall see it: newer characters as old ones of their category, in the same places, appended to `out`.
 * False: it is the text itself, and nothing was appended. */
bool hf_show_old(const char *data, size_t length, text *out);
int32_t hf_code_at(const char *p, size_t left, size_t *bytes); /* the character there; -1: not UTF-8 */
bool hf_is_number(int32_t code);
bool hf_is_punctuation(int32_t code);
bool hf_is_space(const char *p, size_t left, size_t *bytes);
bool hf_is_word(const char *p, size_t left, size_t *bytes);

/* GPT-2's way to write bytes as printable characters. */
int hf_byte_to_char(unsigned char byte); /* the code point */
int hf_char_to_byte(int32_t code);       /* -1: stands for no byte */
size_t hf_utf8_put(int32_t code, char out[4]);
#define HF_GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#endif
