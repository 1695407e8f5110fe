/* SPDX-License-Identifier: MIT
 * What the files that write a package share. Private to src/core/mil/coreml/package_*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_WRITER_H
#define CORE_MIL_COREML_PACKAGE_WRITER_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/mil.h"

typedef struct package_writer {
    mil_module *module;
    arena *arena;              /* of the messages; gone when the file is written */
    const mil_function **open; /* of each function its copy for other shapes; NULL: it has one shape */
    const mil_function *other; /* the copy of what is being written */
    propane_error *err;
    bool failed; /* no memory */
} package_writer;

/* Memory of the messages: zeroed, owned by the writer's arena; NULL sets `failed`. */
void *package_write_take(package_writer *w, size_t bytes);
/* A new message of a type, set to its defaults; a list of messages. Both leave the caller, or give NULL, without
 * memory. */
#define PACKAGE_NEW(w, name, type, init)                                                                               \
    type *name = package_write_take(w, sizeof *name);                                                                  \
    if (!name) return NULL;                                                                                            \
    init(name)

#define PACKAGE_LIST(w, type, count) ((type **)package_write_take(w, ((size_t)(count) + 1) * sizeof(type *)))

char *package_write_copy_text(package_writer *w, const char *s);
/* The copy of `f` for other shapes that is being written, or `f` itself. */
const mil_function *package_write_copy_of(const package_writer *w, const mil_function *f);

/* Fills the model's description: its interface, the functions' if there are several, and its metadata. */
propane_status package_interface_describe(package_writer *w, Coreml__ModelDescription *d);

#endif
