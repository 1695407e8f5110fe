/* SPDX-License-Identifier: MIT
 * Owns the page of a program's graph as a single file. The page's policy allows only its own style and script, which it
 * names by their hashes. Data in the page cannot end the element that holds them. `propane show`, `check` and `diff`
 * use the same page with different data.
 */
#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "core/base/words.h"
#include "core/run/public.h"
#include "report/page/page_parts.h"
#include "report/show.h"

/* Writes the SHA-256 of a text in base64, as the policy needs it. */
static void api_page_put_hash(text *out, const char *s) {
    uint8_t d[32];
    sha256 h;
    sha256_init(&h);
    sha256_update(&h, s, strlen(s));
    sha256_final(&h, d);
    text_append_base64(out, d, sizeof d);
}

/* Writes JSON for a script element. Escapes '<', '>' and '&', because '<' could end the element or begin a comment in
 * it. */
static void api_page_put_data(text *out, const char *json) {
    for (const char *at = json; *at;) {
        const size_t n = strcspn(at, "<>&");
        text_append_n(out, at, n);
        at += n;
        if (*at) text_printf(out, "\\u%04x", *at++);
    }
}

static void api_page_write(const char *json, text *out) {
    text_append(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
                     "style-src 'sha256-");
    api_page_put_hash(out, page_style);
    text_append(out, "'; script-src 'sha256-");
    api_page_put_hash(out, page_script);
    text_printf(out,
                "'; base-uri 'none'; form-action 'none'\">\n"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                "<meta name=\"generator\" content=\"propane %s\"><link rel=\"icon\" href=\"data:,\">\n"
                "<title>Model graph</title>\n<style>",
                PROPANE_VERSION);
    text_append(out, page_style);
    text_append(out, "</style></head>\n");
    text_append(out, page_body);
    text_append(out, "<script type=\"application/json\" id=\"data\">");
    api_page_put_data(out, json);
    text_append(out, "</script>\n<script>");
    text_append(out, page_script);
    text_append(out, "</script></body></html>\n");
}

/* Returns a JSON number, or "nan" for infinities and NaN, which JSON lacks. */
static json_t *api_page_real(double x) { return isfinite(x) ? json_real(x) : json_string("nan"); }

static propane_status api_page_put_values(const page *p, const char *function, propane_error *err) {
    const char *first = (const char *)p->options->values;
    for (int i = 0; i < p->options->value_count; i++) {
        propane_page_value v = {0};
        PROPANE_TRY(api_take(&v, sizeof v, first + (size_t)i * p->options->values->size, "propane_page_value", err));
        if (!v.name) return propane_fail(err, PROPANE_ERR_INVALID, "propane_page_options: values[%d] has no name", i);
        json_t *node = page_graph_find(p, function, v.name);
        if (!node) continue;
        if (v.us >= 0) json_put(node, "us", json_real(v.us));
        if (!v.compared) continue;
        json_t *d = json_array();
        json_add(d, api_page_real(v.largest));
        json_add(d, api_page_real(v.mean));
        json_add(d, api_page_real(v.scale));
        json_add(d, api_page_real(v.broken ? NAN : v.scale > 0 ? v.largest / v.scale : v.largest));
        json_put(node, "d", d);
    }
    return PROPANE_OK;
}

static const char *api_page_base(const char *path) {
    const size_t n = path ? strlen(path) : 0;
    const char *at = path ? path + n : "";
    while (at > path && (at[-1] != '/' || at == path + n)) at--;
    return at;
}

static propane_status api_page_fill(page *p, propane_error *err) {
    const propane_page_options *o = p->options;
    const char *function = o->function ? o->function : propane_module_default_function(p->m);
    if (o->colour && !words_have("kind|verdict|cost|time|error", '|', o->colour))
        return propane_fail(err, PROPANE_ERR_INVALID, "colour '%.40s' is not one of kind, verdict, cost, time, error",
                            o->colour);
    const mil_function *f = function ? mil_module_function(p->m, function, err) : p->m->functions;
    if (!f) return err->status;
    json_put(p->root, "title", page_words(o->title ? o->title : api_page_base(p->m->source)));
    json_put(p->root, "lead", page_words(o->lead));
    json_put(p->root, "mode", json_string("Propane"));
    json_put(p->root, "colour", json_string(o->colour ? o->colour : "kind"));
    json_put(p->root, "tolerance", api_page_real(o->tolerance));
    json_put(p->root, "verdicts", json_false());
    json_put(p->root, "model", api_show_module_json(p->m));
    PROPANE_TRY(page_graphs_make(p, err));
    for (int i = 0; i < p->graph_count; i++)
        if (p->graphs[i].f == f) json_put(p->root, "start", json_integer(i));
    PROPANE_TRY(page_chips_judge(p, err));
    return api_page_put_values(p, f->name, err);
}

propane_status propane_module_page(const propane_module *module, const propane_page_options *options, char **out,
                                   size_t *length, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, module, out);
    API_ERROR(err);
    propane_page_options o = {0};
    text html = {0};
    char *json = NULL;
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_page_options", err));
    PROPANE_TRY(need_list(err, "propane_page_options", "values", "value_count", o.values, o.value_count));
    const propane_check_options check = {.size = sizeof check, .target = o.target, .os = o.os, .path = o.path};
    PROPANE_TRY(propane_check_options_test(&check, err));
    page p = {.m = module, .options = &o, .arena = arena_create(), .root = json_object()};
    propane_status status = p.arena && p.root ? api_page_fill(&p, err) : propane_fail_memory(err, sizeof p);
    if (!status) status = json_print(p.root, JSON_COMPACT | JSON_REAL_PRECISION(6), &json, NULL, err);
    if (!status) api_page_write(json, &html);
    mem_free(json);
    json_decref(p.root);
    arena_free(p.arena);
    if (!status) status = api_give_text(&html, out, length, err);
    text_deinit(&html);
    return status;
}
