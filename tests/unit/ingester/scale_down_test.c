#include "ingester/scale_down.h"
#include "tests/lib/fake_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SET(replicas, more)                                                                        \
    "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"fg-ingester\"" more                        \
    "},\"spec\":{\"replicas\":" replicas "}}"

static enum ing_pod_fate fate_of(const char *document, const char *pod)
{
    enum ing_pod_fate fate;
    struct fg_err err;

    assert_int_equal(ing_scale_down_read(fg_cstr(document), fg_cstr(pod), &fate, &err), FG_OK);
    return fate;
}

static void pods_above_the_replicas_go(void **state)
{
    static const char from_5[] = "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"s\"},"
                                 "\"spec\":{\"replicas\":2,\"ordinals\":{\"start\":5}}}";

    (void)state;
    assert_int_equal(fate_of(SET("3", ""), "fg-ingester-0"), ING_POD_RETURNS);
    assert_int_equal(fate_of(SET("3", ""), "fg-ingester-2"), ING_POD_RETURNS);
    assert_int_equal(fate_of(SET("3", ""), "fg-ingester-3"), ING_POD_GOES);
    assert_int_equal(fate_of(SET("0", ""), "fg-ingester-0"), ING_POD_GOES);
    assert_int_equal(fate_of(from_5, "s-4"), ING_POD_GOES);
    assert_int_equal(fate_of(from_5, "s-5"), ING_POD_RETURNS);
    assert_int_equal(fate_of(from_5, "s-6"), ING_POD_RETURNS);
    assert_int_equal(fate_of(from_5, "s-7"), ING_POD_GOES);
    assert_int_equal(fate_of(from_5, "s-18446744073709551615"), ING_POD_GOES);
}

/* The disks of its pods stay, and so do the profiles that only they have: nothing is handed over.
 */
static void pods_of_a_deleted_set_keep_their_places(void **state)
{
    (void)state;
    assert_int_equal(
        fate_of(SET("0", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""), "fg-ingester-3"),
        ING_POD_SET_DELETED);
}

static void other_answers_are_errors(void **state)
{
    static const struct {
        const char *document, *pod, *why;
    } cases[] = {
        {"", "fg-ingester-0", "at StatefulSet:1"},
        {"[]", "fg-ingester-0", "the answer is no StatefulSet"},
        {"{\"kind\":\"Deployment\",\"spec\":{\"replicas\":1}}", "fg-ingester-0",
         "the answer is no StatefulSet"},
        {SET("null", ""), "fg-ingester-0", "the answer is no StatefulSet"},
        {SET("-1", ""), "fg-ingester-0", "the answer is no StatefulSet"},
        {SET("3", ""), "fg-ingester", "fg-ingester is no pod of the StatefulSet fg-ingester"},
        {SET("3", ""), "fg-ingester-", "fg-ingester- is no pod"},
        {SET("3", ""), "fg-ingester-x", "fg-ingester-x is no pod"},
        {SET("3", ""), "fg-ingester-18446744073709551616", "is no pod"},
        {SET("3", ""), "fg-distributor-9", "fg-distributor-9 is no pod"},
        {SET("3", ""), "", " is no pod"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        enum ing_pod_fate fate;
        struct fg_err err;

        assert_int_equal(
            ing_scale_down_read(fg_cstr(cases[i].document), fg_cstr(cases[i].pod), &fate, &err),
            FG_E_INVALID);
        if (strstr(err.msg, cases[i].why) == NULL)
            fail_msg("%s", err.msg);
    }
}

/* What the API gets, and what it says. */
struct api {
    unsigned status;
    const char *document;
    char head[4096];
};

static void answer(struct fake_connection *connection, void *arg)
{
    struct api *api = arg;
    char head[sizeof api->head];

    while (fake_read(connection, head, sizeof head)) {
        memcpy(api->head, head, sizeof head);
        (void)fake_respond(connection, api->status, "", fg_cstr(api->document));
    }
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void the_api_is_asked_with_the_pod_s_credentials(void **state)
{
    static const unsigned gone[] = {404, 401, 403};
    struct fake_identity identity;
    struct api api = {200, SET("1", ""), ""};
    struct fake_server *server;
    char command[600], url[64];
    struct ing_scale_down_settings settings = {
        .statefulset = "fg-ingester", .namespace = "", .api = url, .credentials = identity.folder};

    (void)state;
    fake_identity_create(&identity);
    write_file(identity.folder, "namespace", "obs\n");
    write_file(identity.folder, "token", "abc");
    (void)snprintf(command, sizeof command, "cp %s %s/ca.crt", identity.cert, identity.folder);
    assert_int_equal(system(command), 0); /* NOLINT(concurrency-mt-unsafe): one thread */
    server = fake_server_start(&identity, false, answer, &api);
    (void)snprintf(url, sizeof url, "https://localhost:%u", fake_server_port(server));

    assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", true), ING_POD_GOES);
    assert_non_null(
        strstr(api.head, "GET /apis/apps/v1/namespaces/obs/statefulsets/fg-ingester HTTP/1.1"));
    assert_non_null(strstr(api.head, "Authorization: Bearer abc"));
    assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-0", true), ING_POD_RETURNS);
    assert_true(ing_scale_down_may_ask(&settings, "fg-ingester-0"));
    /* Helm deletes the StatefulSet, and right after it the permission to read it. */
    for (size_t i = 0; i < FG_COUNT(gone); i++) {
        api.status = gone[i];
        assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", true), ING_POD_SET_DELETED);
        /* What could never be read says nothing: its name may be wrong. */
        assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", false), ING_POD_RETURNS);
        assert_false(ing_scale_down_may_ask(&settings, "fg-ingester-0"));
    }
    /* Any other error keeps the place in the ring. */
    api.status = 500;
    assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", true), ING_POD_RETURNS);
    api.status = 200;
    write_file(identity.folder, "namespace", " \n");
    assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", true), ING_POD_RETURNS);
    settings.namespace = "other";
    assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", true), ING_POD_GOES);
    assert_non_null(strstr(api.head, "/namespaces/other/"));
    settings.statefulset = "";
    assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", true), ING_POD_RETURNS);
    assert_false(ing_scale_down_may_ask(&settings, "fg-ingester-1"));
    settings.statefulset = "fg-ingester";
    fake_server_stop(server);
    assert_int_equal(ing_scale_down_ask(&settings, "fg-ingester-1", true), ING_POD_RETURNS);
    (void)snprintf(command, sizeof command, "rm %s/ca.crt %s/namespace %s/token", identity.folder,
                   identity.folder, identity.folder);
    assert_int_equal(system(command), 0); /* NOLINT(concurrency-mt-unsafe): one thread */
    fake_identity_destroy(&identity);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_above_the_replicas_go),
        cmocka_unit_test(pods_of_a_deleted_set_keep_their_places),
        cmocka_unit_test(other_answers_are_errors),
        cmocka_unit_test(the_api_is_asked_with_the_pod_s_credentials),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
