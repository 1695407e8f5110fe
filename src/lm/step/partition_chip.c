/* SPDX-License-Identifier: MIT
 * Owns the list of chips for which a plan is made. The list alone is not enough: the device kernels are also checked
 * against all known rules, because some rules depend on the kernels' shapes.
 */
#include <string.h>

#include "ane/chip/check.h"
#include "lm/step/partition.h"
#include "lm/step/weight_packing.h"

/* Plans in fp32 are only for devices on the host, because no source documents what an engine does with fp32 arithmetic
 * (rule C18c). The kernels of plan "layer" have the fp32 residual stream as inputs and outputs and cast it inside,
 * which M1 and M2 reject (C18a, C18b). With an fp16 stream, they have neither fp32 values nor casts. */
static const struct {
    const char *plan;
    bool half_stream;
    const char *fp16;
} claims[] = {
    {"six", false, "h13 h14 h15 h16 h17 h18"},
    {"ten", false, "h13 h14 h15 h16 h17 h18"},
    {"layer", false, "h15 h16 h17 h18"},
    {"layer", true, "h13 h14 h15 h16 h17 h18"},
};

const char *partition_chips(const char *name, mil_dtype precision, bool half_stream) {
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++)
        if (strcmp(claims[i].plan, name) == 0 && claims[i].half_stream == half_stream && precision == MIL_fp16)
            return claims[i].fp16;
    return "";
}

/* The packed mode relies on slices along the last axis. Training cannot use this mode on a chip where such slices
 * corrupt values. For a single slice in a user's program a warning is enough, because the user knows the range of its
 * values. */
#define PACKED_RULE "C29a"

static propane_status partition_find_packed_rule(const mil_function *f, const chip *c, int os, propane_error *why) {
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, os, 1, CHIP_PATH_DIRECT, false});
    if (!r) return propane_fail_memory(why, 0);
    propane_status status = chip_check_function(r, f, why);
    for (int i = 0; i < chip_report_count(r) && status == PROPANE_OK; i++) {
        const chip_finding *found = chip_report_get(r, i);
        if (strcmp(found->limit->id, PACKED_RULE) == 0)
            status = propane_fail(why, PROPANE_ERR_UNSUPPORTED,
                                  "packed weights, rule %s on the %s: %s; use weights as inputs", PACKED_RULE, c->title,
                                  found->message);
    }
    chip_report_free(r);
    return status;
}

static propane_status partition_kernel_supported(const partition *p, const partition_kernel *k, const chip *c, int os,
                                                 weight_mode weights, propane_error *why) {
    if (weights != WEIGHT_MODE_PACKED || k->function->param_count < 2)
        return chip_check_refusal(k->function, c, os, why);
    packing *packed = NULL;
    PROPANE_TRY(packing_create(k->function, p->options.batch, &packed, why));
    propane_status status = chip_check_refusal(packed->function, c, os, why);
    if (status == PROPANE_OK) status = partition_find_packed_rule(packed->function, c, os, why);
    packing_free(packed);
    return status;
}

propane_status partition_supports(const partition *p, const chip *c, int os, weight_mode weights, propane_error *why) {
    if (weights == WEIGHT_MODE_PATCHED && c->generation != CHIP_H13)
        return propane_fail(
            why, PROPANE_ERR_UNSUPPORTED,
            "plan %s: patched weights work only on the engine of an M1 under Linux (device accel), not on the %s",
            p->options.name, c->title);
    for (int i = 0; i < p->kernel_count; i++) {
        const partition_kernel *k = &p->kernels[i];
        if (k->place != PARTITION_DEVICE) continue;
        propane_status status = partition_kernel_supported(p, k, c, os, weights, why);
        if (status != PROPANE_OK)
            return propane_fail_prefix(why, status, "plan %s, kernel %s", p->options.name, k->name);
    }
    if (chip_listed(partition_chips(p->options.name, p->options.precision, p->options.half_stream), c))
        return PROPANE_OK;
    if (p->options.precision == MIL_fp32)
        return propane_fail(
            why, PROPANE_ERR_UNSUPPORTED,
            "plan %s computes in fp32, but by rule C18c the engine of the %s computes in fp16; use precision fp16",
            p->options.name, c->title);
    return propane_fail(why, PROPANE_ERR_UNSUPPORTED, "plan %s is not available for the %s, only for %s",
                        p->options.name, c->title,
                        partition_chips(p->options.name, p->options.precision, p->options.half_stream));
}
