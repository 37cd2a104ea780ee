/* What a snapshot asks for, and when a cached manifest will do. Whether its rules are right is for
 * tests/sim. */
#include "common/cluster/manifest/snapshot_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { AGE_NS = 1000 };

static const struct fg_slice tenants[] = {{(const uint8_t *)"a", 1}, {(const uint8_t *)"b", 1}};

static struct fg_manifest *l0(uint64_t revision, uint64_t generation)
{
    struct fg_manifest *manifest;
    struct fg_err err;

    assert_int_equal(fg_manifest_l0(FG_LIT(""), FG_LIT(""), &manifest, &err), FG_OK);
    manifest->etag = FG_LIT("l0");
    manifest->l0.revision = revision;
    manifest->l0.generation = generation;
    return manifest;
}

static struct fg_manifest *blocks(uint32_t tenant, uint64_t revision, uint64_t newest)
{
    struct fg_manifest *manifest;
    struct fg_err err;

    assert_int_equal(fg_manifest_blocks(FG_LIT(""), FG_LIT(""), tenants[tenant], &manifest, &err),
                     FG_OK);
    manifest->etag = FG_LIT("blocks");
    manifest->blocks.revision = revision;
    manifest->blocks.newest = newest;
    return manifest;
}

static void the_l0_manifest_is_read_first(void **state)
{
    struct fg_manifests *manifests = fg_manifests_create(10, AGE_NS, FG_RULES_ALL);
    struct fg_snapshot snapshot, other;

    (void)state;
    fg_snapshot_init(&snapshot, manifests, tenants, 2);
    fg_snapshot_begin(&snapshot, 0, false, 0);
    assert_true(snapshot.want_l0);
    assert_int_equal(snapshot.want_tenants, 0);
    assert_int_equal(fg_snapshot_etag(&snapshot, FG_SNAPSHOT_L0).len, 0);
    fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, l0(1, 5), 1);
    assert_false(snapshot.want_l0);
    assert_int_equal(snapshot.want_tenants, 3);
    fg_snapshot_answer(&snapshot, 1, blocks(1, 1, 5), 2);
    assert_int_equal(snapshot.state, FG_SNAPSHOT_READING);
    fg_snapshot_answer(&snapshot, 0, blocks(0, 1, 4), 3);
    assert_int_equal(snapshot.state, FG_SNAPSHOT_READY);
    assert_int_equal(fg_snapshot_generation(&snapshot), 5);

    /* Young enough: nothing is asked. */
    fg_snapshot_init(&other, manifests, tenants, 1);
    fg_snapshot_begin(&other, 5, false, AGE_NS - 1);
    assert_int_equal(other.state, FG_SNAPSHOT_READY);

    /* Too old: asked by etag, and what still holds is used. */
    fg_snapshot_begin(&other, 5, false, AGE_NS + 10);
    assert_true(other.want_l0);
    assert_true(fg_slice_is(fg_snapshot_etag(&other, FG_SNAPSHOT_L0), "l0"));
    fg_snapshot_answer(&other, FG_SNAPSHOT_L0, NULL, AGE_NS + 11);
    assert_int_equal(other.want_tenants, 1);
    assert_true(fg_slice_is(fg_snapshot_etag(&other, 0), "blocks"));
    fg_snapshot_answer(&other, 0, NULL, AGE_NS + 12);
    assert_int_equal(other.state, FG_SNAPSHOT_READY);
    fg_snapshot_done(&other);
    fg_snapshot_done(&snapshot);
    fg_manifests_destroy(manifests);
}

/* What has left the L0 manifest is in blocks: a tenant's manifest that does not know that is lost.
 */
static void a_lost_manifest_of_a_tenant_fails_the_snapshot(void **state)
{
    struct fg_manifests *manifests = fg_manifests_create(10, AGE_NS, FG_RULES_ALL);
    struct fg_l0_tenant retired[] = {{tenants[0], 3}, {tenants[1], 0}};
    struct fg_snapshot snapshot;

    (void)state;
    for (uint64_t newest = 2; newest <= 3; newest++) {
        struct fg_manifest *first = l0(newest, 5), *mine = blocks(0, newest - 1, newest);

        first->l0.tenants = retired;
        first->l0.n_tenants = 2;
        mine->blocks.covered_floor = newest;
        fg_snapshot_init(&snapshot, manifests, tenants, 2);
        fg_snapshot_begin(&snapshot, 0, true, 0);
        fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, first, 1);
        fg_snapshot_answer(&snapshot, 0, mine, 2);
        fg_snapshot_answer(&snapshot, 1, blocks(1, 0, 0), 3);
        assert_int_equal(snapshot.state, newest < 3 ? FG_SNAPSHOT_FAILED : FG_SNAPSHOT_READY);
        if (newest < 3)
            assert_int_equal(snapshot.err.code, FG_E_CORRUPT);
        fg_snapshot_done(&snapshot);
    }
    fg_manifests_destroy(manifests);
}

/* A tenant's manifest that was read before the L0 manifest is not used with it (l0-before-tenant).
 */
static void a_newer_l0_manifest_is_read_if_needed(void **state)
{
    struct fg_manifests *manifests = fg_manifests_create(10, AGE_NS, FG_RULES_ALL);
    struct fg_snapshot snapshot;

    (void)state;
    fg_snapshot_init(&snapshot, manifests, tenants, 1);
    fg_snapshot_begin(&snapshot, 0, false, 0);
    fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, l0(1, 5), 1);
    fg_snapshot_answer(&snapshot, 0, blocks(0, 1, 0), 1);
    fg_snapshot_begin(&snapshot, 6, false, 2); /* an ingester has forgotten up to 6 */
    assert_true(snapshot.want_l0);
    fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, l0(2, 6), 3);
    assert_int_equal(snapshot.want_tenants, 1);
    fg_snapshot_answer(&snapshot, 0, NULL, 4);
    assert_int_equal(snapshot.state, FG_SNAPSHOT_READY);

    /* Fresh: both again, however young. */
    fg_snapshot_begin(&snapshot, 0, true, 5);
    assert_true(snapshot.want_l0);
    fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, NULL, 5);
    assert_int_equal(snapshot.want_tenants, 1);
    fg_snapshot_answer(&snapshot, 0, blocks(0, 2, 0), 5);
    assert_int_equal(snapshot.blocks[0]->blocks.revision, 2);
    fg_snapshot_done(&snapshot);
    fg_manifests_destroy(manifests);
}

/* What was asked for before it expired is asked for again, however young, and though the answer
 * came later. */
static void an_expired_cache_is_read_again(void **state)
{
    struct fg_manifests *manifests = fg_manifests_create(10, AGE_NS, FG_RULES_ALL);
    struct fg_snapshot before, after;

    (void)state;
    fg_snapshot_init(&before, manifests, tenants, 1);
    fg_snapshot_init(&after, manifests, tenants, 1);
    fg_snapshot_begin(&before, 0, false, 0);
    fg_snapshot_answer(&before, FG_SNAPSHOT_L0, l0(1, 5), 1);
    assert_int_equal(before.want_tenants, 1);
    fg_manifests_expire(manifests);
    fg_snapshot_answer(&before, 0, blocks(0, 1, 0), 1);
    assert_int_equal(before.state, FG_SNAPSHOT_READY);

    fg_snapshot_begin(&after, 0, false, 2);
    assert_true(after.want_l0);
    fg_snapshot_answer(&after, FG_SNAPSHOT_L0, NULL, 3);
    assert_int_equal(after.want_tenants, 1);
    fg_snapshot_answer(&after, 0, blocks(0, 2, 0), 3);
    assert_int_equal(after.blocks[0]->blocks.revision, 2);
    fg_snapshot_begin(&after, 0, false, 4); /* once */
    assert_int_equal(after.state, FG_SNAPSHOT_READY);
    fg_snapshot_done(&before);
    fg_snapshot_done(&after);
    fg_manifests_destroy(manifests);
}

/* It covers what the L0 manifest does not have yet: that is read again (retry-covered), and again,
 * and not for ever. */
static void a_tenant_that_covers_more_makes_l0_be_read_again(void **state)
{
    struct fg_manifests *manifests = fg_manifests_create(10, AGE_NS, FG_RULES_ALL);
    struct fg_snapshot snapshot;
    int asked = 0;

    (void)state;
    fg_snapshot_init(&snapshot, manifests, tenants, 1);
    fg_snapshot_begin(&snapshot, 0, false, 0);
    fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, l0(1, 5), 1);
    fg_snapshot_answer(&snapshot, 0, blocks(0, 1, 7), 1);
    assert_true(snapshot.want_l0);
    fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, l0(2, 7), 1);
    fg_snapshot_answer(&snapshot, 0, NULL, 1);
    assert_int_equal(snapshot.state, FG_SNAPSHOT_READY);

    fg_snapshot_begin(&snapshot, 100, false, 2);
    while (snapshot.state == FG_SNAPSHOT_READING && asked++ < 100)
        fg_snapshot_answer(&snapshot, FG_SNAPSHOT_L0, NULL, 3);
    assert_int_equal(snapshot.state, FG_SNAPSHOT_FAILED);
    assert_int_equal(snapshot.err.code, FG_E_UNAVAILABLE);
    assert_int_equal(asked, FG_SNAPSHOT_ATTEMPTS_MAX);
    fg_snapshot_done(&snapshot);
    fg_manifests_destroy(manifests);
}

/* Answers that cross: the newest version stays. And a cache of one tenant serves two. */
static void crossing_snapshots_take_the_newest_manifests(void **state)
{
    struct fg_manifests *manifests = fg_manifests_create(1, AGE_NS, FG_RULES_ALL);
    struct fg_snapshot slow, quick;
    struct fg_err err = {.code = FG_E_UNAVAILABLE, .msg = "away"};

    (void)state;
    fg_snapshot_init(&slow, manifests, tenants, 2);
    fg_snapshot_init(&quick, manifests, tenants, 2);
    fg_snapshot_begin(&slow, 0, false, 0);
    fg_snapshot_begin(&quick, 0, false, 0);
    fg_snapshot_answer(&quick, FG_SNAPSHOT_L0, l0(2, 6), 1);
    fg_snapshot_answer(&slow, FG_SNAPSHOT_L0, l0(1, 5), 2);
    assert_int_equal(slow.l0->l0.generation, 6);
    assert_int_equal(slow.want_tenants, 3);
    for (int i = 0; i < 2; i++) {
        fg_snapshot_answer(&quick, i, blocks((uint32_t)i, 1, 0), 3);
        fg_snapshot_answer(&slow, i, blocks((uint32_t)i, 1, 0), 3);
    }
    assert_int_equal(quick.state, FG_SNAPSHOT_READY);
    assert_int_equal(slow.state, FG_SNAPSHOT_READY);
    assert_true(fg_slice_is(slow.blocks[0]->blocks.tenant, "a"));
    assert_true(fg_slice_is(slow.blocks[1]->blocks.tenant, "b"));

    fg_snapshot_begin(&slow, 0, true, 4);
    fg_snapshot_failed(&slow, &err);
    assert_int_equal(slow.state, FG_SNAPSHOT_FAILED);
    assert_string_equal(slow.err.msg, "away");
    fg_snapshot_done(&slow);
    fg_snapshot_done(&quick);
    fg_manifests_destroy(manifests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_l0_manifest_is_read_first),
        cmocka_unit_test(a_lost_manifest_of_a_tenant_fails_the_snapshot),
        cmocka_unit_test(a_newer_l0_manifest_is_read_if_needed),
        cmocka_unit_test(an_expired_cache_is_read_again),
        cmocka_unit_test(a_tenant_that_covers_more_makes_l0_be_read_again),
        cmocka_unit_test(crossing_snapshots_take_the_newest_manifests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
