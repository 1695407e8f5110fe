/* SPDX-License-Identifier: MIT
 * Declares the connections of a server, and the limits that keep idle connections from blocking it. A request must
 * arrive completely within a time limit. When more than three quarters of the places are taken, connections that have
 * been idle for a second are ended, the longest idle first. When more than seven eighths are taken, a quarter of a
 * second is enough.
 */
#ifndef APPS_SERVE_CONNECTIONS_H
#define APPS_SERVE_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* Opens a socket that listens at `host`, an address of this machine or "localhost", and at port `wanted` (0 means any
 * free port). Sets *out to the socket and *port to its port. */
PROPANE_CHECK propane_status connections_listen(const char *host, int wanted, int *out, int *port, propane_error *err);

typedef struct connections connections;
typedef struct connection connection;

/* Creates the list of connections and the thread that enforces the limits. `limit` is the maximum number of
 * connections. `seconds` is the time in which a request must arrive completely, counted from the start of the
 * connection or the end of the previous request. */
PROPANE_CHECK propane_status connections_open(int limit, int seconds, connections **out, propane_error *err);
/* Must be called after all connections are gone. NULL does nothing. */
void connections_close(connections *all);
/* Adds a connection to the list. Returns NULL if memory runs out; the caller should then end the connection. */
connection *connections_enter(connections *all, int fd);
/* Removes a connection from the list. Must be called before its descriptor is closed. A NULL connection does
 * nothing. */
void connections_leave(connections *all, connection *c);
/* Marks whether a connection has a complete request that is not yet answered. There is no time limit for answers. */
void connections_set_busy(connections *all, connection *c, bool busy);

/* The rules, for tests. connections_are_full returns whether new connections would soon have to wait.
 * connections_too_many returns by how many the connections exceed the wanted number (negative if they are fewer).
 * connections_ends returns whether to end a connection that has been idle for `idle` ns; `patience` is the time limit
 * in ns. */
bool connections_are_full(int count, int limit);
int connections_too_many(int count, int limit);
bool connections_ends(bool full, int too_many, int64_t idle, int64_t patience);

/* A client that waits for an answer. */
typedef struct connections_peer {
    int fd;
    int64_t since;    /* time at which the request was complete; clock_ns */
    bool half_closed; /* the client has closed its side of the connection, and waits */
} connections_peer;
/* Returns whether the client has gone. A client that closes its side of the connection right after its request, as `nc
 * -N` does, still waits for the answer. A client that closes its side later has given up. */
bool connections_peer_left(connections_peer *p);

#endif
