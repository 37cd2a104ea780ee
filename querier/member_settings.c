#include "querier/member_settings.h"

#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "common/program/presence.h"
#include "querier/query.h"

enum {
    REPLY_MAX_BYTES = FG_PRESENCE_CONTENT_MAX_BYTES,
    LIST_ARENA_BYTES = 4 * 1024 * 1024,
};

static const int64_t TIMEOUT_NS = 2 * FG_SECOND_NS; /* somebody waits in front of a page */

struct asked {
    struct fg_job job;
    const struct qry_member_settings *members;
    struct fg_http_request *req;
    /* A role, '/' and a name, each one byte longer than valid ones. */
    char name[FG_PRESENCE_ROLE_MAX_BYTES + FG_RING_TEXT_MAX_BYTES + 4];
    struct fg_buf body;
};

/* ---- of this querier, with the members ---- */

static void put_present(struct fg_json_writer *json, const struct fg_present *present)
{
    char name[sizeof present->name.role + sizeof present->name.name];

    (void)snprintf(name, sizeof name, "%s/%s", present->name.role, present->name.name);
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "name", name);
    fg_json_put_cstr(json, "role", present->name.role);
    fg_json_put_cstr(json, "version", present->name.version);
    fg_json_put_cstr(json, "revision", present->name.revision);
    fg_json_put_i64(json, "startedMs", present->name.started_ms);
    fg_json_put_i64(json, "seenMs", present->seen_ms);
    fg_json_end(json);
}

/* Without the bucket the ingesters remain, whose names the ring has. */
static void put_members(void *arg, struct fg_json_writer *json)
{
    const struct asked *asked = arg;
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(asked->members->querier->ring);
    fg_auto(fg_arena) *arena = fg_arena_create(LIST_ARENA_BYTES);
    int64_t deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS;
    struct fg_present *present;
    struct fg_err err = {.code = FG_OK};
    uint32_t n = 0;

    fg_json_begin_array(json, "members");
    for (uint32_t i = 0; view != NULL && i < view->ring.n_members; i++) {
        fg_json_begin_object(json, NULL);
        fg_json_put_text(json, "name", view->ring.members[i].name);
        fg_json_put_cstr(json, "role", "ingester");
        fg_json_end(json);
    }
    if (fg_presence_list(asked->members->bucket, deadline_mono_ns, arena, &present, &n, &err) ==
        FG_OK)
        for (uint32_t i = 0; i < n; i++)
            put_present(json, &present[i]);
    fg_json_end(json);
    if (err.code != FG_OK)
        fg_json_put_cstr(json, "membersMissing", err.msg);
}

/* ---- of a member ---- */

static enum fg_code find_address(const struct asked *asked,
                                 char address[FG_RING_ADDRESS_MAX_BYTES + 1], struct fg_err *err)
{
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(asked->members->querier->ring);

    for (uint32_t i = 0; view != NULL && i < view->ring.n_members; i++)
        if (fg_slice_is(view->ring.members[i].name, asked->name)) {
            (void)snprintf(address, FG_RING_ADDRESS_MAX_BYTES + 1, "%.*s",
                           FG_S(view->ring.members[i].address));
            return FG_OK;
        }
    return fg_fail(err, FG_E_NOT_FOUND, "the ring has no member %s", asked->name);
}

static enum fg_code call(struct asked *asked, struct fg_peer *peer, struct fg_err *err)
{
    struct fg_call call = {.method = FG_RPC_SETTINGS,
                           .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS,
                           .reply_max_bytes = REPLY_MAX_BYTES};
    enum fg_code code = fg_peer_call(peer, &call);

    if (code == FG_OK)
        fg_buf_put(&asked->body, call.reply_payload);
    else
        *err = call.err;
    fg_call_done(peer, &call);
    return code;
}

static enum fg_code ask_ingester(struct asked *asked, struct fg_err *err)
{
    struct querier *querier = asked->members->querier;
    char address[FG_RING_ADDRESS_MAX_BYTES + 1];
    struct fg_peer *peer;

    if (find_address(asked, address, err) != FG_OK)
        return err->code;
    if (fg_peers_get(querier->peers, address, &peer, err) == FG_OK) {
        enum fg_code code = call(asked, peer, err);

        fg_peers_put(querier->peers, peer);
        if (code == FG_OK)
            return FG_OK;
    }
    return fg_wrap(err, "ingester %s", asked->name);
}

static enum fg_code read_settings(struct fg_job *job, struct fg_err *err)
{
    struct asked *asked = fg_container(job, struct asked, job);
    struct fg_slice name = fg_cstr(asked->name);
    size_t slash = fg_slice_find(name, '/');

    if (name.len == 0) {
        fg_program_routes_write_settings(asked->members->routes, put_members, asked, &asked->body);
        return FG_OK;
    }
    if (slash == SIZE_MAX)
        return ask_ingester(asked, err);
    return fg_presence_read(asked->members->bucket, fg_slice_sub(name, 0, slash),
                            fg_slice_sub(name, slash + 1, name.len),
                            fg_mono_ns(fg_clock_real()) + TIMEOUT_NS, &asked->body, err);
}

static void done(struct fg_job *job)
{
    struct asked *asked = fg_container(job, struct asked, job);

    if (job->code == FG_OK)
        fg_http_respond(asked->req, 200, "application/json", &asked->body);
    else
        fg_http_respond_error(asked->req, &job->err);
    fg_buf_done(&asked->body);
    free(asked);
}

void qry_member_settings_answer(void *members, struct fg_slice member, struct fg_http_request *req)
{
    struct asked *asked = fg_new(struct asked);

    asked->members = members;
    asked->req = req;
    asked->job = (struct fg_job){.home = fg_http_loop(req), .run = read_settings, .done = done};
    fg_buf_init(&asked->body, REPLY_MAX_BYTES);
    (void)snprintf(asked->name, sizeof asked->name, "%.*s", FG_S(member));
    if (fg_work_submit(asked->members->querier->work, FG_LANE_QUERY, &asked->job))
        return;
    asked->job.code =
        fg_fail(&asked->job.err, FG_E_LIMIT, "too many requests are waiting, try again");
    done(&asked->job);
}
