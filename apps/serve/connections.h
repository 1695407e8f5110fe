/* SPDX-License-Identifier: MIT
 * The connections of a server that have no request in progress, and limits that keep them from blocking it. A request must
 * arrive completely within a time limit. Once three quarters of the places are taken, connections that have been idle
 * for a second are ended, the longest idle first; once seven eighths are taken, a quarter of a second is enough.
 */
#ifndef APPS_SERVE_CONNECTIONS_H
#define APPS_SERVE_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* Opens a socket that listens at an address of this machine, or at "localhost". wanted 0 means any free port. */
PROPANE_CHECK propane_status connections_listen(const char *host, int wanted, int *out, int *port, propane_error *err);

typedef struct connections connections;
typedef struct connection connection;

/* `limit` is the number of all connections; `seconds` is the time for a whole request to arrive, and between two. A
 * separate thread enforces them. */
PROPANE_CHECK propane_status connections_open(int limit, int seconds, connections **out, propane_error *err);
/* Must be called after all connections are gone. NULL does nothing. */
void connections_close(connections *all);
/* Returns NULL if memory runs out. The connection is then not watched, and the caller should end it. */
connection *connections_enter(connections *all, int fd);
void connections_leave(connections *all, connection *c); /* before the descriptor is closed; NULL does nothing */
/* Marks a connection whose request is complete and not yet answered. There is no time limit for that. */
void connections_set_busy(connections *all, connection *c, bool busy);

/* The rules: whether new connections would soon have to wait, by how many the connections exceed what the server wants
 * (negative if it wants more), and whether to end a connection that has been idle for this long (ns). */
bool connections_are_full(int count, int limit);
int connections_too_many(int count, int limit);
bool connections_ends(bool full, int too_many, int64_t idle, int64_t patience);

/* A client that waits for an answer. */
typedef struct connections_peer {
    int fd;
    int64_t since;    /* clock_ns at which its request was complete */
    bool half_closed; /* it has closed its side and is waiting */
} connections_peer;
/* Returns whether the client has gone. One that closes its side of the connection right after its request (as `nc -N`
 * does) has sent everything and waits. One that closes it later has given up. */
bool connections_peer_left(connections_peer *p);

#endif
