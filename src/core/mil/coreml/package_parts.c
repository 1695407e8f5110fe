/* SPDX-License-Identifier: MIT
 * Owns the names by which the models of a pipeline refer to each other's values while the pipeline becomes one program.
 */
#include "core/mil/coreml/package_parts.h"

#include <string.h>

package_link *package_parts_link(package_parts *p, const char *feature) {
    for (int i = p->link_count - 1; i >= 0; i--)
        if (strcmp(p->links[i].feature, feature) == 0) return &p->links[i];
    return NULL;
}

/* The pipeline's inputs get their type from the first part that reads them. */
propane_status package_parts_input(package_parts *p, package_link *link, const Coreml__ValueType *type) {
    Coreml__NamedType *named = package_message_named(&p->ops, link->feature, (Coreml__ValueType *)(uintptr_t)type);
    if (!named) return propane_fail_memory(p->err, 0);
    p->inputs[p->input_count++] = named;
    link->value = link->feature;
    link->type = type;
    return PROPANE_OK;
}
