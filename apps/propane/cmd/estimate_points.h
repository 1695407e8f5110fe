/* SPDX-License-Identifier: MIT
 * Declares propane estimate --points, which shows how well the estimates match published measurements.
 */
#ifndef APPS_PROPANE_CMD_ESTIMATE_POINTS_H
#define APPS_PROPANE_CMD_ESTIMATE_POINTS_H

#include "core/base/status.h"

/* Prints the errors of the estimates for a table of published points (docs/estimate.md). */
PROPANE_CHECK propane_status estimate_points(const char *path, bool json, propane_error *err);

#endif
