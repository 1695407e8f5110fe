/* SPDX-License-Identifier: MIT
 * Instruction data: which tokens of a line are targets, how errors in a line are reported with their place, and how
 * examples share windows.
 */
#include "lm/data/token_windows.h"
#include "support/test.h"

static propane_error err;
static tokenizer *bytes;
static chat_template chat;

static propane_status parse(const char *data, train_examples *e) {
    if (!bytes) EXPECT_OK(tokenizer_create_bytes(&bytes, &err));
    EXPECT_OK(chat_format_find("chatml", &chat.format, &err));
    return train_jsonl_parse(data, strlen(data), "d.jsonl", bytes, &chat, e, &err);
}

/* Returns the example's text with the targets in brackets. */
static const char *marked(const train_examples *e, int64_t i) {
    static char out[1000];
    size_t n = 0;
    bool on = false;
    for (int64_t k = e->start[i]; k < e->start[i + 1]; k++) {
        if (e->learn[k] != on) out[n++] = on ? ']' : '[';
        on = e->learn[k];
        out[n++] = (char)e->ids[k];
    }
    if (on) out[n++] = ']';
    out[n] = 0;
    return out;
}

TEST(the_answer_is_the_target) {
    train_examples e;
    EXPECT_OK(
        parse("{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n\n"
              "  {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
              "\"Ho\"}, {\"role\": \"user\", \"content\": \"?\"}, {\"role\": \"assistant\", \"content\": \"!\"}], "
              "\"id\": 7}\r\n"
              "{\"text\": \"abc\"}",
              &e));
    EXPECT(e.count == 3);
    EXPECT_TEXT(marked(&e, 0), "2+2=[4]");
    EXPECT_TEXT(marked(&e, 1),
                "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Ho<|im_end|>]\n<|im_start|>user\n"
                "?<|im_end|>\n<|im_start|>assistant\n[!<|im_end|>]\n");
    EXPECT_TEXT(marked(&e, 2), "a[bc]"); /* nothing predicts the first token */
    EXPECT(e.trained == 1 + 12 + 11 + 2 && e.text_bytes == e.start[3]);
    train_examples_deinit(&e);
}

/* As other programs write them: a byte order mark, Windows line ends, numbers beyond any integer type. */
TEST(what_other_programs_write) {
    train_examples e;
    EXPECT_OK(
        parse("\xef\xbb\xbf{\"text\": \"ab\", \"id\": 12345678901234567890123}\r\n\r\n{\"text\": \"cd\"}\r\n", &e));
    EXPECT(e.count == 2);
    EXPECT_TEXT(marked(&e, 1), "c[d]");
    train_examples_deinit(&e);
}

TEST(a_wrong_line_is_named) {
    static const struct {
        const char *data, *message;
    } cases[] = {
        {"", "d.jsonl: it contains no examples"},
        {"\n \n", "d.jsonl: it contains no examples"},
        {"{\"text\": \"ab\"}\n{\"text\": \"ab\"\n", "d.jsonl:2: column "},
        {"[1]", "d.jsonl:1: the line is not a JSON object"},
        {"{\"text\": \"ab\"}\n\n{}",
         "d.jsonl:3: it has neither \"messages\" nor \"prompt\" and \"completion\" nor \"text\" (nor "
         "\"conversations\", nor \"instruction\" and \"output\"), but nothing"},
        {"{\"prompt\": \"a\"}", "nor \"text\" (nor \"conversations\", nor \"instruction\" and \"output\"), but "
                                "\"prompt\"; rename its keys"},
        {"{\"question\": \"a\", \"answer\": \"b\"}", "but \"question\", \"answer\"; rename"},
        {"[{\"prompt\": \"a\"}]", "give one object per line, without []"},
        {"\xff\xfe{", "d.jsonl:1: not JSON: it is UTF-16"},
        {"{\"completion\": 1, \"prompt\": \"a\"}", "d.jsonl:1: \"completion\" must be a string"},
        {"{\"prompt\": 1, \"completion\": \"a\"}", "d.jsonl:1: \"prompt\" must be a string"},
        {"{\"prompt\": \"a\", \"completion\": \"\"}", "d.jsonl:1: it has nothing to train on: the answer is empty"},
        {"{\"text\": null}", "d.jsonl:1: \"text\" must be a string"},
        {"{\"messages\": 1}", "d.jsonl:1: \"messages\" must be an array"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}",
         "d.jsonl:1: it has nothing to train on: no message is from the assistant"},
        {"{\"messages\": [{\"role\": \"bot\", \"content\": \"Hi\"}]}", "d.jsonl:1: message 1 has the role 'bot'"},
        {"{\"text\": \"a\", \"text\": \"b\"}", "d.jsonl:1: column "},
        {"{\"text\": \"\xff\"}", "d.jsonl:1: column "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        train_examples e;
        EXPECT_FAIL(parse(cases[i].data, &e), PROPANE_ERR_INVALID, cases[i].message);
        EXPECT(!e.ids && !e.start && e.count == 0);
    }
    EXPECT(train_jsonl_is("a/b.jsonl") && !train_jsonl_is("nothing/b.json"));
}

TEST(other_data_have_another_sum) {
    train_examples a, b;
    const char *const lines[] = {"{\"prompt\": \"ab\", \"completion\": \"c\"}",
                                 "{\"prompt\": \"a\", \"completion\": \"bc\"}",
                                 "{\"text\": \"ab\"}\n{\"text\": \"cd\"}", "{\"text\": \"abcd\"}"};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            EXPECT_OK(parse(lines[i], &a));
            EXPECT_OK(parse(lines[k], &b));
            EXPECT((train_examples_sum(&a) == train_examples_sum(&b)) == (i == k));
            train_examples_deinit(&a);
            train_examples_deinit(&b);
        }
}

/* Makes forty examples of 2 to 13 bytes, xaaa.., distinguished by a letter and the length. */
static void forty(train_examples *e) {
    char data[4000] = "";
    size_t n = 0;
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(data + n, sizeof data - n, "{\"prompt\": \"%c\", \"completion\": \"%.*s\"}\n", '0' + i,
                              1 + i % 12, "............");
    EXPECT_OK(parse(data, e));
}

TEST(examples_share_windows) {
    enum { CONTEXT = 16 };
    train_examples e;
    packed_windows p;
    int32_t x[CONTEXT], y[CONTEXT];
    forty(&e);
    for (int packed = 0; packed < 2; packed++) {
        int seen[40] = {0}, trained = 0, begun = 0, dots = 0;
        EXPECT_OK(packed_windows_init(&p, &e, 0, 40, CONTEXT, packed, 5, &err));
        EXPECT(packed ? p.windows < 22 : p.windows == 40); /* 260 positions need at least 17 windows; observed 17 */
        EXPECT(p.cut == 0 && p.empty == 0);
        for (int64_t w = 0; w < p.windows; w++) {
            packed_windows_get(&p, w, x, y);
            for (int i = 0; i < CONTEXT; i++) {
                begun += x[i] >= '0' && x[i] < '0' + 40;
                if (x[i] >= '0' && x[i] < '0' + 40) seen[x[i] - '0']++;
                trained += y[i] == '.';
                EXPECT(y[i] == '.' || y[i] == -1);
                dots += x[i] == '.';
            }
        }
        for (int i = 0; i < 40; i++) EXPECT(seen[i] == 1);
        EXPECT(trained == e.trained && begun == 40 && dots == trained - 40);
        packed_windows_deinit(&p);
    }
    EXPECT_OK(packed_windows_init(&p, &e, 0, 40, 4, true, 5, &err));
    EXPECT(p.cut == 24 + 0 && p.empty == 0); /* completions of 5 to 12: 8 of every 12 lengths */
    packed_windows_deinit(&p);
    train_examples_deinit(&e);
}

TEST(what_is_cut_off_is_not_trained) {
    train_examples e;
    packed_windows p;
    int32_t x[4], y[4];
    EXPECT_OK(parse(
        "{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}\n{\"prompt\": \"xy\", \"completion\": \"zzzzz\"}", &e));
    EXPECT_OK(packed_windows_init(&p, &e, 0, 2, 4, true, 1, &err));
    EXPECT(p.windows == 1 && p.cut == 2 && p.empty == 1);
    packed_windows_get(&p, 0, x, y);
    EXPECT(x[0] == 'x' && y[0] == -1 && y[1] == 'z' && y[3] == 'z');
    packed_windows_deinit(&p);
    train_examples_deinit(&e);
}

TEST(batches_visit_every_window_once_an_epoch) {
    enum { CONTEXT = 16 };
    train_examples e;
    token_windows d;
    int32_t x[CONTEXT], y[CONTEXT], x2[2 * CONTEXT], y2[2 * CONTEXT];
    forty(&e);
    EXPECT_OK(token_windows_init_examples(&d, &e, 256, CONTEXT, true, 0.25, 3, "d.jsonl", &err));
    int64_t windows = d.packs[0].windows;
    EXPECT(windows > 5 && d.packs[1].windows > 1 && token_windows_held_out_windows(&d) == d.packs[1].windows);
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[128] = {0};
        for (int64_t w = 0; w < windows; w++) {
            EXPECT_OK(token_windows_batch(&d, (uint64_t)(epoch * windows + w), 1, x, y, &err));
            for (int i = 0; i < CONTEXT; i++) seen[x[i]]++;
        }
        for (int i = 0; i < 40; i++) EXPECT(seen['0' + i] == (i < 30));
    }
    EXPECT_OK(token_windows_batch(&d, 1, 2, x2, y2, &err));
    EXPECT_OK(token_windows_batch(&d, 2, 1, x, y, &err));
    EXPECT(memcmp(x2 + CONTEXT, x, sizeof x) == 0 && memcmp(y2 + CONTEXT, y, sizeof y) == 0);
    int held[128] = {0};
    for (int64_t w = 0; w < d.packs[1].windows; w++) {
        EXPECT_OK(token_windows_held_out(&d, w, d.packs[1].windows, x, y, &err));
        for (int i = 0; i < CONTEXT; i++) held[x[i]]++;
    }
    for (int i = 0; i < 40; i++) EXPECT(held['0' + i] == (i >= 30));
    token_windows_deinit(&d);
    EXPECT_FAIL(token_windows_init_examples(&d, &e, 70, CONTEXT, true, 0.25, 3, "d.jsonl", &err), PROPANE_ERR_INVALID,
                "d.jsonl: token 70 is outside the model's vocabulary of 70");
    EXPECT_FAIL(token_windows_init_examples(&d, &e, 256, CONTEXT, true, 0.01, 3, "d.jsonl", &err), PROPANE_ERR_INVALID,
                "d.jsonl: of its 40 examples, 0 are held out, and none of these");
    train_examples_deinit(&e);
}

SUITE("train/jsonl", T(the_answer_is_the_target), T(what_other_programs_write), T(a_wrong_line_is_named),
      T(other_data_have_another_sum), T(examples_share_windows), T(what_is_cut_off_is_not_trained),
      T(batches_visit_every_window_once_an_epoch))
