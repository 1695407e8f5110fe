/* SPDX-License-Identifier: MIT
 * Owns the memory of lists. Refuses lists of more than MIL_LIST_MOST bytes.
 */
#include "cpu/cpu_list.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops.h"

cpu_list *cpu_list_create(arena *a, cpu_list **first, int64_t each) {
    cpu_list *list = ARENA_NEW(a, cpu_list);
    if (!list) return NULL;
    *list = (cpu_list){.each = each, .next = *first};
    *first = list;
    return list;
}

void cpu_list_free(cpu_list *first) {
    for (cpu_list *l = first; l; l = l->next) {
        mem_free(l->data);
        l->data = NULL;
        l->length = l->room = 0;
    }
}

propane_status cpu_list_resize(cpu_list *list, int64_t length, const char *where, propane_error *err) {
    const int64_t most = MIL_LIST_MOST / (list->each ? list->each : 1);
    if (length > list->room) {
        const int64_t twice = 2 * list->room < most ? 2 * list->room : most, room = length > twice ? length : twice;
        if (length > most)
            return propane_fail(err, PROPANE_ERR_LIMIT,
                                "%s: a list of %lld elements of %lld bytes exceeds the limit of %lld MB for a list",
                                where, (long long)length, (long long)list->each, (long long)MIL_LIST_MOST >> 20);
        unsigned char *data = mem_resize(list->data, (size_t)(room * list->each) + 1);
        if (!data) return propane_fail_memory(err, (size_t)(room * list->each));
        list->data = data;
        list->room = room;
    }
    if (length > list->length)
        memset(list->data + list->length * list->each, 0, (size_t)((length - list->length) * list->each));
    list->length = length;
    return PROPANE_OK;
}

propane_status cpu_list_assign(cpu_list *to, const cpu_list *from, const char *where, propane_error *err) {
    if (to == from) return PROPANE_OK;
    PROPANE_TRY(cpu_list_resize(to, from->length, where, err));
    memcpy(to->data, from->data, (size_t)(from->length * from->each));
    to->grows = from->grows;
    return PROPANE_OK;
}
