/* SPDX-License-Identifier: MIT
 * Declares the libmicrohttpd daemons on one listening socket. One daemon accepts connections. The former daemons serve
 * their existing connections, which keep the certificate with which they began.
 */
#ifndef APPS_SERVE_LISTENERS_H
#define APPS_SERVE_LISTENERS_H

#include <microhttpd.h>

#include "core/base/status.h"

/* Callbacks of every daemon, each called in a separate thread. */
typedef struct listeners_calls {
    MHD_AccessHandlerCallback handle;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback opened_or_closed;
    void *context;
    unsigned connection_limit; /* per daemon */
} listeners_calls;

typedef struct listeners listeners;

/* Starts a daemon on the listening socket, and takes ownership of the socket, even after a failure. `certificate` and
 * `key` are PEM texts, or both NULL; they are not kept. */
PROPANE_CHECK propane_status listeners_open(int fd, const listeners_calls *calls, const char *certificate,
                                            const char *key, listeners **out, propane_error *err);
/* Sets the certificate of new connections. After an error nothing has changed. Only one thread at a time may call this
 * function. */
PROPANE_CHECK propane_status listeners_renew(listeners *l, const char *certificate, const char *key,
                                             propane_error *err);
/* Stops accepting connections; existing ones continue. NULL does nothing. */
void listeners_quiesce(listeners *l);
/* Ends all connections and frees `l`. Must be called after listeners_quiesce. NULL does nothing. */
void listeners_close(listeners *l);

#endif
