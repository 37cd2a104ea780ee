/* The service manager is this test: it binds the socket and reads what comes. */
#include "common/base/time.h"
#include "common/runtime/notify.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/notify-XXXXXX";
static char path[sizeof folder + sizeof "/socket"];

static void set(const char *socket, const char *usec, const char *pid)
{
    const char *const values[] = {socket, usec, pid};
    const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"};

    for (unsigned i = 0; i < FG_COUNT(names); i++)
        if (values[i] != NULL)
            assert_int_equal(setenv(names[i], values[i], 1), 0);
        else
            assert_int_equal(unsetenv(names[i]), 0);
}

static int bind_to(const char *name, size_t len)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    memcpy(address.sun_path, name, len);
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    return fd;
}

static void assert_arrives(int fd, const struct fg_notify *notify)
{
    char got[100];
    struct fg_err err;
    ssize_t len;

    assert_int_equal(fg_notify_send(notify, "READY=1\nSTATUS=up", &err), FG_OK);
    len = recv(fd, got, sizeof got, 0);
    assert_int_equal(len, strlen("READY=1\nSTATUS=up"));
    assert_memory_equal(got, "READY=1\nSTATUS=up", (size_t)len);
    (void)close(fd);
}

static void datagrams_go_to_a_path(void **state)
{
    struct fg_notify notify;
    struct fg_err err;

    (void)state;
    set(path, NULL, NULL);
    assert_int_equal(fg_notify_init(&notify, &err), FG_OK);
    assert_int_equal(notify.watchdog_ns, 0);
    assert_arrives(bind_to(path, strlen(path)), &notify);
    assert_int_equal(unlink(path), 0);
}

static void datagrams_go_to_an_abstract_name(void **state)
{
    struct fg_notify notify;
    struct fg_err err;
    char name[64];

    (void)state;
    (void)snprintf(name, sizeof name, "@flamegrid-test-%d", (int)getpid());
    set(name, NULL, NULL);
    assert_int_equal(fg_notify_init(&notify, &err), FG_OK);
    name[0] = '\0';
    assert_arrives(bind_to(name, 1 + strlen(name + 1)), &notify);
}

static void without_a_manager_nothing_is_sent(void **state)
{
    struct fg_notify notify;
    struct fg_err err;

    (void)state;
    set(NULL, "1000000", NULL);
    assert_int_equal(fg_notify_init(&notify, &err), FG_OK);
    assert_int_equal(notify.address_bytes, 0);
    assert_int_equal(notify.watchdog_ns, 0);
    assert_int_equal(fg_notify_send(&notify, "READY=1", &err), FG_OK);
}

static void a_manager_that_is_gone_is_an_error(void **state)
{
    struct fg_notify notify;
    struct fg_err err;

    (void)state;
    set(path, NULL, NULL);
    assert_int_equal(fg_notify_init(&notify, &err), FG_OK);
    assert_int_not_equal(fg_notify_send(&notify, "READY=1", &err), FG_OK);
    assert_non_null(strstr(err.msg, "NOTIFY_SOCKET: No such file"));
}

static void the_watchdog_is_for_the_process_that_is_named(void **state)
{
    struct fg_notify notify;
    struct fg_err err;
    char pid[24];

    (void)state;
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    set(path, "3000000", pid);
    assert_int_equal(fg_notify_init(&notify, &err), FG_OK);
    assert_int_equal(notify.watchdog_ns, 3 * FG_SECOND_NS);
    set(path, "3000000", NULL);
    assert_int_equal(fg_notify_init(&notify, &err), FG_OK);
    assert_int_equal(notify.watchdog_ns, 3 * FG_SECOND_NS);
    set(path, "3000000", "1");
    assert_int_equal(fg_notify_init(&notify, &err), FG_OK);
    assert_int_equal(notify.watchdog_ns, 0);
}

static void variables_without_a_meaning_are_refused(void **state)
{
    static const char *const wrong[][3] = {
        {"socket", NULL, NULL},
        {"@", NULL, NULL},
        {"", NULL, NULL},
        {"/run/s", "soon", NULL},
        {"/run/s", "0", NULL},
        {"/run/s", "18446744073709551615", NULL},
        {"/run/s", "1000", "-1"},
        {"vsock:2:1", NULL, NULL},
        {"/0123456789012345678901234567890123456789012345678901234567890123456789"
         "012345678901234567890123456789012345678901234567890123456789",
         NULL, NULL},
    };
    struct fg_notify notify;
    struct fg_err err;

    (void)state;
    for (unsigned i = 0; i < FG_COUNT(wrong); i++) {
        set(wrong[i][0], wrong[i][1], wrong[i][2]);
        assert_int_equal(fg_notify_init(&notify, &err), FG_E_INVALID);
        assert_int_equal(notify.address_bytes, 0);
    }
}

static void a_status_is_one_line(void **state)
{
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, 1000);
    fg_notify_put_status(fg_cstr("ready\ndisk_full: no room\nREADY=0\n"), &out);
    fg_buf_putc(&out, '\0');
    assert_string_equal((const char *)out.ptr, "STATUS=ready; disk_full: no room; READY=0");
    fg_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(datagrams_go_to_a_path),
        cmocka_unit_test(datagrams_go_to_an_abstract_name),
        cmocka_unit_test(without_a_manager_nothing_is_sent),
        cmocka_unit_test(a_manager_that_is_gone_is_an_error),
        cmocka_unit_test(the_watchdog_is_for_the_process_that_is_named),
        cmocka_unit_test(variables_without_a_meaning_are_refused),
        cmocka_unit_test(a_status_is_one_line),
    };
    int failed;

    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(path, sizeof path, "%s/socket", folder);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
