/* SPDX-License-Identifier: MIT
 * Owns reading lists of ids.
 */
#include "cli/ids.h"

#include <inttypes.h>
#include <string.h>

propane_status ids_parse(const char *data, size_t length, const char *source, int64_t vocab, token_list *out,
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
        PROPANE_TRY(token_list_add(out, (int32_t)id, err));
    }
    if (out->count == 0) return propane_fail(err, PROPANE_ERR_INVALID, "%s: there are no ids in it", source);
    return PROPANE_OK;
}
