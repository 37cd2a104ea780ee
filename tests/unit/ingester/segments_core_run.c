#include "tests/unit/ingester/segments_core_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const struct ing_segments_core_config run_config = {
    .writer = {7, 7},
    .seed = 1,
    .cut_bytes = 1000,
    .grace_ns = FG_MINUTE_NS,
    .linger_ns = 10 * FG_MINUTE_NS,
    .open_max_ns = 2 * FG_HOUR_NS,
    .evict_after_ns = 5 * FG_MINUTE_NS,
    .failover_after_ns = 3 * FG_MINUTE_NS,
    .poll_ns = 15 * FG_SECOND_NS,
    .upload_max_age_ns = FG_HOUR_NS,
    .aside_retry_ns = FG_HOUR_NS,
    .keyless_retry_ns = 5 * FG_MINUTE_NS,
    .check_retry_ns = 5 * FG_MINUTE_NS,
    .unchecked_max_bytes = 100,
    .backoff_min_ns = FG_SECOND_NS,
    .backoff_max_ns = FG_MINUTE_NS,
    .chunks_max = 4,
    .rules = FG_RULES_ALL,
};

struct run run_create(uint32_t n_cuts)
{
    return (struct run){.core = ing_segments_core_create(&run_config, n_cuts, 0),
                        .arena = fg_arena_create(1 << 20),
                        .l0 = fg_l0_none()};
}

void run_step(struct run *run, struct ing_segments_event event)
{
    event.mono_ns = run->now_ns;
    event.wall_ns = RUN_START_WALL_NS + run->now_ns + run->slept_ns;
    ing_segments_core_step(run->core, &event, &run->effects);
    ing_segments_core_check(run->core);
}

void run_tick(struct run *run, int64_t after_ns)
{
    run->now_ns += after_ns;
    run_step(run, (struct ing_segments_event){.kind = SEGMENTS_TICK});
}

void run_event(struct run *run, enum ing_segments_event_kind kind)
{
    run_step(run, (struct ing_segments_event){.kind = kind, .l0 = &run->l0});
}

void run_failed(struct run *run, enum ing_segments_effect_kind kind)
{
    run_step(run, (struct ing_segments_event){.kind = SEGMENTS_FAILED, .failed = kind});
}

const struct ing_segments_effect *run_wants(const struct run *run,
                                            enum ing_segments_effect_kind kind)
{
    for (uint32_t i = 0; i < run->effects.n; i++)
        if (run->effects.effects[i].kind == kind)
            return &run->effects.effects[i];
    return NULL;
}

struct run run_begin(void)
{
    struct run run = run_create(0);

    run_tick(&run, 0);
    assert_non_null(run_wants(&run, SEGMENTS_READ));
    run_event(&run, SEGMENTS_MANIFEST);
    return run;
}

void run_end(struct run *run)
{
    ing_segments_core_destroy(run->core);
    fg_arena_destroy(run->arena);
}

struct ing_head_group_key group_of(uint32_t window)
{
    return (struct ing_head_group_key){.tenant = 1, .shard = 2, .window = window};
}

enum ing_segments_admission run_admit(struct ing_segments_core *core,
                                      const struct ing_head_group_key *key, uint64_t generation,
                                      uint32_t *ret_chunk)
{
    return ing_segments_core_admit(
        core, key, (struct ing_segments_lookup){.generation = generation}, ret_chunk);
}

enum ing_segments_admission run_push(struct run *run, uint32_t window, uint64_t bytes)
{
    struct ing_head_group_key key = group_of(window);
    uint32_t chunk;
    enum ing_segments_admission admission = run_admit(run->core, &key, 0, &chunk);

    if (admission == SEGMENTS_ADMIT)
        ing_segments_core_added(run->core, &key, chunk, false, 1, bytes,
                                RUN_START_WALL_NS + run->now_ns);
    return admission;
}

void run_enter(struct run *run, const struct fg_segment_id *id, uint32_t window)
{
    struct fg_l0_new_part part = {.tenant = FG_LIT("t"), .profiles = 1};
    struct fg_late_filter_run shard = {window, 2, 2};
    struct fg_l0_new new = {
        .id = *id,
        .profiles = 1,
        .parts = &part,
        .n_parts = 1,
        .groups = {.above = FG_LATE_FILTER_ABOVE_NONE, .runs = &shard, .n_runs = 1}};
    struct fg_err err;

    assert_int_equal(fg_l0_commit(&run->l0, &new, 0, window, run->arena, &run->l0, &err), FG_OK);
}

void run_commit_upload(struct run *run, uint32_t window)
{
    struct fg_segment_id id;

    assert_non_null(run_wants(run, SEGMENTS_UPLOAD));
    id = run_wants(run, SEGMENTS_UPLOAD)->id;
    run_event(run, SEGMENTS_UPLOADED);
    assert_non_null(run_wants(run, SEGMENTS_READ)); /* before the swap */
    run_event(run, SEGMENTS_MANIFEST);
    assert_non_null(run_wants(run, SEGMENTS_SWAP));
    assert_int_equal(fg_segment_id_cmp(&run_wants(run, SEGMENTS_SWAP)->id, &id), 0);
    run_enter(run, &id, window);
    run_event(run, SEGMENTS_SWAPPED);
    assert_non_null(
        run_wants(run, SEGMENTS_READ)); /* and after it: only the manifest is believed */
    run_event(run, SEGMENTS_MANIFEST);
    assert_non_null(run_wants(run, SEGMENTS_MARK));
    run_event(run, SEGMENTS_MARKED);
}

void run_commit(struct run *run, uint32_t window)
{
    assert_non_null(run_wants(run, SEGMENTS_SEAL));
    run_event(run, SEGMENTS_SEALED);
    run_commit_upload(run, window);
}

void run_wait(struct run *run, int64_t ns)
{
    struct ing_segments_effects before;

    run_tick(run, ns);
    if (run_wants(run, SEGMENTS_READ) == NULL)
        return;
    before = run->effects;
    run_event(run, SEGMENTS_MANIFEST);
    for (uint32_t i = 0; i < before.n; i++)
        if (before.effects[i].kind != SEGMENTS_READ)
            run->effects.effects[run->effects.n++] = before.effects[i];
    assert_true(run->effects.n <= SEGMENTS_EFFECTS_MAX);
}
