/* SPDX-License-Identifier: MIT
 * No plan and no output bit of the cpu driver may change by accident: compares this build's results for the
 * repository's programs with tests/oracle/record.txt. Intended changes are recorded again.
 */
#include "core/base/file.h"
#include "core/base/memory.h"
#include "oracle/record.h"
#include "support/test.h"

TEST(plans_and_bits_are_those_of_the_record) {
    propane_error err = {0};
    text now = {0}, differs = {0};
    char *record = NULL;
    size_t length = 0;
    int checked, skipped;
    EXPECT_OK(file_read(RECORD_PATH, 1 << 24, &record, &length, &err));
    record_make(&now);
    const int count = record_compare(record, now.data, &differs, &checked, &skipped);
    printf("  %d rows, %d of kernels that this machine or the record lacks\n", checked, skipped);
    if (count)
        fprintf(stderr,
                "%s%d rows differ from " RECORD_PATH
                ". If that is meant, run 'make tests && sh tools/oracle.sh --renew', commit the "
                "file and say in the message why. If it is not, tools/oracle.sh tells which step, buffer or output: "
                "see its "
                "head.\n",
                differs.data, count);
    EXPECT_MSG(count == 0, "%d rows differ from " RECORD_PATH, count);
    text_deinit(&now);
    text_deinit(&differs);
    mem_free(record);
    if (checked == 0) SKIP("the record has no rows for this processor's kernels; they are listed in its head");
}

TEST(differences_are_found_and_named) {
    static const char record[] = "# head\na\tavx2\t1\t2\na\tneon\t1\t2\nb\tavx2\t1\t-\nc\tavx2\t1\t2\nd\tavx2\t1\t2\n";
    static const char now[] = "a\tavx2\t1\t3\na\tplain\t7\t7\nb\tavx2\t1\t9\nc\tavx2\t4\t5\ne\tavx2\t1\t2\n";
    text out = {0};
    int checked, skipped;
    EXPECT(record_compare(record, record, &out, &checked, &skipped) == 0 && checked == 5 && skipped == 0 && !out.data);
    EXPECT(record_compare(record, now, &out, &checked, &skipped) == 4 && checked == 3 && skipped == 2);
    EXPECT_TEXT(out.data, "a (avx2): other bits in the outputs\n"
                          "c (avx2): another plan, and other bits in the outputs\n"
                          "e (avx2): is not in the record\n"
                          "d (avx2): only the record has it\n");
    text_deinit(&out);
}

SUITE("oracle/record", T(plans_and_bits_are_those_of_the_record), T(differences_are_found_and_named))
