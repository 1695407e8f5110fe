/* SPDX-License-Identifier: MIT
 * Owns the start record, the names of TensorBoard's scalars and the samples of the report.
 */
#include "report/run/telemetry.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "report/run/html_report.h"

enum { SAMPLES = 3, SAMPLE_TOKENS = 80, PROMPT_TOKENS = 16, SAMPLE_CONTEXT = 128, SAMPLE_PARAMETERS = 60000000 };

/* ---- the start record -------------------------------------------------------------------------------------------------------- */

/* Writes the command line with quotes, so that it can be typed again in a shell. */
static void telemetry_put_command(text *out, const telemetry_options *o) {
    for (int i = 0; i < o->argc; i++) {
        const char *word = o->argv[i];
        bool plain =
            *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%")];
        text_append(out, i ? " " : "");
        if (!plain) text_append(out, "'");
        for (const char *c = word; *c; c++)
            if (*c == '\'')
                text_append(out, "'\\''");
            else
                text_append_n(out, c, 1);
        if (!plain) text_append(out, "'");
    }
}

/* Adds facts about the machine, with the processor's name if /proc/cpuinfo has it. */
static void telemetry_put_machine(json_t *o) {
    struct utsname u;
    char line[300];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        json_put(o, "machine_processor", json_string(colon + 2));
        break;
    }
    if (file) fclose(file);
    if (uname(&u) == 0) {
        snprintf(line, sizeof line, "%.60s %.80s, %.60s", u.sysname, u.release, u.machine);
        json_put(o, "machine_system", json_string(line));
    }
    json_put(o, "machine_cores", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_put(o, "machine_threads", json_integer(pool_threads()));
    if (mem_physical()) json_put(o, "machine_memory_gb", json_real((double)mem_physical() / 1e9));
}

static json_t *telemetry_record(const telemetry_options *o) {
    text command = {0};
    char now[64] = "";
    time_t seconds = time(NULL);
    struct tm local;
    if (localtime_r(&seconds, &local)) strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S %z", &local);
    telemetry_put_command(&command, o);
    json_t *r = json_pack("{s:s, s:s, s:s, s:s}", "event", "start", "time", now, "version", propane_version(),
                          "command", command.data ? command.data : "");
    text_deinit(&command);
    if (r && o->log) (void)json_object_update(r, (json_t *)(uintptr_t)o->log);
    return r;
}

/* ---- while it runs -------------------------------------------------------------------------------------------------------- */

static const char *telemetry_last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Returns the seconds of training in the log, which a resumed run continues. */
static double telemetry_seconds_of(const char *dir) {
    run_history h = {0};
    bool more;
    char *path = run_log_path(dir, RUN_LOG);
    double seconds = 0;
    if (path && run_history_read(&h, path, &more, NULL) == PROPANE_OK)
        for (int64_t i = 0; i < h.count; i++)
            if (isfinite(h.points[i].seconds)) seconds = h.points[i].seconds;
    run_history_deinit(&h);
    mem_free(path);
    return seconds;
}

propane_status telemetry_open(telemetry *t, const telemetry_options *o, propane_error *err) {
    json_t *record = telemetry_record(o);
    *t = (telemetry){.run_dir = o->run_dir, .seconds_before = o->resume ? telemetry_seconds_of(o->run_dir) : 0};
    run_log_open(&t->log, o->run_dir, o->resume);
    if (record) telemetry_put_machine(record);
    run_log_write(&t->log, record);
    if (!o->logdir || !*o->logdir) return PROPANE_OK;
    char *dir = run_log_path(o->logdir, telemetry_last_part(o->run_dir));
    propane_status status = dir ? tensorboard_open(dir, &t->board, err) : propane_fail_memory(err, strlen(o->logdir));
    mem_free(dir);
    return status;
}

static void telemetry_flush_board(telemetry *t) {
    if (tensorboard_flush(t->board, NULL) == PROPANE_OK) return;
    tensorboard_close(t->board); /* if the disk is full, writing the checkpoint will report that */
    t->board = NULL;
}

void telemetry_step(telemetry *t, const propane_step *r, double seconds, const energy_reading *power) {
    run_log_step(&t->log, r, t->seconds_before + seconds, power);
    tensorboard_scalar(t->board, r->step, "train/loss", r->loss);
    tensorboard_scalar(t->board, r->step, "train/learning_rate", r->lr);
    tensorboard_scalar(t->board, r->step, "train/gradient_norm", r->gradient_norm);
    tensorboard_scalar(t->board, r->step, "train/loss_scale", r->loss_scale);
    tensorboard_scalar(t->board, r->step, "speed/tokens_per_s", r->rate);
    tensorboard_scalar(t->board, r->step, "speed/device_ms", r->device_ms);
    tensorboard_scalar(t->board, r->step, "speed/host_ms", r->host_ms);
    tensorboard_scalar(t->board, r->step, "machine/peak_memory_mb", run_peak_memory() / 1e6);
    if (r->simulated && r->device_ms > 0)
        tensorboard_scalar(t->board, r->step, "machine/simulated_watts", r->energy_j / (r->device_ms / 1e3));
    for (int i = 0; power && i < ENERGY_PARTS; i++) {
        char name[40];
        snprintf(name, sizeof name, "machine/%s_joules", energy_part_name((energy_part)i));
        if (!power->why[i]) tensorboard_scalar(t->board, r->step, name, power->joules[i]);
    }
    telemetry_flush_board(t);
}

void telemetry_evaluation(telemetry *t, const propane_evaluation *e) {
    run_log_evaluation(&t->log, e);
    tensorboard_scalar(t->board, e->step, "validation/loss", e->loss);
    if (e->nats_per_byte >= 0) tensorboard_scalar(t->board, e->step, "validation/nats_per_byte", e->nats_per_byte);
    if (e->accuracy >= 0) tensorboard_scalar(t->board, e->step, "validation/accuracy", e->accuracy);
    telemetry_flush_board(t);
}

void telemetry_end(telemetry *t, const char *state, int64_t step) {
    run_log_write(&t->log, json_pack("{s:s, s:I}", "event", state, "step", (json_int_t)step));
}

void telemetry_close(telemetry *t) {
    run_log_close(&t->log);
    tensorboard_close(t->board);
    t->board = NULL;
}

/* ---- the report ------------------------------------------------------------------------------------------------------------- */

typedef struct sampler {
    text prompts[SAMPLES], texts[SAMPLES];
    int count;
    int64_t prompt_room;
} sampler;

static bool telemetry_take_token(void *context, const propane_token *token) {
    text *to = context;
    text_append_n(to, token->text, token->length);
    return !to->failed;
}

static propane_status telemetry_write_sample(const propane_trainer *trainer, propane_generator *g, sampler *s,
                                             bool *more, propane_error *err) {
    int32_t prompt[SAMPLE_CONTEXT];
    const propane_tokenizer *t = propane_trainer_tokenizer(trainer);
    const int64_t n = propane_trainer_prompt(trainer, s->count, SAMPLES, prompt, s->prompt_room);
    const int64_t room = propane_generator_context(g) - n;
    propane_sampling sampling = {.size = sizeof sampling};
    char *begin = NULL;
    size_t length = 0;
    *more = n >= 1 && room >= 1;
    if (!*more) return PROPANE_OK;
    propane_sampling_default(&sampling);
    sampling.count = room < SAMPLE_TOKENS ? room : SAMPLE_TOKENS;
    PROPANE_TRY(propane_tokenizer_decode(t, prompt, n, &begin, &length, err));
    text_append_n(&s->prompts[s->count], begin, length);
    propane_free(begin);
    return propane_generate_ids(g, prompt, n, &sampling, telemetry_take_token, &s->texts[s->count++], NULL, err);
}

static propane_status telemetry_write_samples(const propane_trainer *trainer, const propane_model *model, sampler *s,
                                              propane_error *err) {
    propane_model_info info = {.size = sizeof info};
    propane_generator *g = NULL;
    bool more = propane_model_describe(model, &info);
    const propane_generator_options how = {.size = sizeof how,
                                           .weights = "fp32",
                                           .context = info.context < SAMPLE_CONTEXT ? info.context : SAMPLE_CONTEXT};
    propane_status status = propane_generator_create(model, propane_trainer_tokenizer(trainer), &how, &g, err);
    while (status == PROPANE_OK && more && s->count < SAMPLES)
        status = telemetry_write_sample(trainer, g, s, &more, err);
    propane_generator_free(g);
    return status;
}

/* Lets the model write samples if it is small enough to do so quickly. */
static propane_status telemetry_samples(const propane_trainer *trainer, const json_t *facts, sampler *s,
                                        propane_error *err) {
    propane_model *model = NULL;
    const json_t *context = json_object_get(json_object_get(facts, "options"), "context");
    s->prompt_room = json_object_get(facts, "examples") ? SAMPLE_CONTEXT / 2 : PROMPT_TOKENS;
    if (s->prompt_room > json_integer_value(context) / 2) s->prompt_room = json_integer_value(context) / 2;
    if (json_integer_value(json_object_get(facts, "parameters")) > SAMPLE_PARAMETERS) return PROPANE_OK;
    PROPANE_TRY(propane_trainer_model(trainer, &model, err));
    const propane_status status = telemetry_write_samples(trainer, model, s, err);
    propane_model_free(model);
    return status;
}

propane_status telemetry_page(const telemetry *t, propane_error *err) {
    run_set set;
    text page = {0};
    char *path = run_log_path(t->run_dir, RUN_REPORT);
    propane_status status = run_set_open(&set, &t->run_dir, 1, err);
    if (status == PROPANE_OK && !path) status = propane_fail_memory(err, strlen(t->run_dir));
    if (status == PROPANE_OK) status = run_set_read(&set, err);
    if (status == PROPANE_OK) status = report_print(&set, &page, err);
    if (status == PROPANE_OK) status = file_write(path, page.data, page.length, err);
    text_deinit(&page);
    run_set_close(&set);
    mem_free(path);
    return status;
}

propane_status telemetry_report(telemetry *t, const propane_trainer *trainer, const json_t *facts, propane_error *err) {
    sampler s = {0};
    propane_error none = {0};
    (void)telemetry_samples(trainer, facts, &s, &none); /* a page without samples is better than none */
    json_t *record = json_object(), *list = json_array();
    for (int i = 0; i < s.count; i++) {
        json_t *sample = json_object();
        json_put(sample, "prompt", json_bytes(s.prompts[i].data ? s.prompts[i].data : "", s.prompts[i].length));
        json_put(sample, "text", json_bytes(s.texts[i].data ? s.texts[i].data : "", s.texts[i].length));
        json_add(list, sample);
    }
    json_put(record, "samples", list);
    if (s.count)
        run_log_write(&t->log, record); /* with the record, `propane report` can show the samples later */
    else
        json_decref(record);
    for (int i = 0; i < SAMPLES; i++) {
        text_deinit(&s.prompts[i]);
        text_deinit(&s.texts[i]);
    }
    return telemetry_page(t, err);
}
