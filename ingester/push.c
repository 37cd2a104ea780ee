/*
 * A message brings batches of several services; each is a push of its own:
 *
 *   transport thread -+-> worker of the service -> committer -+-> reply
 *                     '-> worker of the service -> committer -'
 *
 * On the worker the stacks get their numbers and the profiles become records; after that nothing
 * needs the message in its wire form. The push that ends last sends the reply.
 */
#include "ingester/push.h"

#include "common/model/limit_of.h"
#include "common/runtime/foreground.h"
#include "common/runtime/log.h"
#include "ingester/record.h"
#include "proto/inner.pb-c.h"

#include <time.h>

struct ingester_push {
    struct fg_job job;
    struct ing_commit_item item;
    struct push_message *message;
    struct ing_push_context *context;
    const Fg__Inner__PushItem *head;
    struct fg_slice batch;
    pthread_mutex_t *held;  /* the lock of its service; NULL: it is not held */
    uint32_t n_undefined;   /* stacks that are neither known nor defined */
    unsigned entered;       /* the guard of the catalog, while the push is on the worker or with the
                               committer */
    struct push_look *look; /* NULL: no lookup of its profiles */
    unsigned tries;         /* that found the manifest changed */
    uint32_t retry_after_s; /* of a refusal; 0: not known */
    enum fg_limit_of limit_of; /* of a refusal */
};

/* A lookup of profiles in the bucket. */
struct push_look {
    uint64_t least; /* generation of the snapshot to look in */
    bool ended;
    struct ing_segments_lookup lookup; /* once it has ended */
    uint32_t n;
    struct ing_head_profile_key *keys; /* [n]: those of all profiles, in the batch's order */
    bool *found, *unsure;              /* [n] */
};

struct push_message {
    struct ing_push_context *context;
    struct fg_rpc_request *req;
    Fg__Inner__PushHead *head;
    _Atomic size_t under_way;
    size_t n_pushes;
    struct ingester_push pushes[];
};

/* A message is bounded by the transport; decoded, it takes several times its size. */
enum { PUSH_ARENA_MAX_BYTES = 256 * 1024 * 1024, ITEMS_MAX = 1024, TRIES_MAX = 3 };

/* A failed lookup is repeated for a second, with a pause before each try, so that a short fault
 * makes nothing unchecked. After that the bucket counts as unreachable: no lookup asks it for five
 * seconds, or until a COMPARE has succeeded. */
static const int64_t LOOK_TRIES_NS = FG_SECOND_NS, LOOK_PAUSE_NS = 100 * FG_MS_NS;
static const int64_t LOOK_AGAIN_NS = 5 * FG_SECOND_NS;

static void look_free(struct push_look *look)
{
    if (look == NULL)
        return;
    free(look->keys);
    free(look->found);
    free(look->unsure);
    free(look);
}

static void message_free(struct push_message *message)
{
    for (size_t i = 0; i < message->n_pushes; i++) {
        ing_commit_item_done(&message->pushes[i].item);
        look_free(message->pushes[i].look);
    }
    fg__inner__push_head__free_unpacked(message->head, NULL);
    free(message);
}

static bool is_forwarded(const struct ingester_push *push)
{
    return push->head->via.len > 0;
}

static Fg__Inner__PushResult result_of(struct ingester_push *push)
{
    Fg__Inner__PushResult result;

    fg__inner__push_result__init(&result);
    if (push->item.err.code != FG_OK) {
        result.code = fg_code_grpc(push->item.err.code);
        result.message = push->item.err.msg;
        result.retry_after_s = push->retry_after_s;
        result.limit_of = (Fg__Inner__LimitOf)push->limit_of;
        return result;
    }
    result.stored = push->item.stored;
    result.duplicates = push->item.duplicates;
    result.undefined = &push->n_undefined;
    result.n_undefined = push->n_undefined > 0;
    return result;
}

static void reply(struct push_message *message)
{
    Fg__Inner__PushReply answer = FG__INNER__PUSH_REPLY__INIT;
    Fg__Inner__PushResult *results = fg_calloc(message->n_pushes, sizeof *results);
    Fg__Inner__PushResult **pointers =
        fg_calloc(message->n_pushes, sizeof(Fg__Inner__PushResult *));
    uint8_t *bytes;
    size_t len;

    for (size_t i = 0; i < message->n_pushes; i++) {
        results[i] = result_of(&message->pushes[i]);
        pointers[i] = &results[i];
    }
    answer.results = pointers;
    answer.n_results = message->n_pushes;
    answer.start_id = message->context->start_id;
    answer.revision = ing_member_revision(message->context->member);
    bytes = fg_malloc(fg__inner__push_reply__get_packed_size(&answer));
    len = fg__inner__push_reply__pack(&answer, bytes);
    fg_rpc_reply(message->req, fg_bytes(bytes, len), fg_bytes(NULL, 0));
    free(bytes);
    free(pointers);
    free(results);
}

/* Releases the guard of the catalog: the push uses none of its pointers any more. */
static void leave(const struct ingester_push *push)
{
    ing_catalog_leave(push->context->catalog, push->entered);
}

/* Ends a push; the last one of its message sends the reply. Any thread. The caller must not touch
 * the push any more, since the message may be freed. */
static void finish(struct ingester_push *push)
{
    struct push_message *message = push->message;

    /* Sequentially consistent, so the last one sees the results that the others have written
     * before. */
    if (atomic_fetch_sub(&message->under_way, 1) != 1)
        return;
    reply(message);
    message_free(message);
}

static void submit(struct ingester_push *push);

/* Returns a number of the service. */
static uint64_t pin_of(const struct ingester_push *push)
{
    return fg_hash64(fg_cstr(push->head->service)) ^
           fg_mix64(fg_hash64(fg_cstr(push->head->tenant)));
}

void ing_push_locks_init(struct ing_push_locks *locks)
{
    for (size_t i = 0; i < FG_COUNT(locks->of_services); i++)
        fg_assert(pthread_mutex_init(&locks->of_services[i], NULL) == 0);
}

void ing_push_locks_done(struct ing_push_locks *locks)
{
    for (size_t i = 0; i < FG_COUNT(locks->of_services); i++)
        (void)pthread_mutex_destroy(&locks->of_services[i]);
}

/* Until release_service(). */
static void hold_service(struct ingester_push *push)
{
    struct ing_push_locks *locks = push->context->locks;

    /* Mixed once more: services of different workers are to have different locks, however many
     * workers there are. */
    push->held = &locks->of_services[fg_mix64(pin_of(push)) % FG_COUNT(locks->of_services)];
    (void)pthread_mutex_lock(push->held);
}

/* Accepts a push that holds none. */
static void release_service(struct ingester_push *push)
{
    if (push->held != NULL)
        (void)pthread_mutex_unlock(fg_take(push->held));
}

/* Resets a push to its beginning. */
static void begin_anew(struct ingester_push *push)
{
    ing_commit_item_done(&push->item);
    ing_commit_item_init(&push->item);
    push->n_undefined = 0;
    submit(push);
}

/* ---- committer's thread ---- */

static void on_committed(struct ing_commit_item *item)
{
    struct ingester_push *push = fg_container(item, struct ingester_push, item);

    /* Before the retry, which enters again: a guard that lives on would keep the epoch from ending.
     */
    leave(push);
    /* The number of tries is bounded, since segments may go on entering; then the distributor
     * repeats the push. */
    if (item->repeat_lookup && push->tries++ < TRIES_MAX) {
        look_free(fg_take(push->look));
        begin_anew(push);
        return;
    }
    finish(push);
}

/* ---- worker ---- */

static enum fg_code current_generation(struct ingester_push *push, struct fg_err *err)
{
    struct ing_catalog_service *service = push->item.service;
    uint32_t generation = atomic_load(&service->generation);

    push->item.generation = generation;
    if (ing_dict_ref(push->context->dicts, service->number, generation, &push->item.dict, err) !=
        FG_OK) {
        if (err->code != FG_E_CORRUPT)
            return err->code;
        /* Profiles that name it cannot be read any more; new ones must not depend on it. */
        fg_log_error("stack dictionary cannot be read, starting a new one",
                     fg_ls("tenant", push->head->tenant), fg_ls("service", push->head->service),
                     fg_ls("err", err->msg));
        ing_catalog_end_generation(service, generation);
        push->item.generation = atomic_load(&service->generation);
        return ing_dict_ref(push->context->dicts, service->number, push->item.generation,
                            &push->item.dict, err);
    }
    if (!ing_dict_outgrown(push->context->dicts, push->item.dict))
        return FG_OK;
    ing_dict_unref(push->context->dicts, push->item.dict);
    push->item.dict = NULL;
    /* Another thread may have ended this generation meanwhile (a failed write, a cut). Then its
     * successor is as good. */
    (void)atomic_compare_exchange_strong(&service->generation, &generation, generation + 1);
    push->item.generation = atomic_load(&service->generation);
    return ing_dict_ref(push->context->dicts, service->number, push->item.generation,
                        &push->item.dict, err);
}

/* Puts definitions that are not on disk yet into the batch that needs them. */
static void define(struct ingester_push *push)
{
    struct ing_commit_item *item = &push->item;
    _Atomic bool *tenant_durable = ing_catalog_tenant_durable(item->tenant);

    /* Each push brings the definitions until one of them is on disk: a push that brought them and
     * failed must not leave the others without. */
    if (!atomic_load(tenant_durable)) {
        ing_catalog_put_tenant(item->tenant, &item->defs);
        ing_commit_item_mark(item, (struct ing_commit_mark){.durable = tenant_durable});
    }
    if (!atomic_load(&item->service->durable)) {
        ing_catalog_put_service(item->service, &item->defs);
        ing_commit_item_mark(item, (struct ing_commit_mark){.durable = &item->service->durable});
    }
}

/* Scratch for the samples of one profile after another. */
struct scratch {
    struct fg_keyed *samples, *spare;
    uint32_t *positions;
};

static bool scratch_create(struct scratch *scratch, const struct fg_wire_batch *batch,
                           struct fg_arena *arena)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < batch->n_profiles; i++)
        most = FG_MAX(most, batch->profiles[i].n_samples);
    scratch->samples = fg_arena_alloc(arena, most * sizeof *scratch->samples);
    scratch->spare = fg_arena_alloc(arena, most * sizeof *scratch->spare);
    scratch->positions = fg_arena_alloc(arena, most * sizeof *scratch->positions);
    return scratch->samples != NULL && scratch->spare != NULL && scratch->positions != NULL;
}

/* Bit t: the profile has a value of type t. */
static uint64_t types_with_values(const struct fg_profile *profile, uint32_t n_types)
{
    uint64_t types = 0;

    for (uint32_t t = 0; t < n_types; t++) {
        const int64_t *values = profile->values + (size_t)t * profile->n_samples;
        uint32_t i = 0;

        while (i < profile->n_samples && values[i] == 0)
            i++;
        types |= (uint64_t)(i < profile->n_samples) << t;
    }
    return types;
}

/* Refuses a push because the ingester has too much to do, for all tenants. */
static void refuse_busy(struct ingester_push *push, const char *why)
{
    push->limit_of = FG_LIMIT_OF_SERVER;
    (void)fg_fail(&push->item.err, FG_E_LIMIT, "%s", why);
}

/*
 * Returns whose limit has refused something new; known series of everybody go on in any case.
 *
 * A tenant's share of the catalog gets smaller as others take more, so what lacks is the ingester's
 * memory. But it ends where it does to leave room for others, and they do find it. The number of
 * tenants is the ingester's, too, but refuses them one by one: those that have profiles here do not
 * notice, and are not to wait for those that have none. A full catalog is neither's: it has no room
 * for anybody's new series, and nobody's known ones are to wait for that.
 */
static enum fg_limit_of limit_of_catalog(enum ing_catalog_refusal why)
{
    return why == CATALOG_FULL ? FG_LIMIT_OF_UNSAID : FG_LIMIT_OF_TENANT;
}

/* Checks that there is room for the tenant, service or series that this profile is the first of. */
static enum fg_code check_group(struct ingester_push *push, const struct ing_head_group_key *group,
                                const struct ing_catalog_quota *quota, struct fg_err *err)
{
    struct ing_head_chunks *chunks = push->context->chunks;

    if (ing_head_chunks_have_room(chunks, group->tenant, quota->share) ||
        ing_head_chunks_of_group(chunks, group, NULL, 0) > 0)
        return FG_OK;
    /* As for series: its share of the table, or the table is full. */
    push->limit_of = limit_of_catalog(
        ing_head_chunks_have_room(chunks, group->tenant, 1) ? CATALOG_TENANT_SHARE : CATALOG_FULL);
    return fg_fail(err, FG_E_LIMIT,
                   "tenant %s has profiles of too many time windows: the catalog has no space for "
                   "more of its groups (ingester.catalog_max_bytes, limits.tenant_catalog_share)",
                   push->head->tenant);
}

/* Fails a push to which the catalog gave nothing. If there is room by now, since others were
 * retired, it is to be tried again, too. */
static enum fg_code no_room(struct ingester_push *push, const struct ing_catalog_quota *quota,
                            struct fg_err *err)
{
    enum ing_catalog_refusal why;

    if (ing_catalog_check_room(push->context->catalog, push->item.tenant, quota, &why, err) !=
        FG_OK) {
        push->limit_of = limit_of_catalog(why);
        return err->code;
    }
    return fg_fail(err, FG_E_LIMIT, "the catalog was full (ingester.catalog_max_bytes)");
}

/* Sets the group of a profile. */
static enum fg_code find_place(struct ingester_push *push, const struct fg_wire_batch *batch,
                               uint32_t number, const struct ing_catalog_quota *quota,
                               struct fg_err *err)
{
    const struct fg_profile *profile = &batch->profiles[number];
    struct ing_commit_item *item = &push->item;
    struct ing_commit_profile *out = &item->profiles[number];
    struct ing_catalog_series *series;

    /* The stacks of a series are in the dictionary of its service: no second service may be named.
     */
    if (!fg_slice_is(fg_labels_get(&profile->labels, FG_LABEL_SERVICE), push->head->service))
        return fg_fail(err, FG_E_INVALID, "profile of another service than %s",
                       push->head->service);
    series = ing_catalog_series(push->context->catalog, item->tenant, item->service,
                                (uint16_t)push->head->shard, batch, &profile->labels, quota);
    if (series == NULL)
        return no_room(push, quota, err);
    out->key = (struct ing_head_profile_key){
        .chunk.group = {ing_catalog_tenant_number(item->tenant), series->shard,
                        ing_head_window(profile->time_ns, profile->duration_ns)},
        .series = series->number,
        .time_ns = profile->time_ns,
        .id = profile->id,
    };
    out->series = series;
    return check_group(push, &out->key.chunk.group, quota, err);
}

/* Defines the series of a profile, unless it is on disk with all types that it has values of. */
static void define_series(struct ingester_push *push, const struct fg_wire_batch *batch,
                          uint32_t number)
{
    const struct fg_profile *profile = &batch->profiles[number];
    struct ing_commit_item *item = &push->item;
    struct ing_catalog_series *series = item->profiles[number].series;
    uint64_t seen;

    if (!ing_catalog_series_saw(series, types_with_values(profile, batch->n_types)))
        return;
    seen = atomic_load(&series->seen); /* grows under the lock of the service only */
    ing_catalog_put_series(item->tenant, series, &item->defs);
    ing_commit_item_mark(item, (struct ing_commit_mark){&series->durable, &series->stored, seen});
}

static void add_record(struct ingester_push *push, const struct fg_wire_batch *batch,
                       uint32_t number, const uint32_t *nodes, const struct scratch *scratch)
{
    const struct fg_profile *profile = &batch->profiles[number];
    struct ing_commit_item *item = &push->item;
    struct ing_commit_profile *out = &item->profiles[number];

    for (uint32_t i = 0; i < profile->n_samples; i++)
        scratch->samples[i] = (struct fg_keyed){nodes[profile->stacks[i]], i};
    fg_radix_sort(scratch->samples, scratch->spare, profile->n_samples);
    out->offset = item->records.len;
    ing_record_encode(profile, batch->n_types, item->generation, scratch->samples,
                      scratch->positions, &item->records);
    out->len = item->records.len - out->offset;
}

static struct ing_catalog_quota quota_of(const struct ingester_push *push)
{
    /* Read for each push, so a change of limits takes effect at once. */
    struct fg_limits *limits =
        fg_tenants_limits(push->context->tenants, fg_cstr(push->head->tenant));
    const struct ing_catalog_quota quota = {
        .series_max = limits->values.max_series_per_tenant,
        .share = limits->values.tenant_catalog_share,
    };

    fg_limits_unref(limits);
    return quota;
}

/* ---- late profiles ---- */

/* Collects the profiles to look up. Returns true if there are any and they were not looked up yet.
 */
static bool must_look(struct ingester_push *push)
{
    const struct ing_commit_item *item = &push->item;
    struct push_look *look = push->look;
    uint64_t seen = 0;
    bool late = false;

    if (look != NULL)
        return false;
    for (uint32_t i = 0; i < item->n_profiles && !late; i++)
        late = ing_segments_is_late(push->context->segments, &item->profiles[i].key.chunk.group,
                                    &seen);
    if (!late)
        return false;
    look = push->look = fg_new(struct push_look);
    look->least = seen;
    look->n = item->n_profiles;
    look->keys = fg_calloc(look->n, sizeof *look->keys);
    look->found = fg_calloc(look->n, sizeof *look->found);
    look->unsure = fg_calloc(look->n, sizeof *look->unsure);
    /* Copies: the item is reset and made again after the lookup. */
    for (uint32_t i = 0; i < look->n; i++)
        look->keys[i] = item->profiles[i].key;
    return true;
}

/* Tells the committer the result of the lookup. */
static void take_look(struct ingester_push *push)
{
    const struct push_look *look = push->look;

    if (look == NULL)
        return;
    /* The order of the profiles is that of the batch, in this run as in the one that made the
     * lookup. */
    push->item.lookup = look->lookup;
    for (uint32_t i = 0; i < look->n; i++) {
        push->item.profiles[i].committed = look->found[i];
        push->item.profiles[i].unsure = look->unsure[i];
    }
}

static enum fg_code prepare(struct ingester_push *push, const struct fg_wire_batch *batch,
                            const struct ing_catalog_quota *quota, struct fg_arena *arena,
                            struct fg_err *err)
{
    struct ing_commit_item *item = &push->item;
    uint32_t *nodes = fg_arena_alloc(arena, batch->n_stacks * sizeof *nodes);
    struct scratch scratch;

    if (nodes == NULL || !scratch_create(&scratch, batch, arena))
        return fg_fail(err, FG_E_LIMIT, "batch of %u stacks", batch->n_stacks);
    item->n_profiles = batch->n_profiles;
    item->profiles = fg_calloc(batch->n_profiles, sizeof *item->profiles);
    /* Checks for room first: a stack that was numbered in vain spoils its dictionary. */
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        if (find_place(push, batch, i, quota, err) != FG_OK)
            return err->code;
    if (must_look(push))
        return FG_OK;
    take_look(push);
    /* No queue refuses what has got a number. */
    if (!ing_committer_has_room(push->context->committer, is_forwarded(push))) {
        push->limit_of = FG_LIMIT_OF_SERVER;
        return fg_fail(err, FG_E_LIMIT, "ingester's commit queue is full");
    }
    fg_foreground_let_pass();
    hold_service(push);
    if (current_generation(push, err) != FG_OK)
        return err->code;
    push->n_undefined = ing_dict_resolve(item->dict, batch, nodes);
    if (push->n_undefined > 0)
        return FG_OK;
    define(push);
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        define_series(push, batch, i);
    ing_dict_put_chunk(item->dict, &item->defs);
    /* A push that defines nothing uses what others have brought to the committer before, so those
     * of its service may overtake it from here on. */
    if (item->defs.count == 0)
        release_service(push);
    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        if (push->held == NULL)
            fg_foreground_let_pass();
        add_record(push, batch, i, nodes, &scratch);
    }
    return FG_OK;
}

static enum fg_code decode_push(struct fg_job *job, struct fg_err *err)
{
    struct ingester_push *push = fg_container(job, struct ingester_push, job);
    const struct ing_catalog_quota quota = quota_of(push);
    struct fg_wire_batch batch;
    enum fg_code code;

    /* Held until the committer has answered: item, series and service point into the catalog. */
    push->entered = ing_catalog_enter(push->context->catalog);
    push->item.revision = push->message->head->revision;
    push->item.via = (struct ing_outbox_via){.n = (uint8_t)(push->head->via.len / FG_ID_BYTES)};
    for (uint8_t i = 0; i < push->item.via.n; i++)
        push->item.via.stores[i] = fg_id_get(push->head->via.data + (size_t)i * FG_ID_BYTES);
    /* The committer checks the first and the last again. Here they cost least: nothing has been
     * decoded, and no stack has got a number that a refused push would waste. */
    if (ing_intake_admits(push->context->intake, err) != FG_OK)
        return err->code;
    if (ing_outbox_admits(push->context->outbox, fg_cstr(push->head->tenant), err) != FG_OK) {
        /* The queue is the ingester's, but only what its target wants is refused: the profiles of
         * other tenants are not to wait for that target. */
        push->limit_of = FG_LIMIT_OF_TENANT;
        push->retry_after_s = OUTBOX_FULL_RETRY_S;
        return err->code;
    }
    if (ing_member_admits(push->context->member, push->item.revision, err) != FG_OK)
        return err->code;
    /* Tenant and service are added here and become durable only with a batch, so a push that fails
     * leaves nothing on disk. */
    push->item.tenant = ing_catalog_tenant(push->context->catalog, fg_cstr(push->head->tenant));
    if (push->item.tenant != NULL)
        push->item.service = ing_catalog_service(push->context->catalog, push->item.tenant,
                                                 fg_cstr(push->head->service), &quota);
    if (push->item.service == NULL)
        return no_room(push, &quota, err);
    fg_auto(fg_arena) *arena = fg_arena_create(PUSH_ARENA_MAX_BYTES);
    if (fg_batch_decode(push->batch, arena, &batch, err) != FG_OK)
        return err->code;
    code = fg_wire_batch_get_sizes(&batch, push->head->sizes, push->head->n_sizes, err);
    fg_foreground_let_pass();
    if (code == FG_OK)
        code = prepare(push, &batch, &quota, arena, err);
    fg_wire_batch_done(&batch);
    return code;
}

static void start_look(struct ingester_push *push);

/* Gives a push to the committer, whose it is from then on: it may be freed before this returns. */
static void commit(struct ingester_push *push)
{
    pthread_mutex_t *held = fg_take(push->held);

    push->item.done = on_committed;
    ing_committer_submit(push->context->committer, &push->item);
    if (held != NULL)
        (void)pthread_mutex_unlock(held);
}

static void end_job(struct ingester_push *push)
{
    const struct fg_job *job = &push->job;

    if (job->code == FG_OK && push->look != NULL && !push->look->ended) {
        leave(push); /* the lookup takes a while, and all is resolved again after it */
        start_look(push);
        return;
    }
    if (job->code == FG_OK && push->n_undefined == 0) {
        commit(push);
        return;
    }
    if (job->code != FG_OK)
        push->item.err = job->err;
    release_service(push);
    ing_dict_unref(push->context->dicts, push->item.dict);
    push->item.dict = NULL;
    leave(push);
    finish(push);
}

/* Still on the worker, so that items of one service that define something reach the committer in
 * order. */
static void done(struct fg_job *job)
{
    struct ingester_push *push = fg_container(job, struct ingester_push, job);
    const bool foreground = !is_forwarded(push);

    end_job(push);
    if (foreground)
        fg_foreground_end();
}

static void on_looked(struct fg_job *job)
{
    struct ingester_push *push = fg_container(job, struct ingester_push, job);

    if (job->code == FG_OK) {
        begin_anew(push);
        return;
    }
    push->item.err = job->err;
    finish(push);
}

/* Returns the flow that the lookup belongs to. */
static unsigned looks_of(const struct ingester_push *push)
{
    return push->item.via.n == 0 ? ING_LOOKS_OF_AGENTS : ING_LOOKS_OF_SERVERS;
}

/* Makes a query for each profile. */
static enum fg_code ask_for_all(struct ingester_push *push, int64_t deadline_mono_ns,
                                struct fg_err *err)
{
    struct push_look *look = push->look;
    const struct ing_dedup_until until = {deadline_mono_ns,
                                          push->context->look_stops[looks_of(push)]};
    struct ing_dedup_query *queries = fg_calloc(look->n, sizeof *queries);
    struct fg_id *ids = fg_calloc(look->n, sizeof *ids);
    enum fg_code code;

    memset(look->found, 0, look->n * sizeof *look->found); /* by a try that failed */
    memset(look->unsure, 0, look->n * sizeof *look->unsure);
    for (uint32_t i = 0; i < look->n; i++) {
        ids[i] = look->keys[i].id;
        queries[i] = (struct ing_dedup_query){
            .tenant = fg_cstr(push->head->tenant),
            .shard = look->keys[i].chunk.group.shard,
            .window = look->keys[i].chunk.group.window,
            .ids = &ids[i],
            .n_ids = 1,
            .found = &look->found[i],
            .unsure = &look->unsure[i],
        };
    }
    code = ing_dedup_find(push->context->dedup, queries, look->n, 0, look->least, until,
                          &look->lookup.generation, err);
    /* Generation 0 has no segments, and so no late profiles. */
    look->lookup.generation = FG_MAX(look->lookup.generation, 1);
    free(queries);
    free(ids);
    return code;
}

/* Looks up until the bucket answers, for LOOK_TRIES_NS at most. */
static enum fg_code ask_until(struct ingester_push *push, int64_t deadline_mono_ns,
                              struct fg_err *err)
{
    int64_t last_ns = FG_MIN(
        deadline_mono_ns, fg_time_add(fg_mono_ns(fg_clock_real()), LOOK_TRIES_NS) - LOOK_PAUSE_NS);
    const struct timespec pause = {.tv_nsec = LOOK_PAUSE_NS};

    while (ask_for_all(push, deadline_mono_ns, err) != FG_OK) {
        if (err->code == FG_E_LIMIT || err->code == FG_E_CANCELED ||
            fg_mono_ns(fg_clock_real()) >= last_ns)
            return err->code;
        (void)nanosleep(&pause, NULL);
    }
    return FG_OK;
}

/* BACKGROUND worker. An unreachable bucket does not stop late profiles: they are taken without a
 * lookup, and compared later. The first push that waits in vain does so for the others. */
static enum fg_code run_look(struct fg_job *job, struct fg_err *err)
{
    struct ingester_push *push = fg_container(job, struct ingester_push, job);
    struct ing_push_context *context = push->context;
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    int64_t left_ns = fg_rpc_deadline_mono_ns(push->message->req) - now_ns;
    struct push_look *look = push->look;

    /* Whatever the result: the next run of the push must not look again. */
    look->ended = true;
    if (left_ns <= 0)
        return fg_fail(err, FG_E_DEADLINE, "the push waited too long for its duplicate check");
    if (now_ns < atomic_load(&context->no_look_before_mono_ns) &&
        ing_dedup_count_found(context->dedup) == atomic_load(&context->found_before)) {
        look->lookup = (struct ing_segments_lookup){.failed = true};
        return FG_OK;
    }
    /* Half of the time that is left: the other half is for the commit. */
    if (ask_until(push, fg_time_add(now_ns, left_ns / 2), err) == FG_OK) {
        atomic_store(&context->no_look_before_mono_ns, 0);
        return FG_OK;
    }
    if (err->code == FG_E_LIMIT)
        return err->code;
    if (atomic_load(&context->no_look_before_mono_ns) == 0)
        fg_log_warn("late profiles cannot be checked for duplicates in the bucket, accepting them "
                    "unchecked",
                    fg_ls("err", err->msg));
    atomic_store(&context->found_before, ing_dedup_count_found(context->dedup));
    atomic_store(&context->no_look_before_mono_ns,
                 fg_time_add(fg_mono_ns(fg_clock_real()), LOOK_AGAIN_NS));
    memset(look->found, 0, look->n * sizeof *look->found);
    look->lookup = (struct ing_segments_lookup){.failed = true};
    return FG_OK;
}

/* What agents send may fill the lane; what is forwarded leaves room for it. */
static bool submit_look(struct ingester_push *push)
{
    static const struct fg_flow forwarded = {.id = ING_LOOKS_OF_SERVERS, .running_max = 1};
    struct fg_work *work = push->context->work;

    if (looks_of(push) == ING_LOOKS_OF_AGENTS)
        return fg_work_submit(work, FG_LANE_BACKGROUND, &push->job);
    return fg_work_submit_flow(work, FG_LANE_BACKGROUND, &forwarded, &push->job) ==
           FG_SUBMIT_QUEUED;
}

static void start_look(struct ingester_push *push)
{
    push->job.run = run_look;
    push->job.done = on_looked;
    if (submit_look(push))
        return;
    refuse_busy(push, "ingester has too many late profiles to check for duplicates");
    finish(push);
}

/* ---- transport thread, or after a lookup ---- */

static void submit(struct ingester_push *push)
{
    const bool foreground = !is_forwarded(push);
    enum fg_lane lane = foreground ? FG_LANE_INGEST : FG_LANE_BULK;

    if (foreground)
        fg_foreground_begin(); /* until done() */
    push->job.run = decode_push;
    push->job.done = done;
    /* Tenant and service choose the worker: so the agents' pushes of a service stay in order, and
     * so do the forwarded ones, and hardly any waits for its lock. */
    if (fg_work_submit_pinned(push->context->work, lane, pin_of(push), &push->job))
        return;
    refuse_busy(push, "ingester is busy");
    finish(push);
    if (foreground)
        fg_foreground_end();
}

/* Each push gets its part of the payload. */
static enum fg_code divide(struct push_message *message, struct fg_err *err)
{
    /* All items are initialized before the first check, since an error frees all of them. */
    struct fg_slice rest = fg_rpc_payload(message->req);

    for (size_t i = 0; i < message->n_pushes; i++)
        ing_commit_item_init(&message->pushes[i].item);
    for (size_t i = 0; i < message->n_pushes; i++) {
        struct ingester_push *push = &message->pushes[i];

        push->message = message;
        push->context = message->context;
        push->head = message->head->items[i];
        if (push->head->tenant[0] == '\0' || push->head->service[0] == '\0')
            return fg_fail(err, FG_E_INVALID, "push without tenant or service");
        if (push->head->shard > UINT16_MAX)
            return fg_fail(err, FG_E_INVALID, "push for shard %u of 65536", push->head->shard);
        if (push->head->via.len > sizeof push->item.via.stores ||
            push->head->via.len % FG_ID_BYTES != 0)
            return fg_fail(err, FG_E_INVALID, "push by way of %zu bytes of ids",
                           push->head->via.len);
        if (push->head->bytes > rest.len)
            return fg_fail(err, FG_E_INVALID, "push claims %u bytes, but %zu are left",
                           push->head->bytes, rest.len);
        push->batch = fg_slice_sub(rest, 0, push->head->bytes);
        rest = fg_slice_sub(rest, push->head->bytes, rest.len);
    }
    return FG_OK;
}

void ing_push_handle(struct fg_rpc_request *req, void *context)
{
    struct fg_slice bytes = fg_rpc_head(req);
    Fg__Inner__PushHead *head = fg__inner__push_head__unpack(NULL, bytes.len, bytes.ptr);
    struct push_message *message;
    struct fg_err err;
    size_t n;

    if (head == NULL || head->n_items == 0 || head->n_items > ITEMS_MAX) {
        fg__inner__push_head__free_unpacked(head, NULL);
        (void)fg_fail(&err, FG_E_INVALID, "push without items, or with too many");
        fg_rpc_reply_error(req, &err);
        return;
    }
    n = head->n_items;
    message = fg_calloc(1, sizeof *message + n * sizeof message->pushes[0]);
    message->context = context;
    message->req = req;
    message->head = head;
    message->n_pushes = n;
    message->under_way = n;
    /* The whole message or none of it: a push for another store must not leave a part here. */
    if (divide(message, &err) != FG_OK ||
        ing_member_check_store(message->context->member,
                               fg_bytes(head->store.data, head->store.len), &err) != FG_OK) {
        fg_rpc_reply_error(req, &err);
        message_free(message);
        return;
    }
    /* The last push may free the message. */
    for (size_t i = 0; i < n; i++)
        submit(&message->pushes[i]);
}
