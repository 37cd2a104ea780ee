#include "common/net/rpc/dialing.h"

#include "common/base/time.h"
#include "common/net/rpc/context.h"
#include "common/net/rpc/secure.h"
#include "common/net/rpc/wire.h"
#include "common/runtime/ticker.h"

#include <pthread.h>

enum {
    CHECK_MS = 250,          /* how late a connection is noticed to be missing */
    QUICK_CHECKS = 4,        /* a second: more than a round trip, a name and a handshake take */
    PATIENT_CHECKS = 60,     /* a quarter of a minute: more than two name servers take */
    RECONNECT_MIN_MS = 20,   /* after a connection that lasted for a second */
    RECONNECT_MAX_MS = 1000, /* a restarted server is found within a second */
};

/* One of nng's dialers. */
struct dialer {
    bool open;
    nng_dialer dialer;
    struct fg_secure_end end;
    unsigned checks; /* without a connection since it began */
    uint64_t ended;  /* attempts, at the last check */
};

struct fg_dialing {
    struct fg_dialing_config config;
    atomic_int winner; /* nng's number of the dialer with the newest connection; 0: none */
    /* The caller's until it is started and after it was stopped, else the ticker's. */
    struct dialer dialers[2];
    unsigned patient; /* which of them; the other one is the quick one */
    struct fg_dialing *next;
};

/*
 * Checks every dialing, one after another, on a ticker that lives as long as the process, as nng's
 * threads do. The checks cannot run on a thread of nng's: closing a dialer waits for a callback of
 * the dialer, which needs one of nng's two task threads. When two dialings closed a dialer at the
 * same moment, nng stopped for ever.
 */
static struct {
    pthread_mutex_t lock; /* of all below; held during a check, so that stop waits for its end */
    struct fg_ticker *ticker; /* NULL: nothing was dialed yet */
    struct fg_dialing *first;
} checks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct dialer *patient_of(struct fg_dialing *dialing)
{
    return &dialing->dialers[dialing->patient];
}

static struct dialer *quick_of(struct fg_dialing *dialing)
{
    return &dialing->dialers[1 - dialing->patient];
}

static int tune(nng_dialer dialer)
{
    int rv = fg_wire_tune_dialer(dialer);

    if (rv == 0)
        rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS);
    if (rv == 0)
        rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
    return rv;
}

static void close_dialer(struct fg_dialing *dialing, struct dialer *dialer)
{
    if (!dialer->open)
        return;
    (void)nng_dialer_close(dialer->dialer);
    fg_secure_remove(fg_rpc_secure(dialing->config.rpc), &dialer->end);
    *dialer = (struct dialer){0};
}

static enum fg_code open_dialer(struct fg_dialing *dialing, struct dialer *dialer,
                                struct fg_err *err)
{
    const struct fg_dialing_config *config = &dialing->config;
    int rv = nng_dialer_create(&dialer->dialer, config->socket, config->url);

    if (rv != 0)
        return fg_wire_check(rv, err);
    dialer->open = true;
    rv = tune(dialer->dialer);
    if (rv == 0 && fg_secure_add_dialer(fg_rpc_secure(config->rpc), &dialer->end, dialer->dialer,
                                        config->url, err) != FG_OK)
        return err->code;
    if (rv == 0)
        rv = nng_dialer_start(dialer->dialer, NNG_FLAG_NONBLOCK);
    return fg_wire_check(rv, err);
}

/* Begins again. If that fails, a later check tries again. */
static void restart(struct fg_dialing *dialing, struct dialer *dialer)
{
    struct fg_err err;

    close_dialer(dialing, dialer);
    if (open_dialer(dialing, dialer, &err) != FG_OK)
        close_dialer(dialing, dialer);
}

/* The winner connects again by itself when it loses its connection: it is the patient one
 * from now on. */
static void keep_winner(struct fg_dialing *dialing)
{
    struct dialer *quick = quick_of(dialing);

    if (quick->open && nng_dialer_id(quick->dialer) == atomic_load(&dialing->winner))
        dialing->patient = 1 - dialing->patient;
    close_dialer(dialing, quick_of(dialing));
    patient_of(dialing)->checks = 0;
}

/* Counts the attempts of the dialer that have ended, with whatever result. */
static uint64_t count_ended(const struct dialer *dialer)
{
    uint64_t n = 0;
    nng_stat *all, *of_dialer;

    if (nng_stats_get(&all) != 0)
        return 0;
    of_dialer = nng_stat_find_dialer(all, dialer->dialer);
    for (nng_stat *at = of_dialer == NULL ? NULL : nng_stat_child(of_dialer); at != NULL;
         at = nng_stat_next(at))
        if (nng_stat_type(at) == NNG_STAT_COUNTER)
            n += nng_stat_value(at);
    nng_stats_free(all);
    return n;
}

/* Returns true if no attempt has ended since the last call. An attempt that ends by itself, because
 * the other side refuses, is left alone: nng starts the next one, and closing a dialer in the
 * middle of a TLS handshake leaks memory (README.md). */
static bool is_stuck(struct dialer *dialer)
{
    uint64_t ended = count_ended(dialer);
    bool stuck = ended == dialer->ended;

    dialer->ended = ended;
    return stuck;
}

static void try_on(struct fg_dialing *dialing)
{
    struct dialer *patient = patient_of(dialing), *quick = quick_of(dialing);
    bool stuck;

    if (!patient->open) {
        restart(dialing, patient);
        return;
    }
    if (++patient->checks % QUICK_CHECKS != 0)
        return;
    stuck = is_stuck(patient);
    if (stuck && patient->checks % PATIENT_CHECKS == 0)
        restart(dialing, patient);
    else if (stuck && (!quick->open || is_stuck(quick)))
        restart(dialing, quick);
}

static void check_all(void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&checks.lock);
    for (struct fg_dialing *at = checks.first; at != NULL; at = at->next)
        if (atomic_load(at->config.connections) > 0)
            keep_winner(at);
        else
            try_on(at);
    (void)pthread_mutex_unlock(&checks.lock);
}

struct fg_dialing *fg_dialing_create(const struct fg_dialing_config *config)
{
    struct fg_dialing *dialing = fg_new(struct fg_dialing);

    dialing->config = *config;
    return dialing;
}

enum fg_code fg_dialing_start(struct fg_dialing *dialing, struct fg_err *err)
{
    enum fg_code code;

    if (open_dialer(dialing, patient_of(dialing), err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&checks.lock);

    const struct fg_ticker_config config = {
        .name = "rpc-dialing", .period_ns = CHECK_MS * FG_MS_NS, .tick = check_all};

    code = checks.ticker != NULL ? FG_OK : fg_ticker_create(&config, &checks.ticker, err);
    if (code == FG_OK) {
        dialing->next = checks.first;
        checks.first = dialing;
    }
    (void)pthread_mutex_unlock(&checks.lock);
    return code;
}

void fg_dialing_connected(struct fg_dialing *dialing, nng_pipe pipe)
{
    atomic_store(&dialing->winner, nng_dialer_id(nng_pipe_dialer(pipe)));
}

/* nng begins with the least pause after every connection. For one that the other side closes at
 * once that would be a hundred handshakes a second, of each caller. */
void fg_dialing_ended(nng_pipe pipe, int64_t lasted_ns)
{
    bool was_short = lasted_ns < RECONNECT_MAX_MS * FG_MS_NS;

    (void)nng_dialer_set_ms(nng_pipe_dialer(pipe), NNG_OPT_RECONNMINT,
                            was_short ? RECONNECT_MAX_MS : RECONNECT_MIN_MS);
}

void fg_dialing_stop(struct fg_dialing *dialing)
{
    if (dialing == NULL)
        return;
    (void)pthread_mutex_lock(&checks.lock);
    for (struct fg_dialing **at = &checks.first; *at != NULL; at = &(*at)->next)
        if (*at == dialing) {
            *at = dialing->next;
            break;
        }
    (void)pthread_mutex_unlock(&checks.lock);
}

void fg_dialing_destroy(struct fg_dialing *dialing)
{
    if (dialing == NULL)
        return;
    for (unsigned i = 0; i < FG_COUNT(dialing->dialers); i++)
        fg_secure_remove(fg_rpc_secure(dialing->config.rpc), &dialing->dialers[i].end);
    free(dialing);
}
