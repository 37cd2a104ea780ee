#include "common/self_profile/own_stack.h"

#include <pthread.h>
#include <unistd.h>

/* glibc's: where the first thread's stack began. */
extern void *__libc_stack_end;

uintptr_t fg_own_stack_high(void)
{
    static _Thread_local uintptr_t high;

    /* glibc puts the descriptor of each other thread, which pthread_self() points to, at the high
     * end of the thread's stack. pthread_getattr_np() says the same, but allocates and locks. */
    if (high == 0)
        high = gettid() == getpid() ? (uintptr_t)__libc_stack_end : (uintptr_t)pthread_self();
    return high;
}
