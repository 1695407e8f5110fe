/* SPDX-License-Identifier: MIT
 * Owns FlexibleShapeInformation, the attributes that compilers write in square brackets after a function's parameters.
 * It contains the default shapes of open parameters and their allowed shapes, as ranges or as a list. One idea: within
 * each of the three tables, a list that follows a parameter's name and a comma belongs to that parameter. All other
 * tokens are skipped, so tables with another nesting can be read, too.
 */
#include <string.h>

#include "core/base/arena.h"
#include "core/mil/text/parse_internal.h"

/* An upper bound of -1 means no limit. */
static propane_status parse_flexible_bound(parser *p, int64_t *out) {
    mil_whole bound;
    const lex_token t = p->lex.token;
    PROPANE_TRY(parse_read_whole(p, "a bound of a dimension", &bound));
    if (bound.magnitude > (uint64_t)INT64_MAX)
        return parse_fail_at(p, &t, "%.*s cannot be a bound", (int)(t.length < 40 ? t.length : 40), t.start);
    *out = bound.negative ? -(int64_t)bound.magnitude : (int64_t)bound.magnitude;
    return PROPANE_OK;
}

/* Parses ranges such as [[1, 1], [1, -1]]. */
static propane_status parse_flexible_ranges(parser *p, mil_feature *f) {
    const lex_token begin = p->lex.token;
    mil_shape_range *ranges = ARENA_ARRAY(p->module->arena, MIL_MAX_RANK, mil_shape_range);
    int count = 0;
    if (!ranges) return parse_no_memory(p);
    PROPANE_TRY(parse_expect(p, "["));
    while (!parse_at(p, "]")) {
        if (count == MIL_MAX_RANK) return parse_fail_at(p, &begin, "more than %d ranges", MIL_MAX_RANK);
        if (count) PROPANE_TRY(parse_expect(p, ","));
        PROPANE_TRY(parse_expect(p, "["));
        PROPANE_TRY(parse_flexible_bound(p, &ranges[count].lower));
        PROPANE_TRY(parse_expect(p, ","));
        PROPANE_TRY(parse_flexible_bound(p, &ranges[count++].upper));
        PROPANE_TRY(parse_expect(p, "]"));
    }
    PROPANE_TRY(parse_expect(p, "]"));
    f->ranges = ranges;
    f->range_count = count;
    return PROPANE_OK;
}

static propane_status parse_flexible_listed(parser *p, mil_feature *f) {
    mil_type shape = {0};
    PROPANE_TRY(parse_dims(p, &shape));
    const int n = f->shape_count;
    if ((n & (n - 1)) == 0) { /* room is the next power of two */
        mil_type *larger = ARENA_ARRAY(p->module->arena, n ? 2 * (size_t)n : 1, mil_type);
        if (!larger) return parse_no_memory(p);
        if (n) memcpy(larger, f->shapes, (size_t)n * sizeof *larger);
        f->shapes = larger;
    }
    f->shapes[f->shape_count++] = shape;
    return PROPANE_OK;
}

typedef enum flexible_table { FLEXIBLE_NONE, FLEXIBLE_DEFAULTS, FLEXIBLE_RANGES, FLEXIBLE_LISTED } flexible_table;

static flexible_table parse_flexible_table(const lex_token *t) {
    static const struct {
        const char *word;
        flexible_table table;
    } tables[] = {{"\"DefaultShapes\"", FLEXIBLE_DEFAULTS},
                  {"\"RangeDims\"", FLEXIBLE_RANGES},
                  {"\"EnumeratedShapes\"", FLEXIBLE_LISTED}};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (t->length == strlen(tables[i].word) && memcmp(t->start, tables[i].word, t->length) == 0)
            return tables[i].table;
    return FLEXIBLE_NONE;
}

/* Reads the current token, a string. If the string is a parameter's name in a table, also reads the list that
 * follows. */
static propane_status parse_flexible_entry(parser *p, flexible_table table) {
    const mil_function *f = p->function;
    const char *name;
    PROPANE_TRY(parse_read_string(p, &name));
    if (table == FLEXIBLE_NONE || !parse_at(p, ",")) return PROPANE_OK;
    PROPANE_TRY(parse_expect(p, ","));
    if (!parse_at(p, "[")) return PROPANE_OK;
    for (int i = 0; i < f->param_count; i++) {
        mil_feature *feature = &p->features[i];
        if (strcmp(f->params[i]->name, name) != 0) continue;
        if (table == FLEXIBLE_RANGES) return parse_flexible_ranges(p, feature);
        if (table == FLEXIBLE_LISTED) return parse_flexible_listed(p, feature);
        feature->shape = (mil_type){0};
        return parse_dims(p, &feature->shape);
    }
    return PROPANE_OK;
}

static propane_status parse_flexible_tables(parser *p) {
    flexible_table table = FLEXIBLE_NONE;
    int64_t depth = 0;
    do {
        const lex_token t = p->lex.token;
        if (t.kind == LEX_END || t.kind == LEX_BAD) return parse_unexpected(p, "']' after the function's attributes");
        const flexible_table next = t.kind == LEX_STRING ? parse_flexible_table(&t) : FLEXIBLE_NONE;
        if (t.kind == LEX_STRING && !next) {
            PROPANE_TRY(parse_flexible_entry(p, table));
            continue;
        }
        if (next) table = next;
        if (parse_at(p, "[") || parse_at(p, "(") || parse_at(p, "{")) depth++;
        if (parse_at(p, "]") || parse_at(p, ")") || parse_at(p, "}")) depth--;
        lex_next(&p->lex);
    } while (depth > 0);
    return PROPANE_OK;
}

propane_status parse_function_attributes(parser *p) {
    mil_function *f = p->function;
    bool listed = false;
    p->features = ARENA_ARRAY(p->module->arena, f->param_count + 1, mil_feature);
    if (!p->features) return parse_no_memory(p);
    for (int i = 0; i < f->param_count; i++)
        p->features[i] = (mil_feature){.name = f->params[i]->name, .text = "", .kind = MIL_FEATURE_ARRAY};
    if (parse_at(p, "[")) PROPANE_TRY(parse_flexible_tables(p));
    for (int i = 0; i < f->param_count; i++) listed |= p->features[i].shape_count > 0;
    for (int i = 0; i < f->param_count; i++) {
        mil_value *v = f->params[i];
        f->ranged |= !listed && mil_type_is_open(&v->type);
        PROPANE_TRY(mil_open_settle(p->options, p->module->source, v->name, &p->features[i], NULL, &v->type, p->err));
    }
    return PROPANE_OK;
}
