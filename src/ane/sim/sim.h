/* SPDX-License-Identifier: MIT
 * Declares the simulator. It runs a program one operation after the other under the rules of one chip, with kernels of
 * the cpu driver and its own. Programs that the chip refuses are refused with the rule's id. Each result is stored as
 * the chip would store it. Time and energy come from the cost model (src/ane/chip/cost_model.h), so both are simulated,
 * never measured.
 *
 * Switches turn the imitated effects on and off. Each has a default and its evidence (switches.def). If sources
 * contradict each other, a switch selects the reading.
 */
#ifndef ANE_SIM_SIM_H
#define ANE_SIM_SIM_H

#include "ane/chip/cost_model.h"
#include "core/device/driver.h"
#include "cpu/plan/plan.h"
#include "cpu/simd/array_ukernel.h"

typedef enum sim_switch {
#define SWITCH(id, standard, low, high, text) SIM_##id,
#include "ane/sim/switches.def"
    SIM_SWITCH_COUNT
} sim_switch;

/* Arrays in a program's block begin at multiples of this many bytes. */
enum { SIM_ALIGNED = 64 };

/* What the compile budget counts (switch `theory`). */
enum { SIM_COUNTS_COMPILES, SIM_COUNTS_LOADED, SIM_COUNTS_NOTHING };

typedef struct sim_switches {
    int value[SIM_SWITCH_COUNT];
} sim_switches;

/* Parses a chip with its switches, such as "m4?table=0&budget=20". For an unknown chip, an unknown switch or an invalid
 * value, the error lists what is valid. */
PROPANE_CHECK propane_status sim_switches_parse(const char *rest, const chip **c, sim_switches *out,
                                                propane_error *err);

/* ---- numbers (numerics.c) ---------------------------------------------------------------------------------------- */

typedef struct sim_tables {
    float exp_half[65536]; /* exp of every fp16, rounded to fp16 */
    uint16_t silu[65536];
} sim_tables;

void sim_tables_build(sim_tables *t);

typedef struct sim_numbers {
    const chip *chip;
    const sim_tables *tables;
    const sim_switches *switches;
    const cpu_array_kernels *array;
    float product_limit; /* matrix products saturate at this value; 0 if the chip has no such limit */
} sim_numbers;

/* Returns true if numerics.c has a kernel for the operation, which replaces the cpu driver's. */
bool sim_has_kernel(const sim_numbers *n, const mil_op *op);
/* Runs the kernel of numerics.c on dense floats. Reductions and softmax read their axes from the op. */
PROPANE_CHECK propane_status sim_kernel_run(const sim_numbers *n, const mil_op *op, const float *x, float *y,
                                            propane_error *err);
/* Computes the results of an elementwise op for all fp16 inputs, as a table. */
void sim_kernel_map(const mil_op *op, uint16_t map[65536]);
bool sim_is_elementwise(const mil_op *op);
/* Changes a result as the engine does when it stores one: rounds fp32, saturates, and applies the fault of slices along
 * the width. */
void sim_store(const sim_numbers *n, const mil_op *op, const mil_type *type, void *data);
/* Returns true if the operation is a matrix product that products.c computes (switch `arithmetic`). */
bool sim_has_products(const sim_numbers *n, const mil_op *op);
/* Sets *bytes to the size of the scratch that sim_products_run needs with `threads` threads. */
PROPANE_CHECK propane_status sim_products_scratch(const mil_op *op, int threads, int64_t *bytes, propane_error *err);
/* Computes a matrix product as the multiply-add array does. The operands are x, the other factor, and the bias or NULL.
 * All are dense and have the element types of the op. `scratch` is 64-byte aligned and sized for pool_threads(). */
PROPANE_CHECK propane_status sim_products_run(const mil_op *op, const cpu_array_kernels *array,
                                              const void *const operands[3], void *result, void *scratch,
                                              propane_error *err);
/* Returns true if the op is a sum, difference or product of fp16 that planar.c computes (switch `arithmetic`). */
bool sim_has_planar(const sim_numbers *n, const mil_op *op);
/* Computes the operation on dense operands. */
void sim_planar_run(const mil_op *op, const void *x, const void *y, void *result);
void sim_load_f32(float *target, mil_dtype dtype, const void *source, int64_t count);
void sim_store_f32(void *target, mil_dtype dtype, const float *source, int64_t count);

/* ---- faults (faults.c) ------------------------------------------------------------------------------------------- */

/* Returns the index of the chip's known error that affects this op, or -1 if there is none (switch `faults`). */
int sim_fault_of(const sim_numbers *n, const mil_op *op);
const mil_value *sim_fault_operand(const mil_op *op); /* the operand whose values trigger the error */
const mil_value *sim_fault_slope(const mil_op *op);   /* the operand's multiplier; NULL if there is none */
/* Replaces values of a correctly computed result by the engine's wrong values. `x`, `slope` and `result` are dense. */
void sim_fault_apply(int fault, const mil_op *op, const void *x, const void *slope, void *result);

/* ---- programs (steps.c) ------------------------------------------------------------------------------------------ */

typedef enum sim_place { SIM_NOWHERE, SIM_INPUT, SIM_TEMP, SIM_CONST } sim_place;

typedef struct sim_slot {
    sim_place place;
    int index;      /* for SIM_INPUT: index of the input */
    int64_t offset; /* for SIM_TEMP: offset in the block */
    const void *data;
} sim_slot;

typedef struct sim_step {
    const mil_op *op;
    cpu_program *program; /* NULL if the simulator computes the step itself, and for an alias */
    const uint16_t *map;  /* results for all fp16 inputs; NULL if the step has no such table */
    bool alias;
    bool exact;  /* computed by products.c */
    bool planar; /* computed by planar.c */
    int fault;   /* from sim_fault_of; -1 if there is none */
    bool host;   /* Core ML runs the op on the CPU, so its result is stored unchanged */
    int in_count, out_count;
    int *in, *out; /* value ids, in the order of the inputs and outputs of `program` */
} sim_step;

typedef struct sim_program {
    mil_module *module; /* the program's private copy */
    const mil_function *function;
    sim_slot *slots; /* by value id */
    sim_step *steps;
    int step_count;
    int64_t block_bytes; /* values, the scratch of one step, and dense copies of inputs */
    int64_t scratch, scratch_bytes;
    int threads;     /* size of the thread pool for which the scratch is sized */
    void **pointers; /* space for the addresses of one step */
    double ms, energy_mj, weight_bytes;
    bool coreml;   /* compiled through Core ML, which owns the surfaces and does not use the compile budget */
    int *order;    /* which input the engine uses for each parameter */
    void **inputs; /* space for the addresses of one run */
    const void **outputs;
} sim_program;

/* Creates a simulated program in the arena. `moved` [op_count] marks the operations that the CPU runs; NULL means
 * none. */
PROPANE_CHECK propane_status sim_program_create(const mil_function *f, const bool *moved, const sim_numbers *n,
                                                const cpu_plan_options *options, arena *a, sim_program **out,
                                                propane_error *err);
void sim_program_deinit(sim_program *p);
/* Runs the program on dense `inputs`. `outputs` receives the addresses of the dense results, which are in the block, an
 * input or a constant. */
PROPANE_CHECK propane_status sim_program_run(sim_program *p, const sim_numbers *n, void *block, void *const *inputs,
                                             const void **outputs, propane_error *err);

#endif
