/* SPDX-License-Identifier: MIT
 * Work that gives way: the lowest priority, and pauses while the machine runs on its battery or is hot.
 */
#ifndef APPS_PROPANE_CMD_BACKGROUND_H
#define APPS_PROPANE_CMD_BACKGROUND_H

/* The process and the threads that it starts from now on get the time that others leave. Where the system refuses, nothing
 * changes. */
void background_begin(void);
/* Why to pause now; NULL: go on. Asked again and again: the system is looked at once a second. PROPANE_SYSFS names a
 * folder instead of /sys, for tests. */
const char *background_reason(void);

#endif
