/* SPDX-License-Identifier: MIT
 * Owns growable lists of ids.
 */
#include <string.h>

#include "core/base/memory.h"
#include "lm/text/token_list.h"

void token_list_deinit(token_list *list) {
    mem_free(list->ids);
    *list = (token_list){0};
}

propane_status token_list_reserve(token_list *list, size_t more, propane_error *err) {
    if (more <= list->capacity - list->count) return PROPANE_OK;
    size_t capacity = list->capacity ? list->capacity : 64;
    while (capacity - list->count < more) capacity *= 2;
    int32_t *ids = mem_resize(list->ids, capacity * sizeof *ids);
    if (!ids) return propane_fail_memory(err, capacity * sizeof *ids);
    list->ids = ids;
    list->capacity = capacity;
    return PROPANE_OK;
}

propane_status token_list_add(token_list *list, int32_t id, propane_error *err) {
    PROPANE_TRY(token_list_reserve(list, 1, err));
    list->ids[list->count++] = id;
    return PROPANE_OK;
}

propane_status token_list_append(token_list *list, const int32_t *ids, size_t count, propane_error *err) {
    PROPANE_TRY(token_list_reserve(list, count, err));
    if (count) memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return PROPANE_OK;
}
