/* SPDX-License-Identifier: MIT
 * Helpers for the files of the public interface: structures that may grow, texts that change ownership, errors that the
 * caller did not request. Public calls check their arguments in this folder; the layers below do the work.
 */
#ifndef CORE_RUN_PUBLIC_H
#define CORE_RUN_PUBLIC_H

#include "core/base/need.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/mil.h"

/* Makes `err` valid for the layers below. If the caller passed NULL, errors are written to a local variable and
 * discarded. */
#define API_ERROR(err)                                                                                                 \
    propane_error api_dropped_ = {0};                                                                                  \
    if (!(err)) (err) = &api_dropped_

/* Copies the caller's structure, which begins with its size, into ours of `room` bytes. Fields that an older header
 * does not have keep their values. NULL copies nothing. */
PROPANE_CHECK propane_status api_take(void *to, size_t room, const void *from, const char *what, propane_error *err);
/* Copies our structure to the caller's. Returns false if `to` is NULL or its size is not set. */
bool api_give(void *to, const void *from, size_t room);

/* Converts the caller's shapes to choices for the reader; `out` has room for `count` of them. */
PROPANE_CHECK propane_status api_shape_choices(const propane_shape *shapes, int count, mil_shape_choice *out,
                                               propane_error *err);

/* Hands the text's memory to the caller, who frees it with propane_free, and empties the text. `length` may be NULL. */
PROPANE_CHECK propane_status api_give_text(text *t, char **out, size_t *length, propane_error *err);

/* Returns the function of that name or NULL, without a message. */
mil_function *api_function(const propane_module *m, const char *name);
mil_dtype api_dtype_in(propane_dtype dtype); /* returns MIL_DTYPE_NONE if there is none */
propane_dtype api_dtype_out(mil_dtype dtype);

#endif
