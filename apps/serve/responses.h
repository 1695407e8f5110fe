/* SPDX-License-Identifier: MIT
 * POST /v1/responses in its minimal form: a text or messages, and one answer. The body is put into a chat's words, so
 * that a chat is what is answered; streams, stored conversations and tools are refused.
 */
#ifndef APPS_SERVE_RESPONSES_H
#define APPS_SERVE_RESPONSES_H

#include "core/base/json.h"

typedef struct responses_problem {
    const char *key; /* NULL: the body */
    char why[200];
    bool unsupported; /* else it is wrong */
} responses_problem;

/* The body becomes that of a chat. False: it is as it was, or in part, and `p` says why. */
bool responses_read(json_t *body, responses_problem *p);

#endif
