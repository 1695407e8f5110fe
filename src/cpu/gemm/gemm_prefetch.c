/* SPDX-License-Identifier: MIT
 * Owns the preparation of a thread's next block of the streamed operand during the tiles of the current one. The
 * block's lines are prefetched. A streamed A is also packed, by tiles that each copy a part of some panels, or between
 * tiles once its lines have arrived.
 */
#include "cpu/gemm/gemm_prefetch.h"

enum {
    PASS_PARTS = 16, /* number of tiles that copy four panels */
    /* Elements of k that these tiles prefetch ahead. With more, lines are evicted again if rows are 2^n apart. */
    PASS_LEAD = 4
};

/* Counts groups of GEMM_PASS_PANELS panels that tiles copy one after the other. The last group may copy some panels
 * again. */
static int64_t gemm_prefetch_pass_groups(const gemm_prefetch *h) { return div_up(h->to - h->from, GEMM_PASS_PANELS); }
static int64_t gemm_prefetch_group_panel(const gemm_prefetch *h, int64_t group) {
    return h->from + max_i64(0, min_i64(group * GEMM_PASS_PANELS, h->to - h->from - GEMM_PASS_PANELS));
}

/* Returns the tile that also copies the next block. Returns NULL if there is no such tile, or if the current block has
 * too few tiles to copy all of it. */
static gemm_tile gemm_prefetch_pass_tile_of(const gemm_plan *p, const gemm_prefetch *h, int64_t tiles) {
    const bool fits = h->words && !h->along && !p->round && (h->k1 - h->k0) % GEMM_BLOCK == 0;
    if (!fits || max_i64(h->to, h->from + GEMM_PASS_PANELS) > p->g.m / p->kernels->mr) return NULL;
    if (tiles < PASS_PARTS * gemm_prefetch_pass_groups(h) + p->b_panels) return NULL;
    return h->view.dtype == CPU_F16 ? p->kernels->pack_next_tile_f16 : p->kernels->pack_next_tile;
}

gemm_prefetch gemm_prefetch_of(const gemm_plan *p, const cpu_matrix_view *v, int64_t block, int64_t k0, int64_t k1,
                               int64_t now, float *words) {
    int64_t from, to;
    gemm_block_panels(p, block, &from, &to);
    const bool is_a = !p->a_stationary;
    const cpu_matrix *m = is_a ? &p->g.a : &p->g.b;
    int64_t width = is_a ? p->kernels->mr : p->kernels->nr, size = cpu_dtype_bytes(v->dtype);
    int64_t across = is_a ? v->row_stride : v->col_stride, along = is_a ? v->col_stride : v->row_stride;
    int64_t count = min_i64(to * width, is_a ? p->g.m : p->g.n) - from * width;
    gemm_prefetch h = {.along = along == 1, .share = div_up(now, p->kernels->pair) / GEMM_BLOCK * 2, .view = *v};
    if (m->pieces || m->stored || (along != 1 && across != 1) || !h.share) return h;
    h.base = element(v, from * width * across + k0 * along);
    h.step = (h.along ? across : along) * size;
    h.lines = h.along ? count : div_up(count * size, 64);
    h.from = from, h.to = to, h.k0 = k0, h.k1 = k1, h.words = words;
    if (now == k1 - k0) h.pass = gemm_prefetch_pass_tile_of(p, &h, (to - from) * p->b_panels);
    return h;
}

static int64_t gemm_prefetch_part_begin(const gemm_prefetch *h, int64_t part) {
    return h->k0 + part * (h->k1 - h->k0) / PASS_PARTS;
}

static float *gemm_prefetch_panel_words(const gemm_plan *p, const gemm_prefetch *h, int64_t panel) {
    return h->words + (panel - h->from) * padded_words(p, h->k0, h->k1) * p->kernels->mr;
}

/* Copies what the tiles have not copied. */
static void gemm_prefetch_pass_rest(const gemm_plan *p, const gemm_prefetch *h) {
    for (int64_t tile = h->tile; tile < PASS_PARTS * gemm_prefetch_pass_groups(h);
         tile = (tile / PASS_PARTS + 1) * PASS_PARTS) {
        const int64_t from = gemm_prefetch_group_panel(h, tile / PASS_PARTS),
                      to = min_i64(h->to, from + GEMM_PASS_PANELS);
        gemm_pack_panels(p, true, &h->view, gemm_prefetch_panel_words(p, h, from), from, to, h->k0, h->k1,
                         gemm_prefetch_part_begin(h, tile % PASS_PARTS), h->k1);
    }
}

void gemm_prefetch_pack(const gemm_plan *p, gemm_prefetch *h, bool all) {
    if (!h->words) return;
    if (h->pass) {
        if (all) gemm_prefetch_pass_rest(p, h);
        return;
    }
    int64_t width = p->kernels->mr, step = padded_words(p, h->k0, h->k1) * width;
    int64_t end = h->along ? h->to - h->from : h->k1 - h->k0;
    if (!all) end = min_i64(end, h->along ? 2 * h->tile / width : h->tile / max_i64(1, div_up(h->lines, 2)) * h->share);
    if (end <= h->packed) return;
    int64_t from = h->along ? h->from + h->packed : h->from, to = h->along ? h->from + end : h->to;
    int64_t part0 = h->along ? h->k0 : h->k0 + h->packed, part1 = h->along ? h->k1 : h->k0 + end;
    gemm_pack_panels(p, true, &h->view, h->words + (from - h->from) * step, from, to, h->k0, h->k1, part0, part1);
    h->packed = end;
}

/* Returns what the next tile copies. If nothing is left or the tile's panel is not full, it only prefetches `own`. */
static gemm_next gemm_prefetch_pass_next(const gemm_plan *p, gemm_prefetch *h, const void *own, bool full) {
    if (!full || h->tile >= PASS_PARTS * gemm_prefetch_pass_groups(h)) return (gemm_next){.at = own};
    const int64_t panel = gemm_prefetch_group_panel(h, h->tile / PASS_PARTS),
                  k = gemm_prefetch_part_begin(h, h->tile % PASS_PARTS) - h->k0;
    const int64_t size = cpu_dtype_bytes(h->view.dtype);
    h->tile++;
    return (gemm_next){.at = h->base + (panel - h->from) * p->kernels->mr * size + k * h->step,
                       .step = h->step,
                       .second = PASS_LEAD * h->step,
                       .put = gemm_prefetch_panel_words(p, h, panel) + k * p->kernels->mr,
                       .put_step = 4 * padded_words(p, h->k0, h->k1) * p->kernels->mr};
}

gemm_next gemm_prefetch_next(const gemm_plan *p, gemm_prefetch *h, const void *own, bool full) {
    if (h->pass) return gemm_prefetch_pass_next(p, h, own, full);
    int64_t tile = h->tile++, pairs = max_i64(1, div_up(h->lines, 2));
    if (h->base && h->along && 2 * tile < h->lines)
        return (gemm_next){
            .at = h->base + 2 * tile * h->step, .step = 64, .second = 2 * tile + 1 < h->lines ? h->step : 0};
    if (h->base && !h->along && tile / pairs * h->share < h->k1 - h->k0)
        return (gemm_next){
            .at = h->base + tile / pairs * h->share * h->step + tile % pairs * 128, .step = h->step, .second = 64};
    return (gemm_next){.at = own};
}
