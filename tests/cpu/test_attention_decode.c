/* SPDX-License-Identifier: MIT
 * Attention over a cache that the program writes to, with a mask that is an input. The plan must be one step, the rows
 * must be written to the caches' own memory, and the numbers must equal the evaluator's.
 */
#include <math.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/eval/eval.h"
#include "cpu/attention/attention_decode.h"
#include "cpu/plan/plan.h"
#include "lm/arch/forward.h"
#include "support/test.h"

static propane_error err;

enum { CACHE = 70 };

static model_config config_of(int64_t heads, int64_t kv, int64_t width) {
    model_config c;
    model_config_default(&c);
    c.num_attention_heads = heads;
    c.num_key_value_heads = kv;
    c.head_dim = width;
    c.hidden_size = 24;
    c.intermediate_size = 16;
    c.num_hidden_layers = 1;
    c.vocab_size = 10;
    c.max_position_embeddings = 200;
    return c;
}

/* Fills a parameter: different rows for new keys, a mask with seen and unseen keys, random numbers. */
static void fill(const mil_value *p, mil_tensor *t, int64_t n, rng *r) {
    int64_t count = mil_type_count(&p->type);
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(p->name, "rows") == 0)
            t->data[i] = (double)((i * 31 + 5) % CACHE);
        else if (strcmp(p->name, "mask") == 0)
            t->data[i] = rng_below(r, 3) || (n > 2 && i < CACHE) ? MODEL_MASKED : -0.25 * (double)rng_below(r, 3);
        else
            t->data[i] = rng_normal(r) * 0.4;
    }
}

static void check(cpu_isa isa, mil_dtype dtype, int64_t heads, int64_t kv, int64_t width, int64_t n, rng *r) {
    mil_module *module = mil_module_create("test");
    arena *a = arena_create();
    model_config c = config_of(heads, kv, width);
    model_build_options o = {.batch = 1, .sequence = n, .dtype = dtype};
    mil_function *f;
    cpu_program *p;
    mil_tensor in[24], *want;
    void *inputs[24], *outputs[3];
    EXPECT_OK(model_build_attn_cached(module, "attn", &c, &o, 0, CACHE, &f, &err));
    EXPECT_OK(cpu_plan_compile(f, &(cpu_plan_options){.kernels = cpu_kernels_of(isa), .fuse = true}, a, &p, &err));
    EXPECT(p->attention_count == 1);
    int k_in = -1, v_in = -1;
    for (int i = 0; i < f->param_count; i++) {
        const mil_type *t = &f->params[i]->type;
        int64_t count = mil_type_count(t);
        in[i] = (mil_tensor){.type = *t, .data = ARENA_ARRAY(a, count, double)};
        fill(f->params[i], &in[i], n, r);
        inputs[i] = arena_alloc(a, (size_t)mil_type_bytes(t) + 64);
        mil_pack_f64(inputs[i], t->dtype, in[i].data, count);
        mil_unpack_f64(in[i].data, t->dtype, inputs[i], count);
        if (strcmp(f->params[i]->name, "k_cache") == 0) k_in = i;
        if (strcmp(f->params[i]->name, "v_cache") == 0) v_in = i;
    }
    EXPECT_OK(mil_eval_function(f, in, false, a, &want, &err));
    int64_t out = mil_type_count(&f->results[0]->type), cache = mil_type_count(&f->results[1]->type);
    EXPECT(driver_may_share(p->shares, p->share_count, 1, k_in));
    EXPECT(driver_may_share(p->shares, p->share_count, 2, v_in));
    outputs[0] = arena_alloc(a, (size_t)out * 4 + 64);
    outputs[1] = inputs[k_in];
    outputs[2] = inputs[v_in];
    void *block = mem_pages_alloc((size_t)p->block_bytes + 64);
    EXPECT_OK(cpu_program_run(p, block, inputs, outputs, &err));
    for (int k = 0; k < 3; k++) {
        int64_t count = k ? cache : out;
        double *got = ARENA_ARRAY(a, count, double), worst = 0, largest = 0;
        mil_unpack_f64(got, dtype, outputs[k], count);
        for (int64_t i = 0; i < count; i++) {
            worst = fmax(worst, fabs(got[i] - want[k].data[i]));
            largest = fmax(largest, fabs(want[k].data[i]));
        }
        /* Observed: fp32 6e-7; 4e-4 if a row sees nothing, so that the differences between keys are added to -1e4; fp16
         * 6e-4. */
        double bound = dtype == MIL_fp16 ? 4e-3 : n > 2 ? 1e-3 : 4e-6;
        EXPECT_MSG(worst <= largest * bound, "%s, %lld of %lld heads, %lld new: result %d is %g off, of %g",
                   cpu_isa_name(isa), (long long)kv, (long long)heads, (long long)n, k, worst, largest);
    }
    mem_pages_free(block, (size_t)p->block_bytes + 64);
    cpu_program_deinit(p);
    arena_free(a);
    mil_module_free(module);
}

TEST(one_step_on_every_instruction_set) {
    static const int64_t shapes[][3] = {{4, 4, 8}, {4, 2, 16}, {6, 1, 20}, {2, 2, 64}, {3, 1, 72}};
    rng r;
    rng_init(&r, 9);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_isa_available((cpu_isa)isa)) continue;
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (int64_t n = 1; n <= 9; n += n < 3 ? 1 : 3)
                for (int half = 0; half < 2; half++)
                    check((cpu_isa)isa, half ? MIL_fp16 : MIL_fp32, shapes[i][0], shapes[i][1], shapes[i][2], n, &r);
    }
}

SUITE("cpu/attention_decode", T(one_step_on_every_instruction_set))
