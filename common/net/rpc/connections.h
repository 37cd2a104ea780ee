/*
 * The table of a server's connections. It limits their number, in total and per address, and with
 * it the memory of nng, which buffers at most one message of FG_RPC_WHOLE_MAX_BYTES per connection.
 * Each connection has the roles that its certificate names. A request holds a reference to its
 * connection, so its handler can tell that the caller has disconnected.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_NET_RPC_CONNECTIONS_H
#define FG_COMMON_NET_RPC_CONNECTIONS_H

#include "common/base/def.h"

#include <stdint.h>

struct fg_connections;
struct fg_connection;

/* The remote address of a connection. All zeros: the same process, to which no limit per address
 * applies. */
struct fg_connection_address {
    uint8_t bytes[16]; /* an IPv6 address, or an IPv4 one mapped into it */
};

enum fg_connection_verdict {
    FG_CONNECTION_TAKEN,
    FG_CONNECTION_TOO_MANY,              /* in all */
    FG_CONNECTION_TOO_MANY_FROM_ADDRESS, /* from this address */
};

/* Creates an empty table. Both limits > 0. Never fails. */
struct fg_connections *fg_connections_create(unsigned max, unsigned per_address_max);
void fg_connections_destroy(struct fg_connections *connections); /* NULL is fine */

/* Adds a connection under its id, which no other has, or returns the limit that it exceeds. */
enum fg_connection_verdict fg_connections_add(struct fg_connections *connections, uint32_t id,
                                              const struct fg_connection_address *address,
                                              unsigned roles);

/* Removes a connection that has ended. Does nothing if it was not added. */
void fg_connections_remove(struct fg_connections *connections, uint32_t id);

/* Returns a reference to the connection; NULL: it has ended. */
struct fg_connection *fg_connections_ref(struct fg_connections *connections, uint32_t id);
void fg_connection_unref(struct fg_connection *connection); /* NULL is fine */

/* Returns how many connections there are. */
unsigned fg_connections_count(struct fg_connections *connections);

/* Returns true once the connection has ended. */
bool fg_connection_is_gone(const struct fg_connection *connection);

/* Returns the roles it was added with. */
unsigned fg_connection_roles(const struct fg_connection *connection);

#endif
