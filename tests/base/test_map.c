/* SPDX-License-Identifier: MIT
 * Tests the hash maps: every entered name is found, and names that collide under the published function do not collide
 * in a table.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/map.h"
#include "support/test.h"

enum { NAMES = 1000, SLOTS = 1 << 11 }; /* SLOTS: the capacity for that many names; at most two thirds are used */

static char names[NAMES][12];

TEST(what_is_entered_is_found) {
    piece_map m = {0};
    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i * 7);
        EXPECT(*piece_map_enter(&m, names[i], strlen(names[i]), i) == i);
        EXPECT(*piece_map_enter(&m, names[i], strlen(names[i]), -1) == i);
    }
    for (int i = 0; i < NAMES; i++) EXPECT(piece_map_index(&m, names[i]) == i);
    EXPECT(m.count == NAMES && piece_map_index(&m, "n1") == -1 && piece_map_index(&m, "") == -1);
    piece_map_deinit(&m);
    EXPECT(piece_map_index(&m, names[0]) == -1);
}

/* The function of map.c without the table's address. */
static size_t known_place(const char *text) {
    uint64_t h = strlen(text);
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
    return (size_t)(h ^ (h >> 29)) & (SLOTS - 1);
}

TEST(no_file_can_choose_the_places) {
    piece_map m = {0};
    int count = 0, run = 0, longest = 0;
    for (unsigned i = 0; count < NAMES; i++) {
        snprintf(names[count], sizeof names[count], "k%x", i);
        count += known_place(names[count]) == 5;
    }
    for (int i = 0; i < NAMES; i++) EXPECT(piece_map_enter(&m, names[i], strlen(names[i]), i));
    EXPECT(m.capacity == SLOTS);
    for (size_t i = 0; i < SLOTS; i++) {
        run = m.texts[i] ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    EXPECT_MSG(longest < NAMES / 4, "%d of %d names are in a row", longest,
               NAMES); /* observed in 60 runs: 12 to 30; all of them without it */
    piece_map_deinit(&m);
}

SUITE("base/map", T(what_is_entered_is_found), T(no_file_can_choose_the_places))
