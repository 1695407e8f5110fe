/* SPDX-License-Identifier: MIT
 * The location of this user's cached measurements: a folder `propane` in the system's cache directory. Its
 * contents may be removed at any time.
 */
#ifndef CORE_BASE_USER_CACHE_H
#define CORE_BASE_USER_CACHE_H

#include <stdbool.h>

enum { USER_CACHE_PATH_ROOM = 1200 };

/* Builds $XDG_CACHE_HOME/propane/NAME, ~/Library/Caches/propane/NAME on macOS or ~/.cache/propane/NAME elsewhere. An
 * empty name selects the folder itself. Returns false if the environment defines no such place, or the path is too
 * long. */
bool user_cache_path(const char *name, char path[USER_CACHE_PATH_ROOM]);

#endif
