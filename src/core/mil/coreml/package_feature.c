/* SPDX-License-Identifier: MIT
 * Owns looking up a function's interface and a feature in a package's description.
 */
#include <string.h>

#include "core/mil/coreml/package.h"

const mil_interface *mil_interface_of(const mil_module *m, const char *function) {
    for (int i = 0; m->package && i < m->package->interface_count; i++)
        if (strcmp(m->package->interfaces[i].function, function) == 0) return &m->package->interfaces[i];
    return NULL;
}

const mil_feature *mil_feature_find(const mil_feature *features, int count, const char *name, int *near) {
    int at = near && *near >= 0 && *near < count ? *near : 0;
    for (int i = 0; i < count; i++, at = at + 1 < count ? at + 1 : 0) {
        if (strcmp(features[at].name, name) != 0) continue;
        if (near) *near = at + 1;
        return &features[at];
    }
    return NULL;
}
