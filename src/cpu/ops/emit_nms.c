/* SPDX-License-Identifier: MIT
 * Emits non_maximum_suppression. Each image is a task. Boxes with their best class are sorted by score. A box is kept
 * if no box that was kept before overlaps it too much. The kept boxes are in separate arrays, one per side, and are
 * compared eight at a time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/plan/emit.h"

enum { SIDE_BY_SIDE = 8 };

typedef struct nms_args {
    mil_nms n;
    mil_dtype dtype, index_type, count_type;
    cpu_ref boxes, scores, out[4], scratch; /* out: buffer -1 if not requested */
    int64_t image_bytes;                    /* scratch per worker */
} nms_args;

typedef struct nms_ranked {
    double score;
    int64_t box;
} nms_ranked;

/* Memory of one image, in doubles. The kept_* arrays have space for a whole group after the last box. */
typedef struct nms_memory {
    nms_ranked *order;
    double *box[4], *best, *category; /* [boxes]: centre x and y, width, height; best score and its class */
    double *low[2], *high[2], *area, *kept_category; /* data of the kept boxes */
    int64_t *kept;
} nms_memory;

typedef struct nms_call {
    const nms_args *a;
    const cpu_run *run;
    unsigned char *scratch;
} nms_call;

static int64_t emit_nms_room(const mil_nms *n) {
    return n->most < n->boxes ? n->most + SIDE_BY_SIDE : n->boxes + SIDE_BY_SIDE;
}

static int64_t emit_nms_scratch_of(const mil_nms *n) {
    return n->boxes * (int64_t)(sizeof(nms_ranked) + 6 * sizeof(double)) +
           emit_nms_room(n) * (int64_t)(6 * sizeof(double) + sizeof(int64_t));
}

static void emit_nms_divide(const mil_nms *n, unsigned char *at, nms_memory *m) {
    m->order = (nms_ranked *)(void *)at;
    double *next = (double *)(void *)(at + (size_t)n->boxes * sizeof(nms_ranked));
    for (int k = 0; k < 4; k++, next += n->boxes) m->box[k] = next;
    m->best = next;
    m->category = next + n->boxes;
    next += 2 * n->boxes;
    for (int k = 0; k < 2; k++, next += 2 * emit_nms_room(n)) m->low[k] = next, m->high[k] = next + emit_nms_room(n);
    m->area = next;
    m->kept_category = next + emit_nms_room(n);
    m->kept = (int64_t *)(void *)(next + 2 * emit_nms_room(n));
}

/* Finds the best class of each box; of equal scores, the first one. */
static void emit_nms_read_image(const nms_args *a, const void *boxes, const void *scores, int64_t image,
                                nms_memory *m) {
    const mil_nms *n = &a->n;
    const int64_t base = image * n->boxes, across = n->boxes_last ? n->boxes : 1;
    for (int k = 0; k < 4; k++)
        cpu_dense_load(m->box[k], a->dtype, boxes, base * 4 + k * across, n->boxes_last ? 1 : 4, n->boxes);
    cpu_dense_load(m->best, a->dtype, scores, base * n->classes, n->boxes_last ? 1 : n->classes, n->boxes);
    for (int64_t b = 0; b < n->boxes; b++) m->category[b] = 0;
    double *line = m->low[0]; /* not in use yet; at least as long as a group */
    for (int64_t k = 1; k < n->classes; k++)
        for (int64_t b = 0; b < n->boxes; b += SIDE_BY_SIDE) {
            const int64_t count = n->boxes - b < SIDE_BY_SIDE ? n->boxes - b : SIDE_BY_SIDE;
            const int64_t at = base * n->classes + (n->boxes_last ? k * n->boxes + b : b * n->classes + k);
            cpu_dense_load(line, a->dtype, scores, at, n->boxes_last ? 1 : n->classes, count);
            for (int64_t i = 0; i < count; i++)
                if (line[i] > m->best[b + i]) m->best[b + i] = line[i], m->category[b + i] = (double)k;
        }
}

/* Sorts by the highest score, NaN last, then by the lower index. */
static int emit_nms_by_score(const void *x, const void *y) {
    const nms_ranked *a = x, *b = y;
    if (a->score > b->score) return -1;
    if (a->score < b->score) return 1;
    if (isnan(a->score) != isnan(b->score)) return isnan(a->score) ? 1 : -1;
    return a->box < b->box ? -1 : a->box > b->box;
}

static bool emit_nms_suppressed(const mil_nms *n, const nms_memory *m, const double low[2], const double high[2],
                                double area, double category, int64_t kept) {
    for (int64_t k = 0; k < kept; k += SIDE_BY_SIDE) {
        int hits = 0;
        for (int i = 0; i < SIDE_BY_SIDE; i++) {
            const int64_t j = k + i;
            const double left = m->low[0][j] > low[0] ? m->low[0][j] : low[0];
            const double right = m->high[0][j] < high[0] ? m->high[0][j] : high[0];
            const double top = m->low[1][j] > low[1] ? m->low[1][j] : low[1];
            const double bottom = m->high[1][j] < high[1] ? m->high[1][j] : high[1];
            const double both = (right > left ? right - left : 0.0) * (bottom > top ? bottom - top : 0.0);
            const double all = m->area[j] + area - both;
            const double overlap = all > 0.0 ? both / all : 0.0;
            hits |= overlap > n->iou_threshold && (!n->per_class || m->kept_category[j] == category) && j < kept;
        }
        if (hits) return true;
    }
    return false;
}

static int64_t emit_nms_detect(const mil_nms *n, nms_memory *m) {
    int64_t count = 0, kept = 0;
    for (int64_t b = 0; b < n->boxes; b++)
        if (m->best[b] >= n->score_threshold) m->order[count++] = (nms_ranked){m->best[b], b};
    qsort(m->order, (size_t)count, sizeof *m->order, emit_nms_by_score);
    memset(m->low[0], 0, (size_t)(6 * emit_nms_room(n)) * sizeof(double));
    for (int64_t k = 0; k < count && kept < n->most; k++) {
        const int64_t b = m->order[k].box;
        double low[2], high[2];
        for (int d = 0; d < 2; d++) {
            low[d] = m->box[d][b] - m->box[2 + d][b] / 2;
            high[d] = m->box[d][b] + m->box[2 + d][b] / 2;
        }
        const double area = m->box[2][b] * m->box[3][b];
        if (emit_nms_suppressed(n, m, low, high, area, m->category[b], kept)) continue;
        for (int d = 0; d < 2; d++) m->low[d][kept] = low[d], m->high[d][kept] = high[d];
        m->area[kept] = area, m->kept_category[kept] = m->category[b];
        m->kept[kept++] = b;
    }
    return kept;
}

/* Copies `each` numbers per kept box; the rest is 0. */
static void emit_nms_put_boxes(const nms_args *a, const void *from, void *to, int64_t image, int64_t each,
                               const int64_t *kept, int64_t count) {
    const mil_nms *n = &a->n;
    for (int64_t k = 0; k < n->most; k++)
        for (int64_t j = 0; j < each; j++) {
            double v = 0;
            if (k < count) {
                const int64_t at = n->boxes_last ? j * n->boxes + kept[k] : kept[k] * each + j;
                cpu_dense_load(&v, a->dtype, from, image * n->boxes * each + at, 1, 1);
            }
            cpu_dense_store(to, a->dtype, image * n->most * each + (n->boxes_last ? j * n->most + k : k * each + j), 1,
                            &v, 1);
        }
}

static void emit_nms_task_image(const void *context, int64_t first, int64_t last, int worker) {
    const nms_call *c = context;
    const nms_args *a = c->a;
    const mil_nms *n = &a->n;
    const void *boxes = cpu_ref_at(c->run, a->boxes), *scores = cpu_ref_at(c->run, a->scores);
    nms_memory m;
    emit_nms_divide(n, c->scratch + worker * a->image_bytes, &m);
    for (int64_t image = first; image < last; image++) {
        emit_nms_read_image(a, boxes, scores, image, &m);
        const int64_t count = emit_nms_detect(n, &m);
        emit_nms_put_boxes(a, boxes, cpu_ref_at(c->run, a->out[0]), image, 4, m.kept, count);
        emit_nms_put_boxes(a, scores, cpu_ref_at(c->run, a->out[1]), image, n->classes, m.kept, count);
        for (int64_t k = 0; k < n->most; k++) {
            const double index = k < count ? (double)m.kept[k] : -1.0;
            cpu_dense_store(cpu_ref_at(c->run, a->out[2]), a->index_type, image * n->most + k, 1, &index, 1);
        }
        const double found = (double)count;
        if (a->out[3].buffer >= 0) cpu_dense_store(cpu_ref_at(c->run, a->out[3]), a->count_type, image, 1, &found, 1);
    }
}

static propane_status emit_nms_run(const cpu_run *run, const void *args, propane_error *err) {
    const nms_args *a = args;
    const nms_call c = {a, run, cpu_ref_at(run, a->scratch)};
    (void)err;
    cpu_dense_each(run, a->n.batch, 1, emit_nms_task_image, &c);
    return PROPANE_OK;
}

static propane_status emit_nms(planner *p, const mil_op *op, propane_error *err) {
    static const char *const names[] = {"boxes", "scores", NULL};
    nms_args *a = ARENA_NEW(p->arena, nms_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_nms_read(op, &a->n, err));
    PROPANE_TRY(cpu_emit_begin(p, op, names, &d, err));
    a->dtype = d.in[0].dtype;
    a->boxes = cpu_view_ref(&d.in[0]);
    a->scores = cpu_view_ref(&d.in[1]);
    a->index_type = d.out[2].dtype;
    a->out[3].buffer = -1;
    for (int r = 0; r < d.out_count; r++) a->out[r] = cpu_view_ref(&d.out[r]);
    if (d.out_count > 3) a->count_type = d.out[3].dtype;
    a->image_bytes = (emit_nms_scratch_of(&a->n) + 63) / 64 * 64;
    PROPANE_TRY(cpu_emit_scratch(p, a->image_bytes * p->threads, &a->scratch, err));
    return cpu_emit_end(p, op, &d, emit_nms_run, a, "nms", 0, err);
}

static bool emit_nms_takes_nms(const mil_op *op) {
    return mil_in(op, "boxes")->type.dtype == mil_in(op, "scores")->type.dtype && op->result_count <= CPU_EMIT_OUT;
}

const cpu_emitter cpu_emitter_nms = {.emit = emit_nms, .takes = emit_nms_takes_nms};
