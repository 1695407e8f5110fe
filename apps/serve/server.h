/* SPDX-License-Identifier: MIT
 * Declares the HTTP server, which offers one model through OpenAI's endpoints.
 *
 *   GET  / (a page to talk with the model), /health, /metrics, /v1/models, /v1/models/NAME
 *   POST /v1/completions, /v1/chat/completions, /v1/embeddings, /v1/responses
 *
 * A thread of libmicrohttpd serves all clients (each new certificate adds one such thread), and a worker thread
 * computes the answers. Requests begin in the order of arrival. Output that a slow client has not read yet waits in
 * memory, so a slow client does not delay others; the context limits the size of an answer. A client that closes its
 * connection ends only its own request. If the queue or the memory for requests is full, the answer is 503. A request
 * for which the context has no room is refused before it waits. A request that does not arrive in time is cut off. Idle
 * connections are ended while places are short (apps/serve/connections.h). Requests from web pages whose Origin is
 * neither this machine nor allowed are refused with 403. Allowed pages get the headers with which they can read the
 * answers (CORS). If there are keys, a request without one of them is refused with 401.
 */
#ifndef APPS_SERVE_SERVER_H
#define APPS_SERVE_SERVER_H

#include "apps/serve/access.h"
#include "apps/serve/engine.h"

typedef struct serve_options {
    const char *host; /* an address of this machine, or "localhost" */
    int port;         /* 0 means any free port */
    size_t body_limit;
    int queue_limit, connection_limit;
    size_t memory_limit; /* bytes that all requests may use until they are answered; 0 means 256 MiB */
    int request_seconds; /* time in which a request must arrive completely; 0 means 60 */
    access_rules access; /* its lists must outlive the server */
    const char *tls_certificate, *tls_key; /* PEM texts, or both NULL; with them, the server accepts only HTTPS */
    const char *version;                   /* version in /metrics; NULL to leave it out */
    /* Called with a line, without a newline, for each answered request, in a thread of the connections. Only one call
     * runs at a time. NULL for no log. */
    void (*log)(void *context, const char *line);
    void *log_context;
} serve_options;

typedef struct serve_server serve_server;

/* Starts a server. Until serve_stop, only the server may use the engine. */
PROPANE_CHECK propane_status serve_start(serve_engine *engine, const serve_options *options, serve_server **out,
                                         propane_error *err);
int serve_port(const serve_server *s);
/* Replaces the keys from the next request on. `keys` must outlive the server. */
void serve_set_keys(serve_server *s, const access_keys *keys);
/* Sets the certificate and key (PEM texts, which are not kept) of new connections. Existing connections continue. After
 * an error nothing has changed. Only for a server that was started with a certificate. Only one thread at a time may
 * call this function. */
PROPANE_CHECK propane_status serve_set_certificate(serve_server *s, const char *certificate, const char *key,
                                                   propane_error *err);
/* Stops and frees the server. Accepts no more requests, and answers waiting ones with 503. Lets requests in progress
 * run for at most `grace_ms` ms, then ends them (in a stream with an error event). Gives clients at most two seconds to
 * read their answers, then closes all connections. NULL does nothing. */
void serve_stop(serve_server *s, int grace_ms);

#endif
