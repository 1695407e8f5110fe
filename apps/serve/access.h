/* SPDX-License-Identifier: MIT
 * Permissions and accounting: the allowed origins and keys, a log line per request, counters in Prometheus's format. It
 * refuses nothing itself; the server calls it.
 */
#ifndef APPS_SERVE_ACCESS_H
#define APPS_SERVE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/text.h"

typedef struct access_rules {
    const char *const *origins; /* allowed origins of pages, in addition to this machine's; "*" means all */
    int origin_count;
    const char *const *keys; /* keys of clients; with none, no key is needed */
    int key_count;
} access_rules;

/* Returns whether pages of an origin ("https://app.example.org") may use the server: this machine's and those listed,
 * or all if "*" is listed. */
bool access_origin(const char *origin, const char *const *allowed, int count);
/* Checks the Host header of a request, "name:port", to refuse names that an outsider could point to this
 * machine's address (DNS rebinding). Allowed are addresses, names without a dot, names under .localhost, and the names
 * of the allowed origins, or all if "*" is listed. NULL means that there is no such header; the client is then not a
 * browser, and is allowed. */
bool access_host(const char *host, const char *const *origins, int count);
/* Checks the value of an Authorization header against the keys; NULL means that there is no such header. Without keys
 * everybody is allowed. */
bool access_key(const char *authorization, const char *const *keys, int count);

/* A list of keys. */
typedef struct access_keys {
    const char *const *keys;
    int count;
} access_keys;

/* A request that has been answered. */
typedef struct access_request {
    const char *client, *method, *path; /* the path may hold arbitrary bytes */
    const char *id;                     /* NULL for none */
    int http;
    double seconds;
    int64_t prompt, completion, reused; /* in ids */
} access_request;

enum { ACCESS_CODES = 12, ACCESS_BUCKETS = 8 };

/* Guarded by the caller's lock. */
typedef struct access_counts {
    int64_t codes[ACCESS_CODES]; /* per status code in use, with others last */
    int64_t times[ACCESS_BUCKETS];
    double seconds;
    int64_t requests, prompt, completion, reused;
} access_counts;

void access_count(access_counts *c, const access_request *r);
/* "2026-01-31T12:00:00Z 127.0.0.1 POST /v1/completions 200 0.123 s, 12 + 34 tokens, req_0123456789abcdef" */
void access_print_line(text *out, const access_request *r);

/* The server's current activity. */
typedef struct access_now {
    const char *version;
    int waiting, open;
    size_t held;
    int64_t started; /* seconds since 1970 */
} access_now;

/* Prints Prometheus's text format. */
void access_print_metrics(text *out, const access_counts *c, const access_now *now);

#endif
