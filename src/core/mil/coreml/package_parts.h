/* SPDX-License-Identifier: MIT
 * Declares the state of joining a pipeline into one program. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_PARTS_H
#define CORE_MIL_COREML_PACKAGE_PARTS_H

#include "core/mil/coreml/package.h"
#include "core/mil/coreml/package_message.h"

/* The name by which the models of a pipeline refer to a value. */
typedef struct package_link {
    const char *feature, *value;   /* value is NULL for an input of the pipeline that has not been read yet */
    const Coreml__ValueType *type; /* of the value */
    bool optional;                 /* an input of the pipeline */
    bool counted;                  /* rows chosen by a suppression, followed by zeros */
    const char *rows;              /* the value that counts these rows; only in a suppression's first link */
} package_link;

/* The state of joining a pipeline. */
typedef struct package_parts {
    mil_module *module;
    const Coreml__ModelDescription *described;
    package_ops ops;
    package_link *links;
    int link_count;
    Coreml__NamedType **inputs; /* of the program */
    int input_count;
    char **results;
    bool late; /* values may be known only at run time (mil_read_options.late) */
    propane_error *err;
} package_parts;

package_link *package_parts_link(package_parts *p, const char *feature); /* returns the newest link, or NULL */
/* Turns `link`, an input of the pipeline, into an input of the program. */
PROPANE_CHECK propane_status package_parts_input(package_parts *p, package_link *link, const Coreml__ValueType *type);

#endif
