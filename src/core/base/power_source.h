/* SPDX-License-Identifier: MIT
 * Finds out whether this machine runs on battery and whether it is hot. On battery, waiting threads do not keep a core
 * awake (core/base/pool.c). In both cases, deferrable work waits (propane train --background).
 */
#ifndef CORE_BASE_POWER_SOURCE_H
#define CORE_BASE_POWER_SOURCE_H

#include <stdbool.h>

/* Returns true if this machine runs on battery; false if that is not known. Reads a few small files, or calls a system
 * library. */
bool power_source_is_battery(void);
/* The Linux version, with the supplies' folders in `folder`, laid out like /sys/class/power_supply. */
bool power_source_is_battery_in(const char *folder);

/* Returns true if the machine is too hot to work at full speed; false if that is not known. Linux: a zone has reached a
 * trip point at which the system slows down. macOS: the thermal pressure is heavy or worse. */
bool power_source_is_hot(void);
/* The Linux version, with the zones' folders in `folder`, laid out like /sys/class/thermal. */
bool power_source_is_hot_in(const char *folder);

#endif
