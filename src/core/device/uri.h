/* SPDX-License-Identifier: MIT
 * Parses a device's uri: the driver's name, optionally followed by ':' and a part for the driver, or by '?' and
 * options.
 */
#ifndef CORE_DEVICE_URI_H
#define CORE_DEVICE_URI_H

#include <stdbool.h>
#include <string.h>

static inline size_t device_name_length(const char *uri) { return strcspn(uri, ":?"); }

/* Returns true if the uri names that driver. */
static inline bool device_is(const char *uri, const char *driver) {
    return strlen(driver) == device_name_length(uri) && memcmp(driver, uri, strlen(driver)) == 0;
}

#endif
