/* SPDX-License-Identifier: MIT
 * Energy use as the machine reports it. Linux reads the processor's counters (RAPL, /sys/class/powercap). macOS reads
 * the channels of the "Energy Model" group of IOReport, which needs no privileges. A part that the system does not
 * count, or whose counter never moves, is reported as unknown, never as zero.
 */
#ifndef CORE_BASE_ENERGY_H
#define CORE_BASE_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

typedef enum energy_part { ENERGY_CPU, ENERGY_GPU, ENERGY_ANE, ENERGY_DRAM, ENERGY_PARTS } energy_part;

typedef struct energy_reading {
    double seconds; /* since the previous reading, or since the meter was opened */
    double joules[ENERGY_PARTS];
    const char *why[ENERGY_PARTS]; /* NULL if the value is known, else the reason why not; owned by the meter */
} energy_reading;

typedef struct energy_meter energy_meter;

/* Where the counters are, for tests. NULL means the system's counters. */
typedef struct energy_source {
    const char *powercap;                               /* instead of /sys/class/powercap */
    void *(*symbol)(void *context, const char *symbol); /* looks up functions of IOReport and CoreFoundation */
    void *context;
} energy_source;

const char *energy_part_name(energy_part part); /* "cpu", "gpu", "ane", "dram" */
/* Fails with PROPANE_ERR_UNSUPPORTED only if nothing at all can be read, and reports why. */
PROPANE_CHECK propane_status energy_open(const energy_source *source, energy_meter **out, propane_error *err);
/* Reads the energy used since the last call. Counters that the system updates rarely (RAPL: about every millisecond)
 * make short intervals imprecise. */
PROPANE_CHECK propane_status energy_read(energy_meter *m, energy_reading *out, propane_error *err);
void energy_close(energy_meter *m);

#endif
