/* The step core by itself: when it cuts, what it asks for, what it refuses. That it is right
 * whatever happens is shown by tests/sim. */
#include "ingester/segments/segments.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The middle of a window; a minute is left for grace and linger to differ. */
#define START_WALL_NS (1000 * HEAD_WINDOW_NS + HEAD_WINDOW_NS / 2)

struct run {
    struct segments *segments;
    struct segments_effects effects;
    struct fg_arena *arena;
    struct fg_l0 l0;
    int64_t now_ns;
};

static const struct segments_config config = {
    .writer = {7, 7},
    .seed = 1,
    .cut_bytes = 1000,
    .grace_ns = FG_MINUTE_NS,
    .linger_ns = 10 * FG_MINUTE_NS,
    .open_max_ns = 2 * FG_HOUR_NS,
    .forget_after_ns = 5 * FG_MINUTE_NS,
    .turn_ns = 3 * FG_MINUTE_NS,
    .poll_ns = 15 * FG_SECOND_NS,
    .upload_max_age_ns = FG_HOUR_NS,
    .aside_retry_ns = FG_HOUR_NS,
    .check_retry_ns = 5 * FG_MINUTE_NS,
    .unchecked_max_bytes = 100,
    .backoff_min_ns = FG_SECOND_NS,
    .backoff_max_ns = FG_MINUTE_NS,
    .rounds_max = 4,
    .rules = FG_RULES_ALL,
};

static void step(struct run *run, struct segments_event event)
{
    event.mono_ns = run->now_ns;
    event.wall_ns = START_WALL_NS + run->now_ns;
    segments_step(run->segments, &event, &run->effects);
}

static void tick(struct run *run, int64_t after_ns)
{
    run->now_ns += after_ns;
    step(run, (struct segments_event){.kind = SEGMENTS_TICK});
}

static void event(struct run *run, enum segments_event_kind kind)
{
    step(run, (struct segments_event){.kind = kind, .l0 = &run->l0});
}

static void failed(struct run *run, enum segments_effect_kind kind)
{
    step(run, (struct segments_event){.kind = SEGMENTS_FAILED, .failed = kind});
}

/* The effect of that kind, or NULL. */
static const struct segments_effect *wants(const struct run *run, enum segments_effect_kind kind)
{
    for (uint32_t i = 0; i < run->effects.n; i++)
        if (run->effects.effects[i].kind == kind)
            return &run->effects.effects[i];
    return NULL;
}

/* A core that has read the manifest. */
static struct run begin(void)
{
    struct run run = {.segments = segments_create(&config, 0, 0),
                      .arena = fg_arena_create(1 << 20),
                      .l0 = fg_l0_none()};

    tick(&run, 0);
    assert_non_null(wants(&run, SEGMENTS_READ));
    event(&run, SEGMENTS_MANIFEST);
    return run;
}

static void end(struct run *run)
{
    segments_destroy(run->segments);
    fg_arena_destroy(run->arena);
}

static struct head_group_key group(uint32_t window)
{
    return (struct head_group_key){.tenant = 1, .shard = 2, .window = window};
}

/* Looked for in blocks of that generation; 0: not looked for. */
static enum segments_admission admit(struct segments *segments, const struct head_group_key *key,
                                     uint64_t generation, uint32_t *ret_round)
{
    return segments_admit(segments, key, (struct segments_looked){.generation = generation},
                          ret_round);
}

static enum segments_admission push(struct run *run, uint32_t window, uint64_t bytes)
{
    struct head_group_key key = group(window);
    uint32_t round;
    enum segments_admission admission = admit(run->segments, &key, 0, &round);

    if (admission == SEGMENTS_ADMIT)
        segments_added(run->segments, &key, round, false, 1, bytes, START_WALL_NS + run->now_ns);
    return admission;
}

/* The manifest gets this cut. */
static void enter(struct run *run, const struct fg_segment_id *id, uint32_t window)
{
    struct fg_l0_new_part part = {.tenant = FG_LIT("t"), .profiles = 1};
    struct fg_ever_run shard = {window, 2, 2};
    struct fg_l0_new new = {.id = *id,
                            .profiles = 1,
                            .parts = &part,
                            .n_parts = 1,
                            .groups = {.above = FG_EVER_ABOVE_NONE, .runs = &shard, .n_runs = 1}};
    struct fg_err err;

    assert_int_equal(fg_l0_commit(&run->l0, &new, 0, window, run->arena, &run->l0, &err), FG_OK);
}

/* From UPLOAD to where the cut is in the manifest and marked. */
static void commit_upload(struct run *run, uint32_t window)
{
    struct fg_segment_id id;

    assert_non_null(wants(run, SEGMENTS_UPLOAD));
    id = wants(run, SEGMENTS_UPLOAD)->id;
    event(run, SEGMENTS_UPLOADED);
    assert_non_null(wants(run, SEGMENTS_READ)); /* before the swap */
    event(run, SEGMENTS_MANIFEST);
    assert_non_null(wants(run, SEGMENTS_SWAP));
    assert_int_equal(fg_segment_id_cmp(&wants(run, SEGMENTS_SWAP)->id, &id), 0);
    enter(run, &id, window);
    event(run, SEGMENTS_SWAPPED);
    assert_non_null(wants(run, SEGMENTS_READ)); /* and after it: only the manifest is believed */
    event(run, SEGMENTS_MANIFEST);
    assert_non_null(wants(run, SEGMENTS_MARK));
    event(run, SEGMENTS_MARKED);
}

static void commit(struct run *run, uint32_t window)
{
    assert_non_null(wants(run, SEGMENTS_SEAL));
    event(run, SEGMENTS_SEALED);
    commit_upload(run, window);
}

/* Past the reads that come by themselves; what else was wanted stays wanted. */
static void wait(struct run *run, int64_t ns)
{
    struct segments_effects before;

    tick(run, ns);
    if (wants(run, SEGMENTS_READ) == NULL)
        return;
    before = run->effects;
    event(run, SEGMENTS_MANIFEST);
    for (uint32_t i = 0; i < before.n; i++)
        if (before.effects[i].kind != SEGMENTS_READ)
            run->effects.effects[run->effects.n++] = before.effects[i];
    assert_true(run->effects.n <= SEGMENTS_EFFECTS_MAX);
}

static void window_closes(void **state)
{
    struct run run = begin();
    struct head_group_key key = group(1000);
    uint64_t least;

    (void)state;
    assert_int_equal(push(&run, 1000, 10), SEGMENTS_ADMIT);
    wait(&run, 5 * FG_MINUTE_NS + FG_MINUTE_NS - FG_SECOND_NS); /* its end, and nearly the grace */
    assert_null(wants(&run, SEGMENTS_SEAL));
    tick(&run, 4 * FG_MINUTE_NS); /* but it has lingered for less than ten minutes */
    assert_null(wants(&run, SEGMENTS_SEAL));
    event(&run, SEGMENTS_MANIFEST);
    tick(&run, FG_MINUTE_NS);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->cut, 1);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 1);
    event(&run, SEGMENTS_MANIFEST);
    event(&run, SEGMENTS_SEALED);
    assert_non_null(wants(&run, SEGMENTS_UPLOAD));

    /* Readers see it until their snapshot has it. */
    assert_int_equal(segments_fence(run.segments, 0, &least), SEGMENTS_SERVE);
    assert_true(segments_shows(run.segments, &key, 0, 0));
    enter(&run, &wants(&run, SEGMENTS_UPLOAD)->id, 1000); /* as if by a swap of an earlier life */
    assert_int_equal(segments_fence(run.segments, 1, &least), SEGMENTS_BEHIND);
    step(&run, (struct segments_event){.kind = SEGMENTS_WANTED, .generation = 1});
    assert_non_null(wants(&run, SEGMENTS_READ));
    event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(segments_fence(run.segments, 1, &least), SEGMENTS_SERVE);
    assert_false(segments_shows(run.segments, &key, 0, 1));
    assert_true(segments_shows(run.segments, &key, 0, 0));
    event(&run, SEGMENTS_UPLOADED); /* nobody needs it any more */
    assert_non_null(wants(&run, SEGMENTS_MARK));
    end(&run);
}

static void much_is_cut_at_once(void **state)
{
    struct run run = begin();

    (void)state;
    assert_int_equal(push(&run, 1001, 600), SEGMENTS_ADMIT);
    assert_int_equal(push(&run, 1000, 600), SEGMENTS_ADMIT);
    assert_int_equal(push(&run, 1002, 1), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    /* The oldest windows first, and no more than makes a segment. */
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 2);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->rounds[0]->group.window, 1000);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->rounds[1]->group.window, 1001);
    commit(&run, 1001);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_COMMITTED], 2);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_OPEN], 1);
    assert_int_equal(segments_status(run.segments).last_cut, 1);
    end(&run);
}

/* What there was when it was asked for is cut and committed, and nothing that comes later keeps it
 * from its end. */
static void drains(void **state)
{
    struct run run = begin();

    (void)state;
    step(&run, (struct segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_int_equal(segments_status(run.segments).drained, 1); /* there is nothing */
    assert_int_equal(push(&run, 1001, 1), SEGMENTS_ADMIT);
    step(&run, (struct segments_event){.kind = SEGMENTS_DRAIN, .drain = 2});
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 1);
    assert_int_equal(push(&run, 1000, 1), SEGMENTS_ADMIT); /* of an older window even */
    step(&run, (struct segments_event){.kind = SEGMENTS_DRAIN, .drain = 4});
    assert_int_equal(segments_status(run.segments).drained, 1);
    event(&run, SEGMENTS_SEALED);
    assert_int_equal(push(&run, 1001, 1), SEGMENTS_ADMIT);
    assert_int_equal(push(&run, 999, 2000), SEGMENTS_ADMIT); /* more than a segment's size */
    assert_int_equal(segments_status(run.segments).drained, 1);
    commit_upload(&run, 1001);
    assert_int_equal(segments_status(run.segments).drained, 3);
    /* The next cut takes everything; what is waited for comes first. */
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->rounds[0]->group.window, 1000);
    commit(&run, 1000);
    assert_int_equal(segments_status(run.segments).drained, 4);
    end(&run);
}

/* As long as the window is open its committed rounds stay: ordinary data needs no look at blocks.
 */
static void late_ids(void **state)
{
    struct run run = begin();
    struct head_group_key key = group(1000), other = group(10);
    uint32_t round;
    uint64_t least;

    (void)state;
    assert_int_equal(push(&run, 1000, 2000), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    commit(&run, 1000);
    assert_int_equal(segments_seen(run.segments), 1);
    assert_int_equal(admit(run.segments, &key, 0, &round), SEGMENTS_ADMIT);
    assert_int_equal(round, 1);
    /* Another group that some segment may have held. */
    assert_int_equal(admit(run.segments, &other, 0, &round), SEGMENTS_LOOK);
    assert_int_equal(admit(run.segments, &other, 1, &round), SEGMENTS_ADMIT);

    wait(&run, 5 * FG_MINUTE_NS + 2 * FG_SECOND_NS);
    assert_null(wants(&run, SEGMENTS_FORGET));
    assert_int_equal(segments_fence(run.segments, 0, &least), SEGMENTS_SERVE);
    tick(&run, FG_MINUTE_NS);
    assert_non_null(wants(&run, SEGMENTS_FORGET));
    assert_int_equal(segments_fence(run.segments, 0, &least), SEGMENTS_STALE);
    assert_int_equal(least, 1);
    failed(&run, SEGMENTS_FORGET); /* and may be done all the same */
    assert_int_equal(admit(run.segments, &key, 0, &round), SEGMENTS_LOOK);
    tick(&run, FG_MINUTE_NS);
    assert_non_null(wants(&run, SEGMENTS_FORGET));
    event(&run, SEGMENTS_FORGOTTEN);
    assert_int_equal(admit(run.segments, &key, 0, &round), SEGMENTS_LOOK);
    assert_int_equal(admit(run.segments, &key, 1, &round), SEGMENTS_ADMIT);

    segments_found(run.segments, 9);
    assert_int_equal(segments_fence(run.segments, 1, &least), SEGMENTS_STALE);
    assert_int_equal(least, 9);
    end(&run);
}

static void failures(void **state)
{
    struct run run = begin();
    struct fg_segment_id first;

    (void)state;
    assert_int_equal(push(&run, 1000, 2000), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    failed(&run, SEGMENTS_SEAL);
    assert_int_equal(push(&run, 1000, 1), SEGMENTS_ADMIT); /* still into the same round */
    tick(&run, FG_MINUTE_NS);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->cut, 1); /* the same number */
    event(&run, SEGMENTS_MANIFEST);
    event(&run, SEGMENTS_SEALED);
    assert_non_null(wants(&run, SEGMENTS_UPLOAD));
    failed(&run, SEGMENTS_UPLOAD);
    assert_null(wants(&run, SEGMENTS_UPLOAD));
    tick(&run, FG_MINUTE_NS); /* the pause is over */
    assert_non_null(wants(&run, SEGMENTS_UPLOAD));
    end(&run);

    /* Another name each time; an upload that waited too long is done again. */
    run = begin();
    assert_int_equal(push(&run, 1000, 2000), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    event(&run, SEGMENTS_SEALED);
    first = wants(&run, SEGMENTS_UPLOAD)->id;
    event(&run, SEGMENTS_UPLOADED);
    failed(&run, SEGMENTS_READ);
    tick(&run, 2 * FG_HOUR_NS);
    assert_non_null(wants(&run, SEGMENTS_UPLOAD));
    assert_int_equal(wants(&run, SEGMENTS_UPLOAD)->id.cut, first.cut);
    assert_int_not_equal(wants(&run, SEGMENTS_UPLOAD)->id.nonce, first.nonce);
    end(&run);
}

/* A generation that somebody waits for, and that does not come. */
static void wanted(void **state)
{
    const struct segments_event never = {.kind = SEGMENTS_WANTED, .generation = 999};
    struct run run = begin();

    (void)state;
    step(&run, never);
    assert_non_null(wants(&run, SEGMENTS_READ));
    event(&run, SEGMENTS_MANIFEST);
    assert_null(wants(&run, SEGMENTS_READ));
    step(&run, never); /* it is not read for without end */
    assert_null(wants(&run, SEGMENTS_READ));
    assert_int_equal(run.effects.wake_mono_ns, run.now_ns + FG_SECOND_NS);
    tick(&run, FG_SECOND_NS);
    assert_non_null(wants(&run, SEGMENTS_READ));

    /* The read that is under way may have begun too early for the next one. */
    step(&run, (struct segments_event){.kind = SEGMENTS_WANTED, .generation = 1000});
    run.l0.generation = 999;
    event(&run, SEGMENTS_MANIFEST);
    step(&run, (struct segments_event){.kind = SEGMENTS_WANTED, .generation = 1000});
    assert_non_null(wants(&run, SEGMENTS_READ));
    end(&run);
}

/* While nothing can be read, nothing is due but the next attempt. */
static void sleeps_through_failures(void **state)
{
    struct run run = {.segments = segments_create(&config, 0, 0),
                      .arena = fg_arena_create(1 << 20),
                      .l0 = fg_l0_none()};

    (void)state;
    tick(&run, 0);
    for (int i = 0; i < 50; i++) {
        assert_non_null(wants(&run, SEGMENTS_READ));
        failed(&run, SEGMENTS_READ);
        while (wants(&run, SEGMENTS_READ) == NULL) {
            assert_in_range(run.effects.wake_mono_ns, run.now_ns + 1, run.now_ns + FG_MINUTE_NS);
            step(&run, (struct segments_event){.kind = SEGMENTS_WANTED, .generation = 9});
            assert_null(wants(&run, SEGMENTS_READ));
            tick(&run, run.effects.wake_mono_ns - run.now_ns);
        }
    }
    end(&run);
}

static void rank(struct run *run, uint8_t rank)
{
    uint8_t ranks[SEGMENTS_SHARDS];

    memset(ranks, rank, sizeof ranks);
    step(run, (struct segments_event){.kind = SEGMENTS_RANKS, .ranks = ranks});
}

/* Others are before us: we wait for their turns, but not with a drain, nor for ever. */
static void ranks(void **state)
{
    struct run run = begin();

    (void)state;
    rank(&run, 2);
    assert_int_equal(push(&run, 1000, 2000), SEGMENTS_ADMIT); /* two sizes of a segment */
    wait(&run, 11 * FG_MINUTE_NS);                            /* closed, and has lingered */
    assert_null(wants(&run, SEGMENTS_SEAL));
    wait(&run, 5 * FG_MINUTE_NS - FG_SECOND_NS);
    assert_null(wants(&run, SEGMENTS_SEAL));
    tick(&run, 2 * FG_SECOND_NS);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 1);
    end(&run);

    run = begin();
    rank(&run, 2);
    assert_int_equal(push(&run, 1000, 3999), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    assert_null(wants(&run, SEGMENTS_SEAL));
    assert_int_equal(push(&run, 1000, 1), SEGMENTS_ADMIT); /* nobody has come round to it */
    tick(&run, FG_SECOND_NS);
    assert_non_null(wants(&run, SEGMENTS_SEAL));
    end(&run);

    run = begin();
    rank(&run, 1);
    assert_int_equal(push(&run, 1000, 2000), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    assert_null(wants(&run, SEGMENTS_SEAL));
    rank(&run, 0); /* the ring has changed */
    assert_non_null(wants(&run, SEGMENTS_SEAL));
    end(&run);

    run = begin();
    rank(&run, 1);
    assert_int_equal(push(&run, 1000, 1), SEGMENTS_ADMIT);
    step(&run, (struct segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_non_null(wants(&run, SEGMENTS_SEAL));
    end(&run);
}

/* Writes that failed and were not there: nothing is uploaded. A manifest that goes back: nothing is
 * done any more. */
static void oddities(void **state)
{
    struct run run = begin();
    struct fg_segment_id id;

    (void)state;
    assert_int_equal(push(&run, 1000, 2000), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    event(&run, SEGMENTS_SEALED);
    id = wants(&run, SEGMENTS_UPLOAD)->id;
    step(&run, (struct segments_event){.kind = SEGMENTS_UPLOADED, .nothing = true});
    assert_non_null(wants(&run, SEGMENTS_MARK));
    event(&run, SEGMENTS_MARKED);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_COMMITTED], 1);
    event(&run, SEGMENTS_MANIFEST); /* it was asked for with the upload */

    enter(&run, &id, 1000);
    wait(&run, FG_MINUTE_NS);
    assert_int_equal(segments_status(run.segments).gen, 1);
    run.l0 = fg_l0_none();
    wait(&run, FG_MINUTE_NS);
    assert_true(segments_status(run.segments).went_back);
    assert_int_equal(segments_status(run.segments).gen, 1);

    end(&run);
}

/* Rounds that got nothing go after a while; what was admitted to one all the same is counted. */
static void empty_rounds(void **state)
{
    struct run run = begin();
    struct head_group_key key;
    uint32_t round;

    (void)state;
    for (uint32_t i = 0; i < config.rounds_max; i++) {
        key = group(2000 + i);
        assert_int_equal(admit(run.segments, &key, 0, &round), SEGMENTS_ADMIT);
    }
    assert_int_equal(push(&run, 3000, 1), SEGMENTS_FULL);
    wait(&run, 11 * FG_MINUTE_NS);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_OPEN], 0);
    segments_added(run.segments, &key, round, false, 1, 10, START_WALL_NS + run.now_ns);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_OPEN], 1);
    assert_int_equal(push(&run, 3000, 1), SEGMENTS_ADMIT);
    wait(&run, 11 * FG_MINUTE_NS);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_OPEN], 2);
    end(&run);
}

/* A sealed round of an earlier life: in the manifest or not. */
static void restarts(void **state)
{
    struct segments_round sealed = {.group = group(1000),
                                    .number = 3,
                                    .state = ROUND_SEALED,
                                    .cut = 5,
                                    .profiles = 1,
                                    .bytes = 1};
    const struct fg_segment_id id = {config.writer, 5, 1};

    (void)state;
    for (int entered = 0; entered < 2; entered++) {
        struct run run = {.segments = segments_create(&config, 5, 0),
                          .arena = fg_arena_create(1 << 20),
                          .l0 = fg_l0_none()};
        struct head_group_key key = sealed.group;
        uint64_t least;
        uint32_t round;

        assert_true(segments_restore(run.segments, &sealed));
        if (entered == 1)
            enter(&run, &id, 1000);
        tick(&run, 0);
        assert_null(wants(&run, SEGMENTS_UPLOAD)); /* the manifest first */
        assert_int_equal(segments_fence(run.segments, 0, &least), SEGMENTS_BEHIND);
        assert_int_equal(admit(run.segments, &key, 0, &round), SEGMENTS_ADMIT);
        assert_int_equal(round, 4);
        event(&run, SEGMENTS_MANIFEST);
        if (entered == 1)
            assert_int_equal(wants(&run, SEGMENTS_MARK)->rounds[0]->generation, 1);
        else
            assert_int_equal(wants(&run, SEGMENTS_UPLOAD)->n_rounds, 1);
        end(&run);
    }
}

static void ask(struct run *run)
{
    bool changed;

    fg_l0_ask(&run->l0, run->l0.asked + 1, &run->l0, &changed);
    assert_true(changed);
    wait(run, FG_MINUTE_NS); /* past the next read */
}

static void report(struct run *run, uint64_t clean)
{
    struct fg_err err;
    bool changed;

    assert_non_null(wants(run, SEGMENTS_REPORT));
    assert_int_equal(wants(run, SEGMENTS_REPORT)->clean, clean);
    assert_int_equal(
        fg_l0_clean(&run->l0, config.writer, clean, run->arena, &run->l0, &changed, &err), FG_OK);
    event(run, SEGMENTS_REPORTED);
    assert_non_null(wants(run, SEGMENTS_READ)); /* only the manifest is believed */
    event(run, SEGMENTS_MANIFEST);
    wait(run, FG_MINUTE_NS);
    assert_null(wants(run, SEGMENTS_REPORT));
}

/* What was there when it was asked for has to be committed and forgotten before it is said that it
 * is; what came since does not matter. */
static void reports(void **state)
{
    struct run run = begin();

    (void)state;
    wait(&run, FG_MINUTE_NS);
    assert_null(wants(&run, SEGMENTS_REPORT)); /* nobody asked */
    ask(&run);
    report(&run, 1); /* there is nothing */

    assert_int_equal(push(&run, 999, 2000), SEGMENTS_ADMIT);
    ask(&run);
    assert_null(wants(&run, SEGMENTS_REPORT));
    assert_int_equal(push(&run, 1001, 1), SEGMENTS_ADMIT);
    event(&run, SEGMENTS_SEALED);
    event(&run, SEGMENTS_UPLOADED);
    event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(wants(&run, SEGMENTS_SWAP)->clean, 1);
    enter(&run, &wants(&run, SEGMENTS_SWAP)->id, 999);
    event(&run, SEGMENTS_SWAPPED);
    event(&run, SEGMENTS_MANIFEST);
    event(&run, SEGMENTS_MARKED);
    wait(&run, FG_MINUTE_NS);
    assert_null(wants(&run, SEGMENTS_REPORT));
    wait(&run, 5 * FG_MINUTE_NS);
    tick(&run, FG_SECOND_NS);
    assert_non_null(wants(&run, SEGMENTS_FORGET));
    event(&run, SEGMENTS_MANIFEST);
    event(&run, SEGMENTS_FORGOTTEN);
    tick(&run, FG_SECOND_NS);
    report(&run, 2);

    /* A bucket that does not answer is asked again, after a pause. */
    ask(&run);
    assert_null(wants(&run, SEGMENTS_REPORT));
    step(&run, (struct segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    commit(&run, 1001);
    assert_null(wants(&run, SEGMENTS_REPORT));
    wait(&run, FG_HOUR_NS);
    tick(&run, FG_SECOND_NS);
    assert_non_null(wants(&run, SEGMENTS_FORGET));
    event(&run, SEGMENTS_FORGOTTEN);
    assert_non_null(wants(&run, SEGMENTS_REPORT));
    failed(&run, SEGMENTS_REPORT);
    assert_non_null(wants(&run, SEGMENTS_READ));
    event(&run, SEGMENTS_MANIFEST);
    wait(&run, FG_SECOND_NS);
    report(&run, 3);
    end(&run);
}

/* While the bucket is away queries go on with what they know of it, so nothing that is newer may be
 * gone from here. */
static void nothing_is_forgotten_while_the_bucket_is_away(void **state)
{
    struct run run = begin();

    (void)state;
    assert_int_equal(push(&run, 999, 1), SEGMENTS_ADMIT);
    wait(&run, 10 * FG_MINUTE_NS);
    commit(&run, 999);
    for (int i = 0; i < 60; i++) {
        tick(&run, FG_MINUTE_NS);
        assert_null(wants(&run, SEGMENTS_FORGET));
        if (wants(&run, SEGMENTS_READ) != NULL)
            failed(&run, SEGMENTS_READ);
    }
    tick(&run, FG_HOUR_NS);
    assert_non_null(wants(&run, SEGMENTS_READ));
    event(&run, SEGMENTS_MANIFEST);
    tick(&run, FG_SECOND_NS);
    assert_non_null(wants(&run, SEGMENTS_FORGET));
    end(&run);
}

/* A start knows nothing of what it finds. */
static void reports_after_a_start(void **state)
{
    const struct segments_round open = {.group = group(1000), .profiles = 1, .bytes = 1};
    struct run run = {.segments = segments_create(&config, 0, 0),
                      .arena = fg_arena_create(1 << 20),
                      .l0 = fg_l0_none()};

    (void)state;
    assert_true(segments_restore(run.segments, &open));
    tick(&run, 0);
    event(&run, SEGMENTS_MANIFEST);
    ask(&run);
    assert_int_equal(segments_status(run.segments).era, 1);
    assert_null(wants(&run, SEGMENTS_REPORT));
    end(&run);
}

/* ---- aside ---- */

/* The upload fails because of what the rounds of these windows hold, until rounds are set aside. */
static void fail_unfit(struct run *run, const uint32_t *windows, uint32_t n)
{
    struct head_round_key suspects[4];

    for (uint32_t i = 0; i < n; i++)
        suspects[i] = (struct head_round_key){group(windows[i]), 0};
    for (unsigned i = 0; i < SEGMENTS_TRIES; i++) {
        if (wants(run, SEGMENTS_UPLOAD) == NULL)
            wait(run, FG_MINUTE_NS);
        assert_non_null(wants(run, SEGMENTS_UPLOAD));
        step(run, (struct segments_event){.kind = SEGMENTS_FAILED,
                                          .failed = SEGMENTS_UPLOAD,
                                          .unfit = true,
                                          .suspects = suspects,
                                          .n_suspects = n});
    }
    if (wants(run, SEGMENTS_SET_ASIDE) == NULL)
        wait(run, FG_MINUTE_NS);
    assert_non_null(wants(run, SEGMENTS_SET_ASIDE));
}

/* Seals rounds of two windows in one cut. */
static struct run seal_two(void)
{
    struct run run = begin();

    assert_int_equal(push(&run, 1000, 600), SEGMENTS_ADMIT);
    assert_int_equal(push(&run, 1001, 600), SEGMENTS_ADMIT);
    tick(&run, FG_SECOND_NS);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 2);
    event(&run, SEGMENTS_SEALED);
    return run;
}

static void unfit_rounds_do_not_stop_their_cut(void **state)
{
    const uint32_t unfit = 1000;
    struct run run = seal_two();
    struct head_group_key key = group(unfit);
    struct segments_status status;

    (void)state;
    fail_unfit(&run, &unfit, 1);
    assert_int_equal(wants(&run, SEGMENTS_SET_ASIDE)->n_rounds, 1);
    assert_int_equal(wants(&run, SEGMENTS_SET_ASIDE)->rounds[0]->group.window, unfit);
    failed(&run, SEGMENTS_SET_ASIDE); /* the disk fails: the same again */
    wait(&run, FG_MINUTE_NS);
    assert_non_null(wants(&run, SEGMENTS_SET_ASIDE));
    event(&run, SEGMENTS_IS_ASIDE);
    assert_int_equal(wants(&run, SEGMENTS_UPLOAD)->n_rounds, 1);
    assert_int_equal(wants(&run, SEGMENTS_UPLOAD)->rounds[0]->group.window, 1001);
    commit_upload(&run, 1001);
    status = segments_status(run.segments);
    assert_int_equal(status.rounds[ROUND_ASIDE], 1);
    assert_int_equal(status.aside_profiles, 1);
    assert_int_equal(status.aside_bytes, 600);

    /* It is served for ever, and what comes later goes to another round. */
    assert_true(segments_shows(run.segments, &key, 0, 1));
    assert_int_equal(push(&run, unfit, 2000), SEGMENTS_ADMIT);
    wait(&run, FG_SECOND_NS);
    commit(&run, unfit);
    assert_true(segments_shows(run.segments, &key, 0, 2));
    assert_false(segments_shows(run.segments, &key, 1, 2));

    /* After an hour it is tried again, and can be built this time. */
    wait(&run, FG_MINUTE_NS);
    assert_null(wants(&run, SEGMENTS_SEAL));
    for (int i = 0; i < 62 && wants(&run, SEGMENTS_SEAL) == NULL; i++)
        wait(&run, FG_MINUTE_NS);
    if (wants(&run, SEGMENTS_FORGET) != NULL)
        event(&run, SEGMENTS_FORGOTTEN);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 1);
    commit(&run, unfit);
    assert_false(segments_shows(run.segments, &key, 0, 3));
    assert_int_equal(segments_status(run.segments).rounds[ROUND_ASIDE], 0);
    end(&run);
}

/* One of four cannot become a segment, and nobody knows which: all others do. */
static void unfit_rounds_are_found_by_halves(void **state)
{
    struct run run = begin();
    uint32_t committed = 0;

    (void)state;
    for (uint32_t w = 1000; w < 1004; w++)
        assert_int_equal(push(&run, w, 300), SEGMENTS_ADMIT);
    for (int i = 0; i < 400 && committed < 3; i++) {
        const struct segments_effect *upload;

        wait(&run, FG_SECOND_NS);
        if (wants(&run, SEGMENTS_SEAL) != NULL)
            event(&run, SEGMENTS_SEALED);
        if (wants(&run, SEGMENTS_SET_ASIDE) != NULL)
            event(&run, SEGMENTS_IS_ASIDE);
        upload = wants(&run, SEGMENTS_UPLOAD);
        for (uint32_t k = 0; upload != NULL && k < upload->n_rounds; k++)
            if (upload->rounds[k]->group.window == 1002) {
                step(&run, (struct segments_event){
                               .kind = SEGMENTS_FAILED, .failed = SEGMENTS_UPLOAD, .unfit = true});
                upload = NULL;
            }
        if (upload != NULL) {
            committed += upload->n_rounds;
            commit_upload(&run, 1000);
        }
    }
    assert_int_equal(committed, 3);
    for (int i = 0; i < 60; i++) { /* that one is left alone, for now */
        wait(&run, FG_SECOND_NS);
        if (wants(&run, SEGMENTS_SEAL) != NULL)
            event(&run, SEGMENTS_SEALED);
        if (wants(&run, SEGMENTS_UPLOAD) != NULL)
            step(&run, (struct segments_event){
                           .kind = SEGMENTS_FAILED, .failed = SEGMENTS_UPLOAD, .unfit = true});
        if (wants(&run, SEGMENTS_SET_ASIDE) != NULL)
            event(&run, SEGMENTS_IS_ASIDE);
    }
    assert_int_equal(segments_status(run.segments).rounds[ROUND_ASIDE], 1);
    assert_null(wants(&run, SEGMENTS_UPLOAD));
    end(&run);
}

/* A drain tries what is set aside, and ends for those who wait for all that can be committed; not
 * for the ring, whose readers still have to ask here. */
static void a_drain_tries_what_is_set_aside(void **state)
{
    const uint32_t unfit[] = {1000, 1001};
    struct run run = seal_two();

    (void)state;
    fail_unfit(&run, unfit, 2);
    event(&run, SEGMENTS_IS_ASIDE);
    wait(&run, FG_MINUTE_NS);
    assert_null(wants(&run, SEGMENTS_SEAL));
    step(&run, (struct segments_event){.kind = SEGMENTS_DRAIN, .drain = 1});
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 2);
    assert_int_equal(segments_status(run.segments).tried, 0);
    event(&run, SEGMENTS_SEALED);
    fail_unfit(&run, unfit, 1);
    event(&run, SEGMENTS_IS_ASIDE);
    assert_int_equal(segments_status(run.segments).tried, 0); /* the other one is on its way */
    commit_upload(&run, 1001);
    assert_int_equal(segments_status(run.segments).tried, 1);
    assert_int_equal(segments_status(run.segments).drained, 0);
    end(&run);
}

/*
 * The first upload of a cut is swapped in so late that its answer was given up; the second cannot
 * be built, and a round is set aside. When the manifest has the first one after all the round is in
 * it, so it has to be compared, or it is in answers twice.
 */
static void a_late_upload_with_rounds_that_were_set_aside_is_compared(void **state)
{
    const uint32_t unfit = 1000;
    struct run run = seal_two();
    struct fg_segment_id first = wants(&run, SEGMENTS_UPLOAD)->id;
    struct segments_outcome outcome = {.group = group(unfit)};
    struct head_group_key key = group(unfit);

    (void)state;
    event(&run, SEGMENTS_UPLOADED);
    event(&run, SEGMENTS_MANIFEST);
    assert_non_null(wants(&run, SEGMENTS_SWAP));
    failed(&run, SEGMENTS_SWAP); /* nobody knows */
    assert_non_null(wants(&run, SEGMENTS_READ));
    run.now_ns += 2 * FG_HOUR_NS; /* the upload is too old by then */
    event(&run, SEGMENTS_MANIFEST);
    fail_unfit(&run, &unfit, 1);
    event(&run, SEGMENTS_IS_ASIDE);
    assert_non_null(wants(&run, SEGMENTS_UPLOAD));
    enter(&run, &first, 1000);
    event(&run, SEGMENTS_UPLOADED);
    event(&run, SEGMENTS_MANIFEST);
    assert_non_null(wants(&run, SEGMENTS_COMPARE));
    assert_false(wants(&run, SEGMENTS_COMPARE)->all);
    assert_int_equal(wants(&run, SEGMENTS_COMPARE)->generation, 1);
    step(&run,
         (struct segments_event){
             .kind = SEGMENTS_COMPARED, .generation = 1, .outcomes = &outcome, .n_outcomes = 1});
    assert_false(segments_shows(run.segments, &key, 0, 1));
    assert_int_equal(segments_status(run.segments).rounds[ROUND_COMMITTED], 2);
    end(&run);
}

/* Nothing is held that is here. */
static void settle(struct run *run)
{
    if (wants(run, SEGMENTS_COMPARE) != NULL) {
        assert_true(wants(run, SEGMENTS_COMPARE)->all);
        step(run, (struct segments_event){.kind = SEGMENTS_COMPARED,
                                          .generation = wants(run, SEGMENTS_COMPARE)->generation});
    }
    wait(run, FG_SECOND_NS);
}

/* What was set aside is tried at the start, by a program that may know how to build it. */
static void a_start_tries_what_was_set_aside(void **state)
{
    const struct segments_round aside = {
        .group = group(1000), .number = 3, .state = ROUND_ASIDE, .cut = 5, .profiles = 1};
    struct run run = {.segments = segments_create(&config, 6, 0),
                      .arena = fg_arena_create(1 << 20),
                      .l0 = fg_l0_none()};
    const struct fg_segment_id later = {config.writer, 6, 1};
    struct head_group_key key = aside.group;

    (void)state;
    assert_true(segments_restore(run.segments, &aside));
    enter(&run, &later, 1001); /* a later cut is committed, and says nothing of this round */
    tick(&run, 0);
    event(&run, SEGMENTS_MANIFEST);
    settle(&run);
    assert_true(segments_shows(run.segments, &key, 3, 1));
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->n_rounds, 1);
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->cut, 7);
    commit(&run, 1000);
    assert_false(segments_shows(run.segments, &key, 3, 2));
    end(&run);
}

/* A disk from a backup: cuts of its numbers are in the manifest, with what else in them. */
static void a_store_that_went_back_in_time_does_not_believe_numbers(void **state)
{
    const struct segments_round sealed = {
        .group = group(1000), .number = 3, .state = ROUND_SEALED, .cut = 5, .profiles = 1};
    struct run run = {.segments = segments_create(&config, 5, 0),
                      .arena = fg_arena_create(1 << 20),
                      .l0 = fg_l0_none()};
    const struct fg_segment_id later = {config.writer, 9, 1};
    struct head_group_key key = sealed.group;

    (void)state;
    assert_true(segments_restore(run.segments, &sealed));
    enter(&run, &later, 1001);
    tick(&run, 0);
    event(&run, SEGMENTS_MANIFEST);
    assert_true(segments_status(run.segments).store_went_back);
    settle(&run);
    assert_true(segments_shows(run.segments, &key, 3, 1));
    assert_int_equal(wants(&run, SEGMENTS_SEAL)->cut, 10);
    commit(&run, 1000);
    assert_false(segments_shows(run.segments, &key, 3, 2));
    end(&run);
}

/* ---- what cannot be looked for ---- */

/* While the bucket cannot be asked. */
static enum segments_admission push_blindly(struct run *run, uint32_t window, uint64_t bytes,
                                            uint32_t *ret_round)
{
    const struct head_group_key key = group(window);
    enum segments_admission admission =
        segments_admit(run->segments, &key, (struct segments_looked){.cannot = true}, ret_round);

    if (admission == SEGMENTS_ADMIT_UNCHECKED)
        segments_added(run->segments, &key, *ret_round, true, 1, bytes,
                       START_WALL_NS + run->now_ns);
    return admission;
}

/* Until it asks to compare everything, which may be at once. */
static void wait_for_check(struct run *run)
{
    if (wants(run, SEGMENTS_COMPARE) == NULL)
        wait(run, FG_MINUTE_NS);
    assert_non_null(wants(run, SEGMENTS_COMPARE));
    assert_true(wants(run, SEGMENTS_COMPARE)->all);
}

/* A manifest with a segment of window 1000, forgotten by the head; the cut of the next one waits.
 */
static struct run begin_with_a_segment(void)
{
    struct run run = begin();

    assert_int_equal(push(&run, 1000, 1), SEGMENTS_ADMIT);
    wait(&run, 10 * FG_MINUTE_NS);
    commit(&run, 1000);
    wait(&run, 10 * FG_MINUTE_NS);
    tick(&run, FG_SECOND_NS);
    assert_non_null(wants(&run, SEGMENTS_FORGET));
    event(&run, SEGMENTS_FORGOTTEN);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_COMMITTED], 0);
    return run;
}

static void late_profiles_are_taken_without_a_look(void **state)
{
    struct run run = begin_with_a_segment();
    const struct head_group_key key = group(1000);
    uint32_t round, other, open;

    (void)state;
    assert_int_equal(push(&run, 1000, 1), SEGMENTS_LOOK);
    assert_int_equal(push_blindly(&run, 1000, 60, &round), SEGMENTS_ADMIT_UNCHECKED);
    assert_int_equal(push_blindly(&run, 1000, 60, &other), SEGMENTS_ADMIT_UNCHECKED);
    assert_int_equal(round, other);
    assert_int_equal(push_blindly(&run, 1000, 1, &other), SEGMENTS_LOOK); /* too many */
    assert_int_equal(push_blindly(&run, 2000, 1, &open), SEGMENTS_ADMIT); /* ordinary data */
    assert_false(segments_shows(run.segments, &key, round, 1));
    /* While the bucket does not answer nothing becomes of them. */
    wait_for_check(&run);
    failed(&run, SEGMENTS_COMPARE);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_UNCHECKED], 1);
    assert_false(segments_shows(run.segments, &key, round, 1));
    wait_for_check(&run);
    step(&run, (struct segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_int_equal(wants(&run, SEGMENTS_TAKE_IN)->n_rounds, 1);
    failed(&run, SEGMENTS_TAKE_IN);
    wait(&run, FG_MINUTE_NS);
    assert_int_equal(wants(&run, SEGMENTS_TAKE_IN)->n_rounds, 1);
    assert_false(segments_shows(run.segments, &key, round, 1));
    event(&run, SEGMENTS_TAKEN_IN);
    assert_true(segments_shows(run.segments, &key, round, 1));
    assert_int_equal(segments_status(run.segments).unchecked_bytes, 0);
    wait(&run, FG_MINUTE_NS); /* and it is committed by itself */
    assert_non_null(wants(&run, SEGMENTS_SEAL));
    end(&run);
}

/* Of what came while the bucket was searched nothing is known. */
static void a_profile_that_comes_during_a_check_waits_for_the_next(void **state)
{
    struct run run = begin_with_a_segment();
    uint32_t round;

    (void)state;
    assert_int_equal(push_blindly(&run, 1000, 1, &round), SEGMENTS_ADMIT_UNCHECKED);
    wait_for_check(&run);
    assert_int_equal(push_blindly(&run, 1000, 1, &round), SEGMENTS_ADMIT_UNCHECKED);
    step(&run, (struct segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_null(wants(&run, SEGMENTS_TAKE_IN));
    wait_for_check(&run);
    step(&run, (struct segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_non_null(wants(&run, SEGMENTS_TAKE_IN));
    end(&run);
}

/* Nor is anything of what came after it, while what it told could not be written down. */
static void a_profile_that_comes_before_it_is_written_waits_too(void **state)
{
    struct run run = begin_with_a_segment();
    uint32_t round;

    (void)state;
    assert_int_equal(push_blindly(&run, 1000, 1, &round), SEGMENTS_ADMIT_UNCHECKED);
    wait_for_check(&run);
    step(&run, (struct segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_non_null(wants(&run, SEGMENTS_TAKE_IN));
    failed(&run, SEGMENTS_TAKE_IN);
    assert_int_equal(push_blindly(&run, 1000, 1, &round), SEGMENTS_ADMIT_UNCHECKED);
    wait(&run, FG_MINUTE_NS);
    assert_null(wants(&run, SEGMENTS_TAKE_IN));
    wait_for_check(&run);
    step(&run, (struct segments_event){.kind = SEGMENTS_COMPARED, .generation = 1});
    assert_non_null(wants(&run, SEGMENTS_TAKE_IN));
    end(&run);
}

/* What a damaged object may have is not shown and not committed; all else goes on. */
static void unsure_rounds_stop_no_others(void **state)
{
    const struct head_group_key key = group(1000);
    struct run run = begin_with_a_segment();
    uint32_t round;

    (void)state;
    assert_int_equal(admit(run.segments, &key, 1, &round), SEGMENTS_ADMIT);
    segments_added(run.segments, &key, round, false, 1, 10, START_WALL_NS + run.now_ns);
    assert_int_equal(push(&run, 2000, 1), SEGMENTS_ADMIT);
    enter(&run, &(struct fg_segment_id){{9, 9}, 1, 1}, 1000); /* of another ingester */
    wait(&run, FG_MINUTE_NS);
    event(&run, SEGMENTS_MANIFEST);
    assert_int_equal(wants(&run, SEGMENTS_COMPARE)->generation, 2);
    step(&run, (struct segments_event){
                   .kind = SEGMENTS_COMPARED, .generation = 2, .unsure = &key, .n_unsure = 1});
    assert_int_equal(segments_status(run.segments).gen, 2);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_UNCHECKED], 1);
    assert_int_equal(segments_status(run.segments).rounds[ROUND_OPEN], 1);
    assert_false(segments_shows(run.segments, &key, round, 2));
    wait_for_check(&run); /* perhaps the object is back */
    step(&run, (struct segments_event){
                   .kind = SEGMENTS_COMPARED, .generation = 2, .unsure = &key, .n_unsure = 1});
    assert_null(wants(&run, SEGMENTS_TAKE_IN));
    wait(&run, 4 * FG_MINUTE_NS);
    assert_null(wants(&run, SEGMENTS_COMPARE));
    wait_for_check(&run);
    step(&run, (struct segments_event){.kind = SEGMENTS_COMPARED, .generation = 2});
    assert_int_equal(wants(&run, SEGMENTS_TAKE_IN)->n_rounds, 1);
    end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_closes),
        cmocka_unit_test(much_is_cut_at_once),
        cmocka_unit_test(late_ids),
        cmocka_unit_test(failures),
        cmocka_unit_test(oddities),
        cmocka_unit_test(restarts),
        cmocka_unit_test(empty_rounds),
        cmocka_unit_test(drains),
        cmocka_unit_test(ranks),
        cmocka_unit_test(wanted),
        cmocka_unit_test(sleeps_through_failures),
        cmocka_unit_test(reports),
        cmocka_unit_test(nothing_is_forgotten_while_the_bucket_is_away),
        cmocka_unit_test(reports_after_a_start),
        cmocka_unit_test(unfit_rounds_do_not_stop_their_cut),
        cmocka_unit_test(unfit_rounds_are_found_by_halves),
        cmocka_unit_test(a_drain_tries_what_is_set_aside),
        cmocka_unit_test(a_late_upload_with_rounds_that_were_set_aside_is_compared),
        cmocka_unit_test(a_start_tries_what_was_set_aside),
        cmocka_unit_test(a_store_that_went_back_in_time_does_not_believe_numbers),
        cmocka_unit_test(late_profiles_are_taken_without_a_look),
        cmocka_unit_test(a_profile_that_comes_during_a_check_waits_for_the_next),
        cmocka_unit_test(a_profile_that_comes_before_it_is_written_waits_too),
        cmocka_unit_test(unsure_rounds_stop_no_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
