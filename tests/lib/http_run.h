/*
 * The HTTP server with real sockets on a free port of the loopback device, one loop, and handlers
 * that tests need. A client here is a blocking socket: send bytes, read until what is expected is
 * there or the peer has closed. For cmocka: what must not fail is asserted.
 *
 *     /echo      GET, POST   "METHOD-BITS PATH body"
 *     /assets/   GET         the same, for every path below
 *     /length    POST        the body's length
 *     /upload    POST        the same, with a budget of bodies of its own
 *     /param     GET         the first two parameters a, and a header with a line end in its value
 *     /header    GET         the value of the header that parameter a names, or "none"
 *     /cookie    GET         the value of the cookie that parameter a names, or "none"
 *     /big       GET         100,000 bytes, or parameter n
 *     /trailers  GET, POST   the body, then two trailers
 *     /hold      GET, POST   answered when the test says so
 *     /busy      GET         503
 *     /probe, /change, /operate   "done"; of these kinds (GET; and POST; and DELETE)
 *
 * It answers to the names a and a.test, and to those of this machine.
 */
#ifndef FG_TESTS_LIB_HTTP_RUN_H
#define FG_TESTS_LIB_HTTP_RUN_H

#include "common/net/http.h"

enum {
    RUN_BODY_MAX = 1 << 20,
    RUN_HEADS = 4 << 20,
    RUN_BUDGET = 4 << 20,  /* of bodies */
    RUN_UPLOADS = 1 << 20, /* of those of /upload */
    RUN_ANSWERS = 16 << 20,
    RUN_HELD_MAX = 256,
    RUN_BIG_BYTES = 100000,
};

struct http_run {
    struct fg_http_config config;
    struct fg_budget heads, budget, uploads, answers;
    struct fg_registry *registry;
    struct fg_work *work;
    struct fg_loop *loop;
    struct fg_http_server *server;
    struct fg_http_request *held[RUN_HELD_MAX]; /* by /hold, on the loop only */
    _Atomic unsigned n_held;
};

/* For cmocka's setup and teardown; the latter sees to it that no memory of a request is left. */
int run_setup_on(void **state, const struct fg_http_config *config, const char *listen);
int run_setup_guarded(void **state, const struct fg_http_guard *guard); /* FG_SCOPE_READ for all */
int run_setup_with(void **state, const struct fg_http_config *config);  /* on 127.0.0.1 */
int run_setup(void **state);                                            /* FG_HTTP_CONFIG_DEFAULT */
int run_setup_hasty(void **state);  /* timeouts of 150 to 300 ms */
int run_setup_narrow(void **state); /* 2 connections, 2 requests at a time, heads of 1 KiB */
int run_teardown(void **state);

void run_echo(struct fg_http_request *req, void *arg); /* the handler of /echo */

/* --- clients --- */

int run_client(const struct http_run *run); /* gives up reading after 20 s */
int run_client_of(unsigned port);
void run_say_bytes(int fd, const void *bytes, size_t len);
void run_say(int fd, const char *text);
void run_expect_closed(int fd); /* and closes it */
void run_expect_silence(int fd, unsigned ms);

/* --- answers of HTTP/1.1 --- */

/* One complete answer (head and as many body bytes as Content-Length says). */
struct run_answer {
    char head[4096];
    unsigned status;
    uint8_t *body;
    size_t len;
};

/* false: closed before anything came. The body is the caller's to free. */
bool run_hear(int fd, struct run_answer *ret_answer);
/* body NULL: any. */
void run_expect(int fd, unsigned status, const char *body);
/* The answer's head has to contain the text. */
void run_expect_head(int fd, unsigned status, const char *text);

/* --- held requests --- */

void run_wait_held(struct http_run *run, unsigned n);
/* Answers the i-th that was held with 200 and the text. */
void run_let_go(struct http_run *run, unsigned i, const char *text);
void run_wait_gone(struct http_run *run, unsigned i);

/* Is the line in the server's metrics? */
bool run_metric_is(struct http_run *run, const char *line);
bool run_metric_becomes(struct http_run *run, const char *line); /* in 20 s */

#endif
