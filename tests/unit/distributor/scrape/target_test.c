/* Tests how discovered labels become targets, and which distributor scrapes a target. */
#include "common/base/hash.h"
#include "common/base/time.h"
#include "distributor/scrape/discovery.h"
#include "distributor/scrape/target.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { LABELS_MAX = 16 };

/* Makes a target from a map in YAML; NULL: the labels make none. */
static struct dist_target *make_by(const struct dist_profile_kinds *kinds,
                                   const struct fg_relabel *rules, const char *yaml,
                                   struct fg_err *err)
{
    const struct dist_target_config config = {kinds, rules, 15 * FG_SECOND_NS, 10 * FG_SECOND_NS};
    struct fg_label items[LABELS_MAX];
    struct fg_labels labels = {items, 0};
    struct dist_target *target = NULL;
    const char *key;
    json_t *doc, *value;

    assert_int_equal(fg_document_from_yaml(fg_cstr(yaml), "test", &doc, err), FG_OK);
    json_object_foreach(doc, key, value)
    {
        items[labels.count++] = (struct fg_label){fg_cstr(key), fg_document_text(value)};
    }
    (void)!dist_target_create(&labels, &config, &target, err);
    json_decref(doc);
    return target;
}

static struct dist_target *make(const struct dist_profile_kinds *kinds, const char *yaml,
                                struct fg_err *err)
{
    return make_by(kinds, NULL, yaml, err);
}

static void set_kinds(struct dist_profile_kinds *kinds, const char *yaml)
{
    struct fg_err err;

    assert_int_equal(dist_profile_kinds_init(kinds, fg_cstr(yaml), "kinds", &err), FG_OK);
}

/* clang-format off */
static const struct {
    const char *what, *labels;
    const char *want_labels, *want_urls; /* URL, its timeout in seconds, and + if its values are cumulative */
} cases[] = {
    {"an address is enough", "{__address__: \"h:6060\"}",
     "{instance=\"h:6060\", service_name=\"unspecified\"}",
     "http://h:6060/debug/pprof/profile?seconds=14 24\nhttp://h:6060/debug/pprof/allocs 10+\n"
     "http://h:6060/debug/pprof/goroutine 10\nhttp://h:6060/debug/pprof/mutex 10+\nhttp://h:6060/debug/pprof/block 10+\n"},
    {"one profile", "{__address__: \"h:1\", __profiles__: memory}",
     "{instance=\"h:1\", service_name=\"unspecified\"}", "http://h:1/debug/pprof/allocs 10+\n"},
    {"in any order, each once", "{__address__: \"h:1\", __profiles__: \"goroutine, process_cpu,goroutine\"}",
     "{instance=\"h:1\", service_name=\"unspecified\"}",
     "http://h:1/debug/pprof/goroutine 10\nhttp://h:1/debug/pprof/profile?seconds=14 24\n"},
    {"its own times", "{__address__: \"h:1\", __profiles__: process_cpu, __scrape_interval__: 1m, __scrape_timeout__: 5s}",
     "{instance=\"h:1\", service_name=\"unspecified\"}", "http://h:1/debug/pprof/profile?seconds=59 64\n"},
    {"a short interval", "{__address__: \"h:1\", __profiles__: process_cpu, __scrape_interval__: 500ms}",
     "{instance=\"h:1\", service_name=\"unspecified\"}", "http://h:1/debug/pprof/profile?seconds=1 11\n"},
    {"its own seconds", "{__address__: \"h:1\", __profiles__: \"process_cpu,memory\", __param_seconds: \"3\"}",
     "{instance=\"h:1\", service_name=\"unspecified\"}",
     "http://h:1/debug/pprof/profile?seconds=3 13\nhttp://h:1/debug/pprof/allocs 10+\n"},
    {"parameters are escaped", "{__address__: \"h:1\", __profiles__: memory, __param_a b: \"c&d=\"}",
     "{instance=\"h:1\", service_name=\"unspecified\"}", "http://h:1/debug/pprof/allocs?a%20b=c%26d%3D 10+\n"},
    {"https, a prefix, another path", "{__address__: h, __scheme__: https, __profile_path_prefix__: /app/, __profiles__: \"memory,block\", __profile_path_memory__: \"/heap#x y\"}",
     "{instance=\"h:443\", service_name=\"unspecified\"}", "https://h:443/app/heap%23x%20y 10+\nhttps://h:443/app/debug/pprof/block 10+\n"},
    {"the path of the one", "{__address__: h, __profiles__: memory, __profile_path__: heap}",
     "{instance=\"h:80\", service_name=\"unspecified\"}", "http://h:80/heap 10+\n"},
    {"a path to a difference", "{__address__: h, __profiles__: \"memory,block\", __profile_path_memory__: /debug/pprof/delta_heap, __profile_path_block__: \"/debug/pprof/block?seconds=5\"}",
     "{instance=\"h:80\", service_name=\"unspecified\"}",
     "http://h:80/debug/pprof/delta_heap 10\nhttp://h:80/debug/pprof/block?seconds=5 10\n"},
    {"IPv6", "{__address__: \"[fe80::1]:6060\", __profiles__: memory}",
     "{instance=\"[fe80::1]:6060\", service_name=\"unspecified\"}", "http://[fe80::1]:6060/debug/pprof/allocs 10+\n"},
    {"IPv6 without a port", "{__address__: \"[fe80::1]\", __profiles__: memory}",
     "{instance=\"[fe80::1]:80\", service_name=\"unspecified\"}", "http://[fe80::1]:80/debug/pprof/allocs 10+\n"},
    {"private labels are not stored", "{__address__: \"h:1\", __profiles__: memory, __tmp: x, __meta_x: y, __session_id__: z, env: dev}",
     "{env=\"dev\", instance=\"h:1\", service_name=\"unspecified\"}", "http://h:1/debug/pprof/allocs 10+\n"},
    {"instance and service of its own", "{__address__: \"h:1\", __profiles__: memory, instance: i, service_name: s}",
     "{instance=\"i\", service_name=\"s\"}", "http://h:1/debug/pprof/allocs 10+\n"},
    {"the service by annotation", "{__address__: \"h:1\", __profiles__: memory, __meta_kubernetes_pod_annotation_pyroscope_io_service_name: a, __meta_kubernetes_namespace: n, __meta_kubernetes_pod_container_name: c}",
     "{instance=\"h:1\", service_name=\"a\"}", "http://h:1/debug/pprof/allocs 10+\n"},
    {"the service of a pod", "{__address__: \"h:1\", __profiles__: memory, __meta_kubernetes_namespace: n, __meta_kubernetes_pod_container_name: c, __meta_docker_container_name: d}",
     "{instance=\"h:1\", service_name=\"n/c\"}", "http://h:1/debug/pprof/allocs 10+\n"},
    {"the service of a container", "{__address__: \"h:1\", __profiles__: memory, __meta_docker_container_name: d, __meta_dockerswarm_service_name: s}",
     "{instance=\"h:1\", service_name=\"d\"}", "http://h:1/debug/pprof/allocs 10+\n"},
    {"the service of a swarm", "{__address__: \"h:1\", __profiles__: memory, __meta_dockerswarm_service_name: s}",
     "{instance=\"h:1\", service_name=\"s\"}", "http://h:1/debug/pprof/allocs 10+\n"},
};
/* clang-format on */

static void write_urls(const struct dist_target *target, struct fg_buf *out)
{
    for (uint32_t i = 0; i < target->n_endpoints; i++) {
        const struct dist_endpoint *endpoint = &target->endpoints[i];

        fg_buf_printf(out, "%s %lld%s\n", endpoint->url,
                      (long long)(endpoint->timeout_ns / FG_SECOND_NS),
                      endpoint->cumulative ? "+" : "");
    }
}

static void each_profile_kind_has_its_labels_and_url(void **state)
{
    struct dist_profile_kinds kinds;
    struct fg_err err;

    (void)state;
    set_kinds(&kinds, "");
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct dist_target *target = make(&kinds, cases[i].labels, &err);
        struct fg_buf labels, urls;

        print_message("  %s\n", cases[i].what);
        if (target == NULL)
            fail_msg("%s", err.msg);
        fg_buf_init(&labels, 4096);
        fg_buf_init(&urls, 4096);
        fg_labels_write(&target->labels, &labels);
        write_urls(target, &urls);
        if (!fg_slice_is(fg_buf_slice(&labels), cases[i].want_labels) ||
            !fg_slice_is(fg_buf_slice(&urls), cases[i].want_urls))
            fail_msg("%.*s\n%.*s", FG_S(fg_buf_slice(&labels)), FG_S(fg_buf_slice(&urls)));
        fg_buf_done(&labels);
        fg_buf_done(&urls);
        dist_target_unref(target);
    }
    dist_profile_kinds_done(&kinds);
}

/* clang-format off */
static const struct {
    const char *labels, *want;
} wrong[] = {
    {"{env: dev}", "no __address__"},
    {"{__address__: \":80\"}", "has no host"},
    {"{__address__: \"h:\"}", "has an invalid port"},
    {"{__address__: \"h:99999\"}", "has an invalid port"},
    {"{__address__: \"h:0\"}", "has an invalid port"},
    {"{__address__: \"h/x\"}", "is not HOST:PORT"},
    {"{__address__: \"user@h:1\"}", "is not HOST:PORT"},
    {"{__address__: \"h?x:1\"}", "is not HOST:PORT"},
    {"{__address__: \"h x\"}", "is not HOST:PORT"},
    {"{__address__: \"fe80::1:6060\"}", "write an IPv6 address in brackets"},
    {"{__address__: \"[h\"}", "is not HOST:PORT"},
    {"{__address__: h, __scheme__: ftp}", "scheme \"ftp\" is neither"},
    {"{__address__: h, __profiles__: cpu}", "there is no profile \"cpu\""},
    {"{__address__: h, __profiles__: \",\"}", "there is no profile \"\""},
    {"{__address__: h, __profiles__: \"memory,godeltaprof_memory\"}", "memory and godeltaprof_memory are the same"},
    {"{__address__: h, __profile_path__: /x}", "__profile_path__ requires one profile, but 5 are enabled"},
    {"{__address__: h, __scrape_interval__: 15}", "__scrape_interval__ \"15\" needs a unit"},
    {"{__address__: h, __scrape_interval__: 1ms}", "is too short"},
    {"{__address__: h, __scrape_timeout__: 0}", "is too short"},
    {"{__address__: h, __param_seconds: x}", "is not a number of seconds"},
};
/* clang-format on */

static void label_sets_without_a_target_are_dropped_with_the_reason(void **state)
{
    struct dist_profile_kinds kinds;
    struct fg_err err;

    (void)state;
    set_kinds(&kinds, "");
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        print_message("  %s\n", wrong[i].labels);
        assert_null(make(&kinds, wrong[i].labels, &err));
        if (strstr(err.msg, wrong[i].want) == NULL)
            fail_msg("\"%s\", not \"%s\"", err.msg, wrong[i].want);
    }
    dist_profile_kinds_done(&kinds);
    set_kinds(&kinds, "{process_cpu: {enabled: false}, memory: {enabled: false}, mutex: {enabled: "
                      "false}, block: {enabled: false}, goroutine: {enabled: false}}");
    assert_null(make(&kinds, "{__address__: h}", &err));
    assert_non_null(strstr(err.msg, "no profile is enabled"));
    dist_profile_kinds_done(&kinds);
}

static void the_name_label_follows_from_the_profile_kind(void **state)
{
    struct dist_profile_kinds kinds;
    struct fg_err err;
    struct dist_target *target;

    (void)state;
    set_kinds(&kinds, "");
    target =
        make(&kinds, "{__address__: h, __profiles__: \"process_cpu,godeltaprof_mutex\"}", &err);
    assert_true(
        fg_slice_is(fg_labels_get(&target->endpoints[0].labels, "__name__"), "process_cpu"));
    assert_true(fg_slice_is(fg_labels_get(&target->endpoints[1].labels, "__name__"), "mutex"));
    dist_target_unref(target);
    target = make(&kinds, "{__address__: h, __profiles__: memory, __name__: heap}", &err);
    assert_true(fg_slice_is(fg_labels_get(&target->endpoints[0].labels, "__name__"), "heap"));
    dist_target_unref(target);
    dist_profile_kinds_done(&kinds);
}

/* A target found again with the same hash keeps its scrape loop; another hash is another target. */
static void the_hash_covers_url_and_labels(void **state)
{
    static const char *const same[] = {
        "{__address__: \"h:80\", env: dev, __meta_x: \"1\"}",
        "{env: dev, __address__: h, __meta_x: \"2\", __scheme__: http}",
    };
    static const char *const others[] = {
        "{__address__: \"h:81\", env: dev}",
        "{__address__: h, env: prod}",
        "{__address__: h, env: dev, __scheme__: https}",
        "{__address__: h, env: dev, __profiles__: memory}",
        "{__address__: h, env: dev, __scrape_interval__: 30s}",
        "{__address__: h, env: dev, __scrape_timeout__: 30s}",
    };
    struct dist_profile_kinds kinds;
    struct fg_err err;
    struct dist_target *first;

    (void)state;
    set_kinds(&kinds, "");
    first = make(&kinds, same[0], &err);
    for (size_t i = 0; i < FG_COUNT(others) + 1; i++) {
        struct dist_target *other = make(&kinds, i == 0 ? same[1] : others[i - 1], &err);

        assert_int_equal(other->hash == first->hash, i == 0);
        dist_target_unref(other);
    }
    dist_target_unref(first);
    dist_profile_kinds_done(&kinds);
}

/* Rules see labels that begin with __, may set them, and run before any label is read or inferred.
 */
static void relabelling_rules_run_before_labels_are_read(void **state)
{
    static const char rules_yaml[] =
        "- {source_labels: [__meta_kubernetes_pod_phase], regex: Succeeded|Failed, action: drop}\n"
        "- {source_labels: [__meta_kubernetes_pod_label_app], target_label: service_name}\n"
        "- {source_labels: [port], regex: (.+), target_label: __address__, replacement: \"h:$1\"}\n"
        "- {regex: port, action: labeldrop}\n"
        "- {regex: __meta_kubernetes_pod_label_(.+), action: labelmap}\n";
    struct fg_relabel *rules;
    struct dist_profile_kinds kinds;
    struct dist_target *target;
    struct fg_buf labels;
    struct fg_err err = {0};

    (void)state;
    set_kinds(&kinds, "");
    assert_int_equal(
        fg_relabel_parse(fg_cstr(rules_yaml), "rules", FG_RELABEL_DEFAULTS_DISABLED, &rules, &err),
        FG_OK);
    target = make_by(&kinds, rules,
                     "{__profiles__: memory, port: \"81\", __meta_kubernetes_pod_label_app: shop}",
                     &err);
    assert_non_null(target);
    fg_buf_init(&labels, 1000);
    fg_labels_write(&target->labels, &labels);
    assert_true(fg_slice_is(fg_buf_slice(&labels),
                            "{app=\"shop\", instance=\"h:81\", service_name=\"shop\"}"));
    assert_string_equal(target->endpoints[0].url, "http://h:81/debug/pprof/allocs");
    assert_int_equal(target->discovered.count, 3);
    fg_buf_done(&labels);
    dist_target_unref(target);
    target = make_by(&kinds, rules, "{__address__: h, __meta_kubernetes_pod_phase: Failed}", &err);
    assert_null(target);
    assert_int_equal(err.code, FG_OK); /* a dropped target is not an error */
    fg_relabel_unref(rules);
    dist_profile_kinds_done(&kinds);
}

static void each_target_belongs_to_exactly_one_distributor(void **state)
{
    enum { TARGETS = 3000, MOST = 7 };

    (void)state;
    for (uint32_t n = 1; n <= MOST; n++) {
        unsigned shares[MOST] = {0};

        for (uint64_t t = 0; t < TARGETS; t++) {
            unsigned owners = 0;

            for (uint32_t i = 0; i < n; i++) {
                bool ours = dist_target_is_ours(fg_mix64(t), i, n);

                owners += ours;
                shares[i] += ours;
            }
            assert_int_equal(owners, 1);
        }
        for (uint32_t i = 0; i < n; i++)
            assert_true(shares[i] > TARGETS / n * 8 / 10 && shares[i] < TARGETS / n * 12 / 10 + 1);
    }
}

/* When n distributors become n + 1, each target stays or goes to the new one. */
static void another_distributor_takes_over_only_its_share(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 6; n++)
        for (uint64_t t = 0; t < 1000; t++)
            for (uint32_t i = 0; i < n; i++)
                if (dist_target_is_ours(fg_mix64(t), i, n))
                    assert_true(dist_target_is_ours(fg_mix64(t), i, n + 1) ||
                                dist_target_is_ours(fg_mix64(t), n, n + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_profile_kind_has_its_labels_and_url),
        cmocka_unit_test(label_sets_without_a_target_are_dropped_with_the_reason),
        cmocka_unit_test(the_name_label_follows_from_the_profile_kind),
        cmocka_unit_test(the_hash_covers_url_and_labels),
        cmocka_unit_test(relabelling_rules_run_before_labels_are_read),
        cmocka_unit_test(each_target_belongs_to_exactly_one_distributor),
        cmocka_unit_test(another_distributor_takes_over_only_its_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
