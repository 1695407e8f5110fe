/* SPDX-License-Identifier: MIT
 * Owns language models: files, tokenizers, generation, chat, scores, the plan of a training step. Left out of a
 * library that is built WITHOUT=lm. What holds for every call is at the top of propane.h.
 */
#ifndef PROPANE_LM_H
#define PROPANE_LM_H

#include "propane/train.h"

PROPANE_BEGIN

/* ---- language models --------------------------------------------------------------------------------------------- */

typedef struct propane_model propane_model;
/* propane_tokenizer (train.h) does not change: threads may share it. */
typedef struct propane_generator propane_generator;

/* "folder" (Hugging Face's, or a run's), "safetensors", "gguf", "llama2c"; NULL: no language model is there. Static. */
const char *propane_model_form(const char *path);
/* The weights in fp32, with those of a LoRA adapter's folder (NULL: none) added. */
PROPANE_CHECK propane_status propane_model_open(const char *path, const char *adapter, propane_model **out,
                                                propane_error *err);
void propane_model_free(propane_model *model);
typedef struct propane_model_info {
    size_t size;              /* sizeof(propane_model_info), set by the caller */
    const char *architecture; /* the model's */
    int64_t layers, width, hidden, heads, kv_heads, vocabulary, context, parameters;
} propane_model_info;
bool propane_model_describe(const propane_model *model, propane_model_info *out);
/* The file name decides the format: NAME.safetensors, NAME.gguf, NAME.bin (llama2.c), anything else a folder. `dtype`:
 * "f32" (NULL), "f16", "bf16", for GGUF "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q4_k". The tokenizer must fit
 * the model (NULL: the model's own, if it has one). Folders and GGUF files contain it; one that the format cannot
 * express is left out, with a line in the log. Written whole or not at all. */
PROPANE_CHECK propane_status propane_model_save(const propane_model *model, const propane_tokenizer *tokenizer,
                                                const char *path, const char *dtype, propane_error *err);
/* A LoRA adapter's folder as a GGUF file for llama.cpp (--lora). `model`: what it is for, of which only sizes are read;
 * NULL: the one that the adapter names. */
PROPANE_CHECK propane_status propane_adapter_save(const char *adapter, const char *model, const char *path,
                                                  propane_error *err);
/* All words that `dtype` may be, with `between` between them, in `out`; 200 bytes are enough. Returns
 * `out`. */
const char *propane_model_types(const char *between, char *out, size_t room);

typedef struct propane_export_options {
    size_t size;     /* sizeof(propane_export_options) */
    bool wide;       /* fp32 instead of fp16 */
    int64_t context; /* positions of its cache; 0: the model's own, at most 2048 */
    /* tokens that one call may take, at most 8 of them, the first the default; NULL: 1 and 64 */
    const int64_t *lengths;
    int length_count;
    int64_t stateless; /* tokens of every call of a program without a cache; 0: with one */
} propane_export_options;
/* The model as one program with a cache in states, for Core ML or a session. `options` may be NULL. */
PROPANE_CHECK propane_status propane_model_export(propane_model *model, const propane_export_options *options,
                                                  propane_module **out, propane_error *err);

/* A vocabulary's file (Propane's, tokenizer.json, tokenizer.model, llama2.c's, a GGUF file), or the folder of a model
 * with one. */
PROPANE_CHECK propane_status propane_tokenizer_open(const char *path, propane_tokenizer **out, propane_error *err);
/* The model's own vocabulary, from its folder or file, or from beside it. */
PROPANE_CHECK propane_status propane_model_tokenizer(const propane_model *model, propane_tokenizer **out,
                                                     propane_error *err);
/* Whether a vocabulary can be the model's: its ids are rows of the embedding, which may have some more. */
PROPANE_CHECK propane_status propane_model_takes(const propane_model *model, const propane_tokenizer *tokenizer,
                                                 propane_error *err);
/* Learnt from a text: "bpe" with up to `vocabulary` ids (257 to 65536), "chars", or "bytes" (of no text). */
PROPANE_CHECK propane_status propane_tokenizer_train(const char *kind, const char *text, size_t length, int vocabulary,
                                                     propane_tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status propane_tokenizer_write(const propane_tokenizer *tokenizer, const char *path,
                                                     propane_error *err);
void propane_tokenizer_free(propane_tokenizer *tokenizer);
typedef struct propane_tokenizer_info {
    size_t size;            /* sizeof(propane_tokenizer_info), set by the caller */
    const char *kind;       /* "bpe", "chars", "bytes", "llama", "hf" */
    int size_of_vocabulary; /* ids are 0 .. that - 1 */
    int bos, eos;           /* in front of a text, after it; negative: none */
} propane_tokenizer_info;
bool propane_tokenizer_describe(const propane_tokenizer *tokenizer, propane_tokenizer_info *out);
/* SHA-256 of everything that changes its ids or texts: 64 hexadecimal digits, which live as long as the tokenizer.
 * Computed by the first call. Any thread. */
PROPANE_CHECK propane_status propane_tokenizer_hash(const propane_tokenizer *tokenizer, const char **hash,
                                                    propane_error *err);
/* The ids of a text, without bos; propane_free them. */
PROPANE_CHECK propane_status propane_tokenizer_encode(const propane_tokenizer *tokenizer, const char *text,
                                                      size_t length, int32_t **ids, int64_t *count, propane_error *err);
/* The bytes of ids, terminated; propane_free them. */
PROPANE_CHECK propane_status propane_tokenizer_decode(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                      int64_t count, char **text, size_t *length, propane_error *err);
/* The same as people read it: what is not UTF-8 appears as U+FFFD, an id that the vocabulary does not have as nothing
 * (propane_tokenizer_decode refuses it). `inside`: other text precedes it, so that a
 * leading blank is kept. */
PROPANE_CHECK propane_status propane_tokenizer_show(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                    int64_t count, bool inside, char **text, size_t *length,
                                                    propane_error *err);
/* The ids (propane_free them) of a file: a text, or a token file of this tokenizer. `name` is the tokenizer's name in
 * messages (NULL: "the tokenizer"). *bytes: the size of the text. */
PROPANE_CHECK propane_status propane_tokenizer_encode_file(const propane_tokenizer *tokenizer, const char *name,
                                                           const char *path, int32_t **ids, int64_t *count,
                                                           int64_t *bytes, propane_error *err);

/* A text file as ids, with the vocabulary that was trained on it or given. Immutable. */
typedef struct propane_corpus propane_corpus;
typedef struct propane_corpus_options {
    size_t size;           /* sizeof(propane_corpus_options) */
    const char *tokenizer; /* a file or a model's folder; NULL: one is trained */
    const char *kind;      /* of a trained one: "bpe" (NULL), "chars", "bytes" */
    int vocabulary;        /* most ids of bpe, 257 to 65536; 0: 4096 */
} propane_corpus_options;
/* `path`: a text, or a token file together with its tokenizer. `options` may be NULL. */
PROPANE_CHECK propane_status propane_corpus_open(const char *path, const propane_corpus_options *options,
                                                 propane_corpus **out, propane_error *err);
void propane_corpus_free(propane_corpus *corpus);
int64_t propane_corpus_count(const propane_corpus *corpus);             /* ids */
int64_t propane_corpus_bytes(const propane_corpus *corpus);             /* of the text */
int32_t propane_corpus_id(const propane_corpus *corpus, int64_t index); /* -1: the index is out of range */
const propane_tokenizer *propane_corpus_tokenizer(const propane_corpus *corpus);
/* As a token file, which training maps instead of encoding the text again. */
PROPANE_CHECK propane_status propane_corpus_write(const propane_corpus *corpus, const char *path, propane_error *err);

typedef struct propane_generator_options {
    size_t size;            /* sizeof(propane_generator_options) */
    propane_device *device; /* shared, outlives it; NULL: one of its own, opened by `uri` */
    const char *uri;        /* NULL: "cpu" */
    const char *precision;  /* NULL: "fp32"; "fp16" */
    const char *weights;    /* how matrices are stored: NULL: "auto"; "fp32", "bf16", "fp16", "int8", "int4" */
    int64_t context;        /* longest sequence; 0: the model's */
    int64_t chunk;          /* most positions of a prompt that are read at once; 0: 512 */
    int parallel;           /* texts that may be written at the same time; 0: 1; at most PROPANE_MAX_PARALLEL */
} propane_generator_options;
/* The words that `weights` may be: "auto|fp32|...". Static. */
const char *propane_weight_forms(void);
/* Model and tokenizer (NULL: ids alone, no text) must outlive it; the tokenizer must fit the model. What a prompt has
 * in common with the sequence before is not read again. */
PROPANE_CHECK propane_status propane_generator_create(const propane_model *model, const propane_tokenizer *tokenizer,
                                                      const propane_generator_options *options, propane_generator **out,
                                                      propane_error *err);
void propane_generator_free(propane_generator *generator);
/* How its matrices are stored, the form of most of them first: "q4_k and q6_k". The generator's memory. */
const char *propane_generator_weights(const propane_generator *generator);
int64_t propane_generator_context(const propane_generator *generator);

#define PROPANE_MAX_STOPS    16
#define PROPANE_MAX_LOGPROBS 20
#define PROPANE_MAX_PARALLEL 256
typedef struct propane_sampling {
    size_t size;        /* sizeof(propane_sampling) */
    int64_t count;      /* most ids to draw */
    double temperature; /* 0: always the most likely */
    int top_k;          /* only the k most likely; 0: all */
    double top_p, min_p;
    double repetition, frequency, presence; /* penalties; 1, 0, 0: none */
    uint64_t seed;
    const char *const *stops; /* the text ends in front of one of these; at most PROPANE_MAX_STOPS */
    int stop_count;
    bool ignore_end; /* goes on after the end-of-text id */
    int logprobs;    /* -1: none; N: the drawn id's, and the N most likely ids (at most PROPANE_MAX_LOGPROBS) */
    const struct propane_chat *chat; /* the text ends where its answers do; NULL: at the end-of-text id */
} propane_sampling;
/* What the command draws with: 200 ids, temperature 0.8, top_p 0.95, seed 1. Set `size` first. */
void propane_sampling_default(propane_sampling *sampling);
/* Whether temperature, cuts and penalties have a meaning. NULL: the defaults, which have. */
PROPANE_CHECK propane_status propane_sampling_check(const propane_sampling *sampling, propane_error *err);

typedef struct propane_logprob {
    int32_t id;
    double logprob; /* natural, of the model itself */
} propane_logprob;
typedef struct propane_token {
    size_t size;
    int32_t id;     /* -1: no new id, only the rest of the text */
    bool end;       /* it ends the text */
    double logprob; /* where asked for */
    const propane_logprob *top;
    int top_count;
    const char *text; /* what became certain: valid UTF-8, not terminated; its ids may have come earlier */
    size_t length;
} propane_token;
/* In the thread that generates; what it gets lives until it returns. false ends the text. */
typedef bool (*propane_on_token)(void *context, const propane_token *token);

typedef enum propane_finish {
    PROPANE_FINISH_LENGTH,  /* `count` ids were drawn */
    PROPANE_FINISH_CONTEXT, /* the context is full */
    PROPANE_FINISH_END,     /* the end-of-text id */
    PROPANE_FINISH_STOP,    /* a stop string */
    PROPANE_FINISH_CALLER   /* the callback said so */
} propane_finish;
typedef struct propane_generation {
    size_t size; /* sizeof(propane_generation), set by the caller */
    propane_finish finish;
    int64_t prompt_count, made, reused; /* ids; reused: of the prompt, still in the cache */
} propane_generation;
const char *propane_finish_name(propane_finish finish); /* "length", "context", "end", "stop", "cancelled" */

/* Goes on from a prompt, which is not empty. Here and below sampling NULL is the default; callback and out may be
 * NULL. */
PROPANE_CHECK propane_status propane_generate(propane_generator *generator, const char *prompt, size_t length,
                                              const propane_sampling *sampling, propane_on_token callback,
                                              void *context, propane_generation *out, propane_error *err);
PROPANE_CHECK propane_status propane_generate_ids(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_generation *out, propane_error *err);
/* Several texts at once, each as it would be alone: the weights are read once for all of them. A stream is one text; as
 * many as the generator's `parallel` go on at the same time. Same thread as the generator. */
typedef struct propane_stream propane_stream;
int propane_generator_parallel(const propane_generator *generator);
/* Reads the prompt; ids, sampling and context must live until it is freed. PROPANE_ERR_LIMIT: as many go on already. */
PROPANE_CHECK propane_status propane_stream_begin(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_stream **out, propane_error *err);
/* Draws one id for each stream that is not done. After an error they can only be freed. */
PROPANE_CHECK propane_status propane_generator_advance(propane_generator *generator, propane_error *err);
bool propane_stream_done(const propane_stream *stream);
/* Of one that is done. PROPANE_ERR_LIMIT: the model's scores were not numbers. `out` may be NULL. */
PROPANE_CHECK propane_status propane_stream_result(const propane_stream *stream, propane_generation *out,
                                                   propane_error *err);
void propane_stream_free(propane_stream *stream); /* before its generator */

typedef struct propane_chat_message {
    const char *role, *content; /* "system", "user", "assistant"; UTF-8 */
} propane_chat_message;
/* The answer to a conversation, in the model's own chat format or that of a name ("chatml", ...; NULL: the model's).
 * Where the context is too short the oldest turns are left out. */
PROPANE_CHECK propane_status propane_generate_chat(propane_generator *generator, const char *format,
                                                   const propane_chat_message *messages, int count,
                                                   const propane_sampling *sampling, propane_on_token callback,
                                                   void *context, propane_generation *out, propane_error *err);
/* How a model talks. Does not change; model and tokenizer must outlive it. */
typedef struct propane_chat propane_chat;
PROPANE_CHECK propane_status propane_chat_open(const propane_model *model, const propane_tokenizer *tokenizer,
                                               const char *format, propane_chat **out, propane_error *err);
void propane_chat_free(propane_chat *chat);
const char *propane_chat_format(const propane_chat *chat); /* "chatml", ... */
/* The ids (propane_free them) of a conversation, followed by the prefix of an answer; at most `room` of them. If they
 * are more, the oldest turns after the system message are left out: *dropped messages (may be NULL). A last turn that
 * is too long by itself is PROPANE_ERR_LIMIT. */
PROPANE_CHECK propane_status propane_chat_encode(const propane_chat *chat, const propane_chat_message *messages,
                                                 int count, int64_t room, int32_t **ids, int64_t *id_count,
                                                 int *dropped, propane_error *err);

/* -log p of each id after the first, in nats: nll [count - 1]. */
PROPANE_CHECK propane_status propane_generator_score(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     double *nll, propane_error *err);
/* What the model makes of a text as numbers that can be compared (cosine): the stream that the head reads, after the
 * last norm, summed over all ids and divided by its length. embedding: [width of propane_model_info].
 * PROPANE_ERR_LIMIT: it is not a number. */
PROPANE_CHECK propane_status propane_generator_embed(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     float *embedding, propane_error *err);
/* How far a long evaluation is: `done` of `total` predictions (of examples, where those are counted), with `mean` of
 * what is done. Called from the calling thread after each window or example; false ends the call with
 * PROPANE_ERR_CANCELLED. */
typedef bool (*propane_on_progress)(void *context, int64_t done, int64_t total, double mean);
/* For propane_generator_loss and propane_generator_loss_examples from now on; NULL: none. */
void propane_generator_on_progress(propane_generator *generator, propane_on_progress callback, void *context);
/* The mean of these over a sequence of any length, in windows of the context, each with a fresh cache. `predictions`
 * (may be NULL): how many. PROPANE_ERR_LIMIT: the loss is not a number. */
PROPANE_CHECK propane_status propane_generator_loss(propane_generator *generator, const int32_t *ids, int64_t count,
                                                    double *mean, int64_t *predictions, propane_error *err);
/* The mean over the answers of instruction data (.jsonl), read and marked as training does; each example by itself, cut
 * where the context ends. */
PROPANE_CHECK propane_status propane_generator_loss_examples(propane_generator *generator, const propane_chat *chat,
                                                             const char *path, double *mean, int64_t *predictions,
                                                             int64_t *examples, propane_error *err);
/* The logits [count, vocabulary] after each of 1 to `context` ids, as "logits" of a safetensors file. */
PROPANE_CHECK propane_status propane_generator_write_logits(propane_generator *generator, const int32_t *ids,
                                                            int64_t count, const char *path, propane_error *err);
typedef struct propane_gradient_options {
    size_t size;           /* sizeof(propane_gradient_options) */
    const char *uri;       /* of the device; NULL: "cpu" */
    const char *precision; /* NULL: "fp32"; "fp16" */
    const char *plan;      /* how a step is cut into programs: NULL: "layer"; "six", "ten" */
} propane_gradient_options;
/* The gradients of the mean loss of one sequence in one training step, as safetensors under the names of the model's
 * weights; *loss may be NULL. The weights stay as they are. Not from two threads for one model. */
PROPANE_CHECK propane_status propane_model_write_gradients(propane_model *model, const int32_t *ids, int64_t count,
                                                           const propane_gradient_options *options, const char *path,
                                                           double *loss, propane_error *err);

/* ---- training steps on a Neural Engine: how they are cut, and what they would cost ------------------------------- */

/* "inputs|packed|...": how a step's programs may get their weights. Static. */
const char *propane_weight_modes(void);

/* The kernels of a training step as they are cut out of the differentiated forward functions: where each runs and what
 * passes between them. */
typedef struct propane_plan propane_plan;
typedef struct propane_plan_options {
    size_t size;           /* sizeof(propane_plan_options) */
    const char *plan;      /* NULL: "layer"; "six", "ten" */
    const char *precision; /* of the device's programs: NULL: "fp32"; "fp16" */
    int64_t batch;         /* sequences at a time; 0: 1 */
    int64_t context;       /* positions of a sequence; 0: 256 */
    const char *head;      /* the vocabulary's product: NULL: "auto", as the plan has it; "host", "device" */
    const char *gradients; /* the products of weight gradients: NULL: "host"; "device" */
} propane_plan_options;
/* Does the path name a model, in any form, its config.json or a model that is known by name ("stories110m")? */
bool propane_plan_takes(const char *model);
/* `model` NULL: the standard small one. `options` may be NULL. A message about an option begins with the member's
 * name. */
PROPANE_CHECK propane_status propane_plan_create(const char *model, const propane_plan_options *options,
                                                 propane_plan **out, propane_error *err);
void propane_plan_free(propane_plan *plan);
/* For people: a line for each kernel, with place, inputs, outputs, bytes and floating-point operations. */
PROPANE_CHECK propane_status propane_plan_print(const propane_plan *plan, char **out, size_t *length,
                                                propane_error *err);
/* Checks its device kernels against the known rules of the chip, with weights in that mode (NULL: "inputs"); `why`: the
 * rule that refuses one. */
propane_status propane_plan_supported(const propane_plan *plan, const char *chip, const char *weights,
                                      propane_error *why);
/* The kernels as functions; the plan's. */
propane_module *propane_plan_module(propane_plan *plan);

typedef struct propane_training_estimate_options {
    size_t size;            /* sizeof(propane_training_estimate_options) */
    const char *target;     /* as above; NULL: "m4" */
    const char *plan;       /* NULL: "six" */
    const char *weights;    /* NULL: "inputs" */
    int64_t batch, context; /* 0: 1 and 256 */
    int64_t accumulate;     /* batches to an update; 0: 1 */
    bool compare;           /* plans, weights and batches side by side, the fastest first */
    bool ops;               /* a row for each kernel, too (PROPANE_TEXT) */
    /* Workers that share a training over a network, a row for each way to do so: data-parallel, outer steps, adapters
     * averaged by a server. 0: one machine, and what follows says nothing. */
    int64_t workers;
    double bandwidth;     /* bits a second that a worker sends, and gets at the same time; 0: 1e9 */
    double latency_ms;    /* until a message is there, one way */
    const char *wire;     /* NULL: "fp32"; "bf16", "fp16", "int4" */
    int64_t outer;        /* steps between two outer ones, or rounds; 0: 500 */
    int64_t lora_rank;    /* adapters alone are trained; 0: all weights, with workers 8 */
    const char *head;     /* as in propane_plan_options */
    const char *moments;  /* of AdamW: NULL: "fp32"; "bf16", "int8" */
    const char *clipping; /* by which norm: NULL: "exact"; "lagged" (train --clip-norm) */
    bool search;  /* all plans, heads, weight modes and forms of moments that are not given (NULL), and every way to
                             * divide batch x accumulate sequences: the fastest with its parts, the runners-up */
    bool sources; /* where each assumption comes from (PROPANE_TEXT) */
    /* A report of `propane devices --probe`, whose figures of the host replace the assumed ones; NULL: none. Not with
     * workers. */
    const char *rates;
    int64_t outer_warmup; /* data-parallel steps before the outer ones; 0: none */
    /* of updates: NULL: "on"; "early" (train --overlap), not with workers: all guesses are right */
    const char *overlap;
    const char *gradients; /* as in propane_plan_options; not with workers */
} propane_training_estimate_options;
/* What training steps of a model (propane_plan_takes) would cost; estimated, nothing is measured. PROPANE_TEXT or
 * PROPANE_JSON; terminated, propane_free it. `options` may be NULL. */
PROPANE_CHECK propane_status propane_estimate_training(const char *model,
                                                       const propane_training_estimate_options *options,
                                                       propane_form form, char **out, propane_error *err);

typedef struct propane_where_options {
    size_t size;            /* sizeof(propane_where_options) */
    const char *target;     /* as above; NULL: "m4" */
    const char *mode;       /* NULL: "full", with lora_rank "lora"; "forward": no training */
    const char *goal;       /* NULL: "time"; "joules"; "background": while people work with CPU and GPU */
    const char *data;       /* for the commands that are printed; NULL: "DATA" */
    int64_t lora_rank;      /* of mode lora; 0: 8 */
    int64_t batch, context; /* 0: 1 and 256 */
    int64_t accumulate;     /* batches to an update; 0: 10 */
} propane_where_options;
/* What 1,000 tokens of a model (propane_plan_takes) would cost on a chip's engine, CPU and GPU, why, and the command to
 * run. Engine and CPU are estimated, the GPU's figures are what others state. PROPANE_TEXT, PROPANE_JSON or
 * PROPANE_MARKDOWN (a table); terminated, propane_free it. */
PROPANE_CHECK propane_status propane_where(const char *model, const propane_where_options *options, propane_form form,
                                           char **out, propane_error *err);

/* ---- trainers of language models --------------------------------------------------------------------------------- */

/* A copy of a language model's weights as they are, with its adapters merged: to let it write, or to save. */
PROPANE_CHECK propane_status propane_trainer_model(const propane_trainer *trainer, propane_model **out,
                                                   propane_error *err);
/* The trainer's own, NULL of a program. */
const propane_tokenizer *propane_trainer_tokenizer(const propane_trainer *trainer);
/* The tokens of a prompt that the model has not seen: number `index` of `count` from the held-out data, from the
 * beginning of a line or a word, up to `room` of them; of instruction data, an example up to its answer. Returns their
 * number; 0: there is no such prompt. */
int64_t propane_trainer_prompt(const propane_trainer *trainer, int index, int count, int32_t *ids, int64_t room);

PROPANE_END

#endif
