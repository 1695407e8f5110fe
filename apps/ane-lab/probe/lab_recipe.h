/* SPDX-License-Identifier: MIT
 * Makes small programs with weights for the probe's direct access to the engine (ane/driver/ane_lab.h). In such a
 * program, y is a sum of 1x1 convolutions of x, and weight k has k + 1 on its diagonal. So the value of y shows which
 * records were read: the right record at each place, always the first record, or none.
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
    float wanted;  /* value of y for x = 1 */
} lab_recipe;

/* Makes a program with `records` records, spread evenly over `files` files. Without files, the program is y = x + x.
 * `scale` multiplies the weights. With `own`, uses names that no program had before, so that nothing is in the system's
 * cache. Call lab_recipe_free even after a failure. */
PROPANE_CHECK propane_status lab_recipe_make(lab_recipe *r, int route, int files, int records, float scale, bool own,
                                             propane_error *err);
void lab_recipe_free(lab_recipe *r);

/* Performs every step from the model to the value of y, and returns whether y is right. Stores the results of the steps
 * and "holds" under `name` in `out`, and adds "NAME: works", or how the program fails, to `words`. Notes the name of
 * each step before the step begins, in case it crashes. */
bool lab_recipe_try(const lab_recipe *r, const char *name, json_t *out, text *words);
/* Evaluates a loaded program with x = 1, and returns whether y is `wanted`. For functions that perform the earlier
 * steps themselves. */
bool lab_recipe_value(lab *l, float wanted, json_t *out);
/* Lets the following steps be noted as NAME/STEP. */
void lab_recipe_begin(const char *name);
/* Sets *code to the code of the first error in the steps of `form`. Returns false if there is no error. */
bool lab_recipe_code(const json_t *form, json_int_t *code);
/* Stores the collected words as "answer" and frees them. */
void lab_recipe_answer(json_t *out, text *words);

#endif
