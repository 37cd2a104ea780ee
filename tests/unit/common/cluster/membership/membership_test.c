/*
 * Compactors around their list: each name is one's only, who falls silent or leaves is followed,
 * whose a tenant is hears what others were asked about it, and a broken list is replaced.
 */
#include "common/base/crc32c.h"
#include "common/base/envelope.h"
#include "common/base/hash.h"
#include "common/cluster/manifest/name.h"
#include "common/cluster/membership/membership.h"
#include "common/cluster/membership/membership_core.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TENANTS = 2000, COMPACTORS_MAX = 5 };

struct cluster {
    struct fg_bucket *bucket;
    struct fg_clock_manual clock;
    struct fg_membership *memberships[COMPACTORS_MAX]; /* NULL: not there */
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void open_cluster(struct cluster *c, int n)
{
    *c = (struct cluster){.bucket = fg_bucket_memory()};
    fg_clock_manual_init(&c->clock, 0);
    for (int i = 0; i < n; i++) {
        const char name[] = {'c', '-', (char)('0' + i), '\0'};
        const struct fg_membership_config config = {c->bucket, &c->clock.clock, FG_NAME_COMPACTORS,
                                                    "compactor", name};
        struct fg_err err;

        must(fg_membership_create(&config, &c->memberships[i], &err), &err);
    }
}

static void close_cluster(struct cluster *c)
{
    for (int i = 0; i < COMPACTORS_MAX; i++)
        fg_membership_destroy(c->memberships[i]);
    fg_bucket_close(c->bucket);
}

/* Each of them but `silent` has its turn every quarter of a minute. */
static void pass(struct cluster *c, int64_t span_ns, int silent)
{
    for (int64_t at = 0; at < span_ns; at += 15 * FG_SECOND_NS) {
        for (int i = 0; i < COMPACTORS_MAX; i++) {
            struct fg_err err;

            if (c->memberships[i] != NULL && i != silent)
                must(fg_membership_step(c->memberships[i], &err), &err);
        }
        fg_clock_manual_advance(&c->clock, 15 * FG_SECOND_NS);
    }
}

static struct fg_slice tenant_name(int number, char out[24])
{
    (void)snprintf(out, 24, "tenant-%d", number);
    return fg_cstr(out);
}

/* Whose each tenant is; -1: nobody's. Two are an error. */
static void find_owners(struct cluster *c, int owners[TENANTS])
{
    for (int t = 0; t < TENANTS; t++) {
        char name[24];
        struct fg_slice tenant = tenant_name(t, name);

        owners[t] = -1;
        for (int i = 0; i < COMPACTORS_MAX; i++) {
            if (c->memberships[i] == NULL || !fg_membership_owns(c->memberships[i], tenant))
                continue;
            assert_int_equal(owners[t], -1);
            owners[t] = i;
        }
    }
}

static void check_shares(const int owners[TENANTS], int n)
{
    int counts[COMPACTORS_MAX] = {0};

    for (int t = 0; t < TENANTS; t++) {
        assert_in_range(owners[t], 0, COMPACTORS_MAX - 1);
        counts[owners[t]]++;
    }
    for (int i = 0; i < n; i++)
        assert_in_range(counts[i], TENANTS / n * 3 / 4, TENANTS / n * 5 / 4);
}

static void tenants_are_shared(void **state)
{
    int owners[TENANTS], later[TENANTS];
    struct cluster c;

    (void)state;
    open_cluster(&c, 3);
    assert_false(
        fg_membership_owns(c.memberships[0], FG_LIT("anybody"))); /* it has not read the list */
    pass(&c, FG_MINUTE_NS, -1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fg_membership_count(c.memberships[i]), 3);
    find_owners(&c, owners);
    check_shares(owners, 3);
    pass(&c, 10 * FG_MINUTE_NS, -1);
    find_owners(&c, later);
    assert_memory_equal(owners, later, sizeof owners);
    close_cluster(&c);
}

/* What belonged to others stays with them. */
static void silent_members_are_gone(void **state)
{
    int owners[TENANTS], later[TENANTS];
    struct cluster c;

    (void)state;
    open_cluster(&c, 4);
    pass(&c, FG_MINUTE_NS, -1);
    find_owners(&c, owners);
    pass(&c, 2 * FG_MINUTE_NS, 1);
    find_owners(&c, later);
    assert_memory_equal(owners, later, sizeof owners); /* it may only be slow */
    pass(&c, 4 * FG_MINUTE_NS, 1);
    assert_int_equal(fg_membership_count(c.memberships[0]), 3);
    fg_membership_destroy(c.memberships[1]);
    c.memberships[1] = NULL;
    find_owners(&c, later);
    for (int t = 0; t < TENANTS; t++) {
        assert_int_not_equal(later[t], -1);
        if (owners[t] != 1)
            assert_int_equal(later[t], owners[t]);
    }
    close_cluster(&c);
}

/* One that was taken for gone comes back as it was, and one that is started again with its name. */
static void members_that_were_gone_come_back(void **state)
{
    int owners[TENANTS], later[TENANTS];
    struct cluster c;

    (void)state;
    open_cluster(&c, 2);
    pass(&c, FG_MINUTE_NS, -1);
    find_owners(&c, owners);
    pass(&c, 10 * FG_MINUTE_NS, 0);
    pass(&c, FG_MINUTE_NS, -1);
    find_owners(&c, later);
    assert_memory_equal(owners, later, sizeof owners);
    fg_membership_destroy(c.memberships[1]);
    must(
        fg_membership_create(&(struct fg_membership_config){c.bucket, &c.clock.clock,
                                                            FG_NAME_COMPACTORS, "compactor", "c-1"},
                             &c.memberships[1], &(struct fg_err){.code = FG_OK}),
        &(struct fg_err){.msg = "not a name"});
    pass(&c, FG_MINUTE_NS, -1);
    assert_int_equal(fg_membership_count(c.memberships[0]), 2);
    find_owners(&c, later);
    assert_memory_equal(owners, later, sizeof owners);
    close_cluster(&c);
}

/* Nobody could say that he is there while the bucket was away: the shares are what they were. */
static void an_outage_makes_nobody_gone(void **state)
{
    int owners[TENANTS], later[TENANTS];
    struct cluster c;

    (void)state;
    open_cluster(&c, 3);
    pass(&c, FG_MINUTE_NS, -1);
    find_owners(&c, owners);
    for (int away = 0; away < 2; away++) {
        struct fg_err err;

        fg_clock_manual_advance(&c.clock, 10 * FG_MINUTE_NS);
        must(fg_membership_step(c.memberships[0], &err), &err);
        assert_int_equal(fg_membership_count(c.memberships[0]), 3);
        find_owners(&c, later);
        assert_memory_equal(owners, later, sizeof owners);
        pass(&c, FG_MINUTE_NS, -1);
    }
    pass(&c, 6 * FG_MINUTE_NS, 1); /* but who stays silent is */
    assert_int_equal(fg_membership_count(c.memberships[0]), 2);
    close_cluster(&c);
}

static void a_member_that_leaves_is_gone_at_once(void **state)
{
    struct cluster c;
    struct fg_err err;
    int owners[TENANTS];

    (void)state;
    open_cluster(&c, 2);
    pass(&c, FG_MINUTE_NS, -1);
    must(fg_membership_start(c.memberships[1], &err), &err);
    fg_membership_stop(c.memberships[1]);
    fg_membership_destroy(c.memberships[1]);
    c.memberships[1] = NULL;
    pass(&c, 15 * FG_SECOND_NS, -1);
    assert_int_equal(fg_membership_count(c.memberships[0]), 1);
    find_owners(&c, owners);
    for (int t = 0; t < TENANTS; t++)
        assert_int_equal(owners[t], 0);
    close_cluster(&c);
}

/* A bucket in which each request takes two seconds, and others replace the list all the time. */
struct busy_bucket {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    struct fg_clock_manual *clock;
    bool is_busy;
    unsigned requests;        /* while it is busy */
    int64_t deadline_mono_ns; /* the latest one of these */
};

static void busy_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct busy_bucket *busy = fg_container(bucket, struct busy_bucket, bucket);

    if (busy->is_busy) {
        busy->requests++;
        busy->deadline_mono_ns = FG_MAX(busy->deadline_mono_ns, request->deadline_mono_ns);
        fg_clock_manual_advance(busy->clock, 2 * FG_SECOND_NS);
        if (request->verb == FG_BUCKET_PUT)
            (void)snprintf(request->if_etag.text, sizeof request->if_etag.text, "another");
    }
    busy->inner->ops->send(busy->inner, request);
}

static void leaving_a_busy_list_takes_no_longer_than_said(void **state)
{
    static const struct fg_bucket_ops ops = {.send = busy_send};
    struct fg_bucket *inner = fg_bucket_memory();
    struct fg_clock_manual clock;
    struct busy_bucket busy = {
        .bucket = {.ops = &ops, .wraps = inner}, .inner = inner, .clock = &clock};
    const struct fg_membership_config config = {&busy.bucket, &clock.clock, FG_NAME_COMPACTORS,
                                                "compactor", "c-0"};
    struct fg_membership *membership;
    struct fg_err err;
    int64_t begun_ns;

    (void)state;
    fg_clock_manual_init(&clock, 0);
    must(fg_membership_create(&config, &membership, &err), &err);
    must(fg_membership_start(membership, &err), &err);
    busy.is_busy = true;
    begun_ns = fg_mono_ns(&clock.clock);
    fg_membership_stop(membership);
    assert_true(busy.requests > 2);
    assert_int_equal(busy.deadline_mono_ns, begun_ns + 5 * FG_SECOND_NS);
    fg_membership_destroy(membership);
    fg_bucket_close(inner);
}

static void put_list(struct cluster *c, struct fg_slice bytes)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .name = FG_NAME_COMPACTORS,
                                    .content = bytes,
                                    .deadline_mono_ns = INT64_MAX};

    must(fg_bucket_call(c->bucket, &put), &put.err);
    fg_bucket_clear(&put);
}

static void a_damaged_list_is_replaced(void **state)
{
    int owners[TENANTS];
    struct cluster c;

    (void)state;
    open_cluster(&c, 3);
    pass(&c, FG_MINUTE_NS, -1);
    put_list(&c, FG_LIT("FGCM\1 and then nothing that was ever written"));
    pass(&c, FG_MINUTE_NS, -1);
    find_owners(&c, owners);
    check_shares(owners, 3);
    close_cluster(&c);
}

static void expect_list(struct cluster *c, struct fg_slice bytes)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = FG_NAME_COMPACTORS,
                                    .content_max_bytes = FG_MEMBER_LIST_MAX_BYTES,
                                    .deadline_mono_ns = INT64_MAX};

    must(fg_bucket_call(c->bucket, &get), &get.err);
    assert_true(fg_slice_eq(fg_buf_slice(&get.body), bytes));
    fg_bucket_clear(&get);
}

/* It may mean something else there: who does not understand it leaves it alone, however often it
 * is read, and goes by what it knew. */
static void a_newer_list_is_left_alone(void **state)
{
    struct fg_member_list none = {.n = 0};
    struct cluster c;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    open_cluster(&c, 2);
    pass(&c, FG_MINUTE_NS, -1);
    fg_buf_init(&bytes, FG_MEMBER_LIST_MAX_BYTES);
    must(fg_member_list_encode(&none, &bytes, &err), &err);
    bytes.ptr[FG_ENVELOPE_MAGIC_BYTES]++; /* the version */
    bytes.len -= 4;
    fg_buf_le32(&bytes, fg_crc32c(fg_buf_slice(&bytes)));
    put_list(&c, fg_buf_slice(&bytes));
    for (int i = 0; i < 20; i++) { /* beyond its next beat */
        assert_int_equal(fg_membership_step(c.memberships[0], &err), FG_E_UNIMPLEMENTED);
        fg_clock_manual_advance(&c.clock, 15 * FG_SECOND_NS);
    }
    expect_list(&c, fg_buf_slice(&bytes));
    assert_int_equal(fg_membership_count(c.memberships[0]), 2);
    fg_buf_done(&bytes);
    close_cluster(&c);
}

static void fields_of_newer_versions_are_kept(void **state)
{
    struct fg_member members[] = {{.name = FG_LIT("a"), .heartbeat = 7, .later = FG_LIT("xy")},
                                  {.name = FG_LIT("me"), .heartbeat = 3, .later = FG_LIT("z")}},
                     room[3];
    struct fg_member_list list = {members, 2, FG_LIT("rest")}, read, next;
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MEMBER_LIST_ARENA_BYTES);
    struct fg_membership_core *known = fg_new(struct fg_membership_core);
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    must(fg_membership_core_init(known, "compactor", "me", 1, 10, &err), &err);
    fg_buf_init(&bytes, FG_MEMBER_LIST_MAX_BYTES);
    must(fg_member_list_encode(&list, &bytes, &err), &err);
    must(fg_member_list_decode(fg_buf_slice(&bytes), arena, &read, &err), &err);
    fg_membership_core_read(known, &read, 0);
    must(fg_membership_core_next(known, &read, false, room, &next, &err), &err);
    assert_int_equal(next.n, 2);
    assert_true(fg_slice_is(next.members[0].later, "xy"));
    assert_int_equal(next.members[0].heartbeat, 7);
    assert_true(fg_slice_is(next.members[1].later, "z"));
    assert_int_equal(next.members[1].heartbeat, 4);
    assert_true(fg_slice_is(next.later, "rest"));
    must(fg_membership_core_next(known, &read, true, room, &next, &err), &err);
    assert_int_equal(next.n, 1);
    fg_buf_done(&bytes);
    free(known);
}

/* How many hear of this tenant now. */
static int hearers(struct cluster *c, struct fg_slice tenant, int *last)
{
    int n = 0;

    for (int i = 0; i < COMPACTORS_MAX; i++) {
        uint64_t heard[FG_MEMBERSHIP_NOTICES_MAX];
        uint32_t n_heard = fg_membership_notices(c->memberships[i], heard);

        for (uint32_t k = 0; k < n_heard; k++)
            if (heard[k] == fg_hash64(tenant)) {
                *last = i;
                n++;
            }
    }
    return n;
}

static void the_owner_gets_the_notices_of_others(void **state)
{
    const struct fg_slice tenant = FG_LIT("tenant-7");
    int owners[TENANTS], hearer = -1;
    struct cluster c;

    (void)state;
    open_cluster(&c, 3);
    pass(&c, FG_MINUTE_NS, -1);
    find_owners(&c, owners);
    assert_int_equal(hearers(&c, tenant, &hearer), 0);
    fg_membership_notify(c.memberships[owners[7]], tenant); /* it knows already */
    pass(&c, FG_MINUTE_NS, -1);
    assert_int_equal(hearers(&c, tenant, &hearer), 0);
    for (int again = 0; again < 6;
         again++) { /* after a turn that was a beat, and after one that was not */
        fg_membership_notify(c.memberships[(owners[7] + 1) % 3], tenant);
        fg_membership_notify(c.memberships[(owners[7] + 1) % 3], tenant);
        pass(&c, 30 * FG_SECOND_NS, -1);
        assert_int_equal(hearers(&c, tenant, &hearer), 1); /* at once, and once */
        assert_int_equal(hearer, owners[7]);
        pass(&c, again * 15 * FG_SECOND_NS, -1);
        assert_int_equal(hearers(&c, tenant, &hearer), 0);
    }
    close_cluster(&c);
}

static void notices_are_bounded(void **state)
{
    uint64_t heard[FG_MEMBERSHIP_NOTICES_MAX];
    int owners[TENANTS], n = 0;
    struct cluster c;

    (void)state;
    open_cluster(&c, 2);
    pass(&c, FG_MINUTE_NS, -1);
    find_owners(&c, owners);
    for (int round = 0; round < 2; round++) {
        for (int t = 0; t < TENANTS; t++) {
            char name[24];

            fg_membership_notify(c.memberships[0], tenant_name(t, name));
        }
        pass(&c, 30 * FG_SECOND_NS, -1);
        n = (int)fg_membership_notices(c.memberships[1], heard);
        assert_int_equal(n,
                         round == 0 ? FG_MEMBER_NOTICES_MAX : 0); /* they are still in the list */
    }
    pass(&c, 10 * FG_MINUTE_NS, -1);
    for (int t = 0; t < TENANTS; t++) { /* there is room again, and this one is in it */
        char name[24];

        if (owners[t] == 1) {
            fg_membership_notify(c.memberships[0], tenant_name(t, name));
            break;
        }
    }
    pass(&c, 30 * FG_SECOND_NS, -1);
    assert_int_equal(fg_membership_notices(c.memberships[1], heard), 1);
    close_cluster(&c);
}

/* As it was before there was "asked". */
static void shorter_records_are_read(void **state)
{
    struct fg_member mate = {.name = FG_LIT("a"), .heartbeat = 7};
    struct fg_member_list list = {&mate, 1, FG_LIT("")}, read;
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MEMBER_LIST_ARENA_BYTES);
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, FG_MEMBER_LIST_MAX_BYTES);
    must(fg_member_list_encode(&list, &bytes, &err), &err);
    bytes.len -= 4 + 1; /* the checksum, and how many were asked */
    bytes.ptr[bytes.len - 4]--;
    assert_int_equal(bytes.ptr[bytes.len - 4], 3); /* the record's length */
    fg_buf_le32(&bytes, fg_crc32c(fg_buf_slice(&bytes)));
    must(fg_member_list_decode(fg_buf_slice(&bytes), arena, &read, &err), &err);
    assert_int_equal(read.n, 1);
    assert_int_equal(read.members[0].heartbeat, 7);
    assert_int_equal(read.members[0].n_notices, 0);
    fg_buf_done(&bytes);
}

/* Else the object could become one that nobody can write any more. */
static void the_largest_list_fits(void **state)
{
    static char names[FG_MEMBERS_MAX][FG_MEMBER_NAME_MAX_BYTES + 1];
    static struct fg_member members[FG_MEMBERS_MAX];
    struct fg_arena *arena = fg_arena_create(FG_MEMBER_LIST_ARENA_BYTES);
    struct fg_member_notice notices[FG_MEMBER_NOTICES_MAX];
    struct fg_member_list list = {members, FG_MEMBERS_MAX, {NULL, 0}}, read;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    memset(notices, 0xff, sizeof notices); /* as long as numbers become */
    for (unsigned i = 0; i < FG_MEMBERS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "m%03u%0*u", i, FG_MEMBER_NAME_MAX_BYTES - 4, 0);
        members[i] = (struct fg_member){.name = fg_cstr(names[i]),
                                        .heartbeat = UINT64_MAX,
                                        .notices = notices,
                                        .n_notices = FG_MEMBER_NOTICES_MAX};
    }
    fg_buf_init(&bytes, FG_MEMBER_LIST_MAX_BYTES);
    must(fg_member_list_encode(&list, &bytes, &err), &err);
    must(fg_member_list_decode(fg_buf_slice(&bytes), arena, &read, &err), &err);
    assert_int_equal(read.n, FG_MEMBERS_MAX);
    assert_int_equal(read.members[FG_MEMBERS_MAX - 1].n_notices, FG_MEMBER_NOTICES_MAX);
    assert_true(read.members[FG_MEMBERS_MAX - 1].notices[FG_MEMBER_NOTICES_MAX - 1].heartbeat ==
                UINT64_MAX);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

static void names_are_checked(void **state)
{
    struct fg_membership *membership;
    struct cluster c;
    struct fg_err err;

    (void)state;
    open_cluster(&c, 0);
    assert_int_equal(
        fg_membership_create(&(struct fg_membership_config){c.bucket, &c.clock.clock,
                                                            FG_NAME_COMPACTORS, "compactor", "a b"},
                             &membership, &err),
        FG_E_INVALID);
    close_cluster(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_are_shared),
        cmocka_unit_test(silent_members_are_gone),
        cmocka_unit_test(members_that_were_gone_come_back),
        cmocka_unit_test(an_outage_makes_nobody_gone),
        cmocka_unit_test(a_member_that_leaves_is_gone_at_once),
        cmocka_unit_test(leaving_a_busy_list_takes_no_longer_than_said),
        cmocka_unit_test(a_damaged_list_is_replaced),
        cmocka_unit_test(a_newer_list_is_left_alone),
        cmocka_unit_test(fields_of_newer_versions_are_kept),
        cmocka_unit_test(the_owner_gets_the_notices_of_others),
        cmocka_unit_test(notices_are_bounded),
        cmocka_unit_test(shorter_records_are_read),
        cmocka_unit_test(the_largest_list_fits),
        cmocka_unit_test(names_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
