/* The step core by itself: chunks that cannot become a segment, and late profiles that cannot be
 * looked up. */
#include "tests/unit/ingester/segments_core_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- aside ---- */

/* The upload fails because of what the chunks of these windows hold, until chunks are set aside. */
static void fail_unfit(struct run *run, const uint32_t *windows, uint32_t n)
{
    struct ing_head_chunk_key suspects[4];

    for (uint32_t i = 0; i < n; i++)
        suspects[i] = (struct ing_head_chunk_key){group_of(windows[i]), 0};
    for (unsigned i = 0; i < SEGMENTS_TRIES; i++) {
        if (run_wants(run, SEGMENTS_UPLOAD) == NULL)
            run_wait(run, FG_MINUTE_NS);
        assert_non_null(run_wants(run, SEGMENTS_UPLOAD));
        run_step(run, (struct ing_segments_event){.kind = SEGMENTS_FAILED,
                                                  .failed = SEGMENTS_UPLOAD,
                                                  .unfit = true,
                                                  .suspects = suspects,
                                                  .n_suspects = n});
    }
    if (run_wants(run, SEGMENTS_SET_ASIDE) == NULL)
        run_wait(run, FG_MINUTE_NS);
    assert_non_null(run_wants(run, SEGMENTS_SET_ASIDE));
}

/* Seals chunks of two windows in one cut. */
static struct run seal_two(void)
{
    struct run run = run_begin();

    assert_int_equal(run_push(&run, 1000, 600), SEGMENTS_ADMIT);
    assert_int_equal(run_push(&run, 1001, 600), SEGMENTS_ADMIT);
    run_tick(&run, FG_SECOND_NS);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 2);
    run_event(&run, SEGMENTS_SEALED);
    return run;
}

static void unfit_chunks_do_not_stop_their_cut(void **state)
{
    const uint32_t unfit = 1000;
    struct run run = seal_two();
    struct ing_head_group_key key = group_of(unfit);
    struct ing_segments_core_status status;

    (void)state;
    fail_unfit(&run, &unfit, 1);
    assert_int_equal(run_wants(&run, SEGMENTS_SET_ASIDE)->n_chunks, 1);
    assert_int_equal(run_wants(&run, SEGMENTS_SET_ASIDE)->chunks[0]->group.window, unfit);
    run_failed(&run, SEGMENTS_SET_ASIDE); /* the disk fails: the same again */
    run_wait(&run, FG_MINUTE_NS);
    assert_non_null(run_wants(&run, SEGMENTS_SET_ASIDE));
    run_event(&run, SEGMENTS_IS_ASIDE);
    assert_int_equal(run_wants(&run, SEGMENTS_UPLOAD)->n_chunks, 1);
    assert_int_equal(run_wants(&run, SEGMENTS_UPLOAD)->chunks[0]->group.window, 1001);
    run_commit_upload(&run, 1001);
    status = ing_segments_core_status(run.core);
    assert_int_equal(status.chunks[CHUNK_ASIDE], 1);
    assert_int_equal(status.aside_profiles, 1);
    assert_int_equal(status.aside_bytes, 600);

    /* It is served for ever, and later profiles go to another chunk. */
    assert_true(ing_segments_core_shows(run.core, &key, 0, 1));
    assert_int_equal(run_push(&run, unfit, 2000), SEGMENTS_ADMIT);
    run_wait(&run, FG_SECOND_NS);
    run_commit(&run, unfit);
    assert_true(ing_segments_core_shows(run.core, &key, 0, 2));
    assert_false(ing_segments_core_shows(run.core, &key, 1, 2));

    /* After an hour it is tried again, and can be built this time. */
    run_wait(&run, FG_MINUTE_NS);
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    for (int i = 0; i < 62 && run_wants(&run, SEGMENTS_SEAL) == NULL; i++)
        run_wait(&run, FG_MINUTE_NS);
    if (run_wants(&run, SEGMENTS_EVICT) != NULL)
        run_event(&run, SEGMENTS_EVICTED);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 1);
    run_commit(&run, unfit);
    assert_false(ing_segments_core_shows(run.core, &key, 0, 3));
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_ASIDE], 0);
    run_end(&run);
}

/* Chunks without a key are set aside at once, do not raise what is for misfits, and are tried again
 * soon; a salvage gives up nothing of them. */
static void chunks_without_a_key_wait_alone(void **state)
{
    const struct ing_head_chunk_key keyless = {group_of(1000), 0};
    struct run run = seal_two();
    struct ing_segments_core_status status;

    (void)state;
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_FAILED,
                                               .failed = SEGMENTS_UPLOAD,
                                               .keyless = true,
                                               .suspects = &keyless,
                                               .n_suspects = 1});
    run_wait(&run, FG_MINUTE_NS);
    assert_int_equal(run_wants(&run, SEGMENTS_SET_ASIDE)->n_chunks, 1);
    assert_int_equal(run_wants(&run, SEGMENTS_SET_ASIDE)->chunks[0]->group.window, 1000);
    run_event(&run, SEGMENTS_IS_ASIDE);
    assert_int_equal(run_wants(&run, SEGMENTS_UPLOAD)->n_chunks, 1);
    run_commit_upload(&run, 1001);
    status = ing_segments_core_status(run.core);
    assert_int_equal(status.keyless, 1);
    assert_int_equal(status.keyless_profiles, 1);
    assert_int_equal(status.keyless_bytes, 600);
    assert_false(status.misfits);
    assert_true(ing_segments_core_shows(run.core, &keyless.group, 0, 1));

    run_event(&run, SEGMENTS_SALVAGE);
    run_wait(&run, FG_SECOND_NS);
    if (run_wants(&run, SEGMENTS_EVICT) != NULL)
        run_event(&run, SEGMENTS_EVICTED);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 1);
    run_event(&run, SEGMENTS_SEALED);
    assert_int_equal(ing_segments_core_status(run.core).keyless, 1); /* the condition stays */
    assert_false(run_wants(&run, SEGMENTS_UPLOAD)->salvage);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_FAILED,
                                               .failed = SEGMENTS_UPLOAD,
                                               .keyless = true,
                                               .suspects = &keyless,
                                               .n_suspects = 1});
    run_wait(&run, FG_MINUTE_NS);
    run_event(&run, SEGMENTS_IS_ASIDE);
    for (int i = 0; i < 6 && run_wants(&run, SEGMENTS_SEAL) == NULL; i++) /* not an hour */
        run_wait(&run, FG_MINUTE_NS);
    if (run_wants(&run, SEGMENTS_EVICT) != NULL)
        run_event(&run, SEGMENTS_EVICTED);
    run_commit(&run, 1000);
    assert_int_equal(ing_segments_core_status(run.core).keyless, 0);
    assert_false(ing_segments_core_shows(run.core, &keyless.group, 0, 2));
    run_end(&run);
}

/* One of four chunks cannot become a segment, and it is unknown which: all others do. */
static void unfit_chunks_are_found_by_halving_the_cut(void **state)
{
    struct run run = run_begin();
    uint32_t committed = 0;

    (void)state;
    for (uint32_t w = 1000; w < 1004; w++)
        assert_int_equal(run_push(&run, w, 300), SEGMENTS_ADMIT);
    for (int i = 0; i < 400 && committed < 3; i++) {
        const struct ing_segments_effect *upload;

        run_wait(&run, FG_SECOND_NS);
        if (run_wants(&run, SEGMENTS_SEAL) != NULL)
            run_event(&run, SEGMENTS_SEALED);
        if (run_wants(&run, SEGMENTS_SET_ASIDE) != NULL)
            run_event(&run, SEGMENTS_IS_ASIDE);
        upload = run_wants(&run, SEGMENTS_UPLOAD);
        for (uint32_t k = 0; upload != NULL && k < upload->n_chunks; k++)
            if (upload->chunks[k]->group.window == 1002) {
                run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_FAILED,
                                                           .failed = SEGMENTS_UPLOAD,
                                                           .unfit = true});
                upload = NULL;
            }
        if (upload != NULL) {
            committed += upload->n_chunks;
            run_commit_upload(&run, 1000);
        }
    }
    assert_int_equal(committed, 3);
    for (int i = 0; i < 60; i++) { /* the fourth is not tried again within an hour */
        run_wait(&run, FG_SECOND_NS);
        if (run_wants(&run, SEGMENTS_SEAL) != NULL)
            run_event(&run, SEGMENTS_SEALED);
        if (run_wants(&run, SEGMENTS_UPLOAD) != NULL)
            run_step(&run, (struct ing_segments_event){
                               .kind = SEGMENTS_FAILED, .failed = SEGMENTS_UPLOAD, .unfit = true});
        if (run_wants(&run, SEGMENTS_SET_ASIDE) != NULL)
            run_event(&run, SEGMENTS_IS_ASIDE);
    }
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_ASIDE], 1);
    assert_null(run_wants(&run, SEGMENTS_UPLOAD));
    run_end(&run);
}

/* A drain retries chunks that are set aside. It ends for a flush, which waits for all that can be
 * committed; not for the ring, whose readers still have to ask here. */
static void drain_retries_chunks_set_aside(void **state)
{
    const uint32_t unfit[] = {1000, 1001};
    struct run run = seal_two();

    (void)state;
    fail_unfit(&run, unfit, 2);
    run_event(&run, SEGMENTS_IS_ASIDE);
    run_wait(&run, FG_MINUTE_NS);
    assert_null(run_wants(&run, SEGMENTS_SEAL));
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 2);
    assert_int_equal(ing_segments_core_status(run.core).tried, 0);
    run_event(&run, SEGMENTS_SEALED);
    fail_unfit(&run, unfit, 1);
    run_event(&run, SEGMENTS_IS_ASIDE);
    assert_int_equal(ing_segments_core_status(run.core).tried, 0); /* the other one is on its way */
    run_commit_upload(&run, 1001);
    assert_int_equal(ing_segments_core_status(run.core).tried, 1);
    assert_int_equal(ing_segments_core_status(run.core).drained, 0);
    run_end(&run);
}

/*
 * The first upload of a cut is swapped in so late that its answer was given up; the second cannot
 * be built, and a chunk is set aside. When the manifest has the first one after all the chunk is in
 * it, so it has to be compared, or it is in answers twice.
 */
static void late_swap_of_chunks_set_aside_is_compared(void **state)
{
    const uint32_t unfit = 1000;
    struct run run = seal_two();
    struct fg_segment_id first = run_wants(&run, SEGMENTS_UPLOAD)->id;
    struct ing_segments_outcome outcome = {.group = group_of(unfit)};
    struct ing_head_group_key key = group_of(unfit);

    (void)state;
    run_event(&run, SEGMENTS_UPLOADED);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_non_null(run_wants(&run, SEGMENTS_SWAP));
    run_failed(&run, SEGMENTS_SWAP); /* nobody knows */
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run.now_ns += 2 * FG_HOUR_NS; /* the upload is too old by then */
    run_event(&run, SEGMENTS_MANIFEST);
    fail_unfit(&run, &unfit, 1);
    run_event(&run, SEGMENTS_IS_ASIDE);
    assert_non_null(run_wants(&run, SEGMENTS_UPLOAD));
    run_enter(&run, &first, 1000);
    run_event(&run, SEGMENTS_UPLOADED);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_non_null(run_wants(&run, SEGMENTS_COMPARE));
    assert_false(run_wants(&run, SEGMENTS_COMPARE)->all);
    assert_int_equal(run_wants(&run, SEGMENTS_COMPARE)->generation, 1);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED,
                                               .generation = 1,
                                               .outcomes = &outcome,
                                               .n_outcomes = 1});
    assert_false(ing_segments_core_shows(run.core, &key, 0, 1));
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_COMMITTED], 2);
    run_end(&run);
}

/* The bucket has no profile of the head. */
static void settle(struct run *run)
{
    if (run_wants(run, SEGMENTS_COMPARE) != NULL) {
        assert_true(run_wants(run, SEGMENTS_COMPARE)->all);
        run_step(run, (struct ing_segments_event){
                          .kind = SEGMENTS_COMPARED,
                          .generation = run_wants(run, SEGMENTS_COMPARE)->generation});
    }
    run_wait(run, FG_SECOND_NS);
}

/* Chunks that are set aside are retried at the start, by a program that may be able to build them.
 */
static void start_retries_chunks_set_aside(void **state)
{
    const struct ing_segments_chunk aside = {
        .group = group_of(1000), .number = 3, .state = CHUNK_ASIDE, .cut = 5, .profiles = 1};
    struct run run = run_create(6);
    const struct fg_segment_id later = {run_config.writer, 6, 1};
    struct ing_head_group_key key = aside.group;

    (void)state;
    assert_true(ing_segments_core_restore(run.core, &aside));
    run_enter(&run, &later, 1001); /* a later cut is committed, and says nothing of this chunk */
    run_tick(&run, 0);
    run_event(&run, SEGMENTS_MANIFEST);
    settle(&run);
    assert_true(ing_segments_core_shows(run.core, &key, 3, 1));
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->n_chunks, 1);
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->cut, 7);
    run_commit(&run, 1000);
    assert_false(ing_segments_core_shows(run.core, &key, 3, 2));
    run_end(&run);
}

/* A disk from a backup: cuts of its numbers are in the manifest, with what else in them. */
static void restored_store_does_not_believe_cut_numbers(void **state)
{
    const struct ing_segments_chunk sealed = {
        .group = group_of(1000), .number = 3, .state = CHUNK_SEALED, .cut = 5, .profiles = 1};
    struct run run = run_create(5);
    const struct fg_segment_id later = {run_config.writer, 9, 1};
    struct ing_head_group_key key = sealed.group;

    (void)state;
    assert_true(ing_segments_core_restore(run.core, &sealed));
    run_enter(&run, &later, 1001);
    run_tick(&run, 0);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_true(ing_segments_core_status(run.core).store_went_back);
    settle(&run);
    assert_true(ing_segments_core_shows(run.core, &key, 3, 1));
    assert_int_equal(run_wants(&run, SEGMENTS_SEAL)->cut, 10);
    run_commit(&run, 1000);
    assert_false(ing_segments_core_shows(run.core, &key, 3, 2));
    run_end(&run);
}

/* ---- what cannot be looked for ---- */

/* The bucket is unreachable. */
static enum ing_segments_admission push_blindly(struct run *run, uint32_t window, uint64_t bytes,
                                                uint32_t *ret_chunk)
{
    const struct ing_head_group_key key = group_of(window);
    enum ing_segments_admission admission = ing_segments_core_admit(
        run->core, &key, (struct ing_segments_lookup){.failed = true}, ret_chunk);

    if (admission == SEGMENTS_ADMIT_UNCHECKED)
        ing_segments_core_added(run->core, &key, *ret_chunk, true, 1, bytes,
                                RUN_START_WALL_NS + run->now_ns);
    return admission;
}

/* Until it asks to compare everything, which may be at once. */
static void wait_for_check(struct run *run)
{
    if (run_wants(run, SEGMENTS_COMPARE) == NULL)
        run_wait(run, FG_MINUTE_NS);
    assert_non_null(run_wants(run, SEGMENTS_COMPARE));
    assert_true(run_wants(run, SEGMENTS_COMPARE)->all);
}

/* A manifest with a segment of window 1000, evicted by the head; the cut of the next one waits.
 */
static struct run begin_with_a_segment(void)
{
    struct run run = run_begin();

    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_ADMIT);
    run_wait(&run, 10 * FG_MINUTE_NS);
    run_commit(&run, 1000);
    run_wait(&run, 10 * FG_MINUTE_NS);
    run_tick(&run, FG_SECOND_NS);
    assert_non_null(run_wants(&run, SEGMENTS_EVICT));
    run_event(&run, SEGMENTS_EVICTED);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_COMMITTED], 0);
    return run;
}

static void late_profiles_are_taken_unchecked_without_a_bucket(void **state)
{
    struct run run = begin_with_a_segment();
    const struct ing_head_group_key key = group_of(1000);
    uint32_t chunk, other, open;

    (void)state;
    assert_int_equal(run_push(&run, 1000, 1), SEGMENTS_LOOK_UP);
    assert_int_equal(push_blindly(&run, 1000, 60, &chunk), SEGMENTS_ADMIT_UNCHECKED);
    assert_int_equal(push_blindly(&run, 1000, 60, &other), SEGMENTS_ADMIT_UNCHECKED);
    assert_int_equal(chunk, other);
    assert_int_equal(push_blindly(&run, 1000, 1, &other), SEGMENTS_LOOK_UP); /* too many */
    assert_int_equal(push_blindly(&run, 2000, 1, &open), SEGMENTS_ADMIT);    /* ordinary data */
    assert_false(ing_segments_core_shows(run.core, &key, chunk, 1));
    /* While the bucket does not answer nothing becomes of them. */
    wait_for_check(&run);
    run_failed(&run, SEGMENTS_COMPARE);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_UNCHECKED], 1);
    assert_false(ing_segments_core_shows(run.core, &key, chunk, 1));
    wait_for_check(&run);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_int_equal(run_wants(&run, SEGMENTS_TAKE_IN)->n_chunks, 1);
    run_failed(&run, SEGMENTS_TAKE_IN);
    run_wait(&run, FG_MINUTE_NS);
    assert_int_equal(run_wants(&run, SEGMENTS_TAKE_IN)->n_chunks, 1);
    assert_false(ing_segments_core_shows(run.core, &key, chunk, 1));
    run_event(&run, SEGMENTS_TAKEN_IN);
    assert_true(ing_segments_core_shows(run.core, &key, chunk, 1));
    assert_int_equal(ing_segments_core_status(run.core).unchecked_bytes, 0);
    run_wait(&run, FG_MINUTE_NS); /* and it is committed by itself */
    assert_non_null(run_wants(&run, SEGMENTS_SEAL));
    run_end(&run);
}

/* Nothing is known of profiles that came during the lookup. */
static void profile_during_a_check_waits_for_the_next_check(void **state)
{
    struct run run = begin_with_a_segment();
    uint32_t chunk;

    (void)state;
    assert_int_equal(push_blindly(&run, 1000, 1, &chunk), SEGMENTS_ADMIT_UNCHECKED);
    wait_for_check(&run);
    assert_int_equal(push_blindly(&run, 1000, 1, &chunk), SEGMENTS_ADMIT_UNCHECKED);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_null(run_wants(&run, SEGMENTS_TAKE_IN));
    wait_for_check(&run);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_non_null(run_wants(&run, SEGMENTS_TAKE_IN));
    run_end(&run);
}

/* What one part finds of an unchecked chunk leaves it, and the last part vouches for the rest. */
static void check_in_parts_takes_in_what_is_left(void **state)
{
    struct run run = begin_with_a_segment();
    struct ing_segments_outcome outcome = {
        .group = group_of(1000), .split = true, .moved_profiles = 1, .moved_bytes = 10};
    uint64_t least;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(push_blindly(&run, 1000, 10, &outcome.number), SEGMENTS_ADMIT_UNCHECKED);
    wait_for_check(&run);
    outcome.to = ing_segments_core_split(run.core, &outcome.group);
    for (int more = 1; more >= 0; more--) {
        run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED,
                                                   .generation = 3,
                                                   .more = more > 0,
                                                   .outcomes = &outcome,
                                                   .n_outcomes = 1});
        assert_true((run_wants(&run, SEGMENTS_TAKE_IN) == NULL) == (more > 0));
        /* Some snapshot before it has them neither here nor there. */
        assert_int_equal(ing_segments_core_fence(run.core, 1, &least), SEGMENTS_STALE);
        assert_int_equal(least, 3);
    }
    assert_int_equal(ing_segments_core_status(run.core).unchecked_profiles, 1);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_COMMITTED], 1);
    run_end(&run);
}

/* An unsure group of any part keeps its chunks unchecked until the next check. */
static void unsure_group_of_an_early_part_is_not_taken_in(void **state)
{
    struct run run = begin_with_a_segment();
    const struct ing_head_group_key key = group_of(1000);
    uint32_t chunk;

    (void)state;
    assert_int_equal(push_blindly(&run, 1000, 1, &chunk), SEGMENTS_ADMIT_UNCHECKED);
    wait_for_check(&run);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED,
                                               .generation = 1,
                                               .more = true,
                                               .unsure = &key,
                                               .n_unsure = 1});
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_null(run_wants(&run, SEGMENTS_TAKE_IN));
    run_wait(&run, 4 * FG_MINUTE_NS);
    assert_null(run_wants(&run, SEGMENTS_COMPARE));
    wait_for_check(&run);
    run_end(&run);
}

/* Nor is anything of what came after it, while what it told could not be written down. */
static void profile_before_take_in_is_written_waits_too(void **state)
{
    struct run run = begin_with_a_segment();
    uint32_t chunk;

    (void)state;
    assert_int_equal(push_blindly(&run, 1000, 1, &chunk), SEGMENTS_ADMIT_UNCHECKED);
    wait_for_check(&run);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_non_null(run_wants(&run, SEGMENTS_TAKE_IN));
    run_failed(&run, SEGMENTS_TAKE_IN);
    assert_int_equal(push_blindly(&run, 1000, 1, &chunk), SEGMENTS_ADMIT_UNCHECKED);
    run_wait(&run, FG_MINUTE_NS);
    assert_null(run_wants(&run, SEGMENTS_TAKE_IN));
    wait_for_check(&run);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_non_null(run_wants(&run, SEGMENTS_TAKE_IN));
    run_end(&run);
}

/* Profiles that a damaged object may contain are neither shown nor committed; all else goes on. */
static void unsure_chunks_do_not_stop_others(void **state)
{
    const struct ing_head_group_key key = group_of(1000);
    struct run run = begin_with_a_segment();
    uint32_t chunk;

    (void)state;
    assert_int_equal(run_admit(run.core, &key, 1, &chunk), SEGMENTS_ADMIT);
    ing_segments_core_added(run.core, &key, chunk, false, 1, 10, RUN_START_WALL_NS + run.now_ns);
    assert_int_equal(run_push(&run, 2000, 1), SEGMENTS_ADMIT);
    run_enter(&run, &(struct fg_segment_id){{9, 9}, 1, 1}, 1000); /* of another ingester */
    run_wait(&run, FG_MINUTE_NS);
    run_event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(run_wants(&run, SEGMENTS_COMPARE)->generation, 2);
    run_step(&run, (struct ing_segments_event){
                       .kind = SEGMENTS_COMPARED, .generation = 2, .unsure = &key, .n_unsure = 1});
    assert_int_equal(ing_segments_core_status(run.core).gen, 2);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_UNCHECKED], 1);
    assert_int_equal(ing_segments_core_status(run.core).chunks[CHUNK_OPEN], 1);
    assert_false(ing_segments_core_shows(run.core, &key, chunk, 2));
    wait_for_check(&run); /* perhaps the object is back */
    run_step(&run, (struct ing_segments_event){
                       .kind = SEGMENTS_COMPARED, .generation = 2, .unsure = &key, .n_unsure = 1});
    assert_null(run_wants(&run, SEGMENTS_TAKE_IN));
    run_wait(&run, 4 * FG_MINUTE_NS);
    assert_null(run_wants(&run, SEGMENTS_COMPARE));
    wait_for_check(&run);
    run_step(&run, (struct ing_segments_event){.kind = SEGMENTS_COMPARED, .generation = 2});
    assert_int_equal(run_wants(&run, SEGMENTS_TAKE_IN)->n_chunks, 1);
    run_end(&run);
}

/* A disk that takes no write fails each comparison, while the manifest can be read. */
static void failed_compares_back_off(void **state)
{
    struct run run = begin_with_a_segment();
    int64_t end_ns = run.now_ns + 10 * FG_MINUTE_NS;
    unsigned compares = 0;
    uint32_t chunk;

    (void)state;
    assert_int_equal(push_blindly(&run, 1000, 60, &chunk), SEGMENTS_ADMIT_UNCHECKED);
    while (run.now_ns < end_ns) {
        run_wait(&run, FG_SECOND_NS / 10);
        if (run_wants(&run, SEGMENTS_COMPARE) == NULL)
            continue;
        compares++;
        run_failed(&run, SEGMENTS_COMPARE);
    }
    /* Pauses of half a minute on average, after the first ones; about 1,000 without them. */
    assert_true(compares > 5 && compares < 60);
    run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unfit_chunks_do_not_stop_their_cut),
        cmocka_unit_test(chunks_without_a_key_wait_alone),
        cmocka_unit_test(unfit_chunks_are_found_by_halving_the_cut),
        cmocka_unit_test(drain_retries_chunks_set_aside),
        cmocka_unit_test(late_swap_of_chunks_set_aside_is_compared),
        cmocka_unit_test(start_retries_chunks_set_aside),
        cmocka_unit_test(restored_store_does_not_believe_cut_numbers),
        cmocka_unit_test(late_profiles_are_taken_unchecked_without_a_bucket),
        cmocka_unit_test(profile_during_a_check_waits_for_the_next_check),
        cmocka_unit_test(check_in_parts_takes_in_what_is_left),
        cmocka_unit_test(unsure_group_of_an_early_part_is_not_taken_in),
        cmocka_unit_test(profile_before_take_in_is_written_waits_too),
        cmocka_unit_test(unsure_chunks_do_not_stop_others),
        cmocka_unit_test(failed_compares_back_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
