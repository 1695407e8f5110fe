/* SPDX-License-Identifier: MIT
 * Models on disk in every supported form: a Hugging Face folder (config.json, model.safetensors or its parts with
 * model.safetensors.index.json), a safetensors file that contains its configuration (or has config.json next to it), a
 * GGUF file, or a llama2.c checkpoint. A file's form is recognised by its content.
 */
#ifndef LM_FILES_STORE_H
#define LM_FILES_STORE_H

#include "core/files/safetensors.h"
#include "lm/arch/model_tensors.h"

/* Metadata key of a safetensors file: the model's configuration as a JSON object. */
#define MODEL_STORE_CONFIG "propane.config"

typedef enum model_form { MODEL_FORM_DIR, MODEL_FORM_SAFETENSORS, MODEL_FORM_LLAMA2C, MODEL_FORM_GGUF } model_form;

/* Recognises the form of the model at `path`. Returns PROPANE_ERR_INVALID if it has none of the forms; the message
 * lists them. */
PROPANE_CHECK propane_status model_store_form(const char *path, model_form *out, propane_error *err);
/* Reads a model in fp32 or, with `stored`, with matrices in the form of the file (lm/arch/stored_weights.h). llama2.c
 * files are always read as fp32. Tensors with other names (optimiser state) are ignored; a missing tensor or a wrong
 * shape is an error. */
PROPANE_CHECK propane_status model_store_read(const char *path, bool stored, model_weights **out, propane_error *err);
/* Reads only the configuration. */
PROPANE_CHECK propane_status model_store_config(const char *path, model_config *out, propane_error *err);
/* Reads every tensor of the registry from an open file. */
PROPANE_CHECK propane_status model_store_fill(model_weights *w, const safetensors *s, propane_error *err);

/* Writes a model. `dtype` is ST_F32, ST_F16 or ST_BF16 (only ST_F32 for llama2.c). A folder is created if necessary and
 * also gets generation_config.json; existing files are replaced one by one. */
PROPANE_CHECK propane_status model_store_write(const model_weights *w, const char *path, model_form form,
                                               safetensors_dtype dtype, propane_error *err);
/* Returns the tensor type of safetensors files for a type of GGUF: F16 and BF16 for the same types, and F32 for all
 * others. */
safetensors_dtype model_store_dtype(int gguf_type);
/* Writes the configuration into the file's metadata (MODEL_STORE_CONFIG). */
PROPANE_CHECK propane_status model_store_describe(const model_config *c, safetensors_writer *writer,
                                                  propane_error *err);

#endif
