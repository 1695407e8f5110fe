/* SPDX-License-Identifier: MIT
 * Declares the support of POST /v1/responses in its minimal form: a text or messages, and one answer. The body is
 * translated into a chat request, which is then answered like any other. Streams, stored conversations and tools are
 * refused.
 */
#ifndef APPS_SERVE_RESPONSES_H
#define APPS_SERVE_RESPONSES_H

#include "core/base/json.h"

typedef struct responses_problem {
    const char *key; /* the key that is refused; NULL for the whole body */
    char why[200];
    bool unsupported; /* the key is not supported; otherwise it is invalid */
} responses_problem;

/* Translates the body in place into the body of a chat request. Returns false if the body is refused; `p` then has the
 * reason. */
bool responses_read(json_t *body, responses_problem *p);

#endif
