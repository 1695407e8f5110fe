/* SPDX-License-Identifier: MIT
 * Declares the writing of a page about training runs to a file, for propane compare and propane report.
 */
#ifndef APPS_PROPANE_CMD_REPORT_FILE_H
#define APPS_PROPANE_CMD_REPORT_FILE_H

#include "report/run/run_set.h"

/* Writes the page completely or not at all. */
PROPANE_CHECK propane_status report_file_write(const run_set *s, const char *path, propane_error *err);

#endif
