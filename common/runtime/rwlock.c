#include "common/runtime/rwlock.h"

#include "common/base/def.h"

enum { HELD_MAX = 8 }; /* locks that one thread holds at a time; the deepest nesting is 3 */

/* The locks that this thread holds, to detect a second acquisition even if no other thread waits.
 */
static _Thread_local const struct fg_rwlock *held[HELD_MAX];
static _Thread_local unsigned n_held;

static void note_taken(const struct fg_rwlock *lock)
{
    fg_assert(n_held < HELD_MAX);
    held[n_held++] = lock;
}

static void assert_not_held(const struct fg_rwlock *lock)
{
    /* A second read lock deadlocks with this kind if a writer waits in between. That is rare
     * enough to pass all tests, so it is refused even without a writer. */
    for (unsigned i = 0; i < n_held; i++)
        fg_assert(held[i] != lock);
}

void fg_rwlock_init(struct fg_rwlock *lock)
{
    pthread_rwlockattr_t attr;

    fg_assert(pthread_rwlockattr_init(&attr) == 0);
    /* glibc's own. PTHREAD_RWLOCK_PREFER_WRITER_NP without NONRECURSIVE prefers readers in spite of
     * its name (pthread_rwlockattr_setkind_np(3)). */
    fg_assert(pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) ==
              0);
    fg_assert(pthread_rwlock_init(&lock->lock, &attr) == 0);
    fg_assert(pthread_rwlockattr_destroy(&attr) == 0);
}

void fg_rwlock_done(struct fg_rwlock *lock)
{
    fg_assert(pthread_rwlock_destroy(&lock->lock) == 0);
}

void fg_rwlock_read(struct fg_rwlock *lock)
{
    assert_not_held(lock);
    fg_assert(pthread_rwlock_rdlock(&lock->lock) == 0);
    note_taken(lock);
}

void fg_rwlock_write(struct fg_rwlock *lock)
{
    assert_not_held(lock);
    fg_assert(pthread_rwlock_wrlock(&lock->lock) == 0);
    note_taken(lock);
}

void fg_rwlock_unlock(struct fg_rwlock *lock)
{
    unsigned i = n_held;

    while (i > 0 && held[i - 1] != lock)
        i--;
    fg_assert(i > 0);
    held[i - 1] = held[--n_held];
    fg_assert(pthread_rwlock_unlock(&lock->lock) == 0);
}
