/* SPDX-License-Identifier: MIT
 * Answers to the HTTP library's connections, with the headers that browsers and proxies want. In the connections'
 * thread.
 */
#ifndef APPS_SERVE_HTTP_SEND_H
#define APPS_SERVE_HTTP_SEND_H

#include <microhttpd.h>

#include "apps/serve/access.h"
#include "apps/serve/http_reply.h"

/* What an answer was, for the log. */
typedef struct http_sent {
    int http;
    char id[72]; /* X-Request-Id of request and answer */
} http_sent;

/* The request's X-Request-Id if it is one of letters, digits, "-", "_" and "."; else a new one. */
void http_send_name(struct MHD_Connection *c, http_sent *sent);
const char *http_send_header(struct MHD_Connection *c, const char *name); /* of the request; NULL: it has none */
const char *http_send_client(struct MHD_Connection *c, char out[64]);     /* its address */
/* Whether the length of a request's body is said once and in one way, as RFC 9112 (6.3) has it: a proxy in front might
 * have read another one, and what follows would be taken for a request. False: `p` is filled, and the connection must
 * end. */
bool http_send_is_clear(struct MHD_Connection *c, serve_problem *p);
/* Pages from elsewhere may not ask, nor who has no key. False: `p` is filled. */
bool http_send_admits(const access_rules *rules, struct MHD_Connection *c, const char *url, const char *method,
                      serve_problem *p);

struct MHD_Response *http_send_copy(const text *body); /* NULL: no memory */
/* Takes the response over; NULL ends the connection. sent->http becomes the status. `type` NULL: there is no body. */
enum MHD_Result http_send(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                          struct MHD_Response *response, const char *type);
enum MHD_Result http_send_text(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                               text *body, const char *type); /* frees the body */
enum MHD_Result http_send_problem(const access_rules *rules, struct MHD_Connection *c, http_sent *sent,
                                  const serve_problem *p);

#endif
