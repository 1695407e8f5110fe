/* SPDX-License-Identifier: MIT
 * Owns what all public calls share: sizes of structures, texts handed to the caller, element types.
 */
#include "core/run/public.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/sized.h"

void propane_free(void *memory) { mem_free(memory); }

propane_status api_take(void *to, size_t room, const void *from, const char *what, propane_error *err) {
    return sized_take(to, room, from, what, err);
}

bool api_give(void *to, const void *from, size_t room) { return sized_give(to, from, room); }

propane_status api_give_text(text *t, char **out, size_t *length, propane_error *err) {
    if (!t->failed) text_append_n(t, "", 0);
    if (t->failed) {
        text_deinit(t);
        return propane_fail_memory(err, 0);
    }
    *out = t->data;
    if (length) *length = t->length;
    *t = (text){0};
    return PROPANE_OK;
}

mil_function *api_function(const propane_module *m, const char *name) {
    propane_error dropped = {0};
    return m ? mil_module_function(m, name, &dropped) : NULL;
}

static const struct {
    mil_dtype in;
    propane_dtype out;
} api_dtypes[] = {
    {MIL_fp16, PROPANE_FP16},   {MIL_fp32, PROPANE_FP32},     {MIL_int32, PROPANE_INT32},
    {MIL_bool, PROPANE_BOOL},   {MIL_int8, PROPANE_INT8},     {MIL_uint8, PROPANE_UINT8},
    {MIL_int16, PROPANE_INT16}, {MIL_uint16, PROPANE_UINT16}, {MIL_bf16, PROPANE_BF16},
};

mil_dtype api_dtype_in(propane_dtype dtype) {
    for (size_t i = 0; i < sizeof api_dtypes / sizeof api_dtypes[0]; i++)
        if (api_dtypes[i].out == dtype) return api_dtypes[i].in;
    return MIL_DTYPE_NONE;
}

propane_dtype api_dtype_out(mil_dtype dtype) {
    for (size_t i = 0; i < sizeof api_dtypes / sizeof api_dtypes[0]; i++)
        if (api_dtypes[i].in == dtype) return api_dtypes[i].out;
    return PROPANE_DTYPE_NONE;
}
