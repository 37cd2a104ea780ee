/* Tests what another server forwards, with a whole distributor behind a real HTTP server and an
 * ingester that knows which stacks and profiles it has. */
#include "common/runtime/foreground.h"
#include "distributor/distributor.h"
#include "proto/builder/builder.h"
#include "proto/forward.h"
#include "proto/forward_v1.pb-c.h"
#include "proto/inner.pb-c.h"
#include "tests/lib/served.h"
#include "tests/lib/tenants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <zstd.h>

#include <cmocka.h>

enum { IDS_MAX = 64, STACKS_MAX = 8, ARENA_BYTES = 1 << 20 };

#define NOW_NS  (INT64_C(1700003600) * FG_SECOND_NS)
#define OWN     ((struct fg_id){7, 7})
#define SENDER  ((struct fg_id){9, 9})
#define REQUEST "POST /forward.v1.ForwardService/Push HTTP/1.1\r\nContent-Type: application/proto"

/* An ingester in memory. */
struct memory {
    struct fg_peer peer;
    struct fg_id stacks[IDS_MAX], profiles[IDS_MAX];
    size_t n_stacks, n_profiles;
    uint8_t via[FG_FORWARD_VIA_MAX * FG_ID_BYTES]; /* of the last push */
    size_t via_bytes;
    struct fg_profile_size size; /* of the last profile */
    bool away;
    bool agent_comes;                     /* with the next push, and stays until the test ends it */
    const Fg__Inner__PushResult *refusal; /* of each batch; NULL: none is refused */
    const char *lacking; /* service whose stacks it lacks in any case; NULL: none */
};

struct fixture {
    struct served served;
    struct dist_settings settings;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct distributor *distributor;
    struct fg_clock_manual clock;
    struct memory memory;

    struct fg_arena *arena; /* of the batches that are sent */
    struct fg_forward_message message;
    bool whole_ids; /* of the batches that are put into it */
    struct fg_buf body;
    Forward__V1__PushResponse *response;
};

/* --- the ingester --- */

static bool has(const struct fg_id *ids, size_t n, struct fg_id id)
{
    for (size_t i = 0; i < n; i++)
        if (fg_id_eq(ids[i], id))
            return true;
    return false;
}

static void add(struct fg_id *ids, size_t *n, struct fg_id id)
{
    fg_assert(*n < IDS_MAX);
    ids[(*n)++] = id;
}

static uint32_t take_stacks(struct memory *memory, const struct fg_wire_batch *batch)
{
    uint32_t n_undefined = 0;

    for (uint32_t i = 0; i < batch->n_stacks; i++)
        n_undefined += batch->stacks[i].locations == NULL &&
                       !has(memory->stacks, memory->n_stacks, batch->stacks[i].id);
    for (uint32_t i = 0; n_undefined == 0 && i < batch->n_stacks; i++)
        if (!has(memory->stacks, memory->n_stacks, batch->stacks[i].id))
            add(memory->stacks, &memory->n_stacks, batch->stacks[i].id);
    return n_undefined;
}

static void take_batch(struct memory *memory, const Fg__Inner__PushItem *item,
                       struct fg_slice bytes, Fg__Inner__PushResult *result)
{
    static uint32_t undefined[1];
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_wire_batch batch;
    struct fg_err err;

    fg_assert(fg_batch_decode(bytes, arena, &batch, &err) == FG_OK);
    fg_assert(fg_wire_batch_get_sizes(&batch, item->sizes, item->n_sizes, &err) == FG_OK);
    undefined[0] = memory->lacking != NULL && strcmp(item->service, memory->lacking) == 0
                       ? 1
                       : take_stacks(memory, &batch);
    if (undefined[0] > 0) {
        result->undefined = undefined;
        result->n_undefined = 1;
    }
    for (uint32_t i = 0; result->n_undefined == 0 && i < batch.n_profiles; i++) {
        memory->size = batch.profiles[i].size;
        if (has(memory->profiles, memory->n_profiles, batch.profiles[i].id)) {
            result->duplicates++;
            continue;
        }
        add(memory->profiles, &memory->n_profiles, batch.profiles[i].id);
        result->stored++;
    }
    fg_wire_batch_done(&batch);
    fg_arena_destroy(arena);
}

static void take_push(struct memory *memory, struct fg_call *call)
{
    Fg__Inner__PushHead *head = fg__inner__push_head__unpack(NULL, call->head.len, call->head.ptr);
    Fg__Inner__PushReply reply = FG__INNER__PUSH_REPLY__INIT;
    Fg__Inner__PushResult results[STACKS_MAX], *pointers[STACKS_MAX];
    struct fg_slice rest = call->payload;
    uint8_t *bytes;

    fg_assert(head != NULL && head->n_items <= STACKS_MAX);
    reply.start_id = 1;
    reply.n_results = head->n_items;
    reply.results = pointers;
    for (size_t i = 0; i < reply.n_results; i++) {
        const Fg__Inner__PushItem *item = head->items[i];

        fg__inner__push_result__init(&results[i]);
        pointers[i] = &results[i];
        fg_assert(item->via.len <= sizeof memory->via);
        memory->via_bytes = item->via.len;
        if (item->via.len > 0)
            memcpy(memory->via, item->via.data, item->via.len);
        if (memory->refusal != NULL)
            results[i] = *memory->refusal;
        else
            take_batch(memory, item, fg_slice_sub(rest, 0, item->bytes), &results[i]);
        rest = fg_slice_sub(rest, item->bytes, rest.len);
    }
    bytes = fg_malloc(fg__inner__push_reply__get_packed_size(&reply));
    call->reply_head = fg_bytes(bytes, fg__inner__push_reply__pack(&reply, bytes));
    call->code = FG_OK;
    fg__inner__push_head__free_unpacked(head, NULL);
}

static void peer_send(struct fg_peer *peer, struct fg_call *call)
{
    struct memory *memory = fg_container(peer, struct memory, peer);

    if (call->method == FG_RPC_PUSH && memory->agent_comes) {
        memory->agent_comes = false;
        fg_foreground_begin();
    }
    if (call->method != FG_RPC_PUSH)
        call->code = fg_fail(&call->err, FG_E_UNIMPLEMENTED, "unknown method");
    else if (memory->away)
        call->code = fg_fail(&call->err, FG_E_LIMIT, "the ingester's queue is full");
    else
        take_push(memory, call);
    call->done(call);
}

static void peer_release(struct fg_call *call)
{
    free((void *)(uintptr_t)call->reply_head.ptr);
}

static const struct fg_peer_ops peer_ops = {peer_send, peer_release, NULL};

/* --- fixture --- */

static int setup_with(void **state, void (*change)(struct fg_limit_settings *limits))
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = 1, .queue_max = 64},
        [FG_LANE_BULK] = {.threads = 1, .queue_max = 64},
    };
    struct fixture *f = fg_new(struct fixture);
    struct fg_conf_section section = {"distributor", dist_fields, dist_n_fields, &f->settings};
    struct fg_err err;

    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
    fg_clock_manual_init(&f->clock, NOW_NS);
    f->memory.peer.ops = &peer_ops;
    f->arena = fg_arena_create(ARENA_BYTES);
    f->message.version = 1;
    fg_buf_init(&f->body, ARENA_BYTES);
    served_open(&f->served, lanes);
    f->tenants = tenants_make(&f->limits, change, false, f->served.registry);
    f->distributor = dist_create(&(struct dist_config){.settings = &f->settings,
                                                       .ingester = &f->memory.peer,
                                                       .work = f->served.work,
                                                       .tenants = f->tenants,
                                                       .registry = f->served.registry,
                                                       .clock = &f->clock.clock});
    dist_set_own_store(f->distributor, OWN);
    dist_routes(f->distributor, f->served.server);
    served_start(&f->served);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    served_stop(&f->served);
    dist_stop(f->distributor);
    dist_destroy(f->distributor);
    tenants_free(f->tenants, &f->limits);
    served_close(&f->served);
    assert_false(fg_foreground_is_under_way());
    forward__v1__push_response__free_unpacked(f->response, NULL);
    fg_forward_done(&f->message);
    fg_buf_done(&f->body);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

/* A batch of one profile with a stack of its own for each name. */
static struct fg_batch make(struct fixture *f, const char *service, int64_t time_ns,
                            const char *const *names, size_t n)
{
    struct fg_value_type *types = fg_arena_new(f->arena, struct fg_value_type, 1);
    struct fg_label labels[] = {{FG_LIT(FG_LABEL_NAME), FG_LIT("process_cpu")},
                                {FG_LIT(FG_LABEL_SERVICE), fg_cstr(service)}};
    struct fg_upload upload = {.labels = {labels, FG_COUNT(labels)}, .time_ns = time_ns};
    struct fg_batch batch = {.types = types, .n_types = 1};
    struct fg_decode_counts counts = {0};
    struct fg_builder *builder = fg_builder_create(f->arena, &upload.limits, &batch, &counts);
    struct fg_err err;
    uint32_t group, location, stack;
    int64_t value = 5;

    fg_assert(types != NULL && builder != NULL);
    types[0] = (struct fg_value_type){FG_LIT("cpu"), FG_LIT("nanoseconds")};
    fg_assert(fg_builder_group(builder, &(struct fg_labels){0}, &group, &err) == FG_OK);
    for (size_t i = 0; i < n; i++) {
        fg_assert(fg_builder_name(builder, fg_cstr(names[i]), &location, &err) == FG_OK);
        fg_assert(fg_builder_stack(builder, &location, 1, &stack, &err) == FG_OK);
        fg_assert(fg_builder_sample(builder, group, stack, NULL, &value, &err) == FG_OK);
    }
    fg_assert(fg_builder_finish(builder, &upload, 1, &err) == FG_OK);
    fg_batch_identify(&batch, FG_LIT("anonymous"), FG_LIT(""), FG_LIT(""));
    batch.profiles[0].size = (struct fg_profile_size){true, 300, 900};
    return batch;
}

static void put(struct fixture *f, const struct fg_batch *batch, bool defined)
{
    bool define[STACKS_MAX];

    fg_assert(batch->n_stacks <= STACKS_MAX);
    memset(define, defined, sizeof define);
    fg_forward_add(&f->message, batch, define, f->whole_ids);
}

static unsigned ask(struct fixture *f)
{
    return http_ask_bytes(fg_http_server_port(f->served.server), REQUEST, fg_buf_slice(&f->body),
                          &f->served.answer);
}

static unsigned read_answer(struct fixture *f, unsigned status)
{
    const char *body = http_ask_body(&f->served.answer);

    forward__v1__push_response__free_unpacked(fg_take(f->response), NULL);
    if (status == 200) /* the answer ends with a NUL of http_ask() */
        f->response = forward__v1__push_response__unpack(
            NULL, f->served.answer.len - 1 - (size_t)(body - (const char *)f->served.answer.ptr),
            (const uint8_t *)body);
    return status;
}

static unsigned forward_by(struct fixture *f, const struct fg_id *via, size_t n)
{
    uint8_t bytes[FG_FORWARD_VIA_MAX * FG_ID_BYTES];
    struct fg_err err;

    fg_assert(n <= FG_FORWARD_VIA_MAX);
    for (size_t i = 0; i < n; i++)
        fg_id_put(bytes + i * FG_ID_BYTES, via[i]);
    fg_buf_clear(&f->body);
    fg_assert(fg_forward_write(&f->message, fg_bytes(bytes, n * FG_ID_BYTES), &f->body, &err) ==
              FG_OK);
    fg_forward_clear(&f->message);
    return read_answer(f, ask(f));
}

static unsigned forward(struct fixture *f)
{
    return forward_by(f, &SENDER, 1);
}

static const Forward__V1__Result *result(const struct fixture *f, size_t number)
{
    assert_non_null(f->response);
    assert_true(number < f->response->n_results);
    return f->response->results[number];
}

static void assert_body_has(const struct fixture *f, const char *text)
{
    if (strstr(http_ask_body(&f->served.answer), text) == NULL)
        fail_msg("%s\nwithout: %s", http_ask_body(&f->served.answer), text);
}

static const char *const two[] = {"main", "work"};

/* --- tests --- */

/* And come through, also if agents' pushes never end. */
static void forwarded_profiles_let_agents_pass(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);
    int64_t before = fg_foreground_waited_ns();

    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(fg_foreground_waited_ns(), before);
    fg_foreground_begin();
    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    fg_foreground_end();
    assert_true(fg_foreground_waited_ns() > before);
}

/* Also one that comes when the first batch of a request is on its way. */
static void batches_let_an_agent_pass_that_comes_between_them(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);
    int64_t before = fg_foreground_waited_ns();

    put(f, &batch, true);
    put(f, &batch, true);
    f->memory.agent_comes = true;
    assert_int_equal(forward(f), 200);
    fg_foreground_end();
    assert_true(fg_foreground_waited_ns() > before);
}

static void profile_keeps_its_id_and_size_and_counts_once(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);

    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
    assert_int_equal(result(f, 0)->known, 0);
    assert_true(fg_id_eq(f->memory.profiles[0], batch.profiles[0].id));
    assert_int_equal(f->memory.size.wire_bytes, 300);
    assert_int_equal(f->memory.size.raw_bytes, 900);
    assert_int_equal(f->memory.via_bytes, FG_ID_BYTES);
    assert_true(fg_id_eq(fg_id_get(f->memory.via), SENDER));
    put(f, &batch, false); /* as after an answer that was lost */
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 0);
    assert_int_equal(result(f, 0)->known, 1);
    assert_int_equal(f->memory.n_profiles, 1);
}

static void unknown_stacks_are_asked_for(void **state)
{
    struct fixture *f = *state;
    struct fg_batch shop = make(f, "shop", NOW_NS, two, 2);
    struct fg_batch cart = make(f, "cart", NOW_NS, two, 1);

    put(f, &shop, false);
    put(f, &cart, true);
    assert_int_equal(forward(f), 200);
    assert_true(result(f, 0)->define);
    assert_int_equal(result(f, 0)->stored, 0);
    assert_false(result(f, 1)->define);
    assert_int_equal(result(f, 1)->stored, 1);
    assert_int_equal(f->memory.n_profiles, 1);
    put(f, &shop, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
}

/* The sender repeats the whole batch, and then has to tell these from what others had sent. */
static void parts_that_were_stored_are_told_when_others_lack_stacks(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);
    struct fg_batch cart = make(f, "cart", NOW_NS, two, 2); /* of the same stacks */
    struct fg_profile profiles[] = {batch.profiles[0], batch.profiles[0]};

    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    profiles[0].id = (struct fg_id){1, 1};
    profiles[1].id = (struct fg_id){1, 2};
    profiles[1].labels = cart.profiles[0].labels;
    batch.profiles = profiles;
    batch.n_profiles = FG_COUNT(profiles);
    f->memory.lacking = "cart";
    put(f, &batch, false);
    assert_int_equal(forward(f), 200);
    assert_true(result(f, 0)->define);
    assert_int_equal(result(f, 0)->stored, 1);
    assert_int_equal(result(f, 0)->known, 0);
    f->memory.lacking = NULL;
    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
    assert_int_equal(result(f, 0)->known, 1);
}

static void short_ids_are_enough_once_they_came_whole(void **state)
{
    struct fixture *f = *state;
    struct fg_batch first = make(f, "shop", NOW_NS, two, 2);
    struct fg_batch second = make(f, "shop", NOW_NS + FG_SECOND_NS, two, 2);
    struct fg_batch cart = make(f, "cart", NOW_NS, two, 1);

    f->message.version = 2;
    put(f, &first, false);
    assert_int_equal(forward(f), 200);
    assert_int_equal(f->response->version, FG_FORWARD_VERSION);
    assert_true(result(f, 0)->expand);
    assert_int_equal(f->memory.n_profiles, 0);
    f->whole_ids = true; /* which the ingester does not know either */
    put(f, &first, false);
    assert_int_equal(forward(f), 200);
    assert_true(result(f, 0)->define && !result(f, 0)->expand);
    f->whole_ids = false;
    put(f, &first, true);
    put(f, &second, false);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
    assert_true(fg_id_eq(f->memory.profiles[0], first.profiles[0].id));
    put(f, &second, false);
    put(f, &cart, false);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored + result(f, 0)->known, 1);
    assert_int_equal(f->memory.n_profiles, 3);
}

static void ids_of_version_1_are_remembered(void **state)
{
    struct fixture *f = *state;
    struct fg_batch first = make(f, "shop", NOW_NS, two, 2);
    struct fg_batch second = make(f, "shop", NOW_NS + FG_SECOND_NS, two, 2);

    put(f, &first, true);
    assert_int_equal(forward(f), 200);
    f->message.version = 2;
    put(f, &second, false);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
    f->message.version = 3;
    put(f, &second, false);
    assert_int_equal(forward(f), 400);
    assert_body_has(f, "failed_precondition");
}

static void stack_under_the_id_of_another_is_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);
    struct fg_id id = batch.stacks[0].id;

    batch.stacks[0].id = batch.stacks[1].id;
    batch.stacks[1].id = id;
    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->code, fg_code_grpc(FG_E_INVALID));
    assert_string_equal(result(f, 0)->message, "stack 0 is not the one that its id names");
    assert_int_equal(f->memory.n_profiles, 0);
}

/* Not data_loss, which would be a fault of this server: it would be sent again for ever. */
static void batch_that_cannot_be_read_costs_no_other(void **state)
{
    struct fixture *f = *state;
    struct fg_batch shop = make(f, "shop", NOW_NS, two, 2);
    struct fg_batch cart = make(f, "cart", NOW_NS, two, 2);

    put(f, &shop, true);
    put(f, &cart, true);
    f->message.payload.ptr[0] = 99; /* the version of the first one */
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->code, fg_code_grpc(FG_E_INVALID));
    assert_string_equal(result(f, 0)->message, "batch: version 99");
    assert_int_equal(result(f, 1)->stored, 1);
    put(f, &shop, true);
    f->message.batches[0].sizes[0] = UINT64_MAX; /* more than there can be */
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->code, fg_code_grpc(FG_E_INVALID));
    assert_int_equal(f->memory.n_profiles, 1);
}

/* The answer has room for as many batches as a request may have. */
static void request_of_many_batches_is_answered(void **state)
{
    enum { BATCHES = 4096 }; /* the most */
    struct fixture *f = *state;
    Forward__V1__PushRequest request = FORWARD__V1__PUSH_REQUEST__INIT;
    Forward__V1__Batch batch = FORWARD__V1__BATCH__INIT, **batches;
    ProtobufCBinaryData via = {FG_ID_BYTES, (uint8_t[FG_ID_BYTES]){1}};
    uint8_t bytes[BATCHES], packed[BATCHES];
    size_t len;

    memset(bytes, 99, sizeof bytes); /* none can be read */
    len = ZSTD_compress(packed, sizeof packed, bytes, sizeof bytes, 1);
    fg_assert(!ZSTD_isError(len));
    batches = fg_calloc(BATCHES, sizeof(Forward__V1__Batch *));
    batch.bytes = 1;
    for (size_t i = 0; i < BATCHES; i++)
        batches[i] = &batch;
    request.version = 1;
    request.via = &via;
    request.n_via = 1;
    request.batches = batches;
    request.n_batches = BATCHES;
    request.payload = (ProtobufCBinaryData){len, packed};
    fg_buf_clear(&f->body);
    fg_assert(fg_buf_reserve(&f->body, forward__v1__push_request__get_packed_size(&request)));
    f->body.len = forward__v1__push_request__pack(&request, f->body.ptr);
    assert_int_equal(read_answer(f, ask(f)), 200);
    assert_int_equal(f->response->n_results, BATCHES);
    assert_string_equal(result(f, BATCHES - 1)->message, "batch: version 99");
    free(batches);
}

static void bad_profiles_are_refused_one_by_one(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 1);
    struct fg_profile *profiles = fg_arena_new(f->arena, struct fg_profile, 4);
    struct fg_label nameless[] = {{FG_LIT(FG_LABEL_NAME), FG_LIT("process_cpu")}};

    for (uint32_t i = 0; i < 4; i++) {
        profiles[i] = batch.profiles[0];
        profiles[i].id.lo += i;
    }
    profiles[0].time_ns = 1000;
    profiles[1].labels = (struct fg_labels){nameless, 1};
    profiles[2].time_ns = NOW_NS + 2 * FG_HOUR_NS;
    batch.profiles = profiles;
    batch.n_profiles = 4;
    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
    assert_int_equal(result(f, 0)->n_refused, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(result(f, 0)->refused[i]->profile, i);
        assert_int_equal(result(f, 0)->refused[i]->code, fg_code_grpc(FG_E_INVALID));
    }
    assert_non_null(strstr(result(f, 0)->refused[0]->message, "outside of ingestion window"));
    assert_string_equal(result(f, 0)->refused[1]->message, "service name is not provided");
    assert_true(fg_id_eq(f->memory.profiles[0], profiles[3].id));
}

static void sums_that_do_not_fit_are_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);

    batch.profiles[0].values[0] = INT64_MAX;
    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->n_refused, 1);
    assert_int_equal(f->memory.n_profiles, 0);
}

static void only_recent(struct fg_limit_settings *limits)
{
    limits->reject_older_than_ns = FG_HOUR_NS;
}

static int setup_recent(void **state)
{
    return setup_with(state, only_recent);
}

static void what_waited_for_a_month_is_taken(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS - 31 * 24 * FG_HOUR_NS, two, 2);

    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
}

static void circles_are_refused(void **state)
{
    struct fixture *f = *state;
    const struct fg_id chain[] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}};
    const struct fg_id circle[] = {{1, 1}, OWN, {3, 3}};
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);

    put(f, &batch, true);
    assert_int_equal(forward_by(f, circle, FG_COUNT(circle)), 409);
    assert_body_has(f, "servers forward in a circle");
    put(f, &batch, true);
    assert_int_equal(forward_by(f, chain, 0), 400);
    assert_body_has(f, "forwarded by 0 servers");
    put(f, &batch, true);
    assert_int_equal(forward_by(f, chain, FG_COUNT(chain)), 200);
    assert_int_equal(result(f, 0)->stored, 1);
    assert_int_equal(f->memory.via_bytes, sizeof f->memory.via);
}

static void full_ingester_says_again_later(void **state)
{
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);

    f->memory.away = true;
    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->code, fg_code_grpc(FG_E_LIMIT));
    assert_int_equal(result(f, 0)->limit_of, FORWARD__V1__LIMIT_OF__SERVER);
    f->memory.away = false;
    put(f, &batch, true);
    assert_int_equal(forward(f), 200);
    assert_int_equal(result(f, 0)->stored, 1);
}

/* One of an earlier version does not, and what a newer one may say means nothing here. */
static void ingester_says_whose_limit_it_is(void **state)
{
    static const struct {
        int said;
        Forward__V1__LimitOf want;
    } cases[] = {
        {FG__INNER__LIMIT_OF__UNSAID, FORWARD__V1__LIMIT_OF__UNSAID},
        {FG__INNER__LIMIT_OF__TENANT, FORWARD__V1__LIMIT_OF__TENANT},
        {FG__INNER__LIMIT_OF__SERVER, FORWARD__V1__LIMIT_OF__SERVER},
        {3, FORWARD__V1__LIMIT_OF__UNSAID},
    };
    struct fixture *f = *state;
    struct fg_batch batch = make(f, "shop", NOW_NS, two, 2);
    Fg__Inner__PushResult refusal = FG__INNER__PUSH_RESULT__INIT;

    refusal.code = fg_code_grpc(FG_E_LIMIT);
    refusal.message = (char *)(uintptr_t) "too many series";
    refusal.retry_after_s = 15;
    f->memory.refusal = &refusal;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        refusal.limit_of = (Fg__Inner__LimitOf)cases[i].said;
        put(f, &batch, true);
        assert_int_equal(forward(f), 200);
        assert_int_equal(result(f, 0)->code, fg_code_grpc(FG_E_LIMIT));
        assert_int_equal(result(f, 0)->limit_of, cases[i].want);
        assert_int_equal(result(f, 0)->retry_after_s, 15);
    }
}

static void slow_forwarding(struct fg_limit_settings *limits)
{
    limits->forward_rate_mb = 0.00001;
}

static int setup_slow(void **state)
{
    return setup_with(state, slow_forwarding);
}

/* The burst is 64 MiB, whatever the rate is. */
static void forwarding_has_a_rate_of_its_own(void **state)
{
    struct fixture *f = *state;
    const char *const one[] = {"main"};
    char *name = fg_malloc((1 << 19) + 1);
    const char *const large[] = {name};
    struct fg_batch batch;
    unsigned status = 200, n = 0;

    memset(name, 'x', 1 << 19);
    name[1 << 19] = '\0';
    batch = make(f, "shop", NOW_NS, large, 1);
    for (; status == 200 && n < 300; n++) {
        put(f, &batch, true);
        status = forward(f);
    }
    assert_int_equal(status, 429);
    assert_body_has(f, "limits.forward_rate_mb");
    assert_int_equal(n, 128);
    batch = make(f, "shop", NOW_NS, one, 1);
    assert_int_equal(served_ask(&f->served, "POST /ingest?name=app.cpu&from=1700003600 HTTP/1.1",
                                "main;work 30\n"),
                     200);
    free(name);
}

static void requests_that_cannot_be_read_are_refused(void **state)
{
    struct fixture *f = *state;
    Forward__V1__PushRequest request = FORWARD__V1__PUSH_REQUEST__INIT;
    Forward__V1__Batch batch = FORWARD__V1__BATCH__INIT, *batches[] = {&batch};
    ProtobufCBinaryData via = {FG_ID_BYTES, (uint8_t[FG_ID_BYTES]){1}};

#define SEND(status, text)                                                                         \
    do {                                                                                           \
        fg_buf_clear(&f->body);                                                                    \
        fg_assert(fg_buf_reserve(&f->body, 4096));                                                 \
        f->body.len = forward__v1__push_request__pack(&request, f->body.ptr);                      \
        assert_int_equal(ask(f), status);                                                          \
        assert_body_has(f, text);                                                                  \
    } while (0)
    request.version = 3;
    SEND(400, "failed_precondition");
    request.version = 0;
    SEND(400, "failed_precondition");
    request.version = 1;
    SEND(400, "0 batches");
    request.batches = batches;
    request.n_batches = 1;
    request.via = &via;
    request.n_via = 1;
    via.len = 15;
    SEND(400, "an id of 15 bytes");
    via.len = FG_ID_BYTES;
    request.payload = (ProtobufCBinaryData){5, (uint8_t *)(uintptr_t) "hello"};
    SEND(400, "zstd");
    /* A frame of no bytes. */
    request.payload =
        (ProtobufCBinaryData){9, (uint8_t *)(uintptr_t) "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"};
    batch.bytes = 1;
    SEND(400, "batches of 1 bytes in a payload of 0");
#undef SEND
    assert_int_equal(f->memory.n_profiles, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forwarded_profiles_let_agents_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(batches_let_an_agent_pass_that_comes_between_them, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(profile_keeps_its_id_and_size_and_counts_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(unknown_stacks_are_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_that_were_stored_are_told_when_others_lack_stacks,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(short_ids_are_enough_once_they_came_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_of_version_1_are_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(stack_under_the_id_of_another_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(batch_that_cannot_be_read_costs_no_other, setup, teardown),
        cmocka_unit_test_setup_teardown(request_of_many_batches_is_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_profiles_are_refused_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_that_do_not_fit_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waited_for_a_month_is_taken, setup_recent, teardown),
        cmocka_unit_test_setup_teardown(circles_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(full_ingester_says_again_later, setup, teardown),
        cmocka_unit_test_setup_teardown(ingester_says_whose_limit_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(forwarding_has_a_rate_of_its_own, setup_slow, teardown),
        cmocka_unit_test_setup_teardown(requests_that_cannot_be_read_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
