/* SPDX-License-Identifier: MIT
 * Owns the grammar. One token of lookahead, no recursion deeper than a tensor's rank, every name in a hash table: linear
 * in the text. Each operation is verified where it stands, so messages come in the order of the text.
 *
 *   program   = "program" "(" version ")" [ "[" "buildInfo" "=" dict "]" ] "{" function* "}"
 *   function  = "func" NAME "<" opset ">" "(" [ type NAME { "," type NAME } ] ")"
 *               "{" statement* "}" "->" "(" NAME { "," NAME } ")" [ ";" ]
 *   statement = [ type NAME { "," type NAME } "=" ] OP "(" [ argument { "," argument } ] ")"
 *               [ "[" argument { "," argument } "]" ] [ block { "," block } ] ";"
 *   block     = [ "(" type NAME { "," type NAME } ")" ] "{" statement* "}" "->" "(" NAME { "," NAME } ")"
 *   argument  = NAME "=" ( value | "(" value { "," value } ")" )
 *   value     = NAME | type "(" literal ")" | literal       (a bare literal where the parameter tells its type)
 *   literal   = element | "[" literal { "," literal } "]" | "BLOBFILE" "(" "path" "=" string "," "offset" "=" number ")"
 *   type      = bare | "state" "<" bare ">" | "list" "<" bare "," ( number | "?" ) ">" | "dict" "<" bare "," bare ">"
 *   bare      = ELEMENT_TYPE | "tensor" "<" ELEMENT_TYPE "," "[" [ dim { "," dim } ] "]" ">"
 *   dim       = number | "?"                                (open ones in results and block inputs: the rule knows)
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "mil/coreml/blob.h"
#include "mil/ir_edit.h"
#include "mil/resolve_shapes.h"
#include "mil/text/lex.h"
#include "mil/text/mil_text.h"

enum { MAX_FUNCTIONS = 1000, MAX_TEXT = INT_MAX - 1 };

typedef struct parser {
    lexer lex;
    mil_module *module;
    mil_function *function;
    propane_error *err;
    uint8_t *elements; /* of the literal that is being read */
    size_t element_room;
    int64_t element_count;
    int depth; /* of blocks */
    const mil_read_options *options;
    mil_type *standard; /* the shapes that a function's attributes give its parameters */
    mil_value **list;   /* of the argument that is being read */
    int list_room, list_count;
} parser;

/* ---- messages ------------------------------------------------------------------------------------------------------------ */

static propane_status parse_fail_at(parser *p, const lex_token *t, const char *format, ...) BASE_PRINTF(3, 4);
static propane_status parse_fail_at(parser *p, const lex_token *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    propane_vfail(p->err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    return propane_fail_prefix(p->err, PROPANE_ERR_INVALID, "%s:%d:%d", p->module->source, t->line, t->column);
}

static const char *parse_shown(char out[90], const lex_token *t) {
    char quoted[80];
    if (t->kind == LEX_END)
        snprintf(out, 90, "the end of the text");
    else if (t->kind == LEX_BAD && *t->start == '"')
        snprintf(out, 90, "a string that is not closed in its line");
    else
        snprintf(out, 90, t->kind == LEX_STRING ? "%s" : "'%s'", text_quote(quoted, t->start, t->length));
    return out;
}

static propane_status parse_unexpected(parser *p, const char *wanted) {
    char found[90];
    return parse_fail_at(p, &p->lex.token, "expected %s, found %s", wanted, parse_shown(found, &p->lex.token));
}

static propane_status parse_no_memory(parser *p) { return propane_fail_memory(p->err, 0); }

/* Levenshtein distance, for names of at most 40 bytes. */
static int parse_distance(const char *a, size_t a_length, const char *b) {
    size_t b_length = strlen(b);
    int row[41];
    if (a_length > 40 || b_length > 40) return INT_MAX;
    for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best) best = above + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[b_length];
}

static propane_status parse_unknown_op(parser *p, const lex_token *t) {
    const char *nearest = NULL;
    int least = INT_MAX;
    for (int i = 0; i < MIL_OP_COUNT; i++) {
        const char *name = mil_op_get((mil_opcode)i)->name;
        int d = parse_distance(t->start, t->length, name);
        if (d < least) {
            least = d;
            nearest = name;
        }
    }
    char found[90];
    if (nearest && least <= 1 + (int)t->length / 3)
        return parse_fail_at(p, t, "unknown operation %s; did you mean '%s'?", parse_shown(found, t), nearest);
    return parse_fail_at(p, t, "unknown operation %s; `propane ops` lists those there are", parse_shown(found, t));
}

static propane_status parse_unknown_argument(parser *p, const lex_token *t, const mil_op_info *info) {
    char list[400] = "", found[90];
    size_t used = 0;
    for (int i = 0; i < info->param_count; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", info->params[i].name);
    return parse_fail_at(p, t, "%s has no argument %s; it has: %s", info->name, parse_shown(found, t), list);
}

/* ---- tokens -------------------------------------------------------------------------------------------------------------- */

static bool parse_at(const parser *p, const char *word) { return lex_is(&p->lex.token, word); }

static bool parse_accept(parser *p, const char *word) {
    if (!parse_at(p, word)) return false;
    lex_next(&p->lex);
    return true;
}

static propane_status parse_expect(parser *p, const char *word) {
    char wanted[40];
    if (parse_accept(p, word)) return PROPANE_OK;
    snprintf(wanted, sizeof wanted, "'%s'", word);
    return parse_unexpected(p, wanted);
}

static propane_status parse_expect_name(parser *p, const char *wanted, lex_token *out) {
    if (p->lex.token.kind != LEX_NAME) return parse_unexpected(p, wanted);
    *out = p->lex.token;
    lex_next(&p->lex);
    return PROPANE_OK;
}

static propane_status parse_read_string(parser *p, const char **out) {
    const char *why;
    if (p->lex.token.kind != LEX_STRING) return parse_unexpected(p, "a string in quotes");
    *out = lex_string(p->module->arena, &p->lex.token, &why);
    if (!*out) return why ? parse_fail_at(p, &p->lex.token, "%s", why) : parse_no_memory(p);
    lex_next(&p->lex);
    return PROPANE_OK;
}

static propane_status parse_read_whole(parser *p, const char *wanted, mil_whole *out) {
    const lex_token *t = &p->lex.token;
    if (t->kind != LEX_NUMBER || !mil_number_whole(t->start, t->length, out)) return parse_unexpected(p, wanted);
    lex_next(&p->lex);
    return PROPANE_OK;
}

/* ---- types --------------------------------------------------------------------------------------------------------------- */

static propane_status parse_dtype(parser *p, mil_dtype *out) {
    lex_token t;
    char found[90];
    PROPANE_TRY(parse_expect_name(p, "an element type", &t));
    *out = mil_dtype_from_name(t.start, t.length);
    if (*out) return PROPANE_OK;
    return parse_fail_at(
        p, &t, "unknown type %s; there are tensor<TYPE, [DIMENSIONS]> and fp16, fp32, int32, bool, string, ...",
        parse_shown(found, &t));
}

static propane_status parse_dims(parser *p, mil_type *type) {
    PROPANE_TRY(parse_expect(p, "["));
    while (!parse_at(p, "]")) {
        mil_whole dim;
        lex_token t = p->lex.token;
        if (type->rank) PROPANE_TRY(parse_expect(p, ","));
        if (type->rank == MIL_MAX_RANK) return parse_fail_at(p, &t, "more than %d dimensions", MIL_MAX_RANK);
        if (parse_accept(p, "?")) {
            type->dim[type->rank++] = MIL_OPEN;
            continue;
        }
        t = p->lex.token;
        PROPANE_TRY(parse_read_whole(p, "a dimension (a number that is known now)", &dim));
        bool vector = type->rank == 0 && parse_at(p, "]"); /* may be empty */
        if (dim.negative || (dim.magnitude < 1 && !vector) || dim.magnitude > (uint64_t)MIL_MAX_ELEMENTS)
            return parse_fail_at(p, &t, "a dimension of %.*s is not possible; 1 to 2^40 are",
                                 (int)(t.length < 40 ? t.length : 40), t.start);
        type->dim[type->rank++] = (int64_t)dim.magnitude;
    }
    return parse_expect(p, "]");
}

static propane_status parse_bare(parser *p, mil_type *out) {
    *out = (mil_type){0};
    if (!parse_accept(p, "tensor")) return parse_dtype(p, &out->dtype);
    PROPANE_TRY(parse_expect(p, "<"));
    PROPANE_TRY(parse_dtype(p, &out->dtype));
    PROPANE_TRY(parse_expect(p, ","));
    PROPANE_TRY(parse_dims(p, out));
    return parse_expect(p, ">");
}

static propane_status parse_length(parser *p, int64_t *out) {
    mil_whole length;
    lex_token t = p->lex.token;
    *out = MIL_OPEN;
    if (parse_accept(p, "?")) return PROPANE_OK;
    PROPANE_TRY(parse_read_whole(p, "the length of a list", &length));
    if (length.negative || length.magnitude < 1 || length.magnitude > (uint64_t)MIL_MAX_ELEMENTS)
        return parse_fail_at(p, &t, "a list of %.*s is not possible", (int)(t.length < 40 ? t.length : 40), t.start);
    *out = (int64_t)length.magnitude;
    return PROPANE_OK;
}

/* What stands in the brackets of a shell. */
static propane_status parse_shell(parser *p, mil_shell shell, mil_type *out) {
    mil_type value;
    lex_token t;
    PROPANE_TRY(parse_expect(p, "<"));
    PROPANE_TRY(parse_bare(p, out));
    if (shell != MIL_STATE) PROPANE_TRY(parse_expect(p, ","));
    t = p->lex.token;
    if (shell == MIL_LIST) PROPANE_TRY(parse_length(p, &out->length));
    if (shell == MIL_DICT) {
        PROPANE_TRY(parse_bare(p, &value));
        if (value.rank || out->rank) return parse_fail_at(p, &t, "only a dict of scalars is possible");
        value.key = out->dtype;
        *out = value;
    }
    out->shell = shell;
    return parse_expect(p, ">");
}

/* A type that may leave dimensions open. */
static propane_status parse_open_type(parser *p, mil_type *out) {
    lex_token t = p->lex.token;
    char why[200];
    if (parse_accept(p, "state"))
        PROPANE_TRY(parse_shell(p, MIL_STATE, out));
    else if (parse_accept(p, "list"))
        PROPANE_TRY(parse_shell(p, MIL_LIST, out));
    else if (parse_accept(p, "dict"))
        PROPANE_TRY(parse_shell(p, MIL_DICT, out));
    else
        PROPANE_TRY(parse_bare(p, out));
    if (mil_type_is_open(out)) return PROPANE_OK;
    return mil_type_legal(out, why) ? PROPANE_OK : parse_fail_at(p, &t, "this type is not possible: %s", why);
}

static propane_status parse_type(parser *p, mil_type *out) {
    lex_token t = p->lex.token;
    PROPANE_TRY(parse_open_type(p, out));
    return mil_type_is_open(out) ? parse_fail_at(p, &t, "a dimension must be known here; it is '?'") : PROPANE_OK;
}

/* ---- literals ------------------------------------------------------------------------------------------------------------ */

static bool parse_element_room(parser *p, mil_dtype dtype) {
    size_t size = dtype == MIL_string ? sizeof(char *) : 8;
    size_t needed = ((size_t)p->element_count + 1) * size;
    if (dtype != MIL_string) { /* exactly, so that the buffer is not larger than the constant */
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

/* nan(0x7e01): a NaN by its bits. */
static propane_status parse_nan_bits(parser *p, mil_dtype dtype) {
    mil_whole bits;
    lex_token t;
    PROPANE_TRY(parse_expect(p, "("));
    t = p->lex.token;
    PROPANE_TRY(parse_read_whole(p, "the bits of a NaN", &bits));
    int width = mil_dtype_get(dtype)->bits;
    if (bits.negative || (width < 64 && bits.magnitude >> width))
        return parse_fail_at(p, &t, "these are no bits of a %s", mil_dtype_get(dtype)->name);
    mil_element_store_bits(p->elements, dtype, p->element_count, bits.magnitude);
    mil_const c = {.type = {.dtype = dtype}, .data = p->elements};
    double value = mil_const_f64(&c, p->element_count);
    if (value == value) return parse_fail_at(p, &t, "these bits are no NaN");
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
    PROPANE_TRY(parse_read_whole(p, "a whole number", &value));
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

/* "[" element { "," element } "]"; the number of them may be at most `most`. */
static propane_status parse_row(parser *p, mil_dtype dtype, int64_t most) {
    int64_t first = p->element_count;
    PROPANE_TRY(parse_expect(p, "["));
    if (most == 0) return parse_expect(p, "]");
    do {
        if (p->element_count - first == most)
            return parse_fail_at(p, &p->lex.token, "more than the %lld elements that the type says", (long long)most);
        PROPANE_TRY(parse_element(p, dtype));
    } while (parse_accept(p, ","));
    return parse_expect(p, "]");
}

/* A list for dimension `level` of the type. */
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
                return parse_fail_at(p, &p->lex.token,
                                     "more than the %lld elements that the type says for dimension %d",
                                     (long long)count, level);
            PROPANE_TRY(parse_nested(p, type, level + 1));
            count++;
        } while (parse_accept(p, ","));
        PROPANE_TRY(parse_expect(p, "]"));
    }
    if (count == type->dim[level]) return PROPANE_OK;
    return parse_fail_at(p, &t, "%lld element%s for dimension %d; the type says %lld", (long long)count,
                         count == 1 ? "" : "s", level, (long long)type->dim[level]);
}

/* A tensor's elements, nested as its dimensions, or all in one list. */
static propane_status parse_tensor(parser *p, const mil_type *type) {
    lex_token t = p->lex.token;
    if (!parse_at(p, "[")) return parse_unexpected(p, "'[': a list of elements");
    lexer ahead = p->lex;
    lex_next(&ahead);
    if (type->rank == 1 || lex_is(&ahead.token, "[")) return parse_nested(p, type, 0);
    PROPANE_TRY(parse_row(p, type->dtype, mil_type_count(type)));
    if (p->element_count == mil_type_count(type)) return PROPANE_OK;
    return parse_fail_at(p, &t, "%lld elements; the type says %lld", (long long)p->element_count,
                         (long long)mil_type_count(type));
}

/* What was read becomes a constant in the arena. */
static propane_status parse_take_elements(parser *p, const mil_type *type, mil_const **out) {
    arena *a = p->module->arena;
    mil_const *c = ARENA_NEW(a, mil_const);
    if (!c) return parse_no_memory(p);
    c->type = *type;
    c->bytes = mil_type_bytes(type);
    if (mil_dtype_get(type->dtype)->bits % 8) { /* the bits behind the last element are zero */
        int64_t used = mil_type_count(type) * mil_dtype_get(type->dtype)->bits;
        if (used % 8) p->elements[c->bytes - 1] &= (uint8_t)((1u << (used % 8)) - 1);
    }
    c->data = arena_copy(a, p->elements, (size_t)c->bytes);
    *out = c;
    return c->data ? PROPANE_OK : parse_no_memory(p);
}

/* A string or a number inside BLOBFILE or buildInfo: bare, or in its type's brackets. */
static propane_status parse_open_wrapped(parser *p, mil_dtype dtype, bool *wrapped) {
    *wrapped = p->lex.token.kind == LEX_NAME;
    if (!*wrapped) return PROPANE_OK;
    mil_type type;
    lex_token t = p->lex.token;
    PROPANE_TRY(parse_type(p, &type));
    if (type.dtype != dtype || type.rank) return parse_fail_at(p, &t, "expected a %s", mil_dtype_get(dtype)->name);
    return parse_expect(p, "(");
}

static propane_status parse_wrapped_string(parser *p, const char **out) {
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

/* A list's elements, one behind the other. */
static propane_status parse_list(parser *p, const mil_type *type) {
    lex_token t = p->lex.token;
    PROPANE_TRY(parse_row(p, type->dtype, mil_type_count(type)));
    if (p->element_count == mil_type_count(type)) return PROPANE_OK;
    return parse_fail_at(p, &t, "%lld elements; the type says %lld", (long long)p->element_count,
                         (long long)mil_type_count(type));
}

static propane_status parse_literal(parser *p, const mil_type *type, mil_const **out) {
    lex_token t = p->lex.token;
    if (type->shell != MIL_TENSOR && type->shell != MIL_LIST)
        return parse_fail_at(p, &t, "a state or a dict cannot be a literal");
    if (parse_at(p, "BLOBFILE")) return parse_blobfile(p, type, out);
    p->element_count = 0;
    if (type->shell == MIL_LIST)
        PROPANE_TRY(parse_list(p, type));
    else
        PROPANE_TRY(type->rank ? parse_tensor(p, type) : parse_element(p, type->dtype));
    return parse_take_elements(p, type, out);
}

/* A literal without its type, where the parameter's class leaves no choice. */
static propane_status parse_untyped(parser *p, const mil_param *param, mil_const **out) {
    static const struct {
        mil_class klass;
        mil_dtype dtype;
        int rank;
    } known[] = {{MIL_CLASS_K_INT, MIL_int32, 0},  {MIL_CLASS_K_INTS, MIL_int32, 1},  {MIL_CLASS_K_BOOL, MIL_bool, 0},
                 {MIL_CLASS_K_BOOLS, MIL_bool, 1}, {MIL_CLASS_K_TEXT, MIL_string, 0}, {MIL_CLASS_K_FLOAT, MIL_fp32, 0},
                 {MIL_CLASS_K_NUM, MIL_fp32, 0}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].klass != param->klass) continue;
        mil_type type = mil_type_scalar(known[i].dtype);
        if (known[i].rank == 0) return parse_literal(p, &type, out);
        p->element_count = 0;
        PROPANE_TRY(parse_row(p, type.dtype, INT32_MAX));
        type.rank = 1;
        type.dim[0] = p->element_count;
        return parse_take_elements(p, &type, out);
    }
    return parse_fail_at(p, &p->lex.token,
                         "%s needs a literal with its type, as fp16(0.5) or tensor<int32, [2]>([1, 2])", param->name);
}

/* ---- arguments ----------------------------------------------------------------------------------------------------------- */

static bool parse_begins_type(const parser *p) {
    const lex_token *t = &p->lex.token;
    if (t->kind != LEX_NAME) return false;
    lexer ahead = p->lex;
    lex_next(&ahead);
    if (parse_at(p, "tensor") || parse_at(p, "list")) return lex_is(&ahead.token, "<");
    return lex_is(&ahead.token, "(") && mil_dtype_from_name(t->start, t->length);
}

/* The value of that name that can be seen here; NULL: none. */
static propane_status parse_find_value(parser *p, const lex_token *t, mil_value **out) {
    if (mil_make_seen(p->function, t->start, t->length, out)) return PROPANE_OK;
    return parse_fail_at(p, t, "a block uses more than %d values from around it, or there is no memory",
                         MIL_MAX_CAPTURED);
}

static propane_status parse_value(parser *p, const mil_param *param, mil_value **out) {
    lex_token t = p->lex.token;
    mil_const *c = NULL;
    if (parse_begins_type(p)) {
        mil_type type;
        PROPANE_TRY(parse_type(p, &type));
        PROPANE_TRY(parse_expect(p, "("));
        PROPANE_TRY(parse_literal(p, &type, &c));
        PROPANE_TRY(parse_expect(p, ")"));
    } else if (t.kind == LEX_NAME) {
        PROPANE_TRY(parse_find_value(p, &t, out));
        if (*out) {
            lex_next(&p->lex);
            return PROPANE_OK;
        }
        char found[90];
        double number;
        bool literal = parse_at(p, "true") || parse_at(p, "false") || mil_number_real(t.start, t.length, &number);
        if (!literal) return parse_fail_at(p, &t, "%s is not defined here", parse_shown(found, &t));
        PROPANE_TRY(parse_untyped(p, param, &c));
    } else if (t.kind == LEX_NUMBER || t.kind == LEX_STRING || parse_at(p, "[")) {
        PROPANE_TRY(parse_untyped(p, param, &c));
    } else {
        return parse_unexpected(p, "a value");
    }
    *out = mil_make_value(p->function, NULL, &c->type);
    if (!*out) return parse_no_memory(p);
    (*out)->konst = c;
    (*out)->line = t.line;
    (*out)->column = t.column;
    return PROPANE_OK;
}

static propane_status parse_list_value(parser *p, const mil_param *param) {
    if (p->list_count == p->list_room) {
        int room = p->list_room ? p->list_room * 2 : 8;
        mil_value **larger = mem_resize(p->list, (size_t)room * sizeof(mil_value *));
        if (!larger) return parse_no_memory(p);
        p->list = larger;
        p->list_room = room;
    }
    return parse_value(p, param, &p->list[p->list_count++]);
}

/* What stands behind "NAME =". */
static propane_status parse_argument_value(parser *p, mil_op *op, int index) {
    const mil_param *param = &op->info->params[index];
    p->list_count = 0;
    if (parse_at(p, "(")) {
        if (param->need != MIL_VARIADIC)
            return parse_fail_at(p, &p->lex.token, "%s takes one value, not a list", param->name);
        lex_next(&p->lex);
        do PROPANE_TRY(parse_list_value(p, param));
        while (parse_accept(p, ","));
        PROPANE_TRY(parse_expect(p, ")"));
    } else {
        PROPANE_TRY(parse_list_value(p, param));
    }
    return mil_make_operand(op, index, p->list, p->list_count) ? PROPANE_OK : parse_no_memory(p);
}

static propane_status parse_label(parser *p, mil_op *op, const lex_token *t) {
    if (op->label) return parse_fail_at(p, t, "name is given twice");
    return parse_wrapped_string(p, &op->label);
}

/* Up to `close`; attributes in square brackets are arguments, too, and may hold the label. */
static propane_status parse_arguments(parser *p, mil_op *op, const char *close, bool attributes) {
    if (parse_accept(p, close)) return PROPANE_OK;
    do {
        lex_token t;
        PROPANE_TRY(parse_expect_name(p, attributes ? "an attribute" : "an argument", &t));
        int index = -1;
        for (int i = 0; i < op->info->param_count && index < 0; i++)
            if (op->info->params[i].need != MIL_CAPTURED && lex_is(&t, op->info->params[i].name)) index = i;
        bool label = attributes && index < 0 && lex_is(&t, "name");
        if (index < 0 && !label) return parse_unknown_argument(p, &t, op->info);
        if (index >= 0 && op->operands[index].count)
            return parse_fail_at(p, &t, "%s is given twice", op->info->params[index].name);
        PROPANE_TRY(parse_expect(p, "="));
        PROPANE_TRY(label ? parse_label(p, op, &t) : parse_argument_value(p, op, index));
    } while (parse_accept(p, ","));
    return parse_expect(p, close);
}

/* ---- statements ---------------------------------------------------------------------------------------------------------- */

typedef struct declared {
    mil_type type;
    lex_token name;
} declared;

static propane_status parse_check_new_name(parser *p, const lex_token *t) {
    const mil_value *other = NULL;
    char found[90];
    for (const mil_function *f = p->function; f && !other; f = f->owner ? f->owner->function : NULL)
        other = mil_scope_find(f, t->start, t->length);
    if (!other) return PROPANE_OK;
    return parse_fail_at(p, t, "%s is defined a second time; the first is at line %d", parse_shown(found, t),
                         other->line);
}

static propane_status parse_define_value(parser *p, const declared *d, mil_value **out) {
    PROPANE_TRY(parse_check_new_name(p, &d->name));
    const char *name = arena_string_n(p->module->arena, d->name.start, d->name.length);
    mil_value *v = name ? mil_make_value(p->function, name, &d->type) : NULL;
    if (!v) return parse_no_memory(p);
    v->line = d->name.line;
    v->column = d->name.column;
    *out = v;
    return PROPANE_OK;
}

static propane_status parse_define_results(parser *p, mil_op *op, const declared *results, int count) {
    if (!mil_make_results(op, count)) return parse_no_memory(p);
    op->result_count = 0;
    for (int i = 0; i < count; i++) {
        PROPANE_TRY(parse_define_value(p, &results[i], &op->results[i]));
        op->results[i]->def = op;
        op->results[i]->index = i;
        op->result_count = i + 1;
    }
    if (!count) return PROPANE_OK;
    if (op->label && strcmp(op->label, op->results[0]->name) == 0) op->label = NULL; /* then it follows the name */
    if (op->info->code != MIL_OP_const || !op->operands[0].count) return PROPANE_OK;
    if (!op->operands[0].values[0]->is_inline)
        return mil_op_fail(op, p->err, PROPANE_ERR_INVALID, "val must be a literal");
    op->results[0]->konst = op->operands[0].values[0]->konst;
    return PROPANE_OK;
}

/* Declarations up to "="; `results` has room for MIL_MAX_RESULTS. */
static propane_status parse_declared(parser *p, declared *results, int *count) {
    *count = 0;
    do {
        if (*count == MIL_MAX_RESULTS) return parse_fail_at(p, &p->lex.token, "more than %d results", MIL_MAX_RESULTS);
        declared *d = &results[(*count)++];
        PROPANE_TRY(parse_open_type(p, &d->type));
        PROPANE_TRY(parse_expect_name(p, "the name of a result", &d->name));
        PROPANE_TRY(parse_check_new_name(p, &d->name));
    } while (parse_accept(p, ","));
    return parse_expect(p, "=");
}

static propane_status parse_params(parser *p, const mil_op *owner);
static propane_status parse_body(parser *p, declared *results);

/* A block of `op`, whose operands are there. */
static propane_status parse_block(parser *p, mil_op *op, declared *results) {
    const lex_token t = p->lex.token;
    char *name = arena_printf(p->module->arena, "%s_block%d", op->info->name, op->block_count);
    mil_function *around = p->function;
    if (++p->depth > MIL_MAX_DEPTH) return parse_fail_at(p, &t, "more than %d blocks in blocks", MIL_MAX_DEPTH);
    p->function = name ? mil_make_block(op, name) : NULL;
    if (!p->function) return parse_no_memory(p);
    p->function->line = t.line;
    p->function->column = t.column;
    if (parse_at(p, "(")) PROPANE_TRY(parse_params(p, op));
    PROPANE_TRY(parse_body(p, results));
    p->function = around;
    p->depth--;
    return PROPANE_OK;
}

static propane_status parse_blocks(parser *p, mil_op *op, declared *results) {
    for (int i = 0, count = mil_op_blocks(op->info); i < count; i++) {
        if (i) PROPANE_TRY(parse_expect(p, ","));
        if (!parse_at(p, "{") && !parse_at(p, "(")) return parse_unexpected(p, "a block in '{' and '}'");
        PROPANE_TRY(parse_block(p, op, results));
    }
    return mil_make_settle(op) ? PROPANE_OK : parse_no_memory(p);
}

/* Results with open dimensions take those that the rule gives. */
static propane_status parse_settle_results(parser *p, const mil_op *op) {
    mil_type types[MIL_MAX_RESULTS];
    int count = 0;
    bool open = false;
    for (int i = 0; i < op->result_count; i++) open |= mil_type_is_open(&op->results[i]->type);
    if (!open) return PROPANE_OK;
    PROPANE_TRY(mil_verify_operands(op, p->err));
    PROPANE_TRY(op->info->rule(op, types, &count, p->err));
    for (int i = 0; i < count && i < op->result_count; i++) mil_type_settle(&op->results[i]->type, &types[i]);
    return PROPANE_OK;
}

static propane_status parse_statement(parser *p, declared *results) {
    int count = 0;
    lex_token t;
    const lex_token first = p->lex.token;
    lexer ahead = p->lex;
    lex_next(&ahead);
    if (!lex_is(&ahead.token, "(")) PROPANE_TRY(parse_declared(p, results, &count));
    PROPANE_TRY(parse_expect_name(p, "an operation", &t));
    const mil_op_info *info = mil_op_find(t.start, t.length);
    if (!info) return parse_unknown_op(p, &t);
    mil_op *op = mil_make_op(p->function, info);
    if (!op) return parse_no_memory(p);
    op->line = first.line;
    op->column = first.column;
    PROPANE_TRY(parse_expect(p, "("));
    PROPANE_TRY(parse_arguments(p, op, ")", false));
    if (parse_accept(p, "[")) PROPANE_TRY(parse_arguments(p, op, "]", true));
    if (mil_op_blocks(info)) {
        declared *own = arena_copy(p->module->arena, results, (size_t)count * sizeof *own); /* blocks use the room */
        if (!own) return parse_no_memory(p);
        PROPANE_TRY(parse_blocks(p, op, results));
        results = own;
    }
    PROPANE_TRY(parse_expect(p, ";"));
    PROPANE_TRY(parse_define_results(p, op, results, count));
    PROPANE_TRY(parse_settle_results(p, op));
    mil_make_insert(op, NULL);
    return mil_verify_op(op, p->err);
}

/* ---- functions and the program ------------------------------------------------------------------------------------------- */

/* The type of a block's input is that of the loop variable, where it leaves something open. */
static void parse_settle_input(const mil_op *owner, int index, mil_type *type) {
    const mil_operand *given = &owner->operands[0];
    if (owner->info->params[0].need == MIL_VARIADIC && index < given->count)
        mil_type_settle(type, &given->values[index]->type);
}

/* `owner`: of a block. */
static propane_status parse_params(parser *p, const mil_op *owner) {
    PROPANE_TRY(parse_expect(p, "("));
    if (parse_accept(p, ")")) return PROPANE_OK;
    do {
        declared d;
        mil_value *v;
        PROPANE_TRY(parse_open_type(p, &d.type));
        PROPANE_TRY(parse_expect_name(p, "the name of a parameter", &d.name));
        if (owner) parse_settle_input(owner, p->function->param_count, &d.type);
        if (d.type.dtype == MIL_string) return parse_fail_at(p, &d.name, "a parameter cannot be a string");
        PROPANE_TRY(parse_define_value(p, &d, &v));
        if (!mil_make_param(p->function, v)) return parse_no_memory(p);
    } while (parse_accept(p, ","));
    return parse_expect(p, ")");
}

static propane_status parse_results(parser *p) {
    PROPANE_TRY(parse_expect(p, "("));
    do {
        lex_token t;
        char found[90];
        mil_value *v;
        PROPANE_TRY(parse_expect_name(p, "the name of a result", &t));
        PROPANE_TRY(parse_find_value(p, &t, &v));
        if (!v) return parse_fail_at(p, &t, "result %s is not defined in the function", parse_shown(found, &t));
        if (!mil_make_result(p->function, v)) return parse_no_memory(p);
    } while (parse_accept(p, ","));
    return parse_expect(p, ")");
}

/* "{" statements "}" "->" results, of a function or a block. */
static propane_status parse_body(parser *p, declared *results) {
    PROPANE_TRY(parse_expect(p, "{"));
    while (!parse_accept(p, "}")) {
        if (p->lex.token.kind == LEX_END) return parse_unexpected(p, "a statement or '}'");
        PROPANE_TRY(parse_statement(p, results));
    }
    if (p->lex.token.kind != LEX_ARROW) return parse_unexpected(p, "'->' and the results");
    lex_next(&p->lex);
    return parse_results(p);
}

/* {{"NAME", [1, 3]}, ...}: default shapes of parameters, from the opening brace on. */
static propane_status parse_shapes(parser *p) {
    PROPANE_TRY(parse_expect(p, "{"));
    if (parse_accept(p, "}")) return PROPANE_OK;
    do {
        const char *name;
        mil_type shape = {0};
        PROPANE_TRY(parse_expect(p, "{"));
        PROPANE_TRY(parse_wrapped_string(p, &name));
        PROPANE_TRY(parse_expect(p, ","));
        PROPANE_TRY(parse_dims(p, &shape));
        PROPANE_TRY(parse_expect(p, "}"));
        for (int i = 0; i < p->function->param_count; i++)
            if (strcmp(p->function->params[i]->name, name) == 0) p->standard[i] = shape;
    } while (parse_accept(p, ","));
    return parse_expect(p, "}");
}

/* What compilers write behind the parameters, in square brackets; of it only the default shapes of open parameters are of
 * use here: ("DefaultShapes", {{"x", [1, 3]}}). The rest is skipped, bracket by bracket. */
static propane_status parse_function_attributes(parser *p) {
    mil_function *f = p->function;
    p->standard = ARENA_ARRAY(p->module->arena, f->param_count + 1, mil_type);
    if (!p->standard) return parse_no_memory(p);
    if (parse_at(p, "[")) {
        int64_t depth = 0;
        do {
            const lex_token t = p->lex.token;
            if (t.kind == LEX_END || t.kind == LEX_BAD)
                return parse_unexpected(p, "']' behind the function's attributes");
            if (parse_at(p, "[") || parse_at(p, "(") || parse_at(p, "{")) depth++;
            if (parse_at(p, "]") || parse_at(p, ")") || parse_at(p, "}")) depth--;
            lex_next(&p->lex);
            if (t.kind != LEX_STRING || t.length != 15 || memcmp(t.start, "\"DefaultShapes\"", 15) != 0) continue;
            if (parse_accept(p, ",") && parse_at(p, "{")) PROPANE_TRY(parse_shapes(p));
        } while (depth > 0);
    }
    for (int i = 0; i < f->param_count; i++) {
        mil_value *v = f->params[i];
        PROPANE_TRY(mil_open_settle(p->options, p->module->source, v->name, NULL,
                                    p->standard[i].rank ? &p->standard[i] : NULL, &v->type, p->err));
    }
    return PROPANE_OK;
}

static propane_status parse_function_head(parser *p) {
    lex_token t, opset;
    char found[90];
    PROPANE_TRY(parse_expect(p, "func"));
    PROPANE_TRY(parse_expect_name(p, "the name of a function", &t));
    PROPANE_TRY(parse_expect(p, "<"));
    PROPANE_TRY(parse_expect_name(p, "an opset (ios15 to ios18)", &opset));
    mil_opset known = mil_opset_from_name(opset.start, opset.length);
    if (!known)
        return parse_fail_at(p, &opset, "unknown opset %s; ios15, ios16, ios17 and ios18 are known",
                             parse_shown(found, &opset));
    PROPANE_TRY(parse_expect(p, ">"));
    for (const mil_function *f = p->module->functions; f; f = f->next)
        if (lex_is(&t, f->name))
            return parse_fail_at(p, &t, "function %s is defined a second time", parse_shown(found, &t));
    if (p->module->function_count == MAX_FUNCTIONS)
        return parse_fail_at(p, &t, "more than %d functions", MAX_FUNCTIONS);
    const char *name = arena_string_n(p->module->arena, t.start, t.length);
    p->function = name ? mil_make_function(p->module, name, known) : NULL;
    if (!p->function) return parse_no_memory(p);
    p->function->line = t.line;
    p->function->column = t.column;
    PROPANE_TRY(parse_params(p, NULL));
    return parse_function_attributes(p);
}

static propane_status parse_function(parser *p, declared *results) {
    PROPANE_TRY(parse_function_head(p));
    PROPANE_TRY(parse_body(p, results));
    parse_accept(p, ";");
    return mil_verify_function(p->function, p->err);
}

static propane_status parse_pair(parser *p) {
    mil_module *m = p->module;
    mil_pair pair;
    PROPANE_TRY(parse_expect(p, "{"));
    PROPANE_TRY(parse_wrapped_string(p, &pair.key));
    PROPANE_TRY(parse_expect(p, ","));
    PROPANE_TRY(parse_wrapped_string(p, &pair.value));
    int n = m->build_info_count;
    if ((n & (n - 1)) == 0) { /* room is the next power of two */
        mil_pair *larger = ARENA_ARRAY(m->arena, n ? 2 * (size_t)n : 1, mil_pair);
        if (!larger) return parse_no_memory(p);
        if (n) memcpy(larger, m->build_info, (size_t)n * sizeof *larger);
        m->build_info = larger;
    }
    m->build_info[m->build_info_count++] = pair;
    return parse_expect(p, "}");
}

/* "[" "buildInfo" "=" "dict" "<" string "," string ">" "(" "{" pairs "}" ")" "]" */
static propane_status parse_build_info(parser *p) {
    PROPANE_TRY(parse_expect(p, "["));
    PROPANE_TRY(parse_expect(p, "buildInfo"));
    PROPANE_TRY(parse_expect(p, "="));
    PROPANE_TRY(parse_expect(p, "dict"));
    PROPANE_TRY(parse_expect(p, "<"));
    for (int i = 0; i < 2; i++) {
        mil_type type;
        lex_token t = p->lex.token;
        PROPANE_TRY(parse_type(p, &type));
        if (type.dtype != MIL_string || type.rank)
            return parse_fail_at(p, &t, "buildInfo must be a dict<string, string>");
        PROPANE_TRY(parse_expect(p, i ? ">" : ","));
    }
    PROPANE_TRY(parse_expect(p, "("));
    PROPANE_TRY(parse_expect(p, "{"));
    if (!parse_at(p, "}")) {
        do PROPANE_TRY(parse_pair(p));
        while (parse_accept(p, ","));
    }
    PROPANE_TRY(parse_expect(p, "}"));
    PROPANE_TRY(parse_expect(p, ")"));
    return parse_expect(p, "]");
}

/* NUMBER "." NUMBER, one token. */
static propane_status parse_version(parser *p) {
    const lex_token *t = &p->lex.token;
    const char *dot = t->kind == LEX_NUMBER ? memchr(t->start, '.', t->length) : NULL;
    mil_whole major, minor;
    if (!dot || !mil_number_whole(t->start, (size_t)(dot - t->start), &major) ||
        !mil_number_whole(dot + 1, t->length - (size_t)(dot + 1 - t->start), &minor))
        return parse_unexpected(p, "a version such as 1.3");
    if (major.negative || major.magnitude != 1 || minor.negative || minor.magnitude > 99)
        return parse_fail_at(p, t, "program version %.*s is not known; 1.0 to 1.99 are",
                             (int)(t->length < 20 ? t->length : 20), t->start);
    p->module->version_major = 1;
    p->module->version_minor = (int)minor.magnitude;
    lex_next(&p->lex);
    return PROPANE_OK;
}

static propane_status parse_program(parser *p, declared *results) {
    PROPANE_TRY(parse_expect(p, "program"));
    PROPANE_TRY(parse_expect(p, "("));
    PROPANE_TRY(parse_version(p));
    PROPANE_TRY(parse_expect(p, ")"));
    p->module->build_info_count = 0;
    if (parse_at(p, "[")) PROPANE_TRY(parse_build_info(p));
    PROPANE_TRY(parse_expect(p, "{"));
    while (!parse_accept(p, "}")) {
        if (!parse_at(p, "func")) return parse_unexpected(p, "'func' or '}'");
        PROPANE_TRY(parse_function(p, results));
    }
    if (p->lex.token.kind != LEX_END) return parse_unexpected(p, "the end of the text");
    if (!p->module->functions) return parse_fail_at(p, &p->lex.token, "the program has no functions");
    return PROPANE_OK;
}

static propane_status parse_shaped(const char *program, size_t length, const char *source, const char *model_dir,
                                   const mil_read_options *options, mil_module **out, propane_error *err) {
    *out = NULL;
    if (length > MAX_TEXT)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: %zu bytes of text; at most %d are read", source, length,
                            MAX_TEXT);
    mil_module *m = mil_module_create(source);
    if (!m) return propane_fail_memory(err, sizeof *m);
    propane_status status = PROPANE_OK;
    if (model_dir) m->model_dir = arena_string(m->arena, model_dir);
    declared *results = ARENA_ARRAY(m->arena, MIL_MAX_RESULTS, declared);
    if (!results || (model_dir && !m->model_dir)) status = propane_fail_memory(err, sizeof *results);
    parser p = {.module = m, .err = err, .options = options};
    if (!status) {
        lex_begin(&p.lex, program, length);
        status = parse_program(&p, results);
        if (!status) status = mil_open_check(m, options, err);
    }
    mem_free(p.elements);
    mem_free(p.list);
    if (status) {
        mil_module_free(m);
        return status;
    }
    *out = m;
    return PROPANE_OK;
}

propane_status mil_parse(const char *program, size_t length, const char *source, const char *model_dir,
                         mil_module **out, propane_error *err) {
    return parse_shaped(program, length, source, model_dir, NULL, out, err);
}

propane_status mil_parse_file(const char *path, mil_module **out, propane_error *err) {
    return mil_parse_file_shaped(path, NULL, out, err);
}

propane_status mil_parse_file_shaped(const char *path, const mil_read_options *options, mil_module **out,
                                     propane_error *err) {
    char *program = NULL, *dir = NULL;
    size_t length = 0;
    *out = NULL;
    PROPANE_TRY(file_read(path, MAX_TEXT, &program, &length, err));
    dir = mem_copy_string(path);
    propane_status status = dir ? PROPANE_OK : propane_fail_memory(err, strlen(path));
    if (!status) {
        char *slash = strrchr(dir, '/');
        if (slash) slash[slash == dir] = 0;
        status = parse_shaped(program, length, path, slash ? dir : ".", options, out, err);
    }
    mem_free(dir);
    mem_free(program);
    return status;
}
