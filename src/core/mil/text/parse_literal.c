/* SPDX-License-Identifier: MIT
 * Owns constants in the text: elements, nested lists, BLOBFILE. Elements are collected in a reusable buffer of the
 * parser, so a literal costs one copy. Refuses counts that differ from the type's, and values that its element type
 * cannot hold.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/text/parse_internal.h"

/* ---- literals ------------------------------------------------------------------------------------------------------------ */

static bool parse_element_room(parser *p, mil_dtype dtype) {
    size_t size = dtype == MIL_string ? sizeof(char *) : 8;
    size_t needed = ((size_t)p->element_count + 1) * size;
    if (dtype != MIL_string) { /* packed size, so that the buffer stays close to the constant's size */
        size_t bits = (size_t)mil_dtype_get(dtype)->bits;
        needed = (((size_t)p->element_count + 1) * bits + 7) / 8;
    }
    if (needed <= p->element_room) return true;
    size_t room = p->element_room < 128 ? 256 : p->element_room * 2;
    uint8_t *larger = mem_resize(p->elements, room);
    if (!larger) return false;
    p->elements = larger;
    p->element_room = room;
    return true;
}

/* Reads nan(0x7e01), a NaN given by its bits. */
static propane_status parse_nan_bits(parser *p, mil_dtype dtype) {
    mil_whole bits;
    lex_token t;
    PROPANE_TRY(parse_expect(p, "("));
    t = p->lex.token;
    PROPANE_TRY(parse_read_whole(p, "the bits of a NaN", &bits));
    int width = mil_dtype_get(dtype)->bits;
    if (bits.negative || (width < 64 && bits.magnitude >> width))
        return parse_fail_at(p, &t, "these are not the bits of a %s", mil_dtype_get(dtype)->name);
    mil_element_store_bits(p->elements, dtype, p->element_count, bits.magnitude);
    mil_const c = {.type = {.dtype = dtype}, .data = p->elements};
    double value = mil_const_f64(&c, p->element_count);
    if (value == value) return parse_fail_at(p, &t, "these bits are not a NaN");
    return parse_expect(p, ")");
}

static propane_status parse_real(parser *p, mil_dtype dtype) {
    lex_token t = p->lex.token;
    const char *name = mil_dtype_get(dtype)->name;
    double value;
    if ((t.kind != LEX_NUMBER && t.kind != LEX_NAME) || !mil_number_real(t.start, t.length, &value))
        return parse_unexpected(p, "a number");
    lex_next(&p->lex);
    if (value != value && parse_at(p, "(")) return parse_nan_bits(p, dtype);
    if (!mil_element_store_real(p->elements, dtype, p->element_count, value))
        return parse_fail_at(p, &t, "%.*s is too large for %s; write inf if infinity is meant",
                             (int)(t.length < 40 ? t.length : 40), t.start, name);
    return PROPANE_OK;
}

static propane_status parse_whole(parser *p, mil_dtype dtype) {
    lex_token t = p->lex.token;
    mil_whole value;
    PROPANE_TRY(parse_read_whole(p, "an integer", &value));
    if (mil_element_store_whole(p->elements, dtype, p->element_count, value)) return PROPANE_OK;
    return parse_fail_at(p, &t, "%.*s does not fit %s", (int)(t.length < 40 ? t.length : 40), t.start,
                         mil_dtype_get(dtype)->name);
}

static propane_status parse_bool(parser *p) {
    bool value = parse_at(p, "true");
    if (!value && !parse_at(p, "false")) return parse_unexpected(p, "true or false");
    lex_next(&p->lex);
    p->elements[p->element_count] = value;
    return PROPANE_OK;
}

static propane_status parse_element(parser *p, mil_dtype dtype) {
    if (!parse_element_room(p, dtype)) return parse_no_memory(p);
    switch (mil_dtype_get(dtype)->kind) {
    case MIL_KIND_FLOAT: PROPANE_TRY(parse_real(p, dtype)); break;
    case MIL_KIND_BOOL: PROPANE_TRY(parse_bool(p)); break;
    case MIL_KIND_STRING: {
        const char *string;
        PROPANE_TRY(parse_read_string(p, &string));
        memcpy(p->elements + (size_t)p->element_count * sizeof string, &string, sizeof string);
        break;
    }
    default: PROPANE_TRY(parse_whole(p, dtype));
    }
    p->element_count++;
    return PROPANE_OK;
}

/* Reads "[" element { "," element } "]" with at most `most` elements. */
static propane_status parse_row(parser *p, mil_dtype dtype, int64_t most) {
    int64_t first = p->element_count;
    PROPANE_TRY(parse_expect(p, "["));
    if (most == 0) return parse_expect(p, "]");
    do {
        if (p->element_count - first == most)
            return parse_fail_at(p, &p->lex.token, "more than the type's %lld elements", (long long)most);
        PROPANE_TRY(parse_element(p, dtype));
    } while (parse_accept(p, ","));
    return parse_expect(p, "]");
}

/* Reads a list for dimension `level` of the type. */
static propane_status parse_nested(parser *p, const mil_type *type, int level) {
    lex_token t = p->lex.token;
    int64_t count = 0;
    if (level == type->rank - 1) {
        int64_t first = p->element_count;
        PROPANE_TRY(parse_row(p, type->dtype, type->dim[level]));
        count = p->element_count - first;
    } else {
        PROPANE_TRY(parse_expect(p, "["));
        do {
            if (count == type->dim[level])
                return parse_fail_at(p, &p->lex.token, "more than %lld elements, the type's size in dimension %d",
                                     (long long)count, level);
            PROPANE_TRY(parse_nested(p, type, level + 1));
            count++;
        } while (parse_accept(p, ","));
        PROPANE_TRY(parse_expect(p, "]"));
    }
    if (count == type->dim[level]) return PROPANE_OK;
    return parse_fail_at(p, &t, "%lld element%s in dimension %d, but the type has %lld", (long long)count,
                         text_plural(count), level, (long long)type->dim[level]);
}

/* Reads a tensor's elements, nested like its dimensions or all in one list. */
static propane_status parse_tensor(parser *p, const mil_type *type) {
    lex_token t = p->lex.token;
    if (!parse_at(p, "[")) return parse_unexpected(p, "'[': a list of elements");
    lexer ahead = p->lex;
    lex_next(&ahead);
    if (type->rank == 1 || lex_is(&ahead.token, "[")) return parse_nested(p, type, 0);
    PROPANE_TRY(parse_row(p, type->dtype, mil_type_count(type)));
    if (p->element_count == mil_type_count(type)) return PROPANE_OK;
    return parse_fail_at(p, &t, "%lld elements, but the type has %lld", (long long)p->element_count,
                         (long long)mil_type_count(type));
}

/* Turns the elements read into a constant in the arena. */
static propane_status parse_take_elements(parser *p, const mil_type *type, mil_const **out) {
    arena *a = p->module->arena;
    mil_const *c = ARENA_NEW(a, mil_const);
    if (!c) return parse_no_memory(p);
    c->type = *type;
    c->bytes = mil_type_bytes(type);
    if (mil_dtype_get(type->dtype)->bits % 8) { /* clears the bits after the last element */
        int64_t used = mil_type_count(type) * mil_dtype_get(type->dtype)->bits;
        if (used % 8) p->elements[c->bytes - 1] &= (uint8_t)((1u << (used % 8)) - 1);
    }
    c->data = arena_copy(a, p->elements, (size_t)c->bytes);
    *out = c;
    return c->data ? PROPANE_OK : parse_no_memory(p);
}

/* Begins a string or number inside BLOBFILE or buildInfo. Sets *wrapped to whether its type comes first, and if so
 * consumes the type and the opening bracket. */
static propane_status parse_open_wrapped(parser *p, mil_dtype dtype, bool *wrapped) {
    *wrapped = p->lex.token.kind == LEX_NAME;
    if (!*wrapped) return PROPANE_OK;
    mil_type type;
    lex_token t = p->lex.token;
    PROPANE_TRY(parse_type(p, &type));
    if (type.dtype != dtype || type.rank) return parse_fail_at(p, &t, "expected a %s", mil_dtype_get(dtype)->name);
    return parse_expect(p, "(");
}

propane_status parse_wrapped_string(parser *p, const char **out) {
    bool wrapped;
    PROPANE_TRY(parse_open_wrapped(p, MIL_string, &wrapped));
    PROPANE_TRY(parse_read_string(p, out));
    return wrapped ? parse_expect(p, ")") : PROPANE_OK;
}

static propane_status parse_blobfile(parser *p, const mil_type *type, mil_const **out) {
    lex_token t = p->lex.token;
    mil_whole offset = {0};
    bool wrapped;
    mil_const *c = ARENA_NEW(p->module->arena, mil_const);
    if (!c) return parse_no_memory(p);
    PROPANE_TRY(parse_expect(p, "BLOBFILE"));
    PROPANE_TRY(parse_expect(p, "("));
    PROPANE_TRY(parse_expect(p, "path"));
    PROPANE_TRY(parse_expect(p, "="));
    PROPANE_TRY(parse_wrapped_string(p, &c->blob_path));
    PROPANE_TRY(parse_expect(p, ","));
    PROPANE_TRY(parse_expect(p, "offset"));
    PROPANE_TRY(parse_expect(p, "="));
    PROPANE_TRY(parse_open_wrapped(p, MIL_uint64, &wrapped));
    PROPANE_TRY(parse_read_whole(p, "the offset of a record", &offset));
    if (offset.negative) return parse_fail_at(p, &t, "a negative offset");
    if (wrapped) PROPANE_TRY(parse_expect(p, ")"));
    PROPANE_TRY(parse_expect(p, ")"));
    c->type = *type;
    c->blob_offset = offset.magnitude;
    propane_status status = mil_blob_load(p->module, c, p->err);
    if (status) return propane_fail_prefix(p->err, status, "%s:%d:%d", p->module->source, t.line, t.column);
    *out = c;
    return PROPANE_OK;
}

/* Reads a list's elements, one after the other. */
static propane_status parse_list(parser *p, const mil_type *type) {
    lex_token t = p->lex.token;
    PROPANE_TRY(parse_row(p, type->dtype, mil_type_count(type)));
    if (p->element_count == mil_type_count(type)) return PROPANE_OK;
    return parse_fail_at(p, &t, "%lld elements, but the type has %lld", (long long)p->element_count,
                         (long long)mil_type_count(type));
}

propane_status parse_literal(parser *p, const mil_type *type, mil_const **out) {
    lex_token t = p->lex.token;
    if (type->container != MIL_TENSOR && type->container != MIL_LIST)
        return parse_fail_at(p, &t, "a state or a dict cannot be a literal");
    if (parse_at(p, "BLOBFILE")) return parse_blobfile(p, type, out);
    p->element_count = 0;
    if (type->container == MIL_LIST)
        PROPANE_TRY(parse_list(p, type));
    else
        PROPANE_TRY(type->rank ? parse_tensor(p, type) : parse_element(p, type->dtype));
    return parse_take_elements(p, type, out);
}

/* Reads a literal without its type, which the parameter's class must determine. */
propane_status parse_untyped(parser *p, const mil_param *param, mil_const **out) {
    static const struct {
        mil_class type_class;
        mil_dtype dtype;
        int rank;
    } known[] = {{MIL_CLASS_K_INT, MIL_int32, 0},  {MIL_CLASS_K_INTS, MIL_int32, 1},  {MIL_CLASS_K_BOOL, MIL_bool, 0},
                 {MIL_CLASS_K_BOOLS, MIL_bool, 1}, {MIL_CLASS_K_TEXT, MIL_string, 0}, {MIL_CLASS_K_FLOAT, MIL_fp32, 0},
                 {MIL_CLASS_K_NUM, MIL_fp32, 0}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].type_class != param->type_class) continue;
        mil_type type = mil_type_scalar(known[i].dtype);
        if (known[i].rank == 0) return parse_literal(p, &type, out);
        p->element_count = 0;
        PROPANE_TRY(parse_row(p, type.dtype, INT32_MAX));
        type.rank = 1;
        type.dim[0] = p->element_count;
        return parse_take_elements(p, &type, out);
    }
    return parse_fail_at(p, &p->lex.token,
                         "%s needs a literal with its type, such as fp16(0.5) or tensor<int32, [2]>([1, 2])",
                         param->name);
}
