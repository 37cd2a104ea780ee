/*
 * The catalog: which tenants, services and series the head knows. All of it is in memory, and in
 * the store as keys.h says; a restart reads it back.
 *
 * Numbers are given here, and never twice. A tenant, service or series is durable once it was in a
 * batch that was written; until then whoever uses it puts its definition into the same batch, so
 * that none of them depends on another push that may have failed.
 *
 * Leaving. A series leaves when no chunk has a profile of it any more, and a service when it has
 * neither series nor dictionaries; one that comes back is new and gets another number. Tenants
 * stay: chunks and manifests on their way go by them.
 *
 *   ALIVE --------------------> GONE ----------------------------> freed
 *     no chunk can hold it, no    out of reach, and its definition   nobody is inside any more
 *     push inside has found it    is deleted; some may work with     who was when it left
 *                                 it still
 *
 * Whoever uses a pointer to a service or series is inside, between ing_catalog_enter() and
 * ing_catalog_leave(): a push from being decoded until it is committed, a query, the making of a
 * segment. Those inside are counted by epochs: an epoch ends when all have left who entered before
 * it began. So
 *   - what leaves in an epoch is freed at the end of the next one;
 *   - what a push found is marked with the epoch of that moment, and does not leave before the next
 *     one has ended as well. Then that push has left. So whatever a push works with stays and has
 *     its definition, and what leaves is used by no push: there is no race between the two.
 * It costs two atomic additions a push, and a store where the mark is of an older epoch.
 *
 * Thread: any; one lock inside, held for look-ups and copies of some thousands of pointers; series
 * are matched and counted without it. Sweeping: the committer's.
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
    _Atomic uint32_t valid_from; /* generations before it may not be written any more */
    uint32_t retiring;           /* the committer's: old dictionaries that are stored (retire.h) */
    /* The catalog's. */
    _Atomic uint64_t found; /* as of series */
    uint32_t n_series;
    bool idle; /* it is on the list of those that may have none */
};

/* Limits for all tenants together. */
struct ing_catalog_bounds {
    uint64_t max_bytes;   /* memory above which new series and services are refused */
    uint32_t tenants_max; /* tenants that have services; 0: unlimited */
};

/*
 * Reads everything back. Records that do not fit together are repaired or set aside, and counted in
 * *damage. Keeps all series, also those beyond the bounds: see ing_catalog_check_room().
 * FG_E_UNAVAILABLE, FG_E_CORRUPT: the store cannot be read; FG_E_PRECONDITION: another version of
 * flamegrid wrote it.
 */
enum fg_code ing_catalog_open(struct fg_store *store, const struct ing_catalog_bounds *bounds,
                              struct ing_damage *damage, struct ing_catalog **ret_catalog,
                              struct fg_err *err) fg_must_check;
void ing_catalog_close(struct ing_catalog *catalog);

/* With what has left and is not freed yet. */
size_t ing_catalog_bytes(struct ing_catalog *catalog);

/* How much of the catalog one tenant may use. */
struct ing_catalog_quota {
    uint64_t series_max; /* 0: any number */
    double share;        /* of max_bytes: see common/model/tenant_share.h */
};

/*
 * Checks whether a tenant may add a service or series now. FG_E_LIMIT: it may not; the error names
 * the limit, and the refusal is counted. Existing ones are not affected. tenant NULL: checks
 * whether a new tenant may be added.
 */
enum fg_code ing_catalog_check_room(struct ing_catalog *catalog,
                                    const struct ing_catalog_tenant *tenant,
                                    const struct ing_catalog_quota *quota,
                                    struct fg_err *err) fg_must_check;

/* Why a new tenant, service or series was refused. */
enum ing_catalog_refusal {
    CATALOG_FULL,
    CATALOG_TENANTS_MAX,
    CATALOG_TENANT_SHARE,
    CATALOG_SERIES_MAX,
    CATALOG_REFUSALS,
};

/* Returns how often ing_catalog_check_room() refused for this reason. Any thread. */
uint64_t ing_catalog_count_refused(struct ing_catalog *catalog, enum ing_catalog_refusal why);

/* Returns how many tenants have services. */
uint32_t ing_catalog_count_active(struct ing_catalog *catalog);

/* Until ing_catalog_leave() nothing that is handed out is freed. Returns what that needs. */
unsigned ing_catalog_enter(struct ing_catalog *catalog);
void ing_catalog_leave(struct ing_catalog *catalog, unsigned entered);

/* Find or add; NULL when it is new and the catalog is full. */
struct ing_catalog_tenant *ing_catalog_tenant(struct ing_catalog *catalog, struct fg_slice name);
/* Find; NULL when nothing is there. */
struct ing_catalog_tenant *ing_catalog_find_tenant(struct ing_catalog *catalog,
                                                   struct fg_slice name);
/* All numbers of tenants are below it. */
uint32_t ing_catalog_count_tenants(struct ing_catalog *catalog);
/* number: of a tenant that there is. */
struct ing_catalog_tenant *ing_catalog_tenant_at(struct ing_catalog *catalog, uint32_t number);
struct fg_slice ing_catalog_tenant_name(const struct ing_catalog_tenant *tenant);
uint32_t ing_catalog_tenant_number(const struct ing_catalog_tenant *tenant);
_Atomic bool *ing_catalog_tenant_durable(struct ing_catalog_tenant *tenant);

/* Returns true if a tenant of that number has a name: what is stored of others is set aside. */
bool ing_catalog_has_tenant(struct ing_catalog *catalog, uint32_t number);

/* Makes sure that no new tenant gets the number, which stays without a name if nobody has it. At
 * the start. Returns false if the number is so large that no tenant can have had it. */
bool ing_catalog_reserve_tenant(struct ing_catalog *catalog, uint32_t number);

/*
 * Returns true if some of the tenant's profiles are in the store and cannot be read, since the
 * definitions that they name are lost: then answers from here are not complete.
 */
bool ing_catalog_tenant_lacks(const struct ing_catalog_tenant *tenant);
void ing_catalog_tenant_set_lacks(struct ing_catalog_tenant *tenant);

/* Find or add, as above; NULL also when the tenant has its quota. */
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

/* Calls each() for the services that there are now, of all tenants. No lock is held meanwhile. */
void ing_catalog_each_service(struct ing_catalog *catalog,
                              void (*each)(struct ing_catalog_service *service, void *arg),
                              void *arg);

/* The series of a profile with the batch's schema that came for this shard. Find or add, as for
 * services. */
struct ing_catalog_series *ing_catalog_series(struct ing_catalog *catalog,
                                              struct ing_catalog_tenant *tenant,
                                              struct ing_catalog_service *service, uint16_t shard,
                                              const struct fg_wire_batch *batch,
                                              const struct fg_labels *labels,
                                              const struct ing_catalog_quota *quota);

/* Remembers that these types have values. true: what is on disk does not say so yet, so the series
 * has to be put. */
bool ing_catalog_series_saw(struct ing_catalog_series *series, uint64_t types);

/* A profile of it is, or may be, in a chunk that began at so many cuts. The committer's thread. */
void ing_catalog_series_holds(struct ing_catalog_series *series, uint32_t born, int64_t time_ns);

/* Definitions as puts. */
void ing_catalog_put_tenant(const struct ing_catalog_tenant *tenant, struct fg_store_batch *out);
void ing_catalog_put_service(const struct ing_catalog_service *service, struct fg_store_batch *out);
void ing_catalog_put_series(const struct ing_catalog_tenant *tenant,
                            const struct ing_catalog_series *series, struct fg_store_batch *out);

/* --- sweeping: the committer's thread --- */

/* After reading back: any series may be in any chunk that began at so many cuts or fewer. */
void ing_catalog_assume_held(struct ing_catalog *catalog, uint32_t cuts);

/*
 * Goes on through the series, some thousands at a time, and makes those leave that no chunk can
 * hold: none began at less than least_born cuts. Their definitions as deletes; the call is
 * not repeated before these are written.
 */
void ing_catalog_sweep_series(struct ing_catalog *catalog, uint32_t least_born,
                              struct fg_store_batch *out);

/* The same for services without series, some at a time. may_leave: nothing else names it; it calls
 * nothing of the catalog's. */
void ing_catalog_sweep_services(struct ing_catalog *catalog,
                                bool (*may_leave)(const struct ing_catalog_service *service,
                                                  void *arg),
                                void *arg, struct fg_store_batch *out);

/* --- queries: inside, as long as the matches are used --- */

/* A series that matches, and the sample type by which it does. */
struct ing_catalog_match {
    const struct ing_catalog_series *series;
    uint32_t type;
};

/* Which series are looked for. */
struct ing_catalog_filter {
    const struct fg_selector *selector;
    int64_t start_ns, end_ns; /* that may have profiles in this time, inclusive */
};

/*
 * Series and types that pass, sorted by shard, then number, then type; array in the arena.
 * FG_E_LIMIT at its end. tenant NULL: none.
 */
enum fg_code ing_catalog_select(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                                const struct ing_catalog_filter *filter, struct fg_arena *arena,
                                struct ing_catalog_match **ret_matches, size_t *ret_count,
                                struct fg_err *err) fg_must_check;

/* All series that are on disk, in no order; array in the arena. FG_E_LIMIT at its end. */
enum fg_code ing_catalog_list_series(struct ing_catalog *catalog,
                                     const struct ing_catalog_tenant *tenant,
                                     struct fg_arena *arena,
                                     struct ing_catalog_series ***ret_series, size_t *ret_count,
                                     struct fg_err *err) fg_must_check;

/* By its number; NULL: there is none that is on disk. Inside, as long as it is used. */
const struct ing_catalog_series *ing_catalog_find_series(struct ing_catalog *catalog,
                                                         const struct ing_catalog_tenant *tenant,
                                                         uint32_t number);

/* Number of series of all tenants, or of one, that are on disk. */
uint64_t ing_catalog_count_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant);

#endif
