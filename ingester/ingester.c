/*
 * Builds the ingester from its modules and takes it down again. The order of creation follows the
 * data: the catalog names tenants for the chunks, the chunks say what dictionaries may be retired,
 * segments restore the chunks, and the committer runs what segments post. The end goes the other
 * way: first who feeds (repair, workers), then who posts (segments, intake, meeting), then the
 * committer, which answers what it still has.
 */
#include "ingester/ingester.h"

#include "common/runtime/log.h"
#include "ingester/forward/conditions.h"
#include "ingester/group_commit.h"
#include "ingester/head_mode.h"
#include "ingester/meeting.h"
#include "ingester/mend.h"
#include "ingester/push.h"
#include "ingester/query.h"
#include "ingester/repair/handlers.h"
#include "ingester/retire.h"

#include <unistd.h>

#define CONF(field) FG_CONF_AT(struct ing_settings, field)

/* clang-format off */
const struct fg_conf_field ing_fields[] = {
    {"dictionary_max_bytes", FG_CONF_BYTES, CONF(dictionary_max_bytes), .def = "0",
     .doc = "Memory for the stack dictionaries of services. Unused dictionaries are evicted and reloaded on demand. 0: a quarter of `memory_max_bytes`."},
    {"function_trees_max_bytes", FG_CONF_BYTES, CONF(function_trees_max_bytes), .def = "0",
     .doc = "Memory for the stacks of dictionaries by function, which flame graphs of the head are made from. Those that do not fit are made from the dictionaries each time. 0: a sixteenth of `memory_max_bytes`."},
    {"catalog_max_bytes", FG_CONF_BYTES, CONF(catalog_max_bytes), .def = "0",
     .doc = "Memory for the catalog of services, series and groups. New entries above it are refused with 429. 0: an eighth of `memory_max_bytes`."},
    {"commit_queue_max_bytes", FG_CONF_BYTES, CONF(commit_queue_max_bytes), .def = "0",
     .doc = "Profiles that may wait to be written. Further pushes are refused with 429. 0: a sixteenth of `memory_max_bytes`."},
    {"commit_delay", FG_CONF_NS, CONF(commit_delay_ns), .def = "1ms", .max = "100ms",
     .doc = "How long the first profile of a group commit waits for others to share its fsync."},
    {"store_cache_bytes", FG_CONF_BYTES, CONF(store_cache_bytes), .def = "0",
     .doc = "Block cache of the head store. 0: an eighth of `memory_max_bytes`."},
    {"store_write_buffer_bytes", FG_CONF_BYTES, CONF(store_write_buffer_bytes), .def = "0", .max = "256MiB",
     .doc = "Size of a memtable of the head store; up to three of them are in memory. 0: a thirty-second of `memory_max_bytes`."},
    {"store_wal_max_bytes", FG_CONF_BYTES, CONF(store_wal_max_bytes), .def = "128MiB", .min = "4MiB",
     .doc = "Size of the write-ahead log of the head store. It bounds how long recovery takes after a crash."},
    {"accept_loss", FG_CONF_STRING, CONF(accept_loss), .def = "", .max = "64",
     .doc = "Damage number that a refused start logged. The damaged head is then set aside and an empty head is created. Any other damage still refuses the start."},
    {"workers", FG_CONF_UINT, CONF(workers), .def = "0", .max = "256",
     .doc = "Threads that number stacks and encode profiles of agents. Half as many do so for what other servers forward, with a low priority. 0: one per processor."},
    {"query_workers", FG_CONF_UINT, CONF(query_workers), .def = "0", .max = "256",
     .doc = "Threads that read for queries. Up to twice as many queries run if they are of so many tenants. 0: one per processor."},
    {"queue_max", FG_CONF_UINT, CONF(queue_max), .def = "1024", .min = "1", .max = "1000000",
     .doc = "Pushes that may wait for a worker, and as many forwarded ones. Further pushes are refused with 429."},
    {"query_queue_max", FG_CONF_UINT, CONF(query_queue_max), .def = "256", .min = "1", .max = "1000000",
     .doc = "Queries that may wait for a worker. Further queries are refused with 429. Tenants take turns, and one has at most as many queries waiting as the queue has free slots."},
    {"query_max_bytes", FG_CONF_BYTES, CONF(query_max_bytes), .def = "256MiB", .min = "16MiB",
     .doc = "Memory of one query. A query that needs more fails with 429."},
    {"late_queue_max", FG_CONF_UINT, CONF(late_queue_max), .def = "1024", .min = "1", .max = "1000000",
     .doc = "Pushes with late profiles that may wait until blocks are checked for duplicates, half of them forwarded by other servers. Further pushes are refused with 429."},
    {"late_cache_max_bytes", FG_CONF_BYTES, CONF(late_cache_max_bytes), .def = "32MiB",
     .doc = "Memory for the block data that is read to find duplicates of late profiles."},
};
/* clang-format on */
const size_t ing_n_fields = FG_COUNT(ing_fields);

/* clang-format off */
#define INGESTER_METRICS(M)                                                                              \
    M(GAUGE, INGESTER_SERIES, "flamegrid_ingester_series", "Series in the head")                         \
    M(GAUGE, INGESTER_TENANTS, "flamegrid_ingester_tenants", "Tenants with services in the head")  \
    M(COUNTER, INGESTER_NEW_FULL, "flamegrid_ingester_refused_growth_total{reason=\"catalog_full\"}", "Pushes refused because their new entries exceed a limit, by reason") \
    M(COUNTER, INGESTER_NEW_TENANTS, "flamegrid_ingester_refused_growth_total{reason=\"tenants_max\"}", "Pushes refused because their new entries exceed a limit, by reason") \
    M(COUNTER, INGESTER_NEW_SHARE, "flamegrid_ingester_refused_growth_total{reason=\"tenant_catalog_share\"}", "Pushes refused because their new entries exceed a limit, by reason") \
    M(COUNTER, INGESTER_NEW_SERIES, "flamegrid_ingester_refused_growth_total{reason=\"max_series_per_tenant\"}", "Pushes refused because their new entries exceed a limit, by reason") \
    M(GAUGE, INGESTER_CATALOG_BYTES, "flamegrid_ingester_catalog_bytes", "Memory of the catalog")        \
    M(GAUGE, INGESTER_DICT_BYTES, "flamegrid_ingester_dictionary_bytes", "Memory of the dictionaries")   \
    M(GAUGE, INGESTER_FUNCTIONS_BYTES, "flamegrid_ingester_function_trees_bytes", "Memory of the dictionaries' stacks by function")   \
    M(GAUGE, INGESTER_STORE_MEMORY, "flamegrid_ingester_store_memory_bytes", "Memory of the head store") \
    M(GAUGE, INGESTER_STORE_DISK, "flamegrid_ingester_store_disk_bytes", "Size of the head on disk") \
    M(GAUGE, INGESTER_RECORDS_REPAIRED, "flamegrid_ingester_head_records{state=\"repaired\"}", "Damaged records of the head found at the last start, by state") \
    M(GAUGE, INGESTER_RECORDS_ASIDE, "flamegrid_ingester_head_records{state=\"set_aside\"}", "Damaged records of the head found at the last start, by state") \
    M(GAUGE, INGESTER_QUEUED_PUSHES, "flamegrid_ingester_queue_jobs{lane=\"ingest\"}", "Jobs that wait for a worker") \
    M(GAUGE, INGESTER_QUEUED_FORWARDED, "flamegrid_ingester_queue_jobs{lane=\"bulk\"}", "Jobs that wait for a worker") \
    M(GAUGE, INGESTER_QUEUED_QUERIES, "flamegrid_ingester_queue_jobs{lane=\"query\"}", "Jobs that wait for a worker") \
    M(COUNTER, INGESTER_REFUSED_PUSHES, "flamegrid_ingester_refused_jobs_total{lane=\"ingest\"}", "Jobs refused because the queue was full") \
    M(COUNTER, INGESTER_REFUSED_FORWARDED, "flamegrid_ingester_refused_jobs_total{lane=\"bulk\"}", "Jobs refused because the queue was full") \
    M(COUNTER, INGESTER_REFUSED_QUERIES, "flamegrid_ingester_refused_jobs_total{lane=\"query\"}", "Jobs refused because the queue was full")
/* clang-format on */
FG_METRICS_ENUM(ingester_metric, INGESTER_METRICS)
FG_METRICS_TABLE(ingester_metrics, INGESTER_METRICS)

/* Groups that are only there to be forwarded get half of what chunks may take, a quarter of the
 * catalog; and chunks are in memory twice, here and in the core of segments. */
enum { PINNED_PART = 8 };

enum { QUERY_PASS_SHARE = 4 };

struct ingester {
    struct fg_store *store;
    struct ing_damage damage; /* found at the start */
    struct fg_condition *damaged;
    struct ing_member member;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_dict_table *dicts;
    struct ing_functions_table *functions;
    struct ing_retire *retire;
    struct fg_work *work;
    struct ing_dedup *dedup;
    struct ing_segments *segments;
    struct ing_head_writer *writer;
    struct ing_intake *intake;
    struct ing_deleted_sources deleted_sources;        /* of the next */
    struct ing_deleted deleted;                        /* what is not forwarded */
    struct ing_outbox *outbox;                         /* NULL: nothing is forwarded */
    struct ing_sender *sender;                         /* NULL: not started */
    struct ing_forward_conditions *forward_conditions; /* likewise */
    struct fg_conditions *conditions;                  /* of the program; NULL: none */
    struct fg_tenants *tenants;
    struct fg_clock *clock;
    struct ing_meeting *meeting;
    struct ing_group_commit *group_commit;
    struct ing_committer *committer;
    struct fg_registry *registry;
    struct fg_metrics *metrics;
    struct ing_push_context push;
    struct ing_push_locks push_locks;
    struct ing_query_context query;
    struct ing_repair *repair;
};

static void share(uint64_t *setting, uint64_t part, uint64_t least)
{
    if (*setting == 0)
        *setting = FG_MAX(part, least);
}

void ing_share(struct ing_settings *settings, uint64_t memory_max_bytes)
{
    /* Together about three quarters of the budget, with three memtables; the rest is for queries,
     * pushes being decoded and the build of a segment. The least values let a small machine start.
     */
    const uint64_t mib = UINT64_C(1) << 20;

    share(&settings->dictionary_max_bytes, memory_max_bytes / 4, 4 * mib);
    share(&settings->function_trees_max_bytes, memory_max_bytes / 16, mib);
    share(&settings->catalog_max_bytes, memory_max_bytes / 8, 4 * mib);
    share(&settings->commit_queue_max_bytes, memory_max_bytes / 16, 4 * mib);
    share(&settings->store_cache_bytes, memory_max_bytes / 8, 4 * mib);
    share(&settings->store_write_buffer_bytes, FG_MIN(memory_max_bytes / 32, 256 * mib), 4 * mib);
}

struct fg_store_config ing_store_config(const struct ing_settings *settings, bool forwards,
                                        struct fg_unread *unread)
{
    return (struct fg_store_config){
        .cache_bytes = settings->store_cache_bytes,
        .write_buffer_bytes = settings->store_write_buffer_bytes,
        .wal_max_bytes = settings->store_wal_max_bytes,
        .filtered_family = HEAD_PROFILES, /* has it come before? */
        .spare_families = forwards ? 0 : HEAD_FAMILIES - HEAD_OUTBOX,
        /* A push is answered only after it is on disk. */
        .sync = true,
        .accept_loss = settings->accept_loss,
        .accept_loss_setting = "ingester.accept_loss",
        .unread = unread,
    };
}

static const enum ingester_metric refusals[CATALOG_REFUSALS] = {
    [CATALOG_FULL] = INGESTER_NEW_FULL,
    [CATALOG_TENANTS_MAX] = INGESTER_NEW_TENANTS,
    [CATALOG_TENANT_SHARE] = INGESTER_NEW_SHARE,
    [CATALOG_SERIES_MAX] = INGESTER_NEW_SERIES,
};

static void on_scrape(void *arg)
{
    struct ingester *ingester = arg;
    struct fg_metrics *metrics = ingester->metrics;
    struct fg_lane_state pushes, forwarded, queries;

    fg_work_state(ingester->work, FG_LANE_INGEST, &pushes);
    fg_work_state(ingester->work, FG_LANE_BULK, &forwarded);
    fg_work_state(ingester->work, FG_LANE_QUERY, &queries);
    fg_metric_set(metrics, INGESTER_SERIES,
                  (int64_t)ing_catalog_count_series(ingester->catalog, NULL));
    fg_metric_set(metrics, INGESTER_TENANTS, ing_catalog_count_active(ingester->catalog));
    for (unsigned why = 0; why < CATALOG_REFUSALS; why++)
        fg_metric_set_total(metrics, refusals[why],
                            ing_catalog_count_refused(ingester->catalog, why));
    fg_metric_set(
        metrics, INGESTER_CATALOG_BYTES,
        (int64_t)(ing_catalog_bytes(ingester->catalog) + ing_head_chunks_bytes(ingester->chunks)));
    fg_metric_set(metrics, INGESTER_DICT_BYTES, (int64_t)ing_dict_table_bytes(ingester->dicts));
    fg_metric_set(metrics, INGESTER_FUNCTIONS_BYTES,
                  (int64_t)ing_functions_table_bytes(ingester->functions));
    fg_metric_set(metrics, INGESTER_STORE_MEMORY, (int64_t)fg_store_memory_bytes(ingester->store));
    fg_metric_set(metrics, INGESTER_STORE_DISK, (int64_t)fg_store_disk_bytes(ingester->store));
    fg_metric_set(metrics, INGESTER_QUEUED_PUSHES, pushes.queued);
    fg_metric_set(metrics, INGESTER_QUEUED_FORWARDED, forwarded.queued);
    fg_metric_set(metrics, INGESTER_QUEUED_QUERIES, queries.queued);
    fg_metric_set_total(metrics, INGESTER_REFUSED_PUSHES, pushes.refused);
    fg_metric_set_total(metrics, INGESTER_REFUSED_FORWARDED, forwarded.refused);
    fg_metric_set_total(metrics, INGESTER_REFUSED_QUERIES, queries.refused);
}

static unsigned or_processors(uint64_t threads)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (threads > 0)
        return (unsigned)threads;
    return processors < 1 ? 1 : (unsigned)processors;
}

static enum fg_code start_workers(struct ingester *ingester, const struct ing_settings *settings,
                                  struct fg_err *err)
{
    unsigned workers = or_processors(settings->workers);
    unsigned readers = or_processors(settings->query_workers);
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = workers, .queue_max = (unsigned)settings->queue_max},
        [FG_LANE_BULK] = {.threads = FG_MAX(workers / 2, 1),
                          .queue_max = (unsigned)settings->queue_max},
        [FG_LANE_QUERY] = {.threads = readers,
                           .queue_max = (unsigned)settings->query_queue_max,
                           .guests = readers},
        /* One worker for lookups of late profiles, and a guest, so that each of the two flows has
         * one at a time: agents' profiles do not wait for forwarded ones (push.h). */
        [FG_LANE_BACKGROUND] = {.threads = 1,
                                .queue_max = (unsigned)settings->late_queue_max,
                                .guests = 1},
    };

    return fg_work_create("ingester", lanes, &ingester->work, err);
}

/* The committer's thread. */
static void commit_items(void *arg, struct ing_commit_item *items)
{
    struct ingester *ingester = arg;

    ing_group_commit_run(ingester->group_commit, items);
}

static void after_commit(void *arg)
{
    struct ingester *ingester = arg;

    ing_head_writer_heal(ingester->writer);
    ing_outbox_settle(ingester->outbox);
}

static enum fg_code start_segments(struct ingester *ingester, const struct ing_config *config,
                                   struct fg_err *err)
{
    const struct ing_settings *settings = config->settings;

    if (config->bucket != NULL) /* without one there is nothing to look up */
        ingester->dedup = ing_dedup_create(&(struct ing_dedup_config){
            .bucket = config->bucket,
            .clock = config->clock,
            .registry = config->registry,
            .cache_max_bytes = settings->late_cache_max_bytes,
        });
    if (ing_segments_create(
            &(struct ing_segments_config){
                .settings = config->segments,
                .bucket = config->bucket,
                .scratch = config->scratch,
                .disk = config->disk,
                .head = {.store = config->store,
                         .catalog = ingester->catalog,
                         .dicts = ingester->dicts,
                         .chunks = ingester->chunks},
                .chunks = ingester->chunks,
                .writer = ingester->writer,
                .retire = ingester->retire,
                .member = &ingester->member,
                .dedup = ingester->dedup,
                .outbox = ingester->outbox,
                .compare_piece_bytes = config->compare_piece_bytes,
                .registry = config->registry,
                .conditions = config->conditions,
                .clock = config->clock,
            },
            &ingester->segments, err) != FG_OK)
        return err->code;
    ingester->group_commit = ing_group_commit_create(&(struct ing_group_commit_config){
        .store = config->store,
        .writer = ingester->writer,
        .chunks = ingester->chunks,
        .segments = ingester->segments,
        .dicts = ingester->dicts,
        .member = &ingester->member,
        .outbox = ingester->outbox,
        .registry = config->registry,
        .clock = config->clock,
    });
    if (ing_committer_create(
            &(struct ing_committer_config){
                .commit = commit_items,
                .after = after_commit,
                .arg = ingester,
                .queue_max_bytes = settings->commit_queue_max_bytes,
                .delay_ns = settings->commit_delay_ns,
                .clock = fg_clock_real(), /* that of its sleep */
                .registry = config->registry,
            },
            &ingester->committer, err) != FG_OK ||
        ing_intake_start(ingester->intake, ingester->committer, err) != FG_OK ||
        ing_meeting_start(ingester->meeting, ingester->committer, err) != FG_OK ||
        ing_outbox_start(ingester->outbox, ingester->committer, err) != FG_OK)
        return err->code;
    return ing_segments_start(ingester->segments, ingester->committer, err);
}

/* mend: what a start before this one has deleted, since it could not be read. */
static enum fg_code start(struct ingester *ingester, const struct ing_config *config,
                          const struct ing_mend *mend, struct fg_err *err)
{
    const struct ing_settings *settings = config->settings;

    const struct ing_catalog_bounds bounds = {settings->catalog_max_bytes,
                                              fg_tenants_max(config->tenants)};

    ingester->damage = mend->damage;
    if (ing_catalog_open(config->store, &bounds, &ingester->damage, &ingester->catalog, err) !=
        FG_OK)
        return err->code;
    if (ing_head_chunks_open(config->store, ingester->catalog, settings->catalog_max_bytes / 2,
                             &ingester->damage, &ingester->chunks, err) != FG_OK ||
        ing_mend_tell(config->store, ingester->chunks, ingester->catalog, err) != FG_OK ||
        ing_head_mode_set(config->store, ingester->chunks, config->bucket == NULL, err) != FG_OK ||
        ing_member_find_store(config->store, &ingester->member.store, err) != FG_OK ||
        start_workers(ingester, settings, err) != FG_OK)
        return err->code;
    ingester->writer = ing_head_writer_create(&(struct ing_head_writer_config){
        config->store, ingester->chunks, config->disk, config->registry});
    ingester->intake = ing_intake_create(
        &(struct ing_intake_config){ingester->writer, config->disk, config->registry});
    ingester->meeting = ing_meeting_create(&(struct ing_meeting_config){
        config->store, ingester->writer, ingester->catalog, config->clock});
    ingester->dicts = ing_dict_table_create(config->store, settings->dictionary_max_bytes);
    ingester->functions =
        ing_functions_table_create(ingester->dicts, settings->function_trees_max_bytes);
    ingester->deleted_sources =
        (struct ing_deleted_sources){config->access, config->bucket, config->clock};
    ingester->deleted = ing_deleted_of(&ingester->deleted_sources);
    if (ing_outbox_create(
            &(struct ing_outbox_config){
                .forward = config->forward,
                .store = config->store,
                .writer = ingester->writer,
                .catalog = ingester->catalog,
                .tenants = config->tenants,
                .deleted = &ingester->deleted,
                .damage = &ingester->damage,
                .clock = config->clock,
                .groups_max = (uint32_t)FG_MIN(settings->catalog_max_bytes / PINNED_PART /
                                                   sizeof(struct ing_head_chunk),
                                               UINT32_MAX),
            },
            &ingester->outbox, err) != FG_OK)
        return err->code;
    if (ing_retire_create(&(struct ing_retire_config){config->store, ingester->catalog,
                                                      ingester->dicts, ingester->chunks,
                                                      ingester->writer},
                          &ingester->retire, err) != FG_OK ||
        start_segments(ingester, config, err) != FG_OK)
        return err->code;
    ingester->push = (struct ing_push_context){
        .catalog = ingester->catalog,
        .chunks = ingester->chunks,
        .dicts = ingester->dicts,
        .committer = ingester->committer,
        .segments = ingester->segments,
        .dedup = ingester->dedup,
        .member = &ingester->member,
        .intake = ingester->intake,
        .outbox = ingester->outbox,
        .work = ingester->work,
        .locks = &ingester->push_locks,
        .tenants = config->tenants,
        /* Different at each start: a start begins new dictionaries, so distributors that see
         * another id send all definitions again. */
        .start_id = fg_mix64((uint64_t)fg_wall_ns(config->clock) ^ (uint64_t)getpid() << 48),
    };
    for (unsigned i = 0; i < ING_LOOKS; i++)
        ingester->push.look_stops[i] = fg_bucket_stop_create();
    ingester->query = (struct ing_query_context){
        .store = config->store,
        .catalog = ingester->catalog,
        .chunks = ingester->chunks,
        .dicts = ingester->dicts,
        .functions = ingester->functions,
        .segments = ingester->segments,
        .work = ingester->work,
        .store_id = ingester->member.store,
        .watch = config->watch,
        .memory_max_bytes = settings->query_max_bytes,
        .pass_max_bytes = config->query_pass_bytes > 0
                              ? config->query_pass_bytes
                              : settings->query_max_bytes / QUERY_PASS_SHARE,
    };
    return FG_OK;
}

static enum fg_code start_repair(struct ingester *ingester, const struct ing_config *config,
                                 struct fg_err *err)
{
    if (config->watch == NULL || config->peers == NULL)
        return FG_OK;
    return ing_repair_create(
        &(struct ing_repair_config){
            .settings = config->repair,
            .store = config->store,
            .catalog = ingester->catalog,
            .chunks = ingester->chunks,
            .member = &ingester->member,
            .push = &ingester->push,
            .peers = config->peers,
            .registry = config->registry,
            .clock = config->clock,
        },
        &ingester->repair, err);
}

static void tell_damage(struct ingester *ingester, struct fg_conditions *conditions)
{
    const struct ing_damage *damage = &ingester->damage;

    ingester->damaged = fg_condition_create(conditions, "head_damaged");
    fg_metric_set(ingester->metrics, INGESTER_RECORDS_REPAIRED, (int64_t)damage->repaired);
    fg_metric_set(ingester->metrics, INGESTER_RECORDS_ASIDE, (int64_t)damage->set_aside);
    if (damage->set_aside > 0)
        fg_condition_raise(ingester->damaged,
                           "%llu damaged records of the head are set aside, see the log of the "
                           "start; the first: %s",
                           (unsigned long long)damage->set_aside, damage->first);
}

static enum fg_code create(const struct ing_config *config, const struct ing_mend *mend,
                           struct ingester **ret_ingester, struct fg_err *err)
{
    struct ingester *ingester = fg_new(struct ingester);
    int64_t before = fg_mono_ns(config->clock);

    ingester->store = config->store;
    ingester->registry = config->registry;
    ingester->tenants = config->tenants;
    ingester->conditions = config->conditions;
    ingester->clock = config->clock;
    ingester->member.watch = config->watch;
    ing_push_locks_init(&ingester->push_locks);
    if (start(ingester, config, mend, err) != FG_OK ||
        start_repair(ingester, config, err) != FG_OK) {
        ing_destroy(ingester);
        return fg_wrap(err, "ingester");
    }
    ingester->metrics =
        fg_metrics_register(config->registry, ingester_metrics, FG_COUNT(ingester_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, ingester);
    tell_damage(ingester, config->conditions);
    fg_log_info("head opened", fg_lu("series", ing_catalog_count_series(ingester->catalog, NULL)),
                fg_lu("disk_bytes", fg_store_disk_bytes(config->store)),
                fg_li("took_ms", (fg_mono_ns(config->clock) - before) / FG_MS_NS));
    *ret_ingester = ingester;
    return FG_OK;
}

enum fg_code ing_create(const struct ing_config *config, struct ingester **ret_ingester,
                        struct fg_err *err)
{
    struct ing_mend mend;
    struct fg_err why;
    enum fg_code code;

    ing_mend_init(&mend);
    code = create(config, &mend, ret_ingester, err);
    /* The whole start again: what it has read so far may refer to what is deleted. */
    if (code == FG_E_CORRUPT && ing_mend_store(&mend, config->store, &why) != FG_OK) {
        (void)fg_wrap(&why, "%.*s; it cannot be mended", FG_ERR_MSG_MAX_BYTES / 2, err->msg);
        *err = why;
        code = why.code;
    } else if (code == FG_E_CORRUPT && mend.n > 0) {
        code = create(config, &mend, ret_ingester, err);
    }
    ing_mend_done(&mend);
    return code;
}

static void end_lookups(struct ingester *ingester)
{
    for (unsigned i = 0; i < ING_LOOKS; i++)
        if (ingester->push.look_stops[i] != NULL) /* a start may fail before */
            fg_bucket_stop_all(ingester->push.look_stops[i]);
}

void ing_destroy(struct ingester *ingester)
{
    if (ingester == NULL)
        return;
    /* Operator routes may be served while a start fails, so each module takes back its hook before
     * it is destroyed; first this one, which uses all of them. */
    fg_registry_off_scrape(ingester->registry, ingester);
    end_lookups(ingester); /* workers may wait for the bucket */
    ing_sender_stop(ingester->sender);
    /* It pushes through the workers and the committer. */
    ing_repair_destroy(ingester->repair);
    fg_work_destroy(ingester->work); /* hands its last items to the committer */
    /* Before the committer, which has to run the steps that the thread waits for. */
    ing_segments_stop(ingester->segments);
    /* Their tickers post visits. */
    ing_intake_stop(ingester->intake);
    ing_meeting_stop(ingester->meeting);
    ing_outbox_stop(ingester->outbox);
    ing_committer_destroy(ingester->committer);
    ing_group_commit_destroy(ingester->group_commit);
    ing_intake_destroy(ingester->intake);
    ing_meeting_destroy(ingester->meeting);
    ing_segments_destroy(ingester->segments);
    ing_dedup_destroy(ingester->dedup);
    ing_forward_conditions_destroy(ingester->forward_conditions);
    ing_sender_destroy(ingester->sender);
    ing_outbox_destroy(ingester->outbox);
    ing_retire_destroy(ingester->retire);
    ing_head_writer_destroy(ingester->writer);
    ing_functions_table_destroy(ingester->functions);
    ing_dict_table_destroy(ingester->dicts);
    for (unsigned i = 0; i < ING_LOOKS; i++)
        fg_bucket_stop_destroy(ingester->push.look_stops[i]);
    ing_push_locks_done(&ingester->push_locks);
    fg_condition_destroy(ingester->damaged);
    ing_head_chunks_close(ingester->chunks);
    ing_catalog_close(ingester->catalog);
    free(ingester);
}

/* Profiles of series that the head has lost are in no answer, and in no segment. Once all that was
 * there is committed there are none, and answers are complete. */
static enum fg_code note_commit(struct ingester *ingester, enum fg_code code)
{
    if (code == FG_OK)
        ing_catalog_clear_lacks(ingester->catalog);
    return code;
}

enum fg_code ing_flush(struct ingester *ingester, int64_t deadline_mono_ns, struct fg_err *err)
{
    return note_commit(ingester, ing_segments_flush(ingester->segments, deadline_mono_ns, err));
}

enum fg_code ing_salvage(struct ingester *ingester, int64_t deadline_mono_ns, struct fg_err *err)
{
    return note_commit(ingester, ing_segments_salvage(ingester->segments, deadline_mono_ns, err));
}

void ing_drain(struct ingester *ingester, uint64_t revision)
{
    ing_segments_drain(ingester->segments, revision);
}

bool ing_refuses(struct ingester *ingester, struct fg_buf *why)
{
    return ingester != NULL && ing_intake_refuses(ingester->intake, why);
}

bool ing_is_ready(struct ingester *ingester)
{
    struct fg_buf why;
    bool refuses;

    fg_buf_init(&why, 4096); /* a sentence, which nobody reads here */
    refuses = ing_refuses(ingester, &why);
    fg_buf_done(&why);
    return !refuses && ing_segments_is_settled(ingester->segments);
}

/* Long enough that the profiles of many processes share a request and their stacks, and short
 * enough that a dashboard of the target is current. */
static const int64_t COLLECT_NS = 2 * FG_SECOND_NS;

struct ing_parcel_common ing_parcel_common(struct ingester *ingester)
{
    return (struct ing_parcel_common){.outbox = ingester->outbox,
                                      .catalog = ingester->catalog,
                                      .dicts = ingester->dicts,
                                      .store = ingester->member.store,
                                      .several = fg_tenants_are_several(ingester->tenants),
                                      .hold_ns = FG_MINUTE_NS,
                                      .pass_ns = FG_SECOND_NS};
}

static bool is_denied(void *arg, unsigned target)
{
    return ing_sender_is_denied(arg, target);
}

static bool is_unread(void *arg, unsigned target)
{
    return ing_sender_is_unread(arg, target);
}

enum fg_code ing_start_forwarding(struct ingester *ingester, struct ing_forward_targets *targets,
                                  struct fg_budget *bodies, uint64_t definition_cache_max,
                                  const struct ing_past *past, struct fg_err *err)
{
    ingester->sender = ing_sender_create(&(struct ing_sender_config){
        .common = ing_parcel_common(ingester),
        .targets = targets,
        .bodies = bodies,
        .past = past,
        .registry = ingester->registry,
        .clock = ingester->clock,
        .definition_cache_max = definition_cache_max,
        .collect_ns = COLLECT_NS,
    });
    if (ing_sender_start(ingester->sender, err) != FG_OK)
        return err->code;
    return ing_forward_conditions_create(
        &(struct ing_forward_conditions_config){
            .outbox = ingester->outbox,
            .denied = is_denied,
            .unread = is_unread,
            .arg = ingester->sender,
            .conditions = ingester->conditions,
            .clock = ingester->clock,
        },
        &ingester->forward_conditions, err);
}

const struct ing_past *ing_past(const struct ingester *ingester)
{
    return ingester->sender == NULL ? NULL : ing_sender_past(ingester->sender);
}

void ing_stop_forwarding(struct ingester *ingester)
{
    if (ingester != NULL)
        ing_sender_stop(ingester->sender);
}

void ing_write_forwarding(struct ingester *ingester, struct fg_json_writer *out)
{
    if (ingester->sender != NULL)
        ing_sender_write(ingester->sender, out);
}

void ing_drop_deleted(struct ingester *ingester)
{
    if (ingester != NULL)
        ing_outbox_drop_deleted(ingester->outbox);
}

struct ing_outbox *ing_outbox(struct ingester *ingester)
{
    return ingester->outbox;
}

void ing_hurry(struct ingester *ingester)
{
    if (ingester == NULL)
        return;
    ing_segments_hurry(ingester->segments);
    end_lookups(ingester);
}

static void handle_ping(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    fg_rpc_reply(req, fg_bytes(NULL, 0), fg_bytes(NULL, 0));
}

void ing_serve(struct ingester *ingester, struct fg_rpc_server *server)
{
    fg_rpc_server_handle(server, FG_RPC_PING, handle_ping, NULL);
    fg_rpc_server_handle(server, FG_RPC_PUSH, ing_push_handle, &ingester->push);
    fg_rpc_server_handle(server, FG_RPC_SELECT, ing_query_handle_select, &ingester->query);
    fg_rpc_server_handle(server, FG_RPC_SERIES, ing_query_handle_series, &ingester->query);
    fg_rpc_server_handle(server, FG_RPC_POINTS, ing_query_handle_points, &ingester->query);
    fg_rpc_server_handle(server, FG_RPC_ROWS, ing_query_handle_rows, &ingester->query);
    fg_rpc_server_handle(server, FG_RPC_STATS, ing_query_handle_stats, &ingester->query);
    fg_rpc_server_handle(server, FG_RPC_USE, ing_meeting_handle, ingester->meeting);
    fg_rpc_server_handle(server, FG_RPC_QUERY_USE, ing_meeting_handle_queries, ingester->meeting);
    fg_rpc_server_handle(server, FG_RPC_GROUPS, ing_repair_handle_groups, &ingester->query);
    fg_rpc_server_handle(server, FG_RPC_FETCH, ing_repair_handle_fetch, &ingester->query);
}
