/* SPDX-License-Identifier: MIT
 * AdamW over a list of tensors, with weight decay separate from the gradient (Loshchilov and Hutter). One sweep reads
 * the gradient, updates moments and master weight, and writes the copy that the device reads. The sweep is cut into
 * fixed pieces, so results do not depend on the number of threads. Every instruction set produces the same bits.
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
    /* a second state, for updates that read one state and write the other (adamw_begin); all NULL if there is none */
    adamw_state other;
    moment_form form;
    /* for a part of a tensor, its offset in the moments, a multiple of MOMENT_BLOCK unless they are fp32 */
    int64_t place;
    int number; /* the tensor's number, which seeds stochastic rounding together with the step and the place */
    const float *gradient; /* gradient before it is multiplied by adamw_step.gradient_scale */
    /* gradient that adamw_gradient_norm reads, which may run during an update; NULL means `gradient` */
    const float *measured;
    bool squared; /* whether `squares`, the sum of the gradient's squares, is known */
    double squares;
    int64_t count;
    bool decay;         /* false for norm weights */
    void *device;       /* the device's copy, or NULL if the device reads the master weight */
    bool device_fp16;   /* otherwise fp32 */
    int64_t row;        /* elements per row of the device's copy */
    int64_t row_stride; /* bytes from one row to the next */
} adamw_tensor;

typedef struct adamw adamw;

typedef struct adamw_step {
    double lr, beta1, beta2, epsilon, weight_decay;
    double gradient_scale; /* factor of each gradient */
    int64_t step;          /* 1 for the first step; used for bias correction */
    /* a piece with a non-finite gradient stays unchanged as a whole; set this if the gradients have not been checked */
    bool guarded;
} adamw_step;

/* Copies the list of tensors; the memory to which they point still belongs to the caller. */
PROPANE_CHECK propane_status adamw_create(const adamw_tensor *tensors, int count, adamw **out, propane_error *err);
void adamw_free(adamw *a);
/* Returns a tensor of the list. A caller whose buffers have moved must set the new pointers in it before the next
 * sweep. */
adamw_tensor *adamw_tensor_at(adamw *a, int index);
/* Returns the norm of all gradients, which is not finite if a gradient is not. Reads only the gradients whose squares
 * are not known. */
double adamw_gradient_norm(adamw *a);
void adamw_update(adamw *a, const adamw_step *step);
/* Begins an update in parts. Afterwards adamw_update_tensors updates the tensors of a list and adamw_update_rows some
 * rows of a tensor, in any order and from two threads; only one thread at a time may call each of the two functions.
 * Nothing is updated twice, and the bits equal those of adamw_update. adamw_begin may be called only when neither of
 * them runs.
 *
 * With `apart`, the update reads `other`, which stays unchanged, and overwrites `state`, so it can be made again with
 * another step. Weights that had a non-finite gradient are then those of `other`. */
void adamw_begin(adamw *a, const adamw_step *step, bool apart);
void adamw_exchange(adamw *a); /* swaps `state` and `other` of all tensors */
/* Ends an update in parts: parts that have not been updated yet never will be. No part may be running. */
void adamw_abandon(adamw *a);
void adamw_update_tensors(adamw *a, const int *tensors, int count);
/* Updates `count` rows of `width` elements in a tensor with row_count rows, which are numbered from first_row. Numbers
 * in `rows` outside the tensor are ignored; if `rows` is NULL, the first `count` rows are updated. On return all these
 * rows are updated, by this thread or by another. */
void adamw_update_rows(adamw *a, int tensor, const int32_t *rows, int64_t count, int64_t first_row, int64_t row_count,
                       int64_t width);
/* Writes the master weights to the device's copies without an update, for example after loading. */
void adamw_publish(adamw *a);

#endif
