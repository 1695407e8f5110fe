/* SPDX-License-Identifier: MIT
 * JSON through jansson, with Propane's errors: "PATH: line L, column C: what" and "PATH: key 'x' must be an integer".
 */
#ifndef CORE_BASE_JSON_H
#define CORE_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "core/base/status.h"

/* Duplicate keys are refused; depth is bounded by jansson (2048). json_decref the result. */
/* What jansson reads, but a byte order mark at the front is skipped and integers beyond 64 bits are real ones. NULL:
 * why is in *e. */
json_t *json_load(const char *data, size_t length, json_error_t *e);
PROPANE_CHECK propane_status json_parse(const char *data, size_t length, const char *source, json_t **out,
                                        propane_error *err);
/* The same where strings may hold NUL: ask for their lengths. */
PROPANE_CHECK propane_status json_parse_nul(const char *data, size_t length, const char *source, json_t **out,
                                            propane_error *err);
PROPANE_CHECK propane_status json_read(const char *path, size_t limit, json_t **out, propane_error *err);
/* The value into the object or list, which take it; NULL is a number or text that JSON cannot say, and becomes null.
 * Results are not asked for: a lack of memory is remembered (core/base/memory.h) and reported by json_print. */
void json_put(json_t *object, const char *key, json_t *value);
void json_add(json_t *list, json_t *value);
/* Bytes out of files, which need not be UTF-8: what is none becomes U+FFFD, and so does a NUL. NULL string: null. */
json_t *json_bytes(const char *bytes, size_t length);
json_t *json_words(const char *string);
/* All of it as text, terminated, in memory of its own (mem_free), or an error: also where anything failed as it was put
 * together. length may be NULL. */
PROPANE_CHECK propane_status json_print(const json_t *value, size_t flags, char **out, size_t *length,
                                        propane_error *err);
/* The same, read again before it is trusted: for files. */
PROPANE_CHECK propane_status json_print_checked(const json_t *value, size_t flags, char **out, size_t *length,
                                                propane_error *err);
PROPANE_CHECK propane_status json_write(const char *path, const json_t *value, size_t flags, propane_error *err);
/* The value of a key. Required: a missing key is an error; otherwise *out stays as it is. null counts as missing. */
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
