// SPDX-License-Identifier: MIT
// One stub of 16 bytes per row of syms.def. A stub passes its address to the common part, which turns it into the row's
// number, saves the argument registers, asks trace_enter where to continue, and jumps there with the registers restored.
#if defined(__APPLE__)
#define SYMBOL(name) _##name
#define HIDDEN       .private_extern
#else
#define SYMBOL(name) name
#define HIDDEN       .hidden
#endif

.text
#if defined(__aarch64__)

.p2align 4
.globl SYMBOL(trace_stubs)
HIDDEN SYMBOL(trace_stubs)
SYMBOL(trace_stubs):
.rept 128
    adr x16, .
    b common
    nop
    nop
.endr

common:
    adr x17, SYMBOL(trace_stubs)
    sub x16, x16, x17
    lsr x16, x16, #4
    stp x29, x30, [sp, #-224]!
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov x0, x16
    add x1, sp, #16
    add x2, sp, #224
    bl SYMBOL(trace_enter)
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    br x16

#elif defined(__x86_64__)

.p2align 4
.globl SYMBOL(trace_stubs)
HIDDEN SYMBOL(trace_stubs)
SYMBOL(trace_stubs):
.rept 128
    .p2align 4
    lea -7(%rip), %r11
    jmp common
.endr

.p2align 4
common:
    push %rbp
    mov %rsp, %rbp
    sub $192, %rsp
    mov %rdi, 0(%rsp)
    mov %rsi, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rcx, 24(%rsp)
    mov %r8, 32(%rsp)
    mov %r9, 40(%rsp)
    mov %rax, 48(%rsp)
    movups %xmm0, 64(%rsp)
    movups %xmm1, 80(%rsp)
    movups %xmm2, 96(%rsp)
    movups %xmm3, 112(%rsp)
    movups %xmm4, 128(%rsp)
    movups %xmm5, 144(%rsp)
    movups %xmm6, 160(%rsp)
    movups %xmm7, 176(%rsp)
    lea SYMBOL(trace_stubs)(%rip), %rax
    mov %r11, %rdi
    sub %rax, %rdi
    shr $4, %rdi
    mov %rsp, %rsi
    lea 16(%rbp), %rdx
    call SYMBOL(trace_enter)
    mov %rax, %r11
    mov 0(%rsp), %rdi
    mov 8(%rsp), %rsi
    mov 16(%rsp), %rdx
    mov 24(%rsp), %rcx
    mov 32(%rsp), %r8
    mov 40(%rsp), %r9
    mov 48(%rsp), %rax
    movups 64(%rsp), %xmm0
    movups 80(%rsp), %xmm1
    movups 96(%rsp), %xmm2
    movups 112(%rsp), %xmm3
    movups 128(%rsp), %xmm4
    movups 144(%rsp), %xmm5
    movups 160(%rsp), %xmm6
    movups 176(%rsp), %xmm7
    leave
    jmp *%r11

#endif

#if defined(__linux__)
.section .note.GNU-stack,"",%progbits
#endif
