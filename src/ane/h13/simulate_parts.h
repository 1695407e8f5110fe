/* SPDX-License-Identifier: MIT
 * Declares what the interpreter's files share. Private to ane/h13/simulate*.c.
 */
#ifndef ANE_H13_SIMULATE_PARTS_H
#define ANE_H13_SIMULATE_PARTS_H

#include "ane/h13/simulate.h"

enum { SIM_ELEMENTS_MAX = 1 << 27 };

struct engine_machine {
    uint8_t *buffer; /* ENGINE_BUFFER bytes */
    uint8_t *valid;  /* one byte per halfword: whether it may be read */
    engine_arithmetic how;
};

/* Five dimensions, outermost first: groups, depth, channels, height, width. */
typedef struct sim_shape {
    int64_t g, d, c, h, w;
} sim_shape;

static inline int64_t sim_count(const sim_shape *s) { return s->g * s->d * s->c * s->h * s->w; }

/* Dense values with a shape. */
typedef struct sim_tensor {
    sim_shape shape;
    float *data;
} sim_tensor;

typedef struct sim {
    engine_machine *machine;
    const engine_memory *buffers;
    const engine_task *t;
    int index; /* of the task */
    bool neural;
    sim_tensor a, b, y; /* sources and result */
    propane_error *err;
} sim;

/* Rounds a result as the engine stores it. */
float sim_round(const sim *s, double v);
/* Fails with PROPANE_ERR_UNSUPPORTED and names the task. Puts the register and its value in front of the text unless
 * `address` is 0xffffffff. */
propane_status sim_refuse(sim *s, uint32_t address, const char *format, ...) BASE_PRINTF(3, 4);
propane_status sim_allocate(sim *s, sim_tensor *t, sim_shape shape);

/* Reads the sources into s->a and s->b, by DMA or from the on-chip buffer. */
PROPANE_CHECK propane_status sim_read_sources(sim *s);
/* Writes s->y to memory or to the on-chip buffer. */
PROPANE_CHECK propane_status sim_write_result(sim *s);
/* Compute s->y from the sources. */
PROPANE_CHECK propane_status sim_planar(sim *s);
PROPANE_CHECK propane_status sim_neural(sim *s);

static inline uint32_t sim_bits(const sim *s, uint32_t address, int low, int bits) {
    return engine_get_bits(s->t, address, low, bits);
}

#endif
