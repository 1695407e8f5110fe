/* SPDX-License-Identifier: MIT
 * propane convert IN OUT: models between Hugging Face folders, safetensors, GGUF and llama2.c files, with the vocabulary where the
 * form holds one; MIL text between its two dialects. OUT's name says what it becomes.
 */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/run_folder.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "model/files/export_coreml.h"
#include "model/files/gguf.h"
#include "model/files/model_tokenizer.h"
#include "model/files/store.h"

/* The module in the form of OUT's name. */
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

/* A program in any form to another one. */
static propane_status cmd_convert_program(const char *from, const char *to, bool package, propane_dialect dialect,
                                          propane_error *err) {
    propane_module *m = NULL;
    PROPANE_TRY(propane_module_read(from, &m, err));
    propane_status status = cmd_convert_write_program(m, to, dialect, err);
    const int count = propane_module_function_count(m);
    if (status == PROPANE_OK && package)
        printf("%s: a Core ML package with %d function%s\n", to, count, count == 1 ? "" : "s");
    propane_module_free(m);
    return status;
}

static void cmd_convert_tell_export(const model_weights *w, const model_export_options *o, const char *to,
                                    bool package) {
    printf("%s: %" PRId64 " parameters in %s as %s; ", to, w->parameters, o->dtype == MIL_fp16 ? "fp16" : "fp32",
           package ? "a Core ML package" : "MIL text");
    if (o->stateless) {
        printf("calls of %" PRId64 " tokens, no cache\n", o->stateless);
        return;
    }
    printf("calls of ");
    for (int i = 0; i < o->length_count; i++) printf("%s%" PRId64, i ? " or " : "", o->lengths[i]);
    printf(" tokens, a cache of %" PRId64 "\n", o->context);
}

/* A language model as one program. Text has one shape, the first. */
static propane_status cmd_convert_export(const char *from, const char *adapter, const char *to, bool package,
                                         propane_dialect dialect, model_export_options *o, propane_error *err) {
    model_weights *w = NULL;
    mil_module *m = NULL;
    PROPANE_TRY(run_model(from, adapter, &w, err));
    propane_status status = model_export(w, o, &m, err);
    if (!package) o->length_count = 1;
    if (!status) status = cmd_convert_write_program(m, to, dialect, err);
    if (!status) cmd_convert_tell_export(w, o, to, package);
    mil_module_free(m);
    model_weights_free(w);
    return status;
}

/* "1,64"; false: it is no such list. */
static bool cmd_convert_read_lengths(const char *given, model_export_options *o) {
    while (*given && o->length_count < MODEL_EXPORT_LENGTHS) {
        char *end = NULL;
        const long long n = strtoll(given, &end, 10);
        if (end == given || n < 1 || (*end && (*end != ',' || !end[1]))) return false;
        o->lengths[o->length_count++] = n;
        given = *end ? end + 1 : end;
    }
    return o->length_count > 0 && !*given;
}

static model_form cmd_convert_form_of(const char *to) {
    return text_ends_with(to, ".bin")           ? MODEL_FORM_LLAMA2C
           : text_ends_with(to, ".safetensors") ? MODEL_FORM_SAFETENSORS
           : text_ends_with(to, ".gguf")        ? MODEL_FORM_GGUF
                                                : MODEL_FORM_DIR;
}

/* A file of the source folder into the new one, as it is; missing: nothing. */
static propane_status cmd_convert_copy_file(const char *from, const char *to, const char *name, propane_error *err) {
    char *source = run_path(from, name), *target = run_path(to, name), *data = NULL;
    size_t length = 0;
    propane_status status = source && target ? PROPANE_OK : propane_fail_memory(err, 0);
    if (status == PROPANE_OK && file_exists(source)) {
        status = file_read(source, (size_t)256 << 20, &data, &length, err);
        if (status == PROPANE_OK) status = file_write(target, data, length, err);
    }
    mem_free(data);
    mem_free(source);
    mem_free(target);
    return status;
}

/* Hugging Face's files are copied as they are; of Propane's own tokenizer they are made. */
static propane_status cmd_convert_export_tokenizer(const char *from, const char *to, const char *given,
                                                   const tokenizer *t, int64_t longest, propane_error *err) {
    static const char *const names[] = {"tokenizer.json",      "tokenizer_config.json",  "special_tokens_map.json",
                                        "chat_template.jinja", "generation_config.json", MODEL_TOKENIZER};
    char *own = run_path(from, "tokenizer.json");
    bool ready = !given && own && file_exists(own);
    mem_free(own);
    propane_status status = ready ? PROPANE_OK : tokenizer_export(t, to, longest, err);
    for (int i = ready ? 0 : 5; status == PROPANE_OK && !given && file_is_dir(from) && i < 6; i++)
        status = cmd_convert_copy_file(from, to, names[i], err);
    return status;
}

/* A vocabulary that the form cannot say is no reason to refuse the weights. */
static propane_status cmd_convert_write_model(const model_weights *w, const tokenizer *t, const char *from,
                                              const char *to, const char *given, const char *dtype,
                                              propane_error *err) {
    model_form form = cmd_convert_form_of(to);
    propane_error why = {0};
    gguf_type of = (gguf_type)gguf_type_find(dtype)->type;
    if (form != MODEL_FORM_GGUF) PROPANE_TRY(model_store_write(w, to, form, model_store_dtype(of), err));
    if (form == MODEL_FORM_GGUF) {
        propane_status status = t ? gguf_write_model(w, t, to, of, &why) : PROPANE_ERR_UNSUPPORTED;
        if (status == PROPANE_OK) return PROPANE_OK;
        if (status != PROPANE_ERR_UNSUPPORTED) return propane_fail(err, status, "%s", why.text);
        PROPANE_TRY(gguf_write_model(w, NULL, to, of, err));
    } else if (form == MODEL_FORM_DIR && t) {
        propane_status status =
            cmd_convert_export_tokenizer(from, to, given, t, w->config.max_position_embeddings, &why);
        if (status != PROPANE_OK && status != PROPANE_ERR_UNSUPPORTED) return propane_fail(err, status, "%s", why.text);
    }
    if (why.text[0]) fprintf(stderr, "propane convert: the vocabulary is left out: %s\n", why.text);
    return PROPANE_OK;
}

/* What a model's folder is made of: another one may take its place. */
static propane_status cmd_convert_check_folder(const char *to, propane_error *err) {
    static const char *const own[] = {".",
                                      "..",
                                      "config.json",
                                      "generation_config.json",
                                      "model.safetensors",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "chat_template.jinja",
                                      MODEL_TOKENIZER};
    DIR *folder = file_is_empty_dir(to) ? NULL : opendir(to);
    char foreign[300] = "";
    if (folder && !run_holds(to, "model.safetensors")) snprintf(foreign, sizeof foreign, "something else than a model");
    for (struct dirent *e; folder && !*foreign && (e = readdir(folder));) {
        bool known = false;
        for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) known |= strcmp(own[i], e->d_name) == 0;
        if (!known) snprintf(foreign, sizeof foreign, "%.200s, which is no part of a model", e->d_name);
    }
    if (folder) closedir(folder);
    if (!*foreign) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "cannot write %s: a folder of that name holds %s; give another name",
                        to, foreign);
}

/* All of it or nothing: a model with the weights of one and the vocabulary of another would be read without a word. */
static propane_status cmd_convert_write_folder(const model_weights *w, const tokenizer *t, const char *from,
                                               const char *to, const char *given, const char *dtype,
                                               propane_error *err) {
    folder_writer *f = NULL;
    PROPANE_TRY(cmd_convert_check_folder(to, err));
    PROPANE_TRY(folder_writer_open(to, &f, err));
    propane_status status = cmd_convert_write_model(w, t, from, folder_writer_path(f), given, dtype, err);
    if (status == PROPANE_OK) return folder_writer_commit(f, err);
    folder_writer_abort(f);
    return status;
}

static propane_status cmd_convert_model(const char *from, const char *adapter, const char *to, const char *given,
                                        const char *dtype, propane_error *err) {
    static const char *const told[] = {"config.json and model.safetensors", "one safetensors file",
                                       "llama2.c version 0", "GGUF version 3"};
    model_weights *w = NULL;
    tokenizer *t = NULL;
    propane_error none = {0};
    PROPANE_TRY(run_model(from, adapter, &w, err));
    propane_status status = PROPANE_OK;
    if (model_tokenizer_open(given, from, &t, given ? err : &none) != PROPANE_OK) {
        if (given)
            status = err->status;
        else if (none.status == PROPANE_ERR_MEMORY)
            status = propane_fail(err, none.status, "%s", none.text);
        else if (none.status != PROPANE_ERR_NOT_FOUND)
            fprintf(stderr, "propane convert: the vocabulary is left out: %s\n", none.text);
    }
    if (status == PROPANE_OK && given) status = run_vocabulary(from, w->config.vocab_size, t, err);
    if (status == PROPANE_OK)
        status = (cmd_convert_form_of(to) == MODEL_FORM_DIR ? cmd_convert_write_folder : cmd_convert_write_model)(
            w, t, from, to, given, dtype, err);
    if (status == PROPANE_OK) {
        char name[8] = {0};
        for (int i = 0; dtype[i] && i < 7; i++) name[i] = (char)toupper((unsigned char)dtype[i]);
        printf("%s: %" PRId64 " parameters as %s, %s\n", to, w->parameters, name, told[cmd_convert_form_of(to)]);
    }
    tokenizer_free(t);
    model_weights_free(w);
    return status;
}

/* Forms that people ask for and Propane does not write: without this they would get a folder of that name. */
static const char *cmd_convert_foreign_form(const char *to) {
    static const char *const ends[] = {".pt", ".pth",  ".onnx", ".npz",     ".npy",     ".ckpt",
                                       ".h5", ".json", ".txt",  ".mlmodel", ".mlmodelc"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (text_ends_with(to, ends[i])) return ends[i];
    return NULL;
}

typedef struct convert_job {
    const char *from, *to, *vocabulary, *dtype, *dialect, *adapter, *tokens;
    bool dtype_given, dialect_given, context_given, stateless_given;
    model_export_options exported;
} convert_job;

/* -1: nothing is wrong with how it was asked for. */
static int cmd_convert_check_use(convert_job *j, bool mil, bool package, bool exports) {
    const bool program = mil || package;
    if (cmd_convert_foreign_form(j->to))
        return cli_misuse("convert", "%s: Propane does not write %s; see OUT in the help", j->to,
                          cmd_convert_foreign_form(j->to));
    if (program && !exports && j->dtype_given)
        return cli_misuse("convert", "--dtype is for weights; %s will be %s", j->to, mil ? "MIL text" : "a package");
    if (!mil && j->dialect_given) return cli_misuse("convert", "--dialect is for MIL text; %s will be a model", j->to);
    if (!program && j->dtype[0] == 'q' && cmd_convert_form_of(j->to) != MODEL_FORM_GGUF)
        return cli_misuse("convert", "--dtype %s is for GGUF files; %s is none", j->dtype, j->to);
    if (exports && j->dtype_given && strcmp(j->dtype, "f16") != 0 && strcmp(j->dtype, "f32") != 0)
        return cli_misuse("convert", "--dtype %s: a program's weights are f16 or f32", j->dtype);
    if (j->vocabulary &&
        (program || (cmd_convert_form_of(j->to) != MODEL_FORM_GGUF && cmd_convert_form_of(j->to) != MODEL_FORM_DIR)))
        return cli_misuse("convert", "--tokenizer is for folders and GGUF files; %s holds no vocabulary", j->to);
    if (program && !exports && j->adapter)
        return cli_misuse("convert", "--merge is for models; %s will be %s", j->to, mil ? "MIL text" : "a package");
    if (!exports && (j->context_given || j->stateless_given || j->tokens))
        return cli_misuse("convert",
                          "--context, --tokens and --stateless are for models that become a .mlpackage or .mil");
    if (j->stateless_given && (j->context_given || j->tokens))
        return cli_misuse("convert", "--stateless has no cache: --context and --tokens have no meaning with it");
    if (j->tokens && !cmd_convert_read_lengths(j->tokens, &j->exported))
        return cli_misuse("convert", "--tokens: '%.60s' is not a list of up to %d numbers, like 1,64", j->tokens,
                          MODEL_EXPORT_LENGTHS);
    if (!mil && file_same(j->from, j->to))
        return cli_misuse("convert", "%s would overwrite itself: give OUT another name", j->from);
    return -1;
}

int cmd_convert(int argc, char **argv) {
    convert_job j = {.dtype = "f32", .dialect = "short"};
    char types[GGUF_TYPE_WORDS];
    const cli_flag flags[] = {
        {"IN", CLI_TEXT, &j.from,
         .help = "a model's folder, .safetensors, .gguf or llama2.c file, a .mil file, a Core ML package",
         .required = true},
        {"OUT", CLI_TEXT, &j.to,
         .help = "NAME.safetensors, NAME.gguf, NAME.bin (llama2.c), NAME.mil, NAME.mlpackage, or a folder",
         .required = true},
        {"--dtype", CLI_CHOICE, &j.dtype, .words = gguf_type_words("|", types),
         .help = "of the weights; q...: GGUF; packages: f16 unless this says f32", .given = &j.dtype_given},
        {"--tokenizer", CLI_TEXT, &j.vocabulary, .words = "FILE",
         .help = "the vocabulary for a folder or GGUF, where it is not beside the model"},
        {"--merge", CLI_TEXT, &j.adapter, .words = "DIR", .help = "a LoRA adapter that is added to the weights first"},
        {"--dialect", CLI_CHOICE, &j.dialect, .words = "short|canonical", .help = "of MIL text",
         .given = &j.dialect_given},
        {NULL, CLI_HEADING, NULL, .help = "a language model as a .mlpackage or .mil:"},
        {"--context", CLI_INT, &j.exported.context, 0, 1e9, "N",
         "positions of its cache; 0: the model's own, at most 2048", .given = &j.context_given},
        {"--tokens", CLI_TEXT, &j.tokens, .words = "1,64", .help = "how many tokens a call may take; 1,64 if left out"},
        {"--stateless", CLI_INT, &j.exported.stateless, 1, 1e6, "N", "no cache, N tokens a call; runs from iOS 15 on",
         .given = &j.stateless_given},
    };
    int code = cli_parse(
        argc, argv, flags, sizeof flags / sizeof flags[0], "convert IN OUT [--dtype TYPE] [--dialect short|canonical]",
        "Writes a model in another form, or a MIL program in another dialect. The name of OUT says which.");
    if (code >= 0) return code;
    const bool mil = text_ends_with(j.to, ".mil");
    const bool package =
        text_ends_with(j.to, ".mlpackage") || text_ends_with(j.to, ".mlpackage/"); /* a shell's slash */
    const bool exports = (mil || package) && run_is_model(j.from);
    propane_error err = {0};
    file_map map;
    if (!file_is_dir(j.from)) { /* a file that cannot be read is no question of flags */
        if (file_map_open(j.from, &map, &err) != PROPANE_OK) return cli_error("convert", &err);
        file_map_close(&map);
    }
    code = cmd_convert_check_use(&j, mil, package, exports);
    if (code >= 0) return code;
    const propane_dialect dialect = strcmp(j.dialect, "short") == 0 ? PROPANE_MIL_SHORT : PROPANE_MIL_CANONICAL;
    j.exported.dtype = j.dtype_given && strcmp(j.dtype, "f32") == 0 ? MIL_fp32 : MIL_fp16;
    propane_status status = exports ? cmd_convert_export(j.from, j.adapter, j.to, package, dialect, &j.exported, &err)
                            : mil || package ? cmd_convert_program(j.from, j.to, package, dialect, &err)
                                             : cmd_convert_model(j.from, j.adapter, j.to, j.vocabulary, j.dtype, &err);
    return status == PROPANE_OK ? CLI_OK : cli_error("convert", &err);
}
