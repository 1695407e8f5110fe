/* SPDX-License-Identifier: MIT
 * Declares the ioctls of the Neural Engine's Linux driver (driver "ane", /dev/accel/accelN): buffers that the engine
 * can access, and calls that run a program to its end. Two nodes obey the same rules: the kernel's, and one in this
 * process that runs tasks with the interpreter of registers.
 *
 *   ABI 1   the M1 family: SUBMIT passes the tasks' buffer and one buffer per base register
 *   ABI 2   the M2 family: PROG_LOAD loads a program in sections, PROC_CREATE makes a procedure of the program, and
 *           EXEC runs the procedure with bound buffers; SUBMIT is refused. No call unloads a program; it is unloaded
 *           when a buffer of its sections is freed.
 *
 * The kernel's driver of ABI 2 hands the sections to the engine's firmware. The driver's header does not describe the
 * bytes of sections, so the kernel's node of ABI 2 is refused. The node in this process accepts the section ids below.
 *
 * Facts: eiln/ane ane/src/ane_drv.c and uapi, joshuaswarren/omarchy-ane (its public uapi header). Every call may fail
 * like the kernel's call; errors name the call and the system's reason.
 */
#ifndef ANE_ACCEL_ACCEL_NODE_H
#define ANE_ACCEL_ACCEL_NODE_H

#include "ane/h13/simulate.h"

enum {
    ACCEL_NID = 0x40,
    ACCEL_GRANULE = 16,
    ACCEL_SECTIONS = 16, /* maximum number of sections of a program */
    ACCEL_BINDS = 64,    /* maximum number of bound buffers of a call */
    ACCEL_PRIORITY_LEAST = 2,
    ACCEL_PRIORITY_MOST = 7,
    ACCEL_TIMEOUT_MS = 30000
};

/* Section ids of the node in this process. */
enum { ACCEL_SECTION_TASKS = 1, ACCEL_SECTION_CONSTANTS = 2 };

typedef struct accel_buffer {
    uint32_t handle;
    uint64_t bytes, offset; /* `offset` is for mmap */
    uint8_t *data;          /* the host's mapping; NULL if there is no buffer */
} accel_buffer;

/* The arguments of a submit, with sizes in bytes. */
typedef struct accel_submit {
    uint64_t tsk_size; /* size of the tasks; the constants begin at the next multiple of 16 */
    uint32_t td_count, td_size;
    uint32_t handles[ENGINE_BARS]; /* [0] holds tasks and constants; [1] must be 0 */
    uint32_t btsp_handle;          /* buffer of the first task, which has the network id */
    uint32_t pad;
} accel_submit;

/* ABI 2: the place of one part of a program. */
typedef struct accel_section {
    uint32_t id, handle;
    uint64_t bytes, offset; /* size and offset in the buffer */
} accel_section;

/* ABI 2: a bound buffer of a call. The node in this process uses base registers as ids. */
typedef struct accel_bind {
    uint32_t id, handle;
    uint64_t bytes;
} accel_bind;

typedef struct accel_exec {
    uint32_t program, procedure, priority, timeout_ms, count;
    accel_bind binds[ACCEL_BINDS];
} accel_exec;

typedef struct accel_node accel_node;

/* Opens a node: "" is the first node of the engine, a path for that node, and "registers" for the node in this
 * process. "registers,arithmetic=1" selects the sums of M4 and later, "registers,target=m2" selects ABI 2, and
 * "registers,fail=N" makes the N-th call fail (for tests). */
PROPANE_CHECK propane_status accel_node_open(const char *which, accel_node **out, propane_error *err);
void accel_node_close(accel_node *n);
bool accel_node_is_hardware(const accel_node *n); /* true for the kernel's node, false for the one in this process */
uint32_t accel_node_subtype(const accel_node *n); /* the engine's generation: ENGINE_H13 or ENGINE_H14 */
PROPANE_CHECK propane_status accel_buffer_make(accel_node *n, uint64_t bytes, accel_buffer *out, propane_error *err);
void accel_buffer_drop(accel_node *n, accel_buffer *b); /* also accepts a buffer that was never made */
/* ABI 1: runs a program with SUBMIT, and returns when the program has ended. */
PROPANE_CHECK propane_status accel_run(accel_node *n, const accel_submit *s, propane_error *err);

/* ABI 2: accel_load calls PROG_LOAD and PROC_CREATE, and sets *out to a call without buffers. accel_call calls EXEC,
 * and returns when the procedure has run. */
PROPANE_CHECK propane_status accel_load(accel_node *n, const accel_section *sections, int count, accel_exec *out,
                                        propane_error *err);
PROPANE_CHECK propane_status accel_call(accel_node *n, const accel_exec *call, propane_error *err);

/* The node in this process (accel_registers.c). Errors are negative errno values, with a reason in `why`. */
typedef struct accel_registers accel_registers;
accel_registers *accel_registers_open(uint32_t subtype, int fail_at, engine_arithmetic how);
uint32_t accel_registers_subtype(const accel_registers *r);
void accel_registers_close(accel_registers *r);
int accel_registers_make(accel_registers *r, uint64_t bytes, accel_buffer *out);
int accel_registers_drop(accel_registers *r, uint32_t handle);
int accel_registers_run(accel_registers *r, const accel_submit *s, propane_error *why);
int accel_registers_load(accel_registers *r, const accel_section *sections, int count, uint32_t *program);
int accel_registers_procedure(accel_registers *r, uint32_t program, uint32_t *procedure);
int accel_registers_call(accel_registers *r, const accel_exec *call, propane_error *why);

#endif
