/* SPDX-License-Identifier: MIT
 * Hugging Face's tokenizer.json: declarations shared by its reader, its text splitting and its encoder. Other parts use
 * only tokenizer.h.
 *
 *     text -> special tokens cut out -> normalisers -> tokens of the normalised text cut out -> words -> pair encoding
 */
#ifndef LM_TEXT_TOKENIZER_HF_H
#define LM_TEXT_TOKENIZER_HF_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/json.h"
#include "lm/text/charsmap.h"
#include "lm/text/tokenizer_internal.h"

#define HF_OWN_KEY "propane" /* in files that Propane wrote: {"eos": id, "ranks": true} */
/* A key of the normaliser, the only object in which other programs ignore unknown keys; see hf_sentencepiece. */
#define HF_SP_KEY "propane.sentencepiece"

enum { HF_STEPS_MAX = 16 }; /* steps of one kind, with Sequences flattened */

/* How the pieces around a match are cut; the names are those in the file. */
typedef enum hf_behaviour { HF_REMOVED, HF_ISOLATED, HF_WITH_PREVIOUS, HF_WITH_NEXT, HF_CONTIGUOUS } hf_behaviour;

typedef enum hf_kind {
    HF_NFC,
    HF_NFD,
    HF_NFKC,
    HF_NFKD,
    HF_LOWERCASE,
    HF_REPLACE,
    HF_PREPEND,
    HF_STRIP,
    HF_STRIP_ACCENTS,
    HF_NMT,
    HF_CHARSMAP, /* normalisers */
    HF_SPLIT,
    HF_BYTE_LEVEL,
    HF_METASPACE,
    HF_DIGITS,
    HF_PUNCTUATION,
    HF_WHITESPACE /* pre-tokenisers */
} hf_kind;

typedef enum hf_scheme { HF_ALWAYS, HF_FIRST, HF_NEVER } hf_scheme;

typedef struct hf_step {
    hf_kind kind;
    hf_behaviour behaviour;
    bool invert;
    pcre2_code *regex;       /* split, replace, byte level with a pattern; if NULL, `find` is used */
    const char *find, *with; /* literal text and its replacement; prepend, metaspace: `with` */
    size_t find_length, with_length;
    hf_scheme scheme;        /* metaspace, byte level: whether a space is always or never prepended */
    bool split, left, right; /* metaspace; strip */
    charsmap *rules;         /* charsmap */
} hf_step;

typedef struct hf_added {
    const char *content;
    size_t length;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} hf_added;

/* Finds the longest of many texts at a position (tokenizer_hf_trie.c). */
typedef struct hf_trie {
    id_map edges;      /* node << 8 | byte -> node */
    int32_t *terminal; /* per node: the text's value, or -1 if none ends here */
    int nodes;
    bool first[256];
} hf_trie;
/* Adds a text. Returns false if memory runs out. A text that exists gets the new value; the empty text is skipped. */
bool hf_trie_add(hf_trie *t, const char *data, size_t length, int32_t value);
/* Returns the node after one more byte, or -1 if no text continues with it. Node 0 is the start. */
static inline int32_t hf_trie_next(const hf_trie *t, int32_t node, char byte) {
    const int32_t *next = id_map_find(&t->edges, (uint64_t)(uint32_t)node << 8 | (unsigned char)byte);
    return next ? *next : -1;
}
/* Returns the value of the longest text that is a prefix of `data`, and sets *found to its length in bytes. Returns -1
 * and sets *found to 0 if there is none. */
int32_t hf_trie_longest(const hf_trie *t, const char *data, size_t length, size_t *found);
void hf_trie_deinit(hf_trie *t);

/* SentencePiece's preparation of text, which replaces normalisers and pre-tokenisers for vocabularies that came from a
 * tokenizer.model. */
typedef struct hf_sentencepiece {
    bool on, prefix, squeeze,
        /* a space is prepended; runs of spaces become one, and are trimmed at the ends; spaces become word marks */
        escape;
    const json_t *unused;  /* while reading: ids that never represent text */
    const charsmap *rules; /* NULL for none */
} hf_sentencepiece;

typedef enum hf_drop {
    HF_DROP_NONE,
    HF_DROP_ONE,
    HF_DROP_PIECE,
    HF_DROP_ALL
} hf_drop; /* spaces before a decoded text */

struct hf_tokenizer {
    hf_step normalizers[HF_STEPS_MAX], splits[HF_STEPS_MAX];
    int normalizer_count, split_count;
    hf_added *added;
    int added_count;
    hf_trie raw, normal; /* added tokens to be matched before and after normalising */
    hf_trie units;       /* Unigram: pieces into which text is split, by id */
    double *scores;      /* scores of the pieces; NULL means that pairs are merged */
    double unk_score;    /* score of a character without a piece */
    hf_sentencepiece sp;
    int32_t *merged; /* [merge], id that the merge produces */
    int merge_count;
    int32_t unk; /* -1 for none */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool by_result;  /* a merge's rank is the id that it produces ("ranks") */
    bool cut_spaces; /* no merge joins across a word mark, so words may be cut there */
    hf_drop drop;
    int32_t behind; /* the token that the post-processor appends to a text, or -1 */
    char *json;     /* the file's text, for writing */
    size_t json_length;
};

/* Reads a tokenizer.json; `config` is the tokenizer_config.json next to it, or NULL. */
PROPANE_CHECK propane_status hf_parse(const json_t *object, const json_t *config, const char *source, tokenizer **out,
                                      propane_error *err);
PROPANE_CHECK propane_status hf_encode(const tokenizer *t, const char *data, size_t length, token_list *out,
                                       propane_error *err);

/* Unigram vocabularies (tokenizer_unigram.c). unigram_count counts the entries of 'model.vocab'. unigram_read reads
 * pieces, scores and unk_id of a whole tokenizer.json; h->sp must have been read before. */
PROPANE_CHECK propane_status unigram_count(const json_t *vocab, const char *source, int64_t *out, propane_error *err);
PROPANE_CHECK propane_status unigram_read(tokenizer *t, const json_t *object, const char *source, propane_error *err);
/* Memory that successive calls of unigram_encode reuse; it must be zeroed initially. unigram_encode appends the ids of
 * a normalised UTF-8 text. */
typedef struct unigram_places {
    struct unigram_place *places;
    size_t room;
} unigram_places;
PROPANE_CHECK propane_status unigram_encode(const tokenizer *t, unigram_places *p, const char *data, size_t length,
                                            token_list *out, propane_error *err);
void unigram_deinit(unigram_places *p);

/* Read normalisers and pre-tokenisers from JSON (null means none) and append them to `steps`. */
PROPANE_CHECK propane_status hf_read_normalizers(arena *a, const json_t *value, const char *source, hf_step *steps,
                                                 int *count, propane_error *err);
PROPANE_CHECK propane_status hf_read_splits(arena *a, const json_t *value, const char *source, hf_step *steps,
                                            int *count, propane_error *err);

/* Runs patterns on a text within limits of steps and time (tokenizer_hf_match.c). */
typedef struct hf_matcher {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    /* in nanoseconds: time left for matching, and the thread's CPU time at which matching must end */
    int64_t left, processor_end;
} hf_matcher;
/* `length` is the total length of all texts in which the matcher will search. */
PROPANE_CHECK propane_status hf_matcher_init(hf_matcher *m, size_t length, propane_error *err);
void hf_matcher_deinit(hf_matcher *m);
/* Finds the next match at or after `from`; *start equals length if there is none. The text must be UTF-8. */
PROPANE_CHECK propane_status hf_match(hf_matcher *m, const pcre2_code *regex, const char *data, size_t length,
                                      size_t from, size_t *start, size_t *end, propane_error *err);

/* Normalises a text. The result *out is `data` itself or is in one of the two buffers. */
PROPANE_CHECK propane_status hf_normalize(const hf_step *steps, int count, hf_matcher *match, const char *data,
                                          size_t length, text buffers[2], const char **out, size_t *out_length,
                                          propane_error *err);

/* Normalises as SentencePiece does and appends the result. `user` holds the user-defined pieces, which stay unchanged.
 * The text must be UTF-8. */
void hf_normalize_sentencepiece(const hf_sentencepiece *sp, const hf_trie *user, const char *data, size_t length,
                                text *out);

/* Receives the words one by one. */
typedef propane_status (*hf_sink)(void *context, const char *word, size_t length, propane_error *err);
typedef struct hf_cutter {
    const hf_step *steps;
    int count;
    hf_sink sink;
    void *context;
    hf_matcher *match;
    text buffers[HF_STEPS_MAX];
} hf_cutter;
void hf_cutter_init(hf_cutter *c, const hf_step *steps, int count, hf_matcher *match, hf_sink sink, void *context);
void hf_cutter_deinit(hf_cutter *c);
/* Cuts a piece of text into words. `first` means that the piece begins the whole text. The text must be UTF-8. */
PROPANE_CHECK propane_status hf_cut(hf_cutter *c, const char *data, size_t length, bool first, propane_error *err);

/* Characters and their classes, as the format's reference implementation defines them. `bytes` receives a character's
 * length. */
int32_t hf_lower(int32_t code); /* the lower-case letter of a capital whose lower-case form is one character */
int hf_category(
    int32_t code); /* utf8proc's number of the general category, which is the same for every version of the library */
/* Appends the text in the form in which patterns are matched: newer characters are replaced by older ones of the same
 * category and length. Returns false and appends nothing if the text needs no change. */
bool hf_show_old(const char *data, size_t length, text *out);
/* the character at `p`, or -1 if the bytes are not UTF-8 */
int32_t hf_code_at(const char *p, size_t left, size_t *bytes);
bool hf_is_number(int32_t code);
bool hf_is_accent(int32_t code); /* a mark that StripAccents removes */
bool hf_is_punctuation(int32_t code);
bool hf_is_space(const char *p, size_t left, size_t *bytes);
bool hf_is_word(const char *p, size_t left, size_t *bytes);

int hf_byte_of(const char *key, size_t length); /* "<0x0A>" -> 10, or -1 for anything else */

/* GPT-2's mapping of bytes to printable characters. */
int hf_byte_to_char(unsigned char byte); /* the code point */
int hf_char_to_byte(int32_t code);       /* -1 if the character represents no byte */
size_t hf_utf8_put(int32_t code, char out[4]);
#define HF_GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#endif
