#include "querier/member_settings.h"

#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "querier/query.h"

enum { REPLY_MAX_BYTES = 1024 * 1024 }; /* a few hundred settings with a sentence each */

static const int64_t TIMEOUT_NS = 2 * FG_SECOND_NS;

struct asked {
    struct fg_job job;
    struct querier *querier;
    struct fg_http_request *req;
    char name[FG_RING_TEXT_MAX_BYTES + 2]; /* one byte more than a member's */
    struct fg_buf body;
};

void qry_put_members(void *arg, struct fg_json_writer *json)
{
    const struct querier *querier = arg;
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(querier->ring);

    fg_json_begin_array(json, "members");
    for (uint32_t i = 0; view != NULL && i < view->ring.n_members; i++)
        fg_json_put_text(json, NULL, view->ring.members[i].name);
    fg_json_end(json);
}

static enum fg_code find_address(const struct asked *asked,
                                 char address[FG_RING_ADDRESS_MAX_BYTES + 1], struct fg_err *err)
{
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(asked->querier->ring);

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

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct asked *asked = fg_container(job, struct asked, job);
    char address[FG_RING_ADDRESS_MAX_BYTES + 1];
    struct fg_peer *peer;

    if (find_address(asked, address, err) != FG_OK)
        return err->code;
    if (fg_peers_get(asked->querier->peers, address, &peer, err) == FG_OK) {
        enum fg_code code = call(asked, peer, err);

        fg_peers_put(asked->querier->peers, peer);
        if (code == FG_OK)
            return FG_OK;
    }
    return fg_wrap(err, "ingester %s", asked->name);
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

void qry_member_settings(void *querier, struct fg_slice member, struct fg_http_request *req)
{
    struct asked *asked = fg_new(struct asked);

    asked->querier = querier;
    asked->req = req;
    asked->job = (struct fg_job){.home = fg_http_loop(req), .run = run, .done = done};
    fg_buf_init(&asked->body, REPLY_MAX_BYTES);
    (void)snprintf(asked->name, sizeof asked->name, "%.*s", FG_S(member));
    if (fg_work_submit(asked->querier->work, FG_LANE_QUERY, &asked->job))
        return;
    asked->job.code =
        fg_fail(&asked->job.err, FG_E_LIMIT, "too many requests are waiting, try again");
    done(&asked->job);
}
