/* SPDX-License-Identifier: MIT
 * Energy that the machine says it used: on Linux the processor's counters (RAPL, /sys/class/powercap), on macOS the
 * channels of the "Energy Model" group of IOReport, which needs no rights. What a system does not count, or counts with
 * a channel that stands still, is unknown: never zero.
 */
#ifndef CORE_BASE_ENERGY_H
#define CORE_BASE_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

typedef enum energy_part { ENERGY_CPU, ENERGY_GPU, ENERGY_ANE, ENERGY_DRAM, ENERGY_PARTS } energy_part;

typedef struct energy_reading {
    double seconds; /* since the reading before, or the opening */
    double joules[ENERGY_PARTS];
    const char *why[ENERGY_PARTS]; /* NULL: known; otherwise why it is not (belongs to the meter) */
} energy_reading;

typedef struct energy_meter energy_meter;

/* Where the counters are; NULL: the system's own. For tests. */
typedef struct energy_source {
    const char *powercap;                               /* instead of /sys/class/powercap */
    void *(*symbol)(void *context, const char *symbol); /* IOReport's and CoreFoundation's functions */
    void *context;
} energy_source;

const char *energy_part_name(energy_part part); /* "cpu", "gpu", "ane", "dram" */
/* Fails with PROPANE_ERR_UNSUPPORTED only where nothing at all can be read, and says why. */
PROPANE_CHECK propane_status energy_open(const energy_source *source, energy_meter **out, propane_error *err);
/* What was used since the last call. Counters that a system updates seldom (RAPL: about each millisecond) blur short
 * stretches. */
PROPANE_CHECK propane_status energy_read(energy_meter *m, energy_reading *out, propane_error *err);
void energy_close(energy_meter *m);

#endif
