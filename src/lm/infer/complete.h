/* SPDX-License-Identifier: MIT
 * Text from a model. Ids are drawn, decoded, and searched for strings that end the text. The callback receives only
 * final text, as valid UTF-8. The bytes of an incomplete character and the possible beginning of a stop string are held
 * back until they are decided.
 */
#ifndef LM_INFER_COMPLETE_H
#define LM_INFER_COMPLETE_H

#include "lm/infer/generate.h"
#include "lm/text/tokenizer.h"

enum { INFER_MAX_LOGPROBS = 20 };

typedef enum infer_finish {
    INFER_FINISH_LENGTH,  /* `count` ids were drawn */
    INFER_FINISH_CONTEXT, /* the context is full */
    INFER_FINISH_END,     /* one of `ends` was drawn */
    INFER_FINISH_STOP,    /* a stop string appeared */
    INFER_FINISH_CALLER,  /* the callback requested the end */
    INFER_FINISH_LOST,    /* the scores or the embedding are not numbers */
    INFER_FINISH_STUCK    /* no id can continue the requested JSON object so that it ends within the remaining ids */
} infer_finish;

typedef struct infer_logprob {
    int32_t id;
    double logprob; /* natural logarithm of the model's own probability, before temperature, cuts and penalties */
} infer_logprob;

typedef struct infer_step {
    int32_t id; /* the new id, or -1 if only the rest of the text is passed on */
    bool end;   /* the id is one of `ends` */
    /* the id is part of the prompt, and its text is not passed on. The logprob of the prompt's first id is NaN */
    bool prompt;
    infer_logprob chosen;
    const infer_logprob *top; /* the most likely ids, most likely first */
    int top_count;
    const char *text; /* text that has become final, not terminated; its ids may have been passed in earlier steps */
    size_t length;
} infer_step;
typedef bool (*infer_on_step)(void *context, const infer_step *step); /* returns false to stop */

typedef struct infer_task {
    const tokenizer *tokenizer; /* NULL to draw ids only, without text and stop strings */
    /* ids of the prompt; a prefix that the model's sequence already holds is not read again */
    const int32_t *prompt;
    int64_t prompt_count; /* at least 1 */
    int64_t count;
    const int32_t *ends; /* ids that end the text */
    int end_count;
    const char *const *stops; /* strings that end the text and are not passed on */
    int stop_count;
    /* -1 for no logprobs; otherwise the number of most likely ids, 0 .. INFER_MAX_LOGPROBS, whose logprobs are reported
     * in addition to that of the chosen id */
    int logprobs;
    /* also report the logprobs of the prompt, id by id, before anything is drawn; the whole prompt is then read
     * slowly */
    bool prompt_logprobs;
    bool json; /* write only a JSON object that ends within `count` ids (lm/infer/json_filter.h); needs the tokenizer */
    infer_sampling sampling;
    /* [width] or NULL. If not NULL, nothing is drawn, and this receives the head's input, summed over the prompt and
     * scaled to length 1 */
    float *embedding;
} infer_task;

typedef struct infer_result {
    infer_finish finish;
    int64_t made;   /* ids drawn, including one of `ends` */
    int64_t reused; /* ids of the prompt whose keys and values were already in the cache */
} infer_result;

/* A text that is being written in its own sequence. Several jobs can run at once, each with the same result as alone.
 * The memory to which the task points must stay valid until the job is freed. */
typedef struct infer_job infer_job;
/* Creates a job and checks its prompt. `sequence` must be 0 .. infer_sequences(m) - 1 and not used by another
 * unfinished job. */
PROPANE_CHECK propane_status infer_job_begin(infer *m, int sequence, const infer_task *task, infer_on_step callback,
                                             void *context, infer_job **out, propane_error *err);
/* Reads as much of the prompt as one pass can. Nothing is drawn before the whole prompt has been read; other jobs may
 * run between two such calls. */
PROPANE_CHECK propane_status infer_job_read(infer_job *j, propane_error *err);
int64_t infer_job_left(const infer_job *j);  /* number of ids of the prompt that are not read yet */
bool infer_job_is_ready(const infer_job *j); /* whether the whole prompt has been read */
/* Draws one id for each job that is ready and not done, and reads these ids in one pass. After an error, the jobs can
 * only be freed. */
PROPANE_CHECK propane_status infer_advance(infer *m, infer_job *const *jobs, int count, propane_error *err);
bool infer_job_is_done(const infer_job *j);
infer_result infer_job_result(const infer_job *j); /* only for a job that is done */
void infer_job_free(infer_job *j);

/* Writes one complete text, in sequence 0. */
PROPANE_CHECK propane_status infer_complete(infer *m, const infer_task *task, infer_on_step callback, void *context,
                                            infer_result *result, propane_error *err);

#endif
