/* SPDX-License-Identifier: MIT
 * Owns the drawing of ids. A vocabulary is large, and only its most likely ids are drawn, so ids that cannot be drawn
 * are dropped before anything is sorted.
 */
#include "lm/infer/sample.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"

propane_status infer_sampling_check(const infer_sampling *s, propane_error *err) {
    if (!(s->temperature >= 0 && s->temperature <= 1000))
        return propane_fail(err, PROPANE_ERR_INVALID, "temperature is %g; it must be from 0 (greedy) to 1000",
                            s->temperature);
    if (s->top_k < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "top-k is %d; it must be at least 1, or 0 for all ids", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return propane_fail(err, PROPANE_ERR_INVALID, "top-p is %g; it must be from 0 to 1", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return propane_fail(err, PROPANE_ERR_INVALID, "min-p is %g; it must be from 0 to 1", s->min_p);
    if (!(s->repetition >= 0 && s->repetition <= 100))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the repetition penalty is %g; it must be from 1 (none) to 100, or 0 for none",
                            s->repetition);
    if (!(fabs(s->frequency) <= 100) || !(fabs(s->presence) <= 100))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the frequency penalty is %g and the presence penalty %g; they must be from -100 to 100",
                            s->frequency, s->presence);
    return PROPANE_OK;
}

propane_status infer_sampler_init(infer_sampler *s, const infer_sampling *sampling, int vocab, propane_error *err) {
    *s = (infer_sampler){.sampling = *sampling, .vocab = vocab};
    PROPANE_TRY(infer_sampling_check(sampling, err));
    rng_init(&s->rng, sampling->seed);
    bool repetition = sampling->repetition > 0 && (sampling->repetition < 1 || sampling->repetition > 1);
    bool counts = fabs(sampling->frequency) > 0 || fabs(sampling->presence) > 0;
    s->penalties = repetition || counts;
    s->candidates = mem_array((size_t)vocab, sizeof *s->candidates);
    if (s->penalties) {
        s->drawn = mem_array((size_t)vocab, sizeof *s->drawn);
        s->seen = mem_array((size_t)vocab, sizeof *s->seen);
    }
    if (s->candidates && (!s->penalties || (s->drawn && s->seen))) return PROPANE_OK;
    infer_sampler_deinit(s);
    return propane_fail_memory(err, (size_t)vocab * sizeof *s->candidates);
}

void infer_sampler_deinit(infer_sampler *s) {
    mem_free(s->candidates);
    mem_free(s->drawn);
    mem_free(s->seen);
    s->candidates = NULL;
    s->drawn = NULL;
    s->seen = NULL;
}

void infer_sampler_see(infer_sampler *s, int32_t id) {
    if (s->penalties) s->seen[id] = true;
}

/* Returns a logit, or -infinity for NaN, so that NaN is never chosen. */
static float sample_number(float logit) { return isnan(logit) ? -INFINITY : logit; }

int32_t infer_argmax(const float *logits, int vocab) {
    int32_t best = 0;
    for (int i = 1; i < vocab; i++)
        if (sample_number(logits[i]) > sample_number(logits[best])) best = i;
    return best;
}

double infer_nll(const float *logits, int vocab, int64_t stride, int32_t id) {
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < vocab; i++) largest = fmax(largest, (double)logits[i * stride]);
    for (int i = 0; i < vocab; i++) sum += exp((double)logits[i * stride] - largest);
    return largest + log(sum) - (double)logits[id * stride];
}

/* Returns whether `a` precedes `b` in the order of candidates: by logit, then by id. */
static bool sample_before(infer_candidate a, infer_candidate b) {
    return a.logit > b.logit || (!(a.logit < b.logit) && a.id < b.id);
}

static int sample_compare(const void *a, const void *b) {
    const infer_candidate *x = a, *y = b;
    return sample_before(*x, *y) ? -1 : 1;
}

int infer_most_likely(const float *logits, int vocab, int count, infer_candidate *out) {
    int kept = 0;
    if (count > vocab) count = vocab;
    for (int i = 0; i < vocab && count > 0; i++) {
        infer_candidate c = {sample_number(logits[i]), i};
        if (kept == count && !sample_before(c, out[kept - 1])) continue;
        int at = kept < count ? kept++ : kept - 1;
        for (; at > 0 && sample_before(c, out[at - 1]); at--) out[at] = out[at - 1];
        out[at] = c;
    }
    return kept;
}

/* Brings the first k of `count` candidates to the front, in any order. */
static void sample_select_first(infer_candidate *c, int count, int k) {
    int low = 0, high = count - 1;
    while (low < high) {
        infer_candidate pivot = c[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (sample_before(c[i], pivot)) i++;
            while (sample_before(pivot, c[j])) j--;
            if (i > j) break;
            infer_candidate t = c[i];
            c[i++] = c[j];
            c[j--] = t;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            return;
    }
}

static float sample_penalised(const infer_sampler *s, float logit, int id) {
    const infer_sampling *o = &s->sampling;
    logit = sample_number(logit);
    if (!s->penalties || !s->seen[id]) return logit;
    double x = (double)logit;
    if (o->repetition > 0) x = x > 0 ? x / o->repetition : x * o->repetition;
    if (s->drawn[id] > 0) x -= o->frequency * s->drawn[id] + o->presence;
    return (float)x;
}

/* Fills in the candidates that min-p keeps and, if they are certain to be cut, drops the tail below top-p. */
static int sample_fill(infer_sampler *s, const float *logits, double *largest) {
    const infer_sampling *o = &s->sampling;
    infer_candidate *c = s->candidates;
    float top = -INFINITY;
    for (int i = 0; i < s->vocab; i++) {
        c[i] = (infer_candidate){sample_penalised(s, logits[i], i), i};
        if (c[i].logit > top) top = c[i].logit;
    }
    *largest = (double)top;
    if (o->min_p <= 0 || !isfinite(top)) return s->vocab;
    double least = (double)top + o->temperature * log(o->min_p);
    int count = 0;
    for (int i = 0; i < s->vocab; i++)
        if ((double)c[i].logit >= least) c[count++] = c[i];
    return count;
}

static double sample_weight(const infer_sampler *s, infer_candidate c, double largest) {
    return exp(((double)c.logit - largest) / s->sampling.temperature);
}

/* Keeps the first candidates whose weights reach p of the total. Those below (1 - p) of an equal share cannot be among
 * them, because their sum is less than 1 - p, so only the others are sorted. */
static int sample_cut_top_p(infer_sampler *s, int count, double largest, bool sorted) {
    infer_candidate *c = s->candidates;
    double total = 0, kept = 0;
    for (int i = 0; i < count; i++) total += sample_weight(s, c[i], largest);
    if (!sorted) {
        double least = (1 - s->sampling.top_p) * total / count;
        double bound = least > 0 ? largest + s->sampling.temperature * log(least) - 1e-9 : -INFINITY;
        int left = 0;
        for (int i = 0; i < count; i++)
            if ((double)c[i].logit >= bound) c[left++] = c[i];
        count = left;
        qsort(c, (size_t)count, sizeof *c, sample_compare);
    }
    int keep = 0;
    while (keep < count && kept < s->sampling.top_p * total) kept += sample_weight(s, c[keep++], largest);
    return keep;
}

static int32_t sample_draw(infer_sampler *s, const float *logits) {
    const infer_sampling *o = &s->sampling;
    if (!s->penalties && (o->temperature <= 0 || o->top_k == 1)) return infer_argmax(logits, s->vocab);
    infer_candidate *c = s->candidates;
    double largest;
    int count = sample_fill(s, logits, &largest);
    bool sorted = false;
    if (!isfinite(largest)) return infer_argmax(logits, s->vocab);
    if (o->temperature <= 0 || o->top_k == 1) {
        infer_candidate best = c[0];
        for (int i = 1; i < count; i++)
            if (sample_before(c[i], best)) best = c[i];
        return best.id;
    }
    if (o->top_k > 0 && o->top_k < count) {
        sample_select_first(c, count, o->top_k - 1);
        count = o->top_k;
        qsort(c, (size_t)count, sizeof *c, sample_compare);
        sorted = true;
    }
    if (o->top_p > 0 && o->top_p < 1) count = sample_cut_top_p(s, count, largest, sorted);
    double total = 0;
    for (int i = 0; i < count; i++) total += sample_weight(s, c[i], largest);
    double point = rng_unit(&s->rng) * total;
    for (int i = 0; i < count; i++) {
        point -= sample_weight(s, c[i], largest);
        if (point < 0) return c[i].id;
    }
    return c[count - 1].id;
}

int32_t infer_sample(infer_sampler *s, const float *logits) {
    int32_t id = sample_draw(s, logits);
    if (s->penalties) {
        s->seen[id] = true;
        s->drawn[id]++;
    }
    return id;
}
