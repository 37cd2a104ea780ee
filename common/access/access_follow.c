#include "common/access/access_impl.h"
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/directory.h"
#include "common/storage/bucket/message_object.h"

enum {
    COPY_THREADS = 1,
    COPY_QUEUE = 4,
    TOKEN_FILE_MAX_BYTES = 4096,
    OBJECT_MAX_BYTES = FG_ACCESS_REGISTRY_MAX_BYTES + FG_MESSAGE_OBJECT_CRC_BYTES,
};

/* A read of the bucket takes milliseconds; longer, and the next look tries again. */
#define READ_TIMEOUT_NS (10 * FG_SECOND_NS)
/* After a change nobody waits longer for the look that shows it. */
#define REFRESH_MAX_NS (5 * FG_SECOND_NS)
/* How often the uses of tokens are written, and how long the process waits for it when it ends. */
#define WRITE_USES_NS         (10 * FG_MINUTE_NS)
#define WRITE_USES_TIMEOUT_NS (5 * FG_SECOND_NS)
/* The registry is said to be unreachable after so long. */
#define AWAY_AFTER_NS FG_MINUTE_NS

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
                                      .now_ms = fg_access_now_ms(access)};
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

bool fg_access_is_known(struct fg_access *access)
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
    if (!fg_access_is_known(access) && access->copy != NULL)
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
    const bool has_copy = !fg_access_is_known(access) && access->copy != NULL;
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

    if (fg_token_uses_write(access->uses, access->bucket, registry, fg_access_now_ms(access),
                            deadline_ns, &err) != FG_OK)
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

/* ---- start and end ---- */

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
