/* SPDX-License-Identifier: MIT
 * Writes the page of runs to a file, for compare and report.
 */
#ifndef APPS_PROPANE_CMD_REPORT_FILE_H
#define APPS_PROPANE_CMD_REPORT_FILE_H

#include "report/run/run_set.h"

/* Writes the page, whole or not at all. */
PROPANE_CHECK propane_status report_file_write(const run_set *s, const char *path, propane_error *err);

#endif
