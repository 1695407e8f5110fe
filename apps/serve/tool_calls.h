/* SPDX-License-Identifier: MIT
 * Declares the recognition of tool calls in an answer, in the form of the templates of Hermes, Qwen and SmolLM:
 * <tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>.
 */
#ifndef APPS_SERVE_TOOL_CALLS_H
#define APPS_SERVE_TOOL_CALLS_H

#include "core/base/json.h"
#include "core/base/text.h"

/* Returns the calls in OpenAI's form, [{"id", "type", "function": {"name", "arguments"}}], or NULL if there are none.
 * Removes each call from `content`, with the white space before it, and white space at the end. Marks around anything
 * else stay in the content. The ids are made from `seed` and a number. */
json_t *serve_tool_calls(text *content, uint64_t seed);

#endif
