/* SPDX-License-Identifier: MIT
 * Chat templates run by Jinja2: their text, the positions of answers, refusals, and the limits of a hostile one.
 */
#include "lm/text/chat_jinja.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "lm/text/chat.h"
#include "support/test.h"

static propane_error err;

static const chat_message talk[] = {{"user", " Hi "}, {"assistant", "H\xc3\xb6."}, {"user", "Bye"}};

static const char turns[] =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
static const char marked[] =
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}!{% endgeneration %}{% else %}"
    "{{ m.content }}{% endif %}{% endfor %}";
static const char hidden[] = "{{ messages | length }}{% for m in messages %}{{ m.content | upper }}{% endfor %}";
static const char refusing[] = "{{ raise_exception('roles must take turns') }}";
static const char escape[] = "{{ ''.__class__.__mro__[1].__subclasses__() }}";
static const char file[] = "{{ open('/etc/passwd').read() }}";
static const char large[] = "{{ 'a' * 5000000000 }}";
static const char endless[] = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";

static chat_template of(const char *jinja) {
    chat_template c = {.bos = "<s>", .eos = "</s>", .jinja = (char *)(uintptr_t)jinja};
    EXPECT_OK(chat_format_find("jinja", &c.format, &err));
    return c;
}

static bool jinja2_is_there(void) {
    char end[CHAT_JINJA_END];
    return chat_jinja_probe(&(chat_jinja){turns, "", ""}, json_array(), end, NULL, &err) == PROPANE_OK;
}
#define NEEDS_JINJA2()                                                                                                 \
    if (!jinja2_is_there()) SKIP("%s", err.text)

TEST(a_conversation_is_written_as_the_template_says) {
    NEEDS_JINJA2();
    chat_template c = of(turns);
    chat_text out = {0};
    EXPECT_OK(chat_render(&c, talk, 3, NULL, true, &out, &err));
    EXPECT_TEXT(out.text.data, "<s><user>Hi<end>\n<assistant>H\xc3\xb6.<end>\n<user>Bye<end>\n<assistant>");
    chat_text_deinit(&out);
}

TEST(answers_are_found_by_comparing_with_shorter_conversations) {
    NEEDS_JINJA2();
    chat_template c = of(turns);
    chat_text out = {0};
    EXPECT_OK(chat_render(&c, talk, 3, NULL, false, &out, &err));
    EXPECT(out.answer_count == 1);
    EXPECT(memcmp(out.text.data + out.answers[0].begin, "H\xc3\xb6.<end>", 9) == 0);
    EXPECT(out.answers[0].end - out.answers[0].begin == 9);
    chat_text_deinit(&out);
}

TEST(marks_of_generation_say_where_answers_stand) {
    NEEDS_JINJA2();
    chat_template c = of(marked);
    chat_text out = {0};
    EXPECT_OK(chat_render(&c, talk, 3, NULL, false, &out, &err));
    EXPECT_TEXT(out.text.data, " Hi H\xc3\xb6.!Bye");
    EXPECT(out.answer_count == 1 && out.answers[0].begin == 4 && out.answers[0].end == 9);
    chat_text_deinit(&out);
}

TEST(an_answers_end_is_reported) {
    NEEDS_JINJA2();
    char end[CHAT_JINJA_END];
    EXPECT_OK(chat_jinja_probe(&(chat_jinja){turns, "<s>", "</s>"}, json_array(), end, NULL, &err));
    EXPECT_TEXT(end, "<end>");
    EXPECT_OK(chat_jinja_probe(&(chat_jinja){refusing, "<s>", "</s>"}, json_array(), end, NULL, &err));
    EXPECT_TEXT(end, "");
}

TEST(what_is_wrong_is_reported) {
    NEEDS_JINJA2();
    char end[CHAT_JINJA_END];
    chat_text out = {0};
    chat_template c = of(hidden);
    EXPECT_FAIL(chat_render(&c, talk, 3, NULL, false, &out, &err), PROPANE_ERR_UNSUPPORTED,
                "the answers cannot be located");
    chat_text_deinit(&out);
    EXPECT_OK(chat_render(&c, talk, 3, NULL, true, &out, &err));
    chat_text_deinit(&out);
    c = of(refusing);
    EXPECT_FAIL(chat_render(&c, talk, 3, NULL, true, &out, &err), PROPANE_ERR_INVALID, "roles must take turns");
    EXPECT_FAIL(chat_jinja_probe(&(chat_jinja){"{% for %}", "", ""}, json_array(), end, NULL, &err),
                PROPANE_ERR_INVALID, "chat template: ");
    chat_text_deinit(&out);
}

TEST(a_strangers_template_reaches_nothing) {
    NEEDS_JINJA2();
    chat_text out = {0};
    const char *const bad[] = {escape, file, large};
    for (int i = 0; i < 3; i++) {
        chat_template c = of(bad[i]);
        EXPECT_FAIL(chat_render(&c, talk, 1, NULL, true, &out, &err), PROPANE_ERR_INVALID, "chat template: ");
        EXPECT(out.text.length == 0);
    }
    chat_template good = of(turns);
    EXPECT_OK(chat_render(&good, talk, 1, NULL, true, &out, &err)); /* and the next one is answered */
    chat_text_deinit(&out);
}

TEST(a_template_without_an_end_is_ended) {
    NEEDS_JINJA2();
    chat_text out = {0};
    chat_template c = of(endless), good = of(turns);
    EXPECT_FAIL(chat_render(&c, talk, 1, NULL, true, &out, &err), PROPANE_ERR_LIMIT, "10 seconds");
    EXPECT_OK(chat_render(&good, talk, 1, NULL, true, &out, &err));
    chat_text_deinit(&out);
}

static const char with_tools[] =
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} {{ c.function.arguments.city }}</tool_call>{% "
    "endfor %};"
    "{% endfor %}";

TEST(tools_and_their_calls_are_the_templates) {
    static const char words[] =
        "[{\"role\":\"user\",\"content\":\"Rain?\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
        "\"1\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\\\"Bern\\\"}\"}}"
        "]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"no\"}]";
    NEEDS_JINJA2();
    chat_template c = of(with_tools), rows = {.bos = "<s>"};
    chat_text out = {0};
    chat_message *m = NULL;
    json_t *list = NULL, *tools = json_pack("[{s:s,s:{s:s}}]", "type", "function", "function", "name", "weather");
    arena *a = arena_create();
    int count = 0;
    EXPECT_OK(json_parse(words, strlen(words), "x", &list, &err));
    EXPECT_OK(chat_messages_from_json(list, a, &m, &count, &err));
    EXPECT_OK(chat_render(&c, m, count, tools, true, &out, &err));
    EXPECT_TEXT(out.text.data, "[weather]user:Rain?;assistant:<tool_call>weather Bern</tool_call>;tool:no;");
    EXPECT(chat_template_calls_tools(&c) && !chat_template_calls_tools(&rows));
    EXPECT_OK(chat_format_find("chatml", &rows.format, &err));
    EXPECT_FAIL(chat_render(&rows, m, count, NULL, true, &out, &err), PROPANE_ERR_UNSUPPORTED,
                "chatml does not support them");
    chat_text_deinit(&out);
    mem_free(m);
    json_decref(list);
    json_decref(tools);
    arena_free(a);
}

/* Returns the text that a template makes from messages in JSON, or the error's sentence if it fails. Release it with
 * mem_free. */
static char *written(const chat_template *c, const char *words) {
    json_t *list = NULL;
    arena *a = arena_create();
    chat_message *m = NULL;
    chat_text out = {0};
    int count = 0;
    EXPECT_OK(json_parse(words, strlen(words), "x", &list, &err));
    EXPECT_OK(chat_messages_from_json(list, a, &m, &count, &err));
    const bool failed = chat_render(c, m, count, NULL, false, &out, &err) != PROPANE_OK;
    char *said = mem_copy_string(failed ? err.text : out.text.data);
    chat_text_deinit(&out);
    mem_free(m);
    json_decref(list);
    arena_free(a);
    return said;
}

#define EXPECT_WRITTEN(c, words, want)                                                                                 \
    do {                                                                                                               \
        char *text_ = written(c, words);                                                                               \
        EXPECT_TEXT(text_, want);                                                                                      \
        mem_free(text_);                                                                                               \
    } while (0)

TEST(thoughts_and_names_reach_the_template) {
    static const char thinks[] = "{% for m in messages %}{{ m.name }}{% if m.reasoning_content %}({{ m.thinking }}){% "
                                 "endif %}{{ m.content }};{% "
                                 "endfor %}";
    NEEDS_JINJA2();
    chat_template c = of(thinks), rows = {.bos = "<s>"}, known = of(thinks);
    EXPECT_WRITTEN(&c,
                   "[{\"role\":\"user\",\"name\":\"Al \",\"content\":\"a\"},"
                   "{\"role\":\"assistant\",\"content\":\"b\",\"reasoning\":\"hm\",\"refusal\":null}]",
                   "Al a;(hm)b;");
    static const char said[] = "[{\"role\":\"user\",\"content\":\"a\"},"
                               "{\"role\":\"assistant\",\"content\":\"b\",\"thinking\":\"hm\"}]";
    EXPECT_WRITTEN(&c, said, "a;(hm)b;");
    EXPECT_OK(chat_format_find("chatml", &known.format, &err)); /* a format that replaces the template */
    EXPECT_WRITTEN(&known, said, "a;(hm)b;");
    EXPECT_OK(chat_format_find("chatml", &rows.format, &err));
    EXPECT_WRITTEN(
        &rows, said,
        "message 2 has a thought under \"thinking\", which needs the model's own chat template; with the format "
        "chatml, put it into the content or leave it out");
}

TEST(a_call_without_content_is_no_word_of_pythons) {
    static const char call[] =
        "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{}]}]";
    NEEDS_JINJA2();
    chat_template prints = of("{% for m in messages %}{{ m.content }};{% endfor %}"),
                  asks = of("{% for m in messages %}{{ 'none' if m.content is none else m.content }};{% endfor %}"),
                  adds = of("{% for m in messages %}{{ m.content + ';' }}{% endfor %}");
    EXPECT_WRITTEN(&prints, call, "a;;");
    EXPECT_WRITTEN(&asks, call, "a;none;");
    EXPECT_WRITTEN(&adds, call, "a;;");
}

TEST(a_template_that_fails_says_what_to_do) {
    static const char hi[] = "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\" b \"}]";
    NEEDS_JINJA2();
    chat_template
        tools = of("{% for t in tools %}{{ t }}{% endfor %}"),
        other = of("{{ functions | length + 'a' }}"),
        edges = of("{% for m in messages %}{{ m.content.lstrip() }}{% if not loop.last %}<end>{% endif %}{% endfor %}"
                   "{{ '' if add_generation_prompt else '!' }}");
    EXPECT_WRITTEN(&tools, hi,
                   "the model's chat template: it is for conversations with tools, and this one has none ('NoneType' "
                   "object is not iterable); choose a format with --chat");
    EXPECT_WRITTEN(&other, hi,
                   "the model's chat template: it fails on this conversation (unsupported operand type(s) for +: 'int' "
                   "and 'str'); choose a format with --chat");
    EXPECT_WRITTEN(&edges, hi, "a<end>b !"); /* the answer's position is found, including its last blank */
}

static void *many(void *argument) {
    chat_template c = of(turns);
    propane_error e;
    for (int i = 0; i < 20; i++) {
        chat_text out = {0};
        if (chat_render(&c, talk, 1 + i % 3, NULL, i % 2, &out, &e)) *(int *)argument = 1;
        chat_text_deinit(&out);
    }
    return NULL;
}

TEST(threads_take_turns) {
    NEEDS_JINJA2();
    pthread_t threads[4];
    int failed[4] = {0};
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&threads[i], NULL, many, &failed[i]) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) EXPECT(!failed[i]);
}

TEST(without_python_it_says_so) {
    char end[CHAT_JINJA_END];
    setenv("PROPANE_PYTHON", "/nowhere/python3", 1);
    EXPECT_FAIL(chat_jinja_probe(&(chat_jinja){turns, "", ""}, json_array(), end, NULL, &err), PROPANE_ERR_UNSUPPORTED,
                "/nowhere/python3 cannot be started");
    setenv("PROPANE_PYTHON", "true", 1);
    EXPECT_FAIL(chat_jinja_probe(&(chat_jinja){turns, "", ""}, json_array(), end, NULL, &err), PROPANE_ERR_UNSUPPORTED,
                "ended without a message");
}

SUITE("model/chat_jinja", T(a_conversation_is_written_as_the_template_says),
      T(answers_are_found_by_comparing_with_shorter_conversations), T(marks_of_generation_say_where_answers_stand),
      T(an_answers_end_is_reported), T(what_is_wrong_is_reported), T(a_strangers_template_reaches_nothing),
      T_LONG(a_template_without_an_end_is_ended), T(tools_and_their_calls_are_the_templates),
      T(thoughts_and_names_reach_the_template), T(a_call_without_content_is_no_word_of_pythons),
      T(a_template_that_fails_says_what_to_do), T(threads_take_turns), T(without_python_it_says_so))
