/*
 *   verify (any thread) --> table of verified tokens --> found: done
 *                              |
 *                              v
 *                           keys of the issuer, under its lock --> signature and claims --> table
 *                              |
 *                              +--> unknown kid: a message to the loop
 *
 *   loop:  timer, message --> discovery document --> keys --> put under the lock of the issuer
 */
#include "common/access/issuer/issuer.h"

#include "common/access/issuer/issuer_core.h"
#include "common/access/jwt/claims.h"
#include "common/base/hash.h"
#include "common/runtime/log.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    CLIENT_RUNNING_MAX = 32, /* log-ins included */
    CLIENT_WAITING_MAX = 256,
};

static const int64_t CONNECT_TIMEOUT_NS = 5 * FG_SECOND_NS; /* two retries of SYN */
static const int64_t TIMEOUT_NS = 10 * FG_SECOND_NS;
static const int64_t AWAY_AFTER_NS = 30 * FG_MINUTE_NS; /* three fetches failed */

#define ISSUER_METRICS(M)                                                                          \
    M(COUNTER, ISSUER_VERIFIED, "flamegrid_access_jwt_verified_total",                             \
      "JSON Web Tokens whose signature was verified")                                              \
    M(COUNTER, ISSUER_REMEMBERED, "flamegrid_access_jwt_remembered_total",                         \
      "Requests with a JSON Web Token that had been verified before")                              \
    M(COUNTER, ISSUER_DENIED, "flamegrid_access_jwt_denied_total",                                 \
      "JSON Web Tokens that were not valid")                                                       \
    M(COUNTER, ISSUER_UNAVAILABLE, "flamegrid_access_jwt_unavailable_total",                       \
      "Requests answered with 503 because the keys of an issuer were not known")                   \
    M(COUNTER, ISSUER_FETCHED, "flamegrid_access_issuer_fetches_total",                            \
      "Fetches of the keys of an issuer")                                                          \
    M(COUNTER, ISSUER_FAILED, "flamegrid_access_issuer_fetch_failures_total",                      \
      "Fetches of the keys of an issuer that failed")
FG_METRICS_ENUM(issuer_metric, ISSUER_METRICS)
FG_METRICS_TABLE(issuer_metrics, ISSUER_METRICS)

struct issuer {
    struct fg_issuers *issuers;
    char *name, *audience, *keys_url, *ca_file, *token_file, *tenant_claim;
    bool discover;
    struct fg_client_tls tls;
    struct fg_binding tenant_binding; /* of tenant_claim */
    struct fg_bindings bindings;

    /* The loop's. */
    struct fg_client_request request;
    char *url;              /* of the request */
    struct fg_arena *arena; /* of the document that is fetched */
    struct fg_discovery found;
    int64_t since_mono_ns; /* the last success, or the start */

    pthread_mutex_t lock; /* of those below */
    struct fg_issuer_core core;
    bool running;                     /* the loop takes messages */
    struct fg_jwks *keys;             /* NULL: none yet */
    _Atomic uint64_t keys_hash;       /* of the document with them; written under the lock */
    struct fg_arena *discovery_arena; /* NULL: none yet */
    struct fg_discovery discovery;

    struct fg_msg wake; /* posted while `woken` */
    atomic_flag woken;
};

struct fg_issuers {
    struct issuer list[FG_ISSUERS_MAX];
    size_t n;
    struct fg_clock *clock;
    struct fg_metrics *metrics;
    struct fg_condition *away;
    struct fg_verified *verified;
    EVP_MD *sha256;
    struct fg_loop *loop; /* NULL: not started */
    struct fg_client *client;
    uv_timer_t timer;
};

/* ---- fetching; on the loop ---- */

static void begin_fetch(struct issuer *issuer);

static void on_timer(uv_timer_t *timer)
{
    struct fg_issuers *issuers = timer->data;
    int64_t now_ns = fg_mono_ns(issuers->clock), next_ns = INT64_MAX;

    for (size_t i = 0; i < issuers->n; i++) {
        struct issuer *issuer = &issuers->list[i];
        int64_t due_ns;

        (void)pthread_mutex_lock(&issuer->lock);
        due_ns = fg_issuer_core_due(&issuer->core);
        if (due_ns <= now_ns)
            fg_issuer_core_begin(&issuer->core, now_ns);
        (void)pthread_mutex_unlock(&issuer->lock);
        if (due_ns <= now_ns)
            begin_fetch(issuer);
        else
            next_ns = FG_MIN(next_ns, due_ns);
    }
    if (next_ns != INT64_MAX)
        fg_assert(
            uv_timer_start(timer, on_timer, (uint64_t)((next_ns - now_ns) / FG_MS_NS + 1), 0) == 0);
}

/* Raises the condition while any issuer is away, for the first of them. */
static void report(struct fg_issuers *issuers, const struct fg_err *err)
{
    int64_t now_ns = fg_mono_ns(issuers->clock);

    for (size_t i = 0; i < issuers->n; i++)
        if (now_ns - issuers->list[i].since_mono_ns >= AWAY_AFTER_NS) {
            fg_condition_raise(
                issuers->away,
                "keys of the issuer %s could not be fetched for %lld min; those known "
                "serve for 24 h: %s",
                issuers->list[i].name,
                (long long)((now_ns - issuers->list[i].since_mono_ns) / FG_MINUTE_NS), err->msg);
            return;
        }
    fg_condition_clear(issuers->away);
}

static bool has_kid(const struct fg_jwks *keys, struct fg_slice kid)
{
    for (unsigned i = 0; i < fg_jwks_count(keys); i++)
        if (fg_slice_eq(fg_jwks_at(keys, i)->kid, kid))
            return true;
    return false;
}

/* A fetch ends; keys NULL: it failed. */
static void end_fetch(struct issuer *issuer, struct fg_jwks *keys, uint64_t keys_hash,
                      const struct fg_err *err)
{
    struct fg_issuers *issuers = issuer->issuers;
    struct fg_jwks *old = NULL;
    int64_t now_ns = fg_mono_ns(issuers->clock);

    (void)pthread_mutex_lock(&issuer->lock);
    fg_issuer_core_end(&issuer->core, keys != NULL, now_ns);
    if (keys != NULL) {
        old = issuer->keys;
        for (unsigned i = 0; old != NULL && i < fg_jwks_count(old); i++)
            if (!has_kid(keys, fg_jwks_at(old, i)->kid))
                fg_issuer_core_withdraw(&issuer->core, fg_hash64_table(fg_jwks_at(old, i)->kid));
        issuer->keys = keys;
        atomic_store(&issuer->keys_hash, keys_hash);
    }
    (void)pthread_mutex_unlock(&issuer->lock);
    fg_jwks_unref(old);
    fg_metric_add(issuers->metrics, ISSUER_FETCHED, 1);
    if (keys != NULL) {
        issuer->since_mono_ns = now_ns;
    } else {
        fg_metric_add(issuers->metrics, ISSUER_FAILED, 1);
        fg_log_warn("keys of an issuer could not be fetched, will retry",
                    fg_ls("issuer", issuer->name), fg_ls("err", err->msg));
    }
    report(issuers, err);
    on_timer(&issuers->timer);
}

static void fetch(struct issuer *issuer, char *url, size_t max_bytes,
                  void (*done)(struct fg_client_request *request))
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    const char *trusted = issuer->keys_url[0] != '\0' ? issuer->keys_url : issuer->name;
    bool ours = fg_access_url_same_origin(fg_cstr(url), fg_cstr(trusted)) ||
                fg_access_url_same_origin(fg_cstr(url), fg_cstr(issuer->name));

    free(issuer->url);
    issuer->url = url;
    fg_client_clear(&issuer->request);
    issuer->request = (struct fg_client_request){
        .url = url,
        .headers = headers,
        .tls = &issuer->tls,
        .token_file = ours && issuer->token_file[0] != '\0' ? issuer->token_file : NULL,
        .connect_timeout_ns = CONNECT_TIMEOUT_NS,
        .timeout_ns = TIMEOUT_NS,
        .body_max_bytes = max_bytes,
        .done = done,
    };
    fg_client_send(issuer->issuers->client, &issuer->request);
}

/* FG_OK: an answer 200 is there. */
static enum fg_code check_answer(const struct fg_client_request *request, struct fg_err *err)
{
    if (request->code != FG_OK) {
        *err = request->err;
        return err->code;
    }
    if (request->status != 200)
        return fg_fail(err, FG_E_UNAVAILABLE, "%.200s answered %u", request->url, request->status);
    return FG_OK;
}

static void on_keys(struct fg_client_request *request)
{
    struct issuer *issuer = fg_container(request, struct issuer, request);
    struct fg_jwks *keys = NULL;
    struct fg_err err = {.code = FG_OK};

    if (check_answer(request, &err) == FG_OK &&
        fg_jwks_parse(fg_buf_slice(&request->answer), &keys, &err) == FG_OK &&
        fg_jwks_skipped(keys) > 0)
        fg_log_debug("keys of an issuer are not usable", fg_ls("issuer", issuer->name),
                     fg_lu("skipped", fg_jwks_skipped(keys)));
    end_fetch(issuer, keys, fg_hash64(fg_buf_slice(&request->answer)), &err);
}

static char *concat(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 1;
    char *text = fg_malloc(size);

    (void)snprintf(text, size, "%s%s", a, b);
    return text;
}

static void on_discovery(struct fg_client_request *request)
{
    struct issuer *issuer = fg_container(request, struct issuer, request);
    struct fg_err err = {.code = FG_OK};
    const char *url;

    fg_arena_reset(issuer->arena);
    if (check_answer(request, &err) != FG_OK ||
        fg_discovery_parse(fg_buf_slice(&request->answer), issuer->name, issuer->arena,
                           &issuer->found, &err) != FG_OK) {
        end_fetch(issuer, NULL, 0, &err);
        return;
    }
    url = issuer->keys_url[0] != '\0' ? issuer->keys_url : issuer->found.keys;
    fetch(issuer, fg_strdup(url), FG_JWKS_MAX_BYTES, on_keys);

    /* Takes over the document that was read. */
    struct fg_arena *old;

    (void)pthread_mutex_lock(&issuer->lock);
    old = issuer->discovery_arena;
    issuer->discovery_arena = issuer->arena;
    issuer->discovery = issuer->found;
    (void)pthread_mutex_unlock(&issuer->lock);
    issuer->arena = old != NULL ? old : fg_arena_create(FG_DISCOVERY_ARENA_BYTES);
}

static void begin_fetch(struct issuer *issuer)
{
    size_t len = strlen(issuer->name);
    bool slash = len > 0 && issuer->name[len - 1] == '/';

    if (issuer->keys_url[0] != '\0' && !issuer->discover)
        fetch(issuer, fg_strdup(issuer->keys_url), FG_JWKS_MAX_BYTES, on_keys);
    else /* OpenID Connect Discovery, 4.1: a slash at the end does not count */
        fetch(issuer, concat(issuer->name, &FG_DISCOVERY_PATH[slash ? 1 : 0]),
              FG_DISCOVERY_MAX_BYTES, on_discovery);
}

static void on_wake(struct fg_msg *msg)
{
    struct issuer *issuer = fg_container(msg, struct issuer, wake);

    atomic_flag_clear(&issuer->woken);
    if (uv_is_closing((uv_handle_t *)&issuer->issuers->timer) == 0)
        on_timer(&issuer->issuers->timer);
}

/* ---- verifying; any thread ---- */

static struct issuer *find(struct fg_issuers *issuers, struct fg_slice name)
{
    for (size_t i = 0; i < issuers->n; i++)
        if (fg_slice_is(name, issuers->list[i].name))
            return &issuers->list[i];
    return NULL;
}

bool fg_issuers_have(const struct fg_issuers *issuers, struct fg_slice name)
{
    for (size_t i = 0; i < issuers->n; i++)
        if (fg_slice_is(name, issuers->list[i].name))
            return true;
    return false;
}

static enum fg_code take_keys(struct issuer *issuer, struct fg_jwks **ret_keys,
                              uint64_t *ret_keys_hash, struct fg_err *err)
{
    struct fg_jwks *keys = NULL;

    (void)pthread_mutex_lock(&issuer->lock);
    if (fg_issuer_core_serves(&issuer->core, fg_mono_ns(issuer->issuers->clock)))
        keys = fg_jwks_ref(issuer->keys);
    *ret_keys_hash = atomic_load(&issuer->keys_hash);
    (void)pthread_mutex_unlock(&issuer->lock);
    if (keys == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "the keys of %s are not known yet, try again",
                       issuer->name);
    *ret_keys = keys;
    return FG_OK;
}

/* A key that we do not have may be a new one. The message is posted under the lock: whoever ends
 * the loop has said so under it before. */
static enum fg_code want_keys(struct issuer *issuer, struct fg_slice kid, struct fg_err *err)
{
    const int64_t now_ns = fg_mono_ns(issuer->issuers->clock);
    int64_t before_ns, due_ns;
    bool soon;

    (void)pthread_mutex_lock(&issuer->lock);
    before_ns = fg_issuer_core_due(&issuer->core);
    soon = issuer->running && fg_issuer_core_want(&issuer->core, fg_hash64_table(kid), now_ns);
    due_ns = fg_issuer_core_due(&issuer->core);
    if ((due_ns < before_ns || due_ns <= now_ns) && issuer->running &&
        !atomic_flag_test_and_set(&issuer->woken))
        fg_loop_post(issuer->issuers->loop, &issuer->wake);
    (void)pthread_mutex_unlock(&issuer->lock);
    if (!soon)
        return fg_fail(err, FG_E_DENIED, "%s has no key with the kid of the token", issuer->name);
    return fg_fail(err, FG_E_UNAVAILABLE, "the keys of %s are about to be fetched, try again",
                   issuer->name);
}

static enum fg_code verify(struct issuer *issuer, const struct fg_jwt *jwt,
                           const struct fg_jwt_rules *rules, struct fg_arena *arena,
                           struct fg_jwt_verified *ret_verified, uint64_t *ret_keys_hash,
                           struct fg_err *err)
{
    fg_auto(fg_jwks) *keys = NULL;
    enum fg_code code;

    if (take_keys(issuer, &keys, ret_keys_hash, err) != FG_OK)
        return err->code;
    code = fg_jwt_verify(jwt, keys, rules, arena, ret_verified, err);
    return code == FG_E_NOT_FOUND ? want_keys(issuer, jwt->kid, err) : code;
}

/* The identity of claims under the bindings, those of the issuer's settings among them. */
static enum fg_code make_identity(struct fg_issuers *issuers, const struct fg_identity *known,
                                  const struct fg_bindings *bindings, struct fg_arena *arena,
                                  struct fg_identity **ret_identity, struct fg_err *err)
{
    const struct issuer *issuer = find(issuers, known->issuer);
    struct fg_bindings all = issuer->bindings;
    struct fg_identity identity = *known;
    struct fg_access_role *roles;
    struct fg_claim *claims;
    uint32_t n_claims;

    all.more = bindings;
    if (fg_bindings_claims(&all, known->issuer, known->json, arena, &claims, &n_claims, err) !=
            FG_OK ||
        fg_bindings_roles(&all, known->issuer, claims, n_claims, arena, &roles, &identity.n_roles,
                          err) != FG_OK)
        return err->code;
    identity.roles = roles;
    identity.generation = bindings->generation;
    *ret_identity = fg_identity_create(&identity);
    return FG_OK;
}

static enum fg_code verify_new(struct fg_issuers *issuers, struct fg_slice token, int64_t now_s,
                               struct fg_arena *arena, struct fg_identity *ret_known,
                               struct fg_err *err)
{
    struct fg_jwt_rules rules = {.now_s = now_s};
    struct fg_jwt_verified verified = {.expires_s = 0};
    struct fg_jwt jwt = {.algorithm = 0};
    struct issuer *issuer;
    uint64_t keys_hash;

    if (fg_jwt_parse(token, arena, &jwt, err) != FG_OK)
        return err->code;
    issuer = find(issuers, jwt.issuer);
    if (issuer == NULL)
        return fg_fail(err, FG_E_DENIED, "token: its issuer is not in the settings");
    rules.issuer = issuer->name;
    rules.audience = issuer->audience;
    if (verify(issuer, &jwt, &rules, arena, &verified, &keys_hash, err) != FG_OK)
        return err->code;
    *ret_known = (struct fg_identity){.issuer = verified.issuer,
                                      .subject = verified.subject,
                                      .json = verified.claims,
                                      .expires_s = verified.expires_s,
                                      .keys = keys_hash};
    return FG_OK;
}

static void count(struct fg_issuers *issuers, enum fg_code code)
{
    fg_metric_add(issuers->metrics,
                  code == FG_OK              ? ISSUER_VERIFIED
                  : code == FG_E_UNAVAILABLE ? ISSUER_UNAVAILABLE
                                             : ISSUER_DENIED,
                  1);
}

/* Keys that changed since may not have verified the token: the issuer withdrew its key. */
static struct fg_identity *remembered(struct fg_issuers *issuers, const uint8_t *hash,
                                      int64_t now_s)
{
    fg_auto(fg_identity) *known = fg_verified_get(issuers->verified, hash, now_s);

    if (known == NULL || known->keys != atomic_load(&find(issuers, known->issuer)->keys_hash))
        return NULL;
    return fg_take(known);
}

enum fg_code fg_issuers_verify(struct fg_issuers *issuers, struct fg_slice token,
                               const struct fg_bindings *bindings, int64_t now_s,
                               struct fg_identity **ret_identity, struct fg_err *err)
{
    uint8_t hash[FG_VERIFIED_HASH_BYTES];
    fg_auto(fg_identity) *known = NULL;
    struct fg_identity fresh = {.json = {NULL, 0}};
    struct fg_arena *arena;
    enum fg_code code = FG_OK;

    if (token.len > FG_JWT_MAX_BYTES)
        return fg_fail(err, FG_E_DENIED, "token: more than 8 KiB");
    fg_assert(EVP_Digest(token.ptr, token.len, hash, NULL, issuers->sha256, NULL) == 1);
    known = remembered(issuers, hash, now_s);
    if (known != NULL) {
        fg_metric_add(issuers->metrics, ISSUER_REMEMBERED, 1);
        if (known->generation == bindings->generation) {
            *ret_identity = fg_take(known);
            return FG_OK;
        }
    }
    arena = fg_arena_create(FG_JWT_ARENA_BYTES);
    if (known == NULL) {
        code = verify_new(issuers, token, now_s, arena, &fresh, err);
        count(issuers, code);
    }
    if (code == FG_OK)
        code = make_identity(issuers, known != NULL ? known : &fresh, bindings, arena, ret_identity,
                             err);
    if (code == FG_OK)
        fg_verified_put(issuers->verified, hash, *ret_identity, now_s);
    fg_arena_destroy(arena);
    return code;
}

enum fg_code fg_issuers_verify_login(struct fg_issuers *issuers, const char *issuer,
                                     struct fg_slice token, const char *client_id,
                                     struct fg_slice nonce, int64_t now_s, struct fg_arena *arena,
                                     struct fg_jwt_verified *ret_verified, struct fg_err *err)
{
    const struct fg_jwt_rules rules = {
        .issuer = issuer, .audience = client_id, .nonce = nonce, .now_s = now_s};
    struct issuer *found = find(issuers, fg_cstr(issuer));
    struct fg_jwt jwt;
    uint64_t keys_hash;
    enum fg_code code;

    fg_assert(found != NULL && nonce.ptr != NULL);
    code = fg_jwt_parse(token, arena, &jwt, err);
    if (code == FG_OK)
        code = verify(found, &jwt, &rules, arena, ret_verified, &keys_hash, err);
    count(issuers, code);
    return code;
}

/* ---- what others ask ---- */

static bool copy_url(const char **url, struct fg_arena *arena)
{
    if (*url != NULL)
        *url = fg_arena_text(arena, fg_cstr(*url));
    else
        return true;
    return *url != NULL;
}

enum fg_code fg_issuers_discovery(struct fg_issuers *issuers, const char *issuer,
                                  struct fg_arena *arena, struct fg_discovery *ret_discovery,
                                  struct fg_err *err)
{
    struct issuer *found = find(issuers, fg_cstr(issuer));
    struct fg_discovery discovery = {.keys = NULL};
    bool ok;

    fg_assert(found != NULL);
    (void)pthread_mutex_lock(&found->lock);
    if (found->discovery_arena != NULL)
        discovery = found->discovery;
    ok = copy_url(&discovery.keys, arena) && copy_url(&discovery.authorization, arena) &&
         copy_url(&discovery.token, arena) && copy_url(&discovery.end_session, arena) &&
         copy_url(&discovery.device, arena);
    (void)pthread_mutex_unlock(&found->lock);
    if (!ok)
        return fg_fail(err, FG_E_LIMIT, "no memory left for requests, try again");
    if (discovery.keys == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "%s has not answered yet, try again", issuer);
    *ret_discovery = discovery;
    return FG_OK;
}

struct fg_loop *fg_issuers_loop(struct fg_issuers *issuers)
{
    return issuers->loop;
}

struct fg_client *fg_issuers_client(struct fg_issuers *issuers)
{
    return issuers->client;
}

const struct fg_client_tls *fg_issuers_tls(struct fg_issuers *issuers, const char *issuer)
{
    struct issuer *found = find(issuers, fg_cstr(issuer));

    fg_assert(found != NULL);
    return &found->tls;
}

/* ---- beginning and end ---- */

static enum fg_code check_config(const struct fg_issuers *issuers,
                                 const struct fg_issuer_config *config, struct fg_err *err)
{
    const char *fault = fg_access_url_fault(fg_cstr(config->issuer));

    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "issuer \"%.200s\" %s", config->issuer, fault);
    if (config->audience[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "issuer %.200s needs an audience", config->issuer);
    for (size_t i = 0; i < issuers->n; i++)
        if (strcmp(issuers->list[i].name, config->issuer) == 0)
            return fg_fail(err, FG_E_INVALID, "issuer %.200s is there twice", config->issuer);
    fault = config->keys_url[0] == '\0' ? NULL : fg_access_url_fault(fg_cstr(config->keys_url));
    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "keys_url \"%.200s\" %s", config->keys_url, fault);
    fault =
        config->tenant_claim[0] == '\0' ? NULL : fg_claim_path_fault(fg_cstr(config->tenant_claim));
    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "tenant_claim \"%.100s\" %s", config->tenant_claim,
                       fault);
    return FG_OK;
}

static void add_issuer(struct fg_issuers *issuers, const struct fg_issuer_config *config)
{
    struct issuer *issuer = &issuers->list[issuers->n++];
    int64_t now_ns = fg_mono_ns(issuers->clock);

    *issuer = (struct issuer){
        .issuers = issuers,
        .name = fg_strdup(config->issuer),
        .audience = fg_strdup(config->audience),
        .keys_url = fg_strdup(config->keys_url),
        .ca_file = fg_strdup(config->ca_file),
        .token_file = fg_strdup(config->token_file),
        .tenant_claim = fg_strdup(config->tenant_claim),
        .discover = config->discover,
        .arena = fg_arena_create(FG_DISCOVERY_ARENA_BYTES),
        .core = fg_issuer_core(now_ns),
        .since_mono_ns = now_ns,
        .wake.run = on_wake,
        .woken = ATOMIC_FLAG_INIT,
    };
    issuer->tls.ca_file = issuer->ca_file[0] == '\0' ? NULL : issuer->ca_file;
    issuer->tenant_binding = (struct fg_binding){.issuer = fg_cstr(issuer->name),
                                                 .claim = fg_cstr(issuer->tenant_claim),
                                                 .value = FG_LIT("*"),
                                                 .tenants = FG_LIT("{value}"),
                                                 .scopes = fg_role_scopes(FG_LIT("sender"))};
    issuer->bindings = (struct fg_bindings){.list = &issuer->tenant_binding,
                                            .n = issuer->tenant_claim[0] == '\0' ? 0 : 1};
    fg_assert(pthread_mutex_init(&issuer->lock, NULL) == 0);
}

enum fg_code fg_issuers_create(const struct fg_issuers_config *config,
                               struct fg_issuers **ret_issuers, struct fg_err *err)
{
    fg_auto(fg_issuers) *issuers = fg_new(struct fg_issuers);

    issuers->clock = config->clock;
    issuers->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    fg_assert(issuers->sha256 != NULL);
    issuers->verified = fg_verified_create();
    issuers->metrics =
        fg_metrics_register(config->registry, issuer_metrics, FG_COUNT(issuer_metrics));
    issuers->away = fg_condition_create(config->conditions, "access_issuer_away");
    if (config->n > FG_ISSUERS_MAX)
        return fg_fail(err, FG_E_INVALID, "more than %d issuers", FG_ISSUERS_MAX);
    for (size_t i = 0; i < config->n; i++) {
        if (check_config(issuers, &config->list[i], err) != FG_OK)
            return err->code;
        add_issuer(issuers, &config->list[i]);
    }
    *ret_issuers = fg_take(issuers);
    return FG_OK;
}

static void set_running(struct fg_issuers *issuers, bool running)
{
    for (size_t i = 0; i < issuers->n; i++) {
        (void)pthread_mutex_lock(&issuers->list[i].lock);
        issuers->list[i].running = running;
        (void)pthread_mutex_unlock(&issuers->list[i].lock);
    }
}

static void start_on_loop(void *arg)
{
    struct fg_issuers *issuers = arg;

    issuers->client = fg_client_create(&(struct fg_client_config){
        .loop = issuers->loop,
        .running_max = CLIENT_RUNNING_MAX,
        .waiting_max = CLIENT_WAITING_MAX,
    });
    fg_assert(uv_timer_init(fg_loop_uv(issuers->loop), &issuers->timer) == 0);
    issuers->timer.data = issuers;
    on_timer(&issuers->timer);
}

enum fg_code fg_issuers_start(struct fg_issuers *issuers, struct fg_err *err)
{
    issuers->loop = fg_loop_create("access");
    if (fg_loop_start(issuers->loop, err) != FG_OK) {
        fg_loop_destroy(issuers->loop);
        issuers->loop = NULL;
        return err->code;
    }
    fg_loop_call(issuers->loop, start_on_loop, issuers);
    set_running(issuers, true);
    return FG_OK;
}

static void stop_on_loop(void *arg)
{
    struct fg_issuers *issuers = arg;

    for (size_t i = 0; i < issuers->n; i++) {
        fg_client_cancel(&issuers->list[i].request);
        fg_client_clear(&issuers->list[i].request);
    }
    fg_client_close(issuers->client);
    uv_close((uv_handle_t *)&issuers->timer, NULL);
}

void fg_issuers_stop(struct fg_issuers *issuers)
{
    if (issuers->loop == NULL)
        return;
    set_running(issuers, false);
    fg_loop_call(issuers->loop, stop_on_loop, issuers);
    fg_loop_stop(issuers->loop);
    fg_client_destroy(issuers->client);
    fg_loop_destroy(issuers->loop);
    issuers->loop = NULL;
}

static void done(struct issuer *issuer)
{
    free(issuer->name);
    free(issuer->audience);
    free(issuer->keys_url);
    free(issuer->ca_file);
    free(issuer->token_file);
    free(issuer->tenant_claim);
    free(issuer->url);
    fg_arena_destroy(issuer->arena);
    fg_arena_destroy(issuer->discovery_arena);
    fg_jwks_unref(issuer->keys);
    (void)pthread_mutex_destroy(&issuer->lock);
}

void fg_issuers_destroy(struct fg_issuers *issuers)
{
    if (issuers == NULL)
        return;
    fg_assert(issuers->loop == NULL);
    for (size_t i = 0; i < issuers->n; i++)
        done(&issuers->list[i]);
    fg_verified_destroy(issuers->verified);
    fg_condition_destroy(issuers->away);
    EVP_MD_free(issuers->sha256);
    free(issuers);
}
