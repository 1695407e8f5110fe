/* SPDX-License-Identifier: MIT
 * Owns the queries to a device, the lookup of the rule behind a refusal, and the folder with the smallest program.
 * Compiled programs are freed at once. Programs that the device layer would refuse are not tried.
 */
#include "core/refusal/refusal.h"

#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/mil/text/mil_text.h"
#include "core/refusal/search.h"

enum { MOST_FOLDERS = 1000, RULE_BYTES = 300, PATH_BYTES = 1000 };

typedef struct refusal {
    propane_device *device;
    propane_compile_options options;
} refusal;

bool refusal_is(propane_status status) { return status == PROPANE_ERR_UNSUPPORTED || status == PROPANE_ERR_DEVICE; }

static propane_status refusal_ask(void *context, const mil_function *f, search_answer *out, char why[SEARCH_REASON],
                                  propane_error *err) {
    refusal *r = context;
    propane_program *program = NULL;
    propane_error own = {0};
    *out = SEARCH_UNASKED;
    if (program_check_types(f, &own) != PROPANE_OK) return PROPANE_OK;
    r->options.function = f->name;
    const propane_status status = propane_program_compile(r->device, f->module, &r->options, &program, &own);
    propane_program_free(program);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", own.text);
    *out = status == PROPANE_OK ? SEARCH_TAKEN : refusal_is(status) ? SEARCH_REFUSED : SEARCH_CLOSED;
    snprintf(why, SEARCH_REASON, "%.*s", SEARCH_REASON - 1, own.text);
    if (*out != SEARCH_CLOSED)
        log_print("%d of its operations are %s", search_operations(f), *out == SEARCH_TAKEN ? "taken" : "refused");
    return PROPANE_OK;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* Asks the device's driver for the known rule behind a refused program. */
static propane_status refusal_find_rule(const refusal *r, const mil_module *m, char out[RULE_BYTES],
                                        propane_error *err) {
    const propane_driver *driver = r->device->driver;
    snprintf(out, RULE_BYTES, "no rule covers this");
    return driver->refusing_rule ? driver->refusing_rule(m, out, RULE_BYTES, err) : PROPANE_OK;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static propane_status refusal_write_as(mil_module *m, const char *folder, propane_error *err) {
    folder_writer *w = NULL;
    PROPANE_TRY(folder_writer_open(folder, &w, err));
    return folder_writer_end(w, mil_write_dir(m, folder_writer_path(w), MIL_SHORT, err), err);
}

/* Writes the program under the first unused name. */
static propane_status refusal_write(mil_module *m, const char *folder, char path[PATH_BYTES], propane_error *err) {
    snprintf(path, PATH_BYTES, "%s", folder);
    for (int i = 2; file_exists(path) && i < MOST_FOLDERS; i++) snprintf(path, PATH_BYTES, "%s-%d", folder, i);
    if (file_exists(path)) return propane_fail(err, PROPANE_ERR_LIMIT, "%s and similar names already exist", folder);
    return refusal_write_as(m, path, err);
}

/* ---- the sentence ------------------------------------------------------------------------------------------------ */

static void refusal_say_operation(const search_result *s, text *out) {
    const bool inside = s->inside[0];
    switch (s->verdict) {
    case SEARCH_ALONE: text_printf(out, "%s is refused even on its own", s->name); break;
    case SEARCH_TOGETHER:
        text_printf(out, "%s is refused together with %s, but accepted on its own", s->name, s->others);
        break;
    case SEARCH_BOUND:
        text_printf(out, "%s is refused together with %s, from which it cannot be separated", s->name, s->others);
        break;
    case SEARCH_SIGNATURE:
        text_printf(out,
                    "all %d operations are accepted, but the function is not: the cause is its interface, such as an "
                    "unused input or an output that is also an input",
                    s->count);
        break;
    case SEARCH_PASSES: text_printf(out, "a second compilation succeeded: results vary, so try again"); break;
    case SEARCH_WAVERS: text_printf(out, "the refused part compiled at the second attempt: results vary"); break;
    case SEARCH_OPEN:
        text_printf(out, "no more programs can be compiled (%.200s); the refused operation is one of %s to %s",
                    s->reason, s->name, s->last);
        break;
    }
    if (inside) text_printf(out, ", inside %s", s->inside);
    if (s->verdict <= SEARCH_BOUND)
        text_printf(out, " (operation %d of %d; those before it are accepted)", s->place, s->count);
    if (s->rest_refused) text_printf(out, "; the rest without it is refused as well");
    if (s->changed && s->verdict <= SEARCH_BOUND)
        text_printf(out, "; results vary: %d of %d refusals did not recur", s->changed, s->refused);
}

static propane_status refusal_say(const refusal *r, const search_result *s, const char *folder, text *out,
                                  propane_error *err) {
    char rule[RULE_BYTES], path[PATH_BYTES];
    propane_error why = {0};
    refusal_say_operation(s, out);
    if (!s->smallest) return PROPANE_OK;
    if (s->verdict <= SEARCH_BOUND) {
        PROPANE_TRY(refusal_find_rule(r, s->smallest, rule, err));
        text_printf(out, "; %s", rule);
    }
    if (refusal_write(s->smallest, folder, path, &why) != PROPANE_OK)
        text_printf(out, "; the smallest refused program was not written: %.200s", why.text);
    else
        text_printf(out, "; the smallest refused program (%d operation%s) is %s/model.mil", s->operations,
                    text_plural(s->operations), path);
    return PROPANE_OK;
}

/* Adds a hint to the message of Apple's compiler, which does not name the refused operation. */
static propane_status refusal_advise(propane_device *device, propane_error *err) {
    char before[sizeof err->text];
    memcpy(before, err->text, sizeof before);
    if (!propane_device_describe(device)->unproven) return err->status;
    return propane_fail(err, err->status, "%.850s; --bisect of 'propane run' and 'propane train' names the operation",
                        before);
}

propane_status refusal_explain(propane_device *device, const mil_function *f, const propane_compile_options *options,
                               const char *folder, propane_error *err) {
    const propane_status given = err->status;
    if (!refusal_is(given)) return given;
    if (!folder) return refusal_advise(device, err);
    refusal r = {.device = device, .options = *options};
    search_result found;
    text said = {0};
    r.options.donor = NULL;
    propane_error why = {0};
    log_print("'%.60s' is refused; compiling parts of it to find the operation", f->name);
    propane_status status = search_refused(f, refusal_ask, &r, &found, &why);
    if (!status) status = refusal_say(&r, &found, folder, &said, &why);
    if (!status && said.failed) status = propane_fail_memory(&why, said.length);
    if (status) {
        char before[sizeof err->text];
        memcpy(before, err->text, sizeof before);
        (void)propane_fail(err, given, "%.700s; the operation cannot be determined: %.200s", before, why.text);
    } else {
        text_printf(&said, " [%d program%s compiled, %d refused]: %s", found.asked, text_plural(found.asked),
                    found.refused, found.reason[0] && found.verdict != SEARCH_OPEN ? found.reason : err->text);
        (void)propane_fail(err, given, "%s", said.data);
    }
    if (found.smallest) mil_module_free(found.smallest);
    text_deinit(&said);
    return given;
}
