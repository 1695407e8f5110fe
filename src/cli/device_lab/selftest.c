/* SPDX-License-Identifier: MIT
 * Owns asking: each question in a process of its own (an engine's answer may be a crash, and a process that has touched
 * the framework must not fork), with a time limit, and the report that a user can attach.
 */
#include "cli/device_lab/selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_memory.h"
#include "base/memory.h"
#include "base/temporary.h"
#include "base/text.h"
#include "cli/cli.h"
#include "device/uri.h"

extern char **environ;

enum { TIME_LIMIT_S = 180, COMPILER_PAUSE_S = 15 }; /* the pause: C3, as in the driver */

/* ---- what questions use -------------------------------------------------------------------------------------------------- */

void probe_say(json_t *out, const char *key, const char *format, ...) {
    char words[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    json_t *value = json_string(words);
    json_put(out, key, value ? value : json_string("(not text)"));
}

/* JSON has no infinities. */
void probe_value(json_t *out, const char *key, double value) {
    if (value - value == 0)
        json_put(out, key, json_real(value));
    else
        probe_say(out, key, "%g", value);
}

const char *probe_uri(const probe_target *t, const char *route, const char *options, char out[200]) {
    if (!t->is_ane)
        snprintf(out, 200, "%s", t->uri);
    else
        snprintf(out, 200, "ane:%s%s%s", route, *options ? "?" : "", options);
    return out;
}

propane_status probe_run(probe_target *t, const char *uri, const char *body, const float *const *inputs, float *output,
                         propane_error *err) {
    rig r = {0};
    propane_status status = rig_open_text(&r, uri, body, err);
    if (status == PROPANE_ERR_UNSUPPORTED) t->refused = true;
    for (int i = 0; i < r.run.inputs && status == PROPANE_OK; i++)
        status = rig_put(&r, i, inputs ? inputs[i] : NULL, err);
    if (status == PROPANE_OK) status = rig_run(&r, err);
    if (status == PROPANE_OK) status = rig_take(&r, 0, output, err);
    rig_close(&r);
    return status;
}

void probe_progress(int64_t count) {
    printf("{\"progress\": %lld}\n", (long long)count);
    fflush(stdout);
}

static const probe_question *const lists[] = {probe_engine, probe_forms, probe_numbers, probe_host};
enum { LISTS = sizeof lists / sizeof lists[0] };

static const probe_question *selftest_find_question(const char *id) {
    for (int l = 0; l < LISTS; l++)
        for (const probe_question *q = lists[l]; q->id; q++)
            if (strcmp(q->id, id) == 0) return q;
    return NULL;
}

static probe_target selftest_make_target(const char *uri) {
    return (probe_target){.uri = uri, .is_ane = device_is(uri, "ane")};
}

/* ---- one question, here ---------------------------------------------------------------------------------------------------- */

int probe_ask(const char *uri, const char *id) {
    const probe_question *q = selftest_find_question(id);
    probe_target t = selftest_make_target(uri);
    propane_error err = {0};
    if (!q) {
        char known[800] = "";
        for (int l = 0; l < LISTS; l++)
            for (q = lists[l]; q->id; q++) {
                size_t used = strlen(known);
                snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", q->id);
            }
        return cli_misuse("devices", "--only: there is no question '%s'; there are %s", id, known);
    }
    json_t *out = json_object();
    int64_t begin = clock_ns();
    if (q->ane_only && !t.is_ane)
        probe_say(out, "answer", "is asked of the ane device only");
    else if (q->ask(&t, out, &err) != PROPANE_OK)
        probe_say(out, "answer", "failed: %s", err.text);
    probe_value(out, "seconds", (double)(clock_ns() - begin) / 1e9);
    if (t.refused) json_put(out, "refused", json_true());
    char *line = NULL;
    propane_status status = json_print(out, JSON_COMPACT | JSON_REAL_PRECISION(9), &line, NULL, &err);
    if (line) printf("%s\n", line);
    mem_free(line);
    json_decref(out);
    return status ? cli_error("devices", &err) : CLI_OK;
}

/* ---- one question in a process of its own ------------------------------------------------------------------------------------ */

/* Reads until the end or the time limit; false: the limit. */
static bool selftest_collect(int fd, int seconds, text *out) {
    int64_t end = clock_ns() + (int64_t)seconds * 1000000000;
    char part[4096];
    while (clock_ns() < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 500) <= 0) continue;
        ssize_t n = read(fd, part, sizeof part);
        if (n == 0) return true;
        if (n > 0) text_append_n(out, part, (size_t)n);
        if (n < 0 && errno != EINTR) return true;
    }
    return false;
}

/* This process's environment with another TMPDIR; mem_free both. */
static propane_status selftest_make_environment(const char *folder, char ***out, char **setting, propane_error *err) {
    size_t count = 0, length = strlen(folder) + sizeof "TMPDIR=", kept = 1;
    while (environ[count]) count++;
    *out = mem_alloc((count + 2) * sizeof **out);
    *setting = mem_alloc(length);
    if (!*out || !*setting) return propane_fail_memory(err, length);
    snprintf(*setting, length, "TMPDIR=%s", folder);
    (*out)[0] = *setting;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0) (*out)[kept++] = environ[i];
    (*out)[kept] = NULL;
    return PROPANE_OK;
}

static propane_status selftest_start(const char *uri, const char *id, char **environment, pid_t *child, int *fd,
                                     propane_error *err) {
    int ends[2];
    char *const arguments[] = {cli_argv[0],
                               (char *)"devices",
                               (char *)"--probe",
                               (char *)"--device",
                               (char *)(uintptr_t)uri,
                               (char *)"--only",
                               (char *)(uintptr_t)id,
                               NULL};
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return propane_fail(err, PROPANE_ERR_IO, "no pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    int code = posix_spawn_file_actions_init(&actions);
    if (!code) code = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (!code) code = posix_spawn_file_actions_addclose(&actions, ends[1]);
    if (!code) code = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!code) code = posix_spawnp(child, arguments[0], &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *fd = ends[0];
    if (!code) return PROPANE_OK;
    close(ends[0]);
    return propane_fail(err, PROPANE_ERR_IO, "%s cannot be started: %s", arguments[0], strerror(code));
}

/* The last whole line that is JSON; an answer if the process came so far. */
static json_t *selftest_last_line(const text *t) {
    json_t *found = NULL;
    for (char *line = t->data; line && *line;) {
        size_t length = strcspn(line, "\n");
        if (line[length] != '\n') break;
        json_t *now = json_memory_load(line, length, 0, NULL);
        if (now) {
            json_decref(found);
            found = now;
        }
        line += length + 1;
    }
    return found ? found : json_object();
}

/* The process has a TMPDIR of its own: one that crashes does not remove its files, so they are removed here. */
static json_t *selftest_ask_elsewhere(const char *uri, const char *id, int seconds) {
    propane_error err = {0}, unremoved = {0};
    text t = {0};
    pid_t child = 0;
    int fd = -1, how = 0;
    char *folder = NULL, **environment = NULL, *setting = NULL;
    json_t *answer;
    propane_status status = temporary_scratch("propane-probe", &folder, &err);
    if (!status) status = selftest_make_environment(folder, &environment, &setting, &err);
    if (!status) status = selftest_start(uri, id, environment, &child, &fd, &err);
    mem_free(environment);
    mem_free(setting);
    if (status) {
        if (folder) status = file_remove_tree(folder, &unremoved);
        mem_free(folder);
        answer = json_object();
        probe_say(answer, "answer", "failed: %s", err.text);
        return answer;
    }
    bool in_time = selftest_collect(fd, seconds, &t);
    close(fd);
    if (!in_time) kill(child, SIGKILL);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    status = file_remove_tree(folder, &unremoved); /* an answer is worth more than an empty TMPDIR */
    mem_free(folder);
    answer = selftest_last_line(&t);
    text_deinit(&t);
    if (json_object_get(answer, "answer")) return answer;
    long long progress = json_integer_value(json_object_get(answer, "progress"));
    json_put(answer, "refused", json_true());
    if (!in_time)
        probe_say(answer, "answer", "no answer in %d s (after %lld)", seconds, progress);
    else if (WIFSIGNALED(how))
        probe_say(answer, "answer", "crashed with signal %d (after %lld)", WTERMSIG(how), progress);
    else
        probe_say(answer, "answer", "ended without an answer, code %d (after %lld)", WEXITSTATUS(how), progress);
    return answer;
}

void probe_words(const char *uri, const char *id, int seconds, char out[1200]) {
    json_t *answer = selftest_ask_elsewhere(uri, id, seconds);
    const char *words = json_string_value(json_object_get(answer, "answer"));
    snprintf(out, 1200, "%s", words ? words : "no answer");
    json_decref(answer);
}

/* ---- the report -------------------------------------------------------------------------------------------------------------- */

static propane_status selftest_describe(const char *uri, json_t *report, propane_error *err) {
    propane_device *d = NULL;
    struct utsname system;
    const char *library = getenv("PROPANE_ANE_LIBRARY");
    PROPANE_TRY(propane_device_open(uri, &d, err));
    const propane_device_info *info = propane_device_describe(d);
    probe_say(report, "report", "propane devices --probe");
    probe_say(report, "propane", "%s", propane_version());
    probe_say(report, "device", "%s", uri);
    probe_say(report, "summary", "%s", info->summary);
    json_put(report, "simulated", json_boolean(info->simulated));
    json_put(report, "stand_in", json_boolean(selftest_make_target(uri).is_ane && library && *library));
    propane_device_close(d);
    if (uname(&system) == 0) probe_say(report, "system", "%s %s %s", system.sysname, system.release, system.machine);
    return PROPANE_OK;
}

static void selftest_pause_for_compiler(const probe_target *t, const json_t *answer) {
    if (!t->is_ane || getenv("PROPANE_ANE_LIBRARY") || !json_is_true(json_object_get(answer, "refused"))) return;
    struct timespec span = {.tv_sec = COMPILER_PAUSE_S};
    nanosleep(&span, NULL);
}

static void selftest_ask_list(const probe_target *t, json_t *answers) {
    for (int l = 0; l < LISTS && !cli_interrupted; l++)
        for (const probe_question *q = lists[l]; q->id && !cli_interrupted; q++) {
            if (q->ane_only && !t->is_ane) continue;
            json_t *answer = selftest_ask_elsewhere(t->uri, q->id, TIME_LIMIT_S);
            printf("%s\n    ", q->text);
            cli_wrap(json_string_value(json_object_get(answer, "answer")), 4, 4, cli_width());
            printf("\n");
            (void)cli_flush();
            selftest_pause_for_compiler(t, answer);
            probe_say(answer, "question", "%s", q->text);
            json_put(answers, q->id, answer);
        }
}

int probe_all(const char *uri, const char *path) {
    propane_error err = {0};
    probe_target t = selftest_make_target(uri);
    json_t *report = json_object(), *answers = json_object();
    propane_status status = selftest_describe(uri, report, &err); /* in this process nothing is compiled */
    if (status == PROPANE_OK) {
        cli_catch_signals();
        const char *what = json_is_true(json_object_get(report, "simulated"))
                               ? " (simulated: the answers are a model's)"
                           : json_is_true(json_object_get(report, "stand_in")) ? " (a stand-in, not Apple's engine)"
                                                                               : "";
        printf("%s%s\n\n", uri, what);
        selftest_ask_list(&t, answers);
        json_put(report, "answers", json_incref(answers));
        status = json_write(path, report, JSON_INDENT(2) | JSON_REAL_PRECISION(9), &err);
        if (status == PROPANE_OK) printf("\nreport in %s: see docs/apple.md for where to send it\n", path);
    }
    json_decref(answers);
    json_decref(report);
    if (status != PROPANE_OK) return cli_error("devices", &err);
    return cli_interrupted ? cli_interrupt_code() : CLI_OK;
}
