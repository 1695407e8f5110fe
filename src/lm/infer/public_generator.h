/* SPDX-License-Identifier: MIT
 * The definitions of propane_chat and propane_generator, and the task of one text.
 */
#ifndef LM_INFER_PUBLIC_GENERATOR_H
#define LM_INFER_PUBLIC_GENERATOR_H

#include "lm/files/public_model.h"
#include "lm/infer/complete.h"
#include "lm/infer/converse.h"

struct propane_chat {
    infer_chat chat;
    const tokenizer *tokenizer;
};

struct propane_generator {
    const propane_model *model;
    const tokenizer *tokenizer; /* NULL if the generator works on ids only */
    propane_device *device, *own;
    infer *machine;
    propane_on_progress on_progress; /* NULL if not wanted */
    void *progress_context;
    propane_stream *streams[INFER_MAX_SEQUENCES]; /* [sequence], its stream, or NULL if the sequence is free */
};

_Static_assert(PROPANE_MAX_PARALLEL == INFER_MAX_SEQUENCES && PROPANE_MAX_LOGPROBS == INFER_MAX_LOGPROBS,
               "the header must match src/lm/infer");

/* A caller's checked request as the task of one text. It must not be moved, because `task` points into it. */
typedef struct generator_task {
    propane_sampling sampling;
    propane_on_token callback;
    void *context;
    const char *stops[PROPANE_MAX_STOPS + INFER_MAX_ENDS];
    int32_t eos;
    infer_task task;
} generator_task;

PROPANE_CHECK propane_status api_generator_task(const propane_generator *g, const int32_t *ids, int64_t count,
                                                const propane_sampling *given, propane_on_token callback, void *context,
                                                generator_task *out, propane_error *err);
/* The infer_on_step of a generator_task, which is its `context`. */
bool api_generator_on_step(void *context, const infer_step *step);
void api_generator_give(const infer_result *result, int64_t prompt_count, propane_generation *out);

#endif
