/*
 * A whole ingester against a slow and obvious one, a list of all profiles that is searched from the
 * front, over the memory store and over RocksDB, with restarts in between.
 */
#include "ingester/ingester.h"
#include "proto/inner.pb-c.h"
#include "tests/lib/head_run.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROFILES = 150, SAMPLES = 5, QUERIES = 120 };

#define WINDOW_NS (10 * FG_MINUTE_NS)

/* On a border of two windows. */
static const int64_t start_ns = INT64_C(1700000400) * FG_SECOND_NS;

static const char *const stacks[] = {"main",      "main;work",     "main;work;hash",
                                     "main;idle", "run;serve",     "run;serve;work",
                                     "",          "main;work;sort"};

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

/* ---- the slow one ---- */

struct slow_profile {
    struct head_profile profile;
    struct head_sample samples[SAMPLES];
    struct fg_id id;
};

struct slow {
    struct slow_profile items[PROFILES];
    size_t count;
};

static bool is_deleted(const struct fg_deletions *without, const struct head_profile *profile)
{
    struct fg_label items[] = {
        {FG_LIT("__name__"), FG_LIT("process_cpu")},
        {FG_LIT("service_name"), fg_cstr(profile->service)},
        {FG_LIT("zone"), fg_cstr(profile->zone == NULL ? "" : profile->zone)}};
    const struct fg_labels labels = {items, FG_COUNT(items)}; /* one that is empty is none */
    bool deleted = false;

    for (uint32_t i = 0; without != NULL && i < without->count; i++)
        deleted |= fg_selector_matches(&without->items[i].selector, &labels) &&
                   profile->time_ns >= without->items[i].start_ns &&
                   profile->time_ns <= without->items[i].end_ns;
    return deleted;
}

static bool matches(const struct head_query *query, const struct slow_profile *slow)
{
    const struct head_profile *profile = &slow->profile;
    bool wanted = query->n_ids == 0;

    for (size_t i = 0; i < query->n_ids; i++)
        wanted |= fg_id_eq(query->ids[i], slow->id);
    return wanted && !is_deleted(query->without, profile) &&
           strcmp(query->tenant, profile->tenant) == 0 &&
           (query->service == NULL || strcmp(query->service, profile->service) == 0) &&
           (query->zone == NULL ||
            (profile->zone != NULL && strcmp(query->zone, profile->zone) == 0));
}

static bool in_range(const struct head_query *query, const struct slow_profile *slow)
{
    return slow->profile.time_ns >= query->start_ns && slow->profile.time_ns <= query->end_ns;
}

static unsigned type_of(const struct head_query *query)
{
    return strcmp(query->type, "samples:count") == 0 ? 0 : 1;
}

static bool sample_wanted(const struct head_query *query, const struct head_sample *sample)
{
    char path[128] = "";
    size_t len;
    bool span = query->n_spans == 0;

    for (size_t i = 0; i < query->n_spans; i++)
        span |= query->spans[i] == sample->span;
    for (size_t i = 0; i < query->n_call_site; i++) {
        len = strlen(path);
        (void)snprintf(path + len, sizeof path - len, "%s%s", i > 0 ? ";" : "",
                       query->call_site[i]);
    }
    len = strlen(path);
    return span &&
           (query->n_call_site == 0 || (strncmp(sample->stack, path, len) == 0 &&
                                        (sample->stack[len] == '\0' || sample->stack[len] == ';')));
}

static void slow_select(const struct slow *slow, const struct head_query *query, struct fg_buf *out)
{
    int64_t sums[FG_COUNT(stacks)] = {0};

    for (size_t i = 0; i < slow->count; i++) {
        const struct head_profile *profile = &slow->items[i].profile;

        if (!matches(query, &slow->items[i]) || !in_range(query, &slow->items[i]))
            continue;
        for (uint32_t s = 0; s < profile->n_samples; s++)
            for (size_t k = 0; k < FG_COUNT(stacks); k++)
                if (strcmp(profile->samples[s].stack, stacks[k]) == 0 &&
                    sample_wanted(query, &profile->samples[s]))
                    sums[k] += profile->samples[s].values[type_of(query)];
    }
    fg_buf_clear(out);
    for (size_t k = 0; k < FG_COUNT(stacks); k++)
        if (sums[k] != 0)
            fg_buf_printf(out, "%s %lld\n",
                          query->names_only && stacks[k][0] == '\0' ? "[no stack]" : stacks[k],
                          (long long)sums[k]);
    head_sort_lines(out);
}

static int64_t profile_sum(const struct slow_profile *slow, unsigned type)
{
    int64_t sum = 0;

    for (uint32_t s = 0; s < slow->profile.n_samples; s++)
        sum += slow->samples[s].values[type];
    return sum;
}

static void slow_points(const struct slow *slow, const struct head_query *query, struct fg_buf *out)
{
    static const char *const zones[] = {NULL, "n", "s"};

    fg_buf_clear(out);
    for (size_t z = 0; z < FG_COUNT(zones); z++)
        for (int64_t k = 0; query->start_ns + k * query->step_ns <= query->end_ns; k++) {
            int64_t at = query->start_ns + k * query->step_ns, sum = 0;
            uint64_t count = 0;

            for (size_t i = 0; i < slow->count; i++) {
                const struct slow_profile *item = &slow->items[i];
                const char *zone = item->profile.zone;

                if (!matches(query, item) || (zone == NULL) != (zones[z] == NULL) ||
                    (zone != NULL && strcmp(zone, zones[z]) != 0) ||
                    item->profile.time_ns > query->end_ns ||
                    item->profile.time_ns >= at + FG_MS_NS ||
                    item->profile.time_ns < at + FG_MS_NS - query->step_ns ||
                    profile_sum(item, type_of(query)) == 0)
                    continue;
                sum += profile_sum(item, type_of(query));
                count++;
            }
            if (count == 0)
                continue;
            if (zones[z] == NULL)
                fg_buf_puts(out, "{}");
            else
                fg_buf_printf(out, "{zone=\"%s\"}", zones[z]);
            fg_buf_printf(out, " %lld %lld %llu\n", (long long)k, (long long)sum,
                          (unsigned long long)count);
        }
    head_sort_lines(out);
}

/* ---- random profiles and questions ---- */

static void random_profile(struct slow_profile *slow, uint64_t *random)
{
    static const char *const services[] = {"shop", "archive", "shop2"}, *const zones[] = {NULL, "n",
                                                                                          "s"};
    /* Mostly close to a border of two windows, or on it. */
    int64_t time_ns = start_ns + (int64_t)(next_random(random) % 6) * WINDOW_NS +
                      (int64_t)(next_random(random) % 3 - 1) *
                          (int64_t)(next_random(random) % 2 == 0 ? 1 : FG_MINUTE_NS);

    *slow = (struct slow_profile){
        .profile = {
            .tenant = next_random(random) % 5 == 0 ? "other" : "tenant",
            .service = services[next_random(random) % 3],
            .zone = zones[next_random(random) % 3],
            .time_ns = time_ns,
            .duration_ns = (int64_t)(next_random(random) % 4) * 7 * FG_MINUTE_NS,
            .n_samples = 1 + (uint32_t)(next_random(random) % SAMPLES),
        }};
    for (uint32_t i = 0; i < slow->profile.n_samples; i++) {
        slow->samples[i] = (struct head_sample){
            .stack = stacks[next_random(random) % FG_COUNT(stacks)],
            .values = {(int64_t)(next_random(random) % 3),
                       (int64_t)(next_random(random) % 3 == 0 ? next_random(random) % 1000 : 0)},
            .span = next_random(random) % 3,
        };
        if (slow->profile.zone == NULL) /* a series that never has the second type */
            slow->samples[i].values[1] = 0;
    }
    slow->samples[0].values[0] = 1; /* so that there is something to keep */
}

static struct head_query random_query(const struct slow *slow, uint64_t *random)
{
    struct head_query query = {
        .tenant = next_random(random) % 5 == 0 ? "other" : "tenant",
        .service = next_random(random) % 2 == 0 ? NULL : "shop",
        .zone = next_random(random) % 3 == 0 ? "n" : NULL,
        .type = next_random(random) % 2 == 0 ? "samples:count" : "cpu:nanoseconds",
        .names_only = next_random(random) % 2 == 0,
        .step_ns = 1 + (int64_t)(next_random(random) % 3) * 5 * FG_MINUTE_NS +
                   (int64_t)(next_random(random) % 2) * 59 * FG_SECOND_NS,
    };
    /* Bounds are times of profiles mostly, and one nanosecond off. */
    int64_t a = slow->items[next_random(random) % slow->count].profile.time_ns,
            b = slow->items[next_random(random) % slow->count].profile.time_ns;

    a += (int64_t)(next_random(random) % 3) - 1;
    b += (int64_t)(next_random(random) % 3) - 1;
    query.start_ns = FG_MIN(a, b);
    query.end_ns = FG_MAX(a, b);
    if (query.step_ns == 1)
        query.step_ns = FG_MINUTE_NS;
    switch (next_random(random) % 6) {
    case 0:
        query.n_spans = 1;
        query.spans[0] = 1;
        break;
    case 1:
        query.n_call_site = 2;
        query.call_site[0] = "main";
        query.call_site[1] = "work";
        break;
    case 2:
        query.n_call_site = 1;
        query.call_site[0] = "run";
        break;
    case 3:
        query.n_ids = 2;
        query.ids[0] = slow->items[next_random(random) % slow->count].id;
        query.ids[1] = slow->items[next_random(random) % slow->count].id;
        break;
    default:
        break;
    }
    return query;
}

/* Bounds are times of profiles, and times next to them. */
static void random_deletions(const struct slow *slow, uint64_t *random, struct fg_arena *arena,
                             struct fg_deletions *deletions)
{
    static const char *const selectors[] = {"{}", "{service_name=\"shop\"}", "{zone=\"n\"}",
                                            "{service_name=~\"shop.*\",zone!=\"s\"}",
                                            "{__name__=\"process_cpu\",zone=\"\"}"};
    uint64_t n = next_random(random) % 4;

    for (uint64_t i = 0; i < n; i++) {
        struct fg_deletion deletion = {0};
        struct fg_err err;

        deletion.start_ns = slow->items[next_random(random) % slow->count].profile.time_ns +
                            (int64_t)(next_random(random) % 3) - 1;
        deletion.end_ns = deletion.start_ns + (int64_t)(next_random(random) % 3) * 5 * FG_MINUTE_NS;
        assert_int_equal(
            fg_selector_parse(fg_cstr(selectors[next_random(random) % FG_COUNT(selectors)]), arena,
                              &deletion.selector, &err),
            FG_OK);
        assert_int_equal(fg_deletions_add(deletions, &deletion, arena, &err), FG_OK);
    }
}

/* ---- comparing ---- */

static void assert_equal_text(const struct fg_buf *got, const struct fg_buf *want, const char *what,
                              uint64_t seed, int number)
{
    if (!fg_slice_eq(fg_buf_slice(got), fg_buf_slice(want)))
        fail_msg("%s, seed %llu, query %d:\n%.*s\nis not\n%.*s", what, (unsigned long long)seed,
                 number, FG_S(fg_buf_slice(got)), FG_S(fg_buf_slice(want)));
}

static void assert_stats(struct head *head, const struct slow *slow, const char *tenant)
{
    struct head_stats want = {.oldest_ns = INT64_MAX, .newest_ns = INT64_MIN},
                      got = head_stats(head, tenant);
    bool seen[3][3] = {{false}};

    for (size_t i = 0; i < slow->count; i++) {
        const struct head_profile *profile = &slow->items[i].profile;
        size_t service = strcmp(profile->service, "shop") == 0      ? 0
                         : strcmp(profile->service, "archive") == 0 ? 1
                                                                    : 2;
        size_t zone = profile->zone == NULL ? 0 : profile->zone[0] == 'n' ? 1 : 2;

        if (strcmp(profile->tenant, tenant) != 0)
            continue;
        want.profiles++;
        want.series += !seen[service][zone];
        seen[service][zone] = true;
        want.oldest_ns = FG_MIN(want.oldest_ns, profile->time_ns);
        want.newest_ns = FG_MAX(want.newest_ns, profile->time_ns);
    }
    if (want.profiles == 0)
        want.oldest_ns = want.newest_ns = 0;
    assert_int_equal(got.profiles, want.profiles);
    assert_int_equal(got.series, want.series);
    assert_int_equal(got.oldest_ns, want.oldest_ns);
    assert_int_equal(got.newest_ns, want.newest_ns);
}

static void compare(struct head *head, const struct slow *slow, uint64_t seed)
{
    uint64_t random = seed + 1000000;
    struct fg_buf got, want;

    fg_buf_init(&got, SIZE_MAX);
    fg_buf_init(&want, SIZE_MAX);
    for (int i = 0; i < QUERIES && slow->count > 0; i++) {
        struct head_query query = random_query(slow, &random);
        struct fg_arena *arena = fg_arena_create(1 << 20);
        struct fg_deletions without = {0};

        random_deletions(slow, &random, arena, &without);
        query.without = &without;
        assert_int_equal(head_select(head, &query, &got), FG_OK);
        slow_select(slow, &query, &want);
        assert_equal_text(&got, &want, "select", seed, i);
        query.n_ids = 0; /* SELECT alone knows them */
        assert_int_equal(head_points(head, &query, &got), FG_OK);
        slow_points(slow, &query, &want);
        assert_equal_text(&got, &want, "points", seed, i);
        fg_deletions_done(&without);
        fg_arena_destroy(arena);
    }
    assert_stats(head, slow, "tenant");
    assert_stats(head, slow, "other");
    assert_stats(head, slow, "nobody");
    fg_buf_done(&got);
    fg_buf_done(&want);
}

static void push_one(struct head *head, struct slow *slow, uint64_t *random)
{
    struct slow_profile *item = &slow->items[slow->count];
    struct head_pushed pushed;
    struct fg_buf batch;

    random_profile(item, random);
    item->profile.samples = item->samples;
    fg_buf_init(&batch, SIZE_MAX);
    item->id = head_encode(&item->profile, true, 1, &batch);
    pushed = head_push_bytes(head, &item->profile, fg_buf_slice(&batch));
    fg_buf_done(&batch);
    assert_int_equal(pushed.code, FG_OK);
    assert_int_equal(pushed.n_undefined, 0);
    assert_int_equal(pushed.stored + pushed.duplicates, 1);
    for (size_t i = 0; i < slow->count; i++)
        if (fg_id_eq(slow->items[i].id, item->id)) {
            assert_int_equal(pushed.duplicates, 1);
            return;
        }
    assert_int_equal(pushed.stored, 1);
    slow->count++;
}

/* ---- stores ---- */

static struct fg_store *open_rocks(const char *dir)
{
    const struct ing_settings settings = {
        .store_cache_bytes = 8 << 20,
        .store_write_buffer_bytes = 64 << 10, /* small, so that files are written and joined */
        .store_wal_max_bytes = 4 << 20,
    };
    struct fg_store_config config = ing_store_config(&settings, false, NULL);
    struct fg_store *store;
    struct fg_err err;

    assert_true(config.sync);
    config.sync = false;
    if (fg_store_open(dir, ing_head_families, HEAD_FAMILIES, &config, &store, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return store;
}

static void run(uint64_t seed, bool rocks)
{
    static struct slow slow;
    char dir[] = "/tmp/fg-ingester-XXXXXX";
    struct fg_store *store;
    uint64_t random = seed;
    struct head head;

    slow.count = 0;
    assert_non_null(mkdtemp(dir));
    store = rocks ? open_rocks(dir) : fg_store_memory(HEAD_FAMILIES);
    head_open(&head, store);
    compare(&head, &slow, seed);
    for (int part = 0; part < 3; part++) {
        for (int i = 0; i < PROFILES / 3; i++)
            push_one(&head, &slow, &random);
        compare(&head, &slow, seed);
        head_close(&head); /* a restart */
        if (rocks) {
            fg_store_close(store);
            store = open_rocks(dir);
        }
        head_open(&head, store);
        compare(&head, &slow, seed + 1);
    }
    head_close(&head);
    fg_store_close(store);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else changes the folder */
    (void)remove_tree(dir);
}

static void answers_equal_the_slow_model_in_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        run(seed, false);
}

/* Each pass has room for one service. */
static void answers_that_take_many_passes_equal_the_slow_model(void **state)
{
    (void)state;
    head_query_pass_bytes = 1;
    run(7, false);
    run(102, true);
    head_query_pass_bytes = 0;
}

static void answers_equal_the_slow_model_on_rocksdb(void **state)
{
    (void)state;
    run(100, true);
    run(101, true);
}

/* ---- single cases ---- */

static const struct head_sample one_sample[] = {{"main;work", {1, 10}, 0}};

static struct head_profile plain_profile(void)
{
    return (struct head_profile){.tenant = "tenant",
                                 .service = "shop",
                                 .zone = "n",
                                 .time_ns = start_ns,
                                 .samples = one_sample,
                                 .n_samples = 1};
}

static struct head_query plain_query(void)
{
    return (struct head_query){.tenant = "tenant",
                               .type = "cpu:nanoseconds",
                               .start_ns = start_ns,
                               .end_ns = start_ns,
                               .step_ns = FG_MINUTE_NS};
}

static void assert_select(struct head *head, const struct head_query *query, const char *want)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    assert_int_equal(head_select(head, query, &text), FG_OK);
    fg_buf_putc(&text, 0);
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

static void times_are_inclusive(void **state)
{
    static const struct {
        int64_t from, to;
        bool found;
    } cases[] = {{0, 0, true}, {-1, 0, true}, {0, 1, true}, {1, 2, false}, {-2, -1, false}};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_profile profile = plain_profile();
    struct head head;

    (void)state;
    head_open(&head, store);
    /* It ends two windows later, but it is found by its start. */
    profile.duration_ns = 2 * WINDOW_NS;
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct head_query query = plain_query();

        query.start_ns = start_ns + cases[i].from;
        query.end_ns = start_ns + cases[i].to;
        assert_select(&head, &query, cases[i].found ? "main;work 10\n" : "");
    }
    head_close(&head);
    fg_store_close(store);
}

static void stacks_are_defined_once(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_profile profile = plain_profile();
    struct head_query query = plain_query();
    struct head_pushed pushed;
    struct head head;

    (void)state;
    head_open(&head, store);
    pushed = head_push(&head, &profile, false);
    assert_int_equal(pushed.code, FG_OK);
    assert_int_equal(pushed.n_undefined, 1);
    assert_int_equal(pushed.stored + pushed.duplicates, 0);
    assert_int_equal(head_stats(&head, "tenant").profiles, 0);
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    profile.time_ns++;
    assert_int_equal(head_push(&head, &profile, false).stored, 1);
    head_close(&head);
    head_open(&head, store); /* another start id, and another generation of dictionaries */
    profile.time_ns++;
    assert_int_equal(head_push(&head, &profile, false).n_undefined, 1);
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    profile.service = "archive"; /* a dictionary of its own */
    assert_int_equal(head_push(&head, &profile, false).n_undefined, 1);
    query.end_ns += 10;
    assert_select(&head, &query, "main;work 30\n");
    head_close(&head);
    fg_store_close(store);
}

/* ---- agents and servers push profiles of one service at the same time ---- */

enum { PUSHES = 300, COMMON_STACKS = 97, STACK_MAX_BYTES = 40 };

struct pusher {
    struct head *head;
    pthread_t thread;
    unsigned number;
    struct fg_slice via;
};

/* Each profile has a stack that both pushers define and one of its own. */
static void *push_all(void *arg)
{
    const struct pusher *pusher = arg;

    for (unsigned i = 0; i < PUSHES; i++) {
        char common[STACK_MAX_BYTES], own[STACK_MAX_BYTES];
        const struct head_sample samples[] = {{common, {1, 10}, 0}, {own, {1, 10}, 0}};
        const struct head_profile profile = {
            .tenant = "team",
            .service = "shop",
            .time_ns = start_ns + (2 * (int64_t)i + pusher->number) * FG_MS_NS,
            .samples = samples,
            .n_samples = FG_COUNT(samples),
            .via = pusher->via};

        (void)snprintf(common, sizeof common, "main;common%u", i % COMMON_STACKS);
        (void)snprintf(own, sizeof own, "main;own%u;f%u", pusher->number, i);
        fg_assert(head_push(pusher->head, &profile, true).stored == 1);
    }
    return NULL;
}

/* Both number stacks in one dictionary. */
static void what_is_forwarded_and_what_agents_push_share_a_dictionary(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct pusher pushers[2] = {{.number = 0}, {.number = 1, .via = FG_LIT("sixteen bytes...")}};
    const struct head_query query = {.tenant = "team",
                                     .type = "samples:count",
                                     .start_ns = start_ns,
                                     .end_ns = start_ns + FG_MINUTE_NS};
    struct fg_buf got, want;
    struct head head;

    (void)state;
    head_open(&head, store);
    for (size_t i = 0; i < FG_COUNT(pushers); i++) {
        pushers[i].head = &head;
        assert_int_equal(pthread_create(&pushers[i].thread, NULL, push_all, &pushers[i]), 0);
    }
    for (size_t i = 0; i < FG_COUNT(pushers); i++)
        assert_int_equal(pthread_join(pushers[i].thread, NULL), 0);
    head_close(&head);
    head_open(&head, store); /* what is on disk */
    fg_buf_init(&got, SIZE_MAX);
    fg_buf_init(&want, SIZE_MAX);
    assert_int_equal(head_select(&head, &query, &got), FG_OK);
    for (unsigned i = 0; i < COMMON_STACKS; i++)
        fg_buf_printf(&want, "main;common%u %u\n", i,
                      2 * (PUSHES / COMMON_STACKS + (i < PUSHES % COMMON_STACKS)));
    for (unsigned i = 0; i < 2 * PUSHES; i++)
        fg_buf_printf(&want, "main;own%u;f%u 1\n", i % 2, i / 2);
    head_sort_lines(&want);
    assert_true(fg_slice_eq(fg_buf_slice(&got), fg_buf_slice(&want)));
    fg_buf_done(&got);
    fg_buf_done(&want);
    head_close(&head);
    fg_store_close(store);
}

static void the_same_push_counts_once(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_profile profile = plain_profile();
    struct head_query query = plain_query();
    struct head_pushed pushed;
    struct fg_buf batch;
    struct head head;

    (void)state;
    head_open(&head, store);
    fg_buf_init(&batch, SIZE_MAX);
    (void)head_encode(&profile, true, 2, &batch); /* twice in one batch */
    pushed = head_push_bytes(&head, &profile, fg_buf_slice(&batch));
    assert_int_equal(pushed.stored, 1);
    assert_int_equal(pushed.duplicates, 1);
    pushed = head_push_bytes(&head, &profile, fg_buf_slice(&batch));
    assert_int_equal(pushed.stored, 0);
    assert_int_equal(pushed.duplicates, 2);
    fg_buf_done(&batch);
    assert_select(&head, &query, "main;work 10\n");
    assert_int_equal(head_stats(&head, "tenant").profiles, 1);
    head_close(&head);
    head_open(&head, store);
    pushed = head_push(&head, &profile, true);
    assert_int_equal(pushed.duplicates, 1);
    assert_select(&head, &query, "main;work 10\n");
    head_close(&head);
    fg_store_close(store);
}

/* A message of three items: one is fine, one is damaged, one lacks definitions. */
static void failed_item_does_not_fail_others_of_its_message(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_profile profile = plain_profile();
    struct head_query query = plain_query();
    char tenant[] = "tenant", shop[] = "shop", archive[] = "archive";
    Fg__Inner__PushItem items[3], *pointers[3];
    Fg__Inner__PushHead out = FG__INNER__PUSH_HEAD__INIT;
    Fg__Inner__PushReply *reply;
    struct fg_call call = {.method = FG_RPC_PUSH};
    struct fg_buf payload;
    uint8_t bytes[256];
    struct head head;

    (void)state;
    head_open(&head, store);
    fg_buf_init(&payload, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(items); i++) {
        size_t before = payload.len;

        fg__inner__push_item__init(&items[i]);
        profile.service = i == 2 ? archive : shop;
        if (i == 1)
            fg_buf_puts(&payload, "nonsense");
        else
            (void)head_encode(&profile, i == 0, 1, &payload);
        items[i].tenant = tenant;
        items[i].service = i == 2 ? archive : shop;
        items[i].bytes = (uint32_t)(payload.len - before);
        pointers[i] = &items[i];
    }
    out.items = pointers;
    out.n_items = FG_COUNT(items);
    assert_true(fg__inner__push_head__get_packed_size(&out) <= sizeof bytes);
    call.head = fg_bytes(bytes, fg__inner__push_head__pack(&out, bytes));
    call.payload = fg_buf_slice(&payload);
    call.deadline_mono_ns = fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS;
    assert_int_equal(fg_peer_call(head.peer, &call), FG_OK);
    reply = fg__inner__push_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
    assert_non_null(reply);
    assert_int_equal(reply->n_results, 3);
    assert_int_equal(reply->results[0]->code, 0);
    assert_int_equal(reply->results[0]->stored, 1);
    assert_int_equal(fg_code_from_grpc(reply->results[1]->code), FG_E_CORRUPT);
    assert_int_equal(reply->results[2]->code, 0);
    assert_int_equal(reply->results[2]->stored, 0);
    assert_int_equal(reply->results[2]->n_undefined, 1);
    fg__inner__push_reply__free_unpacked(reply, NULL);
    fg_call_done(head.peer, &call);
    assert_select(&head, &query, "main;work 10\n");

    items[2].shard = 65536; /* nothing of the message counts */
    call.head = fg_bytes(bytes, fg__inner__push_head__pack(&out, bytes));
    assert_int_equal(fg_peer_call(head.peer, &call), FG_E_INVALID);
    fg_call_done(head.peer, &call);
    items[2].shard = 0;
    items[0].sizes = &(uint64_t){1}; /* of half a profile: the item alone is refused */
    items[0].n_sizes = 1;
    call.head = fg_bytes(bytes, fg__inner__push_head__pack(&out, bytes));
    assert_int_equal(fg_peer_call(head.peer, &call), FG_OK);
    reply = fg__inner__push_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
    assert_non_null(reply);
    assert_int_equal(fg_code_from_grpc(reply->results[0]->code), FG_E_CORRUPT);
    assert_int_equal(reply->results[2]->code, 0);
    fg__inner__push_reply__free_unpacked(reply, NULL);
    fg_call_done(head.peer, &call);
    items[0].n_sizes = 0;
    items[2].bytes++; /* more than there is: neither */
    call.head = fg_bytes(bytes, fg__inner__push_head__pack(&out, bytes));
    assert_int_equal(fg_peer_call(head.peer, &call), FG_E_INVALID);
    fg_call_done(head.peer, &call);
    fg_buf_done(&payload);
    head_close(&head);
    fg_store_close(store);
}

static void series_limit_of_a_tenant_holds(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_profile profile = plain_profile();
    char zone[16];
    struct head head;

    (void)state;
    head_open(&head, store);
    profile.zone = zone;
    for (int i = 0; i <= HEAD_SERIES_MAX; i++) {
        struct head_pushed pushed;

        (void)snprintf(zone, sizeof zone, "z%d", i);
        pushed = head_push(&head, &profile, true);
        assert_int_equal(pushed.code, i < HEAD_SERIES_MAX ? FG_OK : FG_E_LIMIT);
        assert_int_equal(pushed.limit_of,
                         i < HEAD_SERIES_MAX ? FG_LIMIT_OF_UNSAID : FG_LIMIT_OF_TENANT);
    }
    (void)snprintf(zone, sizeof zone, "z0"); /* those that are there go on */
    profile.time_ns++;
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    profile.tenant = "other";
    (void)snprintf(zone, sizeof zone, "new");
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    head_close(&head);
    fg_store_close(store);
}

static void series_are_listed(void **state)
{
    static const char *const zone[] = {"zone"}, *const both[] = {"zone", "__profile_type__"};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    static const struct head_sample counts[] = {{"main", {1, 0}, 0}};
    struct head_profile profile = plain_profile();
    struct head_query query = plain_query();
    struct fg_buf text;
    struct head head;

    (void)state;
    head_open(&head, store);
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    profile.zone = "s";
    profile.samples = counts; /* its second type never has a value */
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    profile.service = "late";
    profile.zone = NULL;
    profile.time_ns += FG_HOUR_NS;
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    fg_buf_init(&text, SIZE_MAX);

    query.type = NULL;
    assert_int_equal(head_series(&head, &query, zone, 1, &text), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&text), "{zone=\"n\"}\n{zone=\"s\"}\n"));
    assert_int_equal(head_series(&head, &query, both, 2, &text), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&text),
                            "{__profile_type__=\"process_cpu:cpu:nanoseconds::\", zone=\"n\"}\n"
                            "{__profile_type__=\"process_cpu:samples:count::\", zone=\"n\"}\n"
                            "{__profile_type__=\"process_cpu:samples:count::\", zone=\"s\"}\n"));
    query.service = "late";
    query.start_ns = query.end_ns = start_ns + FG_HOUR_NS;
    assert_int_equal(head_series(&head, &query, NULL, 0, &text), FG_OK);
    assert_true(
        fg_slice_is(fg_buf_slice(&text),
                    "{__name__=\"process_cpu\", __profile_type__=\"process_cpu:samples:count::\", "
                    "__service_name__=\"late\", __type__=\"samples\", __unit__=\"count\", "
                    "service_name=\"late\"}\n"));
    fg_buf_done(&text);
    head_close(&head);
    fg_store_close(store);
}

static void add_deletion(struct fg_deletions *deletions, const char *selector, int64_t from_ns,
                         int64_t to_ns, struct fg_arena *arena)
{
    struct fg_deletion deletion = {.start_ns = from_ns, .end_ns = to_ns};
    struct fg_err err;

    assert_int_equal(fg_selector_parse(fg_cstr(selector), arena, &deletion.selector, &err), FG_OK);
    assert_int_equal(fg_deletions_add(deletions, &deletion, arena, &err), FG_OK);
}

/* A series of which no time is left is not listed; and what is deleted of all is not counted. */
static void deleted_series_are_not_listed(void **state)
{
    static const char *const zone[] = {"zone"};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_profile profile = plain_profile();
    struct head_query query = plain_query();
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_deletions without = {0};
    struct fg_buf text;
    struct head head;

    (void)state;
    head_open(&head, store);
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    profile.zone = "s";
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    profile.time_ns += FG_HOUR_NS;
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    fg_buf_init(&text, SIZE_MAX);
    query.type = NULL;
    query.end_ns = start_ns + FG_HOUR_NS;
    query.without = &without;

    add_deletion(&without, "{service_name=\"shop\"}", start_ns - 5, start_ns + 5, arena);
    assert_int_equal(head_series(&head, &query, zone, 1, &text), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&text), "{zone=\"s\"}\n"));
    assert_int_equal(head_stats_without(&head, "tenant", &without).profiles, 3);
    add_deletion(&without, "{}", INT64_MIN, start_ns, arena);
    assert_int_equal(head_stats_without(&head, "tenant", &without).profiles, 1);
    assert_int_equal(head_stats_without(&head, "tenant", &without).oldest_ns,
                     start_ns + FG_HOUR_NS);
    add_deletion(&without, "{zone=~\".+\"}", start_ns + 6, INT64_MAX, arena);
    assert_int_equal(head_series(&head, &query, zone, 1, &text), FG_OK);
    assert_int_equal(text.len, 0);
    fg_deletions_done(&without);
    fg_arena_destroy(arena);
    fg_buf_done(&text);
    head_close(&head);
    fg_store_close(store);
}

/* As a stranger could send them: too many, too long, of no time, no regular expressions. */
static void bad_deletions_are_refused(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_matcher bad = {FG_MATCH_RE, FG_LIT("zone"), FG_LIT("("), NULL};
    struct fg_deletion deletion = {.start_ns = 2, .end_ns = 1};
    struct fg_deletion *many = fg_calloc(100000, sizeof *many);
    struct fg_matcher *matchers = fg_calloc(100000, sizeof *matchers);
    struct fg_deletions without = {.items = &deletion, .count = 1};
    struct head_query query = plain_query();
    struct fg_buf text;
    struct head head;

    (void)state;
    head_open(&head, store);
    fg_buf_init(&text, SIZE_MAX);
    query.without = &without;
    assert_int_equal(head_select(&head, &query, &text), FG_E_INVALID);
    deletion = (struct fg_deletion){.selector = {.matchers = &bad, .n_matchers = 1}};
    assert_int_equal(head_series(&head, &query, NULL, 0, &text), FG_E_INVALID);
    without = (struct fg_deletions){.items = many, .count = 100000};
    assert_int_equal(head_points(&head, &query, &text), FG_E_LIMIT);
    for (size_t i = 0; i < 100000; i++)
        matchers[i] =
            (struct fg_matcher){FG_MATCH_RE, FG_LIT("zone"), FG_LIT("(a{1,30}){1,30}"), NULL};
    many[0].selector = (struct fg_selector){.matchers = matchers, .n_matchers = 100000};
    without.count = 1;
    assert_int_equal(head_select(&head, &query, &text), FG_E_INVALID);
    many[0].selector.n_matchers = FG_DELETIONS_REGEX_MAX;
    assert_int_equal(head_select(&head, &query, &text), FG_OK);
    many[1].selector = (struct fg_selector){.matchers = matchers, .n_matchers = 1};
    without.count = 2;
    assert_int_equal(head_select(&head, &query, &text), FG_E_LIMIT);
    free(many);
    free(matchers);
    fg_buf_done(&text);
    head_close(&head);
    fg_store_close(store);
}

static void questions_of_an_empty_head_have_empty_answers(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_query query = plain_query();
    struct fg_buf text;
    struct head head;

    (void)state;
    head_open(&head, store);
    fg_buf_init(&text, SIZE_MAX);
    assert_int_equal(head_points(&head, &query, &text), FG_OK);
    assert_int_equal(head_series(&head, &query, NULL, 0, &text), FG_OK);
    assert_int_equal(head_select(&head, &query, &text), FG_OK);
    assert_int_equal(text.len, 0);
    fg_buf_done(&text);
    head_close(&head);
    fg_store_close(store);
}

static void bad_requests_are_refused(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct head_profile profile = plain_profile();
    struct head_query query = plain_query();
    struct fg_buf text;
    struct head head;

    (void)state;
    head_open(&head, store);
    assert_int_equal(head_push_bytes(&head, &profile, FG_LIT("nonsense")).code, FG_E_CORRUPT);
    profile.tenant = "";
    assert_int_equal(head_push(&head, &profile, true).code, FG_E_INVALID);
    profile = plain_profile();
    profile.service = "";
    assert_int_equal(head_push_bytes(&head, &profile, FG_LIT("")).code, FG_E_INVALID);
    profile = plain_profile();
    fg_buf_init(&text, SIZE_MAX);
    (void)head_encode(&profile, true, 1, &text);
    profile.service = "archive"; /* than its labels say */
    assert_int_equal(head_push_bytes(&head, &profile, fg_buf_slice(&text)).code, FG_E_INVALID);
    query.step_ns = 0;
    assert_int_equal(head_points(&head, &query, &text), FG_E_INVALID);
    query = plain_query();
    query.end_ns--;
    assert_int_equal(head_points(&head, &query, &text), FG_E_INVALID);
    assert_select(&head, &query, "");
    fg_buf_done(&text);
    head_close(&head);
    fg_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_inclusive),
        cmocka_unit_test(stacks_are_defined_once),
        cmocka_unit_test(what_is_forwarded_and_what_agents_push_share_a_dictionary),
        cmocka_unit_test(the_same_push_counts_once),
        cmocka_unit_test(failed_item_does_not_fail_others_of_its_message),
        cmocka_unit_test(series_limit_of_a_tenant_holds),
        cmocka_unit_test(series_are_listed),
        cmocka_unit_test(questions_of_an_empty_head_have_empty_answers),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(deleted_series_are_not_listed),
        cmocka_unit_test(bad_deletions_are_refused),
        cmocka_unit_test(answers_equal_the_slow_model_in_memory),
        cmocka_unit_test(answers_that_take_many_passes_equal_the_slow_model),
        cmocka_unit_test(answers_equal_the_slow_model_on_rocksdb),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
