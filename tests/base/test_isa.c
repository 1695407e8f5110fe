/* SPDX-License-Identifier: MIT
 * PROPANE_ISA limits everything that has several forms by instruction set, not only the kernels.
 */
#include "core/base/isa.h"

#include <stdlib.h>
#include <string.h>

#include "support/test.h"

/* Each test is a separate process, because the switch is read only once. */
TEST(plain_allows_nothing_else) {
    EXPECT(setenv("PROPANE_ISA", "plain", 1) == 0);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) EXPECT(cpu_isa_allows((cpu_isa)isa) == (isa == CPU_ISA_PLAIN));
}

TEST(nothing_set_allows_what_is_there) {
    EXPECT(unsetenv("PROPANE_ISA") == 0);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        EXPECT(cpu_isa_allows((cpu_isa)isa) == cpu_isa_available((cpu_isa)isa));
}

TEST(each_set_allows_itself_and_those_below) {
    const cpu_isa best = cpu_isa_best();
    EXPECT(setenv("PROPANE_ISA", cpu_isa_name(best), 1) == 0);
    EXPECT(cpu_isa_allows(best) && cpu_isa_allows(CPU_ISA_PLAIN));
}

TEST(an_unknown_name_is_the_devices_error_and_limits_nothing) {
    propane_error err = {0};
    cpu_isa isa;
    EXPECT(setenv("PROPANE_ISA", "sse9", 1) == 0);
    EXPECT(cpu_isa_current(&isa, &err) == PROPANE_ERR_INVALID && strstr(err.text, "sse9"));
    EXPECT(cpu_isa_allows(cpu_isa_best()));
}

SUITE("base/isa", T(plain_allows_nothing_else), T(nothing_set_allows_what_is_there),
      T(each_set_allows_itself_and_those_below), T(an_unknown_name_is_the_devices_error_and_limits_nothing))
