/* SPDX-License-Identifier: MIT
 * Owns the start of a trainer of language models: the text as tokens; the model from sizes, a configuration, another
 * model or a resumed run; and the run's folder. lm/run/language_run.h trains the model.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/device/uri.h"
#include "core/run/public.h"
#include "lm/arch/config_experts.h"
#include "lm/data/corpus.h"
#include "lm/files/hub_cache.h"
#include "lm/files/model_tokenizer.h"
#include "lm/files/public_model.h"
#include "lm/files/store.h"
#include "lm/run/language_run.h"
#include "lm/run/plan_choice.h"
#include "lm/run/public_trainer_language.h"
#include "lm/run/run_folder.h"
#include "train/weight_mode_check.h"

typedef struct language_trainer {
    corpus corpus;
    model_config config;
    model_weights *initial;
    int32_t *bytes_of_token;
    text tried; /* results of the attempts to build weights into programs */
} language_trainer;

static language_trainer *language_of(const propane_trainer *t) { return t->part; }

/* ---- the text ----------------------------------------------------------------------------------------------------------------- */

/* Returns the option's date, or today's date in `today` if none was given. The date becomes part of the run's record,
 * so that a resumed or repeated run has the same data. */
static const char *api_trainer_language_date(const train_options *o, char today[11]) {
    const time_t now = time(NULL);
    struct tm day;
    if (*o->chat_date) return o->chat_date;
    (void)strftime(today, 11, "%Y-%m-%d", localtime_r(&now, &day));
    return today;
}

/* Opens the text as tokens. If an existing model is trained further, its tokenizer and chat format are the defaults. */
static propane_status api_trainer_language_open_corpus(propane_trainer *t, const propane_data *data,
                                                       propane_error *err) {
    train_options *o = t->options;
    char today[11] = "";
    const char *init = *o->init ? o->init : NULL;
    model_form form;
    if (init && !o->resume) PROPANE_TRY(model_store_form(init, &form, err));
    char *own = o->resume && !*o->tokenizer && !data->tokenizer ? run_path(o->run_dir, MODEL_TOKENIZER) : NULL;
    const corpus_options how = {.text = t->source,
                                .held = o->val_data,
                                .tokenizer = own             ? own
                                             : *o->tokenizer ? o->tokenizer
                                                             : NULL,
                                .kind = o->vocabulary_kind,
                                .vocab = (int)o->vocab,
                                .model = o->resume ? o->run_dir : init,
                                .chat = o->chat,
                                .date = api_trainer_language_date(o, today),
                                .data = data->text,
                                .length = data->length,
                                .lines = data->examples,
                                .ids = data->ids,
                                .id_count = data->id_count,
                                .vocabulary = data->tokenizer};
    const propane_status status = corpus_open(&how, &language_of(t)->corpus, err);
    mem_free(own);
    if (status == PROPANE_OK && !*o->chat_date && language_of(t)->corpus.instructions &&
        chat_template_is_dated(&language_of(t)->corpus.chat)) {
        o->chat_date = arena_string(t->own->arena, today);
        o->given[TRAIN_OPTION_chat_date] = true; /* part of the run's record */
        if (!o->chat_date) return propane_fail_memory(err, sizeof today);
    }
    if (status == PROPANE_OK && language_of(t)->corpus.divided && o->given[TRAIN_OPTION_held_out])
        return propane_fail(err, PROPANE_ERR_INVALID, "%.600s: this is the validation data; leave out --held-out",
                            language_of(t)->corpus.parts);
    return status;
}

static propane_status api_trainer_language_count_bytes(language_trainer *l, propane_error *err) {
    const size_t rows = (size_t)l->config.vocab_size; /* ids that the tokenizer lacks have no bytes */
    l->bytes_of_token = mem_array(rows, sizeof *l->bytes_of_token);
    if (!l->bytes_of_token) return propane_fail_memory(err, rows * sizeof *l->bytes_of_token);
    for (int i = 0; i < tokenizer_vocab_size(l->corpus.tokenizer); i++) {
        size_t length;
        tokenizer_piece(l->corpus.tokenizer, i, &length);
        l->bytes_of_token[i] = (int32_t)length;
    }
    return PROPANE_OK;
}

/* ---- the model ---------------------------------------------------------------------------------------------------------------- */

/* Returns the number of heads. If none is given, returns the largest number up to the default that divides the width
 * into heads of even size, as RoPE requires. */
static int64_t api_trainer_language_heads(const train_options *o) {
    int64_t heads = o->heads;
    while (!o->given[TRAIN_OPTION_heads] && heads > 1 && (o->width % heads || o->width / heads % 2)) heads--;
    return heads;
}

static propane_status api_trainer_language_sizes(const train_options *o, const tokenizer *t, model_config *c,
                                                 propane_error *err) {
    PROPANE_TRY(model_config_default_of(c, o->arch, err));
    c->num_hidden_layers = o->layers;
    c->hidden_size = o->width;
    const int64_t heads = api_trainer_language_heads(o);
    c->num_attention_heads = heads;
    c->num_key_value_heads = o->kv_heads ? o->kv_heads : heads;
    if (o->width % heads)
        return propane_fail(err, PROPANE_ERR_INVALID, "--width %" PRId64 " is not a multiple of --heads %" PRId64,
                            o->width, heads);
    c->head_dim = o->width / heads;
    /* The hidden size of a gated half is 8/3 of the width, rounded up to a multiple of 32; that of a plain half is 4
     * times the width. */
    const bool gated = model_arch_is_gated(model_arch_of(c));
    c->intermediate_size = o->hidden ? o->hidden : gated ? (o->width * 8 / 3 + 31) / 32 * 32 : 4 * o->width;
    config_experts_default(model_arch_of(c), c);
    c->tie_word_embeddings = o->tie;
    c->vocab_size = tokenizer_vocab_size(t);
    c->max_position_embeddings = o->context; /* further positions would not be trained */
    return model_config_check(c, "the model's sizes", err);
}

/* Returns whether the model stays in the form of its file. The model of a run with adapters does, until the step is
 * made, which may need fp32 masters. */
static bool api_trainer_language_keeps(const train_options *o) { return o->lora_rank > 0 && !o->compact_vocab; }

/* Loads the model with which a run of adapters began. --init gives its path if the model has been moved since. */
static propane_status api_trainer_language_base(const train_options *o, model_weights **out, propane_error *err) {
    char *place = NULL;
    if (!*o->init && !*o->base)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%.300s: the run was started without adapters and must continue without them; leave out --lora-rank",
            o->run_dir ? o->run_dir : "the run");
    propane_status status = *o->init ? PROPANE_OK : hub_cache_find(o->base, &place, err);
    if (status == PROPANE_OK)
        status = run_model(place ? place : o->init, NULL, api_trainer_language_keeps(o), out, err);
    mem_free(place);
    if (status == PROPANE_OK || *o->init) return status;
    const propane_error why = *err;
    return propane_fail(err, status, "%.700s; the run started from this model: give its path with --init", why.text);
}

/* Checks the given model sizes against those of the run. */
static propane_status api_trainer_language_check_sizes(const train_options *o, const model_config *c,
                                                       propane_error *err) {
    const struct {
        int option;
        int64_t given, has;
    } sizes[] = {
        {TRAIN_OPTION_layers, o->layers, c->num_hidden_layers},
        {TRAIN_OPTION_width, o->width, c->hidden_size},
        {TRAIN_OPTION_hidden, o->hidden ? o->hidden : c->intermediate_size, c->intermediate_size},
        {TRAIN_OPTION_heads, o->heads, c->num_attention_heads},
        {TRAIN_OPTION_kv_heads, o->kv_heads ? o->kv_heads : c->num_attention_heads, c->num_key_value_heads},
        {TRAIN_OPTION_tie, o->tie, c->tie_word_embeddings},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (o->given[sizes[i].option] && sizes[i].given != sizes[i].has)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%.400s: the run's model has --%s %" PRId64 ", not %" PRId64
                                "; leave it out, or start another run",
                                o->run_dir, train_option_rows[sizes[i].option].name, sizes[i].has, sizes[i].given);
    if (o->given[TRAIN_OPTION_arch] && strcmp(o->arch, c->model_type) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%.400s: the run's model has --arch %s, not %s; leave it out, or start another run",
                            o->run_dir, c->model_type, o->arch);
    return PROPANE_OK;
}

/* Refuses options that ask for another model or vocabulary than the resumed run's; they are not ignored. */
static propane_status api_trainer_language_check_resumed(const train_options *o, const language_trainer *l,
                                                         propane_error *err) {
    model_config other;
    PROPANE_TRY(api_trainer_language_check_sizes(o, &l->config, err));
    if (*o->config) {
        PROPANE_TRY(model_config_read(o->config, &other, err));
        if (!model_config_equal(&other, &l->config))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%.400s: the run's model differs from --config %.400s; leave it out", o->run_dir,
                                o->config);
    }
    const char *kind = tokenizer_kind_name(tokenizer_get_kind(l->corpus.tokenizer));
    if (o->given[TRAIN_OPTION_vocabulary_kind] && strcmp(kind, o->vocabulary_kind) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%.400s: the run's vocabulary is --kind %s, not %s; leave it out",
                            o->run_dir, kind, o->vocabulary_kind);
    if (o->given[TRAIN_OPTION_vocab] && o->vocab < tokenizer_vocab_size(l->corpus.tokenizer))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%.400s: the run's vocabulary has %d ids, not --vocab %" PRId64 "; leave it out",
                            o->run_dir, tokenizer_vocab_size(l->corpus.tokenizer), o->vocab);
    return PROPANE_OK;
}

static propane_status api_trainer_language_resumed(const train_options *o, language_trainer *l, propane_error *err) {
    char *path = run_path(o->run_dir, TRAIN_CONFIG);
    propane_status status = path ? model_config_read(path, &l->config, err) : propane_fail_memory(err, 0);
    mem_free(path);
    if (status == PROPANE_OK) status = api_trainer_language_check_resumed(o, l, err);
    if (status != PROPANE_OK || o->lora_rank == 0) return status;
    return api_trainer_language_base(o, &l->initial, err); /* the checkpoint holds only the adapters */
}

/* Chooses the configuration and, with init, the weights with which the run starts. */
static propane_status api_trainer_language_choose_model(propane_trainer *t, propane_error *err) {
    const train_options *o = t->options;
    language_trainer *l = language_of(t);
    if (o->resume) {
        PROPANE_TRY(api_trainer_language_resumed(o, l, err));
    } else if (*o->init) {
        PROPANE_TRY(run_model(o->init, NULL, api_trainer_language_keeps(o), &l->initial, err));
        l->config = l->initial->config;
    } else if (*o->config) {
        PROPANE_TRY(model_config_read(o->config, &l->config, err));
    } else {
        PROPANE_TRY(api_trainer_language_sizes(o, l->corpus.tokenizer, &l->config, err));
    }
    const char *name = *o->init ? o->init : *o->config ? o->config : o->run_dir ? o->run_dir : "the model";
    return run_vocabulary(name, l->config.vocab_size, l->corpus.tokenizer, err);
}

/* Takes rank, alpha and targets from an adapter that is trained further. The dropout remains the run's option. */
static propane_status api_trainer_language_take_adapter(propane_trainer *t, propane_error *err) {
    train_options *o = t->options;
    model_lora l;
    if (!*o->adapter || o->resume) return PROPANE_OK;
    PROPANE_TRY(model_adapter_config(o->adapter, &language_of(t)->config, &l, err));
    if (l.rank_root)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: use_rslora is set; training cannot continue with such adapters", o->adapter);
    o->lora_rank = l.rank;
    o->lora_alpha = l.alpha;
    o->lora_targets = arena_string(t->own->arena, l.modules);
    return o->lora_targets ? PROPANE_OK : propane_fail_memory(err, sizeof l.modules);
}

/* ---- the run ------------------------------------------------------------------------------------------------------------------ */

/* Finds the folder or file of the run's initial model. */
static propane_status api_trainer_language_decide(propane_trainer *t, propane_error *err) {
    train_options *o = t->options;
    if (*o->init && o->resume && o->lora_rank == 0 && strcmp(o->init, o->base) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%.400s: the run was started %s%.400s, not with --init %.400s; leave it out", o->run_dir,
                            *o->base ? "with --init " : "without --init", o->base, o->init);
    if (*o->init) {
        char *place = NULL;
        o->base = o->init; /* adapters record this name; it may be a name on the hub */
        PROPANE_TRY(hub_cache_find(o->init, &place, err));
        o->init = arena_string(t->own->arena, place);
        mem_free(place);
        if (!o->init) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

static propane_status api_trainer_language_choose_device(propane_trainer *t, propane_error *err) {
    train_options *o = t->options;
    PROPANE_TRY(train_choose_device(o, &language_of(t)->config, err));
    if (o->profile && device_is(o->device, "ane") && !strstr(o->device, "statistics="))
        o->device = arena_printf(t->own->arena, "%s%sstatistics=on", o->device, strchr(o->device, '?') ? "&" : "?");
    return o->device ? PROPANE_OK : propane_fail_memory(err, 0);
}

/* Rounds a computed number to six digits, because a run's record shows numbers in full. */
static double api_trainer_six_digits(double x) {
    char shown[40];
    snprintf(shown, sizeof shown, "%.6g", x);
    return strtod(shown, NULL);
}

/* Sets learning rates, schedule and context for the kind of run where they were not given. The default rate is lowest
 * for an existing model, higher for adapters, and highest for a small model from scratch. */
static void api_trainer_language_choose_rates(propane_trainer *t) {
    train_options *o = t->options;
    const double width = (double)language_of(t)->config.hidden_size;
    if (o->resume) return;
    const bool prefers = strcmp(o->method, "dpo") == 0;
    const double tuned = o->lora_rank > 0 ? (prefers ? 1e-5 : 2e-4) : (prefers ? 1e-6 : 5e-5);
    if (o->lr < 0) o->lr = *o->init ? tuned : fmin(3e-3, api_trainer_six_digits(0.3 / width));
    if (!o->given[TRAIN_OPTION_context] && o->context > language_of(t)->config.max_position_embeddings)
        o->context = language_of(t)->config.max_position_embeddings; /* an existing model may have a shorter context */
    if (strcmp(o->schedule, "auto") == 0) o->schedule = *o->init ? "cosine" : "wsd"; /* measured by bench/defaults.sh */
    if (!o->given[TRAIN_OPTION_min_lr]) o->min_lr = fmin(o->min_lr, api_trainer_six_digits(o->lr / 10));
}

static propane_status api_trainer_language_begin_folder(propane_trainer *t, propane_error *err) {
    const train_options *o = t->options;
    if (!o->run_dir || !mpi_leads(o->mpi)) return PROPANE_OK;
    static const char *const names[] = {TRAIN_CONFIG,
                                        MODEL_TOKENIZER,
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja",
                                        TOKENIZER_CHAT_TOOLS,
                                        MODEL_ADAPTER_CONFIG,
                                        MODEL_ADAPTER_WEIGHTS,
                                        NULL};
    const run_files files = {run_holds(o->run_dir, TRAIN_MODEL), names};
    return run_begin(o->run_dir, o->resume, &files, &t->hold, err);
}

/* Writes tokenizer.json for transformers, as a copy of the initial model's file if there is one. Nothing is written for
 * a vocabulary that the format cannot express. */
static propane_status api_trainer_language_write_hf(const propane_trainer *t, propane_error *err) {
    const train_options *o = t->options;
    char *data = NULL, *to = run_path(o->run_dir, "tokenizer.json");
    char *from = *o->init && file_is_dir(o->init) ? run_path(o->init, "tokenizer.json") : NULL;
    size_t length = 0;
    propane_error why = {0};
    propane_status status = to ? PROPANE_OK : propane_fail_memory(&why, 0);
    if (status == PROPANE_OK && from && file_exists(from) && !*o->tokenizer) {
        status = file_read(from, (size_t)256 << 20, &data, &length, &why);
        if (status == PROPANE_OK) status = file_write(to, data, length, &why);
    } else if (status == PROPANE_OK) {
        status = tokenizer_export(language_of(t)->corpus.tokenizer, o->run_dir,
                                  language_of(t)->config.max_position_embeddings, &why);
    }
    mem_free(data);
    mem_free(from);
    mem_free(to);
    if (status == PROPANE_OK || status == PROPANE_ERR_UNSUPPORTED) return PROPANE_OK;
    return propane_fail(err, status, "%s", why.text);
}

/* Writes the files that generation needs in addition to the weights. */
static propane_status api_trainer_language_fill_folder(const propane_trainer *t, propane_error *err) {
    const train_options *o = t->options;
    if (!o->run_dir || !mpi_leads(o->mpi) || o->resume) return PROPANE_OK;
    char *path = run_path(o->run_dir, MODEL_TOKENIZER);
    const char *format = *o->chat ? o->chat : NULL;
    propane_status status =
        path ? tokenizer_write(language_of(t)->corpus.tokenizer, format, path, err) : propane_fail_memory(err, 0);
    mem_free(path);
    if (status == PROPANE_OK) status = api_trainer_language_write_hf(t, err);
    return status == PROPANE_OK && *o->init ? run_copy_chat(o->init, o->run_dir, err) : status;
}

static propane_status api_trainer_language_make_run(propane_trainer *t, propane_error *err) {
    language_trainer *l = language_of(t);
    int id_bytes;
    const char *hash;
    const void *ids = corpus_ids(&l->corpus, &id_bytes);
    PROPANE_TRY(tokenizer_hash(l->corpus.tokenizer, &hash, err));
    const train_input input = {.config = &l->config,
                               .initial = l->initial,
                               .tokens = ids,
                               .token_bytes = id_bytes,
                               .token_count = l->corpus.count,
                               .train_count = l->corpus.train_count,
                               .examples = l->corpus.instructions ? &l->corpus.examples : NULL,
                               .source = t->source,
                               .tokenizer_hash = hash,
                               .bytes_of_token = l->bytes_of_token,
                               .tried = &l->tried};
    PROPANE_TRY(language_run_create(t->options, &input, &t->run, err));
    return api_trainer_language_fill_folder(t, err);
}

static propane_status api_trainer_language_open(propane_trainer *t, const propane_data *data, propane_error *err) {
    if (t->options->resume && !t->options->run_dir)
        return propane_fail(err, PROPANE_ERR_INVALID, "--resume needs the run's folder");
    PROPANE_TRY(api_trainer_language_decide(t, err));
    PROPANE_TRY(api_trainer_language_begin_folder(t, err));
    PROPANE_TRY(api_trainer_language_open_corpus(t, data, err));
    PROPANE_TRY(api_trainer_language_choose_model(t, err));
    PROPANE_TRY(api_trainer_language_take_adapter(t, err));
    api_trainer_language_choose_rates(t);
    PROPANE_TRY(api_trainer_language_choose_device(t, err));
    PROPANE_TRY(api_trainer_language_count_bytes(language_of(t), err));
    return api_trainer_language_make_run(t, err);
}

static void api_trainer_language_close(propane_trainer *t) {
    corpus_close(&language_of(t)->corpus);
    model_weights_free(language_of(t)->initial);
    mem_free(language_of(t)->bytes_of_token);
    text_deinit(&language_of(t)->tried);
}

propane_status propane_trainer_model(const propane_trainer *t, propane_model **out, propane_error *err) {
    if (out) *out = NULL;
    NEED_AS(err, "trainer, out", t, out);
    API_ERROR(err);
    if (t->options->kind != TRAIN_LANGUAGE)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "this run trains a program, not a language model");
    propane_model *m = mem_alloc(sizeof *m);
    const char *place = t->options->run_dir ? t->options->run_dir : t->options->init;
    if (m) m->path = mem_copy_string(*place ? place : "the trained model");
    propane_status status =
        m && m->path ? language_run_model(t->run, &m->weights, err) : propane_fail_memory(err, sizeof *m);
    if (status)
        propane_model_free(m);
    else
        *out = m;
    return status;
}

const propane_tokenizer *propane_trainer_tokenizer(const propane_trainer *t) {
    if (!t) return NULL;
    return t->kind == &api_trainer_language ? language_of(t)->corpus.tokenizer : NULL;
}

static propane_status api_trainer_language_write(const propane_trainer *t, const char *path, propane_error *err) {
    propane_model *m = NULL;
    PROPANE_TRY(propane_trainer_model(t, &m, err));
    const propane_status status = propane_model_save(m, language_of(t)->corpus.tokenizer, path, NULL, err);
    propane_model_free(m);
    return status;
}

/* ---- reports ---------------------------------------------------------------------------------------------------- */

/* Returns the number of held-out tokens. */
static int64_t api_trainer_language_held(const propane_trainer *t) {
    const corpus *c = &language_of(t)->corpus;
    if (!c->train_count) return (int64_t)((double)c->count * train_run_options(t->run)->held_out);
    return c->count - (c->instructions ? c->examples.start[c->train_count] : c->train_count);
}

static void api_trainer_language_describe(const propane_trainer *t, propane_trainer_info *out) {
    const corpus *c = &language_of(t)->corpus;
    out->parameters = language_run_trained(t->run);
    out->count = c->count;
    out->held_out = api_trainer_language_held(t);
}

static void api_trainer_language_put_data(const propane_trainer *t, json_t *facts) {
    const train_examples *e = &language_of(t)->corpus.examples;
    int64_t windows, cut, empty;
    language_run_count_data(t->run, &windows, &cut, &empty);
    json_put(facts, "windows", json_integer(windows));
    if (!language_of(t)->corpus.instructions) return;
    json_put(facts, "examples", json_integer(e->count));
    if (e->pairs) json_put(facts, "pairs", json_integer(e->count / 2));
    json_put(facts, "examples_trained", json_integer(e->trained));
    json_put(facts, "chat", json_string(chat_format_name(language_of(t)->corpus.chat.format)));
    json_put(facts, "examples_cut", json_integer(cut));
    json_put(facts, "examples_empty", json_integer(empty));
}

static void api_trainer_language_put_workers(const propane_trainer *t, json_t *log) {
    const train_options *o = train_run_options(t->run);
    const int count = train_run_workers(t->run);
    if (count < 2) return;
    json_put(log, "workers", json_integer(count));
    json_put(log, "outer", json_integer(o->outer));
    json_put(log, "data_parallel_steps", json_integer(o->outer_warmup));
}

static void api_trainer_language_put_log(const propane_trainer *t, json_t *log) {
    const train_options *o = train_run_options(t->run);
    const model_weights *w = language_run_weights(t->run);
    const model_config *c = &w->config;
    const train_step *step = language_run_step(t->run);
    json_put(log, "tokens_per_step", json_integer(o->batch * o->context * o->accumulate));
    if (o->mpi) json_put(log, "ranks", json_integer(mpi_size(o->mpi)));
    api_trainer_language_put_workers(t, log);
    json_put(log, "architecture", json_string(c->model_type));
    json_put(log, "parameters", json_integer(w->parameters));
    json_put(log, "trained", json_integer(language_run_trained(t->run)));
    json_put(log, "layers", json_integer(c->num_hidden_layers));
    json_put(log, "width", json_integer(c->hidden_size));
    json_put(log, "heads", json_integer(c->num_attention_heads));
    json_put(log, "kv_heads", json_integer(c->num_key_value_heads));
    json_put(log, "vocabulary", json_integer(c->vocab_size));
    if (w->adapter_count > 0) /* the targets that were chosen, even if the option left them open */
        json_put(log, train_option_rows[TRAIN_OPTION_lora_targets].key, json_string(w->lora.modules));
    json_put(log, "tokens", json_integer(language_of(t)->corpus.count));
    if (language_of(t)->corpus.examples.pairs)
        json_put(log, "pairs", json_integer(language_of(t)->corpus.examples.count / 2));
    if (language_of(t)->corpus.instructions)
        json_put(log, "examples", json_integer(language_of(t)->corpus.examples.count));
    if (!*train_step_device_note(step)) return;
    json_put(log, "programs", json_string(train_step_sharing(step)));
    json_put(log, "device_note", json_string(train_step_device_note(step)));
}

static void api_trainer_language_facts(const propane_trainer *t, json_t *log, json_t *facts) {
    const train_options *o = train_run_options(t->run);
    const model_weights *w = language_run_weights(t->run);
    const language_trainer *l = language_of(t);
    api_trainer_language_put_log(t, log);
    json_put(facts, "tokens", json_integer(l->corpus.count));
    json_put(facts, "files", json_integer(l->corpus.files));
    if (l->corpus.parts) json_put(facts, "parts", json_string(l->corpus.parts));
    json_put(facts, "files_left_out", json_integer(l->corpus.left_out));
    json_put(facts, "held_out", json_integer(api_trainer_language_held(t)));
    json_put(facts, "tokenizer", json_string(tokenizer_kind_name(tokenizer_get_kind(l->corpus.tokenizer))));
    json_put(facts, "vocabulary", json_integer(tokenizer_vocab_size(l->corpus.tokenizer)));
    api_trainer_language_put_data(t, facts);
    if (l->corpus.unigram_nats >= 0) json_put(facts, "unigram_nats_per_byte", json_real(l->corpus.unigram_nats));
    json_put(facts, "parameters", json_integer(w->parameters));
    json_put(facts, "trained", json_integer(language_run_trained(t->run)));
    json_put(facts, "layers", json_integer(w->config.num_hidden_layers));
    json_put(facts, "width", json_integer(w->config.hidden_size));
    if (w->adapter_count > 0)
        json_put(facts, "adapter",
                 json_pack("{s:I, s:f, s:f, s:s}", "rank", (json_int_t)w->lora.rank, "alpha", w->lora.alpha, "dropout",
                           w->lora.dropout, "modules", w->lora.modules));
    if (l->tried.length) json_put(facts, "weights_tried", json_string(l->tried.data));
    const train_step *step = language_run_step(t->run);
    if (*train_step_device_note(step)) {
        json_put(facts, "programs", json_string(train_step_sharing(step)));
        json_put(facts, "device_note", json_string(train_step_device_note(step)));
    }
    if (o->mpi) json_put(facts, "ranks", json_integer(mpi_size(o->mpi)));
}

static int api_trainer_language_profile_count(const propane_trainer *t) {
    return train_step_kernel_count(language_run_step(t->run));
}

static void api_trainer_language_profile_row(const propane_trainer *t, int index, propane_profile_row *out) {
    const train_kernel_time k = train_step_kernel_time(language_run_step(t->run), index);
    *out = (propane_profile_row){.kind = "kernel",
                                 .name = k.name,
                                 .stage = k.host ? "host" : "device",
                                 .flops = k.flops,
                                 .bytes = k.bytes,
                                 .runs = k.calls,
                                 .ns = k.ns,
                                 .engine_ns = k.engine_ns,
                                 .repeats = k.repeats};
}

static int32_t api_trainer_id(const corpus *c, int64_t at) {
    int bytes;
    const void *all = corpus_ids(c, &bytes);
    return bytes == 2 ? ((const uint16_t *)all)[at] : ((const int32_t *)all)[at];
}

/* Returns the index of the first token, searching from `from`, that begins a line or, failing that, a word. Returns
 * `from` if there is no such token nearby. */
static int64_t api_trainer_beginning(const corpus *c, int64_t from, int64_t end) {
    enum { SOON = 2000 };
    int64_t word = from;
    if (end > from + SOON) end = from + SOON;
    for (int64_t i = from; from > 0 && i < end; i++) {
        size_t before_length, length;
        const char *before = tokenizer_piece(c->tokenizer, api_trainer_id(c, i - 1), &before_length);
        const char *piece = tokenizer_piece(c->tokenizer, api_trainer_id(c, i), &length);
        if (!before || !before_length || !piece || !length) continue;
        const char last = before[before_length - 1];
        if (last == '\n' && *piece != '\n') return i;
        if (word == from && (last == ' ' || last == '\n' || *piece == ' ')) word = i;
    }
    return word;
}

int64_t propane_trainer_prompt(const propane_trainer *t, int index, int count, int32_t *ids, int64_t room) {
    if (!t || !ids || room < 1) return 0;
    const corpus *c = &language_of(t)->corpus;
    int64_t n = 0;
    if (t->kind != &api_trainer_language || !c->tokenizer || index < 0 || index >= count) return 0;
    if (c->instructions) {
        const train_examples *e = &c->examples;
        const int64_t i = e->count - 1 - (e->pairs ? 2 * index : index);
        for (int64_t k = i < 0 ? 0 : e->start[i]; i >= 0 && k < e->start[i + 1] && !e->learn[k] && n < room; k++)
            ids[n++] = e->ids[k];
        return n;
    }
    const int64_t held = api_trainer_language_held(t), first = held > 0 ? c->count - held : 0;
    const int64_t part = (c->count - first) / count, from = first + part * index;
    const int64_t begin = api_trainer_beginning(c, from, from + part - room);
    for (; n < room && begin + n < c->count; n++) ids[n] = api_trainer_id(c, begin + n);
    return n;
}

const trainer_kind api_trainer_language = {
    .unit = "tokens",
    .bytes = sizeof(language_trainer),
    .check = api_trainer_language_check,
    .open = api_trainer_language_open,
    .close = api_trainer_language_close,
    .describe = api_trainer_language_describe,
    .facts = api_trainer_language_facts,
    .write = api_trainer_language_write,
    .profile_count = api_trainer_language_profile_count,
    .profile_row = api_trainer_language_profile_row,
};
