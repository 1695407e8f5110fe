/* SPDX-License-Identifier: MIT
 * Tool calls in an answer, in the form of the templates of Hermes, Qwen and SmolLM: <tool_call>{"name": "weather",
 * "arguments": {"city": "Bern"}}</tool_call>.
 */
#ifndef APPS_SERVE_TOOL_CALLS_H
#define APPS_SERVE_TOOL_CALLS_H

#include "core/base/json.h"
#include "core/base/text.h"

/* Returns the calls in OpenAI's form, [{"id", "type", "function": {"name", "arguments"}}], or NULL if there are none.
 * They are cut out of `content` together with the white space around them. Anything that is not such an object stays in
 * the content. The ids are made from `seed` and a number. */
json_t *serve_tool_calls(text *content, uint64_t seed);

#endif
