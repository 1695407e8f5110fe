/* SPDX-License-Identifier: MIT
 * Declares what the files that write a package share. Private to src/core/mil/coreml/package_*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_WRITER_H
#define CORE_MIL_COREML_PACKAGE_WRITER_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/mil.h"

typedef struct package_writer {
    mil_module *module;
    arena *arena;              /* of the messages; freed once the file is written */
    const mil_function **open; /* per function: its copy for other shapes, or NULL if it has one shape */
    const mil_function *other; /* the copy of the function or block being written */
    propane_error *err;
    bool failed; /* memory ran out */
} package_writer;

/* Allocates zeroed memory for messages, owned by the writer's arena. Returns NULL and sets `failed` if memory
 * runs out. */
void *package_write_take(package_writer *w, size_t bytes);
/* PACKAGE_NEW declares a new message with its defaults, and makes the calling function return NULL if memory runs out.
 * PACKAGE_LIST allocates an empty list of messages, or returns NULL. */
#define PACKAGE_NEW(w, name, type, init)                                                                               \
    type *name = package_write_take(w, sizeof *name);                                                                  \
    if (!name) return NULL;                                                                                            \
    init(name)

#define PACKAGE_LIST(w, type, count) ((type **)package_write_take(w, ((size_t)(count) + 1) * sizeof(type *)))

char *package_write_copy_text(package_writer *w, const char *s);
/* Returns the copy of `f` for other shapes, or NULL if `f` has one shape or is NULL. */
const mil_function *package_write_copy_of(const package_writer *w, const mil_function *f);

/* Fills in the model's description: the interface of "main", or of each function if there are others, and the
 * metadata. */
propane_status package_interface_describe(package_writer *w, Coreml__ModelDescription *d);

#endif
