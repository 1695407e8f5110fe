/* SPDX-License-Identifier: MIT
 * Owns the public calls on modules (propane.h): thin, since the language is mil/text/mil_text.h.
 */
#include "mil/coreml/package.h"
#include "mil/text/mil_text.h"

propane_status propane_module_parse(const char *program, size_t length, const char *name, const char *model_dir,
                                    propane_module **out, propane_error *err) {
    if (!program || !out)
        return propane_fail(err, PROPANE_ERR_INVALID, "propane_module_parse: text and out must not be NULL");
    return mil_parse(program, length, name ? name : "text", model_dir, out, err);
}

propane_status propane_module_read(const char *path, propane_module **out, propane_error *err) {
    if (!path || !out)
        return propane_fail(err, PROPANE_ERR_INVALID, "propane_module_read: path and out must not be NULL");
    return mil_read(path, NULL, out, err);
}

void propane_module_free(propane_module *module) { mil_module_free(module); }
