/* SPDX-License-Identifier: MIT
 * Owns the grammar. The parser needs one token of lookahead and recurses no deeper than a tensor's rank and the nesting
 * of blocks. Names are in hash tables, so parsing is linear in the text. Each operation is verified in place, so
 * messages come in the order of the text. parse_flexible.c reads the attributes of functions.
 *
 *   program   = "program" "(" version ")" [ "[" "buildInfo" "=" dict "]" ] "{" function* "}"
 *   function  = "func" NAME "<" opset ">" "(" [ type NAME { "," type NAME } ] ")"
 *               [ "[" attributes "]" ] "{" statement* "}" "->" "(" NAME { "," NAME } ")" [ ";" ]
 *   statement = [ type NAME { "," type NAME } "=" ] OP "(" [ argument { "," argument } ] ")"
 *               [ "[" argument { "," argument } "]" ] [ block { "," block } ] ";"
 *   block     = [ "(" type NAME { "," type NAME } ")" ] "{" statement* "}" "->" "(" NAME { "," NAME } ")"
 *   argument  = NAME "=" ( value | "(" value { "," value } ")" )
 *   value     = NAME | type "(" literal ")" | literal       (a bare literal if the parameter determines its type)
 *   literal   = element | "[" literal { "," literal } "]" | "BLOBFILE" "(" "path" "=" string "," "offset" "=" number ")"
 *   type      = bare | "state" "<" bare ">" | "list" "<" bare "," ( number | "?" ) ">" | "dict" "<" bare "," bare ">"
 *   bare      = ELEMENT_TYPE | "tensor" "<" ELEMENT_TYPE "," "[" [ dim { "," dim } ] "]" ">"
 *   dim       = number | "?"                    ("?" in results and block inputs: the rule determines the dimension)
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/mil/coreml/package_compiled.h"
#include "core/mil/empty_operands.h"
#include "core/mil/ir_edit.h"
#include "core/mil/read_slices.h"
#include "core/mil/resolve_shapes.h"
#include "core/mil/specialize.h"
#include "core/mil/text/mil_text.h"
#include "core/mil/text/parse_internal.h"

enum { MAX_FUNCTIONS = 1000, MAX_TEXT = INT_MAX - 1 };

/* Returns the Levenshtein distance of two names of at most 40 bytes, and INT_MAX for longer names. */
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
    return parse_fail_at(p, t, "unknown operation %s; `propane ops` lists the known ones", parse_shown(found, t));
}

static propane_status parse_unknown_argument(parser *p, const lex_token *t, const mil_op_info *info) {
    char list[400] = "", found[90];
    size_t used = 0;
    for (int i = 0; i < info->param_count; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", info->params[i].name);
    return parse_fail_at(p, t, "%s has no argument %s; it has: %s", info->name, parse_shown(found, t), list);
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

/* Sets *out to the visible value with the name `t`, or to NULL if there is none. */
static propane_status parse_find_value(parser *p, const lex_token *t, mil_value **out) {
    if (mil_make_seen(p->function, t->start, t->length, out)) return PROPANE_OK;
    return parse_fail_at(p, t, "a block uses more than %d values from outside, or memory ran out", MIL_MAX_CAPTURED);
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
    (*out)->constant = c;
    (*out)->line = t.line;
    (*out)->column = t.column;
    return PROPANE_OK;
}

static propane_status parse_list_value(parser *p, const mil_param *param) {
    mil_value **larger = ARRAY_MORE(p->list, p->list_count, NULL);
    if (!larger) return parse_no_memory(p);
    p->list = larger;
    return parse_value(p, param, &p->list[p->list_count++]);
}

/* Parses the part after "NAME =". */
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

/* Parses arguments up to `close`. Attributes in square brackets are arguments, too, and may include the label. */
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
    /* A label equal to the result's name is implied. */
    if (op->label && strcmp(op->label, op->results[0]->name) == 0) op->label = NULL;
    if (op->info->code != MIL_OP_const || !op->operands[0].count) return PROPANE_OK;
    if (!op->operands[0].values[0]->is_inline)
        return mil_op_fail(op, p->err, PROPANE_ERR_INVALID, "val must be a literal");
    op->results[0]->constant = op->operands[0].values[0]->constant;
    return PROPANE_OK;
}

/* Parses declarations up to "="; `results` has room for MIL_MAX_RESULTS. */
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

/* Parses a block of `op`, whose operands are set. */
static propane_status parse_block(parser *p, mil_op *op, declared *results) {
    const lex_token t = p->lex.token;
    char *name = arena_printf(p->module->arena, "%s_block%d", op->info->name, op->block_count);
    mil_function *around = p->function;
    if (++p->depth > MIL_MAX_DEPTH) return parse_fail_at(p, &t, "more than %d nested blocks", MIL_MAX_DEPTH);
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

/* Fills in the open dimensions of results as the operation's rule computes them. */
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
    int count = 0, empty = 0;
    lex_token t;
    const lex_token first = p->lex.token;
    lexer ahead = p->lex;
    lex_next(&ahead);
    p->zero = (lex_token){0};
    if (!lex_is(&ahead.token, "(")) PROPANE_TRY(parse_declared(p, results, &count));
    const lex_token zero = p->zero;
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
        declared *own = arena_copy(p->module->arena, results, (size_t)count * sizeof *own); /* blocks reuse the room */
        if (!own) return parse_no_memory(p);
        PROPANE_TRY(parse_blocks(p, op, results));
        results = own;
    }
    PROPANE_TRY(parse_expect(p, ";"));
    if (zero.length && info->code != MIL_OP_const && !mil_empty_makes(op) && !mil_op_empty_operand(op, &empty))
        return parse_fail_at(p, &zero, "a dimension cannot be 0; it must be 1 to 2^40");
    PROPANE_TRY(parse_define_results(p, op, results, count));
    if (count == 1) PROPANE_TRY(mil_read_slice(op, op->results[0]->name, p->err));
    bool late = false;
    PROPANE_TRY(mil_list_sizes_read(&p->lists, p->options, op, &late, p->err));
    if (!late) PROPANE_TRY(parse_settle_results(p, op));
    mil_make_insert(op, NULL);
    return late ? PROPANE_OK : mil_verify_op(op, p->err);
}

/* ---- functions and the program ------------------------------------------------------------------------------------------- */

/* Fills in open parts of a block input's type from the loop variable's type. */
static void parse_settle_input(const mil_op *owner, int index, mil_type *type) {
    const mil_operand *given = &owner->operands[0];
    if (owner->info->params[0].need == MIL_VARIADIC && index < given->count)
        mil_type_settle(type, &given->values[index]->type);
}

/* Parses the parameters of a function or a block. `owner` is the op of the block, or NULL for a function. */
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

/* Parses "{" statements "}" "->" results of a function or a block. */
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

static propane_status parse_function_head(parser *p) {
    lex_token t, opset;
    char found[90];
    PROPANE_TRY(parse_expect(p, "func"));
    PROPANE_TRY(parse_expect_name(p, "the name of a function", &t));
    PROPANE_TRY(parse_expect(p, "<"));
    PROPANE_TRY(parse_expect_name(p, "an opset (ios15 to ios18)", &opset));
    mil_opset known = mil_opset_from_name(opset.start, opset.length);
    if (!known)
        return parse_fail_at(p, &opset, "unknown opset %s; it must be ios15, ios16, ios17 or ios18",
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
    const lexer begin = p->lex;
    p->lists = (mil_list_sizes){0};
    for (bool again = true; again;) {
        p->lex = begin;
        PROPANE_TRY(parse_function_head(p));
        PROPANE_TRY(parse_body(p, results));
        PROPANE_TRY(mil_list_sizes_end(&p->lists, p->function, &again, p->err));
    }
    parse_accept(p, ";");
    PROPANE_TRY(mil_settle_constants(&p->function, p->err));
    PROPANE_TRY(mil_verify_function(p->function, p->err));
    return package_compiled_shapes(p->function, p->features, p->err);
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

/* Parses "[" "buildInfo" "=" "dict" "<" string "," string ">" "(" "{" pairs "}" ")" "]". */
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

/* Parses NUMBER "." NUMBER, which is a single token. */
static propane_status parse_version(parser *p) {
    const lex_token *t = &p->lex.token;
    const char *dot = t->kind == LEX_NUMBER ? memchr(t->start, '.', t->length) : NULL;
    mil_whole major, minor;
    if (!dot || !mil_number_whole(t->start, (size_t)(dot - t->start), &major) ||
        !mil_number_whole(dot + 1, t->length - (size_t)(dot + 1 - t->start), &minor))
        return parse_unexpected(p, "a version such as 1.3");
    if (major.negative || major.magnitude != 1 || minor.negative || minor.magnitude > 99)
        return parse_fail_at(p, t, "unknown program version %.*s; it must be 1.0 to 1.99",
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

propane_status mil_parse_shaped(const char *program, size_t length, const char *source, const char *model_dir,
                                const mil_read_options *options, mil_module **out, propane_error *err) {
    *out = NULL;
    if (length > MAX_TEXT)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: %zu bytes of text; the limit is %d", source, length, MAX_TEXT);
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
    return mil_parse_shaped(program, length, source, model_dir, NULL, out, err);
}

propane_status mil_parse_file_shaped(const char *path, const mil_read_options *options, mil_module **out,
                                     propane_error *err) {
    char *program = NULL, *dir = NULL;
    size_t length = 0;
    *out = NULL;
    PROPANE_TRY(file_read(path, MAX_TEXT, &program, &length, err));
    dir = mem_copy_string(path);
    propane_status status = dir ? PROPANE_OK : propane_fail_memory(err, strlen(path));
    const char *other = file_disguise(program, length);
    if (!status && *other) status = propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no program%s", path, other);
    if (!status) {
        char *slash = strrchr(dir, '/');
        if (slash) slash[slash == dir] = 0;
        status = mil_parse_shaped(program, length, path, slash ? dir : ".", options, out, err);
    }
    mem_free(dir);
    mem_free(program);
    return status;
}
