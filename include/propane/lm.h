/* SPDX-License-Identifier: MIT
 * Owns language models: files, tokenizers, generation, chat, scores, and the plan of a training step. A library
 * built WITHOUT=lm leaves it out. The rules that hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_LM_H
#define PROPANE_LM_H

#include "propane/train.h"

PROPANE_BEGIN

/* ---- language models --------------------------------------------------------------------------------------------- */

typedef struct propane_model propane_model;
/* A propane_tokenizer (train.h) never changes, so threads may share it. */
typedef struct propane_generator propane_generator;

/* Returns the form of a model: "folder" (Hugging Face's, or a run's), "safetensors", "gguf", "llama2c"; NULL if no
 * language model is there. Static. */
const char *propane_model_form(const char *path);
/* Opens a model with its weights in fp32, adding those of a LoRA adapter's folder (NULL for none). */
PROPANE_CHECK propane_status propane_model_open(const char *path, const char *adapter, propane_model **out,
                                                propane_error *err);
void propane_model_free(propane_model *model);
typedef struct propane_model_info {
    size_t size;              /* sizeof(propane_model_info), set by the caller */
    const char *architecture; /* the model owns it */
    int64_t layers, width, hidden, heads, kv_heads, vocabulary, context, parameters;
} propane_model_info;
bool propane_model_describe(const propane_model *model, propane_model_info *out);
/* Writes a model, whole or not at all. The file name decides the format: NAME.safetensors, NAME.gguf, NAME.bin
 * (llama2.c), anything else a folder. `dtype` is "f32" (also NULL), "f16", "bf16", and for GGUF also "q8_0",
 * "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q4_k". The tokenizer must fit the model (NULL means the model's, if it
 * has one). Folders and GGUF files contain it; a tokenizer that the format cannot express is left out, with a line
 * in the log. */
PROPANE_CHECK propane_status propane_model_save(const propane_model *model, const propane_tokenizer *tokenizer,
                                                const char *path, const char *dtype, propane_error *err);
/* Writes a LoRA adapter's folder as a GGUF file for llama.cpp (--lora). `model` is the base model, of which only
 * sizes are read; NULL means the one that the adapter names. */
PROPANE_CHECK propane_status propane_adapter_save(const char *adapter, const char *model, const char *path,
                                                  propane_error *err);
/* Writes all possible values of `dtype` to `out`, separated by `between`; 200 bytes are enough. Returns `out`. */
const char *propane_model_types(const char *between, char *out, size_t room);

typedef struct propane_export_options {
    size_t size;     /* sizeof(propane_export_options) */
    bool wide;       /* fp32 instead of fp16 */
    int64_t context; /* positions of the cache; 0 means the model's, at most 2048 */
    /* tokens that one call may process: at most 8 lengths, the first is the default; NULL means 1 and 64 */
    const int64_t *lengths;
    int length_count;
    int64_t stateless; /* tokens per call of a program without a cache; 0 means with a cache */
} propane_export_options;
/* Converts the model to one program with a cache in states, for Core ML or a session. `options` may be NULL. */
PROPANE_CHECK propane_status propane_model_export(propane_model *model, const propane_export_options *options,
                                                  propane_module **out, propane_error *err);

/* Opens a vocabulary file (Propane's, tokenizer.json, tokenizer.model, llama2.c's, a GGUF file), or the one in a
 * model's folder. */
PROPANE_CHECK propane_status propane_tokenizer_open(const char *path, propane_tokenizer **out, propane_error *err);
/* Opens the model's vocabulary, from its folder or file, or from a file next to it. */
PROPANE_CHECK propane_status propane_model_tokenizer(const propane_model *model, propane_tokenizer **out,
                                                     propane_error *err);
/* Checks that a vocabulary fits the model: its ids are rows of the embedding, which may have a few more rows. */
PROPANE_CHECK propane_status propane_model_takes(const propane_model *model, const propane_tokenizer *tokenizer,
                                                 propane_error *err);
/* Trains a tokenizer on a text: "bpe" with up to `vocabulary` ids (257 to 65536), "chars", or "bytes" (which needs
 * no text). */
PROPANE_CHECK propane_status propane_tokenizer_train(const char *kind, const char *text, size_t length, int vocabulary,
                                                     propane_tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status propane_tokenizer_write(const propane_tokenizer *tokenizer, const char *path,
                                                     propane_error *err);
void propane_tokenizer_free(propane_tokenizer *tokenizer);
typedef struct propane_tokenizer_info {
    size_t size;            /* sizeof(propane_tokenizer_info), set by the caller */
    const char *kind;       /* "bpe", "chars", "bytes", "llama", "hf" */
    int size_of_vocabulary; /* ids are 0 to this minus 1 */
    int bos, eos;           /* before a text, after it; negative if there is none */
} propane_tokenizer_info;
bool propane_tokenizer_describe(const propane_tokenizer *tokenizer, propane_tokenizer_info *out);
/* Returns the SHA-256 of everything that affects its ids or texts: 64 hexadecimal digits, which live as long as the
 * tokenizer. Computed by the first call. Any thread may call it. */
PROPANE_CHECK propane_status propane_tokenizer_hash(const propane_tokenizer *tokenizer, const char **hash,
                                                    propane_error *err);
/* Encodes a text as ids, without bos; free them with propane_free. */
PROPANE_CHECK propane_status propane_tokenizer_encode(const propane_tokenizer *tokenizer, const char *text,
                                                      size_t length, int32_t **ids, int64_t *count, propane_error *err);
/* Decodes ids into bytes, terminated; free them with propane_free. */
PROPANE_CHECK propane_status propane_tokenizer_decode(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                      int64_t count, char **text, size_t *length, propane_error *err);
/* Does the same for display to people. Bytes that are not UTF-8 appear as U+FFFD, and an id outside the vocabulary as
 * nothing (propane_tokenizer_decode refuses it). `inside` means that other text precedes it, so that a leading
 * blank is kept. */
PROPANE_CHECK propane_status propane_tokenizer_show(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                    int64_t count, bool inside, char **text, size_t *length,
                                                    propane_error *err);
/* Encodes a file as ids (free them with propane_free): a text without zero bytes, or a token file of this tokenizer.
 * `name` is the tokenizer's name in messages (NULL means "the tokenizer"). *bytes is the size of the text. */
PROPANE_CHECK propane_status propane_tokenizer_encode_file(const propane_tokenizer *tokenizer, const char *name,
                                                           const char *path, int32_t **ids, int64_t *count,
                                                           int64_t *bytes, propane_error *err);

/* A text file as ids, with the vocabulary that was trained on it or supplied. Immutable. */
typedef struct propane_corpus propane_corpus;
typedef struct propane_corpus_options {
    size_t size;           /* sizeof(propane_corpus_options) */
    const char *tokenizer; /* a file or a model's folder; NULL trains one */
    const char *kind;      /* kind of a trained one: "bpe" (also NULL), "chars", "bytes" */
    int vocabulary;        /* maximum number of bpe ids, 257 to 65536; 0 means 4096 */
} propane_corpus_options;
/* Opens a text, or a token file with its tokenizer. `options` may be NULL. */
PROPANE_CHECK propane_status propane_corpus_open(const char *path, const propane_corpus_options *options,
                                                 propane_corpus **out, propane_error *err);
void propane_corpus_free(propane_corpus *corpus);
int64_t propane_corpus_count(const propane_corpus *corpus);             /* number of ids */
int64_t propane_corpus_bytes(const propane_corpus *corpus);             /* size of the text */
int32_t propane_corpus_id(const propane_corpus *corpus, int64_t index); /* -1 if the index is out of range */
const propane_tokenizer *propane_corpus_tokenizer(const propane_corpus *corpus);
/* Writes a token file, which training maps instead of encoding the text again. */
PROPANE_CHECK propane_status propane_corpus_write(const propane_corpus *corpus, const char *path, propane_error *err);

typedef struct propane_generator_options {
    size_t size;            /* sizeof(propane_generator_options) */
    propane_device *device; /* shared, must outlive it; NULL opens a separate one by `uri` */
    const char *uri;        /* NULL means "cpu" */
    const char *precision;  /* "fp32" (also NULL), "fp16" */
    const char *weights;    /* how matrices are stored: "auto" (also NULL), "fp32", "bf16", "fp16", "int8", "int4" */
    int64_t context;        /* longest sequence; 0 means the model's */
    int64_t chunk;          /* most prompt positions that are read at once; 0 means 512 */
    int parallel;           /* texts that may be generated at the same time; 0 means 1; at most PROPANE_MAX_PARALLEL */
} propane_generator_options;
/* The possible values of `weights`: "auto|fp32|...". Static. */
const char *propane_weight_forms(void);
/* Creates a generator. Model and tokenizer must outlive it; a tokenizer of NULL means ids only, no text. The
 * tokenizer must fit the model. The beginning that a prompt shares with the previous sequence is not read again. */
PROPANE_CHECK propane_status propane_generator_create(const propane_model *model, const propane_tokenizer *tokenizer,
                                                      const propane_generator_options *options, propane_generator **out,
                                                      propane_error *err);
void propane_generator_free(propane_generator *generator);
/* Returns how the matrices are stored, the most frequent form first: "q4_k and q6_k". The generator owns the
 * string. */
const char *propane_generator_weights(const propane_generator *generator);
int64_t propane_generator_context(const propane_generator *generator);

#define PROPANE_MAX_STOPS    16
#define PROPANE_MAX_LOGPROBS 20
#define PROPANE_MAX_PARALLEL 256
typedef struct propane_sampling {
    size_t size;        /* sizeof(propane_sampling) */
    int64_t count;      /* maximum number of ids to draw */
    double temperature; /* 0 always draws the most likely id */
    int top_k;          /* only the k most likely; 0 means all */
    double top_p, min_p;
    double repetition, frequency, presence; /* penalties; 1, 0, 0 mean none */
    uint64_t seed;
    const char *const *stops; /* the text ends before the first of these; at most PROPANE_MAX_STOPS */
    int stop_count;
    bool ignore_end; /* continues after the end-of-text id */
    /* -1 for none; N for those of the drawn id and of the N most likely ids (at most PROPANE_MAX_LOGPROBS). */
    int logprobs;
    const struct propane_chat
        *chat; /* the text ends where answers in this format end; NULL means at the end-of-text id */
} propane_sampling;
/* Returns the command's defaults: 200 ids, temperature 0.8, top_p 0.95, seed 1. Set `size` first. */
void propane_sampling_default(propane_sampling *sampling);
/* Checks that temperature, cuts and penalties are valid. NULL means the defaults, which are valid. */
PROPANE_CHECK propane_status propane_sampling_check(const propane_sampling *sampling, propane_error *err);

typedef struct propane_logprob {
    int32_t id;
    double logprob; /* natural logarithm, of the model itself */
} propane_logprob;
typedef struct propane_token {
    size_t size;
    int32_t id;     /* -1 if there is no new id, only the rest of the text */
    bool end;       /* it ends the text */
    double logprob; /* if requested */
    const propane_logprob *top;
    int top_count;
    const char *text; /* text that has become certain: valid UTF-8, not terminated; its ids may have come earlier */
    size_t length;
} propane_token;
/* Called in the thread that generates; its argument is valid until it returns. Returns false to end the text. */
typedef bool (*propane_on_token)(void *context, const propane_token *token);

typedef enum propane_finish {
    PROPANE_FINISH_LENGTH,  /* `count` ids were drawn */
    PROPANE_FINISH_CONTEXT, /* the context is full */
    PROPANE_FINISH_END,     /* the end-of-text id */
    PROPANE_FINISH_STOP,    /* a stop string */
    PROPANE_FINISH_CALLER   /* the callback ended it */
} propane_finish;
typedef struct propane_generation {
    size_t size; /* sizeof(propane_generation), set by the caller */
    propane_finish finish;
    int64_t prompt_count, made, reused; /* ids; reused: ids of the prompt that were still in the cache */
} propane_generation;
const char *propane_finish_name(propane_finish finish); /* "length", "context", "end", "stop", "cancelled" */

/* Continues a prompt, which must not be empty. Here and below, NULL for sampling means the defaults; callback and
 * out may be NULL. */
PROPANE_CHECK propane_status propane_generate(propane_generator *generator, const char *prompt, size_t length,
                                              const propane_sampling *sampling, propane_on_token callback,
                                              void *context, propane_generation *out, propane_error *err);
PROPANE_CHECK propane_status propane_generate_ids(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_generation *out, propane_error *err);
/* Generates several texts at once, each as if it were generated separately: the weights are read once for all of
 * them. One stream is one text; up to the generator's `parallel` streams run at the same time. Use them in the
 * generator's thread. */
typedef struct propane_stream propane_stream;
int propane_generator_parallel(const propane_generator *generator);
/* Reads the prompt. Ids, sampling and context must live until the stream is freed. Returns PROPANE_ERR_LIMIT if
 * `parallel` streams are already running. */
PROPANE_CHECK propane_status propane_stream_begin(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_stream **out, propane_error *err);
/* Draws one id for each stream that is not done. After an error the streams can only be freed. */
PROPANE_CHECK propane_status propane_generator_advance(propane_generator *generator, propane_error *err);
bool propane_stream_done(const propane_stream *stream);
/* Returns the result of a stream that is done, or PROPANE_ERR_LIMIT if the model's scores were not numbers. `out`
 * may be NULL. */
PROPANE_CHECK propane_status propane_stream_result(const propane_stream *stream, propane_generation *out,
                                                   propane_error *err);
void propane_stream_free(propane_stream *stream); /* free it before its generator */

typedef struct propane_chat_message {
    const char *role, *content; /* "system", "user", "assistant"; UTF-8 */
} propane_chat_message;
/* Answers a conversation, in the model's chat format or in a named one ("chatml", ...; NULL means the model's). If
 * the context is too short, the oldest turns are left out. */
PROPANE_CHECK propane_status propane_generate_chat(propane_generator *generator, const char *format,
                                                   const propane_chat_message *messages, int count,
                                                   const propane_sampling *sampling, propane_on_token callback,
                                                   void *context, propane_generation *out, propane_error *err);
/* A model's chat format. It never changes; model and tokenizer must outlive it. */
typedef struct propane_chat propane_chat;
PROPANE_CHECK propane_status propane_chat_open(const propane_model *model, const propane_tokenizer *tokenizer,
                                               const char *format, propane_chat **out, propane_error *err);
void propane_chat_free(propane_chat *chat);
const char *propane_chat_format(const propane_chat *chat); /* "chatml", ... */
/* Encodes a conversation followed by the prefix of an answer, as at most `room` ids; free them with propane_free.
 * If there are more, the oldest turns after the system message are left out and *dropped (may be NULL) counts those
 * messages. Returns PROPANE_ERR_LIMIT if the last turn alone is too long. */
PROPANE_CHECK propane_status propane_chat_encode(const propane_chat *chat, const propane_chat_message *messages,
                                                 int count, int64_t room, int32_t **ids, int64_t *id_count,
                                                 int *dropped, propane_error *err);

/* Computes -log p of each id after the first, in nats: nll [count - 1]. */
PROPANE_CHECK propane_status propane_generator_score(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     double *nll, propane_error *err);
/* Computes a text's embedding, for comparison by cosine: the hidden stream that the head reads, after the last
 * norm, summed over all ids and divided by its length. embedding: [width of propane_model_info]. Returns
 * PROPANE_ERR_LIMIT if it is not a number. */
PROPANE_CHECK propane_status propane_generator_embed(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     float *embedding, propane_error *err);
/* Reports the progress of a long evaluation: `done` of `total` predictions (or examples, if those are counted),
 * with the `mean` of those done. Called in the calling thread after each window or example. Returns false to end
 * the call with PROPANE_ERR_CANCELLED. */
typedef bool (*propane_on_progress)(void *context, int64_t done, int64_t total, double mean);
/* Sets the callback of propane_generator_loss and propane_generator_loss_examples from now on; NULL for none. */
void propane_generator_on_progress(propane_generator *generator, propane_on_progress callback, void *context);
/* Computes the mean loss over a sequence of any length, in windows of the context, each with a fresh cache.
 * `predictions` (may be NULL) receives their number. Returns PROPANE_ERR_LIMIT if the loss is not a number. */
PROPANE_CHECK propane_status propane_generator_loss(propane_generator *generator, const int32_t *ids, int64_t count,
                                                    double *mean, int64_t *predictions, propane_error *err);
/* Computes the mean loss over the answers of instruction data (.jsonl), read and marked as in training. Each
 * example is evaluated separately and cut at the end of the context. */
PROPANE_CHECK propane_status propane_generator_loss_examples(propane_generator *generator, const propane_chat *chat,
                                                             const char *path, double *mean, int64_t *predictions,
                                                             int64_t *examples, propane_error *err);
/* Writes the logits [count, vocabulary] after each of 1 to `context` ids, as "logits" of a safetensors file. */
PROPANE_CHECK propane_status propane_generator_write_logits(propane_generator *generator, const int32_t *ids,
                                                            int64_t count, const char *path, propane_error *err);
typedef struct propane_gradient_options {
    size_t size;           /* sizeof(propane_gradient_options) */
    const char *uri;       /* of the device; NULL means "cpu" */
    const char *precision; /* "fp32" (also NULL), "fp16" */
    const char *plan;      /* how a step is cut into programs: "layer" (also NULL), "six", "ten" */
} propane_gradient_options;
/* Writes the gradients of the mean loss of one sequence in one training step, as safetensors under the names of the
 * model's weights. *loss may be NULL. The weights do not change. Two threads must not call it for one model. */
PROPANE_CHECK propane_status propane_model_write_gradients(propane_model *model, const int32_t *ids, int64_t count,
                                                           const propane_gradient_options *options, const char *path,
                                                           double *loss, propane_error *err);

/* ---- training steps on a Neural Engine -------------------------------------------------------------------------- */

/* The ways in which a step's programs may get their weights: "inputs|packed|...". Static. */
const char *propane_weight_modes(void);

/* The kernels of a training step, cut out of the differentiated forward functions: where each one runs, and which
 * values pass between them. */
typedef struct propane_plan propane_plan;
typedef struct propane_plan_options {
    size_t size;           /* sizeof(propane_plan_options) */
    const char *plan;      /* "layer" (also NULL), "six", "ten" */
    const char *precision; /* of the device's programs: "fp32" (also NULL), "fp16" */
    int64_t batch;         /* sequences at a time; 0 means 1 */
    int64_t context;       /* positions per sequence; 0 means 256 */
    /* Where the vocabulary's matrix product runs: "auto" (also NULL), as in the plan; "host", "device". */
    const char *head;
    const char *gradients; /* where the matrix products of weight gradients run: "host" (also NULL), "device" */
    int64_t lora_rank;     /* only adapters of this rank are trained; 0: all weights */
    const char
        *stream; /* of the residual between a layer's halves: "fp32" (also NULL); "fp16" for plan layer in fp16 */
} propane_plan_options;
/* Returns whether the path is a model in any form, its config.json, or a known model's name ("stories110m"). */
bool propane_plan_takes(const char *model);
/* Makes a plan. A NULL `model` means the default small one. `options` may be NULL. A message about an option begins
 * with the member's name. */
PROPANE_CHECK propane_status propane_plan_create(const char *model, const propane_plan_options *options,
                                                 propane_plan **out, propane_error *err);
void propane_plan_free(propane_plan *plan);
/* Prints the plan as readable text: one line per kernel, with place, inputs, outputs, bytes and floating-point
 * operations. Free the text with propane_free. */
PROPANE_CHECK propane_status propane_plan_print(const propane_plan *plan, char **out, size_t *length,
                                                propane_error *err);
/* Checks the plan's device kernels against the known rules of the chip, with weights in that mode (NULL means
 * "inputs"). `why` names the rule that refuses a kernel. */
propane_status propane_plan_supported(const propane_plan *plan, const char *chip, const char *weights,
                                      propane_error *why);
/* Returns the kernels as functions; the plan owns the module. */
propane_module *propane_plan_module(propane_plan *plan);

typedef struct propane_training_estimate_options {
    size_t size;         /* sizeof(propane_training_estimate_options) */
    const char *target;  /* as above; NULL means "m4" */
    const char *plan;    /* NULL means "six" */
    const char *weights; /* NULL means "inputs"; with lora_rank on one machine, the fastest mode that is not refused */
    int64_t batch, context; /* 0 means 1 and 256 */
    int64_t accumulate;     /* batches per update; 0 means 1 */
    bool compare;           /* plans, weights and batches side by side, the fastest first */
    bool ops;               /* also one row per kernel (PROPANE_TEXT) */
    /* Workers that share a training run over a network, with one row per method: data-parallel, outer steps, and
     * adapters averaged by a server. 0 means one machine; the network members below are then ignored. */
    int64_t workers;
    double bandwidth;     /* bits per second that a worker sends, and receives at the same time; 0 means 1e9 */
    double latency_ms;    /* one-way latency of a message */
    const char *wire;     /* "fp32" (also NULL), "bf16", "fp16", "int4" */
    int64_t outer;        /* steps between two outer ones, or rounds; 0 means 500 */
    int64_t lora_rank;    /* only adapters of this rank are trained; 0 means all weights, or with workers rank 8 */
    const char *head;     /* as in propane_plan_options */
    const char *moments;  /* of AdamW: "fp32" (also NULL), "bf16", "int8" */
    const char *clipping; /* which norm is used: "exact" (also NULL), "lagged" (train --clip-norm) */
    /* Searches all plans, heads, weight modes and forms of moments that are not set (NULL), and every way to divide
     * batch x accumulate sequences. Prints the fastest with its parts, and the runners-up. */
    bool search;
    bool sources; /* source of each assumption (PROPANE_TEXT) */
    /* Path of a report written by `propane devices --probe`. Its figures for the host replace the assumed ones. NULL
     * means none. Not with workers. */
    const char *rates;
    int64_t outer_warmup; /* data-parallel steps before the outer ones; 0 for none */
    /* of updates: "on" (also NULL); "early" (train --overlap) assumes that all guesses are right; not with workers */
    const char *overlap;
    const char *gradients; /* as in propane_plan_options; not with workers */
    const char *stream;    /* as in propane_plan_options; in comparisons it concerns plan layer; not with workers */
} propane_training_estimate_options;
/* Estimates the cost of a model's (propane_plan_takes) training steps; nothing is measured. Prints PROPANE_TEXT or
 * PROPANE_JSON, terminated; free it with propane_free. `options` may be NULL. */
PROPANE_CHECK propane_status propane_estimate_training(const char *model,
                                                       const propane_training_estimate_options *options,
                                                       propane_form form, char **out, propane_error *err);

typedef struct propane_where_options {
    size_t size;        /* sizeof(propane_where_options) */
    const char *target; /* as above; NULL means "m4" */
    const char *mode;   /* NULL means "full", or "lora" with lora_rank; "forward": no training */
    const char
        *goal; /* "time" (also NULL), "joules"; "background": least disturbance of a person who uses CPU and GPU */
    const char *data;       /* for the commands that are printed; NULL means "DATA" */
    int64_t lora_rank;      /* of mode lora; 0 means 8 */
    int64_t batch, context; /* 0 means 1 and 256 */
    int64_t accumulate;     /* batches per update; 0 means 10 */
    const char *stream;     /* of plan layer: "fp32", "fp16"; NULL: fp16 on chips that refuse fp32 inputs */
} propane_where_options;
/* Reports the cost of 1,000 tokens of a model (propane_plan_takes) on a chip's engine, CPU and GPU, the reasons,
 * and the command to run. Engine and CPU are estimated; the GPU's figures are published by others. Prints
 * PROPANE_TEXT, PROPANE_JSON or PROPANE_MARKDOWN (a table), terminated; free it with propane_free. */
PROPANE_CHECK propane_status propane_where(const char *model, const propane_where_options *options, propane_form form,
                                           char **out, propane_error *err);

/* ---- trainers of language models --------------------------------------------------------------------------------- */

/* Copies a language model's current weights, with its adapters merged, to generate text or to save. */
PROPANE_CHECK propane_status propane_trainer_model(const propane_trainer *trainer, propane_model **out,
                                                   propane_error *err);
/* The trainer owns it; NULL for a program. */
const propane_tokenizer *propane_trainer_tokenizer(const propane_trainer *trainer);
/* Returns up to `room` tokens of a prompt that the model has not seen: number `index` of `count` from the held-out
 * data. A prompt starts at the beginning of a line or a word; for instruction data it is an example up to its
 * answer. Returns their number, or 0 if there is no such prompt. */
int64_t propane_trainer_prompt(const propane_trainer *trainer, int index, int count, int32_t *ids, int64_t room);

PROPANE_END

#endif
