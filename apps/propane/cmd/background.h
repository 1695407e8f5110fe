/* SPDX-License-Identifier: MIT
 * Declares background work, which runs at the lowest priority and pauses while the machine runs on battery or is hot.
 */
#ifndef APPS_PROPANE_CMD_BACKGROUND_H
#define APPS_PROPANE_CMD_BACKGROUND_H

/* Lowers the priority of the process and of threads that it starts from now on. Does nothing if the system refuses. */
void background_begin(void);
/* Returns the reason to pause now, or NULL to continue. May be called often, because it queries the system at most once
 * per second. For tests, PROPANE_SYSFS names a folder to use instead of /sys. */
const char *background_reason(void);

#endif
