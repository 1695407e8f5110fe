/* SPDX-License-Identifier: MIT
 * Owns planes. A plane is a copy of a one-channel image with its padding, arranged so that the elements that a tap
 * reads for adjacent results are adjacent.
 */
#include "cpu/conv/conv_window.h"

#include <string.h>

#include "core/base/float16.h"

void cpu_window_three(mil_conv *c) {
    const int shift = 3 - c->spatial;
    for (int d = 2; d >= 0; d--) {
        const bool there = d >= shift;
        c->in[d] = there ? c->in[d - shift] : 1;
        c->out[d] = there ? c->out[d - shift] : 1;
        c->kernel[d] = there ? c->kernel[d - shift] : 1;
        c->stride[d] = there ? c->stride[d - shift] : 1;
        c->dilation[d] = there ? c->dilation[d - shift] : 1;
        c->before[d] = there ? c->before[d - shift] : 0;
        c->after[d] = there ? c->after[d - shift] : 0;
    }
    c->spatial = 3;
}

/* Sizes the plane for all lines and columns that a window reaches, and for the lanes after the last result. */
void cpu_window_plane_plan(cpu_window_plane *p, const mil_conv *c) {
    int64_t reach[3];
    for (int d = 0; d < 3; d++) {
        reach[d] = (c->out[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
        if (reach[d] < c->before[d] + c->in[d]) reach[d] = c->before[d] + c->in[d];
    }
    p->c = *c;
    p->high[0] = reach[0], p->high[1] = reach[1];
    p->phase = (reach[2] + c->stride[2] - 1) / c->stride[2];
    p->width = p->phase * c->stride[2];
    p->floats = (p->high[0] * p->high[1] * p->width + 2 * CPU_WINDOW_LANES - 1) / CPU_WINDOW_LANES *
                CPU_WINDOW_LANES; /* lanes after the last result */
}

static void conv_window_fill_edges(const cpu_window_plane *p, float edge, float *plane) {
    if (edge == 0.0f) {
        memset(plane, 0, (size_t)p->floats * sizeof *plane);
        return;
    }
    plane[0] = edge;
    for (int64_t done = 1; done < p->floats; done *= 2) {
        const int64_t more = p->floats - done < done ? p->floats - done : done;
        memcpy(plane + done, plane, (size_t)more * sizeof *plane);
    }
}

void cpu_window_plane_fill(const cpu_window_plane *p, const void *x, bool half, float edge, float *plane) {
    const mil_conv *c = &p->c;
    const int64_t step = c->stride[2];
    conv_window_fill_edges(p, edge, plane);
    for (int64_t z = 0; z < c->in[0]; z++)
        for (int64_t y = 0; y < c->in[1]; y++) {
            float *line = plane + ((z + c->before[0]) * p->high[1] + y + c->before[1]) * p->width;
            const int64_t from = (z * c->in[1] + y) * c->in[2];
            const float *full = (const float *)x + from;
            const uint16_t *halves = (const uint16_t *)x + from;
            if (step == 1 && !half) {
                memcpy(line + c->before[2], full, (size_t)c->in[2] * sizeof *line);
                continue;
            }
            for (int64_t k = 0; k < step && k < c->in[2]; k++) {
                float *to = line + (k + c->before[2]) % step * p->phase + (k + c->before[2]) / step;
                if (half)
                    for (int64_t i = k; i < c->in[2]; i += step) *to++ = fp16_to_f32(halves[i]);
                else
                    for (int64_t i = k; i < c->in[2]; i += step) *to++ = full[i];
            }
        }
}
