#include "common/base/def.h"

void fg_assert_failed(const char *cond, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, cond);
    abort();
}

/* Ends the program: budgets bound the requests, so the machine itself is out of memory, and an
 * error path would need memory, too. */
static void out_of_memory(size_t size)
{
    (void)fprintf(stderr, "out of memory asking for %zu bytes\n", size);
    abort();
}

/* At least a byte, here and below: malloc(0) may return NULL, which callers would take for a
 * failure. */
void *fg_malloc(size_t size)
{
    void *ptr = malloc(size == 0 ? 1 : size);

    if (ptr == NULL)
        out_of_memory(size);
    return ptr;
}

void *fg_calloc(size_t count, size_t size)
{
    void *ptr = calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);

    if (ptr == NULL)
        out_of_memory(count * size);
    return ptr;
}

void *fg_realloc(void *ptr, size_t size)
{
    void *grown = realloc(ptr, size == 0 ? 1 : size);

    if (grown == NULL)
        out_of_memory(size);
    return grown;
}

char *fg_strdup(const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(fg_malloc(size), text, size);
}
