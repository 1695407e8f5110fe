/* SPDX-License-Identifier: MIT
 * Passes: rewrites of a function that keep its meaning. The list in pass.c is the order in which they run.
 */
#ifndef CORE_PASS_PASS_H
#define CORE_PASS_PASS_H

#include "core/mil/build.h"

typedef struct pass_options {
    bool fold;     /* constants; up to 1 Mi elements */
    bool simplify; /* x*1, x+0, identity, transposes that cancel, reshape of reshape, casts that cancel */
    bool share;    /* equal ops become one */
    bool drop_unused;
} pass_options;

extern const pass_options pass_all;

PROPANE_CHECK propane_status pass_run(mil_function *f, const pass_options *options, propane_error *err);

/* Renames parameters and results so that alphabetical order is declared order (constraint C12): i000_x, i001_w, ...;
 * o000_y, .... For the ane driver, which keeps the map to the old names itself: old names in declared order, in the
 * module's arena. */
PROPANE_CHECK propane_status pass_name_io(mil_function *f, const char ***old_params, const char ***old_results,
                                          propane_error *err);

/* Every fp16 of the program (all functions' types stay as they are but f's) becomes fp32, constants and blocks
 * included. */
PROPANE_CHECK propane_status pass_retype_fp32(mil_function *f, propane_error *err);
/* Each state becomes a parameter (what it holds before) and, where it is written, a result NAME_out (what it holds
 * after). */
PROPANE_CHECK propane_status pass_states(mil_function *f, propane_error *err);

/* Constants whose names are listed are computed now, and stay constants under their names: compressed weights
 * (constexpr_*) become dense ones. *count: how many there were. */
typedef bool (*pass_chosen)(void *context, const char *name);
PROPANE_CHECK propane_status pass_decompress(mil_function *f, pass_chosen chosen, void *context, int *count,
                                             propane_error *err);

/* lstm, gru, rnn, counted loops, lists, cond, and sampling at computed places that depend on one of the parameters are written
 * out, step by step, in operations that have gradients. Both branches of a cond are computed. */
PROPANE_CHECK propane_status pass_unroll(mil_function *f, const char *const *params, int count, propane_error *err);

/* A copy in `m` of a function whose shapes follow from values (mil_function.late): slices of known size that begin
 * anywhere become gathers. PROPANE_ERR_UNSUPPORTED names the operation whose shape only a run knows. */
PROPANE_CHECK propane_status pass_gather_slices(const mil_function *late, mil_module *m, mil_function **out,
                                                propane_error *err);

/* A copy of `f` in its module, with constants as parameters and inputs of several samples. */
typedef struct pass_variant_options {
    const char *name;
    const char *const *free; /* constants that become parameters, behind the inputs, in this order */
    int free_count;
    int64_t batch; /* every input's first dimension is that many times as long */
} pass_variant_options;

/* PROPANE_ERR_UNSUPPORTED names the operation that cannot be done for several samples. */
PROPANE_CHECK propane_status pass_variant(const mil_function *f, const pass_variant_options *options,
                                          mil_function **out, propane_error *err);

/* Some operations of `f`, which may be a block, as the only function of a new module, under f's name ("main" for a
 * block). kept: [place in f]; constants and constexpr operations come along where what is kept reads them. What else it
 * reads is an input, and its outputs are the results that f, or what is not kept, uses, if it can give them. types:
 * [mil_dtype], of what may be an input that f computes, or an output. PROPANE_ERR_UNSUPPORTED: an input of another
 * type, or no output. */
PROPANE_CHECK propane_status pass_excerpt(const mil_function *f, const bool *kept, const bool *types, mil_module **out,
                                          propane_error *err);

#endif
