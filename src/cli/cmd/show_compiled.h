/* SPDX-License-Identifier: MIT
 * propane show and propane diff for compiled programs of the engine (.hwx, .anec).
 */
#ifndef CLI_CMD_SHOW_COMPILED_H
#define CLI_CMD_SHOW_COMPILED_H

#include <stdbool.h>

#include "base/status.h"

/* The file's first bytes are a compiled program's. */
bool show_compiled_is(const char *path);
PROPANE_CHECK propane_status show_compiled(const char *path, bool words, bool json, propane_error *err);
/* Prints the fields that differ; *words: how many words do. */
PROPANE_CHECK propane_status show_compiled_difference(const char *a, const char *b, int *words, propane_error *err);

#endif
