/*
 * A server for tests of clients, that does what no proper server would: a thread for each
 * connection runs the test's own code on blocking reads and writes, with or without TLS.
 */
#ifndef FG_TESTS_LIB_FAKE_SERVER_H
#define FG_TESTS_LIB_FAKE_SERVER_H

#include "common/base/slice.h"

/* Files of a certificate for localhost and 127.0.0.1 that is its own authority; in a temporary
 * folder. */
struct fake_identity {
    char folder[64], cert[96], key[96];
};
void fake_identity_create(struct fake_identity *identity);
void fake_identity_destroy(struct fake_identity *identity);

struct fake_server;
struct fake_connection;

/* On a thread of its own; the connection is closed when it returns. */
typedef void (*fake_handler)(struct fake_connection *connection, void *arg);

/* On 127.0.0.1, any port. identity NULL: without TLS. want_client: clients have to show the same
 * certificate. */
struct fake_server *fake_server_start(const struct fake_identity *identity, bool want_client,
                                      fake_handler handler, void *arg);
unsigned fake_server_port(const struct fake_server *server);

/* Cuts all connections and waits for their handlers. */
void fake_server_stop(struct fake_server *server);

/* In a handler. The head of the next request, NUL-terminated, and as much of its body as
 * Content-Length says behind it; false: the client has left. */
bool fake_read(struct fake_connection *connection, char *request, size_t size);

/* false: the client has left. */
bool fake_write(struct fake_connection *connection, struct fg_slice bytes);

/* A complete answer with a length; headers: lines that end in \r\n, or "". */
bool fake_respond(struct fake_connection *connection, unsigned status, const char *headers,
                  struct fg_slice body);

/* A piece of a chunked body; an empty one is its end. */
bool fake_write_chunk(struct fake_connection *connection, struct fg_slice piece);

/* Waits until the client leaves or the server is stopped. */
void fake_wait_gone(struct fake_connection *connection);

#endif
