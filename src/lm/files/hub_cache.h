/* SPDX-License-Identifier: MIT
 * Models by their names on the Hugging Face hub, "Qwen/Qwen2.5-0.5B", where they lie in this machine's cache. Nothing
 * is fetched.
 */
#ifndef LM_FILES_HUB_CACHE_H
#define LM_FILES_HUB_CACHE_H

#include "core/base/status.h"

/* *out, to be mem_freed: `name` itself where it exists or is no such name; otherwise its folder in the cache, in the
 * version that "main" was when it was fetched. PROPANE_ERR_NOT_FOUND: it is not there; the message has the command that
 * fetches it. */
PROPANE_CHECK propane_status hub_cache_find(const char *name, char **out, propane_error *err);

#endif
