/* SPDX-License-Identifier: MIT
 * Plans and runs one program and prints the result. Random numbers come from rng.h and are exact in every element type
 * used, so inputs have the same bits everywhere.
 */
#include "oracle/take.h"

#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/base/sha256.h"
#include "core/mil/coreml/package.h"
#include "core/mil/text/mil_text.h"
#include "core/pass/pass.h"

enum { VALUES = 4096, LIMIT = 256 << 20 };

void oracle_hash(const void *data, size_t bytes, int digits, char *out) {
    sha256 h;
    uint8_t digest[32];
    char hex[65];
    sha256_init(&h);
    sha256_update(&h, data, bytes);
    sha256_final(&h, digest);
    sha256_hex(digest, hex);
    memcpy(out, hex, (size_t)digits);
    out[digits] = 0;
}

/* ---- inputs -------------------------------------------------------------------------------------------------------------- */

/* Draws multiples of 1/512 in [-1, 1), which fp16 represents exactly. Integers are small, because most are indices;
 * bytes may be weights. */
static double draw(rng *r, mil_dtype dtype) {
    const mil_dtype_info *info = mil_dtype_get(dtype);
    if (info->kind == MIL_KIND_FLOAT) return (double)rng_below(r, 1024) / 512 - 1;
    if (info->kind == MIL_KIND_BOOL || info->bits > 8) return (double)rng_below(r, 2);
    const double range = (double)rng_below(r, (uint64_t)1 << info->bits);
    return info->kind == MIL_KIND_INT ? range - (double)((uint64_t)1 << (info->bits - 1)) : range;
}

static bool fill(const mil_function *f, int i, const oracle_inputs *in, size_t at, void *to, size_t bytes) {
    const mil_type *type = &f->params[i]->type;
    const int64_t count = mil_type_count(type);
    if (in && in->raw) {
        memcpy(to, in->raw + at, bytes);
        return true;
    }
    if (in && in->tensors) {
        mil_pack_f64(to, type->dtype, in->tensors[i].data, count);
        return true;
    }
    double *values = mem_array((size_t)count + 1, sizeof *values);
    rng r;
    if (!values) return false;
    rng_init(&r, 20250 + (uint64_t)i);
    for (int64_t k = 0; k < count; k++) values[k] = draw(&r, type->dtype);
    mil_pack_f64(to, type->dtype, values, count);
    mem_free(values);
    return true;
}

/* ---- a run --------------------------------------------------------------------------------------------------------------- */

typedef struct room {
    void *in[VALUES], *out[VALUES];
} room;

static void room_free(room *r, const oracle_plan *p) {
    if (!r) return;
    for (int i = 0; i < oracle_plan_input_count(p); i++) mem_pages_free(r->in[i], oracle_plan_input_bytes(p, i) + 64);
    for (int i = 0; i < oracle_plan_output_count(p); i++)
        mem_pages_free(r->out[i], oracle_plan_output_bytes(p, i) + 64);
    mem_free(r);
}

static room *room_make(const mil_function *f, const oracle_plan *p, const oracle_inputs *in) {
    room *r = mem_alloc(sizeof *r);
    oracle_inputs from = in ? *in : (oracle_inputs){0};
    bool ok = r && oracle_plan_input_count(p) <= VALUES && oracle_plan_output_count(p) <= VALUES;
    size_t all = 0, at = 0;
    if (!ok) return NULL;
    for (int i = 0; i < oracle_plan_input_count(p); i++) all += oracle_plan_input_bytes(p, i);
    if (from.raw_bytes != all) from.raw = NULL;
    for (int i = 0; i < oracle_plan_input_count(p) && ok; i++) {
        const size_t bytes = oracle_plan_input_bytes(p, i);
        ok = (r->in[i] = mem_pages_alloc(bytes + 64)) && fill(f, i, &from, at, r->in[i], bytes);
        at += bytes;
    }
    for (int i = 0; i < oracle_plan_output_count(p) && ok; i++) {
        ok = (r->out[i] = mem_pages_alloc(oracle_plan_output_bytes(p, i) + 64)) != NULL;
        if (ok) memset(r->out[i], 0xff, oracle_plan_output_bytes(p, i));
    }
    if (ok) return r;
    room_free(r, p);
    return NULL;
}

/* Replaces all NaNs by one, because the compiler decides which of two NaNs a sum or product returns. */
static void make_nans_alike(const mil_type *type, void *data) {
    const int64_t count = mil_type_count(type);
    if (!mil_dtype_is_float(type->dtype)) return;
    for (int64_t i = 0; i < count; i++) {
        double value;
        unsigned char *at = (unsigned char *)data + i * mil_dtype_get(type->dtype)->bits / 8;
        mil_unpack_f64(&value, type->dtype, at, 1);
        if (value != value) memset(at, 0xff, (size_t)mil_dtype_get(type->dtype)->bits / 8);
    }
}

static void run(const mil_function *f, oracle_plan *p, const oracle_inputs *in, text *out) {
    propane_error err = {0};
    room *r = room_make(f, p, in);
    const propane_status status = r ? oracle_plan_run(p, r->in, r->out, &err) : PROPANE_ERR_MEMORY;
    if (status != PROPANE_OK) text_printf(out, "output\tfails: %s\n", propane_status_name(status));
    for (int i = 0; status == PROPANE_OK && i < oracle_plan_output_count(p); i++) {
        char hex[65];
        make_nans_alike(&f->results[i]->type, r->out[i]);
        oracle_hash(r->out[i], oracle_plan_output_bytes(p, i), 64, hex);
        text_printf(out, "output\t%d %s %s\n", i, oracle_plan_output_name(p, i), hex);
    }
    room_free(r, p);
}

static propane_status take(const mil_function *f, const oracle_choice *choice, const oracle_inputs *in, text *plan,
                           text *outputs, propane_error *err) {
    arena *a = arena_create();
    oracle_plan *p = NULL;
    if (!a) return propane_fail_memory(err, 0);
    const propane_status status = oracle_plan_make(f, choice, a, &p, err);
    if (status == PROPANE_OK) {
        if (plan) oracle_plan_print(p, plan);
        run(f, p, in, outputs);
        oracle_plan_free(p);
    }
    arena_free(a);
    return status;
}

void oracle_take(const mil_function *f, const oracle_choice *choice, const oracle_inputs *in, bool twice,
                 oracle_taken *out) {
    propane_error err = {0};
    *out = (oracle_taken){0};
    const propane_status status = take(f, choice, in, &out->plan, &out->outputs, &err);
    if (status != PROPANE_OK) text_printf(&out->plan, "total\trefused: %s\n", propane_status_name(status));
    if (status != PROPANE_OK || !twice) return;
    oracle_choice one = *choice;
    text again = {0};
    one.threads = 1;
    if (take(f, &one, in, NULL, &again, &err) != PROPANE_OK || !again.data ||
        strcmp(again.data, out->outputs.data) != 0)
        text_printf(&out->outputs, "threads\tone thread gives other bits\n");
    text_deinit(&again);
}

void oracle_taken_deinit(oracle_taken *t) {
    text_deinit(&t->plan);
    text_deinit(&t->outputs);
}

/* ---- programs ------------------------------------------------------------------------------------------------------------ */

/* Constants are smaller than inputs, so that values neither grow without bound nor vanish over several layers. */
static void print_level(text *out, const mil_type *type, int level, rng *r) {
    if (level == type->rank) {
        text_printf(out, "%.10g", draw(r, type->dtype) / (mil_dtype_is_float(type->dtype) ? 8 : 1));
        return;
    }
    text_append(out, "[");
    for (int64_t i = 0; i < type->dim[level] && !out->failed; i++) {
        if (i) text_append(out, ",");
        print_level(out, type, level + 1, r);
    }
    text_append(out, "]");
}

/* Reads a type such as "tensor<fp16, [2, 3]>" that ends at `end`. */
static bool type_before(const char *begin, const char *end, mil_type *out) {
    const char *p = end;
    while (p > begin && strncmp(p, "tensor<", 7) != 0) p--;
    if (strncmp(p, "tensor<", 7) != 0) return false;
    p += 7;
    const size_t n = strcspn(p, ", ");
    *out = (mil_type){.dtype = mil_dtype_from_name(p, n)};
    for (p += n; p < end && *p != '>'; p++)
        if (*p >= '0' && *p <= '9') {
            int used = 0;
            long long dim = 0;
            if (out->rank == MIL_MAX_RANK || sscanf(p, "%lld%n", &dim, &used) != 1) return false;
            out->dim[out->rank++] = dim;
            p += used - 1;
        }
    return out->dtype != MIL_DTYPE_NONE;
}

propane_status oracle_parse(const char *source, size_t length, const char *path, mil_module **out, propane_error *err) {
    static const char word[] = "(random)";
    text whole = {0};
    rng r;
    rng_init(&r, 77);
    const char *at = source;
    for (const char *next; (next = strstr(at, word)); at = next + sizeof word - 1) {
        mil_type type;
        text_append_n(&whole, at, (size_t)(next - at) + 1);
        if (type_before(source, next, &type)) print_level(&whole, &type, 0, &r);
        text_append(&whole, ")");
    }
    text_append_n(&whole, at, length - (size_t)(at - source));
    char *folder = mem_copy_string(path);
    if (folder) *(strrchr(folder, '/') ? strrchr(folder, '/') : folder) = 0;
    propane_status status = whole.failed || !folder ? propane_fail_memory(err, whole.length)
                                                    : mil_parse(whole.data, whole.length, path, folder, out, err);
    mem_free(folder);
    text_deinit(&whole);
    return status;
}

propane_status oracle_load(const char *path, mil_module **out, propane_error *err) {
    char *source = NULL;
    size_t length = 0;
    propane_status status = PROPANE_OK;
    if (text_ends_with(path, ".mil")) PROPANE_TRY(file_read(path, LIMIT, &source, &length, err));
    char *end = source ? strstr(source, "// >>> ") : NULL; /* the expectations of tests/mil come after it */
    if (end) *end = 0;
    if (end || (source && strstr(source, "(random)")))
        status = oracle_parse(source, strlen(source), path, out, err);
    else
        status = mil_read(path, NULL, out, err);
    mem_free(source);
    if (status != PROPANE_OK) return status;
    for (mil_function *f = (*out)->functions; f && status == PROPANE_OK; f = f->next) status = pass_states(f, err);
    if (status == PROPANE_OK) return status;
    mil_module_free(*out);
    *out = NULL;
    return status;
}

oracle_choice oracle_choice_of(const char *path) {
    const char *name = strrchr(path, '/') ? strrchr(path, '/') : path;
    return (oracle_choice){.fuse = !strstr(name, "-nofuse"),
                           .bf16 = strstr(name, "-bf16") != NULL,
                           .round_each = strstr(name, "-round") != NULL};
}
