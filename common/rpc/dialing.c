#include "common/rpc/dialing.h"

#include "common/rpc/context.h"
#include "common/rpc/secure.h"
#include "common/rpc/wire.h"

#include <pthread.h>

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
};

struct fg_dialing {
    struct fg_dialing_config config;
    nng_aio *look_aio;
    atomic_int winner; /* nng's number of the dialer with the newest connection; 0: none */
    pthread_mutex_t lock;
    bool stopping; /* locked, as is the rest */
    struct dialer dialers[2];
    unsigned patient; /* which of them; the other one is the quick one */
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

/* Locked. */
static void close_dialer(struct fg_dialing *dialing, struct dialer *dialer)
{
    if (!dialer->open)
        return;
    (void)nng_dialer_close(dialer->dialer);
    fg_secure_remove(fg_rpc_secure(dialing->config.rpc), &dialer->end);
    *dialer = (struct dialer){0};
}

/* Locked. */
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

/* Locked. What fails now is tried again at a later look. */
static void begin_anew(struct fg_dialing *dialing, struct dialer *dialer)
{
    struct fg_err err;

    close_dialer(dialing, dialer);
    if (open_dialer(dialing, dialer, &err) != FG_OK)
        close_dialer(dialing, dialer);
}

/* Locked. The winner connects again by itself when it loses its connection: it is the patient one
 * from now on. */
static void keep_winner(struct fg_dialing *dialing)
{
    struct dialer *quick = quick_of(dialing);

    if (quick->open && nng_dialer_id(quick->dialer) == atomic_load(&dialing->winner))
        dialing->patient = 1 - dialing->patient;
    close_dialer(dialing, quick_of(dialing));
    patient_of(dialing)->looks = 0;
}

/* Locked. */
static void try_on(struct fg_dialing *dialing)
{
    struct dialer *patient = patient_of(dialing);

    if (!patient->open || ++patient->looks % PATIENT_LOOKS == 0)
        begin_anew(dialing, patient);
    else if (patient->looks % QUICK_LOOKS == 0)
        begin_anew(dialing, quick_of(dialing));
}

/* On an nng thread. */
static void look(void *arg)
{
    struct fg_dialing *dialing = arg;

    if (nng_aio_result(dialing->look_aio) != 0)
        return; /* stopped */
    (void)pthread_mutex_lock(&dialing->lock);
    if (!dialing->stopping && atomic_load(dialing->config.connections) > 0)
        keep_winner(dialing);
    else if (!dialing->stopping)
        try_on(dialing);
    (void)pthread_mutex_unlock(&dialing->lock);
    nng_sleep_aio(LOOK_MS, dialing->look_aio);
}

int fg_dialing_create(const struct fg_dialing_config *config, struct fg_dialing **ret_dialing)
{
    struct fg_dialing *dialing = fg_new(struct fg_dialing);
    int rv;

    dialing->config = *config;
    (void)pthread_mutex_init(&dialing->lock, NULL);
    rv = nng_aio_alloc(&dialing->look_aio, look, dialing);
    if (rv == 0)
        *ret_dialing = dialing;
    else
        fg_dialing_destroy(dialing);
    return rv;
}

enum fg_code fg_dialing_start(struct fg_dialing *dialing, struct fg_err *err)
{
    enum fg_code code;

    (void)pthread_mutex_lock(&dialing->lock);
    code = open_dialer(dialing, patient_of(dialing), err);
    (void)pthread_mutex_unlock(&dialing->lock);
    if (code == FG_OK)
        nng_sleep_aio(LOOK_MS, dialing->look_aio);
    return code;
}

void fg_dialing_connected(struct fg_dialing *dialing, nng_pipe pipe)
{
    atomic_store(&dialing->winner, nng_dialer_id(nng_pipe_dialer(pipe)));
}

void fg_dialing_stop(struct fg_dialing *dialing)
{
    if (dialing == NULL)
        return;
    (void)pthread_mutex_lock(&dialing->lock);
    dialing->stopping = true;
    (void)pthread_mutex_unlock(&dialing->lock);
    nng_aio_stop(dialing->look_aio);
    nng_aio_free(dialing->look_aio); /* waits for a callback that began before */
}

void fg_dialing_destroy(struct fg_dialing *dialing)
{
    if (dialing == NULL)
        return;
    for (unsigned i = 0; i < FG_COUNT(dialing->dialers); i++)
        fg_secure_remove(fg_rpc_secure(dialing->config.rpc), &dialing->dialers[i].end);
    (void)pthread_mutex_destroy(&dialing->lock);
    free(dialing);
}
