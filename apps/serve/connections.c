/* SPDX-License-Identifier: MIT
 * Owns the opening of the listening socket, the list of connections, and the thread that checks them. The thread checks
 * four times per second, or more often while the list is nearly full. To end a connection, the thread shuts down its
 * socket, which looks to the HTTP library as if the client had left. Everything else about a connection belongs to that
 * library.
 */
#include "apps/serve/connections.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/condition.h"
#include "core/base/memory.h"

struct connection {
    connection *before, *next; /* in the order of `since`, oldest first */
    int fd;
    int64_t since; /* time at which the connection became idle; clock_ns */
    bool busy, ended;
};

struct connections {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool stopping;
    int limit, count;
    int64_t patience;
    connection *first, *last;
};

/* The intervals at which idle connections are checked, while there is room and while the list is nearly full. */
enum { CONNECTIONS_CHECK_MS = 250, CONNECTIONS_FULL_CHECK_MS = 25 };

static void connections_append(connections *all, connection *c) {
    c->before = all->last;
    c->next = NULL;
    *(all->last ? &all->last->next : &all->first) = c;
    all->last = c;
}

static void connections_remove(connections *all, connection *c) {
    *(c->before ? &c->before->next : &all->first) = c->next;
    *(c->next ? &c->next->before : &all->last) = c->before;
}

bool connections_are_full(int count, int limit) { return count > limit - limit / 8; }

int connections_too_many(int count, int limit) { return count - limit * 3 / 4; }

bool connections_ends(bool full, int too_many, int64_t idle, int64_t patience) {
    enum { GRACE_MS = 1000, FULL_GRACE_MS = 250 };
    const int64_t grace = full ? FULL_GRACE_MS : GRACE_MS;
    return idle >= grace * 1000000 && (idle >= patience || too_many > 0);
}

static void connections_check(connections *all) {
    const int64_t now = clock_ns();
    const bool full = connections_are_full(all->count, all->limit);
    int too_many = connections_too_many(all->count, all->limit);
    for (connection *c = all->first; c; c = c->next) too_many -= c->ended; /* ended connections will leave soon */
    for (connection *c = all->first; c; c = c->next) {
        if (c->busy || c->ended || !connections_ends(full, too_many, now - c->since, all->patience)) continue;
        c->ended = true;
        too_many--;
        (void)shutdown(c->fd, SHUT_RDWR);
    }
}

static void *connections_watch(void *context) {
    connections *all = context;
    pthread_mutex_lock(&all->mutex);
    while (!all->stopping) {
        const bool full = connections_are_full(all->count, all->limit);
        const int64_t wait = full ? CONNECTIONS_FULL_CHECK_MS : CONNECTIONS_CHECK_MS;
        (void)condition_wait_until(&all->changed, &all->mutex, clock_ns() + wait * 1000000);
        connections_check(all);
    }
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

propane_status connections_open(int limit, int seconds, connections **out, propane_error *err) {
    connections *all = mem_alloc(sizeof *all);
    *out = NULL;
    if (!all) return propane_fail_memory(err, sizeof *all);
    all->limit = limit;
    all->patience = (int64_t)seconds * 1000000000;
    pthread_mutex_init(&all->mutex, NULL);
    const bool waits = condition_init(&all->changed) == 0;
    if (waits && pthread_create(&all->thread, NULL, connections_watch, all) == 0) {
        *out = all;
        return PROPANE_OK;
    }
    if (waits) pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
    mem_free(all);
    return propane_fail(err, PROPANE_ERR_IO, "cannot create the server's thread");
}

void connections_close(connections *all) {
    if (!all) return;
    pthread_mutex_lock(&all->mutex);
    all->stopping = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->mutex);
    pthread_join(all->thread, NULL);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
    mem_free(all);
}

connection *connections_enter(connections *all, int fd) {
    connection *c = mem_alloc(sizeof *c);
    if (!c) return NULL;
    c->fd = fd;
    pthread_mutex_lock(&all->mutex);
    c->since = clock_ns();
    connections_append(all, c);
    all->count++;
    pthread_mutex_unlock(&all->mutex);
    return c;
}

void connections_leave(connections *all, connection *c) {
    if (!c) return;
    pthread_mutex_lock(&all->mutex);
    connections_remove(all, c);
    all->count--;
    pthread_mutex_unlock(&all->mutex);
    mem_free(c);
}

void connections_set_busy(connections *all, connection *c, bool busy) {
    if (!c) return;
    pthread_mutex_lock(&all->mutex);
    c->busy = busy;
    if (!busy) { /* the connection is idle from now on */
        connections_remove(all, c);
        c->since = clock_ns();
        connections_append(all, c);
    }
    pthread_mutex_unlock(&all->mutex);
}

/* ---- the listening socket ---------------------------------------------------------------------------------------- */

propane_status connections_listen(const char *given, int wanted, int *out, int *port, propane_error *err) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    const char *host = strcmp(given, "localhost") == 0 ? "127.0.0.1" : given;
    socklen_t size = sizeof address.v4;
    int one = 1;
    if (inet_pton(AF_INET, host, &address.v4.sin_addr) == 1) {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons((uint16_t)wanted);
    } else if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons((uint16_t)wanted);
        size = sizeof address.v6;
    } else {
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "'%.100s' is not an address; give one of this machine, such as 127.0.0.1 or 0.0.0.0", host);
    }
    int fd = socket(address.any.sa_family, SOCK_STREAM, 0);
    bool good = fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 && bind(fd, &address.any, size) == 0 &&
                listen(fd, SOMAXCONN) == 0 && getsockname(fd, &address.any, &size) == 0;
    if (!good) {
        int reason = errno;
        if (fd >= 0) close(fd);
        return propane_fail(err, PROPANE_ERR_IO, "cannot listen on %s port %d: %s; %s", host, wanted, strerror(reason),
                            reason == EADDRINUSE ? "another program is using it; give another --port"
                                                 : "give another --host or --port");
    }
    *out = fd;
    *port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    return PROPANE_OK;
}

bool connections_peer_left(connections_peer *p) {
    enum { RIGHT_BEHIND_MS = 250 };
    char byte;
    if (p->half_closed || recv(p->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) return false;
    p->half_closed = clock_ns() - p->since < RIGHT_BEHIND_MS * INT64_C(1000000);
    return !p->half_closed;
}
