/* SPDX-License-Identifier: MIT
 * AdamW (Loshchilov and Hutter: decay apart from the gradient) over a list of tensors. One sweep reads the gradient,
 * moves moments and master weight, and writes the form that the device reads. The sweep is cut into fixed pieces, so
 * results do not depend on the number of threads; every instruction set gives the same bits.
 */
#ifndef TRAIN_OPTIM_ADAMW_H
#define TRAIN_OPTIM_ADAMW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "train/optim/moments.h"

/* What an update moves of a tensor. */
typedef struct adamw_state {
    float *weight;           /* master, fp32 */
    void *moment1, *moment2; /* of the whole tensor */
    float *scale1, *scale2;  /* form int8: of the moments' blocks */
} adamw_state;

/* A tensor, or a part of one. */
typedef struct adamw_tensor {
    adamw_state state;
    adamw_state other; /* memory for a second one, for updates apart: adamw_begin. NULLs: there is none */
    moment_form form;
    int64_t place; /* of a part: where in the moments it begins, a multiple of MOMENT_BLOCK unless they are fp32 */
    int number;    /* which tensor it is: what rounding at random is drawn from, beside the step and the place */
    const float *gradient; /* sums, not yet divided by loss scale and so on */
    const float *measured; /* the same for adamw_gradient_norm, which may run beside an update; NULL: `gradient` */
    bool squared;          /* the sum of their squares is known: */
    double squares;
    int64_t count;
    bool decay;         /* false: norm weights */
    void *device;       /* the device's copy; NULL: it reads the master weight */
    bool device_fp16;   /* else fp32 */
    int64_t row;        /* elements of a row of the device's copy */
    int64_t row_stride; /* bytes between its rows */
} adamw_tensor;

typedef struct adamw adamw;

typedef struct adamw_step {
    double lr, beta1, beta2, epsilon, weight_decay;
    double gradient_scale; /* each gradient is multiplied by it first */
    int64_t step;          /* 1 for the first: bias correction */
    /* what has a gradient that is no number stays as it is, with its neighbours: nothing has looked before */
    bool guarded;
} adamw_step;

/* The tensors are copied; what they point to stays the caller's. */
PROPANE_CHECK propane_status adamw_create(const adamw_tensor *tensors, int count, adamw **out, propane_error *err);
void adamw_free(adamw *a);
/* The caller locks the buffers again at another address: tell before the next sweep. */
adamw_tensor *adamw_tensor_at(adamw *a, int index);
/* Length of the vector of all gradients; not finite if one of them is not. Goes over those whose squares are not
 * known. */
double adamw_gradient_norm(adamw *a);
void adamw_update(adamw *a, const adamw_step *step);
/* The same in parts: after begin the tensors of a list, and rows of a tensor, in any order and from two threads;
 * nothing moves twice, and the bits are those of adamw_update. One thread may call each of the two at a time; begin
 * when neither runs. */
/* `apart`: from `other`, which stays as it is, to `state`, whatever was there: it may be begun again with another step.
 * Weights that had a gradient which is no number are then those of `other`. */
void adamw_begin(adamw *a, const adamw_step *step, bool apart);
void adamw_exchange(adamw *a); /* `state` and `other` of all tensors */
void adamw_abandon(adamw *a);  /* what was begun and has not moved stays; nothing runs */
void adamw_update_tensors(adamw *a, const int *tensors, int count);
/* Rows of `width` elements, which are called first_row, first_row + 1, ...; others are left out, and with `rows` NULL
 * it is the first `count`. When it returns they have moved, by whichever thread. */
void adamw_update_rows(adamw *a, int tensor, const int32_t *rows, int64_t count, int64_t first_row, int64_t row_count,
                       int64_t width);
/* Only writes the device's copies from the master weights: after loading. */
void adamw_publish(adamw *a);

#endif
