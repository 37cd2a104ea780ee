#include "common/self_profile/stack_walk.h"

#include "common/base/search.h"

/* A function whose frames are as large as this does not exist: it is a wrong row or register. */
static const uintptr_t FRAME_MAX_BYTES = (uintptr_t)1024 * 1024;

static const uintptr_t WORD_BYTES = sizeof(uintptr_t);

struct stack_frame {
    uintptr_t pc, fp, sp, high;
};

/* The stack is read while its thread runs on it: the sanitizers would take that for a fault. */
#define READS_STACK __attribute__((no_sanitize("address", "thread", "undefined")))

/* Reads a word of the stack from sp on. Returns false outside of it. */
READS_STACK static bool load(const struct stack_frame *frame, uintptr_t at, uintptr_t *ret_word)
{
    if (at < frame->sp || at % WORD_BYTES != 0 || at >= frame->high ||
        frame->high - at < WORD_BYTES || at - frame->sp > FRAME_MAX_BYTES)
        return false;
    *ret_word = *(const uintptr_t *)at;
    return true;
}

static bool step_by_fp(struct stack_frame *frame)
{
    uintptr_t fp, pc;

    if (!load(frame, frame->fp, &fp) || !load(frame, frame->fp + WORD_BYTES, &pc))
        return false;
    frame->sp = frame->fp + 2 * WORD_BYTES;
    frame->fp = fp;
    frame->pc = pc;
    return pc != 0;
}

static bool step_by_row(struct stack_frame *frame, const struct fg_unwind_row *row)
{
    uintptr_t cfa = (row->base == FG_UNWIND_SP ? frame->sp : frame->fp) +
                    (uintptr_t)row->cfa_words * WORD_BYTES;
    uintptr_t pc, fp = frame->fp;

    if (cfa <= frame->sp || !load(frame, cfa - WORD_BYTES, &pc) ||
        (row->fp_words > 0 && !load(frame, cfa - (uintptr_t)row->fp_words * WORD_BYTES, &fp)))
        return false;
    frame->sp = cfa;
    frame->fp = fp;
    frame->pc = pc;
    return pc != 0;
}

static const struct fg_unwind_module *module_of(const struct fg_unwind_map *map, uintptr_t pc)
{
    uint32_t beyond = fg_lower_bound(i, 0, map->count, map->modules[i].low <= pc);

    return beyond > 0 && pc < map->modules[beyond - 1].high ? &map->modules[beyond - 1] : NULL;
}

/* Goes to the caller. is_call: pc is a return address, so the frame is that of the instruction
 * before it, which may be the last one of its function. */
static bool step(const struct fg_unwind_map *map, struct stack_frame *frame, bool is_call)
{
    const struct fg_unwind_module *module;
    const struct fg_unwind_row *row;

    if (map == NULL)
        return step_by_fp(frame);
    module = module_of(map, frame->pc - is_call);
    if (module == NULL)
        /* The kernel's page of functions, as of clock_gettime(), is in no file. A caller that is in
         * no code means that the walk has lost its way. */
        return !is_call && step_by_fp(frame);
    row = fg_unwind_rows_find(&module->rows, (uint32_t)(frame->pc - is_call - module->low));
    if (row == NULL || row->base == FG_UNWIND_UNKNOWN)
        return step_by_fp(frame);
    return row->base != FG_UNWIND_END && step_by_row(frame, row);
}

uint32_t fg_stack_walk(const struct fg_unwind_map *map, const struct fg_stack_registers *registers,
                       uintptr_t *pcs)
{
    struct stack_frame frame = {
        .pc = registers->pc, .fp = registers->fp, .sp = registers->sp, .high = registers->high};
    bool is_call = registers->pc == 0;
    uint32_t depth = 0;

    /* Without pc the caller is ours, and its frame pointer is right. */
    if (is_call && !step_by_fp(&frame))
        return 0;
    do
        pcs[depth++] = frame.pc;
    while (depth < FG_STACK_DEPTH_MAX && step(map, &frame, is_call || depth > 1));
    return depth;
}
