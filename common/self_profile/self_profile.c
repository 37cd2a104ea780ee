#include "common/self_profile/self_profile.h"

#include "common/runtime/log.h"
#include "common/runtime/thread.h"
#include "common/self_profile/cpu_samples.h"
#include "common/self_profile/heap_samples.h"
#include "common/self_profile/hooks.h"
#include "common/self_profile/lock_waits.h"
#include "common/self_profile/process_symbols.h"
#include "common/self_profile/report.h"
#include "common/self_profile/unwind_map.h"

enum { PUSH_MAX_BYTES = 4 * FG_REPORT_MAX_BYTES, LABELS = 3 };

static const int64_t COLLECT_NS = FG_SECOND_NS / 2; /* the ring holds more than that */
static const int64_t SEARCH_NS = 2 * FG_SECOND_NS;  /* for threads: a hundred system calls */

#define CONF(field) FG_CONF_AT(struct fg_self_profile_settings, field)

/* clang-format off */
const struct fg_conf_field fg_self_profile_fields[] = {
    {"enabled", FG_CONF_BOOL, CONF(enabled), .def = "true",
     .doc = "Profiles this process all the time, at a cost of less than 1 %, and stores the profiles as those of any other service. A distributor and a single server take their own profiles; other programs need `url`."},
    {"tenant", FG_CONF_STRING, CONF(tenant), .def = "flamegrid", .min = "1", .max = "150",
     .doc = "Tenant of the profiles, with `multitenancy_enabled`. Without it there is one tenant, which has them, too."},
    {"url", FG_CONF_STRING, CONF(url), .def = "", .max = "2000",
     .doc = "Address of a distributor or of another server that takes the profiles, for example http://distributor:4040. Empty: this process, if it takes profiles; else it is not profiled."},
    {"token_file", FG_CONF_STRING, CONF(token_file), .def = "", .max = "4000",
     .doc = "File with the token for `url`. It is read for each push. Its scope is push, and its tenant `tenant`."},
    {"ca_file", FG_CONF_STRING, CONF(ca_file), .def = "", .max = "4000",
     .doc = "CA certificates in PEM format that verify the server of `url`. Empty: those of the system."},
    {"interval", FG_CONF_NS, CONF(interval_ns), .def = "10s", .min = "1s", .max = "10m",
     .doc = "Time that a profile covers."},
    {"cpu_rate", FG_CONF_UINT, CONF(cpu_rate), .def = "100", .max = "1000",
     .doc = "Samples per second of processor time. 0: no CPU profile."},
    {"heap_sample_bytes", FG_CONF_BYTES, CONF(heap_sample_bytes), .def = "2MiB", .max = "1GiB",
     .doc = "Allocated memory per sample, on average. 0: no heap profile."},
    {"locks", FG_CONF_BOOL, CONF(locks), .def = "true",
     .doc = "Profiles waits for locks."},
};
const size_t fg_self_profile_n_fields = FG_COUNT(fg_self_profile_fields);

#define SELF_PROFILE_METRICS(M) \
    M(GAUGE, SELF_PROFILE_RUNNING, "flamegrid_self_profiling_running", "1 while the process profiles itself") \
    M(COUNTER, SELF_PROFILE_SENT, "flamegrid_self_profiling_pushes_total{result=\"ok\"}", "Pushes of the process's own profiles") \
    M(COUNTER, SELF_PROFILE_FAILED, "flamegrid_self_profiling_pushes_total{result=\"failed\"}", "Pushes of the process's own profiles") \
    M(COUNTER, SELF_PROFILE_DROPPED, "flamegrid_self_profiling_dropped_samples_total", "Samples of the process's own profiles that found no room")
/* clang-format on */
FG_METRICS_ENUM(self_profile_metric, SELF_PROFILE_METRICS)
FG_METRICS_TABLE(self_profile_metrics, SELF_PROFILE_METRICS)

struct fg_self_profile {
    struct fg_self_profile_config config;
    struct fg_metrics *metrics;
    struct fg_cpu_samples *cpu;   /* NULL: no such profile, here and below */
    struct fg_heap_samples *heap; /* never freed: hooks may be about to use them */
    struct fg_lock_waits *waits;
    struct fg_process_symbols *symbols;
    uint64_t left_out;                    /* of reports that were full */
    int64_t since_wall_ns, since_mono_ns; /* the start of the profile at hand */
    struct fg_thread thread;
    pthread_cond_t idle;              /* with the thread's lock: */
    bool is_sending, is_failing;      /* the last push failed */
    struct fg_self_profile_push push; /* the thread's, unless is_sending */
};

/* ---- reports ---- */

/* A report that is being filled, and the profile that it is of. */
struct filling {
    struct fg_self_profile *profile;
    struct fg_report report;
};

/* Fills ids[FG_STACK_DEPTH_MAX] with the functions of a stack, up to the first address that is no
 * code: there the walk had lost its way. */
static uint32_t functions_of(struct fg_self_profile *profile, const struct fg_stack_entry *entry,
                             bool has_pc, uint64_t *ids)
{
    uint32_t depth = 0;

    for (; depth < entry->depth; depth++) {
        /* A return address may be behind the end of the function that calls. */
        uintptr_t pc = entry->pcs[depth] - (depth > 0 || !has_pc ? 1 : 0);

        if (!fg_process_symbols_find(profile->symbols, pc, &ids[depth]))
            break;
    }
    return depth;
}

static void add(struct filling *filling, const struct fg_stack_entry *entry, bool has_pc,
                const int64_t *values, const char *thread)
{
    uint64_t ids[FG_STACK_DEPTH_MAX];
    uint32_t depth = functions_of(filling->profile, entry, has_pc, ids);

    if (depth > 0 && !fg_report_add(&filling->report, ids, depth, values, thread))
        filling->profile->left_out++;
}

static int64_t cpu_period_ns(const struct fg_self_profile *profile)
{
    return FG_SECOND_NS / (int64_t)profile->config.settings->cpu_rate;
}

static void add_cpu(void *arg, const struct fg_stack_entry *entry)
{
    struct filling *filling = arg;
    int64_t ticks = entry->values[FG_CPU_TICKS];

    add(filling, entry, true, (int64_t[]){ticks, ticks * cpu_period_ns(filling->profile)},
        fg_cpu_samples_thread(filling->profile->cpu, entry->tag));
}

static int64_t objects_of(int64_t in_1024)
{
    return (in_1024 + 512) / 1024;
}

static void add_heap(void *arg, const struct fg_stack_entry *entry)
{
    const int64_t *values = entry->values;

    add(arg, entry, false,
        (int64_t[]){objects_of(values[FG_HEAP_ALLOC_OBJECTS]), values[FG_HEAP_ALLOC_BYTES],
                    objects_of(values[FG_HEAP_INUSE_OBJECTS]), values[FG_HEAP_INUSE_BYTES]},
        NULL);
}

static void add_waits(void *arg, const struct fg_stack_entry *entry)
{
    add(arg, entry, false,
        (int64_t[]){entry->values[FG_LOCK_CONTENTIONS], entry->values[FG_LOCK_DELAY_NS]}, NULL);
}

static void name_function(void *symbols, uint64_t function, struct fg_buf *out)
{
    fg_process_symbols_name(symbols, function, out);
}

/* Appends the report to the push, unless it is empty. */
static void append(struct filling *filling)
{
    struct fg_self_profile *profile = filling->profile;
    const struct fg_self_profile_config *config = &profile->config;
    const struct fg_report_label labels[LABELS] = {{"service_name", config->service},
                                                   {"instance", config->instance},
                                                   {"version", config->version}};
    struct fg_buf pprof;

    fg_buf_init(&pprof, FG_REPORT_MAX_BYTES);
    if (filling->report.n_samples > 0)
        fg_report_write(&filling->report, name_function, profile->symbols, &pprof);
    if (pprof.len > 0 && !pprof.full)
        fg_report_write_series(&filling->report, labels, LABELS, fg_buf_slice(&pprof),
                               &profile->push.body);
    fg_buf_done(&pprof);
    fg_report_done(&filling->report);
}

static void append_all(struct fg_self_profile *profile, int64_t duration_ns)
{
    struct fg_report_head head = {.time_ns = profile->since_wall_ns, .duration_ns = duration_ns};
    struct filling filling = {.profile = profile};

    if (profile->cpu != NULL) {
        head.name = "process_cpu";
        head.types[0] = (struct fg_report_type){"samples", "count"};
        head.types[1] = (struct fg_report_type){"cpu", "nanoseconds"};
        head.n_types = 2;
        head.period_type = head.types[1];
        head.period = cpu_period_ns(profile);
        fg_report_init(&filling.report, &head);
        fg_cpu_samples_sweep(profile->cpu, add_cpu, &filling);
        append(&filling);
    }
    if (profile->heap != NULL) {
        head.name = "memory";
        head.types[0] = (struct fg_report_type){"alloc_objects", "count"};
        head.types[1] = (struct fg_report_type){"alloc_space", "bytes"};
        head.types[2] = (struct fg_report_type){"inuse_objects", "count"};
        head.types[3] = (struct fg_report_type){"inuse_space", "bytes"};
        head.n_types = 4;
        head.period_type = (struct fg_report_type){"space", "bytes"};
        head.period = fg_heap_samples_mean(profile->heap);
        fg_report_init(&filling.report, &head);
        fg_heap_samples_sweep(profile->heap, add_heap, &filling);
        append(&filling);
    }
    if (profile->waits != NULL) {
        head.name = "mutex";
        head.types[0] = (struct fg_report_type){"contentions", "count"};
        head.types[1] = (struct fg_report_type){"delay", "nanoseconds"};
        head.n_types = 2;
        head.period_type = head.types[0];
        head.period = 1;
        fg_report_init(&filling.report, &head);
        fg_lock_waits_sweep(profile->waits, add_waits, &filling);
        append(&filling);
    }
}

static void show_dropped(struct fg_self_profile *profile)
{
    uint64_t dropped = profile->left_out;

    if (profile->cpu != NULL)
        dropped += fg_cpu_samples_dropped(profile->cpu);
    if (profile->heap != NULL)
        dropped += fg_heap_samples_dropped(profile->heap);
    if (profile->waits != NULL)
        dropped += fg_lock_waits_dropped(profile->waits);
    fg_metric_set_total(profile->metrics, SELF_PROFILE_DROPPED, dropped);
}

/* ---- pushes ---- */

static void on_done(struct fg_self_profile_push *push, enum fg_code code, const char *why)
{
    struct fg_self_profile *profile = fg_container(push, struct fg_self_profile, push);

    fg_metric_add(profile->metrics, code == FG_OK ? SELF_PROFILE_SENT : SELF_PROFILE_FAILED, 1);
    fg_thread_lock(&profile->thread);
    /* Changes only: a server that stays away would fill the log. */
    if (code != FG_OK && !profile->is_failing)
        fg_log_warn("profile of this process not stored", fg_ls("err", why));
    profile->is_failing = code != FG_OK;
    profile->is_sending = false;
    (void)pthread_cond_signal(&profile->idle);
    fg_thread_unlock(&profile->thread);
}

/* Ends the profile at hand and sends it. Returns false if the last one is still under way. */
static bool report(struct fg_self_profile *profile)
{
    int64_t now_mono_ns = fg_mono_ns(profile->config.clock);
    int64_t now_wall_ns = fg_wall_ns(profile->config.clock);
    bool is_sending;

    fg_thread_lock(&profile->thread);
    is_sending = profile->is_sending;
    fg_thread_unlock(&profile->thread);
    if (is_sending)
        return false;
    fg_process_symbols_refresh(profile->symbols);
    fg_buf_clear(&profile->push.body);
    append_all(profile, now_mono_ns - profile->since_mono_ns);
    show_dropped(profile);
    profile->since_mono_ns = now_mono_ns;
    profile->since_wall_ns = now_wall_ns;
    if (profile->push.body.len == 0 || profile->push.body.full)
        return true;
    fg_thread_lock(&profile->thread);
    profile->is_sending = true;
    fg_thread_unlock(&profile->thread);
    profile->config.sink.send(profile->config.sink.arg, &profile->push);
    return true;
}

/* ---- the thread ---- */

/* Sleeps until then. Returns false if the thread has to stop. */
static bool sleep_until(struct fg_self_profile *profile, int64_t until_mono_ns)
{
    bool goes_on;

    fg_thread_lock(&profile->thread);
    while (!profile->thread.stop && fg_thread_sleep(&profile->thread, until_mono_ns))
        continue;
    goes_on = !profile->thread.stop;
    fg_thread_unlock(&profile->thread);
    return goes_on;
}

/* Lets the hooks sample, if the settings ask for it. */
static void set_hooks(struct fg_self_profile *profile)
{
    const struct fg_self_profile_settings *settings = profile->config.settings;

    if (&fg_hooks_are_linked == NULL)
        return;
    if (settings->heap_sample_bytes > 0)
        profile->heap = fg_heap_samples_create((int64_t)settings->heap_sample_bytes);
    if (settings->locks)
        profile->waits = fg_lock_waits_create();
    atomic_store(&fg_heap_sampled, profile->heap);
    atomic_store(&fg_lock_waits_sampled, profile->waits);
}

static void run(void *arg)
{
    struct fg_self_profile *profile = arg;
    struct fg_clock *clock = fg_clock_real(); /* that of fg_thread_sleep() */
    int64_t interval_ns = profile->config.settings->interval_ns;
    int64_t report_ns = fg_mono_ns(clock) + interval_ns, search_ns = 0;

    fg_unwind_map_make(); /* here, so that the program is ready without it */
    set_hooks(profile);
    do {
        if (profile->cpu != NULL) {
            fg_cpu_samples_collect(profile->cpu);
            if (fg_mono_ns(clock) >= search_ns) {
                fg_cpu_samples_find_threads(profile->cpu);
                search_ns = fg_mono_ns(clock) + SEARCH_NS;
            }
        }
        if (fg_mono_ns(clock) >= report_ns && report(profile))
            report_ns = fg_mono_ns(clock) + interval_ns;
    } while (sleep_until(profile, fg_mono_ns(clock) + COLLECT_NS));
}

enum fg_code fg_self_profile_start(const struct fg_self_profile_config *config,
                                   struct fg_self_profile **ret_profile, struct fg_err *err)
{
    struct fg_self_profile *profile = fg_new(struct fg_self_profile);

    profile->config = *config;
    profile->metrics =
        fg_metrics_register(config->registry, self_profile_metrics, FG_COUNT(self_profile_metrics));
    profile->symbols = fg_process_symbols_create();
    profile->since_mono_ns = fg_mono_ns(config->clock);
    profile->since_wall_ns = fg_wall_ns(config->clock);
    profile->push.done = on_done;
    fg_buf_init(&profile->push.body, PUSH_MAX_BYTES);
    fg_thread_init(&profile->thread);
    fg_cond_init(&profile->idle);
    if ((config->settings->cpu_rate > 0 &&
         fg_cpu_samples_start(cpu_period_ns(profile), &profile->cpu, err) != FG_OK) ||
        fg_thread_start(&profile->thread, "self-profile", run, profile, err) != FG_OK) {
        fg_self_profile_stop(profile);
        return err->code;
    }
    fg_metric_set(profile->metrics, SELF_PROFILE_RUNNING, 1);
    *ret_profile = profile;
    return FG_OK;
}

void fg_self_profile_stop(struct fg_self_profile *profile)
{
    if (profile == NULL)
        return;
    fg_thread_stop(&profile->thread);
    atomic_store(&fg_heap_sampled, NULL);
    atomic_store(&fg_lock_waits_sampled, NULL);
    fg_cpu_samples_stop(profile->cpu);
    if (profile->config.sink.hurry != NULL)
        profile->config.sink.hurry(profile->config.sink.arg);
    fg_thread_lock(&profile->thread);
    while (profile->is_sending)
        (void)pthread_cond_wait(&profile->idle, &profile->thread.lock);
    fg_thread_unlock(&profile->thread);
    fg_metric_set(profile->metrics, SELF_PROFILE_RUNNING, 0);
    fg_process_symbols_destroy(profile->symbols);
    (void)pthread_cond_destroy(&profile->idle);
    fg_thread_done(&profile->thread);
    fg_buf_done(&profile->push.body);
    free(profile);
}
