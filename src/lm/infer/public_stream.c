/* SPDX-License-Identifier: MIT
 * Owns texts that are written at the same time. A stream is a job of lm/infer/complete.h in a separate sequence.
 */
#include "core/base/memory.h"
#include "core/base/sized.h"
#include "core/run/public.h"
#include "lm/arch/stored_weights.h"
#include "lm/infer/public_generator.h"

struct propane_stream {
    propane_generator *generator;
    generator_task t;
    infer_job *job;
    int sequence;
};

propane_status propane_stream_begin(propane_generator *g, const int32_t *ids, int64_t count,
                                    const propane_sampling *sampling, propane_on_token callback, void *context,
                                    propane_stream **out, propane_error *err) {
    if (out) *out = NULL;
    NEED_AS(err, "generator, out", g, out);
    NEED_LIST(err, ids, count);
    API_ERROR(err);
    int sequence = 0;
    while (sequence < infer_sequences(g->machine) && g->streams[sequence]) sequence++;
    if (sequence == infer_sequences(g->machine))
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "no more streams are possible: propane_generator_options.parallel is %d", sequence);
    propane_stream *s = mem_alloc(sizeof *s);
    if (!s) return propane_fail_memory(err, sizeof *s);
    *s = (propane_stream){.generator = g, .sequence = sequence};
    propane_status status = api_generator_task(g, ids, count, sampling, callback, context, &s->t, err);
    if (!status) status = infer_job_begin(g->machine, sequence, &s->t.task, api_generator_on_step, &s->t, &s->job, err);
    while (!status && !infer_job_is_ready(s->job)) status = infer_job_read(s->job, err);
    if (status) {
        infer_job_free(s->job);
        mem_free(s);
        return status;
    }
    g->streams[sequence] = *out = s;
    return PROPANE_OK;
}

propane_status propane_generator_advance(propane_generator *g, propane_error *err) {
    NEED_AS(err, "generator", g);
    infer_job *jobs[INFER_MAX_SEQUENCES];
    int count = 0;
    for (int i = 0; i < infer_sequences(g->machine); i++)
        if (g->streams[i] && !propane_stream_done(g->streams[i])) jobs[count++] = g->streams[i]->job;
    return infer_advance(g->machine, jobs, count, err);
}

bool propane_stream_done(const propane_stream *s) { return s && infer_job_is_done(s->job); }

propane_status propane_stream_result(const propane_stream *s, propane_generation *out, propane_error *err) {
    NEED_AS(err, "stream", s);
    PROPANE_TRY(sized_check(out, "propane_generation", err));
    if (!propane_stream_done(s)) return propane_fail(err, PROPANE_ERR_INVALID, "the text is still being generated");
    const infer_result result = infer_job_result(s->job);
    if (result.finish == INFER_FINISH_LOST) {
        const char *name = stored_weights_not_finite(s->generator->model->weights);
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "after %lld tokens the model's logits are NaN or infinite%s%.200s%s",
                            (long long)result.made, name ? ": the weights '" : "", name ? name : "",
                            name ? "' contain NaN or infinity" : "");
    }
    api_generator_give(&result, s->t.task.prompt_count, out);
    return PROPANE_OK;
}

void propane_stream_free(propane_stream *s) {
    if (!s) return;
    s->generator->streams[s->sequence] = NULL;
    infer_job_free(s->job);
    mem_free(s);
}
