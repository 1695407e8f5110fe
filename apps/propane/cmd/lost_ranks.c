/* SPDX-License-Identifier: MIT
 * Owns the message about a lost rank, and the timer whose signal handler writes it. The message is prepared in advance,
 * because a signal handler must not format text. mpirun waits about a second between asking a rank to stop and killing
 * it.
 */
#include "apps/propane/cmd/lost_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/file.h"

enum { PATIENCE_US = 600000 };

static struct {
    char dir[2000], checkpoint[2100], advice[2400], message[2600];
    volatile int rank;
    volatile bool ready;
} lost;

/* Returns whether the first rank is alive. While it lives, it holds a lock on the run's folder. */
static bool lost_ranks_first_lives(void) {
    const int fd = open(lost.dir, O_RDONLY | O_CLOEXEC);
    const bool lives = fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (fd >= 0) (void)close(fd);
    return lives;
}

static void lost_ranks_write(int number) {
    (void)number;
    if (!lost.ready || access(lost.checkpoint, F_OK) != 0 || (lost.rank == 1 && lost_ranks_first_lives())) return;
    if (write(STDERR_FILENO, lost.message, strlen(lost.message)) < 0) return;
}

void lost_ranks_prepare(const propane_ranks *ranks, const char *dir) {
    lost.rank = propane_ranks_rank(ranks);
    if (strlen(dir) >= sizeof lost.dir) return;
    snprintf(lost.dir, sizeof lost.dir, "%s", dir);
    snprintf(lost.checkpoint, sizeof lost.checkpoint, "%s/checkpoint.safetensors", lost.dir);
    snprintf(lost.advice, sizeof lost.advice,
             "the last checkpoint is complete; continue from it with mpirun -n %d propane train --resume --run %s and "
             "the same --data (the number of ranks may differ)",
             propane_ranks_count(ranks), lost.dir);
    if (lost.rank > 1) return; /* only the first two ranks may print the message */
    snprintf(lost.message, sizeof lost.message,
             "propane train: the ranks have not stopped yet, although they were asked to; if one was lost, %s\n",
             lost.advice);
    struct sigaction action = {.sa_handler = lost_ranks_write};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    lost.ready = true;
}

void lost_ranks_expect(void) {
    const struct itimerval soon = {.it_value = {0, PATIENCE_US}};
    if (lost.ready) (void)setitimer(ITIMER_REAL, &soon, NULL);
}

void lost_ranks_forget(void) {
    const struct itimerval never = {0};
    if (lost.ready) (void)setitimer(ITIMER_REAL, &never, NULL);
    lost.ready = false;
}

const char *lost_ranks_advice(void) { return *lost.advice && file_exists(lost.checkpoint) ? lost.advice : ""; }
