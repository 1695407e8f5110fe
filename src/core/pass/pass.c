/* SPDX-License-Identifier: MIT
 * Owns the list of passes and the names of parameters and results. A pass is one walk over the ops in order. A value
 * that is replaced records its replacement, and the operands of an op are replaced before the pass examines the op.
 *
 * Parameters and results are never removed, replaced or renamed, except by pass_name_io, because buffers are bound to a
 * program by their names. So an op that computes a result of the function stays even if the value is known.
 */
#include "core/pass/pass.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/pass/rewrite.h"

const pass_options pass_all = {.fold = true, .simplify = true, .share = true, .drop_unused = true};

typedef struct pass {
    bool (*asked)(const pass_options *options);
    propane_status (*run)(rewrite *r, propane_error *err);
} pass;

static bool pass_asked_fold(const pass_options *o) { return o->fold; }
static bool pass_asked_simplify(const pass_options *o) { return o->simplify; }
static bool pass_asked_share(const pass_options *o) { return o->share; }
static bool pass_asked_drop(const pass_options *o) { return o->drop_unused; }

/* The passes run in this order, repeatedly, until nothing changes, because one pass may leave work for another. */
static const pass passes[] = {
    {pass_asked_fold, pass_fold},
    {pass_asked_simplify, pass_simplify},
    {pass_asked_share, pass_share},
    {pass_asked_drop, pass_drop_unused},
};

enum { MAX_ROUNDS = 16 }; /* each round shrinks the function; more than 4 rounds have not been seen */

propane_status pass_run(mil_function *f, const pass_options *options, propane_error *err) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->block_count; i++) PROPANE_TRY(pass_run(op->blocks[i], options, err));
    for (int round = 0, changes = 1; changes && round < MAX_ROUNDS; round++) {
        changes = 0;
        for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
            if (!passes[i].asked(options)) continue;
            rewrite r = {.function = f};
            propane_status status = rewrite_open(&r, err);
            if (status == PROPANE_OK) status = passes[i].run(&r, err);
            rewrite_close(&r);
            PROPANE_TRY(status);
            changes += r.changes;
        }
    }
    return PROPANE_OK;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

propane_status rewrite_open(rewrite *r, propane_error *err) {
    mil_function *f = r->function;
    mil_build_resume(&r->build, f);
    r->count = f->value_count;
    r->is_result = mem_array((size_t)r->count + 1, sizeof *r->is_result);
    if (!r->is_result) return propane_fail_memory(err, (size_t)r->count * sizeof *r->is_result);
    for (int i = 0; i < f->result_count; i++) r->is_result[f->results[i]->id] = true;
    return PROPANE_OK;
}

void rewrite_close(rewrite *r) { mem_free(r->is_result); }

bool rewrite_is_result(const rewrite *r, const mil_value *v) { return v->id < r->count && r->is_result[v->id]; }

void rewrite_operands(rewrite *r, mil_op *op) {
    mil_replace_settle(op);
    r->build.stage = op->stage;
    r->build.backward = op->backward;
    r->build.before = op;
}

bool rewrite_replace(rewrite *r, mil_op *op, mil_value *with) {
    if (!with || rewrite_is_result(r, op->results[0])) return false;
    op->results[0]->replaced_by = with;
    mil_op_remove(op);
    r->changes++;
    return true;
}

/* ---- names of parameters and results ----------------------------------------------------------------------------- */

static int pass_digits_for(int count) {
    int digits = 3;
    for (int limit = 1000; count > limit; limit *= 10) digits++;
    return digits;
}

static propane_status pass_name_all(mil_function *f, mil_value **values, int count, char prefix, const char ***old,
                                    propane_error *err) {
    arena *a = f->module->arena;
    const char **names = ARENA_ARRAY(a, count + 1, const char *);
    if (!names) return propane_fail_memory(err, (size_t)count * sizeof *names);
    for (int i = 0; i < count; i++) {
        names[i] = values[i]->name;
        const char *name = arena_printf(a, "%c%0*d_%s", prefix, pass_digits_for(count), i, names[i]);
        if (!name) return propane_fail_memory(err, 0);
        PROPANE_TRY(mil_rename(f, values[i], name, err));
    }
    *old = names;
    return PROPANE_OK;
}

/* Renames parameters and results. The verifier rejects a result that is also a parameter, so no value needs two
 * names. */
propane_status pass_name_io(mil_function *f, const char ***old_params, const char ***old_results, propane_error *err) {
    PROPANE_TRY(pass_name_all(f, f->params, f->param_count, 'i', old_params, err));
    return pass_name_all(f, f->results, f->result_count, 'o', old_results, err);
}
