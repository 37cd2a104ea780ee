#include "tests/unit/distributor/scrape/room.h"

#include "common/model/batch.h"
#include "proto/inner.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

FG_METRICS_TABLE(metric_defs, SCRAPE_METRICS)

/* ---- the ingester ---- */

static int64_t *sum_of(struct room_ingester *ingester, const char *type)
{
    for (size_t i = 0; i < ingester->n_sums; i++)
        if (strcmp(ingester->sums[i].type, type) == 0)
            return &ingester->sums[i].sum;
    fg_assert(ingester->n_sums < ROOM_SUMS_MAX);
    (void)snprintf(ingester->sums[ingester->n_sums].type, sizeof ingester->sums[0].type, "%s",
                   type);
    return &ingester->sums[ingester->n_sums++].sum;
}

static bool is_known(struct room_ingester *ingester, struct fg_id id)
{
    for (size_t i = 0; i < ingester->n_ids; i++)
        if (fg_id_eq(ingester->ids[i], id))
            return true;
    fg_assert(ingester->n_ids < ROOM_IDS_MAX);
    ingester->ids[ingester->n_ids++] = id;
    return false;
}

static void note_labels(struct room_ingester *ingester, const struct fg_profile *profile)
{
    struct fg_buf text;

    fg_buf_init(&text, sizeof ingester->labels - 1);
    fg_labels_write(&profile->labels, &text);
    memcpy(ingester->labels, text.ptr, text.len);
    ingester->labels[text.len] = '\0';
    ingester->duration_ns = profile->duration_ns;
    fg_buf_done(&text);
}

static void store_profile(struct room_ingester *ingester, const struct fg_wire_batch *batch,
                          const struct fg_profile *profile)
{
    struct fg_slice name = fg_labels_get(&profile->labels, FG_LABEL_NAME);

    if (is_known(ingester, profile->id))
        return;
    note_labels(ingester, profile);
    for (uint32_t t = 0; t < batch->n_types; t++) {
        char type[64];
        int64_t *sum;

        (void)snprintf(type, sizeof type, "%.*s:%.*s", FG_S(name), FG_S(batch->types[t].type));
        sum = sum_of(ingester, type);
        for (uint32_t i = 0; i < profile->n_samples; i++)
            *sum += profile->values[(size_t)t * profile->n_samples + i];
    }
}

/* Returns the number of stacks. */
static uint32_t read_batch(struct room_ingester *ingester, struct fg_slice bytes, bool store)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_wire_batch batch;
    struct fg_err err;
    uint32_t n_stacks;

    fg_assert(fg_batch_decode(bytes, arena, &batch, &err) == FG_OK);
    n_stacks = batch.n_stacks;
    for (uint32_t i = 0; store && i < batch.n_profiles; i++)
        store_profile(ingester, &batch, &batch.profiles[i]);
    fg_wire_batch_done(&batch);
    fg_arena_destroy(arena);
    return n_stacks;
}

/* Writes the answer to a push of one item: stored, refused, or with stacks that the ingester lacks.
 */
static void answer(struct fg_call *call, unsigned code, uint32_t n_lacking)
{
    Fg__Inner__PushReply reply;
    Fg__Inner__PushResult result, *results = &result;
    uint32_t undefined[256];
    char refused[] = "refused by the test";
    uint8_t *bytes;

    fg__inner__push_reply__init(&reply);
    fg__inner__push_result__init(&result);
    for (uint32_t i = 0; i < FG_MIN(n_lacking, (uint32_t)FG_COUNT(undefined)); i++)
        undefined[result.n_undefined++] = i;
    result.undefined = undefined;
    result.stored = 1;
    result.code = code;
    if (code != 0)
        result.message = refused;
    reply.start_id = 1;
    reply.results = &results;
    reply.n_results = 1;
    bytes = fg_malloc(fg__inner__push_reply__get_packed_size(&reply));
    call->reply_head = fg_bytes(bytes, fg__inner__push_reply__pack(&reply, bytes));
    call->code = FG_OK;
}

static bool take_one(unsigned *n)
{
    if (*n == 0)
        return false;
    (*n)--;
    return true;
}

static void decide(struct room_ingester *ingester, struct fg_call *call)
{
    bool lost = take_one(&ingester->lost);
    bool stored_and_lost = !lost && take_one(&ingester->stored_and_lost);
    bool refused = !lost && !stored_and_lost && take_one(&ingester->refused);
    bool lacking = !lost && !stored_and_lost && !refused && take_one(&ingester->lacking);
    uint32_t n_stacks;

    ingester->n_pushes++;
    n_stacks = read_batch(ingester, call->payload, !lost && !refused && !lacking);
    if (lost || stored_and_lost)
        call->code = fg_fail(&call->err, FG_E_UNAVAILABLE, "the line is dead");
    else
        answer(call, refused ? fg_code_grpc(FG_E_LIMIT) : 0, lacking ? n_stacks : 0);
}

static void take_push(struct room_ingester *ingester, struct fg_call *call)
{
    Fg__Inner__PushHead *head = fg__inner__push_head__unpack(NULL, call->head.len, call->head.ptr);

    fg_assert(head != NULL && head->n_items == 1); /* see room_create() */
    fg__inner__push_head__free_unpacked(head, NULL);
    (void)pthread_mutex_lock(&ingester->lock);
    decide(ingester, call);
    (void)pthread_mutex_unlock(&ingester->lock);
}

static void peer_send(struct fg_peer *peer, struct fg_call *call)
{
    if (call->method == FG_RPC_PUSH)
        take_push(fg_container(peer, struct room_ingester, peer), call);
    else /* USE, as ingesters of before */
        call->code = fg_fail(&call->err, FG_E_UNIMPLEMENTED, "unknown method");
    call->done(call);
}

static void peer_release(struct fg_call *call)
{
    free((void *)(uintptr_t)call->reply_head.ptr);
    call->reply_head = fg_bytes(NULL, 0);
}

int64_t room_sum(struct room *room, const char *type)
{
    int64_t sum;

    (void)pthread_mutex_lock(&room->ingester.lock);
    sum = *sum_of(&room->ingester, type);
    (void)pthread_mutex_unlock(&room->ingester.lock);
    return sum;
}

/* ---- life ---- */

static void on_gone(struct dist_scrape_context *context)
{
    (void)sem_post(&fg_container(context, struct room, context)->gone);
}

static void fill_context(struct room *room, unsigned running_max)
{
    struct dist_scrape_context *context = &room->context;

    *context = (struct dist_scrape_context){
        .distributor = room->distributor,
        .loop = room->loop,
        .clock = fg_clock_real(),
        .metrics = room->metrics,
        .tenant = FG_LIT("anonymous"),
        .connect_timeout_ns = FG_SECOND_NS,
        .pause_ns = FG_MS_NS,
        .body_max_bytes = 1 << 20,
        .on_gone = on_gone,
    };
    fg_budget_init(&context->deltas, 1 << 20);
    dist_scrape_slots_init(&context->slots, running_max);
}

struct start {
    struct room *room;
    int64_t interval_ns;
    unsigned running_max;
};

static void start_on_loop(void *arg)
{
    const struct start *start = arg;
    struct room *room = start->room;

    room->context.client = fg_client_create(&(struct fg_client_config){
        .loop = room->loop, .running_max = start->running_max, .budget = &room->bodies});
    room->targets = dist_scrape_pool_create(&(struct dist_scrape_pool_config){
        .context = &room->context,
        .target = {&room->kinds, NULL, start->interval_ns, 5 * FG_SECOND_NS},
        .share_count = 1,
        .targets_max = 100,
    });
}

/* Returns the default settings. */
static void load_settings(struct room *room, struct fg_conf_section sections[2])
{
    struct fg_conf conf = {.sections = sections, .n_sections = 2};
    struct fg_err err;

    sections[0] =
        (struct fg_conf_section){"limits", fg_limit_fields, fg_limit_n_fields, &room->limits};
    sections[1] =
        (struct fg_conf_section){"distributor", dist_fields, dist_n_fields, &room->settings};
    assert_int_equal(fg_conf_load(&conf, NULL, NULL, NULL, 0, &err), FG_OK);
}

static void on_stored(void *arg, struct fg_slice batch)
{
    struct room_ingester *ingester = &((struct room *)arg)->ingester;

    (void)pthread_mutex_lock(&ingester->lock);
    ingester->n_pushes++;
    (void)read_batch(ingester, batch, true);
    (void)pthread_mutex_unlock(&ingester->lock);
}

/* ring: NULL: one ingester. */
static void create_distributor(struct room *room, struct push_ring *ring)
{
    static const struct fg_peer_ops ops = {peer_send, peer_release, NULL};
    struct fg_conf_section sections[2];
    struct fg_err err;

    load_settings(room, sections);
    room->ingester.peer.ops = &ops;
    (void)pthread_mutex_init(&room->ingester.lock, NULL);
    assert_int_equal(fg_tenants_create(&(struct fg_tenants_config){.defaults = &room->limits,
                                                                   .file = "",
                                                                   .registry = room->registry},
                                       &room->tenants, &err),
                     FG_OK);
    if (ring != NULL) {
        ring->on_stored = on_stored;
        ring->arg = room;
    }
    room->distributor = dist_create(&(struct dist_config){
        .settings = &room->settings,
        .ingester = ring == NULL ? &room->ingester.peer : NULL,
        .watch = ring == NULL ? NULL : ring->watch,
        .peers = ring == NULL ? NULL : ring->peers,
        .work = room->work,
        .tenants = room->tenants,
        .registry = room->registry,
        .clock = fg_clock_real(),
    });
    fg_conf_done(&(struct fg_conf){.sections = sections,
                                   .n_sections = 2}); /* for texts; neither section has any */
}

struct room *room_create_in_ring(int64_t interval_ns, unsigned running_max, struct push_ring *ring)
{
    /* With one worker each message has one profile, because the ingester answers at once. */
    static const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = 1, .queue_max = 64}};
    struct room *room = fg_new(struct room);
    struct start start = {room, interval_ns, running_max};
    struct fg_err err;

    room->registry = fg_registry_create();
    room->metrics = fg_metrics_register(room->registry, metric_defs, FG_COUNT(metric_defs));
    fg_budget_init(&room->bodies, 8 << 20);
    assert_int_equal(fg_work_create("test", lanes, &room->work, &err), FG_OK);
    assert_int_equal(dist_profile_kinds_init(&room->kinds, FG_LIT(""), "kinds", &err), FG_OK);
    create_distributor(room, ring);
    room->loop = fg_loop_create("scrape");
    assert_int_equal(fg_loop_start(room->loop, &err), FG_OK);
    assert_int_equal(sem_init(&room->gone, 0, 0), 0);
    fill_context(room, running_max);
    fg_loop_call(room->loop, start_on_loop, &start);
    return room;
}

struct room *room_create(int64_t interval_ns, unsigned running_max)
{
    return room_create_in_ring(interval_ns, running_max, NULL);
}

static void end_on_loop(void *arg)
{
    struct room *room = arg;

    /* The callback may have reported earlier moments without scrapes. */
    while (sem_trywait(&room->gone) == 0)
        continue;
    if (room->context.n_scrapes == 0)
        (void)sem_post(&room->gone);
    dist_scrape_pool_end(room->targets);
}

static void close_on_loop(void *arg)
{
    fg_client_close(((struct room *)arg)->context.client);
}

void room_destroy(struct room *room)
{
    fg_loop_call(room->loop, end_on_loop, room);
    while (sem_wait(&room->gone) != 0)
        continue;
    fg_loop_call(room->loop, close_on_loop, room);
    fg_work_destroy(room->work);
    fg_loop_stop(room->loop);
    dist_stop(room->distributor);
    dist_destroy(room->distributor);
    fg_client_destroy(room->context.client);
    dist_scrape_pool_destroy(room->targets);
    fg_loop_destroy(room->loop);
    assert_int_equal(fg_budget_used(&room->bodies), 0);
    assert_int_equal(fg_budget_used(&room->context.deltas), 0);
    dist_profile_kinds_done(&room->kinds);
    fg_tenants_destroy(room->tenants);
    fg_registry_destroy(room->registry);
    (void)pthread_mutex_destroy(&room->ingester.lock);
    (void)sem_destroy(&room->gone);
    free(room);
}

/* ---- targets ---- */

struct update {
    struct room *room;
    const char *group;
    const struct dist_discovered *discovered;
};

static void update_on_loop(void *arg)
{
    const struct update *update = arg;

    dist_scrape_pool_update(update->room->targets, update->group, update->discovered, true);
}

void room_update(struct room *room, const char *group, const char *yaml)
{
    struct dist_discovered *discovered = dist_discovered_create();
    struct fg_err err;
    json_t *doc;

    assert_int_equal(fg_document_from_yaml(fg_cstr(yaml), group, &doc, &err), FG_OK);
    assert_int_equal(dist_discovered_read_groups(discovered, doc, group, &err), FG_OK);
    json_decref(doc);
    fg_loop_call(room->loop, update_on_loop, &(struct update){room, group, discovered});
    dist_discovered_destroy(discovered);
}

struct writing {
    struct room *room;
    struct fg_buf *out;
};

static void write_target(const struct dist_scrape_pool_view *view, void *arg)
{
    struct fg_buf *out = arg;

    fg_buf_printf(out, "%s%s", out->len > 0 ? " " : "", view->target->address);
    fg_labels_write(&view->target->labels, out);
}

static void write_dropped(const struct dist_scrape_pool_dropped *dropped, void *arg)
{
    struct fg_buf *out = arg;

    fg_buf_printf(out, "%sdropped: %s", out->len > 0 ? " " : "", dropped->why);
}

static void write_on_loop(void *arg)
{
    const struct writing *writing = arg;

    dist_scrape_pool_each(writing->room->targets, write_target, writing->out);
    dist_scrape_pool_each_dropped(writing->room->targets, write_dropped, writing->out);
}

void room_write_targets(struct room *room, struct fg_buf *out)
{
    fg_loop_call(room->loop, write_on_loop, &(struct writing){room, out});
}

void room_wait_targets(struct room *room, const char *want)
{
    bool same = false;

    while (!same) {
        struct fg_buf got;

        fg_buf_init(&got, 1 << 20);
        room_write_targets(room, &got);
        same = fg_slice_is(fg_buf_slice(&got), want);
        fg_buf_done(&got);
        if (!same)
            (void)usleep(1000);
    }
}

void room_wait_metric(struct room *room, unsigned metric, uint64_t least)
{
    while (fg_metric_get(room->metrics, metric) < least)
        (void)usleep(1000);
}
