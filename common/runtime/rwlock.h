/*
 * A read-write lock that prefers writers: a reader that comes while a writer waits has to wait for
 * that writer. A writer therefore waits for the readers of the moment only, however many come after
 * it. glibc's default is the opposite: readers that overlap keep a writer out for as long as they
 * come. All read-write locks of the tree are of this kind.
 *
 * Rules for whoever takes it:
 *   - A thread that holds the lock does not take it again, not even for reading: a writer may wait
 *     in between, and neither would go on. fg_assert() finds that at the first attempt, whether or
 *     not a writer waits.
 *   - It is held for look-ups and copies. While a writer waits for one long reader, all other
 *     readers wait as well; so work whose length grows with the data is done on a copy, or in
 *     pieces that let go of the lock in between.
 *
 * Thread: any. The thread that took the lock gives it back.
 */
#ifndef FG_COMMON_RUNTIME_RWLOCK_H
#define FG_COMMON_RUNTIME_RWLOCK_H

#include <pthread.h>

struct fg_rwlock {
    pthread_rwlock_t lock;
};

/* Makes a lock that nobody holds. Never fails. */
void fg_rwlock_init(struct fg_rwlock *lock);

/* Ends a lock that nobody holds or waits for. */
void fg_rwlock_done(struct fg_rwlock *lock);

/* Waits until no writer holds the lock or waits for it, and takes it for reading. */
void fg_rwlock_read(struct fg_rwlock *lock);

/* Waits until nobody holds the lock, and takes it for writing. */
void fg_rwlock_write(struct fg_rwlock *lock);

/* Gives back what fg_rwlock_read() or fg_rwlock_write() took. */
void fg_rwlock_unlock(struct fg_rwlock *lock);

#endif
