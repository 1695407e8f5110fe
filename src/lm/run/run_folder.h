/* SPDX-License-Identifier: MIT
 * What the command keeps in a run's folder beside the trainer's files, and how it finds a model's tokenizer.
 */
#ifndef LM_RUN_RUN_FOLDER_H
#define LM_RUN_RUN_FOLDER_H

#include <stdbool.h>

#include "lm/arch/model_tensors.h"
#include "lm/text/tokenizer.h"

/* DIR/NAME; mem_free it. NULL: no memory. */
char *run_path(const char *dir, const char *name);
/* Do they belong together? An embedding may have more rows than there are ids (it is filled up to a round number), but not
 * fewer, and not twice as many. */
PROPANE_CHECK propane_status run_vocabulary(const char *model, int64_t rows, const tokenizer *t, propane_error *err);

/* Is it a language model, in any form that is read, and no program? */
bool run_is_model(const char *path);
/* A model's configuration: of a model in any form, or a .json file that is one. */
PROPANE_CHECK propane_status run_config(const char *path, model_config *out, propane_error *err);
/* The model with an adapter's (NULL: none) matrices added to its own. Programs take weights as inputs, so nothing is compiled
 * for it. */
PROPANE_CHECK propane_status run_model(const char *model, const char *adapter, model_weights **out, propane_error *err);

/* Copies what says how a model talks (tokenizer_config.json, chat_template.jinja) from the model's folder, or from beside
 * its file, into the run's; what is not there is left out. */
PROPANE_CHECK propane_status run_copy_chat(const char *model, const char *dir, propane_error *err);

bool run_holds(const char *dir, const char *name);
/* The folder while this process trains in it. */
typedef struct run_hold {
    int lock;  /* -1: none */
    bool made; /* there was no such folder before */
} run_hold;

/* A fresh run gets a folder of its own and overwrites no file that a run writes, unless a run that died before its first
 * checkpoint has left it (then there is a mark). A resumed one must have a checkpoint. The folder is made where there is none;
 * other runs are kept out of it until the process ends or run_end. */
PROPANE_CHECK propane_status run_begin(const char *dir, bool resume, bool holds_model, run_hold *hold,
                                       propane_error *err);
/* The folder of a run that goes on here, because the process that held it is lost. Held by somebody else, it stays so. */
void run_inherit(const char *dir, run_hold *hold);
/* A folder that was made and in which nothing was written is removed again. */
void run_end(const char *dir, run_hold *hold);

#endif
