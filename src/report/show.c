/* SPDX-License-Identifier: MIT
 * Owns the text about a program's weight file, and the choice of the function that describes a file as text.
 * show_program.c describes programs, and lm/show_model.c models and texts. show_json.c describes files as JSON.
 */
#include "report/show.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/text.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/ops.h"

/* ---- weights of programs -------------------------------------------------------------------------------------------------- */

static propane_status api_show_blob(text *to, const char *path, propane_error *err) {
    mil_blob_file *file = NULL;
    PROPANE_TRY(mil_blob_open(path, &file, err));
    text_printf(to, "%s: MILBlob version 2, header counts %" PRIu32 " record%s\n  %10s %-7s %12s %s\n", path,
                mil_blob_count(file), text_plural(mil_blob_count(file)), "offset", "type", "bytes", "elements");
    mil_blob blob;
    uint64_t at = 0;
    propane_status status;
    int records = 0;
    while ((status = mil_blob_next(file, &at, &blob, err)) == PROPANE_OK) {
        const mil_dtype_info *type = mil_dtype_get(blob.dtype);
        text_printf(to, "  %10" PRIu64 " %-7s %12" PRIu64 " %" PRIu64 "\n", blob.offset, type->name, blob.bytes,
                    (blob.bytes * 8 - (uint64_t)blob.padding_bits) / (uint64_t)type->bits);
        records++;
    }
    text_printf(to, "  %d record%s\n", records, text_plural(records));
    mil_blob_close(file);
    return status == PROPANE_ERR_NOT_FOUND ? PROPANE_OK : status;
}

propane_status api_show_contents(const char *path, const char *kind, text *to, propane_error *err) {
    if (kind && strcmp(kind, "program") == 0) return api_show_program(path, to, err);
    if (kind && strcmp(kind, "weights") == 0) return api_show_blob(to, path, err);
    return api_show_model_contents(path, kind, to, err);
}
