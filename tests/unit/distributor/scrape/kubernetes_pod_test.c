/* Tests how pods from lists and watch events of the Kubernetes API become targets. */
#include "distributor/scrape/kubernetes_pod.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A pod of two containers with these annotations. */
#define POD(annotations)                                                                           \
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"shop-1\",\"namespace\":\"prod\","                  \
    "\"uid\":\"u-1\",\"resourceVersion\":\"77\","                                                  \
    "\"labels\":{\"app.kubernetes.io/name\":\"shop\"},\"annotations\":{" annotations "},"          \
    "\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"shop\",\"controller\":true}],"       \
    "\"managedFields\":[{\"manager\":\"x\",\"fieldsV1\":{\"f:metadata\":{}}}]},"                   \
    "\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":\"proxy\",\"image\":\"p:1\","         \
    "\"ports\":[{\"name\":\"http\",\"containerPort\":8080,\"protocol\":\"TCP\"}]},"                \
    "{\"name\":\"app\",\"image\":\"a:2\",\"ports\":[{\"containerPort\":6060},"                     \
    "{\"name\":\"pprof\",\"containerPort\":6061}]}]},"                                             \
    "\"status\":{\"phase\":\"Running\",\"podIP\":\"10.0.0.7\",\"hostIP\":\"10.1.0.1\","            \
    "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}"

#define A(name, value) "\"profiles.grafana.com/" name "\":\"" value "\""

/* clang-format off */
static const struct {
    const char *what, *pod;
    const char *want; /* address, profiles, container, scheme and paths of each target */
} cases[] = {
    {"no annotations", POD(""), ""},
    {"one that says no", POD(A("cpu.scrape", "false") "," A("cpu.port", "6060")), ""},
    {"a port", POD(A("cpu.scrape", "true") "," A("cpu.port", "6060")),
     "10.0.0.7:6060 process_cpu app http\n"},
    {"a port that is not declared", POD(A("cpu.scrape", "true") "," A("cpu.port", "9999")),
     "10.0.0.7:9999 process_cpu proxy http\n"},
    {"a port by name", POD(A("memory.scrape", "true") "," A("memory.port_name", "pprof")),
     "10.0.0.7:6061 memory app http\n"},
    {"kinds at one port are one target", POD(A("cpu.scrape", "true") "," A("cpu.port", "6060") "," A("memory.scrape", "true") "," A("memory.port", "6060") "," A("mutex.scrape", "true") "," A("mutex.port", "8080")),
     "10.0.0.7:6060 process_cpu,memory app http\n10.0.0.7:8080 mutex proxy http\n"},
    {"scheme and path", POD(A("memory.scrape", "true") "," A("memory.port", "8080") "," A("memory.scheme", "https") "," A("memory.path", "/debug/pprof/delta_heap")),
     "10.0.0.7:8080 memory proxy https /debug/pprof/delta_heap\n"},
    {"a port by a name that nobody has", POD(A("cpu.scrape", "true") "," A("cpu.port_name", "nobody")),
     "- process_cpu proxy http\n"},
    {"no port", POD(A("cpu.scrape", "true")), "- process_cpu proxy http\n"},
    {"a port that is no number", POD(A("cpu.scrape", "true") "," A("cpu.port", "http")), "- process_cpu proxy http\n"},
    {"a kind that nobody knows", POD(A("wall.scrape", "true") "," A("wall.port", "6060")), ""},
    {"godeltaprof", POD(A("godeltaprof_memory.scrape", "true") "," A("godeltaprof_memory.port", "6060")),
     "10.0.0.7:6060 godeltaprof_memory app http\n"},
    {"no address yet", "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"annotations\":{" A("cpu.scrape", "true") "," A("cpu.port", "1") "}},\"status\":{\"phase\":\"Running\"}}", ""},
    {"it is over", "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"annotations\":{" A("cpu.scrape", "true") "," A("cpu.port", "1") "}},\"status\":{\"phase\":\"Succeeded\",\"podIP\":\"1.2.3.4\"}}", ""},
    {"IPv6, and nothing but the least", "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"annotations\":{" A("cpu.scrape", "true") "," A("cpu.port", "1") "}},\"status\":{\"podIP\":\"fe80::1\"}}",
     "[fe80::1]:1 process_cpu - http\n"},
    {"things of other kinds than they should be", "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"labels\":[1],\"annotations\":{\"profiles.grafana.com/cpu.scrape\":true," A("memory.scrape", "true") "," A("memory.port", "6060") "},\"ownerReferences\":7},\"spec\":{\"containers\":[3,{\"ports\":[null,{\"containerPort\":\"6060\"}]}]},\"status\":{\"podIP\":\"1.2.3.4\",\"conditions\":{}}}",
     "1.2.3.4:6060 memory - http\n"},
};
/* clang-format on */

static struct dist_profile_kinds kinds;

static int set_up(void **state)
{
    struct fg_err err;

    (void)state;
    return dist_profile_kinds_init(&kinds, FG_LIT(""), "kinds", &err) == FG_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dist_profile_kinds_done(&kinds);
    return 0;
}

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *json = json_loads(text, 0, &why);

    if (json == NULL)
        fail_msg("%s: %s", why.text, text);
    return json;
}

static struct fg_slice or_dash(const struct fg_labels *labels, const char *name)
{
    struct fg_slice value = fg_labels_get(labels, name);

    return value.len == 0 ? FG_LIT("-") : value;
}

static void write_target(const struct fg_labels *labels, struct fg_buf *out)
{
    struct fg_slice path = fg_labels_get(labels, "__profile_path_memory__");

    fg_buf_printf(out, "%.*s %.*s %.*s %.*s%s%.*s\n", FG_S(or_dash(labels, "__address__")),
                  FG_S(or_dash(labels, "__profiles__")), FG_S(or_dash(labels, "container")),
                  FG_S(or_dash(labels, "__scheme__")), path.len > 0 ? " " : "", FG_S(path));
}

static void annotations_of_a_pod_make_targets(void **state)
{
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct dist_discovered *discovered = dist_discovered_create();
        json_t *pod = parse(cases[i].pod);
        struct fg_buf got;

        print_message("  %s\n", cases[i].what);
        fg_buf_init(&got, 4096);
        assert_int_equal(dist_pod_read(pod, &kinds, discovered, &err), FG_OK);
        json_decref(pod);
        for (size_t t = 0; t < discovered->n_targets; t++)
            write_target(&discovered->targets[t], &got);
        if (!fg_slice_is(fg_buf_slice(&got), cases[i].want))
            fail_msg("%.*s, not %s", FG_S(fg_buf_slice(&got)), cases[i].want);
        fg_buf_done(&got);
        dist_discovered_destroy(discovered);
    }
}

static void target_labels_have_the_names_of_prometheus_and_pyroscope(void **state)
{
    /* clang-format off */
    static const char want[] =
        "{__address__=\"10.0.0.7:6061\", __meta_kubernetes_namespace=\"prod\", "
        "__meta_kubernetes_pod_annotation_profiles_grafana_com_cpu_port_name=\"pprof\", "
        "__meta_kubernetes_pod_annotation_profiles_grafana_com_cpu_scrape=\"true\", "
        "__meta_kubernetes_pod_annotation_profiles_grafana_com_service_name=\"the shop\", "
        "__meta_kubernetes_pod_annotation_profiles_grafana_com_service_repository=\"r\", "
        "__meta_kubernetes_pod_annotationpresent_profiles_grafana_com_cpu_port_name=\"true\", "
        "__meta_kubernetes_pod_annotationpresent_profiles_grafana_com_cpu_scrape=\"true\", "
        "__meta_kubernetes_pod_annotationpresent_profiles_grafana_com_service_name=\"true\", "
        "__meta_kubernetes_pod_annotationpresent_profiles_grafana_com_service_repository=\"true\", "
        "__meta_kubernetes_pod_container_image=\"a:2\", __meta_kubernetes_pod_container_name=\"app\", "
        "__meta_kubernetes_pod_container_port_name=\"pprof\", __meta_kubernetes_pod_container_port_number=\"6061\", "
        "__meta_kubernetes_pod_controller_kind=\"ReplicaSet\", __meta_kubernetes_pod_controller_name=\"shop\", "
        "__meta_kubernetes_pod_host_ip=\"10.1.0.1\", __meta_kubernetes_pod_ip=\"10.0.0.7\", "
        "__meta_kubernetes_pod_label_app_kubernetes_io_name=\"shop\", "
        "__meta_kubernetes_pod_labelpresent_app_kubernetes_io_name=\"true\", "
        "__meta_kubernetes_pod_name=\"shop-1\", __meta_kubernetes_pod_node_name=\"n1\", "
        "__meta_kubernetes_pod_phase=\"Running\", __meta_kubernetes_pod_ready=\"true\", "
        "__meta_kubernetes_pod_uid=\"u-1\", __profiles__=\"process_cpu\", __scheme__=\"http\", "
        "app_kubernetes_io_name=\"shop\", container=\"app\", namespace=\"prod\", pod=\"shop-1\", "
        "service_name=\"the shop\", service_repository=\"r\"}";
    /* clang-format on */
    struct dist_discovered *discovered = dist_discovered_create();
    json_t *pod = parse(POD(A("cpu.scrape", "true") "," A("cpu.port_name", "pprof") "," A(
        "service_name", "the shop") "," A("service_repository", "r")));
    struct fg_buf got;
    struct fg_err err;

    (void)state;
    assert_int_equal(dist_pod_read(pod, &kinds, discovered, &err), FG_OK);
    json_decref(pod); /* the targets do not refer to the pod */
    assert_int_equal(discovered->n_targets, 1);
    fg_buf_init(&got, 1 << 16);
    fg_labels_write(&discovered->targets[0], &got);
    if (!fg_slice_is(fg_buf_slice(&got), want))
        fail_msg("%.*s", FG_S(fg_buf_slice(&got)));
    fg_buf_done(&got);
    dist_discovered_destroy(discovered);
}

/* ---- lists ---- */

#define CPU A("cpu.scrape", "true") "," A("cpu.port", "6060")

static void a_page_yields_annotated_pods_and_the_version(void **state)
{
    static const char text[] =
        "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"123\",\"continue\":\"next=\"},"
        "\"items\":[" POD("") "," POD(CPU) "," POD(CPU "," A("mutex.scrape", "true")) "]}";
    struct dist_pods_page page;
    struct fg_err err;

    (void)state;
    assert_int_equal(dist_pods_read_page(fg_cstr(text), &kinds, &page, &err), FG_OK);
    assert_true(fg_slice_is(page.version, "123"));
    assert_true(fg_slice_is(page.next, "next="));
    assert_int_equal(page.n_pods, 2);
    assert_true(fg_slice_is(page.pods[0].name, "prod/shop-1"));
    assert_int_equal(page.pods[0].n, 1);
    assert_int_equal(page.pods[1].first, 1);
    assert_int_equal(page.pods[1].n, 2);
    dist_pods_page_done(&page);
}

static void malformed_pod_lists_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "{\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"}}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":{}}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[1]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{\"metadata\":{\"name\":\"a\"}}]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[",
    };
    struct dist_pods_page page;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        print_message("  %s\n", wrong[i]);
        assert_int_equal(dist_pods_read_page(fg_cstr(wrong[i]), &kinds, &page, &err), FG_E_DECODE);
    }
    assert_int_equal(
        dist_pods_read_page(FG_LIT("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}"),
                            &kinds, &page, &err),
        FG_OK);
    assert_int_equal(page.n_pods, 0);
    dist_pods_page_done(&page);
}

/* ---- events ---- */

static void watch_events_are_read(void **state)
{
    /* clang-format off */
    static const struct {
        const char *line;
        enum dist_pods_event_kind kind;
        const char *version, *name;
        size_t n;
    } good[] = {
        {"{\"type\":\"ADDED\",\"object\":" POD(CPU) "}", PODS_CHANGED, "77", "prod/shop-1", 1},
        {"{\"type\":\"MODIFIED\",\"object\":" POD("") "}", PODS_CHANGED, "77", "prod/shop-1", 0},
        {"{\"type\":\"DELETED\",\"object\":" POD(CPU) "}", PODS_DELETED, "77", "prod/shop-1", 1},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"99\"}}}", PODS_BOOKMARK, "99", "", 0},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old resource version\"}}", PODS_EXPIRED, "", "", 0},
    };
    /* clang-format on */
    struct dist_pods_event event;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(good); i++) {
        print_message("  %.30s\n", good[i].line);
        assert_int_equal(dist_pods_read_event(fg_cstr(good[i].line), &kinds, &event, &err), FG_OK);
        assert_int_equal(event.kind, good[i].kind);
        assert_true(fg_slice_is(event.version, good[i].version));
        assert_true(fg_slice_is(event.pod.name, good[i].name));
        assert_int_equal(event.pod.n, good[i].n);
        dist_pods_event_done(&event);
    }
}

static void malformed_watch_events_are_refused(void **state)
{
    static const struct {
        const char *line;
        enum fg_code code;
        const char *says;
    } wrong[] = {
        {"{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd is away\"}}",
         FG_E_UNAVAILABLE, "etcd is away"},
        {"{\"type\":\"ERROR\"}", FG_E_UNAVAILABLE, "watch of pods"},
        {"{\"type\":\"NEW\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}", FG_E_DECODE,
         "unknown type \"NEW\""},
        {"{\"type\":\"ADDED\",\"object\":{}}", FG_E_DECODE, "no resourceVersion"},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}", FG_E_DECODE,
         "without a name"},
        {"{\"type\":\"ADD", FG_E_DECODE, "not JSON"},
        {"7", FG_E_DECODE, "not JSON"},
    };
    struct dist_pods_event event;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        print_message("  %s\n", wrong[i].line);
        assert_int_equal(dist_pods_read_event(fg_cstr(wrong[i].line), &kinds, &event, &err),
                         wrong[i].code);
        assert_non_null(strstr(err.msg, wrong[i].says));
    }
}

static void an_error_status_is_reported_with_its_message(void **state)
{
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, 1000);
    dist_pods_read_status(FG_LIT("{\"kind\":\"Status\",\"message\":\"pods is forbidden\"}"), &out);
    assert_true(fg_slice_is(fg_buf_slice(&out), "pods is forbidden"));
    fg_buf_clear(&out);
    dist_pods_read_status(FG_LIT("<html>"), &out);
    assert_int_equal(out.len, 0);
    fg_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotations_of_a_pod_make_targets),
        cmocka_unit_test(target_labels_have_the_names_of_prometheus_and_pyroscope),
        cmocka_unit_test(a_page_yields_annotated_pods_and_the_version),
        cmocka_unit_test(malformed_pod_lists_are_refused),
        cmocka_unit_test(watch_events_are_read),
        cmocka_unit_test(malformed_watch_events_are_refused),
        cmocka_unit_test(an_error_status_is_reported_with_its_message),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
