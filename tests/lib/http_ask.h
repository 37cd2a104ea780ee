/* One HTTP request to a server on 127.0.0.1, over a connection of its own. */
#ifndef FG_TESTS_LIB_HTTP_ASK_H
#define FG_TESTS_LIB_HTTP_ASK_H

#include "common/base/buf.h"

/*
 * Sends the request (its line and headers, without the last line end; Host, Connection and
 * Content-Length are added) and keeps what comes until the server closes in `answer`, which is
 * initialised: head and body, with a NUL at the end. body NULL: none. Returns the status.
 */
unsigned http_ask(unsigned port, const char *request, const char *body, struct fg_buf *answer);

/* Does the same with a body of any bytes. */
unsigned http_ask_bytes(unsigned port, const char *request, struct fg_slice body,
                        struct fg_buf *answer);

/* Sends the same request, and returns the connection: its answer is there for
 * http_ask_receive(), which closes it. */
int http_ask_send(unsigned port, const char *request, struct fg_slice body);
unsigned http_ask_receive(int fd, struct fg_buf *answer);

const char *http_ask_body(const struct fg_buf *answer);

/* Does the head have this text? */
bool http_ask_head_has(const struct fg_buf *answer, const char *text);

#endif
