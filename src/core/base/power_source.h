/* SPDX-License-Identifier: MIT
 * Does this machine run on its battery, is it hot? Then threads that wait do not keep a core awake (core/base/pool.c),
 * and work that can wait does (propane train --background).
 */
#ifndef CORE_BASE_POWER_SOURCE_H
#define CORE_BASE_POWER_SOURCE_H

#include <stdbool.h>

/* False if it is not known. Reads a few small files, or asks the system's library. */
bool power_source_is_battery(void);
/* Linux: by the supplies' folders in `folder`, as /sys/class/power_supply has them. */
bool power_source_is_battery_in(const char *folder);

/* Is the machine too hot to work at full speed? Linux: a zone has reached a trip point at which the system slows it
 * down. macOS: the thermal pressure is heavy or worse. False if it is not known. */
bool power_source_is_hot(void);
/* Linux: by the zones' folders in `folder`, as /sys/class/thermal has them. */
bool power_source_is_hot_in(const char *folder);

#endif
