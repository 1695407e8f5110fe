/* SPDX-License-Identifier: MIT
 * The split of weight gradients between device and host: parts of the right length, and the same sums in double
 * precision.
 */
#include <math.h>

#include "core/base/rng.h"
#include "core/mil/eval/eval.h"
#include "lm/step/gradient_products.h"
#include "support/test.h"

enum { OUT = 3, IN = 5 };

/* d_w [OUT,IN] = dy x' over all windows, and d_b, a sum that is not a matrix product. */
static mil_function *gradients(mil_module *m, int64_t batch, int64_t positions) {
    static const int64_t windows[] = {0}, all[] = {0, 3};
    propane_error err = {0};
    mil_builder b;
    mil_build_begin(&b, m, "grad", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", (mil_type){MIL_fp32, 4, {batch, IN, 1, positions}});
    mil_value *dy = mil_build_param(&b, "dy", (mil_type){MIL_fp32, 4, {batch, OUT, 1, positions}});
    mil_value *left = mil_build_reshape(&b, dy, (int64_t[]){batch, 1, OUT, positions}, 4);
    mil_value *right = mil_build_reshape(&b, x, (int64_t[]){batch, 1, IN, positions}, 4);
    mil_value *w = mil_build_matmul(&b, left, right, false, true);
    if (batch > 1) w = mil_build_reduce(&b, MIL_OP_reduce_sum, w, windows, 1, true);
    w = mil_build_reshape(&b, w, (int64_t[]){OUT, IN}, 2);
    mil_value *bias = mil_build_reduce(&b, MIL_OP_reduce_sum, dy, all, 2, true);
    EXPECT_OK(mil_rename(b.function, w, "d_w", &err));
    EXPECT_OK(mil_rename(b.function, bias, "d_b", &err));
    mil_build_result(&b, bias);
    mil_build_result(&b, w);
    EXPECT_OK(mil_build_end(&b, &err));
    return b.function;
}

static void fill(arena *a, rng *r, const mil_function *f, mil_tensor *in) {
    for (int i = 0; i < f->param_count; i++) {
        const int64_t n = mil_type_count(&f->params[i]->type);
        in[i] = (mil_tensor){.type = f->params[i]->type, .data = ARENA_ARRAY(a, n, double)};
        EXPECT(in[i].data);
        for (int64_t k = 0; k < n; k++) in[i].data[k] = mil_round(MIL_fp32, rng_normal(r));
    }
}

static const mil_tensor *named(const mil_function *f, const mil_tensor *in, const char *name) {
    for (int i = 0; i < f->param_count; i++)
        if (strcmp(f->params[i]->name, name) == 0) return &in[i];
    return NULL;
}

static void split(int64_t batch, int64_t positions, int64_t parts) {
    propane_error err = {0};
    mil_module *m = mil_module_create("test");
    arena *a = arena_create();
    mil_function *products = NULL, *sums = NULL;
    mil_tensor in[2], first[2], second[2], *want = NULL, *between = NULL, *got = NULL;
    rng r;
    EXPECT(m && a);
    rng_init(&r, 7);
    mil_function *f = gradients(m, batch, positions);
    fill(a, &r, f, in);
    EXPECT_OK(gradient_products_split(f, m, "products", "sums", &products, &sums, &err));
    EXPECT(products && sums && products->result_count == 1 && sums->result_count == 2);
    EXPECT(strcmp(products->results[0]->name, "dw_w") == 0 && products->results[0]->type.dim[0] == parts * OUT);
    EXPECT(products->param_count == 2 && sums->param_count == 2); /* the host's sums read dy, for d_b, and dw_w */
    for (int i = 0; i < 2; i++) first[i] = *named(f, in, products->params[i]->name);
    EXPECT_OK(mil_eval_function(f, in, false, a, &want, &err));
    EXPECT_OK(mil_eval_function(products, first, false, a, &between, &err));
    for (int i = 0; i < 2; i++)
        second[i] = strcmp(sums->params[i]->name, "dw_w") == 0 ? between[0] : *named(f, in, sums->params[i]->name);
    EXPECT_OK(mil_eval_function(sums, second, false, a, &got, &err));
    double worst = 0;
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < mil_type_count(&want[i].type); k++)
            worst = fmax(worst, fabs(want[i].data[k] - got[i].data[k]));
    EXPECT_MSG(worst < 1e-9, "%lld windows of %lld: off by %g", (long long)batch, (long long)positions,
               worst); /* observed OBS */
    mil_module_free(m);
    arena_free(a);
}

TEST(one_window) { split(1, 100, 1); }
TEST(a_batch_in_one_sum) { split(4, 256, 1); }
TEST(a_batch_in_parts) { split(6, 512, 2); }        /* parts of 3 windows, because 4 do not divide 6 */
TEST(long_windows_in_pieces) { split(2, 3000, 4); } /* pieces of 1500 positions */
TEST(a_window_of_the_most) { split(3, 2048, 3); }
TEST(a_prime_number_of_windows) { split(7, 512, 7); }

TEST(without_a_product_nothing_is_split) {
    propane_error err = {0};
    mil_module *m = mil_module_create("test");
    mil_builder b;
    mil_function *products = NULL, *sums = NULL;
    mil_build_begin(&b, m, "grad", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", (mil_type){MIL_fp32, 4, {2, IN, 1, 9}});
    mil_value *d = mil_build_reduce(&b, MIL_OP_reduce_sum, x, (int64_t[]){0, 3}, 2, true);
    EXPECT_OK(mil_rename(b.function, d, "d_w", &err));
    mil_build_result(&b, d);
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_OK(gradient_products_split(b.function, m, "products", "sums", &products, &sums, &err));
    EXPECT(!products && !sums);
    mil_module_free(m);
}

SUITE("train/gradient_products", T(one_window), T(a_batch_in_one_sum), T(a_batch_in_parts), T(long_windows_in_pieces),
      T(a_window_of_the_most), T(a_prime_number_of_windows), T(without_a_product_nothing_is_split))
