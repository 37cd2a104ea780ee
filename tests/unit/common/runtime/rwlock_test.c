/* Read-write locks: a writer waits for the readers of the moment, not for all that come. */
#include "common/base/def.h"
#include "common/runtime/rwlock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { READERS = 4 };

static struct fg_rwlock lock;
static atomic_bool writer_in, late_reader_in, stop;
static atomic_uint n_in;
static uint64_t a, b; /* equal whenever nobody writes */

static void *write_once(void *arg)
{
    (void)arg;
    fg_rwlock_write(&lock);
    assert_false(atomic_load(&late_reader_in));
    atomic_store(&writer_in, true);
    fg_rwlock_unlock(&lock);
    return NULL;
}

static void *read_late(void *arg)
{
    (void)arg;
    fg_rwlock_read(&lock);
    assert_true(atomic_load(&writer_in));
    atomic_store(&late_reader_in, true);
    fg_rwlock_unlock(&lock);
    return NULL;
}

/* Until a reader could not get in at once: somebody waits to write. */
static void await_waiting_writer(void)
{
    while (pthread_rwlock_tryrdlock(&lock.lock) == 0) {
        assert_int_equal(pthread_rwlock_unlock(&lock.lock), 0);
        (void)usleep(100);
    }
}

static void *try_waiting_writer(void *arg)
{
    await_waiting_writer();
    return arg;
}

/* A lock that prefers readers lets the late reader in, and never makes one wait: then
 * try_waiting_writer() does not end, and the test fails by its time limit. */
static void a_later_reader_waits_for_the_writer(void **state)
{
    pthread_t writer, reader, prober;

    (void)state;
    fg_rwlock_init(&lock);
    fg_rwlock_read(&lock);
    assert_int_equal(pthread_create(&writer, NULL, write_once, NULL), 0);
    assert_int_equal(pthread_create(&prober, NULL, try_waiting_writer, NULL), 0);
    assert_int_equal(pthread_join(prober, NULL), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_late, NULL), 0);
    fg_rwlock_unlock(&lock);
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_true(atomic_load(&late_reader_in));
    fg_rwlock_done(&lock);
}

/* Reads on and on, and lets go only while another one reads. */
static void *read_overlapping(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        fg_rwlock_read(&lock);
        assert_int_equal(a, b);
        (void)atomic_fetch_add(&n_in, 1);
        for (int i = 0; i < 1000 && atomic_load(&n_in) < 2 && !atomic_load(&stop); i++)
            (void)usleep(1);
        (void)atomic_fetch_sub(&n_in, 1);
        fg_rwlock_unlock(&lock);
    }
    return NULL;
}

static void overlapping_readers_do_not_starve_a_writer(void **state)
{
    pthread_t readers[READERS];

    (void)state;
    fg_rwlock_init(&lock);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_overlapping, NULL), 0);
    for (int i = 0; i < 50; i++) {
        fg_rwlock_write(&lock);
        a++;
        b++;
        fg_rwlock_unlock(&lock);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(a, 50);
    fg_rwlock_done(&lock);
}

/* In a process of its own, for it ends by an assertion. */
static int status_of(void (*take)(struct fg_rwlock *lock))
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO);
        fg_rwlock_read(&lock);
        take(&lock);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_second_lock_by_the_same_thread_is_asserted(void **state)
{
    (void)state;
    fg_rwlock_init(&lock);
    assert_int_equal(WTERMSIG(status_of(fg_rwlock_read)), SIGABRT);
    assert_int_equal(WTERMSIG(status_of(fg_rwlock_write)), SIGABRT);
    fg_rwlock_done(&lock);
}

static void different_locks_may_nest(void **state)
{
    struct fg_rwlock locks[3];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(locks); i++)
        fg_rwlock_init(&locks[i]);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < FG_COUNT(locks); i++)
            fg_rwlock_read(&locks[i]);
        fg_rwlock_unlock(&locks[2]);
        fg_rwlock_write(&locks[2]);
        fg_rwlock_unlock(&locks[0]);
        fg_rwlock_unlock(&locks[2]);
        fg_rwlock_unlock(&locks[1]);
    }
    for (size_t i = 0; i < FG_COUNT(locks); i++)
        fg_rwlock_done(&locks[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_reader_waits_for_the_writer),
        cmocka_unit_test(overlapping_readers_do_not_starve_a_writer),
        cmocka_unit_test(a_second_lock_by_the_same_thread_is_asserted),
        cmocka_unit_test(different_locks_may_nest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
