#include "deploy/cli/client.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void assert_text(struct fg_buf *buf, const char *want)
{
    fg_buf_putc(buf, '\0');
    assert_string_equal((const char *)buf->ptr, want);
    fg_buf_done(buf);
}

static void messages_are_one_harmless_line(void **state)
{
    static const struct {
        const char *body, *want;
    } cases[] = {
        {"{\"code\":\"unknown\",\"message\":\"name: bad\"}\n", "name: bad"},
        {"{\"message\":\"two\\nlines \\u001b[2J\"}", "two lines  [2J"},
        {"{\"code\":\"unknown\"}", "{\"code\":\"unknown\"}"},
        {"404 page not found\nmore\n", "404 page not found"},
        {"{\"message\":\"no org id: you have access to several tenants\"}",
         "no org id: you have access to several tenants; --tenant or FLAMEGRID_TENANT names the "
         "tenant"},
        {"set partial=true to get a response without it",
         "set partial=true to get a response without it; --partial does that"},
        {"", "nothing more"},
        {" \n", "nothing more"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf out;

        fg_buf_init(&out, SIZE_MAX);
        cli_client_message(fg_cstr(cases[i].body), &out);
        assert_text(&out, cases[i].want);
    }
}

static void other_statuses_are_failures(void **state)
{
    struct cli_client_reply reply = {.status = 200};
    struct fg_err err;

    (void)state;
    assert_int_equal(cli_client_check(&reply, &err), FG_OK);
    reply.status = 404;
    assert_int_not_equal(cli_client_check(&reply, &err), FG_OK);
    assert_string_equal(err.msg, "the server says 404: nothing more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_one_harmless_line),
        cmocka_unit_test(other_statuses_are_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
