/* SPDX-License-Identifier: MIT
 * Shows the progress of long work. On a terminal it redraws one line with a plot of the loss. Elsewhere it prints plain
 * lines with the time, at intervals. With --json it prints one object per line.
 */
#ifndef APPS_PROPANE_PROGRESS_H
#define APPS_PROPANE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/energy.h"
#include "propane.h"

#define PROGRESS_HISTORY 512

typedef struct progress {
    bool json, terminal, silent;   /* if none of them is set, plain lines are printed */
    const char *unit;              /* unit of the rate: "tokens", unless the caller replaces it after progress_init */
    int64_t steps;                 /* total number of steps */
    int64_t shown_ns;              /* time at which the last line was printed; clock_ns */
    bool drawn;                    /* a redrawn line is on the terminal */
    double loss[PROGRESS_HISTORY]; /* mean losses of stretches of the run, which have equal numbers of steps */
    int filled;
    int64_t stretch, in_stretch; /* number of steps per entry of `loss`, and in its newest entry */
    double smooth;               /* exponentially weighted sum of the losses; their mean is smooth / weight */
    double weight;
} progress;

typedef struct progress_step {
    int64_t step;
    double loss, lr, loss_scale, tokens_per_s, device_ms, host_ms, seconds_left;
    const char *simulated;        /* the chip whose model gives device_ms; NULL if it is measured */
    double energy_j, utilisation; /* from the same model */
    const energy_reading *power;  /* energy used since the previous step; NULL if not requested */
} progress_step;

/* Returns the record of a step, in a run that has taken `seconds` since step `first` and ends with step `steps`. */
progress_step progress_of(const propane_step *r, double seconds, int64_t first, int64_t steps);
#define PROGRESS_FORMS "auto|plain|bar|none"
/* Returns whether `form`, one of PROGRESS_FORMS, means a line that is redrawn. "auto" means one if `fd` is a terminal,
 * but not with `ranks`, because mpirun gives each rank a terminal. */
bool progress_is_bar(const char *form, bool ranks, int fd);
/* Prepares the display on standard output: JSON lines, or what `form` means. */
void progress_init(progress *p, bool json, const char *form, bool ranks, int64_t steps);
void progress_show(progress *p, const progress_step *s);
/* Prints a separate line: an evaluation or a checkpoint. In JSON mode the caller prints an object instead. */
void progress_line(progress *p, const char *format, ...);
/* Reports that the checkpoint of a step was written to `path`. Prints an object in JSON mode, otherwise a line unless
 * `quiet` is set. */
void progress_checkpoint(progress *p, int64_t step, const char *path, bool quiet);
/* Prints ,"cpu_j":...,"gpu_j":... and so on; unknown values are null. */
void progress_energy(const energy_reading *r);
/* Prints ,"name":value. NaN is printed as null, because JSON has none. */
void progress_number(const char *name, double value);
/* Flushes standard output. If the reader is gone or the disk is full, interrupts the run like Ctrl-C. */
void progress_flush(void);
/* Ends the redrawn line. */
void progress_end(progress *p);

#endif
