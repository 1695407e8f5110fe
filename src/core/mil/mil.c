/* SPDX-License-Identifier: MIT
 * Owns the in-memory form: element types, tensor types and the elements of constants. Making, reading and checking
 * operations are elsewhere (ir_edit.c, op_read.c, verify.c).
 */
#include "core/mil/mil.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/ir_edit.h"

/* ---- element types ---------------------------------------------------------------------------------------------------- */

static const mil_dtype_info dtypes[MIL_DTYPE_COUNT] = {
    {"none", MIL_KIND_INT, 0, 0, 0},
#define DTYPE(name, kind, bits, blob, proto) {#name, MIL_KIND_##kind, bits, blob, proto},
#include "core/mil/dtypes.def"
};

const mil_dtype_info *mil_dtype_get(mil_dtype dtype) {
    return &dtypes[dtype < MIL_DTYPE_COUNT ? dtype : MIL_DTYPE_NONE];
}

mil_dtype mil_dtype_from_name(const char *name, size_t length) {
    for (int i = MIL_DTYPE_NONE + 1; i < MIL_DTYPE_COUNT; i++)
        if (strncmp(dtypes[i].name, name, length) == 0 && dtypes[i].name[length] == 0) return (mil_dtype)i;
    return MIL_DTYPE_NONE;
}

bool mil_dtype_is_float(mil_dtype dtype) { return mil_dtype_get(dtype)->kind == MIL_KIND_FLOAT; }

static const char *const opset_names[] = {"none", "ios15", "ios16", "ios17", "ios18"};

const char *mil_opset_name(mil_opset opset) { return opset_names[opset]; }

mil_opset mil_opset_from_name(const char *name, size_t length) {
    for (int i = MIL_IOS15; i <= MIL_IOS18; i++)
        if (length == 5 && memcmp(opset_names[i], name, 5) == 0) return (mil_opset)i;
    return MIL_OPSET_NONE;
}

/* ---- types ---------------------------------------------------------------------------------------------------------------- */

mil_type mil_type_scalar(mil_dtype dtype) { return (mil_type){.dtype = dtype}; }

mil_type mil_type_tensor(mil_dtype dtype, int rank, const int64_t *dim) {
    assert(rank >= 0 && rank <= MIL_MAX_RANK);
    mil_type t = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
    return t;
}

bool mil_shape_equal(const mil_type *a, const mil_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

mil_type mil_type_bare(const mil_type *type) { return mil_type_tensor(type->dtype, type->rank, type->dim); }

bool mil_type_equal(const mil_type *a, const mil_type *b) {
    return a->dtype == b->dtype && a->container == b->container && a->key == b->key && a->length == b->length &&
           mil_shape_equal(a, b);
}

int64_t mil_type_count(const mil_type *type) {
    int64_t count = type->container == MIL_LIST ? type->length : 1;
    for (int i = 0; i < type->rank; i++) count *= type->dim[i];
    return count;
}

int64_t mil_type_bytes(const mil_type *type) {
    int bits = type->dtype == MIL_string ? 8 * (int)sizeof(char *) : dtypes[type->dtype].bits;
    int64_t count = mil_type_count(type);
    return bits >= 8 ? count * (bits / 8) : (count * bits + 7) / 8;
}

bool mil_type_is_open(const mil_type *type) {
    bool open = type->container == MIL_LIST && type->length == MIL_OPEN;
    for (int i = 0; i < type->rank; i++) open |= type->dim[i] == MIL_OPEN || type->dim[i] == MIL_OPEN_RANK;
    return open;
}

void mil_type_settle(mil_type *type, const mil_type *known) {
    mil_type filled = *type;
    if (filled.container == MIL_LIST && filled.length == MIL_OPEN) filled.length = known->length;
    if (filled.rank == 1 && filled.dim[0] == MIL_OPEN_RANK) {
        filled.rank = known->rank;
        memcpy(filled.dim, known->dim, sizeof filled.dim);
    }
    for (int i = 0; i < type->rank && i < known->rank; i++)
        if (filled.dim[i] == MIL_OPEN) filled.dim[i] = known->dim[i];
    if (mil_type_equal(&filled, known)) *type = filled;
}

static bool mil_type_possible(const mil_type *type, bool empty, char why[200]) {
    why[0] = 0;
    if (type->dtype <= MIL_DTYPE_NONE || type->dtype >= MIL_DTYPE_COUNT) {
        snprintf(why, 200, "it has no element type");
    } else if (type->rank < 0 || type->rank > MIL_MAX_RANK) {
        snprintf(why, 200, "its rank is %d; it must be from 0 to %d", type->rank, MIL_MAX_RANK);
    } else {
        int64_t count = type->container == MIL_LIST ? type->length : 1, least = 1;
        if (count < 1 || count > MIL_MAX_ELEMENTS) {
            snprintf(why, 200, "its length is %lld; it must be at least 1", (long long)count);
            return false;
        }
        if (empty && type->container == MIL_TENSOR && type->dtype != MIL_string) least = 0;
        for (int i = 0; i < type->rank && !why[0]; i++) {
            if (type->dim[i] < least) {
                snprintf(why, 200, "dimension %d is %lld; it must be at least %d", i, (long long)type->dim[i],
                         (int)least);
            } else if (count && type->dim[i] > MIL_MAX_ELEMENTS / count) {
                snprintf(why, 200, "it has more than 2^40 elements");
            } else {
                count *= type->dim[i];
            }
        }
    }
    return !why[0];
}

bool mil_type_legal(const mil_type *type, char why[200]) { return mil_type_possible(type, type->rank == 1, why); }

bool mil_type_readable(const mil_type *type, char why[200]) { return mil_type_possible(type, true, why); }

static int mil_print_bare(char *out, size_t room, const mil_type *type) {
    if (type->rank == 0) return snprintf(out, room, "%s", dtypes[type->dtype].name);
    int used = snprintf(out, room, "tensor<%s, [", dtypes[type->dtype].name);
    for (int i = 0; i < type->rank && used < 120; i++)
        used += type->dim[i] == MIL_OPEN || type->dim[i] == MIL_OPEN_RANK
                    ? snprintf(out + used, room - (size_t)used, "%s%s", i ? ", " : "",
                               type->dim[i] == MIL_OPEN ? "?" : "??")
                    : snprintf(out + used, room - (size_t)used, "%s%lld", i ? ", " : "", (long long)type->dim[i]);
    return used + snprintf(out + used, room - (size_t)used, "]>");
}

const char *mil_type_print(char out[160], const mil_type *type) {
    char bare[140];
    mil_print_bare(bare, sizeof bare, type);
    switch (type->container) {
    case MIL_TENSOR: snprintf(out, 160, "%s", bare); break;
    case MIL_STATE: snprintf(out, 160, "state<%s>", bare); break;
    case MIL_DICT: snprintf(out, 160, "dict<%s, %s>", dtypes[type->key].name, bare); break;
    case MIL_LIST:
        if (type->length == MIL_OPEN)
            snprintf(out, 160, "list<%s, ?>", bare);
        else
            snprintf(out, 160, "list<%s, %lld>", bare, (long long)type->length);
        break;
    }
    return out;
}

/* ---- elements of constants -------------------------------------------------------------------------------------------------- */

/* Returns the element's bits, right-aligned; `index` counts elements. */
uint64_t mil_element_bits(const void *data, mil_dtype dtype, int64_t index) {
    const unsigned char *bytes = data;
    int bits = dtypes[dtype].bits;
    if (bits >= 8) {
        uint64_t value = 0;
        int size = bits / 8;
        for (int i = 0; i < size; i++) value |= (uint64_t)bytes[index * size + i] << (8 * i);
        return value;
    }
    int64_t first = index * bits;
    int shift = (int)(first & 7);
    unsigned both = bytes[first >> 3];
    if (shift + bits > 8) both |= (unsigned)bytes[(first >> 3) + 1] << 8;
    return both >> shift & ((1u << bits) - 1);
}

void mil_element_store_bits(void *data, mil_dtype dtype, int64_t index, uint64_t value) {
    unsigned char *bytes = data;
    int bits = dtypes[dtype].bits;
    if (bits >= 8) {
        int size = bits / 8;
        for (int i = 0; i < size; i++) bytes[index * size + i] = (unsigned char)(value >> (8 * i));
        return;
    }
    for (int i = 0; i < bits; i++) {
        int64_t at = index * bits + i;
        unsigned mask = 1u << (at & 7);
        bytes[at >> 3] = (unsigned char)((value >> i & 1) ? bytes[at >> 3] | mask : bytes[at >> 3] & ~mask);
    }
}

bool mil_element_store_whole(void *data, mil_dtype dtype, int64_t index, mil_whole value) {
    const mil_dtype_info *info = &dtypes[dtype];
    if (info->kind == MIL_KIND_FLOAT)
        return mil_element_store_real(data, dtype, index,
                                      value.negative ? -(double)value.magnitude : (double)value.magnitude);
    uint64_t largest = info->kind == MIL_KIND_BOOL   ? 1
                       : info->kind == MIL_KIND_UINT ? UINT64_MAX >> (64 - info->bits)
                                                     : UINT64_MAX >> (65 - info->bits);
    uint64_t lowest = info->kind == MIL_KIND_INT ? largest + 1 : 0;
    if (value.magnitude > (value.negative ? lowest : largest)) return false;
    mil_element_store_bits(data, dtype, index, value.negative ? 0 - value.magnitude : value.magnitude);
    return true;
}

bool mil_element_store_real(void *data, mil_dtype dtype, int64_t index, double value) {
    uint64_t bits = 0;
    bool finite = isfinite(value);
    if (dtypes[dtype].kind != MIL_KIND_FLOAT) {
        double whole = nearbyint(value);
        if (!finite || whole != value || fabs(value) > 0x1p63) return false;
        return mil_element_store_whole(data, dtype, index, (mil_whole){value < 0, (uint64_t)fabs(value)});
    }
    if (dtype == MIL_fp16) {
        bits = fp16_from_f64(value);
        finite = !finite || (bits & 0x7c00) != 0x7c00;
    } else if (dtype == MIL_bf16) {
        bits = bf16_from_f32((float)value);
        finite = !finite || (bits & 0x7f80) != 0x7f80;
    } else if (dtype == MIL_fp32) {
        float single = fabs(value) > 0x1.ffffffp127 ? (float)copysign(INFINITY, value) : (float)value;
        uint32_t word;
        memcpy(&word, &single, sizeof word);
        bits = word;
        finite = !finite || (bits & 0x7f800000) != 0x7f800000;
    } else {
        memcpy(&bits, &value, sizeof bits);
        finite = true;
    }
    mil_element_store_bits(data, dtype, index, bits);
    return finite;
}

double mil_const_f64(const mil_const *c, int64_t index) {
    uint64_t bits = mil_element_bits(c->data, c->type.dtype, index);
    const mil_dtype_info *info = &dtypes[c->type.dtype];
    if (info->kind == MIL_KIND_FLOAT) {
        if (c->type.dtype == MIL_fp16) return fp16_to_f32((uint16_t)bits);
        if (c->type.dtype == MIL_bf16) return bf16_to_f32((uint16_t)bits);
        if (c->type.dtype == MIL_fp32) {
            uint32_t word = (uint32_t)bits;
            float value;
            memcpy(&value, &word, sizeof value);
            return value;
        }
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (info->kind == MIL_KIND_UINT) return (double)bits;
    return (double)mil_const_i64(c, index);
}

int64_t mil_const_i64(const mil_const *c, int64_t index) {
    const mil_dtype_info *info = &dtypes[c->type.dtype];
    if (info->kind == MIL_KIND_FLOAT) {
        double value = mil_const_f64(c, index);
        return value >= 0x1p63    ? INT64_MAX
               : value >= -0x1p63 ? (int64_t)value
                                  : INT64_MIN; /* NaN becomes the lowest value */
    }
    uint64_t bits = mil_element_bits(c->data, c->type.dtype, index);
    if (info->kind == MIL_KIND_BOOL) return bits != 0;
    if (info->kind == MIL_KIND_INT && info->bits < 64 && bits >> (info->bits - 1)) bits |= UINT64_MAX << info->bits;
    return (int64_t)bits;
}

const char *mil_const_text(const mil_const *c, int64_t index) {
    assert(c->type.dtype == MIL_string);
    return ((const char *const *)c->data)[index];
}
