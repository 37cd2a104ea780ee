/*
 * Words every file uses: attributes, ownership, assertions. Includes banned.h, so that a call to a
 * function we do not want fails to compile wherever this header is seen, which is everywhere.
 */
#ifndef FG_COMMON_BASE_DEF_H
#define FG_COMMON_BASE_DEF_H

#include "common/base/banned.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define fg_must_check   __attribute__((warn_unused_result))
#define fg_printf(f, a) __attribute__((format(printf, f, a)))
#define fg_unused       __attribute__((unused))

#define FG_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FG_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define FG_MAX(a, b)    ((a) > (b) ? (a) : (b))

/* What an embedded member belongs to: fg_container(job, struct push, job). */
#define fg_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/*
 * A local that owns something: fg_auto(fg_buf) *buf = ...; its closer runs on every way out.
 * FG_AUTO(type, closer) in the header of the type makes that possible; the closer accepts NULL.
 */
#define FG_AUTO(type, closer)                                                                      \
    fg_unused static inline void type##_auto(struct type **owned)                                  \
    {                                                                                              \
        closer(*owned);                                                                            \
    }
#define fg_auto(type) __attribute__((cleanup(type##_auto))) struct type

/* Ownership leaves an fg_auto variable: *ret_x = fg_take(x); */
#define fg_take(var)                                                                               \
    ({                                                                                             \
        __typeof__(var) fg_taken = (var);                                                          \
        (var) = NULL;                                                                              \
        fg_taken;                                                                                  \
    })

/* What cannot happen. Stays in release builds: a wrong answer costs more than the check. */
#define fg_assert(cond)                                                                            \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            fg_assert_failed(#cond, __FILE__, __LINE__);                                           \
    } while (0)

void fg_assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn, cold));

/* malloc and friends that abort when memory is gone; sizes that a client chooses are checked
 * before. */
void *fg_malloc(size_t size) __attribute__((malloc, returns_nonnull));
void *fg_calloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *fg_realloc(void *ptr, size_t size) __attribute__((returns_nonnull));

/* For a struct: struct x *x = fg_new(struct x); zeroed, released with free(). */
#define fg_new(type) ((type *)fg_calloc(1, sizeof(type)))

/*
 * What a callback receives as void * begins with a magic number, and is unwrapped with a check:
 *     struct fg_call *call = fg_obj(arg, fg_call, FG_CALL_MAGIC);
 */
#define fg_obj(arg, type, wanted)                                                                  \
    ({                                                                                             \
        struct type *fg_object = (arg);                                                            \
        fg_assert(fg_object != NULL && fg_object->magic == (wanted));                              \
        fg_object;                                                                                 \
    })

#endif
