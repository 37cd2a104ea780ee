/* Provides a whole querier behind a real HTTP server, with two ingesters that share the shards of a
 * ring and answer as the test says. */
#ifndef FG_TESTS_UNIT_QUERIER_QUERIER_SERVED_H
#define FG_TESTS_UNIT_QUERIER_QUERIER_SERVED_H

#include "common/runtime/work.h"
#include "querier/querier.h"
#include "tests/lib/served.h"
#include "tests/lib/tenants.h"
#include "tests/unit/querier/fake_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PEERS = 2 };

#define CPU           "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define NOW           INT64_C(1700003600)
#define WHEN          "\"start\":1700000000000,\"end\":1700000060000"
#define BASE          "\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"{}\"," WHEN
#define INVALID(text) "{\"code\":\"invalid_argument\",\"message\":\"" text "\"}"

struct querier_served {
    struct served served;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct querier *querier;
    struct fg_bucket *bucket; /* has only the ring */
    struct fg_ring_watch *ring;
    struct fg_peers *to_peers;
    struct fg_clock_manual clock;
    struct fake_peer peers[PEERS];
};

/* Of cmocka: *state is a struct querier_served, of two workers and one tenant. */
int querier_setup(void **state);
int querier_setup_full_lane(void **state); /* no worker: the lane takes nothing */
int querier_setup_one_worker(void **state);
int querier_setup_tenants(void **state);       /* several tenants, one worker */
int querier_setup_short_queries(void **state); /* of at most 90 minutes */
int querier_teardown(void **state);

/* Sends a request, its first line and headers, and returns the status of the answer. */
unsigned querier_ask(struct querier_served *f, const char *request, const char *body);

/* Calls a method of the QuerierService. */
unsigned querier_call(struct querier_served *f, const char *method, const char *json);

/* Both are of the last answer. */
const char *querier_body(struct querier_served *f);
bool querier_head_has(struct querier_served *f, const char *text);

/* Asks, and asserts status and body. */
void querier_expect(struct querier_served *f, const char *method, const char *json, unsigned status,
                    const char *want);
void querier_expect_get(struct querier_served *f, const char *path, unsigned status,
                        const char *want);

/* Lets a peer answer with stacks: "main;work 5". */
void querier_answer_stacks(struct fake_peer *peer, const char *const *stacks, size_t n);

/* Lets a peer answer with series: "a=b,c=d". */
void querier_answer_series(struct fake_peer *peer, const char *const *sets, size_t n);

struct querier_point {
    uint64_t skip; /* steps between this point and the one before */
    int64_t sum;
    uint64_t count;
};

/* Adds the points of a set of labels to the answer of a peer, behind their number. */
void querier_add_points(struct fake_peer *peer, const char *labels,
                        const struct querier_point *points, size_t n);

#define STACKS(peer, ...)                                                                          \
    querier_answer_stacks(peer, (const char *const[]){__VA_ARGS__},                                \
                          FG_COUNT(((const char *const[]){__VA_ARGS__})))
#define SERIES(peer, ...)                                                                          \
    querier_answer_series(peer, (const char *const[]){__VA_ARGS__},                                \
                          FG_COUNT(((const char *const[]){__VA_ARGS__})))

#endif
