/* SPDX-License-Identifier: MIT
 * propane convert IN OUT: converts language models between Hugging Face folders, safetensors, GGUF and llama2.c files,
 * with the vocabulary if the format holds one. Exports them as programs, and converts programs between MIL text, its
 * two dialects, and Core ML packages. The name of OUT decides the format.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/engine_difference.h"
#include "apps/propane/cmd/host_flags.h"
#include "core/base/file.h"
#include "core/base/text.h"

enum { MAX_LENGTHS = 8 };

typedef struct convert_job {
    const char *from, *to, *vocabulary, *dtype, *dialect, *adapter, *tokens, *base, *until;
    bool for_engine;
    bool dtype_given, dialect_given, context_given, stateless_given;
    int64_t lengths[MAX_LENGTHS];
    propane_export_options exported;
} convert_job;

/* Writes the module in the format that the file name `to` decides. */
static propane_status cmd_convert_write_program(propane_module *m, const char *to, propane_dialect dialect,
                                                propane_error *err) {
    char *program = NULL;
    size_t length = 0;
    PROPANE_TRY(propane_module_write(m, to, dialect, err));
    if (!text_ends_with(to, ".mil")) return PROPANE_OK;
    PROPANE_TRY(propane_module_print(m, dialect, &program, &length, err));
    printf("%s: %zu bytes of MIL text\n", to, length);
    propane_free(program);
    return PROPANE_OK;
}

static propane_status cmd_convert_for_engine(propane_module *m, propane_error *err) {
    char *report = NULL;
    int count = 0;
    PROPANE_TRY(propane_module_for_engine(m, &count, &report, err));
    fputs(count ? report : "nothing to rewrite: no rule's fix applies\n", stdout);
    propane_free(report);
    return PROPANE_OK;
}

/* Prints the inputs and outputs of an older model that an app finds changed in the new one. */
static void cmd_convert_print_changed(const propane_module *m) {
    for (int role = PROPANE_INPUT; role <= PROPANE_OUTPUT; role++)
        for (int i = 0; i < propane_module_feature_count(m, NULL, (propane_role)role); i++) {
            propane_feature f = {.size = sizeof f};
            const char *what = role == PROPANE_INPUT ? "input" : "output";
            if (propane_module_feature(m, NULL, (propane_role)role, i, &f, NULL)) continue;
            if (f.called) printf("%s '%s' becomes '%s': MIL does not allow its name\n", what, f.called, f.name);
            if (f.kind == PROPANE_CATEGORY)
                printf("input '%s', a text, becomes an array [%" PRId64 "]: 1 at the text's place in the list that the "
                       "metadata \"propane.keys.%s\" contains, and 0 elsewhere\n",
                       f.name, f.key_count, f.name);
            if (f.kind == PROPANE_DICTIONARY)
                printf("input '%s', a dictionary, becomes an array [%" PRId64
                       "]: its numbers in the order of the keys in "
                       "the metadata \"propane.keys.%s\", 0 for a missing key\n",
                       f.name, f.key_count, f.name);
        }
}

/* Converts a program in any form to MIL text or a package. */
static propane_status cmd_convert_program(const convert_job *j, bool package, propane_dialect dialect,
                                          propane_error *err) {
    const char *from = j->from, *to = j->to, *until = j->until;
    propane_module *m = NULL;
    PROPANE_TRY(propane_module_read(from, &m, err));
    propane_status status = until ? propane_module_until(m, NULL, until, err) : PROPANE_OK;
    if (status == PROPANE_OK && j->for_engine) status = cmd_convert_for_engine(m, err);
    if (status == PROPANE_OK) status = cmd_convert_write_program(m, to, dialect, err);
    const int count = propane_module_function_count(m);
    if (status == PROPANE_OK && package)
        printf("%s: a Core ML package with %d function%s\n", to, count, text_plural(count));
    if (status == PROPANE_OK && package) cmd_convert_print_changed(m);
    propane_module_free(m);
    if (status == PROPANE_OK && j->for_engine) status = engine_difference_print(from, to, until, err);
    return status;
}

/* Prints the numbers of tokens that a call accepts, and the number of positions in the cache, as the inputs and states
 * declare them. MIL text declares only the first of several shapes. */
static void cmd_convert_print_calls(const propane_module *m, bool package) {
    propane_feature ids = {.size = sizeof ids}, cache = {.size = sizeof cache};
    propane_shape shape;
    if (propane_module_feature(m, NULL, PROPANE_INPUT, 0, &ids, NULL)) return;
    if (propane_module_feature(m, NULL, PROPANE_STATE, 0, &cache, NULL)) {
        printf("calls of %" PRId64 " token%s, no cache\n", ids.dim[1], text_plural(ids.dim[1]));
        return;
    }
    printf("calls of ");
    if (!package || !ids.shape_count) printf("%" PRId64, ids.dim[1]);
    for (int i = 0; package && i < ids.shape_count; i++)
        if (propane_module_shape(m, NULL, ids.name, i, &shape, NULL) == PROPANE_OK)
            printf("%s%" PRId64, i ? " or " : "", shape.dim[1]);
    printf(" tokens, a cache of %" PRId64 "\n", cache.dim[2]); /* [layers, heads, positions, size] */
}

/* Exports a language model as one program. */
static propane_status cmd_convert_export(const char *from, const char *adapter, const char *to, bool package,
                                         propane_dialect dialect, const propane_export_options *o, propane_error *err) {
    propane_model *w = NULL;
    propane_module *m = NULL;
    propane_model_info info = {.size = sizeof info};
    PROPANE_TRY(propane_model_open(from, adapter, &w, err));
    propane_status status = propane_model_export(w, o, &m, err);
    if (!status) status = cmd_convert_write_program(m, to, dialect, err);
    if (!status && propane_model_describe(w, &info)) {
        printf("%s: %" PRId64 " parameters in %s as %s; ", to, info.parameters, o->wide ? "fp32" : "fp16",
               package ? "a Core ML package" : "MIL text");
        cmd_convert_print_calls(m, package);
    }
    propane_module_free(m);
    propane_model_free(w);
    return status;
}

/* Reads a list of integers such as "1,64". Returns false if the text is not such a list. */
static bool cmd_convert_read_lengths(const char *given, int64_t lengths[MAX_LENGTHS], int *count) {
    while (*given && *count < MAX_LENGTHS) {
        int64_t n = 0;
        const char *end = text_read_whole(given, &n);
        if (!end || n < 1 || (*end && (*end != ',' || !end[1]))) return false;
        lengths[(*count)++] = n;
        given = *end ? end + 1 : end;
    }
    return *count > 0 && !*given;
}

static bool cmd_convert_is_file(const char *to) {
    return text_ends_with(to, ".bin") || text_ends_with(to, ".safetensors") || text_ends_with(to, ".gguf");
}

static void cmd_convert_log(void *context, const char *sentence) {
    (void)context;
    fprintf(stderr, "propane convert: %s\n", sentence);
}

static propane_status cmd_convert_model(const char *from, const char *adapter, const char *to, const char *given,
                                        const char *dtype, propane_error *err) {
    propane_model *w = NULL;
    propane_tokenizer *t = NULL;
    propane_model_info info = {.size = sizeof info};
    PROPANE_TRY(propane_model_open(from, adapter, &w, err));
    propane_set_log(cmd_convert_log, NULL);
    propane_status status = given ? propane_tokenizer_open(given, &t, err) : PROPANE_OK;
    if (status == PROPANE_OK && text_ends_with(to, ".bin")) status = cli_check_written(to, "llama2c", err);
    if (status == PROPANE_OK) status = file_check_output(to, err);
    if (status == PROPANE_OK) status = propane_model_save(w, t, to, dtype, err);
    if (status == PROPANE_OK && propane_model_describe(w, &info)) {
        char name[8] = {0};
        for (int i = 0; dtype[i] && i < 7; i++) name[i] = (char)toupper((unsigned char)dtype[i]);
        printf("%s: %" PRId64 " parameters as %s, %s\n", to, info.parameters, name,
               text_ends_with(to, ".bin")           ? "llama2.c version 0"
               : text_ends_with(to, ".safetensors") ? "one safetensors file"
               : text_ends_with(to, ".gguf")        ? "GGUF version 3"
                                                    : "config.json and model.safetensors");
    }
    propane_tokenizer_free(t);
    propane_model_free(w);
    return status;
}

/* Returns the ending of `to` if it belongs to a format that Propane does not write. Without this check, the user would
 * get a folder with that name. Returns NULL otherwise. */
static const char *cmd_convert_foreign_form(const char *to) {
    static const char *const ends[] = {".pt", ".pth",  ".onnx", ".npz",     ".npy",     ".ckpt",
                                       ".h5", ".json", ".txt",  ".mlmodel", ".mlmodelc"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (text_ends_with(to, ends[i])) return ends[i];
    return NULL;
}

/* Returns whether the input is a folder with an adapter and no model, and the output is a GGUF file. Then only the
 * adapter is converted, for llama.cpp. */
static bool cmd_convert_is_adapter(const convert_job *j) {
    char config[1000], model[1000];
    snprintf(config, sizeof config, "%.900s/adapter_config.json", j->from);
    snprintf(model, sizeof model, "%.900s/model.safetensors", j->from);
    return text_ends_with(j->to, ".gguf") && !j->adapter && file_exists(config) && !file_exists(model);
}

static int cmd_convert_adapter(const convert_job *j) {
    propane_error err = {0};
    if (j->dtype_given || j->vocabulary)
        return cli_misuse("convert", "%s contains an adapter, which is written in fp32 and has no vocabulary", j->from);
    if (propane_adapter_save(j->from, j->base, j->to, &err) != PROPANE_OK) return cli_error("convert", &err);
    printf("%s: a LoRA adapter as F32, GGUF version 3\n", j->to);
    return CLI_OK;
}

/* Returns -1 if the command line is correct, otherwise the exit code after a message. */
static int cmd_convert_check_use(convert_job *j, bool mil, bool package, bool exports) {
    const bool program = mil || package;
    if (cmd_convert_foreign_form(j->to))
        return cli_misuse("convert", "%s: Propane does not write %s; see OUT in the help", j->to,
                          cmd_convert_foreign_form(j->to));
    if (program && !exports && j->dtype_given)
        return cli_misuse("convert", "--dtype is for weights; %s will be %s", j->to, mil ? "MIL text" : "a package");
    if (!mil && j->dialect_given) return cli_misuse("convert", "--dialect is for MIL text; %s will be a model", j->to);
    if (!program && j->dtype[0] == 'q' && !text_ends_with(j->to, ".gguf"))
        return cli_misuse("convert", "--dtype %s is for GGUF files; %s is not one", j->dtype, j->to);
    if (exports && j->dtype_given && strcmp(j->dtype, "f16") != 0 && strcmp(j->dtype, "f32") != 0)
        return cli_misuse("convert", "--dtype %s: a program's weights are f16 or f32", j->dtype);
    if (j->vocabulary && (program || (cmd_convert_is_file(j->to) && !text_ends_with(j->to, ".gguf"))))
        return cli_misuse("convert", "--tokenizer applies to folders and GGUF files; %s has no vocabulary", j->to);
    if (program && !exports && j->adapter)
        return cli_misuse("convert", "--merge is for models; %s will be %s", j->to, mil ? "MIL text" : "a package");
    if (!exports && (j->context_given || j->stateless_given || j->tokens))
        return cli_misuse("convert",
                          "--context, --tokens and --stateless are for models that become a .mlpackage or .mil");
    if (j->until && (!program || exports))
        return cli_misuse("convert", "--until is for programs that become a .mlpackage or .mil");
    if (j->for_engine && (!program || exports))
        return cli_misuse("convert", "--for-engine is for programs that become a .mlpackage or .mil");
    if (j->stateless_given && (j->context_given || j->tokens))
        return cli_misuse("convert", "--stateless has no cache: --context and --tokens have no meaning with it");
    if (j->tokens && !cmd_convert_read_lengths(j->tokens, j->lengths, &j->exported.length_count))
        return cli_misuse("convert", "--tokens: '%.60s' is not a list of up to %d numbers, like 1,64", j->tokens,
                          MAX_LENGTHS);
    if (!mil && file_same(j->from, j->to))
        return cli_misuse("convert", "%s would overwrite itself: give OUT another name", j->from);
    return -1;
}

int cmd_convert(int argc, char **argv) {
    convert_job j = {.dtype = "f32", .dialect = "short", .exported = {.size = sizeof j.exported}};
    char types[200];
    const cli_flag flags[] = {
        {"IN", CLI_TEXT, &j.from,
         .help = "a model folder, a .safetensors, .gguf, llama2.c or .mil file, or a Core ML package; for NAME.gguf "
                 "also an adapter folder",
         .required = true},
        {"OUT", CLI_TEXT, &j.to,
         .help = "NAME.safetensors, NAME.gguf, NAME.bin (llama2.c), NAME.mil, NAME.mlpackage, or a folder",
         .required = true},
        {"--dtype", CLI_CHOICE, &j.dtype, .words = propane_model_types("|", types, sizeof types),
         .help = "type of the weights; q...: GGUF only; packages: f16 by default", .given = &j.dtype_given},
        {"--tokenizer", CLI_TEXT, &j.vocabulary, .words = "FILE",
         .help = "vocabulary for a folder or GGUF file, if the model folder has none"},
        {"--merge", CLI_TEXT, &j.adapter, .words = "DIR", .help = "LoRA adapter to add to the weights first"},
        {"--base", CLI_TEXT, &j.base, .words = "MODEL",
         .help = "base model of the adapter IN; default: the one that the adapter names"},
        HOST_VERIFY_FLAG,
        {"--dialect", CLI_CHOICE, &j.dialect, .words = "short|canonical", .help = "dialect of MIL text",
         .given = &j.dialect_given},
        {"--until", CLI_TEXT, &j.until, .words = "VALUE",
         .help = "cut the program after the operation that computes VALUE, and output VALUE"},
        {"--for-engine", CLI_SWITCH, &j.for_engine,
         .help = "apply the rewrites that the rules suggest, and print them and the largest difference"},
        {NULL, CLI_HEADING, NULL, .help = "Language model to .mlpackage or .mil"},
        {"--context", CLI_INT, &j.exported.context, 0, 1e9, "N",
         "positions that the cache holds; 0: the model's, at most 2048", .given = &j.context_given},
        {"--tokens", CLI_TEXT, &j.tokens, .words = "1,64", .help = "allowed numbers of tokens per call; default: 1,64"},
        {"--stateless", CLI_INT, &j.exported.stateless, 1, 1e6, "N",
         "no cache, N tokens per call; for iOS 15 and later", .given = &j.stateless_given},
    };
    int code = cli_parse(
        argc, argv, flags, sizeof flags / sizeof flags[0], "convert IN OUT [--dtype TYPE] [--dialect short|canonical]",
        "Writes a model in another format, or a MIL program in another dialect. The name of OUT selects the format.");
    if (code >= 0) return code;
    const bool mil = text_ends_with(j.to, ".mil");
    const bool package =
        text_ends_with(j.to, ".mlpackage") || text_ends_with(j.to, ".mlpackage/"); /* the shell adds a slash */
    const bool exports = (mil || package) && propane_model_form(j.from);
    propane_error err = {0};
    file_map map;
    if (!file_is_dir(j.from)) { /* report an unreadable file before wrong use of flags */
        if (file_map_open(j.from, &map, &err) != PROPANE_OK) return cli_error("convert", &err);
        file_map_close(&map);
    }
    code = cmd_convert_check_use(&j, mil, package, exports);
    if (code >= 0) return code;
    if (cmd_convert_is_adapter(&j)) return cmd_convert_adapter(&j);
    if (j.base) return cli_misuse("convert", "--base is for an adapter's folder that becomes NAME.gguf");
    const propane_dialect dialect = strcmp(j.dialect, "short") == 0 ? PROPANE_MIL_SHORT : PROPANE_MIL_CANONICAL;
    j.exported.wide = j.dtype_given && strcmp(j.dtype, "f32") == 0;
    j.exported.lengths = j.lengths;
    propane_status status = exports ? cmd_convert_export(j.from, j.adapter, j.to, package, dialect, &j.exported, &err)
                            : mil || package ? cmd_convert_program(&j, package, dialect, &err)
                                             : cmd_convert_model(j.from, j.adapter, j.to, j.vocabulary, j.dtype, &err);
    return status == PROPANE_OK ? CLI_OK : cli_error("convert", &err);
}
