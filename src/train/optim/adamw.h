/* SPDX-License-Identifier: MIT
 * AdamW (Loshchilov and Hutter: weight decay separate from the gradient) over a list of tensors. One sweep reads the
 * gradient, updates moments and master weight, and writes the form that the device reads. The sweep is cut into fixed
 * pieces, so results do not depend on the number of threads. Every instruction set produces the same bits.
 */
#ifndef TRAIN_OPTIM_ADAMW_H
#define TRAIN_OPTIM_ADAMW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "train/optim/moments.h"

/* The state of a tensor that an update changes. */
typedef struct adamw_state {
    float *weight;           /* master, fp32 */
    void *moment1, *moment2; /* moments of the whole tensor */
    float *scale1, *scale2;  /* form int8: scales of the moments' blocks */
} adamw_state;

/* A tensor or a part of one. */
typedef struct adamw_tensor {
    adamw_state state;
    /* memory for a second state, for updates from one to the other: adamw_begin; NULLs if there is none */
    adamw_state other;
    moment_form form;
    int64_t place; /* for a part: its offset in the moments, a multiple of MOMENT_BLOCK unless they are fp32 */
    int number;    /* the tensor's number, which seeds stochastic rounding together with the step and the place */
    const float *gradient; /* sums that are not yet divided, for instance by the loss scale */
    const float *measured; /* the same for adamw_gradient_norm, which may run during an update; NULL means `gradient` */
    bool squared;          /* the sum of their squares is known: */
    double squares;
    int64_t count;
    bool decay;         /* false for norm weights */
    void *device;       /* the device's copy, or NULL if it reads the master weight */
    bool device_fp16;   /* otherwise fp32 */
    int64_t row;        /* elements per row of the device's copy */
    int64_t row_stride; /* bytes from one row to the next */
} adamw_tensor;

typedef struct adamw adamw;

typedef struct adamw_step {
    double lr, beta1, beta2, epsilon, weight_decay;
    double gradient_scale; /* factor of each gradient */
    int64_t step;          /* 1 for the first step, for bias correction */
    /* a piece with a non-finite gradient stays unchanged as a whole, because no earlier check has looked */
    bool guarded;
} adamw_step;

/* The tensors are copied; the memory they point to still belongs to the caller. */
PROPANE_CHECK propane_status adamw_create(const adamw_tensor *tensors, int count, adamw **out, propane_error *err);
void adamw_free(adamw *a);
/* If the caller locks the buffers again at another address, it must set the new pointers here before the next sweep. */
adamw_tensor *adamw_tensor_at(adamw *a, int index);
/* Returns the norm of all gradients, which is not finite if one of them is not. Reads only the gradients whose squares
 * are not known. */
double adamw_gradient_norm(adamw *a);
void adamw_update(adamw *a, const adamw_step *step);
/* The same update in parts. After adamw_begin come tensors of a list and rows of a tensor, in any order and from two
 * threads. Nothing is updated twice, and the bits equal those of adamw_update. One thread at a time may call each of
 * the two;
 * adamw_begin may be called only when neither runs. */
/* With `apart`, the update goes from `other`, which stays unchanged, to `state`, which is overwritten, so it may begin
 * again with another step. Weights that had a non-finite gradient are then those of `other`. */
void adamw_begin(adamw *a, const adamw_step *step, bool apart);
void adamw_exchange(adamw *a); /* swaps `state` and `other` of all tensors */
void adamw_abandon(
    adamw *a); /* parts that were begun and are not updated yet are never updated; nothing may be running */
void adamw_update_tensors(adamw *a, const int *tensors, int count);
/* Updates rows of `width` elements. They have the numbers first_row, first_row + 1, ...; other numbers are ignored. If
 * `rows` is NULL, it updates the first `count`. On return they are updated, whichever thread did it. */
void adamw_update_rows(adamw *a, int tensor, const int32_t *rows, int64_t count, int64_t first_row, int64_t row_count,
                       int64_t width);
/* Only writes the device's copies from the master weights, for instance after loading. */
void adamw_publish(adamw *a);

#endif
