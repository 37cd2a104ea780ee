/* A querier asks three places what tenants use. */
#include "common/model/tenant_id.h"
#include "querier/meeting.h"
#include "querier/querier.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/ring_bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PLACES = 3, USES_MAX = 1024 }; /* as an ingester takes at once */

/* Answers with what it was told, or keeps requests until the test ends. */
struct place {
    struct fg_rpc_server *server;
    atomic_bool hangs;
    atomic_uint n_kept;
    _Atomic(struct fg_rpc_request *) kept[2];
};

struct fixture {
    struct fg_bucket *bucket;
    struct fg_registry *registry;
    struct fg_ring_watch *ring;
    struct fg_peers *peers;
    struct querier *querier;
    struct place places[PLACES];
    unsigned heard;
    size_t heard_name_bytes;
    Fg__Inner__UseHead head;
    Fg__Inner__TenantUse uses[USES_MAX], *list[USES_MAX];
};

static void answer(struct fg_rpc_request *req, void *arg)
{
    struct place *place = arg;
    struct fg_slice bytes = fg_rpc_head(req);
    Fg__Inner__UseReply reply = FG__INNER__USE_REPLY__INIT;
    Fg__Inner__UseHead *head;
    uint8_t *packed;

    if (atomic_load(&place->hangs)) {
        atomic_store(&place->kept[atomic_fetch_add(&place->n_kept, 1)], req);
        return;
    }
    head = fg__inner__use_head__unpack(NULL, bytes.len, bytes.ptr);
    assert_non_null(head);
    reply.n_uses = head->n_uses;
    reply.uses = head->uses;
    packed = fg_malloc(fg__inner__use_reply__get_packed_size(&reply));
    fg_rpc_reply(req, fg_bytes(packed, fg__inner__use_reply__pack(&reply, packed)), FG_LIT(""));
    free(packed);
    fg__inner__use_head__free_unpacked(head, NULL);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_ring_view *view;
    struct fg_err err;

    f->bucket = fg_bucket_memory();
    f->registry = fg_registry_create();
    for (unsigned i = 0; i < PLACES; i++) {
        char name[8], url[64];

        (void)snprintf(name, sizeof name, "i%u", i);
        (void)snprintf(url, sizeof url, "inproc://querier-meeting-%u", i);
        f->places[i].server = fg_rpc_server_create(NULL, 8);
        fg_rpc_server_handle(f->places[i].server, FG_RPC_QUERY_USE, answer, &f->places[i]);
        assert_int_equal(fg_rpc_server_start(f->places[i].server, url, &err), FG_OK);
        ring_bucket_join(f->bucket, name, url, (struct fg_id){1 + i, 1}, PLACES);
    }
    f->ring = ring_bucket_watch(f->bucket, f->registry);
    assert_int_equal(fg_ring_watch_fresh(f->ring, INT64_MAX, &view, &err), FG_OK);
    fg_ring_view_unref(view);
    f->peers = fg_peers_create(&(struct fg_peers_config){.calls_max = 8, .peers_max = 8});
    f->querier = qry_create(&(struct qry_config){
        .ring = f->ring, .peers = f->peers, .registry = f->registry, .clock = fg_clock_real()});
    fg__inner__use_head__init(&f->head);
    f->head.uses = f->list;
    for (size_t i = 0; i < USES_MAX; i++) {
        f->list[i] = &f->uses[i];
        fg__inner__tenant_use__init(&f->uses[i]);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    (void)fg_fail(&err, FG_E_UNAVAILABLE, "the test is over");
    for (unsigned i = 0; i < PLACES; i++) {
        struct place *place = &f->places[i];

        atomic_store(&place->hangs, false);
        for (unsigned k = 0; k < FG_COUNT(place->kept); k++) {
            struct fg_rpc_request *kept = atomic_exchange(&place->kept[k], NULL);

            if (kept != NULL)
                fg_rpc_reply_error(kept, &err);
        }
    }
    qry_destroy(f->querier);
    fg_peers_destroy(f->peers);
    for (unsigned i = 0; i < PLACES; i++) {
        fg_rpc_server_stop(f->places[i].server);
        fg_rpc_server_destroy(f->places[i].server);
    }
    fg_ring_watch_stop(f->ring);
    fg_ring_watch_destroy(f->ring);
    fg_registry_destroy(f->registry);
    fg_bucket_close(f->bucket);
    free(f);
    return 0;
}

static void hear(void *arg, const Fg__Inner__UseReply *reply)
{
    struct fixture *f = arg;

    f->heard++;
    for (size_t i = 0; i < reply->n_uses; i++)
        f->heard_name_bytes += strlen(reply->uses[i]->tenant);
}

static enum fg_code ask(struct fixture *f, int64_t timeout_ns, struct fg_err *err)
{
    f->heard = 0;
    f->heard_name_bytes = 0;
    return qry_meeting_ask(f->querier, FG_RPC_QUERY_USE, &f->head, timeout_ns, hear, f, err);
}

/* The first one, which takes no time from the others. */
static void a_place_that_hangs_does_not_hide_the_others(void **state)
{
    struct fixture *f = *state;
    const struct fg_ring_member *members[FG_RING_REPLICAS_MAX];
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(f->ring);
    struct fg_err err;

    assert_int_equal(fg_ring_view_owners(view, 0, members), PLACES);
    f->head.n_uses = 1;
    assert_int_equal(ask(f, FG_MINUTE_NS, &err), FG_OK);
    assert_int_equal(f->heard, PLACES);
    atomic_store(&f->places[members[0]->name.ptr[1] - '0'].hangs, true);
    assert_int_equal(ask(f, 5 * FG_SECOND_NS, &err), FG_OK);
    assert_int_equal(f->heard, PLACES - 1);
    /* Nobody answers. */
    for (unsigned i = 0; i < PLACES; i++)
        atomic_store(&f->places[i].hangs, true);
    assert_int_equal(ask(f, FG_SECOND_NS / 10, &err), FG_E_UNAVAILABLE);
    assert_int_equal(f->heard, 0);
}

/* The largest message that an ingester takes, and its answer, which has all names again. */
static void answers_about_the_most_and_longest_names_arrive(void **state)
{
    struct fixture *f = *state;
    char name[FG_TENANT_MAX_BYTES + 1];
    struct fg_err err;

    memset(name, 'n', FG_TENANT_MAX_BYTES);
    name[FG_TENANT_MAX_BYTES] = '\0';
    for (size_t i = 0; i < USES_MAX; i++) {
        f->uses[i].tenant = name;
        f->uses[i].demand = 1e9;
        f->uses[i].processes = 1000;
        f->uses[i].period_start_s = INT64_C(1) << 40;
        f->uses[i].period_end_s = INT64_C(1) << 41;
        f->uses[i].period_bytes = UINT64_MAX;
    }
    f->head.n_uses = USES_MAX;
    if (ask(f, FG_MINUTE_NS, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(f->heard, PLACES);
    assert_int_equal(f->heard_name_bytes, PLACES * USES_MAX * FG_TENANT_MAX_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_place_that_hangs_does_not_hide_the_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(answers_about_the_most_and_longest_names_arrive, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
