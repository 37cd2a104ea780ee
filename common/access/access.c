#include "common/access/access_impl.h"
#include "common/runtime/thread.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/random.h>

FG_METRICS_TABLE(access_metrics, ACCESS_METRICS)

const struct fg_http_guard *fg_access_guard(struct fg_access *access)
{
    return &access->guard;
}

const struct fg_http_guard *fg_access_operators_guard(struct fg_access *access)
{
    return &access->operators_guard;
}

bool fg_access_has_issuer(const struct fg_access *access, struct fg_slice issuer)
{
    return fg_people_have_issuer(access->people, issuer);
}

enum fg_access_mode fg_access_mode(const struct fg_access *access)
{
    return access->mode;
}

bool fg_access_is_unready(struct fg_access *access, struct fg_buf *why)
{
    if (access->mode != FG_ACCESS_TOKEN || fg_access_is_known(access))
        return false;
    fg_buf_puts(why, "reads the registry of access");
    return true;
}
/* ---- changes ---- */

enum fg_code fg_access_make_secret(const char *id, char ret_text[FG_TOKEN_CHARS + 1],
                                   struct fg_token *ret_token, struct fg_err *err)
{
    uint8_t random[FG_TOKEN_RANDOM_BYTES];
    bool made =
        RAND_bytes(random, sizeof random) == 1 && fg_token_make(random, id, ret_text, ret_token);

    OPENSSL_cleanse(random, sizeof random);
    return made ? FG_OK : fg_fail(err, FG_E_INTERNAL, "no random numbers");
}
/* ---- life ---- */

bool fg_access_is_local(const char *listen)
{
    struct fg_slice address = fg_cstr(listen);

    return fg_slice_starts(address, "127.") || fg_slice_starts(address, "localhost:") ||
           fg_slice_starts(address, "[::1]:");
}

static enum fg_code choose_mode(struct fg_access *access, struct fg_err *err)
{
    const struct fg_access_settings *settings = access->config.settings;

    access->mode = (enum fg_access_mode)settings->mode;
    if (access->mode == FG_ACCESS_UNSET) {
        if (!fg_access_is_local(access->config.listen))
            return fg_fail(err, FG_E_INVALID,
                           "others can reach this server (listen is %s), so it has to know who may "
                           "use it. Set access.mode: token (then: flamegrid access init), header "
                           "behind a gateway that checks who calls, or none to let in everybody",
                           access->config.listen);
        access->mode = FG_ACCESS_NONE;
    }
    if (fg_networks_read(fg_cstr(settings->trusted_cidrs), &access->trusted, err) != FG_OK)
        return fg_wrap(err, "setting access.trusted_cidrs");
    return FG_OK;
}

static struct fg_access_registry *known_registry(void *arg)
{
    return fg_access_registry(arg);
}

static enum fg_code create_people(struct fg_access *access, struct fg_err *err)
{
    const struct fg_people_config people = {.settings = access->config.settings,
                                            .login = access->config.login,
                                            .clock = access->config.clock,
                                            .audit = access->config.audit,
                                            .attempts = access->attempts,
                                            .registry = access->config.registry,
                                            .conditions = access->config.conditions,
                                            .known = known_registry,
                                            .arg = access};

    return access->config.login == NULL ? FG_OK : fg_people_create(&people, &access->people, err);
}

enum fg_code fg_access_create(const struct fg_access_config *config, struct fg_access **ret_access,
                              struct fg_err *err)
{
    struct fg_access *access = fg_new(struct fg_access);
    uint64_t seed = 0;

    access->config = *config;
    fg_assert(pthread_mutex_init(&access->lock, NULL) == 0);
    fg_cond_init(&access->looked);
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0)
        seed = (uint64_t)fg_mono_ns(config->clock);
    access->seed = seed;
    access->uses = fg_token_uses_create(fg_access_now_ms(access));
    access->attempts = fg_attempts_create((unsigned)config->settings->failures_per_minute, seed);
    access->metrics =
        fg_metrics_register(config->registry, access_metrics, FG_COUNT(access_metrics));
    access->away = fg_condition_create(config->conditions, "access_registry_away");
    access->damaged = fg_condition_create(config->conditions, "access_registry_damaged");
    access->guard = fg_access_make_guard(access, false);
    access->operators_guard = fg_access_make_guard(access, true);
    atomic_init(&access->seen_mono_ns, fg_mono_ns(config->clock));
    atomic_init(&access->known_mono_ns, INT64_MIN);
    atomic_init(&access->looked_mono_ns, fg_mono_ns(config->clock));
    if (choose_mode(access, err) != FG_OK || create_people(access, err) != FG_OK) {
        fg_access_destroy(access);
        return err->code;
    }
    if (access->mode == FG_ACCESS_TOKEN)
        access->guard.log_in_path = fg_people_log_in_path(access->people);
    *ret_access = access;
    return FG_OK;
}

void fg_access_destroy(struct fg_access *access)
{
    if (access == NULL)
        return;
    fg_access_unfollow(access);
    fg_people_destroy(access->people);
    fg_access_registry_unref(access->registry);
    fg_token_uses_destroy(access->uses);
    fg_condition_destroy(access->damaged);
    fg_condition_destroy(access->away);
    fg_attempts_destroy(access->attempts);
    (void)pthread_cond_destroy(&access->looked);
    (void)pthread_mutex_destroy(&access->lock);
    free(access);
}
