/* SPDX-License-Identifier: MIT
 * One interface for every kind of vocabulary, which converts text to ids and ids to bytes. A tokenizer's encoding does
 * not change after its creation, so threads may share it. Its identity is a SHA-256 of everything that affects encoding
 * and decoding; token files contain this hash.
 *
 *   bytes  256 ids, one per byte
 *   chars  the distinct UTF-8 characters of a text (bytes that are not UTF-8 are separate)
 *   bpe    byte-level pair encoding: 256 bytes and merges, words split as GPT-2 does
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
/* `source` names the text in messages. The text may have at most 1,048,576 different characters. */
PROPANE_CHECK propane_status tokenizer_create_chars(const char *data, size_t length, const char *source,
                                                    tokenizer **out, propane_error *err);
/* Trains merges on a text until there are `vocab_size` ids (257 .. 65536) or no pair occurs twice, so a short text
 * gives a smaller vocabulary. The result is deterministic: the most frequent pair is merged first, and of equally
 * frequent pairs the one with the smaller ids. */
PROPANE_CHECK propane_status tokenizer_train_bpe(const char *data, size_t length, int vocab_size, tokenizer **out,
                                                 propane_error *err);
/* Reads Propane's own file (docs/formats.md), Hugging Face's tokenizer.json, llama2.c's tokenizer.bin or the vocabulary
 * of a GGUF file, SentencePiece's tokenizer.model, tiktoken's ranks or Mistral's tekken.json, distinguished by their
 * content. tokenizer_config.json next to a tokenizer.json determines which token ends a text. */
PROPANE_CHECK propane_status tokenizer_read(const char *path, tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status tokenizer_parse(const void *data, size_t length, const char *source, tokenizer **out,
                                             propane_error *err);
/* Writes Propane's own file. `format` is the name of the chat format with which a model is trained; NULL keeps the
 * format that the tokenizer's files specified. */
PROPANE_CHECK propane_status tokenizer_write(const tokenizer *t, const char *format, const char *path,
                                             propane_error *err);
/* Appends the content of the file that tokenizer_write writes. out->failed means that memory ran out. */
void tokenizer_print(const tokenizer *t, text *out);
void tokenizer_free(tokenizer *t);
/* Appends the vocabulary as Hugging Face's tokenizer.json. Propane's bpe splits words of more than 256 bytes, which
 * that format cannot express. Returns PROPANE_ERR_UNSUPPORTED for a vocabulary that the format cannot hold (two ids for
 * one string, pieces that are not UTF-8). */
PROPANE_CHECK propane_status tokenizer_print_hf(const tokenizer *t, text *out, propane_error *err);
/* Writes tokenizer.json and tokenizer_config.json into a folder; `longest` is the model's context. */
PROPANE_CHECK propane_status tokenizer_export(const tokenizer *t, const char *dir, int64_t longest, propane_error *err);

/* The parts of a vocabulary's files that concern conversations (tokenizer_chat.c). They change no id. A field is NULL
 * if the files do not specify it. */
typedef struct tokenizer_chat {
    const char *jinja, *bos, *eos; /* the chat template, and the names of the first and last token of a sequence */
    const char *tools;             /* another template, for conversations with tools */
    /* name (--chat) of the format with which the model was trained; takes precedence over the template */
    const char *format;
} tokenizer_chat;
/* The folder of the template for tools in a model's folder, as transformers writes it. */
#define TOKENIZER_CHAT_FOLDER "additional_chat_templates"
#define TOKENIZER_CHAT_TOOLS  TOKENIZER_CHAT_FOLDER "/tool_use.jinja"
const tokenizer_chat *tokenizer_get_chat(const tokenizer *t);
/* Sets the fields that are not NULL in `c`, as copies. */
PROPANE_CHECK propane_status tokenizer_set_chat(tokenizer *t, const tokenizer_chat *c, propane_error *err);
/* Reads tokenizer_config.json and chat_template.jinja in the folder `path`, or next to the file `path`. Fields of *out
 * that these files do not specify keep their values. Strings belong to `a`. */
PROPANE_CHECK propane_status tokenizer_chat_read(const char *path, arena *a, tokenizer_chat *out, propane_error *err);

/* Copies a model's template for tools into the folder `to`. `from` is the model's folder or a file in it. Does nothing
 * if there is no such template. */
PROPANE_CHECK propane_status tokenizer_chat_copy_tools(const char *from, const char *to, propane_error *err);

tokenizer_kind tokenizer_get_kind(const tokenizer *t);
const char *tokenizer_kind_name(tokenizer_kind kind); /* "bpe" */
/* Returns the algorithm of a tokenizer of the hf kind, "BPE" or "Unigram", or NULL for other kinds. */
const char *tokenizer_model_name(const tokenizer *t);
int tokenizer_vocab_size(const tokenizer *t);
/* token before a text, or -1 for none; for hf, the token that the post-processor adds */
int tokenizer_bos(const tokenizer *t);
int tokenizer_eos(const tokenizer *t);
/* Sets *out to the hash, 64 hex digits, which is computed on first use. */
PROPANE_CHECK propane_status tokenizer_hash(const tokenizer *t, const char **out, propane_error *err);

/* Appends the ids of a text; no bos is added. Any bytes can be encoded, except that with `chars` a character outside
 * the vocabulary is an error, which shows the character and its offset. The llama kind prepends a dummy space, as
 * llama2.c's run.c does. The hf kind recognises special tokens in the text, and bytes that are not UTF-8 become U+FFFD,
 * as with Python's errors="replace". */
PROPANE_CHECK propane_status tokenizer_encode(const tokenizer *t, const char *data, size_t length, token_list *out,
                                              propane_error *err);
/* Returns the bytes of an id, not terminated. bos, eos and the unknown token have no bytes, and neither have embedding
 * rows without a token. */
const char *tokenizer_piece(const tokenizer *t, int32_t id, size_t *length);

/* The state of turning ids into text one by one. A character whose bytes are spread over several ids appears when it is
 * complete; bytes that are not UTF-8 appear as U+FFFD. The initial state is {0}. The llama kind drops the space before
 * the first piece. */
typedef struct tokenizer_stream {
    char held[4];
    int held_count;
    bool begun;
} tokenizer_stream;
void tokenizer_decode(const tokenizer *t, tokenizer_stream *s, int32_t id, text *out);
void tokenizer_decode_end(tokenizer_stream *s, text *out);
/* Appends the exact bytes of a list of ids, which restores the encoded text (llama: without the dummy space). */
void tokenizer_decode_bytes(const tokenizer *t, const int32_t *ids, size_t count, text *out);

#endif
