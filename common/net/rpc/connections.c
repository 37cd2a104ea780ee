#include "common/net/rpc/connections.h"

#include <pthread.h>
#include <stdatomic.h>

struct fg_connection {
    struct fg_connection *next; /* of its bucket; the table's */
    uint32_t id;
    unsigned roles;
    struct fg_connection_address address;
    atomic_uint refs; /* the table's and those of requests */
    atomic_bool gone;
};

struct fg_connections {
    unsigned max, per_address_max, n_buckets;
    pthread_mutex_t lock; /* of all below */
    unsigned n;
    struct fg_connection **buckets;
};

struct fg_connections *fg_connections_create(unsigned max, unsigned per_address_max)
{
    struct fg_connections *connections = fg_new(struct fg_connections);

    fg_assert(max > 0 && per_address_max > 0);
    connections->max = max;
    connections->per_address_max = per_address_max;
    connections->n_buckets = max;
    connections->buckets = fg_calloc(max, sizeof(struct fg_connection *));
    (void)pthread_mutex_init(&connections->lock, NULL);
    return connections;
}

/* nng numbers connections one after another, so the number itself spreads them. */
static struct fg_connection **bucket_of(struct fg_connections *connections, uint32_t id)
{
    return &connections->buckets[id % connections->n_buckets];
}

void fg_connection_unref(struct fg_connection *connection)
{
    if (connection != NULL && atomic_fetch_sub(&connection->refs, 1) == 1)
        free(connection);
}

static void end_connection(struct fg_connection *connection)
{
    atomic_store(&connection->gone, true);
    fg_connection_unref(connection);
}

void fg_connections_destroy(struct fg_connections *connections)
{
    if (connections == NULL)
        return;
    for (unsigned i = 0; i < connections->n_buckets; i++)
        for (struct fg_connection *at = connections->buckets[i], *next; at != NULL; at = next) {
            next = at->next;
            end_connection(at);
        }
    (void)pthread_mutex_destroy(&connections->lock);
    free(connections->buckets);
    free(connections);
}

/* Locked. Walks over all connections: new ones are rare. */
static unsigned count_from(const struct fg_connections *connections,
                           const struct fg_connection_address *address)
{
    unsigned n = 0;

    for (unsigned i = 0; i < connections->n_buckets; i++)
        for (const struct fg_connection *at = connections->buckets[i]; at != NULL; at = at->next)
            n += memcmp(&at->address, address, sizeof *address) == 0;
    return n;
}

/* Locked. */
static enum fg_connection_verdict judge(const struct fg_connections *connections,
                                        const struct fg_connection_address *address)
{
    static const struct fg_connection_address inside;

    if (connections->n >= connections->max)
        return FG_CONNECTION_TOO_MANY;
    if (memcmp(address, &inside, sizeof inside) != 0 &&
        count_from(connections, address) >= connections->per_address_max)
        return FG_CONNECTION_TOO_MANY_FROM_ADDRESS;
    return FG_CONNECTION_TAKEN;
}

enum fg_connection_verdict fg_connections_add(struct fg_connections *connections, uint32_t id,
                                              const struct fg_connection_address *address,
                                              unsigned roles)
{
    enum fg_connection_verdict verdict;

    (void)pthread_mutex_lock(&connections->lock);
    verdict = judge(connections, address);
    if (verdict == FG_CONNECTION_TAKEN) {
        struct fg_connection **bucket = bucket_of(connections, id);
        struct fg_connection *connection = fg_new(struct fg_connection);

        connection->id = id;
        connection->roles = roles;
        connection->address = *address;
        atomic_init(&connection->refs, 1);
        connection->next = *bucket;
        *bucket = connection;
        connections->n++;
    }
    (void)pthread_mutex_unlock(&connections->lock);
    return verdict;
}

/* Returns the link that points to the connection, or to NULL if there is none. Locked. */
static struct fg_connection **find(struct fg_connections *connections, uint32_t id)
{
    struct fg_connection **at = bucket_of(connections, id);

    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

void fg_connections_remove(struct fg_connections *connections, uint32_t id)
{
    struct fg_connection **at, *connection;

    (void)pthread_mutex_lock(&connections->lock);
    at = find(connections, id);
    connection = *at;
    if (connection != NULL) {
        *at = connection->next;
        connections->n--;
    }
    (void)pthread_mutex_unlock(&connections->lock);
    if (connection != NULL)
        end_connection(connection);
}

struct fg_connection *fg_connections_ref(struct fg_connections *connections, uint32_t id)
{
    struct fg_connection *connection;

    (void)pthread_mutex_lock(&connections->lock);
    connection = *find(connections, id);
    if (connection != NULL)
        atomic_fetch_add(&connection->refs, 1);
    (void)pthread_mutex_unlock(&connections->lock);
    return connection;
}

unsigned fg_connections_count(struct fg_connections *connections)
{
    unsigned n;

    (void)pthread_mutex_lock(&connections->lock);
    n = connections->n;
    (void)pthread_mutex_unlock(&connections->lock);
    return n;
}

bool fg_connection_is_gone(const struct fg_connection *connection)
{
    return atomic_load(&connection->gone);
}

unsigned fg_connection_roles(const struct fg_connection *connection)
{
    return connection->roles;
}
