/* The setting forward.targets: what each key sets, what is there without it, and what a user reads
 * who has made a mistake. */
#include "ingester/forward/targets.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct ing_forward_targets *read_targets(const char *yaml)
{
    struct ing_forward_targets *targets = NULL;
    struct fg_err err;

    if (ing_forward_targets_read(yaml, &targets, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return targets;
}

static void assert_refused(const char *yaml, const char *message)
{
    struct ing_forward_targets *targets = NULL;
    struct fg_err err;

    print_message("  %.100s\n", yaml);
    assert_int_equal(ing_forward_targets_read(yaml, &targets, &err), FG_E_INVALID);
    assert_null(targets);
    if (strstr(err.msg, message) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.msg, message);
}

static void nothing_is_no_target(void **state)
{
    static const char *const texts[] = {"", "[]", "# none yet\n", "null"};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(texts); i++) {
        struct ing_forward_targets *targets = read_targets(texts[i]);

        assert_int_equal(targets->n, 0);
        ing_forward_targets_destroy(targets);
    }
    ing_forward_targets_destroy(NULL);
}

static void target_with_two_keys_has_the_defaults(void **state)
{
    struct ing_forward_targets *targets =
        read_targets("[{name: central, url: 'http://127.0.0.1:4040'}]");
    const struct ing_target_settings *settings;

    (void)state;
    assert_int_equal(targets->n, 1);
    settings = &targets->items[0].settings;
    assert_string_equal(settings->name, "central");
    assert_string_equal(settings->url, "http://127.0.0.1:4040");
    assert_int_equal(settings->protocol, FORWARD_AUTO);
    assert_string_equal(settings->tenant, "");
    assert_int_equal(settings->queue_max_bytes, UINT64_C(10) << 30);
    assert_int_equal(settings->when_full, OUTBOX_DROP);
    assert_int_equal(settings->connections, 4);
    assert_int_equal(settings->rate_max_bytes, 0);
    assert_true(settings->fresh_share == 0.5);
    assert_int_equal(settings->timeout_ns, 30 * FG_SECOND_NS);
    assert_int_equal(targets->items[0].selector.n_matchers, 0);
    assert_int_equal(fg_relabel_count(targets->items[0].rules), 0);
    assert_int_equal(fg_relabel_count(targets->items[0].type_rules), 0);
    assert_null(targets->items[0].tls.ca_file);
    assert_null(targets->items[0].tls.cert_file);
    assert_null(targets->items[0].tls.key_file);
    assert_false(targets->items[0].tls.insecure);
    assert_string_equal(targets->queues[0].name, "central");
    assert_true(targets->queues[0].wants(targets->queues[0].arg, FG_LIT("any")));
    assert_int_equal(targets->queues[0].queue_max_bytes, UINT64_C(10) << 30);
    assert_int_equal(targets->queues[0].when_full, OUTBOX_DROP);
    ing_forward_targets_destroy(targets);
}

static void every_key_is_taken(void **state)
{
    struct ing_forward_targets *targets = read_targets(
        "- name: central\n"
        "  url: https://profiles.example/base/\n"
        "  protocol: flamegrid\n"
        "  tenant: team-a\n"
        "  selector: '{env!=\"dev\", zone=~\"eu-.*\"}'\n"
        "  relabel:\n"
        "  - {target_label: cluster, replacement: edge}\n"
        "  - {action: labeldrop, regex: pod}\n"
        "  sample_types:\n"
        "  - {action: drop, source_labels: [__type__], regex: alloc_.*}\n"
        "  since: 2023-11-14\n"
        "  token_file: /run/keys/token\n"
        "  ca_file: /run/keys/ca\n"
        "  cert_file: /run/keys/cert\n"
        "  key_file: /run/keys/key\n"
        "  insecure: yes\n"
        "  queue_max_bytes: 1GiB\n"
        "  when_full: refuse\n"
        "  connections: 16\n"
        "  rate_max_bytes: 1MiB\n"
        "  fresh_share: 0.25\n"
        "  timeout: 1m\n"
        "- {name: other, url: 'http://x', protocol: push, username: u, password_file: /p}\n");
    const struct ing_forward_target *first = &targets->items[0], *second = &targets->items[1];

    (void)state;
    assert_int_equal(targets->n, 2);
    assert_string_equal(first->settings.url, "https://profiles.example/base/");
    assert_int_equal(first->settings.protocol, FORWARD_FLAMEGRID);
    assert_string_equal(first->settings.tenant, "team-a");
    assert_int_equal(first->selector.n_matchers, 2);
    assert_int_equal(fg_relabel_count(first->rules), 2);
    assert_int_equal(fg_relabel_count(first->type_rules), 1);
    assert_string_equal(first->settings.token_file, "/run/keys/token");
    assert_string_equal(first->tls.ca_file, "/run/keys/ca");
    assert_string_equal(first->tls.cert_file, "/run/keys/cert");
    assert_string_equal(first->tls.key_file, "/run/keys/key");
    assert_true(first->tls.insecure);
    assert_int_equal(first->settings.connections, 16);
    assert_int_equal(first->settings.rate_max_bytes, 1 << 20);
    assert_true(first->settings.fresh_share == 0.25);
    assert_int_equal(first->settings.timeout_ns, FG_MINUTE_NS);
    assert_int_equal(targets->queues[0].queue_max_bytes, 1 << 30);
    assert_int_equal(targets->queues[0].when_full, OUTBOX_REFUSE);
    assert_int_equal(second->settings.protocol, FORWARD_PUSH);
    assert_string_equal(second->settings.username, "u");
    assert_string_equal(second->settings.password_file, "/p");
    assert_string_equal(targets->queues[1].name, "other");
    ing_forward_targets_destroy(targets);
}

/* A target that is named well, with one more key. */
static void assert_key_refused(const char *key, const char *message)
{
    char yaml[512];

    (void)snprintf(yaml, sizeof yaml, "[{name: central, url: 'http://x', %s}]", key);
    assert_refused(yaml, message);
    assert_refused(yaml, "forward.targets[0]: ");
}

static void faults_of_a_target_are_named(void **state)
{
    (void)state;
    assert_refused("[{url: 'http://x'}]", "forward.targets[0]: no name");
    assert_refused("[{name: a}]",
                   "forward.targets[0]: url \"\" does not begin with http:// or https://");
    assert_refused("[{name: a, url: 'ftp://x'}]", "url \"ftp://x\" does not begin with http://");
    assert_refused("[{name: a, url: 'HTTP//x'}]", "does not begin with http://");
    assert_refused("[{name: a, url: 'http://'}]", "url \"http://\" has no host");
    assert_refused("[{name: a, url: 'https:///path'}]", "url \"https:///path\" has no host");
    assert_refused("[{name: a, url: 'http://x?y=1'}]", "has a query, a fragment or a space");
    assert_refused("[{name: a, url: 'http://x#y'}]", "has a query, a fragment or a space");
    assert_refused("[{name: a, url: 'http://x y'}]", "has a query, a fragment or a space");
    assert_refused("[{name: a, url: \"http://x\\r\\nX-Evil: 1\"}]",
                   "has a query, a fragment or a space");
    assert_key_refused("username: u", "username and password_file go together");
    assert_key_refused("password_file: /p", "username and password_file go together");
    assert_key_refused("username: 'u:v', password_file: /p", "username has a colon");
    assert_key_refused("username: u, password_file: /p, token_file: /t",
                       "token_file, username and oauth2 exclude each other");
    assert_key_refused("cert_file: /c", "cert_file and key_file go together");
    assert_key_refused("key_file: /k", "cert_file and key_file go together");
    assert_key_refused("tenant: \"a\\r\\nX-Evil: 1\"", "tenant: ");
    assert_key_refused("tenant: a/b", "tenant: ");
    assert_key_refused("selector: '{env=}'", "selector: ");
    assert_key_refused("selector: '{env=~\"(\"}'", "selector: ");
    assert_key_refused("relabel: [{action: nothing}]", "relabel");
    assert_key_refused("relabel: [{action: hashmod, target_label: a}]", "relabel");
    assert_key_refused("sample_types: [{action: labeldrop, regex: a}]",
                       "sample types can only be kept or dropped");
    assert_key_refused("protocol: http", "protocol");
    assert_key_refused("when_full: wait", "when_full");
    assert_key_refused("connections: 0", "connections");
    assert_key_refused("connections: 17", "connections");
    assert_key_refused("connections: [1]", "connections");
    assert_key_refused("fresh_share: 1.5", "fresh_share");
    assert_key_refused("fresh_share: -1", "fresh_share");
    assert_key_refused("queue_max_bytes: 1kB", "queue_max_bytes");
    assert_key_refused("rate_max_bytes: -1", "rate_max_bytes");
    assert_key_refused("timeout: 1ms", "timeout");
    assert_key_refused("timeout: 11m", "timeout");
    assert_key_refused("insecure: maybe", "insecure");
    assert_key_refused("conections: 4", "connections"); /* the nearest known one */
}

static void second_target_is_named_by_its_place(void **state)
{
    (void)state;
    assert_refused("[{name: a, url: 'http://x'}, {name: b}]", "forward.targets[1]: url");
    assert_refused("[{name: a, url: 'http://x'}, {name: a, url: 'http://y'}]",
                   "forward.targets[1]: the name a is there twice");
}

static void what_is_no_list_of_maps_is_refused(void **state)
{
    (void)state;
    assert_refused("{name: a}", "not a list of up to 16 maps");
    assert_refused("central", "not a list of up to 16 maps");
    assert_refused("[central]", "forward.targets[0]: not a map");
    assert_refused("[[]]", "forward.targets[0]: not a map");
    assert_refused("- \n", "forward.targets[0]: not a map");
}

static void faults_of_the_yaml_are_named(void **state)
{
    (void)state;
    assert_refused("[{name: a", "forward.targets:");
    assert_refused("- name: a\n url: x", "forward.targets:");
    assert_refused("- &a {name: a}\n- *a", "forward.targets:");
    assert_refused("[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", "forward.targets:");
    assert_refused("[{name: a, name: b}]", "forward.targets:");
}

static void long_texts_are_refused(void **state)
{
    char name[OUTBOX_NAME_MAX_BYTES + 2], yaml[512];
    struct ing_forward_targets *targets;

    (void)state;
    memset(name, 'n', sizeof name);
    name[OUTBOX_NAME_MAX_BYTES] = '\0';
    (void)snprintf(yaml, sizeof yaml, "[{name: %s, url: 'http://x'}]", name);
    targets = read_targets(yaml);
    assert_int_equal(strlen(targets->queues[0].name), OUTBOX_NAME_MAX_BYTES);
    ing_forward_targets_destroy(targets);
    name[OUTBOX_NAME_MAX_BYTES] = 'n';
    name[OUTBOX_NAME_MAX_BYTES + 1] = '\0';
    (void)snprintf(yaml, sizeof yaml, "[{name: %s, url: 'http://x'}]", name);
    assert_refused(yaml, "name");
}

static void there_are_sixteen_targets_at_most(void **state)
{
    (void)state;
    for (unsigned n = OUTBOX_TARGETS_MAX; n <= OUTBOX_TARGETS_MAX + 1; n++) {
        struct fg_buf yaml;

        fg_buf_init(&yaml, SIZE_MAX);
        for (unsigned i = 0; i < n; i++)
            fg_buf_printf(&yaml, "- {name: t%u, url: 'http://x'}\n", i);
        fg_buf_putc(&yaml, '\0');
        if (n == OUTBOX_TARGETS_MAX) {
            struct ing_forward_targets *targets = read_targets((const char *)yaml.ptr);

            assert_int_equal(targets->n, n);
            assert_string_equal(targets->queues[n - 1].name, "t15");
            ing_forward_targets_destroy(targets);
        } else {
            assert_refused((const char *)yaml.ptr, "not a list of up to 16 maps");
        }
        fg_buf_done(&yaml);
    }
}

static void past_begins_when_the_setting_says(void **state)
{
    static const struct {
        const char *since;
        int64_t ns; /* -1: refused; -2: a day ago */
    } cases[] = {
        {"start", 0},
        {"2023-11-14", INT64_C(1699920000) * FG_SECOND_NS},
        {"20231114", INT64_C(1699920000) * FG_SECOND_NS},
        {"1700000000", INT64_C(1700000000) * FG_SECOND_NS},
        {"now-24h", -2},
        {"now", -1},
        {"yesterday", -1},
        {"beginning", -1},
        {"now+1h", -1},
        {"1969-01-01", -1},
        {"2200-01-01", -1},
        {"2023-02-30", -1},
        {"5-24h", -1},
        {"2023-11-14T10:00:00Z", -1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct ing_forward_targets *targets;
        int64_t now_ns = fg_wall_ns(fg_clock_real());
        char yaml[200];

        (void)snprintf(yaml, sizeof yaml, "[{name: c, url: 'http://a', since: '%s'}]",
                       cases[i].since);
        if (cases[i].ns == -1) {
            assert_refused(yaml, "forward.targets[0]: since");
            continue;
        }
        targets = read_targets(yaml);
        if (cases[i].ns == -2)
            assert_in_range(targets->queues[0].since_ns, now_ns - 24 * FG_HOUR_NS,
                            now_ns - 23 * FG_HOUR_NS);
        else
            assert_int_equal(targets->queues[0].since_ns, cases[i].ns);
        ing_forward_targets_destroy(targets);
    }
}

static void oauth2_is_read_and_its_faults_are_named(void **state)
{
    static const struct {
        const char *map, *message; /* NULL: it is taken */
        const char *form;
    } cases[] = {
        {"{token_url: 'https://i/t', client_id: a, client_secret_file: f}", NULL,
         "grant_type=client_credentials"},
        {"{token_url: 'http://i/t', client_id: a, client_secret_file: f, scopes: [push, 'x y'], "
         "params: {resource: 'urn:flame/grid'}}",
         NULL, "grant_type=client_credentials&scope=push%20x%20y&resource=urn%3Aflame%2Fgrid"},
        {"{client_id: a, client_secret_file: f}", "token_url", NULL},
        {"{token_url: 'ftp://i', client_id: a, client_secret_file: f}", "token_url", NULL},
        {"{token_url: 'https://i/ t', client_id: a, client_secret_file: f}", "space", NULL},
        {"{token_url: 'https://i'}", "client_id and client_secret_file", NULL},
        {"{token_url: 'https://i', client_id: a, client_secret: s}", "client_secret", NULL},
        {"{token_url: 'https://i', client_id: a, client_secret_file: f, scopes: push}",
         "not a list", NULL},
        {"{token_url: 'https://i', client_id: a, client_secret_file: f, scopes: [[a]]}",
         "not a list", NULL},
        {"{token_url: 'https://i', client_id: a, client_secret_file: f, params: [a]}", "not a map",
         NULL},
        {"{token_url: 'https://i', client_id: a, client_secret_file: f, params: {scope: a}}",
         "set by other keys", NULL},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct ing_forward_targets *targets;
        char yaml[400];

        (void)snprintf(yaml, sizeof yaml, "[{name: c, url: 'http://a', oauth2: %s}]", cases[i].map);
        if (cases[i].message != NULL) {
            assert_refused(yaml, cases[i].message);
            continue;
        }
        targets = read_targets(yaml);
        assert_true(targets->items[0].uses_oauth2);
        assert_true(fg_slice_is(fg_buf_slice(&targets->items[0].oauth2.form), cases[i].form));
        ing_forward_targets_destroy(targets);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_no_target),
        cmocka_unit_test(target_with_two_keys_has_the_defaults),
        cmocka_unit_test(every_key_is_taken),
        cmocka_unit_test(faults_of_a_target_are_named),
        cmocka_unit_test(second_target_is_named_by_its_place),
        cmocka_unit_test(what_is_no_list_of_maps_is_refused),
        cmocka_unit_test(faults_of_the_yaml_are_named),
        cmocka_unit_test(long_texts_are_refused),
        cmocka_unit_test(oauth2_is_read_and_its_faults_are_named),
        cmocka_unit_test(past_begins_when_the_setting_says),
        cmocka_unit_test(there_are_sixteen_targets_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
