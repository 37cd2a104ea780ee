#include "compactor/edit_core.h"

#include "common/base/time.h"

/* Pauses between attempts. The least one is about the time of another writer's requests; it
 * doubles with each attempt. Full jitter (0 to the pause), since writers that collided once
 * would collide again after equal pauses. */
#define EDIT_PAUSE_MIN_NS (50 * FG_MS_NS)
#define EDIT_PAUSE_MAX_NS (10 * FG_SECOND_NS) /* a pass comes every 30 s */

void cmp_edit_init(struct cmp_edit *edit, const struct cmp_edit_task *task, uint64_t seed)
{
    *edit = (struct cmp_edit){.state = EDIT_READING, .task = *task, .random = seed};
}

bool cmp_edit_is_l0(enum cmp_edit_kind kind)
{
    return kind == EDIT_ASK || kind == EDIT_RETIRE || kind == EDIT_DELETED_SEGMENTS;
}

/* Schedules another attempt, or gives up. */
static void again(struct cmp_edit *edit, const char *what, int64_t mono_ns)
{
    /* The shift is bounded: 50 ms << 16 is 55 minutes and far from overflow. */
    int64_t most = EDIT_PAUSE_MIN_NS << FG_MIN(edit->attempts, 16);

    fg_assert(edit->attempts < EDIT_ATTEMPTS_MAX); /* the last one ends in FAILED */
    if (++edit->attempts == EDIT_ATTEMPTS_MAX) {
        edit->state = EDIT_FAILED;
        (void)fg_fail(&edit->err, FG_E_ABORTED, "%s, %d times", what, EDIT_ATTEMPTS_MAX);
        return;
    }
    edit->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    edit->state = EDIT_READING;
    edit->not_before_mono_ns = fg_time_add(
        mono_ns, (int64_t)(fg_mix64(edit->random) % (uint64_t)FG_MIN(most, EDIT_PAUSE_MAX_NS)));
}

/* Applies the change. *ret_changed false: the manifest has it already. */
static enum fg_code change(struct cmp_edit *edit, const struct fg_l0 *l0,
                           const struct fg_blocks *blocks, int64_t wall_ns, struct fg_arena *arena,
                           bool *ret_changed)
{
    const struct cmp_edit_task *task = &edit->task;
    struct fg_err *err = &edit->err;

    /* Each function below is idempotent: it says "not changed" if the manifest has the change.
     * The loop of reads and swaps ends by that, so a change that is not recognised would be made
     * twice. */
    switch (task->kind) {
    case EDIT_APPLY:
        return fg_blocks_apply(blocks, l0, &task->change, wall_ns, arena, &edit->blocks,
                               ret_changed, err);
    case EDIT_BURY:
        return fg_blocks_bury(blocks, &task->tombstone, arena, &edit->blocks, ret_changed, err);
    case EDIT_BURY_ALL:
        return fg_blocks_bury_all(blocks, &task->tombstone, arena, &edit->blocks, ret_changed, err);
    case EDIT_AWAIT:
        return fg_blocks_wait(blocks, task->awaits, task->count, arena, &edit->blocks, ret_changed,
                              err);
    case EDIT_UNBURY:
        return fg_blocks_unbury(blocks, task->tombstone.id, wall_ns, arena, &edit->blocks,
                                ret_changed, err);
    case EDIT_DELETED_BLOCKS:
        return fg_blocks_deleted(blocks, task->blocks, task->count, arena, &edit->blocks,
                                 ret_changed, err);
    case EDIT_CLEAR:
        return fg_blocks_clear(blocks, task->tombstone.id, arena, &edit->blocks, ret_changed, err);
    case EDIT_FREEZE:
        return fg_blocks_freeze(blocks, &task->freeze, wall_ns, arena, &edit->blocks, ret_changed,
                                err);
    case EDIT_DROP_FROZEN:
        return fg_blocks_drop_frozen(blocks, task->freeze.version, wall_ns, arena, &edit->blocks,
                                     ret_changed, err);
    case EDIT_ASK:
        fg_l0_ask(l0, task->asked, &edit->l0, ret_changed);
        return FG_OK;
    case EDIT_RETIRE:
        return fg_l0_retire(l0, task->generations, task->count, wall_ns, arena, &edit->l0,
                            ret_changed, err);
    case EDIT_DELETED_SEGMENTS:
        break;
    }
    return fg_l0_deleted(l0, task->segments, task->count, arena, &edit->l0, ret_changed, err);
}

void cmp_edit_read(struct cmp_edit *edit, const struct fg_l0 *l0, const struct fg_blocks *blocks,
                   int64_t wall_ns, struct fg_arena *arena)
{
    bool changed;

    fg_assert(edit->state == EDIT_READING);
    /* FG_E_ABORTED: the manifest neither has the change nor can take it any more, such as when a
     * source has left. After any other failure an earlier swap of this edit may have been won
     * unnoticed. */
    if (change(edit, l0, blocks, wall_ns, arena, &changed) != FG_OK)
        edit->state = edit->err.code == FG_E_ABORTED ? EDIT_LOST : EDIT_FAILED;
    else
        edit->state = changed ? EDIT_SWAPPING : EDIT_DONE;
    fg_assert(edit->state != EDIT_READING);
}

void cmp_edit_swapped(struct cmp_edit *edit, bool won, int64_t mono_ns)
{
    fg_assert(edit->state == EDIT_SWAPPING);
    again(edit, "other compactors changed the manifest", mono_ns);
    fg_assert(edit->state == EDIT_READING || edit->state == EDIT_FAILED);
    if (won) /* the next read tells for certain */
        edit->not_before_mono_ns = mono_ns;
}

void cmp_edit_read_failed(struct cmp_edit *edit, const struct fg_err *err, int64_t mono_ns)
{
    fg_assert(edit->state == EDIT_READING);
    again(edit, err->msg, mono_ns);
}
