/* SPDX-License-Identifier: MIT
 * Declares lists of token ids, and the parsing of ids as people write them: integers separated by white space or
 * commas.
 */
#ifndef APPS_PROPANE_IDS_H
#define APPS_PROPANE_IDS_H

#include "core/base/status.h"

typedef struct id_list {
    int32_t *ids; /* freed by ids_deinit, or with propane_free by an owner that takes it */
    int64_t count, room;
} id_list;

PROPANE_CHECK propane_status ids_add(id_list *list, int32_t id, propane_error *err);
PROPANE_CHECK propane_status ids_append(id_list *list, const int32_t *ids, int64_t count, propane_error *err);
void ids_deinit(id_list *list);
/* Parses ids. `source` names the text in messages; each id must be between 0 and vocab - 1. */
PROPANE_CHECK propane_status ids_parse(const char *data, size_t length, const char *source, int64_t vocab, id_list *out,
                                       propane_error *err);

#endif
