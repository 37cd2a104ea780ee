/* When tokens were used last: what a process notes, and what several add to one object. */
#include "common/access/registry/token_uses.h"
#include "common/access/registry/token_uses_object.h"
#include "common/base/time.h"
#include "common/net/guard.h"
#include "tests/lib/access_make.h"
#include "tests/lib/bucket_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 5, PROCESSES = 2 };

static const int64_t HOUR_MS = FG_TOKEN_USE_PRECISION_MS, DAY_MS = 24 * FG_TOKEN_USE_PRECISION_MS;
static const int64_t BEGIN_MS = INT64_C(1700000000000);

struct process {
    struct fg_token_uses *uses;
    struct fg_access_registry *registry;
};

struct fixture {
    struct fg_arena *arena;
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty; /* in front of that */
    struct access_make make;
    char ids[TOKENS][FG_TOKEN_ID_CHARS + 1];
    struct process processes[PROCESSES];
    struct fg_err err;
};

static void load(struct fixture *f, struct process *process)
{
    fg_access_registry_unref(process->registry);
    process->registry = access_make_registry(&f->make.message);
    assert_int_equal(fg_token_uses_bind(process->uses, process->registry, &f->err), FG_OK);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create(256 << 20);
    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &(struct fg_bucket_faults){0});
    access_make_init(&f->make, f->arena, BEGIN_MS);
    for (uint32_t i = 0; i < TOKENS; i++) {
        char text[FG_TOKEN_CHARS + 1];

        access_make_token(
            &f->make, &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = i},
            text);
        (void)snprintf(f->ids[i], sizeof f->ids[i], "%s", f->make.message.tokens[i]->id);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        f->processes[i].uses = fg_token_uses_create(BEGIN_MS);
        load(f, &f->processes[i]);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < PROCESSES; i++) {
        fg_access_registry_unref(f->processes[i].registry);
        fg_token_uses_destroy(f->processes[i].uses);
    }
    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

static void note(struct process *process, size_t token, int64_t now_ms)
{
    fg_token_use_note(process->registry->uses[token], now_ms);
}

static void write_uses(struct fixture *f, struct process *process, int64_t now_ms)
{
    assert_int_equal(fg_token_uses_write(process->uses, fg_bucket_faulty_bucket(f->faulty),
                                         process->registry, now_ms, 0, &f->err),
                     FG_OK);
}

static const Access__TokenUses *read_uses(struct fixture *f, struct process *process)
{
    const Access__TokenUses *uses = NULL;

    assert_int_equal(fg_token_uses_read(process->uses, fg_bucket_faulty_bucket(f->faulty), 0,
                                        f->arena, &uses, &f->err),
                     FG_OK);
    return uses;
}

static int64_t last(struct fixture *f, struct process *process, size_t token)
{
    return fg_token_uses_last_ms(read_uses(f, process), f->ids[token]);
}

static int64_t hour(int64_t ms)
{
    return ms / HOUR_MS * HOUR_MS;
}

static void a_process_sees_its_own_uses_at_once(void **state)
{
    struct fixture *f = *state;
    struct process *one = &f->processes[0];

    assert_int_equal(last(f, one, 0), 0);
    assert_int_equal(read_uses(f, one)->since_ms, BEGIN_MS);
    note(one, 0, BEGIN_MS);
    note(one, 2, BEGIN_MS + 5 * HOUR_MS);
    assert_int_equal(last(f, one, 0), hour(BEGIN_MS));
    assert_int_equal(last(f, one, 1), 0);
    assert_int_equal(last(f, one, 2), hour(BEGIN_MS + 5 * HOUR_MS));
    assert_int_equal(last(f, &f->processes[1], 0), 0); /* not written yet */
    note(one, 2, BEGIN_MS);                            /* a request that began earlier */
    assert_int_equal(last(f, one, 2), hour(BEGIN_MS + 5 * HOUR_MS));
    fg_token_use_note(NULL, BEGIN_MS); /* nobody records: no registry, or one of a command */
}

static void the_latest_use_in_any_process_counts(void **state)
{
    struct fixture *f = *state;
    struct process *one = &f->processes[0], *two = &f->processes[1];

    note(one, 0, BEGIN_MS);
    note(two, 0, BEGIN_MS + HOUR_MS);
    note(one, 1, BEGIN_MS + 2 * HOUR_MS);
    note(two, 1, BEGIN_MS);
    note(two, 3, BEGIN_MS);
    write_uses(f, two, BEGIN_MS);
    write_uses(f, one, BEGIN_MS);
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_int_equal(last(f, &f->processes[i], 0), hour(BEGIN_MS + HOUR_MS));
        assert_int_equal(last(f, &f->processes[i], 1), hour(BEGIN_MS + 2 * HOUR_MS));
        assert_int_equal(last(f, &f->processes[i], 2), 0);
        assert_int_equal(last(f, &f->processes[i], 3), hour(BEGIN_MS));
    }
}

static void only_a_new_hour_is_written(void **state)
{
    struct fixture *f = *state;
    struct process *one = &f->processes[0];
    uint64_t before = fg_bucket_faulty_count(f->faulty), after;

    write_uses(f, one, BEGIN_MS);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), before); /* nothing was used */
    note(one, 0, BEGIN_MS);
    write_uses(f, one, BEGIN_MS);
    after = fg_bucket_faulty_count(f->faulty);
    assert_int_equal(after, before + 2); /* get, put */
    note(one, 0, BEGIN_MS + 1);
    write_uses(f, one, BEGIN_MS + 1);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), after);
    note(one, 0, BEGIN_MS + HOUR_MS);
    write_uses(f, one, BEGIN_MS + HOUR_MS);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), after + 2);
    /* What the others have written is not written again. */
    after = fg_bucket_faulty_count(f->faulty);
    note(&f->processes[1], 0, BEGIN_MS + HOUR_MS);
    write_uses(f, &f->processes[1], BEGIN_MS + HOUR_MS);
    write_uses(f, &f->processes[1], BEGIN_MS + HOUR_MS);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), after + 1); /* one get */
}

/* The registry was read again: a request that has the old one notes in the same place. */
static void uses_survive_a_new_registry(void **state)
{
    struct fixture *f = *state;
    struct process *one = &f->processes[0];
    struct fg_access_registry *old = fg_access_registry_ref(one->registry);
    char text[FG_TOKEN_CHARS + 1];

    note(one, 0, BEGIN_MS);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = 99},
                      text);
    load(f, one);
    fg_token_use_note(old->uses[1], BEGIN_MS + HOUR_MS);
    note(one, TOKENS, BEGIN_MS);
    fg_access_registry_unref(old);
    assert_int_equal(last(f, one, 0), hour(BEGIN_MS));
    assert_int_equal(last(f, one, 1), hour(BEGIN_MS + HOUR_MS));
    assert_int_equal(fg_token_uses_last_ms(read_uses(f, one), f->make.message.tokens[TOKENS]->id),
                     hour(BEGIN_MS));
}

static void uses_of_tokens_that_are_gone_are_forgotten_after_a_month(void **state)
{
    struct fixture *f = *state;
    struct process *one = &f->processes[0];

    note(one, 0, BEGIN_MS);
    note(one, 1, BEGIN_MS);
    write_uses(f, one, BEGIN_MS);
    /* Another process has a registry without token 0 and 1, and not even one of token 4. */
    f->make.message.n_tokens -= 2;
    f->make.message.tokens += 2;
    load(f, &f->processes[1]);
    note(&f->processes[1], 0, BEGIN_MS + 29 * DAY_MS);
    write_uses(f, &f->processes[1], BEGIN_MS + 29 * DAY_MS);
    assert_int_equal(read_uses(f, &f->processes[1])->n_uses, 3);
    note(&f->processes[1], 0, BEGIN_MS + 31 * DAY_MS);
    write_uses(f, &f->processes[1], BEGIN_MS + 31 * DAY_MS);
    assert_int_equal(read_uses(f, &f->processes[1])->n_uses, 1);
    assert_int_equal(last(f, &f->processes[1], 2), hour(BEGIN_MS + 31 * DAY_MS));
    f->make.message.n_tokens += 2;
    f->make.message.tokens -= 2;
}

/* A write fails at each request in turn; whatever it did, the next one makes it right. */
static void a_bucket_that_fails_loses_no_use(void **state)
{
    struct fixture *f = *state;
    struct process *one = &f->processes[0];

    note(one, 0, BEGIN_MS);
    for (unsigned kind = 0; kind < 2; kind++) {
        const struct fg_bucket_faults faults = {.refuse_permille = kind == 0 ? 1000 : 0,
                                                .straggle_permille = kind == 1 ? 1000 : 0};

        note(one, 1, BEGIN_MS + kind * HOUR_MS);
        fg_bucket_faulty_set(f->faulty, &faults);
        assert_int_not_equal(fg_token_uses_write(one->uses, fg_bucket_faulty_bucket(f->faulty),
                                                 one->registry, BEGIN_MS, 0, &f->err),
                             FG_OK);
        assert_true(fg_token_uses_are_new(one->uses));
        fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){0});
        write_uses(f, one, BEGIN_MS);
        assert_false(fg_token_uses_are_new(one->uses));
        assert_int_equal(last(f, &f->processes[1], 1), hour(BEGIN_MS + kind * HOUR_MS));
    }
}

static void a_damaged_object_is_an_error_and_stays(void **state)
{
    static const struct {
        const char *name;
        const char *ids[2];
        int64_t since_ms;
    } cases[] = {
        {"descending", {"bbbbbbbb", "aaaaaaaa"}, 1},
        {"twice", {"aaaaaaaa", "aaaaaaaa"}, 1},
        {"a short id", {"aaaaaaa", "bbbbbbbb"}, 1},
        {"a time before 1970", {"aaaaaaaa", "bbbbbbbb"}, -1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        Access__TokenUses message = ACCESS__TOKEN_USES__INIT;
        Access__TokenUse uses[2] = {ACCESS__TOKEN_USE__INIT, ACCESS__TOKEN_USE__INIT};
        Access__TokenUse *list[2] = {&uses[0], &uses[1]};
        char ids[2][16];
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        for (size_t at = 0; at < 2; at++) {
            (void)snprintf(ids[at], sizeof ids[at], "%s", cases[i].ids[at]);
            uses[at].token = ids[at];
        }
        message.uses = list;
        message.n_uses = 2;
        message.since_ms = cases[i].since_ms;
        assert_int_equal(fg_token_uses_check(&message, &err), FG_E_CORRUPT);
    }
}

/* ---- threads ---- */

struct noting {
    struct process *process;
    int64_t until_ms;
};

static void *note_all(void *arg)
{
    const struct noting *noting = arg;

    for (int64_t ms = BEGIN_MS; ms <= noting->until_ms; ms += HOUR_MS / 4)
        for (size_t i = 0; i < TOKENS; i++)
            note(noting->process, i, ms);
    return NULL;
}

static void requests_note_while_a_thread_writes(void **state)
{
    struct fixture *f = *state;
    struct process *one = &f->processes[0];
    struct noting noting = {one, BEGIN_MS + 400 * HOUR_MS};
    pthread_t threads[3];

    for (size_t i = 0; i < FG_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, note_all, &noting), 0);
    for (size_t i = 0; i < 50; i++)
        write_uses(f, one, BEGIN_MS);
    for (size_t i = 0; i < FG_COUNT(threads); i++)
        (void)pthread_join(threads[i], NULL);
    write_uses(f, one, BEGIN_MS);
    for (size_t i = 0; i < TOKENS; i++) {
        int64_t said_ms = last(f, &f->processes[1], i);

        assert_in_range(said_ms, hour(noting.until_ms) - HOUR_MS, hour(noting.until_ms));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_sees_its_own_uses_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_latest_use_in_any_process_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_a_new_hour_is_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(uses_survive_a_new_registry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(uses_of_tokens_that_are_gone_are_forgotten_after_a_month,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bucket_that_fails_loses_no_use, set_up, tear_down),
        cmocka_unit_test(a_damaged_object_is_an_error_and_stays),
        cmocka_unit_test_setup_teardown(requests_note_while_a_thread_writes, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
