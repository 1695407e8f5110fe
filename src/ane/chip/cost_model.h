/* SPDX-License-Identifier: MIT
 * Declares the time and energy model of the Neural Engine, which is fitted to published measurements. Propane measured
 * none of them, and every result is an estimate.
 *
 * The numbers in cost_call describe a call of one program. The call's time is a formula with constants per chip,
 *
 *   fixed + layers + max(arithmetic, weights) + copies of inputs and outputs
 *
 * times exp(correction). The correction is a smooth function through the published points, which fades to zero far from
 * them. The distance to the nearest point also selects the error band, which comes from cross-validation.
 * tools/fit_cost_model.py writes the constants and prints the errors. docs/estimate.md explains the model.
 *
 * The time of a program with many operations (cost_function) is the sum over its operations, with one fixed cost.
 */
#ifndef ANE_CHIP_COST_MODEL_H
#define ANE_CHIP_COST_MODEL_H

#include "ane/chip/chip.h"
#include "core/mil/mil.h"

/* The way a call reaches the engine. */
typedef enum cost_path { COST_DIRECT, COST_E5RT, COST_COREML, COST_LINUX, COST_PATH_COUNT } cost_path;
typedef enum cost_kind {
    COST_MATMUL,
    COST_CONV1X1,
    COST_CONV3X3,
    COST_CHAIN, /* a chain of convolutions */
    COST_ELEMENTWISE,
    COST_SOFTMAX,
    COST_KIND_COUNT
} cost_kind;

const char *cost_path_name(cost_path path);
const char *cost_kind_name(cost_kind kind);

typedef struct cost_call {
    chip_id chip;
    cost_path path;
    cost_kind kind;
    double flops, weight_bytes, io_bytes; /* for the whole call; weights as stored */
    double cin, cout, kernel, pixels;     /* per layer; kernel: elements (9 for 3x3); for a matmul: K, N, 1, M */
    double layers, dilation, lut_bits;    /* lut_bits: 0 without a look-up table */
    double engines;                       /* 0 means the chip's own choice */
    bool both_int8, fp8;                  /* both_int8: W8A8 */
    bool shared;                          /* all layers read the same weight */
    bool slope, task;                     /* slope: one layer's share of a call; task: only the engine's time */
    bool cold, slow_host;                 /* cold: the first calls; slow_host: a host whose copies were found slow */
    double zeros;                         /* fraction of the weights that is 0 */
    int quant, runtime;                   /* quant: 0 fp16, 1 int8, 2 table, 3 W8A8; runtime: 1 Core AI, 2 MPSGraph */
    uint32_t os, source, sub;             /* hashes of other properties that distinguish measurements; 0 if not known */
} cost_call;

typedef struct cost_time {
    double ms;
    double low_ms, high_ms; /* nine of ten published points are within a band of this width */
    double typical;         /* median relative error of points at the same distance from their neighbours */
    double similarity;      /* to the nearest published point: 1 the same, 0 unrelated */
    double fixed_ms, layers_ms, compute_ms, weights_ms, io_ms; /* before the correction */
    double correction;                                         /* factor */
} cost_time;

void cost_call_time(const cost_call *call, cost_time *out);
/* Computes only the formula, without the correction, its band or the similarity. This takes a hundredth of the time. */
void cost_call_parts(const cost_call *call, cost_time *out);
uint32_t cost_hash(const char *text, size_t length);

/* Returns the energy in mJ, a F + b bytes + c t, fitted to the rail power of other programs. ane_perf has few such
 * points, so the result is only a rough figure. */
double cost_energy_mj(const chip *c, double flops, double bytes, double ms);
double cost_byte_pj(const chip *c); /* pJ per byte moved, the b of cost_energy_mj */

/* ---- published points -------------------------------------------------------------------------------------------- */

typedef struct cost_point {
    const char *id, *chip, *path, *workload;
    double published_ms;
    bool covered;
    const char *reason; /* why it is not covered */
    const char *shape, *note;
    cost_call call;
    cost_time time;
} cost_point;

/* Reads a table with the columns of ane_perf.csv in any order. `text` must be writable and outlive the points. */
PROPANE_CHECK propane_status cost_points_read(char *text, size_t length, const char *name, arena *a, cost_point **out,
                                              int *count, propane_error *err);

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef enum cost_bound {
    COST_NOTHING,
    COST_ARITHMETIC,
    COST_WEIGHTS,
    COST_MEMORY,
    COST_OVERHEAD,
    COST_CPU
} cost_bound;
const char *cost_bound_name(cost_bound bound);

typedef struct cost_op {
    const mil_op *op;
    double ms, flops, bytes, weight_bytes, energy_mj;
    cost_bound bound;
} cost_op;

typedef struct cost_program {
    const mil_function *function;
    int uncounted; /* operations whose shapes follow from values; they do not run on the engine */
    double ms, low_ms, high_ms;
    double fixed_ms, io_ms; /* of the call itself; of inputs and outputs */
    double flops, bytes, weight_bytes, io_bytes, energy_mj;
    double utilisation;  /* arithmetic relative to the peak, over the whole call */
    int moved, switches; /* operations that Core ML computes on the CPU, and changes of side (placed_cost.h) */
    double cpu_ms, switch_ms;
    int op_count;
    cost_op *ops;
} cost_program;

/* Estimates a verified function that is called through `path`. */
PROPANE_CHECK propane_status cost_function(const chip *c, cost_path path, const mil_function *f, arena *a,
                                           cost_program *out, propane_error *err);

/* Returns the ms to compile a program. */
double cost_compile_ms(const chip *c, double weight_bytes);
double cost_first_load_most_ms(const chip *c, cost_path path, double weight_bytes); /* the longest reported */
double cost_reload_ms(const chip *c, double weight_bytes); /* to load a compiled program again with other weights */

/* The constants of one chip, for printing. */
typedef struct cost_constants {
    double tflops, stream, again, pow2, int8, winograd, decode, layer_us;
    double t0_direct, t0_e5rt, t0_coreml, t0_linux, io_direct, io_e5rt, io_coreml, io_slow;
    double zeros, t0_cold;
} cost_constants;
const cost_constants *cost_constants_of(chip_id id);

#endif
