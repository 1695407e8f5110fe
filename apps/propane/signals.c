/* SPDX-License-Identifier: MIT
 * Owns the effects of Ctrl-C, SIGTERM and SIGHUP. A command that must save something catches these signals
 * (cli_catch_signals) and ends by itself. A signal ends any other command after a thread has removed unfinished files,
 * because a handler must not do that. Signals that are ignored when the process starts, such as SIGHUP under nohup,
 * stay ignored, except that cli_catch_signals always catches Ctrl-C and SIGTERM.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/temporary.h"

enum { TOGETHER_NS = 500000000 };

volatile bool cli_interrupted;
static volatile sig_atomic_t signals_first;
static void (*volatile signals_call)(void *object);
static void *volatile signals_object;

void cli_interrupt(void) {
    cli_interrupted = true;
    if (signals_call) signals_call(signals_object);
}

void cli_on_interrupt(void (*call)(void *object), void *object) {
    signals_call = NULL;
    signals_object = object;
    signals_call = call;
}

int cli_interrupt_code(void) { return signals_first ? 128 + signals_first : CLI_INTERRUPTED; }

/* Returns whether this is a second signal rather than a copy of the first one. Copies occur because timeout(1) sends a
 * signal to a process and then to its group. */
static bool signals_is_second(void) {
    static atomic_int_least64_t first;
    int64_t none = 0;
    const int64_t now = clock_ns();
    return !atomic_compare_exchange_strong(&first, &none, now) && now - none >= TOGETHER_NS;
}

/* ---- ended by a signal ------------------------------------------------------------------------------------------------------- */

static int signals_pipe[2] = {-1, -1};
static _Atomic pid_t signals_owner; /* the process whose thread waits; a child after fork has no such thread */

static void signals_end(int number) {
    signal(number, SIG_DFL);
    kill(getpid(), number);
}

static void *signals_clear(void *arg) {
    unsigned char number;
    (void)arg;
    while (read(signals_pipe[0], &number, 1) != 1)
        if (errno != EINTR) return NULL;
    temporary_remove_all();
    signals_end(number);
    return NULL;
}

/* Returns whether there are unfinished files, and a thread in this process that can remove them. */
static bool signals_can_clear(void) { return atomic_load(&signals_owner) == getpid() && temporary_exists(); }

/* Passes the signal to the thread. Returns false if an earlier signal was already passed, or if there is nothing to
 * remove or no thread. */
static bool signals_hand_over(int number) {
    static atomic_bool handed;
    const unsigned char byte = (unsigned char)number;
    return signals_can_clear() && !atomic_exchange(&handed, true) && write(signals_pipe[1], &byte, 1) == 1;
}

static void signals_on_default(int number) {
    const bool second = signals_is_second();
    if (!signals_can_clear() || (!signals_hand_over(number) && second)) signals_end(number);
}

static void signals_replace_default(int number) {
    struct sigaction action = {.sa_handler = signals_on_default, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL) sigaction(number, &action, NULL);
}

/* Starts the thread before the first temporary file is created. If the thread cannot be started, signals end the
 * process in the usual way. */
static void signals_arm(void) {
    if (atomic_load(&signals_owner) == getpid()) return;
    if (signals_pipe[0] >= 0) {
        close(signals_pipe[0]);
        close(signals_pipe[1]);
    }
    pthread_t thread;
    if (pipe(signals_pipe) != 0) return;
    for (int i = 0; i < 2; i++) fcntl(signals_pipe[i], F_SETFD, FD_CLOEXEC);
    if (pthread_create(&thread, NULL, signals_clear, NULL) != 0) return;
    pthread_detach(thread);
    atomic_store(&signals_owner, getpid());
    signals_replace_default(SIGINT);
    signals_replace_default(SIGTERM);
    signals_replace_default(SIGHUP);
}

void cli_clear_at_signals(void) { temporary_on_making(signals_arm); }

/* ---- caught ------------------------------------------------------------------------------------------------------------------ */

/* Handles a caught signal. The second one ends the process. */
static void signals_on_caught(int number) {
    const bool second = signals_is_second();
    if (cli_interrupted && signals_first && !second) return;
    if (cli_interrupted && !signals_hand_over(number)) _exit(128 + number);
    if (cli_interrupted) return;
    signals_first = number;
    cli_interrupt();
}

static bool signals_caught(void) { return cli_interrupted; }

void cli_catch_signals(void) {
    struct sigaction action = {.sa_handler = signals_on_caught}, before;
    file_end_waits(signals_caught);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL); /* not reached under nohup, where the signal stays ignored */
}
