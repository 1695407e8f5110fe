/* SPDX-License-Identifier: MIT
 * What the files behind propane_module_page share. The page is data in JSON, made here, and a script that draws it
 * (src/report/page); their meaning is explained where they are put.
 */
#ifndef REPORT_PAGE_PAGE_PARTS_H
#define REPORT_PAGE_PAGE_PARTS_H

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/mil/mil.h"
#include "propane.h"

/* One drawing: a function, or a block of an operation. Nodes are inputs, operations that are no constants in their
 * order, outputs. */
typedef struct page_graph {
    const mil_function *f;
    const char *name;     /* "main", "main / cond 'y' / block 1" */
    const char *function; /* of the module, in which it is */
    int first_op, op_count, node_count;
    const mil_op **ops; /* [op_count] */
    int *maker;         /* [value id]: the node that makes it, -1: a constant */
    json_t *nodes;      /* array; the page's */
    json_t *blocks;     /* array; the page's */
} page_graph;

typedef struct page {
    const mil_module *m;
    const propane_page_options *options;
    arena *arena;
    page_graph *graphs;
    int graph_count;
    json_t *root;
} page;

/* The drawings of all functions and their blocks. */
PROPANE_CHECK propane_status page_graphs_make(page *p, propane_error *err);
/* The node of the value of that name in a function of the module; NULL: there is none. */
json_t *page_graph_find(const page *p, const char *function, const char *value);
/* Stretches of operations that come again and again, or have one scope in their names, as a list of
 * {"f": first, "l": last node, "n": name, "p": block around it or -1, "k": which blocks are alike}. */
PROPANE_CHECK propane_status page_blocks_find(page *p, page_graph *g, propane_error *err);
/* What rules and the cost model say, into the nodes and the root. */
PROPANE_CHECK propane_status page_chips_judge(page *p, propane_error *err);
/* Words out of files: control characters are shown. */
json_t *page_words(const char *s);

/* The parts of src/report/page, terminated. */
extern const char page_style[], page_body[], page_script[];

#endif
