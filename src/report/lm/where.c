/* SPDX-License-Identifier: MIT
 * Owns the output of `propane where` as text, JSON or Markdown. One table per chip has each unit's time for 1,000
 * tokens, the reason, and the command to run.
 */
#include <string.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/run/public_plan.h"
#include "report/lm/where_rows.h"

static const char *const where_kinds[] = {"full", "lora", "forward"};
static const char *const where_goals[] = {"time", "joules", "background"};

static int where_find(const char *const *names, int count, const char *name) {
    int i = 0;
    while (i < count && strcmp(names[i], name) != 0) i++;
    return i;
}

/* ---- as text ---------------------------------------------------------------------------------------------------------------- */

static int where_plan_width(const where_rows *rows) {
    int width = 4;
    for (int i = 0; i < rows->count; i++)
        if ((int)strlen(rows->list[i].plan) > width) width = (int)strlen(rows->list[i].plan);
    return width;
}

static void where_print_row(text *to, const where_row *r, int width) {
    char memory[32];
    text_printf(to, "%-6s  %-*s ", where_unit_name(r->unit), width, r->plan);
    if (!r->known) {
        text_append(to, "-\n");
        return;
    }
    text_printf(to, "%7.1f ", r->ms);
    if (r->high_ms > r->low_ms)
        text_printf(to, "(%.0f to %.0f)%*s", r->low_ms, r->high_ms,
                    r->high_ms < 100    ? 4
                    : r->high_ms < 1000 ? 2
                                        : 0,
                    "");
    else
        text_printf(to, "%-14s", "(stated)");
    if (r->high_joules > r->low_joules)
        text_printf(to, " %6.2f (%5.2f to %5.2f)", r->joules, r->low_joules, r->high_joules);
    else if (r->joules > 0)
        text_printf(to, " %6.2f %-16s", r->joules, "(stated)");
    else
        text_printf(to, " %6s %-16s", "-", "");
    if (r->joules > 0)
        text_printf(to, " %5.1f", r->joules / r->ms * 1e3);
    else
        text_printf(to, " %5s", "-");
    text_printf(to, " %9s", r->memory > 0 ? text_bytes(memory, r->memory) : "-");
    if (r->unit == WHERE_ENGINE) text_printf(to, " %7.1f s", r->compile_s);
    text_append(to, "\n");
}

static void where_print_best(text *to, const where_question *q, const where_rows *rows) {
    const char *goal = where_goals[q->goal];
    if (rows->best < 0) {
        text_printf(to, "for %s: no unit of this chip is known to support it\n", goal);
        return;
    }
    const where_row *best = &rows->list[rows->best];
    text_printf(to, "for %s: %s%s%s%s", goal, where_unit_name(best->unit), *best->plan ? " (" : "", best->plan,
                *best->plan ? ")" : "");
    if (rows->rival >= 0)
        text_printf(to, "; but %s (%s) is within the error of both estimates",
                    where_unit_name(rows->list[rows->rival].unit), rows->list[rows->rival].plan);
    text_append(to, "\n");
    if (rows->contradicts)
        text_append(to, "    published trainers are slower on this engine than on another unit: measure both before "
                        "you rely on it\n");
    if (best->line)
        text_printf(to, "    %s\n", best->line);
    else
        text_append(to, "    with that software; Propane does not use the GPU\n");
}

static void where_print(text *to, const where_question *q, const chip *c, const where_rows *rows) {
    const int width = where_plan_width(rows);
    text_printf(to, "%s, %s: %s", c->title, q->model,
                q->kind == COST_WORK_FULL   ? "training all weights"
                : q->kind == COST_WORK_LORA ? "training adapters"
                                            : "forward pass");
    if (q->lora) text_printf(to, " of rank %lld", (long long)q->lora->rank);
    text_printf(to, ", batch %lld x %lld", (long long)q->batch, (long long)q->context);
    if (q->kind != COST_WORK_FORWARD) text_printf(to, ", update after %lld", (long long)q->accumulate);
    text_printf(to, "; estimated per 1,000 tokens\n%-6s  %-*s %7s %-14s %6s %-16s %5s %9s %9s\n", "unit", width, "plan",
                "ms", "", "J", "", "W", "memory", "compile");
    for (int i = 0; i < rows->count; i++) where_print_row(to, &rows->list[i], width);
    for (int i = 0; i < rows->count; i++) {
        const where_row *r = &rows->list[i];
        text_printf(to, "  %s%s%.*s: %s", where_unit_name(r->unit), r->unit <= WHERE_OTHERS ? ", " : "",
                    r->unit <= WHERE_OTHERS ? (int)strcspn(r->plan, ",") : 0, r->plan, r->reason);
        if (r->known) text_printf(to, "; held-out error %s", r->error);
        text_append(to, "\n");
    }
    where_print_best(to, q, rows);
}

/* ---- as JSON ---------------------------------------------------------------------------------------------------------------- */

static json_t *where_json_row(const where_row *r) {
    json_t *out = json_pack("{s:s, s:s, s:b, s:s}", "unit", where_unit_name(r->unit), "plan", r->plan, "known",
                            r->known, "reason", r->reason);
    const struct {
        const char *name;
        double value;
        bool has;
    } figures[] = {{"ms", r->ms, true},
                   {"low_ms", r->low_ms, true},
                   {"high_ms", r->high_ms, true},
                   {"joules", r->joules, r->joules > 0},
                   {"low_joules", r->low_joules, r->joules > 0},
                   {"high_joules", r->high_joules, r->joules > 0},
                   {"watts", r->ms > 0 ? r->joules / r->ms * 1e3 : 0, r->joules > 0},
                   {"engine_joules", r->engine_j, r->unit <= WHERE_OTHERS},
                   {"host_joules", r->host_j, r->unit <= WHERE_OTHERS},
                   {"memory_joules", r->memory_j, r->unit == WHERE_ENGINE},
                   {"idle_joules", r->idle_j, r->unit <= WHERE_OTHERS},
                   {"host_share", r->host_share, r->unit == WHERE_ENGINE || r->unit == WHERE_PROCESSOR},
                   {"memory_bytes", r->memory, r->memory > 0},
                   {"compile_s", r->compile_s, r->unit == WHERE_ENGINE}};
    json_put(out, "published_trainers", json_boolean(r->unit == WHERE_OTHERS));
    for (size_t i = 0; r->known && i < sizeof figures / sizeof figures[0]; i++)
        if (figures[i].has) json_put(out, figures[i].name, json_real(figures[i].value));
    if (r->known) json_put(out, "held_out_error", json_string(r->error));
    if (r->line) json_put(out, "command", json_string(r->line));
    return out;
}

static json_t *where_json(const where_question *q, const chip *c, const where_rows *rows) {
    json_t *list = json_array();
    for (int i = 0; i < rows->count; i++) json_add(list, where_json_row(&rows->list[i]));
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "kind", "estimated", "chip", c->name,
                            "model", q->model, "mode", where_kinds[q->kind], "goal", where_goals[q->goal], "lora_rank",
                            (json_int_t)(q->lora ? q->lora->rank : 0), "batch", (json_int_t)q->batch, "context",
                            (json_int_t)q->context, "accumulate", (json_int_t)q->accumulate, "rows", list);
    if (api_plan_is_sizes(q->model))
        json_put(out, "sizes",
                 json_pack("{s:I, s:I, s:I}", "layers", (json_int_t)q->config->num_hidden_layers, "width",
                           (json_int_t)q->config->hidden_size, "heads", (json_int_t)q->config->num_attention_heads));
    if (rows->best >= 0) json_put(out, "best", json_integer(rows->best));
    if (rows->rival >= 0) json_put(out, "within_errors", json_integer(rows->rival));
    json_put(out, "published_contradict", json_boolean(rows->contradicts));
    return out;
}

/* ---- as Markdown ------------------------------------------------------------------------------------------------------------ */

static void where_markdown(text *to, const chip *c, const where_rows *rows) {
    for (int i = 0; i < rows->count; i++) {
        const where_row *r = &rows->list[i];
        text_printf(to, "| %s | %s | %s | ", c->title, where_unit_name(r->unit), *r->plan ? r->plan : "-");
        if (!r->known) {
            text_printf(to, "- | - | - | %s |\n", r->unit == WHERE_ENGINE ? "refused by a known rule" : "not known");
            continue;
        }
        text_printf(to, "%.0f | ", r->ms);
        if (r->high_joules > r->low_joules)
            text_printf(to, "%.2f (%.1f to %.1f) | ", r->joules, r->low_joules, r->high_joules);
        else if (r->joules > 0)
            text_printf(to, "%.2f | ", r->joules);
        else
            text_append(to, "- | ");
        if (r->unit == WHERE_ENGINE)
            text_printf(to, "%.0f %% | ", 100 * r->host_share);
        else
            text_append(to, r->unit == WHERE_PROCESSOR ? "100 % | " : "- | ");
        text_printf(to, "%s |\n",
                    r->unit == WHERE_GPU      ? r->reason
                    : i == rows->best         ? "the lowest estimate here"
                    : r->unit == WHERE_OTHERS ? "from published logs"
                                              : "");
    }
}

/* ---- the call --------------------------------------------------------------------------------------------------------------- */

static propane_status where_print_chips(const where_question *q, propane_form form, const chip *const *chips, int count,
                                        json_t *json, text *to, propane_error *err) {
    for (int i = 0; i < count; i++) {
        where_rows rows;
        arena *a = arena_create();
        const propane_status status = a ? where_rows_make(q, chips[i], a, &rows, err) : propane_fail_memory(err, 0);
        if (status == PROPANE_OK && json) json_add(json, where_json(q, chips[i], &rows));
        if (status == PROPANE_OK && form == PROPANE_MARKDOWN) where_markdown(to, chips[i], &rows);
        if (status == PROPANE_OK && form == PROPANE_TEXT && i) text_append(to, "\n");
        if (status == PROPANE_OK && form == PROPANE_TEXT) where_print(to, q, chips[i], &rows);
        arena_free(a);
        if (status != PROPANE_OK) return status;
    }
    return PROPANE_OK;
}

static propane_status where_print_all(const where_question *q, propane_form form, const chip *const *chips, int count,
                                      text *to, propane_error *err) {
    char *line = NULL;
    if (form == PROPANE_MARKDOWN)
        text_append(to, "| chip | unit | plan | ms | J | CPU's part | |\n|---|---|---|---:|---:|---:|---|\n");
    if (form != PROPANE_JSON) return where_print_chips(q, form, chips, count, NULL, to, err);
    json_t *json = json_array();
    if (!json) return propane_fail_memory(err, 0);
    propane_status status = where_print_chips(q, form, chips, count, json, to, err);
    if (!status) status = json_print(json, JSON_INDENT(1) | JSON_REAL_PRECISION(6), &line, NULL, err);
    if (line) text_printf(to, "%s\n", line);
    mem_free(line);
    json_decref(json);
    return status;
}

/* Checks the words and sizes of the options and copies them to `q`. Fills in `lora` if adapters are requested. */
static propane_status where_take(const propane_where_options *o, where_question *q, model_lora *lora,
                                 propane_error *err) {
    const char *mode = o->mode ? o->mode : o->lora_rank > 0 ? "lora" : "full", *goal = o->goal ? o->goal : "time";
    q->kind = (cost_work_kind)where_find(where_kinds, COST_WORK_COUNT, mode);
    q->goal = (where_goal)where_find(where_goals, WHERE_GOALS, goal);
    if (q->kind == COST_WORK_COUNT)
        return propane_fail(err, PROPANE_ERR_INVALID, "mode '%.40s' is not one of full, lora, forward", mode);
    if (q->goal == WHERE_GOALS)
        return propane_fail(err, PROPANE_ERR_INVALID, "goal '%.40s' is not one of time, joules, background", goal);
    if (o->lora_rank < 0 || o->batch < 0 || o->context < 0 || o->accumulate < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "rank, batch, context and accumulate must not be negative");
    if (o->lora_rank > 0 && q->kind != COST_WORK_LORA)
        return propane_fail(err, PROPANE_ERR_INVALID, "lora-rank %lld needs mode lora, not %s", (long long)o->lora_rank,
                            mode);
    PROPANE_TRY(api_plan_check_stream(o->stream, err));
    q->stream = o->stream;
    *lora = (model_lora){.rank = o->lora_rank > 0 ? o->lora_rank : 8};
    lora->alpha = (double)lora->rank;
    q->batch = o->batch ? o->batch : 1;
    q->accumulate = o->accumulate ? o->accumulate : 10;
    q->data = o->data ? o->data : "DATA";
    q->lora = q->kind == COST_WORK_LORA ? lora : NULL;
    return PROPANE_OK;
}

propane_status propane_where(const char *model, const propane_where_options *options, propane_form form, char **out,
                             propane_error *err) {
    if (out) *out = NULL;
    NEED(err, model, out);
    NEED_TEXT(err, model);
    NEED_FORM(err, form, 1 << PROPANE_TEXT | 1 << PROPANE_JSON | 1 << PROPANE_MARKDOWN);
    API_ERROR(err);
    propane_where_options o = {0};
    where_question q = {.model = model};
    model_config config;
    model_lora lora;
    const chip *chips[CHIP_COUNT];
    int count = 0;
    text to = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_where_options", err));
    PROPANE_TRY(where_take(&o, &q, &lora, err));
    PROPANE_TRY(chip_find_list(o.target ? o.target : "m4", chips, &count, err));
    PROPANE_TRY(api_plan_config(model, &config, err));
    if (q.lora) PROPANE_TRY(model_lora_choose(&lora, &config, "", err));
    q.config = &config;
    q.context = o.context ? o.context : config.max_position_embeddings < 256 ? config.max_position_embeddings : 256;
    propane_status status = where_print_all(&q, form, chips, count, &to, err);
    if (!status) status = api_give_text(&to, out, NULL, err);
    text_deinit(&to);
    return status;
}
