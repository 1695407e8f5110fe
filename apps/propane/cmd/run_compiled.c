/* SPDX-License-Identifier: MIT
 * Owns the run of a compiled program: fills its input surfaces, runs it in the interpreter, and prints the results or
 * writes them to files.
 */
#include "apps/propane/cmd/run_compiled.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ane/h13/simulate.h"
#include "apps/propane/cmd/nonfinite_report.h"
#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/base/text.h"
#include "core/run/session.h"

static int64_t run_compiled_count(const engine_surface *s) { return s->n * s->c * s->h * s->w; }

static propane_status run_compiled_fill(const engine_surface *s, const session_inputs *given, int64_t seed,
                                        engine_memory to, propane_error *err) {
    const npy *array = NULL;
    int64_t count = run_compiled_count(s);
    for (int i = 0; i < given->count; i++)
        if (given->list[i].name && strcmp(given->list[i].name, s->name) == 0) array = &given->list[i].array;
    if (!array && seed < 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "input '%s' [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                            "] is missing; give --input %s=FILE.npy, or --seed for random numbers",
                            s->name, s->n, s->c, s->h, s->w, s->name);
    if (array && array->count != count)
        return propane_fail(err, PROPANE_ERR_INVALID, "'%s' needs %" PRId64 " numbers, but its array has %" PRId64,
                            s->name, count, array->count);
    uint16_t *dense = mem_array((size_t)count, sizeof *dense);
    if (!dense) return propane_fail_memory(err, (size_t)count * sizeof *dense);
    rng r;
    rng_init(&r, (uint64_t)seed);
    for (int64_t i = 0; i < count; i++) dense[i] = fp16_from_f64(array ? npy_element(array, i) : rng_normal(&r));
    propane_status status = engine_surface_fill(s, dense, to, err);
    mem_free(dense);
    return status;
}

static bool run_compiled_given_finite(const session_inputs *given) {
    for (int i = 0; i < given->count; i++)
        for (int64_t k = 0; k < given->list[i].array.count; k++)
            if (!isfinite(npy_element(&given->list[i].array, k))) return false;
    return true;
}

/* Reports non-finite values of an output. The message cannot name an operation, because registers keep no names. */
static void run_compiled_print_nonfinite(const engine_surface *s, const uint16_t *dense, int64_t count,
                                         bool given_finite, bool *not_finite) {
    int64_t nan = 0, infinite = 0;
    char words[80];
    for (int64_t i = 0; i < count; i++) {
        nan += isnan(fp16_to_f32(dense[i])) != 0;
        infinite += isinf(fp16_to_f32(dense[i])) != 0;
    }
    if (!nan && !infinite) return;
    nonfinite_words(words, nan, infinite);
    fprintf(stderr, "propane run: output '%s' has %s of %" PRId64 "%s\n", s->name, words, count,
            given_finite ? "; in a compiled program the operation cannot be named" : ", as an input has");
    *not_finite |= given_finite;
}

static propane_status run_compiled_print(const engine_surface *s, engine_memory from, const char *folder,
                                         bool given_finite, bool *not_finite, propane_error *err) {
    int64_t count = run_compiled_count(s), dim[4] = {s->n, s->c, s->h, s->w};
    uint16_t *dense = mem_array((size_t)count, sizeof *dense);
    if (!dense) return propane_fail_memory(err, (size_t)count * sizeof *dense);
    propane_status status = engine_surface_take(s, from, dense, err);
    printf("%s [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]:", s->name, s->n, s->c, s->h, s->w);
    for (int64_t i = 0; i < count && i < 8; i++) printf(" %g", (double)fp16_to_f32(dense[i]));
    printf("%s\n", count > 8 ? " ..." : "");
    if (!status) run_compiled_print_nonfinite(s, dense, count, given_finite, not_finite);
    if (!status && folder) {
        char path[4096];
        npy array = {.kind = 'f', .size = 2, .rank = 4, .count = count, .data = dense};
        memcpy(array.dim, dim, sizeof dim);
        snprintf(path, sizeof path, "%s/%s.npy", folder, s->name);
        status = npy_write(path, &array, err);
    }
    mem_free(dense);
    return status;
}

static propane_status run_compiled_object(const engine_object *o, const session_inputs *given, int64_t seed,
                                          const char *output, engine_memory *buffers, bool *not_finite,
                                          propane_error *err) {
    engine_arithmetic how = engine_arithmetic_of(o->subtype);
    PROPANE_TRY(engine_object_runs(o, err));
    for (int i = 0; i < o->surface_count; i++) {
        const engine_surface *s = &o->surfaces[i];
        if (s->bar < 0) continue;
        engine_memory *b = &buffers[s->bar];
        *b = (engine_memory){mem_alloc((size_t)engine_surface_bytes(s)), engine_surface_bytes(s)};
        if (!b->data) return propane_fail_memory(err, (size_t)b->bytes);
        if (!s->written) PROPANE_TRY(run_compiled_fill(s, given, seed, *b, err));
    }
    engine_machine *m = engine_machine_create(how);
    if (!m) return propane_fail_memory(err, 1 << 22);
    propane_status status = engine_simulate_object(m, o, buffers, err);
    engine_machine_free(m);
    if (!status && output) status = file_make_dir(output, err);
    const bool given_finite = run_compiled_given_finite(given);
    for (int i = 0; i < o->surface_count && !status; i++)
        if (o->surfaces[i].written)
            status =
                run_compiled_print(&o->surfaces[i], buffers[o->surfaces[i].bar], output, given_finite, not_finite, err);
    if (!status)
        printf("%d task%s of %s, with %s\n", o->task_count, text_plural(o->task_count), o->source,
               how == ENGINE_WIDE ? "wide sums: the rounding of an M1 is not known for certain" : "sums in Q15.16");
    return status;
}

propane_status run_compiled(const char *path, const cli_list *given, int64_t seed, const char *output, bool *not_finite,
                            propane_error *err) {
    engine_object *o = NULL;
    session_inputs in = {0};
    engine_memory buffers[ENGINE_BARS] = {{0}};
    propane_status status = PROPANE_OK;
    for (int i = 0; i < given->count && !status; i++) status = session_inputs_add(&in, given->items[i], err);
    if (!status) status = engine_object_open(path, &o, err);
    if (!status) status = run_compiled_object(o, &in, seed, output, buffers, not_finite, err);
    session_inputs_free(&in);
    for (int i = 0; i < ENGINE_BARS; i++) mem_free(buffers[i].data);
    engine_object_free(o);
    return status;
}
