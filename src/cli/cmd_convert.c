/* SPDX-License-Identifier: MIT
 * propane convert IN OUT: models between Hugging Face folders, safetensors files and llama2.c checkpoints; MIL text between
 * its two dialects. OUT's name says what it becomes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "mil/text.h"
#include "model/store.h"

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static propane_status convert_mil(const char *from, const char *to, mil_dialect dialect, propane_error *err) {
    mil_module *m = NULL;
    PROPANE_TRY(mil_parse_file(from, &m, err));
    text out = {0};
    const mil_print_options options = {.dialect = dialect};
    mil_print(&out, m, &options);
    propane_status status = out.failed ? propane_fail_memory(err, out.capacity) : file_write(to, out.data, out.length, err);
    if (status == PROPANE_OK) printf("%s: %zu bytes of MIL text\n", to, out.length);
    text_deinit(&out);
    mil_module_free(m);
    return status;
}

static propane_status convert_model(const char *from, const char *to, safetensors_dtype dtype, propane_error *err) {
    model_form form = ends_with(to, ".bin") ? MODEL_FORM_LLAMA2C : ends_with(to, ".safetensors") ? MODEL_FORM_SAFETENSORS : MODEL_FORM_DIR;
    model_weights *w = NULL;
    PROPANE_TRY(model_store_read(from, &w, err));
    propane_status status = model_store_write(w, to, form, dtype, err);
    if (status == PROPANE_OK)
        printf("%s: %" PRId64 " parameters as %s, %s\n", to, w->parameters, safetensors_dtype_name(dtype),
               form == MODEL_FORM_DIR ? "config.json and model.safetensors" : form == MODEL_FORM_LLAMA2C ? "llama2.c version 0" : "one safetensors file");
    model_weights_free(w);
    return status;
}

/* Forms that people ask for and Propane does not write: without this they would get a folder of that name. */
static const char *foreign_form(const char *to) {
    static const char *const ends[] = {".gguf", ".pt", ".pth", ".onnx", ".npz", ".mlmodel", ".mlpackage"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(to, ends[i])) return ends[i];
    return NULL;
}

int cmd_convert(int argc, char **argv) {
    const char *from = NULL, *to = NULL, *dtype = "f32", *dialect = "short";
    bool dtype_given = false, dialect_given = false;
    const cli_flag flags[] = {
        {"IN", CLI_TEXT, &from, .help = "a model's folder, .safetensors or llama2.c file, or a .mil file", .required = true},
        {"OUT", CLI_TEXT, &to, .help = "NAME.safetensors, NAME.bin (llama2.c), NAME.mil, or a folder", .required = true},
        {"--dtype", CLI_CHOICE, &dtype, .words = "f32|f16|bf16", .help = "of the weights", .given = &dtype_given},
        {"--dialect", CLI_CHOICE, &dialect, .words = "short|canonical", .help = "of MIL text", .given = &dialect_given},
    };
    int code = cli_parse(argc, argv, flags, 4, "convert IN OUT [--dtype f32|f16|bf16] [--dialect short|canonical]",
                         "Writes a model in another form, or a MIL program in another dialect. The name of OUT says which.");
    if (code >= 0) return code;
    bool mil = ends_with(to, ".mil");
    if (mil && dtype_given) return cli_misuse("convert", "--dtype is for weights; %s will be MIL text", to);
    if (!mil && dialect_given) return cli_misuse("convert", "--dialect is for MIL text; %s will be a model", to);
    if (foreign_form(to)) return cli_misuse("convert", "%s: Propane does not write %s; see OUT in the help", to, foreign_form(to));
    if (!mil && file_same(from, to)) return cli_misuse("convert", "%s would overwrite itself: give OUT another name", from);
    propane_error err = {0};
    propane_status status =
        mil ? convert_mil(from, to, strcmp(dialect, "short") == 0 ? MIL_SHORT : MIL_CANONICAL, &err)
            : convert_model(from, to, strcmp(dtype, "f32") == 0 ? ST_F32 : strcmp(dtype, "f16") == 0 ? ST_F16 : ST_BF16, &err);
    return status == PROPANE_OK ? CLI_OK : cli_error("convert", &err);
}
