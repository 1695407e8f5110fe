/* SPDX-License-Identifier: MIT
 * Does this machine run on its battery? Then threads that wait do not keep a core awake (core/base/pool.c).
 */
#ifndef CORE_BASE_POWER_SOURCE_H
#define CORE_BASE_POWER_SOURCE_H

#include <stdbool.h>

/* False where nobody says. Reads a few small files, or asks the system's library. */
bool power_source_is_battery(void);
/* Linux: by the supplies' folders in `folder`, as /sys/class/power_supply has them. */
bool power_source_is_battery_in(const char *folder);

#endif
