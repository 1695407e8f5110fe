/* SPDX-License-Identifier: MIT
 * Final text from drawn ids: stop strings across ids, characters of several bytes, logprobs, the reason for the end. A
 * model with random weights over bytes writes arbitrary text, which is compared with its own ids.
 */
#include "lm/infer/complete.h"

#include <math.h>

#include "core/base/text.h"
#include "support/small_model.h"
#include "support/test.h"

static propane_error err;

static model_weights *byte_model(void) {
    static const small_model sizes = {32, 32, 1, 2, 2, 16, .vocabulary = 256, .positions = 300};
    return small_model_make(&sizes, 11, 0.3);
}

typedef struct record {
    int32_t ids[400];
    double logprob[400];
    int count, calls, enough;
    text text;
    bool top_is_sorted, chosen_is_in_top;
} record;

/* Returns whether the text consists of complete characters. */
static bool is_utf8(const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 9;
        if (more == 9 || i + more >= n) return false;
        for (size_t k = 1; k <= more; k++)
            if (((unsigned char)s[i + k] & 0xc0) != 0x80) return false;
        i += more + 1;
    }
    return true;
}

static bool on_step(void *context, const infer_step *step) {
    record *r = context;
    EXPECT(is_utf8(step->text, step->length));
    text_append_n(&r->text, step->text, step->length);
    if (step->id >= 0) {
        r->ids[r->count] = step->id;
        r->logprob[r->count++] = step->chosen.logprob;
    }
    for (int i = 1; i < step->top_count; i++)
        if (step->top[i].logprob > step->top[i - 1].logprob) r->top_is_sorted = false;
    if (step->top_count && step->id >= 0 && fabs(step->top[0].logprob - step->chosen.logprob) > 1e-9)
        r->chosen_is_in_top = false;
    return ++r->calls != r->enough;
}

typedef struct bench {
    model_weights *w;
    propane_device *d;
    infer *m;
    tokenizer *t;
} bench;

static bench set_up(void) {
    bench b = {.w = byte_model()};
    infer_options o = {MIL_fp32, 0, 8};
    EXPECT_OK(propane_device_open("cpu", &b.d, &err));
    EXPECT_OK(infer_create(b.d, b.w, &o, &b.m, &err));
    EXPECT_OK(tokenizer_create_bytes(&b.t, &err));
    return b;
}

static void tear_down(bench *b) {
    infer_free(b->m);
    propane_device_close(b->d);
    model_weights_free(b->w);
    tokenizer_free(b->t);
}

static const int32_t prompt[] = {'a', 'b'};

static infer_result complete(bench *b, infer_task task, record *r) {
    infer_result result;
    *r = (record){.top_is_sorted = true, .chosen_is_in_top = true, .enough = r->enough};
    task.prompt = prompt;
    task.prompt_count = 2;
    task.tokenizer = b->t;
    EXPECT_OK(infer_complete(b->m, &task, on_step, r, &result, &err));
    EXPECT(is_utf8(r->text.data ? r->text.data : "", r->text.length));
    return result;
}

TEST(text_is_whole_characters_and_all_of_it) {
    bench b = set_up();
    static record r;
    for (int seed = 0; seed < 5; seed++) {
        infer_result result = complete(
            &b, (infer_task){.count = 200, .logprobs = -1, .sampling = {.temperature = 1, .seed = (uint64_t)seed}}, &r);
        EXPECT(result.finish == INFER_FINISH_LENGTH && result.made == 200 && r.count == 200);
        EXPECT(result.reused == (seed ? 1 : 0)); /* all but the last id of the prompt */
        text want = {0};
        tokenizer_stream s = {.begun = true};
        for (int i = 0; i < 200; i++) tokenizer_decode(b.t, &s, r.ids[i], &want);
        tokenizer_decode_end(&s, &want);
        EXPECT_TEXT(r.text.data, want.data);
        text_deinit(&want);
        text_deinit(&r.text);
    }
    tear_down(&b);
}

/* Uses parts of the text without stop strings as stop strings. */
TEST(stop_strings_end_the_text_in_front_of_them) {
    bench b = set_up();
    static record free_run, r;
    const infer_sampling sampling = {.temperature = 1, .seed = 3};
    complete(&b, (infer_task){.count = 250, .logprobs = -1, .sampling = sampling}, &free_run);
    const char *all = free_run.text.data;
    size_t tried = 0;
    for (size_t at = 0; at + 8 < free_run.text.length; at += 13) {
        for (size_t n = 1; n <= 7; n += 2) {
            if (((unsigned char)all[at] & 0xc0) == 0x80 || ((unsigned char)all[at + n] & 0xc0) == 0x80) continue;
            char stop[8] = {0};
            memcpy(stop, all + at, n);
            if (strlen(stop) != n) continue;
            const char *first = memmem(all, free_run.text.length, stop, n), *const stops[] = {"never there, never",
                                                                                              stop};
            infer_result result = complete(
                &b, (infer_task){.count = 250, .logprobs = -1, .stops = stops, .stop_count = 2, .sampling = sampling},
                &r);
            EXPECT_MSG(result.finish == INFER_FINISH_STOP && r.text.length == (size_t)(first - all) &&
                           (!r.text.length || memcmp(r.text.data, all, r.text.length) == 0),
                       "stop '%s': %zu bytes, want %zu", stop, r.text.length, (size_t)(first - all));
            EXPECT(result.made <= 250 && result.made == r.count);
            text_deinit(&r.text);
            tried++;
        }
    }
    EXPECT(tried > 20);
    text_deinit(&free_run.text);
    tear_down(&b);
}

TEST(a_stop_string_that_does_not_come_holds_nothing_back_at_the_end) {
    bench b = set_up();
    static record free_run, r;
    complete(&b, (infer_task){.count = 60, .logprobs = -1}, &free_run);
    text stop = {0};
    text_append_n(&stop, free_run.text.data + free_run.text.length - 3, 3);
    text_append(&stop, "no");
    const char *const stops[] = {stop.data};
    infer_result result = complete(&b, (infer_task){.count = 60, .logprobs = -1, .stops = stops, .stop_count = 1}, &r);
    EXPECT(result.finish == INFER_FINISH_LENGTH);
    EXPECT_TEXT(r.text.data, free_run.text.data);
    text_deinit(&stop);
    text_deinit(&r.text);
    text_deinit(&free_run.text);
    tear_down(&b);
}

TEST(it_ends_at_end_ids_at_the_context_and_when_asked) {
    bench b = set_up();
    static record r;
    complete(&b, (infer_task){.count = 10, .logprobs = -1}, &r);
    int32_t ends[2] = {-5, r.ids[4]};
    int first = 0;
    while (r.ids[first] != ends[1]) first++;
    text_deinit(&r.text);
    infer_result result = complete(&b, (infer_task){.count = 10, .logprobs = -1, .ends = ends, .end_count = 2}, &r);
    EXPECT(result.finish == INFER_FINISH_END && result.made == first + 1);
    text_deinit(&r.text);
    result = complete(&b, (infer_task){.count = 1000, .logprobs = -1}, &r);
    EXPECT(result.finish == INFER_FINISH_CONTEXT && result.made == 299);
    text_deinit(&r.text);
    r.enough = 3;
    result = complete(&b, (infer_task){.count = 10, .logprobs = -1}, &r);
    EXPECT(result.finish == INFER_FINISH_CALLER && result.made == 3);
    text_deinit(&r.text);
    tear_down(&b);
}

TEST(logprobs_are_the_models) {
    bench b = set_up();
    static record r;
    complete(&b, (infer_task){.count = 20, .logprobs = 5, .sampling = {.temperature = 0}}, &r);
    EXPECT(r.count == 20 && r.top_is_sorted && r.chosen_is_in_top);
    int32_t ids[30] = {prompt[0], prompt[1]};
    double nll[30];
    memcpy(ids + 2, r.ids, 20 * sizeof *ids);
    EXPECT_OK(infer_score(b.m, ids, 22, nll, &err));
    for (int i = 0; i < 20; i++) /* observed: 1e-6 */
        EXPECT_MSG(fabs(nll[i + 1] + r.logprob[i]) < 1e-4, "id %d: %g, read again %g", i, r.logprob[i], -nll[i + 1]);
    text_deinit(&r.text);
    infer_task wrong = {.prompt = prompt, .prompt_count = 2, .tokenizer = b.t, .count = 1, .logprobs = 21};
    infer_result result;
    EXPECT_FAIL(infer_complete(b.m, &wrong, on_step, &r, &result, &err), PROPANE_ERR_INVALID, "the maximum is 20");
    const char *const stops[] = {""};
    wrong = (infer_task){
        .prompt = prompt, .prompt_count = 2, .tokenizer = b.t, .count = 1, .stops = stops, .stop_count = 1};
    EXPECT_FAIL(infer_complete(b.m, &wrong, on_step, &r, &result, &err), PROPANE_ERR_INVALID, "stop string 1 is empty");
    tear_down(&b);
}

SUITE("infer/complete", T(text_is_whole_characters_and_all_of_it), T(stop_strings_end_the_text_in_front_of_them),
      T(a_stop_string_that_does_not_come_holds_nothing_back_at_the_end),
      T(it_ends_at_end_ids_at_the_context_and_when_asked), T(logprobs_are_the_models))
