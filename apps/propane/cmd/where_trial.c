/* SPDX-License-Identifier: MIT
 * Owns the trials, which measure the units by training on them. Each trial is `propane train --json` in a separate
 * process, as a user would run it, so that a crash or a hang is only a row of the table. The first step includes
 * compiling. The next steps are slowed by cold caches, a low clock frequency and an engine that wakes up. They are the
 * warm-up. The table shows separate figures for the first step and the warm-up.
 */
#include "apps/propane/cmd/where_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/power_meter.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/temporary.h"
#include "core/base/text.h"

extern char **environ;

enum { LOSSES = 4096, FEWEST_STEPS = 3, MOST_WORDS = 48, WORD_ROOM = 32, UNITS = 2, MODES = 2, STEP_LIMIT_S = 1800 };
#define WARM_UP 0.1 /* of the trial's seconds, after the first step */
static const char *const trial_devices[UNITS] = {"cpu", "ane"};
static const char *const trial_modes[MODES] = {"full", "lora"};

typedef struct trial_row {
    const char *device, *mode;
    char why[300];       /* "" if it was measured */
    char plan[100];      /* "layer, fp16, weights inputs" */
    int64_t steps;       /* completed steps */
    int64_t warm_up;     /* number of the first step and the warm-up's steps; 0 until the warm-up is over */
    double loss[LOSSES]; /* losses of the first LOSSES steps */
    double setup_s;      /* from the start of the process to the end of the first step */
    double warm_up_ms;   /* per 1,000 tokens of the warm-up, without the first step */
    double ms;           /* per 1,000 tokens after the warm-up */
    double joules;       /* per 1,000 tokens after the warm-up, for all measured parts; 0 if none is measured */
    int64_t began_ns, first_ns, warm_ns,
        last_ns;   /* times: start of the process; ends of the first, the last warm-up and the last step */
    double tokens; /* per step */
} trial_row;

/* ---- the command -------------------------------------------------------------------------------------------------------------- */

typedef struct trial_words {
    char *list[MOST_WORDS];
    char numbers[8][WORD_ROOM];
    int count, numbered;
} trial_words;

static void trial_add(trial_words *w, const char *word) {
    if (w->count < MOST_WORDS - 1) w->list[w->count++] = (char *)(uintptr_t)word;
}

static void trial_add_number(trial_words *w, const char *flag, int64_t value) {
    char *number = w->numbers[w->numbered++];
    snprintf(number, WORD_ROOM, "%lld", (long long)value);
    trial_add(w, flag);
    trial_add(w, number);
}

static bool trial_has_weights(const where_trial *t) { return t->layers == 0; }

static void trial_add_model(trial_words *w, const where_trial *t) {
    if (trial_has_weights(t)) {
        trial_add(w, "--init");
        trial_add(w, t->model);
    } else if (text_ends_with(t->model, ".json")) {
        trial_add(w, "--config");
        trial_add(w, t->model);
    } else {
        trial_add_number(w, "--layers", t->layers);
        trial_add_number(w, "--width", t->width);
        trial_add_number(w, "--heads", t->heads);
    }
}

static void trial_make_words(const where_trial *t, const trial_row *r, const char *run, trial_words *w) {
    static const char *const always[] = {"--steps",     "1000000000", "--eval-every", "0",        "--checkpoint-every",
                                         "0",           "--schedule", "constant",     "--warmup", "0",
                                         "--no-report", "--json"};
    *w = (trial_words){0};
    trial_add(w, cli_argv[0]);
    trial_add(w, "train");
    trial_add_model(w, t);
    trial_add(w, "--data");
    trial_add(w, t->data);
    trial_add(w, "--run");
    trial_add(w, run);
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) trial_add(w, always[i]);
    trial_add_number(w, "--batch", t->batch);
    trial_add_number(w, "--accumulate", t->accumulate);
    trial_add_number(w, "--context", t->context);
    if (strcmp(r->mode, "lora") == 0) trial_add_number(w, "--lora-rank", t->lora_rank ? t->lora_rank : 8);
    trial_add(w, "--device");
    trial_add(w, r->device);
    const bool engine = strcmp(r->device, "ane") == 0;
    trial_add(w, engine ? "--plan" : "--blas");
    trial_add(w, "auto");
    if (engine && t->stream) {
        trial_add(w, "--stream");
        trial_add(w, t->stream);
    }
}

/* ---- the process -------------------------------------------------------------------------------------------------------------- */

static propane_status trial_start(const trial_words *w, const char *complaints, pid_t *pid, int *out,
                                  propane_error *err) {
    int pipes[2];
    posix_spawn_file_actions_t actions;
    if (pipe(pipes) != 0) return propane_fail(err, PROPANE_ERR_IO, "no pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) fcntl(pipes[i], F_SETFD, FD_CLOEXEC);
    int code = posix_spawn_file_actions_init(&actions);
    if (!code) {
        code = posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
        if (!code)
            code = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, complaints, O_WRONLY | O_CREAT | O_TRUNC,
                                                    0600);
        if (!code) code = posix_spawnp(pid, w->list[0], &actions, NULL, w->list, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(pipes[1]);
    *out = pipes[0];
    if (!code) return PROPANE_OK;
    close(pipes[0]);
    return propane_fail(err, PROPANE_ERR_IO, "%s cannot be started: %s", w->list[0], strerror(code));
}

static bool trial_is_warm(const trial_row *r) { return r->warm_up > 0; }

static void trial_take_step(const where_trial *t, trial_row *r, double loss) {
    r->last_ns = clock_ns();
    if (r->steps < LOSSES) r->loss[r->steps] = loss;
    if (r->steps++ == 0) {
        r->first_ns = r->last_ns;
        r->setup_s = (double)(r->first_ns - r->began_ns) * 1e-9;
    } else if (!trial_is_warm(r) && (double)(r->last_ns - r->first_ns) * 1e-9 >= WARM_UP * t->seconds) {
        r->warm_up = r->steps;
        r->warm_ns = r->last_ns;
    }
}

/* Reads one JSON object per line; the object of a step has a learning rate. Lines that are not JSON are skipped. */
static void trial_take_line(const where_trial *t, trial_row *r, const char *line, size_t length) {
    json_error_t e;
    json_t *j = json_load(line, length, &e);
    const json_t *loss = json_object_get(j, "loss");
    if (json_object_get(j, "lr") && loss) trial_take_step(t, r, json_is_number(loss) ? json_number_value(loss) : NAN);
    json_decref(j);
}

/* Reads output of the process and handles its complete lines. Returns false if the process has closed its output. */
static bool trial_read(const where_trial *t, int fd, text *held, trial_row *r) {
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n <= 0) return n < 0 && errno == EINTR;
    text_append_n(held, bytes, (size_t)n);
    size_t from = 0;
    for (char *end; held->data && (end = memchr(held->data + from, '\n', held->length - from));) {
        trial_take_line(t, r, held->data + from, (size_t)(end - held->data) - from);
        from = (size_t)(end - held->data) + 1;
    }
    if (from) memmove(held->data, held->data + from, held->length - from);
    held->length -= from;
    return !held->failed;
}

/* Returns whether the trial has run long enough. Time is counted up to the end of the last step, so that no part of a
 * step counts. */
static bool trial_is_complete(const where_trial *t, const trial_row *r) {
    return trial_is_warm(r) && r->steps - r->warm_up >= FEWEST_STEPS &&
           (double)(r->last_ns - r->warm_ns) * 1e-9 >= t->seconds;
}

static bool trial_hangs(const trial_row *r) {
    const int64_t since = r->steps ? r->last_ns : r->began_ns;
    return (double)(clock_ns() - since) * 1e-9 > STEP_LIMIT_S;
}

/* Reads the trial's output until it is complete, hangs, or the process ends. Measures the energy after the warm-up. */
static void trial_follow(const where_trial *t, int fd, trial_row *r) {
    text held = {0};
    energy_meter *meter = NULL;
    energy_reading power;
    for (bool open = true; open && !cli_interrupted && !trial_is_complete(t, r) && !trial_hangs(r);) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        const bool warm = trial_is_warm(r);
        if (poll(&wait, 1, 100) > 0) open = trial_read(t, fd, &held, r);
        if (!warm && trial_is_warm(r) && power_open(&meter, NULL) == PROPANE_OK)
            (void)!energy_read(meter, &power, NULL);
    }
    if (meter && energy_read(meter, &power, NULL) == PROPANE_OK)
        for (int i = 0; i < ENERGY_PARTS; i++)
            if (!power.why[i]) r->joules += power.joules[i];
    energy_close(meter);
    text_deinit(&held);
}

/* Asks the process to end, and kills it after one minute. In that time it can write a checkpoint. Returns its
 * status. */
static int trial_end(pid_t pid) {
    int state = 0;
    kill(pid, SIGTERM);
    for (const int64_t limit = clock_ns() + (int64_t)60e9; clock_ns() < limit; usleep(20000))
        if (waitpid(pid, &state, WNOHANG) == pid) return state;
    kill(pid, SIGKILL);
    waitpid(pid, &state, 0);
    return state;
}

/* ---- a row -------------------------------------------------------------------------------------------------------------------- */

/* Reads the plan and the tokens per step from the first record of the run's log. */
static void trial_read_start(const char *run, trial_row *r) {
    char path[1200], line[1 << 16];
    json_error_t e;
    snprintf(path, sizeof path, "%s/log.jsonl", run);
    FILE *log = fopen(path, "r");
    if (!log) return;
    const char *got = fgets(line, sizeof line, log);
    fclose(log);
    if (!got) return;
    json_t *j = json_load(line, strlen(line), &e);
    static const char *const keys[] = {"plan", "precision", "weights"};
    const char *words[3];
    for (int i = 0; i < 3; i++) {
        words[i] = json_string_value(json_object_get(j, keys[i]));
        if (!words[i]) words[i] = "-";
    }
    snprintf(r->plan, sizeof r->plan, "%.20s, %.10s, weights %.20s", words[0], words[1], words[2]);
    r->tokens = json_number_value(json_object_get(j, "tokens_per_step"));
    json_decref(j);
}

/* Sets `why` to the last line of the process's error output. If there is none, `why` states how the process ended. */
static void trial_read_complaint(const char *path, int state, bool hung, trial_row *r) {
    char *data = NULL;
    size_t length = 0, used;
    if (hung)
        snprintf(r->why, sizeof r->why, "no step ended within %d s", STEP_LIMIT_S);
    else if (WIFSIGNALED(state))
        snprintf(r->why, sizeof r->why, "the process was killed by signal %d", WTERMSIG(state));
    else
        snprintf(r->why, sizeof r->why, "the process ended by itself");
    used = strlen(r->why);
    if (r->steps)
        snprintf(r->why + used, sizeof r->why - used, ", after %lld step%s", (long long)r->steps,
                 text_plural(r->steps));
    if (file_read(path, (size_t)1 << 20, &data, &length, NULL) != PROPANE_OK) return;
    while (length && data[length - 1] == '\n') length--;
    size_t from = length;
    while (from && data[from - 1] != '\n') from--;
    static const char name[] = "propane train: ";
    if (length - from > sizeof name && strncmp(data + from, name, sizeof name - 1) == 0) from += sizeof name - 1;
    if (length > from) text_harmless(r->why, sizeof r->why, data + from, length - from, "");
    mem_free(data);
}

static propane_status trial_measure(const where_trial *t, const char *folder, trial_row *r, propane_error *err) {
    char run[1100], complaints[1100];
    trial_words words;
    pid_t pid = -1;
    int fd = -1, state;
    snprintf(run, sizeof run, "%s/%s-%s", folder, r->device, r->mode);
    snprintf(complaints, sizeof complaints, "%s/errors", folder);
    trial_make_words(t, r, run, &words);
    r->began_ns = clock_ns();
    PROPANE_TRY(trial_start(&words, complaints, &pid, &fd, err));
    trial_follow(t, fd, r);
    const bool hung = trial_hangs(r);
    close(fd);
    state = trial_end(pid);
    trial_read_start(run, r);
    const double tokens = r->tokens * (double)(r->steps - r->warm_up);
    if (!trial_is_complete(t, r) || tokens <= 0) {
        trial_read_complaint(complaints, state, hung, r);
    } else {
        r->warm_up_ms = (double)(r->warm_ns - r->first_ns) * 1e-3 / (r->tokens * (double)(r->warm_up - 1));
        r->ms = (double)(r->last_ns - r->warm_ns) * 1e-3 / tokens;
        r->joules *= 1e3 / tokens;
    }
    (void)!file_remove_tree(run, NULL);
    return PROPANE_OK;
}

/* ---- the table ---------------------------------------------------------------------------------------------------------------- */

/* Returns the number of steps whose losses both trials have; 0 if one of them failed. */
static int64_t trial_common_steps(const trial_row *a, const trial_row *b) {
    int64_t n = a->steps < b->steps ? a->steps : b->steps;
    if (a->why[0] || b->why[0]) return 0;
    return n < LOSSES ? n : LOSSES;
}

static void trial_print_losses(const trial_row *cpu, const trial_row *other) {
    const int64_t n = trial_common_steps(cpu, other);
    if (n < 1) return;
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(cpu->loss[i] - other->loss[i]));
    printf("  %s: after %lld step%s the loss is %.4f on %s and %.4f on %s; they differ by %.4f at most\n", cpu->mode,
           (long long)n, text_plural(n), cpu->loss[n - 1], cpu->device, other->loss[n - 1], other->device, most);
}

static void trial_print_text(const where_trial *t, const trial_row *rows, int count) {
    printf("measured on this machine per 1,000 tokens, batch %lld x %lld, update after %lld\n", (long long)t->batch,
           (long long)t->context, (long long)t->accumulate);
    printf("%-5s %-4s %-32s %9s %8s %7s %9s %9s\n", "unit", "mode", "plan", "ms", "J", "steps", "first", "warm-up");
    for (int i = 0; i < count; i++) {
        const trial_row *r = &rows[i];
        printf("%-5s %-4s ", r->device, r->mode);
        if (r->why[0]) {
            printf("%s\n", r->why);
            continue;
        }
        printf("%-32s %9.1f ", r->plan, r->ms);
        if (r->joules > 0)
            printf("%8.2f ", r->joules);
        else
            printf("%8s ", "-");
        printf("%7lld %7.1f s %9.1f\n", (long long)(r->steps - r->warm_up), r->setup_s, r->warm_up_ms);
    }
    printf("  J: energy of the whole machine, including other work\n");
    printf("  first: time until the end of the first step; warm-up: ms per 1,000 tokens in the steps of the next %g s\n"
           "  ms, J and steps: without the first step and the warm-up\n",
           WARM_UP * t->seconds);
    for (int i = 0; i + 1 < count; i += UNITS) trial_print_losses(&rows[i], &rows[i + 1]);
    printf("for comparison, with MLX:\n");
    for (int i = 0; i < count; i += UNITS)
        printf("  mlx_lm.lora --model %s --train --data FOLDER --fine-tune-type %s --batch-size %lld --iters 100\n",
               trial_has_weights(t) ? t->model : "MODEL", rows[i].mode, (long long)(t->batch * t->accumulate));
}

static json_t *trial_row_json(const trial_row *r) {
    if (r->why[0]) return json_pack("{s:s, s:s, s:s}", "unit", r->device, "mode", r->mode, "refused", r->why);
    json_t *losses = json_array(), *out;
    for (int64_t i = 0; i < r->steps && i < LOSSES; i++)
        json_add(losses, isfinite(r->loss[i]) ? json_real(r->loss[i]) : json_null());
    out = json_pack("{s:s, s:s, s:s, s:f, s:I, s:f, s:I, s:f, s:o}", "unit", r->device, "mode", r->mode, "plan",
                    r->plan, "ms", r->ms, "steps", (json_int_t)(r->steps - r->warm_up), "first_step_s", r->setup_s,
                    "warm_up_steps", (json_int_t)(r->warm_up - 1), "warm_up_ms", r->warm_up_ms, "loss", losses);
    if (r->joules > 0) json_put(out, "joules", json_real(r->joules));
    return out;
}

static propane_status trial_print_json(const where_trial *t, const trial_row *rows, int count, propane_error *err) {
    char *line = NULL;
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_add(list, trial_row_json(&rows[i]));
    json_t *out = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "kind", "measured", "version", propane_version(),
                            "model", t->model, "batch", (json_int_t)t->batch, "context", (json_int_t)t->context,
                            "accumulate", (json_int_t)t->accumulate, "rows", list);
    const propane_status status = json_print(out, JSON_INDENT(1) | JSON_REAL_PRECISION(6), &line, NULL, err);
    if (line) printf("%s\n", line);
    mem_free(line);
    json_decref(out);
    return status;
}

propane_status where_trial_run(const where_trial *t, propane_error *err) {
    char *folder = NULL;
    int count = 0, measured = 0;
    PROPANE_TRY(temporary_scratch("propane-trial", &folder, err));
    trial_row *rows = mem_alloc(UNITS * MODES * sizeof *rows);
    propane_status status = rows ? PROPANE_OK : propane_fail_memory(err, UNITS * MODES * sizeof *rows);
    for (int mode = 0; mode < MODES && !status; mode++) {
        if (t->mode ? strcmp(t->mode, trial_modes[mode]) != 0 : mode && !trial_has_weights(t)) continue;
        for (int unit = 0; unit < UNITS && !status && !cli_interrupted; unit++) {
            trial_row *r = &rows[count++];
            r->device = trial_devices[unit], r->mode = trial_modes[mode];
            if (!t->json) fprintf(stderr, "propane where: training %s on %s\n", r->mode, r->device);
            status = trial_measure(t, folder, r, err);
            measured += !r->why[0];
        }
    }
    (void)!file_remove_tree(folder, NULL);
    mem_free(folder);
    if (!status && !cli_interrupted) status = t->json ? trial_print_json(t, rows, count, err) : PROPANE_OK;
    if (!status && !cli_interrupted && !t->json && measured) trial_print_text(t, rows, count);
    if (!status && !measured && !cli_interrupted)
        status = propane_fail(err, PROPANE_ERR_DEVICE, "no unit could be measured: %s", count ? rows[0].why : "");
    mem_free(rows);
    return status;
}
