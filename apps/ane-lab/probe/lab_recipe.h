/* SPDX-License-Identifier: MIT
 * Small programs with weights for the probe's own way to the engine (ane/driver/ane_lab.h): y is a sum of 1x1
 * convolutions of x, the k-th one with k + 1 in the diagonal. So the value of y shows which records were read: in each
 * place the right one, the first one, or none.
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
    lab_program p; /* of all that */
    float wanted;  /* y where x is 1 */
} lab_recipe;

/* `records` in all, in equal parts over `files` (0: of no file: y = x + x); `scale` multiplies the weights. `own`:
 * names that no program had before, so that nothing of it is in the system's cache. lab_recipe_free it, whatever the
 * status. */
PROPANE_CHECK propane_status lab_recipe_make(lab_recipe *r, int route, int files, int records, float scale, bool own,
                                             propane_error *err);
void lab_recipe_free(lab_recipe *r);

/* Everything from the model to the value of y, under `name` in `out`, with "holds"; what is found by then is noted for
 * a crash at each step. Adds "NAME holds", or how it fails, to `words`. */
bool lab_recipe_try(const lab_recipe *r, const char *name, json_t *out, text *words);
/* For functions that make the steps themselves: the same about one that is open. */
bool lab_recipe_value(lab *l, float wanted, json_t *out);
/* The steps of what follows are noted as NAME/STEP. */
void lab_recipe_begin(const char *name);
/* The code of the first error in the steps of `form`; false: none. */
bool lab_recipe_code(const json_t *form, json_int_t *code);
/* "answer", out of words that were gathered. */
void lab_recipe_answer(json_t *out, text *words);

#endif
