/* SPDX-License-Identifier: MIT
 * Describes the machine, and how the probe was started, for a report. Queries only the system, never the engine.
 */
#ifndef APPS_ANE_LAB_PROBE_MACHINE_FACTS_H
#define APPS_ANE_LAB_PROBE_MACHINE_FACTS_H

#include "core/base/json.h"

/* Fails if `is_ane` is set and this system cannot have an ane device. */
PROPANE_CHECK propane_status machine_check(bool is_ane, propane_error *err);
/* Adds "system", "machine" and "started" to the report. */
void machine_describe(json_t *report);
/* Sets *out to a copy in which the path of the user's home is ~, because other people will read the report. Release the
 * copy with json_decref. */
PROPANE_CHECK propane_status machine_hide_home(const json_t *from, json_t **out, propane_error *err);

#endif
