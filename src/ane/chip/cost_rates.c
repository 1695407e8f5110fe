/* SPDX-License-Identifier: MIT
 * Owns the reading of a host's measured rates from a report of `propane devices --probe`.
 */
#include "ane/chip/cost_rates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"

enum { LIMIT = 4 << 20 }; /* maximum size of a report in bytes */

/* Returns a positive number from an answer, or 0 if there is none. */
static double cost_rates_value(const json_t *answers, const char *id, const char *key) {
    const double v = json_number_value(json_object_get(json_object_get(answers, id), key));
    return isfinite(v) && v > 0 ? v : 0;
}

static propane_status cost_rates_take(const json_t *report, const char *path, cost_rates *out, propane_error *err) {
    const json_t *answers = json_object_get(report, "answers");
    const char *system = json_string_value(json_object_get(report, "system"));
    const double own = cost_rates_value(answers, "host-products", "own_tflops");
    const struct {
        double *to, value;
        const char *id, *key;
    } figures[] = {
        {&out->gemm_tflops, own > 0 ? fmax(own, cost_rates_value(answers, "host-products", "library_tflops")) : 0,
         "host-products", "own_tflops"},
        {&out->memory_gbs, cost_rates_value(answers, "host-memory", "gb_per_s"), "host-memory", "gb_per_s"},
        {&out->stream_gbs, cost_rates_value(answers, "host-conversions", "fp16_gb_per_s"), "host-conversions",
         "fp16_gb_per_s"},
        {&out->update_ns[0], cost_rates_value(answers, "host-update", "fp32_ns"), "host-update", "fp32_ns"},
        {&out->update_ns[1], cost_rates_value(answers, "host-update", "bf16_ns"), "host-update", "bf16_ns"},
        {&out->update_ns[2], cost_rates_value(answers, "host-update", "int8_ns"), "host-update", "int8_ns"},
        {&out->early_ns[0], cost_rates_value(answers, "host-update", "fp32_early_ns"), "host-update", "fp32_early_ns"},
        {&out->early_ns[1], cost_rates_value(answers, "host-update", "bf16_early_ns"), "host-update", "bf16_early_ns"},
        {&out->early_ns[2], cost_rates_value(answers, "host-update", "int8_early_ns"), "host-update", "int8_early_ns"},
    };
    if (!answers)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: not a report of 'propane devices --probe': it has no \"answers\"", path);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (figures[i].value <= 0)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: answer \"%s\" has no positive number \"%s\"; write a new report with this "
                                "version: propane devices --probe",
                                path, figures[i].id, figures[i].key);
        *figures[i].to = figures[i].value;
    }
    snprintf(out->system, sizeof out->system, "%s", system ? system : "unknown");
    return PROPANE_OK;
}

propane_status cost_rates_read(const char *path, cost_rates *out, propane_error *err) {
    json_t *report = NULL;
    *out = (cost_rates){0};
    PROPANE_TRY(json_read(path, LIMIT, &report, err));
    const propane_status status = cost_rates_take(report, path, out, err);
    json_decref(report);
    return status;
}

cost_host cost_host_with(const chip *c, const cost_rates *rates) {
    cost_host h = cost_host_of(c);
    if (!rates) return h;
    h.gemm_tflops = rates->gemm_tflops;
    h.stream_gbs = rates->stream_gbs;
    h.memory_gbs = rates->memory_gbs;
    return h;
}
