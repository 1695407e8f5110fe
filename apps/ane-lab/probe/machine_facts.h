/* SPDX-License-Identifier: MIT
 * The part of a report about the machine and how the probe was started. It queries only the system, never the engine.
 */
#ifndef APPS_ANE_LAB_PROBE_MACHINE_FACTS_H
#define APPS_ANE_LAB_PROBE_MACHINE_FACTS_H

#include "core/base/json.h"

/* Fails if the ane device cannot exist here at all. */
PROPANE_CHECK propane_status machine_check(bool is_ane, propane_error *err);
/* Adds "system", "machine" and "started" to the report. */
void machine_describe(json_t *report);
/* Makes a copy in which the user's home is ~, because others will read a report. Release it with json_decref. */
PROPANE_CHECK propane_status machine_hide_home(const json_t *from, json_t **out, propane_error *err);

#endif
