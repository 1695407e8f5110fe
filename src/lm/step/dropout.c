/* SPDX-License-Identifier: MIT
 * Owns the choice of the elements that are dropped. Each row has its own random generator, which is seeded with the
 * sequence's key, the mask and the channel.
 */
#include "lm/step/dropout.h"

#include <string.h>

#include "core/base/float16.h"
#include "core/base/pool.h"
#include "core/base/rng.h"

typedef struct fill {
    char *data;
    const propane_io *io;
    uint64_t key, mask;
    double keep;
} fill;

uint64_t train_dropout_mask(int instance, const char *name) {
    uint64_t mask = (uint64_t)instance;
    for (const char *at = name; *at; at++) mask = (mask ^ (unsigned char)*at) * 0x100000001b3u;
    return mask;
}

static void dropout_fill_row(void *context, int task, int worker) {
    (void)worker;
    const fill *f = context;
    int64_t channels = f->io->dim[1], positions = f->io->dim[3], b = task / channels, c = task % channels;
    char *row = f->data + b * f->io->stride[0] + c * f->io->stride[1];
    float kept = (float)(1 / f->keep);
    uint16_t half = fp16_from_f32(kept);
    rng r;
    rng_init(&r, ((f->key + (uint64_t)b) * 0x9e3779b97f4a7c15u + f->mask) * 0xbf58476d1ce4e5b9u + (uint64_t)c);
    for (int64_t i = 0; i < positions; i++) {
        bool keep = f->keep >= 1 || rng_unit(&r) < f->keep;
        float value = keep ? kept : 0;
        uint16_t value16 = keep ? half : 0;
        if (f->io->dtype == PROPANE_FP16)
            memcpy(row + i * 2, &value16, 2);
        else
            memcpy(row + i * 4, &value, 4);
    }
}

void train_dropout_fill(void *data, const propane_io *io, uint64_t key, uint64_t mask, double dropout) {
    fill f = {data, io, key, mask, key ? 1 - dropout : 1};
    pool_run(dropout_fill_row, &f, (int)(io->dim[0] * io->dim[1]));
}
