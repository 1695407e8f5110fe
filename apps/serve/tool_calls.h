/* SPDX-License-Identifier: MIT
 * Calls of tools in an answer, as the templates of Hermes, Qwen and SmolLM have them:
 * <tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>.
 */
#ifndef APPS_SERVE_TOOL_CALLS_H
#define APPS_SERVE_TOOL_CALLS_H

#include "core/base/json.h"
#include "core/base/text.h"

/* The calls as OpenAI has them, [{"id", "type", "function": {"name", "arguments"}}], cut out of `content`, the white
 * space before and after them, too; NULL: there are none. What is not such an object stays in the content. `seed` and a
 * number make the ids. */
json_t *serve_tool_calls(text *content, uint64_t seed);

#endif
