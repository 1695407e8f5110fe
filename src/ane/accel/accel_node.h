/* SPDX-License-Identifier: MIT
 * The Linux driver of the Neural Engine as its ioctls show it (ABI 1, driver "ane", /dev/accel/accelN): buffers that
 * the engine sees, and a call that runs a program to its end. Two nodes obey the same rules: the kernel's, and one in
 * this process that runs tasks by the interpreter of registers.
 *
 * Facts: eiln/ane ane/src/ane_drv.c and uapi, joshuaswarren/omarchy-ane. Every call may fail as the kernel's may;
 * errors name the call and the system's reason.
 */
#ifndef ANE_ACCEL_ACCEL_NODE_H
#define ANE_ACCEL_ACCEL_NODE_H

#include "ane/h13/simulate.h"

enum { ACCEL_NID = 0x40, ACCEL_GRANULE = 16 };

typedef struct accel_buffer {
    uint32_t handle;
    uint64_t bytes, offset; /* offset: for mmap */
    uint8_t *data;          /* as the host sees it; NULL: not made */
} accel_buffer;

/* What a submit takes. Sizes in bytes. */
typedef struct accel_submit {
    uint64_t tsk_size; /* of the tasks; the constants begin at the next multiple of 16 */
    uint32_t td_count, td_size;
    uint32_t handles[ENGINE_BARS]; /* [0]: tasks and constants, [1] must be 0 */
    uint32_t btsp_handle;          /* the first task, with the network id set */
    uint32_t pad;
} accel_submit;

typedef struct accel_node accel_node;

/* "" : the first node of the engine; a path: that one; "registers": in this process; "registers,arithmetic=1":
 * with the sums of M4 and later; "registers,fail=N": its N-th call fails (for tests). */
PROPANE_CHECK propane_status accel_node_open(const char *which, accel_node **out, propane_error *err);
void accel_node_close(accel_node *n);
bool accel_node_is_hardware(const accel_node *n); /* the kernel's, not the one in this process */
PROPANE_CHECK propane_status accel_buffer_make(accel_node *n, uint64_t bytes, accel_buffer *out, propane_error *err);
void accel_buffer_drop(accel_node *n, accel_buffer *b); /* takes one that was not made */
/* Returns when the program has run. */
PROPANE_CHECK propane_status accel_run(accel_node *n, const accel_submit *s, propane_error *err);

/* The in-process node's side (accel_registers.c); errors as negative errno, a reason in err. */
typedef struct accel_registers accel_registers;
accel_registers *accel_registers_open(int fail_at, engine_arithmetic how);
void accel_registers_close(accel_registers *r);
int accel_registers_make(accel_registers *r, uint64_t bytes, accel_buffer *out);
int accel_registers_drop(accel_registers *r, uint32_t handle);
int accel_registers_run(accel_registers *r, const accel_submit *s, propane_error *why);

#endif
