/* SPDX-License-Identifier: MIT
 * Converts instruction data with the keys of other programs to messages with roles:
 *
 *     {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}], "system": "..."}   ShareGPT
 *     {"instruction": "Add.", "input": "1 2", "output": "3", "system": "...", "history": [["...", "..."]]}         Alpaca
 */
#ifndef LM_DATA_EXAMPLE_KEYS_H
#define LM_DATA_EXAMPLE_KEYS_H

#include "core/base/json.h"

/* Sets *out to an array of {"role", "content"}, which the caller owns, or to NULL if the object has other keys. */
PROPANE_CHECK propane_status example_keys_messages(const json_t *object, json_t **out, propane_error *err);

#endif
