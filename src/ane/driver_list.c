/* SPDX-License-Identifier: MIT
 * Owns the array of all drivers, in the order in which they are listed. A new driver needs a declaration and an element
 * of the array.
 */
#include "core/device/driver.h"

extern const propane_driver accel_driver;
extern const propane_driver ane_driver;
extern const propane_driver cpu_driver;
extern const propane_driver null_driver;
extern const propane_driver registers_driver;
extern const propane_driver sim_driver;

const propane_driver *const propane_drivers[] = {&cpu_driver,   &ane_driver,       &sim_driver,
                                                 &accel_driver, &registers_driver, &null_driver};
const int propane_drivers_count = (int)(sizeof propane_drivers / sizeof propane_drivers[0]);
