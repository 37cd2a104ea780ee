#include "tests/lib/fiber.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined __SANITIZE_ADDRESS__
#define FIBER_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#if defined __SANITIZE_THREAD__
#define FIBER_TSAN 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#if defined FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK_BYTES = 512 * 1024 };

struct fiber {
    struct fibers *fibers;
    ucontext_t context;
    void *stack;
    void (*run)(void *arg);
    void *arg;
    bool begun;         /* has a context */
    bool ended;         /* what it ran: it waits for something else to run */
    bool over;          /* it will not run again */
    void *fake_stack;   /* of the address sanitizer */
    void *tsan;         /* of the thread sanitizer */
    struct fiber *next; /* of those that have ended */
};

struct waiting {
    int64_t at_ns;
    uint64_t number; /* first come, first served */
    struct fiber *fiber;
};

struct fibers {
    ucontext_t main;
    void *main_fake_stack, *main_tsan;
    const void *main_bottom;
    size_t main_bytes;
    int64_t now_ns;
    uint64_t number;
    struct waiting *heap;
    uint32_t n, cap;
    struct fiber *running, *spare;
};

/* ---- the heap ---- */

static bool is_before(const struct waiting *a, const struct waiting *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void swap(struct waiting *a, struct waiting *b)
{
    struct waiting c = *a;

    *a = *b;
    *b = c;
}

static void push(struct fibers *fibers, struct fiber *fiber, int64_t after_ns)
{
    uint32_t at = fibers->n;

    if (fibers->n == fibers->cap) {
        fibers->cap = FG_MAX(64, fibers->cap * 2);
        fibers->heap = fg_realloc(fibers->heap, fibers->cap * sizeof *fibers->heap);
    }
    fibers->heap[fibers->n++] =
        (struct waiting){fibers->now_ns + after_ns, fibers->number++, fiber};
    for (; at > 0 && is_before(&fibers->heap[at], &fibers->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&fibers->heap[at], &fibers->heap[(at - 1) / 2]);
}

static struct waiting pop(struct fibers *fibers)
{
    struct waiting first = fibers->heap[0];
    uint32_t at = 0;

    fibers->heap[0] = fibers->heap[--fibers->n];
    for (;;) {
        uint32_t least = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < fibers->n; child++)
            if (is_before(&fibers->heap[child], &fibers->heap[least]))
                least = child;
        if (least == at)
            return first;
        swap(&fibers->heap[at], &fibers->heap[least]);
        at = least;
    }
}

/* ---- switching, and telling the sanitizers ---- */

static void enter(struct fibers *fibers, struct fiber *fiber)
{
    fibers->running = fiber;
#if defined FIBER_ASAN
    __sanitizer_start_switch_fiber(&fibers->main_fake_stack, fiber->stack, STACK_BYTES);
#endif
#if defined FIBER_TSAN
    fibers->main_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan, 0);
#endif
    fg_assert(swapcontext(&fibers->main, &fiber->context) == 0);
#if defined FIBER_ASAN
    __sanitizer_finish_switch_fiber(fibers->main_fake_stack, NULL, NULL);
#endif
    fibers->running = NULL;
}

static void leave(struct fiber *fiber)
{
    struct fibers *fibers = fiber->fibers;

#if defined FIBER_ASAN
    __sanitizer_start_switch_fiber(fiber->over ? NULL : &fiber->fake_stack, fibers->main_bottom,
                                   fibers->main_bytes);
#endif
#if defined FIBER_TSAN
    __tsan_switch_to_fiber(fibers->main_tsan, 0);
#endif
    fg_assert(swapcontext(&fiber->context, &fibers->main) == 0);
#if defined FIBER_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &fibers->main_bottom, &fibers->main_bytes);
#endif
}

/* makecontext() passes ints; a pointer is two of them. */
static void body(unsigned high, unsigned low)
{
    struct fiber *fiber = (struct fiber *)(uintptr_t)((uint64_t)high << 32 | low);

#if defined FIBER_ASAN
    __sanitizer_finish_switch_fiber(NULL, &fiber->fibers->main_bottom, &fiber->fibers->main_bytes);
#endif
    while (!fiber->over) { /* one thing after another: to begin a stack is dear under sanitizers */
        fiber->run(fiber->arg);
        fiber->ended = true;
        leave(fiber);
    }
    leave(fiber);
    fg_assert(false); /* nobody enters it again */
}

static struct fiber *fiber_get(struct fibers *fibers)
{
    struct fiber *fiber = fibers->spare;

    if (fiber != NULL) {
        fibers->spare = fiber->next;
        return fiber;
    }
    fiber = fg_new(struct fiber);
    fiber->fibers = fibers;
    fiber->stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fg_assert(fiber->stack != MAP_FAILED);
    return fiber;
}

static void fiber_begin(struct fiber *fiber)
{
    uint64_t self = (uint64_t)(uintptr_t)fiber;

    fiber->begun = true;
#if defined FIBER_TSAN
    fiber->tsan = __tsan_create_fiber(0);
#endif
    fg_assert(getcontext(&fiber->context) == 0);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, (void (*)(void))body, 2, (unsigned)(self >> 32), (unsigned)self);
    /* The address sanitizer would forget all it knows of so much of the stack at every switch. */
    fiber->context.uc_stack.ss_size = 0;
}

static void fiber_end(struct fiber *fiber)
{
    if (fiber->begun) {
        fiber->over = true;
        enter(fiber->fibers, fiber);
#if defined FIBER_TSAN
        __tsan_destroy_fiber(fiber->tsan);
#endif
    }
    (void)munmap(fiber->stack, STACK_BYTES);
    free(fiber);
}

/* ---- what others call ---- */

struct fibers *fibers_create(void)
{
    return fg_new(struct fibers);
}

void fibers_destroy(struct fibers *fibers)
{
    fg_assert(fibers->n == 0);
    while (fibers->spare != NULL) {
        struct fiber *fiber = fibers->spare;

        fibers->spare = fiber->next;
        fiber_end(fiber);
    }
    free(fibers->heap);
    free(fibers);
}

void fibers_spawn(struct fibers *fibers, int64_t after_ns, void (*run)(void *arg), void *arg)
{
    struct fiber *fiber = fiber_get(fibers);

    fiber->run = run;
    fiber->arg = arg;
    fiber->ended = false;
    push(fibers, fiber, after_ns);
}

void fibers_sleep(struct fibers *fibers, int64_t ns)
{
    struct fiber *fiber = fibers->running;

    fg_assert(fiber != NULL);
    push(fibers, fiber, ns);
    leave(fiber);
}

bool fibers_turn(struct fibers *fibers)
{
    struct waiting next;

    if (fibers->n == 0)
        return false;
    next = pop(fibers);
    fibers->now_ns = next.at_ns;
    if (!next.fiber->begun)
        fiber_begin(next.fiber);
    enter(fibers, next.fiber);
    if (next.fiber->ended) {
        next.fiber->next = fibers->spare;
        fibers->spare = next.fiber;
    }
    return true;
}

int64_t fibers_now_ns(const struct fibers *fibers)
{
    return fibers->now_ns;
}
