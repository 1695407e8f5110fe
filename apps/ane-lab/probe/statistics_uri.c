/* SPDX-License-Identifier: MIT
 * Owns the option of the ane driver's uri that requests the engine's own times.
 */
#include "apps/ane-lab/probe/statistics_uri.h"

#include <stdio.h>
#include <string.h>

#include "propane.h"

const char *rig_statistics_uri(const char *uri, char out[300]) {
    bool known = propane_uri_names(uri, "ane") && !strstr(uri, "statistics=");
    snprintf(out, 300, "%s%s", uri, !known ? "" : strchr(uri, '?') ? "&statistics=on" : "?statistics=on");
    return out;
}
