/* SPDX-License-Identifier: MIT
 * Owns the daemons. A daemon keeps its certificate for its whole life, so a new certificate needs a new daemon on the
 * same socket. The new daemon starts before the old one stops accepting connections. Stopping a daemon would end its
 * connections, so a later renewal stops old daemons that have none left. Refuses certificates and keys that do not
 * match.
 */
#include "apps/serve/listeners.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"

typedef struct listener {
    struct listener *former;
    struct MHD_Daemon *daemon;
    int fd; /* this daemon's copy of the listening socket; -1 when closed */
} listener;

struct listeners {
    listeners_calls calls;
    listener *first; /* the daemon that accepts connections */
};

/* Stops and frees a daemon. A daemon that accepts connections must be quiesced first. */
static void listener_free(listener *l) {
    if (!l) return;
    if (l->daemon) MHD_stop_daemon(l->daemon);
    if (l->fd >= 0) close(l->fd);
    mem_free(l);
}

/* Starts a daemon and takes ownership of fd, even after a failure. */
static propane_status listener_begin(int fd, const listeners_calls *c, const char *certificate, const char *key,
                                     listener **out, propane_error *err) {
    const bool tls = certificate && key;
    struct MHD_OptionItem https[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)certificate},
                                     {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key},
                                     {MHD_OPTION_END, 0, NULL}};
    listener *l = mem_alloc(sizeof *l);
    *out = NULL;
    if (!l) close(fd);
    if (!l) return propane_fail_memory(err, sizeof *l);
    *l = (listener){.fd = fd};
    const bool can = !tls || MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES;
    if (can)
        l->daemon = MHD_start_daemon(
            MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, c->handle,
            c->context, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, c->completed, c->context,
            MHD_OPTION_NOTIFY_CONNECTION, c->opened_or_closed, c->context, MHD_OPTION_CONNECTION_LIMIT,
            c->connection_limit, MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
            tls ? https : https + 2, MHD_OPTION_END);
    if (l->daemon) {
        *out = l;
        return PROPANE_OK;
    }
    listener_free(l);
    if (!can) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "this libmicrohttpd was built without TLS");
    return propane_fail(err, tls ? PROPANE_ERR_INVALID : PROPANE_ERR_IO,
                        tls ? "TLS: the certificate and the key are not a usable pair in PEM format"
                            : "cannot create the server's thread");
}

propane_status listeners_open(int fd, const listeners_calls *calls, const char *certificate, const char *key,
                              listeners **out, propane_error *err) {
    listeners *l = mem_alloc(sizeof *l);
    *out = NULL;
    if (!l) close(fd);
    if (!l) return propane_fail_memory(err, sizeof *l);
    *l = (listeners){.calls = *calls};
    const propane_status status = listener_begin(fd, &l->calls, certificate, key, &l->first, err);
    if (status) mem_free(l);
    if (!status) *out = l;
    return status;
}

/* Frees former daemons without connections. */
static void listeners_tidy(listeners *l) {
    for (listener **at = &l->first->former; *at;) {
        listener *old = *at;
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(old->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
        if (!info || info->num_connections) {
            at = &old->former;
            continue;
        }
        *at = old->former;
        listener_free(old);
    }
}

propane_status listeners_renew(listeners *l, const char *certificate, const char *key, propane_error *err) {
    listener *next;
    listeners_tidy(l);
    const int fd = dup(l->first->fd);
    if (fd < 0) return propane_fail(err, PROPANE_ERR_IO, "the listening socket cannot be shared: %s", strerror(errno));
    PROPANE_TRY(listener_begin(fd, &l->calls, certificate, key, &next, err));
    (void)MHD_quiesce_daemon(l->first->daemon); /* its descriptor stays open, because its thread may still use it */
    next->former = l->first;
    l->first = next;
    return PROPANE_OK;
}

void listeners_quiesce(listeners *l) {
    if (l) (void)MHD_quiesce_daemon(l->first->daemon);
    for (listener *at = l ? l->first : NULL; at; at = at->former) { /* once all copies are closed, none can connect */
        close(at->fd);
        at->fd = -1;
    }
}

void listeners_close(listeners *l) {
    if (!l) return;
    for (listener *next = NULL, *at = l->first; at; at = next) {
        next = at->former;
        listener_free(at);
    }
    mem_free(l);
}
