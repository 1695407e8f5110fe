/* SPDX-License-Identifier: MIT
 * Declares the model that a command runs: the values of its flags, and the objects that are created from them. The
 * tokenizer and the weights are read first, so that a command can check its input before it opens a device.
 */
#ifndef APPS_PROPANE_CMD_MODEL_FLAGS_H
#define APPS_PROPANE_CMD_MODEL_FLAGS_H

#include "apps/propane/cli.h"
#include "apps/propane/cmd/host_flags.h"

typedef struct opened_model {
    const char *model, *adapter, *vocabulary, *device, *precision, *form; /* adapter, vocabulary: may be NULL */
    int64_t context, threads, parallel, chunk;                            /* as in propane_generator_options */
    propane_tokenizer *tokenizer;
    propane_tokenizer_info vocabulary_info;
    propane_model *weights;
    propane_model_info info;
    propane_generator *generator;
} opened_model;

#define OPENED_MODEL_STANDARD .device = "cpu", .precision = "fp32", .form = "auto"

/* Rows for a command's table of flags. `o` is the command's opened_model. */
#define OPENED_MODEL_FLAG(o)                                                                                           \
    {"MODEL", CLI_TEXT, &(o).model, .help = "a run folder, a model folder, or a .safetensors, .gguf or llama2.c file", \
     .required = true}
#define OPENED_ADAPTER_FLAG(o)                                                                                         \
    {"--adapter", CLI_TEXT, &(o).adapter, .words = "DIR", .help = "a LoRA adapter of the model"}
#define OPENED_TOKENIZER_FLAG(o)                                                                                       \
    {"--tokenizer", CLI_TEXT, &(o).vocabulary, .words = "FILE",                                                        \
     .help = "vocabulary to use if the model folder has none"}
#define OPENED_DEVICE_FLAGS(o)                                                                                         \
    {"--device", CLI_TEXT, &(o).device, .words = "URI", .help = "see 'propane devices'"},                              \
        {"--precision", CLI_CHOICE, &(o).precision, .words = "fp32|fp16",                                              \
         .help = "precision of the device's programs"},                                                                \
        {"--weights", CLI_CHOICE, &(o).form, .words = propane_weight_forms(),                                          \
         .help = "storage type of the matrices; fp32: the type of --precision; auto: the file's type on cpu, else "    \
                 "that of --precision"},                                                                               \
        HOST_VERIFY_FLAG, HOST_BLAS_FLAG
#define OPENED_THREADS_FLAG(o) {"--threads", CLI_INT, &(o).threads, 0, 256, "N", "number of threads; 0: one per core"}
#define OPENED_WORK_FLAGS(o)   OPENED_DEVICE_FLAGS(o), OPENED_THREADS_FLAG(o)
/* Rows of the flags for sampling. `s` is a propane_sampling, and `k` an int64_t that the command copies to s.top_k. */
/* clang-format off */
#define SAMPLING_FLAGS(s, k)                                                                                           \
    {"--temperature", CLI_REAL, &(s).temperature, 0, 100, "X",                                                         \
     "sampling temperature; 0: always the most likely token"},                                                         \
    {"--top-k", CLI_INT, &(k), 0, 1e9, "N", "sample from the N most likely tokens; 0: all"},                           \
    {"--top-p", CLI_REAL, &(s).top_p, 0, 1, "X",                                                                       \
     "sample from the most likely tokens that together have probability X; 0: all"},                                   \
    {"--min-p", CLI_REAL, &(s).min_p, 0, 1, "X",                                                                       \
     "sample only from tokens at least X times as likely as the most likely one"},                                     \
    {"--repetition-penalty", CLI_REAL, &(s).repetition, 0, 100, "X",                                                   \
     "penalty on tokens that have occurred: their logits are divided by X; 1: none"}
/* clang-format on */

/* Reads the weights and merges the adapter, if one is given. */
PROPANE_CHECK propane_status opened_model_read(opened_model *o, propane_error *err);
/* Opens the given tokenizer, or the model's. */
PROPANE_CHECK propane_status opened_model_tokenizer(opened_model *o, propane_error *err);
/* Opens the device and compiles the programs. */
PROPANE_CHECK propane_status opened_model_start(opened_model *o, propane_error *err);
/* Frees all parts that were opened. */
void opened_model_close(opened_model *o);

#endif
