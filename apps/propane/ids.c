/* SPDX-License-Identifier: MIT
 * Owns the parsing of lists of token ids.
 */
#include "apps/propane/ids.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"

propane_status ids_append(id_list *list, const int32_t *ids, int64_t count, propane_error *err) {
    if (list->count + count > list->room) {
        const int64_t room = 2 * list->room + count + 64;
        int32_t *larger = mem_resize(list->ids, (size_t)room * sizeof *larger);
        if (!larger) return propane_fail_memory(err, (size_t)room * sizeof *larger);
        list->ids = larger;
        list->room = room;
    }
    if (count) memcpy(list->ids + list->count, ids, (size_t)count * sizeof *ids);
    list->count += count;
    return PROPANE_OK;
}

propane_status ids_add(id_list *list, int32_t id, propane_error *err) { return ids_append(list, &id, 1, err); }

void ids_deinit(id_list *list) {
    mem_free(list->ids);
    *list = (id_list){0};
}

propane_status ids_parse(const char *data, size_t length, const char *source, int64_t vocab, id_list *out,
                         propane_error *err) {
    size_t i = 0;
    while (i < length) {
        if (strchr(" \t\r\n,", data[i])) {
            i++;
            continue;
        }
        size_t begin = i;
        int64_t id = 0;
        while (i < length && data[i] >= '0' && data[i] <= '9' && id < 1000000000) id = id * 10 + (data[i++] - '0');
        if (i == begin || (i < length && !strchr(" \t\r\n,", data[i]))) {
            char quoted[80];
            size_t end = begin;
            while (end < length && !strchr(" \t\r\n,", data[end])) end++;
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%s' (byte %zu) is not a token id", source,
                                text_quote(quoted, data + begin, end - begin), begin);
        }
        if (id >= vocab)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: id %" PRId64 " is outside the model's vocabulary of %" PRId64, source, id, vocab);
        PROPANE_TRY(ids_add(out, (int32_t)id, err));
    }
    if (out->count == 0) return propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no ids", source);
    return PROPANE_OK;
}
