/* SPDX-License-Identifier: MIT
 * Owns the handling of connections, the queue and the worker's thread. A job is the state of a request that the
 * connections' thread and the worker share, and the server's single lock guards it. A connection that has nothing to
 * send is suspended, and the worker resumes it.
 */
#include "apps/serve/server.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/serve/connections.h"
#include "apps/serve/http_page.h"
#include "apps/serve/http_send.h"
#include "apps/serve/listeners.h"
#include "core/base/clock.h"
#include "core/base/memory.h"

typedef struct job {
    struct job *next;
    serve_server *server;
    int references; /* one for the connection, and one for the queue and then the worker */
    serve_request request;
    size_t cost; /* bytes that the job uses of the memory for requests */
    text out;
    size_t sent;
    int http;
    serve_usage usage;
    bool begun, stream, done, gone; /* gone: the client has left */
    bool suspended;
    struct MHD_Connection *connection; /* valid until `gone` is set */
    connections_peer peer;
} job;

/* The state of a connection's request. */
typedef struct exchange {
    char method[12], path[120]; /* for the log; cut if they are longer */
    int64_t begun;              /* time of the start; clock_ns */
    http_sent sent;
    text body;
    size_t cost; /* bytes that the body uses of the memory for requests */
    bool too_large, too_many;
    job *job;
} exchange;

struct serve_server {
    serve_engine *engine;
    serve_options options;
    listeners *listeners;
    int port, open;        /* open: number of exchanges that have a job */
    pthread_mutex_t lines; /* guards calls of options.log */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t worker;
    bool has_worker, idle, stopping, cancel;
    job *first, *last;
    int queued;
    size_t held; /* bytes that all bodies and jobs use of the memory for requests */
    access_counts counts;
    connections *connections;
    _Atomic(const access_keys *) keys; /* replaces the keys in the options; NULL for no replacement */
};

static bool server_admits(serve_server *s, struct MHD_Connection *c, const char *url, const char *method,
                          serve_problem *p) {
    access_rules rules = s->options.access;
    const access_keys *keys = atomic_load(&s->keys);
    if (keys) rules.keys = keys->keys, rules.key_count = keys->count;
    return http_send_admits(&rules, c, url, method, p);
}

static connection *server_connection_of(struct MHD_Connection *c) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* ---- jobs (under the lock) ------------------------------------------------------------------------------------------ */

static void server_job_drop(job *j) {
    if (--j->references) return;
    j->server->held -= j->cost;
    serve_request_deinit(&j->request);
    text_deinit(&j->out);
    mem_free(j);
}

static void server_job_wake(job *j) {
    if (!j->suspended || j->gone) return;
    j->suspended = false;
    MHD_resume_connection(j->connection);
}

static void server_job_sleep(job *j) {
    j->suspended = true;
    MHD_suspend_connection(j->connection);
}

/* ---- the worker's side ----------------------------------------------------------------------------------------------- */

static void server_outlet_begin(void *context, int http, bool stream) {
    job *j = context;
    pthread_mutex_lock(&j->server->mutex);
    j->begun = true;
    j->http = http;
    j->stream = stream;
    if (stream) server_job_wake(j);
    pthread_mutex_unlock(&j->server->mutex);
}

static bool server_outlet_write(void *context, const char *bytes, size_t length) {
    job *j = context;
    pthread_mutex_lock(&j->server->mutex);
    text_append_n(&j->out, bytes, length);
    bool wanted = !j->gone && !j->out.failed;
    if (j->stream) server_job_wake(j);
    pthread_mutex_unlock(&j->server->mutex);
    return wanted;
}

static bool server_outlet_wanted(void *context) {
    job *j = context;
    pthread_mutex_lock(&j->server->mutex);
    bool wanted = !j->server->cancel && !j->gone && !connections_peer_left(&j->peer);
    pthread_mutex_unlock(&j->server->mutex);
    return wanted;
}

static void server_outlet_used(void *context, const serve_usage *usage) {
    job *j = context;
    pthread_mutex_lock(&j->server->mutex);
    j->usage = *usage;
    pthread_mutex_unlock(&j->server->mutex);
}

static void server_finish(job *j) {
    serve_server *s = j->server; /* server_job_drop may free the job before the lock is released */
    pthread_mutex_lock(&s->mutex);
    j->done = true;
    server_job_wake(j);
    server_job_drop(j);
    pthread_mutex_unlock(&s->mutex);
}

static void server_refuse_job(job *j, int http, const char *message) {
    const serve_outlet out = {j, server_outlet_begin, server_outlet_write, server_outlet_wanted, NULL};
    serve_problem p;
    serve_refuse(&p, http, "server_error", NULL, NULL, "%s", message);
    serve_answer_problem(&p, &out);
    server_finish(j);
}

/* Returns the next job, or NULL if none is queued. With `wait`, waits for one; NULL then means that the server
 * stops. */
static job *server_next_job(serve_server *s, bool wait) {
    pthread_mutex_lock(&s->mutex);
    if (wait) {
        s->idle = true;
        pthread_cond_broadcast(&s->changed);
        while (!s->first && !s->stopping) pthread_cond_wait(&s->changed, &s->mutex);
    }
    job *j = s->first;
    if (j) {
        s->first = j->next;
        if (!s->first) s->last = NULL;
        s->queued--;
        s->idle = false;
    }
    pthread_mutex_unlock(&s->mutex);
    return j;
}

/* The worker's thread. Runs as many requests at the same time as there are sequences, one token of each in turn. */
static void *server_work(void *context) {
    serve_server *s = context;
    const int most = infer_sequences(s->engine->decoder);
    job *jobs[INFER_MAX_SEQUENCES];
    serve_answer *answers[INFER_MAX_SEQUENCES];
    int count = 0;
    for (;;) {
        job *j = count < most ? server_next_job(s, count == 0) : NULL;
        if (!j && !count) return NULL;
        if (j) {
            const serve_outlet out = {j, server_outlet_begin, server_outlet_write, server_outlet_wanted,
                                      server_outlet_used};
            serve_answer *a = server_outlet_wanted(j) ? serve_begin(s->engine, &j->request, &out) : NULL;
            if (!a) server_finish(j);
            if (a) jobs[count] = j, answers[count++] = a;
        }
        serve_advance(s->engine, answers, count);
        int kept = 0;
        for (int i = 0; i < count; i++) {
            if (serve_is_done(answers[i])) {
                serve_free(answers[i]);
                server_finish(jobs[i]);
            } else {
                jobs[kept] = jobs[i];
                answers[kept++] = answers[i];
            }
        }
        count = kept;
    }
}

/* ---- answers of the connections' thread ------------------------------------------------------------------------------- */

/* Copies the ready part of a stream to `buffer`. If nothing is ready, suspends the connection and returns 0. */
static ssize_t server_read_stream(void *context, uint64_t position, char *buffer, size_t room) {
    job *j = context;
    (void)position;
    pthread_mutex_lock(&j->server->mutex);
    size_t left = j->out.length - j->sent;
    ssize_t n = (ssize_t)(left < room ? left : room);
    if (left) {
        memcpy(buffer, j->out.data + j->sent, (size_t)n);
        j->sent += (size_t)n;
        if (j->sent == j->out.length) {
            j->sent = 0;
            text_clear(&j->out);
        }
    } else if (j->done) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        server_job_sleep(j);
    }
    pthread_mutex_unlock(&j->server->mutex);
    return n;
}

/* Sends the job's answer if it is ready. Otherwise suspends the connection; this is called again when it resumes. */
static enum MHD_Result server_answer_job(struct MHD_Connection *c, exchange *x, job *j) {
    struct MHD_Response *response = NULL;
    const char *type = "application/json";
    pthread_mutex_lock(&j->server->mutex);
    bool ready = j->done || (j->begun && j->stream);
    int http = j->begun ? j->http : 500;
    if (!ready) {
        server_job_sleep(j);
    } else if (j->stream) {
        type = "text/event-stream";
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, server_read_stream, j, NULL);
    } else {
        response = http_send_copy(&j->out);
    }
    pthread_mutex_unlock(&j->server->mutex);
    return ready ? http_send(&j->server->options.access, c, &x->sent, http, response, type) : MHD_YES;
}

/* Estimates the memory that a request uses until it is answered. The structure of a chat's messages takes more. */
static size_t server_cost_of(const serve_request *r, size_t length) {
    return sizeof(job) + length * (r->chat ? 12 : 2);
}

/* Reserves memory for requests. Returns false if there is not enough left. */
static bool server_hold(serve_server *s, size_t bytes) {
    pthread_mutex_lock(&s->mutex);
    const bool room = bytes <= s->options.memory_limit && s->held <= s->options.memory_limit - bytes;
    if (room) s->held += bytes;
    pthread_mutex_unlock(&s->mutex);
    return room;
}

static void server_drop_body(serve_server *s, exchange *x) {
    pthread_mutex_lock(&s->mutex);
    s->held -= x->cost;
    pthread_mutex_unlock(&s->mutex);
    x->cost = 0;
    text_deinit(&x->body);
}

static void server_refuse_overload(serve_problem *p) {
    serve_refuse(p, 503, "server_error", NULL, "overloaded",
                 "the waiting requests use all the memory set aside for them; try again later");
}

static enum MHD_Result server_enqueue(serve_server *s, struct MHD_Connection *c, exchange *x,
                                      const serve_request *request, size_t cost) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    serve_problem p = {0};
    job *j = mem_alloc(sizeof *j);
    const bool room = server_hold(s, cost);
    pthread_mutex_lock(&s->mutex);
    if (!room)
        server_refuse_overload(&p);
    else if (!j || !info)
        serve_refuse(&p, 500, "server_error", NULL, NULL, "not enough memory for the request");
    else if (s->stopping)
        serve_refuse(&p, 503, "server_error", NULL, NULL, "the server is shutting down");
    else if (s->queued >= s->options.queue_limit)
        serve_refuse(&p, 503, "server_error", NULL, "overloaded", "%d requests are waiting already; try again later",
                     s->queued);
    if (!p.http && j && info) {
        *j = (job){.server = s,
                   .references = 2,
                   .request = *request,
                   .cost = cost,
                   .connection = c,
                   .peer = {info->connect_fd, clock_ns()}};
        (void)connections_peer_left(&j->peer); /* the client may already have closed its side, and waits */
        x->job = j;
        if (s->last)
            s->last->next = j;
        else
            s->first = j;
        s->last = j;
        s->queued++;
        s->open++;
        pthread_cond_broadcast(&s->changed);
    }
    if (p.http && room) s->held -= cost;
    pthread_mutex_unlock(&s->mutex);
    if (!p.http && j) {
        connections_set_busy(s->connections, server_connection_of(c), true);
        return server_answer_job(c, x, j);
    }
    serve_request rest = *request;
    serve_request_deinit(&rest);
    mem_free(j);
    return http_send_problem(&s->options.access, c, &x->sent, &p);
}

/* ---- routes ----------------------------------------------------------------------------------------------------------- */

static enum MHD_Result server_post(serve_server *s, struct MHD_Connection *c, exchange *x, serve_kind kind) {
    serve_problem p = {0};
    serve_request request;
    const char *body = x->body.data ? x->body.data : "";
    const size_t length = x->body.length;
    if (x->too_large)
        serve_refuse(&p, 413, "invalid_request_error", NULL, NULL, "the request is larger than %zu bytes",
                     s->options.body_limit);
    else if (x->too_many)
        server_refuse_overload(&p);
    else if (x->body.failed)
        serve_refuse(&p, 500, "server_error", NULL, NULL, "not enough memory for the request");
    else if (serve_request_check_items(body, length, kind, infer_context(s->engine->decoder), &p) &&
             serve_request_parse(body, length, kind, &request, &p)) {
        server_drop_body(s, x);
        if (serve_check_sizes(s->engine, &request, &p))
            return server_enqueue(s, c, x, &request, server_cost_of(&request, length));
        serve_request_deinit(&request);
    }
    server_drop_body(s, x);
    return http_send_problem(&s->options.access, c, &x->sent, &p);
}

static void server_print_metrics(serve_server *s, text *out) {
    pthread_mutex_lock(&s->mutex);
    const access_counts counts = s->counts;
    const access_now now = {s->options.version ? s->options.version : "", s->queued, s->open, s->held,
                            s->engine->created};
    pthread_mutex_unlock(&s->mutex);
    access_print_metrics(out, &counts, &now);
}

static enum MHD_Result server_get(serve_server *s, struct MHD_Connection *c, exchange *x, const char *url) {
    static const char models[] = "/v1/models/";
    text body = {0};
    serve_problem p;
    const char *type = "application/json";
    if (strcmp(url, "/") == 0)
        http_page_print(&body), type = "text/html; charset=utf-8";
    else if (strcmp(url, "/health") == 0)
        text_append(&body, "{\"status\":\"ok\"}\n");
    else if (strcmp(url, "/metrics") == 0)
        server_print_metrics(s, &body), type = "text/plain; version=0.0.4";
    else if (strcmp(url, "/v1/models") == 0)
        serve_print_models(&body, s->engine->name, s->engine->created, s->engine->chat, true);
    else if (serve_model_is(s->engine, url + sizeof models - 1, &p))
        serve_print_models(&body, s->engine->name, s->engine->created, s->engine->chat, false);
    else
        return http_send_problem(&s->options.access, c, &x->sent, &p);
    return http_send_text(&s->options.access, c, &x->sent, 200, &body, type);
}

static enum MHD_Result server_dispatch(serve_server *s, struct MHD_Connection *c, exchange *x, const char *url,
                                       const char *method) {
    serve_problem p;
    const serve_route r = serve_route_of(url);
    if (!server_admits(s, c, url, method, &p)) return http_send_problem(&s->options.access, c, &x->sent, &p);
    if (r != SERVE_ROUTE_NONE && strcmp(method, "OPTIONS") == 0)
        return http_send_text(&s->options.access, c, &x->sent, 204, &(text){0}, NULL);
    if (r == SERVE_ROUTE_GET && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0))
        return server_get(s, c, x, url);
    if (r > SERVE_ROUTE_GET && strcmp(method, "POST") == 0)
        return server_post(s, c, x, (serve_kind)(r - SERVE_ROUTE_POST));
    if (r == SERVE_ROUTE_NONE)
        serve_refuse(&p, 404, "invalid_request_error", NULL, NULL, "there is nothing at '%.200s'", url);
    else
        serve_refuse(&p, 405, "invalid_request_error", NULL, NULL, "'%.200s' takes %s, not %.20s", url,
                     r == SERVE_ROUTE_GET ? "GET" : "POST", method);
    return http_send_problem(&s->options.access, c, &x->sent, &p);
}

/* Adds a part to the request's body. If the body is too large or memory for requests is short, the rest is discarded,
 * and the request is refused at its end. A client that sends more than four times the limit is cut off. */
static enum MHD_Result server_take_body(serve_server *s, exchange *x, const char *data, size_t *length) {
    size_t limit = s->options.body_limit;
    if (x->body.length + *length > limit) x->too_large = true;
    const size_t cost = 2 * *length; /* a text's buffer may grow to twice its content */
    const bool kept = !x->too_large && !x->too_many;
    if (kept && !server_hold(s, cost)) x->too_many = true;
    if (kept && !x->too_many) {
        x->cost += cost;
        text_append_n(&x->body, data, *length);
    }
    if (x->too_large || x->too_many) {
        if (kept) server_drop_body(s, x);
        x->body.length += *length; /* counted but not kept */
        if (x->body.length > 4 * limit) return MHD_NO;
    }
    *length = 0;
    return MHD_YES;
}

static enum MHD_Result server_handle(void *context, struct MHD_Connection *c, const char *url, const char *method,
                                     const char *version, const char *data, size_t *length, void **state) {
    serve_server *s = context;
    exchange *x = *state;
    (void)version;
    if (!x) {
        *state = x = mem_alloc(sizeof *x);
        if (!x) return MHD_NO;
        serve_problem p;
        const char *announced = http_send_header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);
        x->begun = clock_ns();
        snprintf(x->method, sizeof x->method, "%s", method);
        snprintf(x->path, sizeof x->path, "%s", url);
        http_send_name(c, &x->sent);
        if (!http_send_is_clear(c, &p) || !server_admits(s, c, url, method, &p))
            return http_send_problem(&s->options.access, c, &x->sent, &p); /* before the body arrives */
        if (announced && strtoull(announced, NULL, 10) > s->options.body_limit) {
            x->too_large = true;
            return server_dispatch(s, c, x, url, method);
        }
        return MHD_YES;
    }
    if (*length) return server_take_body(s, x, data, length);
    return x->job ? server_answer_job(c, x, x->job) : server_dispatch(s, c, x, url, method);
}

/* Counts and logs a request. If its client left before an answer, its status is 499, as in other servers. */
static void server_record(serve_server *s, struct MHD_Connection *c, const exchange *x, const serve_usage *used) {
    char client[64];
    text line = {0};
    const access_request r = {.client = http_send_client(c, client),
                              .method = x->method,
                              .path = x->path,
                              .id = x->sent.id,
                              .http = x->sent.http ? x->sent.http : 499,
                              .seconds = (double)(clock_ns() - x->begun) / 1e9,
                              .prompt = used->prompt,
                              .completion = used->completion,
                              .reused = used->reused};
    pthread_mutex_lock(&s->mutex);
    access_count(&s->counts, &r);
    pthread_mutex_unlock(&s->mutex);
    if (!s->options.log) return;
    access_print_line(&line, &r);
    pthread_mutex_lock(&s->lines);
    if (!line.failed) s->options.log(s->options.log_context, line.data);
    pthread_mutex_unlock(&s->lines);
    text_deinit(&line);
}

static void server_completed(void *context, struct MHD_Connection *c, void **state,
                             enum MHD_RequestTerminationCode why) {
    serve_server *s = context;
    exchange *x = *state;
    serve_usage used = {0};
    (void)why;
    if (!x) return;
    if (x->job) {
        pthread_mutex_lock(&s->mutex);
        used = x->job->usage;
        x->job->gone = true;
        x->job->connection = NULL;
        server_job_drop(x->job);
        s->open--;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
    }
    connections_set_busy(s->connections, server_connection_of(c), false);
    server_record(s, c, x, &used);
    server_drop_body(s, x);
    mem_free(x);
    *state = NULL;
}

static void server_opened_or_closed(void *context, struct MHD_Connection *c, void **own,
                                    enum MHD_ConnectionNotificationCode what) {
    serve_server *s = context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        connections_leave(s->connections, *own);
        *own = NULL;
    } else {
        *own = info ? connections_enter(s->connections, info->connect_fd) : NULL;
        if (info && !*own) (void)shutdown(info->connect_fd, SHUT_RDWR);
    }
}

/* ---- start and stop ------------------------------------------------------------------------------------------------- */

static propane_status server_listen(serve_server *s, int fd, propane_error *err) {
    const listeners_calls calls = {.handle = server_handle,
                                   .completed = server_completed,
                                   .opened_or_closed = server_opened_or_closed,
                                   .context = s,
                                   .connection_limit = (unsigned)s->options.connection_limit};
    const char *certificate = s->options.tls_certificate, *key = s->options.tls_key;
    s->options.tls_certificate = s->options.tls_key = NULL; /* the caller may free them */
    return listeners_open(fd, &calls, certificate, key, &s->listeners, err);
}

propane_status serve_start(serve_engine *engine, const serve_options *options, serve_server **out, propane_error *err) {
    int fd = -1, port = 0;
    PROPANE_TRY(connections_listen(options->host, options->port, &fd, &port, err));
    serve_server *s = mem_alloc(sizeof *s);
    if (!s) {
        close(fd);
        return propane_fail_memory(err, sizeof *s);
    }
    *s = (serve_server){.engine = engine, .options = *options, .port = port};
    if (!s->options.memory_limit) s->options.memory_limit = (size_t)256 << 20;
    if (!s->options.request_seconds) s->options.request_seconds = 60;
    propane_status status =
        connections_open(options->connection_limit, s->options.request_seconds, &s->connections, err);
    if (status) {
        close(fd);
        mem_free(s);
        return status;
    }
    pthread_mutex_init(&s->mutex, NULL);
    pthread_mutex_init(&s->lines, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->has_worker = pthread_create(&s->worker, NULL, server_work, s) == 0;
    if (!s->has_worker) close(fd);
    status = s->has_worker ? server_listen(s, fd, err)
                           : propane_fail(err, PROPANE_ERR_IO, "cannot create the server's thread");
    if (status) {
        serve_stop(s, 0);
        return status;
    }
    *out = s;
    return PROPANE_OK;
}

int serve_port(const serve_server *s) { return s->port; }

propane_status serve_set_certificate(serve_server *s, const char *certificate, const char *key, propane_error *err) {
    return listeners_renew(s->listeners, certificate, key, err);
}

void serve_set_keys(serve_server *s, const access_keys *keys) { atomic_store(&s->keys, keys); }

/* Waits until the worker is idle, or with `clients` until all answers are received, at most until `until`
 * (clock_ns). */
static void server_wait_for(serve_server *s, bool clients, int64_t until) {
    for (bool done = false; !done && clock_ns() < until; usleep(done ? 0 : 5000)) {
        pthread_mutex_lock(&s->mutex);
        done = clients ? s->open == 0 : s->idle && !s->first;
        pthread_mutex_unlock(&s->mutex);
    }
}

void serve_stop(serve_server *s, int grace_ms) {
    if (!s) return;
    listeners_quiesce(s->listeners);
    pthread_mutex_lock(&s->mutex);
    s->stopping = true;
    job *waiting = s->first;
    s->first = s->last = NULL;
    s->queued = 0;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    while (waiting) {
        job *next = waiting->next;
        server_refuse_job(waiting, 503, "the server is shutting down");
        waiting = next;
    }
    if (s->has_worker) {
        server_wait_for(s, false, clock_ns() + (int64_t)grace_ms * 1000000);
        pthread_mutex_lock(&s->mutex);
        s->cancel = true;
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->worker, NULL);
    }
    server_wait_for(s, true, clock_ns() + 2000000000);
    listeners_close(s->listeners);
    connections_close(s->connections);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    pthread_mutex_destroy(&s->lines);
    mem_free(s);
}
