/* SPDX-License-Identifier: MIT
 * Owns the search. It first finds the shortest refused prefix of the function, which ends with the refused operation.
 * Then it leaves out the earlier operations without which the rest is still refused for the same reason. Last, it makes
 * compressed constants plain if the refusal does not need them.
 *
 * A prefix returns what the rest of the function reads. Inputs and outputs have only types that the function itself has
 * as inputs or outputs, because a program with other types might be refused for these types.
 */
#include "core/refusal/search.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/function_copy.h"
#include "core/mil/ops.h"
#include "core/pass/pass.h"

enum { MOST_QUESTIONS = 300, MOST_CHANGES = 3 };

typedef struct search {
    const mil_function *f;
    search_ask ask;
    void *context;
    search_result *out;
    const mil_op **steps; /* the operations that are not constants */
    int *places;          /* [step]: position of the operation in f */
    int count;
    bool *kept;           /* scratch: [place in f] */
    bool *set;            /* [step]: the operations of a program known to be refused; at the end, the result */
    bool *trial;          /* scratch: [step] */
    const mil_op **plain; /* constexpr operations that are turned into constants */
    int plain_count;
    bool types[MIL_DTYPE_COUNT];
    char why[SEARCH_REASON];   /* the reason in the last answer */
    char cause[SEARCH_REASON]; /* the reason for the refusal, without names and numbers */
    bool closed;
} search;

static bool search_is_constant(const mil_op *op) { return strncmp(op->info->name, "const", 5) == 0; }

int search_operations(const mil_function *f) {
    int count = 0;
    for (const mil_op *op = f->first; op; op = op->next) count += !search_is_constant(op);
    return count;
}

static void search_describe(const mil_op *op, char *out, size_t room) {
    const char *name = mil_op_result_name(op);
    if (name)
        snprintf(out, room, "%s '%.120s'", op->info->name, name);
    else
        snprintf(out, room, "%s", op->info->name);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static bool search_is_plain(void *context, const char *name) {
    const search *s = context;
    for (int i = 0; i < s->plain_count; i++)
        if (strcmp(s->plain[i]->results[0]->name, name) == 0) return true;
    return false;
}

static propane_status search_make(search *s, const bool *set, mil_module **out, propane_error *err) {
    int count = 0;
    memset(s->kept, 0, (size_t)s->f->op_count * sizeof *s->kept);
    for (int i = 0; i < s->count; i++) s->kept[s->places[i]] = set[i];
    PROPANE_TRY(pass_excerpt(s->f, s->kept, s->types, out, err));
    if (!s->plain_count) return PROPANE_OK;
    propane_status status = pass_decompress((*out)->functions, search_is_plain, s, &count, err);
    if (!status) status = mil_verify(*out, err);
    if (status) {
        mil_module_free(*out);
        *out = NULL;
    }
    return status;
}

static propane_status search_put(search *s, const mil_function *f, search_answer *answer, propane_error *err) {
    *answer = SEARCH_CLOSED;
    snprintf(s->why, sizeof s->why, "after %d programs", s->out->asked);
    if (s->out->asked < MOST_QUESTIONS) PROPANE_TRY(s->ask(s->context, f, answer, s->why, err));
    s->closed |= *answer == SEARCH_CLOSED;
    s->out->asked += *answer == SEARCH_TAKEN || *answer == SEARCH_REFUSED;
    s->out->refused += *answer == SEARCH_REFUSED;
    return PROPANE_OK;
}

static propane_status search_try(search *s, const bool *set, search_answer *answer, propane_error *err) {
    mil_module *m = NULL;
    propane_error why = {0};
    propane_status status = search_make(s, set, &m, &why);
    *answer = SEARCH_UNASKED;
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    if (!status)
        status = search_put(s, m->functions, answer, err);
    else
        status = PROPANE_OK;
    mil_module_free(m);
    return status;
}

static propane_status search_try_beginning(search *s, int length, search_answer *answer, propane_error *err) {
    for (int i = 0; i < s->count; i++) s->trial[i] = i < length;
    return search_try(s, s->trial, answer, err);
}

/* Extracts the cause: the reason without quoted names and numbers. An apostrophe is not a quote. */
static void search_cause(const char *why, char out[SEARCH_REASON]) {
    size_t used = 0;
    bool quoted = false;
    for (size_t i = 0; why[i] && used + 1 < SEARCH_REASON; i++) {
        const bool word = i && isalnum((unsigned char)why[i - 1]), next = isalnum((unsigned char)why[i + 1]);
        if (why[i] == '\'' && !(word && next)) quoted = !quoted;
        if (!quoted && !isdigit((unsigned char)why[i])) out[used++] = why[i];
    }
    out[used] = 0;
}

/* Tries a program. Sets *same to whether it is refused for the same cause as the operation. */
static propane_status search_try_same(search *s, const bool *set, bool *same, propane_error *err) {
    search_answer answer;
    char cause[SEARCH_REASON];
    *same = false;
    if (s->closed) return PROPANE_OK;
    PROPANE_TRY(search_try(s, set, &answer, err));
    search_cause(s->why, cause);
    *same = answer == SEARCH_REFUSED && strcmp(cause, s->cause) == 0;
    return PROPANE_OK;
}

/* ---- the shortest refused beginning ------------------------------------------------------------------------------ */

/* Tries the prefixes of lengths between `low` and `high`, upwards from `first` and then downwards, until one is a
 * program that can be tried. Sets *at to its length. *answer is SEARCH_UNASKED if there is none. */
static propane_status search_probe(search *s, int low, int high, int first, int *at, search_answer *answer,
                                   propane_error *err) {
    *answer = SEARCH_UNASKED;
    for (*at = first; *at < high; ++*at) {
        PROPANE_TRY(search_try_beginning(s, *at, answer, err));
        if (*answer != SEARCH_UNASKED) return PROPANE_OK;
    }
    for (*at = first - 1; *at > low; --*at) {
        PROPANE_TRY(search_try_beginning(s, *at, answer, err));
        if (*answer != SEARCH_UNASKED) return PROPANE_OK;
    }
    return PROPANE_OK;
}

/* Narrows the interval between the accepted prefix of length *low and the refused one of length *high. Tries lengths
 * nearer to *low, because refusals are expensive. */
static propane_status search_narrow(search *s, int *low, int *high, propane_error *err) {
    while (*high - *low > 1) {
        search_answer answer;
        const int step = (*high - *low) / 4;
        int at;
        PROPANE_TRY(search_probe(s, *low, *high, *low + (step ? step : 1), &at, &answer, err));
        if (answer == SEARCH_UNASKED || answer == SEARCH_CLOSED) return PROPANE_OK;
        *(answer == SEARCH_TAKEN ? low : high) = at;
    }
    return PROPANE_OK;
}

/* Checks the whole function, whose declaration may contain more than the prefixes do. A refusal counts only if it
 * occurs twice. */
static propane_status search_signature(search *s, propane_error *err) {
    search_answer answer;
    s->out->verdict = SEARCH_PASSES;
    for (int i = 0; i < 2; i++) {
        PROPANE_TRY(search_put(s, s->f, &answer, err));
        if (answer != SEARCH_REFUSED) return PROPANE_OK;
    }
    s->out->verdict = SEARCH_SIGNATURE;
    s->out->operations = s->count;
    snprintf(s->out->reason, sizeof s->out->reason, "%s", s->why);
    mil_module *m = mil_module_create(s->f->module->source);
    mil_function *copy;
    if (!m) return propane_fail_memory(err, sizeof *m);
    s->out->smallest = m;
    return mil_function_copy(s->f, m, s->f->name, &copy, err);
}

/* Finds the shortest refused prefix. Sets *high to its length, or to 0 if the verdict is already known, and *low to the
 * length of an accepted prefix. The refusal that ends the search is tried again. */
static propane_status search_find(search *s, int *low, int *high, propane_error *err) {
    search_answer answer;
    *low = *high = 0;
    PROPANE_TRY(search_try_beginning(s, s->count, &answer, err));
    s->out->verdict = SEARCH_PASSES;
    if (answer == SEARCH_TAKEN || answer == SEARCH_UNASKED) return s->f->owner ? PROPANE_OK : search_signature(s, err);
    *high = s->count;
    while (!s->closed) {
        PROPANE_TRY(search_narrow(s, low, high, err));
        if (s->closed) return PROPANE_OK;
        PROPANE_TRY(search_try_beginning(s, *high, &answer, err));
        if (answer != SEARCH_TAKEN) return PROPANE_OK;
        s->out->verdict = SEARCH_WAVERS;
        const bool more = *high < s->count && ++s->out->changed < MOST_CHANGES;
        *low = *high;
        *high = 0;
        if (more) PROPANE_TRY(search_try_beginning(s, s->count, &answer, err));
        if (!more || answer == SEARCH_TAKEN) return PROPANE_OK;
        *high = s->count;
    }
    return PROPANE_OK;
}

/* ---- the fewest operations in front of it ------------------------------------------------------------------------ */

/* Sets s->set to operation `last` and all operations that its inputs are computed from. */
static void search_choose_ancestors(search *s, int last) {
    memset(s->set, 0, (size_t)s->count * sizeof *s->set);
    s->set[last] = true;
    for (int i = last; i >= 0; i--)
        if (s->set[i])
            MIL_FOR_OPERANDS (s->steps[i], v) {
                for (int k = 0; v->def && k < i; k++) s->set[k] |= s->steps[k] == v->def;
            }
}

/* Sets s->trial to s->set without the steps [from, to). */
static void search_leave_out(search *s, int from, int to) {
    for (int i = 0; i < s->count; i++) s->trial[i] = s->set[i] && (i < from || i >= to);
}

/* Sets *out so that the steps [from, *out) of s->set can be left out at once. s->set is refused, but not without all of
 * [from, to). */
static propane_status search_count_spare(search *s, int from, int to, int *out, propane_error *err) {
    int low = from, high = to;
    while (high - low > 1) {
        const int step = (high - low) / 4, at = high - (step ? step : 1);
        bool same = true;
        for (int i = low; i < at; i++) same &= !s->set[i];
        search_leave_out(s, from, at);
        if (!same) PROPANE_TRY(search_try_same(s, s->trial, &same, err));
        *(same ? &low : &high) = at;
    }
    *out = low;
    return PROPANE_OK;
}

/* Removes from s->set, which is refused, the operations that the refusal does not need, starting at the front. `last`
 * alone is not refused. In each round, the operations that remain before `from` are needed. */
static propane_status search_reduce(search *s, int last, propane_error *err) {
    for (int from = 0, needed = 0; from < last; from = needed + 1) {
        bool same = false;
        search_leave_out(s, from, last);
        if (from) PROPANE_TRY(search_try_same(s, s->trial, &same, err));
        if (same)
            needed = last;
        else
            PROPANE_TRY(search_count_spare(s, from, last, &needed, err));
        if (s->closed) return PROPANE_OK;
        for (int i = from; i < needed; i++) s->set[i] = false;
    }
    return PROPANE_OK;
}

static propane_status search_shrink(search *s, int last, propane_error *err) {
    bool same;
    s->plain_count = 0;
    memset(s->set, 0, (size_t)s->count * sizeof *s->set);
    s->set[last] = true;
    const int asked = s->out->asked;
    PROPANE_TRY(search_try_same(s, s->set, &same, err));
    s->out->verdict = same ? SEARCH_ALONE : s->out->asked > asked ? SEARCH_TOGETHER : SEARCH_BOUND;
    if (same || s->closed) return PROPANE_OK;
    search_choose_ancestors(s, last);
    PROPANE_TRY(search_try_same(s, s->set, &same, err));
    for (int i = 0; !same && i < s->count; i++) s->set[i] = i <= last;
    return search_reduce(s, last, err);
}

/* ---- compressed constants ---------------------------------------------------------------------------------------- */

/* Turns the smallest program's compressed constants into plain ones if the refusal does not need them. The first one
 * that must remain is the operation that is refused; *guilty is NULL if there is none. */
static propane_status search_plain(search *s, const mil_op **guilty, propane_error *err) {
    mil_module *m = NULL;
    propane_status status = search_make(s, s->set, &m, err);
    *guilty = NULL;
    for (const mil_op *op = status ? NULL : m->functions->first; op && !status && !s->closed; op = op->next) {
        const mil_op *own = s->f->first;
        if (!search_is_constant(op) || op->info->code == MIL_OP_const) continue;
        while (own && !(own->info == op->info && strcmp(own->results[0]->name, op->results[0]->name) == 0))
            own = own->next;
        bool same = false;
        s->plain[s->plain_count] = own;
        if (!own) continue;
        s->plain_count++;
        status = search_try_same(s, s->set, &same, err);
        if (same) continue;
        s->plain_count--;
        if (!*guilty) *guilty = own;
    }
    mil_module_free(m);
    return status;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static void search_name_others(search *s, int but) {
    size_t used = 0;
    for (int i = 0; i < s->count && used < sizeof s->out->others; i++) {
        char name[200];
        s->out->operations += s->set[i];
        if (!s->set[i] || i == but) continue;
        search_describe(s->steps[i], name, sizeof name);
        used += (size_t)snprintf(s->out->others + used, sizeof s->out->others - used, "%s%s", used ? ", " : "", name);
    }
}

static propane_status search_name(search *s, int last, const mil_op *guilty, propane_error *err) {
    s->out->place = last + 1;
    s->out->operations = 0;
    s->out->others[0] = 0;
    search_describe(guilty ? guilty : s->steps[last], s->out->name, sizeof s->out->name);
    search_name_others(s, guilty ? -1 : last);
    if (guilty) s->out->verdict = SEARCH_BOUND;
    return search_make(s, s->set, &s->out->smallest, err);
}

/* Sets *holds to whether the program is refused twice more. Then finds out whether the rest without the operation is
 * refused as well. */
static propane_status search_confirm(search *s, int last, bool *holds, propane_error *err) {
    search_answer answer = SEARCH_TAKEN;
    *holds = true;
    for (int i = 0; i < 2 && *holds; i++) PROPANE_TRY(search_try_same(s, s->set, holds, err));
    if (!*holds || s->closed || s->out->verdict == SEARCH_ALONE) return PROPANE_OK;
    memcpy(s->trial, s->set, (size_t)s->count * sizeof *s->set);
    s->trial[last] = false;
    PROPANE_TRY(search_try(s, s->trial, &answer, err));
    s->out->rest_refused = answer == SEARCH_REFUSED;
    return PROPANE_OK;
}

/* Records what is known when no more queries are allowed. */
static propane_status search_stop(search *s, int low, int high, propane_error *err) {
    search_result *out = s->out;
    out->verdict = SEARCH_OPEN;
    snprintf(out->reason, sizeof out->reason, "%s", s->why);
    if (!s->count) return PROPANE_OK;
    out->place = low + 1;
    search_describe(s->steps[low], out->name, sizeof out->name);
    search_describe(s->steps[(high ? high : s->count) - 1], out->last, sizeof out->last);
    for (int i = 0; i < s->count; i++) s->set[i] = i < (high ? high : s->count);
    out->operations = high ? high : s->count;
    s->plain_count = 0;
    const propane_status status = search_make(s, s->set, &out->smallest, err);
    return status == PROPANE_ERR_MEMORY ? status : PROPANE_OK;
}

static propane_status search_blocks(search *s, const mil_op *op, propane_error *err);

static propane_status search_run(search *s, propane_error *err) {
    int low, high;
    const mil_op *guilty = NULL;
    for (int round = 0; round < MOST_CHANGES; round++) {
        bool holds = false;
        PROPANE_TRY(search_find(s, &low, &high, err));
        if (s->closed) return search_stop(s, low, high, err);
        if (!high) return PROPANE_OK;
        search_cause(s->why, s->cause);
        snprintf(s->out->reason, sizeof s->out->reason, "%s", s->why);
        PROPANE_TRY(search_shrink(s, high - 1, err));
        if (!s->closed) PROPANE_TRY(search_plain(s, &guilty, err));
        if (!s->closed) PROPANE_TRY(search_confirm(s, high - 1, &holds, err));
        if (s->closed) return search_stop(s, low, high, err);
        if (holds) {
            PROPANE_TRY(search_name(s, high - 1, guilty, err));
            return search_blocks(s, s->out->verdict == SEARCH_ALONE ? s->steps[high - 1] : NULL, err);
        }
        s->out->changed++;
    }
    s->out->verdict = SEARCH_WAVERS;
    return PROPANE_OK;
}

static propane_status search_open(search *s, propane_error *err) {
    const mil_function *f = s->f;
    int at = 0;
    const size_t room = (size_t)f->op_count + 1;
    s->steps = mem_array(room, sizeof *s->steps);
    s->places = mem_array(room, sizeof *s->places);
    s->kept = mem_array(room, sizeof *s->kept);
    s->set = mem_array(room, sizeof *s->set);
    s->trial = mem_array(room, sizeof *s->trial);
    s->plain = mem_array(room, sizeof *s->plain);
    if (!s->steps || !s->places || !s->kept || !s->set || !s->trial || !s->plain)
        return propane_fail_memory(err, room * sizeof *s->steps);
    for (const mil_op *op = f->first; op; op = op->next, at++) {
        if (search_is_constant(op)) continue;
        s->places[s->count] = at;
        s->steps[s->count++] = op;
    }
    for (int i = 0; i < f->param_count; i++) s->types[f->params[i]->type.dtype] = true;
    for (int i = 0; i < f->result_count; i++) s->types[f->results[i]->type.dtype] = true;
    s->out->count = s->count;
    return PROPANE_OK;
}

static void search_close(search *s) {
    mem_free(s->steps);
    mem_free(s->places);
    mem_free(s->kept);
    mem_free(s->set);
    mem_free(s->trial);
    mem_free(s->plain);
}

/* Searches blocks: an operation with blocks may be refused because of the contents of a block. */
static propane_status search_blocks(search *s, const mil_op *op, propane_error *err) {
    for (int i = 0; op && i < op->block_count; i++) {
        search_result inner = {.asked = s->out->asked, .refused = s->out->refused, .changed = s->out->changed};
        search b = {.f = op->blocks[i], .ask = s->ask, .context = s->context, .out = &inner};
        memcpy(b.types, s->types, sizeof b.types);
        propane_status status = search_open(&b, err);
        if (!status && b.count) status = search_run(&b, err);
        search_close(&b);
        s->out->asked = inner.asked;
        s->out->refused = inner.refused;
        if (status || !inner.smallest || inner.verdict > SEARCH_BOUND) {
            mil_module_free(inner.smallest);
            PROPANE_TRY(status);
            continue;
        }
        if (!*inner.inside) search_describe(op, inner.inside, sizeof inner.inside);
        mil_module_free(s->out->smallest);
        inner.place = s->out->place;
        inner.count = s->out->count;
        *s->out = inner;
        return PROPANE_OK;
    }
    return PROPANE_OK;
}

propane_status search_refused(const mil_function *f, search_ask ask, void *context, search_result *out,
                              propane_error *err) {
    search s = {.f = f, .ask = ask, .context = context, .out = out};
    *out = (search_result){.verdict = SEARCH_WAVERS};
    PROPANE_TRY(mil_function_load(f, err));
    propane_status status = search_open(&s, err);
    if (!status) status = search_run(&s, err);
    search_close(&s);
    if (status) {
        mil_module_free(out->smallest);
        out->smallest = NULL;
    }
    return status;
}
