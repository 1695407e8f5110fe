/* SPDX-License-Identifier: MIT
 * Names that exist only while something is being written: PATH.tmp-HEX. Nobody can foretell one, none is opened through
 * a link, and each is locked while its maker lives, so that what a killed process left is known and removed.
 */
#ifndef CORE_BASE_TEMPORARY_H
#define CORE_BASE_TEMPORARY_H

#include <stdbool.h>

#include "core/base/status.h"

/* A new empty file beside `path`, open for writing and locked until *fd is closed. Messages name `path`. *name is
 * listed as being written: temporary_forget, then mem_free it. */
PROPANE_CHECK propane_status temporary_file(const char *path, char **name, int *fd, propane_error *err);
/* A new empty folder beside `path`; *fd is the folder itself, for its lock and for syncing it. */
PROPANE_CHECK propane_status temporary_folder(const char *path, char **name, int *fd, propane_error *err);
/* A new empty folder PREFIX-HEX in TMPDIR (or /tmp) that only this user may enter. mem_free *name. */
PROPANE_CHECK propane_status temporary_scratch(const char *prefix, char **name, propane_error *err);
/* PATH.old-HEX, which nothing has: for what is renamed away for a moment. mem_free it. */
PROPANE_CHECK propane_status temporary_old_name(const char *path, char **name, propane_error *err);

/* Removes this user's PATH.tmp-* that no process holds any more, and PATH.old-* where PATH is there. What cannot be
 * removed stays. */
void temporary_sweep(const char *path);
/* The same for all paths in a folder. */
void temporary_sweep_folder(const char *folder);

/* For a process that a signal ends: what it is writing goes with it. The list is this process's own, not its
 * parent's. */
void temporary_forget(const char *name);      /* NULL: nothing */
void temporary_on_making(void (*call)(void)); /* called before each name is made; set before threads are there */
bool temporary_exists(void);                  /* or is just being made; a signal's handler may ask */
/* Nothing listed is removed in between: for the rename that gives the final name. */
void temporary_freeze(void);
void temporary_thaw(void);
/* Removes all that is listed, and stays frozen: a thread that would rename or forget waits until the process has ended. */
void temporary_remove_all(void);

#endif
