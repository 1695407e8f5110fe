/* SPDX-License-Identifier: MIT
 * Owns which chips a plan is made for. A claim alone is worth nothing: the device kernels are checked against all known
 * rules as well, for their shapes decide some of them.
 */
#include <string.h>

#include "chip/check.h"
#include "train/plan.h"

/* fp32 is for the host's devices: no source knows what an engine does with fp32 arithmetic (rule C18c). "layer" keeps the
 * fp32 residual stream at its inputs and outputs and casts inside, which M1 and M2 reject (C18a, C18b). */
static const struct {
    const char *plan, *fp16;
} claims[] = {
    {"six", "h13 h14 h15 h16 h17 h18"},
    {"ten", "h13 h14 h15 h16 h17 h18"},
    {"layer", "h15 h16 h17 h18"},
};

const char *plan_chips(const char *name, mil_dtype precision) {
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++)
        if (strcmp(claims[i].plan, name) == 0 && precision == MIL_fp16) return claims[i].fp16;
    return "";
}

propane_status plan_supports(const plan *p, const chip *c, int os, propane_error *why) {
    for (int i = 0; i < p->kernel_count; i++) {
        const plan_kernel *k = &p->kernels[i];
        if (k->place != PLAN_DEVICE) continue;
        propane_status status = chip_check_refusal(k->function, c, os, why);
        if (status != PROPANE_OK)
            return propane_fail_prefix(why, status, "plan %s, kernel %s", p->options.name, k->name);
    }
    if (chip_listed(plan_chips(p->options.name, p->options.precision), c)) return PROPANE_OK;
    if (p->options.precision == MIL_fp32)
        return propane_fail(
            why, PROPANE_ERR_UNSUPPORTED,
            "plan %s computes in fp32, and rule C18c says that the engine of the %s computes in fp16; use "
            "precision fp16",
            p->options.name, c->title);
    return propane_fail(why, PROPANE_ERR_UNSUPPORTED, "plan %s is not made for the %s; it is made for %s",
                        p->options.name, c->title, plan_chips(p->options.name, p->options.precision));
}
