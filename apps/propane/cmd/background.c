/* SPDX-License-Identifier: MIT
 * Owns the priority of a process with --background, and the reasons for which it pauses.
 */
#include "apps/propane/cmd/background.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sched.h>
#endif

#include "core/base/clock.h"
#include "core/base/power_source.h"

void background_begin(void) {
#if defined(__APPLE__)
    (void)setpriority(PRIO_DARWIN_PROCESS, 0,
                      PRIO_DARWIN_BG); /* efficiency cores, lowest priority for input and output */
#else
    enum { LOWEST = 19 };
    (void)setpriority(PRIO_PROCESS, 0, LOWEST);
#ifdef SCHED_IDLE
    (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
#endif
#endif
}

static bool background_on_battery(const char *sysfs) {
    char folder[1100];
    if (!sysfs) return power_source_is_battery();
    snprintf(folder, sizeof folder, "%s/class/power_supply", sysfs);
    return power_source_is_battery_in(folder);
}

static bool background_is_hot(const char *sysfs) {
    char folder[1100];
    if (!sysfs) return power_source_is_hot();
    snprintf(folder, sizeof folder, "%s/class/thermal", sysfs);
    return power_source_is_hot_in(folder);
}

const char *background_reason(void) {
    static int64_t looked_ns;
    static const char *reason;
    const int64_t now = clock_ns();
    if (looked_ns && now - looked_ns < 1000000000) return reason;
    const char *sysfs = getenv("PROPANE_SYSFS");
    looked_ns = now;
    reason = background_on_battery(sysfs) ? "the machine runs on its battery"
             : background_is_hot(sysfs)   ? "the machine is hot"
                                          : NULL;
    return reason;
}
