/* SPDX-License-Identifier: MIT
 * Owns the checkpoint's form. Its one idea: a table of the options and state that the metadata holds serves writing,
 * reading and comparing. Whole numbers are written in decimal, reals in hexadecimal floating point: they come back to the
 * same bits. Refuses what does not belong to the run, before anything is changed.
 */
#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/files/store.h"

#define FORMAT "propane-checkpoint-1"

enum { FIELD_ROOM = 1100 }; /* of a value as text */

typedef enum field_kind { FIELD_INT, FIELD_REAL, FIELD_TEXT } field_kind;

typedef struct field {
    const char *key; /* in the metadata; for options also the flag, with '-' for '_' */
    field_kind kind;
    size_t offset;
    bool recalled; /* kept for the user's convenience: may differ when the run goes on */
} field;

#define OPTION(name, kind) {#name, kind, offsetof(train_options, name), false}
#define RECALL(name, kind) {#name, kind, offsetof(train_options, name), true}
/* Options that change the numbers, and others that a resumed run takes up again. --steps may grow: a longer run has
 * another schedule, and that is wanted. */
static const field option_fields[] = {
    OPTION(batch, FIELD_INT),         OPTION(context, FIELD_INT),       OPTION(accumulate, FIELD_INT),
    OPTION(lr, FIELD_REAL),           OPTION(min_lr, FIELD_REAL),       OPTION(warmup, FIELD_INT),
    OPTION(weight_decay, FIELD_REAL), OPTION(beta1, FIELD_REAL),        OPTION(beta2, FIELD_REAL),
    OPTION(epsilon, FIELD_REAL),      OPTION(clip, FIELD_REAL),         OPTION(seed, FIELD_INT),
    OPTION(held_out, FIELD_REAL),     OPTION(precision, FIELD_TEXT),    OPTION(plan, FIELD_TEXT),
    OPTION(trainable, FIELD_TEXT),    OPTION(freeze, FIELD_TEXT),       OPTION(lora_rank, FIELD_INT),
    OPTION(lora_alpha, FIELD_REAL),   OPTION(lora_dropout, FIELD_REAL), OPTION(lora_targets, FIELD_TEXT),
    RECALL(recompute, FIELD_INT),     RECALL(base, FIELD_TEXT),         RECALL(adapter, FIELD_TEXT),
    OPTION(pack, FIELD_INT),          OPTION(compact_vocab, FIELD_INT), RECALL(chat, FIELD_TEXT),
    RECALL(steps, FIELD_INT),         RECALL(weights, FIELD_TEXT),      RECALL(device, FIELD_TEXT),
    RECALL(eval_interval, FIELD_INT), RECALL(eval_batches, FIELD_INT),  RECALL(checkpoint_interval, FIELD_INT),
};

#define STATE(name) {#name, FIELD_INT, offsetof(train_state, name), false}
static const field state_fields[] = {
    STATE(step),
    STATE(updates),
    STATE(position),
    STATE(evaluated),
    {"scaler_good", FIELD_INT, offsetof(train_state, scaler) + offsetof(train_scaler, good), false},
    {"scaler_skipped", FIELD_INT, offsetof(train_state, scaler) + offsetof(train_scaler, skipped), false},
    {"scaler_scale", FIELD_REAL, offsetof(train_state, scaler) + offsetof(train_scaler, scale), false},
};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const char *field_print(char out[FIELD_ROOM], const field *f, const void *object) {
    const char *at = (const char *)object + f->offset;
    int64_t i;
    double d;
    const char *t;
    switch (f->kind) {
    case FIELD_INT:
        memcpy(&i, at, sizeof i);
        snprintf(out, FIELD_ROOM, "%lld", (long long)i);
        break;
    case FIELD_REAL:
        memcpy(&d, at, sizeof d);
        snprintf(out, FIELD_ROOM, "%a", d);
        break;
    case FIELD_TEXT:
        memcpy(&t, at, sizeof t);
        snprintf(out, FIELD_ROOM, "%s", t);
        break;
    }
    return out;
}

/* "0x1p-3" as people write it, for messages. */
static const char *field_show(char out[FIELD_ROOM], const field *f, const char *stored) {
    if (f->kind == FIELD_REAL)
        snprintf(out, FIELD_ROOM, "%g", strtod(stored, NULL));
    else
        snprintf(out, FIELD_ROOM, "%.300s", stored);
    return out;
}

/* Of the model's own weights, every 64th number: tells another model of the same shape at little cost. */
static uint64_t base_sum(const model_weights *w) {
    uint64_t sum = (uint64_t)w->floats;
    for (int64_t i = 0; i < w->floats; i += 64) {
        uint32_t bits;
        memcpy(&bits, w->data + i, sizeof bits);
        sum = (sum ^ bits) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 32;
    }
    return sum;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------ */

static propane_status put(safetensors_writer *w, const char *key, const char *value, propane_error *err) {
    return safetensors_writer_metadata(w, key, value, err);
}

static propane_status put_fields(safetensors_writer *w, const field *fields, size_t count, const void *object,
                                 propane_error *err) {
    char value[FIELD_ROOM];
    for (size_t i = 0; i < count; i++) PROPANE_TRY(put(w, fields[i].key, field_print(value, &fields[i], object), err));
    return PROPANE_OK;
}

static propane_status put_metadata(safetensors_writer *w, const train_options *o, const train_input *input,
                                   const train_state *state, const model_weights *weights, propane_error *err) {
    char tokens[40];
    PROPANE_TRY(put(w, "format", state ? FORMAT : "pt", err));
    PROPANE_TRY(model_store_describe(&weights->config, w, err));
    if (!state) return PROPANE_OK;
    PROPANE_TRY(safetensors_writer_checksum(w, err));
    snprintf(tokens, sizeof tokens, "%lld", (long long)input->token_count);
    PROPANE_TRY(put(w, "tokens", tokens, err));
    snprintf(tokens, sizeof tokens, "%016llx", (unsigned long long)input->token_sum);
    PROPANE_TRY(put(w, "token_sum", tokens, err));
    if (weights->adapter_count > 0) {
        snprintf(tokens, sizeof tokens, "%016llx", (unsigned long long)base_sum(weights));
        PROPANE_TRY(put(w, "base_sum", tokens, err));
    }
    PROPANE_TRY(put(w, "tokenizer", input->tokenizer_hash ? input->tokenizer_hash : "", err));
    PROPANE_TRY(put_fields(w, option_fields, COUNT(option_fields), o, err));
    return put_fields(w, state_fields, COUNT(state_fields), state, err);
}

static void tensor_name(char out[300], const model_tensor *t, int block) {
    if (block == 0)
        snprintf(out, 300, "%s", t->name);
    else
        snprintf(out, 300, "optimizer.%d.%s", block, t->name);
}

/* The tensors that a file has to hold: with adapters those alone, the model itself does not change. */
static int first_tensor(const model_weights *w) { return w->adapter_count > 0 ? w->count : 0; }

/* What stands under a name: weights (block 0) or moments; NULL: the tensor is not learnt and has none. */
static const float *block_data(const model_weights *w, train_step *step, int block, int tensor) {
    return block == 0 ? model_weights_data(w, &w->tensors[tensor]) : train_step_moment(step, block, tensor);
}

static propane_status put_tensors(safetensors_writer *w, const model_weights *weights, train_step *step,
                                  propane_error *err) {
    char name[300];
    int blocks = 3, begin = first_tensor(weights), end = model_weights_total(weights);
    if (!step) { /* the finished model, in Hugging Face's form */
        PROPANE_TRY(model_store_declare(weights, w, ST_F32, err));
        return model_store_data(weights, w, ST_F32, err);
    }
    for (int b = 0; b < blocks; b++)
        for (int i = begin; i < end; i++) {
            const model_tensor *t = &weights->tensors[i];
            if (!block_data(weights, step, b, i)) continue;
            tensor_name(name, t, b);
            PROPANE_TRY(safetensors_writer_declare(w, name, ST_F32, t->rank, t->dim, err));
        }
    for (int b = 0; b < blocks; b++)
        for (int i = begin; i < end; i++) {
            const float *data = block_data(weights, step, b, i);
            if (data)
                PROPANE_TRY(safetensors_writer_data(w, data, (size_t)weights->tensors[i].count * sizeof(float), err));
        }
    return PROPANE_OK;
}

propane_status train_checkpoint_write(const char *path, const train_options *options, const train_input *input,
                                      const train_state *state, const model_weights *weights, train_step *step,
                                      propane_error *err) {
    safetensors_writer *w = NULL;
    PROPANE_TRY(safetensors_writer_open(path, &w, err));
    propane_status status = put_metadata(w, options, input, step ? state : NULL, weights, err);
    if (status == PROPANE_OK) status = put_tensors(w, weights, step, err);
    if (status == PROPANE_OK) return safetensors_writer_commit(w, err);
    safetensors_writer_abort(w);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

static propane_status get(const safetensors *s, const char *key, const char **out, propane_error *err) {
    *out = safetensors_metadata(s, key);
    if (*out) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: its metadata has no '%s'; this is not a checkpoint of a training run",
                        safetensors_source(s), key);
}

static propane_status differs(const safetensors *s, const char *what, const char *there, const char *here,
                              propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s was made with %s %.100s, not %.100s; resume with the same, or start a "
                        "new run in another folder",
                        safetensors_source(s), what, there, here);
}

static propane_status check_options(const safetensors *s, const train_options *o, propane_error *err) {
    char now[FIELD_ROOM], shown[2][FIELD_ROOM], flag[40];
    const char *stored;
    for (size_t i = 0; i < COUNT(option_fields); i++) {
        const field *f = &option_fields[i];
        if (f->recalled) continue;
        PROPANE_TRY(get(s, f->key, &stored, err));
        if (strcmp(stored, field_print(now, f, o)) == 0) continue;
        snprintf(flag, sizeof flag, "--%s", f->key);
        for (char *c = flag; *c; c++)
            if (*c == '_') *c = '-';
        return differs(s, flag, field_show(shown[0], f, stored), field_show(shown[1], f, now), err);
    }
    return PROPANE_OK;
}

static propane_status check_format(const safetensors *s, propane_error *err) {
    const char *format;
    PROPANE_TRY(get(s, "format", &format, err));
    if (strcmp(format, FORMAT) == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: its format is '%.60s', not '%s'; this is not a checkpoint of a "
                        "training run",
                        safetensors_source(s), format, FORMAT);
}

static propane_status check_input(const safetensors *s, const train_input *input, const model_weights *weights,
                                  propane_error *err) {
    const char *config, *tokens, *hash, *here = input->tokenizer_hash ? input->tokenizer_hash : "";
    char count[40];
    model_config stored;
    PROPANE_TRY(check_format(s, err));
    PROPANE_TRY(get(s, MODEL_STORE_CONFIG, &config, err));
    PROPANE_TRY(model_config_parse(config, strlen(config), safetensors_source(s), &stored, err));
    if (!model_config_equal(&stored, &weights->config))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s holds another model than the one that is to be trained; resume with "
                            "the configuration of its run folder",
                            safetensors_source(s));
    snprintf(count, sizeof count, "%lld", (long long)input->token_count);
    PROPANE_TRY(get(s, "tokens", &tokens, err));
    if (strcmp(tokens, count) != 0) return differs(s, "data of that many tokens:", tokens, count, err);
    snprintf(count, sizeof count, "%016llx", (unsigned long long)input->token_sum);
    PROPANE_TRY(get(s, "token_sum", &tokens, err));
    if (strcmp(tokens, count) != 0) return differs(s, "data of the checksum", tokens, count, err);
    if (weights->adapter_count > 0) {
        snprintf(count, sizeof count, "%016llx", (unsigned long long)base_sum(weights));
        PROPANE_TRY(get(s, "base_sum", &tokens, err));
        if (strcmp(tokens, count) != 0) return differs(s, "a model of the checksum", tokens, count, err);
    }
    PROPANE_TRY(get(s, "tokenizer", &hash, err));
    return strcmp(hash, here) == 0 ? PROPANE_OK : differs(s, "the tokenizer", hash, here, err);
}

/* A number of the metadata into its field of `object`. */
static propane_status read_number(const safetensors *s, const field *f, const char *stored, void *object,
                                  propane_error *err) {
    char *end = NULL, *at = (char *)object + f->offset;
    errno = 0;
    if (f->kind == FIELD_REAL) {
        double value = strtod(stored, &end);
        if (!(value >= 0) || !isfinite(value)) end = NULL;
        memcpy(at, &value, sizeof value);
    } else {
        long long value = strtoll(stored, &end, 10);
        int64_t narrow = value;
        if (value < -1 || errno) end = NULL;
        memcpy(at, &narrow, sizeof narrow);
    }
    if (end && !*end && *stored) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: its metadata has '%.40s' as '%s'; the file is damaged",
                        safetensors_source(s), stored, f->key);
}

static propane_status read_state(const safetensors *s, train_state *state, propane_error *err) {
    for (size_t i = 0; i < COUNT(state_fields); i++) {
        const char *stored;
        PROPANE_TRY(get(s, state_fields[i].key, &stored, err));
        PROPANE_TRY(read_number(s, &state_fields[i], stored, state, err));
    }
    if (state->scaler.scale > 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: its metadata has a loss scale of 0; the file is damaged",
                        safetensors_source(s));
}

propane_status train_checkpoint_recall(const char *path, arena *a, train_options *options, propane_error *err) {
    safetensors *s = NULL;
    PROPANE_TRY(safetensors_open(path, &s, err));
    propane_status status = check_format(s, err);
    for (size_t i = 0; i < COUNT(option_fields) && status == PROPANE_OK; i++) {
        const field *f = &option_fields[i];
        const char *stored = safetensors_metadata(s, f->key);
        if (!stored) continue; /* the check at reading will tell */
        if (f->kind != FIELD_TEXT) {
            status = read_number(s, f, stored, options, err);
        } else {
            const char *copy = arena_string(a, stored);
            memcpy((char *)options + f->offset, &copy, sizeof copy);
            if (!copy) status = propane_fail_memory(err, strlen(stored));
        }
    }
    safetensors_close(s);
    return status;
}

static propane_status read_block(const safetensors *s, const model_weights *weights, train_step *step, int block,
                                 propane_error *err) {
    char name[300];
    for (int i = first_tensor(weights); i < model_weights_total(weights); i++) {
        const model_tensor *t = &weights->tensors[i];
        const safetensors_tensor *found;
        float *data = block == 0 ? model_weights_data(weights, t) : train_step_moment(step, block, i);
        if (!data) continue;
        tensor_name(name, t, block);
        PROPANE_TRY(safetensors_expect(s, name, ST_F32, t->rank, t->dim, &found, err));
        PROPANE_TRY(safetensors_f32(s, found, data, err));
    }
    return PROPANE_OK;
}

propane_status train_checkpoint_read(const char *path, const train_options *options, const train_input *input,
                                     train_state *state, model_weights *weights, propane_error *err) {
    safetensors *s = NULL;
    PROPANE_TRY(safetensors_open(path, &s, err));
    propane_status status = safetensors_verify(s, err);
    if (status == PROPANE_OK) status = check_input(s, input, weights, err);
    if (status == PROPANE_OK) status = check_options(s, options, err);
    if (status == PROPANE_OK) status = read_state(s, state, err);
    if (status == PROPANE_OK) status = read_block(s, weights, NULL, 0, err);
    safetensors_close(s);
    return status;
}

propane_status train_checkpoint_moments(const char *path, const model_weights *weights, train_step *step,
                                        propane_error *err) {
    safetensors *s = NULL;
    PROPANE_TRY(safetensors_open(path, &s, err));
    propane_status status = read_block(s, weights, step, 1, err);
    if (status == PROPANE_OK) status = read_block(s, weights, step, 2, err);
    safetensors_close(s);
    return status;
}
