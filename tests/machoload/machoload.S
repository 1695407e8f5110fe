// SPDX-License-Identifier: MIT
// Functions that cannot be written in C: those with variable arguments, which Apple passes on the stack and Linux in
// registers, and the access function of thread-local variables, which may change only x0, x16 and x17.

// Turns a variadic function into one that gets the address of its variable arguments as an additional argument.
.macro variadic name, fixed
.globl vararg_\name
vararg_\name:
    mov x\fixed, sp
    b shim_\name
.endm

.text
.p2align 2
variadic printf, 1
variadic fprintf, 2
variadic snprintf, 3
variadic dprintf, 2
variadic asprintf, 2
variadic sscanf, 2
variadic fscanf, 2
variadic open, 2
variadic openat, 3
variadic fcntl, 2
variadic ioctl, 2
variadic syslog, 2
variadic json_pack, 1
variadic json_sprintf, 1
variadic _ck_assert_failed, 4
variadic snprintf_chk, 5

.globl tlv_get
tlv_get:
    stp x29, x30, [sp, #-16]!
    mov x29, sp
    sub sp, sp, #656
    stp x1, x2, [sp, #0]
    stp x3, x4, [sp, #16]
    stp x5, x6, [sp, #32]
    stp x7, x8, [sp, #48]
    stp x9, x10, [sp, #64]
    stp x11, x12, [sp, #80]
    stp x13, x14, [sp, #96]
    str x15, [sp, #112]
    str x18, [sp, #120]
    stp q0, q1, [sp, #128]
    stp q2, q3, [sp, #160]
    stp q4, q5, [sp, #192]
    stp q6, q7, [sp, #224]
    stp q8, q9, [sp, #256]
    stp q10, q11, [sp, #288]
    stp q12, q13, [sp, #320]
    stp q14, q15, [sp, #352]
    stp q16, q17, [sp, #384]
    stp q18, q19, [sp, #416]
    stp q20, q21, [sp, #448]
    stp q22, q23, [sp, #480]
    stp q24, q25, [sp, #512]
    stp q26, q27, [sp, #544]
    stp q28, q29, [sp, #576]
    stp q30, q31, [sp, #608]
    mrs x16, nzcv
    str x16, [sp, #640]
    bl tlv_address
    ldr x16, [sp, #640]
    msr nzcv, x16
    ldp q30, q31, [sp, #608]
    ldp q28, q29, [sp, #576]
    ldp q26, q27, [sp, #544]
    ldp q24, q25, [sp, #512]
    ldp q22, q23, [sp, #480]
    ldp q20, q21, [sp, #448]
    ldp q18, q19, [sp, #416]
    ldp q16, q17, [sp, #384]
    ldp q14, q15, [sp, #352]
    ldp q12, q13, [sp, #320]
    ldp q10, q11, [sp, #288]
    ldp q8, q9, [sp, #256]
    ldp q6, q7, [sp, #224]
    ldp q4, q5, [sp, #192]
    ldp q2, q3, [sp, #160]
    ldp q0, q1, [sp, #128]
    ldr x18, [sp, #120]
    ldr x15, [sp, #112]
    ldp x13, x14, [sp, #96]
    ldp x11, x12, [sp, #80]
    ldp x9, x10, [sp, #64]
    ldp x7, x8, [sp, #48]
    ldp x5, x6, [sp, #32]
    ldp x3, x4, [sp, #16]
    ldp x1, x2, [sp, #0]
    add sp, sp, #656
    ldp x29, x30, [sp], #16
    ret

.section .note.GNU-stack,"",%progbits
