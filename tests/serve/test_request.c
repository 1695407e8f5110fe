/* SPDX-License-Identifier: MIT
 * Bodies of requests, without a server: the value of every key, its default, both ends of its range, and refusals.
 */
#include "apps/serve/http_request.h"

#include "core/base/memory.h"
#include "support/test.h"

static serve_request r;
static serve_problem p;

static bool parsed(serve_kind kind, const char *body) { return serve_request_parse(body, strlen(body), kind, &r, &p); }

#define CHAT(keys) "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]" keys "}"
#define TEXT(keys) "{\"prompt\":\"a\"" keys "}"

TEST(keys_that_are_not_given_have_defaults) {
    EXPECT(parsed(SERVE_COMPLETION, TEXT("")) && p.http == 0);
    EXPECT(!r.chat && !r.embedding && !r.response && !r.stream && !r.include_usage && !r.echo && !r.seeded && !r.json);
    EXPECT(!r.model && r.max_tokens == 16 && r.choices == 1 && r.logprobs == -1 && r.stop_count == 0 && !r.tools);
    EXPECT(r.sampling.temperature == 1 && r.sampling.top_p == 1 && r.sampling.repetition == 1 && r.sampling.top_k == 0);
    EXPECT(r.sampling.min_p == 0 && r.sampling.frequency == 0 && r.sampling.presence == 0);
    EXPECT(r.prompt_count == 1 && r.prompts[0].count == 1 && strcmp(r.prompts[0].text, "a") == 0);
    EXPECT_TEXT(serve_request_key(&r), "prompt");
    serve_request_deinit(&r);
    EXPECT(parsed(SERVE_CHAT, CHAT("")));
    EXPECT(r.chat && r.max_tokens == -1 && r.logprobs == -1 && r.choices == 1 && r.message_count == 1);
    EXPECT_TEXT(serve_request_key(&r), "messages");
    serve_request_deinit(&r);
    EXPECT(parsed(SERVE_EMBEDDING, "{\"input\":\"a\"}"));
    EXPECT(r.embedding && !r.chat && !r.base64 && r.dimensions == 0 && r.choices == 1 && r.logprobs == -1);
    EXPECT_TEXT(serve_request_key(&r), "input");
    serve_request_deinit(&r);
}

TEST(values_are_taken) {
    EXPECT(parsed(
        SERVE_COMPLETION,
        TEXT(",\"model\":\"m\",\"temperature\":0.5,\"top_p\":0.25,\"min_p\":0.125,\"top_k\":7,"
             "\"repetition_penalty\":1.5,\"frequency_penalty\":-2,\"presence_penalty\":2,\"seed\":-3,\"n\":4,"
             "\"best_of\":4,\"max_tokens\":0,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
             "\"echo\":true,\"logprobs\":0,\"stop\":[\"x\",\"yy\"],\"response_format\":{\"type\":\"json_object\"}")));
    EXPECT_TEXT(r.model, "m");
    EXPECT(r.sampling.temperature == 0.5 && r.sampling.top_p == 0.25 && r.sampling.min_p == 0.125 &&
           r.sampling.top_k == 7);
    EXPECT(r.sampling.repetition == 1.5 && r.sampling.frequency == -2 && r.sampling.presence == 2);
    EXPECT(r.seeded && r.sampling.seed == (uint64_t)-3 && r.choices == 4 && r.max_tokens == 0 && r.stream);
    EXPECT(r.include_usage && r.echo && r.logprobs == 0 && r.json && r.stop_count == 2);
    EXPECT_TEXT(r.stops[1], "yy");
    serve_request_deinit(&r);
    static const struct {
        const char *body;
        int64_t logprobs, most;
        int stops, top_k;
        bool json, tools, stream, seeded;
    } chats[] = {
        {CHAT(",\"logprobs\":true"), 0, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"logprobs\":true,\"top_logprobs\":20"), 20, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"logprobs\":true,\"top_logprobs\":0"), 0, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"logprobs\":false"), -1, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"max_tokens\":5"), -1, 5, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"max_completion_tokens\":6"), -1, 6, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"stop\":\"x\",\"top_k\":-1"), -1, -1, 1, 0, 0, 0, 0, 0},
        {CHAT(",\"stop\":null,\"stream_options\":null,\"seed\":null"), -1, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"seed\":0,\"top_k\":1"), -1, -1, 0, 1, 0, 0, 0, 1},
        {CHAT(",\"response_format\":{\"type\":\"text\"}"), -1, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"response_format\":{\"type\":\"json_object\"}"), -1, -1, 0, 0, 1, 0, 0, 0},
        {CHAT(",\"response_format\":null"), -1, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"stream\":true"), -1, -1, 0, 0, 0, 0, 1, 0},
        {CHAT(",\"tools\":[]"), -1, -1, 0, 0, 0, 0, 0, 0},
        {CHAT(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"), -1, -1, 0, 0, 0, 1, 0, 0},
        {CHAT(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"auto\""), -1, -1, 0,
         0, 0, 1, 0, 0},
        {CHAT(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"none\""), -1, -1, 0,
         0, 0, 0, 0, 0},
        {CHAT(",\"logit_bias\":{},\"functions\":[],\"suffix\":null,\"audio\":false"), -1, -1, 0, 0, 0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof chats / sizeof chats[0]; i++) {
        EXPECT_MSG(parsed(SERVE_CHAT, chats[i].body), "%s: %s", chats[i].body, p.message);
        EXPECT_MSG(r.logprobs == chats[i].logprobs && r.max_tokens == chats[i].most && r.stop_count == chats[i].stops &&
                       r.sampling.top_k == chats[i].top_k && r.json == chats[i].json &&
                       (r.tools != NULL) == chats[i].tools && r.stream == chats[i].stream &&
                       r.seeded == chats[i].seeded && !r.include_usage,
                   "%s", chats[i].body);
        serve_request_deinit(&r);
    }
    EXPECT(parsed(SERVE_CHAT,
                  "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]}"));
    EXPECT_TEXT(r.messages[0].role, "system");
    EXPECT_TEXT(r.messages[1].role, "user");
    serve_request_deinit(&r);
}

/* The ends of every range: the first and the last value are accepted, and the next ones are refused with the key. */
TEST(both_ends_of_a_range_are_allowed) {
    static const struct {
        serve_kind kind;
        const char *key, *low, *high, *below, *above;
    } rows[] = {{SERVE_COMPLETION, "temperature", "0", "2", "-0.001", "2.001"},
                {SERVE_COMPLETION, "top_p", "0", "1", "-0.001", "1.001"},
                {SERVE_COMPLETION, "min_p", "0", "1", "-0.001", "1.001"},
                {SERVE_COMPLETION, "top_k", "-1", "2147483647", "-2", "2147483648"},
                {SERVE_COMPLETION, "repetition_penalty", "0", "100", "-0.1", "100.1"},
                {SERVE_COMPLETION, "frequency_penalty", "-2", "2", "-2.1", "2.1"},
                {SERVE_COMPLETION, "presence_penalty", "-2", "2", "-2.1", "2.1"},
                {SERVE_COMPLETION, "seed", "-9223372036854775808", "9223372036854775807", "1.5", "\"x\""},
                {SERVE_COMPLETION, "max_tokens", "0", "2147483647", "-1", "2147483648"},
                {SERVE_CHAT, "max_completion_tokens", "0", "2147483647", "-1", "2147483648"},
                {SERVE_COMPLETION, "n", "1", "128", "0", "129"},
                {SERVE_COMPLETION, "logprobs", "0", "20", "-1", "21"},
                {SERVE_CHAT, "top_logprobs", "0", "20", "-1", "21"},
                {SERVE_EMBEDDING, "dimensions", "1", "2147483647", "0", "2147483648"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *values[] = {rows[i].low, rows[i].high, rows[i].below, rows[i].above};
        for (int k = 0; k < 4; k++) {
            char body[300];
            snprintf(body, sizeof body, "{%s,\"%s\":%s%s}",
                     rows[i].kind == SERVE_CHAT        ? "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
                     : rows[i].kind == SERVE_EMBEDDING ? "\"input\":\"a\""
                                                       : "\"prompt\":\"a\"",
                     rows[i].key, values[k], strcmp(rows[i].key, "top_logprobs") == 0 ? ",\"logprobs\":true" : "");
            EXPECT_MSG(parsed(rows[i].kind, body) == (k < 2), "%s: %s", body, p.message);
            EXPECT(k < 2 || (p.http == 400 && strcmp(p.param, rows[i].key) == 0));
            if (k < 2) serve_request_deinit(&r);
        }
    }
}

TEST(prompts_of_each_form) {
    static const struct {
        const char *body;
        int prompts;
        int64_t first;
        bool ids;
    } good[] = {{"{\"prompt\":\"abc\"}", 1, 3, false},
                {"{\"prompt\":\"\"}", 1, 0, false},
                {"{\"prompt\":[\"ab\",\"c\"]}", 2, 2, false},
                {"{\"prompt\":[1,2,3]}", 1, 3, true},
                {"{\"prompt\":[[1,2],[3]]}", 2, 2, true},
                {"{\"prompt\":[]}", 1, 0, true},
                {"{\"prompt\":[[]]}", 1, 0, true}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        EXPECT_MSG(parsed(SERVE_COMPLETION, good[i].body), "%s: %s", good[i].body, p.message);
        EXPECT_MSG(r.prompt_count == good[i].prompts && r.prompts[0].count == good[i].first &&
                       (r.prompts[0].text == NULL) == good[i].ids,
                   "%s", good[i].body);
        serve_request_deinit(&r);
    }
    EXPECT(parsed(SERVE_COMPLETION, "{\"prompt\":[0,2147483647,2147483648,-1,7]}"));
    static const int32_t ids[] = {0, 2147483647, -1, -1, 7};
    EXPECT(memcmp(r.prompts[0].ids, ids, sizeof ids) == 0);
    serve_request_deinit(&r);
    static const char *const bad[] = {
        "{\"prompt\":7}",         "{\"prompt\":null}",        "{\"prompt\":[\"a\",[1]]}", "{\"prompt\":[[1],\"a\"]}",
        "{\"prompt\":[1,\"a\"]}", "{\"prompt\":[[1,\"a\"]]}", "{\"prompt\":[1.5]}",       "{}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_MSG(!parsed(SERVE_COMPLETION, bad[i]), "%s", bad[i]);
        EXPECT(p.http == 400 && strcmp(p.param, "prompt") == 0 && !r.root && !r.arena);
    }
}

/* Prompts times choices, stop strings, and inputs of an embedding have most numbers. */
TEST(numbers_of_answers_are_limited) {
    static const struct {
        serve_kind kind;
        int texts, choices;
        bool good;
    } cases[] = {{SERVE_COMPLETION, 128, 1, true}, {SERVE_COMPLETION, 129, 1, false}, {SERVE_COMPLETION, 64, 2, true},
                 {SERVE_COMPLETION, 65, 2, false}, {SERVE_COMPLETION, 1, 128, true},  {SERVE_EMBEDDING, 2048, 1, true},
                 {SERVE_EMBEDDING, 2049, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text body = {0};
        text_printf(&body, "{\"n\":%d,\"%s\":[", cases[i].choices,
                    cases[i].kind == SERVE_EMBEDDING ? "input" : "prompt");
        for (int k = 0; k < cases[i].texts; k++) text_append(&body, k ? ",\"a\"" : "\"a\"");
        text_append(&body, "]}");
        EXPECT_MSG(parsed(cases[i].kind, body.data) == cases[i].good, "case %zu: %s", i, p.message);
        if (cases[i].good) EXPECT(r.prompt_count == cases[i].texts);
        if (cases[i].good) serve_request_deinit(&r);
        text_deinit(&body);
    }
    for (int stops = 16; stops <= 17; stops++) {
        text body = {0};
        text_append(&body, "{\"prompt\":\"a\",\"stop\":[");
        for (int k = 0; k < stops; k++) text_append(&body, k ? ",\"s\"" : "\"s\"");
        text_append(&body, "]}");
        EXPECT(parsed(SERVE_COMPLETION, body.data) == (stops == 16));
        if (stops == 16) EXPECT(r.stop_count == 16);
        if (stops == 16) serve_request_deinit(&r);
        text_deinit(&body);
    }
}

TEST(what_is_refused_names_its_key) {
    static const struct {
        serve_kind kind;
        const char *body, *param, *code;
    } cases[] = {
        {SERVE_COMPLETION, TEXT(",\"best_of\":2"), "best_of", NULL},
        {SERVE_COMPLETION, TEXT(",\"n\":3,\"best_of\":2"), "best_of", NULL},
        {SERVE_COMPLETION, TEXT(",\"logit_bias\":{\"1\":2}"), "logit_bias", "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"suffix\":\"\""), "suffix", "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"functions\":[1]"), "functions", "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"audio\":true"), "audio", "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"prediction\":1"), "prediction", "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"model\":1"), "model", NULL},
        {SERVE_COMPLETION, TEXT(",\"echo\":1"), "echo", NULL},
        {SERVE_COMPLETION, TEXT(",\"stream\":true,\"stream_options\":1"), "stream_options", NULL},
        {SERVE_COMPLETION, TEXT(",\"stream_options\":{\"include_usage\":true}"), "stream_options", NULL},
        {SERVE_COMPLETION, TEXT(",\"stream\":true,\"stream_options\":{\"include_usage\":1}"), "include_usage", NULL},
        {SERVE_COMPLETION, TEXT(",\"response_format\":{\"type\":\"json_schema\"}"), "response_format",
         "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"response_format\":{\"type\":1}"), "response_format", "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"response_format\":7"), "response_format", "unsupported_parameter"},
        {SERVE_COMPLETION, TEXT(",\"stop\":7"), "stop", NULL},
        {SERVE_COMPLETION, TEXT(",\"stop\":\"\""), "stop", NULL},
        {SERVE_COMPLETION, TEXT(",\"stop\":[\"a\",7]"), "stop", NULL},
        {SERVE_CHAT, CHAT(",\"top_logprobs\":0"), "top_logprobs", NULL},
        {SERVE_CHAT, CHAT(",\"logprobs\":5"), "logprobs", NULL},
        {SERVE_CHAT, CHAT(",\"tools\":{\"a\":1}"), "tools", NULL},
        {SERVE_CHAT, CHAT(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\"}]"),
         "tools", NULL},
        {SERVE_CHAT, CHAT(",\"tools\":[{\"type\":\"other\",\"function\":{\"name\":\"f\"}}]"), "tools", NULL},
        {SERVE_CHAT, CHAT(",\"tools\":[{\"function\":{\"name\":\"f\"}}]"), "tools", NULL},
        {SERVE_CHAT, CHAT(",\"tool_choice\":\"required\""), "tool_choice", "unsupported_parameter"},
        {SERVE_CHAT, CHAT(",\"tool_choice\":{\"type\":\"function\"}"), "tool_choice", "unsupported_parameter"},
        {SERVE_CHAT, "{\"messages\":\"a\"}", "messages", NULL},
        {SERVE_CHAT, "{\"messages\":[]}", "messages", NULL},
        {SERVE_EMBEDDING, "{\"input\":\"a\",\"encoding_format\":\"hex\"}", "encoding_format", NULL},
        {SERVE_EMBEDDING, "{\"input\":\"a\",\"encoding_format\":1}", "encoding_format", NULL},
        {SERVE_EMBEDDING, "{\"prompt\":\"a\"}", "input", NULL},
        {SERVE_COMPLETION, "[]", "", NULL},
        {SERVE_COMPLETION, "{", "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_MSG(!parsed(cases[i].kind, cases[i].body), "%s", cases[i].body);
        EXPECT_MSG(p.http == 400 && strcmp(p.param, cases[i].param) == 0, "%s: %d, '%s': %s", cases[i].body, p.http,
                   p.param, p.message);
        EXPECT(cases[i].code ? p.code && strcmp(p.code, cases[i].code) == 0 : p.code == NULL);
        EXPECT_TEXT(p.type, "invalid_request_error");
        EXPECT(!r.root && !r.arena && !r.messages);
    }
    EXPECT(parsed(SERVE_EMBEDDING, "{\"input\":[1,2],\"encoding_format\":\"base64\"}") && r.base64);
    EXPECT(!json_object_get(r.root, "input")); /* the ids were copied */
    serve_request_deinit(&r);
    EXPECT(parsed(SERVE_EMBEDDING, "{\"input\":\"a\",\"encoding_format\":\"float\"}") && !r.base64);
    EXPECT(json_object_get(r.root, "input"));
    serve_request_deinit(&r);
    EXPECT(parsed(SERVE_COMPLETION, TEXT(",\"n\":2,\"best_of\":2"))); /* only the choices matter */
    serve_request_deinit(&r);
}

/* The endpoint of responses: other names for the parts of a chat. */
TEST(responses_are_chats) {
    EXPECT(parsed(SERVE_RESPONSE,
                  "{\"input\":\"hi\",\"instructions\":\"be short\",\"max_output_tokens\":5,\"n\":9,\"max_tokens\":8}"));
    EXPECT(r.response && r.chat && r.max_tokens == 5 && r.choices == 1 && r.message_count == 2);
    EXPECT_TEXT(r.messages[0].role, "system");
    EXPECT_TEXT(r.messages[0].content, "be short");
    EXPECT_TEXT(r.messages[1].content, "hi");
    serve_request_deinit(&r);
    EXPECT(parsed(
        SERVE_RESPONSE,
        "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]},"
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"b\"}]},"
        "{\"role\":\"user\",\"content\":\"c\"}],\"max_output_tokens\":null,\"instructions\":null,\"max_tokens\":8,"
        "\"tools\":[],\"stream\":false,\"text\":{\"format\":{\"type\":\"text\"}}}"));
    EXPECT(r.message_count == 3 && r.max_tokens == -1);
    EXPECT_TEXT(r.messages[0].content, "a");
    EXPECT_TEXT(r.messages[1].content, "b");
    EXPECT_TEXT(r.messages[1].role, "assistant");
    serve_request_deinit(&r);
    static const struct {
        const char *body, *param;
        bool unsupported;
    } bad[] = {{"{}", "input", false},
               {"{\"input\":[]}", "input", false},
               {"{\"input\":7}", "input", false},
               {"{\"input\":[{\"role\":\"user\"}]}", "input", false},
               {"{\"input\":[{\"content\":\"a\"}]}", "input", false},
               {"{\"input\":[{\"type\":\"call\",\"role\":\"user\",\"content\":\"a\"}]}", "input", false},
               {"{\"input\":\"a\",\"instructions\":7}", "instructions", false},
               {"{\"input\":\"a\",\"max_output_tokens\":0}", "max_output_tokens", false},
               {"{\"input\":\"a\",\"max_output_tokens\":1.5}", "max_output_tokens", false},
               {"{\"input\":\"a\",\"stream\":true}", "stream", true},
               {"{\"input\":\"a\",\"tools\":[1]}", "tools", true},
               {"{\"input\":\"a\",\"previous_response_id\":\"x\"}", "previous_response_id", true},
               {"{\"input\":\"a\",\"conversation\":{}}", "conversation", true},
               {"{\"input\":\"a\",\"prompt\":\"x\"}", "prompt", true},
               {"{\"input\":\"a\",\"background\":true}", "background", true},
               {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_object\"}}}", "text", true},
               {"[]", "", false}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_MSG(!parsed(SERVE_RESPONSE, bad[i].body), "%s", bad[i].body);
        EXPECT_MSG(p.http == 400 && strcmp(p.param, bad[i].param) == 0 && (p.code != NULL) == bad[i].unsupported,
                   "%s: '%s' %s", bad[i].body, p.param, p.message);
    }
    EXPECT(parsed(SERVE_RESPONSE, "{\"input\":\"a\",\"max_output_tokens\":1}") && r.max_tokens == 1);
    serve_request_deinit(&r);
}

/* A body with more list items than the context could hold is refused before it is parsed. */
TEST(items_are_counted_before_parsing) {
    static const struct {
        serve_kind kind;
        int64_t context, most;
    } rows[] = {
        {SERVE_CHAT, 9, 1080}, {SERVE_RESPONSE, 9, 1080}, {SERVE_COMPLETION, 9, 2280}, {SERVE_EMBEDDING, 0, 1128}};
    for (int i = 0; i < 4; i++) {
        text body = {0};
        for (int64_t k = 0; k < rows[i].most; k++) text_append(&body, "1,");
        EXPECT(serve_request_check_items(body.data, body.length, rows[i].kind, rows[i].context, &p));
        text_append(&body, ",");
        EXPECT(!serve_request_check_items(body.data, body.length, rows[i].kind, rows[i].context, &p));
        EXPECT(p.http == 400 && strcmp(p.code, "context_length_exceeded") == 0);
        EXPECT(serve_request_check_items(body.data, body.length - 1, rows[i].kind, rows[i].context, &p));
        text_deinit(&body);
    }
}

TEST(routes_are_whole_paths) {
    static const struct {
        const char *url;
        int route;
    } cases[] = {{"/", SERVE_ROUTE_GET},
                 {"/health", SERVE_ROUTE_GET},
                 {"/metrics", SERVE_ROUTE_GET},
                 {"/v1/models", SERVE_ROUTE_GET},
                 {"/v1/models/", SERVE_ROUTE_GET},
                 {"/v1/models/x/y", SERVE_ROUTE_GET},
                 {"/v1/completions", SERVE_ROUTE_POST + SERVE_COMPLETION},
                 {"/v1/chat/completions", SERVE_ROUTE_POST + SERVE_CHAT},
                 {"/v1/embeddings", SERVE_ROUTE_POST + SERVE_EMBEDDING},
                 {"/v1/responses", SERVE_ROUTE_POST + SERVE_RESPONSE},
                 {"/v1/modelsx", SERVE_ROUTE_NONE},
                 {"/v1/completions/", SERVE_ROUTE_NONE},
                 {"", SERVE_ROUTE_NONE},
                 {"/healthy", SERVE_ROUTE_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        EXPECT_MSG((int)serve_route_of(cases[i].url) == cases[i].route, "%s", cases[i].url);
}

SUITE("serve/request", T(keys_that_are_not_given_have_defaults), T(values_are_taken),
      T(both_ends_of_a_range_are_allowed), T(prompts_of_each_form), T(numbers_of_answers_are_limited),
      T(what_is_refused_names_its_key), T(responses_are_chats), T(items_are_counted_before_parsing),
      T(routes_are_whole_paths))
