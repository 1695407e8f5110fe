/* SPDX-License-Identifier: MIT
 * Names that exist only while something is being written: PATH.tmp-HEX. Nobody can foretell one, none is opened through a
 * link, and each is locked while its maker lives, so that what a killed process left is known and removed.
 */
#ifndef CORE_BASE_TEMPORARY_H
#define CORE_BASE_TEMPORARY_H

#include "core/base/status.h"

/* A new empty file beside `path`, open for writing and locked until *fd is closed. mem_free *name. Messages name `path`. */
PROPANE_CHECK propane_status temporary_file(const char *path, char **name, int *fd, propane_error *err);
/* A new empty folder beside `path`; *fd is the folder itself, for its lock and for syncing it. */
PROPANE_CHECK propane_status temporary_folder(const char *path, char **name, int *fd, propane_error *err);
/* A new empty folder PREFIX-HEX in TMPDIR (or /tmp) that only this user may enter. mem_free *name. */
PROPANE_CHECK propane_status temporary_scratch(const char *prefix, char **name, propane_error *err);
/* PATH.old-HEX, which nothing has: for what is renamed away for a moment. mem_free it. */
PROPANE_CHECK propane_status temporary_old_name(const char *path, char **name, propane_error *err);

/* Removes this user's PATH.tmp-* that no process holds any more, and PATH.old-* where PATH is there. What cannot be removed stays. */
void temporary_sweep(const char *path);
/* The same for all paths in a folder. */
void temporary_sweep_folder(const char *folder);

#endif
