/* SPDX-License-Identifier: MIT
 * Compares two ways to update keys and values on a Neural Engine, where a program can only write whole outputs. In the
 * first, the host copies the new rows into the cache (as src/lm/infer does there). In the second, the program writes
 * the whole cache to a second surface, which alternates with the first; a mask selects the place of the new row. The
 * times are simulated, for one layer's attention of the shape of Stories110M and caches of several lengths; the host's
 * copy is measured on this machine.
 *
 *   bench_cache [device]        sim:m4 if none is given
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "lm/arch/forward.h"
#include "propane.h"

enum { LAYERS = 12, MOST = 40 };

static propane_error err;

static void must(propane_status status) {
    if (!status) return;
    fprintf(stderr, "bench_cache: %s\n", err.text);
    exit(1);
}

static mil_value *find(mil_value *const *values, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(values[i]->name, name) == 0) return values[i];
    fprintf(stderr, "bench_cache: there is no '%s'\n", name);
    exit(1);
}

/* Builds the cache with the new row in its place: cache * keep + fresh * place, both masks [1, T, 1, 1]. */
static void give_whole(mil_builder *b, const char *cache_name, const char *fresh_name, const char *out, mil_value *keep,
                       mil_value *place) {
    mil_function *f = b->function;
    mil_value *cache = find(f->params, f->param_count, cache_name);
    mil_value *fresh = find(f->results, f->result_count, fresh_name);
    mil_value *all = mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, cache, keep),
                                      mil_build_binary(b, MIL_OP_mul, fresh, place));
    if (all) must(mil_rename(f, all, out, &b->err));
    mil_build_result(b, all);
}

static propane_program *compile(propane_device *d, const model_config *c, int64_t cache, bool whole) {
    mil_module *m = mil_module_create("cache");
    mil_function *f;
    const model_build_options o = {.batch = 1, .sequence = 1, .dtype = MIL_fp16};
    propane_program *p;
    if (!m) exit(1);
    must(model_build_attn_decode(m, "attn", c, &o, 0, cache, &f, &err));
    if (whole) {
        const int64_t dim[] = {1, cache, 1, 1};
        mil_builder b = {0};
        mil_build_resume(&b, f);
        mil_value *keep = mil_build_param(&b, "keep", mil_type_tensor(MIL_fp16, 4, dim));
        mil_value *place = mil_build_param(&b, "place", mil_type_tensor(MIL_fp16, 4, dim));
        give_whole(&b, "k_cache", "k_new", "k_cache_out", keep, place);
        give_whole(&b, "v_cache", "v_new", "v_cache_out", keep, place);
        must(mil_build_end(&b, &err));
    }
    must(propane_program_compile(d, m, NULL, &p, &err));
    mil_module_free(m);
    return p;
}

/* Runs once, with zeros in the buffers. */
static double device_us(propane_device *d, propane_program *p) {
    propane_binding all[MOST];
    propane_completion done = {.size = sizeof done};
    propane_request *r;
    int inputs = propane_program_input_count(p), count = inputs + propane_program_output_count(p);
    if (count > MOST) exit(1);
    for (int i = 0; i < count; i++) {
        const propane_io *io = i < inputs ? propane_program_input(p, i) : propane_program_output(p, i - inputs);
        all[i].name = io->name;
        must(propane_buffer_create(d, io->bytes, &all[i].buffer, &err));
    }
    must(propane_request_create(p, all, count, &r, &err));
    must(propane_submit(&r, 1, &err));
    must(propane_wait(r, &done, &err));
    propane_request_free(r);
    for (int i = 0; i < count; i++) propane_buffer_free(all[i].buffer);
    return (double)done.device_ns / 1e3;
}

/* Times the host's way: copies two rows of these widths from one surface to another, including locks. */
static double copy_us(propane_device *d, const model_config *c, int64_t cache) {
    size_t row = (size_t)(c->num_key_value_heads * c->head_dim) * 2;
    propane_buffer *from, *to;
    double best = 1e9;
    must(propane_buffer_create(d, row, &from, &err));
    must(propane_buffer_create(d, row * (size_t)cache, &to, &err));
    for (int round = 0; round < 200; round++) {
        int64_t start = clock_ns();
        for (int k = 0; k < 2; k++) {
            void *source, *target;
            must(propane_buffer_lock(from, false, &source, &err));
            must(propane_buffer_lock(to, true, &target, &err));
            memcpy((char *)target + row * (size_t)(round % cache), source, row);
            propane_buffer_unlock(to);
            propane_buffer_unlock(from);
        }
        best = fmin(best, (double)(clock_ns() - start) / 1e3);
    }
    propane_buffer_free(from);
    propane_buffer_free(to);
    return best;
}

int main(int argc, char **argv) {
    const char *uri = argc > 1 ? argv[1] : "sim:m4";
    propane_device *d;
    model_config c;
    model_config_default(&c);
    c.hidden_size = 768;
    c.intermediate_size = 2048;
    c.num_hidden_layers = LAYERS;
    c.num_attention_heads = c.num_key_value_heads = 12;
    c.head_dim = 64;
    c.vocab_size = 32000;
    c.max_position_embeddings = 4096;
    must(propane_device_open(uri, &d, &err));
    printf("%s, one layer's attention of a token, width 768, fp16; times simulated, the copy measured here\n", uri);
    printf("%-8s %16s %14s %18s %22s\n", "cache", "with new rows", "+ the copy", "whole cache out",
           "more for 12 layers");
    for (int64_t cache = 64; cache <= 4096; cache *= 4) {
        propane_program *rows = compile(d, &c, cache, false), *whole = compile(d, &c, cache, true);
        double a = device_us(d, rows), copy = copy_us(d, &c, cache), w = device_us(d, whole);
        printf("%-8lld %13.1f us %11.2f us %15.1f us %19.1f us\n", (long long)cache, a, copy, w,
               LAYERS * (w - a - copy));
        propane_program_free(rows);
        propane_program_free(whole);
    }
    propane_device_close(d);
    return 0;
}
