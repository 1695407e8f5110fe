/* SPDX-License-Identifier: MIT
 * Requests the engine's own times, which are available only from a device that was opened with an option for them.
 */
#ifndef APPS_ANE_LAB_PROBE_STATISTICS_URI_H
#define APPS_ANE_LAB_PROBE_STATISTICS_URI_H

/* Returns `out`, the uri with the ane driver's option statistics=on. A uri of another device, or one that has the
 * option, is unchanged. */
const char *rig_statistics_uri(const char *uri, char out[300]);

#endif
