/* SPDX-License-Identifier: MIT
 * Owns the headers of answers, and the checks whether a client may receive an answer (origin, host, key). All answers
 * are sent through http_send.
 */
#include "apps/serve/http_send.h"

#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/base/rng.h"

const char *http_send_header(struct MHD_Connection *c, const char *name) {
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

void http_send_name(struct MHD_Connection *c, http_sent *sent) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    static atomic_uint_least64_t made;
    const char *given = http_send_header(c, "X-Request-Id");
    const size_t length = given ? strlen(given) : 0;
    if (length > 0 && length <= 64 && strspn(given, letters) == length)
        snprintf(sent->id, sizeof sent->id, "%s", given);
    else
        snprintf(sent->id, sizeof sent->id, "req_%016" PRIx64,
                 rng_mix((uint64_t)clock_ns() + atomic_fetch_add(&made, 1)));
}

static bool http_send_allows(const access_rules *rules, const char *origin) {
    return !origin || access_origin(origin, rules->origins, rules->origin_count);
}

/* Adds the headers that allow a page of another origin to read the answer. In the answer to a preflight request
 * (OPTIONS), adds also the headers that list what the page may send. */
static void http_send_add_cors(const access_rules *rules, struct MHD_Connection *c, struct MHD_Response *response,
                               int http) {
    const char *origin = http_send_header(c, MHD_HTTP_HEADER_ORIGIN);
    const char *wanted = http_send_header(c, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);
    if (!origin || !http_send_allows(rules, origin)) return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Origin");
    if (http != 204) return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS");
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                            wanted ? wanted : "Authorization, Content-Type");
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "86400");
}

/* ---- requests that a proxy might read differently ---------------------------------------------------------------- */

typedef struct lengths {
    int count;
    bool differ, chunked, blank;
    const char *first;
} lengths;

static enum MHD_Result http_send_look(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
    lengths *l = context;
    const size_t length = strlen(name);
    (void)kind;
    if (length && (name[length - 1] == ' ' || name[length - 1] == '\t')) l->blank = true;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) l->chunked = true;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) != 0) return MHD_YES;
    if (!value || !*value || value[strspn(value, "0123456789")]) l->differ = true;
    if (l->count++ && (!value || strcmp(value, l->first) != 0)) l->differ = true;
    l->first = value ? value : "";
    return MHD_YES;
}

bool http_send_is_clear(struct MHD_Connection *c, serve_problem *p) {
    lengths l = {0};
    (void)MHD_get_connection_values(c, MHD_HEADER_KIND, http_send_look, &l);
    if (l.blank)
        return serve_refuse(p, 400, "invalid_request_error", NULL, NULL, "there is a blank before a header's colon");
    if (l.chunked && l.count)
        return serve_refuse(p, 400, "invalid_request_error", NULL, NULL,
                            "Content-Length and Transfer-Encoding exclude each other");
    if (l.differ || l.count > 1)
        return serve_refuse(p, 400, "invalid_request_error", NULL, NULL,
                            "Content-Length must be given once, as a number");
    return true;
}

/* ---- answers ------------------------------------------------------------------------------------------------------------ */

enum MHD_Result http_send(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                          struct MHD_Response *response, const char *type) {
    if (!response) return MHD_NO;
    sent->http = http;
    MHD_add_response_header(response, "X-Request-Id", sent->id);
    if (type) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    serve_problem unclear;
    if (!http_send_is_clear(c, &unclear)) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (http == 401) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    http_send_add_cors(rules, c, response, http);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    /* the page at "/" loads nothing from elsewhere and must not be framed */
    if (type && strncmp(type, "text/html", 9) == 0)
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src "
                                "'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'");
    if (http == 503) MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    enum MHD_Result queued = MHD_queue_response(c, (unsigned)http, response);
    MHD_destroy_response(response);
    return queued;
}

struct MHD_Response *http_send_copy(const text *body) {
    static char nothing[1] = "";
    if (body->failed) return NULL;
    return MHD_create_response_from_buffer(body->length, body->data ? body->data : nothing, MHD_RESPMEM_MUST_COPY);
}

enum MHD_Result http_send_text(const access_rules *rules, struct MHD_Connection *c, http_sent *sent, int http,
                               text *body, const char *type) {
    struct MHD_Response *r = http_send_copy(body);
    text_deinit(body);
    return http_send(rules, c, sent, http, r, type);
}

enum MHD_Result http_send_problem(const access_rules *rules, struct MHD_Connection *c, http_sent *sent,
                                  const serve_problem *p) {
    text body = {0};
    serve_print_problem(&body, p);
    return http_send_text(rules, c, sent, p->http, &body, "application/json");
}

/* Refuses pages of other origins, pages that reach this machine by a name of their choice, and clients without a key.
 * Three kinds of requests need no key: a page's preflight request, which cannot have one; /health, with which programs
 * check that the server is running; and the page at "/", which asks the user for the key. */
bool http_send_admits(const access_rules *rules, struct MHD_Connection *c, const char *url, const char *method,
                      serve_problem *p) {
    const char *origin = http_send_header(c, MHD_HTTP_HEADER_ORIGIN);
    const char *host = http_send_header(c, MHD_HTTP_HEADER_HOST);
    if (!rules->key_count && !access_host(host, rules->origins, rules->origin_count)) /* a page would lack the key */
        return serve_refuse(
            p, 403, "invalid_request_error", NULL, NULL,
            "requests for the host '%.200s' are not allowed (use serve --cors-origins http://%.200s, or keys)", host,
            host);
    if (!http_send_allows(rules, origin))
        return serve_refuse(p, 403, "invalid_request_error", NULL, NULL,
                            "pages from '%.200s' may not use this server (allow them with serve --cors-origins)",
                            origin);
    if (strcmp(method, "OPTIONS") == 0 || strcmp(url, "/health") == 0 || strcmp(url, "/") == 0) return true;
    if (access_key(http_send_header(c, MHD_HTTP_HEADER_AUTHORIZATION), rules->keys, rules->key_count)) return true;
    return serve_refuse(p, 401, "invalid_request_error", NULL, "invalid_api_key",
                        "the request needs a valid API key, sent as 'Authorization: Bearer KEY'");
}

const char *http_send_client(struct MHD_Connection *c, char out[64]) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info ||
        getnameinfo(info->client_addr,
                    info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                    out, 64, NULL, 0, NI_NUMERICHOST) != 0)
        strcpy(out, "?");
    return out;
}
