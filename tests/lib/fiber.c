#include "tests/lib/fiber.h"

#include <stdlib.h>
#include <sys/mman.h>
#if !defined __x86_64__
#include <ucontext.h>
#endif

#if defined __SANITIZE_ADDRESS__
#define FIBER_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined FIBER_ASAN
#include <sanitizer/asan_interface.h>
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

enum { STACK_BYTES = 1024 * 1024, GUARD_BYTES = 64 * 1024 };

/*
 * Where something stopped. swapcontext() would do everywhere, but asks the kernel for the signal
 * mask at each switch, and that was half of what a simulation took.
 */
#if defined __x86_64__
struct place {
    void *sp; /* above it: what a function has to keep, and where it goes on */
};
#else
struct place {
    ucontext_t context;
};
#endif

struct fiber {
    struct fibers *fibers;
    struct place place;
    void *stack;
    void (*run)(void *arg);
    void *arg;
    bool begun;         /* has a context */
    bool ended;         /* what it ran: it waits for something else to run */
    bool over;          /* it will not run again */
    bool waits;         /* in fibers_wait() */
    bool woken;         /* out of it */
    uint64_t number;    /* of its place in the heap; others there are out of date */
    void *fake_stack;   /* of the address sanitizer */
    void *tsan;         /* of the thread sanitizer */
    struct fiber *next; /* of those that have ended, or were killed */
};

struct waiting {
    int64_t at_ns;
    uint64_t number; /* first come, first served */
    struct fiber *fiber;
};

struct fibers {
    struct place main;
    void *main_fake_stack, *main_tsan;
    const void *main_bottom;
    size_t main_bytes;
    int64_t now_ns;
    uint64_t number;
    struct waiting *heap;
    uint32_t n, cap;
    struct fiber *running, *spare, *killed;
};

/* ---- the heap ---- */

static bool is_before(const struct waiting *a, const struct waiting *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void push(struct fibers *fibers, struct fiber *fiber, int64_t after_ns)
{
    const struct waiting last = {fibers->now_ns + after_ns, ++fibers->number, fiber};
    uint32_t at = fibers->n++;

    fiber->number = last.number;
    if (at == fibers->cap) {
        fibers->cap = FG_MAX(64, fibers->cap * 2);
        fibers->heap = fg_realloc(fibers->heap, fibers->cap * sizeof *fibers->heap);
    }
    for (; at > 0 && is_before(&last, &fibers->heap[(at - 1) / 2]); at = (at - 1) / 2)
        fibers->heap[at] = fibers->heap[(at - 1) / 2];
    fibers->heap[at] = last;
}

static struct waiting pop(struct fibers *fibers)
{
    struct waiting *heap = fibers->heap, first = heap[0];
    const struct waiting last = heap[--fibers->n];
    uint32_t at = 0, child;

    while ((child = 2 * at + 1) < fibers->n) {
        child += child + 1 < fibers->n && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* ---- places ---- */

/* What a fiber runs. */
static void body(struct fiber *fiber);

#if defined __x86_64__

/* System V ABI: six registers to keep; the third argument becomes the first of body(), if that is
 * where it goes on. */
__asm__(".pushsection .text\n"
        ".type place_switch, @function\n"
        "place_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    movq %rdx, %rdi\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size place_switch, .-place_switch\n"
        ".popsection\n");
void place_switch(struct place *from, struct place *to, struct fiber *fiber);

/* The first switch takes six registers and body() off the stack, which is then as after a call. */
static void place_begin(struct fiber *fiber)
{
    void (**top)(struct fiber *) = (void *)((char *)fiber->stack + STACK_BYTES);

    top[-2] = body;
    fiber->place.sp = &top[-8];
}

#else

static void place_switch(struct place *from, struct place *to, struct fiber *fiber)
{
    (void)fiber;
    fg_assert(swapcontext(&from->context, &to->context) == 0);
}

/* makecontext() passes ints; a pointer is two of them. */
static void body_of(unsigned high, unsigned low)
{
    body((struct fiber *)(uintptr_t)((uint64_t)high << 32 | low));
}

static void place_begin(struct fiber *fiber)
{
    uint64_t self = (uint64_t)(uintptr_t)fiber;
    ucontext_t *context = &fiber->place.context;

    fg_assert(getcontext(context) == 0);
    context->uc_stack.ss_sp = fiber->stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, (void (*)(void))body_of, 2, (unsigned)(self >> 32), (unsigned)self);
    /* The address sanitizer would forget all it knows of so much of the stack at every switch. */
    context->uc_stack.ss_size = 0;
}

#endif

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
    place_switch(&fibers->main, &fiber->place, fiber);
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
    place_switch(&fiber->place, &fibers->main, NULL);
#if defined FIBER_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &fibers->main_bottom, &fibers->main_bytes);
#endif
}

static void body(struct fiber *fiber)
{
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
    /* What needs more ends at once, and not with other fibers' memory. */
    fg_assert(mprotect(fiber->stack, GUARD_BYTES, PROT_NONE) == 0);
    return fiber;
}

static void fiber_begin(struct fiber *fiber)
{
    fiber->begun = true;
#if defined FIBER_TSAN
    fiber->tsan = __tsan_create_fiber(0);
#endif
    place_begin(fiber);
}

static void stack_free(struct fiber *fiber)
{
#if defined FIBER_ASAN
    __asan_unpoison_memory_region(fiber->stack, STACK_BYTES); /* of a fiber that was killed */
#endif
    (void)munmap(fiber->stack, STACK_BYTES);
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
    stack_free(fiber);
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
    while (fibers->killed != NULL) {
        struct fiber *fiber = fibers->killed;

        fibers->killed = fiber->next;
        free(fiber);
    }
    free(fibers->heap);
    free(fibers);
}

struct fiber *fibers_spawn(struct fibers *fibers, int64_t after_ns, void (*run)(void *arg),
                           void *arg)
{
    struct fiber *fiber = fiber_get(fibers);

    fiber->run = run;
    fiber->arg = arg;
    fiber->ended = false;
    push(fibers, fiber, after_ns);
    return fiber;
}

void fibers_sleep(struct fibers *fibers, int64_t ns)
{
    struct fiber *fiber = fibers->running;

    fg_assert(fiber != NULL);
    push(fibers, fiber, ns);
    leave(fiber);
}

bool fibers_wait(struct fibers *fibers, int64_t ns)
{
    struct fiber *fiber = fibers->running;

    fg_assert(fiber != NULL);
    fiber->waits = true;
    fiber->woken = false;
    fiber->number = 0;
    if (ns != INT64_MAX)
        push(fibers, fiber, ns);
    leave(fiber);
    fiber->waits = false;
    return fiber->woken;
}

void fibers_wake(struct fibers *fibers, struct fiber *fiber, int64_t after_ns)
{
    if (!fiber->waits || fiber->woken)
        return;
    fiber->woken = true;
    push(fibers, fiber, after_ns);
}

void fibers_kill(struct fibers *fibers, struct fiber *fiber)
{
    fg_assert(fiber != fibers->running);
    fiber->number = 0;
    stack_free(fiber);
#if defined FIBER_TSAN
    if (fiber->begun)
        __tsan_destroy_fiber(fiber->tsan);
#endif
    fiber->next = fibers->killed;
    fibers->killed = fiber;
}

struct fiber *fibers_running(const struct fibers *fibers)
{
    return fibers->running;
}

bool fibers_turn(struct fibers *fibers)
{
    struct waiting next;

    do {
        if (fibers->n == 0)
            return false;
        next = pop(fibers);
    } while (next.number != next.fiber->number);
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
