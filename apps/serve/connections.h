/* SPDX-License-Identifier: MIT
 * The connections of a server that have no request to be answered, kept from holding it: a request has so long to
 * arrive as a whole, and once three quarters of the places are taken those that have asked for nothing longest give
 * way.
 */
#ifndef APPS_SERVE_CONNECTIONS_H
#define APPS_SERVE_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* A socket that listens at an address of this machine, or "localhost"; wanted 0: any free port. */
PROPANE_CHECK propane_status connections_listen(const char *host, int wanted, int *out, int *port, propane_error *err);

typedef struct connections connections;
typedef struct connection connection;

/* limit: of all connections; seconds: for a whole request to arrive, and between two. A thread of its own looks after
 * them. */
PROPANE_CHECK propane_status connections_open(int limit, int seconds, connections **out, propane_error *err);
/* After all are gone. NULL: does nothing. */
void connections_close(connections *all);
/* NULL: no memory; then the connection is not looked after and had better be ended. */
connection *connections_enter(connections *all, int fd);
void connections_leave(connections *all, connection *c); /* before the descriptor is closed; NULL: does nothing */
/* From when its request is there until its answer is done it may take what time it takes. */
void connections_set_busy(connections *all, connection *c, bool busy);

/* Who waits for an answer. */
typedef struct connections_peer {
    int fd;
    int64_t since;    /* clock_ns, when its request was whole */
    bool half_closed; /* it has closed its side and waits */
} connections_peer;
/* Whether it has gone. One that closes its side of the connection right behind its request (as `nc -N` does) has said
 * all and waits; one that closes it later has given up. */
bool connections_peer_left(connections_peer *p);

#endif
