/* SPDX-License-Identifier: MIT
 * Declares what the files of propane_module_page share. The page consists of JSON data, which these files write, and a
 * script that draws the data (src/report/page). The code that writes a part of the data explains its meaning.
 */
#ifndef REPORT_PAGE_PAGE_PARTS_H
#define REPORT_PAGE_PAGE_PARTS_H

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/mil/mil.h"
#include "propane.h"

/* One drawing, which shows a function or a block of an operation. Its nodes are the inputs, then the operations in
 * program order without constants, then the outputs. */
typedef struct page_graph {
    const mil_function *f;
    const char *name;     /* "main", "main / cond 'y' / block 1" */
    const char *function; /* the module's function that contains `f`, or is `f` */
    int first_op, op_count, node_count;
    const mil_op **ops; /* [op_count] */
    int *maker;         /* [value id]: the node that computes the value, or -1 for a constant */
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

/* Creates the drawings of all functions and of their blocks. */
PROPANE_CHECK propane_status page_graphs_make(page *p, propane_error *err);
/* Returns the node that computes `value` in a function of the module, or NULL if there is none. */
json_t *page_graph_find(const page *p, const char *function, const char *value);
/* Fills g->blocks with the sequences of operations that repeat, or whose names share a scope. Each is {"f": first node,
 * "l": last node, "n": name, "p": enclosing block or -1, "k": id that equivalent blocks share}. */
PROPANE_CHECK propane_status page_blocks_find(page *p, page_graph *g, propane_error *err);
/* Adds the findings of the rules and the estimated costs to the nodes and the root. */
PROPANE_CHECK propane_status page_chips_judge(page *p, propane_error *err);
/* Returns a text from a file as a JSON string in which control characters are visible. */
json_t *page_words(const char *s);

/* The page's style, body and script from src/report/page, as terminated strings. */
extern const char page_style[], page_body[], page_script[];

#endif
