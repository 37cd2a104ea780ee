/*
 * Pushes real profiles to a server, as fast as it takes them (closed loop) or at a fixed rate (open
 * loop: a latency counts from when the request was due, so a server that stalls cannot hide it).
 *
 * One thread and epoll, little work for each request: the machine's other processor is the
 * server's.
 */
#include "common/base/time.h"
#include "tests/bench/connection.h"
#include "tests/bench/report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
    EVENTS_MAX = 256,
    DRAIN_S = 20, /* for what is under way at the end */
    CONNECTIONS_MAX = 20000,
};

enum { PIDS_MAX = 16 };

struct options {
    struct sockaddr_in address;
    struct payload_choice choice;
    unsigned connections, services, pods;
    double rate; /* 0: closed loop */
    double seconds, warmup;
    uint64_t count;    /* of requests; 0: as many as there is time for */
    int64_t start_s;   /* of the first profile */
    double interval_s; /* between two profiles of one pod */
    pid_t pids[PIDS_MAX];
    unsigned n_pids;
    const char *data, *label, *service;
    bool by_program, row, row_head;
};

struct bench {
    struct options options;
    struct payloads payloads;
    struct connection *connections;
    unsigned *idle; /* indexes */
    unsigned n_idle, n_busy;
    int epoll_fd;
    uint64_t number; /* of the next request */
    uint64_t random;
    int64_t begin_ns, measure_ns, end_ns;
    double cpu_before_s;
    bool measuring;
    struct report report;
};

static int64_t now_ns(void)
{
    return fg_mono_ns(fg_clock_real());
}

/* xorshift64*: which profile is sent must not depend on the machine. */
static uint64_t next_random(struct bench *bench)
{
    bench->random ^= bench->random >> 12;
    bench->random ^= bench->random << 25;
    bench->random ^= bench->random >> 27;
    return bench->random * 0x2545f4914f6cdd1dULL;
}

/* ---- requests ---- */

static const struct payload *choose_payload(struct bench *bench, uint64_t service)
{
    const struct payloads *payloads = &bench->payloads;
    const struct payload_program all = {0, payloads->n};
    const struct payload_program *program =
        bench->options.by_program ? &payloads->programs[service % payloads->n_programs] : &all;

    return &payloads->items[program->first + next_random(bench) % program->n];
}

/* Request n is of pod n % pods of service n / pods % services; when all had theirs, time moves on.
 */
static void make_request(struct bench *bench, struct connection *connection, int64_t due_ns)
{
    const struct options *o = &bench->options;
    const uint64_t n = bench->number++;
    const uint64_t pod = n % o->pods, service = n / o->pods % o->services;
    const uint64_t round = n / o->pods / o->services;
    const int64_t time_ns = o->start_s * FG_SECOND_NS +
                            (int64_t)((double)round * o->interval_s * 1e9) + (int64_t)(n % 1000000);
    const long long from_s = (long long)(time_ns / FG_SECOND_NS);

    connection->payload = choose_payload(bench, service);
    connection->time_len = payload_time(time_ns, connection->time);
    connection->head_len = (size_t)snprintf(
        connection->head, sizeof connection->head,
        "POST /ingest?name=%s-%llu%%7Bpod%%3Dpod-%llu%%7D&from=%lld&until=%lld&format=pprof"
        "&spyName=gospy HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
        "Content-Length: %zu\r\n\r\n",
        o->service, (unsigned long long)service, (unsigned long long)pod, from_s, from_s + 10,
        connection->payload->len + connection->time_len);
    connection->sent = 0;
    connection->answer_len = 0;
    connection->due_ns = due_ns;
    connection->busy = true;
}

static void watch(struct bench *bench, unsigned index, bool writing)
{
    struct epoll_event event = {.events = writing ? EPOLLOUT : EPOLLIN, .data.u32 = index};

    if (epoll_ctl(bench->epoll_fd, EPOLL_CTL_MOD, bench->connections[index].fd, &event) != 0)
        (void)epoll_ctl(bench->epoll_fd, EPOLL_CTL_ADD, bench->connections[index].fd, &event);
}

static void set_idle(struct bench *bench, unsigned index)
{
    bench->connections[index].busy = false;
    bench->idle[bench->n_idle++] = index;
    bench->n_busy--;
}

static void connection_failed(struct bench *bench, unsigned index)
{
    if (bench->measuring)
        bench->report.failed++;
    connection_close(&bench->connections[index]);
    set_idle(bench, index);
}

/* Sends and, when that is done, waits for the answer. */
static void continue_sending(struct bench *bench, unsigned index)
{
    switch (connection_send(&bench->connections[index])) {
    case UNDER_WAY:
        watch(bench, index, true);
        break;
    case ANSWERED:
        watch(bench, index, false);
        break;
    case BROKEN:
        connection_failed(bench, index);
        break;
    }
}

/* False when there is no connection to be had: then trying on at once would only burn time. */
static bool start_request(struct bench *bench, int64_t due_ns)
{
    const unsigned index = bench->idle[--bench->n_idle];
    struct connection *connection = &bench->connections[index];
    struct fg_err err;

    bench->n_busy++;
    if (connection->fd < 0 && connection_open(connection, &bench->options.address, &err) != FG_OK) {
        bench->number++; /* counts as sent, so that a run has an end */
        connection_failed(bench, index);
        return false;
    }
    make_request(bench, connection, due_ns);
    continue_sending(bench, index);
    return true;
}

static void count_answer(struct bench *bench, const struct connection *connection,
                         const struct answer *answer)
{
    struct report *report = &bench->report;

    if (answer->status == 200)
        report->stored++;
    if (!bench->measuring)
        return;
    if (answer->status == 200) {
        report->accepted++;
        latencies_add(&report->latencies, now_ns() - connection->due_ns);
    } else if (answer->status == 429 || answer->status == 503) {
        if (report->refused == 0)
            (void)fprintf(stderr, "bench_push: first refusal: %s\n", connection->answer);
        report->refused++;
        report->without_retry_after += answer->retry_after ? 0 : 1;
    } else {
        if (report->failed == 0)
            (void)fprintf(stderr, "bench_push: %s\n", connection->answer);
        report->failed++;
    }
}

static void continue_receiving(struct bench *bench, unsigned index)
{
    struct connection *connection = &bench->connections[index];
    struct answer answer;

    switch (connection_receive(connection, &answer)) {
    case UNDER_WAY:
        break;
    case ANSWERED:
        count_answer(bench, connection, &answer);
        if (answer.close)
            connection_close(connection);
        set_idle(bench, index);
        break;
    case BROKEN:
        connection_failed(bench, index);
        break;
    }
}

/* ---- the loop ---- */

static bool may_send(const struct bench *bench)
{
    const uint64_t count = bench->options.count;

    return bench->n_idle > 0 && (count == 0 || bench->number < count);
}

/* When request n is due. */
static int64_t due_ns(const struct bench *bench, uint64_t n)
{
    return bench->begin_ns + (int64_t)((double)n / bench->options.rate * 1e9);
}

static void start_due_requests(struct bench *bench)
{
    const int64_t now = now_ns();

    if (bench->options.rate == 0) {
        while (may_send(bench) && start_request(bench, now_ns()))
            ;
        return;
    }
    while (may_send(bench) && due_ns(bench, bench->number) <= now &&
           start_request(bench, due_ns(bench, bench->number)))
        ;
}

static void handle_events(struct bench *bench, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    const int n = epoll_wait(bench->epoll_fd, events, EVENTS_MAX, timeout_ms);

    for (int i = 0; i < n; i++) {
        const unsigned index = events[i].data.u32;

        if (!bench->connections[index].busy) /* the server closed an idle one */
            connection_close(&bench->connections[index]);
        else if (events[i].events & EPOLLOUT)
            continue_sending(bench, index);
        else
            continue_receiving(bench, index);
    }
}

/* Of all processes of the server. */
static double server_cpu_s(const struct options *options)
{
    double sum = 0;

    for (unsigned i = 0; i < options->n_pids; i++)
        sum += process_cpu_s(options->pids[i]);
    return sum;
}

static double server_rss_max_mib(const struct options *options)
{
    double sum = 0;

    for (unsigned i = 0; i < options->n_pids; i++)
        sum += process_rss_max_mib(options->pids[i]);
    return sum;
}

static bool add_pid(struct options *options, const char *text)
{
    if (options->n_pids == PIDS_MAX)
        return false;
    options->pids[options->n_pids++] = (pid_t)strtol(text, NULL, 10);
    return true;
}

static void start_measuring(struct bench *bench)
{
    bench->measuring = true;
    bench->measure_ns = now_ns();
    bench->cpu_before_s = server_cpu_s(&bench->options);
}

static void stop_measuring(struct bench *bench)
{
    const int64_t now = now_ns();
    struct report *report = &bench->report;
    const struct options *o = &bench->options;

    bench->measuring = false;
    report->seconds = (double)(now - bench->measure_ns) / 1e9;
    report->cpu_s = server_cpu_s(o) - bench->cpu_before_s;
    if (o->rate > 0 && o->count == 0) {
        const uint64_t due = (uint64_t)((double)(now - bench->begin_ns) / 1e9 * o->rate);

        report->late = due > bench->number ? due - bench->number : 0;
    }
}

static bool is_over(const struct bench *bench)
{
    const uint64_t count = bench->options.count;

    return count > 0 ? bench->number >= count && bench->n_busy == 0 : now_ns() >= bench->end_ns;
}

static void run(struct bench *bench)
{
    const struct options *o = &bench->options;
    int64_t give_up_ns;

    bench->begin_ns = now_ns();
    bench->end_ns = bench->begin_ns + (int64_t)((o->warmup + o->seconds) * 1e9);
    while (!is_over(bench)) {
        if (!bench->measuring && now_ns() >= bench->begin_ns + (int64_t)(o->warmup * 1e9))
            start_measuring(bench);
        start_due_requests(bench);
        handle_events(bench, 1);
    }
    stop_measuring(bench);
    give_up_ns = now_ns() + DRAIN_S * FG_SECOND_NS;
    while (bench->n_busy > 0 && now_ns() < give_up_ns)
        handle_events(bench, 10);
}

/* ---- options ---- */

static const char usage[] =
    "bench_push: pushes real profiles to a flamegrid server\n\n"
    "  --to HOST:PORT       numeric address (default 127.0.0.1:4040)\n"
    "  --profiles DIR       of *.pb.gz (default ../shared/load)\n"
    "  --match TEXT         only files whose names have it\n"
    "  --small              only files of 1 to 5 kB\n"
    "  --by-program         each service sends the profiles of one program, else each of all\n"
    "  --connections N      default 64\n"
    "  --rate N             requests a second; without it as fast as they are answered\n"
    "  --seconds N          default 10, after --warmup N, default 2\n"
    "  --count N            of requests, instead of a time\n"
    "  --services N         default 20; their names are --service TEXT and a number\n"
    "  --pods N             of each service, default 5\n"
    "  --start S            Unix time of the first profile; default: 30 days ago, since profiles "
    "are\n"
    "                       sent faster than time goes by, and none may be of the future\n"
    "  --interval S         between two profiles of a pod, default 10\n"
    "  --pid N, --data DIR  of the server: its CPU time and memory, its bytes on disk; of several\n"
    "                       processes --pid several times\n"
    "  --label TEXT         of the run; --row prints it as a row of a table\n"
    "  --head               prints that table's head and ends\n";

static const struct option long_options[] = {
    {"to", required_argument, NULL, 't'},
    {"profiles", required_argument, NULL, 'p'},
    {"match", required_argument, NULL, 'm'},
    {"small", no_argument, NULL, 's'},
    {"by-program", no_argument, NULL, 'b'},
    {"connections", required_argument, NULL, 'c'},
    {"rate", required_argument, NULL, 'r'},
    {"seconds", required_argument, NULL, 'S'},
    {"warmup", required_argument, NULL, 'w'},
    {"count", required_argument, NULL, 'n'},
    {"services", required_argument, NULL, 'v'},
    {"service", required_argument, NULL, 'V'},
    {"pods", required_argument, NULL, 'P'},
    {"start", required_argument, NULL, 'T'},
    {"interval", required_argument, NULL, 'i'},
    {"pid", required_argument, NULL, 'd'},
    {"data", required_argument, NULL, 'D'},
    {"label", required_argument, NULL, 'l'},
    {"row", no_argument, NULL, 'R'},
    {"head", no_argument, NULL, 'H'},
    {0},
};

static bool read_address(const char *text, struct sockaddr_in *address)
{
    const char *colon = strrchr(text, ':');
    char host[64];

    if (colon == NULL || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    return inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

static unsigned at_least_one(const char *text)
{
    const unsigned long n = strtoul(text, NULL, 10);

    return n == 0 ? 1 : n > CONNECTIONS_MAX ? CONNECTIONS_MAX : (unsigned)n;
}

static bool read_option(struct options *o, int option)
{
    switch (option) {
    // clang-format off
    case 't': return read_address(optarg, &o->address);
    case 'p': o->choice.folder = optarg; return true;
    case 'm': o->choice.match = optarg; return true;
    case 's': o->choice.min_bytes = 1000; o->choice.max_bytes = 5000; return true;
    case 'b': o->by_program = true; return true;
    case 'c': o->connections = at_least_one(optarg); return true;
    case 'r': o->rate = strtod(optarg, NULL); return o->rate > 0;
    case 'S': o->seconds = strtod(optarg, NULL); return o->seconds > 0;
    case 'w': o->warmup = strtod(optarg, NULL); return o->warmup >= 0;
    case 'n': o->count = strtoull(optarg, NULL, 10); return o->count > 0;
    case 'v': o->services = at_least_one(optarg); return true;
    case 'V': o->service = optarg; return true;
    case 'P': o->pods = at_least_one(optarg); return true;
    case 'T': o->start_s = strtoll(optarg, NULL, 10); return true;
    case 'i': o->interval_s = strtod(optarg, NULL); return o->interval_s > 0;
    case 'd': return add_pid(o, optarg);
    case 'D': o->data = optarg; return true;
    case 'l': o->label = optarg; return true;
    case 'R': o->row = true; return true;
    case 'H': o->row_head = true; return true;
    default: return false;
        // clang-format on
    }
}

static bool read_options(int argc, char **argv, struct options *o)
{
    int option;

    *o = (struct options){
        .choice = {.folder = "../shared/load", .max_bytes = SIZE_MAX},
        .connections = 64,
        .services = 20,
        .pods = 5,
        .seconds = 10,
        .warmup = 2,
        .interval_s = 10,
        .start_s = fg_wall_ns(fg_clock_real()) / FG_SECOND_NS - 30 * 24 * 3600,
        .label = "push",
        .service = "service",
    };
    (void)read_address("127.0.0.1:4040", &o->address);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if (!read_option(o, option))
            return false;
    if (o->count > 0)
        o->warmup = 0;
    return optind == argc;
}

static enum fg_code prepare(struct bench *bench, struct fg_err *err)
{
    const unsigned n = bench->options.connections;

    if (payloads_load(&bench->options.choice, &bench->payloads, err) != FG_OK)
        return err->code;
    bench->random = 1;
    bench->connections = calloc(n, sizeof *bench->connections);
    bench->idle = calloc(n, sizeof *bench->idle);
    bench->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    fg_assert(bench->connections != NULL && bench->idle != NULL && bench->epoll_fd >= 0);
    for (unsigned i = 0; i < n; i++) {
        bench->connections[i].fd = -1;
        bench->idle[bench->n_idle++] = n - 1 - i;
    }
    return FG_OK;
}

static void print_report(struct bench *bench)
{
    const struct options *o = &bench->options;
    struct report *report = &bench->report;

    report->label = o->label;
    report->payload_mean_bytes = (double)bench->payloads.bytes / (double)bench->payloads.n;
    report->rss_max_mib = server_rss_max_mib(o);
    report->disk_bytes = o->data == NULL ? 0 : folder_bytes(o->data);
    latencies_sort(&report->latencies);
    report_text(report, stderr);
    if (o->row)
        report_row(report, stdout);
}

static void tidy_up(struct bench *bench)
{
    for (unsigned i = 0; i < bench->options.connections; i++)
        connection_close(&bench->connections[i]);
    free(bench->connections);
    free(bench->idle);
    payloads_free(&bench->payloads);
    latencies_free(&bench->report.latencies);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct fg_err err;
    bool ok;

    if (!read_options(argc, argv, &bench.options)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (bench.options.row_head) {
        report_row_head(stdout);
        return 0;
    }
    if (prepare(&bench, &err) != FG_OK) {
        (void)fprintf(stderr, "bench_push: %s\n", err.msg);
        return 1;
    }
    run(&bench);
    print_report(&bench);
    ok = bench.report.accepted > 0 && bench.report.failed == 0;
    tidy_up(&bench);
    return ok ? 0 : 1;
}
