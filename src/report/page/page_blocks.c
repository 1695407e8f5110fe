/* SPDX-License-Identifier: MIT
 * Owns the search for blocks. Blocks are repeating sequences of operations (the layers of a model), cut where the
 * fewest values cross, and operations whose names share a scope ("encoder/layer_0/add"). A block is a sequence in
 * program order, because folding it into one node then never creates a cycle.
 */
#include <stdio.h>
#include <string.h>

#include "core/mil/ops.h"
#include "report/page/page_parts.h"

enum { LEAST_PERIOD = 4, MOST_PERIOD = 2000, LEAST_KINDS = 3, DEPTH = 3, NAME_BYTES = 120, LEAST_SCOPED = 3 };

typedef struct finder {
    page *p;
    page_graph *g;
    int *kind;  /* [op]: a key that is equal for equivalent operations */
    int *alive; /* [op + 1]: the number of values that are made before the operation and read by it or a later one */
    int next_kind;
} finder;

static int page_blocks_add(finder *f, int first, int last, const char *name, int parent, int kind) {
    json_t *o = json_object();
    json_put(o, "f", json_integer(f->g->first_op + first));
    json_put(o, "l", json_integer(f->g->first_op + last));
    json_put(o, "n", page_words(name));
    json_put(o, "p", json_integer(parent));
    json_put(o, "k", json_integer(kind));
    json_add(f->g->blocks, o);
    return (int)json_array_size(f->g->blocks) - 1;
}

/* ---- repetitions ------------------------------------------------------------------------------------------------- */

static propane_status page_blocks_prepare(finder *f, propane_error *err) {
    const page_graph *g = f->g;
    int *last_use = ARENA_ARRAY(f->p->arena, g->op_count + 1, int);
    f->kind = ARENA_ARRAY(f->p->arena, g->op_count + 1, int);
    f->alive = ARENA_ARRAY(f->p->arena, g->op_count + 2, int);
    if (!last_use || !f->kind || !f->alive) return propane_fail_memory(err, (size_t)g->op_count * sizeof(int));
    for (int i = 0; i < g->op_count; i++) {
        const mil_op *op = g->ops[i];
        f->kind[i] = (int)op->info->code * 8 + (op->result_count ? op->results[0]->type.rank : 7);
        last_use[i] = i;
        MIL_FOR_OPERANDS (op, v) {
            const int made = v->id < g->f->value_count && v->home == g->f ? g->maker[v->id] - g->first_op : -1;
            if (made >= 0) last_use[made] = i;
        }
    }
    for (int i = 0; i < g->op_count; i++) { /* the value of operation i crosses the cuts i+1 .. last_use[i] */
        f->alive[i + 1] += last_use[i] > i;
        if (last_use[i] > i) f->alive[last_use[i] + 1]--;
    }
    for (int i = 1; i <= g->op_count; i++) f->alive[i] += f->alive[i - 1];
    return PROPANE_OK;
}

static int page_blocks_kinds(const finder *f, int from, int count) {
    bool seen[MIL_OP_COUNT] = {false};
    int kinds = 0;
    for (int i = from; i < from + count; i++) {
        const int code = (int)f->g->ops[i]->info->code;
        kinds += !seen[code];
        seen[code] = true;
    }
    return kinds;
}

typedef struct repeat {
    int from, period, count; /* the operations from .. from + period * count - 1 */
    int room;                /* the number of operations after them that also repeat; less than a period */
} repeat;

/* Returns the longest sequence within from..to that repeats with the given period. */
static repeat page_blocks_with(const finder *f, int from, int to, int period) {
    repeat best = {.period = period};
    for (int i = from; i + period <= to;) {
        int n = 0;
        while (i + n + period <= to && f->kind[i + n] == f->kind[i + n + period]) n++;
        const int count = (n + period) / period;
        if (n >= period && count * period > best.count * period && page_blocks_kinds(f, i, period) >= LEAST_KINDS)
            best = (repeat){i, period, count, n + period - count * period};
        i += n + 1;
    }
    return best;
}

/* Returns the repetition that covers most operations. Of nearly equal ones, returns the one with the shortest period,
 * because every repetition of one layer is also a repetition of two layers. */
static repeat page_blocks_longest(const finder *f, int from, int to) {
    repeat best = {0};
    for (int period = LEAST_PERIOD; period <= MOST_PERIOD && 2 * period <= to - from + 1; period++) {
        const repeat r = page_blocks_with(f, from, to, period);
        if (r.count * r.period * 100 > best.count * best.period * 110) best = r;
    }
    return best;
}

/* Moves the start of a repetition, which may be at any position within a period, to where the fewest values pass from
 * one block to the next. */
static repeat page_blocks_align(const finder *f, repeat r) {
    const int total = r.count * r.period + r.room;
    int best = 0;
    double least = 1e30;
    for (int shift = 0; shift < r.period; shift++) {
        const int count = (total - shift) / r.period;
        double crossing = 0;
        for (int i = 0; i <= count; i++) crossing += f->alive[r.from + shift + i * r.period];
        crossing = crossing / (count + 1) + (count < r.count ? 0.75 : 0); /* a penalty for losing one block */
        if (count >= 2 && crossing < least - 1e-9) {
            least = crossing;
            best = shift;
        }
    }
    return (repeat){r.from + best, r.period, (total - best) / r.period, 0};
}

/* ---- names -------------------------------------------------------------------------------------------------------------- */

/* Finds the common prefix of the names of a block's weights up to a separator, such as "model_layers_3". Returns false
 * if there is none. */
static bool page_blocks_prefix(const finder *f, int from, int count, char out[NAME_BYTES]) {
    size_t length = 0;
    int weights = 0;
    for (int i = from; i < from + count; i++)
        MIL_FOR_OPERANDS (f->g->ops[i], v) {
            if (!v->def || v->def->info->code != MIL_OP_const || mil_type_count(&v->type) <= 8 || v->type.rank < 1)
                continue;
            size_t same = 0;
            while (weights && same < length && v->name[same] == out[same]) same++;
            if (!weights) {
                snprintf(out, NAME_BYTES, "%s", v->name);
                same = strlen(out);
            }
            length = same;
            weights++;
        }
    while (length > 0 && !strchr("_./", out[length - 1])) length--;
    while (length > 0 && strchr("_./", out[length - 1])) length--;
    out[length] = 0;
    return weights >= 2 && length >= 3;
}

static void page_blocks_put_repeat(finder *f, repeat r, int parent) {
    char name[NAME_BYTES + 32], before[NAME_BYTES] = "";
    const int kind = f->next_kind++;
    bool named = true;
    for (int i = 0; i < r.count && named; i++) { /* use the names only if each differs from the previous one */
        char own[NAME_BYTES];
        named = page_blocks_prefix(f, r.from + i * r.period, r.period, own) && strcmp(own, before) != 0;
        snprintf(before, sizeof before, "%s", own);
    }
    for (int i = 0; i < r.count; i++) {
        const int first = r.from + i * r.period;
        if (!named || !page_blocks_prefix(f, first, r.period, name))
            snprintf(name, sizeof name, "block %d of %d", i + 1, r.count);
        (void)page_blocks_add(f, first, first + r.period - 1, name, parent, kind);
    }
}

/* Adds the blocks of the best repetition in from..to, then searches the operations before and after it. */
static void page_blocks_search(finder *f, int from, int to, int parent, int depth) {
    if (to - from + 1 < 2 * LEAST_PERIOD || depth > 12) return;
    repeat r = page_blocks_longest(f, from, to);
    if (r.count < 2) return;
    r = page_blocks_align(f, r);
    page_blocks_search(f, from, r.from - 1, parent, depth + 1);
    page_blocks_put_repeat(f, r, parent);
    page_blocks_search(f, r.from + r.count * r.period, to, parent, depth + 1);
}

/* ---- scopes ------------------------------------------------------------------------------------------------------------- */

/* Returns the length of the first `depth` levels of the scope in an operation's name, or 0 if it has fewer levels. */
static size_t page_blocks_scope(const finder *f, int i, int depth) {
    const mil_op *op = f->g->ops[i];
    const char *name = op->result_count ? op->results[0]->name : "", *at = name;
    for (int d = 0; d < depth; d++) {
        at = strchr(at, '/');
        if (!at) return 0;
        at++;
    }
    return (size_t)(at - name) - 1;
}

static bool page_blocks_same_scope(const finder *f, int a, int b, size_t length) {
    const char *x = f->g->ops[a]->results[0]->name;
    const char *y = f->g->ops[b]->result_count ? f->g->ops[b]->results[0]->name : "";
    return strncmp(x, y, length) == 0 && y[length] == '/';
}

/* Adds a block for adjacent operations of one scope, and blocks within it for its inner scopes. */
static void page_blocks_scopes(finder *f, int from, int to, int parent, int depth) {
    for (int i = from, end; i <= to; i = end) {
        const size_t length = page_blocks_scope(f, i, depth);
        char name[NAME_BYTES];
        end = i + 1;
        if (!length) continue;
        while (end <= to && page_blocks_same_scope(f, i, end, length)) end++;
        if (end - i < LEAST_SCOPED || (i == from && end == to + 1 && parent >= 0)) {
            if (depth < DEPTH && end - i >= LEAST_SCOPED) page_blocks_scopes(f, i, end - 1, parent, depth + 1);
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, f->g->ops[i]->results[0]->name);
        const int block = page_blocks_add(f, i, end - 1, name, parent, f->next_kind++);
        if (depth < DEPTH) page_blocks_scopes(f, i, end - 1, block, depth + 1);
    }
}

propane_status page_blocks_find(page *p, page_graph *g, propane_error *err) {
    finder f = {.p = p, .g = g};
    int scoped = 0;
    if (g->op_count < 2 * LEAST_PERIOD) return PROPANE_OK;
    PROPANE_TRY(page_blocks_prepare(&f, err));
    for (int i = 0; i < g->op_count; i++) scoped += page_blocks_scope(&f, i, 1) > 0;
    if (scoped * 10 > g->op_count * 6)
        page_blocks_scopes(&f, 0, g->op_count - 1, -1, 1);
    else
        page_blocks_search(&f, 0, g->op_count - 1, -1, 0);
    return PROPANE_OK;
}
