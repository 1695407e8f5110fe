/* SPDX-License-Identifier: MIT
 * A pipeline on its way to one program. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_PARTS_H
#define CORE_MIL_COREML_PACKAGE_PARTS_H

#include "core/mil/coreml/package.h"
#include "core/mil/coreml/package_message.h"

/* What the models of a pipeline call each other's values. */
typedef struct package_link {
    const char *feature, *value;   /* value NULL: an input of the pipeline that has not been read yet */
    const Coreml__ValueType *type; /* of the value */
    bool optional;                 /* an input of the pipeline */
    bool counted;                  /* rows that a suppression chose, zeros after them */
    const char *rows;              /* the value that counts them; on the first of its links alone */
} package_link;

/* A pipeline on its way to one program. */
typedef struct package_parts {
    mil_module *module;
    const Coreml__ModelDescription *described;
    package_ops ops;
    package_link *links;
    int link_count;
    Coreml__NamedType **inputs; /* of the program */
    int input_count;
    char **results;
    bool late; /* values may decide at run time (mil_read_options.late) */
    propane_error *err;
} package_parts;

package_link *package_parts_link(package_parts *p, const char *feature); /* the newest; NULL: none */
/* `link`, an input of the pipeline, becomes one of the program. */
PROPANE_CHECK propane_status package_parts_input(package_parts *p, package_link *link, const Coreml__ValueType *type);

#endif
