/* The step core by itself: when it cuts, what it asks for, what it refuses. That it is right
 * whatever happens is shown by tests/sim. */
#include "tests/unit/ingester/segments_core_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void closed_window_is_cut(void **state)
{
    struct run run = run_begin();
    struct ing_head_group_key key = group_of(1000);
    uint64_t least;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 10), SEGMENTS_ADMIT);
    run_wait(&run,
             5 * FG_MINUTE_NS + FG_MINUTE_NS - FG_SECOND_NS); /* its end, and nearly the grace */
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    run_tick(&run, 4 * FG_MINUTE_NS); /* but it has lingered for less than ten minutes */
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    run_event(&run, SEGMENTS_MANIFEST);
    run_tick(&run, FG_MINUTE_NS);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->cut, 1);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 1);
    run_event(&run, SEGMENTS_MANIFEST);
    run_event(&run, SEGMENTS_SEALED);
    assert_non_null(run_wants(&run, SEGMENTS_UPLOAD));

    /* Readers see it until their snapshot has it. */
    assert_int_equal(ing_segments_core_fence(run.core, 0, &least), SEGMENTS_SERVE);
    assert_true(ing_segments_core_shows(run.core, &key, 0, 0));
    run_enter(&run, &run_wants(&run, SEGMENTS_UPLOAD)->id,
              1000); /* as if by a swap of an earlier life */
    assert_int_equal(ing_segments_core_fence(run.core, 1, &least), SEGMENTS_BEHIND);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_WANTED, .generation = 1});
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(ing_segments_core_fence(run.core, 1, &least), SEGMENTS_SERVE);
    assert_false(ing_segments_core_shows(run.core, &key, 0, 1));
    assert_true(ing_segments_core_shows(run.core, &key, 0, 0));
    run_event(&run, SEGMENTS_UPLOADED); /* nobody needs it any more */
    assert_non_null(run_wants(&run, SEGMENTS_MARK));
    run_end(&run);
}

static void cut_bytes_open_make_a_cut(void **state)
{
    struct run run = run_begin();

    (void)state;
    assert_int_equal(run_push(&run, 1001, 600), SEGMENTS_ADMIT);
    assert_int_equal(run_push(&run, 1000, 600), SEGMENTS_ADMIT);
    assert_int_equal(run_push(&run, 1002, 1), SEGMENTS_ADMIT);
    run_tick(&run, FG_SECOND_NS);
    /* The oldest windows first, and no more than makes a segment. */
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 2);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->chunks[0]->group.window, 1000);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->chunks[1]->group.window, 1001);
    run_commit(&run, 1001);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_COMMITTED], 2);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_OPEN], 1);
    assert_int_equal(ing_segments_core_status(run.core).last_cut, 1);
    run_end(&run);
}

/* What was there at the request is cut and committed, and later profiles do not delay its end. */
static void drain_commits_what_was_there(void **state)
{
    struct run run = run_begin();

    (void)state;
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_int_equal(ing_segments_core_status(run.core).drained, 1); /* there is nothing */
    assert_int_equal(run_push(&run, 1001, 1), SEGMENTS_ADMIT);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 2});
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 1);
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT); /* of an older window even */
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 4});
    assert_int_equal(ing_segments_core_status(run.core).drained, 1);
    run_event(&run, SEGMENTS_SEALED);
    assert_int_equal(run_push(&run, 1001, 1), SEGMENTS_ADMIT);
    assert_int_equal(run_push(&run, 999, 2000), SEGMENTS_ADMIT); /* more than a segment's size */
    assert_int_equal(ing_segments_core_status(run.core).drained, 1);
    run_commit_upload(&run, 1001);
    assert_int_equal(ing_segments_core_status(run.core).drained, 3);
    /* The next cut takes everything; what is waited for comes first. */
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->chunks[0]->group.window, 1000);
    run_commit(&run, 1000);
    assert_int_equal(ing_segments_core_status(run.core).drained, 4);
    run_end(&run);
}

/* A swap whose answer is lost is tried again after a pause. If it had arrived after all, the chunks
 * are marked in the step that learns of it, since readers may know the segment from then on. */
static void a_pause_of_the_swap_does_not_hold_up_the_mark(void **state)
{
    struct run run = run_begin();
    struct fg_segment_id id;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    run_event(&run, SEGMENTS_SEALED);
    id = run_wants(&run, SEGMENTS_UPLOAD)->id;
    run_event(&run, SEGMENTS_UPLOADED);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_non_null(run_wants(&run, SEGMENTS_SWAP));
    run_failed(&run, SEGMENTS_SWAP);
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_event(&run, SEGMENTS_MANIFEST);
    assert_null(run_wants(&run, SEGMENTS_SWAP));
    run_enter(&run, &id, 1000);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_WANTED, .generation = 1});
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(ing_segments_core_status(run.core).gen, 1);
    assert_non_null(run_wants(&run, SEGMENTS_MARK));
    run_event(&run, SEGMENTS_MARKED);
    assert_int_equal(ing_segments_core_status(run.core).drained, 1);
    run_end(&run);
}

static uint64_t drained_at(const struct run *run, uint64_t drain)
{
    const struct ing_segments_core_status status = ing_segments_core_status(run->core);

    assert_int_equal(status.drained, drain);
    return status.drained_at;
}

/* Readers who are told that it is drained no longer ask this head, so their snapshot has to have
 * all that it held. */
static void drained_at_covers_every_commit(void **state)
{
    struct fg_segment_id other = {{9, 9}, 1, 1};
    struct run run = run_begin();
    struct fg_segment_id id;
    uint64_t least;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    run_event(&run, SEGMENTS_SEALED);
    id = run_wants(&run, SEGMENTS_UPLOAD)->id;
    run_event(&run, SEGMENTS_UPLOADED);
    run_event(&run, SEGMENTS_MANIFEST);
    run_enter(&run, &id, 1000); /* generation 1 */
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT);
    run_enter(&run, &other, 1000); /* generation 2, before the manifest is read again */
    run_event(&run, SEGMENTS_SWAPPED);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_non_null(run_wants(&run, SEGMENTS_COMPARE)); /* the later profile, with 2 */
    assert_non_null(run_wants(&run, SEGMENTS_MARK));
    run_event(&run, SEGMENTS_MARKED);
    assert_int_equal(ing_segments_core_status(run.core).gen, 0);
    assert_true(drained_at(&run, 1) >= 1);

    /* A push was answered because of an object that is newer than any manifest read here. */
    ing_segments_core_found(run.core, 7);
    assert_int_equal(ing_segments_core_fence(run.core, 0, &least), SEGMENTS_STALE);
    assert_true(drained_at(&run, 1) >= 7);
    run_end(&run);
}

/* A restart does not know at which generations earlier starts committed what they have evicted. */
static void drain_waits_for_the_first_manifest(void **state)
{
    struct run run = run_create(0);
    struct fg_segment_id own = {run_config.writer, 1, 1};

    (void)state;
    run_enter(&run, &own, 1000);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    assert_int_equal(ing_segments_core_status(run.core).drained, 0);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_true(drained_at(&run, 1) >= 1);
    run_end(&run);
}

/* Two programs run with copies of one disk, and so with the id of one store. Whoever finds a cut of
 * it in the manifest that it did not make has what is sealed here in no segment. */
static void cut_of_a_copy_is_not_taken_for_our_own(void **state)
{
    const struct fg_segment_id theirs = {run_config.writer, 1, 4711};
    struct run run = run_begin();
    struct fg_segment_id ours;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    run_event(&run, SEGMENTS_SEALED); /* as cut 1 */
    ours = run_wants(&run, SEGMENTS_UPLOAD)->id;
    assert_int_equal(ours.cut, 1);
    run_enter(&run, &theirs, 1000);
    run_event(&run, SEGMENTS_UPLOADED);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_COMMITTED], 0);
    assert_int_equal(ing_segments_core_status(run.core).drained, 0);
    /* So that a restart does not believe it either. */
    assert_int_equal(run_wants(&run, SEGMENTS_SET_ASIDE)->n_chunks, 1);
    run_event(&run, SEGMENTS_IS_ASIDE);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_ASIDE], 1);
    /* Their segment may have profiles of ours. */
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_COPIED);
    run_end(&run);
}

/* The other one was faster by a cut. */
static void later_cut_of_a_copy_stops_pushes(void **state)
{
    const struct fg_segment_id theirs = {run_config.writer, 1, 4711};
    struct ing_head_group_key key = group_of(1000);
    struct run run = run_begin();
    uint32_t chunk;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT);
    run_enter(&run, &theirs, 1000);
    run_wait(&run, FG_MINUTE_NS);
    assert_true(ing_segments_core_status(run.core).copied);
    assert_int_equal(run_admit(run.core, &key, 9, &chunk), SEGMENTS_COPIED);
    assert_non_null(run_wants(&run, SEGMENTS_COMPARE));
    assert_true(run_wants(&run, SEGMENTS_COMPARE)->all);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    for (int i = 0; i < 3; i++) {
        assert_null(run_wants(&run, SEGMENTS_SEAL)); /* under a number that the other one may use */
        assert_null(run_wants(&run, SEGMENTS_REPORT));
        run_wait(&run, FG_MINUTE_NS);
    }
    assert_int_equal(ing_segments_core_status(run.core).drained, 0);
    assert_true(ing_segments_core_shows(run.core, &key, 0, 1)); /* it is served */
    run_end(&run);
}

/* As long as the window is open its committed chunks stay: ordinary data needs no look at blocks.
 */
static void late_ids_need_a_lookup(void **state)
{
    struct run run = run_begin();
    struct ing_head_group_key key = group_of(1000), other = group_of(10);
    uint32_t chunk;
    uint64_t least;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 2000), SEGMENTS_ADMIT);
    run_tick(&run, FG_SECOND_NS);
    run_commit(&run, 1000);
    assert_int_equal(ing_segments_core_seen(run.core), 1);
    assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_ADMIT);
    assert_int_equal(chunk, 1);
    /* Another group that some segment may contain. */
    assert_int_equal(run_admit(run.core, &other, 0, &chunk), SEGMENTS_LOOK_UP);
    assert_int_equal(run_admit(run.core, &other, 1, &chunk), SEGMENTS_ADMIT);

    run_wait(&run, 5 * FG_MINUTE_NS + 2 * FG_SECOND_NS);
    assert_null(run_wants(&run, SEGMENTS_EVICT));
    assert_int_equal(ing_segments_core_fence(run.core, 0, &least), SEGMENTS_SERVE);
    run_tick(&run, FG_MINUTE_NS);
    assert_non_null(run_wants(&run, SEGMENTS_EVICT));
    assert_int_equal(ing_segments_core_fence(run.core, 0, &least), SEGMENTS_STALE);
    assert_int_equal(least, 1);
    run_failed(&run, SEGMENTS_EVICT); /* and may be done all the same */
    assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_LOOK_UP);
    run_tick(&run, FG_MINUTE_NS);
    assert_non_null(run_wants(&run, SEGMENTS_EVICT));
    run_event(&run, SEGMENTS_EVICTED);
    assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_LOOK_UP);
    assert_int_equal(run_admit(run.core, &key, 1, &chunk), SEGMENTS_ADMIT);

    ing_segments_core_found(run.core, 9);
    assert_int_equal(ing_segments_core_fence(run.core, 1, &least), SEGMENTS_STALE);
    assert_int_equal(least, 9);
    run_end(&run);
}

static void failed_effects_are_retried(void **state)
{
    struct run run = run_begin();
    struct fg_segment_id first;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 2000), SEGMENTS_ADMIT);
    run_tick(&run, FG_SECOND_NS);
    run_failed(&run, SEGMENTS_SEAL);
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT); /* still into the same chunk */
    run_tick(&run, FG_MINUTE_NS);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->cut, 1); /* the same number */
    run_event(&run, SEGMENTS_MANIFEST);
    run_event(&run, SEGMENTS_SEALED);
    assert_non_null(run_wants(&run, SEGMENTS_UPLOAD));
    run_failed(&run, SEGMENTS_UPLOAD);
    assert_null(run_wants(&run, SEGMENTS_UPLOAD));
    run_tick(&run, FG_MINUTE_NS);                  /* the pause is over */
    assert_null(run_wants(&run, SEGMENTS_UPLOAD)); /* the manifest that is read may have the cut */
    run_event(&run, SEGMENTS_MANIFEST);
    assert_non_null(run_wants(&run, SEGMENTS_UPLOAD));
    run_end(&run);

    /* Another name each time; an upload that waited too long is done again, also if the machine
     * slept meanwhile. */
    for (int asleep = 0; asleep < 2; asleep++) {
        run = run_begin();
        assert_int_equal(run_push(&run, 1000, 2000), SEGMENTS_ADMIT);
        run_tick(&run, FG_SECOND_NS);
        run_event(&run, SEGMENTS_SEALED);
        first = run_wants(&run, SEGMENTS_UPLOAD)->id;
        run_event(&run, SEGMENTS_UPLOADED);
        run_failed(&run, SEGMENTS_READ);
        run.slept_ns = asleep * 2 * FG_HOUR_NS;
        run_tick(&run, asleep ? FG_MINUTE_NS : 2 * FG_HOUR_NS);
        run_event(&run, SEGMENTS_MANIFEST);
        assert_non_null(run_wants(&run, SEGMENTS_UPLOAD));
        assert_int_equal(run_wants(&run, SEGMENTS_UPLOAD)->id.cut, first.cut);
        assert_int_not_equal(run_wants(&run, SEGMENTS_UPLOAD)->id.nonce, first.nonce);
        run_end(&run);
    }
}

/* A generation that somebody waits for, and that does not come. */
static void wanted_generation_is_read_soon(void **state)
{
    const struct ing_segments_event never = {.kind = SEGMENTS_WANTED, .generation = 999};
    struct run run = run_begin();

    (void)state;
    run_step(&run, never);
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_event(&run, SEGMENTS_MANIFEST);
    assert_null(run_wants(&run, SEGMENTS_READ));
    run_step(&run, never); /* it is not read for without end */
    assert_null(run_wants(&run, SEGMENTS_READ));
    assert_int_equal(run.effects.wake_mono_ns, run.now_ns + FG_SECOND_NS);
    run_tick(&run, FG_SECOND_NS);
    assert_non_null(run_wants(&run, SEGMENTS_READ));

    /* The read that is under way may have begun too early for the next one. */
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_WANTED, .generation = 1000});
    run.l0.generation = 999;
    run_event(&run, SEGMENTS_MANIFEST);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_WANTED, .generation = 1000});
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_end(&run);
}

/* While nothing can be read, nothing is due but the next attempt; it comes within a second if a
 * query waits, whose querier has read the manifest. */
static void no_busy_loop_while_effects_fail(void **state)
{
    const struct ing_segments_event wanted_9 = {.kind = SEGMENTS_WANTED, .generation = 9};
    struct run run = run_create(0);

    (void)state;
    run_tick(&run, 0);
    for (int i = 0; i < 50; i++) {
        assert_non_null(run_wants(&run, SEGMENTS_READ));
        run_failed(&run, SEGMENTS_READ);
        while (run_wants(&run, SEGMENTS_READ) == NULL) {
            assert_in_range(run.effects.wake_mono_ns, run.now_ns + 1, run.now_ns + FG_MINUTE_NS);
            if (i >= 25) {
                run_step(&run, wanted_9);
                assert_null(run_wants(&run, SEGMENTS_READ));
                assert_in_range(run.effects.wake_mono_ns, run.now_ns + 1,
                                run.now_ns + FG_SECOND_NS);
            }
            run_tick(&run, run.effects.wake_mono_ns - run.now_ns);
        }
    }
    run_end(&run);
}

static void rank(struct run *run, uint8_t rank)
{
    uint8_t ranks[SEGMENTS_SHARDS];

    memset(ranks, rank, sizeof ranks);
    run_step(run, (struct ing_segments_event){.kind = SEGMENTS_RANKS, .ranks = ranks});
}

/* Others are before us: we wait for their turns, but not with a drain, nor for ever. */
static void later_ranks_wait_for_their_turn(void **state)
{
    struct run run = run_begin();

    (void)state;
    rank(&run, 2);
    assert_int_equal(run_push(&run, 1000, 2000), SEGMENTS_ADMIT); /* two sizes of a segment */
    run_wait(&run, 11 * FG_MINUTE_NS);                            /* closed, and has lingered */
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    run_wait(&run, 5 * FG_MINUTE_NS - FG_SECOND_NS);
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    run_tick(&run, 2 * FG_SECOND_NS);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 1);
    run_end(&run);

    run = run_begin();
    rank(&run, 2);
    assert_int_equal(run_push(&run, 1000, 3999), SEGMENTS_ADMIT);
    run_tick(&run, FG_SECOND_NS);
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT); /* its turn has not come */
    run_tick(&run, FG_SECOND_NS);
    assert_non_null(run_wants(&run, SEGMENTS_SEAL));
    run_end(&run);

    run = run_begin();
    rank(&run, 1);
    assert_int_equal(run_push(&run, 1000, 2000), SEGMENTS_ADMIT);
    run_tick(&run, FG_SECOND_NS);
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    rank(&run, 0); /* the ring has changed */
    assert_non_null(run_wants(&run, SEGMENTS_SEAL));
    run_end(&run);

    run = run_begin();
    rank(&run, 1);
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_non_null(run_wants(&run, SEGMENTS_SEAL));
    run_end(&run);
}

/* Failed writes that left nothing: nothing is uploaded. A manifest that goes back: nothing more is
 * done. */
static void empty_upload_and_older_manifest_are_handled(void **state)
{
    struct run run = run_begin();
    struct fg_segment_id id;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 2000), SEGMENTS_ADMIT);
    run_tick(&run, FG_SECOND_NS);
    run_event(&run, SEGMENTS_SEALED);
    id = run_wants(&run, SEGMENTS_UPLOAD)->id;
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_UPLOADED, .nothing = true});
    assert_non_null(run_wants(&run, SEGMENTS_MARK));
    run_event(&run, SEGMENTS_MARKED);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_COMMITTED], 1);
    run_event(&run, SEGMENTS_MANIFEST); /* it was asked for with the upload */

    run_enter(&run, &id, 1000);
    run_wait(&run, FG_MINUTE_NS);
    assert_int_equal(ing_segments_core_status(run.core).gen, 1);
    run.l0 = fg_l0_none();
    run_wait(&run, FG_MINUTE_NS);
    assert_true(ing_segments_core_status(run.core).went_back);
    assert_int_equal(ing_segments_core_status(run.core).gen, 1);

    run_end(&run);
}

/* Chunks that got nothing go after a while; what was admitted to one all the same is counted. */
static void empty_chunks_are_removed(void **state)
{
    struct run run = run_begin();
    struct ing_head_group_key key;
    uint32_t chunk = 0;

    (void)state;
    for (uint32_t i = 0; i < run_config.chunks_max; i++) {
        key = group_of(2000 + i);
        assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_ADMIT);
    }
    assert_int_equal(run_push(&run, 3000, 1), SEGMENTS_FULL);
    run_wait(&run, 11 * FG_MINUTE_NS);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_OPEN], 0);
    ing_segments_core_added(run.core, &key, chunk, false, 1, 10, RUN_START_WALL_NS + run.now_ns);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_OPEN], 1);
    assert_int_equal(run_push(&run, 3000, 1), SEGMENTS_ADMIT);
    run_wait(&run, 11 * FG_MINUTE_NS);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_OPEN], 2);
    run_end(&run);
}

/* A group whose only push was refused is not whole: later pushes need a lookup, and segments of
 * others are not compared with it. */
static void refused_push_does_not_make_its_group_whole(void **state)
{
    const struct fg_segment_id others = {.writer = {8, 8}, .cut = 1, .nonce = 1};
    struct run run = run_begin();
    struct ing_head_group_key key = group_of(1000);
    uint32_t chunk;

    (void)state;
    assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_ADMIT);
    run_enter(&run, &others, 1000);
    run_wait(&run, run_config.poll_ns);
    assert_non_null(run_wants(&run, SEGMENTS_COMPARE));
    assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_LOOK_UP);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_int_equal(ing_segments_core_status(run.core).gen, 1);
    assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_LOOK_UP);
    assert_int_equal(run_admit(run.core, &key, 1, &chunk), SEGMENTS_ADMIT);
    run_end(&run);
}

/* Hands in that a profile of ten bytes was found in the bucket, and moved to a committed chunk. */
static void find_one(struct run *run, uint32_t to, bool more)
{
    const struct ing_segments_outcome outcome = {
        .group = group_of(1000), .split = true, .to = to, .moved_profiles = 1, .moved_bytes = 10};
    const struct ing_head_group_key missing = group_of(1000);

    run_step(run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED,
                                              .generation = 1,
                                              .more = more,
                                              .outcomes = &outcome,
                                              .n_outcomes = 1,
                                              .missing = &missing,
                                              .n_missing = more});
}

/* Each part of a comparison is true by itself; only the last one makes the head agree. */
static void part_of_a_compare_does_not_end_it(void **state)
{
    const struct fg_segment_id others = {.writer = {8, 8}, .cut = 1, .nonce = 1};
    const struct ing_head_group_key key = group_of(1000);
    struct run run = run_begin();
    uint64_t least;
    uint32_t to;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_push(&run, 1000, 10), SEGMENTS_ADMIT);
    run_enter(&run, &others, 1000);
    run_wait(&run, run_config.poll_ns);
    assert_non_null(run_wants(&run, SEGMENTS_COMPARE));
    to = ing_segments_core_split(run.core, &key);
    assert_int_not_equal(to, ing_segments_core_leftover(run.core, &key, 0));
    find_one(&run, to, true);
    assert_null(run_wants(&run, SEGMENTS_COMPARE));
    assert_int_equal(ing_segments_core_status(run.core).gen, 0);
    assert_int_equal(ing_segments_core_status(run.core).open_bytes, 20);
    assert_int_equal(ing_segments_core_fence(run.core, 0, &least), SEGMENTS_SERVE);
    assert_int_equal(ing_segments_core_fence(run.core, 1, &least), SEGMENTS_BEHIND);
    assert_true(ing_segments_core_shows(run.core, &key, to, 0));
    assert_false(ing_segments_core_shows(run.core, &key, to, 1));
    assert_true(ing_segments_core_shows(run.core, &key, 0, 1));
    /* The comparison does not look at these any more. */
    assert_int_equal(run_push(&run, 1000, 10), SEGMENTS_LOOK_UP);
    /* A cut may begin, but not enter the manifest. */
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 1);
    run_event(&run, SEGMENTS_SEALED);
    run_event(&run, SEGMENTS_UPLOADED);
    assert_null(run_wants(&run, SEGMENTS_SWAP));

    run_failed(&run, SEGMENTS_COMPARE);
    run_wait(&run, FG_MINUTE_NS);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(run_wants(&run, SEGMENTS_COMPARE)->generation, 1);
    find_one(&run, to, false);
    assert_int_equal(ing_segments_core_status(run.core).gen, 1);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_COMMITTED], 1);
    assert_int_equal(ing_segments_core_status(run.core).sealed_bytes, 10);
    /* Without what was found in the meantime. */
    assert_non_null(run_wants(&run, SEGMENTS_UPLOAD));
    run_end(&run);
}

/* A sealed chunk of an earlier life: in the manifest or not. */
static void restart_resumes_a_sealed_cut(void **state)
{
    struct ing_segments_chunk sealed = {.group = group_of(1000),
                                        .number = 3,
                                        .state = CHUNK_SEALED,
                                        .cut = 5,
                                        .profiles = 1,
                                        .bytes = 1};
    const struct fg_segment_id id = {run_config.writer, 5, 1};

    (void)state;
    for (int entered = 0; entered < 2; entered++) {
        struct run run = run_create(5);
        struct ing_head_group_key key = sealed.group;
        uint64_t least;
        uint32_t chunk;

        assert_true(ing_segments_core_restore(run.core, &sealed));
        if (entered == 1)
            run_enter(&run, &id, 1000);
        run_tick(&run, 0);
        assert_null(run_wants(&run, SEGMENTS_UPLOAD)); /* the manifest first */
        assert_int_equal(ing_segments_core_fence(run.core, 0, &least), SEGMENTS_BEHIND);
        assert_int_equal(run_admit(run.core, &key, 0, &chunk), SEGMENTS_ADMIT);
        assert_int_equal(chunk, 4);
        run_event(&run, SEGMENTS_MANIFEST);
        if (entered == 1)
            assert_int_equal(run_wants(&run, SEGMENTS_MARK)->chunks[0]->generation, 1);
        else
            assert_int_equal(run_wants(&run, SEGMENTS_UPLOAD)->n_chunks, 1);
        run_end(&run);
    }
}

static void ask(struct run *run)
{
    bool changed;

    fg_l0_ask(&run->l0, run->l0.asked + 1, &run->l0, &changed);
    assert_true(changed);
    run_wait(run, FG_MINUTE_NS); /* past the next read */
}

static void report(struct run *run, uint64_t clean)
{
    struct fg_err err;
    bool changed;

    assert_non_null(run_wants(run, SEGMENTS_REPORT));
    assert_int_equal(run_wants(run, SEGMENTS_REPORT)->clean, clean);
    assert_int_equal(
        fg_l0_clean(&run->l0, run_config.writer, clean, run->arena, &run->l0, &changed, &err),
        FG_OK);
    run_event(run, SEGMENTS_REPORTED);
    assert_non_null(run_wants(run, SEGMENTS_READ)); /* only the manifest is believed */
    run_event(run, SEGMENTS_MANIFEST);
    run_wait(run, FG_MINUTE_NS);
    assert_null(run_wants(run, SEGMENTS_REPORT));
}

/* What was there at the request is committed and evicted before it is reported; later profiles do
 * not matter. */
static void clean_era_is_reported(void **state)
{
    struct run run = run_begin();

    (void)state;
    run_wait(&run, FG_MINUTE_NS);
    assert_null(run_wants(&run, SEGMENTS_REPORT)); /* nobody asked */
    ask(&run);
    report(&run, 1); /* there is nothing */

    assert_int_equal(run_push(&run, 999, 2000), SEGMENTS_ADMIT);
    ask(&run);
    assert_null(run_wants(&run, SEGMENTS_REPORT));
    assert_int_equal(run_push(&run, 1001, 1), SEGMENTS_ADMIT);
    run_event(&run, SEGMENTS_SEALED);
    run_event(&run, SEGMENTS_UPLOADED);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(run_wants(&run, SEGMENTS_SWAP)->clean, 1);
    run_enter(&run, &run_wants(&run, SEGMENTS_SWAP)->id, 999);
    run_event(&run, SEGMENTS_SWAPPED);
    run_event(&run, SEGMENTS_MANIFEST);
    run_event(&run, SEGMENTS_MARKED);
    run_wait(&run, FG_MINUTE_NS);
    assert_null(run_wants(&run, SEGMENTS_REPORT));
    run_wait(&run, 5 * FG_MINUTE_NS);
    run_tick(&run, FG_SECOND_NS);
    assert_non_null(run_wants(&run, SEGMENTS_EVICT));
    run_event(&run, SEGMENTS_MANIFEST);
    run_event(&run, SEGMENTS_EVICTED);
    run_tick(&run, FG_SECOND_NS);
    report(&run, 2);

    /* A bucket that does not answer is asked again, after a pause. */
    ask(&run);
    assert_null(run_wants(&run, SEGMENTS_REPORT));
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    run_commit(&run, 1001);
    assert_null(run_wants(&run, SEGMENTS_REPORT));
    run_wait(&run, FG_HOUR_NS);
    run_tick(&run, FG_SECOND_NS);
    assert_non_null(run_wants(&run, SEGMENTS_EVICT));
    run_event(&run, SEGMENTS_EVICTED);
    assert_non_null(run_wants(&run, SEGMENTS_REPORT));
    run_failed(&run, SEGMENTS_REPORT);
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_event(&run, SEGMENTS_MANIFEST);
    run_wait(&run, FG_SECOND_NS);
    report(&run, 3);
    run_end(&run);
}

/* While the bucket is unreachable, queries use an older manifest, so nothing newer may be evicted.
 */
static void nothing_is_evicted_while_the_bucket_is_unreachable(void **state)
{
    struct run run = run_begin();

    (void)state;
    assert_int_equal(run_push(&run, 999, 1), SEGMENTS_ADMIT);
    run_wait(&run, 10 * FG_MINUTE_NS);
    run_commit(&run, 999);
    for (int i = 0; i < 60; i++) {
        run_tick(&run, FG_MINUTE_NS);
        assert_null(run_wants(&run, SEGMENTS_EVICT));
        if (run_wants(&run, SEGMENTS_READ) != NULL)
            run_failed(&run, SEGMENTS_READ);
    }
    run_tick(&run, FG_HOUR_NS);
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_event(&run, SEGMENTS_MANIFEST);
    run_tick(&run, FG_SECOND_NS);
    assert_non_null(run_wants(&run, SEGMENTS_EVICT));
    run_end(&run);
}

static bool is_pinned(void *arg, const struct ing_head_group_key *group)
{
    const struct ing_head_group_key *pinned = arg;

    return ing_head_same_group(pinned, group);
}

/* Something else needs it in the head. Readers see no difference to a chunk that is evicted, pushes
 * none to one whose time has not come. */
static void pinned_chunk_is_not_evicted_until_it_is_pinned_no_more(void **state)
{
    struct ing_segments_core_config config = run_config;
    struct ing_head_group_key pinned = group_of(999);
    const struct ing_segments_effect *evict;
    struct run run;
    uint32_t chunk;
    uint64_t least;

    (void)state;
    config.pins = is_pinned;
    config.pins_arg = &pinned;
    run = (struct run){.core = ing_segments_core_create(&config, 0, 0),
                       .arena = fg_arena_create(1 << 20),
                       .l0 = fg_l0_none()};
    run_tick(&run, 0);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(run_push(&run, 999, 1), SEGMENTS_ADMIT);
    run_wait(&run, 10 * FG_MINUTE_NS);
    run_commit(&run, 999);
    for (int i = 0; i < 10; i++) {
        run_wait(&run, 10 * FG_MINUTE_NS);
        assert_null(run_wants(&run, SEGMENTS_EVICT));
    }
    assert_int_equal(ing_segments_core_fence(run.core, 0, &least), SEGMENTS_STALE);
    assert_int_equal(run_admit(run.core, &pinned, 0, &chunk), SEGMENTS_ADMIT);
    pinned = group_of(998);
    run_tick(&run, FG_SECOND_NS);
    evict = run_wants(&run, SEGMENTS_EVICT);
    assert_non_null(evict);
    assert_int_equal(evict->n_chunks, 1);
    assert_int_equal(evict->chunks[0]->group.window, 999);
    run_end(&run);
}

/* A start knows nothing of what it finds. */
static void restored_chunks_are_not_reported_clean(void **state)
{
    const struct ing_segments_chunk open = {.group = group_of(1000), .profiles = 1, .bytes = 1};
    struct run run = run_create(0);

    (void)state;
    assert_true(ing_segments_core_restore(run.core, &open));
    run_tick(&run, 0);
    run_event(&run, SEGMENTS_MANIFEST);
    ask(&run);
    assert_int_equal(ing_segments_core_status(run.core).era, 1);
    assert_null(run_wants(&run, SEGMENTS_REPORT));
    run_end(&run);
}

static uint64_t clean_of_outbox;

static uint64_t pins_clean(void *arg, uint64_t asked)
{
    (void)arg;
    assert_true(asked >= 1);
    return clean_of_outbox;
}

/* A deletion need not wait until a target of forwarding is back: who has pinned the chunk says that
 * nothing of it is needed which a deletion names. */
static void chunk_that_only_a_pin_keeps_counts_with_the_holder_of_the_pin(void **state)
{
    struct ing_segments_core_config config = run_config;
    struct ing_head_group_key pinned = group_of(999);
    struct run run;

    (void)state;
    clean_of_outbox = 0;
    config.pins = is_pinned;
    config.pins_clean = pins_clean;
    config.pins_arg = &pinned;
    run = (struct run){.core = ing_segments_core_create(&config, 0, 0),
                       .arena = fg_arena_create(1 << 20),
                       .l0 = fg_l0_none()};
    run_tick(&run, 0);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(run_push(&run, 999, 1), SEGMENTS_ADMIT);
    ask(&run);
    run_wait(&run, 10 * FG_MINUTE_NS);
    clean_of_outbox = 1; /* too early: readers still get the chunk */
    assert_null(run_wants(&run, SEGMENTS_REPORT));
    run_commit(&run, 999);
    assert_null(run_wants(&run, SEGMENTS_REPORT));
    clean_of_outbox = 0;
    run_wait(&run, 10 * FG_MINUTE_NS);
    for (int i = 0; i < 3; i++) {
        run_tick(&run, FG_SECOND_NS);
        assert_null(run_wants(&run, SEGMENTS_EVICT));
        assert_null(run_wants(&run, SEGMENTS_REPORT));
    }
    clean_of_outbox = 1;
    run_tick(&run, FG_SECOND_NS);
    report(&run, 1);
    run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_window_is_cut),
        cmocka_unit_test(cut_bytes_open_make_a_cut),
        cmocka_unit_test(late_ids_need_a_lookup),
        cmocka_unit_test(failed_effects_are_retried),
        cmocka_unit_test(empty_upload_and_older_manifest_are_handled),
        cmocka_unit_test(restart_resumes_a_sealed_cut),
        cmocka_unit_test(empty_chunks_are_removed),
        cmocka_unit_test(refused_push_does_not_make_its_group_whole),
        cmocka_unit_test(part_of_a_compare_does_not_end_it),
        cmocka_unit_test(drain_commits_what_was_there),
        cmocka_unit_test(a_pause_of_the_swap_does_not_hold_up_the_mark),
        cmocka_unit_test(drained_at_covers_every_commit),
        cmocka_unit_test(drain_waits_for_the_first_manifest),
        cmocka_unit_test(cut_of_a_copy_is_not_taken_for_our_own),
        cmocka_unit_test(later_cut_of_a_copy_stops_pushes),
        cmocka_unit_test(later_ranks_wait_for_their_turn),
        cmocka_unit_test(wanted_generation_is_read_soon),
        cmocka_unit_test(no_busy_loop_while_effects_fail),
        cmocka_unit_test(clean_era_is_reported),
        cmocka_unit_test(nothing_is_evicted_while_the_bucket_is_unreachable),
        cmocka_unit_test(pinned_chunk_is_not_evicted_until_it_is_pinned_no_more),
        cmocka_unit_test(chunk_that_only_a_pin_keeps_counts_with_the_holder_of_the_pin),
        cmocka_unit_test(restored_chunks_are_not_reported_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
