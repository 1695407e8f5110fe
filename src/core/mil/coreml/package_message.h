/* SPDX-License-Identifier: MIT
 * Declares operations made as messages in an arena. Private to src/core/mil/coreml/package*.c. If memory runs out,
 * `failed` is set in the list of operations, and functions that make a message return NULL. All functions accept NULL
 * messages.
 */
#ifndef CORE_MIL_COREML_PACKAGE_MESSAGE_H
#define CORE_MIL_COREML_PACKAGE_MESSAGE_H

#include "core/base/arena.h"
#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/mil.h"

typedef struct package_ops {
    arena *arena;
    Coreml__Operation **list;
    size_t count, room;
    bool failed;
} package_ops;

mil_dtype package_message_dtype(int code); /* from an element code of the file; MIL_DTYPE_NONE if unknown */
Coreml__ValueType *package_message_type(package_ops *o, mil_dtype dtype, const int64_t *dims,
                                        int rank); /* with NULL dims, all are open */
Coreml__NamedType *package_message_named(package_ops *o, const char *name, Coreml__ValueType *type);
/* Appends an operation with one result, whose dimensions the operation's rule determines. */
Coreml__Operation *package_message_op(package_ops *o, const char *type, const char *result, mil_dtype dtype, int rank);
void package_message_result(package_ops *o, Coreml__Operation *op, const char *result, mil_dtype dtype, int rank);
/* Add arguments: a value by name (several calls with one key make a list), or literals. */
void package_message_arg(package_ops *o, Coreml__Operation *op, const char *key, const char *name);
void package_message_ints(package_ops *o, Coreml__Operation *op, const char *key, const int32_t *values, int count);
void package_message_int(package_ops *o, Coreml__Operation *op, const char *key, int32_t value);
void package_message_bool(package_ops *o, Coreml__Operation *op, const char *key, bool value);
void package_message_float(package_ops *o, Coreml__Operation *op, const char *key, double value); /* fp32 */
void package_message_text(package_ops *o, Coreml__Operation *op, const char *key, const char *value);

#endif
