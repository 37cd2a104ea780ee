/* Limits of tenants, from a file that changes under them. */
#include "common/base/time.h"
#include "common/model/tenant_limits.h"
#include "common/runtime/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char path[64];
    struct fg_limit_settings defaults;
    struct fg_registry *registry;
    struct fg_tenants *tenants;
    unsigned writes;
};

/* Each writing gets a time of its own, which the file system's clock might not give it. */
static void write_file(struct fixture *f, const char *yaml)
{
    FILE *file = fopen(f->path, "we");
    const struct timespec times[2] = {{1000 + f->writes, 0}, {1000 + f->writes, 0}};

    f->writes++;
    assert_non_null(file);
    assert_int_equal(fwrite(yaml, 1, strlen(yaml), file), strlen(yaml));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(utimensat(AT_FDCWD, f->path, times, 0), 0);
}

static bool shows(const struct fixture *f, const char *line)
{
    struct fg_buf text;
    bool found;

    fg_buf_init(&text, 64 * 1024);
    fg_registry_write(f->registry, &text);
    found = fg_slice_search(fg_buf_slice(&text), line) != SIZE_MAX;
    fg_buf_done(&text);
    return found;
}

static enum fg_code create(struct fixture *f, const char *file, struct fg_err *err)
{
    return fg_tenants_create(&(struct fg_tenants_config){.defaults = &f->defaults,
                                                         .file = file,
                                                         .reload_ns = FG_HOUR_NS,
                                                         .registry = f->registry},
                             &f->tenants, err);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_conf_section section = {"limits", fg_limit_fields, fg_limit_n_fields, &f->defaults};
    struct fg_err err;
    int fd;

    (void)snprintf(f->path, sizeof f->path, "/tmp/fg_limits_test_XXXXXX");
    fd = mkstemp(f->path);
    assert_true(fd >= 0);
    (void)close(fd);
    f->registry = fg_registry_create();
    assert_int_equal(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL,
                                  NULL, NULL, 0, &err),
                     FG_OK);
    fg_log_set_level(FG_LOG_ERROR);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct fg_conf_section section = {"limits", fg_limit_fields, fg_limit_n_fields, &f->defaults};

    fg_tenants_destroy(f->tenants);
    fg_registry_destroy(f->registry);
    fg_conf_done(&(struct fg_conf){.sections = &section, .n_sections = 1});
    (void)unlink(f->path);
    free(f);
    return 0;
}

static uint64_t names_max(struct fixture *f, const char *tenant)
{
    struct fg_limits *limits = fg_tenants_limits(f->tenants, fg_cstr(tenant));
    uint64_t max = limits->values.max_label_names_per_series;

    fg_limits_unref(limits);
    return max;
}

static void without_a_file_all_have_the_defaults(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    f->defaults.max_label_names_per_series = 7;
    assert_int_equal(create(f, "", &err), FG_OK);
    assert_int_equal(names_max(f, "anybody"), 7);
}

static void an_override_replaces_only_its_settings(void **state)
{
    struct fixture *f = *state;
    struct fg_limits *limits;
    struct fg_err err;

    write_file(f, "overrides:\n"
                  "  a:\n    max_label_names_per_series: 5\n    reject_older_than: 7d\n"
                  "  b.c: {max_label_names_per_series: 6}\n"
                  "  empty:\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    assert_int_equal(names_max(f, "a"), 5);
    assert_int_equal(names_max(f, "b.c"), 6);
    assert_int_equal(names_max(f, "empty"), 30);
    assert_int_equal(names_max(f, "other"), 30);
    limits = fg_tenants_limits(f->tenants, FG_LIT("a"));
    assert_true(limits->values.reject_older_than_ns == 7 * 24 * FG_HOUR_NS);
    assert_int_equal(limits->values.max_label_value_length, 2048);
    fg_limits_unref(limits);
}

static void relabelling_rules_are_overridden(void **state)
{
    struct fixture *f = *state;
    struct fg_limits *limits, *defaults;
    struct fg_err err;

    write_file(f, "overrides:\n"
                  "  a:\n"
                  "    ingestion_relabeling_rules:\n"
                  "      - {action: drop, source_labels: [env], regex: test}\n"
                  "    ingestion_relabeling_default_rules_position: disabled\n"
                  "    sample_type_relabeling_rules: [{action: keep, source_labels: [__type__], "
                  "regex: cpu}]\n"
                  "  b: {}\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    limits = fg_tenants_limits(f->tenants, FG_LIT("a"));
    assert_int_equal(fg_relabel_count(limits->rules), 1);
    assert_int_equal(fg_relabel_count(limits->type_rules), 1);
    fg_limits_unref(limits);
    limits = fg_tenants_limits(f->tenants, FG_LIT("b"));
    defaults = fg_tenants_limits(f->tenants, FG_LIT("c"));
    assert_int_equal(fg_relabel_count(limits->rules), 5); /* the default ones */
    assert_ptr_equal(limits->rules, defaults->rules);     /* once for all who have them */
    assert_ptr_equal(limits->type_rules, defaults->type_rules);
    fg_limits_unref(limits);
    fg_limits_unref(defaults);
}

static void a_changed_file_is_loaded_again(void **state)
{
    struct fixture *f = *state;
    struct fg_limits *before;
    struct fg_err err;

    write_file(f, "overrides: {a: {max_label_names_per_series: 5}}\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    before = fg_tenants_limits(f->tenants, FG_LIT("a"));
    fg_tenants_look(f->tenants);
    assert_int_equal(names_max(f, "a"), 5);
    write_file(f, "overrides: {a: {max_label_names_per_series: 8}}\n");
    fg_tenants_look(f->tenants);
    assert_int_equal(names_max(f, "a"), 8);
    assert_int_equal(before->values.max_label_names_per_series, 5); /* whoever goes by it */
    fg_limits_unref(before);
    write_file(f, "");
    fg_tenants_look(f->tenants);
    assert_int_equal(names_max(f, "a"), 30);
}

static void a_broken_file_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    write_file(f, "overrides: {a: {max_label_names_per_series: 5}}\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    fg_log_set_level(FG_LOG_ERROR + 1);
    write_file(f, "overrides: {a: {max_label_names_per_series: 8}, b: {max_nonsense: 1}}\n");
    fg_tenants_look(f->tenants);
    assert_int_equal(names_max(f, "a"), 5);
    assert_true(shows(f, "\nflamegrid_reload_failed{file=\"tenants\"} 1\n"));
    assert_int_equal(unlink(f->path), 0);
    fg_tenants_look(f->tenants);
    assert_int_equal(names_max(f, "a"), 5);
    write_file(f, "overrides: {a: {max_label_names_per_series: 9}}\n");
    fg_tenants_look(f->tenants);
    assert_int_equal(names_max(f, "a"), 9);
    assert_true(shows(f, "\nflamegrid_reload_failed{file=\"tenants\"} 0\n"));
}

/* clang-format off */
static const struct {
    const char *yaml, *error;
} broken[] = {
    {"overrides:\n  a:\n    max_label_names_per_serie: 1\n", "unknown key \"overrides.a.max_label_names_per_serie\" at F:3; did you mean \"overrides.a.max_label_names_per_series\"?"},
    {"overrides:\n  a:\n    max_label_names_per_series: x\n", "overrides.a.max_label_names_per_series: \"x\" is not a whole number (F:3)"},
    {"overrides:\n  a: {}\n  a: {}\n", "overrides.a is set a second time at F:3"},
    {"overrides:\n  a: 5\n", "overrides.a: expected a map, found a value at F:2"},
    {"overrides: [a]\n", "expected a setting, found a list at F:1"},
    {"limits: {}\n", "unknown key; only \"overrides\" is allowed here at F:1"},
    {"overrides: {}\nmore: {}\n", "unknown key; only \"overrides\" is allowed here at F:2"},
    {"nonsense\n", "expected a map of settings, found a value at F:1"},
};
/* clang-format on */

/* The path in place of F. */
static void assert_error(const struct fixture *f, const char *got, const char *want)
{
    char text[FG_ERR_MSG_MAX_BYTES];
    const char *mark = strstr(want, "F:");

    assert_non_null(mark);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(mark - want), want, f->path, mark + 1);
    assert_string_equal(got, text);
}

static void a_broken_file_stops_the_start(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    for (size_t i = 0; i < FG_COUNT(broken); i++) {
        write_file(f, broken[i].yaml);
        assert_int_equal(create(f, f->path, &err), FG_E_INVALID);
        assert_error(f, err.msg, broken[i].error);
    }
    assert_int_equal(create(f, "/nonexistent/limits.yaml", &err), FG_E_NOT_FOUND);
}

/* With several tenants each has limits though nobody set any; one alone has none. */
static void tenancy_has_default_limits(void **state)
{
    struct fixture *f = *state;
    struct fg_limits *limits;
    struct fg_err err;

    write_file(f, "overrides:\n"
                  "  large: {max_series_per_tenant: 0, ingestion_rate_mb: 0, "
                  "tenant_catalog_share: 0.9}\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    limits = fg_tenants_limits(f->tenants, FG_LIT("anonymous"));
    assert_true(limits->values.ingestion_rate_mb == 0);
    assert_int_equal(limits->values.max_series_per_tenant, 0);
    assert_true(limits->values.tenant_catalog_share == 1);
    fg_limits_unref(limits);
    fg_tenants_destroy(f->tenants);

    assert_int_equal(fg_tenants_create(&(struct fg_tenants_config){.enabled = true,
                                                                   .defaults = &f->defaults,
                                                                   .file = f->path,
                                                                   .reload_ns = FG_HOUR_NS,
                                                                   .registry = f->registry},
                                       &f->tenants, &err),
                     FG_OK);
    limits = fg_tenants_limits(f->tenants, FG_LIT("small"));
    assert_true(limits->values.ingestion_rate_mb == FG_TENANT_RATE_MB);
    assert_int_equal(limits->values.max_series_per_tenant, FG_TENANT_SERIES_MAX);
    assert_true(limits->values.tenant_catalog_share == 0.5);
    fg_limits_unref(limits);
    limits = fg_tenants_limits(f->tenants, FG_LIT("large"));
    assert_true(limits->values.ingestion_rate_mb == 0);
    assert_int_equal(limits->values.max_series_per_tenant, 0);
    assert_true(limits->values.tenant_catalog_share == 0.9);
    fg_limits_unref(limits);
}

/* ---- limits from elsewhere ---- */

static void override(struct fixture *f, const char *tenant, const char *yaml)
{
    const struct fg_tenant_override item = {fg_cstr(tenant), fg_cstr(yaml)};

    fg_tenants_override(f->tenants, &item, 1);
}

static void the_registry_overrides_the_file_and_the_file_the_defaults(void **state)
{
    struct fixture *f = *state;
    struct fg_limits *limits;
    struct fg_err err;

    write_file(f, "overrides:\n"
                  "  a: {max_label_names_per_series: 5, max_label_value_length: 77}\n"
                  "  b: {max_label_names_per_series: 6}\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    override(f, "a", "max_label_names_per_series: 9\n");
    limits = fg_tenants_limits(f->tenants, FG_LIT("a"));
    assert_int_equal(limits->values.max_label_names_per_series, 9);
    assert_int_equal(limits->values.max_label_value_length, 77);  /* of the file */
    assert_int_equal(limits->values.max_label_name_length, 1024); /* the default */
    fg_limits_unref(limits);
    assert_int_equal(names_max(f, "b"), 6);
    assert_int_equal(names_max(f, "c"), 30);
    /* A tenant that the file does not have. */
    override(f, "c", "max_label_names_per_series: 4\n");
    assert_int_equal(names_max(f, "a"), 5); /* it was replaced, not added to */
    assert_int_equal(names_max(f, "c"), 4);
    fg_tenants_override(f->tenants, NULL, 0);
    assert_int_equal(names_max(f, "c"), 30);
}

static void a_change_of_the_file_leaves_them(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    write_file(f, "overrides: {a: {max_label_names_per_series: 5}}\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    override(f, "a", "max_label_value_length: 88\n");
    assert_int_equal(names_max(f, "a"), 5);
    write_file(f, "overrides: {a: {max_label_names_per_series: 7}}\n");
    fg_tenants_look(f->tenants);
    assert_int_equal(names_max(f, "a"), 7);

    struct fg_limits *limits = fg_tenants_limits(f->tenants, FG_LIT("a"));
    assert_int_equal(limits->values.max_label_value_length, 88);
    fg_limits_unref(limits);
}

/* A newer version may have written it: the tenant goes on with the limits below. */
static void an_invalid_one_is_left_out_and_the_others_count(void **state)
{
    static const char *const wrong[] = {
        "no_such_limit: 1\n",
        "max_label_names_per_series: many\n",
        "max_label_names_per_series: 3\nno_such_limit: 1\n",
        "max_label_names_per_series: [\n",
        "- 1\n",
        "ingestion_relabeling_rules: '[{\"action\": \"dance\"}]'\n",
    };
    struct fixture *f = *state;
    struct fg_err err;

    write_file(f, "overrides: {a: {max_label_names_per_series: 5}}\n");
    assert_int_equal(create(f, f->path, &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        const struct fg_tenant_override items[] = {
            {FG_LIT("a"), fg_cstr(wrong[i])},
            {FG_LIT("b"), FG_LIT("max_label_names_per_series: 8\n")},
        };

        print_message("  %s", wrong[i]);
        assert_int_equal(fg_tenants_check_override(f->tenants, items[0].yaml, &err), FG_E_INVALID);
        assert_int_equal(fg_tenants_check_override(f->tenants, items[1].yaml, &err), FG_OK);
        fg_tenants_override(f->tenants, items, FG_COUNT(items));
        assert_int_equal(names_max(f, "a"), 5);
        assert_int_equal(names_max(f, "b"), 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_file_all_have_the_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_override_replaces_only_its_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(relabelling_rules_are_overridden, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tenancy_has_default_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_file_is_loaded_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_file_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_file_stops_the_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_registry_overrides_the_file_and_the_file_the_defaults,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_of_the_file_leaves_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_invalid_one_is_left_out_and_the_others_count, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
