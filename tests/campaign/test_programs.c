/* SPDX-License-Identifier: MIT
 * Tests generated programs (support/grown_program.h, support/random_program.h) on everything that computes, against the
 * slow double-precision reference: the cpu driver's plans with the instruction sets that this machine has, fused or
 * not, the simulator, and the ane driver on the stand-in. Conversely, an error is planted in each kind of step and must
 * be found.
 *
 * The tolerance follows from the program itself: the reference is computed exactly, and with each value rounded to its
 * type. The difference between the two is the effect of rounding here.
 *
 * A third of the programs get numbers of extreme sizes, infinities and NaN among their inputs. If both references agree
 * whether a result is finite, infinite or NaN, the result must be of the same kind.
 *
 * PROGRAMS=N: number of programs (300); SEED=N: first seed (1); CAMPAIGN_STATE: counts the programs there;
 * PROGRAMS_VERBOSE: prints refusals and wrong programs; FIRST=N: the seed of one program, to repeat it.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/text/mil_text.h"
#include "cpu/plan/plan.h"
#include "support/ane_rig.h"
#include "support/device_run.h"
#include "support/grown_program.h"
#include "support/random_program.h"
#include "support/test.h"

enum { MOST_IO = 64 };

static propane_error err;
static bool with_extremes = true; /* an error of a thousandth is planted among ordinary numbers */

static uint64_t first_seed(void) { return test_number("FIRST", test_number("SEED", 1) * 1000000); }

/* ---- a program and its reference results
 * -------------------------------------------------------------------------------- */

typedef struct program {
    uint64_t seed;
    op_case *grown; /* NULL for one of random_program */
    mil_module *module;
    const mil_function *f;
    const mil_tensor *inputs;
    mil_tensor own[8];
    mil_tensor *exact, *rounded;
    double length; /* upper bound of the square root of the longest sum */
    double unit;   /* of the coarsest type in it: a plan may round some values to it and keep others exact */
    bool extreme;  /* some numbers of the inputs have the largest and smallest sizes, or are infinite or NaN */
    bool drawn;    /* random numbers: only the cpu driver draws the same ones as the reference */
    arena *a;
    char label[300];
} program;

static double length_of(const mil_function *f) {
    double most = 1;
    for (const mil_op *op = f->first; op; op = op->next) {
        mil_cost cost;
        double out = 1, in = 1;
        mil_op_cost(op, &cost);
        for (int r = 0; r < op->result_count; r++) out += (double)mil_type_count(&op->results[r]->type);
        for (int p = 0; p < op->info->param_count; p++)
            for (int k = 0; k < op->operands[p].count; k++)
                in += (double)mil_type_count(&op->operands[p].values[k]->type);
        most = fmax(most, fmax(cost.flops / out, in / out));
    }
    return sqrt(most);
}

static void fill_own(program *p, rng *r) {
    for (int i = 0; i < p->f->param_count; i++) {
        const mil_type *type = &p->f->params[i]->type;
        double *data = arena_alloc(p->a, sizeof(double) * (size_t)mil_type_count(type));
        for (int64_t k = 0; k < mil_type_count(type); k++) data[k] = mil_round(type->dtype, rng_normal(r));
        p->own[i] = (mil_tensor){.type = *type, .data = data};
    }
    p->inputs = p->own;
}

/* Replaces some elements of the floating-point inputs. Larger numbers than fp16's would overflow in sums of fp32, where
 * the reference, in double precision, does not. */
static void fill_extremes(program *p, rng *r, int count) {
    static const double some[] = {NAN,   INFINITY, -INFINITY, 0,       -0.0,     65504,     -65504,
                                  65472, 0x1p-24,  -0x1p-24,  0x1p-14, 0x1p-149, -0x1p-126, 1e-30,
                                  0.1,   0.7,      -0.3,      2049,    4095,     1,         -1};
    mil_tensor *wild = ARENA_ARRAY(p->a, count + 1, mil_tensor);
    const uint64_t one_in = 2 + rng_below(r, 30);
    EXPECT(wild != NULL);
    for (int i = 0; i < count; i++) {
        const mil_type *type = &p->f->params[i]->type;
        wild[i] = p->inputs[i];
        if (!mil_dtype_is_float(type->dtype)) continue;
        double *data = ARENA_ARRAY(p->a, mil_type_count(type) + 1, double);
        EXPECT(data != NULL);
        const bool weights =
            strncmp(p->f->params[i]->name, "weight", 6) == 0; /* padding: zeros times infinity, or left out */
        for (int64_t k = 0; k < mil_type_count(type); k++) {
            const double v = some[(weights ? 3 : 0) + rng_below(r, sizeof some / sizeof *some - (weights ? 3 : 0))];
            data[k] = rng_below(r, one_in) ? p->inputs[i].data[k] : mil_round(type->dtype, v);
        }
        wild[i].data = data;
    }
    p->inputs = wild;
    p->extreme = true;
}

/* Returns false for operations whose results depend on the order of sums, as in test_numbers: zeros times infinity may
 * be left out, and among large scores that are nearly equal, rounding decides which is the largest. */
static bool follows_extremes(const program *p) {
    static const mil_opcode open[] = {MIL_OP_conv_transpose, MIL_OP_einsum, MIL_OP_local_response_norm, MIL_OP_rnn,
                                      MIL_OP_scaled_dot_product_attention};
    for (const mil_op *op = p->f->first; op; op = op->next)
        for (size_t i = 0; i < sizeof open / sizeof *open; i++)
            if (op->info->code == open[i]) return false;
    return true;
}

/* Returns false if a device cannot get such a request: the drawn parts do not fit, results are smaller than a byte,
 * or there are none. */
static bool program_make(program *p, uint64_t seed) {
    *p = (program){.seed = seed, .a = arena_create()};
    EXPECT(p->a != NULL);
    if (seed % 5 == 0) {
        rng r;
        rng_init(&r, seed);
        p->module = mil_module_create("random");
        p->f = random_program(p->module, "main", seed, 4 + (int)rng_below(&r, 30));
        fill_own(p, &r);
    } else {
        p->grown = grown_program(seed, &err);
        if (!p->grown) return false;
        p->module = p->grown->module, p->f = p->grown->function, p->inputs = p->grown->inputs;
        p->drawn = strncmp(mil_op_get(p->grown->code)->name, "random_", 7) == 0;
    }
    snprintf(p->label, sizeof p->label, "program %llu (%.200s)", (unsigned long long)seed,
             p->grown ? p->grown->label : "random");
    for (int r = 0; r < p->f->result_count; r++)
        if (mil_dtype_get(p->f->results[r]->type.dtype)->bits < 8) return false;
    if (!p->f->result_count || p->f->result_count > MOST_IO) return false;
    if (with_extremes && seed / 5 % 3 == 1 && !p->drawn && follows_extremes(p)) {
        rng r;
        rng_init(&r, seed + 1);
        fill_extremes(p, &r, p->f->param_count);
    }
    if (mil_eval_function(p->f, p->inputs, false, p->a, &p->exact, &err) ||
        mil_eval_function(p->f, p->inputs, true, p->a, &p->rounded, &err))
        ck_abort_msg("%s: %s", p->label, err.text);
    p->length = length_of(p->f);
    for (const mil_op *op = p->f->first; op; op = op->next)
        for (int r = 0; r < op->result_count; r++)
            if (op->results[r]->type.dtype == MIL_fp16) p->unit = 0x1p-11;
    /* weights are spread inside: the terms that cancel are larger than any visible value */
    if (p->grown && strstr(mil_op_get(p->grown->code)->name, "quantized")) p->length *= 4;
    return true;
}

static void program_free(program *p) {
    if (p->grown)
        op_case_free(p->grown);
    else
        mil_module_free(p->module);
    arena_free(p->a);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------ */

/* Returns whether intermediate rounding decides if a result is finite, infinite or NaN, or which integer it is. */
static bool unlike(double exact, double rounded, bool real) {
    if (!real || isinf(exact)) return exact != rounded;
    return isnan(exact) != isnan(rounded) || isfinite(exact) != isfinite(rounded);
}

/* Returns the worst error of result `k` in units of its bound; above 1 is wrong (observed in 10,000 programs:
 * 0.78). `unit` is the least rounding error to allow (0 means the result type's). */
static double error_of(const program *p, int k, const double *got, double unit) {
    const mil_type *type = &p->f->results[k]->type;
    const int64_t count = mil_type_count(type);
    const bool real = mil_dtype_is_float(type->dtype), half = type->dtype == MIL_fp16;
    const double *want = p->exact[k].data;
    double scale = 1, apart = 0, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(want[i])) scale = fmax(scale, fabs(want[i]));
        const double d = fabs(want[i] - p->rounded[k].data[i]);
        if (isfinite(d)) apart = fmax(apart, d);
    }
    unit = fmax(fmax(unit, p->unit), half ? 0x1p-11 : FLT_EPSILON / 2);
    for (int64_t i = 0; i < count; i++) {
        const double w = real ? mil_round(type->dtype, want[i]) : want[i];
        if (w == got[i] || (isnan(w) && isnan(got[i]))) continue;
        if (p->extreme && unlike(w, real ? mil_round(type->dtype, p->rounded[k].data[i]) : p->rounded[k].data[i], real))
            continue;
        if (!real || !isfinite(got[i]) || !isfinite(w)) return INFINITY;
        const double sums = (unit > 0x1p-20 ? 0.25 : 4) * p->length * scale;
        const double bound = unit * (4 * fabs(want[i]) + sums) + 8 * apart + 0x1p-24;
        worst = fmax(worst, fabs(got[i] - want[i]) / bound);
    }
    return worst;
}

/* ---- the cpu driver's plans ----------------------------------------------------------------------------------------------- */

typedef struct planted { /* an error planted in all steps of one kind */
    const char *kind;
    uint64_t seed;
    const cpu_program *program;
    struct spoiled {
        cpu_step_run run;
        const void *args;
        struct planted *all;
        int index;
    } steps[400];
    int count, hits;
} planted;

static void spoil_element(unsigned char *place, int64_t bytes) {
    float f = 0;
    uint16_t half = 0;
    if (bytes >= 4) memcpy(&f, place, 4);
    if (bytes >= 2) memcpy(&half, place, 2);
    const double v = fabs((double)f);
    if (bytes >= 4 && ((v > 1e-5 && v < 1e5) || v == 0)) {
        f = v == 0 ? 0.001f : f * 1.001f;
        memcpy(place, &f, 4);
    } else if ((half & 0x7c00) > 0x1000 && (half & 0x7c00) < 0x7800) { /* an fp16 */
        half = (uint16_t)(half + 8);
        memcpy(place, &half, 2);
    } else {
        place[0] ^= 1;
    }
}

/* Changes one element of a step's result by a thousandth; integers and bits by one. */
static void spoil(planted *all, const cpu_run *run, unsigned char *const *old) {
    const cpu_program *p = all->program;
    rng r;
    rng_init(&r, all->seed + (uint64_t)all->hits);
    int64_t seen = 0, at = -1;
    int buffer = -1;
    for (int b = 0; b < p->buffer_count; b++)
        for (int64_t i = 0; old[b] && i < p->buffers[b].bytes; i += 4) {
            const int64_t left = p->buffers[b].bytes - i;
            if (memcmp(old[b] + i, run->base[b] + i, (size_t)(left < 4 ? left : 4)) != 0 &&
                rng_below(&r, (uint64_t)++seen) == 0)
                buffer = b, at = i;
        }
    if (buffer < 0) return;
    spoil_element(run->base[buffer] + at, p->buffers[buffer].bytes - at);
    all->hits++;
}

static propane_status spoiled_run(const cpu_run *run, const void *args, propane_error *e) {
    const struct spoiled *s = args;
    const cpu_program *p = s->all->program;
    unsigned char **old = mem_array((size_t)p->buffer_count + 1, sizeof *old);
    EXPECT(old != NULL);
    for (int b = 0; b < p->buffer_count; b++) {
        const cpu_buffer *o = &p->buffers[b]; /* scratch is not a result */
        const bool result = o->place == CPU_STORAGE_OUTPUT || (o->place == CPU_STORAGE_TEMP && o->last > s->index);
        old[b] = result ? mem_alloc((size_t)o->bytes + 1) : NULL;
        if (old[b]) memcpy(old[b], run->base[b], (size_t)p->buffers[b].bytes);
    }
    const propane_status status = s->run(run, s->args, e);
    if (!status) spoil(s->all, run, old);
    for (int b = 0; b < p->buffer_count; b++) mem_free(old[b]);
    mem_free(old);
    return status;
}

static void plant(planted *all, cpu_program *p) {
    all->program = p, all->count = 0, all->hits = 0;
    for (int i = 0; i < p->step_count && all->count < 400; i++) {
        cpu_step *s = &p->steps[i];
        if (strcmp(s->kind, all->kind) != 0) continue;
        struct spoiled *one = &all->steps[all->count++];
        *one = (struct spoiled){s->run, s->args, all, i};
        s->run = spoiled_run, s->args = one;
    }
}

typedef struct kinds { /* the kinds of steps that were seen */
    const char *name[160];
    int used;
} kinds;

static void note_kind(kinds *seen, const char *name) {
    int k = 0;
    while (k < seen->used && strcmp(seen->name[k], name) != 0) k++;
    EXPECT(k < 160);
    seen->name[k] = name;
    seen->used += k == seen->used;
}

/* Returns the worst error of all results. */
static double run_plan(const program *p, const cpu_plan_options *options, planted *error, kinds *seen) {
    arena *a = arena_create();
    cpu_program *plan = NULL;
    void *inputs[MOST_IO], *outputs[MOST_IO];
    double worst = 0;
    EXPECT(a != NULL);
    if (cpu_plan_compile(p->f, options, a, &plan, &err) || cpu_program_memory_check(plan, &err))
        ck_abort_msg("%s: %s", p->label, err.text);
    plan->poison = true;
    for (int i = 0; seen && i < plan->step_count; i++) note_kind(seen, plan->steps[i].kind);
    if (error) plant(error, plan);
    for (int i = 0; i < plan->input_count; i++) {
        inputs[i] = mem_alloc(plan->inputs[i].bytes + 1);
        mil_pack_f64(inputs[i], p->inputs[i].type.dtype, p->inputs[i].data, mil_type_count(&p->inputs[i].type));
    }
    for (int i = 0; i < plan->output_count; i++) {
        outputs[i] = mem_alloc(plan->outputs[i].bytes + 8);
        memset(outputs[i], 0xa5, plan->outputs[i].bytes);
    }
    void *block = mem_pages_alloc((size_t)plan->block_bytes + 64);
    if (!error || error->count) {
        if (cpu_program_run(plan, block, inputs, outputs, &err)) {
            EXPECT_MSG(error, "%s: %s", p->label, err.text);
            worst = INFINITY;
        }
        for (int k = 0; k < plan->output_count && worst < INFINITY; k++) {
            const mil_type *type = &p->f->results[k]->type;
            double *got = mem_array((size_t)mil_type_count(type) + 1, sizeof *got);
            mil_unpack_f64(got, type->dtype, outputs[k], mil_type_count(type));
            worst = fmax(worst, error_of(p, k, got, 0));
            mem_free(got);
        }
    }
    for (int i = 0; i < plan->input_count; i++) mem_free(inputs[i]);
    for (int i = 0; i < plan->output_count; i++) mem_free(outputs[i]);
    mem_pages_free(block, (size_t)plan->block_bytes + 64);
    cpu_program_deinit(plan);
    arena_free(a);
    return worst;
}

/* ---- devices -------------------------------------------------------------------------------------------------------------- */

/* Returns the worst error, or -1 if the device refuses the program with a reason. */
static double run_device(propane_device *d, const program *p, double unit) {
    double *got[MOST_IO], worst = 0;
    if (!device_run(d, p->module, p->f, p->inputs, p->label, got, &err)) {
        if (getenv("PROGRAMS_VERBOSE")) printf("  %s: %s\n", p->label, err.text);
        return -1;
    }
    for (int k = 0; k < p->f->result_count; k++) {
        worst = fmax(worst, error_of(p, k, got[k], unit));
        mem_free(got[k]);
    }
    return worst;
}

/* ---- the tests ------------------------------------------------------------------------------------------------------------ */

enum {
    BATCH = 100 /* one process per batch: the ane driver compiles 119 programs in one process */,
    COLUMNS = 2 * CPU_ISA_COUNT + 2
};

typedef struct column {
    char name[40];
    cpu_plan_options options;
    propane_device *device; /* NULL for a plan */
    double unit, worst;
    int programs, refused, wrong;
} column;

typedef struct tally { /* shared with the processes that run the programs */
    column columns[COLUMNS];
    int count, made, rows[MIL_OP_COUNT];
    uint64_t next; /* seed */
} tally;

static void count_into_state(const char *name, int done, int wrong) {
    const char *path = getenv("CAMPAIGN_STATE");
    FILE *f = path && *path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s %d %d %llu\n", name, done, wrong, (unsigned long long)first_seed() / 1000000);
    fclose(f);
}

static void try_on(column *c, const program *p) {
    if (c->device && (p->drawn || (p->extreme && c->unit > 0))) return; /* Apple's words round at other points */
    const double worst = c->device ? run_device(c->device, p, c->unit) : run_plan(p, &c->options, NULL, NULL);
    if (worst < 0) {
        c->refused++;
        return;
    }
    c->programs++;
    c->worst = fmax(c->worst, worst <= 1 ? worst : 0);
    if (worst <= 1) return;
    if (c->wrong++ < 20) printf("  %s on %s: %.3g bounds\n", p->label, c->name, worst);
    if (!getenv("PROGRAMS_VERBOSE")) return;
    text all = {0};
    mil_print(&all, p->module, &(mil_print_options){MIL_SHORT, true});
    printf("%s\n", all.data ? all.data : "");
    text_deinit(&all);
}

static void add_plans(tally *t) {
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int fuse = 0; fuse < 2; fuse++) {
            if (!cpu_isa_available((cpu_isa)isa)) continue;
            column *c = &t->columns[t->count++];
            snprintf(c->name, sizeof c->name, "%s%s", cpu_isa_name((cpu_isa)isa), fuse ? "" : ", not fused");
            c->options = (cpu_plan_options){.kernels = cpu_kernels_of((cpu_isa)isa), .guard = true, .fuse = fuse};
        }
}

static void add_device(tally *t, const char *name, const char *uri, double unit) {
    column *c = &t->columns[t->count];
    if (propane_device_open(uri, &c->device, &err)) {
        if (!t->made) printf("  not on %s: %s\n", name, err.text);
        return;
    }
    snprintf(c->name, sizeof c->name, "%s", name);
    c->unit = unit;
    t->count++;
}

/* Runs in a separate process. */
static void try_batch(tally *t) {
    t->count = 0;
    add_plans(t);
    add_device(t, "sim:m4, exact",
               "sim:m4?refuse=0&faults=0&round=0&sums=0&arithmetic=0&table=0&saturate=0&slice=0&theory=2", 0);
    add_device(t, "ane (stand-in)", "ane", 0x1p-11);
    for (int made = 0; made < BATCH;) {
        program p;
        if (program_make(&p, t->next++)) {
            made++;
            if (p.grown) t->rows[p.grown->code]++;
            for (int c = 0; c < t->count; c++) try_on(&t->columns[c], &p);
        }
        program_free(&p);
    }
    t->made += BATCH;
    for (int c = 0; c < t->count; c++)
        if (t->columns[c].device) propane_device_close(t->columns[c].device);
}

TEST(programs_mean_the_same_everywhere) {
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(t != MAP_FAILED);
    t->next = first_seed();
    const int most = (int)test_number("PROGRAMS", 300);
    while (t->made < most) {
        const uint64_t from = t->next;
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (!child) {
            try_batch(t);
            fflush(stdout);
            _exit(0);
        }
        EXPECT(child > 0 && waitpid(child, &status, 0) == child);
        EXPECT_MSG(status == 0, "a program of seeds %llu to %llu ends the process: %#x", (unsigned long long)from,
                   (unsigned long long)t->next, (unsigned)status);
    }
    int wrong = 0, shown = 0;
    for (int c = 0; c < t->count; c++) {
        const column *o = &t->columns[c];
        printf("  %s: %d programs, %d refused, %d wrong, worst else %.2f of its bound\n", o->name, o->programs,
               o->refused, o->wrong, o->worst);
        wrong += o->wrong;
    }
    for (int op = 0; op < MIL_OP_COUNT; op++) shown += t->rows[op] > 0;
    printf("  %d programs from seed %llu on, %d rows of ops.def as their middle\n", t->made,
           (unsigned long long)first_seed(), shown);
    count_into_state("programs", t->made, wrong);
    EXPECT_MSG(wrong == 0, "%d results are wrong", wrong);
    munmap(t, sizeof *t);
}

/* The number of programs with a spoiled step: fewer than ENOUGH prove nothing. If that many miss the error, up to
 * SURE are tried. */
enum { WITHIN = 1000, ENOUGH = 4, SURE = 40, MOST = 10 * WITHIN };

/* Returns the number of programs after which an error in steps of that kind is found; 0 if it is never found.
 * *spoiled_in counts the
 * programs that had one. */
static int found_after(const char *kind, const cpu_plan_options *o, int *spoiled_in) {
    static planted error;
    const uint64_t seed = first_seed();
    int tried = 0;
    error.kind = kind, *spoiled_in = 0;
    for (uint64_t n = 0; tried < (*spoiled_in < ENOUGH || *spoiled_in >= SURE ? WITHIN : MOST); n++) {
        program p;
        error.seed = seed + n, error.hits = 0;
        const bool made = program_make(&p, seed + n);
        tried += made;
        const bool found = made && run_plan(&p, o, &error, NULL) > 1;
        if (made && error.hits && getenv("PROGRAMS_VERBOSE"))
            printf("  %s: %s: %s\n", kind, p.label, found ? "found" : "not");
        *spoiled_in += made && error.hits;
        program_free(&p);
        if (found) return tried;
    }
    return 0;
}

/* Spoils in turn each kind of step that occurs in the instruction set's plans of these programs. Each error must be
 * found in these programs. */
static void expect_found(cpu_isa isa) {
    static kinds seen;
    const cpu_plan_options o = {.kernels = cpu_kernels_of(isa), .fuse = true};
    const uint64_t seed = first_seed();
    int worst = 0, rare = 0, hits;
    const char *last = "";
    seen.used = 0;
    for (uint64_t n = 0, made = 0; made < WITHIN; n++) {
        program p;
        if (program_make(&p, seed + n)) (void)(made++, run_plan(&p, &o, NULL, &seen));
        program_free(&p);
    }
    for (int k = 0; k < seen.used; k++) {
        const int after = found_after(seen.name[k], &o, &hits);
        if (!after)
            printf("  %s: '%s' stands in %d programs only, no error found\n", cpu_isa_name(isa), seen.name[k], hits);
        EXPECT_MSG(after || hits < ENOUGH, "%s: an error in '%s' is not found in %d programs that have it",
                   cpu_isa_name(isa), seen.name[k], hits);
        rare += !after;
        if (after > worst) worst = after, last = seen.name[k];
    }
    printf(
        "  %s: errors planted in %d kinds of steps, %d too rare, the others found, the last (%s) after %d programs\n",
        cpu_isa_name(isa), seen.used, rare, last, worst);
    EXPECT(seen.used > 40 && rare < seen.used / 10);
}

TEST(planted_errors_are_found) {
    with_extremes = false;
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        if (cpu_isa_available((cpu_isa)isa)) expect_found((cpu_isa)isa);
}

int main(int argc, char **argv) {
    static const test_case cases[] = {T(programs_mean_the_same_everywhere), T_LONG(planted_errors_are_found)};
    const bool standin = ane_rig_enter(argv[0]);
    const int code = test_main("campaign/programs", cases, 2, argc, argv);
    if (standin) ane_rig_leave();
    return code;
}
