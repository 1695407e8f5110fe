/* SPDX-License-Identifier: MIT
 * Declarations shared by the files that implement propane_module_page. The page consists of JSON data, made here, and a
 * script that draws them (src/report/page). The data's meaning is explained where they are written.
 */
#ifndef REPORT_PAGE_PAGE_PARTS_H
#define REPORT_PAGE_PAGE_PARTS_H

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/mil/mil.h"
#include "propane.h"

/* One drawing: a function, or a block of an operation. Nodes are inputs, then operations other than constants in their
 * order, then outputs. */
typedef struct page_graph {
    const mil_function *f;
    const char *name;     /* "main", "main / cond 'y' / block 1" */
    const char *function; /* function of the module that contains it */
    int first_op, op_count, node_count;
    const mil_op **ops; /* [op_count] */
    int *maker;         /* [value id], the node that computes it, or -1 for a constant */
    json_t *nodes;      /* array, owned by the page */
    json_t *blocks;     /* array, owned by the page */
} page_graph;

typedef struct page {
    const mil_module *m;
    const propane_page_options *options;
    arena *arena;
    page_graph *graphs;
    int graph_count;
    json_t *root;
} page;

/* Makes the drawings of all functions and their blocks. */
PROPANE_CHECK propane_status page_graphs_make(page *p, propane_error *err);
/* Returns the node of the value with that name in a function of the module, or NULL if there is none. */
json_t *page_graph_find(const page *p, const char *function, const char *value);
/* Finds sequences of operations that repeat or share a scope in their names, as a list of {"f": first, "l": last node,
 * "n": name, "p": enclosing block or -1, "k": id shared by equivalent blocks}. */
PROPANE_CHECK propane_status page_blocks_find(page *p, page_graph *g, propane_error *err);
/* Adds the results of rules and of the cost model to the nodes and the root. */
PROPANE_CHECK propane_status page_chips_judge(page *p, propane_error *err);
/* Returns a text from a file with control characters made visible. */
json_t *page_words(const char *s);

/* The parts of src/report/page, terminated. */
extern const char page_style[], page_body[], page_script[];

#endif
