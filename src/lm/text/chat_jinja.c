/* SPDX-License-Identifier: MIT
 * Owns the child process that runs chat templates (chat_jinja.py). There is one such process. It is started when a
 * template first needs it, queried under a lock, and restarted if it has ended. A template is a program by strangers,
 * so it runs where it cannot reach our files, descriptors or memory, and for at most LIMIT_SECONDS. If Python or jinja2
 * is missing, the error gives the reason.
 */
#include "lm/text/chat_jinja.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"

extern char **environ;

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: SO_NOSIGPIPE of the socket */
#endif

enum { LIMIT_SECONDS = 10, LIMIT_BYTES = 64 << 20 };

static const char script[] = {
#include "lm/text/chat_jinja.inc"
    0};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int line = -1; /* socket to the process, or -1 */
static pid_t process;

static const char *jinja_python(void) {
    const char *named = getenv("PROPANE_PYTHON");
    return named && *named ? named : "python3";
}

/* ---- frames ---------------------------------------------------------------------------------------------------------------- */

/* Transfers all bytes. Returns false if the time is up (*late) or the process has ended. */
static bool jinja_transfer(bool out, void *data, size_t length, int64_t end, bool *late) {
    unsigned char *at = data;
    while (length > 0) {
        struct pollfd p = {.fd = line, .events = out ? POLLOUT : POLLIN};
        const int64_t left = (end - clock_ns()) / 1000000;
        if (left <= 0) {
            *late = true;
            return false;
        }
        if (poll(&p, 1, (int)left) <= 0) continue;
        ssize_t n = out ? send(line, at, length, MSG_NOSIGNAL) : recv(line, at, length, 0);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return false;
        at += n;
        length -= (size_t)n;
    }
    return true;
}

static bool jinja_send(const char *data, size_t length, int64_t end, bool *late) {
    unsigned char head[4] = {(unsigned char)(length >> 24), (unsigned char)(length >> 16), (unsigned char)(length >> 8),
                             (unsigned char)length};
    return jinja_transfer(true, head, 4, end, late) && jinja_transfer(true, (void *)(uintptr_t)data, length, end, late);
}

/* Receives one frame. Returns NULL if the time is up (*late), if the process has ended, or if memory runs out. */
static char *jinja_receive(int64_t end, size_t *length, bool *late) {
    unsigned char head[4];
    if (!jinja_transfer(false, head, 4, end, late)) return NULL;
    *length = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    char *data = *length <= LIMIT_BYTES ? mem_alloc(*length + 1) : NULL;
    if (data && jinja_transfer(false, data, *length, end, late)) return data;
    mem_free(data);
    return NULL;
}

/* ---- the process ------------------------------------------------------------------------------------------------------------- */

static void jinja_stop(void) {
    if (line < 0) return;
    close(line);
    line = -1;
    kill(process, SIGKILL);
    while (waitpid(process, NULL, 0) < 0 && errno == EINTR) continue;
}

static int jinja_spawn(const char *python, int end) {
    char *const arguments[] = {(char *)(uintptr_t)python, (char *)"-E", (char *)"-B", (char *)"-c",
                               (char *)(uintptr_t)script, NULL};
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code) return code;
    code = posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
    if (!code) code = posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
    if (!code) code = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!code) code = posix_spawnp(&process, python, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static propane_status jinja_greet(const char *python, propane_error *err) {
    bool late = false;
    size_t length = 0;
    json_t *said = NULL;
    char *data = jinja_receive(clock_ns() + 2 * (int64_t)LIMIT_SECONDS * 1000000000, &length, &late);
    propane_status status = data ? json_parse(data, length, "chat_jinja.py", &said, err) : PROPANE_OK;
    const char *problem = json_string_value(json_object_get(said, "error"));
    if (!status && (!said || problem))
        status = propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s does not run Jinja2: %s", python,
                              problem ? problem
                              : late  ? "it does not answer"
                                      : "it ended without a message");
    json_decref(said);
    mem_free(data);
    return status;
}

static propane_status jinja_start(propane_error *err) {
    int ends[2];
    const char *python = jinja_python();
    if (line >= 0) return PROPANE_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return propane_fail(err, PROPANE_ERR_IO, "cannot create a pair of sockets: %s", strerror(errno));
    for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
    setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    int code = jinja_spawn(python, ends[1]);
    close(ends[1]);
    if (code) {
        close(ends[0]);
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s cannot be started: %s", python, strerror(code));
    }
    line = ends[0];
    fcntl(line, F_SETFL, O_NONBLOCK);
    propane_status status = jinja_greet(python, err);
    if (status) jinja_stop();
    return status;
}

/* ---- one request ------------------------------------------------------------------------------------------------- */

/* Sends a question and receives the answer. If the process has ended in the meantime, for example because it was
 * killed, it is started once more. */
static propane_status jinja_exchange(const char *question, size_t length, char **out, size_t *out_length,
                                     propane_error *err) {
    for (int attempt = 0; attempt < 2; attempt++) {
        bool late = false;
        PROPANE_TRY(jinja_start(err));
        const int64_t end = clock_ns() + (int64_t)LIMIT_SECONDS * 1000000000;
        if (jinja_send(question, length, end, &late)) {
            *out = jinja_receive(end, out_length, &late);
            if (*out) return PROPANE_OK;
        }
        jinja_stop();
        if (mem_failed(NULL)) return propane_fail_memory(err, *out_length);
        if (late)
            return propane_fail(err, PROPANE_ERR_LIMIT, "the chat template ran for more than %d seconds",
                                LIMIT_SECONDS);
    }
    return propane_fail(err, PROPANE_ERR_IO,
                        "the process that runs the chat template ended unexpectedly; it may have run out of memory");
}

/* Consumes the question. The caller must json_decref *out. */
static propane_status jinja_ask(json_t *question, json_t **out, propane_error *err) {
    char *data = NULL, *answer = NULL;
    size_t length = 0, answer_length = 0;
    *out = NULL;
    propane_status status = json_print(question, JSON_COMPACT, &data, &length, err);
    json_decref(question);
    if (!status && length > LIMIT_BYTES)
        status =
            propane_fail(err, PROPANE_ERR_LIMIT, "a conversation of %zu bytes; a chat template can process at most %d",
                         length, LIMIT_BYTES);
    if (!status) {
        pthread_mutex_lock(&lock);
        status = jinja_exchange(data, length, &answer, &answer_length, err);
        pthread_mutex_unlock(&lock);
    }
    mem_free(data);
    if (!status) status = json_parse(answer, answer_length, "the chat template's answer", out, err);
    mem_free(answer);
    const char *problem = json_string_value(json_object_get(*out, "error"));
    if (!status && problem) status = propane_fail(err, PROPANE_ERR_INVALID, "the model's chat template: %s", problem);
    if (status) json_decref(*out), *out = NULL;
    return status;
}

static json_t *jinja_question(const chat_jinja *c) {
    json_t *o = json_object();
    json_put(o, "template", json_words(c->text));
    json_put(o, "bos", json_words(c->bos));
    json_put(o, "eos", json_words(c->eos));
    if (c->date && *c->date) json_put(o, "date", json_words(c->date));
    return o;
}

propane_status chat_jinja_probe(const chat_jinja *c, json_t *talks, char end[CHAT_JINJA_END], json_t **texts,
                                propane_error *err) {
    json_t *o = jinja_question(c), *answer;
    if (texts) *texts = NULL;
    json_put(o, "talks", talks);
    PROPANE_TRY(jinja_ask(o, &answer, err));
    const char *said = json_string_value(json_object_get(answer, "end"));
    *end = 0;
    if (said && strlen(said) < CHAT_JINJA_END) memcpy(end, said, strlen(said) + 1);
    if (texts) *texts = json_incref(json_object_get(answer, "texts"));
    json_decref(answer);
    return PROPANE_OK;
}

propane_status chat_jinja_render(const chat_jinja *c, json_t *messages, const json_t *tools, bool ask, json_t **out,
                                 propane_error *err) {
    json_t *o = jinja_question(c);
    json_put(o, "messages", messages);
    if (tools) json_put(o, "tools", json_incref((json_t *)(uintptr_t)tools));
    json_put(o, "ask", json_boolean(ask));
    return jinja_ask(o, out, err);
}
