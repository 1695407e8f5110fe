/* SPDX-License-Identifier: MIT
 * Declares a call that opens an energy meter for commands. It is the system's meter, or the folder like
 * /sys/class/powercap that PROPANE_POWERCAP names.
 */
#ifndef APPS_PROPANE_POWER_METER_H
#define APPS_PROPANE_POWER_METER_H

#include "core/base/energy.h"

PROPANE_CHECK propane_status power_open(energy_meter **out, propane_error *err);

#endif
