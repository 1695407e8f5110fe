/* SPDX-License-Identifier: MIT
 * Names that exist only while something is being written: PATH.tmp-HEX. They are unpredictable, never opened through a
 * link, and locked while their maker lives, so that leftovers of a killed process are recognized and removed.
 */
#ifndef CORE_BASE_TEMPORARY_H
#define CORE_BASE_TEMPORARY_H

#include <stdbool.h>

#include "core/base/status.h"

/* Creates an empty file in the folder of `path`, open for writing and locked until *fd is closed. Messages name `path`.
 * *name is listed as being written; release it with temporary_forget, then mem_free. */
PROPANE_CHECK propane_status temporary_file(const char *path, char **name, int *fd, propane_error *err);
/* Creates an empty folder in the folder of `path`. *fd is a descriptor of the new folder, for locking and syncing. */
PROPANE_CHECK propane_status temporary_folder(const char *path, char **name, int *fd, propane_error *err);
/* Creates an empty folder PREFIX-HEX in TMPDIR (or /tmp) that only this user may enter. The caller frees *name with
 * mem_free. */
PROPANE_CHECK propane_status temporary_scratch(const char *prefix, char **name, propane_error *err);
/* Sets *name to an unused name PATH.old-HEX, for something that is renamed away for a moment. The caller frees *name
 * with mem_free. */
PROPANE_CHECK propane_status temporary_old_name(const char *path, char **name, propane_error *err);

/* Removes this user's PATH.tmp-* that no process holds a lock on, and PATH.old-* if PATH exists. What cannot be removed
 * stays. */
void temporary_sweep(const char *path);
/* Does what temporary_sweep does, for all names in a folder. */
void temporary_sweep_folder(const char *folder);

/* The names being written are listed, so that a process that a signal ends can remove them. A child does not inherit
 * the list. */
void temporary_forget(const char *name);      /* NULL does nothing */
void temporary_on_making(void (*call)(void)); /* called before each name is made; set it before threads exist */
bool temporary_exists(void);                  /* true if a name is listed or being made; a signal handler may call it */
/* Nothing listed is removed between temporary_freeze and temporary_thaw. They enclose the rename to the final name. */
void temporary_freeze(void);
void temporary_thaw(void);
/* Removes everything listed and stays frozen: a thread that wants to rename or forget waits until the process has
 * ended. */
void temporary_remove_all(void);

#endif
