/* SPDX-License-Identifier: MIT
 * Owns the reading of the "profile" in a probe's report. A profile contains words of a uri. The driver checks these
 * words against its own table, so a report cannot set anything that a user could not type. Rejects files that are not
 * reports.
 */
#include "ane/driver/probe_profile.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json.h"

enum { MOST_REPORT = 64 << 20 };

static propane_status profile_read(const json_t *report, const char *path, const char *build, char out[PROFILE_REST],
                                   propane_error *err) {
    const json_t *profile = json_object_get(report, "profile");
    const char *route = json_string_value(json_object_get(profile, "route")),
               *options = json_string_value(json_object_get(profile, "options")),
               *of = json_string_value(json_object_get(profile, "build"));
    if (!route || !options || !of || strpbrk(route, "?&") || strstr(options, "profile"))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: it has no \"profile\"; write one on the Mac with 'propane devices --probe --output FILE'", path);
    if (strcmp(of, build) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it was written on system build '%.60s', but this system is '%.60s': probe again, or "
                            "leave out profile=",
                            path, of, build);
    const int length = snprintf(out, PROFILE_REST, "%s?%s", route, options);
    if (length < PROFILE_REST) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: its profile has more options than the driver supports", path);
}

propane_status ane_profile_read(const char *path, const char *build, char out[PROFILE_REST], propane_error *err) {
    json_t *report = NULL;
    PROPANE_TRY(json_read(path, MOST_REPORT, &report, err));
    const propane_status status = profile_read(report, path, build, out, err);
    json_decref(report);
    return status;
}
