/* SPDX-License-Identifier: MIT
 * How long work shows itself: on a terminal one line that is redrawn, with a plot of the loss; elsewhere plain lines
 * with the time now and then; with --json one object per line.
 */
#ifndef APPS_PROPANE_PROGRESS_H
#define APPS_PROPANE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/energy.h"
#include "propane.h"

#define PROGRESS_HISTORY 512

typedef struct progress {
    bool json, terminal, silent;   /* neither: plain lines */
    const char *unit;              /* what is counted: "tokens", or set by the caller after progress_init */
    int64_t steps;                 /* in all */
    int64_t shown_ns;              /* when the last line came */
    bool drawn;                    /* a redrawn line is on the terminal */
    double loss[PROGRESS_HISTORY]; /* means of equal stretches of the run so far */
    int filled;
    int64_t stretch, in_stretch; /* steps per entry; in the one being filled */
    double smooth;               /* running mean of the loss; not debiased: divided by `weight` */
    double weight;
} progress;

typedef struct progress_step {
    int64_t step;
    double loss, lr, loss_scale, tokens_per_s, device_ms, host_ms, seconds_left;
    const char *simulated;        /* the chip whose time device_ms is by a model; NULL: measured */
    double energy_j, utilisation; /* simulated likewise */
    const energy_reading *power;  /* what the machine used since the step before; NULL: not asked for */
} progress_step;

/* Of a run that took `seconds` since its step `first` and ends with step `steps`. */
progress_step progress_of(const propane_step *r, double seconds, int64_t first, int64_t steps);
#define PROGRESS_FORMS "auto|plain|bar|none"
/* Is `form`, one of these, a line that is redrawn? auto: on a terminal; not of `ranks`, as mpirun gives each rank
 * one. */
bool progress_is_bar(const char *form, bool ranks, int fd);
/* A bar on standard output, or plain lines. */
void progress_init(progress *p, bool json, const char *form, bool ranks, int64_t steps);
void progress_show(progress *p, const progress_step *s);
/* A line of its own: an evaluation, a checkpoint. In JSON mode the caller prints its own object instead. */
void progress_line(progress *p, const char *format, ...);
/* Tells that the checkpoint of this step lies at path: an object in JSON mode, else a line unless quiet. */
void progress_checkpoint(progress *p, int64_t step, const char *path, bool quiet);
/* Prints ,"cpu_j":...,"gpu_j":... and so on; what is unknown is null. */
void progress_energy(const energy_reading *r);
/* Prints ,"name":value; JSON has no NaN, it is null there. */
void progress_number(const char *name, double value);
/* What was printed so far becomes visible. If the reader has gone or the disk is full, the run ends as after Ctrl-C. */
void progress_flush(void);
/* Ends the redrawn line. */
void progress_end(progress *p);

#endif
