/* SPDX-License-Identifier: MIT
 * Tool calls: cut out of an answer, and left in it if they are not valid calls.
 */
#include "apps/serve/tool_calls.h"

#include "core/base/memory.h"
#include "support/test.h"

static propane_error err;

static void expect_calls(const char *answer, const char *rest, const char *want) {
    text t = {0};
    char *shown = NULL;
    text_append(&t, answer);
    json_t *calls = serve_tool_calls(&t, 10);
    EXPECT_TEXT(t.data, rest);
    EXPECT(t.length == strlen(rest));
    if (want) {
        EXPECT_OK(json_print(calls, JSON_COMPACT, &shown, NULL, &err));
        EXPECT_TEXT(shown, want);
    } else {
        EXPECT(calls == NULL);
    }
    mem_free(shown);
    json_decref(calls);
    text_deinit(&t);
}

#define CALL(number, name, arguments)                                                                                  \
    "{\"id\":\"call_000000000000000a_" number "\",\"type\":\"function\",\"function\":{\"name\":\"" name                \
    "\",\"arguments\":\"" arguments "\"}}"

TEST(calls_are_cut_out) {
    expect_calls("Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n",
                 "Let me see.", "[" CALL("0", "f", "{\\\"a\\\": 1}") "]");
    expect_calls(
        "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\",\"parameters\":{}}"
        "</tool_call> then",
        " then", "[" CALL("0", "f", "{}") "," CALL("1", "g", "{}") "]");
}

TEST(text_between_calls_stays_in_order) {
    static const char f[] = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
                      no[] = "<tool_call>no</tool_call>";
    char answer[500], rest[200];
    snprintf(answer, sizeof answer, "%s x %s y %s %s z%s  %s", f, no, f, no, f, no);
    snprintf(rest, sizeof rest, " x %s y %s z  %s", no, no, no);
    expect_calls(answer, rest, "[" CALL("0", "f", "{}") "," CALL("1", "f", "{}") "," CALL("2", "f", "{}") "]");
    snprintf(answer, sizeof answer, "%s first %s second %s third \n", f, f, f);
    expect_calls(answer, " first second third",
                 "[" CALL("0", "f", "{}") "," CALL("1", "f", "{}") "," CALL("2", "f", "{}") "]");
}

TEST(what_is_no_call_stays) {
    expect_calls("nothing", "nothing", NULL);
    expect_calls("<tool_call>{\"name\": 3}</tool_call>", "<tool_call>{\"name\": 3}</tool_call>", NULL);
    expect_calls("<tool_call>not JSON</tool_call> <tool_call>", "<tool_call>not JSON</tool_call> <tool_call>", NULL);
    expect_calls("<tool_call>{\"name\":\"f\",\"arguments\":{}}", "<tool_call>{\"name\":\"f\",\"arguments\":{}}", NULL);
    expect_calls("a <tool_call>no</tool_call> b <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> c",
                 "a <tool_call>no</tool_call> b c", "[" CALL("0", "f", "{}") "]");
}

SUITE("serve/tool_calls", T(calls_are_cut_out), T(text_between_calls_stays_in_order), T(what_is_no_call_stays))
