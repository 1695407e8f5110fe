/* SPDX-License-Identifier: MIT
 * Who may use the server, the line of the log, and the counters: each rule at its edges, without a connection.
 */
#include "apps/serve/access.h"

#include "core/base/memory.h"
#include "support/test.h"

TEST(origins_are_this_machines_and_those_listed) {
    static const char *const listed[] = {"https://app.example.org", "http://b.example:81"}, *const all[] = {"http://x",
                                                                                                            "*"};
    static const struct {
        const char *origin;
        bool alone, with_list;
    } cases[] = {{"http://localhost", true, true},
                 {"https://localhost:8080", true, true},
                 {"http://127.0.0.1:1", true, true},
                 {"http://[::1]", true, true},
                 {"http://[::1]:9", true, true},
                 {"http://localhostx", false, false},
                 {"http://localhost.example", false, false},
                 {"http://127.0.0.12", false, false},
                 {"null", false, false},
                 {"localhost", false, false},
                 {"https://app.example.org", false, true},
                 {"HTTPS://APP.example.ORG", false, true},
                 {"https://app.example.org:1", false, false},
                 {"http://b.example:81", false, true},
                 {"http://b.example", false, false},
                 {"", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_MSG(access_origin(cases[i].origin, NULL, 0) == cases[i].alone, "%s alone", cases[i].origin);
        EXPECT_MSG(access_origin(cases[i].origin, listed, 2) == cases[i].with_list, "%s listed", cases[i].origin);
        EXPECT(access_origin(cases[i].origin, all, 2));
    }
}

TEST(hosts_are_addresses_plain_names_and_those_of_the_origins) {
    static const char *const listed[] = {"https://app.example.org", "http://b.example:81"}, *const all[] = {"http://x",
                                                                                                            "*"};
    static const struct {
        const char *host;
        bool alone, with_list;
    } cases[] = {{"127.0.0.1", true, true},
                 {"10.0.0.7:8080", true, true},
                 {"[::1]:80", true, true},
                 {"[fe80::1.2]", true, true},
                 {"machine", true, true},
                 {"machine:80", true, true},
                 {"a.localhost", true, true},
                 {"a.LOCALHOST:80", true, true},
                 {"localhost.a", false, false},
                 {"app.example.org", false, true},
                 {"APP.example.org:443", false, true},
                 {"app.example.or", false, false},
                 {"xapp.example.org", false, false},
                 {"b.example", false, true},
                 {"b.example:9", false, true},
                 {"10.0.0.x", false, false},
                 {"evil.com:80", false, false},
                 {"evil.com", false, false},
                 {"", true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_MSG(access_host(cases[i].host, NULL, 0) == cases[i].alone, "%s alone", cases[i].host);
        EXPECT_MSG(access_host(cases[i].host, listed, 2) == cases[i].with_list, "%s listed", cases[i].host);
        EXPECT(access_host(cases[i].host, all, 2));
    }
    EXPECT(access_host(NULL, NULL, 0) && access_host(NULL, listed, 2));
}

TEST(keys_are_compared_whole) {
    static const char *const keys[] = {"first-key", "k2", ""};
    static const struct {
        const char *given;
        bool good;
    } cases[] = {{"Bearer first-key", true},
                 {"bearer k2", true},
                 {"BEARER \t k2 \t", true},
                 {"Bearer k2x", false},
                 {"Bearer k", false},
                 {"Bearer first-keyfirst-key", false},
                 {"Bearer xfirst-key", false},
                 {"Bearerk2", false},
                 {"Basic k2", false},
                 {"k2", false},
                 {NULL, false},
                 {"Bearer k 2", false},
                 {"Bearer first-kez", false},
                 {"Bearer girst-key", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_MSG(access_key(cases[i].given, keys, 2) == cases[i].good, "%s", cases[i].given);
        EXPECT(access_key(cases[i].given, NULL, 0));
        EXPECT(!access_key(cases[i].given, keys, 1) || strstr(cases[i].given, "first"));
    }
    EXPECT(!access_key("Bearer x", keys + 2, 1) && access_key("Bearer ", keys + 2, 1));
}

TEST(lines_of_the_log) {
    text t = {0};
    access_request r = {.client = "1.2.3.4", .method = "POST", .path = "/v1\n/x", .http = 200, .seconds = 0.1234};
    access_print_line(&t, &r);
    EXPECT(t.length > 20 && t.data[4] == '-' && t.data[10] == 'T' && t.data[19] == 'Z');
    EXPECT_TEXT(t.data + 20, " 1.2.3.4 POST /v1\\x0a/x 200 0.123 s");
    text_clear(&t);
    r.prompt = 12, r.id = "req_1";
    access_print_line(&t, &r);
    EXPECT_TEXT(t.data + 20, " 1.2.3.4 POST /v1\\x0a/x 200 0.123 s, 12 + 0 tokens, req_1");
    text_clear(&t);
    r.prompt = 0, r.completion = 3, r.id = "";
    access_print_line(&t, &r);
    EXPECT_TEXT(t.data + 20, " 1.2.3.4 POST /v1\\x0a/x 200 0.123 s, 0 + 3 tokens");
    text_deinit(&t);
}

/* Each answer counts in the buckets from its time on, and under one code. */
TEST(counters_add_up) {
    static const struct {
        int http;
        double seconds;
    } answers[] = {{200, 0.01}, {200, 0.011}, {401, 0.25}, {418, 6}, {503, 300}, {200, 301}, {100, 0}};
    access_counts c = {0};
    for (int i = 0; i < 7; i++) {
        const access_request r = {
            .http = answers[i].http, .seconds = answers[i].seconds, .prompt = 10 + i, .completion = 2, .reused = 1};
        access_count(&c, &r);
    }
    static const int64_t times[ACCESS_BUCKETS] = {2, 3, 4, 4, 4, 5, 5, 6};
    EXPECT(c.requests == 7 && c.prompt == 91 && c.completion == 14 && c.reused == 7);
    EXPECT(c.seconds > 607.27 && c.seconds < 607.28);
    for (int i = 0; i < ACCESS_BUCKETS; i++) EXPECT_MSG(c.times[i] == times[i], "bucket %d: %d", i, (int)c.times[i]);
    const access_now now = {"1.2", 3, 4, 500, 1700000000};
    text t = {0};
    access_print_metrics(&t, &c, &now);
    static const char *const lines[] = {"propane_build_info{version=\"1.2\"} 1\n",
                                        "# TYPE propane_requests_total counter\n",
                                        "propane_requests_total{code=\"200\"} 3\n",
                                        "propane_requests_total{code=\"401\"} 1\n",
                                        "propane_requests_total{code=\"503\"} 1\n",
                                        "propane_requests_total{code=\"other\"} 2\n",
                                        "propane_request_seconds_bucket{le=\"0.01\"} 2\n",
                                        "propane_request_seconds_bucket{le=\"300\"} 6\n",
                                        "propane_request_seconds_bucket{le=\"+Inf\"} 7\n",
                                        "propane_request_seconds_count 7\n",
                                        "propane_prompt_tokens_total 91\n",
                                        "propane_prompt_tokens_reused_total 7\n",
                                        "propane_completion_tokens_total 14\n",
                                        "propane_requests_waiting 3\n",
                                        "propane_requests_open 4\n",
                                        "propane_request_memory_bytes 500\n",
                                        "propane_start_time_seconds 1700000000\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) EXPECT_MSG(strstr(t.data, lines[i]), "%s", lines[i]);
    EXPECT(!strstr(t.data, "code=\"404\"")); /* a code that never occurred has no line */
    char *rest = NULL;
    for (char *line = strtok_r(t.data, "\n", &rest), kind[2][80] = {"", ""}; line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "# HELP %79s", kind[0]) == 1) continue; /* then the type, then the numbers of that name */
        if (sscanf(line, "# TYPE %79s", kind[1]) == 1)
            EXPECT_TEXT(kind[1], kind[0]);
        else
            EXPECT_MSG(*kind[1] && strncmp(line, kind[1], strlen(kind[1])) == 0, "%s, below %s", line, kind[1]);
    }
    text_deinit(&t);
}

SUITE("serve/access", T(origins_are_this_machines_and_those_listed),
      T(hosts_are_addresses_plain_names_and_those_of_the_origins), T(keys_are_compared_whole), T(lines_of_the_log),
      T(counters_add_up))
