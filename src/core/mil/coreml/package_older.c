/* SPDX-License-Identifier: MIT
 * Owns which of the kinds before ML Programs are read, and by what. One row a kind, by the number of its field in the model.
 */
#include "core/mil/coreml/package_older.h"

#include "core/mil/neural_network/network_read.h"
#include "core/mil/neural_network/wire_view.h"

typedef propane_status (*older_read)(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                     const mil_read_options *options, propane_error *err);

static const struct {
    unsigned field;
    older_read read;
} older[] = {{303, network_read}, {403, network_read}, {500, network_read}};
enum { OLDER = sizeof older / sizeof older[0] };

bool package_older_known(unsigned field) {
    for (int i = 0; i < OLDER; i++)
        if (older[i].field == field) return true;
    return false;
}

/* What the field holds: the bytes that were kept begin with their number. */
static wire_view package_older_content(const ProtobufCMessageUnknownField *field, bool *broken) {
    wire_view whole = {field->data, field->len, broken};
    for (size_t i = 0; i < field->len && i < 10; i++) {
        whole.data++;
        whole.bytes--;
        if (!(field->data[i] & 0x80)) break;
    }
    return whole;
}

propane_status package_older_read(mil_module *m, const Coreml__Model *model, mil_opset opset,
                                  const mil_read_options *options, propane_error *err) {
    bool broken = false;
    for (unsigned i = 0; i < model->base.n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &model->base.unknown_fields[i];
        for (int k = 0; k < OLDER; k++) {
            if (older[k].field != field->tag || field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) continue;
            const wire_view content = package_older_content(field, &broken);
            return older[k].read(m, content.data, content.bytes, opset, options, err);
        }
    }
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the model file holds no program", m->source);
}
