/* SPDX-License-Identifier: MIT
 * Declares the sending of answers on the HTTP library's connections, with the headers that browsers and proxies expect.
 * All functions must be called in the connections' thread.
 */
#ifndef APPS_SERVE_HTTP_SEND_H
#define APPS_SERVE_HTTP_SEND_H

#include <microhttpd.h>

#include "apps/serve/access.h"
#include "apps/serve/http_reply.h"

/* Facts about an answer, for the log. */
typedef struct http_sent {
    int http;
    char id[72]; /* the answer's X-Request-Id */
} http_sent;

/* Sets sent->id to the request's X-Request-Id if that has at most 64 letters, digits, "-", "_" and "."; otherwise to a
 * new id. */
void http_send_name(struct MHD_Connection *c, http_sent *sent);
/* Returns the value of a header of the request; NULL if it is missing. */
const char *http_send_header(struct MHD_Connection *c, const char *name);
const char *http_send_client(struct MHD_Connection *c, char out[64]); /* the client's address */
/* Returns whether the request states the length of its body once and in one way, as RFC 9112 (6.3) requires. Otherwise
 * a proxy in front of the server might read a different length, and mistake the rest of the body for another request.
 * If the result is false, `p` is filled in, and the connection must end. */
bool http_send_is_clear(struct MHD_Connection *c, serve_problem *p);
/* Returns whether the request's origin, host and key are allowed. If not, `p` is filled in. */
bool http_send_admits(const access_rules *rules, struct MHD_Connection *c, const char *url, const char *method,
                      serve_problem *p);

struct MHD_Response *http_send_copy(const text *body); /* returns NULL if memory runs out */
/* Sends the response and takes ownership of it. A NULL response ends the connection. Sets sent->http to the status.
 * `type` is NULL if there is no body. */
enum MHD_Result http_send(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                          struct MHD_Response *response, const char *type);
enum MHD_Result http_send_text(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                               text *body, const char *type); /* frees the body */
enum MHD_Result http_send_problem(const access_rules *rules, struct MHD_Connection *c, http_sent *sent,
                                  const serve_problem *p);

#endif
