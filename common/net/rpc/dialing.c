#include "common/net/rpc/dialing.h"

#include "common/base/time.h"
#include "common/net/rpc/context.h"
#include "common/net/rpc/secure.h"
#include "common/net/rpc/wire.h"

#include <pthread.h>
#include <time.h>

enum {
    LOOK_MS = 250,
    QUICK_LOOKS = 4,    /* a second: more than a round trip, a name and a handshake take */
    PATIENT_LOOKS = 60, /* a quarter of a minute: more than two name servers take */
    RECONNECT_MIN_MS = 20,
    RECONNECT_MAX_MS = 1000, /* a restarted server is found within a second */
};

/* One of nng's dialers. */
struct dialer {
    bool open;
    nng_dialer dialer;
    struct fg_secure_end end;
    unsigned looks; /* for so long there was no connection since it began */
    uint64_t ended; /* attempts, at the last look at them */
};

struct fg_dialing {
    struct fg_dialing_config config;
    atomic_int winner; /* nng's number of the dialer with the newest connection; 0: none */
    /* The caller's until it is started and after it was stopped, else the looker's. */
    struct dialer dialers[2];
    unsigned patient; /* which of them; the other one is the quick one */
    struct fg_dialing *next;
};

/*
 * Looks at every dialing, one after another: a thread that lives as long as the process, as nng's
 * do. It cannot be one of nng's: closing a dialer waits for a callback of the dialer, which needs a
 * thread of nng's tasks, of which there are two. With two dialings that closed a dialer at the same
 * moment nng stood still for ever.
 */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* of first; held during a look, so that stop waits for its end */
    pthread_cond_t wake;  /* first is not NULL any more */
    struct fg_dialing *first;
} looker = {
    .once = PTHREAD_ONCE_INIT,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
};

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

/* What fails now is tried again at a later look. */
static void begin_anew(struct fg_dialing *dialing, struct dialer *dialer)
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
    patient_of(dialing)->looks = 0;
}

/* How many attempts of the dialer have ended, whatever came of them. */
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

/* Has no attempt ended since this was asked last? One that ends by itself, since the other side
 * refuses, is left alone: nng begins the next one, and closing a dialer in the middle of a TLS
 * handshake leaves memory behind (README.md). */
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
        begin_anew(dialing, patient);
        return;
    }
    if (++patient->looks % QUICK_LOOKS != 0)
        return;
    stuck = is_stuck(patient);
    if (stuck && patient->looks % PATIENT_LOOKS == 0)
        begin_anew(dialing, patient);
    else if (stuck && (!quick->open || is_stuck(quick)))
        begin_anew(dialing, quick);
}

static void look(struct fg_dialing *dialing)
{
    if (atomic_load(dialing->config.connections) > 0)
        keep_winner(dialing);
    else
        try_on(dialing);
}

static void *look_at_all(void *arg)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * FG_MS_NS};

    (void)arg;
    (void)pthread_setname_np(pthread_self(), "rpc-dialing");
    for (;;) {
        (void)nanosleep(&pause, NULL);
        (void)pthread_mutex_lock(&looker.lock);
        while (looker.first == NULL)
            (void)pthread_cond_wait(&looker.wake, &looker.lock);
        for (struct fg_dialing *at = looker.first; at != NULL; at = at->next)
            look(at);
        (void)pthread_mutex_unlock(&looker.lock);
    }
    return NULL;
}

static void start_looker(void)
{
    pthread_t thread;

    fg_assert(pthread_create(&thread, NULL, look_at_all, NULL) == 0);
    fg_assert(pthread_detach(thread) == 0);
}

struct fg_dialing *fg_dialing_create(const struct fg_dialing_config *config)
{
    struct fg_dialing *dialing = fg_new(struct fg_dialing);

    dialing->config = *config;
    return dialing;
}

enum fg_code fg_dialing_start(struct fg_dialing *dialing, struct fg_err *err)
{
    (void)pthread_once(&looker.once, start_looker);
    if (open_dialer(dialing, patient_of(dialing), err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&looker.lock);
    dialing->next = looker.first;
    looker.first = dialing;
    (void)pthread_cond_signal(&looker.wake);
    (void)pthread_mutex_unlock(&looker.lock);
    return FG_OK;
}

void fg_dialing_connected(struct fg_dialing *dialing, nng_pipe pipe)
{
    atomic_store(&dialing->winner, nng_dialer_id(nng_pipe_dialer(pipe)));
}

void fg_dialing_stop(struct fg_dialing *dialing)
{
    if (dialing == NULL)
        return;
    (void)pthread_mutex_lock(&looker.lock);
    for (struct fg_dialing **at = &looker.first; *at != NULL; at = &(*at)->next)
        if (*at == dialing) {
            *at = dialing->next;
            break;
        }
    (void)pthread_mutex_unlock(&looker.lock);
}

void fg_dialing_destroy(struct fg_dialing *dialing)
{
    if (dialing == NULL)
        return;
    for (unsigned i = 0; i < FG_COUNT(dialing->dialers); i++)
        fg_secure_remove(fg_rpc_secure(dialing->config.rpc), &dialing->dialers[i].end);
    free(dialing);
}
