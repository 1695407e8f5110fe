/* SPDX-License-Identifier: MIT
 * Owns the decision whether a known rule refuses one function, request or process on one chip, with the reason in one
 * sentence. Also finds the operations that Core ML moves to the CPU. The rules are the same as for a report, and
 * warnings refuse nothing.
 */
#include <string.h>

#include "ane/chip/check_report.h"

/* Returns the first finding that is a refusal or belongs to a chosen row, or NULL if there is none. */
static const chip_finding *check_refusing(const chip_report *r, const char *chosen) {
    for (int i = 0; i < r->count; i++) {
        const chip_finding *x = &r->findings[i];
        size_t length = strlen(x->limit->id);
        if (x->severity == CHIP_REFUSE) return x;
        for (const char *at = chosen; (at = strstr(at, x->limit->id)); at += length)
            if ((at == chosen || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return x;
    }
    return NULL;
}

static propane_status check_fail_refused(const chip_report *r, const mil_function *f, const chip *c,
                                         propane_error *err) {
    const chip_finding *x = check_refusing(r, "");
    if (!x) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "function '%.60s'%s%s%s%.60s%s: rule %s refuses it on %s: %s; %s",
                        f->name, x->op ? ", " : "", x->op ? x->op : "", x->name ? " '" : "", x->name ? x->name : "",
                        x->name ? "'" : "", x->limit->id, c->title, x->message, x->limit->fix);
}

propane_status chip_check_refusal(const mil_function *f, const chip *c, int os, propane_error *err) {
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, os, 1, CHIP_PATH_DIRECT, false});
    if (!r) return propane_fail_memory(err, sizeof *r);
    propane_status status = chip_check_function(r, f, err);
    if (status == PROPANE_OK) status = check_fail_refused(r, f, c, err);
    chip_report_free(r);
    return status;
}

propane_status chip_check_placement(const mil_function *f, const chip *c, int os, bool *moved, chip_segments *cut,
                                    propane_error *err) {
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, os, 1, CHIP_PATH_COREML, false});
    if (!r) return propane_fail_memory(err, sizeof *r);
    r->moved = moved;
    propane_status status = chip_check_function(r, f, err);
    if (status == PROPANE_OK) status = check_fail_refused(r, f, c, err);
    *cut = *chip_report_segments(r, c);
    chip_report_free(r);
    return status;
}

/* Fails with the message, id and fix of a row about run time if it refuses. Frees the report. */
static propane_status check_fail_at_run(chip_report *r, propane_status status, propane_status kind, const chip *c,
                                        const char *chosen, propane_error *err) {
    const chip_finding *x = status == PROPANE_OK ? check_refusing(r, chosen) : NULL;
    if (x)
        status = propane_fail(err, kind, "%s (rule %s on %s, %s); %s", x->message, x->limit->id, c->title,
                              chip_evidence_name(x->limit->evidence), x->limit->fix);
    chip_report_free(r);
    return status;
}

propane_status chip_request_refusal(const chip_request *request, const chip *c, int os, const char *chosen,
                                    propane_error *err) {
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, os, 1, CHIP_PATH_DIRECT, false});
    if (!r) return propane_fail_memory(err, sizeof *r);
    return check_fail_at_run(r, chip_check_request(r, request, err), PROPANE_ERR_DEVICE, c, chosen, err);
}

propane_status chip_process_refusal(const chip_process *process, const chip *c, int os, const char *chosen,
                                    propane_error *err) {
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, os, 1, CHIP_PATH_DIRECT, false});
    if (!r) return propane_fail_memory(err, sizeof *r);
    return check_fail_at_run(r, chip_check_process(r, process, err), PROPANE_ERR_LIMIT, c, chosen, err);
}
