/* SPDX-License-Identifier: MIT
 * Owns the description of a loaded program: its symbols, procedures, shapes and strides, in the dictionary that
 * modelAttributes returns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin/engine.h"

static object *make_entry(const port *p, bool output) {
    static const char *const names[] = {"Batches",     "Channels",    "Depth",       "Height",   "Width",
                                        "BatchStride", "PlaneStride", "DepthStride", "RowStride"};
    object *keys[11], *values[11];
    char symbol[220];
    snprintf(symbol, sizeof symbol, "%s%s", p->name, output ? "@output" : "");
    bool strange = standin_is("attributes", "shapes") || (!output && standin_is("attributes", "params"));
    for (int k = 0; k < 9; k++) {
        keys[k] = standin_string(names[k]);
        values[k] = standin_integer((long)(k < 5 ? p->size[k] + (strange && k == 4) : p->stride[k - 5]));
        if (standin_is("attributes", "rows") && k == 8) values[k]->count = p->size[4] * p->element / 2;
    }
    keys[9] = standin_string("Name"), values[9] = standin_string(p->name);
    keys[10] = standin_string("Symbol"), values[10] = standin_string(symbol);
    return standin_make_dictionary(keys, values, 11);
}

/* Maps names to numbers. */
static object *make_map(const program *p) {
    object *keys[128], *values[128];
    int count = standin_program_procedures(p);
    for (int k = 0; k < count; k++) {
        keys[k] = standin_string(standin_program_name(p, k));
        values[k] = standin_integer(k);
    }
    return standin_make_dictionary(keys, values, count);
}

/* Makes LiveInputList and LiveOutputList of one procedure. */
static object *make_network(const program *p, int procedure) {
    static const char *const live[] = {"LiveInputList", "LiveOutputList"};
    object *lists[2], *keys[2], *list[256];
    for (int side = 0; side < 2; side++) {
        const port *ports;
        int count = standin_program_ports(p, side, &ports), own = 0;
        for (int k = 0; k < count; k++)
            if (ports[k].procedure == procedure) list[own++] = make_entry(&ports[k], side);
        lists[side] = standin_make_array(list, own);
        keys[side] = standin_string(!side && standin_is("attributes", "params") ? "LiveInputParamList" : live[side]);
    }
    return standin_make_dictionary(keys, lists, 2);
}

static object *make_symbols(const program *p, int side) {
    const port *ports;
    int count = standin_program_ports(p, side, &ports);
    object **list = calloc((size_t)count + 1, sizeof *list);
    if (!list) abort();
    for (int k = 0; k < count; k++) {
        char symbol[240];
        snprintf(symbol, sizeof symbol, "%s%s%s", ports[k].name, standin_is("attributes", "strange") ? "_x" : "",
                 side ? "@output" : "");
        list[k] = standin_string(symbol);
    }
    object *made = standin_make_array(list, count);
    free(list);
    return made;
}

object *standin_make_attributes(const program *p) {
    static const char *const order[] = {"kANEFModelInputSymbolsArrayKey", "kANEFModelOutputSymbolsArrayKey",
                                        "kANEFModelProcedureNameToIDMapKey"};
    object *keys[3], *values[3], *networks[128];
    int count = standin_program_procedures(p);
    for (int k = 0; k < count; k++) networks[k] = make_network(p, k);
    for (int k = 0; k < 3; k++) {
        keys[k] = standin_string(order[k]);
        values[k] = k < 2 ? make_symbols(p, k) : make_map(p);
    }
    object *both[2] = {standin_make_array(networks, count), standin_make_dictionary(keys, values, 3)};
    keys[0] = standin_string("NetworkStatusList"), keys[1] = standin_string("ANEFModelDescription");
    return standin_make_dictionary(keys, both, 2);
}
