/* SPDX-License-Identifier: MIT
 * Owns the lookup of interfaces by the name of their function, and of features by name.
 */
#include <string.h>

#include "core/mil/coreml/package.h"

const mil_interface *mil_interface_of(const mil_module *m, const char *function) {
    for (int i = 0; m->package && i < m->package->interface_count; i++)
        if (strcmp(m->package->interfaces[i].function, function) == 0) return &m->package->interfaces[i];
    return NULL;
}

static mil_feature *package_feature_list(const mil_interface *seen, propane_role role, int *count) {
    *count = role == PROPANE_INPUT    ? seen->input_count
             : role == PROPANE_OUTPUT ? seen->output_count
                                      : seen->state_count;
    return role == PROPANE_INPUT ? seen->inputs : role == PROPANE_OUTPUT ? seen->outputs : seen->states;
}

mil_feature *mil_feature_find(const mil_interface *seen, propane_role role, const char *name) {
    int count = 0;
    if (!seen) return NULL;
    mil_feature *list = package_feature_list(seen, role, &count);
    if (seen->by_name[role].count) {
        const int32_t at = piece_map_index(&seen->by_name[role], name);
        return at < 0 ? NULL : &list[at];
    }
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

const char *mil_feature_inside(const mil_interface *seen, propane_role role, const char *called) {
    int count = 0;
    const mil_feature *list = seen ? package_feature_list(seen, role, &count) : NULL;
    for (int i = 0; i < count; i++)
        if (list[i].called && strcmp(list[i].called, called) == 0) return list[i].name;
    return NULL;
}

static bool package_feature_enter(piece_map *map, const char *name, int at) {
    return piece_map_enter(map, name, strlen(name), at) != NULL;
}

bool mil_interface_index(mil_interface *seen) {
    for (int role = PROPANE_INPUT; role <= PROPANE_STATE; role++) {
        int count = 0;
        piece_map made = {0};
        const mil_feature *list = package_feature_list(seen, (propane_role)role, &count);
        bool done = true;
        for (int i = 0; i < count && done; i++) done = package_feature_enter(&made, list[i].name, i);
        piece_map_deinit(&seen->by_name[role]);
        seen->by_name[role] = made;
        if (!done) return false;
    }
    return true;
}

bool mil_interface_rename_output(mil_interface *seen, const char *from, const char *to) {
    piece_map *map = &seen->by_name[PROPANE_OUTPUT];
    mil_feature *f = mil_feature_find(seen, PROPANE_OUTPUT, from);
    if (!f) return true;
    f->name = to;
    f->passed = from;
    if (!map->count) return true;
    *piece_map_find(map, from, strlen(from)) = -1;
    return package_feature_enter(map, to, (int)(f - seen->outputs));
}

bool mil_interface_unite_outputs(mil_interface *seen) {
    piece_map found = {0};
    int kept = 0;
    bool done = true;
    for (int i = 0; i < seen->output_count && done; i++) {
        const mil_feature one = seen->outputs[i];
        const int32_t *at = piece_map_enter(&found, one.name, strlen(one.name), i);
        done = at != NULL;
        if (done && *at == i) seen->outputs[kept++] = one;
    }
    if (done) seen->output_count = kept;
    piece_map_deinit(&found);
    return done && mil_interface_index(seen);
}

void mil_package_deinit(struct mil_package *p) {
    for (int i = 0; p && i < p->interface_count; i++)
        for (int role = PROPANE_INPUT; role <= PROPANE_STATE; role++) piece_map_deinit(&p->interfaces[i].by_name[role]);
}
