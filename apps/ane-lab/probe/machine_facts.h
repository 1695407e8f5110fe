/* SPDX-License-Identifier: MIT
 * What a report says of the machine and of how the probe was started. Asks the system alone, never the engine.
 */
#ifndef APPS_ANE_LAB_PROBE_MACHINE_FACTS_H
#define APPS_ANE_LAB_PROBE_MACHINE_FACTS_H

#include "core/base/json.h"

/* Fails where the ane device cannot be there at all. */
PROPANE_CHECK propane_status machine_check(bool is_ane, propane_error *err);
/* "system", "machine" and "started" in the report. */
void machine_describe(json_t *report);
/* A copy in which the user's home is ~: a report is for others' eyes. json_decref it. */
PROPANE_CHECK propane_status machine_hide_home(const json_t *from, json_t **out, propane_error *err);

#endif
