/* SPDX-License-Identifier: MIT
 * Owns the steps of propane train, from parsing the command line to the last record of the log.
 */
#include "apps/propane/cmd/train_job.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/propane/cmd/background.h"
#include "apps/propane/cmd/host_flags.h"
#include "apps/propane/cmd/lost_ranks.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

propane_status train_job_init(train_job *j, const train_job_kind *kind, propane_training training, propane_error *err) {
    j->kind = kind;
    j->report = true;
    j->form = "auto";
    j->arena = arena_create();
    if (!j->arena) return propane_fail_memory(err, 0);
    PROPANE_TRY(propane_options_create(training, &j->options, err));
    return propane_options_set(j->options, "run", "propane-run", err);
}

void train_job_deinit(train_job *j) {
    telemetry_close(&j->telemetry);
    cli_on_interrupt(NULL, NULL);
    propane_trainer_free(j->trainer);
    json_decref(j->facts);
    propane_options_free(j->options);
    arena_free(j->arena);
}

/* ---- flags ------------------------------------------------------------------------------------------------------------------- */

void train_job_show_flags(train_job *j, cli_flag out[TRAIN_JOB_SHOW_FLAGS]) {
    out[0] = (cli_flag){"--json", CLI_SWITCH, &j->json, .help = "print one JSON object per line instead of text"};
    out[1] = (cli_flag){"--logdir", CLI_TEXT, &j->logdir, .words = "DIR",
                        .help = "write TensorBoard event files to a folder named after the run"};
    out[2] = (cli_flag){"--report", CLI_SWITCH, &j->report, .help = "write report.html to the run folder at the end"};
    out[3] = (cli_flag){"--progress", CLI_CHOICE, &j->form, .words = PROGRESS_FORMS,
                        .help = "bar: a line that is redrawn; plain: lines with the time; auto: a bar on a terminal, "
                                "plain lines otherwise"};
    out[4] = (cli_flag){"--background", CLI_SWITCH, &j->background,
                        .help = "train at the lowest priority, and pause while the machine is hot or on battery power"};
}

static propane_status train_job_set_place(void *object, const char *name, const char *value, propane_error *err) {
    train_job *j = object;
    (void)name;
    j->place = arena_string(j->arena, value);
    return j->place ? PROPANE_OK : propane_fail_memory(err, strlen(value));
}

cli_flag train_job_place_flag(train_job *j, const char *help) {
    return (cli_flag){"MODEL", CLI_TEXT, .help = help, .standard = "", .set = train_job_set_place, .object = j};
}

static propane_status train_job_set(void *options, const char *name, const char *value, propane_error *err) {
    return propane_options_set(options, name, value, err);
}

/* Ignores --config, because train_job_load_all has already read its file, before the other flags. */
static propane_status train_job_skip(void *options, const char *name, const char *value, propane_error *err) {
    return PROPANE_OK;
}

#define TRAIN_JOB_CONFIG "config"
#define TRAIN_JOB_RUN    "run"

static const char *train_job_value(const train_job *j, const char *name) {
    char *value = NULL;
    if (propane_options_get(j->options, name, &value, NULL) != PROPANE_OK) return NULL;
    const char *own = arena_string(j->arena, value);
    propane_free(value);
    return own;
}

static propane_status train_job_flag(train_job *j, const propane_option_info *o, cli_flag *out, propane_error *err) {
    static const struct {
        const char *type;
        cli_kind kind;
    } kinds[] = {{"int", CLI_INT},   {"real", CLI_REAL},     {"bool", CLI_SWITCH},
                 {"text", CLI_TEXT}, {"choice", CLI_CHOICE}, {"list", CLI_TEXTS}};
    const bool config = strcmp(o->name, TRAIN_JOB_CONFIG) == 0;
    *out = (cli_flag){arena_printf(j->arena, "--%s", o->name),
                      CLI_TEXT,
                      .min = o->min,
                      .max = o->max,
                      .words = o->words,
                      .help = config ? "Hugging Face config.json that replaces the sizes below, or options as JSON"
                                     : o->help,
                      .standard = train_job_value(j, o->name),
                      .given = strcmp(o->name, TRAIN_JOB_RUN) == 0 ? &j->run_given : NULL,
                      .set = config ? train_job_skip : train_job_set,
                      .object = j->options};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].type, o->type) == 0) out->kind = kinds[i].kind;
    return out->name && out->standard ? PROPANE_OK : propane_fail_memory(err, strlen(o->name));
}

static propane_status train_job_add_group(train_job *j, const train_flags *g, cli_flag *flags, int *n,
                                          propane_error *err) {
    propane_option_info o = {.size = sizeof o};
    if (g->heading) flags[(*n)++] = (cli_flag){NULL, CLI_HEADING, NULL, .help = g->heading};
    for (int i = 0; i < g->before_count; i++) flags[(*n)++] = g->before[i];
    for (int i = 0; g->group && propane_options_describe(j->options, i, &o); i++)
        if (strcmp(o.group, g->group) == 0) PROPANE_TRY(train_job_flag(j, &o, &flags[(*n)++], err));
    for (int i = 0; i < g->after_count; i++) flags[(*n)++] = g->after[i];
    return PROPANE_OK;
}

/* Loads a file of options, or sets the option for a model's config.json. Returns -1 to continue. */
static int train_job_load(train_job *j, const char *path) {
    propane_error err = {0};
    propane_status status = propane_options_load(j->options, path, &err);
    if (status == PROPANE_ERR_UNSUPPORTED) status = propane_options_set(j->options, TRAIN_JOB_CONFIG, path, &err);
    return status == PROPANE_OK ? -1 : cli_error("train", &err);
}

static int train_job_load_all(train_job *j, int argc, char **argv) {
    const size_t length = strlen("--" TRAIN_JOB_CONFIG);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const bool named = strncmp(argv[i], "--" TRAIN_JOB_CONFIG, length) == 0;
        const char *path = named && argv[i][length] == '=' ? argv[i] + length + 1
                           : named && !argv[i][length]     ? argv[++i]
                                                           : NULL;
        const int code = path && *path ? train_job_load(j, path) : -1;
        if (code >= 0) return code;
    }
    return -1;
}

static bool train_job_has_checkpoint(const char *run) {
    char *path = run ? run_log_path(run, "checkpoint.safetensors") : NULL;
    const bool has = path && file_exists(path);
    mem_free(path);
    return has;
}

/* Returns whether the argument without a flag is a run, as in `propane train --resume my-run`. The argument is a model
 * if the default run folder has a checkpoint and the argument's folder has none. */
static bool train_job_place_is_run(const train_job *j) {
    const char *resume = train_job_value(j, "resume");
    if (!resume || strcmp(resume, "true") != 0 || j->run_given) return false;
    return train_job_has_checkpoint(j->place) || !train_job_has_checkpoint(train_job_value(j, TRAIN_JOB_RUN));
}

static propane_status train_job_take_place(train_job *j, propane_error *err) {
    if (!j->place) return PROPANE_OK;
    if (train_job_place_is_run(j)) return propane_options_set(j->options, TRAIN_JOB_RUN, j->place, err);
    const char *other = train_job_value(j, j->kind->place);
    if (other && *other && strcmp(other, j->place) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "two models were given, %.200s and %.200s; give only one",
                            j->place, other);
    return propane_options_set(j->options, j->kind->place, j->place, err);
}

static int train_job_check(train_job *j) {
    propane_error err = {0};
    if (train_job_take_place(j, &err) != PROPANE_OK) return cli_misuse("train", "%s", err.text);
    if (propane_options_recall(j->options, &err) != PROPANE_OK) return cli_error("train", &err);
    if (propane_options_check(j->options, &err) != PROPANE_OK) return cli_misuse("train", "%s", err.text);
    const char *trace = train_job_value(j, "trace");
    const bool fits = !trace || !*trace || cli_check_written(trace, "trace", &err) == PROPANE_OK;
    return fits ? -1 : cli_error("train", &err);
}

int train_job_parse(train_job *j, int argc, char **argv, const train_flags *groups, int count, const char *usage,
                    const char *about) {
    propane_error err = {0};
    propane_option_info o = {.size = sizeof o};
    int n = 0, room = 0;
    while (propane_options_describe(j->options, room, &o)) room++;
    for (int i = 0; i < count; i++) room += 1 + groups[i].before_count + groups[i].after_count;
    cli_flag *flags = ARENA_ARRAY(j->arena, (size_t)room, cli_flag);
    propane_status status = flags ? PROPANE_OK : propane_fail_memory(&err, (size_t)room * sizeof *flags);
    for (int i = 0; i < count && status == PROPANE_OK; i++)
        status = train_job_add_group(j, &groups[i], flags, &n, &err);
    if (status != PROPANE_OK) return cli_error("train", &err);
    int code = train_job_load_all(j, argc, argv);
    if (code < 0) code = cli_parse(argc, argv, flags, n, usage, about);
    return code < 0 ? train_job_check(j) : code;
}

/* ---- facts about the run
 * ------------------------------------------------------------------------------------------------------ */

int64_t train_job_int(const train_job *j, const char *key) {
    return json_integer_value(json_object_get(j->facts, key));
}

double train_job_real(const train_job *j, const char *key) { return json_number_value(json_object_get(j->facts, key)); }

const char *train_job_text(const train_job *j, const char *key) {
    const char *value = json_string_value(json_object_get(j->facts, key));
    return value ? value : "";
}

const char *train_job_option(const train_job *j, const char *name) {
    char *value = NULL;
    if (propane_trainer_option(j->trainer, name, &value, NULL) != PROPANE_OK) return "";
    const char *own = arena_string(j->arena, value);
    propane_free(value);
    return own ? own : "";
}

void train_job_print_epochs(const train_job *j, const char *unit, int64_t count) {
    const double steps = strtod(train_job_option(j, "steps"), NULL), batch = strtod(train_job_option(j, "batch"), NULL),
                 accumulate = strtod(train_job_option(j, "accumulate"), NULL);
    if (count <= 0) return;
    double epochs = steps * batch * accumulate / (double)count;
    if (epochs > 0.95) epochs = round(10 * epochs) / 10;
    printf("%.0f step%s = %.*g epoch%s of %" PRId64 " %s\n", steps, text_plural(steps), epochs < 1 ? 2 : 15, epochs,
           epochs == 1 ? "" : "s", count, unit);
}

static propane_trainer_info train_job_info(const train_job *j) {
    propane_trainer_info info = {.size = sizeof info};
    (void)propane_trainer_describe(j->trainer, &info);
    return info;
}

/* ---- output of the run
 * --------------------------------------------------------------------------------------------------------- */

static void train_job_print_pause(train_job *j, int64_t step, const char *reason) {
    if (j->json && reason)
        printf("{\"event\":\"paused\",\"step\":%" PRId64 ",\"reason\":\"%s\"}\n", step, reason);
    else if (j->json)
        printf("{\"event\":\"unpaused\",\"step\":%" PRId64 "}\n", step);
    else if (reason)
        progress_line(&j->progress, "paused after step %" PRId64 ": %s", step, reason);
    else
        progress_line(&j->progress, "going on");
    progress_flush();
}

/* With --background, pauses between two steps as long as there is a reason. Ctrl-C ends the pause. */
static void train_job_give_way(train_job *j, int64_t step) {
    const char *reason = background_reason(), *printed = NULL;
    if (!reason) return;
    for (; reason && !cli_interrupted; reason = background_reason()) {
        if (reason != printed) train_job_print_pause(j, step, reason);
        printed = reason;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    if (!cli_interrupted) train_job_print_pause(j, step, NULL);
}

static void train_job_on_step(void *context, const propane_step *r) {
    train_job *j = context;
    double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    progress_step s = progress_of(r, seconds, j->first_step, j->progress.steps);
    energy_reading used;
    propane_error ignored;
    if (j->meter && energy_read(j->meter, &used, &ignored) == PROPANE_OK) s.power = &used;
    telemetry_step(&j->telemetry, r, seconds, s.power);
    progress_show(&j->progress, &s);
    progress_flush();
    if (j->background && r->step < j->progress.steps) train_job_give_way(j, r->step);
}

static void train_job_on_evaluation(void *context, const propane_evaluation *e) {
    train_job *j = context;
    j->last = *e;
    telemetry_evaluation(&j->telemetry, e);
    j->kind->print_evaluation(j, e);
    progress_flush();
}

static void train_job_on_checkpoint(void *context, int64_t step, const char *path) {
    train_job *j = context;
    const bool last = step == j->progress.steps || !json_is_true(json_object_get(j->facts, "checkpoints"));
    progress_checkpoint(&j->progress, step, path, last);
    progress_flush();
}

static propane_status train_job_open_telemetry(train_job *j, bool resume, propane_error *err) {
    const telemetry_options o = {.run_dir = train_job_option(j, TRAIN_JOB_RUN),
                                 .resume = resume,
                                 .log = json_object_get(j->facts, "log"),
                                 .logdir = j->logdir,
                                 .argc = cli_argc,
                                 .argv = cli_argv};
    return telemetry_open(&j->telemetry, &o, err);
}

/* Prints whether the run stopped early, and which step's weights the model has if they are not those of the last
 * step. */
static void train_job_print_best(const train_job *j, const propane_trainer_info *info) {
    if (info->over) printf("stopped early: no improvement in %s validations\n", train_job_option(j, "patience"));
    if (info->best_step > 0 && info->best_step < info->step && info->kept)
        printf("kept the weights of step %" PRId64
               ", which had the best validation loss (%.4f); --keep last writes the last ones\n",
               info->best_step, info->best_loss);
}

/* The number of steps after which a model should predict better than equal probabilities for all ids. Before that, a
 * model may still be slightly worse. A model that is no better after this many steps has learned nothing. */
static const int64_t STEPS_TO_LEARN = 100;

static void train_job_print_diverged(const train_job *j, const propane_trainer_info *info) {
    const double ids = train_job_real(j, "vocabulary"), loss = info->kept ? info->best_loss : j->last.loss;
    if (ids < 2 || !j->last.step || loss <= 0.99 * log(ids)) return;
    const bool diverged = loss > 1.05 * log(ids);
    if (!diverged && info->step < STEPS_TO_LEARN) return;
    fflush(stdout);
    fprintf(stderr,
            "propane train: the validation loss, %.4f, is %s that of a uniform guess among %.0f ids, %.4f: the %s, or "
            "the validation data is of a different kind\n",
            loss, diverged ? "far above" : "no better than", ids, log(ids),
            diverged ? "training has diverged (start again with a smaller --lr)"
                     : "model has learned almost nothing (start again with another --lr)");
}

static void train_job_print_done(const train_job *j, int64_t done, double seconds) {
    const propane_trainer_info info = train_job_info(j);
    if (j->profile) j->kind->print_profile(j, seconds);
    if (j->json) {
        const propane_evaluation *e = &j->last;
        printf("{\"event\":\"done\",\"step\":%" PRId64 ",\"seconds\":%.3f", done, seconds);
        if (e->step) progress_number("val_loss", e->loss);
        if (e->step && e->nats_per_byte >= 0) progress_number("val_nats_per_byte", e->nats_per_byte);
        if (e->step && e->accuracy >= 0) progress_number("val_accuracy", e->accuracy);
        if (info.best_step > 0) {
            printf(",\"best_step\":%" PRId64, info.best_step);
            progress_number("best_val_loss", info.best_loss);
        }
        if (json_object_get(j->facts, "unigram_nats_per_byte"))
            progress_number("unigram_nats_per_byte", train_job_real(j, "unigram_nats_per_byte"));
        printf("}\n");
        return;
    }
    printf("done: %" PRId64 " step%s in %.1f s; ", done - j->first_step, text_plural(done - j->first_step), seconds);
    j->kind->print_end(j,
                       done > j->first_step ? "" : "the run is already complete; continue it with a larger --steps\n");
    train_job_print_best(j, &info);
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static propane_status train_job_read_facts(train_job *j, propane_error *err) {
    char *facts = NULL;
    PROPANE_TRY(propane_trainer_facts(j->trainer, &facts, err));
    const propane_status status = json_parse(facts, strlen(facts), "the run's facts", &j->facts, err);
    propane_free(facts);
    return status;
}

static void train_job_cancel(void *trainer) {
    propane_trainer_cancel(trainer);
    lost_ranks_expect();
}

static propane_status train_job_begin(train_job *j, propane_trainer_info *info, propane_error *err) {
    PROPANE_TRY(propane_trainer_create(j->options, NULL, &j->trainer, err));
    PROPANE_TRY(train_job_read_facts(j, err));
    *info = train_job_info(j);
    j->first_step = info->step;
    j->profile = strcmp(train_job_option(j, "profile"), "true") == 0;
    const bool resume = strcmp(train_job_option(j, "resume"), "true") == 0;
    if (info->writes) PROPANE_TRY(train_job_open_telemetry(j, resume, err));
    fputs(train_job_text(j, "weights_tried"), j->json ? stderr : stdout);
    if (!j->json) j->kind->print_start(j);
    progress_init(&j->progress, j->json, j->form, j->ranks != NULL, info->steps);
    j->progress.unit = j->kind->unit;
    j->start_ns = clock_ns();
    return PROPANE_OK;
}

/* Returns the word for the end of the run in its log and output. */
static const char *train_job_state(propane_status status, bool again) {
    return status == PROPANE_ERR_CANCELLED ? "stopped" : again ? "restart" : status != PROPANE_OK ? "failed" : "done";
}

/* The trainer that writes a checkpoint and continues after SIGUSR1, which Slurm's --signal=USR1 sends; NULL for
 * none. */
static propane_trainer *volatile train_job_asked;

static void train_job_on_signal(int number) {
    (void)number;
    if (train_job_asked) propane_trainer_ask_save(train_job_asked);
}

static void train_job_save_on_signal(propane_trainer *trainer) {
    struct sigaction action = {.sa_handler = train_job_on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    train_job_asked = trainer;
    sigaction(SIGUSR1, &action, NULL);
}

/* Handles a run whose compile budget is used up. It sets *again and returns PROPANE_OK, so that another process
 * continues the run. If the user has interrupted the run, it returns PROPANE_ERR_CANCELLED instead. */
static propane_status train_job_go_on(const train_job *j, const propane_trainer_info *info, propane_status status,
                                      bool *again, propane_error *err) {
    *again = info->restart;
    if (!*again) return status;
    if (!cli_interrupted) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_CANCELLED,
                        "stopped after step %" PRId64 " of %" PRId64 "; continue with: propane train --resume %.400s",
                        info->step, info->steps, train_job_option(j, TRAIN_JOB_RUN));
}

propane_status train_job_go(train_job *j, bool *again, propane_error *err) {
    propane_trainer_info info = {0};
    const propane_trainer_callbacks callbacks = {sizeof callbacks, j, train_job_on_step, train_job_on_evaluation,
                                                 train_job_on_checkpoint};
    train_job_save_on_signal(NULL); /* without a handler, a signal that arrives early would end the process */
    if (j->background) background_begin();
    PROPANE_TRY(train_job_begin(j, &info, err));
    if (j->ranks) lost_ranks_prepare(j->ranks, train_job_option(j, "run"));
    train_job_save_on_signal(j->trainer);
    cli_on_interrupt(train_job_cancel, j->trainer);
    cli_catch_signals(); /* before this point Ctrl-C ends the process at once, because nothing can be lost yet */
    propane_status status = propane_trainer_run(j->trainer, &callbacks, err);
    cli_on_interrupt(NULL, NULL);
    lost_ranks_forget();
    train_job_save_on_signal(NULL);
    progress_end(&j->progress);
    info = train_job_info(j);
    status = train_job_go_on(j, &info, status, again, err);
    const char *state = train_job_state(status, *again);
    if (info.writes) telemetry_end(&j->telemetry, state, info.step);
    const bool ended = status == PROPANE_OK && !*again;
    const double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    if (ended && info.writes && j->report) status = j->kind->report(j, err);
    if (ended && status == PROPANE_OK) train_job_print_done(j, info.step, seconds);
    if (ended && info.writes) train_job_print_diverged(j, &info);
    if (j->profile) host_products_print(j->json);
    if (j->json && !(ended && status == PROPANE_OK))
        printf("{\"event\":\"%s\",\"step\":%" PRId64 "}\n", status != PROPANE_OK && ended ? "failed" : state,
               info.step);
    return status;
}
