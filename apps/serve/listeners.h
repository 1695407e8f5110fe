/* SPDX-License-Identifier: MIT
 * The libmicrohttpd daemons on one listening socket: the one that accepts connections, and former ones, whose
 * connections continue with the certificate with which they began.
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

/* Takes ownership of the listening socket, even if it fails. certificate and key are PEM, both given or both NULL; they
 * are not kept. */
PROPANE_CHECK propane_status listeners_open(int fd, const listeners_calls *calls, const char *certificate,
                                            const char *key, listeners **out, propane_error *err);
/* New connections use this certificate. After an error everything is unchanged. Only one thread at a time may call
 * it. */
PROPANE_CHECK propane_status listeners_renew(listeners *l, const char *certificate, const char *key,
                                             propane_error *err);
/* Stops accepting connections; existing ones continue. NULL does nothing. */
void listeners_quiesce(listeners *l);
/* Must be called after listeners_quiesce: ends all connections. NULL does nothing. */
void listeners_close(listeners *l);

#endif
