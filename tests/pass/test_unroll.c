/* SPDX-License-Identifier: MIT
 * Recurrent layers written out: the same numbers as the evaluation of the row, and gradients that finite differences
 * confirm.
 */
#include <math.h>

#include "core/grad/grad.h"
#include "core/pass/pass.h"
#include "support/grad_check.h"
#include "support/test.h"

typedef struct recurrent_case {
    mil_opcode code;
    const char *spec;
} recurrent_case;

/* Hidden 2, inputs 3, batch 2. */
static const recurrent_case layers[] = {
    {MIL_OP_rnn, "x[3,2,3] initial_h[2,2] weight_ih[2,3] weight_hh[2,2] bias[2] output_sequence=true"},
    {MIL_OP_rnn, "x[2,2,3] initial_h[2,2] weight_ih[2,3] weight_hh[2,2] direction='reverse' activation='sigmoid'"},
    {MIL_OP_lstm, "x[3,2,3] initial_h[2,2] initial_c[2,2] weight_ih[8,3] weight_hh[8,2] bias[8] output_sequence=true"},
    {MIL_OP_lstm, "x[3,2,3] initial_h[2,2] initial_c[2,2] weight_ih[8,3] weight_hh[8,2] direction='reverse' "
                  "output_sequence=true"},
    {MIL_OP_lstm, "x[1,2,3] initial_h[2,2] initial_c[2,2] weight_ih[8,3] weight_hh[8,2] bias[8]"},
    {MIL_OP_lstm, "x[3,1,3] initial_h[1,2] initial_c[1,2] weight_ih[8,3] weight_hh[8,2] bias[8] peephole[6] "
                  "recurrent_activation='sigmoid_hard' activation='scaled_tanh' output_sequence=true"},
    {MIL_OP_lstm, "x[3,1,3] initial_h[1,2] initial_c[1,2] weight_ih[8,3] weight_hh[8,2] bias[8] clip=0.7"},
    {MIL_OP_lstm, "x[3,2,3] initial_h[2,4] initial_c[2,4] weight_ih[8,3] weight_hh[8,2] bias[8] weight_ih_back[8,3] "
                  "weight_hh_back[8,2] bias_back[8] direction='bidirectional' output_sequence=true"},
    {MIL_OP_gru, "x[3,2,3] initial_h[2,2] weight_ih[6,3] weight_hh[6,2] bias[6] output_sequence=true"},
    {MIL_OP_gru, "x[3,2,3] initial_h[2,2] weight_ih[6,3] weight_hh[6,2] bias[6] input_bias[6] reset_after=true"},
    {MIL_OP_gru, "x[3,2,3] initial_h[2,2] weight_ih[6,3] weight_hh[6,2] direction='reverse' output_sequence=true"},
};
enum { CASES = sizeof layers / sizeof layers[0] };

/* The largest difference seen is 2e-8, because the constants of scaled_tanh and sigmoid_hard are rounded to fp32;
 * without them it is 1e-16. */
static void compare(const mil_function *before, const mil_function *after, int n) {
    propane_error err = {0};
    arena *a = arena_create();
    static grad_draws d;
    mil_tensor in[20], *old, *new;
    d = (grad_draws){.draw = MIL_DRAW_any};
    rng_init(&d.random, 3);
    for (int i = 0; i < before->param_count; i++) {
        in[i] = (mil_tensor){before->params[i]->type, ARENA_ARRAY(a, mil_type_count(&before->params[i]->type), double)};
        grad_draw(&d, &in[i].type, in[i].data);
    }
    EXPECT_OK(mil_eval_function(before, in, false, a, &old, &err));
    EXPECT_OK(mil_eval_function(after, in, false, a, &new, &err));
    for (int k = 0; k < before->result_count; k++) {
        EXPECT_MSG(mil_shape_equal(&old[k].type, &new[k].type), "case %d: result %d has another shape", n, k);
        for (int64_t i = 0; i < mil_type_count(&old[k].type); i++)
            EXPECT_MSG(fabs(old[k].data[i] - new[k].data[i]) < 1e-6, "case %d: result %d[%lld] is %g, not %g", n, k,
                       (long long)i, new[k].data[i], old[k].data[i]);
    }
    arena_free(a);
}

static mil_function *unrolled(mil_module *m, int n, const char *name) {
    propane_error err = {0};
    const char *names[20];
    int below = 0;
    mil_function *f = grad_spec(m, name, layers[n].code, layers[n].spec, &below);
    for (int i = 0; i < f->param_count; i++) names[i] = f->params[i]->name;
    EXPECT_OK(pass_unroll(f, names, f->param_count, &err));
    EXPECT_OK(mil_verify(m, &err));
    for (const mil_op *op = f->first; op; op = op->next) EXPECT_MSG(op->info->code != layers[n].code, "case %d", n);
    return f;
}

TEST(steps_written_out_give_the_same_numbers) {
    int below = 0;
    for (int n = 0; n < CASES; n++) {
        mil_module *m = mil_module_create("unroll");
        compare(grad_spec(m, "before", layers[n].code, layers[n].spec, &below), unrolled(m, n, "after"), n);
        mil_module_free(m);
    }
}

TEST(their_gradients_are_those_of_finite_differences) {
    for (int n = 0; n < CASES; n++) {
        mil_module *m = mil_module_create("unroll");
        grad_check_drawn(unrolled(m, n, "f"), MIL_DRAW_any, 0, 7, 1e-5, layers[n].spec); /* largest seen: 1e-8 */
        mil_module_free(m);
    }
}

/* A layer that no parameter reaches remains one operation. */
TEST(frozen_layers_stay) {
    propane_error err = {0};
    int below = 0;
    mil_module *m = mil_module_create("unroll");
    mil_function *f = grad_spec(m, "f", layers[2].code, layers[2].spec, &below);
    const int before = f->op_count;
    EXPECT_OK(pass_unroll(f, NULL, 0, &err));
    EXPECT(f->op_count == before);
    mil_module_free(m);
}

SUITE("pass/unroll", T(steps_written_out_give_the_same_numbers), T(their_gradients_are_those_of_finite_differences),
      T(frozen_layers_stay))
