/* SPDX-License-Identifier: MIT
 * The objects of answers, to the byte, without a server.
 */
#include "apps/serve/http_reply.h"

#include "core/base/memory.h"
#include "support/test.h"

static text out;

static void expect(const char *want) {
    EXPECT_TEXT(out.data, want);
    EXPECT(!out.failed);
    text_clear(&out);
}

static const serve_head chat = {.id = "chatcmpl-1", .created = 5, .model = "tiny", .chat = true},
                        plain = {.id = "cmpl-1", .created = 5, .model = "tiny"},
                        counted = {.id = "chatcmpl-1",
                                   .created = 5,
                                   .model = "tiny",
                                   .chat = true,
                                   .usage_in_stream = true},
                        response = {.id = "resp-1", .created = 5, .model = "tiny", .chat = true, .response = true};
static const serve_usage usage = {.prompt = 7, .completion = 3, .reused = 2};

TEST(problems) {
    serve_problem p;
    EXPECT(!serve_refuse(&p, 404, "invalid_request_error", "model", "model_not_found", "no '%s'", "x"));
    EXPECT(p.http == 404);
    serve_print_problem(&out, &p);
    expect("{\"error\":{\"message\":\"no "
           "'x'\",\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_found\"}}\n");
    EXPECT(!serve_refuse(&p, 500, "server_error", NULL, NULL, "broken"));
    serve_stream_problem(&out, &p);
    expect("data: {\"error\":{\"message\":\"broken\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n");
    EXPECT(!serve_refuse(&p, 500, "server_error", "", NULL, "half a character: \xc3"));
    serve_print_problem(&out, &p);
    expect("{\"error\":{\"message\":\"half a character: \",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n");
}

TEST(models) {
    serve_print_models(&out, "tiny", 9, true, false);
    expect("{\"id\":\"tiny\",\"object\":\"model\",\"created\":9,\"owned_by\":\"propane\",\"chat\":true}\n");
    serve_print_models(&out, "tiny", 9, false, true);
    expect(
        "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\",\"object\":\"model\",\"created\":9,\"owned_by\":\"propane\","
        "\"chat\":false}]}\n");
}

TEST(ends) {
    EXPECT_TEXT(serve_finish(INFER_FINISH_END), "stop");
    EXPECT_TEXT(serve_finish(INFER_FINISH_STOP), "stop");
    EXPECT_TEXT(serve_finish(INFER_FINISH_LENGTH), "length");
}

static json_t *one(json_t *choice) { return json_pack("[o]", choice); }

TEST(answers) {
    serve_print_answer(&out, &plain, one(serve_choice(&plain, 1, "a\"b", 3, NULL, NULL, "stop")), &usage);
    expect(
        "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":5,\"model\":\"tiny\",\"choices\":[{\"index\":1,"
        "\"text\":\"a\\\"b\",\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":7,"
        "\"completion_tokens\":3,\"total_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n");
    serve_print_answer(&out, &chat, one(serve_choice(&chat, 0, "hi", 2, NULL, json_pack("{s:i}", "x", 1), "length")),
                       &usage);
    expect("{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":5,\"model\":\"tiny\",\"choices\":[{"
           "\"index\":0,"
           "\"message\":{\"role\":\"assistant\",\"content\":\"hi\",\"refusal\":null},\"logprobs\":{\"x\":1},"
           "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10,"
           "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n");
    /* with calls, an empty text is null; a text stays */
    for (int length = 0; length < 2; length++) {
        json_t *o = serve_choice(&chat, 0, "t", (size_t)length, json_pack("[i]", 4), NULL, "tool_calls");
        const json_t *message = json_object_get(o, "message");
        EXPECT(json_is_null(json_object_get(message, "content")) == (length == 0));
        EXPECT(json_array_size(json_object_get(message, "tool_calls")) == 1);
        json_decref(o);
    }
    json_t *o = serve_choice(&chat, 0, "", 0, NULL, NULL, "stop");
    EXPECT_TEXT(json_string_value(json_object_get(json_object_get(o, "message"), "content")), "");
    json_decref(o);
}

TEST(responses) {
    static const char *const finishes[] = {"stop", "length"}, *const status[] = {"completed", "incomplete"};
    for (int i = 0; i < 2; i++) {
        char want[700];
        serve_print_answer(&out, &response, one(serve_choice(&response, 0, "hi", 2, NULL, NULL, finishes[i])), &usage);
        snprintf(
            want, sizeof want,
            "{\"id\":\"resp-1\",\"object\":\"response\",\"created_at\":5,\"status\":\"%s\",\"error\":null,"
            "\"incomplete_details\":%s,\"model\":\"tiny\",\"output\":[{\"type\":\"message\",\"id\":\"resp-1\","
            "\"status\":\"%s\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\","
            "\"annotations\":[]}]}],\"parallel_tool_calls\":false,\"tool_choice\":\"none\",\"tools\":[],\"usage\":{"
            "\"input_tokens\":7,\"input_tokens_details\":{\"cached_tokens\":2},\"output_tokens\":3,"
            "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":10}}\n",
            status[i], i ? "{\"reason\":\"max_output_tokens\"}" : "null", status[i]);
        expect(want);
    }
}

TEST(embeddings) {
    static const float vectors[2][3] = {{1, 0.5f, -2}, {0, 3, 1e-9f}};
    for (int i = 0; i < 2; i++) serve_print_embedding(&out, i, vectors[i], 3, false);
    serve_print_embeddings_end(&out, "tiny", &usage);
    expect("{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[1,0.5,-2]},{\"object\":"
           "\"embedding\",\"index\":1,\"embedding\":[0,3,9.99999972e-10]}],\"model\":\"tiny\",\"usage\":{\"prompt_"
           "tokens\":7,"
           "\"total_tokens\":7}}\n");
    serve_print_embedding(&out, 0, vectors[0], 3, true);
    serve_print_embeddings_end(&out, "tiny", &usage);
    expect("{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":\"AACAPwAAAD8AAADA\"}],"
           "\"model\":"
           "\"tiny\",\"usage\":{\"prompt_tokens\":7,\"total_tokens\":7}}\n");
}

#define CHUNK                                                                                                          \
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":5,\"model\":\"tiny\",\"choices\":["

TEST(streams) {
    serve_stream_begin(&out, &chat, 2);
    expect(CHUNK "{\"index\":2,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":"
                 "null}]}\n\n");
    serve_stream_part(&out, &chat, 0, "ab", 2, NULL, NULL);
    expect(CHUNK "{\"index\":0,\"delta\":{\"content\":\"ab\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    serve_stream_part(&out, &chat, 0, "", 0, NULL, NULL);
    expect(CHUNK "{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    serve_stream_part(&out, &chat, 0, "", 0, NULL, "stop");
    expect(CHUNK "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n");
    serve_stream_part(&out, &chat, 0, "x", 1, json_pack("{s:i}", "p", 1), "length");
    expect(CHUNK
           "{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":{\"p\":1},\"finish_reason\":\"length\"}]}\n\n");
    serve_stream_part(&out, &counted, 0, "x", 1, NULL, NULL);
    expect(CHUNK
           "{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n");
    serve_stream_part(&out, &plain, 1, "x", 1, NULL, NULL);
    expect("data: "
           "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":5,\"model\":\"tiny\",\"choices\":[{\"index\":"
           "1,\"text\":"
           "\"x\",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    serve_stream_calls(&out, &chat, 0, json_pack("[{s:s},{s:s}]", "id", "a", "id", "b"));
    expect(CHUNK "{\"index\":0,\"delta\":{\"tool_calls\":[{\"id\":\"a\",\"index\":0},{\"id\":\"b\",\"index\":1}]},"
                 "\"logprobs\":null,"
                 "\"finish_reason\":null}]}\n\n");
    serve_stream_usage(&out, &counted, &usage);
    expect(CHUNK
           "],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10,\"prompt_tokens_details\":{"
           "\"cached_tokens\":2}}}\n\n");
    serve_stream_done(&out);
    expect("data: [DONE]\n\n");
}

SUITE("serve/reply", T(problems), T(models), T(ends), T(answers), T(responses), T(embeddings), T(streams))
