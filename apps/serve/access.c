/* SPDX-License-Identifier: MIT
 * Owns the checks against lists of origins and keys, the log line of a request, and the names of the counters.
 */
#include "apps/serve/access.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const int access_codes[ACCESS_CODES - 1] = {200, 204, 400, 401, 403, 404, 405, 413, 429, 500, 503};
static const double access_edges[ACCESS_BUCKETS] = {0.01, 0.05, 0.25, 1, 5, 20, 60, 300};

/* ---- permissions -------------------------------------------------------------------------------------------------------------- */

static bool access_is_local(const char *origin) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *at = strstr(origin, "://");
    if (!at) return false; /* "null" is a page without an origin */
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        const size_t n = strlen(hosts[i]);
        if (strncmp(at + 3, hosts[i], n) == 0 && (at[3 + n] == 0 || at[3 + n] == ':')) return true;
    }
    return false;
}

bool access_origin(const char *origin, const char *const *allowed, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(allowed[i], "*") == 0 || strcasecmp(allowed[i], origin) == 0) return true;
    return access_is_local(origin);
}

/* Returns whether the host consists only of digits and dots, or is in brackets, and so is not a name. */
static bool access_is_address(const char *host, size_t length) {
    return host[0] == '[' || strspn(host, "0123456789.") >= length;
}

static bool access_ends_with(const char *host, size_t length, const char *end) {
    const size_t n = strlen(end);
    return length >= n && strncasecmp(host + length - n, end, n) == 0;
}

bool access_host(const char *host, const char *const *origins, int count) {
    const size_t length = host ? strcspn(host, ":") : 0;
    if (!host || access_is_address(host, length) || !memchr(host, '.', length)) return true;
    if (access_ends_with(host, length, ".localhost")) return true;
    for (int i = 0; i < count; i++) {
        const char *name = strstr(origins[i], "://");
        if (strcmp(origins[i], "*") == 0) return true;
        if (name && strcspn(name + 3, ":") == length && strncasecmp(name + 3, host, length) == 0) return true;
    }
    return false;
}

/* Compares two texts in a time that does not depend on the position where they differ. */
static bool access_same(const char *a, size_t n, const char *b) {
    const size_t m = strlen(b);
    unsigned char differs = n != m;
    for (size_t i = 0; i < n; i++) differs |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !differs;
}

bool access_key(const char *authorization, const char *const *keys, int count) {
    bool good = count == 0;
    if (good || !authorization || strncasecmp(authorization, "Bearer ", 7) != 0) return good;
    const char *given = authorization + 7 + strspn(authorization + 7, " \t");
    size_t length = strlen(given);
    /* blanks after a header's value are not part of it */
    while (length && (given[length - 1] == ' ' || given[length - 1] == '\t')) length--;
    for (int i = 0; i < count; i++) good |= access_same(given, length, keys[i]);
    return good;
}

/* ---- log line and counters --------------------------------------------------------------------------------------- */

static int access_code_index(int http) {
    for (int i = 0; i < ACCESS_CODES - 1; i++)
        if (access_codes[i] == http) return i;
    return ACCESS_CODES - 1;
}

void access_count(access_counts *c, const access_request *r) {
    c->requests++;
    c->codes[access_code_index(r->http)]++;
    c->seconds += r->seconds;
    c->prompt += r->prompt;
    c->completion += r->completion;
    c->reused += r->reused;
    for (int i = 0; i < ACCESS_BUCKETS; i++) c->times[i] += r->seconds <= access_edges[i];
}

void access_print_line(text *out, const access_request *r) {
    char when[40] = "", path[80];
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    text_printf(out, "%s %.60s %.10s %.150s %d %.3f s", when, r->client, r->method,
                text_quote(path, r->path, strlen(r->path)), r->http, r->seconds);
    if (r->prompt || r->completion) text_printf(out, ", %" PRId64 " + %" PRId64 " tokens", r->prompt, r->completion);
    if (r->id && *r->id) text_printf(out, ", %s", r->id);
}

/* ---- Prometheus --------------------------------------------------------------------------------------------------------------- */

static void access_head(text *out, const char *name, const char *type, const char *help) {
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void access_number(text *out, const char *name, const char *type, const char *help, double value) {
    access_head(out, name, type, help);
    text_printf(out, "%s %.15g\n", name, value);
}

static void access_print_requests(text *out, const access_counts *c) {
    access_head(out, "propane_requests_total", "counter", "Requests answered, by status code.");
    for (int i = 0; i < ACCESS_CODES; i++) {
        if (!c->codes[i]) continue;
        if (i < ACCESS_CODES - 1)
            text_printf(out, "propane_requests_total{code=\"%d\"} %" PRId64 "\n", access_codes[i], c->codes[i]);
        else
            text_printf(out, "propane_requests_total{code=\"other\"} %" PRId64 "\n", c->codes[i]);
    }
    access_head(out, "propane_request_seconds", "histogram",
                "Time from the first byte of a request to the last byte of its answer.");
    for (int i = 0; i < ACCESS_BUCKETS; i++)
        text_printf(out, "propane_request_seconds_bucket{le=\"%g\"} %" PRId64 "\n", access_edges[i], c->times[i]);
    text_printf(out, "propane_request_seconds_bucket{le=\"+Inf\"} %" PRId64 "\n", c->requests);
    text_printf(out, "propane_request_seconds_sum %.9g\npropane_request_seconds_count %" PRId64 "\n", c->seconds,
                c->requests);
}

void access_print_metrics(text *out, const access_counts *c, const access_now *now) {
    access_head(out, "propane_build_info", "gauge", "The version, as a label.");
    text_printf(out, "propane_build_info{version=\"%s\"} 1\n", now->version);
    access_print_requests(out, c);
    access_number(out, "propane_prompt_tokens_total", "counter", "Tokens of prompts.", (double)c->prompt);
    access_number(out, "propane_prompt_tokens_reused_total", "counter", "Prompt tokens that were still in the cache.",
                  (double)c->reused);
    access_number(out, "propane_completion_tokens_total", "counter", "Tokens generated.", (double)c->completion);
    access_number(out, "propane_requests_waiting", "gauge", "Requests in the queue.", now->waiting);
    access_number(out, "propane_requests_open", "gauge", "Requests being processed or waiting.", now->open);
    access_number(out, "propane_request_memory_bytes", "gauge", "Memory that these requests use.", (double)now->held);
    access_number(out, "propane_start_time_seconds", "gauge", "Start time of the server, in seconds since 1970.",
                  (double)now->started);
}
