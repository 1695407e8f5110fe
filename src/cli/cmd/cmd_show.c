/* SPDX-License-Identifier: MIT
 * propane show FILE: what is in a file, told by its content: MIL text, weight files, safetensors, llama2.c checkpoints,
 * model folders, tokenizers, token files, compiled programs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cmd/show_compiled.h"
#include "cli/cmd/show_examples.h"
#include "mil/coreml/blob.h"
#include "mil/coreml/package.h"
#include "mil/ops.h"
#include "mil/text/mil_text.h"
#include "model/files/gguf.h"
#include "model/files/safetensors.h"
#include "model/files/store.h"
#include "model/text/tokenizer.h"
#include "model/text/tokens.h"
#include "train/data/jsonl.h"

/* ---- MIL --------------------------------------------------------------------------------------------------------------- */

static void cmd_show_values(const char *title, mil_value *const *values, int count) {
    char type[160];
    for (int i = 0; i < count; i++)
        printf("  %s %s %s\n", i ? "       " : title, mil_type_print(type, &values[i]->type), values[i]->name);
}

static void cmd_show_function(const mil_function *f) {
    int counts[MIL_OP_COUNT] = {0};
    double flops = 0, constants = 0;
    for (const mil_op *op = f->first; op; op = op->next) {
        mil_cost cost;
        counts[op->info->code]++;
        mil_op_cost(op, &cost);
        flops += cost.flops;
        if (op->info->code == MIL_OP_const) constants += (double)mil_type_bytes(&op->results[0]->type);
    }
    char bytes[32];
    printf("func %s<%s>: %d operations, %.4g MFLOP, constants %s\n", f->name, mil_opset_name(f->opset), f->op_count,
           flops / 1e6, text_bytes(bytes, constants));
    cmd_show_values("input  ", f->params, f->param_count);
    cmd_show_values("output ", f->results, f->result_count);
    printf("  ops    ");
    for (int i = 0, shown = 0; i < MIL_OP_COUNT; i++)
        if (counts[i]) printf("%s%s %d", shown++ ? ", " : " ", mil_op_get((mil_opcode)i)->name, counts[i]);
    printf("\n");
}

static propane_status cmd_show_mil(const char *path, propane_error *err) {
    mil_module *m = NULL;
    PROPANE_TRY(mil_read(path, NULL, &m, err));
    printf("%s: MIL program(%d.%d), %d function%s\n", path, m->version_major, m->version_minor, m->function_count,
           m->function_count == 1 ? "" : "s");
    for (int i = 0; i < m->build_info_count; i++)
        printf("  %s = \"%s\"\n", m->build_info[i].key, m->build_info[i].value);
    for (const mil_function *f = m->functions; f; f = f->next) cmd_show_function(f);
    mil_module_free(m);
    return PROPANE_OK;
}

static propane_status cmd_show_blob(const char *path, propane_error *err) {
    mil_blob_file *file = NULL;
    PROPANE_TRY(mil_blob_open(path, &file, err));
    printf("%s: MILBlob version 2, header counts %" PRIu32 " records\n  %10s %-7s %12s %s\n", path,
           mil_blob_count(file), "offset", "type", "bytes", "elements");
    mil_blob blob;
    uint64_t at = 0;
    propane_status status;
    int records = 0;
    while ((status = mil_blob_next(file, &at, &blob, err)) == PROPANE_OK) {
        const mil_dtype_info *type = mil_dtype_get(blob.dtype);
        printf("  %10" PRIu64 " %-7s %12" PRIu64 " %" PRIu64 "\n", blob.offset, type->name, blob.bytes,
               (blob.bytes * 8 - (uint64_t)blob.padding_bits) / (uint64_t)type->bits);
        records++;
    }
    printf("  %d record%s\n", records, records == 1 ? "" : "s");
    mil_blob_close(file);
    return status == PROPANE_ERR_NOT_FOUND ? PROPANE_OK : status;
}

/* ---- models and text ------------------------------------------------------------------------------------------------------ */

static void cmd_show_config(const model_config *c) {
    static const char *const scalings[] = {"", ", linear", ", llama3"};
    printf("  %s: %" PRId64 " layers, width %" PRId64 ", hidden %" PRId64 ", %" PRId64 " heads of %" PRId64 " (%" PRId64
           " for keys and values),\n  vocabulary %" PRId64 ", context %" PRId64 ", ",
           c->model_type, c->num_hidden_layers, c->hidden_size, c->intermediate_size, c->num_attention_heads,
           c->head_dim, c->num_key_value_heads, c->vocab_size, c->max_position_embeddings);
    if (model_arch_of(c)->position == ARCH_LEARNED)
        printf("learned positions");
    else
        printf("rope theta %g%s", c->rope_theta, scalings[c->rope_scaling]);
    if (c->rope_scaling != MODEL_ROPE_PLAIN) printf(" by %g", c->rope_factor);
    printf(", norm epsilon %g, %s head\n", c->rms_norm_eps, c->tie_word_embeddings ? "tied" : "separate");
}

static propane_status cmd_show_safetensors(const char *path, propane_error *err) {
    safetensors *s = NULL;
    PROPANE_TRY(safetensors_open(path, &s, err));
    double bytes = 0, elements = 0;
    char size[32];
    for (int i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        bytes += (double)t->bytes;
        elements += (double)t->count;
    }
    printf("%s: safetensors, %d tensors, %.0f elements, %s\n", path, safetensors_count(s), elements,
           text_bytes(size, bytes));
    for (int i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        printf("  %-5s %-60s [", safetensors_dtype_name(t->dtype), t->name);
        for (int d = 0; d < t->rank; d++) printf("%s%" PRId64, d ? ", " : "", t->dim[d]);
        printf("]\n");
    }
    safetensors_close(s);
    return PROPANE_OK;
}

static propane_status cmd_show_model(const char *path, model_form form, propane_error *err) {
    model_config config;
    propane_status status = model_store_config(path, &config, err);
    if (form == MODEL_FORM_SAFETENSORS) { /* a file without a configuration still has tensors to show */
        PROPANE_TRY(cmd_show_safetensors(path, err));
        if (status == PROPANE_OK) cmd_show_config(&config);
        return PROPANE_OK;
    }
    PROPANE_TRY(status);
    printf("%s: %s\n", path, form == MODEL_FORM_DIR ? "a model's folder" : "llama2.c checkpoint, version 0");
    cmd_show_config(&config);
    return PROPANE_OK;
}

static void cmd_show_gguf_value(const gguf_value *v) {
    printf("  %-44s ", v->key);
    if (v->type == GGUF_TEXT) {
        char shown[80];
        printf("%s\n", text_quote(shown, (const char *)v->data, (size_t)v->bytes));
    } else if (v->type == GGUF_ARRAY)
        printf("list of %" PRIu64 "\n", v->count);
    else if (v->type == GGUF_F32 || v->type == GGUF_F64)
        printf("%g\n", gguf_item_real(v, 0));
    else
        printf("%" PRId64 "\n", gguf_item_int(v, 0));
}

static propane_status cmd_show_gguf(const char *path, propane_error *err) {
    gguf *g = NULL;
    model_config config;
    propane_error why = {0};
    PROPANE_TRY(gguf_open(path, &g, err));
    printf("%s: GGUF, %d keys, %d tensors\n", path, gguf_value_count(g), gguf_tensor_count(g));
    for (int i = 0; i < gguf_value_count(g); i++) cmd_show_gguf_value(gguf_value_at(g, i));
    for (int i = 0; i < gguf_tensor_count(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        printf("  %-5s %-60s [", t->type->name, t->name);
        for (int d = t->rank - 1; d >= 0; d--) printf("%" PRId64 "%s", t->dim[d], d ? ", " : "");
        printf("]\n");
    }
    if (gguf_config(g, &config, &why) == PROPANE_OK)
        cmd_show_config(&config);
    else
        printf("  Propane cannot use it: %s\n", why.text);
    gguf_close(g);
    return PROPANE_OK;
}

static propane_status cmd_show_tokenizer(const char *path, propane_error *err) {
    tokenizer *t = NULL;
    PROPANE_TRY(tokenizer_read(path, &t, err));
    printf("%s: tokenizer, kind %s, %d ids, bos %d, eos %d\n  sha256 %s\n", path,
           tokenizer_kind_name(tokenizer_get_kind(t)), tokenizer_vocab_size(t), tokenizer_bos(t), tokenizer_eos(t),
           tokenizer_hash(t));
    tokenizer_free(t);
    return PROPANE_OK;
}

static propane_status cmd_show_tokens(const char *path, propane_error *err) {
    token_file t;
    PROPANE_TRY(token_file_open(path, &t, err));
    printf("%s: token file, %" PRId64 " tokens of %" PRId64 " bytes of text, vocabulary %" PRId64
           ", %d bytes a token\n  tokenizer sha256 %s\n",
           path, t.count, t.text_bytes, t.vocab_size, t.id_bytes, t.tokenizer_hash);
    token_file_close(&t);
    return PROPANE_OK;
}

/* ---- telling files apart -------------------------------------------------------------------------------------------------- */

static bool cmd_show_has_magic(const file_map *map, const char *magic) {
    size_t n = strlen(magic);
    return map->bytes >= n && memcmp(map->data, magic, n) == 0;
}

static bool cmd_show_looks_like_mil(const file_map *map) {
    for (size_t i = 0; i + 7 <= map->bytes && i < 4096; i++)
        if (memcmp(map->data + i, "program", 7) == 0) return true;
    return false;
}

static propane_status cmd_show_show(const char *path, propane_error *err) {
    model_form form;
    if (mil_is_program_folder(path)) return cmd_show_mil(path, err);
    if (file_is_dir(path)) return cmd_show_model(path, MODEL_FORM_DIR, err);
    file_map map;
    PROPANE_TRY(file_map_open(path, &map, err));
    bool blob = map.bytes >= 8 && map.data[4] == 2 && !map.data[5] && !map.data[6] && !map.data[7] &&
                map.bytes >= 128 && map.data[8] == 0 && map.data[64] == 0xEF && map.data[65] == 0xBE;
    bool tokens = token_file_is(map.data, map.bytes), mil = cmd_show_looks_like_mil(&map);
    bool json = map.bytes && map.data[0] == '{', is_gguf = cmd_show_has_magic(&map, "GGUF");
    const size_t length = strlen(path);
    const bool package = length > 8 && strcmp(path + length - 8, ".mlmodel") == 0;
    bool empty = map.bytes == 0;
    file_map_close(&map);
    if (empty) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the file is empty", path);
    if (package) return cmd_show_mil(path, err);
    if (tokens) return cmd_show_tokens(path, err);
    if (is_gguf) return cmd_show_gguf(path, err);
    if (blob) return cmd_show_blob(path, err);
    if (mil && !json) return cmd_show_mil(path, err);
    propane_error why = {0};
    if (model_store_form(path, &form, &why) == PROPANE_OK && !json &&
        (form == MODEL_FORM_SAFETENSORS || model_store_config(path, &(model_config){0}, &why) == PROPANE_OK))
        return cmd_show_model(path, form, err);
    propane_error other = {0};
    model_config config;
    if (cmd_show_tokenizer(path, &other) == PROPANE_OK) return PROPANE_OK;
    if (json && model_config_read(path, &config, &why) == PROPANE_OK) {
        printf("%s: a model's configuration\n", path);
        cmd_show_config(&config);
        return PROPANE_OK;
    }
    if (json && strcmp(other.text, why.text) == 0) return propane_fail(err, other.status, "%s", other.text);
    if (json)
        return propane_fail(err, PROPANE_ERR_INVALID, "neither a tokenizer (%s) nor a model's configuration (%s)",
                            other.text, why.text);
    if (why.status && model_store_form(path, &form, &other) == PROPANE_OK && form == MODEL_FORM_LLAMA2C)
        return propane_fail(err, why.status, "%s", why.text);
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "%s: not a file that Propane knows: MIL text, MILBlob weights, safetensors, GGUF, a llama2.c checkpoint, a "
        "tokenizer, a token file or a compiled program",
        path);
}

/* What the flags of one kind of file say to the others; -1: nothing. */
static int cmd_show_misuse(const char *file, const char *example_flag, bool json, bool words) {
    bool examples = train_jsonl_is(file), compiled = !examples && (json || words) && show_compiled_is(file);
    if (example_flag && !examples) return cli_misuse("show", "%s is for .jsonl files; %s is none", example_flag, file);
    if (json && !examples && !compiled)
        return cli_misuse("show", "--json is for .jsonl files and compiled programs; %s is neither", file);
    if (words && !compiled) return cli_misuse("show", "--words is for compiled programs; %s is none", file);
    return -1;
}

int cmd_show(int argc, char **argv) {
    cli_list files = {0};
    const char *model = NULL, *chat = NULL;
    bool json = false, words = false;
    const cli_flag flags[] = {
        {"FILE...", CLI_TEXT, &files, .help = "files or model folders", .required = true},
        {"--model", CLI_TEXT, &model, .words = "MODEL", .help = "of a .jsonl file: the model that would learn from it"},
        {"--chat", CLI_TEXT, &chat, .words = "NAME",
         .help = "of a .jsonl file: chat format, instead of the model's own"},
        {"--words", CLI_SWITCH, &words, .help = "of a compiled program: every register by field"},
        {"--json", CLI_SWITCH, &json,
         .help = "of a .jsonl file: ids and what is learnt, an object an example; of a compiled program: all of it"}};
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "show FILE...",
                         "Tells what is in a file: programs, weights, models, tokenizers, tokens, instruction data, "
                         "compiled programs.");
    for (int i = 0; code < 0 && i < files.count; i++)
        code = cmd_show_misuse(files.items[i], model ? "--model" : chat ? "--chat" : NULL, json, words);
    if (code >= 0) return code;
    code = CLI_OK;
    for (int i = 0; i < files.count; i++) {
        propane_error err = {0};
        propane_status status;
        if (train_jsonl_is(files.items[i]))
            status = show_examples(files.items[i], model, chat, json, &err);
        else if (show_compiled_is(files.items[i]))
            status = show_compiled(files.items[i], words, json, &err);
        else
            status = cmd_show_show(files.items[i], &err);
        if (status != PROPANE_OK) code = cli_error("show", &err);
    }
    return code;
}
