/* SPDX-License-Identifier: MIT
 * Request bodies: an accepted body has values within their bounds, and a refused one has an error message.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "apps/serve/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const serve_request *r) {
    propane_error err;
    if (infer_sampling_check(&r->sampling, &err) != PROPANE_OK) abort();
    if (r->choices < 1 || r->stop_count > SERVE_MAX_STOPS || r->max_tokens < -1 || r->logprobs < -1) abort();
    for (int i = 0; i < r->stop_count; i++)
        if (!r->stops[i][0]) abort();
    if (r->chat ? r->message_count < 1
                : r->prompt_count < 1 ||
                      r->prompt_count * r->choices > (r->embedding ? SERVE_MAX_EMBEDDINGS : SERVE_MAX_PROMPTS))
        abort();
    for (int i = 0; i < r->prompt_count; i++)
        if (!r->prompts[i].text == !r->prompts[i].ids) abort();
    for (int i = 0; i < r->message_count; i++)
        if (!r->messages[i].role || !r->messages[i].content) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (serve_kind kind = SERVE_COMPLETION; kind <= SERVE_EMBEDDING; kind++) {
        serve_request r;
        serve_problem p;
        if (serve_request_parse((const char *)data, size, kind, &r, &p)) {
            check(&r);
            serve_request_deinit(&r);
        } else if (p.http < 400 || !p.type || !p.message[0] || r.root || r.arena) {
            abort();
        }
    }
    return 0;
}
