/* SPDX-License-Identifier: MIT
 * Owns the walk over the checked object. It visits each part of a program once, runs the rows about that kind of part,
 * and keeps their findings with the affected chips. Rows that apply to no target never run.
 */
#include "ane/chip/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/check_report.h"
#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/map.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/text/mil_text.h"

/* ---- the report --------------------------------------------------------------------------------------------------------- */

static bool check_names_op(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, name, n) == 0) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

static void check_set_masks(chip_report *r) {
    for (int i = 0; i < chip_limit_count(); i++) {
        chip_mask *m = &r->masks[i];
        *m = (chip_mask){.found = m->found};
        for (int t = 0; t < r->target_count; t++) {
            chip_severity severity;
            if (!chip_limit_on(chip_limit_get(i), r->targets[t], r->os, r->path, &severity)) continue;
            m->by[severity] |= (uint64_t)1 << r->targets[t]->id;
            m->any = true;
        }
    }
}

/* Lists for each opcode the numbers of the rows to run, followed by -1. */
static void check_set_op_rows(chip_report *r) {
    int rows = chip_limit_count();
    for (int code = 0; code < MIL_OP_COUNT; code++) {
        int *list = r->op_rows + code * (rows + 1), count = 0;
        for (int i = 0; i < rows; i++) {
            const chip_limit *l = chip_limit_get(i);
            if (l->site != CHIP_SITE_OP || !r->masks[i].any || code == MIL_OP_const) continue;
            if (!*l->ops || check_names_op(l->ops, mil_op_get((mil_opcode)code)->name)) list[count++] = i;
        }
        list[count] = -1;
    }
}

static void check_set_path(chip_report *r, chip_path path) {
    r->path = path;
    check_set_masks(r);
    check_set_op_rows(r);
}

chip_report *chip_report_create(const chip_check_options *options) {
    chip_report *r = mem_alloc(sizeof *r);
    if (!r) return NULL;
    r->os = options->os;
    r->per_limit = options->per_limit > 0 ? options->per_limit : 20;
    r->by_file = options->by_file;
    for (int i = 0; i < options->target_count && i < CHIP_COUNT; i++)
        r->targets[r->target_count++] = options->targets[i];
    r->arena = arena_create();
    r->masks = mem_array((size_t)chip_limit_count(), sizeof *r->masks);
    r->cells = mem_array((size_t)CHIP_ROWS * CHIP_COUNT, sizeof *r->cells);
    r->op_rows = mem_array((size_t)MIL_OP_COUNT * (size_t)(chip_limit_count() + 1), sizeof *r->op_rows);
    if (!r->arena || !r->masks || !r->cells || !r->op_rows) {
        chip_report_free(r);
        return NULL;
    }
    check_set_path(r, options->path);
    return r;
}

void chip_report_free(chip_report *r) {
    if (!r) return;
    arena_free(r->arena);
    mem_free(r->findings);
    mem_free(r->masks);
    mem_free(r->cells);
    mem_free(r->op_rows);
    mem_free(r);
}

static void check_count_cells(chip_report *r, int row, const chip_mask *m, int limit) {
    const bool harm = chip_limit_get(limit)->harm[r->path];
    for (int s = CHIP_NOTE; s <= CHIP_REFUSE; s++)
        for (int t = 0; t < r->target_count; t++) {
            chip_id id = r->targets[t]->id;
            if (!(m->by[s] >> id & 1)) continue;
            const int rank = chip_rank_of((chip_severity)s, harm);
            r->totals[id][s]++;
            if (s == CHIP_WARN) r->harms[id] += harm;
            chip_cell *cell = &r->cells[row * CHIP_COUNT + (int)id];
            if (cell->count[rank]++ == 0) cell->limit[rank] = limit;
        }
}

/* The place of a finding. check_add copies the strings. */
typedef struct place {
    const char *source, *function, *op, *name;
    int line, column, row; /* row of the table */
} place;

static propane_status check_copy(chip_report *r, const char *from, const char **to, propane_error *err) {
    *to = from ? arena_string(r->arena, from) : NULL;
    return from && !*to ? propane_fail_memory(err, strlen(from)) : PROPANE_OK;
}

static propane_status check_add(chip_report *r, int limit, const place *at, const char *message, propane_error *err) {
    const chip_limit *l = chip_limit_get(limit);
    chip_mask *m = &r->masks[limit];
    check_count_cells(r, at->row, m, limit);
    if (r->fallen && r->fallen_at >= 0) r->fallen[r->fallen_at] |= m->by[CHIP_FALL];
    if (m->found++ >= r->per_limit) {
        r->suppressed++;
        return PROPANE_OK;
    }
    chip_finding *more = ARRAY_MORE(r->findings, r->count, err);
    if (!more) return PROPANE_ERR_MEMORY;
    r->findings = more;
    chip_finding f = {.limit = l,
                      .refused = m->by[CHIP_REFUSE],
                      .crashed = m->by[CHIP_CRASH],
                      .fell = m->by[CHIP_FALL],
                      .warned = m->by[CHIP_WARN],
                      .noted = m->by[CHIP_NOTE],
                      .line = at->line,
                      .column = at->column};
    f.severity = CHIP_NOTE;
    for (int s = CHIP_WARN; s <= CHIP_REFUSE; s++)
        if (m->by[s]) f.severity = (chip_severity)s;
    f.harm = f.severity == CHIP_WARN && l->harm[r->path];
    PROPANE_TRY(check_copy(r, at->source, &f.source, err));
    PROPANE_TRY(check_copy(r, at->function, &f.function, err));
    PROPANE_TRY(check_copy(r, at->op, &f.op, err));
    PROPANE_TRY(check_copy(r, at->name, &f.name, err));
    PROPANE_TRY(check_copy(r, message, &f.message, err));
    r->findings[r->count++] = f;
    return PROPANE_OK;
}

static propane_status check_ask(chip_report *r, int limit, chip_view *view, const place *at, propane_error *err) {
    char message[CHIP_TEXT_BYTES];
    view->limit = chip_limit_get(limit);
    if (!view->limit->check(view, message)) return PROPANE_OK;
    return check_add(r, limit, at, message, err);
}

static propane_status check_ask_site(chip_report *r, chip_site site, chip_view *view, const place *at,
                                     propane_error *err) {
    for (int i = 0; i < chip_limit_count(); i++)
        if (chip_limit_get(i)->site == site && r->masks[i].any) PROPANE_TRY(check_ask(r, i, view, at, err));
    return PROPANE_OK;
}

/* ---- programs ----------------------------------------------------------------------------------------------------------- */

static place check_op_place(const mil_op *op) {
    return (place){op->function->module->source,
                   op->function->name,
                   op->info->name,
                   mil_op_result_name(op),
                   op->line,
                   op->column,
                   op->info->code};
}

/* Returns false for constants that are attributes, such as shapes and axes, because they are not tensors of the
 * engine. */
static bool check_is_tensor(const mil_value *v) {
    if (v->type.dtype == MIL_string || v->type.rank == 0) return false;
    return !v->constant || v->type.rank > 1 || mil_dtype_is_float(v->type.dtype);
}

/* Returns true if the tensor is within all bounds, as nearly all tensors are. This check of the axes and the rank
 * avoids running every row. */
static bool check_is_small(const mil_value *v) {
    double count = 1;
    if (v->type.rank > 5) return false;
    for (int i = 0; i < v->type.rank; i++) {
        if (v->type.dim[i] > 16384) return false;
        count *= (double)v->type.dim[i];
    }
    return count < 1 << 24;
}

static propane_status check_tensor(chip_report *r, chip_view *view, const mil_value *v, const place *at,
                                   propane_error *err) {
    if (!check_is_tensor(v) || check_is_small(v)) return PROPANE_OK;
    view->value = v;
    return check_ask_site(r, CHIP_SITE_TENSOR, view, at, err);
}

/* Marks an operation as moved if it reads an input that is too large for the engine. The finding itself is reported
 * once, for the input. */
static void check_move_readers(chip_report *r, const chip_view *view, const mil_op *op) {
    char message[CHIP_TEXT_BYTES];
    if (!r->fallen) return;
    MIL_FOR_OPERANDS (op, v) {
        if (v->def || v->constant || !check_is_tensor(v) || check_is_small(v)) continue;
        chip_view own = *view;
        own.value = v;
        for (int i = 0; i < chip_limit_count(); i++) {
            own.limit = chip_limit_get(i);
            if (own.limit->site == CHIP_SITE_TENSOR && r->masks[i].by[CHIP_FALL] && own.limit->check(&own, message))
                r->fallen[r->fallen_at] |= r->masks[i].by[CHIP_FALL];
        }
    }
}

/* Returns true if the check applies to open shapes. The other checks read dimensions, which an open shape does not
 * have. */
static bool check_takes_open(const chip_limit *l) {
    return l->check == chip_rule_open_shape || l->check == chip_rule_open_result;
}

static propane_status check_ops(chip_report *r, chip_view *view, propane_error *err) {
    int stride = chip_limit_count() + 1, index = 0;
    for (const mil_op *op = view->function->first; op; op = op->next) {
        place at = check_op_place(op);
        r->fallen_at = ++index;
        const bool open = view->function->late && chip_op_is_open(op);
        if (!open) check_move_readers(r, view, op);
        if (op->info->code != MIL_OP_const) r->op_counts[op->info->code]++;
        view->op = op;
        for (const int *row = r->op_rows + op->info->code * stride; *row >= 0; row++)
            if (!open || check_takes_open(chip_limit_get(*row))) PROPANE_TRY(check_ask(r, *row, view, &at, err));
        for (int i = 0; i < op->result_count && !open; i++)
            PROPANE_TRY(check_tensor(r, view, op->results[i], &at, err));
    }
    view->op = NULL;
    return PROPANE_OK;
}

/* Checks the function itself, its parameters, then its operations. */
static propane_status check_parts(chip_report *r, chip_view *view, propane_error *err) {
    const mil_function *f = view->function;
    place at = {f->module->source, f->name, NULL, NULL, f->line, f->column, CHIP_ROW_WHOLE};
    r->checked_program = true;
    r->fallen_at = 0; /* findings about the function hold for all its operations */
    PROPANE_TRY(check_ask_site(r, CHIP_SITE_FUNCTION, view, &at, err));
    r->fallen_at = -1;
    for (int i = 0; i < f->param_count; i++) {
        const mil_value *v = f->params[i];
        place p = {at.source,     f->name, NULL, v->name, v->line ? v->line : f->line, v->line ? v->column : f->column,
                   CHIP_ROW_WHOLE};
        PROPANE_TRY(check_tensor(r, view, v, &p, err));
    }
    return check_ops(r, view, err);
}

static void check_count_uses(const mil_function *f, int *uses, int op_counts[MIL_OP_COUNT]) {
    for (const mil_op *op = f->first; op; op = op->next) {
        op_counts[op->info->code]++;
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++) uses[op->operands[i].values[k]->id]++;
    }
    for (int i = 0; i < f->result_count; i++) uses[f->results[i]->id]++;
}

propane_status chip_check_function(chip_report *r, const mil_function *f, propane_error *err) {
    int op_counts[MIL_OP_COUNT] = {0};
    int *uses = mem_array((size_t)f->value_count + 1, sizeof *uses);
    uint64_t *fallen = r->path == CHIP_PATH_COREML ? mem_array((size_t)f->op_count + 1, sizeof *fallen) : NULL;
    propane_status status = PROPANE_OK;
    if (!uses || (r->path == CHIP_PATH_COREML && !fallen))
        status = propane_fail_memory(err, (size_t)f->value_count * sizeof *uses);
    if (status == PROPANE_OK) {
        check_count_uses(f, uses, op_counts);
        chip_view view = {.module = f->module, .function = f, .uses = uses, .op_counts = op_counts};
        r->fallen = fallen;
        status = check_parts(r, &view, err);
        if (status == PROPANE_OK && fallen) status = chip_report_segment(r, f, err);
        for (int i = 0; i < f->op_count && r->moved && fallen; i++)
            r->moved[i] = ((fallen[0] | fallen[i + 1]) >> r->targets[0]->id) & 1;
    }
    r->fallen = NULL;
    mem_free(uses);
    mem_free(fallen);
    return status;
}

propane_status chip_check_module(chip_report *r, const mil_module *m, propane_error *err) {
    chip_view view = {.module = m};
    place at = {.source = m->source, .row = CHIP_ROW_WHOLE};
    PROPANE_TRY(check_ask_site(r, CHIP_SITE_MODULE, &view, &at, err));
    for (const mil_function *f = m->functions; f; f = f->next) PROPANE_TRY(chip_check_function(r, f, err));
    return PROPANE_OK;
}

/* ---- requests and processes --------------------------------------------------------------------------------------------- */

propane_status chip_check_request(chip_report *r, const chip_request *request, propane_error *err) {
    const mil_function *f = request->function;
    chip_view view = {.module = f->module, .function = f, .request = request};
    place at = {.source = f->module->source, .function = f->name, .row = CHIP_ROW_WHOLE};
    return check_ask_site(r, CHIP_SITE_REQUEST, &view, &at, err);
}

propane_status chip_check_process(chip_report *r, const chip_process *process, propane_error *err) {
    chip_view view = {.process = process};
    place at = {.source = "process", .row = CHIP_ROW_WHOLE};
    return check_ask_site(r, CHIP_SITE_PROCESS, &view, &at, err);
}

/* ---- weight files ------------------------------------------------------------------------------------------------------- */

static bool check_read_record(const chip_blob *b, uint64_t offset, chip_record *out) {
    *out = (chip_record){.offset = offset};
    if (offset > b->bytes || b->bytes - offset < 64) return false;
    const uint8_t *p = b->data + offset;
    *out =
        (chip_record){offset, bytes_u32(p), bytes_u32(p + 4), bytes_u64(p + 8), bytes_u64(p + 16), bytes_u64(p + 24)};
    return out->sentinel == CHIP_BLOB_SENTINEL;
}

/* Finds the record after `last`, or the first one if `last` is NULL. The search begins after the data of `last` if its
 * extent is plausible, and otherwise after its first 64 bytes. It tries every multiple of 64 in the next SEARCHED
 * bytes. */
enum { SEARCHED = 1 << 26 };
static bool check_next_record(const chip_blob *b, const chip_record *last, chip_record *out) {
    uint64_t at = last ? last->offset + 64 : b->bytes >= 4 && bytes_u32(b->data) == CHIP_BLOB_SENTINEL ? 0 : 64;
    if (last && last->data >= last->offset + 64 && last->data <= b->bytes && last->bytes <= b->bytes - last->data) {
        at = last->data + last->bytes;
        if (at % CHIP_BLOB_ALIGN && check_read_record(b, at, out)) return true; /* written without padding */
    }
    at = (at + CHIP_BLOB_ALIGN - 1) / CHIP_BLOB_ALIGN * CHIP_BLOB_ALIGN;
    for (const uint64_t begin = at; at < b->bytes && at - begin < SEARCHED; at += CHIP_BLOB_ALIGN)
        if (check_read_record(b, at, out)) return true;
    return false;
}

static propane_status check_records(chip_report *r, chip_blob *b, propane_error *err) {
    chip_record record, last;
    place at = {.source = b->path, .row = CHIP_ROW_WHOLE};
    for (bool more = check_next_record(b, NULL, &record); more; more = check_next_record(b, &last, &record)) {
        b->record_count++;
        chip_view view = {.blob = b, .record = &record};
        PROPANE_TRY(check_ask_site(r, CHIP_SITE_RECORD, &view, &at, err));
        last = record;
    }
    chip_view view = {.blob = b};
    return check_ask_site(r, CHIP_SITE_BLOB, &view, &at, err);
}

propane_status chip_check_blob_data(chip_report *r, const char *name, const uint8_t *data, size_t bytes,
                                    propane_error *err) {
    chip_blob b = {.path = name, .data = data, .bytes = bytes};
    return check_records(r, &b, err);
}

static propane_status chip_check_blob(chip_report *r, const char *path, propane_error *err) {
    file_map map;
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = chip_check_blob_data(r, path, map.data, map.bytes, err);
    file_map_close(&map);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A reference in a program's text, such as BLOBFILE(path = string("@model_path/w.bin"), offset = uint64(64)).
 * References are found even if the program does not parse. */
typedef struct reference {
    const char *file; /* full path, stored in the arena */
    uint64_t offset;
    int line, column;
    struct reference *next, *same; /* the next reference in the text; the next one to the same file */
} reference;

static const char *check_find_in(const char *from, const char *end, const char *word) {
    const size_t n = strlen(word);
    for (; from && (size_t)(end - from) >= n; from++) {
        from = memchr(from, *word, (size_t)(end - from) - n + 1);
        if (!from || memcmp(from, word, n) == 0) return from;
    }
    return NULL;
}

/* Reads the file and the offset of the reference at `at`. `stop` is where the next reference begins, or the text's
 * end. */
static bool check_read_reference(chip_report *r, const char *dir, const char *at, const char *stop, reference *out) {
    static const char prefix[] = "\"@model_path/";
    if (stop - at > 4096) stop = at + 4096; /* one statement, not the rest of a large file */
    const char *open = check_find_in(at, stop, prefix);
    const char *name = open ? open + sizeof prefix - 1 : NULL;
    const char *close = name ? memchr(name, '"', (size_t)(stop - name)) : NULL;
    const char *word = close ? check_find_in(close, stop, "offset") : NULL;
    if (!word || check_find_in(name, close, "..")) return false;
    while (word < stop && (*word < '0' || *word > '9') && *word != ';') {
        if (*word == 'u' && stop - word > 6 && memcmp(word, "uint64", 6) == 0)
            word += 6;
        else
            word++;
    }
    if (word >= stop || *word == ';') return false;
    out->offset = strtoull(word, NULL, 10);
    out->file = arena_printf(r->arena, "%s/%.*s", dir, (int)(close - name), name);
    return out->file != NULL;
}

static reference *check_find_references(chip_report *r, const char *path, const char *data, size_t length) {
    const char *slash = strrchr(path, '/'), *end = data + length;
    const char *dir = slash ? arena_string_n(r->arena, path, (size_t)(slash - path)) : ".";
    reference *list = NULL, **tail = &list;
    int line = 1;
    const char *counted = data, *line_start = data;
    if (!dir) return NULL;
    const char *next = check_find_in(data, end, "BLOBFILE");
    for (const char *at; (at = next) != NULL;) {
        next = check_find_in(at + 8, end, "BLOBFILE");
        for (; counted < at; counted++)
            if (*counted == '\n') {
                line++;
                line_start = counted + 1;
            }
        reference *ref = ARENA_NEW(r->arena, reference);
        if (!ref) return list;
        ref->line = line;
        ref->column = (int)(at - line_start) + 1;
        if (!check_read_reference(r, dir, at, next ? next : end, ref) || !file_exists(ref->file)) continue;
        *tail = ref;
        tail = &ref->next;
    }
    return list;
}

/* Checks a weight file and the references to it: `list`, and those that follow `list` by `same`. */
static propane_status check_file_references(chip_report *r, const char *path, const reference *list,
                                            propane_error *err) {
    file_map map;
    PROPANE_TRY(file_map_open(list->file, &map, err));
    chip_blob b = {.path = list->file, .data = map.data, .bytes = map.bytes};
    propane_status status = PROPANE_OK;
    for (const reference *ref = list; ref && status == PROPANE_OK; ref = ref->same) {
        chip_record record;
        (void)check_read_record(&b, ref->offset, &record);
        chip_view view = {.blob = &b, .record = &record, .offset = ref->offset};
        place at = {.source = path, .line = ref->line, .column = ref->column, .row = CHIP_ROW_WHOLE};
        status = check_ask_site(r, CHIP_SITE_REFERENCE, &view, &at, err);
    }
    if (status == PROPANE_OK) status = check_records(r, &b, err);
    file_map_close(&map);
    return status;
}

enum { MOST_WEIGHT_FILES = 1000 };

/* Links the references to each file by `same`. firsts[i] receives the first reference to file i. */
static propane_status check_group(const char *path, reference *list, piece_map *files, reference **firsts,
                                  reference **lasts, propane_error *err) {
    int count = 0;
    for (reference *ref = list; ref; ref = ref->next) {
        const int32_t *at = piece_map_enter(files, ref->file, strlen(ref->file), count);
        if (!at) return propane_fail_memory(err, 0);
        const bool known = *at < count;
        if (!known && count == MOST_WEIGHT_FILES)
            return propane_fail(err, PROPANE_ERR_LIMIT, "%s:%d:%d: more than %d weight files, which is the maximum",
                                path, ref->line, ref->column, MOST_WEIGHT_FILES);
        if (known)
            lasts[*at]->same = ref;
        else
            firsts[count++] = ref;
        lasts[*at] = ref;
    }
    return PROPANE_OK;
}

static propane_status check_references(chip_report *r, const char *path, reference *list, propane_error *err) {
    piece_map files = {0};
    reference *firsts[MOST_WEIGHT_FILES], *lasts[MOST_WEIGHT_FILES];
    propane_status status = check_group(path, list, &files, firsts, lasts, err);
    for (size_t i = 0; i < files.count && !status; i++) status = check_file_references(r, path, firsts[i], err);
    piece_map_deinit(&files);
    return status;
}

/* Adds a finding with the reader's message. If the message begins with "PATH:LINE:COLUMN: ", this becomes the place. */
static propane_status check_add_refused_text(chip_report *r, const char *path, const char *message,
                                             propane_error *err) {
    size_t n = strlen(path);
    int line = 0, column = 0, used = 0;
    const char *rest = message;
    if (strncmp(message, path, n) == 0 && sscanf(message + n, ":%d:%d: %n", &line, &column, &used) >= 2)
        rest += n + (size_t)used;
    chip_view view = {.text = rest};
    place at = {.source = path, .line = line, .column = column, .row = CHIP_ROW_WHOLE};
    return check_ask_site(r, CHIP_SITE_TEXT, &view, &at, err);
}

static propane_status check_text(chip_report *r, const char *path, const char *data, size_t length,
                                 propane_error *err) {
    propane_error why = {0};
    mil_module *m = NULL;
    r->checked_program = true;
    propane_status status = mil_read(path, &(mil_read_options){.late = true}, &m, &why);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    if (status != PROPANE_OK)
        status = check_add_refused_text(r, path, why.text, err);
    else
        status = chip_check_module(r, m, err);
    mil_module_free(m);
    if (status == PROPANE_OK && length && !memchr(data, 0, length < 512 ? length : 512))
        status = check_references(r, path, check_find_references(r, path, data, length), err);
    return status;
}

static bool check_is_text(const char *path, const char *data, size_t length) {
    if (text_ends_with(path, ".mil")) return true;
    return length > 0 && memchr(data, 0, length < 512 ? length : 512) == NULL;
}

/* Checks a package or a model file. */
static propane_status check_package(chip_report *r, const char *path, propane_error *err) {
    mil_module *m = NULL;
    r->checked_program = true;
    PROPANE_TRY(mil_read(path, &(mil_read_options){.late = true}, &m, err));
    propane_status status = chip_check_module(r, m, err);
    mil_module_free(m);
    return status;
}

/* Checks a folder with model.mil (from `propane plan --write`, or a compiled Core ML model) or a package. */
static propane_status check_folder(chip_report *r, const char *path, propane_error *err) {
    const char *program = arena_printf(r->arena, "%s/model.mil", path);
    if (!program) return propane_fail_memory(err, strlen(path));
    if (file_exists(program) && !file_is_dir(program)) return chip_check_file(r, program, err);
    return check_package(r, path, err);
}

/* Refuses a file that is known to be something else, such as an image, instead of reporting a weight file with a wrong
 * version. A file that contains a weight file's record is treated as a weight file, even if its record count at the
 * beginning resembles another format. */
static propane_status check_is_other(const char *path, const file_map *map, propane_error *err) {
    chip_record record;
    const chip_blob b = {.path = path, .data = map->data, .bytes = map->bytes};
    const char *other = map->bytes ? file_disguise(map->data, map->bytes) : "";
    if (!*other || check_next_record(&b, NULL, &record)) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "%s: cannot be checked%s; give a program (.mil), a Core ML package, a folder with model.mil, or a weight file",
        path, other);
}

propane_status chip_check_file(chip_report *r, const char *path, propane_error *err) {
    file_map map;
    if (r->by_file) check_set_path(r, mil_path_is_coreml(path) ? CHIP_PATH_COREML : CHIP_PATH_DIRECT);
    r->by_file = false;
    if (file_is_dir(path)) return check_folder(r, path, err);
    PROPANE_TRY(file_map_open(path, &map, err));
    const char *data = (const char *)map.data;
    if (text_ends_with(path, ".mlmodel")) {
        file_map_close(&map);
        return check_package(r, path, err);
    }
    propane_status status = check_is_other(path, &map, err);
    if (!status)
        status = check_is_text(path, data, map.bytes) ? check_text(r, path, data, map.bytes, err)
                                                      : chip_check_blob(r, path, err);
    file_map_close(&map);
    return status;
}
