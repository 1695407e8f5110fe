/* SPDX-License-Identifier: MIT
 * Connections without HTTP: which ones are closed when room is short, which clients have left, and where the server
 * listens.
 */
#include "apps/serve/connections.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "support/test.h"

static propane_error err;

typedef struct pair {
    int server, client;
    connection *c;
} pair;

static pair entered(connections *all) {
    int fd[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    pair p = {fd[0], fd[1], connections_enter(all, fd[0])};
    EXPECT(p.c != NULL);
    return p;
}

static void leave(connections *all, pair *p) {
    connections_leave(all, p->c);
    close(p->server), close(p->client);
}

/* Returns whether the client sees the end of the connection, at most `ms` from now. */
static bool is_ended(const pair *p, int ms) {
    struct pollfd wait = {.fd = p->client, .events = POLLIN};
    char byte;
    return poll(&wait, 1, ms) == 1 && recv(p->client, &byte, 1, MSG_DONTWAIT) == 0;
}

/* With more than three quarters of the connections taken, the one that has been idle longest is ended; one whose
 * request is being answered is not. */
TEST(the_longest_idle_connection_makes_room) {
    connections *all = NULL;
    const int64_t live = mem_live_count();
    EXPECT_OK(connections_open(4, 3600, &all, &err));
    pair p[4];
    for (int i = 0; i < 4; i++) p[i] = entered(all);
    connections_set_busy(all, p[0].c, true);
    EXPECT(is_ended(&p[1], 60000));
    EXPECT(!is_ended(&p[0], 0) && !is_ended(&p[2], 0) && !is_ended(&p[3], 0));
    leave(all, &p[1]);
    EXPECT(!is_ended(&p[2], 1500)); /* three are few enough */
    connections_set_busy(all, p[2].c, true);
    p[1] = entered(all);                      /* the fourth again */
    connections_set_busy(all, p[2].c, false); /* answered, so it is idle from now on and is the last */
    EXPECT(is_ended(&p[3], 60000));
    EXPECT(!is_ended(&p[0], 0) && !is_ended(&p[1], 0) && !is_ended(&p[2], 0));
    for (int i = 0; i < 4; i++) leave(all, &p[i]);
    connections_leave(all, NULL);
    connections_set_busy(all, NULL, true);
    connections_close(all);
    connections_close(NULL);
    EXPECT(mem_live_count() == live);
}

TEST(idle_connections_end_by_rules) {
    static const struct {
        int count, limit, too_many;
        bool full;
    } rooms[] = {{0, 4, -3, false},     {3, 4, 0, false},     {4, 4, 1, false},      {7, 8, 1, false},
                 {8, 8, 2, true},       {75, 100, 0, false},  {88, 100, 13, false},  {89, 100, 14, true},
                 {350, 400, 50, false}, {351, 400, 51, true}, {400, 400, 100, true}, {1, 1, 1, false}};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        EXPECT_MSG(connections_are_full(rooms[i].count, rooms[i].limit) == rooms[i].full, "row %zu", i);
        EXPECT_MSG(connections_too_many(rooms[i].count, rooms[i].limit) == rooms[i].too_many, "row %zu", i);
    }
    static const int64_t second = 1000000000, quarter = 250000000, minute = 60 * INT64_C(1000000000);
    static const struct {
        bool full;
        int too_many;
        int64_t idle, patience;
        bool ends;
    } cases[] = {
        {false, 1, second, minute, true},      {false, 1, second - 1, minute, false}, {true, 1, quarter, minute, true},
        {true, 1, quarter - 1, minute, false}, {false, 0, second, minute, false},     {true, 0, second, minute, false},
        {true, -1, second, minute, false},     {false, 0, minute, minute, true},      {false, -5, minute, minute, true},
        {false, 0, minute - 1, minute, false}, {false, 0, second - 1, 1, false},      {false, 0, second, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        EXPECT_MSG(connections_ends(cases[i].full, cases[i].too_many, cases[i].idle, cases[i].patience) ==
                       cases[i].ends,
                   "case %zu", i);
}

/* No connection ends before it has been idle for the time that the rules allow, and only surplus connections end. */
TEST(young_connections_do_not_end) {
    for (int limit = 4; limit <= 8; limit += 4) { /* of eight, the last is one of the last eighth */
        connections *all = NULL;
        pair p[8];
        EXPECT_OK(connections_open(limit, 3600, &all, &err));
        const int64_t begin = clock_ns();
        for (int i = 0; i < limit; i++) p[i] = entered(all);
        for (int i = 0; i < limit / 4; i++) EXPECT(is_ended(&p[i], 60000));
        EXPECT(clock_ns() - begin >= (limit == 4 ? 1000 : 250) * INT64_C(1000000));
        for (int i = limit / 4; i < limit; i++) EXPECT(!is_ended(&p[i], i == limit - 1 ? 1300 : 0));
        for (int i = 0; i < limit; i++) leave(all, &p[i]);
        connections_close(all);
    }
}

/* Between two requests a connection may be idle for a limited number of seconds, even if there are free connections. */
TEST(a_connection_may_be_idle_for_a_while) {
    connections *all = NULL;
    EXPECT_OK(connections_open(100, 2, &all, &err));
    const int64_t begin = clock_ns();
    pair busy = entered(all), idle = entered(all);
    connections_set_busy(all, busy.c, true);
    EXPECT(is_ended(&idle, 60000));
    EXPECT(clock_ns() - begin >= INT64_C(2000000000) && !is_ended(&busy, 0));
    leave(all, &busy), leave(all, &idle);
    connections_close(all);
}

/* A client that closes its side right after its request is still waiting; one that closes it later has left. */
TEST(who_has_left) {
    int fd[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    connections_peer soon = {fd[0], clock_ns() + INT64_C(3600000000000), false},
                     late = {fd[0], clock_ns() - 400000000, false};
    EXPECT(!connections_peer_left(&soon) && !connections_peer_left(&late));
    EXPECT(send(fd[1], "x", 1, 0) == 1);
    EXPECT(!connections_peer_left(&soon) && !connections_peer_left(&late));
    char byte;
    EXPECT(recv(fd[0], &byte, 1, 0) == 1);
    EXPECT(shutdown(fd[1], SHUT_WR) == 0);
    EXPECT(connections_peer_left(&late) && !late.half_closed && connections_peer_left(&late));
    EXPECT(!connections_peer_left(&soon) && soon.half_closed && !connections_peer_left(&soon));
    close(fd[0]), close(fd[1]);
}

TEST(where_the_server_listens) {
    int one = -1, two = -1, port = 0, other = 0;
    EXPECT_FAIL(connections_listen("example.org", 0, &one, &port, &err), PROPANE_ERR_INVALID,
                "'example.org' is not an address; give one of this machine");
    EXPECT_OK(connections_listen("localhost", 0, &one, &port, &err));
    EXPECT(one >= 0 && port > 0 && port < 65536);
    EXPECT_FAIL(connections_listen("127.0.0.1", port, &two, &other, &err), PROPANE_ERR_IO,
                "another program is using it; give another --port");
    EXPECT(two == -1);
    EXPECT_FAIL(connections_listen("192.0.2.1", 0, &two, &other, &err), PROPANE_ERR_IO,
                "give another --host or --port");
    close(one);
    EXPECT_OK(connections_listen("127.0.0.1", port, &one, &other, &err)); /* free again */
    EXPECT(other == port);
    close(one);
    if (connections_listen("::1", 0, &one, &port, &err) == PROPANE_OK) { /* where there is IPv6 */
        EXPECT(port > 0);
        close(one);
    }
}

SUITE("serve/connections", T(idle_connections_end_by_rules), T(young_connections_do_not_end),
      T(the_longest_idle_connection_makes_room), T(a_connection_may_be_idle_for_a_while), T(who_has_left),
      T(where_the_server_listens))
