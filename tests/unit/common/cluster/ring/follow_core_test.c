#include "common/cluster/ring/follow_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_ring_follow_config config = {
    .poll_ns = 1000, .backoff_min_ns = 100, .backoff_max_ns = 300, .seed = 1};

static struct fg_ring_follow_effects step(struct fg_ring_follow *follow,
                                          enum fg_ring_follow_event_kind kind, int64_t mono_ns,
                                          uint64_t revision)
{
    const struct fg_ring_follow_event event = {
        .kind = kind, .mono_ns = mono_ns, .revision = revision, .swaps = revision};
    struct fg_ring_follow_effects effects;

    fg_ring_follow_step(follow, &event, &effects);
    return effects;
}

static void an_old_copy_is_read_again(void **state)
{
    struct fg_ring_follow follow;
    struct fg_ring_follow_effects effects;

    (void)state;
    fg_ring_follow_init(&follow, &config);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 0, 0).read); /* at once, the first time */
    assert_false(step(&follow, FG_RING_FOLLOW_TICK, 1, 0).read);
    effects = step(&follow, FG_RING_FOLLOW_READ, 50, 3);
    assert_true(effects.take);
    assert_false(effects.read);
    assert_int_equal(effects.wake_mono_ns, 1050);
    assert_false(step(&follow, FG_RING_FOLLOW_TICK, 1049, 0).read);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 1050, 0).read);
}

static void a_wanted_revision_is_read_at_once(void **state)
{
    struct fg_ring_follow follow;
    struct fg_ring_follow_effects effects;

    (void)state;
    fg_ring_follow_init(&follow, &config);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 0, 0).read);
    (void)step(&follow, FG_RING_FOLLOW_READ, 0, 3);
    assert_false(step(&follow, FG_RING_FOLLOW_WANTED, 10, 3).read); /* known */
    assert_true(step(&follow, FG_RING_FOLLOW_WANTED, 10, 4).read);
    assert_true(step(&follow, FG_RING_FOLLOW_READ, 20, 4).take);
    assert_true(step(&follow, FG_RING_FOLLOW_WANTED, 21, 5).read);

    /* One that does not come is not asked for without end. */
    assert_false(step(&follow, FG_RING_FOLLOW_READ, 30, 4).read);
    effects = step(&follow, FG_RING_FOLLOW_WANTED, 31, 999);
    assert_false(effects.read);
    assert_int_equal(effects.wake_mono_ns, 130);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 130, 0).read);
}

/* A ticket's read begins after it was given, whatever is under way. */
static void tickets_wait_for_a_later_read(void **state)
{
    struct fg_ring_follow follow;
    uint64_t ticket;

    (void)state;
    fg_ring_follow_init(&follow, &config);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 0, 0).read);
    ticket = fg_ring_follow_ticket(&follow);
    assert_int_equal(fg_ring_follow_ticket(&follow), ticket); /* one read for all who wait */
    assert_false(step(&follow, FG_RING_FOLLOW_TICK, 1, 0).read);
    assert_true(step(&follow, FG_RING_FOLLOW_READ, 2, 3).read);
    assert_true(follow.ended < ticket);
    assert_false(step(&follow, FG_RING_FOLLOW_READ, 3, 3).read);
    assert_true(follow.ended >= ticket && follow.ended_well >= ticket);

    ticket = fg_ring_follow_ticket(&follow);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 4, 0).read);
    assert_false(step(&follow, FG_RING_FOLLOW_FAILED, 5, 0).read);
    assert_true(follow.ended >= ticket && follow.ended_well < ticket);
    (void)fg_ring_follow_ticket(&follow);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 5, 0).read); /* without the pause */
}

static void failed_reads_back_off(void **state)
{
    struct fg_ring_follow follow;
    int64_t mono_ns = 0;

    (void)state;
    fg_ring_follow_init(&follow, &config);
    for (int i = 0; i < 50; i++) {
        struct fg_ring_follow_effects effects;

        assert_true(step(&follow, FG_RING_FOLLOW_TICK, mono_ns, 0).read);
        mono_ns++;
        effects = step(&follow, FG_RING_FOLLOW_FAILED, mono_ns, 0);
        if (!effects.read) {
            assert_in_range(effects.wake_mono_ns, mono_ns, mono_ns + 300);
            assert_false(step(&follow, FG_RING_FOLLOW_WANTED, effects.wake_mono_ns - 1, 9).read);
            mono_ns = effects.wake_mono_ns;
        } else { /* the pause was nothing at all */
            assert_false(step(&follow, FG_RING_FOLLOW_READ, mono_ns, 0).read);
            mono_ns += 1000;
        }
    }
}

/* Older than the copy: not ours any more. */
static void an_older_ring_is_not_taken(void **state)
{
    struct fg_ring_follow follow;
    struct fg_ring_follow_effects effects;

    (void)state;
    fg_ring_follow_init(&follow, &config);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 0, 0).read);
    assert_true(step(&follow, FG_RING_FOLLOW_READ, 0, 3).take);
    assert_true(step(&follow, FG_RING_FOLLOW_TICK, 1000, 0).read);
    effects = step(&follow, FG_RING_FOLLOW_READ, 1000, 2);
    assert_false(effects.take);
    assert_int_equal(follow.revision, 3);
    assert_int_equal(follow.ended_well, 1);
    assert_int_equal(follow.ended, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_copy_is_read_again),
        cmocka_unit_test(a_wanted_revision_is_read_at_once),
        cmocka_unit_test(tickets_wait_for_a_later_read),
        cmocka_unit_test(failed_reads_back_off),
        cmocka_unit_test(an_older_ring_is_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
