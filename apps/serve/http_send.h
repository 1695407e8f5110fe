/* SPDX-License-Identifier: MIT
 * Sends answers to the HTTP library's connections, with the headers that browsers and proxies expect. Runs in the
 * connections' thread.
 */
#ifndef APPS_SERVE_HTTP_SEND_H
#define APPS_SERVE_HTTP_SEND_H

#include <microhttpd.h>

#include "apps/serve/access.h"
#include "apps/serve/http_reply.h"

/* Facts about an answer, for the log. */
typedef struct http_sent {
    int http;
    char id[72]; /* X-Request-Id of request and answer */
} http_sent;

/* Uses the request's X-Request-Id if it consists of letters, digits, "-", "_" and "."; otherwise makes a new one. */
void http_send_name(struct MHD_Connection *c, http_sent *sent);
/* header of the request; NULL if it is missing */
const char *http_send_header(struct MHD_Connection *c, const char *name);
const char *http_send_client(struct MHD_Connection *c, char out[64]); /* the client's address */
/* Returns whether the length of a request's body is given once and in one way, as RFC 9112 (6.3) requires. Otherwise a
 * proxy in front might read a different length, and the rest would be mistaken for another request. If it returns
 * false, `p` is filled in, and the connection must end. */
bool http_send_is_clear(struct MHD_Connection *c, serve_problem *p);
/* Refuses pages from elsewhere and clients without a key. If it returns false, `p` is filled in. */
bool http_send_admits(const access_rules *rules, struct MHD_Connection *c, const char *url, const char *method,
                      serve_problem *p);

struct MHD_Response *http_send_copy(const text *body); /* NULL if memory runs out */
/* Takes ownership of the response; NULL ends the connection. sent->http becomes the status. `type` is NULL if there is
 * no body. */
enum MHD_Result http_send(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                          struct MHD_Response *response, const char *type);
enum MHD_Result http_send_text(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                               text *body, const char *type); /* frees the body */
enum MHD_Result http_send_problem(const access_rules *rules, struct MHD_Connection *c, http_sent *sent,
                                  const serve_problem *p);

#endif
