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

/* Returns the form of the model at `path`: "folder" (Hugging Face's, or a run's), "safetensors", "gguf" or "llama2c".
 * Returns NULL if `path` is not a language model. The string is static. */
const char *propane_model_form(const char *path);
/* Opens a model with its weights in fp32, and merges the LoRA adapter in the folder `adapter` (NULL for none). */
PROPANE_CHECK propane_status propane_model_open(const char *path, const char *adapter, propane_model **out,
                                                propane_error *err);
void propane_model_free(propane_model *model);
typedef struct propane_model_info {
    size_t size;              /* sizeof(propane_model_info), set by the caller */
    const char *architecture; /* the model owns the string */
    int64_t layers, width, hidden, heads, kv_heads, vocabulary, context, parameters;
} propane_model_info;
bool propane_model_describe(const propane_model *model, propane_model_info *out);
/* Writes a model completely or not at all. The file name decides the format: NAME.safetensors, NAME.gguf, NAME.bin
 * (llama2.c), or a folder for any other name. `dtype` is "f32" (also NULL), "f16", "bf16", and for GGUF also "q8_0",
 * "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q4_k". The tokenizer must fit the model; NULL means the model's tokenizer,
 * if there is one. Folders and GGUF files contain the tokenizer. If the format cannot express it, it is left out with a
 * note (propane_set_log). */
PROPANE_CHECK propane_status propane_model_save(const propane_model *model, const propane_tokenizer *tokenizer,
                                                const char *path, const char *dtype, propane_error *err);
/* Writes the LoRA adapter in the folder `adapter` to `path`, which must be NAME.gguf, for llama.cpp (--lora). `model`
 * is the base model, of which only the sizes are read; NULL means the base model that the adapter names. */
PROPANE_CHECK propane_status propane_adapter_save(const char *adapter, const char *model, const char *path,
                                                  propane_error *err);
/* Writes all possible values of propane_model_save's `dtype` to `out`, separated by `between`. 200 bytes are enough.
 * Returns `out`. */
const char *propane_model_types(const char *between, char *out, size_t room);

typedef struct propane_export_options {
    size_t size;     /* sizeof(propane_export_options) */
    bool wide;       /* fp32 instead of fp16 */
    int64_t context; /* positions of the cache; 0 means those of the model, but at most 2048 */
    /* The numbers of tokens that one call may process, at most 8 of them; the first is the default. NULL means 1 and
     * 64. */
    const int64_t *lengths;
    int length_count;
    int64_t stateless; /* tokens per call of a program without a cache; 0 means that the program has a cache */
} propane_export_options;
/* Converts the model to one program, whose states hold the cache, for Core ML or a session. `options` may be NULL. */
PROPANE_CHECK propane_status propane_model_export(propane_model *model, const propane_export_options *options,
                                                  propane_module **out, propane_error *err);

/* Opens a vocabulary file: Propane's, tokenizer.json, tokenizer.model, llama2.c's, or a GGUF file. For a model's folder
 * or file, opens the model's vocabulary. */
PROPANE_CHECK propane_status propane_tokenizer_open(const char *path, propane_tokenizer **out, propane_error *err);
/* Opens the model's vocabulary, which is in the model's folder or file, or in a file next to it. */
PROPANE_CHECK propane_status propane_model_tokenizer(const propane_model *model, propane_tokenizer **out,
                                                     propane_error *err);
/* Checks that a vocabulary fits the model: its ids are rows of the embedding, which may have a few more rows. */
PROPANE_CHECK propane_status propane_model_takes(const propane_model *model, const propane_tokenizer *tokenizer,
                                                 propane_error *err);
/* Trains a tokenizer on a text. `kind` is "bpe" (up to `vocabulary` ids, 257 to 65536), "chars", or "bytes", which
 * needs no text. */
PROPANE_CHECK propane_status propane_tokenizer_train(const char *kind, const char *text, size_t length, int vocabulary,
                                                     propane_tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status propane_tokenizer_write(const propane_tokenizer *tokenizer, const char *path,
                                                     propane_error *err);
void propane_tokenizer_free(propane_tokenizer *tokenizer);
typedef struct propane_tokenizer_info {
    size_t size;            /* sizeof(propane_tokenizer_info), set by the caller */
    const char *kind;       /* "bpe", "chars", "bytes", "llama", "hf" */
    int size_of_vocabulary; /* ids are 0 to this minus 1 */
    int bos, eos;           /* the ids before and after a text; negative if there is none */
} propane_tokenizer_info;
bool propane_tokenizer_describe(const propane_tokenizer *tokenizer, propane_tokenizer_info *out);
/* Sets *hash to the SHA-256 of everything that affects the tokenizer's ids or texts, as 64 hexadecimal digits that live
 * as long as the tokenizer. The first call computes the hash. Any thread may call this function. */
PROPANE_CHECK propane_status propane_tokenizer_hash(const propane_tokenizer *tokenizer, const char **hash,
                                                    propane_error *err);
/* Encodes a text as ids, without bos; free the ids with propane_free. */
PROPANE_CHECK propane_status propane_tokenizer_encode(const propane_tokenizer *tokenizer, const char *text,
                                                      size_t length, int32_t **ids, int64_t *count, propane_error *err);
/* Decodes ids to a terminated text; free the text with propane_free. */
PROPANE_CHECK propane_status propane_tokenizer_decode(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                      int64_t count, char **text, size_t *length, propane_error *err);
/* Decodes ids to a text for display to people. Bytes that are not UTF-8 become U+FFFD, and an id outside the
 * vocabulary, which propane_tokenizer_decode refuses, becomes nothing. `inside` means that other text precedes these
 * ids, so that a leading blank is kept. */
PROPANE_CHECK propane_status propane_tokenizer_show(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                    int64_t count, bool inside, char **text, size_t *length,
                                                    propane_error *err);
/* Encodes a file as ids; free the ids with propane_free. The file is a text without zero bytes, or a token file of this
 * tokenizer. `name` is the tokenizer's name in messages (NULL means "the tokenizer"). *bytes is set to the size of the
 * text. */
PROPANE_CHECK propane_status propane_tokenizer_encode_file(const propane_tokenizer *tokenizer, const char *name,
                                                           const char *path, int32_t **ids, int64_t *count,
                                                           int64_t *bytes, propane_error *err);

/* A text file as ids, with the vocabulary that was trained on it or supplied. Immutable. */
typedef struct propane_corpus propane_corpus;
typedef struct propane_corpus_options {
    size_t size;           /* sizeof(propane_corpus_options) */
    const char *tokenizer; /* a file or a model's folder; NULL trains one */
    const char *kind;      /* kind of a trained tokenizer: "bpe" (also NULL), "chars", "bytes" */
    int vocabulary;        /* maximum number of bpe ids, 257 to 65536; 0 means 4096 */
} propane_corpus_options;
/* Opens a text, or a token file with its tokenizer. Returns PROPANE_ERR_UNSUPPORTED for instruction data. `options` may
 * be NULL. */
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
    propane_device *device; /* may be shared, must outlive the generator; NULL opens a separate device by `uri` */
    const char *uri;        /* NULL means "cpu" */
    const char *precision;  /* "fp32" (also NULL), "fp16" */
    const char *weights;    /* how matrices are stored: "auto" (also NULL), "fp32", "bf16", "fp16", "int8", "int4" */
    int64_t context;        /* longest sequence; 0 means the model's */
    int64_t chunk;          /* maximum number of prompt positions that are read at once; 0 means 512 */
    int parallel;           /* texts that may be generated at the same time; 0 means 1; at most PROPANE_MAX_PARALLEL */
} propane_generator_options;
/* Returns the possible values of propane_generator_options.weights: "auto|fp32|...". The string is static. */
const char *propane_weight_forms(void);
/* Creates a generator. The model and the tokenizer must outlive it. The tokenizer must fit the model; with NULL, the
 * generator handles only ids and no text. The beginning that a prompt shares with the previous sequence is not read
 * again. */
PROPANE_CHECK propane_status propane_generator_create(const propane_model *model, const propane_tokenizer *tokenizer,
                                                      const propane_generator_options *options, propane_generator **out,
                                                      propane_error *err);
void propane_generator_free(propane_generator *generator);
/* Returns the forms in which the matrices are stored, the most frequent one first: "q4_k and q6_k". The generator owns
 * the string. */
const char *propane_generator_weights(const propane_generator *generator);
int64_t propane_generator_context(const propane_generator *generator);

#define PROPANE_MAX_STOPS    16
#define PROPANE_MAX_LOGPROBS 20
#define PROPANE_MAX_PARALLEL 256
typedef struct propane_sampling {
    size_t size;        /* sizeof(propane_sampling) */
    int64_t count;      /* maximum number of ids to draw */
    double temperature; /* 0 always draws the most likely id */
    int top_k;          /* draws only from the k most likely ids; 0 means all */
    double top_p, min_p;
    double repetition, frequency, presence; /* penalties; the values 1, 0 and 0 mean none */
    uint64_t seed;
    const char *const *stops; /* the text ends before the first of these; at most PROPANE_MAX_STOPS */
    int stop_count;
    bool ignore_end; /* continues after the end-of-text id */
    /* -1 requests no log-probabilities; N requests those of the drawn id and of the N most likely ids (at most
     * PROPANE_MAX_LOGPROBS). */
    int logprobs;
    const struct propane_chat
        *chat; /* the text ends where an answer in this format ends; with NULL, at the end-of-text id */
} propane_sampling;
/* Sets the defaults of propane generate: 200 ids, temperature 0.8, top_p 0.95, seed 1. Set `size` first. */
void propane_sampling_default(propane_sampling *sampling);
/* Checks that temperature, top_k, top_p, min_p, penalties and the other members are valid. NULL means the defaults,
 * which are valid. */
PROPANE_CHECK propane_status propane_sampling_check(const propane_sampling *sampling, propane_error *err);

typedef struct propane_logprob {
    int32_t id;
    double logprob; /* natural logarithm of the model's own probability, before temperature and penalties */
} propane_logprob;
typedef struct propane_token {
    size_t size;
    int32_t id;     /* -1 if there is no new id, only the rest of the text */
    bool end;       /* `id` ends the text and is not part of it */
    double logprob; /* of `id`, if requested */
    const propane_logprob *top;
    int top_count;
    const char *text; /* text that became final: valid UTF-8, not terminated; its ids may have come in earlier calls */
    size_t length;
} propane_token;
/* Called in the thread that generates. `token` is valid until the callback returns. The callback returns false to end
 * the text. */
typedef bool (*propane_on_token)(void *context, const propane_token *token);

typedef enum propane_finish {
    PROPANE_FINISH_LENGTH,  /* `count` ids were drawn */
    PROPANE_FINISH_CONTEXT, /* the context is full */
    PROPANE_FINISH_END,     /* the end-of-text id, or an id that ends an answer, was drawn */
    PROPANE_FINISH_STOP,    /* a stop string was reached */
    PROPANE_FINISH_CALLER   /* the callback ended it */
} propane_finish;
typedef struct propane_generation {
    size_t size; /* sizeof(propane_generation), set by the caller */
    propane_finish finish;
    int64_t prompt_count, made, reused; /* numbers of ids: in the prompt, drawn, and of the prompt still in the cache */
} propane_generation;
const char *propane_finish_name(propane_finish finish); /* "length", "context", "end", "stop", "cancelled" */

/* Continue a prompt, which must not be empty. In these and the following calls, `sampling` NULL means the defaults, and
 * `callback` and `out` may be NULL. propane_generate puts bos before the prompt if the tokenizer has it. */
PROPANE_CHECK propane_status propane_generate(propane_generator *generator, const char *prompt, size_t length,
                                              const propane_sampling *sampling, propane_on_token callback,
                                              void *context, propane_generation *out, propane_error *err);
PROPANE_CHECK propane_status propane_generate_ids(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_generation *out, propane_error *err);
/* Streams generate several texts at the same time. Each text is the same as if it were generated alone, but the weights
 * are read only once for all of them. One stream is one text, and up to propane_generator_options.parallel streams may
 * run at a time. Use streams in the generator's thread. */
typedef struct propane_stream propane_stream;
int propane_generator_parallel(const propane_generator *generator);
/* Creates a stream and reads its prompt. `ids`, the pointers in `sampling`, and `context` must stay valid until the
 * stream is freed. Returns PROPANE_ERR_LIMIT if `parallel` streams already exist. */
PROPANE_CHECK propane_status propane_stream_begin(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_stream **out, propane_error *err);
/* Draws one id for each stream that is not done. After an error the generator's streams can only be freed. */
PROPANE_CHECK propane_status propane_generator_advance(propane_generator *generator, propane_error *err);
bool propane_stream_done(const propane_stream *stream);
/* Sets *out to the result of a stream that is done. Returns PROPANE_ERR_INVALID if the stream is not done, and
 * PROPANE_ERR_LIMIT if the model's logits were NaN or infinite. `out` may be NULL. */
PROPANE_CHECK propane_status propane_stream_result(const propane_stream *stream, propane_generation *out,
                                                   propane_error *err);
void propane_stream_free(propane_stream *stream); /* must be called before propane_generator_free */

typedef struct propane_chat_message {
    const char *role, *content; /* "system", "user", "assistant"; UTF-8 */
} propane_chat_message;
/* Generates the next answer of a conversation, in the chat format `format` ("chatml", ...; NULL means the model's). If
 * the context is too short, the oldest turns are left out. */
PROPANE_CHECK propane_status propane_generate_chat(propane_generator *generator, const char *format,
                                                   const propane_chat_message *messages, int count,
                                                   const propane_sampling *sampling, propane_on_token callback,
                                                   void *context, propane_generation *out, propane_error *err);
/* A model's chat format. The object never changes. The model and the tokenizer must outlive it. */
typedef struct propane_chat propane_chat;
PROPANE_CHECK propane_status propane_chat_open(const propane_model *model, const propane_tokenizer *tokenizer,
                                               const char *format, propane_chat **out, propane_error *err);
void propane_chat_free(propane_chat *chat);
const char *propane_chat_format(const propane_chat *chat); /* "chatml", ... */
/* Encodes a conversation, followed by the prefix of an answer, as at most `room` ids; free the ids with propane_free.
 * If the conversation is longer, the oldest turns after the system message are left out. *dropped (may be NULL) is set
 * to the number of messages that were left out. Returns PROPANE_ERR_LIMIT if the last turn alone is too long. */
PROPANE_CHECK propane_status propane_chat_encode(const propane_chat *chat, const propane_chat_message *messages,
                                                 int count, int64_t room, int32_t **ids, int64_t *id_count,
                                                 int *dropped, propane_error *err);

/* Sets nll [count - 1] to -log p of each id after the first, in nats. */
PROPANE_CHECK propane_status propane_generator_score(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     double *nll, propane_error *err);
/* Computes a text's embedding, which is meant for comparison by cosine. The embedding is the hidden stream that the
 * head reads, after the last norm, summed over all ids and scaled to unit length. embedding: [width of
 * propane_model_info]. Returns PROPANE_ERR_LIMIT if an element is not finite. */
PROPANE_CHECK propane_status propane_generator_embed(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     float *embedding, propane_error *err);
/* Reports the progress of a long evaluation. `done` of `total` predictions (or examples, for
 * propane_generator_loss_examples) are finished, and `mean` is their mean loss so far. Called after each window or
 * example in the thread that evaluates. The callback returns false to end the evaluation with PROPANE_ERR_CANCELLED. */
typedef bool (*propane_on_progress)(void *context, int64_t done, int64_t total, double mean);
/* Sets the callback for later calls of propane_generator_loss and propane_generator_loss_examples; NULL for none. */
void propane_generator_on_progress(propane_generator *generator, propane_on_progress callback, void *context);
/* Computes the mean loss over a sequence of any length. The sequence is cut into windows of the context's length, each
 * with an empty cache. `predictions` (may be NULL) receives the number of predicted ids. Returns PROPANE_ERR_LIMIT if
 * the loss is not finite. */
PROPANE_CHECK propane_status propane_generator_loss(propane_generator *generator, const int32_t *ids, int64_t count,
                                                    double *mean, int64_t *predictions, propane_error *err);
/* Computes the mean loss over the answers of instruction data (.jsonl), which is read and encoded as in training. Each
 * example is evaluated separately and cut at the end of the context. `predictions` and `examples` may be NULL. */
PROPANE_CHECK propane_status propane_generator_loss_examples(propane_generator *generator, const propane_chat *chat,
                                                             const char *path, double *mean, int64_t *predictions,
                                                             int64_t *examples, propane_error *err);
/* Writes the logits after each of the ids as the tensor "logits" [count, vocabulary] of a safetensors file. `count`
 * must be 1 to the generator's context. */
PROPANE_CHECK propane_status propane_generator_write_logits(propane_generator *generator, const int32_t *ids,
                                                            int64_t count, const char *path, propane_error *err);
typedef struct propane_gradient_options {
    size_t size;           /* sizeof(propane_gradient_options) */
    const char *uri;       /* URI of the device; NULL means "cpu" */
    const char *precision; /* "fp32" (also NULL), "fp16" */
    const char *plan;      /* how a step is cut into programs: "layer" (also NULL), "six", "ten" */
} propane_gradient_options;
/* Computes the gradients of the mean loss of one sequence in one training step, and writes them as safetensors under
 * the names of the model's weights. `loss` may be NULL. The weights do not change. Two threads must not call this
 * function for the same model at the same time. */
PROPANE_CHECK propane_status propane_model_write_gradients(propane_model *model, const int32_t *ids, int64_t count,
                                                           const propane_gradient_options *options, const char *path,
                                                           double *loss, propane_error *err);

/* ---- training steps on a Neural Engine -------------------------------------------------------------------------- */

/* Returns the ways in which a step's programs may get their weights: "inputs|packed|...". The string is static. */
const char *propane_weight_modes(void);

/* A division of a training step into kernels, which are parts of the differentiated forward functions. The plan states
 * where each kernel runs, and which values pass between the kernels. */
typedef struct propane_plan propane_plan;
typedef struct propane_plan_options {
    size_t size;           /* sizeof(propane_plan_options) */
    const char *plan;      /* "layer" (also NULL), "six", "ten" */
    const char *precision; /* precision of the device's programs: "fp32" (also NULL), "fp16" */
    int64_t batch;         /* sequences at a time; 0 means 1 */
    int64_t context;       /* positions per sequence; 0 means 256, or the model's context if it is shorter */
    /* Where the vocabulary's matrix product runs: "host", "device", or "auto" (also NULL), which is the plan's
     * place. */
    const char *head;
    const char *gradients; /* where the matrix products of weight gradients run: "host" (also NULL), "device" */
    int64_t lora_rank;     /* only adapters of this rank are trained; 0 means all weights */
    const char
        *stream; /* type of the residual between a layer's halves: "fp32" (also NULL), or "fp16" (plan layer in fp16) */
} propane_plan_options;
/* Returns whether `model` is the path of a model in any form, a .json file (its config.json), or the name of a known
 * model ("stories110m"). */
bool propane_plan_takes(const char *model);
/* Creates a plan. A NULL `model` means a small model of default sizes. `options` may be NULL. A message about an option
 * begins with the member's name. */
PROPANE_CHECK propane_status propane_plan_create(const char *model, const propane_plan_options *options,
                                                 propane_plan **out, propane_error *err);
void propane_plan_free(propane_plan *plan);
/* Prints the plan as text for people, with one line per kernel: its place, inputs, outputs, bytes and floating-point
 * operations. Free the text with propane_free. */
PROPANE_CHECK propane_status propane_plan_print(const propane_plan *plan, char **out, size_t *length,
                                                propane_error *err);
/* Checks the plan's device kernels against the known rules of the chips in a list ("m1,m4"). `weights` is the weight
 * mode (NULL means "inputs"). `why` names the rule that refuses a kernel. */
propane_status propane_plan_supported(const propane_plan *plan, const char *chip, const char *weights,
                                      propane_error *why);
/* Returns the module whose functions are the plan's kernels. The plan owns the module. */
propane_module *propane_plan_module(propane_plan *plan);

typedef struct propane_training_estimate_options {
    size_t size;            /* sizeof(propane_training_estimate_options) */
    const char *target;     /* a list of chips (propane_chips); NULL means "m4" */
    const char *plan;       /* NULL means "six" */
    const char *weights;    /* NULL means "inputs"; with lora_rank on one machine, the fastest mode not refused */
    int64_t batch, context; /* as in propane_plan_options */
    int64_t accumulate;     /* batches per update; 0 means 1 */
    bool compare;           /* compares plans, weights and batches, with the fastest first */
    bool ops;               /* prints also one row per kernel (PROPANE_TEXT) */
    /* The number of workers that share a training run over a network. There is one row per method: data-parallel, outer
     * steps, and adapters averaged by a server. 0 means one machine; the members about the network are then ignored. */
    int64_t workers;
    double bandwidth;     /* bits per second that a worker sends, and receives at the same time; 0 means 1e9 */
    double latency_ms;    /* one-way latency of a message */
    const char *wire;     /* "fp32" (also NULL), "bf16", "fp16", "int4" */
    int64_t outer;        /* steps between two outer steps, or between two rounds of the server; 0 means 500 */
    int64_t lora_rank;    /* only adapters of this rank are trained; 0 means all weights, or with workers rank 8 */
    const char *head;     /* as in propane_plan_options */
    const char *moments;  /* form of AdamW's moments: "fp32" (also NULL), "bf16", "int8" */
    const char *clipping; /* the gradient norm that clipping uses: "exact" (also NULL), "lagged" (train --clip-norm) */
    /* Searches all values of plan, head, weights and moments that are not set (NULL), and every way to divide batch x
     * accumulate sequences. Prints the fastest combination with its parts, and the next fastest ones. */
    bool search;
    bool sources; /* prints the source of each assumption (PROPANE_TEXT) */
    /* Path of a report written by `propane devices --probe`. Its figures for the host replace the assumed ones. NULL
     * means none. Not with workers. */
    const char *rates;
    int64_t outer_warmup; /* data-parallel steps before the first outer step; 0 means none */
    /* How updates overlap with the next step: "on" (also NULL), or "early" (train --overlap), for which all guesses are
     * assumed to be right. Not with workers. */
    const char *overlap;
    const char *gradients; /* as in propane_plan_options; not with workers */
    const char *stream;    /* as in propane_plan_options; in comparisons it affects only plan layer; not with workers */
} propane_training_estimate_options;
/* Estimates the cost of training steps of a model that propane_plan_takes accepts; nothing is measured. Prints
 * PROPANE_TEXT or PROPANE_JSON. The text is terminated; free it with propane_free. `options` may be NULL. */
PROPANE_CHECK propane_status propane_estimate_training(const char *model,
                                                       const propane_training_estimate_options *options,
                                                       propane_form form, char **out, propane_error *err);

typedef struct propane_where_options {
    size_t size;        /* sizeof(propane_where_options) */
    const char *target; /* a list of chips (propane_chips); NULL means "m4" */
    const char *mode;   /* "full", "lora", or "forward" (no training); NULL means "lora" with lora_rank, else "full" */
    const char
        *goal; /* "time" (also NULL), "joules", or "background": the least disturbance of other work on CPU and GPU */
    const char *data;       /* the training data in the printed commands; NULL means "DATA" */
    int64_t lora_rank;      /* rank of mode "lora"; 0 means 8 */
    int64_t batch, context; /* as in propane_plan_options */
    int64_t accumulate;     /* batches per update; 0 means 10 */
    const char *stream;     /* as in propane_plan_options; NULL means "fp16" on chips that refuse fp32 inputs */
} propane_where_options;
/* Reports the cost of 1,000 tokens of a model that propane_plan_takes accepts on a chip's engine, CPU and GPU, the
 * reasons, and the command to run. The figures for the engine and the CPU are estimates; those for the GPU were
 * published by others. Prints PROPANE_TEXT, PROPANE_JSON or PROPANE_MARKDOWN (a table). The text is terminated; free it
 * with propane_free. */
PROPANE_CHECK propane_status propane_where(const char *model, const propane_where_options *options, propane_form form,
                                           char **out, propane_error *err);

/* ---- trainers of language models --------------------------------------------------------------------------------- */

/* Copies a language model's current weights, with its adapters merged, into a new model, for generation or saving. */
PROPANE_CHECK propane_status propane_trainer_model(const propane_trainer *trainer, propane_model **out,
                                                   propane_error *err);
/* Returns the tokenizer of a language model's trainer, which owns it; NULL for a program. */
const propane_tokenizer *propane_trainer_tokenizer(const propane_trainer *trainer);
/* Writes up to `room` tokens of prompt `index` of `count` to `ids`, and returns their number, or 0 if there is no such
 * prompt. The prompts are from the held-out data, or from the training data if nothing is held out. A prompt starts at
 * the beginning of a line or a word. For instruction data, it is an example up to its answer. */
int64_t propane_trainer_prompt(const propane_trainer *trainer, int index, int count, int32_t *ids, int64_t room);

PROPANE_END

#endif
