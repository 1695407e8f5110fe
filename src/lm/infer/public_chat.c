/* SPDX-License-Identifier: MIT
 * Owns the public functions on conversations. lm/text/chat.h has the formats, and lm/infer/converse.h the ends of
 * answers.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/infer/public_generator.h"

propane_status propane_chat_open(const propane_model *model, const propane_tokenizer *t, const char *format,
                                 propane_chat **out, propane_error *err) {
    if (out) *out = NULL;
    NEED_AS(err, "model, tokenizer, out", model, t, out);
    propane_chat *c = mem_alloc(sizeof *c);
    if (!c) return propane_fail_memory(err, sizeof *c);
    c->tokenizer = t;
    propane_status status = infer_chat_open(model->path, t, format, &c->chat, err);
    if (status)
        propane_chat_free(c);
    else
        *out = c;
    return status;
}

void propane_chat_free(propane_chat *chat) {
    if (chat) infer_chat_close(&chat->chat);
    mem_free(chat);
}

const char *propane_chat_format(const propane_chat *chat) {
    return chat ? chat_format_name(chat->chat.format.format) : NULL;
}

propane_status propane_chat_encode(const propane_chat *chat, const propane_chat_message *messages, int count,
                                   int64_t room, int32_t **ids, int64_t *id_count, int *dropped, propane_error *err) {
    if (ids) *ids = NULL;
    NEED(err, chat, ids, id_count);
    NEED_LIST(err, messages, count);
    API_ERROR(err);
    token_list list = {0};
    int kept = count, gone = 0;
    *id_count = 0;
    if (count < 1) return propane_fail(err, PROPANE_ERR_INVALID, "a conversation of %d messages", count);
    for (int i = 0; i < count; i++)
        if (!messages[i].role || !messages[i].content)
            return propane_fail(err, PROPANE_ERR_INVALID, "messages[%d] has no %s", i,
                                messages[i].role ? "content" : "role");
    chat_message *own = mem_array((size_t)count, sizeof *own);
    if (!own) return propane_fail_memory(err, (size_t)count * sizeof *own);
    for (int i = 0; i < count; i++) own[i] = (chat_message){messages[i].role, messages[i].content};
    propane_status status = infer_chat_fit(&chat->chat, chat->tokenizer, own, &kept, room, &list, &gone, err);
    mem_free(own);
    if (dropped) *dropped = gone;
    if (status) {
        token_list_deinit(&list);
        return status;
    }
    *ids = list.ids;
    *id_count = (int64_t)list.count;
    return PROPANE_OK;
}
