/* SPDX-License-Identifier: MIT
 * Passes rewrite a function without changing its meaning. pass_run runs them in the order of the list in pass.c.
 */
#ifndef CORE_PASS_PASS_H
#define CORE_PASS_PASS_H

#include "core/mil/build.h"

typedef struct pass_options {
    bool fold;     /* ops over constants become constants, up to 1 Mi elements */
    bool simplify; /* x*1, x+0, identity, transposes that cancel, reshape of reshape, casts that cancel */
    bool share;    /* equal ops become one */
    bool drop_unused;
} pass_options;

extern const pass_options pass_all;

PROPANE_CHECK propane_status pass_run(mil_function *f, const pass_options *options, propane_error *err);

/* Renames parameters and results so that alphabetical order is declared order (constraint C12): i000_x, i001_w, ...;
 * o000_y, .... The old names are returned in declared order, in the module's arena, so that the ane driver can map the
 * new names back. */
PROPANE_CHECK propane_status pass_name_io(mil_function *f, const char ***old_params, const char ***old_results,
                                          propane_error *err);

/* Changes every fp16 of the function to fp32, including constants and blocks. The types of other functions stay the
 * same. */
PROPANE_CHECK propane_status pass_retype_fp32(mil_function *f, propane_error *err);
/* Turns each state into a parameter (its content before) and, if it is written, a result NAME_out (its content
 * after). */
PROPANE_CHECK propane_status pass_states(mil_function *f, propane_error *err);

/* Turns the compressed weights (constexpr_*) for which `chosen` returns true into dense constants of the same names.
 * Sets *count to their number. */
typedef bool (*pass_chosen)(void *context, const char *name);
PROPANE_CHECK propane_status pass_decompress(mil_function *f, pass_chosen chosen, void *context, int *count,
                                             propane_error *err);

/* Expands lstm, gru, rnn, loops with a known limit, lists, cond, conv_quantized and sampling at computed positions into
 * operations that have gradients, if they depend on one of the parameters. Both branches of a cond are computed unless
 * its condition is known. */
PROPANE_CHECK propane_status pass_unroll(mil_function *f, const char *const *params, int count, propane_error *err);

/* Copies into `m` a function whose shapes depend on values (mil_function.late): slices of known size whose begin is
 * computed become gathers. Fails with PROPANE_ERR_UNSUPPORTED if only a run can determine another shape, and names the
 * operation. */
PROPANE_CHECK propane_status pass_gather_slices(const mil_function *late, mil_module *m, mil_function **out,
                                                propane_error *err);

/* Options of pass_variant, which copies `f` within its module, with constants as parameters and inputs of several
 * samples. */
typedef struct pass_variant_options {
    const char *name;
    const char *const *free; /* constants that become parameters, after the inputs, in this order */
    int free_count;
    int64_t batch; /* the factor by which every input's first dimension grows */
} pass_variant_options;

/* Fails with PROPANE_ERR_UNSUPPORTED if an operation does not support several samples, and names the operation. */
PROPANE_CHECK propane_status pass_variant(const mil_function *f, const pass_variant_options *options,
                                          mil_function **out, propane_error *err);

/* Extracts some operations of `f`, which may be a block, as the only function of a new module, under f's name ("main"
 * for a block). kept is indexed by position in f; constants and constexpr operations are included if a kept operation
 * reads them. Everything else that is read becomes an input. Outputs are the results of kept operations that f returns,
 * that other operations read, or that nothing reads, if their types are allowed. types, indexed by mil_dtype, is true
 * for the types allowed for an output, or for an input that f computes. Fails with PROPANE_ERR_UNSUPPORTED if an input
 * has another type, or if there is no output. */
PROPANE_CHECK propane_status pass_excerpt(const mil_function *f, const bool *kept, const bool *types, mil_module **out,
                                          propane_error *err);

#endif
