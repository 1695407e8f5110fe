/* SPDX-License-Identifier: MIT
 * Energy for commands: the system's meter, or the one that PROPANE_POWERCAP names (a folder as /sys/class/powercap).
 */
#ifndef CLI_POWER_H
#define CLI_POWER_H

#include "base/energy.h"

PROPANE_CHECK propane_status power_open(energy_meter **out, propane_error *err);

#endif
