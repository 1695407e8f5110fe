/* SPDX-License-Identifier: MIT
 * Cutting. Kernels that run one after the other, bound by name, produce the joint function's results to the last bit.
 * The kernels receive, recompute and leave out exactly the values that the plan lists.
 */
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/grad/grad.h"
#include "support/grad_check.h"
#include "support/grad_model.h"
#include "support/test.h"

static const grad_model small = {2, 6, 4, 4, 2, 2, 5};

/* ---- running kernels by name ------------------------------------------------------------------------------------- */

typedef struct named {
    const char *name;
    mil_tensor tensor;
} named;

typedef struct pot {
    named all[400];
    int count;
} pot;

static void put(pot *p, const char *name, mil_tensor t) { p->all[p->count++] = (named){name, t}; }

static const mil_tensor *get(const pot *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->all[i].name, name) == 0) return &p->all[i].tensor;
    ck_abort_msg("nobody made '%s'", name);
    return NULL;
}

static void run(const mil_function *f, pot *p, arena *a) {
    propane_error err = {0};
    mil_tensor in[64], *out;
    for (int i = 0; i < f->param_count; i++) in[i] = *get(p, f->params[i]->name);
    EXPECT_OK(mil_eval_function(f, in, true, a, &out, &err));
    for (int i = 0; i < f->result_count; i++) put(p, f->results[i]->name, out[i]);
}

static void fill(pot *p, const mil_function *f, arena *a) {
    grad_draws *d = ARENA_NEW(a, grad_draws);
    rng_init(&d->random, 3);
    for (int i = 0; i < f->param_count; i++) {
        mil_tensor t = {f->params[i]->type, ARENA_ARRAY(a, mil_type_count(&f->params[i]->type), double)};
        grad_draw(d, &t.type, t.data);
        put(p, f->params[i]->name, t);
    }
}

static void same_results(const mil_function *f, mil_function *const *kernels, int count) {
    arena *a = arena_create();
    pot *whole = ARENA_NEW(a, pot), *cut = ARENA_NEW(a, pot);
    fill(whole, f, a);
    *cut = *whole;
    run(f, whole, a);
    for (int k = 0; k < count; k++)
        if (kernels[k]) run(kernels[k], cut, a);
    for (int i = 0; i < f->result_count; i++) {
        const mil_tensor *want = get(whole, f->results[i]->name), *got = get(cut, f->results[i]->name);
        EXPECT_MSG(memcmp(want->data, got->data, (size_t)mil_type_count(&want->type) * sizeof(double)) == 0,
                   "'%s' differs", f->results[i]->name);
    }
    arena_free(a);
}

/* ---- the six kernels --------------------------------------------------------------------------------------------- */

static const char *const six[] = {"fwdAttn", "fwdFFN", "ffnBwd", "sdpaBwd1", "sdpaBwd2", "qkvBwd"};

static bool in_ffn(const mil_op *op) {
    return op->stage && (strcmp(op->stage, "norm2") == 0 || strcmp(op->stage, "up") == 0 ||
                         strcmp(op->stage, "act") == 0 || strcmp(op->stage, "down") == 0);
}

static bool is_stage(const mil_op *op, const char *stage) { return op->stage && strcmp(op->stage, stage) == 0; }

static int home_six(void *ctx, const mil_op *op) {
    ++*(int *)ctx;
    if (!op->backward) return in_ffn(op) ? 1 : 0;
    if (in_ffn(op)) return 2;
    if (is_stage(op, "out") || is_stage(op, "mix") || is_stage(op, "softmax")) return 3;
    if (is_stage(op, "scores") || is_stage(op, "rope")) return 4;
    return 5;
}

/* Recomputes cheap forward ops in every backward kernel: normalisation and activation. */
static bool again(void *ctx, const mil_op *op, int kernel) {
    (void)ctx;
    return kernel >= 2 && !op->backward && (is_stage(op, "norm") || is_stage(op, "norm2") || is_stage(op, "act"));
}

static mil_function *layer_joint(mil_module *m) {
    propane_error err = {0};
    mil_function *joint = NULL;
    EXPECT_OK(grad_function(grad_model_build(m, "layer", &small, MIL_fp32), "joint", NULL, 0, &joint, &err));
    return joint;
}

static bool has_param(const mil_function *f, const char *name) {
    for (int i = 0; i < f->param_count; i++)
        if (strcmp(f->params[i]->name, name) == 0) return true;
    return false;
}

static void check_order(const mil_function *joint, const mil_function *kernel) {
    int last = -1;
    bool crossing = false;
    for (int i = 0; i < kernel->param_count; i++) {
        int at = -1;
        for (int k = 0; k < joint->param_count; k++)
            if (strcmp(joint->params[k]->name, kernel->params[i]->name) == 0) at = k;
        if (at < 0) crossing = true;
        EXPECT_MSG(at < 0 || (!crossing && at > last), "'%s' of '%s' is out of order", kernel->params[i]->name,
                   kernel->name);
        if (at >= 0) last = at;
    }
}

TEST(six_kernels_give_the_same_bits) {
    propane_error err = {0};
    int counts[2];
    for (int recompute = 0; recompute < 2; recompute++) {
        mil_module *m = mil_module_create("joint"), *into = mil_module_create("kernels");
        mil_function *joint = layer_joint(m), *kernels[6];
        int calls = 0;
        grad_cut_plan plan = {6, six, home_six, recompute ? again : NULL, &calls};
        EXPECT_OK(grad_cut(joint, &plan, into, kernels, &err));
        EXPECT_OK(mil_verify(into, &err));
        EXPECT(into->function_count == 6 && calls <= joint->op_count);
        counts[recompute] = 0;
        for (int k = 0; k < 6; k++) {
            EXPECT(kernels[k] != NULL);
            EXPECT_TEXT(kernels[k]->name, six[k]);
            check_order(joint, kernels[k]);
            counts[recompute] += kernels[k]->param_count;
        }
        EXPECT_TEXT(kernels[0]->params[0]->name, "x");
        EXPECT_TEXT(kernels[1]->results[0]->name, "y");
        EXPECT(!has_param(kernels[0], "d_y") && has_param(kernels[2], "d_y"));
        same_results(joint, kernels, 6);
        mil_module_free(m); /* the kernels are independent of it */
        EXPECT_OK(mil_verify(into, &err));
        mil_module_free(into);
    }
    printf("grad/cut: six kernels take %d inputs; %d when norm and activation are computed again\n", counts[0],
           counts[1]);
    EXPECT(counts[1] < counts[0]);
}

/* ---- a chain by hand --------------------------------------------------------------------------------------------- */

/* a = exp x; b = a * w; dead = tanh b; c = sin a; y = b + c; z = x (a parameter); k (a constant). */
static mil_function *chain(mil_module *m) {
    propane_error err = {0};
    mil_builder b;
    mil_type type = mil_type_tensor(MIL_fp32, 1, (int64_t[]){3});
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *w = mil_build_param(&b, "w", type), *x = mil_build_param(&b, "x", type);
    mil_value *weights = mil_build_const_f64(&b, "k", &type, (double[]){1, 2, 3});
    mil_value *v[5];
    static const char *const names[] = {"a", "b", "dead", "c", "y"};
    v[0] = mil_build_unary(&b, MIL_OP_exp, x);
    v[1] = mil_build_binary(&b, MIL_OP_mul, v[0], w);
    v[2] = mil_build_unary(&b, MIL_OP_tanh, v[1]);
    v[3] = mil_build_binary(&b, MIL_OP_add, mil_build_unary(&b, MIL_OP_sin, v[0]), weights);
    v[4] = mil_build_binary(&b, MIL_OP_add, v[1], v[3]);
    mil_build_result(&b, v[4]);
    EXPECT_OK(mil_build_end(&b, &err));
    for (int i = 0; i < 5; i++) EXPECT_OK(mil_rename(b.function, v[i], names[i], &err));
    return b.function;
}

typedef struct homes {
    const char *names[8];
    int kernels[8];
    const char *again;
} homes;

static int home_by_name(void *ctx, const mil_op *op) {
    const homes *h = ctx;
    for (int i = 0; i < 8 && h->names[i]; i++)
        if (strcmp(h->names[i], op->results[0]->name) == 0) return h->kernels[i];
    return 0;
}

static bool again_by_name(void *ctx, const mil_op *op, int kernel) {
    const homes *h = ctx;
    (void)kernel;
    return h->again && strstr(h->again, op->results[0]->name) != NULL;
}

static const char *const three[] = {"k0", "k1", "k2"};

static propane_status cut_chain(mil_module *m, const homes *h, mil_function *out[3], mil_module *into,
                                propane_error *err) {
    grad_cut_plan plan = {3, three, home_by_name, again_by_name, (void *)(uintptr_t)h};
    return grad_cut(chain(m), &plan, into, out, err);
}

static void expect_names(mil_value *const *values, int count, const char *wanted) {
    char text[400] = "";
    for (int i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", values[i]->name);
    EXPECT_TEXT(text, wanted);
}

TEST(crossing_values) {
    propane_error err = {0};
    mil_module *m = mil_module_create("m"), *into = mil_module_create("into");
    mil_function *k[3];
    EXPECT_OK(cut_chain(m, &(homes){.names = {"sin", "c", "y"}, .kernels = {2, 2, 2}}, k, into, &err));
    EXPECT(k[0] && !k[1] && k[2] && into->function_count == 2);
    expect_names(k[0]->params, k[0]->param_count, "w x");
    expect_names(k[0]->results, k[0]->result_count, "a b");
    expect_names(k[2]->params, k[2]->param_count, "a b");
    expect_names(k[2]->results, k[2]->result_count, "y");
    for (const mil_op *op = k[0]->first; op; op = op->next)
        EXPECT(op->info->code != MIL_OP_tanh && op->info->code != MIL_OP_const);
    same_results(m->functions, k, 3);
    mil_module_free(m);
    mil_module_free(into);
}

/* Recomputes a in the last kernel: it receives x instead of a, so a is no longer a tap of the first kernel. */
TEST(recomputed_values) {
    propane_error err = {0};
    mil_module *m = mil_module_create("m"), *into = mil_module_create("into");
    mil_function *k[3];
    EXPECT_OK(cut_chain(m, &(homes){.names = {"sin", "c", "y"}, .kernels = {2, 2, 2}, .again = "a"}, k, into, &err));
    expect_names(k[0]->results, k[0]->result_count, "b");
    expect_names(k[2]->params, k[2]->param_count, "x b");
    same_results(m->functions, k, 3);
    mil_module_free(m);
    mil_module_free(into);
    /* Everything is recomputed, so the first kernels have nothing left to do. */
    m = mil_module_create("m"), into = mil_module_create("into");
    EXPECT_OK(cut_chain(m, &(homes){.names = {"y"}, .kernels = {1}, .again = "a b c sin"}, k, into, &err));
    EXPECT(!k[0] && k[1] && !k[2]);
    expect_names(k[1]->params, k[1]->param_count, "w x");
    same_results(m->functions, k, 3);
    mil_module_free(m);
    mil_module_free(into);
}

TEST(wrong_plans) {
    propane_error err = {0};
    mil_module *m = mil_module_create("m"), *into = mil_module_create("into");
    mil_function *k[3];
    EXPECT_FAIL(cut_chain(m, &(homes){.names = {"b", "sin", "c", "y"}, .kernels = {2, 1, 1, 1}}, k, into, &err),
                PROPANE_ERR_INVALID,
                "value 'b' would flow backwards: kernel 'k1' uses it, but the later kernel 'k2' produces it");
    EXPECT(!k[0] && !k[1] && !k[2] && into->function_count == 0 && !into->functions);
    mil_module_free(m);
    m = mil_module_create("m");
    EXPECT_FAIL(cut_chain(m, &(homes){.names = {"c"}, .kernels = {3}}, k, into, &err), PROPANE_ERR_INVALID,
                "add 'c': the plan places it in kernel 3 of 3");
    mil_module_free(m);
    m = mil_module_create("m");
    mil_module_free(into);
    into = mil_module_create("into"); /* a name already in use */
    mil_builder b;
    mil_build_begin(&b, into, "k2", MIL_IOS18);
    EXPECT_FAIL(cut_chain(m, &(homes){.names = {"y"}, .kernels = {2}}, k, into, &err), PROPANE_ERR_INVALID, "'k2'");
    EXPECT(into->function_count == 1 && into->functions->next == NULL);
    mil_module_free(m);
    mil_module_free(into);
}

/* Weight gradients only: their ops are the matrix products for the host. */
TEST(only_for_weights) {
    propane_error err = {0};
    mil_module *m = mil_module_create("m");
    mil_function *joint = layer_joint(m);
    static const char *const weights[] = {"d_wq", "d_wk", "d_wv", "d_wo", "d_w1", "d_w3", "d_w2"};
    bool *only = mem_array((size_t)joint->op_count, sizeof *only);
    EXPECT_OK(grad_only_for(joint, weights, 7, only, &err));
    int n = 0, products = 0, others = 0;
    for (const mil_op *op = joint->first; op; op = op->next, n++) {
        if (!only[n]) continue;
        EXPECT(op->backward || op->info->code == MIL_OP_const);
        products += op->info->code == MIL_OP_matmul;
        others += op->info->code != MIL_OP_matmul && op->info->code != MIL_OP_const;
    }
    EXPECT(products == 7 && others <= 14); /* the sum over the batch and the reshape after it */
    EXPECT_FAIL(grad_only_for(joint, (const char *const[]){"d_nothing"}, 1, only, &err), PROPANE_ERR_NOT_FOUND,
                "'d_nothing'");
    mem_free(only);
    mil_module_free(m);
}

/* Any assignment of the backward ops to kernels that preserves the order works: random cuts, random recomputation. */
typedef struct random_cut {
    const mil_function *f;
    int kernels, serial;
    uint64_t seed;
} random_cut;

static uint64_t stir(uint64_t v) {
    rng r;
    rng_init(&r, v);
    return rng_next(&r);
}

static int home_random(void *ctx, const mil_op *op) {
    const random_cut *c = ctx;
    int n = 0;
    for (const mil_op *at = c->f->first; at != op; at = at->next) n++;
    return n * c->kernels / c->f->op_count;
}

static bool again_random(void *ctx, const mil_op *op, int kernel) {
    const random_cut *c = ctx;
    return stir(c->seed ^ (uint64_t)op->results[0]->id * 977 ^ (uint64_t)kernel << 20) % 3 == 0;
}

TEST(random_cuts) {
    propane_error err = {0};
    static const char *const names[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"};
    mil_module *m = mil_module_create("m");
    mil_function *joint = layer_joint(m);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mil_module *into = mil_module_create("into");
        mil_function *k[10];
        random_cut c = {joint, 2 + (int)(seed % 9), 0, seed};
        grad_cut_plan plan = {c.kernels, names, home_random, again_random, &c};
        EXPECT_OK(grad_cut(joint, &plan, into, k, &err));
        same_results(joint, k, c.kernels);
        mil_module_free(into);
    }
    mil_module_free(m);
}

SUITE("grad/cut", T(six_kernels_give_the_same_bits), T(crossing_values), T(recomputed_values), T(wrong_plans),
      T(only_for_weights), T(random_cuts))
