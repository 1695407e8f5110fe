/* SPDX-License-Identifier: MIT
 * Owns the second run of a program, which finds the first non-finite value. Only this run keeps every value, so that a
 * program whose outputs are finite needs no extra time or memory.
 */
#include "apps/propane/cmd/nonfinite_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"

propane_status nonfinite_add_output(propane_session *s, const propane_io *io, nonfinite_tally *to, propane_error *err) {
    const int64_t count = propane_io_count(io);
    to->name = io->name;
    to->numbers += count;
    if (io->dtype != PROPANE_FP16 && io->dtype != PROPANE_FP32 && io->dtype != PROPANE_BF16) return PROPANE_OK;
    float *values = mem_array((size_t)count + 1, sizeof *values);
    if (!values) return propane_fail_memory(err, (size_t)count * sizeof *values);
    propane_status status = propane_session_get(s, io->name, PROPANE_FP32, values, count, err);
    for (int64_t i = 0; i < count && !status; i++) {
        to->nan += isnan(values[i]) != 0;
        to->infinite += isinf(values[i]) != 0;
    }
    mem_free(values);
    return status;
}

void nonfinite_words(char out[80], int64_t nan, int64_t infinite) {
    int used = nan ? snprintf(out, 80, "%lld NaN", (long long)nan) : 0;
    out[used] = 0;
    if (infinite)
        snprintf(out + used, 80 - (size_t)used, "%s%lld infinit%s", nan ? ", " : "", (long long)infinite,
                 infinite == 1 ? "y" : "ies");
}

static propane_status nonfinite_report_run(propane_session *s, int64_t seed, int64_t warmup, int64_t runs,
                                           propane_nonfinite *out, propane_error *err) {
    const int64_t steps = propane_session_steps(s);
    if (seed >= 0) PROPANE_TRY(propane_session_randomize(s, (uint64_t)seed, err));
    for (int64_t i = -warmup; i < runs && !cli_interrupted; i++) {
        if (steps && i >= 0) PROPANE_TRY(propane_session_step(s, i % steps, err));
        PROPANE_TRY(propane_session_run_counted(s, out, err));
        if (out->nan || out->infinite) break;
    }
    return PROPANE_OK;
}

propane_status nonfinite_trace(const char *model, const propane_session_options *options, int64_t seed, int64_t warmup,
                               int64_t runs, propane_nonfinite *out, propane_error *err) {
    propane_session_options kept = *options;
    propane_session *s = NULL;
    kept.keep = true;
    propane_status status = propane_session_open(model, &kept, &s, err);
    if (!status) status = nonfinite_report_run(s, seed, warmup, runs, out, err);
    propane_session_close(s);
    if (!status || (kept.device && propane_uri_names(kept.device, "cpu"))) return status;
    kept.device = "cpu";
    return nonfinite_trace(model, &kept, seed, warmup, runs, out, err);
}

json_t *nonfinite_json(const propane_nonfinite *found) {
    if (!found->nan && !found->infinite) return json_null();
    return json_pack("{s:s, s:s?, s:s?, s:s?, s:b, s:I, s:I}", "text", found->text, "from", found->from, "name",
                     found->name[0] ? found->name : NULL, "op", found->op, "made", found->made, "nan",
                     (json_int_t)found->nan, "infinite", (json_int_t)found->infinite);
}
