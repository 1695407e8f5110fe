/* SPDX-License-Identifier: MIT
 * Finds models by their names on the Hugging Face hub, such as "Qwen/Qwen2.5-0.5B", in this machine's cache. Nothing is
 * downloaded.
 */
#ifndef LM_FILES_HUB_CACHE_H
#define LM_FILES_HUB_CACHE_H

#include "core/base/status.h"

/* Sets *out, which the caller frees with mem_free, to `name` if a file with this name exists or `name` is not of the
 * form OWNER/NAME. Otherwise sets *out to the model's folder in the cache, in the version that "main" had when it was
 * downloaded. Returns PROPANE_ERR_NOT_FOUND if the cache does not have the model; the message contains the command that
 * downloads it. */
PROPANE_CHECK propane_status hub_cache_find(const char *name, char **out, propane_error *err);

#endif
