/* SPDX-License-Identifier: MIT
 * Views: the positions of a value's elements in a buffer. Plans and copies share them; a view owns nothing.
 */
#ifndef CPU_CPU_VIEW_H
#define CPU_CPU_VIEW_H

#include "core/mil/mil.h"
#include "cpu/cpu_program.h"

typedef struct cpu_view {
    int buffer; /* -1 if the value has no memory (inside a fused step) */
    mil_dtype dtype;
    int rank;
    int64_t offset; /* in elements, like the strides */
    int64_t dim[MIL_MAX_RANK], stride[MIL_MAX_RANK];
} cpu_view;

cpu_view cpu_view_dense(const mil_type *type, int buffer);
bool cpu_view_is_dense(const cpu_view *v);
bool cpu_view_equal(const cpu_view *a, const cpu_view *b);
int64_t cpu_view_count(const cpu_view *v);
/* Views the same elements in another shape. Returns false if that needs a copy, and then leaves `out` (which may be
 * `v`) unchanged. */
bool cpu_view_reshape(const cpu_view *v, int rank, const int64_t *dim, cpu_view *out);
cpu_view cpu_view_permute(const cpu_view *v, const int *perm);
cpu_view cpu_view_part(const cpu_view *v, int axis, int64_t begin, int64_t size);
cpu_view cpu_view_drop(const cpu_view *v, int axis);   /* an axis of extent 1 */
cpu_view cpu_view_insert(const cpu_view *v, int axis); /* an axis of extent 1 */
/* Computes the strides of `v` in a shape that it broadcasts to; a dimension that repeats or has extent 1 has stride
 * 0. */
void cpu_view_spread(const cpu_view *v, int rank, const int64_t *dim, int64_t *stride);
cpu_ref cpu_view_ref(const cpu_view *v);
/* Views an [N, C, H, W] tensor that is stored with its channels innermost. */
cpu_view cpu_view_channels_last(const mil_type *type, int buffer);
bool cpu_view_is_channels_last(const cpu_view *v);
int cpu_view_dtype_bytes(mil_dtype dtype);
int64_t cpu_view_type_bytes(const mil_type *type); /* size of a value's buffer */

#endif
