/* SPDX-License-Identifier: MIT
 * Owns the tables of plans and turns them into kernels. The code does not depend on what attention or feed-forward
 * compute: a row lists stages, and each operation is placed in the kernel that lists its stage. A block with a stage
 * for which the plan has no kernel is refused.
 */
#include "lm/step/partition.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/grad/grad.h"
#include "lm/arch/forward.h"
#include "lm/step/gradient_products.h"
#include "lm/step/kernel_rewrite.h"

/* A row of a plan. For the head, `plan` is the place of the vocabulary product instead of the plan's name
 * (partition_head_rows). Lists of stages are separated by spaces. "qkv:q_proj" takes precedence over "qkv": it selects
 * the operations of that stage that read the weight q_proj. `again` lists forward operations that the kernel recomputes
 * instead of receiving their values. */
typedef struct plan_row {
    const char *plan;
    model_part part;
    const char *kernel;
    partition_place place;
    const char *forward, *backward, *again;
} plan_row;

#define ATTN    MODEL_ATTN
#define FFN     MODEL_FFN
#define HEAD    MODEL_HEAD
#define DEVICE  PARTITION_DEVICE
#define HOST    PARTITION_HOST
#define WEIGHTS "*" /* in `backward`: all operations that serve only weight gradients */

static const plan_row rows[] = {
    {"six", ATTN, "attnEnter", HOST, "enter", "", ""},
    {"six", ATTN, "fwdAttn", DEVICE, "norm qkv qknorm rope scores softmax mix out", "", ""},
    {"six", ATTN, "attnAdd", HOST, "residual", "", ""},
    {"six", ATTN, "attnTurn", HOST, "", "residual", ""},
    {"six", ATTN, "sdpaBwd1", DEVICE, "", "out mix softmax", "scores softmax"},
    {"six", ATTN, "sdpaBwd2", DEVICE, "", "scores rope qknorm", "scores qknorm"},
    {"six", ATTN, "qkvBwd", DEVICE, "", "qkv", ""},
    {"six", ATTN, "attnNormBwd", HOST, "", "norm enter", "norm"},
    {"six", ATTN, "attnGrad", HOST, "", WEIGHTS, "norm qknorm"},
    {"six", FFN, "ffnEnter", HOST, "enter", "", ""},
    {"six", FFN, "fwdFFN", DEVICE, "norm up act down", "", ""},
    {"six", FFN, "ffnAdd", HOST, "residual", "", ""},
    {"six", FFN, "ffnTurn", HOST, "", "residual", ""},
    {"six", FFN, "ffnBwd", DEVICE, "", "down act up", "act"},
    {"six", FFN, "ffnNormBwd", HOST, "", "norm enter", "norm"},
    {"six", FFN, "ffnGrad", HOST, "", WEIGHTS, "norm"},

    {"ten", ATTN, "attnNorm", HOST, "enter norm", "", ""},
    {"ten", ATTN, "sdpaFwd", DEVICE, "qkv qknorm rope scores softmax mix", "", ""},
    {"ten", ATTN, "woFwd", DEVICE, "out", "", ""},
    {"ten", ATTN, "attnAdd", HOST, "residual", "", ""},
    {"ten", ATTN, "attnTurn", HOST, "", "residual", ""},
    {"ten", ATTN, "wotBwd", DEVICE, "", "out", ""},
    {"ten", ATTN, "sdpaBwd1", DEVICE, "", "mix softmax", "scores softmax"},
    {"ten", ATTN, "sdpaBwd2", DEVICE, "", "scores", "scores"},
    {"ten", ATTN, "ropeBwd", HOST, "", "rope qknorm", "qknorm"},
    {"ten", ATTN, "qBwd", DEVICE, "", "qkv:q_proj", ""},
    {"ten", ATTN, "kvBwd", DEVICE, "", "qkv:k_proj qkv:v_proj", ""},
    {"ten", ATTN, "attnNormBwd", HOST, "", "qkv norm enter", "norm"},
    {"ten", ATTN, "attnGrad", HOST, "", WEIGHTS, "norm qknorm"},
    {"ten", FFN, "ffnNorm", HOST, "enter norm", "", ""},
    {"ten", FFN, "ffnFused", DEVICE, "up act down", "", ""},
    {"ten", FFN, "ffnAdd", HOST, "residual", "", ""},
    {"ten", FFN, "ffnTurn", HOST, "", "residual", ""},
    {"ten", FFN, "ffnBwdW2t", DEVICE, "", "down", ""},
    {"ten", FFN, "actBwd", HOST, "", "act", "act"},
    {"ten", FFN, "ffnBwdW13t", DEVICE, "", "up", ""},
    {"ten", FFN, "ffnNormBwd", HOST, "", "norm enter", "norm"},
    {"ten", FFN, "ffnGrad", HOST, "", WEIGHTS, "norm"},

    {"layer", ATTN, "fwdAttn", DEVICE, "enter norm qkv qknorm rope scores softmax mix out residual", "", ""},
    {"layer", ATTN, "attnBwd", DEVICE, "", "residual out mix softmax scores rope qknorm qkv norm enter",
     "norm qknorm scores softmax"},
    {"layer", ATTN, "attnGrad", HOST, "", WEIGHTS, "norm qknorm"},
    {"layer", FFN, "fwdFFN", DEVICE, "enter norm up act down residual", "", ""},
    {"layer", FFN, "ffnBwd", DEVICE, "", "residual down act up norm enter", "norm act"},
    {"layer", FFN, "ffnGrad", HOST, "", WEIGHTS, "norm"},

    {"host", HEAD, "headFwd", HOST, "enter norm head", "", ""},
    {"host", HEAD, "headBwd", HOST, "", "head norm enter", "norm"},
    {"host", HEAD, "headGrad", HOST, "", WEIGHTS, "norm"},

    {"device", HEAD, "headEnter", HOST, "enter", "", ""},
    {"device", HEAD, "headFwd", DEVICE, "norm head", "", ""},
    {"device", HEAD, "headBwd", DEVICE, "", "head", ""},
    {"device", HEAD, "headNormBwd", HOST, "", "norm enter", "norm"},
    {"device", HEAD, "headGrad", HOST, "", WEIGHTS, "norm"},

    {"whole", HEAD, "headFwd", DEVICE, "enter norm head", "", ""},
    {"whole", HEAD, "headBwd", DEVICE, "", "head norm enter", "norm"},
    {"whole", HEAD, "headGrad", HOST, "", WEIGHTS, "norm"},
};

#undef ATTN
#undef FFN
#undef HEAD
#undef DEVICE
#undef HOST

static const char *const names[] = {"layer", "six", "ten"};

int partition_name_count(void) { return (int)(sizeof names / sizeof names[0]); }
const char *partition_name(int index) { return names[index]; }

static const char *const heads[] = {"auto", "host", "device"};

partition_head partition_head_find(const char *name) {
    int i = 0;
    while (i < PARTITION_HEAD_COUNT && strcmp(heads[i], name) != 0) i++;
    return (partition_head)i;
}

const char *partition_head_name(const partition_options *o) {
    if (o->head != PARTITION_HEAD_AUTO) return heads[o->head];
    return strcmp(o->name, "layer") == 0 ? "device" : "host";
}

/* Plan "layer" reads and writes the residual stream on the device; the other plans never do. */
static const char *partition_head_rows(const partition_options *o) {
    const char *head = partition_head_name(o);
    return strcmp(o->name, "layer") == 0 && strcmp(head, "device") == 0 ? "whole" : head;
}

bool partition_in_range(const partition *p, const partition_block *b, int kernel, partition_range range) {
    const partition_kernel *k = &p->kernels[kernel];
    if (k->backward != (range != PARTITION_FORWARD) || k->weights != (range == PARTITION_GRADIENTS)) return false;
    if (range == PARTITION_FORWARD || range == PARTITION_GRADIENTS) return true;
    bool first = true;
    for (int i = b->first; i < kernel; i++) {
        const partition_kernel *before = &p->kernels[i];
        first &= !before->backward || before->weights || before->place == PARTITION_HOST;
    }
    return first == (range == PARTITION_FIRST);
}

#define MAX_ROWS    24 /* per block */
#define WEIGHTS_MAX 32 /* per block */

typedef struct cutter {
    const plan_row *rows[MAX_ROWS];
    int count;
    const mil_function *joint;
    int *home;         /* [value id], the row of the kernel that computes the value */
    const char **root; /* [value id], the weight of which the value is a view, or NULL */
    bool keep_norms;
    bool *moves;  /* [value id], whether the value depends on x and not only on weights */
    bool *leaves; /* [value id], whether an operation of another stage reads the value */
} cutter;

/* ---- from stages to kernels ------------------------------------------------------------------------------------------- */

static bool partition_listed(const char *list, const char *word, size_t length) {
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, " ");
        if (n == length && strncmp(at, word, n) == 0) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

/* Returns whether the operation only moves elements or changes their shape. Recomputing it is cheaper than passing its
 * result to another kernel. */
static bool partition_is_layout(const mil_op *op) {
    return op->info->flops_per_element == 0 && op->info->code != MIL_OP_cast && op->info->code != MIL_OP_const &&
           op->info->code != MIL_OP_gather;
}

static const char *partition_row_stages(const plan_row *row, const mil_op *op) {
    return op->backward ? row->backward : row->forward;
}

/* Returns the row of an operation's stage, or -1 if there is none. A row that also names a weight that the operation
 * reads takes precedence. */
static int partition_find_row(const cutter *c, const mil_op *op) {
    char exact[120];
    int found = -1;
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const char *root = c->root[op->operands[p].values[i]->id];
            if (!root) continue;
            int n = snprintf(exact, sizeof exact, "%s:%s", op->stage, root);
            for (int r = 0; r < c->count; r++)
                if (partition_listed(partition_row_stages(c->rows[r], op), exact, (size_t)n)) return r;
        }
    for (int r = 0; r < c->count && found < 0; r++)
        if (partition_listed(partition_row_stages(c->rows[r], op), op->stage, strlen(op->stage))) found = r;
    return found;
}

static void partition_note_root(cutter *c, const mil_op *op) {
    if (!partition_is_layout(op) || op->info->param_count == 0 || op->operands[0].count != 1) return;
    c->root[op->results[0]->id] = c->root[op->operands[0].values[0]->id];
}

static void partition_note_use(cutter *c, const mil_op *op) {
    bool moves = false;
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            moves |= c->moves[v->id];
            if (v->def && v->def->stage && op->stage && strcmp(v->def->stage, op->stage) != 0) c->leaves[v->id] = true;
        }
    for (int i = 0; i < op->result_count; i++) c->moves[op->results[i]->id] = moves;
}

static propane_status partition_assign_homes(cutter *c, const partition_block *b, const char *plan_title,
                                             const bool *weights_only, propane_error *err) {
    int index = 0, weights_row = -1;
    for (int r = 0; r < c->count; r++)
        if (strcmp(c->rows[r]->backward, WEIGHTS) == 0) weights_row = r;
    for (int i = 0; i < b->joint->param_count; i++)
        if (partition_is_weight(b, b->joint->params[i]->name))
            c->root[b->joint->params[i]->id] = b->joint->params[i]->name;
    c->moves[b->joint->params[0]->id] = true;
    for (const mil_op *op = b->joint->first; op; op = op->next, index++) {
        if (op->info->code == MIL_OP_const || op->result_count == 0) continue;
        partition_note_root(c, op);
        partition_note_use(c, op);
        int row = weights_only[index] ? weights_row : op->stage ? partition_find_row(c, op) : -1;
        if (row < 0)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "plan %s has no kernel for %s '%s' (%s, stage '%s', %s)",
                                plan_title, op->info->name, op->results[0]->name, b->name, op->stage ? op->stage : "",
                                op->backward ? "backward" : "forward");
        for (int i = 0; i < op->result_count; i++) c->home[op->results[i]->id] = row;
    }
    return PROPANE_OK;
}

static int partition_cut_home(void *context, const mil_op *op) {
    const cutter *c = context;
    return op->result_count ? c->home[op->results[0]->id] : 0;
}

/* Returns whether a norm's value is kept for the backward pass. Kept are values that other stages read, such as matrix
 * products, and values smaller than x, such as a sum per position. */
static bool partition_is_kept(const cutter *c, const mil_op *op) {
    const mil_value *v = op->results[0];
    if (!c->keep_norms || !c->moves[v->id] || !op->stage || !strstr(op->stage, "norm")) return false;
    return c->leaves[v->id] || mil_type_count(&v->type) < mil_type_count(&c->joint->params[0]->type);
}

static bool partition_cut_again(void *context, const mil_op *op, int kernel) {
    const cutter *c = context;
    if (partition_is_layout(op)) return true;
    if (partition_is_kept(c, op)) return false;
    return !op->backward && op->stage && partition_listed(c->rows[kernel]->again, op->stage, strlen(op->stage));
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------ */

bool partition_is_dropout(const char *param) { return strncmp(param, "drop_", 5) == 0; }

bool partition_is_adapter(const void *context, model_part part, const char *param) {
    (void)context, (void)part;
    return strstr(param, "_lora_") != NULL;
}

const char *partition_squares_of(const char *result) {
    return strncmp(result, TRAIN_SQUARES, strlen(TRAIN_SQUARES)) == 0 ? result + strlen(TRAIN_SQUARES) : NULL;
}

bool partition_is_weight(const partition_block *b, const char *param) {
    if (partition_is_dropout(param)) return false;
    for (int i = 1; i < b->forward->param_count; i++)
        if (strcmp(b->forward->params[i]->name, param) == 0) return true;
    return false;
}

static bool partition_is_trained(const partition *p, const partition_block *b, const char *param) {
    if (!partition_is_weight(b, param)) return false;
    return !p->options.trained || p->options.trained(p->options.trained_context, b->part, param);
}

/* Returns the name of a block or kernel. For kinds of layers other than 0, the kind's number is appended. */
static const char *partition_name_for(const partition *p, const char *name, int kind) {
    return kind ? arena_printf(p->arena, "%s_%d", name, kind) : name;
}

/* Builds the block's forward function with the model's builders. */
static propane_status partition_build_half(partition *p, const partition_block *b, mil_function **out,
                                           propane_error *err) {
    const model_build_options o = {.batch = p->options.batch,
                                   .sequence = p->options.context,
                                   .dtype = p->options.precision,
                                   .lora = p->options.lora,
                                   .dropout = p->options.lora && p->options.lora->dropout > 0};
    const char *name = arena_printf(p->arena, "%s_half", b->name);
    model_config piece = p->config; /* the head's function covers one piece */
    if (!name) return propane_fail_memory(err, 0);
    if (b->part == MODEL_ATTN)
        return model_build_attn(p->module, name, &p->config, &o, (int)model_config_kind_layer(&p->config, b->kind), out,
                                err);
    if (b->part == MODEL_FFN) return model_build_ffn(p->module, name, &p->config, &o, 0, out, err);
    if (piece.vocab_piece > 0) piece.vocab_size = piece.vocab_piece;
    piece.vocab_piece = 0;
    piece.bos_token_id = piece.eos_token_id = -1;
    return model_build_head(p->module, name, &piece, &o, out, err);
}

static propane_status partition_build_block(partition *p, partition_block *b, propane_error *err) {
    static const char *const part_names[] = {[MODEL_ATTN] = "attn", [MODEL_FFN] = "ffn", [MODEL_HEAD] = "head"};
    mil_function *half = NULL;
    b->name = partition_name_for(p, part_names[b->part], b->kind);
    b->result = b->part == MODEL_HEAD ? "logits" : "out";
    const char *joint = b->name ? arena_printf(p->arena, "%s_joint", b->name) : NULL;
    if (!joint) return propane_fail_memory(err, 0);
    PROPANE_TRY(partition_build_half(p, b, &half, err));
    const mil_dtype stream = p->options.half_stream ? MIL_fp16 : MIL_fp32;
    PROPANE_TRY(train_wrap(half, b->name, stream, b->part != MODEL_HEAD, &b->forward, err));
    const char *wanted[WEIGHTS_MAX + 1] = {"x"};
    int count = 1;
    for (int i = 1; i < b->forward->param_count; i++) {
        const char *param = b->forward->params[i]->name;
        if (partition_is_trained(p, b, param) && count <= WEIGHTS_MAX) wanted[count++] = param;
    }
    return grad_function(b->forward, joint, wanted, count, &b->joint, err);
}

/* Lists the blocks: attention for each kind of layer, feed-forward, the head. */
static void partition_list_blocks(partition *p) {
    const int kinds = model_config_kinds(&p->config);
    for (int k = 0; k < kinds; k++) p->blocks[p->block_count++] = (partition_block){.part = MODEL_ATTN, .kind = k};
    p->blocks[p->block_count++] = (partition_block){.part = MODEL_FFN};
    p->blocks[p->block_count++] = (partition_block){.part = MODEL_HEAD};
}

const partition_block *partition_block_at(const partition *p, int64_t instance) {
    const partition_block *head = &p->blocks[p->block_count - 1];
    if (instance >= 2 * p->config.num_hidden_layers) return head;
    return instance % 2 ? head - 1 : &p->blocks[model_config_kind(&p->config, instance / 2)];
}

static void partition_measure(partition_kernel *k) {
    const mil_function *f = k->function;
    for (const mil_op *op = f->first; op; op = op->next) {
        mil_cost cost = {0};
        mil_op_cost(op, &cost);
        k->flops += cost.flops;
    }
    for (int i = 0; i < f->param_count; i++) k->bytes += (double)mil_type_bytes(&f->params[i]->type);
    for (int i = 0; i < f->result_count; i++) k->bytes += (double)mil_type_bytes(&f->results[i]->type);
}

static bool partition_is_squared(const partition *p, const partition_block *b, const mil_value *param) {
    const int64_t least = p->options.squares;
    return least > 0 && mil_type_count(&param->type) >= least && partition_is_trained(p, b, param->name);
}

/* Builds the functions that are compiled. The host's functions compute in fp32 and sum weight gradients. */
static propane_status partition_finish_kernel(partition *p, const partition_block *b, partition_kernel *k,
                                              propane_error *err) {
    const char *sums[WEIGHTS_MAX], *squares[WEIGHTS_MAX];
    int count = 0, squared = 0;
    for (int i = 1; i < b->forward->param_count && count < WEIGHTS_MAX; i++) {
        sums[count++] = b->forward->params[i]->name;
        if (partition_is_squared(p, b, b->forward->params[i])) squares[squared++] = sums[count - 1];
    }
    mil_function *cut = k->function;
    if (k->place == PARTITION_DEVICE && b->part == MODEL_HEAD && p->options.sum_bytes > 0) {
        const char *name = arena_printf(p->arena, "%s_parts", k->name);
        if (!name) return propane_fail_memory(err, 0);
        PROPANE_TRY(train_cut_sums(cut, p->module, name, p->options.sum_bytes, &k->function, err));
        if (!k->function) k->function = cut;
    }
    if (k->place == PARTITION_HOST && (k->weights || p->options.precision != MIL_fp32)) {
        const char *name = arena_printf(p->arena, "%s_host", k->name),
                   *more = arena_printf(p->arena, "%s_add", k->name);
        if (!name || !more) return propane_fail_memory(err, 0);
        PROPANE_TRY(train_promote(cut, p->module, name, sums, k->weights ? count : 0, false, &k->function, err));
        if (k->weights) PROPANE_TRY(train_promote(cut, p->module, more, sums, count, true, &k->accumulate, err));
    }
    if (k->accumulate) {
        PROPANE_TRY(train_add_squares(k->function, squares, squared, err));
        PROPANE_TRY(train_add_squares(k->accumulate, squares, squared, err));
    }
    partition_measure(k);
    return PROPANE_OK;
}

static propane_status partition_add_one(partition *p, partition_block *b, partition_kernel k, propane_error *err) {
    partition_kernel *own = &p->kernels[p->kernel_count++];
    *own = k;
    own->part = b->part;
    own->kind = b->kind;
    b->count++;
    return partition_finish_kernel(p, b, own, err);
}

/* Adds a row's kernel. If the device computes the products of a layer's weight gradients, their kernel is added
 * first. */
static propane_status partition_add_kernel(partition *p, partition_block *b, const plan_row *row, const char *name,
                                           mil_function *function, propane_error *err) {
    partition_kernel k = {.name = name,
                          .place = row->place,
                          .backward = *row->backward != 0,
                          .function = function,
                          .weights = strcmp(row->backward, WEIGHTS) == 0};
    if (k.weights && p->options.gradients && b->part != MODEL_HEAD) {
        partition_kernel products = k;
        const char *sums = arena_printf(p->arena, "%sSums", name);
        products.name = arena_printf(p->arena, "%sMul", name);
        products.place = PARTITION_DEVICE;
        if (!sums || !products.name) return propane_fail_memory(err, 0);
        PROPANE_TRY(
            gradient_products_split(function, p->module, products.name, sums, &products.function, &k.function, err));
        if (!products.function)
            k.function = function;
        else
            PROPANE_TRY(partition_add_one(p, b, products, err));
    }
    return partition_add_one(p, b, k, err);
}

static propane_status partition_cut_with(partition *p, partition_block *b, cutter *c, bool *weights_only,
                                         propane_error *err) {
    const char *results[WEIGHTS_MAX], *kernel_names[MAX_ROWS];
    mil_function *functions[MAX_ROWS] = {NULL};
    int count = 0;
    for (int i = 1; i < b->forward->param_count && count < WEIGHTS_MAX; i++) {
        if (!partition_is_trained(p, b, b->forward->params[i]->name)) continue;
        results[count] = arena_printf(p->arena, "d_%s", b->forward->params[i]->name);
        if (!results[count++]) return propane_fail_memory(err, 0);
    }
    PROPANE_TRY(grad_only_for(b->joint, results, count, weights_only, err));
    PROPANE_TRY(partition_assign_homes(c, b, p->options.name, weights_only, err));
    for (int r = 0; r < c->count; r++) {
        kernel_names[r] = partition_name_for(p, c->rows[r]->kernel, b->kind);
        if (!kernel_names[r]) return propane_fail_memory(err, 0);
    }
    grad_cut_plan cut = {.kernel_count = c->count,
                         .names = kernel_names,
                         .home = partition_cut_home,
                         .recompute = partition_cut_again,
                         .ctx = c};
    PROPANE_TRY(grad_cut(b->joint, &cut, p->module, functions, err));
    b->first = p->kernel_count;
    for (int r = 0; r < c->count; r++) {
        if (!functions[r]) continue;
        PROPANE_TRY(partition_add_kernel(p, b, c->rows[r], kernel_names[r], functions[r], err));
    }
    return PROPANE_OK;
}

static propane_status partition_cut_block(partition *p, partition_block *b, propane_error *err) {
    cutter c = {.joint = b->joint, .keep_norms = p->options.keep_norms};
    const char *plan = b->part == MODEL_HEAD ? partition_head_rows(&p->options) : p->options.name;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].plan, plan) == 0 && rows[i].part == b->part && c.count < MAX_ROWS)
            c.rows[c.count++] = &rows[i];
    c.home = mem_array((size_t)b->joint->value_count + 1, sizeof *c.home);
    c.root = mem_array((size_t)b->joint->value_count + 1, sizeof *c.root);
    c.moves = mem_array((size_t)b->joint->value_count + 1, sizeof *c.moves);
    c.leaves = mem_array((size_t)b->joint->value_count + 1, sizeof *c.leaves);
    bool *weights_only = mem_array((size_t)b->joint->op_count + 1, sizeof *weights_only);
    propane_status status = c.home && c.root && c.moves && c.leaves && weights_only
                                ? partition_cut_with(p, b, &c, weights_only, err)
                                : propane_fail_memory(err, (size_t)b->joint->value_count);
    mem_free(c.moves);
    mem_free(c.leaves);
    mem_free(c.home);
    mem_free(c.root);
    mem_free(weights_only);
    return status;
}

/* ---- plans -------------------------------------------------------------------------------------------------------------- */

static propane_status partition_check_name(const char *name, propane_error *err) {
    char known[100] = "";
    for (int i = 0; i < partition_name_count(); i++) {
        if (strcmp(names[i], name) == 0) return PROPANE_OK;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "there is no plan '%.40s'; the plans are %s", name, known);
}

propane_status partition_create(const model_config *config, const partition_options *options, partition **out,
                                propane_error *err) {
    *out = NULL;
    PROPANE_TRY(partition_check_name(options->name, err));
    if (options->half_stream && (strcmp(options->name, "layer") != 0 || options->precision != MIL_fp16))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--stream fp16 is for plan layer in fp16: plan %s %s; leave it out", options->name,
                            options->precision != MIL_fp16 ? "computes in fp32 here" : "keeps the stream on the host");
    arena *a = arena_create();
    partition *p = a ? ARENA_NEW(a, partition) : NULL;
    if (!p) {
        arena_free(a);
        return propane_fail_memory(err, sizeof *p);
    }
    *p = (partition){.arena = a,
                     .options = *options,
                     .config = *config,
                     .module = mil_module_create("plan"),
                     .kernels = ARENA_ARRAY(a, PARTITION_BLOCKS * MAX_ROWS, partition_kernel)};
    p->options.name = arena_string(a, options->name);
    propane_status status = p->module && p->kernels && p->options.name ? PROPANE_OK : propane_fail_memory(err, 0);
    if (!status) partition_list_blocks(p);
    for (int i = 0; i < p->block_count && status == PROPANE_OK; i++)
        status = partition_build_block(p, &p->blocks[i], err);
    for (int i = 0; i < p->block_count && status == PROPANE_OK; i++)
        status = partition_cut_block(p, &p->blocks[i], err);
    if (status != PROPANE_OK)
        partition_free(p);
    else
        *out = p;
    return status;
}

int64_t partition_calls(const partition *p, const partition_kernel *k) {
    int64_t pieces = model_weights_pieces(&p->config);
    int64_t alike = 0;
    if (k->part == MODEL_FFN) return p->config.num_hidden_layers;
    for (int64_t i = 0; k->part == MODEL_ATTN && i < p->config.num_hidden_layers; i++)
        alike += model_config_kind(&p->config, i) == k->kind;
    if (k->part == MODEL_ATTN) return alike;
    return pieces > 1 && !k->backward ? 2 * pieces : pieces;
}

void partition_split_head(model_config *c, int64_t batch, int64_t context) {
    double logits = (double)batch * (double)context * (double)c->vocab_size * 4;
    c->vocab_piece = 0;
    if (c->vocab_size <= PARTITION_HEAD_ROWS ||
        (c->vocab_size <= PARTITION_HEAD_MOST && logits <= PARTITION_LOGITS_BYTES))
        return;
    int64_t least = (c->vocab_size + PARTITION_HEAD_ROWS - 1) / PARTITION_HEAD_ROWS;
    for (int64_t n = least; n <= 8 * least; n++)
        if (c->vocab_size % n == 0 && c->vocab_size / n * c->hidden_size % 16 == 0) {
            c->vocab_piece = c->vocab_size / n;
            return;
        }
}

void partition_free(partition *p) {
    if (!p) return;
    mil_module_free(p->module);
    arena_free(p->arena);
}

static void partition_print_values(text *out, const char *title, mil_value *const *values, int count) {
    text_printf(out, "    %s", title);
    for (int i = 0; i < count; i++) {
        const mil_type *t = &values[i]->type;
        text_printf(out, " %s[", values[i]->name);
        for (int d = 0; d < t->rank; d++) text_printf(out, "%s%lld", d ? "," : "", (long long)t->dim[d]);
        text_printf(out, "]%s", t->dtype == MIL_fp16 ? "h" : "");
    }
    text_append(out, "\n");
}

void partition_print(const partition *p, text *out) {
    double flops = 0, bytes = 0;
    text_printf(out,
                "plan %s, head on the %s: %s, batch %lld, context %lld; %lld layers share the attn and ffn kernels\n",
                p->options.name, partition_head_name(&p->options), p->options.precision == MIL_fp16 ? "fp16" : "fp32",
                (long long)p->options.batch, (long long)p->options.context, (long long)p->config.num_hidden_layers);
    if (model_weights_pieces(&p->config) > 1)
        text_printf(out,
                    "the head is computed in %lld pieces of %lld rows, each twice: once for the loss and once for its "
                    "gradient\n",
                    (long long)model_weights_pieces(&p->config), (long long)p->config.vocab_piece);
    text_printf(out, "%-5s %-12s %-6s %-8s %10s %10s %5s\n", "block", "kernel", "place", "pass", "MFLOP", "MB", "taps");
    for (int i = 0; i < p->block_count; i++)
        for (int n = 0; n < p->blocks[i].count; n++) {
            const partition_block *b = &p->blocks[i];
            const partition_kernel *k = &p->kernels[b->first + n];
            int taps = 0;
            for (int r = 0; r < k->function->result_count && !k->backward; r++)
                taps += strcmp(k->function->results[r]->name, b->result) != 0;
            double times = (double)partition_calls(p, k);
            flops += times * k->flops;
            bytes += times * k->bytes;
            text_printf(out, "%-5s %-12s %-6s %-8s %10.2f %10.3f %5d\n", b->name, k->name,
                        k->place == PARTITION_HOST ? "host" : "device", k->backward ? "backward" : "forward",
                        k->flops / 1e6, k->bytes / 1e6, taps);
            partition_print_values(out, "in ", k->function->params, k->function->param_count);
            partition_print_values(out, "out", k->function->results, k->function->result_count);
        }
    text_append(out, "taps: results of a forward kernel that the backward pass needs\n");
    text_printf(out, "a step of one batch: %.3f GFLOP, %.3f MB through the kernels' inputs and outputs\n", flops / 1e9,
                bytes / 1e6);
}
