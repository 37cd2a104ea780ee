/*
 * A read-write lock that prefers writers: a reader that arrives while a writer waits has to wait
 * for that writer. So a writer waits only for the readers that hold the lock when it arrives.
 * glibc's default prefers readers, and overlapping readers can starve a writer. All read-write
 * locks of the tree are of this kind.
 *
 * Rules:
 *   - A thread that holds the lock must not take it again, not even for reading: a writer may wait
 *     in between, and both would wait forever. An assertion detects the second attempt even if no
 *     writer waits.
 *   - Hold it for look-ups and copies only. While a writer waits for one long reader, all other
 *     readers wait as well. Do work whose length grows with the data on a copy, or in pieces that
 *     release the lock in between.
 *
 * Thread: any. The thread that took the lock releases it.
 */
#ifndef FG_COMMON_RUNTIME_RWLOCK_H
#define FG_COMMON_RUNTIME_RWLOCK_H

#include <pthread.h>

struct fg_rwlock {
    pthread_rwlock_t lock;
};

/* Initialises a lock that no thread holds. Never fails. */
void fg_rwlock_init(struct fg_rwlock *lock);

/* Destroys a lock that no thread holds or waits for. */
void fg_rwlock_done(struct fg_rwlock *lock);

/* Waits until no writer holds the lock or waits for it, and takes it for reading. */
void fg_rwlock_read(struct fg_rwlock *lock);

/* Waits until no thread holds the lock, and takes it for writing. */
void fg_rwlock_write(struct fg_rwlock *lock);

/* Releases what fg_rwlock_read() or fg_rwlock_write() took. */
void fg_rwlock_unlock(struct fg_rwlock *lock);

#endif
