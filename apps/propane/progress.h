/* SPDX-License-Identifier: MIT
 * Shows the progress of long work. On a terminal it redraws one line with a plot of the loss. Elsewhere it prints plain
 * lines, now and then with the time. With --json it prints one object per line.
 */
#ifndef APPS_PROPANE_PROGRESS_H
#define APPS_PROPANE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/energy.h"
#include "propane.h"

#define PROGRESS_HISTORY 512

typedef struct progress {
    bool json, terminal, silent;   /* if none is set: plain lines */
    const char *unit;              /* the unit that is counted: "tokens", or set by the caller after progress_init */
    int64_t steps;                 /* total number */
    int64_t shown_ns;              /* time of the last line */
    bool drawn;                    /* a redrawn line is on the terminal */
    double loss[PROGRESS_HISTORY]; /* means of equal stretches of the run so far */
    int filled;
    int64_t stretch, in_stretch; /* steps per entry; steps in the current entry */
    double smooth;               /* running mean of the loss, not debiased: divide it by `weight` */
    double weight;
} progress;

typedef struct progress_step {
    int64_t step;
    double loss, lr, loss_scale, tokens_per_s, device_ms, host_ms, seconds_left;
    const char *simulated;        /* the chip whose model gives device_ms; NULL if it is measured */
    double energy_j, utilisation; /* also from the model */
    const energy_reading *power;  /* energy used since the previous step; NULL if not requested */
} progress_step;

/* Makes the record of a step, for a run that took `seconds` since its step `first` and ends with step `steps`. */
progress_step progress_of(const propane_step *r, double seconds, int64_t first, int64_t steps);
#define PROGRESS_FORMS "auto|plain|bar|none"
/* Returns whether `form`, one of these, is a line that is redrawn. "auto" is one on a terminal, but not with
 * `ranks`, because mpirun gives each rank a terminal. */
bool progress_is_bar(const char *form, bool ranks, int fd);
/* Starts a bar on standard output, or plain lines. */
void progress_init(progress *p, bool json, const char *form, bool ranks, int64_t steps);
void progress_show(progress *p, const progress_step *s);
/* Prints a separate line: an evaluation or a checkpoint. In JSON mode the caller prints an object instead. */
void progress_line(progress *p, const char *format, ...);
/* Reports that the checkpoint of this step is at `path`: as an object in JSON mode, otherwise as a line unless
 * quiet. */
void progress_checkpoint(progress *p, int64_t step, const char *path, bool quiet);
/* Prints ,"cpu_j":...,"gpu_j":... and so on; unknown values are null. */
void progress_energy(const energy_reading *r);
/* Prints ,"name":value. NaN is printed as null, because JSON has none. */
void progress_number(const char *name, double value);
/* Makes the printed text visible. If the reader has gone or the disk is full, the run ends as after Ctrl-C. */
void progress_flush(void);
/* Ends the redrawn line. */
void progress_end(progress *p);

#endif
