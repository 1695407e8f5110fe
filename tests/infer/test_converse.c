/* SPDX-License-Identifier: MIT
 * Conversations as prompts: the end of an answer, and the turns that are dropped if there is no room.
 */
#include "lm/infer/converse.h"

#include "core/base/memory.h"
#include "support/test.h"

static propane_error err;

static char *rendered(const tokenizer *t, const token_list *ids) {
    text out = {0};
    tokenizer_decode_bytes(t, ids->ids, ids->count, &out);
    text_append(&out, "");
    return out.data;
}

TEST(the_oldest_turns_go_first) {
    tokenizer *t;
    infer_chat c;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    EXPECT_OK(infer_chat_open("nowhere", t, "chatml", &c, &err));
    EXPECT(c.stop_count == 1 && c.end_count == 0); /* bytes have no special tokens, so the end is text */
    EXPECT_TEXT(c.stops[0], "<|im_end|>");
    chat_message m[] = {{"system", "S"},    {"user", "one"},     {"assistant", "1"}, {"user", "two"},
                        {"assistant", "2"}, {"assistant", "2b"}, {"user", "three"}};
    token_list ids = {0};
    int count = 7, dropped;
    EXPECT_OK(infer_chat_fit(&c, t, m, &count, 10000, &ids, &dropped, &err));
    EXPECT(dropped == 0 && count == 7);
    int64_t all = (int64_t)ids.count;
    EXPECT_OK(infer_chat_fit(&c, t, m, &count, all - 1, &ids, &dropped, &err));
    EXPECT(dropped == 2 && count == 5);
    EXPECT_TEXT(m[1].content, "two");
    EXPECT_OK(infer_chat_fit(&c, t, m, &count, (int64_t)ids.count - 1, &ids, &dropped, &err));
    EXPECT(dropped == 3 && count == 2);
    char *shown = rendered(t, &ids);
    EXPECT_TEXT(shown, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n");
    mem_free(shown);
    EXPECT_FAIL(infer_chat_fit(&c, t, m, &count, 20, &ids, &dropped, &err), PROPANE_ERR_LIMIT, "there is room for 20");
    EXPECT(dropped == 0 && count == 2);
    token_list_deinit(&ids);
    tokenizer_free(t);
}

TEST(models_without_a_format_stop_at_the_next_turn) {
    tokenizer *t;
    infer_chat c;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    EXPECT_OK(infer_chat_open("nowhere", t, NULL, &c, &err));
    EXPECT(c.stop_count == 1);
    EXPECT_TEXT(c.stops[0], "\nUser:");
    EXPECT_FAIL(infer_chat_open("nowhere", t, "nobody", &c, &err), PROPANE_ERR_NOT_FOUND, "nobody");
    tokenizer_free(t);
}

SUITE("infer/converse", T(the_oldest_turns_go_first), T(models_without_a_format_stop_at_the_next_turn))
