/*
 * One keep-alive connection of a load generator: sends a request of three pieces without copying
 * the body, reads the answer's status. It does not block; its owner waits with epoll.
 */
#ifndef FG_TESTS_BENCH_CONNECTION_H
#define FG_TESTS_BENCH_CONNECTION_H

#include "common/base/err.h"
#include "tests/bench/payload.h"

#include <netinet/in.h>

enum { HEAD_MAX_BYTES = 512, ANSWER_MAX_BYTES = 4096 };

struct connection {
    int fd; /* -1: not connected */
    bool busy;
    int64_t due_ns; /* when the request should have been sent */
    char head[HEAD_MAX_BYTES];
    size_t head_len;
    const struct payload *payload;
    uint8_t time[PAYLOAD_TIME_MAX_BYTES];
    size_t time_len;
    size_t sent; /* of all three pieces */
    char answer[ANSWER_MAX_BYTES + 1];
    size_t answer_len;
};

struct answer {
    unsigned status;
    bool retry_after, close;
};

enum progress { UNDER_WAY, ANSWERED, BROKEN };

/* Blocking; the connection is ready afterwards. */
enum fg_code connection_open(struct connection *connection, const struct sockaddr_in *address,
                             struct fg_err *err) fg_must_check;
void connection_close(struct connection *connection);

/* Sends as much as the socket takes. head, payload, time and sent = 0 are set. */
enum progress connection_send(struct connection *connection);

/* Once all is sent. */
enum progress connection_receive(struct connection *connection, struct answer *ret_answer);

#endif
