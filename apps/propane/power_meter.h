/* SPDX-License-Identifier: MIT
 * Opens an energy meter for commands: the system's, or the one that PROPANE_POWERCAP names (a folder like
 * /sys/class/powercap).
 */
#ifndef APPS_PROPANE_POWER_METER_H
#define APPS_PROPANE_POWER_METER_H

#include "core/base/energy.h"

PROPANE_CHECK propane_status power_open(energy_meter **out, propane_error *err);

#endif
