/* SPDX-License-Identifier: MIT
 * Owns the location of the user's cache. Relative paths in the environment are ignored, as the XDG specification
 * requires.
 */
#include "core/base/user_cache.h"

#include <stdio.h>
#include <stdlib.h>

bool user_cache_path(const char *name, char path[USER_CACHE_PATH_ROOM]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
#ifdef __APPLE__
    const char *inside = "/Library/Caches";
#else
    const char *inside = "/.cache";
#endif
    const bool given = cache && *cache == '/';
    if (!given && !(home && *home == '/')) return false;
    return snprintf(path, USER_CACHE_PATH_ROOM, "%s%s/propane%s%s", given ? cache : home, given ? "" : inside,
                    *name ? "/" : "", name) < USER_CACHE_PATH_ROOM;
}
