/* How far an import is, survives its end at any byte of the file. */
#include "deploy/cli/import_state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define JOB   "http://old:4040 tenant - to http://new:4040 tenant a selector {} step 1 from - until -"
#define HOUR  INT64_C(3600000)
#define START (INT64_C(490000) * HOUR)

static const struct cli_selection_range range = {START, START + 5 * HOUR};

static void begin(struct cli_import_state *state)
{
    cli_import_state_init(state, FG_LIT(JOB), &range);
}

static struct cli_selection_range window(unsigned n)
{
    return (struct cli_selection_range){START + n * HOUR, START + (n + 1) * HOUR};
}

static void note(struct cli_import_state *state, unsigned n, uint64_t id, uint64_t profiles)
{
    const struct cli_import_done done = {START + n * HOUR, {id, ~id}, profiles, profiles * 100};

    cli_import_state_note(state, &done);
}

static void end(struct cli_import_state *state, unsigned n, bool good)
{
    const struct cli_selection_range ended = window(n);

    cli_import_state_end(state, &ended, good);
}

static bool has(const struct cli_import_state *state, unsigned n, uint64_t id)
{
    return cli_import_state_has(state, START + n * HOUR, (struct fg_id){id, ~id});
}

static uint64_t sent(const struct cli_import_state *state)
{
    uint64_t profiles, bytes;

    cli_import_state_sent(state, &profiles, &bytes);
    assert_int_equal(bytes, profiles * 100);
    return profiles;
}

/* Two windows: one is done, one is open; and a third has begun. */
static void make(struct cli_import_state *state)
{
    begin(state);
    note(state, 0, 1, 10);
    note(state, 0, 2, 5);
    end(state, 0, true);
    note(state, 1, 1, 3);
    end(state, 1, false);
    note(state, 2, 7, 2);
}

static void what_is_written_is_read(void **unused)
{
    struct cli_import_state state, read;
    struct fg_buf text, again;
    struct fg_err err;

    (void)unused;
    make(&state);
    fg_buf_init(&text, SIZE_MAX);
    fg_buf_init(&again, SIZE_MAX);
    cli_import_state_write(&state, &text);
    begin(&read);
    assert_int_equal(cli_import_state_read(&read, fg_buf_slice(&text), &err), FG_OK);
    assert_int_equal(read.next_ms, START + 2 * HOUR);
    assert_int_equal(read.n_open, 1);
    assert_int_equal(read.open[0], START + HOUR);
    assert_false(has(&read, 0, 1)); /* of a window that nobody looks at again */
    assert_true(has(&read, 1, 1));
    assert_false(has(&read, 1, 7));
    assert_true(has(&read, 2, 7));
    assert_int_equal(sent(&read), 20);
    cli_import_state_write(&read, &again);
    assert_true(fg_slice_eq(fg_buf_slice(&text), fg_buf_slice(&again)));
    fg_buf_done(&text);
    fg_buf_done(&again);
    cli_import_state_done(&state);
    cli_import_state_done(&read);
}

/* After a crash the file ends anywhere. Whatever is read is true of the import. */
static void a_text_that_is_cut_forgets_and_invents_nothing(void **unused)
{
    struct cli_import_state state;
    struct fg_buf text;
    size_t readable = 0;

    (void)unused;
    make(&state);
    fg_buf_init(&text, SIZE_MAX);
    cli_import_state_write(&state, &text);
    for (size_t len = 0; len <= text.len; len++) {
        struct cli_import_state read;
        struct fg_err err;

        begin(&read);
        if (cli_import_state_read(&read, fg_bytes(text.ptr, len), &err) == FG_OK) {
            readable++;
            assert_true(read.next_ms <= START + 2 * HOUR);
            assert_true(sent(&read) <= 20);
            assert_true(read.n_done <= 2);
            assert_true(len < text.len || has(&read, 2, 7));
        }
        cli_import_state_done(&read);
    }
    assert_true(readable > 100);
    fg_buf_done(&text);
    cli_import_state_done(&state);
}

static void an_open_window_ends_and_is_counted_once(void **unused)
{
    struct cli_import_state state;

    (void)unused;
    make(&state);
    note(&state, 1, 2, 4);
    end(&state, 1, true);
    assert_int_equal(state.n_open, 0);
    assert_int_equal(state.next_ms, START + 2 * HOUR);
    assert_false(has(&state, 1, 1));
    assert_true(has(&state, 2, 7));
    assert_int_equal(sent(&state), 24);
    end(&state, 2, false);
    end(&state, 2, false);
    assert_int_equal(state.n_open, 1);
    cli_import_state_done(&state);
}

static void other_texts_are_refused(void **unused)
{
    static const char *const texts[] = {
        "",
        "flamegrid push --dir 1 http://127.0.0.1:4040 DIR\n",
        "flamegrid import pyroscope 2\njob " JOB "\n",
        "flamegrid import pyroscope 1\njob another\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 5\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 9\nnext 10\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 9\nnext 7\nsent 1 1\nopen 8\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 9\nsent 1\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 9\nnext 7\nsent 1 1\nseries 5 12 1 1\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 9\nnext 6\nsent 1 1\nwhat\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 9\nnext 6\nsent 1 1 1\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange -5 9\nnext 6\nsent 1 1\n",
        "flamegrid import pyroscope 1\njob " JOB "\nrange 5 9\nsent 1 1\n",
        "flamegrid import pyroscope 1\njob " JOB "\n",
    };
    struct cli_import_state state;
    struct fg_err err;

    (void)unused;
    make(&state);
    for (size_t i = 0; i < FG_COUNT(texts); i++) {
        print_message("  %s\n", texts[i]);
        assert_int_equal(cli_import_state_read(&state, fg_cstr(texts[i]), &err), FG_E_INVALID);
        assert_int_equal(sent(&state), 20);
    }
    cli_import_state_done(&state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_text_that_is_cut_forgets_and_invents_nothing),
        cmocka_unit_test(an_open_window_ends_and_is_counted_once),
        cmocka_unit_test(other_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
