/* SPDX-License-Identifier: MIT
 * Energy for commands: the system's meter, or the one that PROPANE_POWERCAP names (a folder as /sys/class/powercap).
 */
#ifndef CLI_DEVICE_LAB_POWER_METER_H
#define CLI_DEVICE_LAB_POWER_METER_H

#include "base/energy.h"

PROPANE_CHECK propane_status power_open(energy_meter **out, propane_error *err);

#endif
