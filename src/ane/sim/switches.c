/* SPDX-License-Identifier: MIT
 * Owns the switches of a simulated device. Sets their defaults for a chip, and parses the text after "sim:".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/check.h"
#include "ane/sim/sim.h"

static const struct {
    const char *name;
    int standard, low, high;
    const char *text;
} rows[SIM_SWITCH_COUNT] = {
#define SWITCH(id, standard, low, high, text) {#id, standard, low, high, text},
#include "ane/sim/switches.def"
};

static void switches_defaults(const chip *c, sim_switches *out) {
    for (int i = 0; i < SIM_SWITCH_COUNT; i++) out->value[i] = rows[i].standard;
    out->value[SIM_slice] = c->generation <= CHIP_H13;
    out->value[SIM_arithmetic] = c->generation >= CHIP_H15;
    out->value[SIM_sums] = c->generation != CHIP_H15;
}

static propane_status switches_unknown_switch(const char *name, size_t length, propane_error *err) {
    char known[300] = "";
    size_t used = 0;
    for (int i = 0; i < SIM_SWITCH_COUNT; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? " " : "", rows[i].name);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "device 'sim': unknown option '%.*s'; the options are %s, and level=registers",
                        (int)(length < 40 ? length : 40), name, known);
}

static propane_status switches_set(const char *at, size_t length, sim_switches *out, propane_error *err) {
    size_t n = 0;
    while (n < length && at[n] != '=') n++;
    int i = 0;
    while (i < SIM_SWITCH_COUNT && !(strlen(rows[i].name) == n && strncmp(rows[i].name, at, n) == 0)) i++;
    if (i == SIM_SWITCH_COUNT) return switches_unknown_switch(at, n, err);
    char *end = NULL;
    long v = n < length ? strtol(at + n + 1, &end, 10) : 0;
    if (n + 1 >= length || end != at + length || v < rows[i].low || v > rows[i].high)
        return propane_fail(err, PROPANE_ERR_INVALID, "device 'sim': '%.*s': %s must be a number from %d to %d: %s",
                            (int)(length < 60 ? length : 60), at, rows[i].name, rows[i].low, rows[i].high,
                            rows[i].text);
    out->value[i] = (int)v;
    return PROPANE_OK;
}

propane_status sim_switches_parse(const char *rest, const chip **c, sim_switches *out, propane_error *err) {
    char name[40];
    size_t length = strcspn(rest, "?");
    snprintf(name, sizeof name, "%.*s", (int)(length < 39 ? length : 39), rest);
    if (!length)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "device 'sim' needs a chip, as in \"sim:m4\" or \"sim:m1?table=0&budget=20\"");
    PROPANE_TRY(chip_find(name, c, err));
    switches_defaults(*c, out);
    for (const char *at = rest[length] ? rest + length + 1 : rest + length; *at;) {
        size_t n = strcspn(at, "&");
        PROPANE_TRY(switches_set(at, n, out, err));
        at += n + (at[n] == '&');
    }
    if (out->value[SIM_rows] < 0) out->value[SIM_rows] = (int)chip_row_bytes();
    if (out->value[SIM_budget] < 0)
        out->value[SIM_budget] = (int)chip_limit_value(out->value[SIM_theory] == SIM_COUNTS_LOADED ? "C1b" : "C1a");
    if (out->value[SIM_rows] & (out->value[SIM_rows] - 1))
        return propane_fail(err, PROPANE_ERR_INVALID, "device 'sim': rows is %d; it must be a power of two",
                            out->value[SIM_rows]);
    return PROPANE_OK;
}
