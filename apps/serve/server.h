/* SPDX-License-Identifier: MIT
 * The HTTP server: one model behind OpenAI's completions and chat endpoints.
 *
 *   GET  / (a page to talk with the model), /health, /metrics, /v1/models, /v1/models/NAME
 *   POST /v1/completions, /v1/chat/completions, /v1/embeddings, /v1/responses
 *
 * One thread (libmicrohttpd's; one more after a new certificate) serves all clients, and another one works. Requests
 * begin in the order of arrival. Output that a slow client has not read yet waits in memory (the context bounds an
 * answer), so it delays nobody. A client that closes its connection ends only its own request. Beyond the queue's limit
 * or the memory for requests, the answer is 503. A request for which the context has no room is refused before it
 * waits. One that does not arrive in time is cut off, and so are idle connections while places are short
 * (apps/serve/connections.h). Requests from web pages elsewhere (an Origin that is neither this machine nor allowed)
 * are refused with 403; allowed ones get the headers that let them read the answers (CORS). If there are keys, a
 * request without one of them is refused with 401.
 */
#ifndef APPS_SERVE_SERVER_H
#define APPS_SERVE_SERVER_H

#include "apps/serve/access.h"
#include "apps/serve/engine.h"

typedef struct serve_options {
    const char *host; /* an address of this machine, or "localhost" */
    int port;         /* 0 for any free port */
    size_t body_limit;
    int queue_limit, connection_limit;
    size_t memory_limit; /* bytes that all requests may use while they arrive and wait; 0 for 256 MB */
    int request_seconds; /* time for a whole request to arrive; 0 for 60 */
    access_rules access; /* borrowed lists */
    const char *tls_certificate, *tls_key; /* PEM, both or neither; with them, HTTPS only */
    const char *version;                   /* for /metrics; NULL to omit it */
    /* Receives a line per answered request, without a newline, in a thread of the connections, one at a time. NULL for
     * none. */
    void (*log)(void *context, const char *line);
    void *log_context;
} serve_options;

typedef struct serve_server serve_server;

/* The server uses the engine exclusively until it is stopped. */
PROPANE_CHECK propane_status serve_start(serve_engine *engine, const serve_options *options, serve_server **out,
                                         propane_error *err);
int serve_port(const serve_server *s);
/* Replaces the keys from the next request on; they must outlive the server. */
void serve_set_keys(serve_server *s, const access_keys *keys);
/* New connections use this certificate and key (PEM, not kept); existing ones continue. After an error everything is
 * unchanged. Only for a server that was started with a certificate; one thread at a time. */
PROPANE_CHECK propane_status serve_set_certificate(serve_server *s, const char *certificate, const char *key,
                                                   propane_error *err);
/* Accepts no more requests and answers those that wait with 503. Lets the current ones run for at most `grace_ms`, then
 * ends them (in a stream with an error event). Lets clients read what is ready for at most two seconds, then closes
 * everything. NULL does nothing. */
void serve_stop(serve_server *s, int grace_ms);

#endif
