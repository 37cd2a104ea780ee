/*
 * Stands in for malloc() and its kin, and for pthread_mutex_lock() and its kin, of the whole
 * process: a program that defines them is asked in place of the C library, also by RocksDB, curl
 * and nng, so the profiles of heap and locks cover what wrappers of our own would not. Each goes on
 * with glibc's own function under another name. Linked to programs only, and not with sanitizers,
 * which stand in for the same functions (CMakeLists.txt).
 *
 * Costs: malloc() one subtraction and test, free() one test of the address; a lock that is free
 * nothing, since trylock takes it as lock would. They are the same whether profiles are taken or
 * not.
 *
 * Nothing here may allocate or lock by the functions that it stands in for; `inside` guards it.
 */
#include "common/self_profile/hooks.h"

#include "common/self_profile/heap_samples.h"
#include "common/self_profile/lock_waits.h"
#include "common/self_profile/own_stack.h"
#include "common/self_profile/quiet_lock.h"
#include "common/self_profile/sampling.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of glibc, whose manual names them for this use ("Replacing malloc"). */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *ptr);

enum { RECHECK_BYTES = 1024 * 1024 }; /* allocated between two looks whether profiles are taken */

static _Thread_local struct {
    int64_t left; /* bytes until the next sample */
    uint64_t heap_random, lock_random;
    bool inside;
} own;

const bool fg_hooks_are_linked = true;

/* ---- the heap ---- */

/* Returns the profile if a block of this size, which exceeded own.left, is to be sampled. */
static struct fg_heap_samples *due(size_t size)
{
    struct fg_heap_samples *heap = atomic_load_explicit(&fg_heap_sampled, memory_order_acquire);
    bool is_first = own.heap_random == 0;

    if (heap == NULL || own.inside) {
        own.left = RECHECK_BYTES;
        return NULL;
    }
    if (is_first)
        own.heap_random = (uintptr_t)&own ^ (uint64_t)clock();
    own.left = fg_sampling_next(&own.heap_random, fg_heap_samples_mean(heap));
    if (!is_first)
        return heap;
    /* The thread's first block is no likelier to be sampled than others. */
    own.left -= (int64_t)size;
    return own.left < 0 ? heap : NULL;
}

/* Allocates a block that is sampled. NULL: there is no memory. */
static __attribute__((noinline)) void *sample(struct fg_heap_samples *heap, size_t alignment,
                                              size_t size, const uintptr_t *pcs, uint32_t depth)
{
    void *ptr = __libc_memalign(FG_MAX(alignment, (size_t)FG_HEAP_MARK_BYTES), size);

    own.inside = true;
    if (ptr != NULL)
        fg_heap_samples_add(heap, ptr, size, pcs, depth);
    own.inside = false;
    return ptr;
}

/* The rare half of each function is apart, so that the usual one needs no stack frame. */
static __attribute__((noinline)) void *malloc_due(size_t alignment, size_t size)
{
    struct fg_heap_samples *heap = due(size);
    uintptr_t pcs[FG_STACK_DEPTH_MAX];

    if (heap != NULL)
        return sample(heap, alignment, size, pcs, fg_own_stack(pcs));
    return alignment == 0 ? __libc_malloc(size) : __libc_memalign(alignment, size);
}

static inline bool is_due(size_t size)
{
    /* Sizes that do not fit fail in malloc(). */
    own.left -= size > INT64_MAX / 2 ? 0 : (int64_t)size;
    return __builtin_expect(own.left < 0, 0);
}

void *malloc(size_t size)
{
    return is_due(size) ? malloc_due(0, size) : __libc_malloc(size);
}

static __attribute__((noinline)) void *calloc_due(size_t count, size_t size)
{
    struct fg_heap_samples *heap = due(count * size);
    uintptr_t pcs[FG_STACK_DEPTH_MAX];
    void *ptr;

    if (heap == NULL)
        return __libc_calloc(count, size);
    ptr = sample(heap, 0, count * size, pcs, fg_own_stack(pcs));
    return ptr == NULL ? NULL : memset(ptr, 0, count * size);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;

    if (!__builtin_mul_overflow(count, size, &bytes) && is_due(bytes))
        return calloc_due(count, size);
    return __libc_calloc(count, size);
}

static inline bool may_be_sampled(const void *ptr)
{
    return __builtin_expect((uintptr_t)ptr % FG_HEAP_MARK_BYTES == 0, 0) && ptr != NULL;
}

static __attribute__((noinline)) void forget(const void *ptr)
{
    struct fg_heap_samples *heap = atomic_load_explicit(&fg_heap_sampled, memory_order_acquire);

    if (heap == NULL || own.inside)
        return;
    own.inside = true;
    fg_heap_samples_remove(heap, ptr);
    own.inside = false;
}

void free(void *ptr)
{
    if (may_be_sampled(ptr))
        forget(ptr);
    __libc_free(ptr);
}

static __attribute__((noinline)) void *realloc_due(void *old, size_t size)
{
    struct fg_heap_samples *heap = due(size);
    uintptr_t pcs[FG_STACK_DEPTH_MAX];
    void *ptr;

    /* Of a size of 0 glibc frees the block. */
    if (heap == NULL || size == 0)
        return __libc_realloc(old, size);
    ptr = sample(heap, 0, size, pcs, fg_own_stack(pcs));
    if (ptr == NULL || old == NULL)
        return ptr;
    memcpy(ptr, old, FG_MIN(size, malloc_usable_size(old)));
    __libc_free(old);
    return ptr;
}

void *realloc(void *ptr, size_t size)
{
    /* Also if it fails then and the block stays: that one is missing in the profile. */
    if (may_be_sampled(ptr))
        forget(ptr);
    return is_due(size) ? realloc_due(ptr, size) : __libc_realloc(ptr, size);
}

void *memalign(size_t alignment, size_t size)
{
    return is_due(size) ? malloc_due(alignment, size) : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **ret_ptr, size_t alignment, size_t size)
{
    void *ptr;

    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    ptr = memalign(alignment, size);
    if (ptr == NULL)
        return ENOMEM;
    *ret_ptr = ptr;
    return 0;
}

/* ---- locks ---- */

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Decides whether a wait that began at start_ns is sampled. Returns 0, or for how many waits it
 * stands. */
static int64_t draw_wait(int64_t start_ns, int64_t *ret_delay_ns)
{
    if (atomic_load_explicit(&fg_lock_waits_sampled, memory_order_relaxed) == NULL || own.inside)
        return 0;
    if (own.lock_random == 0)
        own.lock_random = (uintptr_t)&own ^ (uint64_t)start_ns;
    return fg_sampling_of_length(&own.lock_random, now_ns() - start_ns, FG_LOCK_WAIT_MEAN_NS,
                                 ret_delay_ns);
}

static void note_waits(int64_t count, int64_t delay_ns, const uintptr_t *pcs, uint32_t depth)
{
    struct fg_lock_waits *waits =
        atomic_load_explicit(&fg_lock_waits_sampled, memory_order_acquire);

    own.inside = true;
    if (waits != NULL) /* profiling may have stopped since the draw */
        fg_lock_waits_add(waits, count, delay_ns, pcs, depth);
    own.inside = false;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): types and names take none */
/* Defines a lock function: `try` takes the lock as it does, `wait` waits as it does, if it gets a
 * time that never comes. */
#define STAND_IN_FOR(name, type, try, wait)                                                        \
    static __attribute__((noinline)) int name##_contended(type *lock)                              \
    {                                                                                              \
        int64_t start_ns = now_ns(), delay_ns = 0;                                                 \
        int result = wait(lock, &FG_QUIET_FOREVER);                                                \
        int64_t count = draw_wait(start_ns, &delay_ns);                                            \
        uintptr_t pcs[FG_STACK_DEPTH_MAX];                                                         \
                                                                                                   \
        if (count > 0)                                                                             \
            note_waits(count, delay_ns, pcs, fg_own_stack(pcs));                                   \
        return result;                                                                             \
    }                                                                                              \
                                                                                                   \
    int name(type *lock)                                                                           \
    {                                                                                              \
        int result = try(lock);                                                                    \
                                                                                                   \
        return __builtin_expect(result == EBUSY, 0) ? name##_contended(lock) : result;             \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

STAND_IN_FOR(pthread_mutex_lock, pthread_mutex_t, pthread_mutex_trylock, pthread_mutex_timedlock)
STAND_IN_FOR(pthread_rwlock_rdlock, pthread_rwlock_t, pthread_rwlock_tryrdlock,
             pthread_rwlock_timedrdlock)
STAND_IN_FOR(pthread_rwlock_wrlock, pthread_rwlock_t, pthread_rwlock_trywrlock,
             pthread_rwlock_timedwrlock)
