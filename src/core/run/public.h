/* SPDX-License-Identifier: MIT
 * What the files of the public interface share: structures that may grow, texts that change hands, errors that no caller
 * asked for. Everything else of a public call is checked here and done in the rooms below.
 */
#ifndef CORE_RUN_PUBLIC_H
#define CORE_RUN_PUBLIC_H

#include "core/base/need.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/mil.h"

/* So that what is below may look into the error: the caller's, or one that is dropped. */
#define API_ERROR(err)                                                                                                 \
    propane_error api_dropped_ = {0};                                                                                  \
    if (!(err)) (err) = &api_dropped_

/* A structure of the caller's, which begins with its size, into ours of `room` bytes: what a caller of an older header
 * does not have keeps its value. NULL: nothing is given. */
PROPANE_CHECK propane_status api_take(void *to, size_t room, const void *from, const char *what, propane_error *err);
/* The other way round; false: its size is not set. */
bool api_give(void *to, const void *from, size_t room);

/* The caller's shapes as choices of the reader; `out` has room for `count` of them. */
PROPANE_CHECK propane_status api_shape_choices(const propane_shape *shapes, int count, mil_shape_choice *out,
                                               propane_error *err);

/* The text's memory as the caller's; the text is empty afterwards. `length` may be NULL. */
PROPANE_CHECK propane_status api_give_text(text *t, char **out, size_t *length, propane_error *err);

/* The function of that name or NULL, without a message. */
mil_function *api_function(const propane_module *m, const char *name);
mil_dtype api_dtype_in(propane_dtype dtype); /* MIL_DTYPE_NONE: there is none */
propane_dtype api_dtype_out(mil_dtype dtype);

#endif
