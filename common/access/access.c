#include "common/access/access.h"

#include "common/access/guard/attempts.h"
#include "common/access/guard/networks.h"
#include "common/access/keys/key_store.h"
#include "common/access/people/people.h"
#include "common/access/registry/token_uses_object.h"
#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "common/runtime/thread.h"
#include "common/runtime/ticker.h"
#include "common/storage/bucket/directory.h"
#include "common/storage/bucket/message_object.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <sys/random.h>

enum {
    COPY_THREADS = 1,
    COPY_QUEUE = 4,
    TOKEN_FILE_MAX_BYTES = 4096,
    OBJECT_MAX_BYTES = FG_ACCESS_REGISTRY_MAX_BYTES + FG_MESSAGE_OBJECT_CRC_BYTES,
    STRANGERS = 4096, /* credentials that are remembered */
};

/* A read of the bucket takes milliseconds; longer, and the next look tries again. */
#define READ_TIMEOUT_NS (10 * FG_SECOND_NS)
/* An unknown token makes the registry be read again if the last time is longer ago. */
#define READ_AGAIN_NS FG_SECOND_NS
/* After a change nobody waits longer for the look that shows it. */
#define REFRESH_MAX_NS (5 * FG_SECOND_NS)
/* How often the uses of tokens are written, and how long the process waits for it when it ends. */
#define WRITE_USES_NS         (10 * FG_MINUTE_NS)
#define WRITE_USES_TIMEOUT_NS (5 * FG_SECOND_NS)
/* The registry is said to be unreachable after so long. */
#define AWAY_AFTER_NS FG_MINUTE_NS

/* clang-format off */
#define ACCESS_METRICS(M)                                                                          \
    M(COUNTER, ACCESS_NO_CREDENTIALS, REFUSED("no_credentials"), REFUSED_HELP)                     \
    M(COUNTER, ACCESS_BAD_CREDENTIALS, REFUSED("bad_credentials"), REFUSED_HELP)                   \
    M(COUNTER, ACCESS_TOO_MANY, REFUSED("too_many_failures"), REFUSED_HELP)                        \
    M(COUNTER, ACCESS_NO_SCOPE, REFUSED("no_scope"), REFUSED_HELP)                                 \
    M(COUNTER, ACCESS_NOT_LOADED, REFUSED("registry_unknown"), REFUSED_HELP)                       \
    M(GAUGE, ACCESS_TOKENS, "flamegrid_access_tokens", "Tokens in the registry of access")         \
    M(GAUGE, ACCESS_TENANTS, "flamegrid_access_tenants", "Tenants in the registry of access")      \
    M(GAUGE, ACCESS_GENERATION, "flamegrid_access_registry_generation",                            \
      "Generation of the registry of access that this process uses")                               \
    M(COUNTER, ACCESS_READ_FAILURES, "flamegrid_access_registry_read_failures_total",              \
      "Reads of the registry of access that failed")
/* clang-format on */
#define REFUSED(reason) "flamegrid_access_refused_total{reason=\"" reason "\"}"
#define REFUSED_HELP    "Requests refused because of who sent them, by reason"
FG_METRICS_ENUM(access_metric, ACCESS_METRICS)
FG_METRICS_TABLE(access_metrics, ACCESS_METRICS)

/* Credentials that nobody knows, and since when they have been used. */
struct stranger {
    uint64_t key;
    int64_t since_mono_ns;
};

struct fg_access {
    struct fg_access_config config;
    enum fg_access_mode mode;
    struct fg_networks trusted;
    struct fg_http_guard guard, operators_guard;
    struct fg_attempts *attempts;
    struct fg_metrics *metrics;
    struct fg_condition *away, *damaged;
    struct fg_people *people; /* NULL: the settings have no issuer */
    struct fg_token_uses *uses;

    pthread_mutex_t lock;                 /* of those up to `strangers` */
    pthread_cond_t looked;                /* n_looked has grown */
    struct fg_access_registry *registry;  /* NULL: none was read yet; empty if there is none */
    uint64_t n_begun, n_looked;           /* looks: begun, ended */
    struct stranger strangers[STRANGERS]; /* by their keys; a newer one replaces an older one */
    uint64_t seed;                        /* of the keys */
    _Atomic int64_t seen_mono_ns;         /* when the bucket was asked last, and answered */
    _Atomic int64_t known_mono_ns;        /* ... with the registry in use; stored after that */
    _Atomic int64_t looked_mono_ns;       /* when it was asked last, whether it answered or not */

    /* Of the thread that looks. */
    struct fg_ticker *ticker;
    struct fg_ticker *uses_ticker;   /* NULL: nobody shows a token */
    struct fg_bucket *bucket, *copy; /* copy: NULL: none is kept */
    struct fg_bucket_stop *stop;
    struct fg_bucket_etag etag;
    struct fg_key_store *keys; /* NULL: nothing is encrypted */
};

/* ---- the registry ---- */

struct fg_access_registry *fg_access_registry(struct fg_access *access)
{
    struct fg_access_registry *registry;

    (void)pthread_mutex_lock(&access->lock);
    registry = access->registry == NULL ? NULL : fg_access_registry_ref(access->registry);
    (void)pthread_mutex_unlock(&access->lock);
    return registry;
}

bool fg_access_has_deleted(struct fg_access *access, struct fg_slice tenant)
{
    struct fg_access_registry *registry = access == NULL ? NULL : fg_access_registry(access);
    bool deleted =
        registry != NULL && fg_access_is_deleted(fg_access_find_tenant(registry, tenant));

    fg_access_registry_unref(registry);
    return deleted;
}

enum { LIMITS_MAX_BYTES = 8 * 1024 * 1024 }; /* of a tenant, as YAML */

/* Hands over the limits of tenants. */
static void set_limits(const struct fg_access *access, const Access__Registry *message)
{
    struct fg_tenant_override *items = fg_calloc(message->n_tenants + 1, sizeof *items);
    struct fg_buf *yaml = fg_calloc(message->n_tenants + 1, sizeof *yaml);
    size_t n = 0;

    for (size_t i = 0; i < message->n_tenants; i++) {
        const Access__Tenant *tenant = message->tenants[i];

        if (tenant->n_limits == 0)
            continue;
        fg_buf_init(&yaml[n], LIMITS_MAX_BYTES);
        fg_access_limits_yaml(tenant, &yaml[n]);
        items[n] = (struct fg_tenant_override){fg_cstr(tenant->id), fg_buf_slice(&yaml[n])};
        n++;
    }
    fg_tenants_override(access->config.tenants, items, n);
    for (size_t i = 0; i < n; i++)
        fg_buf_done(&yaml[i]);
    free(yaml);
    free(items);
}

/* Takes over the reference. */
static void use(struct fg_access *access, struct fg_access_registry *registry)
{
    struct fg_access_registry *old;

    if (access->config.tenants != NULL)
        set_limits(access, registry->message);
    (void)pthread_mutex_lock(&access->lock);
    old = access->registry;
    access->registry = registry;
    (void)pthread_mutex_unlock(&access->lock);
    fg_key_store_see(access->keys, registry);
    /* Outside of the lock: the loops wait for it. Requests have references of their own. */
    fg_access_registry_unref(old);
    fg_metric_set(access->metrics, ACCESS_TOKENS, (int64_t)registry->message->n_tokens);
    fg_metric_set(access->metrics, ACCESS_TENANTS, (int64_t)registry->message->n_tenants);
    fg_metric_set(access->metrics, ACCESS_GENERATION, (int64_t)registry->message->generation);
}

static int64_t now_ms(const struct fg_access *access)
{
    return fg_wall_ns(access->config.clock) / FG_MS_NS;
}

/* Reads the token of the file. Returns false and logs why if it has none. */
static bool read_token_file(const char *path, struct fg_token *ret_token)
{
    struct fg_buf text;
    struct fg_err err;
    bool good = false;

    fg_buf_init(&text, TOKEN_FILE_MAX_BYTES);
    if (fg_conf_read_file(path, &text, &err) != FG_OK) {
        fg_log_error("access.bootstrap_token_file cannot be read", fg_ls("err", err.msg));
    } else {
        good = fg_token_read(fg_trim(fg_buf_slice(&text)), ret_token);
        if (!good)
            fg_log_error("access.bootstrap_token_file has no token, or one with a typing error",
                         fg_ls("file", path));
    }
    fg_buf_done(&text);
    return good;
}

/* Adds the token of access.bootstrap_token_file in memory, unless there is an admin. */
static enum fg_code add_bootstrap_token(const struct fg_access *access, struct fg_arena *arena,
                                        Access__Registry *message, struct fg_err *err)
{
    const char *path = access->config.settings->bootstrap_token_file;
    struct fg_access_change change = {.registry = message,
                                      .arena = arena,
                                      .by = "access.bootstrap_token_file",
                                      .now_ms = now_ms(access)};
    Access__Token added;
    Access__Secret secret = ACCESS__SECRET__INIT, *secrets[] = {&secret};
    char all[] = "*", name[] = "bootstrap", *tenants[] = {all};
    enum fg_code code;
    struct fg_token token;

    if (path[0] == '\0' || fg_access_has_admin(message, change.now_ms) ||
        !read_token_file(path, &token))
        return FG_OK;
    access__token__init(&added);
    secret.sha256 = (ProtobufCBinaryData){FG_TOKEN_HASH_BYTES, token.hash};
    added.id = token.id;
    added.name = name;
    added.n_tenants = 1;
    added.tenants = tenants;
    added.scopes = FG_SCOPE_ADMIN | FG_SCOPE_TENANT_ADMIN;
    added.n_secrets = 1;
    added.secrets = secrets;
    code = fg_access_create_token(&change, &added, err);
    if (code != FG_E_LIMIT)
        return code;
    /* What a full registry has is worth more than this token. */
    fg_log_error("access.bootstrap_token_file is not used", fg_ls("err", err->msg));
    return FG_OK;
}

static uint64_t known_generation(struct fg_access *access)
{
    struct fg_access_registry *registry = fg_access_registry(access);
    uint64_t generation = registry == NULL ? 0 : registry->message->generation;

    fg_access_registry_unref(registry);
    return generation;
}

/* Takes a message over. arena: it is in; consumed. */
static enum fg_code adopt_registry(struct fg_access *access, struct fg_arena *arena,
                                   Access__Registry *message, struct fg_err *err)
{
    struct fg_access_registry *registry = NULL;

    if (add_bootstrap_token(access, arena, message, err) != FG_OK) {
        fg_arena_destroy(arena);
        return err->code;
    }
    if (fg_access_registry_create(message, arena, &registry, err) != FG_OK)
        return err->code;
    if (fg_token_uses_bind(access->uses, registry, err) != FG_OK) {
        fg_access_registry_unref(registry);
        return err->code;
    }
    use(access, registry);
    return FG_OK;
}

/* Takes the bytes of the object over; NULL: there is no object. known: the generation that they
 * have at least. */
static enum fg_code take_bytes(struct fg_access *access, const struct fg_slice *bytes,
                               uint64_t known, struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(FG_ACCESS_ARENA_MAX_BYTES);
    struct fg_message_object object = fg_access_object(NULL, arena, 0);
    Access__Registry none = ACCESS__REGISTRY__INIT, *message = NULL;
    ProtobufCMessage *decoded;

    if (bytes == NULL) {
        message = fg_arena_new(arena, Access__Registry, 1);
        if (message != NULL)
            *message = none;
    } else if (fg_message_object_decode(&object, *bytes, &decoded, err) == FG_OK) {
        message = (Access__Registry *)decoded;
    } else {
        fg_arena_destroy(arena);
        return err->code;
    }
    if (message == NULL) {
        fg_arena_destroy(arena);
        return fg_fail(err, FG_E_LIMIT, "no memory for the registry of access");
    }
    if (fg_access_check_generation(message->generation, known, err) != FG_OK) {
        fg_arena_destroy(arena);
        return err->code;
    }
    return adopt_registry(access, arena, message, err);
}

static void keep_copy(struct fg_access *access, struct fg_slice bytes)
{
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT, .name = FG_ACCESS_REGISTRY_NAME, .content = bytes};

    if (access->copy == NULL)
        return;
    if (fg_bucket_call(access->copy, &put) != FG_OK)
        fg_log_warn("the copy of the registry of access could not be written",
                    fg_ls("err", put.err.msg));
    fg_bucket_clear(&put);
}

static struct fg_bucket_request get_copy(void)
{
    return (struct fg_bucket_request){.verb = FG_BUCKET_GET,
                                      .name = FG_ACCESS_REGISTRY_NAME,
                                      .content_max_bytes = OBJECT_MAX_BYTES};
}

/* Returns the generation of the copy; 0: there is none that can be read. */
static uint64_t copied_generation(struct fg_access *access)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_ACCESS_ARENA_MAX_BYTES);
    struct fg_message_object object = fg_access_object(NULL, arena, 0);
    struct fg_bucket_request get = get_copy();
    ProtobufCMessage *message;
    uint64_t generation = 0;
    struct fg_err ignored;

    if (fg_bucket_call(access->copy, &get) == FG_OK &&
        fg_message_object_decode(&object, fg_buf_slice(&get.body), &message, &ignored) == FG_OK)
        generation = ((const Access__Registry *)message)->generation;
    fg_bucket_clear(&get);
    return generation;
}

/* After a start without the bucket, or without a good registry in it. */
static void take_copy(struct fg_access *access, const struct fg_err *why)
{
    struct fg_bucket_request get = get_copy();
    struct fg_slice bytes;
    struct fg_err err;

    if (fg_bucket_call(access->copy, &get) != FG_OK) {
        if (get.code != FG_E_NOT_FOUND)
            fg_log_warn("the copy of the registry of access could not be read",
                        fg_ls("err", get.err.msg));
    } else if (bytes = fg_buf_slice(&get.body), take_bytes(access, &bytes, 0, &err) != FG_OK) {
        fg_log_warn("the copy of the registry of access is damaged", fg_ls("err", err.msg));
    } else {
        fg_log_warn("using the copy of the registry of access",
                    fg_ls("folder", access->config.settings->copy), fg_ls("why", why->msg));
    }
    fg_bucket_clear(&get);
}

static bool is_known(struct fg_access *access)
{
    bool known;

    (void)pthread_mutex_lock(&access->lock);
    known = access->registry != NULL;
    (void)pthread_mutex_unlock(&access->lock);
    return known;
}

/* The bucket did not answer, or nonsense. */
static void look_failed(struct fg_access *access, const struct fg_err *err)
{
    int64_t since_ns = fg_mono_ns(access->config.clock) -
                       atomic_load_explicit(&access->seen_mono_ns, memory_order_relaxed);

    fg_metric_add(access->metrics, ACCESS_READ_FAILURES, 1);
    if (err->code == FG_E_CANCELED)
        return;
    fg_log_warn("the registry of access could not be read", fg_ls("err", err->msg));
    if (!is_known(access) && access->copy != NULL)
        take_copy(access, err);
    if (since_ns >= AWAY_AFTER_NS)
        fg_condition_raise(access->away,
                           "the registry of access (tenants, tokens) could not be read for %lld s; "
                           "the last known one is used: %s",
                           (long long)(since_ns / FG_SECOND_NS), err->msg);
}

/* The bucket has answered. bytes NULL: there is no object. Returns whether the registry in use is
 * that of the bucket. */
static bool look_answered(struct fg_access *access, const struct fg_slice *bytes,
                          const struct fg_bucket_etag *etag)
{
    const bool has_copy = !is_known(access) && access->copy != NULL;
    /* Nobody deletes it on purpose, or puts an older one in its place while we run: without its
     * tokens and keys nobody may do anything. Not after a restart either, if a copy shows it: only
     * who deletes the copy, too, goes on with what is there. */
    uint64_t known = has_copy ? copied_generation(access) : known_generation(access);
    struct fg_err err;

    if (take_bytes(access, bytes, known, &err) != FG_OK) {
        fg_metric_add(access->metrics, ACCESS_READ_FAILURES, 1);
        if (has_copy)
            take_copy(access, &err);
        fg_condition_raise(access->damaged,
                           "the registry of access is not used, the last good one is: %s", err.msg);
        return false;
    }
    fg_condition_clear(access->damaged);
    /* A file of a bootstrap token may be written later than we start: without a registry it is
     * looked at each time. The copy is never replaced by an older one: that was not taken. */
    if (bytes != NULL) {
        access->etag = *etag;
        keep_copy(access, *bytes);
    }
    return true;
}

static void read_registry(struct fg_access *access)
{
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET,
        .name = FG_ACCESS_REGISTRY_NAME,
        .content_max_bytes = OBJECT_MAX_BYTES,
        .condition = access->etag.text[0] == '\0' ? FG_BUCKET_ALWAYS : FG_BUCKET_IF_CHANGED,
        .if_etag = access->etag,
        .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + READ_TIMEOUT_NS,
    };
    int64_t now_ns = fg_mono_ns(access->config.clock); /* what comes is of then or later */
    enum fg_code code = fg_bucket_call_until(access->bucket, &get, access->stop);
    struct fg_slice bytes = fg_buf_slice(&get.body);

    atomic_store_explicit(&access->looked_mono_ns, now_ns, memory_order_relaxed);
    if (code != FG_OK && code != FG_E_NOT_FOUND) {
        look_failed(access, &get.err);
    } else {
        atomic_store_explicit(&access->seen_mono_ns, now_ns, memory_order_relaxed);
        fg_condition_clear(access->away);
        if (code == FG_OK && get.unchanged)
            fg_condition_clear(access->damaged);
        if ((code == FG_OK && get.unchanged) ||
            look_answered(access, code == FG_OK ? &bytes : NULL, &get.etag))
            atomic_store_explicit(&access->known_mono_ns, now_ns, memory_order_release);
    }
    fg_bucket_clear(&get);
}

void fg_access_look(struct fg_access *access)
{
    uint64_t number;

    (void)pthread_mutex_lock(&access->lock);
    number = ++access->n_begun;
    (void)pthread_mutex_unlock(&access->lock);
    read_registry(access);
    (void)pthread_mutex_lock(&access->lock);
    access->n_looked = number;
    (void)pthread_cond_broadcast(&access->looked);
    (void)pthread_mutex_unlock(&access->lock);
}

static void tick(void *arg)
{
    fg_access_look(arg);
}

/* ---- the uses of tokens ---- */

static void write_uses(void *arg)
{
    struct fg_access *access = arg;
    struct fg_access_registry *registry = fg_access_registry(access);
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + WRITE_USES_TIMEOUT_NS;
    struct fg_err err;

    if (fg_token_uses_write(access->uses, access->bucket, registry, now_ms(access), deadline_ns,
                            &err) != FG_OK)
        fg_log_warn("when tokens were used last could not be written, will retry",
                    fg_ls("err", err.msg));
    fg_access_registry_unref(registry);
}

enum fg_code fg_access_uses(struct fg_access *access, struct fg_arena *arena,
                            const Access__TokenUses **ret_uses, struct fg_err *err)
{
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + READ_TIMEOUT_NS;

    return fg_token_uses_read(access->uses, access->bucket, deadline_ns, arena, ret_uses, err);
}

/* ---- the guard ---- */

/* The decision about a request, attached to it and in its arena. */
struct attached {
    struct fg_grant grant;               /* first: handlers get it */
    struct fg_access_registry *registry; /* a reference; NULL: none */
    int64_t known_mono_ns;               /* the bucket had this registry then, or later */
    struct fg_person person;             /* zeroed: a token of ours, or nobody */
    struct fg_access *access;
    const struct fg_http_request *req;
};

/* Refusals may come as fast as requests, so equal ones are summed up. The route stands for the
 * path, since a stranger can think of any number of paths. */
static void record_refusal(struct fg_access *access, const struct fg_http_request *req,
                           const char *id, const struct fg_err *err)
{
    fg_audit_count(
        access->config.audit,
        &(struct fg_audit_event){.kind = FG_AUDIT_REFUSED,
                                 .token = fg_cstr(id),
                                 .method = fg_cstr(fg_http_method_name(fg_http_method(req))),
                                 .route = fg_http_route_path(req),
                                 .detail = fg_cstr(err->msg),
                                 .source = fg_http_peer(req),
                                 .status = fg_code_http(err->code)});
}

/* Counts, records and logs a refusal. Too many of one address become 429. */
static void refuse(struct fg_access *access, const struct fg_http_request *req, const char *id,
                   struct fg_err *err)
{
    if (err->code == FG_E_DENIED) {
        fg_metric_add(access->metrics, ACCESS_NO_SCOPE, 1);
    } else if (fg_http_header(req, "Authorization").ptr == NULL) {
        fg_metric_add(access->metrics, ACCESS_NO_CREDENTIALS, 1);
        return; /* every log-in of a person begins like this */
    } else if (!fg_attempts_take(access->attempts, fg_http_peer(req),
                                 fg_mono_ns(access->config.clock))) {
        fg_metric_add(access->metrics, ACCESS_TOO_MANY, 1);
        (void)fg_fail(err, FG_E_LIMIT,
                      "too many requests with wrong credentials from this address "
                      "(access.failures_per_minute)");
        record_refusal(access, req, "", err);
        return;
    } else {
        fg_metric_add(access->metrics, ACCESS_BAD_CREDENTIALS, 1);
    }
    record_refusal(access, req, id, err);
    fg_log_warn("request refused", fg_lb("peer", fg_http_peer(req)),
                fg_lb("path", fg_http_path(req)), fg_ls("token", id), fg_ls("err", err->msg));
}

/* Queries need a registry of today. Pushes go on: losing profiles would help nobody. */
static bool is_too_old(const struct fg_access *access, unsigned scopes)
{
    int64_t age_ns = fg_mono_ns(access->config.clock) -
                     atomic_load_explicit(&access->seen_mono_ns, memory_order_relaxed);

    return access->mode == FG_ACCESS_TOKEN && !(scopes & (FG_SCOPE_PUSH | FG_SCOPE_FORWARD)) &&
           age_ns > access->config.settings->stale_max_ns;
}

/*
 * Returns since when these credentials, or the name of this tenant, have been used without success,
 * or INT64_MIN: for too long to be new. A fixed number of them is remembered, and the first use of
 * each is an attempt of its address: whoever thinks of ever new ones is refused like anybody with
 * wrong ones.
 */
static int64_t stranger_since(struct fg_access *access, const struct fg_http_request *req,
                              struct fg_slice text, int64_t now_ns)
{
    uint64_t key = fg_mix64(fg_hash64(text) ^ access->seed);
    struct stranger *stranger = &access->strangers[key % STRANGERS];
    int64_t since_ns = INT64_MIN;

    (void)pthread_mutex_lock(&access->lock);
    if (stranger->key != key && fg_attempts_take(access->attempts, fg_http_peer(req), now_ns))
        *stranger = (struct stranger){key, now_ns};
    if (stranger->key == key)
        since_ns = stranger->since_mono_ns;
    (void)pthread_mutex_unlock(&access->lock);
    return since_ns;
}

/* Has the registry read again, once a second at most, also while the bucket does not answer. */
static void read_again(struct fg_access *access)
{
    int64_t since_ns = fg_mono_ns(access->config.clock) -
                       atomic_load_explicit(&access->looked_mono_ns, memory_order_relaxed);

    if (since_ns > READ_AGAIN_NS)
        fg_access_wake(access);
    fg_metric_add(access->metrics, ACCESS_NOT_LOADED, 1);
}

/*
 * Returns whether a token that was refused may have been created, or have got its secret, after the
 * registry was read by which it was refused. Agents drop what gets a 401, so such a request is to
 * come again, until the registry was read after its first time. One that is damaged was not read.
 */
static bool may_be_new(struct fg_access *access, const struct fg_http_request *req,
                       const struct attached *attached, const char *id)
{
    /* The mode header refuses requests before it has read any registry. */
    const Access__Token *token = attached->registry == NULL
                                     ? NULL
                                     : fg_access_find_token(attached->registry, fg_cstr(id), NULL);

    if (id[0] == '\0' || (token != NULL && fg_access_token_has_ended(token, now_ms(access))))
        return false;
    return attached->known_mono_ns < stranger_since(access, req,
                                                    fg_http_header(req, "Authorization"),
                                                    fg_mono_ns(access->config.clock));
}

/* The same of a tenant: what agents of a new one push before each process has read of it must not
 * get a 403, which they drop. Of struct fg_grant. */
static bool tenant_may_be_new(void *arg, struct fg_slice tenant)
{
    const struct attached *attached = arg;
    struct fg_access *access = attached->access;

    if (attached->known_mono_ns >=
        stranger_since(access, attached->req, tenant, fg_mono_ns(access->config.clock)))
        return false;
    read_again(access);
    return true;
}

/* Finds out whether an issuer or a session vouches for the caller. false: what the request has is
 * not valid, or cannot be judged now. */
static bool identify(struct fg_access *access, struct fg_http_request *req, unsigned scopes,
                     struct attached *attached, struct fg_access_facts *facts, struct fg_err *err)
{
    if (access->people == NULL || access->mode != FG_ACCESS_TOKEN)
        return true;
    switch (fg_people_identify(access->people, req, attached->registry, scopes, &attached->person,
                               err)) {
    case FG_OK:
        facts->identity = &attached->person.identity;
        return true;
    case FG_E_NOT_FOUND:
        return true;
    case FG_E_NO_TENANT:
        if (facts->authorization.ptr != NULL) {
            fg_log_info("a token of an issuer was refused", fg_lb("peer", fg_http_peer(req)),
                        fg_ls("err", err->msg));
            (void)fg_fail(err, FG_E_NO_TENANT, "the credentials are not valid");
        }
        refuse(access, req, "", err);
        return false;
    default:
        fg_metric_add(access->metrics,
                      err->code == FG_E_DENIED ? ACCESS_NO_SCOPE : ACCESS_NOT_LOADED, 1);
        return false;
    }
}

static bool decide(struct fg_access *access, struct fg_http_request *req, bool operators,
                   unsigned scopes, struct attached *attached, struct fg_err *err)
{
    struct fg_access_facts facts = {
        .mode = access->mode,
        .trusted =
            access->mode == FG_ACCESS_HEADER &&
            (fg_http_has_certificate(req) || fg_networks_have(&access->trusted, fg_http_peer(req))),
        .operators = operators,
        .authorization = fg_http_header(req, "Authorization"),
        .scopes = scopes,
        .now_ms = now_ms(access),
    };
    char id[FG_TOKEN_ID_CHARS + 1];

    if (access->mode == FG_ACCESS_TOKEN &&
        (attached->registry == NULL || is_too_old(access, scopes))) {
        fg_metric_add(access->metrics, ACCESS_NOT_LOADED, 1);
        (void)fg_fail(err, FG_E_UNAVAILABLE,
                      "the registry of access cannot be read from the bucket, try again");
        return false;
    }
    if (!identify(access, req, scopes, attached, &facts, err))
        return false;
    if (fg_access_decide(&facts, attached->registry, &attached->grant, id, err) == FG_OK) {
        fg_token_use_note(attached->grant.use, facts.now_ms);
        attached->grant.may_be_new = tenant_may_be_new;
        attached->grant.arg = attached;
        return true;
    }
    if (err->code == FG_E_NO_TENANT && may_be_new(access, req, attached, id)) {
        read_again(access);
        (void)fg_fail(err, FG_E_UNAVAILABLE,
                      "the token may be new: the registry is read again, try again");
        return false;
    }
    refuse(access, req, id, err);
    return false;
}

static bool admit(struct fg_access *access, struct fg_http_request *req, bool operators,
                  unsigned scopes, struct fg_err *err)
{
    struct attached *attached = fg_arena_alloc(fg_http_arena(req), sizeof *attached);

    if (attached == NULL) {
        (void)fg_fail(err, FG_E_LIMIT, "no memory left for requests, try again");
        return false;
    }
    attached->access = access;
    attached->req = req;
    /* Before the registry, which is of that time or later: a new one that comes in between must not
     * make this one look as new. */
    attached->known_mono_ns = atomic_load_explicit(&access->known_mono_ns, memory_order_acquire);
    attached->registry = fg_access_registry(access);
    attached->person = (struct fg_person){.verified = NULL};
    if (!decide(access, req, operators, scopes, attached, err)) {
        if (err->code == FG_E_NO_TENANT)
            fg_people_challenge(access->people, req);
        fg_person_done(&attached->person);
        fg_access_registry_unref(attached->registry);
        return false;
    }
    fg_http_set_grant(req, attached);
    return true;
}

static bool admit_client(void *arg, struct fg_http_request *req, unsigned scopes,
                         struct fg_err *err)
{
    return admit(arg, req, false, scopes, err);
}

static bool admit_operator(void *arg, struct fg_http_request *req, unsigned scopes,
                           struct fg_err *err)
{
    return admit(arg, req, true, scopes, err);
}

static void release(void *arg, void *grant)
{
    struct attached *attached = grant;

    (void)arg;
    fg_person_done(&attached->person);
    fg_access_registry_unref(attached->registry);
}

static bool log_in(void *arg, struct fg_http_request *req)
{
    struct fg_access *access = arg;

    return access->mode == FG_ACCESS_TOKEN && fg_people_log_in(access->people, req);
}

const struct fg_http_guard *fg_access_guard(struct fg_access *access)
{
    return &access->guard;
}

const struct fg_http_guard *fg_access_operators_guard(struct fg_access *access)
{
    return &access->operators_guard;
}

const struct fg_grant *fg_access_grant(const struct fg_http_request *req)
{
    static const struct fg_grant anyone = {.kind = FG_GRANT_ANYONE, .demanded = FG_SCOPE_KNOWN};
    const struct attached *attached = fg_http_grant(req);

    return attached == NULL ? &anyone : &attached->grant;
}

const struct fg_session *fg_access_session(const struct fg_http_request *req)
{
    const struct attached *attached = fg_http_grant(req);

    return attached == NULL || attached->person.session.subject.ptr == NULL
               ? NULL
               : &attached->person.session;
}

void fg_access_routes(struct fg_access *access, struct fg_http_server *server)
{
    fg_people_routes(access->people, server);
}

struct fg_audit_event fg_access_audit_event(const struct fg_http_request *req,
                                            enum fg_audit_kind kind, struct fg_access_who *who)
{
    const struct fg_grant *grant = fg_access_grant(req);

    fg_grant_describe(grant, who->text, sizeof who->text);
    return (struct fg_audit_event){
        .kind = kind,
        .who = fg_cstr(who->text),
        .token = grant->kind == FG_GRANT_TOKEN ? fg_cstr(grant->token->id) : FG_LIT(""),
        .session = grant->kind == FG_GRANT_IDENTITY ? grant->identity.subject : FG_LIT(""),
        .issuer = grant->kind == FG_GRANT_IDENTITY ? grant->identity.issuer : FG_LIT(""),
        .method = fg_cstr(fg_http_method_name(fg_http_method(req))),
        .route = kind == FG_AUDIT_REFUSED ? fg_http_route_path(req) : fg_http_path(req),
        .source = fg_http_peer(req),
    };
}

/* Writes those of the tenants that exist, as "a|b": a stranger can think of any number of others.
 * The texts of what is counted are cut anyway. */
static struct fg_slice known_tenants(const struct fg_access_registry *registry,
                                     struct fg_slice names, char *out, size_t size)
{
    struct fg_tenant_ids ids;
    struct fg_err ignored;
    size_t len = 0;

    out[0] = '\0';
    if (registry == NULL || fg_tenant_ids_parse(names, &ids, &ignored) != FG_OK)
        return fg_cstr(out);
    for (size_t i = 0; i < ids.n; i++)
        if (fg_access_find_tenant(registry, ids.ids[i]) != NULL && len + ids.ids[i].len + 2 < size)
            len += (size_t)snprintf(out + len, size - len, "%s%.*s", len == 0 ? "" : "|",
                                    FG_S(ids.ids[i]));
    return fg_cstr(out);
}

/* Records that a caller asked for a tenant that it has no access to. */
static enum fg_code record_denied(const struct fg_http_request *req, struct fg_tenant_names names,
                                  enum fg_code code, const struct fg_err *err)
{
    const struct attached *attached = fg_http_grant(req);
    struct fg_access_who who;
    struct fg_audit_event event;
    char tenants[2 * (FG_TENANT_MAX_BYTES + 1)];

    if (code != FG_E_DENIED || attached == NULL)
        return code;
    event = fg_access_audit_event(req, FG_AUDIT_REFUSED, &who);
    event.tenant =
        known_tenants(attached->registry, names.header.len > 0 ? names.header : names.param,
                      tenants, sizeof tenants);
    event.detail = fg_cstr(err->msg);
    event.status = fg_code_http(code);
    fg_audit_count(attached->access->config.audit, &event);
    return code;
}

static enum fg_code read_names(struct fg_http_request *req, struct fg_tenant_names *ret_names,
                               struct fg_err *err)
{
    *ret_names = (struct fg_tenant_names){.header = fg_http_header(req, FG_TENANT_HEADER)};
    return fg_http_params(req, "tenant", &ret_names->param, 1) <= 1
               ? FG_OK
               : fg_fail(err, FG_E_DENIED, "the request has several parameters tenant");
}

enum fg_code fg_access_tenants(struct fg_http_request *req, bool several,
                               struct fg_tenant_ids *ret_ids, struct fg_err *err)
{
    struct fg_tenant_names names;
    enum fg_code code = read_names(req, &names, err);

    if (code == FG_OK)
        code = fg_grant_tenants(fg_access_grant(req), several, names, ret_ids, err);
    return record_denied(req, names, code, err);
}

enum fg_code fg_access_tenant(struct fg_http_request *req, bool several, struct fg_slice *ret_id,
                              struct fg_err *err)
{
    struct fg_tenant_names names;
    enum fg_code code = read_names(req, &names, err);

    if (code == FG_OK)
        code = fg_grant_tenant(fg_access_grant(req), several, names, ret_id, err);
    return record_denied(req, names, code, err);
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
    if (access->mode != FG_ACCESS_TOKEN || is_known(access))
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
    access->uses = fg_token_uses_create(now_ms(access));
    access->attempts = fg_attempts_create((unsigned)config->settings->failures_per_minute, seed);
    access->metrics =
        fg_metrics_register(config->registry, access_metrics, FG_COUNT(access_metrics));
    access->away = fg_condition_create(config->conditions, "access_registry_away");
    access->damaged = fg_condition_create(config->conditions, "access_registry_damaged");
    access->guard = (struct fg_http_guard){admit_client, release, log_in, access, NULL};
    access->operators_guard = (struct fg_http_guard){admit_operator, release, log_in, access, NULL};
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

enum fg_code fg_access_follow(struct fg_access *access, struct fg_bucket *bucket,
                              struct fg_err *err)
{
    const struct fg_access_settings *settings = access->config.settings;
    const struct fg_bucket_directory_config copy = {
        .path = settings->copy, .threads = COPY_THREADS, .queue_max = COPY_QUEUE};
    const struct fg_ticker_config ticker = {
        .name = "access", .period_ns = settings->poll_ns, .tick = tick, .arg = access};
    const struct fg_ticker_config uses = {
        .name = "token-uses", .period_ns = WRITE_USES_NS, .tick = write_uses, .arg = access};

    access->bucket = bucket;
    access->stop = fg_bucket_stop_create();
    if (access->config.encryption != NULL &&
        fg_key_store_create(&(struct fg_key_store_config){.settings = access->config.encryption,
                                                          .bucket = bucket,
                                                          .by = "flamegrid",
                                                          .clock = access->config.clock,
                                                          .registry = access->config.registry},
                            &access->keys, err) != FG_OK)
        return err->code;
    if (settings->copy[0] != '\0' && fg_bucket_directory_open(&copy, &access->copy, err) != FG_OK)
        return fg_wrap(err, "setting access.copy");
    if (fg_ticker_create(&ticker, &access->ticker, err) != FG_OK ||
        (access->mode == FG_ACCESS_TOKEN &&
         fg_ticker_create(&uses, &access->uses_ticker, err) != FG_OK))
        return err->code;
    fg_ticker_wake(access->ticker);
    return fg_people_start(access->people, bucket, err);
}

struct fg_key_store *fg_access_keys(struct fg_access *access)
{
    return access->keys;
}

void fg_access_unfollow(struct fg_access *access)
{
    if (access->stop == NULL)
        return;
    fg_people_stop(access->people);
    fg_bucket_stop_all(access->stop);
    fg_ticker_destroy(access->ticker);
    access->ticker = NULL;
    fg_ticker_destroy(access->uses_ticker);
    access->uses_ticker = NULL;
    write_uses(access);
    fg_bucket_stop_destroy(access->stop);
    access->stop = NULL;
    fg_bucket_close(access->copy);
    access->copy = NULL;
    fg_key_store_destroy(access->keys);
    access->keys = NULL;
    access->bucket = NULL;
}

void fg_access_wake(struct fg_access *access)
{
    if (access->ticker != NULL)
        fg_ticker_wake(access->ticker);
}

void fg_access_refresh(struct fg_access *access)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + REFRESH_MAX_NS;
    const struct timespec until = {until_ns / FG_SECOND_NS, until_ns % FG_SECOND_NS};
    uint64_t before;

    if (access->ticker == NULL)
        return;
    (void)pthread_mutex_lock(&access->lock);
    before = access->n_begun; /* one that is under way may have read what was there before */
    fg_ticker_wake(access->ticker);
    while (access->n_looked <= before &&
           pthread_cond_timedwait(&access->looked, &access->lock, &until) == 0)
        continue;
    (void)pthread_mutex_unlock(&access->lock);
}
