/* SPDX-License-Identifier: MIT
 * The HTTP server: one model behind OpenAI's completions and chat endpoints.
 *
 *   GET  / (a page to talk with the model), /health, /metrics, /v1/models, /v1/models/NAME
 *   POST /v1/completions, /v1/chat/completions, /v1/embeddings, /v1/responses
 *
 * One thread (libmicrohttpd's; after a new certificate one more) talks to all clients, another one works: requests are
 * answered one after the other, in the order in which they came; what a slow client has not taken yet waits in memory
 * (an answer is bounded by the context), so it holds up nobody. A client that closes its connection ends its own
 * request. Beyond the queue's limit or the memory for requests: 503. A request that the context has no room for is
 * refused before it waits; one that does not arrive in time is cut off, and so are connections that ask for nothing
 * while places are short (apps/serve/connections.h). Requests of web pages from elsewhere (an Origin that is neither
 * this machine nor allowed) are refused: 403; those of others get the headers that let them read the answers (CORS). Where
 * there are keys, a request without one of them is refused: 401.
 */
#ifndef APPS_SERVE_SERVER_H
#define APPS_SERVE_SERVER_H

#include "apps/serve/access.h"
#include "apps/serve/engine.h"

typedef struct serve_options {
    const char *host; /* an address of this machine, or "localhost" */
    int port;         /* 0: any that is free */
    size_t body_limit;
    int queue_limit, connection_limit;
    size_t memory_limit; /* bytes that requests may take together while they arrive and wait; 0: 256 MB */
    int request_seconds; /* for a whole request to arrive; 0: 60 */
    access_rules access; /* borrowed lists */
    const char *tls_certificate, *tls_key; /* PEM, both or neither: HTTPS alone */
    const char *version;                   /* for /metrics; NULL: left out */
    /* A line for each request that was answered, without its end; in a thread of connections, one at a time. NULL:
     * none. */
    void (*log)(void *context, const char *line);
    void *log_context;
} serve_options;

typedef struct serve_server serve_server;

/* The engine is the server's until it is stopped. */
PROPANE_CHECK propane_status serve_start(serve_engine *engine, const serve_options *options, serve_server **out,
                                         propane_error *err);
int serve_port(const serve_server *s);
/* From the next request on these keys count; they outlive the server. */
void serve_set_keys(serve_server *s, const access_keys *keys);
/* Connections begin with this certificate and key (PEM, not kept) from now on; those that there are go on. After an
 * error all is as it was. Of a server that was started with a certificate; one thread at a time. */
PROPANE_CHECK propane_status serve_set_certificate(serve_server *s, const char *certificate, const char *key,
                                                   propane_error *err);
/* Takes no more requests, answers those that wait with 503, lets the present one go on for at most `grace_ms`, ends it (in a
 * stream with an error event), lets clients take what is ready for at most two seconds, closes all. NULL: does
 * nothing. */
void serve_stop(serve_server *s, int grace_ms);

#endif
