/* SPDX-License-Identifier: MIT
 * Owns the way from drawn ids to certain text: decoding, holding back, stop strings, logprobs.
 */
#include "infer/complete.h"

#include <string.h>

const char *infer_finish_name(infer_finish finish) {
    static const char *const names[] = {"length", "context", "end", "stop", "cancelled"};
    return names[finish];
}

typedef struct completion {
    const infer_task *task;
    infer_on_step callback;
    void *context;
    int vocab;
    tokenizer_stream stream;
    text held; /* decoded, not yet told */
    bool ended, stopped, cancelled;
} completion;

static bool is_end(const infer_task *t, int32_t id) {
    for (int i = 0; i < t->end_count; i++)
        if (t->ends[i] == id) return true;
    return false;
}

/* Where the first stop string begins in the held text; -1: there is none. */
static int64_t find_stop(const completion *c) {
    int64_t first = -1;
    for (int i = 0; i < c->task->stop_count; i++) {
        const char *stop = c->task->stops[i];
        const char *at = *stop && c->held.length ? memmem(c->held.data, c->held.length, stop, strlen(stop)) : NULL;
        if (at && (first < 0 || at - c->held.data < first)) first = at - c->held.data;
    }
    return first;
}

/* How much of the held text's end may still become a stop string. */
static size_t undecided(const completion *c) {
    size_t most = 0;
    for (int i = 0; i < c->task->stop_count; i++) {
        const char *stop = c->task->stops[i];
        size_t n = strlen(stop), longest = n && n - 1 < c->held.length ? n - 1 : c->held.length;
        if (!n) continue;
        for (size_t k = longest; k > most; k--)
            if (memcmp(c->held.data + c->held.length - k, stop, k) == 0) most = k;
    }
    return most;
}

static void tell(completion *c, infer_step *step, size_t length) {
    step->text = c->held.data ? c->held.data : "";
    step->length = length;
    if (!c->callback(c->context, step)) c->cancelled = true;
    if (length) {
        memmove(c->held.data, c->held.data + length, c->held.length - length);
        c->held.length -= length;
    }
}

/* False: the text is at its end. */
static bool settle(completion *c, infer_step *step) {
    int64_t stop = find_stop(c);
    if (stop >= 0) {
        c->stopped = true;
        c->held.length = (size_t)stop;
        tell(c, step, c->held.length);
        return false;
    }
    size_t length = c->held.length - undecided(c);
    while (length && length < c->held.length && ((unsigned char)c->held.data[length] & 0xc0) == 0x80) length--;
    tell(c, step, length);
    return !c->cancelled;
}

static bool on_token(void *context, int32_t id, const float *logits) {
    completion *c = context;
    const infer_task *t = c->task;
    infer_logprob top[INFER_MAX_LOGPROBS];
    infer_step step = {.id = id, .end = is_end(t, id), .chosen = {.id = id}, .top = top};
    if (t->logprobs >= 0) {
        infer_candidate most[INFER_MAX_LOGPROBS];
        double of_id = -infer_nll(logits, c->vocab, 1, id), base = of_id - (double)logits[id];
        step.chosen.logprob = of_id;
        step.top_count = infer_most_likely(logits, c->vocab, t->logprobs, most);
        for (int i = 0; i < step.top_count; i++) top[i] = (infer_logprob){most[i].id, (double)most[i].logit + base};
    }
    if (step.end) {
        c->ended = true;
        tell(c, &step, 0);
        return false;
    }
    if (t->tokenizer) tokenizer_decode(t->tokenizer, &c->stream, id, &c->held);
    return settle(c, &step);
}

/* What is still held when no more ids come. */
static void tell_rest(completion *c) {
    infer_step step = {.id = -1};
    tokenizer_decode_end(&c->stream, &c->held);
    int64_t stop = find_stop(c);
    if (stop >= 0) {
        c->stopped = true;
        c->held.length = (size_t)stop;
    }
    if (c->held.length) tell(c, &step, c->held.length);
}

/* The text of the prompt decides whether a space in front of the first new word is dropped: it is not. */
static void begin_stream(completion *c) { c->stream.begun = true; }

static propane_status check(const infer_task *t, propane_error *err) {
    if (t->logprobs > INFER_MAX_LOGPROBS)
        return propane_fail(err, PROPANE_ERR_INVALID, "%d most likely ids are asked for; at most %d can be told",
                            t->logprobs, INFER_MAX_LOGPROBS);
    for (int i = 0; i < t->stop_count; i++)
        if (!t->stops[i][0]) return propane_fail(err, PROPANE_ERR_INVALID, "stop string %d is empty", i + 1);
    return PROPANE_OK;
}

propane_status infer_complete(infer *m, const infer_task *task, infer_on_step callback, void *context,
                              infer_result *result, propane_error *err) {
    completion c = {.task = task, .callback = callback, .context = context, .vocab = infer_vocab(m)};
    int64_t made = 0;
    *result = (infer_result){0};
    PROPANE_TRY(check(task, err));
    int64_t reused = infer_reuse(m, task->prompt, task->prompt_count - 1);
    begin_stream(&c);
    propane_status status = infer_generate(m, task->prompt, task->prompt_count, reused, task->count, -1,
                                           &task->sampling, on_token, &c, &made, err);
    if (!status && !c.stopped && !c.cancelled && task->tokenizer) tell_rest(&c);
    if (!status && c.held.failed) status = propane_fail_memory(err, c.held.capacity);
    text_deinit(&c.held);
    result->made = made;
    result->reused = reused;
    result->finish = c.cancelled          ? INFER_FINISH_CALLER
                     : c.stopped          ? INFER_FINISH_STOP
                     : c.ended            ? INFER_FINISH_END
                     : made < task->count ? INFER_FINISH_CONTEXT
                                          : INFER_FINISH_LENGTH;
    return status;
}
