/* SPDX-License-Identifier: MIT
 * Owns the detection of an answer's end.
 */
#include "lm/infer/converse.h"

#include <string.h>

#include "lm/text/chat_find.h"

static void converse_add_end(infer_chat *c, int32_t id) {
    for (int i = 0; i < c->end_count; i++)
        if (c->ends[i] == id) return;
    if (id >= 0 && c->end_count < INFER_MAX_ENDS) c->ends[c->end_count++] = id;
}

propane_status infer_chat_open(const char *path, const tokenizer *t, const char *wanted, infer_chat *out,
                               propane_error *err) {
    *out = (infer_chat){0};
    PROPANE_TRY(chat_template_find(path, t, wanted, &out->format, err));
    converse_add_end(out, tokenizer_eos(t));
    /* If the format's end is a single token of the tokenizer, its id ends an answer; otherwise the model writes the end
     * as text. */
    const char *end = chat_template_end(&out->format);
    if (*end && strcmp(end, out->format.eos) != 0) {
        token_list ids = {0};
        propane_status status = tokenizer_encode(t, end, strlen(end), &ids, err);
        if (!status && ids.count == 1)
            converse_add_end(out, ids.ids[0]);
        else
            out->stops[out->stop_count++] = end;
        token_list_deinit(&ids);
        if (status && status != PROPANE_ERR_INVALID) return status; /* a tokenizer of characters may lack the text */
    }
    /* A model without a format continues with the other speaker's turn. */
    if (strcmp(chat_format_name(out->format.format), "plain") == 0) out->stops[out->stop_count++] = "\nUser:";
    return PROPANE_OK;
}

propane_status infer_chat_encode(const infer_chat *c, const tokenizer *t, const chat_message *messages, int count,
                                 const json_t *tools, token_list *out, propane_error *err) {
    chat_text rendered = {0};
    propane_status status = chat_render(&c->format, messages, count, tools, true, &rendered, err);
    int bos = tokenizer_bos(t);
    size_t n = strlen(c->format.bos);
    bool written = n && rendered.text.length >= n && memcmp(rendered.text.data, c->format.bos, n) == 0;
    if (!status && bos >= 0 && !written) status = token_list_add(out, bos, err);
    if (!status) status = chat_encode(&c->format, t, &rendered, out, NULL, err);
    if (!status && out->count == 0)
        status = propane_fail(err, PROPANE_ERR_INVALID, "the conversation is empty: give at least one message");
    chat_text_deinit(&rendered);
    return status;
}

void infer_chat_close(infer_chat *c) { chat_template_deinit(&c->format); }

propane_status infer_chat_fit(const infer_chat *c, const tokenizer *t, chat_message *messages, int *count, int64_t room,
                              token_list *out, int *dropped, propane_error *err) {
    int first = *count > 0 && strcmp(messages[0].role, "system") == 0;
    *dropped = 0;
    for (;;) {
        out->count = 0;
        PROPANE_TRY(infer_chat_encode(c, t, messages, *count, NULL, out, err));
        if ((int64_t)out->count <= room) return PROPANE_OK;
        int next = first + 1;
        while (next < *count && strcmp(messages[next].role, "user") != 0) next++;
        if (next >= *count)
            return propane_fail(
                err, PROPANE_ERR_LIMIT,
                "the message has %zu tokens including its markers, but there is room for %lld; shorten it", out->count,
                (long long)room);
        memmove(messages + first, messages + next, (size_t)(*count - next) * sizeof *messages);
        *dropped += next - first;
        *count -= next - first;
    }
}
