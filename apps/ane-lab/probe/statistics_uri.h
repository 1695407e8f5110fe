/* SPDX-License-Identifier: MIT
 * The engine's own times are only available from a device that was opened for them.
 */
#ifndef APPS_ANE_LAB_PROBE_STATISTICS_URI_H
#define APPS_ANE_LAB_PROBE_STATISTICS_URI_H

/* Returns the uri with the ane driver's statistics=on, which requests the engine's own times; another device's uri is
 * unchanged. */
const char *rig_statistics_uri(const char *uri, char out[300]);

#endif
