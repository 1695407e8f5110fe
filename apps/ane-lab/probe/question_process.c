/* SPDX-License-Identifier: MIT
 * Owns the process of one question. The process leads a process group, which is killed as a whole at the time limit, on
 * Ctrl-C and after every answer. Its standard input is a pipe into which the parent writes nothing, and which closes
 * when the parent ends; then the process ends, too. Each line of standard output is an object, which is merged into the
 * earlier objects. Standard error is kept as lines, truncated in the middle if it is long, with terminal control
 * characters made harmless.
 */
#include "apps/ane-lab/probe/question_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/ane-lab/probe/probe_json.h"
#include "apps/propane/cli.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json_memory.h"
#include "core/base/memory.h"
#include "core/base/text.h"

extern char **environ;

enum {
    MOST_SAID = 1 << 20,
    MOST_COMPLAINED = 1 << 16,
    KEPT_LINES = 24,
    POLL_MS = 100,
    GRACE_MS = 2000,
    LINE_ROOM = 500
};
static const char child_variable[] = "PROPANE_PROBE_QUESTION";

typedef struct question_child {
    pid_t pid;
    int said_fd, complained_fd; /* the child's standard output and error; -1 at end of file */
    int life_fd;                /* the parent's end of the child's standard input */
    text said, complained;
    bool ended;
    int how; /* the status from waitpid */
} question_child;

/* ---- the child's side ------------------------------------------------------------------------------------------------------ */

bool question_is_child(void) { return getenv(child_variable) != NULL; }

static void *question_watch_parent(void *unused) {
    char byte;
    ssize_t n;
    (void)unused;
    while ((n = read(STDIN_FILENO, &byte, 1)) > 0 || (n < 0 && errno == EINTR)) {
    }
    kill(-getpgrp(), SIGKILL);
    return NULL;
}

void question_begin_child(void) {
    pthread_t watcher;
    unsetenv(child_variable);
    if (getpgrp() == getpid() && pthread_create(&watcher, NULL, question_watch_parent, NULL) == 0)
        pthread_detach(watcher);
}

/* ---- start ------------------------------------------------------------------------------------------------------------------- */

static int question_set_files(posix_spawn_file_actions_t *actions, const int in[2], const int out[2],
                              const int err[2]) {
    int code = posix_spawn_file_actions_adddup2(actions, in[0], STDIN_FILENO);
    if (!code) code = posix_spawn_file_actions_adddup2(actions, out[1], STDOUT_FILENO);
    if (!code) code = posix_spawn_file_actions_adddup2(actions, err[1], STDERR_FILENO);
    return code;
}

static int question_spawn(pid_t *pid, char *const arguments[], const int in[2], const int out[2], const int err[2]) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&actions);
    if (code) return code;
    code = posix_spawnattr_init(&attributes);
    if (!code) {
        code = question_set_files(&actions, in, out, err);
        if (!code) code = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        if (!code) code = posix_spawnattr_setpgroup(&attributes, 0);
        if (!code) code = setenv(child_variable, "1", 1) == 0 ? 0 : errno;
        if (!code) code = posix_spawnp(pid, arguments[0], &actions, &attributes, arguments, environ);
        unsetenv(child_variable);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static propane_status question_make_pipes(int pipes[3][2], propane_error *err) {
    for (int i = 0; i < 3; i++) {
        if (pipe(pipes[i]) != 0) {
            const int code = errno;
            for (int k = 0; k < i; k++) close(pipes[k][0]), close(pipes[k][1]);
            return propane_fail(err, PROPANE_ERR_IO, "no pipe: %s", strerror(code));
        }
        for (int k = 0; k < 2; k++) fcntl(pipes[i][k], F_SETFD, FD_CLOEXEC);
    }
    return PROPANE_OK;
}

static propane_status question_start(question_child *c, const char *uri, const char *id, propane_error *err) {
    int pipes[3][2];
    char *const arguments[] = {cli_argv[0],
                               (char *)"devices",
                               (char *)"--probe",
                               (char *)"--device",
                               (char *)(uintptr_t)uri,
                               (char *)"--only",
                               (char *)(uintptr_t)id,
                               NULL};
    *c = (question_child){.said_fd = -1, .complained_fd = -1, .life_fd = -1};
    PROPANE_TRY(question_make_pipes(pipes, err));
    const int code = question_spawn(&c->pid, arguments, pipes[0], pipes[1], pipes[2]);
    close(pipes[0][0]), close(pipes[1][1]), close(pipes[2][1]);
    c->life_fd = pipes[0][1], c->said_fd = pipes[1][0], c->complained_fd = pipes[2][0];
    return code ? propane_fail(err, PROPANE_ERR_IO, "%s cannot be started: %s", arguments[0], strerror(code))
                : PROPANE_OK;
}

/* ---- collect ----------------------------------------------------------------------------------------------------------------- */

/* Appends bytes to t. If t becomes too long, keeps only its beginning and its end, because the last lines describe an
 * exception. */
static void question_keep(text *t, const char *bytes, size_t length, size_t most) {
    text_append_n(t, bytes, length);
    if (t->length <= most || t->failed) return;
    const size_t head = most / 2, tail = most / 4;
    memmove(t->data + head, t->data + t->length - tail, tail);
    t->length = head + tail;
    t->data[t->length] = 0;
}

static void question_read(int *fd, text *t, size_t most) {
    char part[4096];
    const ssize_t n = read(*fd, part, sizeof part);
    if (n > 0)
        question_keep(t, part, (size_t)n, most);
    else if (n == 0 || errno != EINTR)
        close(*fd), *fd = -1;
}

/* Reads what the child has written, after waiting for at most `milliseconds`. Returns false if nothing came. */
static bool question_listen(question_child *c, int milliseconds) {
    struct pollfd p[2] = {{.fd = c->said_fd, .events = POLLIN}, {.fd = c->complained_fd, .events = POLLIN}};
    if (c->said_fd < 0 && c->complained_fd < 0) {
        if (milliseconds) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        return false;
    }
    if (poll(p, 2, milliseconds) <= 0) return false;
    if (p[0].revents) question_read(&c->said_fd, &c->said, MOST_SAID);
    if (p[1].revents) question_read(&c->complained_fd, &c->complained, MOST_COMPLAINED);
    return true;
}

static void question_reap(question_child *c) {
    if (!c->ended && waitpid(c->pid, &c->how, WNOHANG) != 0) c->ended = true;
}

/* Waits until the child ends. Returns false at the time limit or on Ctrl-C. In any case, kills the processes that the
 * child has started. */
static bool question_wait(question_child *c, int seconds) {
    const int64_t end = clock_ns() + (int64_t)seconds * 1000000000;
    while (!c->ended && clock_ns() < end && !cli_interrupted) {
        question_listen(c, POLL_MS);
        question_reap(c);
    }
    const bool in_time = c->ended;
    kill(-c->pid, SIGKILL);
    /* a process that is blocked in the kernel may never end */
    for (int waited = 0; !c->ended && waited < GRACE_MS; waited += POLL_MS) {
        question_listen(c, POLL_MS);
        question_reap(c);
    }
    while (question_listen(c, 0)) {
    }
    return in_time;
}

/* ---- the answer -------------------------------------------------------------------------------------------------------------- */

/* Removes a folder that a killed process left. The name must begin with at least 64 hexadecimal digits or underscores,
 * or with "propane-ane-". */
static void question_remove_folder(const json_t *line) {
    const char *path = json_string_value(json_object_get(line, "folder")), *name = path ? strrchr(path, '/') : NULL;
    if (!name || (strspn(++name, "0123456789abcdefABCDEF_") < 64 && strncmp(name, "propane-ane-", 12) != 0)) return;
    (void)!file_remove_tree(path, NULL); /* the answer counts even if the folder stays */
}

/* Merges complete lines that are objects; later lines take precedence. If `left_folders` is set, removes the folders
 * that the lines name. */
static json_t *question_merge_lines(const text *t, bool left_folders) {
    json_t *all = json_object();
    for (char *line = t->data; line && *line;) {
        const size_t length = strcspn(line, "\n");
        if (line[length] != '\n') break;
        json_t *now = json_memory_load(line, length, 0, NULL);
        if (json_is_object(now)) json_object_update(all, now);
        if (left_folders) question_remove_folder(now);
        json_decref(now);
        line += length + 1;
    }
    return all;
}

/* Copies the text between `begin` and the last `end` on the same line, or up to the end of the line without an `end`.
 * Returns false if `begin` does not occur. */
static bool question_cut_out(const char *from, const char *begin, const char *end, char *out, size_t room) {
    const char *at = strstr(from, begin), *last = NULL;
    if (!at) return false;
    at += strlen(begin);
    const size_t line = strcspn(at, "\n");
    for (const char *p = at; (p = strstr(p, end)) && p < at + line; p += strlen(end)) last = p;
    text_harmless(out, room, at, last ? (size_t)(last - at) : line, "");
    return true;
}

/* Parses an exception as the driver's handler prints it (propane: ane: NAME was raised: REASON; the last call of ...
 * was -[CLASS SELECTOR]; ...) and as Apple's runtime prints it: *** Terminating app due to uncaught exception 'NAME',
 * reason: 'REASON'. */
static void question_read_exception(const text *t, json_t *answer) {
    char name[100] = "", reason[LINE_ROOM] = "", call[200] = "";
    const char *apples = t->data ? strstr(t->data, "uncaught exception '") : NULL,
               *ours = t->data ? strstr(t->data, " was raised: ") : NULL;
    if (apples && question_cut_out(apples, "uncaught exception '", "', reason: '", name, sizeof name))
        (void)question_cut_out(apples, "reason: '", "'", reason, sizeof reason);
    if (ours) (void)question_cut_out(ours, " in this thread was ", "; ", call, sizeof call);
    if (ours && !*name) {
        (void)question_cut_out(t->data, "propane: ane: ", " was raised: ", name, sizeof name);
        (void)question_cut_out(ours, " was raised: ", "; the ", reason, sizeof reason);
    }
    if (!*name) return;
    json_t *exception = json_object();
    json_put(exception, "name", json_words(name));
    json_put(exception, "reason", json_words(reason));
    if (*call) json_put(exception, "call", json_words(call));
    json_put(answer, "exception", exception);
}

static void question_read_complaints(const text *t, json_t *answer) {
    int count = 0, index = 0;
    if (!t->length) return;
    for (const char *p = t->data; *p; p += strcspn(p, "\n"), p += *p == '\n') count++;
    json_t *lines = json_array();
    for (const char *p = t->data; *p; index++) {
        const size_t length = strcspn(p, "\n");
        char line[LINE_ROOM];
        text_harmless(line, sizeof line, p, length, "");
        if (index == KEPT_LINES / 2 && count > KEPT_LINES) json_add(lines, json_words("..."));
        if (index < KEPT_LINES / 2 || index >= count - KEPT_LINES / 2) json_add(lines, json_bytes(line, strlen(line)));
        p += length + (p[length] == '\n');
    }
    json_put(answer, "stderr", lines);
    question_read_exception(t, answer);
}

static const char *question_phase(const json_t *answer, char out[120]) {
    const char *phase = json_string_value(json_object_get(answer, "phase"));
    const json_t *progress = json_object_get(answer, "progress");
    if (phase)
        snprintf(out, 120, ", in the phase '%.80s'", phase);
    else if (progress)
        snprintf(out, 120, " (after %lld)", (long long)json_integer_value(progress));
    else
        *out = 0;
    return out;
}

static void question_print_end(const question_child *c, bool in_time, int seconds, json_t *answer) {
    char phase[120];
    const char *ended = "answered";
    const char *exception = json_string_value(json_object_get(json_object_get(answer, "exception"), "name"));
    question_phase(answer, phase);
    if (json_object_get(answer, "answer")) {
        if (json_object_get(answer, "error")) ended = "failed";
    } else if (!in_time && cli_interrupted) {
        ended = "interrupted";
        probe_say(answer, "answer", "interrupted%s", phase);
    } else if (!in_time) {
        ended = "time limit";
        probe_say(answer, "answer", "no answer in %d s%s", seconds, phase);
    } else if (WIFSIGNALED(c->how)) {
        ended = "crashed";
        json_put(answer, "signal", json_integer(WTERMSIG(c->how)));
        probe_say(answer, "answer", "crashed with signal %d%s%s%s", WTERMSIG(c->how), exception ? ", " : "",
                  exception ? exception : "", phase);
    } else {
        ended = "crashed";
        probe_say(answer, "answer", "ended without an answer, code %d%s%s%s", WEXITSTATUS(c->how),
                  exception ? ", " : "", exception ? exception : "", phase);
    }
    probe_say(answer, "ended", "%s", ended);
}

json_t *question_ask_elsewhere(const char *uri, const char *id, int seconds) {
    propane_error err = {0};
    question_child c;
    const int64_t begin = clock_ns();
    json_t *answer;
    if (question_start(&c, uri, id, &err) != PROPANE_OK) {
        answer = json_object();
        probe_say(answer, "answer", "failed: %s", err.text);
        probe_say(answer, "error", "%s", err.text);
        probe_say(answer, "ended", "failed");
    } else {
        const bool in_time = question_wait(&c, seconds);
        answer = question_merge_lines(&c.said, !in_time || !WIFEXITED(c.how) || WEXITSTATUS(c.how) != CLI_OK);
        json_object_del(answer, "folder");
        question_read_complaints(&c.complained, answer);
        question_print_end(&c, in_time, seconds, answer);
        if (json_object_get(answer, "error") || WIFEXITED(c.how)) json_object_del(answer, "phase");
    }
    if (!json_object_get(answer, "seconds")) probe_value(answer, "seconds", (double)(clock_ns() - begin) / 1e9);
    if (c.said_fd >= 0) close(c.said_fd);
    if (c.complained_fd >= 0) close(c.complained_fd);
    if (c.life_fd >= 0) close(c.life_fd);
    text_deinit(&c.said);
    text_deinit(&c.complained);
    return answer;
}
