/* SPDX-License-Identifier: MIT
 * Finds models by their names on the Hugging Face hub, such as "Qwen/Qwen2.5-0.5B", in this machine's cache. Nothing is
 * downloaded.
 */
#ifndef LM_FILES_HUB_CACHE_H
#define LM_FILES_HUB_CACHE_H

#include "core/base/status.h"

/* Sets *out, to be freed with mem_free, to `name` if it exists or is not such a name. Otherwise sets it to the
 * model's folder in the cache, in the version of "main" at the time of its download. Returns PROPANE_ERR_NOT_FOUND
 * if the model is not there; the message has the command that downloads it. */
PROPANE_CHECK propane_status hub_cache_find(const char *name, char **out, propane_error *err);

#endif
