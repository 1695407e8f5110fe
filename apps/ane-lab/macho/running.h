/* SPDX-License-Identifier: MIT
 * The classes of a library as the running system's Objective-C runtime has them: what the process would really call,
 * after categories and all. macOS only.
 */
#ifndef APPS_ANE_LAB_MACHO_RUNNING_H
#define APPS_ANE_LAB_MACHO_RUNNING_H

#include "apps/ane-lab/macho/macho.h"

/* The functions of the runtime; NULL: there is none of that name. */
typedef void *running_symbol(void *context, const char *name);

/* Loads `library` (a path that dlopen takes) and lists its classes; `symbol` NULL: the system's own runtime. Texts live
 * in the arena. */
PROPANE_CHECK propane_status running_list(const char *library, running_symbol *symbol, void *context, arena *a,
                                          macho_listing *out, propane_error *err);

#endif
