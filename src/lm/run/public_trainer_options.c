/* SPDX-License-Identifier: MIT
 * Owns the constraints among the options of a language model's training: duplicates and contradictions. The options'
 * rows decide which values each option accepts.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "lm/data/jsonl.h"
#include "lm/run/public_trainer_language.h"

static bool api_trainer_check_sizes(const train_options *o) {
    return o->given[TRAIN_OPTION_arch] || o->given[TRAIN_OPTION_layers] || o->given[TRAIN_OPTION_width] ||
           o->given[TRAIN_OPTION_hidden] || o->given[TRAIN_OPTION_heads] || o->given[TRAIN_OPTION_kv_heads] ||
           o->given[TRAIN_OPTION_tie];
}

static propane_status api_trainer_check_vocabulary(const train_options *o, propane_error *err) {
    const bool kind = o->given[TRAIN_OPTION_vocabulary_kind], vocab = o->given[TRAIN_OPTION_vocab];
    const char *trained = kind ? "--kind" : "--vocab";
    if (vocab && strcmp(o->vocabulary_kind, "bpe") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "--vocab applies to --kind bpe; %s has as many ids as it needs",
                            o->vocabulary_kind);
    if (*o->tokenizer && (kind || vocab))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--tokenizer uses an existing vocabulary, but %s would learn one; give only one of them",
                            trained);
    if (*o->init && (kind || vocab))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--init uses the model's vocabulary, but %s would learn another; give only one of them",
                            trained);
    return PROPANE_OK;
}

/* Refuses options of instruction data if the data are plain text, because the options would have no effect. */
static propane_status api_trainer_check_examples(const train_options *o, propane_error *err) {
    const char *given = o->given[TRAIN_OPTION_chat]        ? "chat"
                        : o->resume                        ? NULL
                        : o->given[TRAIN_OPTION_chat_date] ? "chat-date"
                        : o->given[TRAIN_OPTION_pack]      ? "pack"
                                                           : NULL;
    if (!given || !file_exists(o->sources) || file_is_dir(o->sources) || train_jsonl_is(o->sources)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "--%s applies to instruction data (.jsonl), but %s is a text", given,
                        o->sources);
}

propane_status api_trainer_language_check(const train_options *o, propane_error *err) {
    const bool lora =
        o->given[TRAIN_OPTION_lora_rank] || o->given[TRAIN_OPTION_lora_alpha] || o->given[TRAIN_OPTION_lora_targets];
    const bool adapts = lora || o->given[TRAIN_OPTION_lora_dropout];
    PROPANE_TRY(api_trainer_check_vocabulary(o, err));
    if (adapts && o->lora_rank == 0 && !*o->adapter && !o->resume && !o->given[TRAIN_OPTION_lora_rank])
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--lora-alpha, --lora-dropout and --lora-targets are for adapters: give --lora-rank, too");
    if (o->given[TRAIN_OPTION_steps] && o->given[TRAIN_OPTION_epochs])
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--steps and --epochs both set the length of the run; give only one");
    if (o->patience > 0 && o->eval_interval == 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "--patience counts validations; give --eval-every, too");
    if (*o->adapter && lora)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--adapter sets the rank, alpha and targets of the adapter; leave out the flags for them");
    if (*o->adapter && !(*o->init || o->resume))
        return propane_fail(err, PROPANE_ERR_INVALID, "--adapter needs its base model; give it with --init");
    if (*o->init && *o->config)
        return propane_fail(err, PROPANE_ERR_INVALID, "--init includes the model's configuration; leave out --config");
    if ((*o->init || *o->config) && api_trainer_check_sizes(o))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s sets the model's sizes; leave out --arch, --layers, --width, --hidden, --heads, --kv-heads and --tie",
            *o->init ? "--init" : "--config");
    int day[3];
    char rest;
    if (*o->chat_date &&
        (strlen(o->chat_date) != 10 || sscanf(o->chat_date, "%4d-%2d-%2d%c", day, day + 1, day + 2, &rest) != 3 ||
         day[0] < 1 || day[1] < 1 || day[1] > 12 || day[2] < 1 || day[2] > 31))
        return propane_fail(err, PROPANE_ERR_INVALID, "--chat-date '%.40s' is not a date of the form YYYY-MM-DD",
                            o->chat_date);
    if (*o->val_data && o->given[TRAIN_OPTION_held_out])
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--val-data and --held-out both set the validation data; give only one");
    if (o->given[TRAIN_OPTION_beta] && !o->resume && strcmp(o->method, "dpo") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "--beta applies only to pairs; give --method dpo, too");
    return api_trainer_check_examples(o, err);
}
