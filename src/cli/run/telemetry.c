/* SPDX-License-Identifier: MIT
 * Owns the start record, the names of TensorBoard's scalars and the samples of the report.
 */
#include "cli/run/telemetry.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "api/run_folder.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/run/html_report.h"
#include "infer/generate.h"

enum { SAMPLES = 3, SAMPLE_TOKENS = 80, PROMPT_TOKENS = 16, SAMPLE_CONTEXT = 128, SAMPLE_PARAMETERS = 60000000 };

/* ---- the start record -------------------------------------------------------------------------------------------------------- */

/* As it can be typed again. */
static void telemetry_put_command(text *out) {
    for (int i = 0; i < cli_argc; i++) {
        const char *word = cli_argv[i];
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

/* The processor's name where the system tells it in a file. */
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

static void telemetry_put_option(json_t *record, const train_option *row, const train_options *o) {
    const void *at = train_option_at(row, o);
    json_t *value = row->type == TRAIN_INT    ? json_integer(*(const int64_t *)at)
                    : row->type == TRAIN_REAL ? json_real(*(const double *)at)
                    : row->type == TRAIN_BOOL ? json_boolean(*(const bool *)at)
                                              : json_string(*(const char *const *)at);
    json_put(record, row->key, value);
}

json_t *telemetry_record(const train_options *o) {
    text command = {0};
    char now[64] = "";
    time_t seconds = time(NULL);
    struct tm local;
    if (localtime_r(&seconds, &local)) strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S %z", &local);
    telemetry_put_command(&command);
    json_t *r = json_pack("{s:s, s:s, s:s, s:s}", "event", "start", "time", now, "version", propane_version(),
                          "command", command.data ? command.data : "");
    text_deinit(&command);
    for (int i = 0; r && i < TRAIN_OPTIONS; i++) {
        const train_option_log log = train_option_rows[i].use[o->kind].log;
        if (log == TRAIN_LOGGED || (log == TRAIN_ADAPTERS && o->lora_rank > 0))
            telemetry_put_option(r, &train_option_rows[i], o);
    }
    return r;
}

/* ---- while it runs -------------------------------------------------------------------------------------------------------- */

static const char *telemetry_last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Seconds of training in the log so far. */
static double telemetry_seconds_of(const char *dir) {
    run_history h = {0};
    bool more;
    char *path = run_path(dir, RUN_LOG);
    double seconds = 0;
    if (path && run_history_read(&h, path, &more, NULL) == PROPANE_OK)
        for (int64_t i = 0; i < h.count; i++)
            if (isfinite(h.points[i].seconds)) seconds = h.points[i].seconds;
    run_history_deinit(&h);
    mem_free(path);
    return seconds;
}

propane_status telemetry_open(telemetry *t, const train_options *o, json_t *record, const char *logdir,
                              propane_error *err) {
    *t = (telemetry){
        .options = o, .run_dir = o->run_dir, .seconds_before = o->resume ? telemetry_seconds_of(o->run_dir) : 0};
    run_log_open(&t->log, o->run_dir, o->resume);
    if (record) telemetry_put_machine(record);
    run_log_write(&t->log, record);
    if (!logdir || !*logdir) return PROPANE_OK;
    char *dir = run_path(logdir, telemetry_last_part(o->run_dir));
    propane_status status = dir ? tensorboard_open(dir, &t->board, err) : propane_fail_memory(err, strlen(logdir));
    mem_free(dir);
    return status;
}

static void telemetry_flush_board(telemetry *t) {
    if (tensorboard_flush(t->board, NULL) == PROPANE_OK) return;
    tensorboard_close(t->board); /* the disk is full: the checkpoint will tell */
    t->board = NULL;
}

void telemetry_step(telemetry *t, const train_report *r, double seconds, const energy_reading *power) {
    run_log_step(&t->log, r, t->seconds_before + seconds, power);
    tensorboard_scalar(t->board, r->step, "train/loss", r->loss);
    tensorboard_scalar(t->board, r->step, "train/learning_rate", r->lr);
    tensorboard_scalar(t->board, r->step, "train/gradient_norm", r->gradient_norm);
    tensorboard_scalar(t->board, r->step, "train/loss_scale", r->loss_scale);
    tensorboard_scalar(t->board, r->step, "speed/tokens_per_s", r->tokens_per_s);
    tensorboard_scalar(t->board, r->step, "speed/device_ms", r->device_ms);
    tensorboard_scalar(t->board, r->step, "speed/host_ms", r->host_ms);
    tensorboard_scalar(t->board, r->step, "machine/peak_memory_mb", run_peak_memory() / 1e6);
    if (r->simulated.simulated && r->device_ms > 0)
        tensorboard_scalar(t->board, r->step, "machine/simulated_watts", r->simulated.energy_j / (r->device_ms / 1e3));
    for (int i = 0; power && i < ENERGY_PARTS; i++) {
        char name[40];
        snprintf(name, sizeof name, "machine/%s_joules", energy_part_name((energy_part)i));
        if (!power->why[i]) tensorboard_scalar(t->board, r->step, name, power->joules[i]);
    }
    telemetry_flush_board(t);
}

void telemetry_evaluation(telemetry *t, const train_evaluation *e) {
    run_log_evaluation(&t->log, e);
    tensorboard_scalar(t->board, e->step, "validation/loss", e->val_loss);
    if (e->val_nats_per_byte >= 0)
        tensorboard_scalar(t->board, e->step, "validation/nats_per_byte", e->val_nats_per_byte);
    if (e->val_accuracy >= 0) tensorboard_scalar(t->board, e->step, "validation/accuracy", e->val_accuracy);
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
    const tokenizer *tokenizer;
    tokenizer_stream stream;
    text prompts[SAMPLES], texts[SAMPLES];
    int count;
} sampler;

static bool telemetry_take_token(void *context, int32_t id, const float *logits) {
    sampler *s = context;
    tokenizer_decode(s->tokenizer, &s->stream, id, &s->texts[s->count]);
    return !s->texts[s->count].failed;
}

/* Where sample `n` begins: in an example that was held out, up to its answer; or somewhere in the held-out text. */
static int64_t telemetry_find_prompt(const corpus *data, const train_options *o, int n,
                                     int32_t prompt[SAMPLE_CONTEXT]) {
    int64_t count = 0;
    if (data->instructions) {
        const train_examples *e = &data->examples;
        int64_t i = e->count - 1 - n;
        for (int64_t k = i < 0 ? 0 : e->start[i]; i >= 0 && k < e->start[i + 1] && !e->learn[k]; k++)
            if (count < SAMPLE_CONTEXT / 2) prompt[count++] = e->ids[k];
        return count;
    }
    int bytes;
    const void *ids = corpus_ids(data, &bytes);
    int64_t held = (int64_t)((double)data->count * o->held_out), begin = held > 0 ? data->count - held : 0;
    begin += (data->count - begin) / SAMPLES * n;
    for (; count < PROMPT_TOKENS && begin + count < data->count; count++)
        prompt[count] = bytes == 2 ? ((const uint16_t *)ids)[begin + count] : ((const int32_t *)ids)[begin + count];
    return count;
}

static propane_status telemetry_write_samples(const model_weights *w, const train_options *o, const corpus *data,
                                              sampler *s, propane_error *err) {
    propane_device *device = NULL;
    infer *m = NULL;
    int32_t prompt[SAMPLE_CONTEXT];
    int64_t longest = w->config.max_position_embeddings;
    const infer_options how = {.dtype = MIL_fp32, .context = longest < SAMPLE_CONTEXT ? longest : SAMPLE_CONTEXT};
    const infer_sampling sampling = {.temperature = 0.8, .top_p = 0.95, .seed = 1};
    PROPANE_TRY(propane_device_open("cpu", &device, err));
    propane_status status = infer_create(device, w, &how, &m, err);
    while (status == PROPANE_OK && s->count < SAMPLES) {
        int64_t n = telemetry_find_prompt(data, o, s->count, prompt), room = how.context - n;
        if (n < 1 || room < 1) break;
        s->stream = (tokenizer_stream){0};
        for (int64_t i = 0; i < n; i++) tokenizer_decode(s->tokenizer, &s->stream, prompt[i], &s->prompts[s->count]);
        infer_reset(m);
        status = infer_generate(m, prompt, n, 0, room < SAMPLE_TOKENS ? room : SAMPLE_TOKENS,
                                tokenizer_eos(s->tokenizer), &sampling, telemetry_take_token, s, NULL, err);
        tokenizer_decode_end(&s->stream, &s->texts[s->count]);
        s->count++;
    }
    infer_free(m);
    propane_device_close(device);
    return status;
}

/* With adapters the model is read again, because the trainer's own stays as it is. */
static propane_status telemetry_samples(const telemetry *t, const model_weights *w, const corpus *data, sampler *s,
                                        propane_error *err) {
    const train_options *o = t->options;
    model_weights *merged = NULL;
    if (w->parameters > SAMPLE_PARAMETERS) return PROPANE_OK;
    if (o->lora_rank > 0) PROPANE_TRY(run_model(o->base, o->run_dir, &merged, err));
    propane_status status = telemetry_write_samples(merged ? merged : w, o, data, s, err);
    model_weights_free(merged);
    return status;
}

static propane_status telemetry_write_page(const telemetry *t, const report_sample *shown, int count,
                                           propane_error *err) {
    run_history h = {0};
    text page = {0};
    bool more;
    char *log = run_path(t->run_dir, RUN_LOG), *path = run_path(t->run_dir, RUN_REPORT);
    propane_status status = log && path ? run_history_read(&h, log, &more, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) status = report_print(&h, telemetry_last_part(t->run_dir), shown, count, &page, err);
    if (status == PROPANE_OK) status = file_write(path, page.data, page.length, err);
    text_deinit(&page);
    run_history_deinit(&h);
    mem_free(log);
    mem_free(path);
    return status;
}

propane_status telemetry_page(const telemetry *t, propane_error *err) { return telemetry_write_page(t, NULL, 0, err); }

propane_status telemetry_report(const telemetry *t, const model_weights *w, const corpus *data, propane_error *err) {
    sampler s = {.tokenizer = data->tokenizer};
    report_sample shown[SAMPLES];
    (void)telemetry_samples(t, w, data, &s, NULL); /* a page without samples is better than none */
    for (int i = 0; i < s.count; i++)
        shown[i] = (report_sample){s.prompts[i].data ? s.prompts[i].data : "", s.texts[i].data ? s.texts[i].data : ""};
    propane_status status = telemetry_write_page(t, shown, s.count, err);
    for (int i = 0; i < SAMPLES; i++) {
        text_deinit(&s.prompts[i]);
        text_deinit(&s.texts[i]);
    }
    return status;
}
