#include "common/storage/seal/locked.h"

#include <openssl/crypto.h>
#include <sys/mman.h>

void *fg_locked_alloc(size_t bytes, bool *ret_locked)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    fg_assert(memory != MAP_FAILED);
    /* These two need no permission, and kernels know them since 3.4 and 4.14. */
    (void)madvise(memory, bytes, MADV_DONTDUMP);
    (void)madvise(memory, bytes, MADV_WIPEONFORK);
    *ret_locked = mlock(memory, bytes) == 0;
    return memory;
}

void fg_locked_free(void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    OPENSSL_cleanse(memory, bytes);
    (void)munmap(memory, bytes);
}
