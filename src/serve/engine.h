/* SPDX-License-Identifier: MIT
 * A request carried out: from what a client asked for to the bytes of the answer. Knows nothing of connections: what is
 * ready is handed to an outlet.
 */
#ifndef SERVE_ENGINE_H
#define SERVE_ENGINE_H

#include "infer/converse.h"
#include "serve/reply.h"

typedef struct serve_engine {
    infer *machine;
    const tokenizer *tokenizer;
    const infer_chat *chat;
    const char *name;   /* of the model */
    int64_t created;    /* when it was loaded, seconds since 1970 */
    uint64_t next_seed; /* for requests without one */
} serve_engine;

/* Where an answer goes. The first call of `begin` decides about the status; then come bytes. */
typedef struct serve_outlet {
    void *context;
    void (*begin)(void *context, int http, bool stream);
    bool (*write)(void *context, const char *bytes, size_t length); /* false: nobody wants it any more */
    bool (*wanted)(void *context);                                  /* asked at each token */
} serve_outlet;

void serve_answer(serve_engine *e, const serve_request *r, const serve_outlet *out);
/* An answer that is an error. */
void serve_answer_problem(const serve_problem *p, const serve_outlet *out);
/* Whether the model is the one that is asked for. */
bool serve_model_is(const serve_engine *e, const char *model, serve_problem *p);

#endif
