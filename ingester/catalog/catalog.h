/*
 * The catalog: which tenants, services and series the head knows. All of it is in memory, and in
 * the store as keys.h says; a restart reads it back.
 *
 * The catalog gives each a number, and no number twice. A tenant, service or series is durable once
 * it was in a batch that was written. Until then each push that uses it puts its definition into
 * its own batch, so no push depends on another one that may have failed.
 *
 * Retirement (retire.h). A series is retired when no chunk has a profile of it any more, and a
 * service when it has neither series nor dictionaries; one that comes back is new and gets another
 * number. Tenants stay: chunks and manifests on their way go by their numbers.
 *
 *   ALIVE --------------------> GONE ----------------------------> freed
 *     no chunk has it, and no     out of reach, and its definition   all guards are released that
 *     push under a guard has      is deleted; some may still work    were taken before it left
 *     found it                    with it
 *
 * Users of a pointer to a service or series hold an epoch guard, from ing_catalog_enter() to
 * ing_catalog_leave(): a push from being decoded until it is committed, a query, the build of a
 * segment. Guards are counted by epochs: an epoch ends when all guards are released that were taken
 * before it began. So
 *   - an object that is retired in an epoch is freed at the end of the next one;
 *   - a push marks the objects that it finds with the current epoch, and they are not retired
 * before the next epoch has ended, too. By then that push has released its guard. So the objects of
 * a push stay and keep their definitions, and no push uses a retired one: the two do not race. It
 * costs two atomic additions for each push, and a store if the mark is of an older epoch.
 *
 * Thread: any, except for sweeping: the committer's. One lock inside, held for look-ups and copies
 * of some thousands of pointers; series are matched and counted without it.
 */
#ifndef FG_INGESTER_CATALOG_H
#define FG_INGESTER_CATALOG_H

#include "common/base/arena.h"
#include "common/model/batch.h"
#include "common/model/selector.h"
#include "common/storage/store/store.h"
#include "ingester/catalog/series.h"
#include "ingester/damage.h"
#include "ingester/keys.h"

struct ing_catalog;
struct ing_catalog_tenant;

struct ing_catalog_service {
    struct ing_catalog_memory memory;
    uint32_t number;
    struct fg_slice name;
    struct ing_catalog_tenant *tenant;
    _Atomic bool durable;
    _Atomic uint32_t generation; /* of its dictionary: what is stored now belongs to it (dict.h) */
    _Atomic uint32_t valid_from; /* generations before it have ended */
    /* The committer's (retire.h): how many old dictionaries are stored and listed; all generations
     * before this one were listed, if they are stored. */
    uint32_t retiring, unlisted;
    /* How many of its items wait in the committer's queues, of agents' items and of forwarded ones;
     * under its lock. */
    uint32_t items_of_agents, items_of_servers;
    /* The catalog's. */
    _Atomic uint64_t found; /* as of series */
    uint32_t n_series;
    bool idle; /* it is on the list of services that may have no series */
};

/* Limits for all tenants together. */
struct ing_catalog_bounds {
    uint64_t max_bytes;   /* memory above which new series and services are refused */
    uint32_t tenants_max; /* tenants that have services; 0: unlimited */
};

/*
 * Reads the catalog from the store. Repairs or sets aside records that do not fit together, and
 * counts them in *damage. Keeps all series, also those beyond the bounds: see
 * ing_catalog_check_room(). FG_E_UNAVAILABLE, FG_E_CORRUPT: the store cannot be read;
 * FG_E_PRECONDITION: another version of flamegrid wrote it.
 */
enum fg_code ing_catalog_open(struct fg_store *store, const struct ing_catalog_bounds *bounds,
                              struct ing_damage *damage, struct ing_catalog **ret_catalog,
                              struct fg_err *err) fg_must_check;

/* Checks that the store is of the format of this program; *ret_found false: it has none yet.
 * FG_E_PRECONDITION: another version wrote it. Errors of the store. */
enum fg_code ing_catalog_check_format(struct fg_store *store, bool *ret_found,
                                      struct fg_err *err) fg_must_check;

/*
 * Before a catalog is opened in whose store the series between two keys are lost: adds puts to a
 * batch so that no number which one of them may have had is given again; profiles have it in their
 * keys. after, until: the last readable key before them and the first behind; empty: there is none.
 * Errors of the store.
 */
enum fg_code ing_catalog_skip_series(struct fg_store *store, struct fg_slice after,
                                     struct fg_slice until, struct fg_store_batch *out,
                                     struct fg_err *err) fg_must_check;

/* Returns the first and the last tenant that series between two keys, as above, may be of. */
void ing_catalog_tenants_between(struct fg_slice after, struct fg_slice until, uint32_t *ret_first,
                                 uint32_t *ret_last);

/* Notes that profiles of these tenants cannot be read: ing_catalog_tenant_lacks(). At the start. */
void ing_catalog_lose_series(struct ing_catalog *catalog, uint32_t first, uint32_t last);

/* Calls each() with the number of each service that the store has. Errors of the store. */
enum fg_code ing_catalog_each_stored_service(struct fg_store *store,
                                             void (*each)(uint32_t number, void *arg), void *arg,
                                             struct fg_err *err) fg_must_check;

/* Frees the catalog; nobody holds a guard. Accepts NULL. */
void ing_catalog_close(struct ing_catalog *catalog);

/* Returns the memory of the catalog in bytes, with what is retired and not freed yet. */
size_t ing_catalog_bytes(struct ing_catalog *catalog);

/* How much of the catalog one tenant may use. */
struct ing_catalog_quota {
    uint64_t series_max; /* 0: any number */
    double share;        /* of max_bytes: see common/model/tenant_share.h */
};

/* Why a new tenant, service or series was refused. */
enum ing_catalog_refusal {
    CATALOG_FULL,
    CATALOG_TENANTS_MAX,
    CATALOG_TENANT_SHARE,
    CATALOG_SERIES_MAX,
    CATALOG_REFUSALS,
};

/*
 * Checks whether a tenant may add a service or series now. FG_E_LIMIT: it may not; *ret_why and the
 * error name the limit, and the refusal is counted. Existing ones are not affected. tenant NULL:
 * checks whether a new tenant may be added.
 */
enum fg_code ing_catalog_check_room(struct ing_catalog *catalog,
                                    const struct ing_catalog_tenant *tenant,
                                    const struct ing_catalog_quota *quota,
                                    enum ing_catalog_refusal *ret_why,
                                    struct fg_err *err) fg_must_check;

/* Returns how often ing_catalog_check_room() refused for this reason. Any thread. */
uint64_t ing_catalog_count_refused(struct ing_catalog *catalog, enum ing_catalog_refusal why);

/* Returns how many tenants have services. */
uint32_t ing_catalog_count_active(struct ing_catalog *catalog);

/* Takes an epoch guard: until ing_catalog_leave() nothing that the catalog returns is freed.
 * Returns the argument for ing_catalog_leave(). */
unsigned ing_catalog_enter(struct ing_catalog *catalog);

/* Releases an epoch guard. Any thread. */
void ing_catalog_leave(struct ing_catalog *catalog, unsigned entered);

/* Finds or adds a tenant. Returns NULL if it is new and the catalog is full. */
struct ing_catalog_tenant *ing_catalog_tenant(struct ing_catalog *catalog, struct fg_slice name);

/* Finds a tenant, or returns NULL. */
struct ing_catalog_tenant *ing_catalog_find_tenant(struct ing_catalog *catalog,
                                                   struct fg_slice name);

/* Returns a number above those of all tenants. */
uint32_t ing_catalog_count_tenants(struct ing_catalog *catalog);

/* Returns the tenant of a number that was given. */
struct ing_catalog_tenant *ing_catalog_tenant_at(struct ing_catalog *catalog, uint32_t number);

/* Return what the catalog knows of a tenant. `durable`: its definition is on disk. */
struct fg_slice ing_catalog_tenant_name(const struct ing_catalog_tenant *tenant);
uint32_t ing_catalog_tenant_number(const struct ing_catalog_tenant *tenant);
_Atomic bool *ing_catalog_tenant_durable(struct ing_catalog_tenant *tenant);

/* Returns true if a tenant of that number has a name: what is stored of others is set aside. */
bool ing_catalog_has_tenant(struct ing_catalog *catalog, uint32_t number);

/*
 * Returns true if the tenant of this name may be the one that had this number and whose record was
 * lost. tenant: what ing_catalog_find_tenant() finds; NULL: nothing. Numbers ascend, so a tenant
 * with a record is not the one with a greater number; and by their shards the series of the number
 * are of others.
 */
bool ing_catalog_may_have_been(struct ing_catalog *catalog, const struct ing_catalog_tenant *tenant,
                               struct fg_slice name, uint32_t number);

/* Reserves a number, so that no new tenant gets it; it stays without a name if no tenant has it. At
 * the start. Returns false if the number is so large that no tenant can have had it. */
bool ing_catalog_reserve_tenant(struct ing_catalog *catalog, uint32_t number);

/*
 * Returns true if some of the tenant's profiles are in the store and cannot be read, since the
 * definitions that they name are lost: then answers from here are not complete.
 */
bool ing_catalog_tenant_lacks(const struct ing_catalog_tenant *tenant);

/* Notes that some of the tenant's profiles cannot be read. for_good: they are in a chunk that
 * nobody will commit. */
void ing_catalog_tenant_set_lacks(struct ing_catalog_tenant *tenant, bool for_good);

/* Notes that whatever could not be read was given up, or was not there: all chunks are committed.
 * Any thread. */
void ing_catalog_clear_lacks(struct ing_catalog *catalog);

/* Finds or adds a service. Returns NULL if it is new and the catalog is full or the tenant has
 * reached its quota. */
struct ing_catalog_service *ing_catalog_service(struct ing_catalog *catalog,
                                                struct ing_catalog_tenant *tenant,
                                                struct fg_slice name,
                                                const struct ing_catalog_quota *quota);

/*
 * Ends a generation of the service's dictionary: nothing more may be stored that names it, since it
 * has numbered what will not be on disk, or is about to be deleted. The next push begins a new
 * generation (dict.h). Any thread.
 */
void ing_catalog_end_generation(struct ing_catalog_service *service, uint32_t generation);

/* Calls each() for all services there are now, of all tenants, without a lock. */
void ing_catalog_each_service(struct ing_catalog *catalog,
                              void (*each)(struct ing_catalog_service *service, void *arg),
                              void *arg);

/* Finds or adds the series of a profile with the schema of the batch that came for this shard. NULL
 * as for services. */
struct ing_catalog_series *ing_catalog_series(struct ing_catalog *catalog,
                                              struct ing_catalog_tenant *tenant,
                                              struct ing_catalog_service *service, uint16_t shard,
                                              const struct fg_wire_batch *batch,
                                              const struct fg_labels *labels,
                                              const struct ing_catalog_quota *quota);

/* Notes that these types have values. Returns true if the definition on disk does not say so yet:
 * put it again. */
bool ing_catalog_series_saw(struct ing_catalog_series *series, uint64_t types);

/* Notes that a chunk which began at so many cuts has, or may have, a profile of the series. The
 * committer's thread. */
void ing_catalog_series_holds(struct ing_catalog_series *series, uint32_t born, int64_t time_ns);

/* Add a put of a definition to a batch. */
void ing_catalog_put_tenant(const struct ing_catalog_tenant *tenant, struct fg_store_batch *out);
void ing_catalog_put_service(const struct ing_catalog_service *service, struct fg_store_batch *out);
void ing_catalog_put_series(const struct ing_catalog_tenant *tenant,
                            const struct ing_catalog_series *series, struct fg_store_batch *out);

/* --- sweeping: the committer's thread --- */

/* Assumes that any chunk which began at so many cuts or fewer may have profiles of any series. At
 * the start. */
void ing_catalog_assume_held(struct ing_catalog *catalog, uint32_t cuts);

/*
 * Looks at the next thousands of series and retires those that no chunk can have: all chunks began
 * at least_born cuts or more. Adds deletes of their definitions to a batch; write it before the
 * next call.
 */
void ing_catalog_sweep_series(struct ing_catalog *catalog, uint32_t least_born,
                              struct fg_store_batch *out);

/* Retires some services without series, likewise. may_leave: returns true if nothing else names the
 * service; it must not call the catalog. */
void ing_catalog_sweep_services(struct ing_catalog *catalog,
                                bool (*may_leave)(const struct ing_catalog_service *service,
                                                  void *arg),
                                void *arg, struct fg_store_batch *out);

/* --- queries: under a guard, as long as the result is used --- */

/* A series that matches, and the sample type by which it does. */
struct ing_catalog_match {
    const struct ing_catalog_series *series;
    uint32_t type;
};

/* Selects series. */
struct ing_catalog_filter {
    const struct fg_selector *selector;
    int64_t start_ns, end_ns; /* with profiles that may be in this time, inclusive */
};

/*
 * Returns the series and types that pass, sorted by shard, number, type, in an array in the arena.
 * tenant NULL: none. FG_E_LIMIT: the arena is full. Errors of the selector's `wanted`.
 */
enum fg_code ing_catalog_select(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                                const struct ing_catalog_filter *filter, struct fg_arena *arena,
                                struct ing_catalog_match **ret_matches, size_t *ret_count,
                                struct fg_err *err) fg_must_check;

/* Returns all series that are on disk, in no order, in an array in the arena. FG_E_LIMIT: the arena
 * is full. */
enum fg_code ing_catalog_list_series(struct ing_catalog *catalog,
                                     const struct ing_catalog_tenant *tenant,
                                     struct fg_arena *arena,
                                     struct ing_catalog_series ***ret_series, size_t *ret_count,
                                     struct fg_err *err) fg_must_check;

/* Returns how many series of a tenant count for limits.max_series_per_tenant; 0: it is not here.
 * Any thread. */
uint64_t ing_catalog_series_of(struct ing_catalog *catalog, struct fg_slice tenant);

/* Finds a series by its number. Returns NULL if there is none that is on disk. */
const struct ing_catalog_series *ing_catalog_find_series(struct ing_catalog *catalog,
                                                         const struct ing_catalog_tenant *tenant,
                                                         uint32_t number);

/* Returns how many series are on disk, of a tenant or (NULL) of all. */
uint64_t ing_catalog_count_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant);

#endif
