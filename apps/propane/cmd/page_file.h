/* SPDX-License-Identifier: MIT
 * Writes the page of a program's graph to a file, for the commands that accept --html.
 */
#ifndef APPS_PROPANE_CMD_PAGE_FILE_H
#define APPS_PROPANE_CMD_PAGE_FILE_H

#include "propane.h"

/* Writes the page, whole or not at all; never overwrites a file that was read. */
PROPANE_CHECK propane_status page_file_write(const propane_module *m, const propane_page_options *options,
                                             const char *path, propane_error *err);
/* Reads the times by value from a file that `propane run --trace` wrote. Free the rows with mem_free, then release
 * the object that holds their names with json_decref. */
PROPANE_CHECK propane_status page_file_read_trace(const char *path, propane_page_value **rows, int *count, void **names,
                                                  propane_error *err);

#endif
