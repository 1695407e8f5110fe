/* SPDX-License-Identifier: MIT
 * Text out of a model: ids are drawn, turned into text and watched for the strings that end it. What the callback gets
 * is valid UTF-8 and final: the bytes of a character that is not complete, and text that may be the beginning of a stop
 * string, are held back until it is certain.
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
    INFER_FINISH_STOP,    /* a stop string came */
    INFER_FINISH_CALLER,  /* the callback said so */
    INFER_FINISH_LOST,    /* the scores, or the embedding, are not numbers */
    INFER_FINISH_STUCK    /* no id goes on with the JSON object that was asked for, within the ids that are left */
} infer_finish;

typedef struct infer_logprob {
    int32_t id;
    double logprob; /* natural logarithm, of the model itself: before temperature, cuts and penalties */
} infer_logprob;

typedef struct infer_step {
    int32_t id;  /* -1: no new id, only the rest of the text */
    bool end;    /* it is one of `ends` */
    bool prompt; /* it is the prompt's; its text is not passed on. The first one's logprob is not a number */
    infer_logprob chosen;
    const infer_logprob *top; /* the most likely ids, most likely first */
    int top_count;
    const char *text; /* what became certain, not terminated; its ids may have come earlier */
    size_t length;
} infer_step;
typedef bool (*infer_on_step)(void *context, const infer_step *step); /* false: enough */

typedef struct infer_task {
    const tokenizer *tokenizer; /* NULL: ids alone, without text and stop strings */
    const int32_t *prompt;      /* what the model's sequence already begins with is not read again */
    int64_t prompt_count;       /* at least 1 */
    int64_t count;
    const int32_t *ends; /* ids that end the text */
    int end_count;
    const char *const *stops; /* strings that end it; they do not appear */
    int stop_count;
    int logprobs; /* -1: none, not even the chosen id's; 0 .. INFER_MAX_LOGPROBS: and that many most likely ids */
    /* also those of the prompt, id by id before anything is drawn; it is then read anew, slowly */
    bool prompt_logprobs;
    bool json; /* nothing but a JSON object, which ends in time (lm/infer/json_filter.h); needs the tokenizer */
    infer_sampling sampling;
    /* not NULL: nothing is drawn; [width], what the head would multiply, summed over the prompt, of length 1 */
    float *embedding;
} infer_task;

typedef struct infer_result {
    infer_finish finish;
    int64_t made;   /* ids drawn, one of `ends` included */
    int64_t reused; /* ids of the prompt that were still in the cache */
} infer_result;

/* A text that is being written, in a sequence of its own: several go on at once, each as it would alone. What the task
 * points to must stay until it is freed. */
typedef struct infer_job infer_job;
/* Checks the prompt. `sequence`: 0 .. infer_sequences(m) - 1; no other unfinished job has it. */
PROPANE_CHECK propane_status infer_job_begin(infer *m, int sequence, const infer_task *task, infer_on_step callback,
                                             void *context, infer_job **out, propane_error *err);
/* Reads as much of the prompt as one pass takes. Nothing is drawn before all of it was read; other jobs may go on
 * between two parts. */
PROPANE_CHECK propane_status infer_job_read(infer_job *j, propane_error *err);
int64_t infer_job_left(const infer_job *j);  /* ids of the prompt that are still to be read */
bool infer_job_is_ready(const infer_job *j); /* there are none */
/* Draws one id for each job that is ready and not done, and reads these together. After an error the jobs can only be
 * freed. */
PROPANE_CHECK propane_status infer_advance(infer *m, infer_job *const *jobs, int count, propane_error *err);
bool infer_job_is_done(const infer_job *j);
infer_result infer_job_result(const infer_job *j); /* of one that is done */
void infer_job_free(infer_job *j);

/* One text from its beginning to its end, in sequence 0. */
PROPANE_CHECK propane_status infer_complete(infer *m, const infer_task *task, infer_on_step callback, void *context,
                                            infer_result *result, propane_error *err);

#endif
