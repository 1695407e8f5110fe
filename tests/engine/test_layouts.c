/* SPDX-License-Identifier: MIT
 * Random programs that move data: slices, transposes, reshapes, concatenations, stacks and tiles with arithmetic
 * between them, in which values are read several times, may be results, and share memory. Each is compiled, run by the
 * interpreter, and compared with its meaning.
 */
#include <math.h>

#include "compiled.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "support/test.h"

enum { VALUES_MAX = 40, COUNT_MAX = 6000 };

typedef struct layouts {
    mil_builder b;
    rng r;
    mil_value *values[VALUES_MAX];
    int count;
} layouts;

static int64_t layouts_below(layouts *l, int64_t n) { return (int64_t)rng_below(&l->r, (uint64_t)n); }

static mil_value *layouts_any(layouts *l) { return l->values[layouts_below(l, l->count)]; }

static mil_value *layouts_call(layouts *l, mil_opcode code, const mil_argument *list, int count) {
    mil_op *op = mil_build_op(&l->b, code, NULL, list, count);
    return op ? op->results[0] : NULL;
}

static mil_value *layouts_slice(layouts *l, mil_value *x) {
    int64_t begin[MIL_MAX_RANK], size[MIL_MAX_RANK];
    for (int d = 0; d < x->type.rank; d++) {
        const int64_t n = x->type.dim[d];
        bool whole = layouts_below(l, 2) || n == 1;
        size[d] = whole ? n : 1 + layouts_below(l, n);
        begin[d] = layouts_below(l, n - size[d] + 1);
        if (d == x->type.rank - 1 && n % 32 == 0 && !whole) size[d] = 32, begin[d] = 32 * layouts_below(l, n / 32);
    }
    return mil_build_slice(&l->b, x, begin, size);
}

static mil_value *layouts_transpose(layouts *l, mil_value *x) {
    int64_t perm[MIL_MAX_RANK];
    const int rank = x->type.rank, movable = layouts_below(l, 3) ? rank - 1 : rank;
    for (int d = 0; d < rank; d++) perm[d] = d;
    for (int d = movable - 1; d > 0; d--) {
        const int64_t e = layouts_below(l, d + 1), kept = perm[d];
        perm[d] = perm[e], perm[e] = kept;
    }
    return mil_build_transpose(&l->b, x, perm, rank);
}

/* Splits or joins dimensions in front of the last. */
static mil_value *layouts_reshape(layouts *l, mil_value *x) {
    const int64_t width = x->type.dim[x->type.rank - 1], rows = mil_type_count(&x->type) / width;
    int64_t a = 1 + layouts_below(l, 6), b = 1 + layouts_below(l, 4);
    while (rows % a) a--;
    while (rows / a % b) b--;
    return mil_build_reshape(&l->b, x, (int64_t[]){a, b, rows / a / b, width}, 4);
}

static mil_value *layouts_concat(layouts *l, mil_value *x) {
    mil_value *parts[3] = {x, x, x};
    const int count = 1 + (int)layouts_below(l, 3);
    for (int i = 0; i < count; i++) {
        mil_value *y = layouts_any(l);
        if (mil_type_equal(&y->type, &x->type)) parts[i] = y;
        if (!layouts_below(l, 3)) parts[i] = mil_build_binary_scalar(&l->b, MIL_OP_mul, parts[i], -0.5);
    }
    if (x->type.rank < 5 && layouts_below(l, 2)) {
        mil_value *const *list = parts, *axis = mil_build_int(&l->b, (int32_t)layouts_below(l, 2));
        return layouts_call(l, MIL_OP_stack, (mil_argument[]){{"values", count, list}, {"axis", 1, &axis}}, 2);
    }
    return mil_build_concat(&l->b, parts, count, (int)layouts_below(l, x->type.rank));
}

static mil_value *layouts_tile(layouts *l, mil_value *x) {
    int64_t times[MIL_MAX_RANK];
    for (int d = 0; d < x->type.rank; d++) times[d] = layouts_below(l, 3) ? 1 : 2;
    mil_value *reps = mil_build_ints(&l->b, times, x->type.rank);
    return layouts_call(l, MIL_OP_tile, (mil_argument[]){{"x", 1, &x}, {"reps", 1, &reps}}, 2);
}

static mil_value *layouts_arithmetic(layouts *l, mil_value *x) {
    static const mil_opcode codes[] = {MIL_OP_add, MIL_OP_mul, MIL_OP_maximum, MIL_OP_sub};
    mil_value *y = layouts_any(l);
    const mil_opcode code = codes[layouts_below(l, 4)];
    if (mil_type_equal(&y->type, &x->type)) return mil_build_binary(&l->b, code, x, y);
    if (layouts_below(l, 2)) return mil_build_unary(&l->b, layouts_below(l, 2) ? MIL_OP_abs : MIL_OP_relu, x);
    if (layouts_below(l, 2)) {
        mil_value *low = mil_build_scalar(&l->b, MIL_fp16, -1), *high = mil_build_scalar(&l->b, MIL_fp16, 0.5);
        return layouts_call(l, MIL_OP_clip, (mil_argument[]){{"x", 1, &x}, {"alpha", 1, &low}, {"beta", 1, &high}}, 3);
    }
    return mil_build_binary_scalar(&l->b, code, x, 0.75);
}

static mil_value *layouts_step(layouts *l) {
    static mil_value *(*const steps[])(layouts *, mil_value *) = {layouts_slice,     layouts_transpose, layouts_reshape,
                                                                  layouts_concat,    layouts_concat,    layouts_tile,
                                                                  layouts_arithmetic};
    return steps[layouts_below(l, sizeof steps / sizeof steps[0])](l, layouts_any(l));
}

static void layouts_build(layouts *l, int steps) {
    static const int64_t widths[] = {5, 8, 32, 64};
    const int64_t w = widths[layouts_below(l, 4)], c = 1 + layouts_below(l, 4), h = 1 + layouts_below(l, 9);
    l->values[l->count++] = mil_build_param(&l->b, "x", mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, c, h, w}));
    l->values[l->count++] = mil_build_param(&l->b, "y", mil_type_tensor(MIL_fp16, 4, (int64_t[]){2, c, 2, w}));
    for (int i = 0; i < steps && l->count < VALUES_MAX && !l->b.err.status; i++) {
        mil_value *v = layouts_step(l);
        if (v && mil_type_count(&v->type) <= COUNT_MAX) l->values[l->count++] = v;
    }
    /* what nothing reads, and a few more, are results */
    mil_value *last = mil_build_binary_scalar(&l->b, MIL_OP_add, l->values[l->count - 1], 0.25);
    mil_build_result(&l->b, last);
    for (int i = 2; i < l->count - 1; i++)
        if (l->values[i]->def && !layouts_below(l, 5)) mil_build_result(&l->b, l->values[i]);
}

static void layouts_drawn(uint32_t subtype, int programs) {
    compile_seen seen = {.subtype = subtype};
    for (int i = 0; i < programs; i++) {
        layouts l = {.count = 0};
        propane_error err = {0};
        rng_init(&l.r, (uint64_t)i + 1);
        mil_module *m = mil_module_create("layouts");
        mil_build_begin(&l.b, m, "main", MIL_IOS18);
        layouts_build(&l, 3 + i % 7);
        if (mil_build_end(&l.b, &err) == PROPANE_OK) {
            double worst = compile_run(m->functions, &l.r, 1, &seen, &err);
            seen.refused += worst < 0;
            if (worst < 0) printf("refused %d: %s\n", i + 1, err.text);
            EXPECT_MSG(worst >= 0 || err.status == PROPANE_ERR_UNSUPPORTED, "seed %d: %s", i + 1, err.text);
            EXPECT_MSG(worst <= 0.002, "seed %d: off by %.3g of the largest value", i + 1, worst);
        }
        mil_module_free(m);
    }
    printf("%d programs of %d tasks, %d equal to the last bit; %d refused\n", seen.programs, seen.tasks, seen.exact,
           seen.refused);
    EXPECT(seen.exact * 10 >= seen.programs * 9 && seen.refused * 5 <= seen.programs);
}

TEST(drawn_layouts_keep_their_meaning) { layouts_drawn(ENGINE_H13, 400); }
TEST(drawn_layouts_for_m2_keep_their_meaning) { layouts_drawn(ENGINE_H14, 200); }

SUITE("engine/layouts", T(drawn_layouts_keep_their_meaning), T(drawn_layouts_for_m2_keep_their_meaning))
