/* SPDX-License-Identifier: MIT
 * Declares the writing of a program's graph to an HTML file, for the commands that accept --html.
 */
#ifndef APPS_PROPANE_CMD_PAGE_FILE_H
#define APPS_PROPANE_CMD_PAGE_FILE_H

#include "propane.h"

/* Writes the page completely or not at all. Refuses to overwrite a file that this process has read. */
PROPANE_CHECK propane_status page_file_write(const propane_module *m, const propane_page_options *options,
                                             const char *path, propane_error *err);
/* Reads the time of each value from a file that `propane run --trace` wrote. Free *rows with mem_free. *names is a JSON
 * object that holds the names in the rows; release it afterwards with json_decref. */
PROPANE_CHECK propane_status page_file_read_trace(const char *path, propane_page_value **rows, int *count, void **names,
                                                  propane_error *err);

#endif
