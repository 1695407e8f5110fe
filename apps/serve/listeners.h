/* SPDX-License-Identifier: MIT
 * The daemons of libmicrohttpd behind one listening socket: the one that takes connections, and former ones, whose
 * connections go on under the certificate that they began with.
 */
#ifndef APPS_SERVE_LISTENERS_H
#define APPS_SERVE_LISTENERS_H

#include <microhttpd.h>

#include "core/base/status.h"

/* What every daemon calls, each in a thread of its own. */
typedef struct listeners_calls {
    MHD_AccessHandlerCallback handle;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback opened_or_closed;
    void *context;
    unsigned connection_limit; /* of each daemon */
} listeners_calls;

typedef struct listeners listeners;

/* Takes the listening socket, also where it fails. certificate, key: PEM, both or NULL; not kept. */
PROPANE_CHECK propane_status listeners_open(int fd, const listeners_calls *calls, const char *certificate,
                                            const char *key, listeners **out, propane_error *err);
/* From now on connections begin with this certificate. After an error everything is as it was. One thread at a time. */
PROPANE_CHECK propane_status listeners_renew(listeners *l, const char *certificate, const char *key,
                                             propane_error *err);
/* Takes no more connections; those that there are go on. NULL: does nothing. */
void listeners_quiesce(listeners *l);
/* After listeners_quiesce: ends all connections. NULL: does nothing. */
void listeners_close(listeners *l);

#endif
