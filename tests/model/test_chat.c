/* SPDX-License-Identifier: MIT
 * Chat formats: one conversation in each, the positions of its answers, how a model's format is found, and refusals.
 */
#include "lm/text/chat_find.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "support/test.h"

static propane_error err;

static const chat_message talk[] = {{"system", "Be brief."}, {"user", " Hi "}, {"assistant", "Ho."}, {"user", "Bye"}};

static chat_template of(const char *name) {
    chat_template c = {.bos = "<s>", .eos = "</s>"};
    EXPECT_OK(chat_format_find(name, &c.format, &err));
    return c;
}

static void expect_render(const char *name, const chat_message *m, int count, bool ask, const char *want) {
    chat_template c = of(name);
    chat_text out = {0};
    EXPECT_OK(chat_render(&c, m, count, NULL, ask, &out, &err));
    EXPECT_MSG(strcmp(out.text.data, want) == 0, "%s: got\n%s\nwant\n%s", name, out.text.data, want);
    chat_text_deinit(&out);
}

TEST(each_format_writes_a_conversation) {
    expect_render("chatml", talk, 4, true,
                  "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"
                  "Ho.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
    expect_render("llama3", talk, 4, true,
                  "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user"
                  "<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHo.<|eot_id|>"
                  "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant"
                  "<|end_header_id|>\n\n");
    expect_render("llama2", talk, 4, true,
                  "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Ho. </s><s>[INST] Bye [/INST]");
    expect_render("zephyr", talk, 4, true,
                  "<|system|>\nBe brief.</s>\n<|user|>\n Hi </s>\n<|assistant|>\nHo.</s>\n<|user|>\nBye</s>\n"
                  "<|assistant|>\n");
    expect_render("plain", talk, 4, true, "<s>Be brief.\n\nUser: Hi\nAssistant: Ho.\n</s>User: Bye\nAssistant:");
}

TEST(a_system_message_is_assumed_where_the_family_does) {
    const chat_message hi[] = {{"user", "Hi"}};
    expect_render("qwen2", hi, 1, false,
                  "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
    expect_render("qwen3", hi, 1, true, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    expect_render("llama3.1", hi, 1, false,
                  "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
                  "26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
    expect_render("llama2", hi, 1, false, "<s>[INST] Hi [/INST]");
}

TEST(thoughts_stay_with_the_last_answer_only) {
    const chat_message m[] = {{"user", "a"},
                              {"assistant", "<think>\nhm\n</think>\n\nb"},
                              {"user", "c"},
                              {"assistant", "<think>\nso\n</think>\n\nd"}};
    const char *first =
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>"
        "\n";
    char want[400];
    snprintf(want, sizeof want, "%s<|im_start|>assistant\n<think>\nso\n</think>\n\nd<|im_end|>\n", first);
    expect_render("qwen3", m, 4, false, want);
    expect_render("qwen3", m, 3, false, first);
    const chat_message plain[] = {{"user", "a"}, {"assistant", "b"}};
    expect_render("qwen3", plain, 2, false,
                  "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nb<|im_end|>\n");
}

TEST(the_answers_places_are_known) {
    static const struct {
        const char *format, *answer;
    } cases[] = {{"chatml", "Ho.<|im_end|>"},
                 {"llama3", "Ho.<|eot_id|>"},
                 {"llama2", " Ho. </s>"},
                 {"zephyr", "Ho.</s>"},
                 {"plain", " Ho.\n</s>"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        chat_template c = of(cases[i].format);
        chat_text out = {0};
        EXPECT_OK(chat_render(&c, talk, 4, NULL, false, &out, &err));
        EXPECT(out.answer_count == 1);
        size_t n = out.answers[0].end - out.answers[0].begin;
        EXPECT_MSG(n == strlen(cases[i].answer) &&
                       memcmp(out.text.data + out.answers[0].begin, cases[i].answer, n) == 0,
                   "%s: '%.*s'", cases[i].format, (int)n, out.text.data + out.answers[0].begin);
        chat_text_deinit(&out);
    }
    chat_template c = of("chatml");
    EXPECT_TEXT(chat_template_end(&c), "<|im_end|>");
    c = of("llama2");
    EXPECT_TEXT(chat_template_end(&c), "</s>");
}

TEST(wrong_conversations_are_refused) {
    chat_template c = of("llama2");
    chat_text out = {0};
    const chat_message twice[] = {{"user", "a"}, {"user", "b"}}, tool[] = {{"tool", "a"}},
                       late[] = {{"user", "a"}, {"system", "b"}}, only[] = {{"system", "b"}};
    EXPECT_FAIL(chat_render(&c, twice, 2, NULL, false, &out, &err), PROPANE_ERR_INVALID,
                "message 2 is from the user; in the format llama2, user and assistant take turns");
    EXPECT_FAIL(chat_render(&c, tool, 1, NULL, false, &out, &err), PROPANE_ERR_INVALID,
                "message 1 has the role 'tool'");
    EXPECT_FAIL(chat_render(&c, late, 2, NULL, false, &out, &err), PROPANE_ERR_INVALID,
                "message 2 is a system message");
    EXPECT_FAIL(chat_render(&c, only, 1, NULL, false, &out, &err), PROPANE_ERR_INVALID, "no message from a user");
    chat_text_deinit(&out);
    EXPECT_FAIL(chat_format_find("alpaca", &c.format, &err), PROPANE_ERR_NOT_FOUND, "formats are qwen3, qwen2.5");
}

/* Files next to the model, or next to a file of it; of several templates, the one called default. */
TEST(a_models_template_is_found) {
    static const char turns[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}<|im_end|>\\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}";
    char *dir = test_temp_dir(), path[1000], config[1000];
    const char *const forms[] = {
        "{\"eos_token\": \"</s>\"}", "{\"eos_token\": {\"content\": \"</s>\"}, \"chat_template\": \"%s\"}",
        ("{\"eos_token\": \"</s>\", \"chat_template\": [{\"name\": \"rag\", \"template\": \"x\"}, "
         "{\"name\": \"default\", \"template\": \"%s\"}]}")};
    setenv("PROPANE_PYTHON", "/nowhere/python3", 1); /* this one is recognised by its text */
    for (int i = 0; i < 3; i++) {
        chat_template c;
        snprintf(config, sizeof config, forms[i], turns);
        snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
        EXPECT_OK(file_write(path, config, strlen(config), &err));
        for (int beside = 0; beside < 2; beside++) {
            snprintf(path, sizeof path, "%s%s", dir, beside ? "/model.safetensors" : "");
            EXPECT_OK(chat_template_find(path, NULL, NULL, &c, &err));
            EXPECT_TEXT(chat_format_name(c.format), i ? "chatml" : "plain");
            EXPECT_TEXT(c.eos, "</s>");
            chat_template_deinit(&c);
        }
    }
    mem_free(dir);
}

/* There are no files next to a tokenizer in memory: its own data or the requested format count. */
TEST(a_tokenizer_without_a_file_has_a_format) {
    tokenizer *t = NULL;
    chat_template c;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    EXPECT_OK(chat_template_find(NULL, t, NULL, &c, &err));
    EXPECT_TEXT(chat_format_name(c.format), "plain");
    EXPECT_OK(chat_template_find(NULL, t, "zephyr", &c, &err));
    EXPECT_TEXT(chat_format_name(c.format), "zephyr");
    EXPECT_FAIL(chat_template_find(NULL, t, "alpaca", &c, &err), PROPANE_ERR_NOT_FOUND, "formats are qwen3, qwen2.5");
    tokenizer_free(t);
}

TEST(ids_of_the_answers) {
    tokenizer *t = NULL;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    chat_template c = of("chatml");
    chat_text out = {0};
    token_list ids = {0};
    chat_span answers[1];
    EXPECT_OK(chat_render(&c, talk, 4, NULL, false, &out, &err));
    EXPECT_OK(token_list_add(&ids, 7, &err)); /* existing ids stay */
    EXPECT_OK(chat_encode(&c, t, &out, &ids, answers, &err));
    EXPECT(ids.count == out.text.length + 1);
    EXPECT(answers[0].begin == out.answers[0].begin + 1 && answers[0].end == out.answers[0].end + 1);
    token_list_deinit(&ids);
    chat_text_deinit(&out);
    tokenizer_free(t);
}

TEST(messages_are_read_from_json) {
    static const struct {
        const char *json, *message;
    } wrong[] = {
        {"{}", "\"messages\" must be an array"},
        {"[]", "\"messages\" must be an array"},
        {"[{\"content\": \"a\"}]", "message 1 must have a string \"role\""},
        {"[{\"role\": \"user\"}]", "message 1 must have a string \"content\""},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]", "message 1 has a part that is not text"}};
    arena *a = arena_create();
    json_t *value = NULL;
    chat_message *m = NULL;
    int count = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        EXPECT_OK(json_parse(wrong[i].json, strlen(wrong[i].json), "x", &value, &err));
        EXPECT_FAIL(chat_messages_from_json(value, a, &m, &count, &err), PROPANE_ERR_INVALID, wrong[i].message);
        json_decref(value);
    }
    const char *good =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"text\", "
        "\"text\": \"b\"}]}, {\"role\": \"assistant\", \"content\": \"c\"}]";
    EXPECT_OK(json_parse(good, strlen(good), "x", &value, &err));
    EXPECT_OK(chat_messages_from_json(value, a, &m, &count, &err));
    EXPECT(count == 2);
    EXPECT_TEXT(m[0].content, "ab");
    EXPECT_TEXT(m[1].role, "assistant");
    mem_free(m);
    json_decref(value);
    arena_free(a);
}

SUITE("model/chat", T(each_format_writes_a_conversation), T(a_system_message_is_assumed_where_the_family_does),
      T(thoughts_stay_with_the_last_answer_only), T(the_answers_places_are_known), T(wrong_conversations_are_refused),
      T(a_models_template_is_found), T(a_tokenizer_without_a_file_has_a_format), T(ids_of_the_answers),
      T(messages_are_read_from_json))
