/* SPDX-License-Identifier: MIT
 * Owns the small parts of the grammar: messages about a wrong token, the tokens that rules consume one by one, and
 * types. Refuses dimensions above 2^40 and ranks above MIL_MAX_RANK where they occur. A dimension of 0 is recorded,
 * because only the statement decides whether it is allowed.
 */
#include <stdio.h>

#include "core/base/memory.h"
#include "core/mil/text/parse_internal.h"

/* ---- messages ------------------------------------------------------------------------------------------------------------ */

propane_status parse_fail_at(parser *p, const lex_token *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    propane_vfail(p->err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    return propane_fail_prefix(p->err, PROPANE_ERR_INVALID, "%s:%d:%d", p->module->source, t->line, t->column);
}

const char *parse_shown(char out[90], const lex_token *t) {
    char quoted[80];
    if (t->kind == LEX_END)
        snprintf(out, 90, "the end of the text");
    else if (t->kind == LEX_BAD && *t->start == '"')
        snprintf(out, 90, "a string that is not closed in its line");
    else
        snprintf(out, 90, t->kind == LEX_STRING ? "%s" : "'%s'", text_quote(quoted, t->start, t->length));
    return out;
}

propane_status parse_unexpected(parser *p, const char *wanted) {
    char found[90];
    return parse_fail_at(p, &p->lex.token, "expected %s, found %s", wanted, parse_shown(found, &p->lex.token));
}

propane_status parse_no_memory(parser *p) { return propane_fail_memory(p->err, 0); }

/* ---- tokens -------------------------------------------------------------------------------------------------------------- */

bool parse_at(const parser *p, const char *word) { return lex_is(&p->lex.token, word); }

bool parse_accept(parser *p, const char *word) {
    if (!parse_at(p, word)) return false;
    lex_next(&p->lex);
    return true;
}

propane_status parse_expect(parser *p, const char *word) {
    char wanted[40];
    if (parse_accept(p, word)) return PROPANE_OK;
    snprintf(wanted, sizeof wanted, "'%s'", word);
    return parse_unexpected(p, wanted);
}

propane_status parse_expect_name(parser *p, const char *wanted, lex_token *out) {
    if (p->lex.token.kind != LEX_NAME) return parse_unexpected(p, wanted);
    *out = p->lex.token;
    lex_next(&p->lex);
    return PROPANE_OK;
}

propane_status parse_read_string(parser *p, const char **out) {
    const char *why;
    if (p->lex.token.kind != LEX_STRING) return parse_unexpected(p, "a string in quotes");
    *out = lex_string(p->module->arena, &p->lex.token, &why);
    if (!*out) return why ? parse_fail_at(p, &p->lex.token, "%s", why) : parse_no_memory(p);
    lex_next(&p->lex);
    return PROPANE_OK;
}

propane_status parse_read_whole(parser *p, const char *wanted, mil_whole *out) {
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
        p, &t, "unknown type %s; types are tensor<TYPE, [DIMENSIONS]> and fp16, fp32, int32, bool, string, ...",
        parse_shown(found, &t));
}

propane_status parse_dims(parser *p, mil_type *type) {
    PROPANE_TRY(parse_expect(p, "["));
    while (!parse_at(p, "]")) {
        mil_whole dim;
        lex_token t = p->lex.token;
        if (type->rank) PROPANE_TRY(parse_expect(p, ","));
        if (type->rank == MIL_MAX_RANK) return parse_fail_at(p, &t, "more than %d dimensions", MIL_MAX_RANK);
        if (parse_accept(p, "?")) { /* [??] has any number of dimensions */
            const bool any = !type->rank && parse_accept(p, "?");
            type->dim[type->rank++] = any ? MIL_OPEN_RANK : MIL_OPEN;
            if (any) break;
            continue;
        }
        t = p->lex.token;
        PROPANE_TRY(parse_read_whole(p, "a dimension (a number that is known now)", &dim));
        const bool vector = type->rank == 0 && parse_at(p, "]"); /* a vector may be empty */
        if (dim.magnitude == 0 && !vector) p->zero = t;
        if (dim.negative || dim.magnitude > (uint64_t)MIL_MAX_ELEMENTS)
            return parse_fail_at(p, &t, "a dimension cannot be %.*s; it must be 1 to 2^40",
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
        return parse_fail_at(p, &t, "a list cannot have length %.*s", (int)(t.length < 40 ? t.length : 40), t.start);
    *out = (int64_t)length.magnitude;
    return PROPANE_OK;
}

/* Parses the content of a container's brackets. */
static propane_status parse_container(parser *p, mil_container container, mil_type *out) {
    mil_type value;
    lex_token t;
    PROPANE_TRY(parse_expect(p, "<"));
    PROPANE_TRY(parse_bare(p, out));
    if (container != MIL_STATE) PROPANE_TRY(parse_expect(p, ","));
    t = p->lex.token;
    if (container == MIL_LIST) PROPANE_TRY(parse_length(p, &out->length));
    if (container == MIL_DICT) {
        PROPANE_TRY(parse_bare(p, &value));
        if (value.rank || out->rank) return parse_fail_at(p, &t, "only dicts of scalars are supported");
        value.key = out->dtype;
        *out = value;
    }
    out->container = container;
    return parse_expect(p, ">");
}

/* Parses a type that may leave dimensions open. */
propane_status parse_open_type(parser *p, mil_type *out) {
    lex_token t = p->lex.token;
    char why[200];
    if (parse_accept(p, "state"))
        PROPANE_TRY(parse_container(p, MIL_STATE, out));
    else if (parse_accept(p, "list"))
        PROPANE_TRY(parse_container(p, MIL_LIST, out));
    else if (parse_accept(p, "dict"))
        PROPANE_TRY(parse_container(p, MIL_DICT, out));
    else
        PROPANE_TRY(parse_bare(p, out));
    if (mil_type_is_open(out)) return PROPANE_OK;
    return mil_type_readable(out, why) ? PROPANE_OK : parse_fail_at(p, &t, "invalid type: %s", why);
}

propane_status parse_type(parser *p, mil_type *out) {
    lex_token t = p->lex.token;
    PROPANE_TRY(parse_open_type(p, out));
    return mil_type_is_open(out) ? parse_fail_at(p, &t, "a dimension must be known here; it is '?'") : PROPANE_OK;
}
