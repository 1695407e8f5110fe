/* SPDX-License-Identifier: MIT
 * The ane driver's client route under the conformance suite, against the stand-in.
 */
#include "drivers/conformance.h"
#include "support/ane_rig.h"

TEST(the_stand_in_is_there) { SKIP("there is no stand-in on this system"); }

int main(int argc, char **argv) {
    static const test_case none[] = {T(the_stand_in_is_there)};
    static const conformance_driver driver = {.title = "drivers/ane_client", .uri = "ane:client"};
    if (!ane_rig_enter(argv[0])) return test_main("drivers/ane_client", none, 1, argc, argv);
    int code = conformance_main(&driver, argc, argv);
    ane_rig_leave();
    return code;
}
