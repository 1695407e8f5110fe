/* SPDX-License-Identifier: MIT
 * Permissions and accounts: origins and keys that are allowed, a line for each request, counters
 * as Prometheus reads them. Refuses nothing by itself: the server asks.
 */
#ifndef APPS_SERVE_ACCESS_H
#define APPS_SERVE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/text.h"

typedef struct access_rules {
    const char *const *origins; /* of pages that may ask besides this machine's; "*": all */
    int origin_count;
    const char *const *keys; /* of clients; 0 of them: no key is needed */
    int key_count;
} access_rules;

/* Pages of an origin ("https://app.example.org") may use the server: this machine's, those listed, all where "*" is. */
bool access_origin(const char *origin, const char *const *allowed, int count);
/* The Host header of a request, "name:port", against names that somebody elsewhere can give to this machine's address
 * (DNS rebinding). Good are addresses, names without a dot, names under .localhost, the names of the origins that are
 * let in, all where "*" is; NULL: there is no such header, so it is no browser. */
bool access_host(const char *host, const char *const *origins, int count);
/* The value of an Authorization header against the keys; NULL: there is no such header. No keys: everybody may. */
bool access_key(const char *authorization, const char *const *keys, int count);

/* A list of keys by itself. */
typedef struct access_keys {
    const char *const *keys;
    int count;
} access_keys;

/* A request that has been answered. */
typedef struct access_request {
    const char *client, *method, *path; /* the path may be anybody's bytes */
    const char *id;                     /* NULL: none */
    int http;
    double seconds;
    int64_t prompt, completion, reused; /* ids */
} access_request;

enum { ACCESS_CODES = 12, ACCESS_BUCKETS = 8 };

/* All of it under the caller's lock. */
typedef struct access_counts {
    int64_t codes[ACCESS_CODES]; /* of the status codes that there are, others last */
    int64_t times[ACCESS_BUCKETS];
    double seconds;
    int64_t requests, prompt, completion, reused;
} access_counts;

void access_count(access_counts *c, const access_request *r);
/* "2026-01-31T12:00:00Z 127.0.0.1 POST /v1/completions 200 0.123 s, 12 + 34 tokens, req_0123456789abcdef" */
void access_print_line(text *out, const access_request *r);

/* What a server is doing now. */
typedef struct access_now {
    const char *version;
    int waiting, open;
    size_t held;
    int64_t started; /* seconds since 1970 */
} access_now;

/* Prometheus's text format. */
void access_print_metrics(text *out, const access_counts *c, const access_now *now);

#endif
