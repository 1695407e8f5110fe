/* SPDX-License-Identifier: MIT
 * The server against a client with plain sockets: answers, streams, invalid and malformed requests, 200 connections at
 * once, slow and aborted clients, a full queue, the end. The model has random weights and writes bytes.
 */
#include "apps/serve/server.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "support/small_model.h"
#include "support/test.h"

static propane_error err;

typedef struct bench {
    model_weights *w;
    propane_device *d;
    infer *m;
    tokenizer *t;
    infer_chat chat;
    serve_engine engine;
    serve_server *server;
    int port;
} bench;

static void no_task(void *context, int task, int worker) { (void)context, (void)task, (void)worker; }

static bench b;
static access_rules rules; /* for the next set_up */
static char logged[4000];

static void log_line(void *context, const char *line) {
    (void)context;
    const size_t used = strlen(logged);
    if (used + strlen(line) + 2 < sizeof logged) snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

static int64_t live; /* allocations before the server was made */

static void set_up_chunk(int queue, int sequences, int64_t chunk) {
    pool_run(no_task, NULL, 1); /* the pool stays */
    live = mem_live_count();
    static const small_model sizes = {32, 32, 1, 2, 2, 16, .vocabulary = 256, .positions = 300};
    b.w = small_model_make(&sizes, 11, 0.3);
    EXPECT_OK(propane_device_open("cpu", &b.d, &err));
    EXPECT_OK(infer_create(b.d, b.w, &(infer_options){.dtype = MIL_fp32, .sequences = sequences, .chunk = chunk}, &b.m,
                           &err));
    EXPECT_OK(tokenizer_create_bytes(&b.t, &err));
    EXPECT_OK(infer_chat_open("nowhere", b.t, "plain", &b.chat, &err));
    b.engine = (serve_engine){
        .decoder = b.m, .tokenizer = b.t, .chat = &b.chat, .name = "tiny", .next_seed = 1, .longest_piece = 16};
    const serve_options o = {.host = "127.0.0.1",
                             .body_limit = 20000,
                             .queue_limit = queue,
                             .connection_limit = 500,
                             .access = rules,
                             .version = "9.9",
                             .log = log_line};
    EXPECT_OK(serve_start(&b.engine, &o, &b.server, &err));
    b.port = serve_port(b.server);
    EXPECT(b.port > 0);
}

static void set_up_with(int queue, int sequences) { set_up_chunk(queue, sequences, 0); }

static void set_up(int queue) { set_up_with(queue, 1); }

static void expect_all_free(void);

static void tear_down(void) {
    if (b.server) expect_all_free();
    serve_stop(b.server, 2000);
    infer_free(b.m);
    propane_device_close(b.d);
    model_weights_free(b.w);
    tokenizer_free(b.t);
    infer_chat_close(&b.chat);
    EXPECT_MSG(mem_live_count() == live, "%d allocations are left", (int)(mem_live_count() - live));
}

/* ---- the client ------------------------------------------------------------------------------------------------------- */

static int connect_to(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)b.port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    return fd;
}

static void send_all(int fd, const char *data, size_t length) {
    for (size_t at = 0; at < length;) {
        ssize_t n = send(fd, data + at, length - at, MSG_NOSIGNAL);
        if (n <= 0) return; /* the server has closed: its answer shows why */
        at += (size_t)n;
    }
}

static void send_post(int fd, const char *path, const char *body) {
    text t = {0};
    text_printf(&t,
                "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                "Content-Length: %zu\r\n\r\n%s",
                path, strlen(body), body);
    send_all(fd, t.data, t.length);
    text_deinit(&t);
}

/* Receives until the server closes, for at most 30 seconds, then closes. */
static text receive(int fd) {
    text t = {0};
    char part[4096];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        EXPECT_MSG(poll(&p, 1, 30000) == 1, "no answer within 30 s; so far: %s", t.data ? t.data : "");
        ssize_t n = recv(fd, part, sizeof part, 0);
        if (n <= 0) break;
        text_append_n(&t, part, (size_t)n);
    }
    close(fd);
    text_append(&t, "");
    return t;
}

static int status_of(const text *t) {
    int status = 0;
    return t->data && sscanf(t->data, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static text post(const char *path, const char *body) {
    int fd = connect_to();
    send_post(fd, path, body);
    return receive(fd);
}

static text raw(const char *request) {
    int fd = connect_to();
    send_all(fd, request, strlen(request));
    return receive(fd);
}

/* When all clients have their answers, no request is open or waiting, and the memory for requests is free. */
static void expect_all_free(void) {
    static const char *const free_of_all[] = {"\npropane_requests_open 0\n", "\npropane_requests_waiting 0\n",
                                              "\npropane_request_memory_bytes 0\n"};
    for (int tries = 0, good = 0; good < 3; tries++) { /* a client that has left is seen a moment later */
        text request = {0};
        text_printf(&request, "GET /metrics HTTP/1.1\r\nHost: x\r\n%s%s\r\nConnection: close\r\n\r\n",
                    rules.key_count ? "Authorization: Bearer " : "X: ", rules.key_count ? rules.keys[0] : "");
        text t = raw(request.data);
        good = 0;
        for (int i = 0; i < 3; i++) good += strstr(t.data, free_of_all[i]) != NULL;
        EXPECT_MSG(good == 3 || tries < 400, "%s", t.data);
        text_deinit(&t);
        text_deinit(&request);
        if (good < 3) usleep(25000);
    }
}

static json_t *body_of(const text *t) {
    const char *body = strstr(t->data, "\r\n\r\n");
    json_t *o = NULL;
    EXPECT_MSG(body, "no body: %s", t->data);
    EXPECT_OK(json_parse(body + 4, strlen(body + 4), "body", &o, &err));
    return o;
}

/* Returns the data of all events, without their chunk sizes, as one list of objects. *done is set if [DONE] came
 * last. */
static json_t *events_of(const text *t, bool *done) {
    json_t *list = json_array();
    *done = false;
    for (const char *at = strstr(t->data, "data: "); at; at = strstr(at + 1, "data: ")) {
        size_t n = strcspn(at + 6, "\n");
        if (strncmp(at + 6, "[DONE]", 6) == 0) {
            *done = true;
            continue;
        }
        EXPECT(!*done);
        json_t *o = NULL;
        EXPECT_OK(json_parse(at + 6, n, "event", &o, &err));
        json_array_append_new(list, o);
    }
    return list;
}

static const char *text_at(const json_t *o, const char *key, const char *inner) {
    const json_t *choice = json_array_get(json_object_get(o, "choices"), 0);
    const json_t *v = json_object_get(choice, key);
    return json_string_value(inner ? json_object_get(v, inner) : v);
}

/* ---- answers ---------------------------------------------------------------------------------------------------------- */

TEST(completions_are_answered) {
    set_up(100);
    text t = post("/v1/completions", "{\"model\":\"tiny\",\"prompt\":\"ab\",\"max_tokens\":20,\"temperature\":0}");
    EXPECT(status_of(&t) == 200 && strstr(t.data, "Content-Type: application/json"));
    json_t *o = body_of(&t);
    const json_t *usage = json_object_get(o, "usage");
    EXPECT(json_integer_value(json_object_get(usage, "prompt_tokens")) == 2);
    EXPECT(json_integer_value(json_object_get(usage, "completion_tokens")) == 20);
    EXPECT_TEXT(text_at(o, "finish_reason", NULL), "length");
    char *all = strdup(text_at(o, "text", NULL));
    json_decref(o);
    text_deinit(&t);
    /* several prompts, as text and as ids; several choices; echo */
    t = post("/v1/completions",
             "{\"prompt\":[[97,98],[97,98]],\"max_tokens\":20,\"temperature\":0,\"n\":2,\"echo\":true}");
    o = body_of(&t);
    EXPECT(json_array_size(json_object_get(o, "choices")) == 4);
    const char *echoed = text_at(o, "text", NULL);
    EXPECT(strncmp(echoed, "ab", 2) == 0 && strcmp(echoed + 2, all) == 0);
    EXPECT(json_integer_value(json_object_get(json_object_get(o, "usage"), "completion_tokens")) == 80);
    json_decref(o);
    text_deinit(&t);
    /* the same seed draws the same text, another seed a different one */
    char *drawn[3];
    for (int i = 0; i < 3; i++) {
        t = post("/v1/completions", i == 2 ? "{\"prompt\":\"ab\",\"seed\":6}" : "{\"prompt\":\"ab\",\"seed\":5}");
        o = body_of(&t);
        drawn[i] = strdup(text_at(o, "text", NULL));
        json_decref(o);
        text_deinit(&t);
    }
    EXPECT(strcmp(drawn[0], drawn[1]) == 0 && strcmp(drawn[0], drawn[2]) != 0);
    for (int i = 0; i < 3; i++) free(drawn[i]);
    free(all);
    tear_down();
}

static void check_vector(const json_t *o, int index, const float *want, int64_t width) {
    const json_t *one = json_array_get(json_object_get(o, "data"), (size_t)index),
                 *v = json_object_get(one, "embedding");
    EXPECT(json_integer_value(json_object_get(one, "index")) == index && json_array_size(v) == (size_t)width);
    for (int64_t i = 0; i < width; i++)
        EXPECT_MSG(fabs(json_number_value(json_array_get(v, (size_t)i)) - (double)want[i]) < 1e-6, "number %d", (int)i);
}

/* Texts and ids, single and several, as numbers and as base64 bytes, while others write. */
TEST(embeddings_are_answered) {
    set_up_with(100, 2);
    const int64_t width = infer_width(b.m);
    float want[256];
    infer_result result;
    const infer_task task = {.prompt = (int32_t[]){97, 98, 99}, .prompt_count = 3, .logprobs = -1, .embedding = want};
    EXPECT_OK(infer_complete(b.m, &task, NULL, NULL, &result, &err));
    text t = post("/v1/embeddings", "{\"model\":\"tiny\",\"input\":[\"abc\",\"b\",\"abc\"]}");
    EXPECT_MSG(status_of(&t) == 200, "%s", t.data);
    json_t *o = body_of(&t);
    EXPECT(json_array_size(json_object_get(o, "data")) == 3);
    EXPECT(json_integer_value(json_object_get(json_object_get(o, "usage"), "prompt_tokens")) == 7);
    EXPECT_TEXT(json_string_value(json_object_get(o, "model")), "tiny");
    check_vector(o, 0, want, width);
    check_vector(o, 2, want, width);
    json_decref(o);
    text_deinit(&t);
    t = post("/v1/embeddings", "{\"input\":[97,98,99],\"encoding_format\":\"float\"}");
    o = body_of(&t);
    check_vector(o, 0, want, width);
    json_decref(o);
    text_deinit(&t);
    text bytes = {0};
    text_append_base64(&bytes, want, (size_t)width * sizeof *want);
    t = post("/v1/embeddings", "{\"input\":\"abc\",\"encoding_format\":\"base64\"}");
    o = body_of(&t);
    EXPECT_TEXT(json_string_value(json_object_get(json_array_get(json_object_get(o, "data"), 0), "embedding")),
                bytes.data);
    json_decref(o);
    text_deinit(&t);
    text_deinit(&bytes);
    static const char *const wrong[][2] = {{"{}", "key 'input' is missing"},
                                           {"{\"input\":\"\"}", "the prompt is empty"},
                                           {"{\"input\":[1.5]}", "key 'input' must be a string"},
                                           {"{\"input\":[99999]}", "not in the model's vocabulary"},
                                           {"{\"input\":\"a\",\"dimensions\":7}", "'dimensions' is 7"},
                                           {"{\"input\":\"a\",\"encoding_format\":\"hex\"}", "'hex'"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        t = post("/v1/embeddings", wrong[i][0]);
        EXPECT_MSG(status_of(&t) == 400 && strstr(t.data, wrong[i][1]), "%s: %s", wrong[i][0], t.data);
        text_deinit(&t);
    }
    tear_down();
}

TEST(streams_add_up_to_the_answer) {
    set_up(100);
    static const char *const paths[] = {"/v1/completions", "/v1/chat/completions"};
    static const char *const asks[] = {"\"prompt\":\"ab\"", "\"messages\":[{\"role\":\"user\",\"content\":\"ab\"}]"};
    for (int chat = 0; chat < 2; chat++) {
        text ask = {0}, joined = {0};
        text_printf(&ask, "{%s,\"max_tokens\":60,\"seed\":3,\"logprobs\":%s}", asks[chat], chat ? "true" : "2");
        text t = post(paths[chat], ask.data);
        json_t *whole = body_of(&t);
        const char *content = chat ? text_at(whole, "message", "content") : text_at(whole, "text", NULL);
        text_deinit(&t);
        text_clear(&ask);
        text_printf(&ask,
                    "{%s,\"max_tokens\":60,\"seed\":3,\"logprobs\":%s,\"stream\":true,"
                    "\"stream_options\":{\"include_usage\":true}}",
                    asks[chat], chat ? "true" : "2");
        t = post(paths[chat], ask.data);
        EXPECT(status_of(&t) == 200 && strstr(t.data, "Content-Type: text/event-stream"));
        bool done;
        json_t *events = events_of(&t, &done);
        size_t count = json_array_size(events), tokens = 0;
        EXPECT(done && count > 10);
        for (size_t i = 0; i + 1 < count; i++) {
            const json_t *e = json_array_get(events, i);
            const char *part = chat ? text_at(e, "delta", "content") : text_at(e, "text", NULL);
            if (part) text_append(&joined, part);
            EXPECT(!text_at(e, "finish_reason", NULL) == (i + 2 < count));
            const json_t *probs = json_object_get(json_array_get(json_object_get(e, "choices"), 0), "logprobs");
            tokens += json_array_size(json_object_get(probs, chat ? "content" : "tokens"));
        }
        EXPECT(tokens == 60);
        EXPECT_TEXT(joined.data, content);
        const json_t *usage = json_object_get(json_array_get(events, count - 1), "usage");
        EXPECT(json_integer_value(json_object_get(usage, "completion_tokens")) == 60);
        json_decref(events);
        json_decref(whole);
        text_deinit(&t);
        text_deinit(&ask);
        text_deinit(&joined);
    }
    tear_down();
}

TEST(models_and_health_are_reported) {
    set_up(100);
    text t = raw("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(&t) == 200 && strstr(t.data, "{\"status\":\"ok\"}"));
    text_deinit(&t);
    t = raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(&t) == 200 && strstr(t.data, "Content-Type: text/html") && strstr(t.data, "<!DOCTYPE html>"));
    EXPECT(strstr(t.data, "Content-Security-Policy: default-src 'none'") && strstr(t.data, "</html>"));
    EXPECT(!strstr(t.data, "http:") && !strstr(t.data, "https:") &&
           !strstr(t.data, "src=")); /* loads nothing from elsewhere */
    text_deinit(&t);
    t = raw("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(&t) == 200 && strstr(t.data, "\"id\":\"tiny\""));
    text_deinit(&t);
    t = raw("GET /v1/models/tiny HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(&t) == 200 && strstr(t.data, "\"object\":\"model\""));
    text_deinit(&t);
    t = raw("GET /v1/models/other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(&t) == 404 && strstr(t.data, "model_not_found"));
    text_deinit(&t);
    tear_down();
}

/* An untrained model over bytes: whatever the seed and however few tokens, it writes an object that jansson reads. */
TEST(json_objects_are_whole) {
    set_up(100);
    for (int i = 0; i < 30; i++) {
        char body[300];
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"seed\":%d,\"temperature\":%d,"
                 "\"max_tokens\":%d,\"response_format\":{\"type\":\"json_object\"}}",
                 i, i % 3, 2 + i * 2);
        text t = post("/v1/chat/completions", body);
        EXPECT_MSG(status_of(&t) == 200, "%s", t.data);
        json_t *o = body_of(&t), *said = json_loads(text_at(o, "message", "content"), 0, NULL);
        EXPECT_MSG(json_is_object(said), "%s", text_at(o, "message", "content"));
        EXPECT_TEXT(text_at(o, "finish_reason", NULL), "stop");
        json_decref(said);
        json_decref(o);
        text_deinit(&t);
    }
    tear_down();
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

TEST(wrong_requests_are_answered_with_the_reason) {
    set_up(100);
    static const struct {
        bool chat;
        const char *body;
        int status;
        const char *part;
    } cases[] = {
        {0, "", 400, "not valid JSON"},
        {0, "{", 400, "not valid JSON"},
        {0, "[1]", 400, "must be a JSON object"},
        {0, "{}", 400, "'prompt' is missing"},
        {0, "{\"prompt\":7}", 400, "must be a string, a list of strings"},
        {0, "{\"prompt\":[\"a\",[1]],\"prompt\":1}", 400, "not valid JSON"},
        {0, "{\"prompt\":[\"a\",7]}", 400, "must be a string, a list of strings"},
        {0, "{\"prompt\":[1,\"a\"]}", 400, "must be a string, a list of strings"},
        {0, "{\"prompt\":[[1],\"a\"]}", 400, "must be a string, a list of strings"},
        {0, "{\"prompt\":\"\"}", 400, "the prompt is empty"},
        {0, "{\"prompt\":[]}", 400, "the prompt is empty"},
        {0, "{\"prompt\":[300]}", 400, "token id number 1 is not in the model's vocabulary of 256"},
        {0, "{\"prompt\":[-1]}", 400, "token id number 1"},
        {0, "{\"prompt\":\"a\",\"model\":\"gpt\"}", 404, "the model 'gpt' does not exist here"},
        {0, "{\"prompt\":\"a\",\"model\":3}", 400, "'model' must be a string"},
        {0, "{\"prompt\":\"a\",\"temperature\":2.5}", 400, "'temperature' is 2.5; it must be from 0 to 2"},
        {0, "{\"prompt\":\"a\",\"temperature\":\"hot\"}", 400, "'temperature' must be a number"},
        {0, "{\"prompt\":\"a\",\"top_p\":-1}", 400, "'top_p' is -1"},
        {0, "{\"prompt\":\"a\",\"n\":0}", 400, "'n' is 0"},
        {0, "{\"prompt\":[\"a\",\"b\"],\"n\":100}", 400, "2 prompts with 100 choices each"},
        {0, "{\"prompt\":\"a\",\"max_tokens\":-1}", 400, "'max_tokens' is -1"},
        {0, "{\"prompt\":\"a\",\"max_tokens\":1.5}", 400, "'max_tokens' must be an integer"},
        {0, "{\"prompt\":\"a\",\"stop\":[\"a\",\"\"]}", 400, "'stop' must be a string or a list of strings"},
        {0, "{\"prompt\":\"a\",\"stop\":{}}", 400, "'stop' must be"},
        {0, "{\"prompt\":\"a\",\"logprobs\":21}", 400, "'logprobs' is 21"},
        {0, "{\"prompt\":\"a\",\"best_of\":3}", 400, "'best_of' other than 'n'"},
        {0, "{\"prompt\":\"a\",\"suffix\":\"b\"}", 400, "'suffix' is not supported"},
        {0, "{\"prompt\":\"a\",\"logit_bias\":{\"5\":1}}", 400, "'logit_bias' is not supported"},
        {0, "{\"prompt\":\"a\",\"stream_options\":{}}", 400, "'stream_options' needs 'stream'"},
        {0, "{\"prompt\":\"a\",\"stream\":1}", 400, "'stream' must be true or false"},
        {1, "{}", 400, "'messages' must be a list of at least one message"},
        {1, "{\"messages\":[]}", 400, "'messages' must be a list"},
        {1, "{\"messages\":[{}]}", 400, "message 1"},
        {1, "{\"messages\":[{\"role\":\"ghost\",\"content\":\"a\"}]}", 400, "ghost"},
        {1, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{}]}", 400, "each item of 'tools'"},
        {1, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":3}", 400, "'tools' must be a list"},
        {1, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tool_choice\":\"required\"}", 400,
         "'tool_choice' other"},
        {1,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
         "\"name\":\"f\"}}]}",
         400, "does not use <tool_call>"},
        {1, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"top_logprobs\":3}", 400, "needs 'logprobs'"},
        {1, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"response_format\":{\"type\":\"json_schema\"}}",
         400, "'response_format'"},
        {0, "{\"prompt\":\"a\",\"max_tokens\":1,\"response_format\":{\"type\":\"json_object\"}}", 400,
         "raise max_tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text t = post(cases[i].chat ? "/v1/chat/completions" : "/v1/completions", cases[i].body);
        EXPECT_MSG(status_of(&t) == cases[i].status, "%s: %s", cases[i].body, t.data);
        json_t *o = body_of(&t);
        const json_t *error = json_object_get(o, "error");
        const char *message = json_string_value(json_object_get(error, "message"));
        EXPECT_MSG(message && strstr(message, cases[i].part), "%s: %s", cases[i].body, t.data);
        EXPECT_TEXT(json_string_value(json_object_get(error, "type")), "invalid_request_error");
        json_decref(o);
        text_deinit(&t);
    }
    text longer = {0};
    text_append(&longer, "{\"stream\":true,\"prompt\":\"");
    for (int i = 0; i < 400; i++) text_append(&longer, "x");
    text_append(&longer, "\"}");
    text t = post("/v1/completions", longer.data); /* the status is also right for a stream */
    EXPECT(status_of(&t) == 400 && strstr(t.data, "context_length_exceeded"));
    text_deinit(&t);
    text_deinit(&longer);
    tear_down();
}

TEST(malformed_http_is_refused) {
    set_up(100);
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404},
        {"GET /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405},
        {"DELETE /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405},
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 400},
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n", 413},
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://example.org\r\nContent-Length: 2\r\n"
         "Connection: close\r\n\r\n{}",
         403},
        {"GET /health HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost:3000\r\nConnection: close\r\n\r\n", 200},
        {"GET /health HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost.example.org\r\nConnection: close\r\n\r\n", 403},
        {"GET /v1/models HTTP/1.1\r\nHost: rebound.example.org:8080\r\nConnection: close\r\n\r\n", 403},
        {"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1.example.org\r\nConnection: close\r\n\r\n", 403},
        {"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\n\r\n", 200},
        {"GET /v1/models HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n\r\n", 200},
        {"GET /v1/models HTTP/1.1\r\nHost: app.localhost\r\nConnection: close\r\n\r\n", 200},
        {"GET /v1/models HTTP/1.0\r\nConnection: close\r\n\r\n", 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text t = raw(cases[i].request);
        EXPECT_MSG(status_of(&t) == cases[i].status, "%s -> %s", cases[i].request, t.data);
        text_deinit(&t);
    }
    static const char *const garbage[] = {
        "\r\n\r\n\r\n\r\nx\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01\x01\xfc\x03\x03\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        text t = raw(garbage[i]);
        EXPECT_MSG(status_of(&t) == 0 || status_of(&t) >= 400, "%s -> %s", garbage[i], t.data);
        text_deinit(&t);
    }
    /* a body in chunks that exceeds the limit, and a header that does not end */
    int fd = connect_to();
    static char many[70000];
    memset(many, 'a', sizeof many);
    static const char head[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    send_all(fd, head, sizeof head - 1);
    for (int i = 0; i < 3; i++) {
        send_all(fd, "2710\r\n", 6);
        send_all(fd, many, 10000);
        send_all(fd, "\r\n", 2);
    }
    send_all(fd, "0\r\n\r\n", 5);
    text t = receive(fd);
    EXPECT_MSG(status_of(&t) == 413, "%s", t.data);
    text_deinit(&t);
    fd = connect_to();
    send_all(fd, "GET / HTTP/1.1\r\nX: ", 19);
    send_all(fd, many, sizeof many);
    t = receive(fd);
    EXPECT(status_of(&t) == 0 || status_of(&t) >= 400);
    text_deinit(&t);
    t = raw("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); /* and it still answers */
    EXPECT(status_of(&t) == 200);
    text_deinit(&t);
    tear_down();
}

/* A body may have the limit's length, announced or in chunks, and no byte more. */
TEST(a_body_may_be_as_long_as_the_limit) {
    static char body[20002];
    static const char head[] = "{\"prompt\":\"a\",\"max_tokens\":1}";
    set_up(100);
    for (int chunked = 0; chunked < 2; chunked++)
        for (size_t length = 19999; length <= 20001; length++) {
            text request = {0};
            memset(body, ' ', length);
            memcpy(body, head, sizeof head - 1), body[length] = 0;
            text_append(&request, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
            if (chunked)
                text_printf(&request, "Transfer-Encoding: chunked\r\n\r\n100\r\n%.256s\r\n%zx\r\n%s\r\n0\r\n\r\n", body,
                            length - 256, body + 256);
            else
                text_printf(&request, "Content-Length: %zu\r\n\r\n%s", length, body);
            text t = raw(request.data);
            EXPECT_MSG(status_of(&t) == (length > 20000 ? 413 : 200), "%zu bytes: %s", length, t.data);
            text_deinit(&request);
            text_deinit(&t);
        }
    tear_down();
}

/* A client that sends without end is cut off: with a length that is too large, and with chunks. */
TEST(a_body_without_end_is_cut_off) {
    static char many[1 << 16];
    set_up(100);
    memset(many, ' ', sizeof many);
    static const char *const heads[] = {"Content-Length: 99999999", "Transfer-Encoding: chunked"};
    for (int i = 0; i < 2; i++) {
        int fd = connect_to(), sent = 0;
        text head = {0};
        text_printf(&head, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", heads[i]);
        send_all(fd, head.data, head.length);
        const struct timeval limit = {.tv_sec = 20};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        bool open = true;
        while (open && sent++ < 1000) { /* 64 MB, more than the system's buffers hold */
            if (i) open = send(fd, "10000\r\n", 7, MSG_NOSIGNAL) == 7;
            open = open && send(fd, many, sizeof many, MSG_NOSIGNAL) == sizeof many;
            if (i) open = open && send(fd, "\r\n", 2, MSG_NOSIGNAL) == 2;
        }
        EXPECT_MSG(!open, "%s: all of it was read", heads[i]);
        close(fd);
        text_deinit(&head);
    }
    tear_down();
}

/* ---- many, slow and departed clients ----------------------------------------------------------------------------- */

/* A message that a proxy in front might read differently gets one answer. The connection then ends, and the rest is not
 * answered. */
TEST(lengths_that_two_readers_read_differently_are_refused) {
    static const char *const heads[] = {
        "Content-Length: 2\r\nContent-Length: 0\r\n", "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "Content-Length : 2\r\n"};
    set_up(100);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        text request = {0};
        text_printf(&request,
                    "POST /v1/completions HTTP/1.1\r\nHost: x\r\n%s\r\n{}GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
                    heads[i]);
        text t = raw(request.data);
        EXPECT_MSG(status_of(&t) == 400 && !strstr(t.data, "owned_by"), "%s -> %s", request.data, t.data);
        EXPECT_MSG(!strstr(t.data + 8, "HTTP/1.1"), "%s -> %s", request.data, t.data);
        text_deinit(&request);
        text_deinit(&t);
    }
    tear_down();
}

/* Refused by its length alone, before it costs time: a text, and a chat with more messages than the context has
 * positions. */
TEST(what_is_much_too_long_is_refused_at_once) {
    set_up(100);
    text body = {0};
    text_append(&body, "{\"max_tokens\": 1, \"prompt\": \"");
    for (int i = 0; i < 18000; i++) text_append_n(&body, i % 7 ? "a" : " ", 1);
    text_append(&body, "\"}");
    text t = post("/v1/completions", body.data);
    EXPECT_MSG(status_of(&t) == 400 && strstr(t.data, "context_length_exceeded") &&
                   strstr(t.data, "the text has 18000 bytes"),
               "%s", t.data);
    text_deinit(&t);
    text_clear(&body);
    text_append(&body, "{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"a\"}");
    for (int i = 0; i < 300; i++) text_append(&body, ", {\"role\": \"user\", \"content\": \"a\"}");
    text_append(&body, "]}");
    t = post("/v1/chat/completions", body.data);
    EXPECT_MSG(status_of(&t) == 400 && strstr(t.data, "there are 301 messages"), "%s", t.data);
    text_deinit(&t);
    text_clear(&body); /* the texts of all messages count together */
    text_append(&body, "{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"");
    for (int i = 0; i < 5000; i++) text_append(&body, "a");
    text_append(&body, "\"}, {\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"");
    for (int i = 0; i < 5000; i++) text_append(&body, "c");
    text_append(&body, "\"}]}");
    t = post("/v1/chat/completions", body.data);
    EXPECT_MSG(status_of(&t) == 400 && strstr(t.data, "the text has 10001 bytes"), "%s", t.data);
    text_deinit(&t);
    text_deinit(&body);
    tear_down();
}

/* The client has sent everything and is waiting. */
TEST(a_client_that_closes_its_side_gets_its_answer) {
    set_up(100);
    int fd = connect_to();
    send_post(fd, "/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 2}");
    EXPECT(shutdown(fd, SHUT_WR) == 0);
    text t = receive(fd);
    EXPECT_MSG(status_of(&t) == 200 && strstr(t.data, "finish_reason"), "%s", t.data);
    text_deinit(&t);
    tear_down();
}

TEST(two_hundred_connections_at_once) {
    enum { N = 200, IDLE = 20 };
    set_up(1000);
    static int fds[N], idle[IDLE];
    for (int i = 0; i < IDLE; i++) {
        idle[i] = connect_to(); /* half of a request, then nothing */
        send_all(idle[i], "POST /v1/completions HTTP/1.1\r\nContent-Le", i);
    }
    for (int i = 0; i < N; i++) fds[i] = connect_to();
    for (int i = 0; i < N; i++)
        send_post(fds[i], "/v1/completions",
                  i % 2 ? "{\"prompt\":\"ab\",\"max_tokens\":40,\"temperature\":0,\"stream\":true}"
                        : "{\"prompt\":\"ab\",\"max_tokens\":40,\"temperature\":0}");
    char *want = NULL;
    for (int i = 0; i < N; i++) {
        text t = receive(fds[i]), got = {0};
        bool done = true;
        EXPECT_MSG(status_of(&t) == 200, "connection %d: %s", i, t.data);
        json_t *o = i % 2 ? events_of(&t, &done) : body_of(&t);
        if (i % 2)
            for (size_t k = 0; k < json_array_size(o); k++)
                text_append(&got, text_at(json_array_get(o, k), "text", NULL));
        else
            text_append(&got, text_at(o, "text", NULL));
        if (!want) want = strdup(got.data);
        EXPECT(done);
        EXPECT_TEXT(got.data, want);
        json_decref(o);
        text_deinit(&t);
        text_deinit(&got);
    }
    for (int i = 0; i < IDLE; i++) close(idle[i]);
    free(want);
    tear_down();
}

static const char endless[] = "{\"prompt\":\"ab\",\"max_tokens\":290,\"n\":128,\"stream\":true,\"logprobs\":5}";

/* More requests than sequences: each gets the same answer as when sent alone, whatever else is answered at the time. */
TEST(requests_that_come_together_are_answered_as_alone) {
    enum { CLIENTS = 20 };
    static char bodies[CLIENTS][300];
    json_t *alone[CLIENTS];
    int fds[CLIENTS];
    set_up_with(100, 6);
    for (int i = 0; i < CLIENTS; i++)
        snprintf(bodies[i], sizeof bodies[i],
                 "{\"prompt\": \"%.*s\", \"max_tokens\": %d, \"temperature\": %d, \"seed\": %d, \"n\": %d}", 3 + 2 * i,
                 "the quick brown fox jumps over the lazy dog", 4 + i * 3 % 17, i % 3 == 0, i, 1 + i % 2);
    for (int i = 0; i < CLIENTS; i++) {
        text t = post("/v1/completions", bodies[i]);
        EXPECT_MSG(status_of(&t) == 200, "%s", t.data);
        json_t *o = body_of(&t);
        alone[i] = json_incref(json_object_get(o, "choices"));
        json_decref(o);
        text_deinit(&t);
    }
    for (int i = 0; i < CLIENTS; i++) fds[i] = connect_to();
    for (int i = 0; i < CLIENTS; i++) send_post(fds[i], "/v1/completions", bodies[i]);
    for (int i = 0; i < CLIENTS; i++) {
        text t = receive(fds[i]);
        EXPECT_MSG(status_of(&t) == 200, "%s", t.data);
        json_t *o = body_of(&t);
        EXPECT_MSG(json_equal(alone[i], json_object_get(o, "choices")), "client %d: %s", i, t.data);
        json_decref(o);
        json_decref(alone[i]);
        text_deinit(&t);
    }
    tear_down();
}

/* The tokens that a receiver got, numbered by a common counter. */
typedef struct receiver {
    int *clock, writes, first, last; /* times of the first and last write */
    bool gone;
} receiver;

static void receiver_begin(void *context, int http, bool stream) {
    const receiver *t = context;
    (void)stream;
    EXPECT(http == (t->gone ? 503 : 200));
}

static bool receiver_write(void *context, const char *bytes, size_t length) {
    receiver *t = context;
    (void)bytes, (void)length;
    if (!t->writes++) t->first = *t->clock;
    t->last = *t->clock;
    return true;
}

static bool receiver_wanted(void *context) { return !((const receiver *)context)->gone; }

static serve_answer *begin_with_receiver(serve_request *request, const char *body, receiver *t) {
    const serve_outlet out = {t, receiver_begin, receiver_write, receiver_wanted};
    serve_problem p;
    EXPECT(serve_request_parse(body, strlen(body), SERVE_COMPLETION, request, &p));
    serve_answer *a = serve_begin(&b.engine, request, &out);
    EXPECT(a && !serve_is_done(a));
    return a;
}

/* A long prompt is read in parts. An answer in progress advances by one token with each of them, a short prompt that
 * arrives later waits for one part, and an answer that is no longer wanted ends at once. */
TEST(a_long_prompt_delays_others_by_one_part) {
    set_up_chunk(10, 4, 32);
    char body[4000];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"prompt\":\"");
    for (int i = 0; i < 290; i++) body[n++] = (char)('a' + i * 7 % 26);
    snprintf(body + n, sizeof body - n, "\",\"max_tokens\":3,\"stream\":true,\"temperature\":0,\"logprobs\":0}");
    static const char brief[] =
        "{\"prompt\":\"ab\",\"max_tokens\":40,\"stream\":true,\"temperature\":0,\"logprobs\":0}";
    enum { WRITING, LONG, GONE, SHORT };
    int clock = 0, count = 1;
    receiver t[4] = {{.clock = &clock}, {.clock = &clock}, {.clock = &clock}, {.clock = &clock}};
    serve_request requests[4];
    serve_answer *a[4] = {begin_with_receiver(&requests[WRITING], brief, &t[WRITING])};
    for (; clock < 4; clock++) serve_advance(&b.engine, a, count);
    EXPECT(t[WRITING].writes == 3); /* its own prompt, then one token with each part */
    for (; count < 3; count++) a[count] = begin_with_receiver(&requests[count], body, &t[count]);
    for (; !serve_is_done(a[LONG]); clock++) {
        int before = t[WRITING].writes;
        EXPECT_MSG(clock < 30, "moment %d", clock);
        if (clock == 6) t[GONE].gone = true; /* in the middle of the prompts */
        if (clock == 8) a[count++] = begin_with_receiver(&requests[SHORT], brief, &t[SHORT]);
        serve_advance(&b.engine, a, count);
        EXPECT(serve_is_done(a[GONE]) == (clock >= 6));
        EXPECT_MSG(t[WRITING].writes == before + 1, "moment %d: %d more", clock, t[WRITING].writes - before);
    }
    EXPECT_MSG(t[SHORT].first <= 10, "a part of the long one, its own, a token: %d", t[SHORT].first);
    EXPECT_MSG(t[LONG].first == 4 + 10 + 1, "290 = 9 * 32 + 2, and the short one's part: %d", t[LONG].first);
    EXPECT(t[LONG].last == t[LONG].first + 2 && t[WRITING].last > t[LONG].first);
    while (!serve_is_done(a[WRITING]) || !serve_is_done(a[SHORT])) serve_advance(&b.engine, a, count);
    for (int i = 0; i < count; i++) {
        serve_free(a[i]);
        serve_request_deinit(&requests[i]);
    }
    tear_down();
}

TEST(slow_and_aborted_clients_hold_up_nobody) {
    set_up(100);
    char byte;
    int gone = connect_to();
    send_post(gone, "/v1/completions", endless);
    EXPECT(recv(gone, &byte, 1, 0) == 1); /* the answer has begun */
    int waiting = connect_to();
    send_post(waiting, "/v1/completions", endless); /* leaves before its turn */
    close(waiting);
    int64_t start = clock_ns();
    close(gone);
    text t = post("/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":2}");
    EXPECT(status_of(&t) == 200);
    /* observed: 2 ms */
    EXPECT_MSG(clock_ns() - start < 1000000000, "it took %.3f s", (double)(clock_ns() - start) / 1e9);
    text_deinit(&t);
    /* a client that reads nothing: its megabytes wait while others are answered */
    int slow = connect_to(), small = 32768;
    setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    send_post(slow, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":290,\"n\":5,\"stream\":true,\"logprobs\":5}");
    t = post("/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":2}");
    EXPECT(status_of(&t) == 200);
    text_deinit(&t);
    t = receive(slow); /* and all of it is available when it is read */
    EXPECT(status_of(&t) == 200 && strstr(t.data, "[DONE]") && t.length > 500000);
    text_deinit(&t);
    tear_down();
}

/* Waits until this many of the sockets have an answer, for at most half a minute. */
static void wait_for_answers(const int *sockets, int count, int wanted) {
    struct pollfd all[16];
    int ready = 0;
    for (int i = 0; i < count; i++) all[i] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
    for (int k = 0; k < 600 && ready < wanted; k++) {
        ready = poll(all, (nfds_t)count, 0);
        if (ready < wanted) usleep(50000);
    }
}

TEST(a_full_queue_says_so) {
    enum { WAITING = 3 };
    set_up(WAITING);
    char byte;
    int first = connect_to(), more[WAITING + 2], refused = 0;
    send_post(first, "/v1/completions", endless);
    EXPECT(recv(first, &byte, 1, 0) == 1);
    for (int i = 0; i < WAITING + 2; i++) {
        more[i] = connect_to();
        send_post(more[i], "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":2}");
    }
    wait_for_answers(more, WAITING + 2, 2);
    close(first);
    for (int i = 0; i < WAITING + 2; i++) {
        text t = receive(more[i]);
        if (status_of(&t) == 503) {
            refused++;
            EXPECT(strstr(t.data, "requests are waiting already") && strstr(t.data, "Retry-After"));
        } else {
            EXPECT(status_of(&t) == 200);
        }
        text_deinit(&t);
    }
    EXPECT_MSG(refused == 2, "%d were refused", refused);
    tear_down();
}

static void restart_with(const serve_options *o) {
    serve_stop(b.server, 0);
    EXPECT_OK(serve_start(&b.engine, o, &b.server, &err));
    b.port = serve_port(b.server);
}

static int answered(void) { /* Returns the status of a small request, sent now. */
    int fd = connect_to();
    send_post(fd, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":2}");
    text t = receive(fd);
    const int status = status_of(&t);
    text_deinit(&t);
    return status;
}

/* Held connections give way: those without a request, and those whose request does not arrive. */
TEST(held_connections_do_not_stop_the_server) {
    enum { PLACES = 40 };
    set_up(100);
    const serve_options o = {
        .host = "127.0.0.1", .body_limit = 20000, .queue_limit = 100, .connection_limit = PLACES, .request_seconds = 3};
    restart_with(&o);
    int held[2 * PLACES];
    for (int i = 0; i < 2 * PLACES; i++) {
        held[i] = connect_to();
        const char *begun = i % 2 ? "P" : "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{";
        send_all(held[i], begun, strlen(begun));
    }
    EXPECT(answered() == 200);
    usleep(4500000); /* an occasional byte does not save a request that takes too long */
    char byte;
    int cut = 0;
    for (int i = 0; i < 2 * PLACES; i++) {
        cut += recv(held[i], &byte, 1, MSG_DONTWAIT) == 0;
        close(held[i]);
    }
    EXPECT_MSG(cut == 2 * PLACES, "%d of %d were cut off", cut, 2 * PLACES);
    EXPECT(answered() == 200);
    tear_down();
}

/* However long an answer takes, its connection does not count as idle; after the answer it does. */
TEST(a_long_answer_is_not_cut_off) {
    set_up(100);
    const serve_options o = {
        .host = "127.0.0.1", .body_limit = 20000, .queue_limit = 100, .connection_limit = 100, .request_seconds = 1};
    restart_with(&o);
    const int64_t begin = clock_ns();
    int fd = connect_to();
    text request = {0}, got = {0};
    text_printf(&request, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", strlen(endless),
                endless);
    send_all(fd, request.data, request.length);
    bool done = false;
    while (clock_ns() - begin < INT64_C(2500000000) && !done) {
        char part[4096], last[8] = "";
        const ssize_t n = recv(fd, part, sizeof part, 0);
        EXPECT_MSG(n > 0, "cut off after %d ms", (int)((clock_ns() - begin) / 1000000));
        if (got.length > 6) memcpy(last, got.data + got.length - 6, 6); /* the mark may come in two pieces */
        text_clear(&got);
        text_append(&got, last);
        text_append_n(&got, part, (size_t)n);
        done = strstr(got.data, "[DONE]") != NULL;
    }
    close(fd);
    fd = connect_to();
    static const char health[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    send_all(fd, health, sizeof health - 1);
    text t = receive(fd); /* the connection stays until it has been idle for a second */
    EXPECT(status_of(&t) == 200);
    text_deinit(&t);
    text_deinit(&got);
    text_deinit(&request);
    tear_down();
}

/* Bodies count while they arrive, requests while they wait; afterwards the memory is free again. */
TEST(requests_have_so_much_memory_and_no_more) {
    set_up(100);
    const serve_options o = {
        .host = "127.0.0.1", .body_limit = 40000, .queue_limit = 100, .connection_limit = 100, .memory_limit = 200000};
    restart_with(&o);
    static char body[30000];
    memset(body, ' ', sizeof body - 1);
    int held[6];
    for (int i = 0; i < 6; i++) { /* 60,000 bytes are counted each: three fit */
        held[i] = connect_to();
        const char head[] =
            "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 30000\r\n\r\n";
        send_all(held[i], head, sizeof head - 1);
        send_all(held[i], body, sizeof body - 1);
        usleep(50000);
    }
    int refused = 0;
    for (int i = 5; i >= 0; i--) {
        send_all(held[i], "x", 1);
        text t = receive(held[i]);
        refused += status_of(&t) == 503;
        EXPECT(status_of(&t) == 503 || status_of(&t) == 400);
        text_deinit(&t);
    }
    EXPECT_MSG(refused == 3, "%d were refused", refused);
    EXPECT(answered() == 200);
    tear_down();
}

/* More ids than the context has room for are refused before they wait, and far more even before they are parsed. */
TEST(requests_are_measured_before_they_wait) {
    set_up(100);
    const serve_options o = {.host = "127.0.0.1", .body_limit = 1 << 20, .queue_limit = 1, .connection_limit = 100};
    restart_with(&o);
    static char body[200100];
    for (int round = 0; round < 2; round++) {
        const int count = round ? 90000 : 301;
        strcpy(body, "{\"prompt\":[1");
        for (int i = 1, at = (int)strlen(body); i < count; i++, at += 2) memcpy(body + at, ",1", 3);
        strcat(body, "]}");
        int fd = connect_to();
        send_post(fd, "/v1/completions", body);
        text t = receive(fd);
        EXPECT(status_of(&t) == 400 && strstr(t.data, "context_length_exceeded"));
        EXPECT(strstr(t.data, round ? "the request has 89999 items" : "the prompt has 301 tokens"));
        text_deinit(&t);
    }
    tear_down();
}

TEST(the_end_is_clean) {
    set_up(100);
    char byte;
    int streaming = connect_to(), waiting = connect_to();
    send_post(streaming, "/v1/completions", endless);
    EXPECT(recv(streaming, &byte, 1, 0) == 1);
    send_post(waiting, "/v1/completions", "{\"prompt\":\"ab\"}");
    usleep(50000);
    serve_stop(b.server, 50);
    b.server = NULL;
    text t = receive(waiting);
    EXPECT(status_of(&t) == 503 && strstr(t.data, "the server is shutting down"));
    text_deinit(&t);
    t = receive(streaming);
    EXPECT_MSG(strstr(t.data, "the server is shutting down"), "%s", t.length > 300 ? t.data + t.length - 300 : t.data);
    EXPECT(!strstr(t.data, "[DONE]"));
    text_deinit(&t);
    tear_down();
    /* if there is time, the current request is finished */
    set_up(100);
    int fd = connect_to();
    send_post(fd, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":200,\"stream\":true}");
    EXPECT(recv(fd, &byte, 1, 0) == 1);
    serve_stop(b.server, 20000);
    b.server = NULL;
    t = receive(fd);
    EXPECT(strstr(t.data, "[DONE]"));
    text_deinit(&t);
    tear_down();
}

/* The request that lm-evaluation-harness sends. The prompt's loss from these logprobs equals that of infer_score. */
TEST(an_echoed_prompt_has_logprobs) {
    double nll[3], sum = 0;
    static const int32_t ids[] = {97, 98, 99, 98};
    set_up(10);
    EXPECT_OK(infer_score(b.m, ids, 4, nll, &err));
    for (int tokens = 0; tokens < 2; tokens++) {
        text t =
            post("/v1/completions", tokens ? "{\"prompt\":[[97,98,99,98]],\"echo\":true,\"logprobs\":1,"
                                             "\"max_tokens\":1,\"temperature\":0}"
                                           : "{\"prompt\":\"abcb\",\"echo\":true,\"logprobs\":2,\"max_tokens\":0}");
        json_t *o = body_of(&t);
        const json_t *p = json_object_get(json_array_get(json_object_get(o, "choices"), 0), "logprobs");
        const json_t *all = json_object_get(p, "token_logprobs"), *top = json_object_get(p, "top_logprobs");
        EXPECT_MSG(json_array_size(all) == (size_t)(4 + tokens) && json_array_size(top) == (size_t)(4 + tokens), "%s",
                   t.data);
        EXPECT(json_is_null(json_array_get(all, 0)) && json_is_null(json_array_get(top, 0)));
        for (int i = 1; i < 4; i++) {
            const double value = json_real_value(json_array_get(all, (size_t)i));
            EXPECT_MSG(fabs(value + nll[i - 1]) < 1e-5, "%g, not %g", value, -nll[i - 1]);
            /* all bytes that are not text have the same name */
            EXPECT(json_object_size(json_array_get(top, (size_t)i)) >= 1);
            EXPECT(json_integer_value(json_array_get(json_object_get(p, "text_offset"), (size_t)i)) == i);
            sum += value;
        }
        EXPECT(strncmp(text_at(o, "text", NULL), "abcb", 4) == 0);
        json_decref(o);
        text_deinit(&t);
    }
    EXPECT(sum < 0);
    tear_down();
}

TEST(pages_and_keys_are_let_in) {
    static const char *const origins[] = {"https://app.example.org"}, *const keys[] = {"first", "second"};
    static const struct {
        const char *head; /* after the request's first line */
        const char *line;
        int status;
        const char *part;
    } cases[] = {
        {"Origin: https://app.example.org\r\nAccess-Control-Request-Method: POST\r\n"
         "Access-Control-Request-Headers: authorization,content-type\r\n",
         "OPTIONS /v1/completions", 204, "Access-Control-Allow-Headers: authorization,content-type"},
        {"Origin: http://localhost:3000\r\n", "OPTIONS /v1/chat/completions", 204,
         "Access-Control-Allow-Origin: http://localhost:3000\r\n"},
        {"Origin: https://other.example.org\r\n", "OPTIONS /v1/completions", 403, "--cors-origins"},
        {"Origin: https://app.example.org\r\nAuthorization: Bearer second\r\n", "GET /v1/models", 200,
         "Access-Control-Allow-Origin: https://app.example.org\r\n"},
        {"Authorization: Bearer second \t\r\n", "GET /v1/models", 200, "owned_by"},
        {"Authorization: Bearer wrong\r\n", "GET /v1/models", 401, "invalid_api_key"},
        {"", "GET /v1/models", 401, "WWW-Authenticate: Bearer"},
        {"Authorization: Bearer secon\r\n", "GET /v1/models", 401, "Authorization: Bearer KEY"},
        {"Content-Length: 99\r\n", "POST /v1/completions", 401, "invalid_api_key"},
        {"", "GET /health", 200, "ok"},
        {"Authorization: Bearer first\r\n", "GET /metrics", 200, "propane_requests_total{code=\"401\"} 4\n"},
        {"Authorization: Bearer first\r\n", "GET /metrics", 200, "propane_build_info{version=\"9.9\"} 1\n"},
    };
    rules = (access_rules){origins, 1, keys, 2};
    logged[0] = 0;
    set_up(10);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text request = {0};
        text_printf(&request, "%s HTTP/1.1\r\nHost: x\r\n%sConnection: close\r\n\r\n", cases[i].line, cases[i].head);
        text t = raw(request.data);
        EXPECT_MSG(status_of(&t) == cases[i].status && strstr(t.data, cases[i].part), "%s -> %s", request.data, t.data);
        EXPECT(cases[i].status != 403 || !strstr(t.data, "Access-Control-Allow-Origin"));
        text_deinit(&request);
        text_deinit(&t);
    }
    tear_down();
    rules = (access_rules){0};
    EXPECT_MSG(strstr(logged, "Z 127.0.0.1 GET /v1/models 401 "), "%s", logged);
    int lines = 0;
    for (const char *at = logged; *at; at = strchr(at, '\n') + 1, lines++) { /* each took a moment */
        double seconds = -1;
        EXPECT_MSG(sscanf(at, "%*s 127.0.0.1 %*s %*s %*d %lf s", &seconds) == 1 && seconds >= 0 && seconds < 30, "%s",
                   at);
    }
    EXPECT(lines >= 12);
}

TEST(names_of_allowed_origins_are_the_servers_too) {
    static const char *const origins[] = {"https://app.example.org:8443"};
    rules = (access_rules){origins, 1, NULL, 0};
    set_up(10);
    text t = raw("GET /v1/models HTTP/1.1\r\nHost: APP.example.org\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(&t) == 200);
    text_deinit(&t);
    t = raw("GET /v1/models HTTP/1.1\r\nHost: other.example.org\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(&t) == 403 && strstr(t.data, "other.example.org"));
    text_deinit(&t);
    tear_down();
}

TEST(addresses_that_cannot_be_had_are_errors) {
    set_up(10);
    serve_server *s;
    serve_options o = {.host = "127.0.0.1", .port = b.port, .body_limit = 1, .queue_limit = 1, .connection_limit = 1};
    EXPECT_FAIL(serve_start(&b.engine, &o, &s, &err), PROPANE_ERR_IO,
                "another program is using it; give another --port");
    o.host = "example.org";
    EXPECT_FAIL(serve_start(&b.engine, &o, &s, &err), PROPANE_ERR_INVALID, "'example.org' is not an address");
    o.host = "203.0.113.7";
    EXPECT_FAIL(serve_start(&b.engine, &o, &s, &err), PROPANE_ERR_IO, "cannot listen on 203.0.113.7");
    tear_down();
}

SUITE("serve/serve", T(completions_are_answered), T(embeddings_are_answered), T(streams_add_up_to_the_answer),
      T(models_and_health_are_reported), T(json_objects_are_whole), T(wrong_requests_are_answered_with_the_reason),
      T(lengths_that_two_readers_read_differently_are_refused), T(what_is_much_too_long_is_refused_at_once),
      T(a_client_that_closes_its_side_gets_its_answer), T(malformed_http_is_refused),
      T(a_body_may_be_as_long_as_the_limit), T(a_body_without_end_is_cut_off), T(two_hundred_connections_at_once),
      T(requests_that_come_together_are_answered_as_alone), T(a_long_prompt_delays_others_by_one_part),
      T(slow_and_aborted_clients_hold_up_nobody), T(a_full_queue_says_so), T(held_connections_do_not_stop_the_server),
      T(a_long_answer_is_not_cut_off), T(requests_have_so_much_memory_and_no_more),
      T(requests_are_measured_before_they_wait), T(the_end_is_clean), T(an_echoed_prompt_has_logprobs),
      T(pages_and_keys_are_let_in), T(names_of_allowed_origins_are_the_servers_too),
      T(addresses_that_cannot_be_had_are_errors))
