/*
 * Access of a process over a bucket in memory that may be away or hold a request, a server with
 * three routes that it guards, and a clock that the test moves. For tests of access.h.
 */
#ifndef FG_TESTS_UNIT_COMMON_ACCESS_ACCESS_RUN_H
#define FG_TESTS_UNIT_COMMON_ACCESS_ACCESS_RUN_H

#include "common/access/access.h"
#include "tests/lib/access_make.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_hold.h"
#include "tests/lib/served.h"

enum { WALL_MS = 1700000000 };

struct access_run {
    struct fg_clock_manual clock;
    struct fg_access_settings settings;
    char folder[64], copy[96], token_file[96], cidrs[64];
    struct fg_registry *metrics;
    struct fg_conditions *conditions;
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty; /* in front of that */
    struct bucket_hold hold;         /* in front of both */
    struct fg_access *access;
    struct served served;
    struct fg_arena *arena;
    struct access_make make;
    char push[FG_TOKEN_CHARS + 1], read[FG_TOKEN_CHARS + 1], admin[FG_TOKEN_CHARS + 1];
};

/* Of the bucket: it does not answer, or it does. */
extern const struct fg_bucket_faults access_run_away, access_run_well;

/* Make and free a run, with the tenant "a" and the tokens `push` and `read` in `make`. */
int access_run_set_up(void **state);
int access_run_tear_down(void **state);

/* Creates the access, without a server. */
void access_run_create(struct access_run *f);
/* Serves /push, /read and /known, and begins to follow the bucket. */
void access_run_serve(struct access_run *f);
/* Does both, and returns after the first look, whatever came of it. The next ones are the test's,
 * unless a request wakes the thread. */
void access_run_start(struct access_run *f);
/* Ends it. Also its metrics and conditions are gone. */
void access_run_stop(struct access_run *f);
/* Stops to follow while the bucket holds a request, which has to be cancelled. */
void access_run_unfollow_held(struct access_run *f);
/* Waits until the thread has looked at the bucket so often in all. */
void access_run_await_looks(struct access_run *f, uint64_t n);

/* Returns the value of a metric that there is. */
uint64_t access_run_metric(struct access_run *f, const char *name);
/* Returns the conditions as text, valid until the next call. */
const char *access_run_conditions(struct access_run *f);
/* Asks for a path with a token. Returns the status. */
unsigned access_run_ask(struct access_run *f, const char *path, const char *token);

/* Stores `make` as the next generation of the registry. */
void access_run_put(struct access_run *f);
/* Stores these bytes as the registry. */
void access_run_put_bytes(struct access_run *f, struct fg_slice bytes);
/* Removes the registry from the bucket. */
void access_run_lose(struct access_run *f);
/* Returns the generation of the registry in the bucket; 0: there is none. */
uint64_t access_run_stored_generation(struct access_run *f);

#endif
