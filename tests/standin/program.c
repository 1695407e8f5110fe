/* SPDX-License-Identifier: MIT
 * Owns the handling of MIL text: parsing, the known rules of Apple's compiler and of one chip, the order and layout of
 * symbols, and running on Propane's cpu driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/check.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/device/driver.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/ops.h"
#include "core/mil/text/mil_text.h"
#include "standin/standin.h"

extern const propane_driver cpu_driver;
/* The device layer asks for a list of drivers; this library needs one. */
const propane_driver *const propane_drivers[] = {&cpu_driver};
const int propane_drivers_count = 1;

enum { ROW_STEP = 64, MAX_PORTS = 256, MAX_PROCEDURES = 128 };

/* One function and its compiled form. */
typedef struct procedure {
    const mil_function *function;
    driver_program compiled;
    driver_buffer *buffers[2]; /* in the function's order */
    bool loaded;
    long runs;
} procedure;

struct program {
    mil_module *module;
    int procedure_count;
    procedure *procedures; /* in the text's order */
    port *ports[2];        /* inputs and outputs of all procedures, in symbol order */
    int count[2];
};

static void *the_cpu(void) {
    static void *cpu;
    if (!cpu && cpu_driver.open("", &cpu, NULL)) abort();
    return cpu;
}

/* ---- constants ------------------------------------------------------------------------------------------------------------- */

/* Reads a record as the engine does: the payload's offset is used as written, whatever is there, and the size is
 * the text's. An offset of the first record therefore reads the first record's data without an error
 * (Epistates/pmetal issue 34). */
static bool read_record(const mil_module *m, mil_const *c) {
    enum { RECORD = 64 };
    static const char prefix[] = "@model_path/";
    char path[1400], *content = NULL;
    size_t length = 0;
    uint64_t data = 0;
    uint32_t sentinel = 0;
    int64_t bytes = mil_type_bytes(&c->type);
    if (!m->model_dir || strncmp(c->blob_path, prefix, sizeof prefix - 1) != 0) return false;
    snprintf(path, sizeof path, "%s/%s", m->model_dir, c->blob_path + sizeof prefix - 1);
    if (file_read(path, (size_t)1 << 32, &content, &length, NULL) != PROPANE_OK) return false;
    bool good = c->blob_offset + RECORD <= length;
    if (good) memcpy(&sentinel, content + c->blob_offset, sizeof sentinel);
    if (good) memcpy(&data, content + c->blob_offset + 16, sizeof data);
    good = good && sentinel == 0xDEADBEEFu && data <= length && (uint64_t)bytes <= length - data;
    if (good) c->data = arena_copy(m->arena, content + data, (size_t)bytes);
    c->bytes = bytes;
    mem_free(content);
    return good && c->data;
}

/* Returns the payload size in a record. */
static uint64_t record_bytes(const mil_module *m, const mil_const *c) {
    char path[1400];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", m->model_dir, strchr(c->blob_path, '/') + 1);
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, (long)c->blob_offset + 8, SEEK_SET) != 0 || fread(&bytes, sizeof bytes, 1, f) != 1) bytes = 0;
    if (f) fclose(f);
    return bytes;
}

/* ---- checks ---------------------------------------------------------------------------------------------------------------- */

static bool refuse(char why[600], const char *word, const char *message) {
    snprintf(why, 600, "_ANECompiler : ANECCompile() FAILED err=(%s): %.500s", word, message);
    return false;
}

static bool check_dequantize(const mil_op *op, char why[600]) {
    if (strcmp(op->info->name, "constexpr_affine_dequantize") != 0 || standin_is("affine", "any")) return true;
    const mil_value *scale = mil_in(op, "scale");
    bool scalar = !scale || mil_type_count(&scale->type) == 1;
    if (scalar && standin_is("affine", "scalar")) return true;
    return refuse(why, "InvalidMILProgram", "constexpr_affine_dequantize (C35)");
}

static bool check_op(const mil_op *op, char why[600]) {
    char message[400];
    for (int i = 0; i < op->info->param_count && strncmp(op->info->name, "const", 5) != 0; i++)
        for (int k = 0; k < op->operands[i].count; k++)
            if (op->operands[i].values[k]->is_inline) {
                snprintf(message, sizeof message, "%s: '%s' is a literal in the argument list (C23)", op->info->name,
                         op->info->params[i].name);
                return refuse(why, "InvalidMILProgram", message);
            }
    if (strcmp(op->info->name, "concat") == 0 && !mil_in(op, "interleave"))
        return refuse(why, "InvalidMILProgram", "concat without interleave (C19)");
    if (strcmp(op->info->name, "conv") == 0 && mil_in(op, "bias"))
        return refuse(why, "InvalidMILProgram", "conv with bias (C21)");
    return check_dequantize(op, why);
}

static bool is_used(const mil_function *f, const mil_value *v) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++)
                if (op->operands[i].values[k] == v) return true;
    return false;
}

static bool load_constant(mil_module *m, const mil_op *op, mil_const *c, char why[600]) {
    propane_error err = {0};
    if (mil_blob_load(m, c, &err) != PROPANE_OK && !read_record(m, c))
        return refuse(why, "InvalidMILProgram", err.text);
    /* True2456/qwen-ane/docs/ANE-REFERENCE.md */
    if (strcmp(op->info->name, "constexpr_blockwise_shift_scale") == 0 && record_bytes(m, c) == 0)
        return refuse(why, "", "a record without its size");
    return true;
}

static bool load_constants(mil_module *m, const mil_function *f, char why[600]) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++) {
                mil_const *c = (mil_const *)(uintptr_t)op->operands[i].values[k]->constant;
                if (c && !c->data && !load_constant(m, op, c, why)) return false;
            }
    return true;
}

/* Checks the types of a function's inputs and outputs. */
static bool check_signature(const mil_function *f, char why[600]) {
    for (int i = 0; i < f->param_count + f->result_count; i++) {
        const mil_value *v = i < f->param_count ? f->params[i] : f->results[i - f->param_count];
        mil_dtype type = v->type.dtype;
        if ((type == MIL_int8 || type == MIL_uint8) && standin_is("int8", "refused"))
            return refuse(why, "InvalidMILProgram", "int8 in a function's signature");
        if (type == MIL_fp32 && standin_is("float32", "refused"))
            return refuse(why, "InvalidMILProgram", "fp32 in a function's signature");
    }
    return true;
}

static void make_port(port *p, const mil_value *v, int place) {
    const mil_type *t = &v->type;
    *p = (port){.place = place, .size = {1, 1, 1, 1, 1}, .element = mil_dtype_get(t->dtype)->bits / 8};
    snprintf(p->name, sizeof p->name, "%.199s", v->name);
    for (int k = 0; k < t->rank; k++) {
        int from_end = t->rank - 1 - k, axis = 4 - from_end;
        if (from_end >= 2 && t->rank < 5) axis--; /* there is no depth */
        p->size[axis] = t->dim[k];
    }
    p->stride[4] = p->element;
    p->stride[3] = (p->size[4] * p->element + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    for (int axis = 2; axis >= 0; axis--) p->stride[axis] = p->stride[axis + 1] * p->size[axis + 1];
    p->bytes = p->stride[0] * p->size[0];
}

static int by_name(const void *a, const void *b) { return strcmp(((const port *)a)->name, ((const port *)b)->name); }

static void add_port(program *p, int side, const mil_value *v, int owner, int place) {
    port *to = &p->ports[side][p->count[side]++];
    make_port(to, v, place);
    to->procedure = owner;
}

static void make_ports(program *p) {
    size_t total = 1;
    for (int k = 0; k < p->procedure_count; k++)
        total += (size_t)(p->procedures[k].function->param_count + p->procedures[k].function->result_count);
    for (int side = 0; side < 2; side++) p->ports[side] = calloc(total, sizeof(port));
    for (int k = 0; k < p->procedure_count; k++) {
        const mil_function *f = p->procedures[k].function;
        for (int i = 0; i < f->param_count; i++) /* an unused parameter is not a symbol (C24) */
            if (is_used(f, f->params[i])) add_port(p, 0, f->params[i], k, i);
        for (int i = 0; i < f->result_count; i++) add_port(p, 1, f->results[i], k, i);
    }
    if (standin_is("order", "declared")) return;
    for (int side = 0; side < 2; side++) qsort(p->ports[side], (size_t)p->count[side], sizeof(port), by_name);
}

static bool has_op(const mil_function *f, const char *name, size_t length) {
    for (const mil_op *op = f->first; op; op = op->next)
        if (strlen(op->info->name) == length && memcmp(op->info->name, name, length) == 0) return true;
    return false;
}

/* Checks refuse_op=NAME+OTHER: no function may have all of these. The compiler gives no reason. */
static bool check_refused(const mil_function *f, char why[600]) {
    const char *at = standin_switch("refuse_op");
    for (size_t length; at && *at; at += length + (at[length] == '+')) {
        length = strcspn(at, "+");
        if (!has_op(f, at, length)) return true;
    }
    return !at || refuse(why, "InvalidMILProgram", "");
}

static bool check_function(program *p, const mil_function *f, char why[600]) {
    propane_error err = {0};
    const chip *c = NULL;
    if (f->param_count > MAX_PORTS || f->result_count > MAX_PORTS)
        return refuse(why, "CompilationFailure", "too many symbols");
    for (const mil_op *op = f->first; op; op = op->next)
        if (!check_op(op, why)) return false;
    if (!check_refused(f, why)) return false;
    if (!check_signature(f, why) || !load_constants(p->module, f, why)) return false;
    if (chip_find("m4", &c, &err) || chip_check_refusal(f, c, 0, &err))
        return refuse(why, "CompilationFailure", err.text);
    return true;
}

/* Only values name symbols, so two procedures that use the same name cannot be distinguished. */
static bool check_symbols(const program *p, char why[600]) {
    for (int side = 0; side < 2; side++) {
        if (p->count[side] > STANDIN_MAX_SYMBOLS) return refuse(why, "CompilationFailure", "too many symbols");
        for (int i = 0; i < p->count[side]; i++)
            for (int k = 0; k < i; k++)
                if (strcmp(p->ports[side][i].name, p->ports[side][k].name) == 0)
                    return refuse(why, "InvalidMILProgram", "two symbols have one name");
    }
    return true;
}

static bool check(program *p, char why[600]) {
    if (p->module->build_info_count == 0) return refuse(why, "InvalidMILProgram", "no buildInfo");
    if (p->module->function_count > 1 &&
        (standin_is("procedures", "refused") ||
         p->module->function_count >
             (standin_number("procedures", 0) > 0 ? standin_number("procedures", 0) : MAX_PROCEDURES)))
        return refuse(why, "InvalidMILProgram", "too many functions");
    if (p->module->function_count == 1 && strcmp(p->module->functions->name, "main") != 0)
        return refuse(why, "InvalidMILProgram", "no function main");
    p->procedures = calloc((size_t)p->module->function_count, sizeof *p->procedures);
    for (const mil_function *f = p->module->functions; f; f = f->next) {
        p->procedures[p->procedure_count++].function = f;
        if (!check_function(p, f, why)) return false;
    }
    return true;
}

program *standin_program_check(const char *source, size_t length, const char *folder, char why[600]) {
    propane_error err = {0};
    program *p = calloc(1, sizeof *p);
    if (!p) abort();
    bool good = mil_parse(source, length, "model.mil", folder, &p->module, &err) == PROPANE_OK;
    if (!good) refuse(why, "InvalidMILProgram", err.text);
    good = good && check(p, why);
    if (good) make_ports(p);
    good = good && check_symbols(p, why);
    if (good) return p;
    standin_program_free(p);
    return NULL;
}

int standin_program_files(const program *p, const char **out, int most) {
    int count = 0;
    for (int n = 0; n < p->procedure_count; n++)
        for (const mil_op *op = p->procedures[n].function->first; op; op = op->next)
            for (int i = 0; i < op->info->param_count; i++)
                for (int k = 0; k < op->operands[i].count; k++) {
                    const mil_const *c = op->operands[i].values[k]->constant;
                    bool known = !c || !c->blob_path;
                    for (int x = 0; x < count && x < most && !known; x++) known = strcmp(out[x], c->blob_path) == 0;
                    if (!known && count < most) out[count] = c->blob_path;
                    count += !known;
                }
    return count;
}

/* ---- the results of a compile
 * ---------------------------------------------------------------------------------------------- */

/* Writes all blobs to one file, as for a program with one weight file. */
static bool append_blob(text *out, mil_const *c, arena *a) {
    c->blob_path = arena_string(a, "@model_path/data");
    return c->blob_path &&
           !mil_blob_append(out, c->type.dtype, mil_type_count(&c->type), c->data, &c->blob_offset, NULL);
}

bool standin_program_pack(program *p, char **net, size_t *net_length, char **data, size_t *data_length) {
    text blobs = {0}, program_text = {0};
    for (int n = 0; n < p->procedure_count; n++)
        for (const mil_op *op = p->procedures[n].function->first; op; op = op->next)
            for (int i = 0; i < op->info->param_count; i++)
                for (int k = 0; k < op->operands[i].count; k++) {
                    mil_const *c = (mil_const *)(uintptr_t)op->operands[i].values[k]->constant;
                    if (!c || !c->blob_path || strcmp(c->blob_path, "@model_path/data") == 0) continue;
                    if (!append_blob(&blobs, c, p->module->arena)) return false;
                }
    mil_print(&program_text, p->module, &(mil_print_options){.name_literals = true});
    *net = malloc(program_text.length + 1);
    *data = malloc(blobs.length + 1);
    if (*net) memcpy(*net, program_text.data, program_text.length);
    if (*data && blobs.length) memcpy(*data, blobs.data, blobs.length);
    *net_length = program_text.length;
    *data_length = blobs.length;
    text_deinit(&program_text);
    text_deinit(&blobs);
    return *net && *data;
}

/* ---- running ---------------------------------------------------------------------------------------------------------------- */

static bool make_buffers(procedure *p) {
    for (int side = 0; side < 2; side++) {
        int count = side ? p->compiled.output_count : p->compiled.input_count;
        p->buffers[side] = calloc((size_t)count + 1, sizeof(driver_buffer));
        for (int i = 0; i < count; i++) {
            driver_buffer *b = &p->buffers[side][i];
            b->bytes = side ? p->compiled.outputs[i].bytes : p->compiled.inputs[i].bytes;
            if (cpu_driver.buffer_create(the_cpu(), b->bytes, b, NULL)) return false;
        }
    }
    return true;
}

static bool load_procedure(procedure *p, char why[600]) {
    propane_error err = {0};
    propane_compile_options options = {.size = sizeof options};
    p->compiled.arena = arena_create();
    if (cpu_driver.compile(the_cpu(), p->function, &options, &p->compiled, &err)) {
        snprintf(why, 600, "Program load failure (0x20001): %.500s", err.text);
        arena_free(p->compiled.arena);
        p->compiled = (driver_program){0};
        return false;
    }
    p->loaded = true;
    return make_buffers(p);
}

bool standin_program_load(program *p, char why[600]) {
    standin_count("programs", 1);
    for (int k = 0; k < p->procedure_count; k++)
        if (!load_procedure(&p->procedures[k], why)) {
            standin_count("programs", -1);
            for (int i = 0; i <= k; i++) p->procedures[i].loaded = p->procedures[i].loaded && i < k;
            return false;
        }
    return true;
}

static void free_procedure(procedure *p) {
    for (int side = 0; side < 2; side++) {
        int count = side ? p->compiled.output_count : p->compiled.input_count;
        for (int i = 0; p->buffers[side] && i < count; i++) cpu_driver.buffer_free(the_cpu(), &p->buffers[side][i]);
        free(p->buffers[side]);
    }
    if (!p->loaded) return;
    cpu_driver.program_free(the_cpu(), &p->compiled);
    arena_free(p->compiled.arena);
}

void standin_program_free(program *p) {
    if (!p) return;
    if (p->procedures && p->procedures[0].loaded) standin_count("programs", -1);
    for (int k = 0; k < p->procedure_count; k++) free_procedure(&p->procedures[k]);
    for (int side = 0; side < 2; side++) free(p->ports[side]);
    free(p->procedures);
    mil_module_free(p->module);
    free(p);
}

int standin_program_ports(const program *p, bool outputs, const port **out) {
    *out = p->ports[outputs];
    return p->count[outputs];
}

int standin_program_procedures(const program *p) { return p->procedure_count; }
const char *standin_program_name(const program *p, int index) { return p->procedures[index].function->name; }

/* Copies between the engine's padded rows and dense memory. */
static void copy_rows(const port *p, unsigned char *wide, unsigned char *dense, bool in) {
    size_t row = (size_t)(p->size[4] * p->element);
    for (int64_t n = 0; n < p->size[0]; n++)
        for (int64_t c = 0; c < p->size[1]; c++)
            for (int64_t d = 0; d < p->size[2]; d++)
                for (int64_t h = 0; h < p->size[3]; h++) {
                    unsigned char *far =
                        wide + n * p->stride[0] + c * p->stride[1] + d * p->stride[2] + h * p->stride[3];
                    memcpy(in ? dense : far, in ? far : dense, row);
                    dense += row;
                }
}

static bool is_read_inside(const procedure *p, int result) {
    return standin_is("outputs", "nan") && is_used(p->function, p->function->results[result]);
}

bool standin_program_run(program *whole, int index, unsigned char *const *inputs, unsigned char *const *outputs,
                         char why[600]) {
    driver_buffer *in[MAX_PORTS], *out[MAX_PORTS];
    propane_error err = {0};
    propane_completion done = {.size = sizeof done};
    procedure *p = &whole->procedures[index];
    for (int i = 0; i < p->compiled.input_count; i++) in[i] = &p->buffers[0][i];
    for (int i = 0; i < p->compiled.output_count; i++) out[i] = &p->buffers[1][i];
    bool stale = p->runs++ > 0 && standin_is("inputs", "stale");
    for (int k = 0; k < whole->count[0] && !stale; k++) {
        const port *from = &whole->ports[0][k];
        if (from->procedure == index) copy_rows(from, inputs[k], p->buffers[0][from->place].memory, true);
    }
    driver_execution e = {.program = &p->compiled, .inputs = in, .outputs = out};
    if (cpu_driver.execute(the_cpu(), &e, &done, &err)) {
        snprintf(why, 600, "%.500s", err.text);
        return false;
    }
    for (int k = 0; k < whole->count[1]; k++) {
        const port *to = &whole->ports[1][k];
        if (to->procedure != index) continue;
        driver_buffer *from = &p->buffers[1][to->place];
        if (is_read_inside(p, to->place)) memset(from->memory, 0xFF, from->bytes); /* NaN in every format */
        copy_rows(to, outputs[k], from->memory, false);
    }
    return true;
}
