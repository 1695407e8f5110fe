/* SPDX-License-Identifier: MIT
 * Reads the energy use that the machine reports. Linux reads the processor's counters (RAPL, /sys/class/powercap).
 * macOS reads the channels of the "Energy Model" group of IOReport, which needs no privileges. A part that the system
 * does not measure is reported as unknown, not as zero. On macOS, so is a part whose counter did not change.
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

/* Replaces the system's counters in tests. A NULL source or field selects the system's. */
typedef struct energy_source {
    const char *powercap;                               /* instead of /sys/class/powercap */
    void *(*symbol)(void *context, const char *symbol); /* looks up functions of IOReport and CoreFoundation */
    void *context;
} energy_source;

const char *energy_part_name(energy_part part); /* "cpu", "gpu", "ane", "dram" */
/* Fails with PROPANE_ERR_UNSUPPORTED, and reports why, only if no counter can be read. */
PROPANE_CHECK propane_status energy_open(const energy_source *source, energy_meter **out, propane_error *err);
/* Reads the energy used since the previous reading, or since energy_open. Short intervals are imprecise, because the
 * system updates counters rarely (RAPL: about every millisecond). */
PROPANE_CHECK propane_status energy_read(energy_meter *m, energy_reading *out, propane_error *err);
void energy_close(energy_meter *m);

#endif
