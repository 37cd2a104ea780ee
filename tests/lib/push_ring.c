#include "tests/lib/push_ring.h"

#include "proto/inner.pb-c.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/ring_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TAKE_MAX_S = 30 };

static const char *const names[PUSH_RING_MEMBERS] = {"ann", "bob", "cat", "dan"};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static int64_t soon(void)
{
    return fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS;
}

/* ---- an ingester ---- */

void push_ring_answer(struct push_asked *asked, const struct push_answer *answer)
{
    Fg__Inner__PushReply reply = FG__INNER__PUSH_REPLY__INIT;
    Fg__Inner__PushResult results[PUSH_RING_REQUESTS], *pointers[PUSH_RING_REQUESTS];
    uint32_t lacks[] = {0};
    uint8_t bytes[8192];
    char text[] = "as the test says";

    for (size_t i = 0; i < asked->n_items; i++) {
        fg__inner__push_result__init(&results[i]);
        results[i].code = fg_code_grpc(answer->code);
        if (answer->code != FG_OK) {
            results[i].message = text;
        } else if (answer->lacks) {
            results[i].undefined = lacks;
            results[i].n_undefined = 1;
        } else {
            results[i].stored = !answer->duplicate;
            results[i].duplicates = answer->duplicate;
        }
        pointers[i] = &results[i];
    }
    reply.results = pointers;
    reply.n_results = asked->n_items;
    reply.start_id = 1;
    reply.revision = answer->newest;
    assert_true(fg__inner__push_reply__get_packed_size(&reply) <= sizeof bytes);
    fg_rpc_reply(fg_take(asked->req), fg_bytes(bytes, fg__inner__push_reply__pack(&reply, bytes)),
                 FG_LIT(""));
}

/* Hands over the batches of a message that is stored. */
static void store(const struct push_ring *ring, const Fg__Inner__PushHead *head,
                  struct fg_slice batches)
{
    for (size_t i = 0; i < head->n_items; i++) {
        ring->on_stored(ring->arg, fg_slice_sub(batches, 0, head->items[i]->bytes));
        batches = fg_slice_sub(batches, head->items[i]->bytes, batches.len);
    }
}

/* On a transport's thread: what is wrong here is found by asserts, not by cmocka. */
static void handle(struct fg_rpc_request *req, void *arg)
{
    static const struct push_answer well = {.code = FG_OK};
    struct push_ingester *ingester = arg;
    struct push_ring *ring = ingester->ring;
    struct fg_slice bytes = fg_rpc_head(req);
    Fg__Inner__PushHead *head = fg__inner__push_head__unpack(NULL, bytes.len, bytes.ptr);
    const struct push_answer *answer = NULL;
    struct push_asked *asked;

    fg_assert(head != NULL && head->store.len == FG_ID_BYTES);
    fg_assert(head->n_items > 0 && head->n_items <= PUSH_RING_REQUESTS);
    (void)pthread_mutex_lock(&ring->lock);
    fg_assert(ingester->n_asked < PUSH_RING_REQUESTS);
    asked = &ingester->asked[ingester->n_asked++];
    *asked = (struct push_asked){
        .req = req,
        .revision = head->revision,
        .n_items = head->n_items,
        .bytes = head->items[0]->bytes,
    };
    for (size_t i = 0; i < head->n_items; i++)
        asked->shards[i] = head->items[i]->shard;
    if (ingester->script != NULL)
        answer = ingester->next < ingester->n_script ? &ingester->script[ingester->next++] : &well;
    asked->scripted = asked->taken = answer != NULL;
    (void)pthread_cond_broadcast(&ring->came);
    (void)pthread_mutex_unlock(&ring->lock);
    if (ring->on_stored != NULL && answer != NULL && answer->code == FG_OK && !answer->lacks)
        store(ring, head, fg_rpc_payload(req));
    fg__inner__push_head__free_unpacked(head, NULL);
    if (answer != NULL)
        push_ring_answer(asked, answer);
}

static void start_ingester(struct push_ring *ring, unsigned member, bool dead)
{
    struct push_ingester *ingester = &ring->ingesters[member];
    struct fg_err err;

    ingester->ring = ring;
    (void)snprintf(ingester->name, sizeof ingester->name, "%s", names[member]);
    (void)snprintf(ingester->url, sizeof ingester->url, "inproc://push-%s-%p", names[member],
                   (void *)ring);
    if (dead)
        return;
    ingester->server = fg_rpc_server_create(NULL, PUSH_RING_REQUESTS);
    fg_rpc_server_handle(ingester->server, FG_RPC_PUSH, handle, ingester);
    must(fg_rpc_server_start(ingester->server, ingester->url, &err), &err);
}

void push_ring_script(struct push_ring *ring, unsigned member, const struct push_answer *answers,
                      unsigned n)
{
    (void)pthread_mutex_lock(&ring->lock);
    ring->ingesters[member].script = answers;
    ring->ingesters[member].n_script = n;
    ring->ingesters[member].next = 0;
    (void)pthread_mutex_unlock(&ring->lock);
}

static struct push_asked *find(struct push_ingester *ingester)
{
    for (unsigned i = 0; i < ingester->n_asked; i++)
        if (!ingester->asked[i].taken)
            return &ingester->asked[i];
    return NULL;
}

struct push_asked *push_ring_take(struct push_ring *ring, unsigned member)
{
    const struct timespec until = {.tv_sec = time(NULL) + TAKE_MAX_S};
    struct push_asked *asked;
    int waited = 0;

    (void)pthread_mutex_lock(&ring->lock);
    while ((asked = find(&ring->ingesters[member])) == NULL && waited == 0)
        waited = pthread_cond_timedwait(&ring->came, &ring->lock, &until);
    if (asked != NULL)
        asked->taken = true;
    (void)pthread_mutex_unlock(&ring->lock);
    if (asked == NULL)
        fail_msg("%s gets no push", names[member]);
    return asked;
}

void push_ring_answer_all(struct push_ring *ring)
{
    static const struct push_answer well = {.code = FG_OK};

    for (unsigned i = 0; i < PUSH_RING_MEMBERS; i++) {
        struct push_ingester *ingester = &ring->ingesters[i];
        unsigned n;

        push_ring_script(ring, i, &well, 1);
        n = push_ring_count(ring, i); /* the script answers later ones */
        for (unsigned k = 0; k < n; k++)
            if (!ingester->asked[k].scripted && ingester->asked[k].req != NULL)
                push_ring_answer(&ingester->asked[k], &well);
    }
}

void push_ring_say(struct push_ring *ring, unsigned member, struct push_answer answer)
{
    push_ring_answer(push_ring_take(ring, member), &answer);
}

unsigned push_ring_count(struct push_ring *ring, unsigned member)
{
    unsigned n;

    (void)pthread_mutex_lock(&ring->lock);
    n = ring->ingesters[member].n_asked;
    (void)pthread_mutex_unlock(&ring->lock);
    return n;
}

/* ---- the ring ---- */

static void join_at(struct push_ring *ring, unsigned member, uint64_t store, const char *url)
{
    struct fg_ring_change join = ring_make_join(names[member], "", store);
    struct fg_ring_view *view = NULL;
    struct fg_err err;

    join.address = fg_cstr(url);
    must(fg_ring_object_change(&ring->object, &join, &view, &err), &err);
    fg_ring_view_unref(view);
}

void push_ring_join(struct push_ring *ring, unsigned member, uint64_t store)
{
    join_at(ring, member, store, ring->ingesters[member].url);
}

void push_ring_move(struct push_ring *ring, unsigned member, unsigned to)
{
    struct fg_ring_view *view;
    struct fg_err err;

    join_at(ring, member, member + 1, ring->ingesters[to].url);
    must(fg_ring_watch_fresh(ring->watch, soon(), &view, &err), &err);
    fg_ring_view_unref(view);
}

void push_ring_until(struct push_ring *ring, uint64_t revision)
{
    struct fg_ring_view *view;
    struct fg_err err;

    must(fg_ring_watch_until(ring->watch, revision, soon(), &view, &err), &err);
    assert_int_equal(fg_ring_newest(&view->ring), revision);
    fg_ring_view_unref(view);
}

void push_ring_open(struct push_ring *ring, unsigned dead)
{
    struct fg_err err;

    *ring = (struct push_ring){.bucket = fg_bucket_memory()};
    (void)pthread_mutex_init(&ring->lock, NULL);
    (void)pthread_cond_init(&ring->came, NULL);
    ring->wave = fg_bucket_wave_create();
    ring->object = (struct fg_ring_object){.bucket = ring->bucket,
                                           .wave = ring->wave,
                                           .clock = fg_clock_real(),
                                           .timeout_ns = FG_MINUTE_NS};
    ring->registry = fg_registry_create();
    for (unsigned i = 0; i < PUSH_RING_MEMBERS; i++)
        start_ingester(ring, i, (dead >> i & 1) != 0);
    for (unsigned i = 0; i < 3; i++)
        push_ring_join(ring, i, i + 1);
    ring->peers = fg_peers_create(&(struct fg_peers_config){.calls_max = PUSH_RING_CALLS,
                                                            .peers_max = 2 * PUSH_RING_MEMBERS});
    must(fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = ring->bucket,
                                                             .clock = fg_clock_real(),
                                                             .registry = ring->registry,
                                                             .poll_ns = 24 * FG_HOUR_NS},
                              &ring->watch, &err),
         &err);
    must(fg_ring_watch_start(ring->watch, &err), &err);
    push_ring_until(ring, 3);
}

void push_ring_close(struct push_ring *ring)
{
    fg_peers_destroy(ring->peers);
    fg_ring_watch_destroy(ring->watch);
    for (unsigned i = 0; i < PUSH_RING_MEMBERS; i++)
        if (ring->ingesters[i].server != NULL) {
            fg_rpc_server_stop(ring->ingesters[i].server);
            fg_rpc_server_destroy(ring->ingesters[i].server);
        }
    fg_bucket_wave_destroy(ring->wave);
    fg_bucket_close(ring->bucket);
    fg_registry_destroy(ring->registry);
    (void)pthread_cond_destroy(&ring->came);
    (void)pthread_mutex_destroy(&ring->lock);
}
