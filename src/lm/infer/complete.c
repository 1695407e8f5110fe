/* SPDX-License-Identifier: MIT
 * Owns the conversion of drawn ids to final text (decoding, holding back, stop strings, logprobs), and the jobs.
 */
#include "lm/infer/complete.h"

#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/infer/json_filter.h"

typedef struct completion {
    const infer_task *task;
    infer_on_step callback;
    void *context;
    int vocab;
    tokenizer_stream stream;
    text held; /* text that is decoded but not passed on yet */
    bool ended, stopped, cancelled;
} completion;

static bool complete_is_end(const infer_task *t, int32_t id) {
    for (int i = 0; i < t->end_count; i++)
        if (t->ends[i] == id) return true;
    return false;
}

/* Returns where the first stop string begins in the held text, or -1 if there is none. */
static int64_t complete_find_stop(const completion *c) {
    int64_t first = -1;
    for (int i = 0; i < c->task->stop_count; i++) {
        const char *stop = c->task->stops[i];
        const char *at = *stop && c->held.length ? memmem(c->held.data, c->held.length, stop, strlen(stop)) : NULL;
        if (at && (first < 0 || at - c->held.data < first)) first = at - c->held.data;
    }
    return first;
}

/* Returns the length of the longest end of the held text that may be the beginning of a stop string. */
static size_t complete_undecided(const completion *c) {
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

static void complete_report(completion *c, infer_step *step, size_t length) {
    step->text = c->held.data ? c->held.data : "";
    step->length = length;
    if (!c->callback(c->context, step)) c->cancelled = true;
    if (length) {
        memmove(c->held.data, c->held.data + length, c->held.length - length);
        c->held.length -= length;
    }
}

/* Passes on the final part of the held text. Returns false if the text has ended. */
static bool complete_settle(completion *c, infer_step *step) {
    int64_t stop = complete_find_stop(c);
    if (stop >= 0) {
        c->stopped = true;
        c->held.length = (size_t)stop;
        complete_report(c, step, c->held.length);
        return false;
    }
    size_t length = c->held.length - complete_undecided(c);
    while (length && length < c->held.length && ((unsigned char)c->held.data[length] & 0xc0) == 0x80) length--;
    complete_report(c, step, length);
    return !c->cancelled;
}

/* Sets the logprobs of the step's id and of the most likely ids. */
static void complete_rate(const completion *c, const float *logits, infer_step *step,
                          infer_logprob top[INFER_MAX_LOGPROBS]) {
    infer_candidate most[INFER_MAX_LOGPROBS];
    const double of_id = -infer_nll(logits, c->vocab, 1, step->id), base = of_id - (double)logits[step->id];
    step->chosen.logprob = of_id;
    step->top_count = infer_most_likely(logits, c->vocab, c->task->logprobs, most);
    for (int i = 0; i < step->top_count; i++) top[i] = (infer_logprob){most[i].id, (double)most[i].logit + base};
}

static bool complete_on_token(void *context, int32_t id, const float *logits) {
    completion *c = context;
    const infer_task *t = c->task;
    infer_logprob top[INFER_MAX_LOGPROBS];
    infer_step step = {.id = id, .end = complete_is_end(t, id), .chosen = {.id = id}, .top = top};
    if (t->logprobs >= 0) complete_rate(c, logits, &step, top);
    if (step.end) {
        c->ended = true;
        complete_report(c, &step, 0);
        return false;
    }
    if (t->tokenizer) tokenizer_decode(t->tokenizer, &c->stream, id, &c->held);
    return complete_settle(c, &step);
}

/* Passes on the held text after the last id. */
static void complete_report_rest(completion *c) {
    infer_step step = {.id = -1};
    tokenizer_decode_end(&c->stream, &c->held);
    int64_t stop = complete_find_stop(c);
    if (stop >= 0) {
        c->stopped = true;
        c->held.length = (size_t)stop;
    }
    if (c->held.length) complete_report(c, &step, c->held.length);
}

/* Marks the text as begun, so that a space before the first new word is kept: a prompt precedes it. */
static void complete_begin_stream(completion *c) { c->stream.begun = true; }

static propane_status complete_check(const infer_task *t, propane_error *err) {
    if (t->logprobs > INFER_MAX_LOGPROBS)
        return propane_fail(err, PROPANE_ERR_INVALID, "%d most likely ids were requested; the maximum is %d",
                            t->logprobs, INFER_MAX_LOGPROBS);
    for (int i = 0; i < t->stop_count; i++)
        if (!t->stops[i][0]) return propane_fail(err, PROPANE_ERR_INVALID, "stop string %d is empty", i + 1);
    return PROPANE_OK;
}

/* ---- jobs ------------------------------------------------------------------------------------------------------------- */

struct infer_job {
    completion c;
    infer_task task;
    infer *machine;
    int sequence;
    infer_sampler sampler;
    float *logits; /* logits from which the next id is drawn */
    int64_t made, reused;
    int64_t read; /* number of ids of the prompt that have been read, including cached ones */
    bool done, lost, stuck;
    json_filter filter; /* if the task requests JSON */
    float *masked;      /* masked logits if the task requests JSON, otherwise NULL */
    double *sum;        /* [width], if the task requests an embedding */
};

static propane_status complete_prepare(infer_job *j, propane_error *err) {
    const infer_task *t = &j->task;
    infer_select(j->machine, j->sequence);
    PROPANE_TRY(infer_sampler_init(&j->sampler, &t->sampling, infer_vocab(j->machine), err));
    j->logits = mem_array((size_t)infer_vocab(j->machine), sizeof *j->logits);
    if (!j->logits) return propane_fail_memory(err, (size_t)infer_vocab(j->machine) * sizeof *j->logits);
    j->filter.tokenizer = t->tokenizer;
    if (t->json && !(j->masked = mem_array((size_t)infer_vocab(j->machine), sizeof *j->masked)))
        return propane_fail_memory(err, (size_t)infer_vocab(j->machine) * sizeof *j->masked);
    if (t->embedding && !(j->sum = mem_array((size_t)infer_width(j->machine), sizeof *j->sum)))
        return propane_fail_memory(err, (size_t)infer_width(j->machine) * sizeof *j->sum);
    j->reused = infer_reuse(j->machine, t->prompt, t->prompt_logprobs || t->embedding ? 0 : t->prompt_count - 1);
    PROPANE_TRY(infer_check(j->machine, t->prompt + j->reused, t->prompt_count - j->reused, err));
    j->read = j->reused;
    for (int64_t i = 0; i < t->prompt_count; i++) infer_sampler_see(&j->sampler, t->prompt[i]);
    j->done = t->count < 1 && !t->prompt_logprobs && !t->embedding;
    return PROPANE_OK;
}

propane_status infer_job_begin(infer *m, int sequence, const infer_task *task, infer_on_step callback, void *context,
                               infer_job **out, propane_error *err) {
    *out = NULL;
    PROPANE_TRY(complete_check(task, err));
    infer_job *j = mem_alloc(sizeof *j);
    if (!j) return propane_fail_memory(err, sizeof *j);
    *j = (infer_job){.task = *task, .machine = m, .sequence = sequence};
    j->c = (completion){.task = &j->task, .callback = callback, .context = context, .vocab = infer_vocab(m)};
    complete_begin_stream(&j->c);
    propane_status status = complete_prepare(j, err);
    if (status)
        infer_job_free(j);
    else
        *out = j;
    return status;
}

static void complete_report_prompt(infer_job *j) {
    completion *c = &j->c;
    infer_logprob top[INFER_MAX_LOGPROBS];
    const int32_t id = j->task.prompt[j->read];
    infer_step step = {.id = id, .prompt = true, .chosen = {id, NAN}, .top = top, .text = ""};
    if (j->read > 0) complete_rate(c, j->logits, &step, top);
    if (!c->callback(c->context, &step)) c->cancelled = true;
}

/* Reads the prompt id by id, because the scores of each id are requested. A call reads only a few ids, so that other
 * jobs do not wait long. */
static propane_status complete_score_prompt(infer_job *j, propane_error *err) {
    enum { PART = 32 };
    for (int n = 0; n < PART && infer_job_left(j) > 0 && !j->c.cancelled; n++) {
        int64_t now;
        complete_report_prompt(j);
        PROPANE_TRY(infer_read_part(j->machine, j->task.prompt + j->read, 1, j->logits, &now, err));
        j->read += now;
    }
    j->done = j->c.cancelled || (infer_job_left(j) == 0 && j->task.count < 1);
    return PROPANE_OK;
}

static propane_status complete_embed_prompt(infer_job *j, propane_error *err) {
    const int64_t width = infer_width(j->machine);
    double square = 0;
    int64_t now;
    PROPANE_TRY(infer_embed_part(j->machine, j->task.prompt + j->read, infer_job_left(j), j->sum, &now, err));
    j->read += now;
    if (infer_job_left(j) > 0) return PROPANE_OK;
    for (int64_t i = 0; i < width; i++) square += j->sum[i] * j->sum[i];
    for (int64_t i = 0; i < width; i++) j->task.embedding[i] = (float)(j->sum[i] / sqrt(square));
    j->lost = !(square > 0 && square < INFINITY);
    j->done = true;
    return PROPANE_OK;
}

propane_status infer_job_read(infer_job *j, propane_error *err) {
    int64_t now, left = infer_job_left(j);
    if (!left) return PROPANE_OK;
    infer_select(j->machine, j->sequence);
    if (j->task.embedding) return complete_embed_prompt(j, err);
    if (j->task.prompt_logprobs && j->task.logprobs >= 0) return complete_score_prompt(j, err);
    PROPANE_TRY(infer_read_part(j->machine, j->task.prompt + j->read, left, j->logits, &now, err));
    j->read += now;
    return PROPANE_OK;
}

int64_t infer_job_left(const infer_job *j) { return j->task.prompt_count - j->read; }
bool infer_job_is_ready(const infer_job *j) { return infer_job_left(j) == 0; }

void infer_job_free(infer_job *j) {
    if (!j) return;
    infer_sampler_deinit(&j->sampler);
    mem_free(j->logits);
    mem_free(j->masked);
    mem_free(j->sum);
    text_deinit(&j->c.held);
    mem_free(j);
}

bool infer_job_is_done(const infer_job *j) { return j->done; }

infer_result infer_job_result(const infer_job *j) {
    const completion *c = &j->c;
    return (infer_result){.made = j->made,
                          .reused = j->reused,
                          .finish = j->lost                           ? INFER_FINISH_LOST
                                    : j->stuck                        ? INFER_FINISH_STUCK
                                    : json_filter_is_done(&j->filter) ? INFER_FINISH_END
                                    : c->cancelled                    ? INFER_FINISH_CALLER
                                    : c->stopped                      ? INFER_FINISH_STOP
                                    : c->ended                        ? INFER_FINISH_END
                                    : j->made < j->task.count         ? INFER_FINISH_CONTEXT
                                                                      : INFER_FINISH_LENGTH};
}

/* Draws an id. Returns false if no id is possible. */
static bool complete_sample(infer_job *j, int32_t *id) {
    if (!j->masked) {
        *id = infer_sample(&j->sampler, j->logits);
        return true;
    }
    const int64_t room = infer_context(j->machine) - infer_position(j->machine) + 1, left = j->task.count - j->made;
    memcpy(j->masked, j->logits, (size_t)j->c.vocab * sizeof *j->masked);
    if (!json_filter_mask(&j->filter, j->masked, j->c.vocab, left < room ? left : room)) return false;
    *id = infer_sample(&j->sampler, j->masked);
    json_filter_take(&j->filter, *id);
    return true;
}

/* Draws the next id and passes it to the callback. Returns false if the job is done. */
static bool complete_draw(infer_job *j, int32_t *id) {
    infer_select(j->machine, j->sequence);
    if (!complete_sample(j, id)) {
        j->done = j->stuck = true;
        return false;
    }
    j->made++;
    bool goes_on = complete_on_token(&j->c, *id, j->logits) && !json_filter_is_done(&j->filter);
    infer_select(j->machine, j->sequence);
    bool room = infer_position(j->machine) < infer_context(j->machine);
    if (goes_on && j->made < j->task.count && room) return true;
    j->done = true;
    if (!j->c.stopped && !j->c.cancelled && j->task.tokenizer) complete_report_rest(&j->c);
    return false;
}

propane_status infer_advance(infer *m, infer_job *const *jobs, int count, propane_error *err) {
    int sequences[INFER_MAX_SEQUENCES], n = 0;
    int32_t ids[INFER_MAX_SEQUENCES];
    float *logits[INFER_MAX_SEQUENCES];
    for (int i = 0; i < count; i++) {
        infer_job *j = jobs[i];
        if (j->done || !infer_job_is_ready(j)) continue;
        infer_select(m, j->sequence);
        j->done = j->lost = infer_check_scores(m, j->logits, NULL) != PROPANE_OK; /* only this job fails */
        if (j->done || !complete_draw(j, &ids[n])) continue;
        if (j->c.held.failed) return propane_fail_memory(err, j->c.held.capacity);
        sequences[n] = j->sequence;
        logits[n++] = j->logits;
    }
    return n ? infer_read_each(m, sequences, ids, n, logits, err) : PROPANE_OK;
}

propane_status infer_complete(infer *m, const infer_task *task, infer_on_step callback, void *context,
                              infer_result *result, propane_error *err) {
    infer_job *j;
    *result = (infer_result){0};
    PROPANE_TRY(infer_job_begin(m, 0, task, callback, context, &j, err));
    propane_status status = PROPANE_OK;
    while (!status && !j->done && !infer_job_is_ready(j)) status = infer_job_read(j, err);
    while (!status && !j->done) status = infer_advance(m, &j, 1, err);
    if (!status && j->lost && task->embedding)
        status = propane_fail(err, PROPANE_ERR_LIMIT, "the model's result for this text is NaN or infinite");
    if (!status && j->lost && !task->embedding) {
        infer_select(m, j->sequence);
        status = infer_check_scores(m, j->logits, err);
    }
    if (!status && j->c.held.failed) status = propane_fail_memory(err, j->c.held.capacity);
    *result = infer_job_result(j);
    infer_job_free(j);
    return status;
}
