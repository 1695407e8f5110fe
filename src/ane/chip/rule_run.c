/* SPDX-License-Identifier: MIT
 * Owns the checks of what happens at run time: the surfaces of a request, and the calls of a process over its life.
 */
#include <string.h>

#include "ane/chip/check.h"
#include "ane/chip/rule.h"
#include "core/base/map.h"

/* ---- requests ----------------------------------------------------------------------------------------------------------- */

static bool rule_run_unequal(const char *what, const chip_surface *s, int count, char out[CHIP_TEXT_BYTES]) {
    for (int i = 1; i < count; i++)
        if (s[i].bytes != s[0].bytes)
            return chip_found(out, "%s '%.60s' has %zu bytes and '%.60s' %zu", what, s[0].name, s[0].bytes, s[i].name,
                              s[i].bytes);
    return false;
}

bool chip_rule_surface_sizes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_request *r = view->request;
    return rule_run_unequal("input", r->inputs, r->input_count, out) ||
           rule_run_unequal("output", r->outputs, r->output_count, out);
}

static bool rule_run_unsorted(const chip_surface *s, int count, char out[CHIP_TEXT_BYTES]) {
    for (int i = 1; i < count; i++)
        if (strcmp(s[i - 1].name, s[i].name) > 0)
            return chip_found(out, "'%.60s' precedes '%.60s'", s[i - 1].name, s[i].name);
    return false;
}

bool chip_rule_surface_order(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_request *r = view->request;
    return rule_run_unsorted(r->inputs, r->input_count, out) || rule_run_unsorted(r->outputs, r->output_count, out);
}

static bool rule_run_too_small(mil_value *const *values, int value_count, const chip_surface *s, int count,
                               size_t row_bytes, char out[CHIP_TEXT_BYTES]) {
    piece_map last = {0};
    bool known = true, found = false;
    for (int i = 0; i < count && known; i++) {
        int32_t *at = piece_map_enter(&last, s[i].name, strlen(s[i].name), i);
        known = at != NULL;
        if (at) *at = i;
    }
    for (int i = 0; i < value_count && known && !found; i++) {
        const int at = piece_map_index(&last, values[i]->name);
        const size_t need = chip_surface_bytes(&values[i]->type, row_bytes);
        found = at >= 0 && s[at].bytes < need;
        if (found)
            chip_found(out, "the surface of '%.60s' has %zu bytes; padded rows need %zu", values[i]->name, s[at].bytes,
                       need);
    }
    piece_map_deinit(&last);
    return found;
}

bool chip_rule_surface_bytes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_request *r = view->request;
    const mil_function *f = r->function;
    return rule_run_too_small(f->params, f->param_count, r->inputs, r->input_count, r->row_bytes, out) ||
           rule_run_too_small(f->results, f->result_count, r->outputs, r->output_count, r->row_bytes, out);
}

static bool rule_run_miscounted(mil_value *const *values, int value_count, const chip_surface *s, int count,
                                char out[CHIP_TEXT_BYTES]) {
    piece_map times = {0};
    bool known = true, found = false;
    for (int i = 0; i < count && known; i++) {
        int32_t *at = piece_map_enter(&times, s[i].name, strlen(s[i].name), 0);
        known = at != NULL;
        if (at) ++*at;
    }
    for (int i = 0; i < value_count && known && !found; i++) {
        const int32_t *at = piece_map_find(&times, values[i]->name, strlen(values[i]->name));
        found = !at || *at != 1;
        if (found) chip_found(out, "'%.60s' is bound %d times", values[i]->name, at ? (int)*at : 0);
    }
    piece_map_deinit(&times);
    return found || (count != value_count && chip_found(out, "%d surfaces for %d values", count, value_count));
}

bool chip_rule_surface_count(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_request *r = view->request;
    const mil_function *f = r->function;
    return rule_run_miscounted(f->params, f->param_count, r->inputs, r->input_count, out) ||
           rule_run_miscounted(f->results, f->result_count, r->outputs, r->output_count, out);
}

bool chip_rule_surface_offset(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_request *r = view->request;
    for (int i = 0; i < r->input_count + r->output_count; i++) {
        const chip_surface *s = i < r->input_count ? &r->inputs[i] : &r->outputs[i - r->input_count];
        if (s->offset) return chip_found(out, "'%.60s' begins at byte %zu of its surface", s->name, s->offset);
    }
    return false;
}

bool chip_rule_procedure(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_request *r = view->request;
    return (r->procedure < 0 || r->procedure >= r->procedure_count) &&
           chip_found(out, "procedure %d of %d", r->procedure, r->procedure_count);
}

/* ---- processes ---------------------------------------------------------------------------------------------------------- */

static bool rule_run_more(const chip_view *view, int64_t count, const char *what, char out[CHIP_TEXT_BYTES]) {
    double most = view->process->budget ? (double)view->process->budget : view->limit->value;
    return (double)count > most && chip_found(out, what, (long long)count, most);
}

bool chip_rule_compiles(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_run_more(
        view, view->process->compiles,
        "this would be compile %lld of this process; after about %.0f the compiler fails without giving a reason", out);
}
bool chip_rule_loaded(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_run_more(view, view->process->loaded,
                         "this would be program number %lld loaded at the same time; the maximum is %.0f", out);
}
bool chip_rule_evaluations(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_run_more(view, view->process->evaluations, "%lld evaluations; chips like this slow down after %.0f",
                         out);
}
bool chip_rule_in_flight(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_run_more(view, view->process->in_flight, "%lld requests are in flight; the maximum is %.0f", out);
}
bool chip_rule_same_model(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_run_more(view, view->process->same_model_in_flight,
                         "%lld requests of one loaded program are in flight; the maximum is %.0f", out);
}
bool chip_rule_overwritten(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->process->weights_overwritten &&
           chip_found(out, "a weight file was rewritten and loaded without a compile");
}
bool chip_rule_failed_compile(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    double s = view->process->since_failed_compile_s;
    return s > 0 && s < view->limit->value && chip_found(out, "a compile failed %.1f s ago", s);
}
bool chip_rule_forked(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->process->forked && chip_found(out, "the process was forked after the framework was opened");
}
bool chip_rule_weights_nil(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->process->weights_nil && chip_found(out, "weights is nil");
}
bool chip_rule_text_as_string(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->process->text_as_string && chip_found(out, "the program is an NSString");
}
bool chip_rule_overlapped_compile(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->process->compiles_while_running && chip_found(out, "a compilation overlaps an evaluation");
}
bool chip_rule_mlmodel(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->process->compiles_through_mlmodel && chip_found(out, "it compiles through MLModel");
}
