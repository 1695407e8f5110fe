/* SPDX-License-Identifier: MIT
 * Owns the arithmetic of views, which covers all layout operations of MIL that move no data.
 */
#include "cpu/cpu_view.h"

#include <assert.h>

int cpu_view_dtype_bytes(mil_dtype dtype) { return (mil_dtype_get(dtype)->bits + 7) / 8; }

int64_t cpu_view_type_bytes(const mil_type *type) {
    if (type->container == MIL_LIST) return cpu_view_dtype_bytes(MIL_int64);
    return mil_type_count(type) * cpu_view_dtype_bytes(type->dtype);
}

cpu_view cpu_view_dense(const mil_type *type, int buffer) {
    cpu_view v = {.buffer = buffer, .dtype = type->dtype, .rank = type->rank};
    int64_t stride = 1;
    if (type->container == MIL_LIST) { /* a list's buffer holds the address of a cpu_list */
        v.dtype = MIL_int64;
        v.rank = 0;
        return v;
    }
    for (int d = type->rank - 1; d >= 0; d--) {
        v.dim[d] = type->dim[d];
        v.stride[d] = stride;
        stride *= type->dim[d];
    }
    return v;
}

bool cpu_view_is_dense(const cpu_view *v) {
    int64_t stride = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (v->dim[d] != 1 && v->stride[d] != stride) return false;
        stride *= v->dim[d];
    }
    return true;
}

bool cpu_view_equal(const cpu_view *a, const cpu_view *b) {
    if (a->buffer != b->buffer || a->dtype != b->dtype || a->rank != b->rank || a->offset != b->offset) return false;
    for (int d = 0; d < a->rank; d++) {
        if (a->dim[d] != b->dim[d]) return false;
        if (a->dim[d] != 1 && a->stride[d] != b->stride[d]) return false;
    }
    return true;
}

int64_t cpu_view_count(const cpu_view *v) {
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++) n *= v->dim[d];
    return n;
}

/* Divides the old and the new dimensions, from the front, into groups with equal products. The old dimensions of a
 * group must be contiguous in memory. */
bool cpu_view_reshape(const cpu_view *v, int rank, const int64_t *dim, cpu_view *out) {
    cpu_view old = *v, made = *v;
    old.rank = 0;
    for (int d = 0; d < v->rank; d++)
        if (v->dim[d] != 1) {
            old.dim[old.rank] = v->dim[d];
            old.stride[old.rank++] = v->stride[d];
        }
    made.rank = rank;
    for (int d = 0; d < rank; d++) {
        made.dim[d] = dim[d];
        made.stride[d] = 1;
    }
    int i = 0, j = 0;
    while (i < old.rank && j < rank) {
        int i_end = i + 1, j_end = j + 1;
        int64_t a = old.dim[i], b = dim[j];
        while (a != b) {
            if (a < b) {
                if (i_end == old.rank) return false;
                a *= old.dim[i_end++];
            } else {
                if (j_end == rank) return false;
                b *= dim[j_end++];
            }
        }
        for (int k = i; k + 1 < i_end; k++)
            if (old.stride[k] != old.stride[k + 1] * old.dim[k + 1]) return false;
        int64_t stride = old.stride[i_end - 1];
        for (int k = j_end - 1; k >= j; k--) {
            made.stride[k] = stride;
            stride *= dim[k];
        }
        i = i_end;
        j = j_end;
    }
    *out = made;
    return true;
}

cpu_view cpu_view_permute(const cpu_view *v, const int *perm) {
    cpu_view out = *v;
    for (int d = 0; d < v->rank; d++) {
        out.dim[d] = v->dim[perm[d]];
        out.stride[d] = v->stride[perm[d]];
    }
    return out;
}

cpu_view cpu_view_part(const cpu_view *v, int axis, int64_t begin, int64_t size) {
    cpu_view out = *v;
    out.offset += begin * v->stride[axis];
    out.dim[axis] = size;
    return out;
}

cpu_view cpu_view_drop(const cpu_view *v, int axis) {
    cpu_view out = *v;
    for (int d = axis; d + 1 < v->rank; d++) {
        out.dim[d] = v->dim[d + 1];
        out.stride[d] = v->stride[d + 1];
    }
    out.rank--;
    return out;
}

cpu_view cpu_view_insert(const cpu_view *v, int axis) {
    assert(v->rank < MIL_MAX_RANK);
    cpu_view out = *v;
    for (int d = v->rank; d > axis; d--) {
        out.dim[d] = v->dim[d - 1];
        out.stride[d] = v->stride[d - 1];
    }
    out.dim[axis] = 1;
    out.stride[axis] = 0;
    out.rank++;
    return out;
}

void cpu_view_spread(const cpu_view *v, int rank, const int64_t *dim, int64_t *stride) {
    for (int d = 0; d < rank; d++) {
        int own = d - (rank - v->rank);
        stride[d] = own < 0 || v->dim[own] == 1 || dim[d] == 1 ? 0 : v->stride[own];
    }
}

cpu_ref cpu_view_ref(const cpu_view *v) { return (cpu_ref){v->buffer, v->offset * cpu_view_dtype_bytes(v->dtype)}; }

/* ---- images ------------------------------------------------------------------------------------------------------ */

cpu_view cpu_view_channels_last(const mil_type *type, int buffer) {
    cpu_view v = cpu_view_dense(type, buffer);
    v.stride[1] = 1;
    v.stride[3] = type->dim[1];
    v.stride[2] = type->dim[3] * v.stride[3];
    return v;
}

bool cpu_view_is_channels_last(const cpu_view *v) {
    return v->rank == 4 && v->stride[1] == 1 && v->dim[1] > 1 && v->dim[2] * v->dim[3] > 1 && v->stride[3] >= v->dim[1];
}
