/*
 * Lists of targets in YAML and JSON, pages and events of the Kubernetes API, settings of profiles:
 * by the first byte. What is found is made into targets, and a target's URLs stay at its address.
 */
#include "common/base/time.h"
#include "distributor/scrape/discovery_file.h"
#include "distributor/scrape/kubernetes_pod.h"

static void make_targets(const struct dist_discovered *discovered,
                         const struct dist_profile_kinds *kinds)
{
    const struct dist_target_config config = {kinds, NULL, 15 * FG_SECOND_NS, 10 * FG_SECOND_NS};

    for (size_t i = 0; i < FG_MIN(discovered->n_targets, (size_t)100); i++) {
        struct dist_target *target;
        struct fg_err err;
        char start[512];

        if (dist_target_create(&discovered->targets[i], &config, &target, &err) != FG_OK)
            continue;
        (void)snprintf(start, sizeof start, "%s://%s/", target->scheme, target->address);
        for (uint32_t e = 0; e < target->n_endpoints; e++)
            fg_assert(fg_slice_starts(fg_cstr(target->endpoints[e].url), start));
        dist_target_unref(target);
    }
}

static void read_file(const char *path, struct fg_slice text,
                      const struct dist_profile_kinds *kinds)
{
    struct dist_discovered *discovered = dist_discovered_create();
    struct fg_err err;

    if (dist_file_discovery_read(path, text, discovered, &err) == FG_OK)
        make_targets(discovered, kinds);
    dist_discovered_destroy(discovered);
}

static void read_page(struct fg_slice text, const struct dist_profile_kinds *kinds)
{
    struct dist_pods_page page;
    struct fg_err err;

    if (dist_pods_read_page(text, kinds, &page, &err) != FG_OK)
        return;
    make_targets(page.discovered, kinds);
    dist_pods_page_done(&page);
}

static void read_event(struct fg_slice text, const struct dist_profile_kinds *kinds)
{
    struct dist_pods_event event;
    struct fg_err err;

    if (dist_pods_read_event(text, kinds, &event, &err) != FG_OK)
        return;
    make_targets(event.discovered, kinds);
    dist_pods_event_done(&event);
}

static void read_kinds(struct fg_slice text)
{
    struct dist_profile_kinds kinds;
    struct fg_err err;

    if (dist_profile_kinds_init(&kinds, text, "fuzz", &err) == FG_OK)
        dist_profile_kinds_done(&kinds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice text = fg_slice_sub(fg_bytes(data, size), 1, size);
    struct dist_profile_kinds kinds;
    struct fg_err err;

    if (size == 0)
        return 0;
    fg_assert(dist_profile_kinds_init(&kinds, FG_LIT(""), "none", &err) == FG_OK);
    switch (data[0]) {
    case 'y':
        read_file("fuzz.yaml", text, &kinds);
        break;
    case 'j':
        read_file("fuzz.json", text, &kinds);
        break;
    case 'p':
        read_page(text, &kinds);
        break;
    case 'e':
        read_event(text, &kinds);
        break;
    default:
        read_kinds(text);
    }
    dist_profile_kinds_done(&kinds);
    return 0;
}
