/* SPDX-License-Identifier: MIT
 * The classes of a library as the running system's Objective-C runtime has them: the methods that a process would
 * really call, with categories merged. macOS only.
 */
#ifndef APPS_ANE_LAB_MACHO_RUNNING_H
#define APPS_ANE_LAB_MACHO_RUNNING_H

#include "apps/ane-lab/macho/macho.h"

/* Returns a function of the runtime, or NULL if none has that name. */
typedef void *running_symbol(void *context, const char *name);

/* Loads `library` (a path for dlopen) and lists its classes. If `symbol` is NULL, the system's runtime is used. Texts
 * are in the arena. */
PROPANE_CHECK propane_status running_list(const char *library, running_symbol *symbol, void *context, arena *a,
                                          macho_listing *out, propane_error *err);

#endif
