/* SPDX-License-Identifier: MIT
 * The engine's own times are only given by a device that was opened for them.
 */
#ifndef APPS_ANE_LAB_PROBE_STATISTICS_URI_H
#define APPS_ANE_LAB_PROBE_STATISTICS_URI_H

/* The uri with the ane driver's statistics=on, which asks for the engine's own times; another device's as it is. */
const char *rig_statistics_uri(const char *uri, char out[300]);

#endif
