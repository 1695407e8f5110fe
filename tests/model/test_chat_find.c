/* SPDX-License-Identifier: MIT
 * Which format matches a model's template: decided by its output if Jinja2 is available, and by its exact text
 * otherwise. The templates are written for this test.
 */
#include "lm/text/chat_find.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "lm/text/chat_jinja.h"
#include "support/test.h"

static propane_error err;

#define TURNS(before, after)                                                                                           \
    "{% for m in messages %}" before "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" after "{% endfor %}"
#define ASK "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define ASSUMED(text)                                                                                                  \
    TURNS("{% if loop.first and m.role != 'system' %}<|im_start|>system\n" text "<|im_end|>\n{% endif %}", "") ASK
#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3(date)                                                                                                   \
    "{{ bos_token }}{{ '" HEADER(                                                                                      \
        "system") "Cutting Knowledge Date: December 2023\nToday Date: ' }}" date                                       \
                  "{{ '\n\n' }}{% if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% endif "         \
                  "%}<|eot_id|>"                                                                                       \
                  "{% for m in messages %}{% if not loop.first or m.role != 'system' %}" HEADER(                       \
                      "{{ m.role }}") "{{ m.content | trim }}<|eot_id|>{% endif %}{% endfor %}{% if "                  \
                                      "add_generation_prompt %}"                                                       \
                                      "{{ '" HEADER("assistant") "' }}{% endif %}"
#define ZEPHYR(end) /* a newline after a block is dropped, and so is the last one of the template */                   \
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}" end "{{ '\n' }}{% endfor %}"                            \
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"

/* The template that chat.c recognises by its text. */
static const char known[] = TURNS("", "") ASK;

static const struct {
    const char *template, *bos, *eos, *want;
} templates[] = {
    {"{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}" ASK,
     "<s>", "</s>", "chatml"},
    {"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}" ASK, "<s>",
     "</s>", "jinja"},
    {"{{ bos_token }}" TURNS("", "") ASK, "<s>", "</s>", "jinja"},
    {"{{ bos_token }}" TURNS("", "") ASK, "", "</s>", "chatml"},
    {TURNS("", "") ASK "{% if not add_generation_prompt %}{{ eos_token }}{% endif %}", "", "</s>", "jinja"},
    {TURNS("", "") "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}", "", "",
     "jinja"},
    {TURNS("", "") "{% if true %}<|im_start|>assistant\n{% endif %}", "", "", "jinja"},
    {ASSUMED("You are a helpful assistant."), "", "", "qwen2"},
    {ASSUMED("You are a helpful assistant!"), "", "", "jinja"},
    {LLAMA3("26 Jul 2024"), "<b>", "<|eot_id|>", "llama3.1"},
    {LLAMA3("{{ strftime_now('%d %b %Y') }}"), "<b>", "<|eot_id|>", "jinja"},
    {LLAMA3("{% if strftime_now is defined %}{{ strftime_now('') }}26 Jul 2024{% endif %}"), "", "", "jinja"},
    {ZEPHYR("{{ eos_token }}"), "", "</s>", "zephyr"},
    {ZEPHYR("</s>"), "", "</s>", "zephyr"},
    {ZEPHYR("</s>"), "", "<|end|>", "jinja"},
    {ZEPHYR("<|end|>"), "", "</s>", "jinja"},
    {"{{ raise_exception('never') }}", "", "", "jinja"},
};

static propane_status find(const char *template, const char *bos, const char *eos, const char *wanted,
                           chat_template *out) {
    char *dir = test_temp_dir(), path[1000];
    json_t *config = json_object();
    json_put(config, "chat_template", json_words(template));
    json_put(config, "bos_token", json_words(bos));
    json_put(config, "eos_token", json_words(eos));
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    EXPECT_OK(json_write(path, config, 0, &err));
    json_decref(config);
    const propane_status status = chat_template_find(dir, NULL, wanted, out, &err);
    mem_free(dir);
    return status;
}

static bool jinja2_is_there(void) {
    char end[CHAT_JINJA_END];
    return chat_jinja_probe(&(chat_jinja){"a", "", ""}, json_array(), end, NULL, &err) == PROPANE_OK;
}

TEST(a_format_stands_in_where_it_writes_the_same) {
    if (!jinja2_is_there()) SKIP("%s", err.text);
    for (int again = 0; again < 2; again++) /* the second time the result is cached */
        for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
            chat_template c;
            EXPECT_OK(find(templates[i].template, templates[i].bos, templates[i].eos, NULL, &c));
            EXPECT_MSG(strcmp(chat_format_name(c.format), templates[i].want) == 0, "case %zu: got %s, want %s", i,
                       chat_format_name(c.format), templates[i].want);
            chat_template_deinit(&c);
        }
}

/* A conversation whose end is written differently from its middle, and thoughts that only the last answer keeps. */
TEST(answers_are_found_by_their_contents) {
    static const chat_message talk[] = {{"user", " a ", NULL},
                                        {"assistant", "<think>t</think>b ", NULL},
                                        {"user", "c", NULL},
                                        {"assistant", "d", NULL}};
    static const struct {
        const char *template, *first, *last;
    } kinds[] = {{TURNS("", "") ASK "{% if not add_generation_prompt %}{{ eos_token }}{% endif %}",
                  "<think>t</think>b <|im_end|>", "d<|im_end|>"},
                 {"{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and not loop.last %}{{ "
                  "m.content.split('</think>')[-1].strip() }}{% else %}{{ m.content }}{% endif %}<end>{% endfor %}"
                  "{% if add_generation_prompt %}<assistant>{% endif %}",
                  "b<end>", "d<end>"}};
    if (!jinja2_is_there()) SKIP("%s", err.text);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        chat_template c;
        chat_text out = {0};
        EXPECT_OK(find(kinds[i].template, "", "</s>", NULL, &c));
        EXPECT_OK(chat_render(&c, talk, 4, NULL, false, &out, &err));
        EXPECT(out.answer_count == 2);
        for (int k = 0; k < 2 && out.answer_count == 2; k++) {
            const char *want = k ? kinds[i].last : kinds[i].first;
            const size_t n = out.answers[k].end - out.answers[k].begin;
            EXPECT_MSG(n == strlen(want) && memcmp(out.text.data + out.answers[k].begin, want, n) == 0,
                       "kind %zu, answer %d: '%.*s'", i, k, (int)n, out.text.data + out.answers[k].begin);
        }
        chat_text_deinit(&out);
        chat_template_deinit(&c);
    }
}

/* One byte more or less is another template. */
TEST(without_jinja2_a_text_is_known_or_not) {
    static const char other[] = TURNS("", "") ASK " ", *const lines[] = {known, TURNS("", "") ASK "\n"};
    char *python = getenv("PROPANE_PYTHON") ? mem_copy_string(getenv("PROPANE_PYTHON")) : NULL;
    chat_template c;
    setenv("PROPANE_PYTHON", "/nowhere/python3", 1);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(find(lines[i], "<s>", "</s>", NULL, &c));
        EXPECT_TEXT(chat_format_name(c.format), "chatml");
        EXPECT_TEXT(c.eos, "</s>");
        chat_template_deinit(&c);
    }
    EXPECT_FAIL(find(other, "<s>", "</s>", NULL, &c), PROPANE_ERR_UNSUPPORTED, "install Python's jinja2");
    EXPECT_OK(find(other, "<s>", "</s>", "zephyr", &c));
    EXPECT_TEXT(chat_format_name(c.format), "zephyr");
    chat_template_deinit(&c);
    if (python)
        setenv("PROPANE_PYTHON", python, 1);
    else
        unsetenv("PROPANE_PYTHON");
    mem_free(python);
}

/* Words in a template do not matter, even words from other models' templates. */
TEST(words_decide_nothing) {
    static const char *const words[] = {"<|im_start|>", "<|im_start|> reasoning_content", "[INST] <<SYS>>",
                                        "<|start_header_id|> Cutting Knowledge Date", "<|user|> <|assistant|>"};
    chat_template c;
    const bool there = jinja2_is_there();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (there) {
            EXPECT_OK(find(words[i], "<s>", "</s>", NULL, &c));
            EXPECT_TEXT(chat_format_name(c.format), "jinja");
            chat_template_deinit(&c);
        } else {
            EXPECT_FAIL(find(words[i], "<s>", "</s>", NULL, &c), PROPANE_ERR_UNSUPPORTED, "choose a format");
        }
    }
}

SUITE("model/chat_find", T(without_jinja2_a_text_is_known_or_not), T(a_format_stands_in_where_it_writes_the_same),
      T(answers_are_found_by_their_contents), T(words_decide_nothing))
