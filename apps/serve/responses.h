/* SPDX-License-Identifier: MIT
 * POST /v1/responses in its minimal form: a text or messages, and one answer. The body is translated into a chat
 * request, which is then answered as usual. Streams, stored conversations and tools are refused.
 */
#ifndef APPS_SERVE_RESPONSES_H
#define APPS_SERVE_RESPONSES_H

#include "core/base/json.h"

typedef struct responses_problem {
    const char *key; /* NULL for the body */
    char why[200];
    bool unsupported; /* otherwise it is invalid */
} responses_problem;

/* Translates the body into that of a chat. If it returns false, the body is unchanged or partly changed, and `p` gives
 * the reason. */
bool responses_read(json_t *body, responses_problem *p);

#endif
