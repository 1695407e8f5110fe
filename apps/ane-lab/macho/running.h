/* SPDX-License-Identifier: MIT
 * Lists the classes of a library as the running system's Objective-C runtime has them: the methods that a process would
 * really call, with categories merged. macOS only.
 */
#ifndef APPS_ANE_LAB_MACHO_RUNNING_H
#define APPS_ANE_LAB_MACHO_RUNNING_H

#include "apps/ane-lab/macho/macho.h"

/* Returns a function of the runtime, or NULL if none has that name. */
typedef void *running_symbol(void *context, const char *name);

/* Lists the classes of `library`, a path for dlopen. If `symbol` is NULL, loads the library and asks the system's
 * runtime; otherwise, `symbol` finds the runtime's functions, and nothing is loaded. The listing is in the arena. */
PROPANE_CHECK propane_status running_list(const char *library, running_symbol *symbol, void *context, arena *a,
                                          macho_listing *out, propane_error *err);

#endif
