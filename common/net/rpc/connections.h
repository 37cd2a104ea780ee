/*
 * The table of a server's connections. It limits their number, in total and per address, and with
 * it the memory of nng, which buffers at most one message of FG_RPC_WHOLE_MAX_BYTES per connection.
 * Each connection has the roles that its certificate names. It exists as long as requests of it
 * hold slots, so their handlers can tell that the caller has disconnected.
 *
 * It also divides the server's slots, each of which has a request from its arrival until its reply
 * has left. A connection may hold SLOTS_CONNECTION times as many slots as are free, and an address
 * SLOTS_ADDRESS times as many: the more callers want slots, the less each may hold, and some stay
 * free for callers that have none. A caller that is alone has most of them. Switches divide their
 * buffers among ports in this way (Choudhury and Hahne, "Dynamic queue length thresholds in a
 * shared memory packet switch", 1998). A request beyond that is refused. A refusal needs a slot
 * until it has left, too: there are some for refusals alone, of which an address gets a part.
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
 * and no limit of slots applies. */
struct fg_connection_address {
    uint8_t bytes[16]; /* an IPv6 address, or an IPv4 one mapped into it */
};

enum fg_connection_verdict {
    FG_CONNECTION_TAKEN,
    FG_CONNECTION_TOO_MANY,              /* in all */
    FG_CONNECTION_TOO_MANY_FROM_ADDRESS, /* from this address */
};

/* Creates an empty table. All limits > 0. Never fails. */
struct fg_connections *fg_connections_create(unsigned max, unsigned per_address_max,
                                             unsigned slots_max);
void fg_connections_destroy(struct fg_connections *connections); /* NULL is fine */

/* Adds a connection under its id, which no other has, or returns the limit that it exceeds. */
enum fg_connection_verdict fg_connections_add(struct fg_connections *connections, uint32_t id,
                                              const struct fg_connection_address *address,
                                              unsigned roles);

/* Removes a connection that has ended. Does nothing if it was not added. */
void fg_connections_remove(struct fg_connections *connections, uint32_t id);

enum fg_slot_verdict {
    FG_SLOT_TAKEN,
    FG_SLOT_REFUSED, /* the caller holds its share; one of the slots for refusals is taken */
    FG_SLOT_DROPPED, /* likewise, and it does not read refusals either: no slot is taken */
    FG_SLOT_GONE,    /* the connection has ended: no slot is taken */
};

enum { FG_SLOTS_FOR_REFUSALS = 128 }; /* in addition to slots_max */

/* Takes a slot for a request of a connection. *ret_connection exists until the slot is given back;
 * NULL: no slot is taken. */
enum fg_slot_verdict fg_connections_take_slot(struct fg_connections *connections, uint32_t id,
                                              struct fg_connection **ret_connection);

/* Notes that the reply waits to leave from now on. Once per slot. */
void fg_connections_reply_waits(struct fg_connections *connections,
                                struct fg_connection *connection);

/* Gives a slot back, with the verdict with which it was taken: its reply has left. */
void fg_connections_give_slot(struct fg_connections *connections, struct fg_connection *connection,
                              enum fg_slot_verdict verdict);

/*
 * Finds connections whose callers do not read: replies wait, and at the last `looks` calls of this
 * function none had left since the call before. Calls are counted instead of time, so a process
 * that was stopped does not blame its callers. Returns how many ids were written, at most ids_max;
 * further ones are found by the next call.
 */
size_t fg_connections_find_unread(struct fg_connections *connections, unsigned looks, uint32_t *ids,
                                  size_t ids_max);

/* Returns how many connections there are. */
unsigned fg_connections_count(struct fg_connections *connections);

/* Returns true once the connection has ended. */
bool fg_connection_is_gone(const struct fg_connection *connection);

/* Returns the roles it was added with. */
unsigned fg_connection_roles(const struct fg_connection *connection);

#endif
