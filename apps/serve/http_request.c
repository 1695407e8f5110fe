/* SPDX-License-Identifier: MIT
 * Owns the parsing of request bodies. Every refusal of a key names that key.
 */
#include "apps/serve/http_request.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "apps/serve/responses.h"
#include "core/base/memory.h"
#include "lm/infer/complete.h"

#define SOURCE "the request"

bool serve_refuse(serve_problem *p, int http, const char *type, const char *param, const char *code, const char *format,
                  ...) {
    va_list args;
    va_start(args, format);
    *p = (serve_problem){.http = http, .type = type, .code = code};
    snprintf(p->param, sizeof p->param, "%s", param ? param : "");
    vsnprintf(p->message, sizeof p->message, format, args);
    va_end(args);
    return false;
}

static bool http_request_invalid(serve_problem *p, const char *param, const char *what) {
    return serve_refuse(p, 400, "invalid_request_error", param, NULL, "%s", what);
}

static bool http_request_no_memory(serve_problem *p) {
    return serve_refuse(p, 500, "server_error", NULL, NULL, "not enough memory for the request");
}

/* ---- single keys ---------------------------------------------------------------------------------------------------- */

static bool http_request_get_real(const json_t *o, const char *key, double min, double max, double *out,
                                  serve_problem *p) {
    propane_error err = {0};
    if (json_get_real(o, SOURCE, key, false, out, &err)) return http_request_invalid(p, key, err.text);
    if (*out >= min && *out <= max) return true;
    return serve_refuse(p, 400, "invalid_request_error", key, NULL, "%s: key '%s' is %g; it must be from %g to %g",
                        SOURCE, key, *out, min, max);
}

static bool http_request_get_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out,
                                 serve_problem *p) {
    propane_error err = {0};
    return json_get_int(o, SOURCE, key, false, min, max, out, &err) == PROPANE_OK ||
           http_request_invalid(p, key, err.text);
}

static bool http_request_get_bool(const json_t *o, const char *key, bool *out, serve_problem *p) {
    propane_error err = {0};
    return json_get_bool(o, SOURCE, key, false, out, &err) == PROPANE_OK || http_request_invalid(p, key, err.text);
}

static bool http_request_get_text(const json_t *o, const char *key, const char **out, serve_problem *p) {
    propane_error err = {0};
    return json_get_text(o, SOURCE, key, false, out, &err) == PROPANE_OK || http_request_invalid(p, key, err.text);
}

static bool http_request_is_there(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v) || json_is_false(v)) return false;
    return !(json_is_object(v) && json_object_size(v) == 0) && !(json_is_array(v) && json_array_size(v) == 0);
}

static bool http_request_refuse_unsupported(const json_t *o, serve_problem *p) {
    static const char *const keys[] = {"logit_bias", "functions", "suffix", "audio", "prediction"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (http_request_is_there(o, keys[i]))
            return serve_refuse(p, 400, "invalid_request_error", keys[i], "unsupported_parameter",
                                "%s: '%s' is not supported; leave it out", SOURCE, keys[i]);
    return true;
}

static bool http_request_read_format(const json_t *o, serve_request *r, serve_problem *p) {
    const json_t *format = json_object_get(o, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!http_request_is_there(o, "response_format") || (type && strcmp(type, "text") == 0)) return true;
    r->json = type && strcmp(type, "json_object") == 0;
    return r->json || serve_refuse(p, 400, "invalid_request_error", "response_format", "unsupported_parameter",
                                   "%s: 'response_format' other than {\"type\": \"json_object\"} or {\"type\": "
                                   "\"text\"} is not supported; leave it out",
                                   SOURCE);
}

/* ---- stop, logprobs, lengths ---------------------------------------------------------------------------------------- */

static bool http_request_add_stop(serve_request *r, const json_t *v, serve_problem *p) {
    const char *s = json_string_value(v);
    if (!s || !*s)
        return http_request_invalid(p, "stop", SOURCE ": key 'stop' must be a string or a list of strings, none empty");
    if (r->stop_count == SERVE_MAX_STOPS)
        return serve_refuse(p, 400, "invalid_request_error", "stop", NULL, "%s: more than %d stop strings", SOURCE,
                            SERVE_MAX_STOPS);
    r->stops[r->stop_count++] = s;
    return true;
}

static bool http_request_read_stops(const json_t *o, serve_request *r, serve_problem *p) {
    const json_t *stop = json_object_get(o, "stop");
    if (!stop || json_is_null(stop)) return true;
    if (!json_is_array(stop)) return http_request_add_stop(r, stop, p);
    for (size_t i = 0; i < json_array_size(stop); i++)
        if (!http_request_add_stop(r, json_array_get(stop, i), p)) return false;
    return true;
}

static bool http_request_read_logprobs(const json_t *o, serve_request *r, serve_problem *p) {
    int64_t n = -1;
    if (!r->chat) {
        if (!http_request_get_int(o, "logprobs", 0, INFER_MAX_LOGPROBS, &n, p)) return false;
        r->logprobs = (int)n;
        return true;
    }
    bool wanted = false;
    if (!http_request_get_bool(o, "logprobs", &wanted, p) ||
        !http_request_get_int(o, "top_logprobs", 0, INFER_MAX_LOGPROBS, &n, p))
        return false;
    if (n >= 0 && !wanted)
        return http_request_invalid(p, "top_logprobs", SOURCE ": 'top_logprobs' needs 'logprobs': true");
    r->logprobs = wanted ? (n > 0 ? (int)n : 0) : -1;
    return true;
}

static bool http_request_read_lengths(const json_t *o, serve_request *r, serve_problem *p) {
    int64_t choices = 1, best_of = 1;
    r->max_tokens = r->chat ? -1 : 16;
    if (!http_request_get_int(o, "max_tokens", 0, INT32_MAX, &r->max_tokens, p)) return false;
    if (r->chat && !http_request_get_int(o, "max_completion_tokens", 0, INT32_MAX, &r->max_tokens, p)) return false;
    if (!http_request_get_int(o, "n", 1, SERVE_MAX_CHOICES, &choices, p)) return false;
    r->choices = (int)choices;
    if (!r->chat && !http_request_get_int(o, "best_of", 1, SERVE_MAX_CHOICES, &best_of, p)) return false;
    if (best_of > 1 && best_of != choices)
        return http_request_invalid(p, "best_of", SOURCE ": 'best_of' other than 'n' is not supported; leave it out");
    return true;
}

static bool http_request_read_stream(const json_t *o, serve_request *r, serve_problem *p) {
    if (!http_request_get_bool(o, "stream", &r->stream, p)) return false;
    const json_t *options = json_object_get(o, "stream_options");
    if (!options || json_is_null(options)) return true;
    if (!json_is_object(options))
        return http_request_invalid(p, "stream_options", SOURCE ": key 'stream_options' must be an object");
    if (!r->stream) return http_request_invalid(p, "stream_options", SOURCE ": 'stream_options' needs 'stream': true");
    return http_request_get_bool(options, "include_usage", &r->include_usage, p);
}

static bool http_request_read_sampling(const json_t *o, serve_request *r, serve_problem *p) {
    infer_sampling *s = &r->sampling;
    int64_t top_k = 0;
    *s = (infer_sampling){.temperature = 1, .top_p = 1, .repetition = 1};
    if (!http_request_get_real(o, "temperature", 0, 2, &s->temperature, p) ||
        !http_request_get_real(o, "top_p", 0, 1, &s->top_p, p) ||
        !http_request_get_real(o, "min_p", 0, 1, &s->min_p, p) ||
        !http_request_get_int(o, "top_k", -1, INT32_MAX, &top_k, p) ||
        !http_request_get_real(o, "repetition_penalty", 0, 100, &s->repetition, p) ||
        !http_request_get_real(o, "frequency_penalty", -2, 2, &s->frequency, p) ||
        !http_request_get_real(o, "presence_penalty", -2, 2, &s->presence, p))
        return false;
    s->top_k = top_k > 0 ? (int)top_k : 0;
    int64_t seed = 0;
    if (!http_request_get_int(o, "seed", INT64_MIN, INT64_MAX, &seed, p)) return false;
    r->seeded = json_is_integer(json_object_get(o, "seed"));
    s->seed = (uint64_t)seed;
    return true;
}

/* ---- prompts and messages ------------------------------------------------------------------------------------------- */

const char *serve_request_key(const serve_request *r) {
    return r->chat ? "messages" : r->embedding ? "input" : "prompt";
}

static bool http_request_wrong_prompt(const serve_request *r, serve_problem *p) {
    const char *key = serve_request_key(r);
    return serve_refuse(p, 400, "invalid_request_error", key, NULL,
                        "%s: key '%s' must be a string, a list of strings, a list of token ids or a list of such lists",
                        SOURCE, key);
}

static bool http_request_read_ids(const json_t *list, serve_request *r, serve_prompt *out, serve_problem *p) {
    size_t n = json_array_size(list);
    *out = (serve_prompt){.ids = ARENA_ARRAY(r->arena, n + 1, int32_t), .count = (int64_t)n};
    if (!out->ids) return http_request_no_memory(p);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v)) return http_request_wrong_prompt(r, p);
        json_int_t id = json_integer_value(v);
        /* -1 is not in any vocabulary, so the engine refuses it */
        out->ids[i] = id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
    }
    return true;
}

static bool http_request_read_prompt(const json_t *v, serve_request *r, serve_prompt *out, serve_problem *p) {
    if (json_is_array(v)) return http_request_read_ids(v, r, out, p);
    if (!json_is_string(v)) return http_request_wrong_prompt(r, p);
    *out = (serve_prompt){.text = json_string_value(v), .count = (int64_t)json_string_length(v)};
    return true;
}

static bool http_request_read_prompts(const json_t *o, serve_request *r, serve_problem *p) {
    const char *key = serve_request_key(r);
    const size_t most = r->embedding ? SERVE_MAX_EMBEDDINGS : SERVE_MAX_PROMPTS;
    const json_t *v = json_object_get(o, key);
    if (!v) return serve_refuse(p, 400, "invalid_request_error", key, NULL, "%s: key '%s' is missing", SOURCE, key);
    bool several = json_is_array(v) && json_array_size(v) > 0 && !json_is_integer(json_array_get(v, 0));
    size_t count = several ? json_array_size(v) : 1;
    if (count * (size_t)r->choices > most)
        return serve_refuse(p, 400, "invalid_request_error", key, NULL,
                            "%s: %zu prompts with %d choices each; one request may have at most %zu answers", SOURCE,
                            count, r->choices, most);
    r->prompts = ARENA_ARRAY(r->arena, count, serve_prompt);
    if (!r->prompts) return http_request_no_memory(p);
    r->prompt_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *prompt = several ? json_array_get(v, i) : v;
        if (several && json_typeof(prompt) != json_typeof(json_array_get(v, 0))) return http_request_wrong_prompt(r, p);
        if (!http_request_read_prompt(prompt, r, &r->prompts[i], p)) return false;
    }
    return true;
}

/* Returns whether a tool has the form {"type": "function", "function": {"name", ...}}. Its other keys are not checked,
 * because only the chat template uses them. */
static bool http_request_is_tool(const json_t *tool) {
    const char *type = json_string_value(json_object_get(tool, "type"));
    return type && strcmp(type, "function") == 0 &&
           json_is_string(json_object_get(json_object_get(tool, "function"), "name"));
}

static bool http_request_read_tools(const json_t *o, serve_request *r, serve_problem *p) {
    const json_t *tools = json_object_get(o, "tools"), *tool;
    const char *choice = json_string_value(json_object_get(o, "tool_choice"));
    size_t i;
    if (http_request_is_there(o, "tools") && !json_is_array(tools))
        return http_request_invalid(p, "tools", SOURCE ": key 'tools' must be a list of functions");
    json_array_foreach(tools, i, tool) if (!http_request_is_tool(tool)) return http_request_invalid(
        p, "tools", SOURCE ": each item of 'tools' must be {\"type\": \"function\", \"function\": {\"name\": ...}}");
    if (http_request_is_there(o, "tool_choice") &&
        (!choice || (strcmp(choice, "auto") != 0 && strcmp(choice, "none") != 0)))
        return serve_refuse(p, 400, "invalid_request_error", "tool_choice", "unsupported_parameter",
                            "%s: 'tool_choice' other than \"auto\" and \"none\" is not supported; leave it out",
                            SOURCE);
    if (json_array_size(tools) > 0 && !(choice && strcmp(choice, "none") == 0)) r->tools = tools;
    return true;
}

static bool http_request_read_messages(const json_t *o, serve_request *r, serve_problem *p) {
    propane_error err = {0};
    const json_t *list = json_object_get(o, "messages");
    if (!json_is_array(list) || json_array_size(list) == 0)
        return http_request_invalid(p, "messages", SOURCE ": key 'messages' must be a list of at least one message");
    if (chat_messages_from_json(list, r->arena, &r->messages, &r->message_count, &err))
        return err.status == PROPANE_ERR_MEMORY ? http_request_no_memory(p)
                                                : http_request_invalid(p, "messages", err.text);
    for (int i = 0; i < r->message_count; i++) /* "developer" is the newer name of the role "system" */
        if (strcmp(r->messages[i].role, "developer") == 0) r->messages[i].role = "system";
    return true;
}

/* Frees the JSON of prompts that are ids. The ids were copied, and as JSON they need twenty times as much memory. */
static void http_request_drop_ids(serve_request *r) {
    bool texts = false;
    for (int i = 0; i < r->prompt_count; i++) texts |= r->prompts[i].text != NULL;
    if (!texts) json_object_del(r->root, serve_request_key(r));
}

/* Reads the keys of a request for embeddings. Keys for sampling and streams are ignored. */
static bool http_request_read_embedding(serve_request *r, serve_problem *p) {
    const json_t *o = r->root;
    const char *format = NULL;
    r->choices = 1;
    r->logprobs = -1;
    if (!http_request_get_text(o, "encoding_format", &format, p) ||
        !http_request_get_int(o, "dimensions", 1, INT32_MAX, &r->dimensions, p) || !http_request_read_prompts(o, r, p))
        return false;
    r->base64 = format && strcmp(format, "base64") == 0;
    if (format && !r->base64 && strcmp(format, "float") != 0)
        return serve_refuse(p, 400, "invalid_request_error", "encoding_format", NULL,
                            "%s: 'encoding_format' is '%.40s'; it must be \"float\" or \"base64\"", SOURCE, format);
    http_request_drop_ids(r);
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------- */

static bool http_request_read_response(serve_request *r, serve_problem *p) {
    responses_problem why = {0};
    if (responses_read(r->root, &why)) return true;
    return serve_refuse(p, 400, "invalid_request_error", why.key, why.unsupported ? "unsupported_parameter" : NULL,
                        "%s: %s", SOURCE, why.why);
}

static bool http_request_read_all(serve_request *r, serve_problem *p) {
    const json_t *o = r->root;
    if (r->response && !http_request_read_response(r, p)) return false;
    if (!json_is_object(o)) return http_request_invalid(p, NULL, SOURCE ": the body must be a JSON object");
    if (!http_request_get_text(o, "model", &r->model, p) || !http_request_refuse_unsupported(o, p)) return false;
    if (r->embedding) return http_request_read_embedding(r, p);
    if (!r->chat && !http_request_get_bool(o, "echo", &r->echo, p)) return false;
    if (!http_request_read_format(o, r, p) || !http_request_read_lengths(o, r, p) ||
        !http_request_read_stream(o, r, p) || !http_request_read_sampling(o, r, p) ||
        !http_request_read_stops(o, r, p) || !http_request_read_logprobs(o, r, p))
        return false;
    if (r->chat) return http_request_read_tools(o, r, p) && http_request_read_messages(o, r, p);
    if (!http_request_read_prompts(o, r, p)) return false;
    http_request_drop_ids(r);
    return true;
}

bool serve_request_check_items(const char *body, size_t length, serve_kind kind, int64_t context,
                               serve_problem *problem) {
    enum { EACH_MESSAGE = 8 }; /* commas in a message of one token, including commas in its text */
    const int64_t most =
        (context + 1) * (kind == SERVE_CHAT || kind == SERVE_RESPONSE ? EACH_MESSAGE : SERVE_MAX_PROMPTS) + 1000;
    int64_t items = 0;
    for (const char *at = body; (at = memchr(at, ',', length - (size_t)(at - body))); at++) items++;
    if (items <= most) return true;
    return serve_refuse(problem, 400, "invalid_request_error", "prompt", "context_length_exceeded",
                        "the request has %lld items, too many for a context of %lld", (long long)items,
                        (long long)context);
}

serve_route serve_route_of(const char *url) {
    static const char *const gets[] = {"/", "/health", "/metrics", "/v1/models"};
    static const char *const posts[] = {"/v1/completions", "/v1/chat/completions", "/v1/embeddings",
                                        "/v1/responses"}; /* indexed by serve_kind */
    for (size_t i = 0; i < sizeof gets / sizeof gets[0]; i++)
        if (strcmp(url, gets[i]) == 0) return SERVE_ROUTE_GET;
    if (strncmp(url, "/v1/models/", 11) == 0) return SERVE_ROUTE_GET;
    for (int k = SERVE_COMPLETION; k <= SERVE_RESPONSE; k++)
        if (strcmp(url, posts[k]) == 0) return SERVE_ROUTE_POST + (serve_route)k;
    return SERVE_ROUTE_NONE;
}

bool serve_request_parse(const char *body, size_t length, serve_kind kind, serve_request *out, serve_problem *problem) {
    propane_error err = {0};
    *out = (serve_request){.response = kind == SERVE_RESPONSE,
                           .chat = kind == SERVE_CHAT || kind == SERVE_RESPONSE,
                           .embedding = kind == SERVE_EMBEDDING,
                           .arena = arena_create()};
    *problem = (serve_problem){0};
    bool good = false;
    if (!out->arena)
        http_request_no_memory(problem);
    else if (json_parse(body, length, SOURCE, &out->root, &err))
        err.status == PROPANE_ERR_MEMORY ? http_request_no_memory(problem)
                                         : http_request_invalid(problem, NULL, err.text);
    else
        good = http_request_read_all(out, problem);
    if (!good) serve_request_deinit(out);
    return good;
}

void serve_request_deinit(serve_request *r) {
    mem_free(r->messages);
    json_decref(r->root);
    r->messages = NULL;
    arena_free(r->arena);
    r->root = NULL;
    r->arena = NULL;
}
