/* SPDX-License-Identifier: MIT
 * Replaces src/lm and src/report/lm in a library without language models (make WITHOUT=lm). Programs link against
 * either library, because each function of propane/lm.h exists and refuses. Training a language model is refused as
 * well, and model files are not recognized. without_lm.awk generates the functions from the header.
 */
#include <string.h>

#include "core/base/file.h"
#include "propane.h"
#include "report/show.h"
#include "train/trainer/public_trainer.h"

static propane_status without_lm(propane_error *err) {
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "this Propane was built without language models (WITHOUT=lm); rebuild it without that setting");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wshadow"
#include "without_lm.inc"

/* ---- training ---------------------------------------------------------------------------------------------------- */

static propane_status without_lm_check(const train_options *o, propane_error *err) { return without_lm(err); }
static propane_status without_lm_open(propane_trainer *t, const propane_data *data, propane_error *err) {
    return without_lm(err);
}
static void without_lm_close(propane_trainer *t) {}

/* Options of language model training can be set, listed and read, but the first check refuses the training. */
const trainer_kind api_trainer_language = {
    .unit = "tokens", .bytes = 1, .check = without_lm_check, .open = without_lm_open, .close = without_lm_close};

/* ---- showing files ----------------------------------------------------------------------------------------------- */

const char *api_show_model_kind(const char *path, const file_map *map) { return NULL; }

static propane_status without_lm_unknown(const char *path, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: not a program, a package, a MILBlob weight file or a compiled program; for models and "
                        "texts, rebuild Propane with language models (this build has WITHOUT=lm)",
                        path);
}
propane_status api_show_examples(const char *path, const propane_show_options *options, text *to, propane_error *err) {
    return without_lm_unknown(path, err);
}
propane_status api_show_model_contents(const char *path, const char *kind, text *to, propane_error *err) {
    return without_lm_unknown(path, err);
}
propane_status api_show_model_json(const char *path, const char *kind, json_t *o, propane_error *err) {
    return without_lm_unknown(path, err);
}
#pragma GCC diagnostic pop
