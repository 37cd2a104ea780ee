/*
 * Attributes, ownership and assertions that every file uses. It includes banned.h, so that a call
 * of a banned function fails to compile in every file.
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

/* Returns the struct that has `ptr` as its member: fg_container(job, struct push, job). */
#define fg_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/*
 * Declares a local variable that owns what it points to: fg_auto(fg_buf) *buf = ...; its closer
 * runs on every way out of the scope. FG_AUTO(type, closer) in the header of the type makes that
 * possible. The closer accepts NULL.
 */
#define FG_AUTO(type, closer)                                                                      \
    fg_unused static inline void type##_auto(struct type **owned)                                  \
    {                                                                                              \
        closer(*owned);                                                                            \
    }
#define fg_auto(type) __attribute__((cleanup(type##_auto))) struct type

/* Moves ownership out of an fg_auto variable and sets it to NULL: *ret_x = fg_take(x); */
#define fg_take(var)                                                                               \
    ({                                                                                             \
        __typeof__(var) fg_taken = (var);                                                          \
        (var) = NULL;                                                                              \
        fg_taken;                                                                                  \
    })

/* Aborts if the condition is false. It stays in release builds, because a wrong answer costs more
 * than the check. */
#define fg_assert(cond)                                                                            \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            fg_assert_failed(#cond, __FILE__, __LINE__);                                           \
    } while (0)

void fg_assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn, cold));

/* Allocate memory, and abort if there is none. Callers check sizes that a client chooses before. */
void *fg_malloc(size_t size) __attribute__((malloc, returns_nonnull));
void *fg_calloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *fg_realloc(void *ptr, size_t size) __attribute__((returns_nonnull));
char *fg_strdup(const char *text) __attribute__((malloc, returns_nonnull));

/* Allocates a zeroed struct, to be released with free(): struct x *x = fg_new(struct x); */
#define fg_new(type) ((type *)fg_calloc(1, sizeof(type)))

/*
 * Converts the void * of a callback to a struct that begins with a magic number, and asserts the
 * number:
 *     struct fg_call *call = fg_obj(arg, fg_call, FG_CALL_MAGIC);
 */
#define fg_obj(arg, type, wanted)                                                                  \
    ({                                                                                             \
        struct type *fg_object = (arg);                                                            \
        fg_assert(fg_object != NULL && fg_object->magic == (wanted));                              \
        fg_object;                                                                                 \
    })

#endif
