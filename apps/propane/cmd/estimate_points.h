/* SPDX-License-Identifier: MIT
 * propane estimate --points: how well the model behind the estimates matches published measurements.
 */
#ifndef APPS_PROPANE_CMD_ESTIMATE_POINTS_H
#define APPS_PROPANE_CMD_ESTIMATE_POINTS_H

#include "core/base/status.h"

/* Prints how well the model matches a table of points (docs/estimate.md). */
PROPANE_CHECK propane_status estimate_points(const char *path, bool json, propane_error *err);

#endif
