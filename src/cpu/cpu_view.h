/* SPDX-License-Identifier: MIT
 * Views: where the elements of a value lie in a buffer. What plans and what copies share; a view owns nothing.
 */
#ifndef CPU_CPU_VIEW_H
#define CPU_CPU_VIEW_H

#include "core/mil/mil.h"
#include "cpu/cpu_program.h"

typedef struct cpu_view {
    int buffer; /* -1: no memory of its own (inside a fused step) */
    mil_dtype dtype;
    int rank;
    int64_t offset; /* in elements, like the strides */
    int64_t dim[MIL_MAX_RANK], stride[MIL_MAX_RANK];
} cpu_view;

cpu_view cpu_view_dense(const mil_type *type, int buffer);
bool cpu_view_is_dense(const cpu_view *v);
bool cpu_view_equal(const cpu_view *a, const cpu_view *b);
int64_t cpu_view_count(const cpu_view *v);
/* The same elements under another shape; false: not without a copy, `out` (which may be `v`) is left alone. */
bool cpu_view_reshape(const cpu_view *v, int rank, const int64_t *dim, cpu_view *out);
cpu_view cpu_view_permute(const cpu_view *v, const int *perm);
cpu_view cpu_view_part(const cpu_view *v, int axis, int64_t begin, int64_t size);
cpu_view cpu_view_drop(const cpu_view *v, int axis);   /* an axis of extent 1 */
cpu_view cpu_view_insert(const cpu_view *v, int axis); /* an axis of extent 1 */
/* Strides of `v` as seen from a shape that it broadcasts to: 0 where it repeats. */
void cpu_view_spread(const cpu_view *v, int rank, const int64_t *dim, int64_t *stride);
cpu_ref cpu_view_ref(const cpu_view *v);
/* [N, C, H, W] as it lies with its channels innermost. */
cpu_view cpu_view_channels_last(const mil_type *type, int buffer);
bool cpu_view_is_channels_last(const cpu_view *v);
int cpu_view_dtype_bytes(mil_dtype dtype);
int64_t cpu_view_type_bytes(const mil_type *type); /* of the buffer of a value */

#endif
