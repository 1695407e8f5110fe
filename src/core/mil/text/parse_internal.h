/* SPDX-License-Identifier: MIT
 * Declares what the files of the parser share: the parser's state, tokens, types and literals. Private to
 * src/core/mil/text/parse*.c; the grammar is in parse.c.
 */
#ifndef CORE_MIL_TEXT_PARSE_INTERNAL_H
#define CORE_MIL_TEXT_PARSE_INTERNAL_H

#include "core/mil/ir_edit.h"
#include "core/mil/list_sizes.h"
#include "core/mil/resolve_shapes.h"
#include "core/mil/text/lex.h"
#include "core/mil/text/mil_text.h"
#include "core/mil/text/number.h"

typedef struct parser {
    lexer lex;
    mil_module *module;
    mil_function *function;
    propane_error *err;
    uint8_t *elements; /* of the literal being read */
    size_t element_room;
    int64_t element_count;
    int depth;            /* nesting depth of blocks */
    mil_list_sizes lists; /* of the current function */
    lex_token zero;       /* the last dimension of 0 that was read */
    const struct mil_read_options *options;
    mil_feature *features; /* per parameter: the shapes in the function's attributes */
    mil_value **list;      /* of the argument being read */
    int list_count;
} parser;

/* Report errors. Each message begins with "SOURCE:LINE:COLUMN: ". */
propane_status parse_fail_at(parser *p, const lex_token *t, const char *format, ...) BASE_PRINTF(3, 4);
propane_status parse_unexpected(parser *p, const char *wanted); /* reports the current token */
propane_status parse_no_memory(parser *p);
const char *parse_shown(char out[90], const lex_token *t); /* quotes a token for messages and returns out */

/* Read tokens. parse_at only compares the current token with `word`, parse_accept consumes an equal token, and the
 * others fail if another token is found. */
bool parse_at(const parser *p, const char *word);
bool parse_accept(parser *p, const char *word);
propane_status parse_expect(parser *p, const char *word);
propane_status parse_expect_name(parser *p, const char *wanted, lex_token *out);
propane_status parse_read_string(parser *p, const char **out); /* in the module's arena */
propane_status parse_read_whole(parser *p, const char *wanted, mil_whole *out);

/* Types. parse_open_type also accepts '?' as a dimension. */
propane_status parse_dims(parser *p, mil_type *type);
propane_status parse_open_type(parser *p, mil_type *out);
propane_status parse_type(parser *p, mil_type *out);

/* Constants, in the module's arena. In parse_untyped, the parameter's class determines the type. */
propane_status parse_literal(parser *p, const mil_type *type, mil_const **out);
propane_status parse_untyped(parser *p, const mil_param *param, mil_const **out);
propane_status parse_wrapped_string(parser *p, const char **out); /* "x", or string("x") */

/* Parses the square brackets after the parameters, if there are any, and then determines the parameters'
 * open dimensions. */
propane_status parse_function_attributes(parser *p);

#endif
