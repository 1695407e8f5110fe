/* SPDX-License-Identifier: MIT
 * Instruction data: an accepted file has ids of the vocabulary, trained tokens in every example, and windows whose
 * targets are the next inputs. The first byte selects the chat format.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lm/data/token_windows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_examples(const train_examples *e) {
    int64_t trained = 0;
    if (e->count < 1 || e->start[0] != 0) abort();
    for (int64_t i = 0; i < e->count; i++) {
        int64_t own = 0;
        for (int64_t k = e->start[i]; k < e->start[i + 1]; k++) {
            if (e->ids[k] < 0 || e->ids[k] > 255 || e->learn[k] > 1) abort();
            own += e->learn[k];
        }
        if (own == 0 || e->learn[e->start[i]]) abort();
        trained += own;
    }
    if (trained != e->trained) abort();
}

static void check_windows(const train_examples *e) {
    enum { CONTEXT = 24 };
    int32_t x[CONTEXT], y[CONTEXT];
    packed_windows p;
    propane_error err = {0};
    if (packed_windows_init(&p, e, 0, e->count, CONTEXT, true, 1, &err) != PROPANE_OK) abort();
    for (int64_t w = 0; w < p.windows; w++) {
        int targets = 0;
        packed_windows_get(&p, w, x, y);
        for (int i = 0; i < CONTEXT; i++) {
            if (x[i] < 0 || x[i] > 255 || y[i] < -1 || y[i] > 255) abort();
            targets += y[i] >= 0;
        }
        if (targets == 0) abort();
    }
    packed_windows_deinit(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tokenizer *bytes;
    propane_error err = {0};
    train_examples e;
    if (size == 0) return 0;
    if (!bytes && tokenizer_create_bytes(&bytes, &err) != PROPANE_OK) abort();
    chat_template chat = {.format = chat_format_at(data[0] % chat_format_count()), .bos = "<s>", .eos = "</s>"};
    propane_status status = train_jsonl_parse((const char *)data + 1, size - 1, "fuzz", bytes, &chat, &e, &err);
    if (status) {
        if (e.ids || e.start || err.status != status || !err.text[0]) abort();
        return 0;
    }
    check_examples(&e);
    check_windows(&e);
    train_examples_deinit(&e);
    return 0;
}
