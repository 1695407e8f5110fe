/* SPDX-License-Identifier: MIT
 * propane power: prints the energy that the machine reports for a number of seconds, or while a command runs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/power_meter.h"
#include "apps/propane/progress.h"
#include "core/base/clock.h"
#include "core/base/energy.h"

propane_status power_open(energy_meter **out, propane_error *err) {
    const energy_source source = {.powercap = getenv("PROPANE_POWERCAP")};
    return energy_open(source.powercap ? &source : NULL, out, err);
}

static void cmd_power_print_text(const energy_reading *r) {
    printf("over %.2f s\n", r->seconds);
    for (int i = 0; i < ENERGY_PARTS; i++) {
        if (r->why[i])
            printf("  %-5s unknown: %s\n", energy_part_name((energy_part)i), r->why[i]);
        else
            printf("  %-5s %10.3f J %10.3f W\n", energy_part_name((energy_part)i), r->joules[i],
                   r->joules[i] / r->seconds);
    }
}

static void cmd_power_print_json(const energy_reading *r) {
    printf("{\"seconds\":%.6f", r->seconds);
    progress_energy(r);
    printf("}\n");
}

/* Waits until the time end_ns of clock_ns, or until Ctrl-C. */
static void cmd_power_wait_until(int64_t end_ns) {
    while (!cli_interrupted && clock_ns() < end_ns) {
        int64_t left = end_ns - clock_ns(), pause = left > 50000000 ? 50000000 : left > 0 ? left : 1;
        nanosleep(&(struct timespec){pause / 1000000000, pause % 1000000000}, NULL);
    }
}

static propane_status cmd_power_start(char *const *words, pid_t *out, propane_error *err) {
    fflush(stdout);
    *out = fork();
    if (*out < 0) return propane_fail(err, PROPANE_ERR_IO, "cannot start %s: %s", words[0], strerror(errno));
    if (*out == 0) {
        execvp(words[0], words);
        fprintf(stderr, "propane power: cannot run %s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    return PROPANE_OK;
}

typedef struct power_job {
    double seconds, every;
    bool json;
    cli_list command;
    int code;
} power_job;

static propane_status cmd_power_show(power_job *j, energy_meter *m, propane_error *err) {
    energy_reading r;
    PROPANE_TRY(energy_read(m, &r, err));
    (j->json ? cmd_power_print_json : cmd_power_print_text)(&r);
    return cli_flush() ? PROPANE_OK : propane_fail(err, PROPANE_ERR_CANCELLED, "the reader closed the pipe");
}

static propane_status cmd_power_measure(power_job *j, energy_meter *m, propane_error *err) {
    pid_t child = 0;
    int state = 0;
    int64_t now = clock_ns(), step = (int64_t)(j->every * 1e9), end = now + (int64_t)(j->seconds * 1e9),
            next = now + step;
    if (j->command.count) PROPANE_TRY(cmd_power_start(j->command.items, &child, err));
    while (!cli_interrupted) {
        pid_t over = child ? waitpid(child, &state, WNOHANG) : 0;
        if (over || (!child && clock_ns() >= end)) break;
        int64_t until = clock_ns() + 50000000;
        if (!child && end < until) until = end;
        if (step && next < until) until = next;
        cmd_power_wait_until(until);
        if (step && clock_ns() >= next && (child || clock_ns() < end)) {
            PROPANE_TRY(cmd_power_show(j, m, err));
            next += step;
        }
    }
    if (child && cli_interrupted) waitpid(child, &state, 0); /* the terminal sent Ctrl-C to the child, too */
    if (child) j->code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return cmd_power_show(j, m, err);
}

int cmd_power(int argc, char **argv) {
    power_job j = {.seconds = 10};
    const cli_flag flags[] = {
        {"COMMAND...", CLI_TEXT, &j.command,
         .help = "command to run after --; measures until it ends, and exits with its code"},
        {"--seconds", CLI_REAL, &j.seconds, 0.01, 1e6, "N", .help = "seconds to measure when no command is given"},
        {"--every", CLI_REAL, &j.every, 0, 1e6, "N", .help = "print every N seconds; 0: only at the end"},
        {"--json", CLI_SWITCH, &j.json, .help = "print one JSON object per line; unknown parts are null"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "power [flags] [-- COMMAND...]",
                         "Prints the energy used by this machine's processor, GPU, Neural Engine and memory. It "
                         "reads /sys/class/powercap on Linux (as root) and IOReport on macOS. Parts that "
                         "the system does not measure are shown as unknown.");
    if (code >= 0) return code;
    propane_error err = {0};
    energy_meter *m = NULL;
    cli_catch_signals();
    propane_status status = power_open(&m, &err);
    if (status == PROPANE_OK) status = cmd_power_measure(&j, m, &err);
    energy_close(m);
    if (status != PROPANE_OK) return cli_error("power", &err);
    return cli_interrupted ? cli_interrupt_code() : j.code;
}
