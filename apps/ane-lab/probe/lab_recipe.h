/* SPDX-License-Identifier: MIT
 * Small programs with weights for the probe's direct access to the engine (ane/driver/ane_lab.h). y is a sum of 1x1
 * convolutions of x, the k-th one with k + 1 on the diagonal. The value of y therefore shows which records were read:
 * the right one at each place, the first one, or none.
 */
#ifndef APPS_ANE_LAB_PROBE_LAB_RECIPE_H
#define APPS_ANE_LAB_PROBE_LAB_RECIPE_H

#include "ane/driver/ane_lab.h"
#include "apps/ane-lab/probe/probe_json.h"
#include "core/base/text.h"

enum { RECIPE_FILES = 8 };

typedef struct lab_recipe {
    text program;
    text bytes[RECIPE_FILES];
    char paths[RECIPE_FILES][40];
    lab_file files[RECIPE_FILES];
    lab_program p; /* the resulting program */
    float wanted;  /* y for x = 1 */
} lab_recipe;

/* Makes a program with `records` in all, spread equally over `files` (0 means no file: y = x + x). `scale` multiplies
 * the weights. With `own`, uses names that no program had before, so that nothing is in the system's cache. Call
 * lab_recipe_free whatever the status. */
PROPANE_CHECK propane_status lab_recipe_make(lab_recipe *r, int route, int files, int records, float scale, bool own,
                                             propane_error *err);
void lab_recipe_free(lab_recipe *r);

/* Performs every step from the model to the value of y, and stores the result, including "holds", under `name` in
 * `out`. At each step the findings so far are recorded in case of a crash. Adds "NAME holds", or how it fails, to
 * `words`. */
bool lab_recipe_try(const lab_recipe *r, const char *name, json_t *out, text *words);
/* Checks the value only, for functions that make the steps themselves and have an open program. */
bool lab_recipe_value(lab *l, float wanted, json_t *out);
/* Records the following steps as NAME/STEP. */
void lab_recipe_begin(const char *name);
/* Returns the code of the first error in the steps of `form`, or false if there is none. */
bool lab_recipe_code(const json_t *form, json_int_t *code);
/* Stores the collected words as "answer". */
void lab_recipe_answer(json_t *out, text *words);

#endif
