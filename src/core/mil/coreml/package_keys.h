/* SPDX-License-Identifier: MIT
 * Declares the keys of inputs of text and dictionaries (mil_keys) in models and packages. Private to src/core/mil.
 */
#ifndef CORE_MIL_COREML_PACKAGE_KEYS_H
#define CORE_MIL_COREML_PACKAGE_KEYS_H

#include "core/base/arena.h"
#include "core/mil/coreml/package.h"

/* The keys of a pipeline's input, found in one of its models. */
typedef struct package_keyed {
    const char *name;
    const mil_keys *keys;
    struct package_keyed *next;
} package_keyed;

/* Adds the keys of a model's inputs to *list. Everything is copied to the arena. */
PROPANE_CHECK propane_status package_keys_note(arena *a, const mil_module *from, package_keyed **list,
                                               propane_error *err);
/* Gives the inputs of text and dictionaries in `m` the keys in the list. Two models that read one input must agree on
 * its keys. */
PROPANE_CHECK propane_status package_keys_attach(mil_module *m, const package_keyed *list, propane_error *err);

/* The metadata of a package holds the keys of input NAME under PACKAGE_KEYS "NAME", as a JSON object. */
#define PACKAGE_KEYS "propane.keys."
/* Moves these entries from the metadata of a package that was read to the package's inputs. */
PROPANE_CHECK propane_status package_keys_take(mil_module *m, propane_error *err);
/* Prints the JSON object of an input's keys; the caller frees *out with mem_free. */
PROPANE_CHECK propane_status package_keys_print(const mil_keys *keys, char **out, propane_error *err);

#endif
