#include "ingester/meeting.h"

#include "common/cluster/shares/meeting_core.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"
#include "ingester/keys.h"
#include "proto/inner.pb-c.h"

#include <pthread.h>
#include <stdatomic.h>

enum { USES_MAX = 1024 }; /* of one call */

static const int64_t SAVE_NS = 10 * FG_SECOND_NS; /* what a crash may lose of the counts */

/* Who meets. Apart, since their counts are of other limits, and each divides among its own kind. */
enum meeting_kind { DISTRIBUTORS, QUERIERS, MEETING_KINDS };

static const struct {
    struct fg_slice key; /* in the head's store */
    const char *setting; /* whose counts these are */
} kinds[MEETING_KINDS] = {
    [DISTRIBUTORS] = {{(const uint8_t *)"counts", 6}, "limits.ingestion_limit"},
    [QUERIERS] = {{(const uint8_t *)"query_counts", 12}, "limits.query_bytes_per_hour"},
};

struct meeting_room {
    struct fg_meeting *core; /* under lock */
    struct fg_buf value;     /* of a save; empty: nothing has changed */
    uint64_t saved;          /* changes that the store has; the ticker's */
};

struct ing_meeting {
    struct ing_meeting_config config;
    struct ing_committer *committer; /* NULL: not started */
    struct fg_ticker *ticker;

    pthread_mutex_t lock; /* of the rooms; held for one call */
    struct meeting_room rooms[MEETING_KINDS];

    /* A save: of the ticker until it is posted, then of the committer until it is not saving. */
    struct ing_committer_visit visit;
    atomic_bool saving;
};

/* ---- the store ---- */

static void load(struct ing_meeting *meeting, enum meeting_kind kind)
{
    struct meeting_room *room = &meeting->rooms[kind];
    struct fg_buf value;
    struct fg_err err;
    bool found = false;

    fg_buf_init(&value, FG_MEETING_MAX_BYTES);
    if (fg_store_get(meeting->config.store, HEAD_META, kinds[kind].key, &value, &found, &err) !=
            FG_OK ||
        (found &&
         fg_meeting_decode(room->core, fg_buf_slice(&value),
                           fg_wall_ns(meeting->config.clock) / FG_SECOND_NS, &err) != FG_OK))
        /* Profiles are worth more than limits: the start goes on. */
        fg_log_error("counts of a limit cannot be read and start from zero",
                     fg_ls("limit", kinds[kind].setting), fg_ls("err", err.msg));
    fg_buf_done(&value);
    room->saved = fg_meeting_changes(room->core);
}

static void on_visit(struct ing_committer_visit *visit)
{
    struct ing_meeting *meeting = fg_container(visit, struct ing_meeting, visit);
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    for (unsigned kind = 0; kind < MEETING_KINDS; kind++)
        if (meeting->rooms[kind].value.len > 0)
            fg_store_put(&batch, HEAD_META, kinds[kind].key,
                         fg_buf_slice(&meeting->rooms[kind].value));
    /* A failure is the head's, which has its own condition; the next save has all of it again. */
    if (ing_head_writer_write(meeting->config.writer, &batch, NULL, &err) != FG_OK)
        fg_log_warn("counts of limits could not be saved, will retry", fg_ls("err", err.msg));
    fg_store_batch_done(&batch);
    atomic_store(&meeting->saving, false);
}

/* Returns whether there is something to save. */
static bool encode(struct ing_meeting *meeting, enum meeting_kind kind)
{
    struct meeting_room *room = &meeting->rooms[kind];
    int64_t now_s = fg_wall_ns(meeting->config.clock) / FG_SECOND_NS;
    enum fg_code code = FG_OK;
    struct fg_err err;
    uint64_t changes;

    fg_buf_clear(&room->value);
    (void)pthread_mutex_lock(&meeting->lock);
    changes = fg_meeting_changes(room->core);
    if (changes != room->saved)
        code = fg_meeting_encode(room->core, now_s, &room->value, &err);
    (void)pthread_mutex_unlock(&meeting->lock);
    if (code == FG_OK) {
        room->saved = changes;
    } else {
        fg_log_warn("counts of a limit are not saved", fg_ls("limit", kinds[kind].setting),
                    fg_ls("err", err.msg));
        fg_buf_clear(&room->value);
    }
    return room->value.len > 0;
}

static void save(struct ing_meeting *meeting)
{
    bool any = false;

    /* While the store fails, the writer heals it for pushes; nothing of it is urgent here. */
    if (ing_head_writer_is_failing(meeting->config.writer) ||
        atomic_exchange(&meeting->saving, true))
        return;
    for (unsigned kind = 0; kind < MEETING_KINDS; kind++)
        any |= encode(meeting, kind);
    if (any)
        ing_committer_post(meeting->committer, &meeting->visit);
    else
        atomic_store(&meeting->saving, false);
}

static void tick(void *arg)
{
    save(arg);
}

/* ---- calls ---- */

/* Turns what was said into what all say, in place. */
static uint32_t meet(struct ing_meeting *meeting, struct fg_meeting *core, Fg__Inner__UseHead *head,
                     int64_t now_s)
{
    int64_t now_mono_ns = fg_mono_ns(meeting->config.clock);
    uint32_t processes;

    (void)pthread_mutex_lock(&meeting->lock);
    fg_meeting_join(core, head->process, now_mono_ns);
    for (size_t i = 0; i < head->n_uses; i++) {
        Fg__Inner__TenantUse *said = head->uses[i];
        struct fg_meeting_use use = {
            .tenant = fg_cstr(said->tenant),
            .demand = said->demand,
            .span = {said->period_start_s, said->period_end_s},
            .bytes = said->period_bytes,
        };

        fg_meeting_hear(core, head->process, &use, now_mono_ns, now_s);
        use = fg_meeting_sum(core, use.tenant, &use.span, now_mono_ns);
        said->demand = use.demand;
        said->processes = use.processes;
        said->period_start_s = use.span.start_s;
        said->period_end_s = use.span.end_s;
        said->period_bytes = use.bytes;
    }
    processes = fg_meeting_processes(core, now_mono_ns);
    (void)pthread_mutex_unlock(&meeting->lock);
    return processes;
}

static void reply_to(struct fg_rpc_request *req, uint32_t processes, Fg__Inner__UseHead *head,
                     int64_t now_s)
{
    Fg__Inner__UseReply reply = FG__INNER__USE_REPLY__INIT;
    uint8_t *bytes;

    reply.processes = processes;
    reply.now_s = now_s;
    reply.n_uses = head->n_uses;
    reply.uses = head->uses;
    /* One byte more, since a message of zeros has none. */
    bytes = fg_malloc(fg__inner__use_reply__get_packed_size(&reply) + 1);
    fg_rpc_reply(req, fg_bytes(bytes, fg__inner__use_reply__pack(&reply, bytes)), FG_LIT(""));
    free(bytes);
}

static void handle(struct ing_meeting *meeting, enum meeting_kind kind, struct fg_rpc_request *req)
{
    struct fg_slice bytes = fg_rpc_head(req);
    Fg__Inner__UseHead *head = fg__inner__use_head__unpack(NULL, bytes.len, bytes.ptr);
    struct fg_err err;

    if (head == NULL || head->n_uses > USES_MAX) {
        (void)fg_fail(&err, FG_E_INVALID, "uses of tenants cannot be read");
        fg_rpc_reply_error(req, &err);
    } else {
        int64_t now_s = fg_wall_ns(meeting->config.clock) / FG_SECOND_NS;
        uint32_t processes = meet(meeting, meeting->rooms[kind].core, head, now_s);

        /* Others do not need the series. */
        for (size_t i = 0; kind == DISTRIBUTORS && head->process == 0 && i < head->n_uses; i++)
            head->uses[i]->series =
                ing_catalog_series_of(meeting->config.catalog, fg_cstr(head->uses[i]->tenant));
        reply_to(req, processes, head, now_s);
    }
    if (head != NULL)
        fg__inner__use_head__free_unpacked(head, NULL);
}

void ing_meeting_handle(struct fg_rpc_request *req, void *meeting)
{
    handle(meeting, DISTRIBUTORS, req);
}

void ing_meeting_handle_queries(struct fg_rpc_request *req, void *meeting)
{
    handle(meeting, QUERIERS, req);
}

/* ---- life ---- */

struct ing_meeting *ing_meeting_create(const struct ing_meeting_config *config)
{
    struct ing_meeting *meeting = fg_new(struct ing_meeting);

    meeting->config = *config;
    meeting->visit.run = on_visit;
    (void)pthread_mutex_init(&meeting->lock, NULL);
    for (unsigned kind = 0; kind < MEETING_KINDS; kind++) {
        meeting->rooms[kind].core = fg_meeting_create();
        fg_buf_init(&meeting->rooms[kind].value, FG_MEETING_MAX_BYTES);
        load(meeting, kind);
    }
    return meeting;
}

enum fg_code ing_meeting_start(struct ing_meeting *meeting, struct ing_committer *committer,
                               struct fg_err *err)
{
    meeting->committer = committer;
    return fg_ticker_create(&(struct fg_ticker_config){"meeting", SAVE_NS, tick, meeting},
                            &meeting->ticker, err);
}

void ing_meeting_stop(struct ing_meeting *meeting)
{
    if (meeting == NULL || meeting->ticker == NULL)
        return;
    fg_ticker_destroy(fg_take(meeting->ticker));
    save(meeting);
}

void ing_meeting_destroy(struct ing_meeting *meeting)
{
    if (meeting == NULL)
        return;
    for (unsigned kind = 0; kind < MEETING_KINDS; kind++) {
        fg_meeting_destroy(meeting->rooms[kind].core);
        fg_buf_done(&meeting->rooms[kind].value);
    }
    (void)pthread_mutex_destroy(&meeting->lock);
    free(meeting);
}
