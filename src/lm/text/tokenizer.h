/* SPDX-License-Identifier: MIT
 * One interface for every vocabulary: text to ids, ids to bytes. A tokenizer is immutable after it is made, so threads
 * may share it. Its identity is a SHA-256 over everything that changes what encode and decode do; token files carry it.
 *
 *   bytes  256 ids, one a byte
 *   chars  the distinct UTF-8 characters of a text (bytes that are not UTF-8: one by one)
 *   bpe    byte-level pair encoding: 256 bytes and merges, words cut as GPT-2 does
 *   llama  SentencePiece pair encoding with scores and byte fallback, from llama2.c's tokenizer.bin
 *   hf     Hugging Face's tokenizer.json: BPE, byte-level (GPT-2, Llama 3, Qwen) or SentencePiece's, or Unigram (T5, XLM-R)
 */
#ifndef LM_TEXT_TOKENIZER_H
#define LM_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/text.h"
#include "lm/text/token_list.h"

typedef enum tokenizer_kind {
    TOKENIZER_BYTES,
    TOKENIZER_CHARS,
    TOKENIZER_BPE,
    TOKENIZER_LLAMA,
    TOKENIZER_HF
} tokenizer_kind;

typedef struct propane_tokenizer tokenizer;

PROPANE_CHECK propane_status tokenizer_create_bytes(tokenizer **out, propane_error *err);
/* `source` names the text in messages. At most 1,048,576 different characters. */
PROPANE_CHECK propane_status tokenizer_create_chars(const char *data, size_t length, const char *source,
                                                    tokenizer **out, propane_error *err);
/* Learns merges from a text until there are `vocab_size` ids (257 .. 65536) or no pair occurs twice: a short text gives
 * a smaller vocabulary. Deterministic: the most frequent pair, of equals the one with the smaller ids. */
PROPANE_CHECK propane_status tokenizer_train_bpe(const char *data, size_t length, int vocab_size, tokenizer **out,
                                                 propane_error *err);
/* Propane's own file (docs/formats.md), Hugging Face's tokenizer.json, llama2.c's tokenizer.bin or the vocabulary of a
 * GGUF file, SentencePiece's tokenizer.model, tiktoken's ranks or Mistral's tekken.json, distinguished by their content.
 * tokenizer_config.json beside a tokenizer.json says which token ends a text. */
PROPANE_CHECK propane_status tokenizer_read(const char *path, tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status tokenizer_parse(const void *data, size_t length, const char *source, tokenizer **out,
                                             propane_error *err);
/* `format`: the chat format that a model with it learnt, by name; NULL: what its files said. */
PROPANE_CHECK propane_status tokenizer_write(const tokenizer *t, const char *format, const char *path,
                                             propane_error *err);
/* What tokenizer_write writes, appended; out->failed: there was no memory. */
void tokenizer_print(const tokenizer *t, text *out);
void tokenizer_free(tokenizer *t);
/* The same vocabulary as Hugging Face's tokenizer.json. Propane's bpe cuts words of more than 256 bytes, which that
 * format cannot say. What it cannot hold (two ids for one string, pieces that are not UTF-8) is
 * PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status tokenizer_print_hf(const tokenizer *t, text *out, propane_error *err);
/* tokenizer.json and tokenizer_config.json into a folder; `longest` is the model's context. */
PROPANE_CHECK propane_status tokenizer_export(const tokenizer *t, const char *dir, int64_t longest, propane_error *err);

/* What the vocabulary's files say about conversations (tokenizer_chat.c); it changes no id. NULL: they do not say
 * it. */
typedef struct tokenizer_chat {
    const char *jinja, *bos, *eos; /* the chat template; what the first and the last token of a sequence are called */
    const char *tools;             /* another template, for conversations with tools */
    const char *format;            /* by name (--chat), that the model learnt with; goes before the template */
} tokenizer_chat;
/* Where a model's folder has that template, as transformers writes it. */
#define TOKENIZER_CHAT_FOLDER "additional_chat_templates"
#define TOKENIZER_CHAT_TOOLS  TOKENIZER_CHAT_FOLDER "/tool_use.jinja"
const tokenizer_chat *tokenizer_get_chat(const tokenizer *t);
/* Copies what is not NULL. */
PROPANE_CHECK propane_status tokenizer_set_chat(tokenizer *t, const tokenizer_chat *c, propane_error *err);
/* From tokenizer_config.json and chat_template.jinja in the folder `path`, or beside that file; what they do not say
 * stays as it is in *out. Strings belong to `a`. */
PROPANE_CHECK propane_status tokenizer_chat_read(const char *path, arena *a, tokenizer_chat *out, propane_error *err);

/* The template for tools of a model (its folder, or a file in one) into another folder; there is none: nothing. */
PROPANE_CHECK propane_status tokenizer_chat_copy_tools(const char *from, const char *to, propane_error *err);

tokenizer_kind tokenizer_get_kind(const tokenizer *t);
const char *tokenizer_kind_name(tokenizer_kind kind); /* "bpe" */
/* "BPE", "Unigram": what cuts the words of the hf kind; NULL: of another kind. */
const char *tokenizer_model_name(const tokenizer *t);
int tokenizer_vocab_size(const tokenizer *t);
int tokenizer_bos(const tokenizer *t); /* what precedes a text; -1: nothing (hf: what its post-processor adds) */
int tokenizer_eos(const tokenizer *t);
/* 64 hex digits, computed when they are first asked for. */
PROPANE_CHECK propane_status tokenizer_hash(const tokenizer *t, const char **out, propane_error *err);

/* Appends the ids of a text; no bos is added. Any bytes can be encoded, except by `chars`: a character that is not in
 * its vocabulary is an error that shows it and its offset. The llama kind puts its dummy space in front, as run.c does;
 * the hf kind knows special tokens in the text, and bytes that are not UTF-8 become U+FFFD, as Python's
 * errors="replace" does. */
PROPANE_CHECK propane_status tokenizer_encode(const tokenizer *t, const char *data, size_t length, token_list *out,
                                              propane_error *err);
/* The bytes of one id, not terminated; bos, eos and unknown have none, nor have rows of an embedding that no id belongs
 * to. */
const char *tokenizer_piece(const tokenizer *t, int32_t id, size_t *length);

/* Turns ids into text as they come: a character whose bytes are spread over several ids appears when it is complete,
 * bytes that are not UTF-8 appear as U+FFFD. Start with {0}; the llama kind drops the space in front of the first
 * piece. */
typedef struct tokenizer_stream {
    char held[4];
    int held_count;
    bool begun;
} tokenizer_stream;
void tokenizer_decode(const tokenizer *t, tokenizer_stream *s, int32_t id, text *out);
void tokenizer_decode_end(tokenizer_stream *s, text *out);
/* The exact bytes of a list of ids: gives back what was encoded (llama: without the dummy space). */
void tokenizer_decode_bytes(const tokenizer *t, const int32_t *ids, size_t count, text *out);

#endif
