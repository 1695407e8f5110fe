/* SPDX-License-Identifier: MIT
 * Answers without a server, from a model that writes the alphabet: after each letter comes the next one, after 'z' and
 * anything else an 'a'. Every text, number of tokens and refusal is therefore known.
 */
#include "apps/serve/engine.h"

#include <math.h>

#include "core/base/memory.h"
#include "support/small_model.h"
#include "support/test.h"

enum { WIDTH = 256, CONTEXT = 64 };

static propane_error err;
static model_weights *w;
static propane_device *device;
static infer *decoder;
static tokenizer *bytes;
static infer_chat chat;
static serve_engine e;

/* `sure` is the logit of the next letter; those of others are 0. */
static void set_up(double sure, int sequences, int64_t chunk) {
    static const small_model sizes = {WIDTH, 8, 1, 1, 1, 8, .vocabulary = WIDTH, .positions = CONTEXT};
    model_config c = small_model_config(&sizes);
    c.tie_word_embeddings = false;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 3, 0.1);
    static const struct {
        model_part part;
        int layer;
        const char *name;
    } zeros[] = {{MODEL_ATTN, 0, "o_proj"},
                 {MODEL_FFN, 0, "down_proj"},
                 {MODEL_EMBED, -1, "embed_tokens"},
                 {MODEL_HEAD, -1, "lm_head"}};
    float *data[4];
    for (int i = 0; i < 4; i++) {
        const model_tensor *t = model_weights_param(w, zeros[i].part, zeros[i].layer, zeros[i].name);
        data[i] = model_weights_data(w, t);
        memset(data[i], 0, (size_t)t->count * sizeof(float));
    }
    for (int id = 0; id < WIDTH; id++) {
        const int next = id >= 'a' && id < 'z' ? id + 1 : 'a';
        data[2][id * WIDTH + id] = 1;
        data[3][next * WIDTH + id] = (float)(sure / sqrt(WIDTH)); /* the norm makes the 1 a 16 */
    }
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    EXPECT_OK(infer_create(device, w, &(infer_options){.dtype = MIL_fp32, .sequences = sequences, .chunk = chunk},
                           &decoder, &err));
    EXPECT_OK(tokenizer_create_bytes(&bytes, &err));
    EXPECT_OK(infer_chat_open("nowhere", bytes, "plain", &chat, &err));
    e = (serve_engine){.decoder = decoder, .tokenizer = bytes, .chat = &chat, .name = "abc", .next_seed = 1};
}

static void tear_down(void) {
    for (int i = 0; i < infer_sequences(decoder); i++) EXPECT_MSG(!e.busy[i], "sequence %d is busy", i);
    infer_chat_close(&chat);
    infer_free(decoder);
    propane_device_close(device);
    tokenizer_free(bytes);
    model_weights_free(w);
}

/* ---- an outlet that keeps everything ------------------------------------------------------------------------------ */

typedef struct kept {
    serve_request request;
    serve_answer *answer;
    text out;
    int http, begun, writes, used_times;
    bool stream, unwanted;
    int gone_after; /* writes; 0: never */
    serve_usage used;
} kept;

static void kept_begin(void *context, int http, bool stream) {
    kept *k = context;
    k->http = http, k->stream = stream, k->begun++;
}

static bool kept_write(void *context, const char *data, size_t length) {
    kept *k = context;
    EXPECT(k->begun == 1);
    text_append_n(&k->out, data, length);
    k->writes++;
    return !k->gone_after || k->writes < k->gone_after;
}

static bool kept_wanted(void *context) { return !((const kept *)context)->unwanted; }

static void kept_used(void *context, const serve_usage *used) {
    kept *k = context;
    k->used = *used, k->used_times++;
}

static void begin(kept *k, serve_kind kind, const char *body) {
    serve_problem p;
    const serve_outlet out = {k, kept_begin, kept_write, kept_wanted, kept_used};
    EXPECT_MSG(serve_request_parse(body, strlen(body), kind, &k->request, &p), "%s: %s", body, p.message);
    k->answer = serve_begin(&e, &k->request, &out);
    EXPECT(k->answer);
}

static void finish(kept *k) {
    for (int i = 0; !serve_is_done(k->answer); i++) {
        EXPECT(i < 5000);
        serve_advance(&e, &k->answer, 1);
    }
    EXPECT(k->begun == 1 && k->used_times == 1);
    text_append(&k->out, "");
    serve_free(k->answer);
    serve_request_deinit(&k->request);
}

/* Returns the answer's object, or the events of a stream as a list without the last one, [DONE]. */
static json_t *objects_of(const kept *k) {
    json_t *o = NULL;
    if (!k->stream) {
        EXPECT(o = json_loadb(k->out.data, k->out.length, JSON_ALLOW_NUL, NULL));
        return o;
    }
    json_t *list = json_array();
    EXPECT(k->out.length > 14 && strcmp(k->out.data + k->out.length - 14, "data: [DONE]\n\n") == 0);
    for (const char *at = k->out.data; strncmp(at, "data: {", 7) == 0; at = strstr(at, "\n\n") + 2) {
        EXPECT_OK(json_parse(at + 6, (size_t)(strstr(at, "\n\n") - at - 6), "event", &o, &err));
        json_add(list, o);
    }
    return list;
}

static json_t *answer(serve_kind kind, const char *body, serve_usage *used) {
    kept k = {0};
    begin(&k, kind, body);
    finish(&k);
    EXPECT_MSG(k.http == 200, "%s -> %s", body, k.out.data);
    EXPECT(k.stream == (strstr(body, "\"stream\":true") != NULL));
    json_t *o = objects_of(&k);
    if (used) *used = k.used;
    text_deinit(&k.out);
    return o;
}

static const json_t *choice_of(const json_t *o, size_t i) { return json_array_get(json_object_get(o, "choices"), i); }

static const char *word(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static void expect_choice(const json_t *o, size_t i, const char *want, const char *end) {
    const json_t *c = choice_of(o, i), *message = json_object_get(c, "message");
    EXPECT_TEXT(message ? word(message, "content") : word(c, "text"), want);
    EXPECT_TEXT(word(c, "finish_reason"), end);
    EXPECT(json_integer_value(json_object_get(c, "index")) == (json_int_t)i);
}

static void refused(serve_kind kind, const char *body, int http, const char *param, const char *part) {
    kept k = {0};
    begin(&k, kind, body);
    finish(&k);
    EXPECT_MSG(k.http == http && strstr(k.out.data, part), "%s -> %d %s", body, k.http, k.out.data);
    json_t *o = NULL;
    EXPECT_OK(json_parse(k.out.data, k.out.length, "answer", &o, &err));
    const char *named = word(json_object_get(o, "error"), "param");
    EXPECT_TEXT(named ? named : "", param);
    json_decref(o);
    text_deinit(&k.out);
}

#define ASK(prompt, more) "{\"prompt\":" prompt ",\"temperature\":0" more "}"
#define CHAT(more)        "{\"messages\":[{\"role\":\"user\",\"content\":\"x!\"}],\"temperature\":0" more "}"

/* ---- texts and their ends ----------------------------------------------------------------------------------------- */

TEST(the_alphabet_is_written) {
    static const struct {
        const char *body, *text, *end;
        int64_t prompt, made;
    } cases[] = {{ASK("\"a\"", ",\"max_tokens\":5"), "bcdef", "length", 1, 5},
                 {ASK("\"a\"", ",\"max_tokens\":1"), "b", "length", 1, 1},
                 {ASK("\"a\"", ",\"max_tokens\":0"), "", "length", 1, 0},
                 {ASK("\"xy\"", ""), "zabcdefghijklmno", "length", 2, 16},
                 {ASK("[97,98]", ",\"max_tokens\":2"), "cd", "length", 2, 2},
                 {ASK("\"a\"", ",\"stop\":\"f\""), "bcde", "stop", 1, 5},
                 {ASK("\"a\"", ",\"stop\":[\"zz\",\"ef\",\"gh\"]"), "bcd", "stop", 1, 5},
                 {ASK("\"a\"", ",\"max_tokens\":4,\"stop\":[\"fg\"]"), "bcde", "length", 1, 4},
                 {ASK("\"a\"", ",\"max_tokens\":5,\"stop\":[\"fg\"]"), "bcdef", "length", 1, 5},
                 {ASK("\"ab\"", ",\"max_tokens\":3,\"echo\":true"), "abcde", "length", 2, 3},
                 {ASK("[[97,98]]", ",\"max_tokens\":3,\"echo\":true"), "abcde", "length", 2, 3},
                 {ASK("\"ab\"", ",\"max_tokens\":0,\"echo\":true"), "ab", "length", 2, 0}};
    set_up(50, 1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        serve_usage used;
        json_t *o = answer(SERVE_COMPLETION, cases[i].body, &used);
        expect_choice(o, 0, cases[i].text, cases[i].end);
        EXPECT_MSG(used.prompt == cases[i].prompt && used.completion == cases[i].made, "%s: %d + %d", cases[i].body,
                   (int)used.prompt, (int)used.completion);
        EXPECT(strncmp(word(o, "id"), "cmpl-", 5) == 0 && strcmp(word(o, "model"), "abc") == 0);
        json_decref(o);
    }
    tear_down();
}

/* A prompt may fill the context to its last place; then one id more is drawn, but not read. */
TEST(a_prompt_may_fill_the_context) {
    set_up(50, 1, 0);
    char body[200], letters[CONTEXT + 2];
    for (int n = CONTEXT - 2; n <= CONTEXT + 1; n++) {
        memset(letters, 'b', (size_t)n), letters[n] = 0;
        snprintf(body, sizeof body, ASK("\"%s\"", ",\"max_tokens\":9"), letters);
        if (n > CONTEXT) {
            refused(SERVE_COMPLETION, body, 400, "prompt",
                    "the prompt has 65 tokens, but the model's context has room for 64");
            continue;
        }
        json_t *o = answer(SERVE_COMPLETION, body, NULL);
        EXPECT_TEXT(word(choice_of(o, 0), "finish_reason"), "length");
        EXPECT_MSG(strncmp("cde", word(choice_of(o, 0), "text"), (size_t)(CONTEXT - n + 1)) == 0, "%d: %s", n,
                   word(choice_of(o, 0), "text"));
        EXPECT(strlen(word(choice_of(o, 0), "text")) == (size_t)(CONTEXT - n + 1));
        json_decref(o);
    }
    tear_down();
}

/* A chat ends with the template's ids and strings, too; a completion does not. */
TEST(a_chat_ends_as_its_template_says) {
    set_up(50, 1, 0);
    chat.ends[0] = 'f', chat.end_count = 1;
    json_t *o = answer(SERVE_CHAT, CHAT(""), NULL);
    expect_choice(o, 0, "abcde", "stop");
    EXPECT(strncmp(word(o, "id"), "chatcmpl-", 9) == 0);
    json_decref(o);
    chat.stops[0] = "de", chat.stop_count = 1;
    o = answer(SERVE_CHAT, CHAT(""), NULL);
    expect_choice(o, 0, "abc", "stop");
    json_decref(o);
    o = answer(SERVE_CHAT, CHAT(",\"stop\":\"c\""), NULL); /* the request's strings, then the template's */
    expect_choice(o, 0, "ab", "stop");
    json_decref(o);
    o = answer(SERVE_CHAT, CHAT(",\"stop\":\"x\""), NULL);
    expect_choice(o, 0, "abc", "stop");
    json_decref(o);
    o = answer(SERVE_COMPLETION, ASK("\"a\"", ",\"max_tokens\":9"), NULL);
    expect_choice(o, 0, "bcdefghij", "length");
    json_decref(o);
    chat.end_count = chat.stop_count = 0;
    o = answer(SERVE_RESPONSE, "{\"input\":\"x!\",\"temperature\":0,\"max_output_tokens\":3}", NULL);
    EXPECT(strncmp(word(o, "id"), "resp-", 5) == 0);
    json_decref(o);
    tear_down();
}

/* ---- choices ------------------------------------------------------------------------------------------------------- */

TEST(every_prompt_has_its_choices) {
    static const char *const want[] = {"bc", "bc", "de", "de", "ab", "ab"};
    for (int stream = 0; stream < 2; stream++) {
        set_up(50, 2, 0);
        serve_usage used;
        json_t *o = answer(SERVE_COMPLETION,
                           stream ? ASK("[\"a\",\"c\",\"z\"]", ",\"max_tokens\":2,\"n\":2,\"stream\":true")
                                  : ASK("[\"a\",\"c\",\"z\"]", ",\"max_tokens\":2,\"n\":2"),
                           &used);
        EXPECT_MSG(used.prompt == 3 && used.completion == 12, "%d + %d", (int)used.prompt, (int)used.completion);
        for (size_t i = 0; !stream && i < 6; i++) expect_choice(o, i, want[i], "length");
        char parts[6][10] = {{0}};
        const json_t *event;
        size_t at;
        json_array_foreach(stream ? o : NULL, at, event) {
            const json_t *c = choice_of(event, 0);
            const int index = (int)json_integer_value(json_object_get(c, "index"));
            EXPECT(index >= 0 && index < 6 && strlen(parts[index]) < 5);
            EXPECT(!word(c, "finish_reason") == (strlen(word(c, "text")) == 1));
            strcat(parts[index], word(c, "text"));
        }
        for (int i = 0; stream && i < 6; i++) EXPECT_TEXT(parts[i], want[i]);
        json_decref(o);
        tear_down();
    }
}

static json_t *drawn_text(const char *body, size_t choice) {
    json_t *o = answer(SERVE_COMPLETION, body, NULL);
    json_t *t = json_incref(json_object_get(choice_of(o, choice), "text"));
    json_decref(o);
    return t;
}

/* Choice k of a seed equals a single request with the seed plus k. Requests without a seed differ. */
TEST(choices_follow_the_seed) {
    char body[200];
    json_t *drawn[8];
    set_up(3, 2, 0);
    for (int i = 0; i < 8; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"seed\":%d}", 7 + i);
        drawn[i] = drawn_text(i < 4 ? "{\"prompt\":\"a\",\"seed\":7,\"n\":4}" : "{\"prompt\":\"a\"}",
                              (size_t)(i % 4) * (i < 4));
        json_t *single = drawn_text(body, 0);
        EXPECT_MSG(json_equal(drawn[i], single) == (i < 4), "draw %d", i);
        for (int k = 0; k < i; k++) EXPECT_MSG(!json_equal(drawn[i], drawn[k]), "draws %d and %d", i, k);
        json_decref(single);
    }
    for (int i = 0; i < 8; i++) json_decref(drawn[i]);
    tear_down();
}

/* ---- streams ------------------------------------------------------------------------------------------------------- */

/* One event for each token, with its log-probability if they are wanted, then the end, and the usage if it is. */
TEST(a_stream_has_an_event_for_each_token) {
    set_up(50, 1, 0);
    for (int probs = -1; probs < 3; probs++)
        for (int usage = 0; usage < 2; usage++)
            for (int echo = 0; echo < 2; echo++) {
                char body[300], want[10] = "";
                snprintf(body, sizeof body,
                         ASK("\"xy\"", ",\"max_tokens\":3,\"stream\":true%s,\"stream_options\":{\"include_usage\":%s},"
                                       "\"echo\":%s"),
                         probs < 0    ? ""
                         : probs == 0 ? ",\"logprobs\":0"
                         : probs == 1 ? ",\"logprobs\":1"
                                      : ",\"logprobs\":20",
                         usage ? "true" : "false", echo ? "true" : "false");
                json_t *list = answer(SERVE_COMPLETION, body, NULL);
                const size_t events = 3 + 1 + (size_t)usage + (size_t)echo;
                EXPECT_MSG(json_array_size(list) == events, "%s: %zu events", body, json_array_size(list));
                int tokens = 0;
                for (size_t i = 0; i < events - (size_t)usage; i++) {
                    const json_t *event = json_array_get(list, i), *c = choice_of(event, 0);
                    const json_t *p = json_object_get(c, "logprobs"), *offsets = json_object_get(p, "text_offset");
                    for (size_t k = 0; k < json_array_size(offsets); k++, tokens++)
                        EXPECT_MSG(json_integer_value(json_array_get(offsets, k)) == tokens, "%s: token %d at %d", body,
                                   tokens, (int)json_integer_value(json_array_get(offsets, k)));
                    EXPECT(!word(c, "finish_reason") == (i + 1 < events - (size_t)usage));
                    strcat(want, word(c, "text"));
                }
                EXPECT_TEXT(want, echo ? "xyzab" : "zab");
                EXPECT_MSG(tokens == (probs >= 0 ? 3 + 2 * echo : 0), "%s: %d log-probabilities", body, tokens);
                const json_t *last = json_object_get(json_array_get(list, events - 1), "usage");
                EXPECT(json_is_object(last) == usage);
                EXPECT(!usage || json_integer_value(json_object_get(last, "total_tokens")) == 5);
                json_decref(list);
            }
    tear_down();
}

/* Every token that was drawn has a log-probability, but for the one that ends the text: with a stop string that takes
 * back text, with one that never comes, and with an id that ends it, in one piece and in a stream. */
TEST(every_token_has_a_log_probability) {
    static const struct {
        serve_kind kind;
        const char *more;
        int64_t tokens;
    } cases[] = {{SERVE_COMPLETION, ",\"logprobs\":0", 16},
                 {SERVE_COMPLETION, ",\"logprobs\":0,\"stop\":\"fgh\"", 7},
                 {SERVE_COMPLETION, ",\"logprobs\":3,\"stop\":\"gx\",\"max_tokens\":6", 6},
                 {SERVE_CHAT, ",\"logprobs\":true,\"max_tokens\":4", 4},
                 {SERVE_CHAT, ",\"logprobs\":true", 9},
                 {SERVE_CHAT, ",\"logprobs\":true,\"stop\":\"cd\"", 4}};
    set_up(50, 1, 0);
    chat.ends[0] = 'j', chat.end_count = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int stream = 0; stream < 2; stream++) {
            const bool is_chat = cases[i].kind == SERVE_CHAT;
            char body[300];
            snprintf(body, sizeof body, "{%s,\"temperature\":0%s%s}",
                     is_chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"x!\"}]" : "\"prompt\":\"a\"",
                     cases[i].more, stream ? ",\"stream\":true" : "");
            json_t *o = answer(cases[i].kind, body, NULL), *list = stream ? o : json_pack("[o]", o);
            const json_t *event;
            size_t at, tokens = 0;
            json_array_foreach(list, at, event) {
                const json_t *p = json_object_get(choice_of(event, 0), "logprobs");
                tokens += json_array_size(json_object_get(p, is_chat ? "content" : "tokens"));
            }
            EXPECT_MSG((int64_t)tokens == cases[i].tokens, "%s: %zu", body, tokens);
            json_decref(list);
        }
    tear_down();
}

/* A chat's stream begins with the role, once for each choice. */
TEST(a_stream_of_a_chat_begins_with_the_role) {
    set_up(50, 1, 0);
    json_t *list = answer(SERVE_CHAT, CHAT(",\"max_tokens\":2,\"n\":2,\"stream\":true"), NULL);
    EXPECT_MSG(json_array_size(list) == 8, "%zu events", json_array_size(list));
    for (size_t i = 0; i < 8; i++) {
        const json_t *c = choice_of(json_array_get(list, i), 0), *delta = json_object_get(c, "delta");
        EXPECT(json_integer_value(json_object_get(c, "index")) == (json_int_t)(i / 4));
        EXPECT((word(delta, "role") != NULL) == (i % 4 == 0) && (word(c, "finish_reason") != NULL) == (i % 4 == 3));
        if (i % 4 == 1) EXPECT_TEXT(word(delta, "content"), "a");
        if (i % 4 == 2) EXPECT_TEXT(word(delta, "content"), "b");
    }
    json_decref(list);
    tear_down();
}

/* ---- clients that leave -------------------------------------------------------------------------------------------- */

/* No more tokens are drawn for a client that has left, and those that were made are reported. */
TEST(an_answer_ends_when_nobody_wants_it) {
    set_up(50, 1, 8);
    for (int how = 0; how < 3; how++) {
        kept k = {.gone_after = how == 0 ? 3 : 0};
        begin(&k, SERVE_COMPLETION,
              how == 2 ? ASK("\"abcdefghijklmnopqrstuvwxyz\"", "") : ASK("\"a\"", ",\"n\":5,\"stream\":true"));
        for (int i = 0; i < (how == 0 ? 20 : 2) && !serve_is_done(k.answer); i++) serve_advance(&e, &k.answer, 1);
        EXPECT(how == 0 || !serve_is_done(k.answer));
        k.unwanted = how > 0;
        if (how > 0) serve_advance(&e, &k.answer, 1);
        EXPECT_MSG(serve_is_done(k.answer), "case %d", how);
        EXPECT(k.used_times == 1 && k.used.prompt == (how == 2 ? 26 : 1));
        EXPECT_MSG(k.used.completion == (how == 0 ? 3 : how == 1 ? 2 : 0), "case %d: %d", how, (int)k.used.completion);
        text_append(&k.out, "");
        EXPECT(how > 1 || strstr(k.out.data, "the server is shutting down"));
        EXPECT(!strstr(k.out.data, "[DONE]") && k.http == (how == 2 ? 503 : 200) && !e.busy[0]);
        serve_free(k.answer);
        serve_request_deinit(&k.request);
        text_deinit(&k.out);
    }
    tear_down();
}

/* An answer that is freed before its end leaves its sequence to others. */
TEST(a_sequence_is_free_again) {
    set_up(50, 2, 0);
    kept a = {0}, b = {0}, c = {0};
    begin(&a, SERVE_COMPLETION, ASK("\"a\"", ""));
    begin(&b, SERVE_COMPLETION, ASK("\"a\"", ""));
    EXPECT(e.busy[0] && e.busy[1]);
    begin(&c, SERVE_COMPLETION, ASK("\"a\"", ""));
    EXPECT(serve_is_done(c.answer) && c.http == 500);
    text_append(&c.out, "");
    EXPECT(strstr(c.out.data, "no more texts can be generated at once"));
    kept *all[] = {&a, &b, &c};
    for (int i = 0; i < 3; i++) {
        serve_free(all[i]->answer);
        serve_request_deinit(&all[i]->request);
        text_deinit(&all[i]->out);
    }
    tear_down();
}

/* ---- what a sequence still holds ----------------------------------------------------------------------------------- */

/* The next request is read into the free sequence that holds most of it, and the answer reports how many ids were
 * reused. */
TEST(prompts_are_reused) {
    static const char *const first[] = {ASK("\"qrstxxxx\"", ",\"max_tokens\":50"),
                                        ASK("\"abcdef\"", ",\"max_tokens\":1"), ASK("\"qrstuv\"", ",\"max_tokens\":1")};
    static const struct {
        const char *body;
        int64_t reused; /* the last id is read in any case */
    } cases[] = {{ASK("\"abcdxx\"", ",\"max_tokens\":1"), 4},
                 {ASK("\"qrstxxxx\"", ",\"max_tokens\":1"), 4},
                 {ASK("\"qrstxxxx\"", ",\"max_tokens\":1"), 7},
                 {ASK("\"abcdxx\"", ",\"n\":3,\"max_tokens\":1"), 5},
                 {ASK("\"cd\"", ",\"n\":2,\"max_tokens\":1"), 0}};
    set_up(50, 3, 0);
    kept k[3] = {{.begun = 0}};
    for (int i = 0; i < 3; i++) begin(&k[i], SERVE_COMPLETION, first[i]);
    for (int i = 1; i < 3; i++) finish(&k[i]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) { /* the first of the three is still written */
        serve_usage used;
        json_decref(answer(SERVE_COMPLETION, cases[i].body, &used));
        EXPECT_MSG(used.reused == cases[i].reused, "case %zu: %d", i, (int)used.reused);
    }
    finish(&k[0]);
    for (int i = 0; i < 3; i++) text_deinit(&k[i].out);
    tear_down();
}

/* A request that shares only its first ids with a held text takes the sequence unused for the longest time. */
TEST(a_text_is_kept_for_its_next_request) {
    static const struct {
        const char *body;
        int64_t reused;
    } cases[] = {{ASK("\"abcdefghijklmnop\"", ",\"max_tokens\":1"), 0},
                 {ASK("\"zyxwvutsrqponmlk\"", ",\"max_tokens\":1"), 0},
                 {ASK("\"zyxwvutsrqponmlkj\"", ",\"max_tokens\":1"), 16},
                 {ASK("\"z0123456789012345\"", ",\"max_tokens\":1"), 0},
                 {ASK("\"zyxwvutsrqponmlkj\"", ",\"max_tokens\":1"), 16},
                 {ASK("\"z0123456789012345\"", ",\"max_tokens\":1"), 16}};
    set_up(50, 2, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        serve_usage used;
        json_decref(answer(SERVE_COMPLETION, cases[i].body, &used));
        EXPECT_MSG(used.reused == cases[i].reused, "case %zu: %d", i, (int)used.reused);
    }
    tear_down();
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

TEST(what_the_model_cannot_read_is_refused) {
    set_up(50, 1, 0);
    refused(SERVE_COMPLETION, ASK("\"\"", ""), 400, "prompt", "the prompt is empty");
    refused(SERVE_COMPLETION, ASK("[97,256]", ""), 400, "prompt",
            "token id number 2 is not in the model's vocabulary of 256");
    refused(SERVE_COMPLETION, ASK("[-1]", ""), 400, "prompt", "token id number 1 is not");
    json_decref(answer(SERVE_COMPLETION, ASK("[0]", ""), NULL));
    json_decref(answer(SERVE_COMPLETION, ASK("[255]", ""), NULL));
    refused(SERVE_COMPLETION, ASK("\"a\"", ",\"model\":\"abd\""), 404, "model", "the model 'abd' does not exist here");
    json_decref(answer(SERVE_COMPLETION, ASK("\"a\"", ",\"model\":\"abc\""), NULL));
    refused(SERVE_CHAT, CHAT(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"), 400, "tools",
            "does not use <tool_call>");
    e.chat = NULL;
    refused(SERVE_CHAT, CHAT(""), 400, "messages", "/v1/completions works without it");
    json_decref(answer(SERVE_COMPLETION, ASK("\"a\"", ""), NULL));
    e.chat = &chat;
    /* in a stream, the second prompt's error is its last event */
    kept k = {0};
    begin(&k, SERVE_COMPLETION, ASK("[\"a\",\"\"]", ",\"max_tokens\":1,\"stream\":true"));
    finish(&k);
    EXPECT(k.http == 200 && strstr(k.out.data, "\"finish_reason\":\"length\"") && !strstr(k.out.data, "[DONE]"));
    EXPECT(strstr(k.out.data, "data: {\"error\":{\"message\":\"the prompt is empty"));
    text_deinit(&k.out);
    refused(SERVE_COMPLETION, ASK("[\"a\",\"\"]", ",\"max_tokens\":1"), 400, "prompt", "the prompt is empty");
    tear_down();
}

TEST(scores_that_are_no_numbers_are_an_error_of_the_server) {
    set_up(NAN, 1, 0);
    refused(SERVE_COMPLETION, ASK("\"a\"", ""), 500, "", "the model's scores are NaN or infinite");
    tear_down();
}

/* Whichever request for memory fails, the answer is whole or an error of the server, and no memory leaks. */
TEST(without_memory_there_is_an_error_of_the_server) {
    static const char *const bodies[] = {ASK("[\"ab\",\"c\"]", ",\"max_tokens\":3,\"logprobs\":1,\"echo\":true"),
                                         ASK("\"ab\"", ",\"max_tokens\":3,\"stream\":true"), "{\"input\":\"ab\"}"};
    int failed = 0, whole = 0;
    set_up(50, 1, 0);
    for (int i = 0; i < 3; i++)
        for (int n = 1; n < 60; n++) {
            kept k = {0};
            serve_problem p;
            const serve_outlet out = {&k, kept_begin, kept_write, kept_wanted, kept_used};
            const serve_kind kind = i == 2 ? SERVE_EMBEDDING : SERVE_COMPLETION;
            EXPECT(serve_request_parse(bodies[i], strlen(bodies[i]), kind, &k.request, &p));
            mem_fail_at(n);
            k.answer = serve_begin(&e, &k.request, &out);
            for (int a = 0; k.answer && !serve_is_done(k.answer) && a < 100; a++) serve_advance(&e, &k.answer, 1);
            mem_fail_at(0);
            const char *said = k.out.data && !k.out.failed ? k.out.data : ""; /* the outlet may have failed, too */
            EXPECT_MSG(k.begun == 1 && (k.http == 200 || k.http == 500), "request %d, %d: status %d, %s", i, n, k.http,
                       said);
            const bool wrong = strstr(said, "\"server_error\"") != NULL;
            EXPECT_MSG(k.http == 200 || !*said || wrong, "request %d, %d: %s", i, n, said);
            failed += k.http == 500, whole += k.http == 200 && *said && !wrong;
            serve_free(k.answer);
            serve_request_deinit(&k.request);
            text_deinit(&k.out);
            EXPECT(!e.busy[0]);
        }
    EXPECT_MSG(failed > 5 && whole > 20, "%d failed, %d whole", failed, whole);
    tear_down();
}

/* ---- sizes, before a request waits --------------------------------------------------------------------------------- */

static bool fits(const serve_request *r, const char *param, const char *code) {
    serve_problem p = {0};
    const bool good = serve_check_sizes(&e, r, &p);
    EXPECT(good ? p.http == 0 : p.http == 400 && strcmp(p.param, param) == 0);
    EXPECT(good || (code ? p.code && strcmp(p.code, code) == 0 : !p.code));
    return good;
}

TEST(sizes_are_checked_at_their_edges) {
    static char longer[2 * CONTEXT * 5 + 20];
    set_up(50, 1, 0);
    static const char long_text[] = "context_length_exceeded";
    for (int64_t d = WIDTH - 1; d <= WIDTH + 1; d++) {
        const serve_request r = {.embedding = true, .dimensions = d};
        EXPECT(fits(&r, "dimensions", NULL) == (d == WIDTH));
    }
    for (int64_t n = CONTEXT - 1; n <= CONTEXT + 1; n++) {
        serve_prompt prompts[] = {{.count = 1}, {.count = n}};
        const serve_request r = {.prompts = prompts, .prompt_count = 2};
        EXPECT(fits(&r, "prompt", long_text) == (n <= CONTEXT));
    }
    memset(longer, 'x', sizeof longer - 1);
    for (size_t piece = 0; piece < 6; piece++) { /* twice as many bytes as the context can hold, rounded up */
        const size_t most = piece ? (2 * CONTEXT + 2) * piece - 1 : sizeof longer - 1;
        e.longest_piece = piece;
        for (size_t n = most - 1; n <= most + 1 && n < sizeof longer; n++) {
            serve_prompt prompts[] = {{.text = longer, .count = (int64_t)n}};
            const serve_request r = {.prompts = prompts, .prompt_count = 1, .embedding = true};
            EXPECT_MSG(fits(&r, "input", long_text) == (!piece || n <= most), "pieces of %zu, %zu bytes", piece, n);
        }
    }
    chat_message messages[CONTEXT + 1];
    for (int n = CONTEXT - 1; n <= CONTEXT + 1; n++) {
        memset(messages, 0, sizeof messages); /* without content, as those with calls of tools */
        const serve_request r = {.chat = true, .messages = messages, .message_count = n};
        EXPECT(fits(&r, "messages", long_text) == (n <= CONTEXT));
    }
    e.longest_piece = 1;
    for (size_t n = 2 * CONTEXT; n <= 2 * CONTEXT + 2; n++) { /* all messages together */
        char half[2][CONTEXT + 3] = {{0}};
        memset(half[0], 'x', n / 2), memset(half[1], 'x', n - n / 2);
        for (int i = 0; i < 2; i++) messages[i].content = half[i];
        const serve_request r = {.chat = true, .messages = messages, .message_count = 3};
        EXPECT_MSG(fits(&r, "messages", long_text) == (n < 2 * CONTEXT + 2), "%zu bytes", n);
    }
    tear_down();
}

SUITE("serve/engine", T(the_alphabet_is_written), T(a_prompt_may_fill_the_context), T(a_chat_ends_as_its_template_says),
      T(every_prompt_has_its_choices), T(choices_follow_the_seed), T(a_stream_has_an_event_for_each_token),
      T(every_token_has_a_log_probability), T(a_stream_of_a_chat_begins_with_the_role),
      T(an_answer_ends_when_nobody_wants_it), T(a_sequence_is_free_again), T(prompts_are_reused),
      T(a_text_is_kept_for_its_next_request), T(what_the_model_cannot_read_is_refused),
      T(scores_that_are_no_numbers_are_an_error_of_the_server), T(without_memory_there_is_an_error_of_the_server),
      T(sizes_are_checked_at_their_edges))
