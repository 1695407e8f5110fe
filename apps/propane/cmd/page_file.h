/* SPDX-License-Identifier: MIT
 * The page of a program's graph as a file, for the commands that take --html.
 */
#ifndef APPS_PROPANE_CMD_PAGE_FILE_H
#define APPS_PROPANE_CMD_PAGE_FILE_H

#include "propane.h"

/* Written whole or not at all; no file that was read is written over. */
PROPANE_CHECK propane_status page_file_write(const propane_module *m, const propane_page_options *options,
                                             const char *path, propane_error *err);
/* The times in a file that `propane run --trace` wrote, by value; mem_free the rows, then json_decref what holds their
 * names. */
PROPANE_CHECK propane_status page_file_read_trace(const char *path, propane_page_value **rows, int *count, void **names,
                                                  propane_error *err);

#endif
