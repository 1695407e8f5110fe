/* SPDX-License-Identifier: MIT
 * Growable lists of ids. A list must be zeroed initially, and its owner calls token_list_deinit.
 */
#ifndef LM_TEXT_TOKEN_LIST_H
#define LM_TEXT_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

/* A growable list of ids. */
typedef struct token_list {
    int32_t *ids;
    size_t count, capacity;
} token_list;
void token_list_deinit(token_list *list);
PROPANE_CHECK propane_status token_list_add(token_list *list, int32_t id, propane_error *err);
/* Reserves room for `more` ids after the existing ones. */
PROPANE_CHECK propane_status token_list_reserve(token_list *list, size_t more, propane_error *err);
PROPANE_CHECK propane_status token_list_append(token_list *list, const int32_t *ids, size_t count, propane_error *err);

#endif
