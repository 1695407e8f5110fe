/* SPDX-License-Identifier: MIT
 * Declares permissions and accounting: the checks of origins, hosts and keys, the log line of a request, and counters
 * in Prometheus's format. The functions only return what is allowed; the server refuses requests.
 */
#ifndef APPS_SERVE_ACCESS_H
#define APPS_SERVE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/text.h"

typedef struct access_rules {
    const char *const *origins; /* allowed origins of pages, in addition to this machine's; "*" means all */
    int origin_count;
    const char *const *keys; /* keys of clients; if there are none, no key is needed */
    int key_count;
} access_rules;

/* Returns whether pages of an origin ("https://app.example.org") may use the server. Allowed are pages of this machine,
 * the origins in the list, and all origins if the list contains "*". */
bool access_origin(const char *origin, const char *const *allowed, int count);
/* Returns whether the Host header of a request ("name:port") is allowed. A name that an outsider could point to this
 * machine's address (DNS rebinding) is not. Allowed are addresses, names without a dot, names under .localhost, the
 * names of the origins in the list, and all names if the list contains "*". A request without the header (NULL) is
 * allowed, because its client is not a browser. */
bool access_host(const char *host, const char *const *origins, int count);
/* Returns whether an Authorization header contains one of the keys. NULL means that the request has no such header. If
 * there are no keys, every request is allowed. */
bool access_key(const char *authorization, const char *const *keys, int count);

/* A list of keys. */
typedef struct access_keys {
    const char *const *keys;
    int count;
} access_keys;

/* A request that has been answered. */
typedef struct access_request {
    const char *client, *method, *path; /* the path may contain any bytes except zero */
    const char *id;                     /* NULL for none */
    int http;
    double seconds;
    int64_t prompt, completion, reused; /* numbers of ids */
} access_request;

enum { ACCESS_CODES = 12, ACCESS_BUCKETS = 8 };

/* Totals over all requests. The caller's lock guards them. */
typedef struct access_counts {
    int64_t codes[ACCESS_CODES];   /* requests per status code; the last entry is for all other codes */
    int64_t times[ACCESS_BUCKETS]; /* requests that took at most the time of each bucket */
    double seconds;
    int64_t requests, prompt, completion, reused;
} access_counts;

void access_count(access_counts *c, const access_request *r);
/* Appends a line without a newline:
 * "2026-01-31T12:00:00Z 127.0.0.1 POST /v1/completions 200 0.123 s, 12 + 34 tokens, req_0123456789abcdef" */
void access_print_line(text *out, const access_request *r);

/* The server's current activity. */
typedef struct access_now {
    const char *version;
    int waiting, open;
    size_t held;
    int64_t started; /* seconds since 1970 */
} access_now;

/* Appends all counters in Prometheus's text format. */
void access_print_metrics(text *out, const access_counts *c, const access_now *now);

#endif
