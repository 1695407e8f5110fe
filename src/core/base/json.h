/* SPDX-License-Identifier: MIT
 * JSON through jansson, with Propane's errors: "PATH: line L, column C: what" and "PATH: key 'x' must be an integer".
 */
#ifndef CORE_BASE_JSON_H
#define CORE_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "core/base/status.h"

/* All functions that parse refuse duplicate keys, and jansson limits the depth to 2048. The caller frees the result
 * with json_decref. */
/* Parses JSON with jansson, but skips a leading byte order mark and turns integers beyond 64 bits into reals. Returns
 * NULL on failure, with the reason in *e. */
json_t *json_load(const char *data, size_t length, json_error_t *e);
PROPANE_CHECK propane_status json_parse(const char *data, size_t length, const char *source, json_t **out,
                                        propane_error *err);
/* Like json_parse, but strings may contain NUL, so callers must use their lengths. */
PROPANE_CHECK propane_status json_parse_nul(const char *data, size_t length, const char *source, json_t **out,
                                            propane_error *err);
PROPANE_CHECK propane_status json_read(const char *path, size_t limit, json_t **out, propane_error *err);
/* Add a value to an object or list, which takes ownership of the value. A NULL value, such as a number that JSON cannot
 * express, becomes null. A lack of memory is remembered (core/base/memory.h) and reported by json_print. */
void json_put(json_t *object, const char *key, json_t *value);
void json_add(json_t *list, json_t *value);
/* Make a JSON string from bytes that may not be UTF-8: invalid bytes and NUL become U+FFFD. Return NULL, which json_put
 * and json_add turn into null, if the argument is NULL or memory runs out. */
json_t *json_bytes(const char *bytes, size_t length);
json_t *json_words(const char *string);
/* Prints the whole value as terminated text, which the caller frees with mem_free. Also fails if memory ran out while
 * the value was built. length may be NULL. */
PROPANE_CHECK propane_status json_print(const json_t *value, size_t flags, char **out, size_t *length,
                                        propane_error *err);
/* Like json_print, but parses the text again to verify it, for text that is written to a file. */
PROPANE_CHECK propane_status json_print_checked(const json_t *value, size_t flags, char **out, size_t *length,
                                                propane_error *err);
PROPANE_CHECK propane_status json_write(const char *path, const json_t *value, size_t flags, propane_error *err);
/* Gets the value of a key. If required, a missing key is an error; otherwise *out stays unchanged. null counts as
 * missing. */
PROPANE_CHECK propane_status json_get_int(const json_t *object, const char *source, const char *key, bool required,
                                          int64_t min, int64_t max, int64_t *out, propane_error *err);
PROPANE_CHECK propane_status json_get_real(const json_t *object, const char *source, const char *key, bool required,
                                           double *out, propane_error *err);
PROPANE_CHECK propane_status json_get_bool(const json_t *object, const char *source, const char *key, bool required,
                                           bool *out, propane_error *err);
/* *out points into the object. */
PROPANE_CHECK propane_status json_get_text(const json_t *object, const char *source, const char *key, bool required,
                                           const char **out, propane_error *err);

#endif
