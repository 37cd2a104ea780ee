/*
 * What the files of sender.h share; nobody else includes it.
 *
 *     sender.c         takes spans, makes requests and takes answers
 *     sender_resend.c  reads pages of resends
 *     sender_token.c   tokens of OAuth 2
 *     sender_state.c   metrics, the log, and what pages show
 *
 * Thread: the loop's, except where a function says otherwise.
 */
#ifndef FG_INGESTER_FORWARD_SENDER_IMPL_H
#define FG_INGESTER_FORWARD_SENDER_IMPL_H

#include "common/runtime/work.h"
#include "ingester/forward/sender.h"
#include "ingester/forward/sender_metrics.h"

#include <pthread.h>
#include <semaphore.h>

enum {
    SENDER_HEADERS_MAX = 6,
    SENDER_HEADER_MAX_BYTES = 2048, /* user of 256 bytes and password of 1024, in base64 */
    SENDER_URL_MAX_BYTES = 4200,
    SENDER_METRIC_NAME_MAX_BYTES = 320, /* a target's name, with every byte escaped */
};

/* How long connecting may take. */
#define SENDER_CONNECT_TIMEOUT_NS (5 * FG_SECOND_NS)
/* The log has a lasting fault once in so long. */
#define SENDER_LOG_NS (5 * FG_MINUTE_NS)

/* The token of a target that uses OAuth 2. The loop's, except for the job. */
struct forward_token {
    struct fg_buf header;  /* "Authorization: Bearer ...", with a NUL */
    int64_t until_mono_ns; /* it is used until then; 0: there is none */
    bool fetching;         /* parcels wait for it */
    bool in_request;       /* else a job has it */
    struct fg_job job;     /* reads the secret */
    struct fg_buf login;   /* "Authorization: Basic ...", likewise */
    const char *headers[4];
    struct fg_client_request request;
};

struct forward_sender_target {
    struct ing_sender *sender;
    unsigned number;
    const struct ing_forward_target *conf;
    struct ing_parcel_peer peer;

    /* The loop's. */
    struct ing_sender_core core;
    uv_timer_t timer;
    bool ready;          /* something waits */
    int64_t due_mono_ns; /* what waits since a while is taken then */
    struct forward_sending *sendings;
    bool pushes;               /* the target has no forward.v1 */
    int64_t ask_again_mono_ns; /* then, for it */
    int64_t logged_mono_ns;
    /* That it refuses a tenant, and that one is beyond its limit. */
    int64_t denied_logged_mono_ns, limited_logged_mono_ns;
    int64_t resend_mono_ns; /* not before then */
    struct forward_token token;
    int64_t read_logged_mono_ns;       /* that a page could not be read */
    struct ing_page_reader reader;     /* one job at a time has it */
    char url[2][SENDER_URL_MAX_BYTES]; /* of forward.v1 and push.v1 */

    struct fg_msg msg; /* from on_ready() to the loop */
    _Atomic bool posted;

    struct fg_metrics *metrics;
    struct fg_metric_def *defs;
    char (*names)[SENDER_METRIC_NAME_MAX_BYTES];

    pthread_mutex_t lock;             /* of what pages show, below */
    char error[FG_ERR_MSG_MAX_BYTES]; /* "": the last request succeeded */
    int64_t error_wall_ns;
    bool shows_push, shows_denied, shows_unread;
    unsigned shows_running;
};

/* A parcel on its way. */
struct forward_sending {
    struct forward_sending *next;
    struct forward_sender_target *target;
    struct ing_parcel *parcel; /* NULL: the page is being read */
    bool resends;              /* a page; lane is OUTBOX_BACKLOG */
    struct ing_resend from;    /* of the page */
    struct ing_page page;      /* until the parcel has it */
    enum ing_outbox_lane lane;
    int64_t began_mono_ns, sent_mono_ns, took_ns; /* the last answer; 0: there was none */
    struct fg_job job;
    bool more, unknown;
    bool in_request;             /* else a job has it, or: */
    bool waits;                  /* for a token */
    bool refetched;              /* the target has refused a token before */
    struct fg_buf authorization; /* the header with the token of the request */
    enum ing_sender_result result;
    struct fg_err err;
    struct fg_client_request request;
    char headers[SENDER_HEADERS_MAX][SENDER_HEADER_MAX_BYTES];
    const char *header_list[SENDER_HEADERS_MAX + 2]; /* with the token's */
};

struct ing_sender {
    struct ing_sender_config config;
    struct fg_loop *loop;
    struct fg_work *work;
    struct fg_client *client;
    struct forward_sender_target *targets;
    unsigned n_targets, n_sendings, n_timers;
    bool resending; /* a page is on its way */
    bool stopping;
    atomic_bool stops; /* the same for jobs */
    sem_t stopped;
};

/* ---- sender.c ---- */

int64_t ing_sender_now(const struct ing_sender *sender);

/* Begins to send something to a target. */
struct forward_sending *ing_sender_begin(struct forward_sender_target *target,
                                         enum ing_outbox_lane lane);

/* Has the first round of a parcel built and sent. */
void ing_sender_start_parcel(struct forward_sending *sending, struct ing_parcel *parcel);

/* Sends the round that is built, once there is a token. */
void ing_sender_send(struct forward_sending *sending);

/* Runs a job for `sending`. */
void ing_sender_submit(struct forward_sending *sending,
                       enum fg_code (*run)(struct fg_job *, struct fg_err *),
                       void (*done)(struct fg_job *));

/* Ends it with its result, or with this one. err: NULL leaves its error as it is. */
void ing_sender_finish(struct forward_sending *sending);
void ing_sender_finish_with(struct forward_sending *sending, enum ing_sender_result result,
                            const struct fg_err *err);

/* ---- sender_resend.c ---- */

/* Reads the next page of a resend. Returns false if there is none, or it is not its turn. */
bool ing_sender_resend(struct forward_sender_target *target);

/* A page is done: the next one may be read, of any target. */
void ing_sender_finish_resend(const struct forward_sending *sending);

/* ---- sender_token.c ---- */

/* Returns true if the parcel has to wait for a token. */
bool ing_sender_waits_for_token(struct forward_sending *sending);

/* The sender stops: what waits for a token is given back. */
void ing_sender_stop_token(struct forward_sender_target *target);

/* Frees a secret, and overwrites it. */
void ing_sender_forget_secret(struct fg_buf *secret);

/* ---- sender_state.c ---- */

/* Registers the rows of the table, with the target's name. */
void ing_sender_register_metrics(struct forward_sender_target *target,
                                 struct fg_registry *registry);

/* Sets the gauges. Any thread except a loop's. */
void ing_sender_on_scrape(void *arg);

/* Counts what a parcel has done. */
void ing_sender_count(const struct forward_sender_target *target,
                      const struct forward_sending *sending);

bool ing_sender_is_failure(enum ing_sender_result result);

/* Returns true if a request has failed here, whatever the other side did: a file of the settings
 * cannot be read, or there was no memory for the answer. Any thread. */
bool ing_sender_is_own_fault(enum fg_code code);

/* Logs that forwarding waits, or goes on; that only a tenant waits. */
void ing_sender_tell(struct forward_sender_target *target, const struct forward_sending *sending);
void ing_sender_tell_held(struct forward_sender_target *target, const struct ing_parcel *parcel);

/* Updates what pages show: the state; the result of a request. */
void ing_sender_show(struct forward_sender_target *target);
void ing_sender_show_error(struct forward_sender_target *target,
                           const struct forward_sending *sending);

#endif
