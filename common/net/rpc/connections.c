#include "common/net/rpc/connections.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    SLOTS_CONNECTION = 2, /* times what is free: one connection alone gets two thirds of all */
    SLOTS_ADDRESS = 4,    /* four fifths: services of one host are one address */
    REFUSALS_ADDRESS = FG_SLOTS_FOR_REFUSALS / 4,
};

/* An address from which there are connections, or requests of connections that have ended. */
struct caller {
    struct caller *next;
    struct fg_connection_address address;
    unsigned n_open; /* connections in the table */
    unsigned refs;   /* connections, also those that have ended */
    unsigned slots, refusals;
};

struct fg_connection {
    struct fg_connection *next; /* of its bucket */
    uint32_t id;
    unsigned roles;
    struct caller *caller;
    unsigned slots, refusals;
    unsigned unsent; /* of both: replies that wait to leave */
    unsigned looks;  /* in a row, at which no reply had left */
    bool moved;      /* a reply has left since the last look, or the first one waits */
    atomic_bool gone;
};

struct fg_connections {
    unsigned max, per_address_max, n_buckets, slots_max;
    pthread_mutex_t lock; /* of all below, and of all in connections but `gone` */
    unsigned n, slots, refusals;
    struct caller *callers;
    struct fg_connection **buckets;
};

struct fg_connections *fg_connections_create(unsigned max, unsigned per_address_max,
                                             unsigned slots_max)
{
    struct fg_connections *connections = fg_new(struct fg_connections);

    fg_assert(max > 0 && per_address_max > 0 && slots_max > 0);
    connections->max = max;
    connections->per_address_max = per_address_max;
    connections->slots_max = slots_max;
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

/* --- callers; locked --- */

/* Returns the link that points to the caller, or to NULL. Walks over all: new connections are
 * rare. */
static struct caller **find_caller(struct fg_connections *connections,
                                   const struct fg_connection_address *address)
{
    struct caller **at = &connections->callers;

    while (*at != NULL && memcmp(&(*at)->address, address, sizeof *address) != 0)
        at = &(*at)->next;
    return at;
}

static struct caller *ref_caller(struct fg_connections *connections,
                                 const struct fg_connection_address *address)
{
    struct caller **at = find_caller(connections, address);

    if (*at == NULL) {
        *at = fg_new(struct caller);
        (*at)->address = *address;
    }
    (*at)->refs++;
    return *at;
}

static void unref_caller(struct fg_connections *connections, struct caller *caller)
{
    if (--caller->refs > 0)
        return;
    *find_caller(connections, &caller->address) = caller->next;
    free(caller);
}

static bool is_inside(const struct fg_connection_address *address)
{
    static const struct fg_connection_address inside;

    return memcmp(address, &inside, sizeof inside) == 0;
}

/* --- the table --- */

/* Locked. */
static void free_if_unused(struct fg_connections *connections, struct fg_connection *connection)
{
    if (!atomic_load(&connection->gone) || connection->slots + connection->refusals > 0)
        return;
    unref_caller(connections, connection->caller);
    free(connection);
}

/* Locked. It is in no bucket any more. */
static void end_connection(struct fg_connections *connections, struct fg_connection *connection)
{
    connection->caller->n_open--;
    atomic_store(&connection->gone, true);
    free_if_unused(connections, connection);
}

void fg_connections_destroy(struct fg_connections *connections)
{
    if (connections == NULL)
        return;
    fg_assert(connections->slots + connections->refusals == 0);
    for (unsigned i = 0; i < connections->n_buckets; i++)
        for (struct fg_connection *at = connections->buckets[i], *next; at != NULL; at = next) {
            next = at->next;
            end_connection(connections, at);
        }
    (void)pthread_mutex_destroy(&connections->lock);
    free(connections->buckets);
    free(connections);
}

/* Locked. */
static enum fg_connection_verdict judge(struct fg_connections *connections,
                                        const struct fg_connection_address *address)
{
    const struct caller *caller = *find_caller(connections, address);

    if (connections->n >= connections->max)
        return FG_CONNECTION_TOO_MANY;
    if (!is_inside(address) && caller != NULL && caller->n_open >= connections->per_address_max)
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
        connection->caller = ref_caller(connections, address);
        connection->caller->n_open++;
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
        end_connection(connections, connection);
    }
    (void)pthread_mutex_unlock(&connections->lock);
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

/* --- slots --- */

/* Locked. */
static enum fg_slot_verdict judge_slot(const struct fg_connections *connections,
                                       const struct fg_connection *connection)
{
    const struct caller *caller = connection->caller;
    unsigned free_slots =
        connections->slots_max - FG_MIN(connections->slots, connections->slots_max);

    if (is_inside(&caller->address) || (connection->slots < SLOTS_CONNECTION * free_slots &&
                                        caller->slots < SLOTS_ADDRESS * free_slots))
        return FG_SLOT_TAKEN;
    if (caller->refusals < REFUSALS_ADDRESS && connections->refusals < FG_SLOTS_FOR_REFUSALS)
        return FG_SLOT_REFUSED;
    return FG_SLOT_DROPPED;
}

/* Locked. */
static void count_slot(struct fg_connections *connections, struct fg_connection *connection,
                       enum fg_slot_verdict verdict, unsigned more)
{
    if (verdict == FG_SLOT_REFUSED) {
        connections->refusals += more;
        connection->refusals += more;
        connection->caller->refusals += more;
    } else {
        connections->slots += more;
        connection->slots += more;
        connection->caller->slots += more;
    }
}

enum fg_slot_verdict fg_connections_take_slot(struct fg_connections *connections, uint32_t id,
                                              struct fg_connection **ret_connection)
{
    enum fg_slot_verdict verdict = FG_SLOT_GONE;
    struct fg_connection *connection;

    *ret_connection = NULL;
    (void)pthread_mutex_lock(&connections->lock);
    connection = *find(connections, id);
    if (connection != NULL)
        verdict = judge_slot(connections, connection);
    if (verdict == FG_SLOT_TAKEN || verdict == FG_SLOT_REFUSED) {
        count_slot(connections, connection, verdict, 1);
        *ret_connection = connection;
    }
    (void)pthread_mutex_unlock(&connections->lock);
    return verdict;
}

void fg_connections_reply_waits(struct fg_connections *connections,
                                struct fg_connection *connection)
{
    (void)pthread_mutex_lock(&connections->lock);
    if (connection->unsent++ == 0)
        connection->moved = true; /* whatever was before, nothing has waited */
    (void)pthread_mutex_unlock(&connections->lock);
}

void fg_connections_give_slot(struct fg_connections *connections, struct fg_connection *connection,
                              enum fg_slot_verdict verdict)
{
    (void)pthread_mutex_lock(&connections->lock);
    count_slot(connections, connection, verdict, UINT_MAX); /* one less */
    connection->unsent--;
    connection->moved = true;
    free_if_unused(connections, connection);
    (void)pthread_mutex_unlock(&connections->lock);
}

/* Locked. */
static bool is_unread(struct fg_connection *connection, unsigned looks)
{
    if (connection->unsent == 0 || connection->moved || is_inside(&connection->caller->address))
        connection->looks = 0;
    else
        connection->looks++;
    connection->moved = false;
    return connection->looks >= looks;
}

size_t fg_connections_find_unread(struct fg_connections *connections, unsigned looks, uint32_t *ids,
                                  size_t ids_max)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&connections->lock);
    for (unsigned i = 0; i < connections->n_buckets; i++)
        for (struct fg_connection *at = connections->buckets[i]; at != NULL; at = at->next)
            if (is_unread(at, looks) && n < ids_max)
                ids[n++] = at->id;
    (void)pthread_mutex_unlock(&connections->lock);
    return n;
}
