/* SPDX-License-Identifier: MIT
 * Owns the search for the rule behind a refusal. It checks the program for every M chip, and describes the most severe
 * finding.
 */
#include "ane/chip/refusing_rule.h"

#include <stdio.h>
#include <string.h>

#include "ane/chip/check.h"

propane_status chip_refusing_rule(const mil_module *m, char *out, size_t room, propane_error *err) {
    const chip *targets[CHIP_COUNT];
    int count = 0;
    PROPANE_TRY(chip_find_list("all", targets, &count, err));
    chip_report *r = chip_report_create(&(chip_check_options){targets, count, 0, 0, CHIP_PATH_DIRECT, false});
    const chip_finding *best = NULL;
    if (!r) return propane_fail_memory(err, 0);
    propane_status status = chip_check_module(r, m, err);
    for (int i = 0; !status && i < chip_report_count(r); i++) {
        const chip_finding *x = chip_report_get(r, i);
        if (x->severity < CHIP_WARN || (x->severity == CHIP_WARN && !x->op)) continue;
        if (!best || x->severity > best->severity) best = x;
    }
    if (best)
        snprintf(out, room, "rule %s %s%s%.60s: %.120s; %.80s", best->limit->id,
                 best->severity == CHIP_REFUSE ? "knows it" : "may be it",
                 strcmp(best->limit->chips, "all") == 0 ? "" : " on ",
                 strcmp(best->limit->chips, "all") == 0 ? "" : best->limit->chips, best->message, best->limit->fix);
    else
        snprintf(out, room, "no rule covers this");
    chip_report_free(r);
    return status;
}
