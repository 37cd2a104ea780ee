#include "ingester/forward/targets.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/base/timespec.h"
#include "common/model/tenant_id.h"
#include "common/runtime/document.h"

#include <stdlib.h>

enum { SELECTORS_MAX_BYTES = 4 * 1024 * 1024 }; /* of all targets: 16 of 64 KiB, as trees */

#define CONF(field) FG_CONF_AT(struct ing_forward_settings, field)

/* clang-format off */
const struct fg_conf_field ing_forward_fields[] = {
    {"targets", FG_CONF_YAML, CONF(targets), .def = "", .max = "262144",
     .doc = "Servers to which profiles are forwarded, up to 16, each a map: `[{name: central, url: 'https://profiles.example', token_file: /run/keys/forward}]`. [Forwarding](operations/forwarding.md) lists the keys."},
};
#undef CONF

#define CONF(field) FG_CONF_AT(struct ing_target_settings, field)

const struct fg_conf_field ing_target_fields[] = {
    {"name", FG_CONF_STRING, CONF(name), .def = "", .max = "128",
     .doc = "Name of the target. Its queue belongs to the name: a target that gets another name starts with an empty queue."},
    {"url", FG_CONF_STRING, CONF(url), .def = "", .max = "4096",
     .doc = "URL of the server, `http` or `https`, without the path of a route."},
    {"protocol", FG_CONF_ENUM, CONF(protocol), .def = "auto", .choices = "auto|flamegrid|push",
     .doc = "`flamegrid` carries ids, so each profile counts once. `push` is push.v1 of any Pyroscope, which counts a profile twice that is sent again. `auto` uses `flamegrid` where the target has it, and asks again every hour where it has not."},
    {"tenant", FG_CONF_STRING, CONF(tenant), .def = "", .max = "150",
     .doc = "Tenant there (`X-Scope-OrgID`). Empty: each profile goes to the tenant that it has here."},
    {"selector", FG_CONF_STRING, CONF(selector), .def = "", .max = "65536",
     .doc = "Profiles that are forwarded, such as `{env!=\"dev\"}`. Empty: all. Checked when a profile is sent, so a new selector holds for all that waits."},
    {"relabel", FG_CONF_YAML, CONF(relabel), .def = "", .max = "65536",
     .doc = "Rules for the labels of what is forwarded, as of `limits.ingestion_relabeling_rules`; without default rules."},
    {"sample_types", FG_CONF_YAML, CONF(sample_types), .def = "", .max = "65536",
     .doc = "Rules that keep or drop sample types, as of `limits.sample_type_relabeling_rules`."},
    {"since", FG_CONF_STRING, CONF(since), .def = "start", .max = "64",
     .doc = "What of the past is sent when the target is new: `start`: nothing, only what comes from then on; profiles since a day (`2026-01-31`), a moment (`now-24h`) or a Unix time, as `flamegrid forward resend` would send them."},
    {"token_file", FG_CONF_STRING, CONF(token_file), .def = "", .max = "4096",
     .doc = "File with a bearer token, read for each request. The token needs the scope `forward` for the protocol `flamegrid`, `push` for the other."},
    {"username", FG_CONF_STRING, CONF(username), .def = "", .max = "256",
     .doc = "User for Basic authentication."},
    {"password_file", FG_CONF_STRING, CONF(password_file), .def = "", .max = "4096",
     .doc = "File with the password of `username`, read for each request."},
    {"oauth2", FG_CONF_YAML, CONF(oauth2), .def = "", .max = "16384",
     .doc = "Tokens of OAuth 2 (client credentials): a map of `token_url`, `client_id`, `client_secret_file`, `scopes` (a list) and `params` (a map of further parameters)."},
    {"ca_file", FG_CONF_STRING, CONF(ca_file), .def = "", .max = "4096",
     .doc = "CAs of the target, in PEM. Empty: those of the system."},
    {"cert_file", FG_CONF_STRING, CONF(cert_file), .def = "", .max = "4096",
     .doc = "Client certificate, in PEM."},
    {"key_file", FG_CONF_STRING, CONF(key_file), .def = "", .max = "4096",
     .doc = "Key of `cert_file`, in PEM."},
    {"insecure", FG_CONF_BOOL, CONF(insecure), .def = "false",
     .doc = "Whether any certificate of the target is accepted."},
    {"queue_max_bytes", FG_CONF_BYTES, CONF(queue_max_bytes), .def = "10GiB", .min = "1MiB", .max = "1000TiB",
     .doc = "Size on disk of profiles that wait for the target."},
    {"when_full", FG_CONF_ENUM, CONF(when_full), .def = "drop", .choices = "drop|refuse",
     .doc = "What happens when the queue is full: `drop` drops the oldest profiles and counts them; `refuse` answers agents with 429."},
    {"connections", FG_CONF_UINT, CONF(connections), .def = "4", .min = "1", .max = "16",
     .doc = "Requests to the target at a time. Fewer are used while it is slow or refuses."},
    {"rate_max_bytes", FG_CONF_BYTES, CONF(rate_max_bytes), .def = "0", .max = "1TiB",
     .doc = "Bytes per second to the target, as sent; 0: unlimited."},
    {"fresh_share", FG_CONF_FLOAT, CONF(fresh_share), .def = "0.5", .min = "0", .max = "1",
     .doc = "Share of the connections for profiles of the last five minutes while older ones wait, too."},
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "30s", .min = "1s", .max = "10m",
     .doc = "Timeout of a request."},
};
/* clang-format on */
#undef CONF
const size_t ing_n_forward_fields = FG_COUNT(ing_forward_fields);
const size_t ing_n_target_fields = FG_COUNT(ing_target_fields);

/* ---- one target ---- */

static struct fg_conf_section section_of(struct ing_target_settings *settings)
{
    return (struct fg_conf_section){"", ing_target_fields, FG_COUNT(ing_target_fields), settings};
}

/* Returns what follows http:// or https://, or NULL. */
static const char *after_scheme(const char *url)
{
    if (strncmp(url, "http://", 7) == 0)
        return url + 7;
    return strncmp(url, "https://", 8) == 0 ? url + 8 : NULL;
}

static enum fg_code check_url(const char *url, struct fg_err *err)
{
    const char *host = after_scheme(url);

    if (host == NULL)
        return fg_fail(err, FG_E_INVALID, "url \"%.200s\" does not begin with http:// or https://",
                       url);
    if (host[0] == '\0' || host[0] == '/')
        return fg_fail(err, FG_E_INVALID, "url \"%.200s\" has no host", url);
    /* The sender appends paths of routes to the URL. */
    for (const char *at = host; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == '?' || *at == '#')
            return fg_fail(err, FG_E_INVALID, "url \"%.200s\" has a query, a fragment or a space",
                           url);
    return FG_OK;
}

static enum fg_code read_since(const char *since, int64_t *ret_ns, struct fg_err *err)
{
    /* A text like now-24h is another time at each start. That does not matter: the outbox looks at
     * it only if it does not know the target yet. */
    int64_t now_ns = fg_wall_ns(fg_clock_real());
    struct fg_slice text = fg_cstr(since);
    bool is_date = strspn(since, "0123456789-") == text.len;

    *ret_ns = 0;
    if (strcmp(since, "start") == 0)
        return FG_OK;
    /* To fg_timespec_parse() other text is now, and an offset. */
    if ((!is_date && !fg_slice_starts(text, "now-")) || !fg_timespec_parse(text, now_ns, ret_ns) ||
        *ret_ns <= 0 || *ret_ns >= now_ns)
        return fg_fail(err, FG_E_INVALID,
                       "since \"%.64s\" is neither start, a day (2026-01-31), now-24h nor a Unix "
                       "time in the past",
                       since);
    return FG_OK;
}

static enum fg_code check_settings(const struct ing_target_settings *settings, struct fg_err *err)
{
    if (settings->name[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "no name");
    if (check_url(settings->url, err) != FG_OK)
        return err->code;
    if (settings->tenant[0] != '\0' && fg_tenant_check(fg_cstr(settings->tenant), err) != FG_OK)
        return fg_wrap(err, "tenant");
    if (strchr(settings->username, ':') != NULL) /* RFC 7617 2: the password begins there */
        return fg_fail(err, FG_E_INVALID, "username has a colon");
    if ((settings->username[0] == '\0') != (settings->password_file[0] == '\0'))
        return fg_fail(err, FG_E_INVALID, "username and password_file go together");
    if ((settings->username[0] != '\0') + (settings->token_file[0] != '\0') +
            (settings->oauth2[0] != '\0') >
        1)
        return fg_fail(err, FG_E_INVALID, "token_file, username and oauth2 exclude each other");
    if ((settings->cert_file[0] == '\0') != (settings->key_file[0] == '\0'))
        return fg_fail(err, FG_E_INVALID, "cert_file and key_file go together");
    return FG_OK;
}

/* An empty setting: not set. */
static const char *file_of(const char *path)
{
    return path[0] == '\0' ? NULL : path;
}

static enum fg_code finish(struct ing_forward_target *target, struct fg_arena *arena,
                           struct fg_err *err)
{
    const struct ing_target_settings *settings = &target->settings;

    if (check_settings(settings, err) != FG_OK ||
        read_since(settings->since, &target->since_ns, err) != FG_OK)
        return err->code;
    if (settings->selector[0] != '\0' &&
        fg_selector_parse(fg_cstr(settings->selector), arena, &target->selector, err) != FG_OK)
        return fg_wrap(err, "selector");
    if (fg_relabel_parse(fg_cstr(settings->relabel), "relabel", FG_RELABEL_DEFAULTS_DISABLED,
                         &target->rules, err) != FG_OK ||
        fg_relabel_parse_types(fg_cstr(settings->sample_types), "sample_types", &target->type_rules,
                               err) != FG_OK)
        return err->code;
    target->uses_oauth2 = settings->oauth2[0] != '\0';
    if (target->uses_oauth2 && ing_oauth2_read(settings->oauth2, &target->oauth2, err) != FG_OK)
        return fg_wrap(err, "oauth2");
    target->tls = (struct fg_client_tls){
        .ca_file = file_of(settings->ca_file),
        .cert_file = file_of(settings->cert_file),
        .key_file = file_of(settings->key_file),
        .insecure = settings->insecure,
    };
    return FG_OK;
}

/* JSON is YAML, so the map goes through the reader of settings. */
static enum fg_code read_settings(const json_t *map, struct ing_target_settings *settings,
                                  struct fg_err *err)
{
    struct fg_conf_section section = section_of(settings);
    struct fg_conf conf = {.sections = &section, .n_sections = 1};
    char *text = json_dumps(map, 0);
    enum fg_code code;

    /* Only for the defaults: variables and flags are about the program, and not about one
     * target. */
    code = fg_conf_load(&conf, NULL, NULL, NULL, 0, err);
    if (code == FG_OK)
        code = fg_conf_parse_yaml(&conf, fg_cstr(text), "target", err);
    free(text);
    return code;
}

static enum fg_code add_target(struct ing_forward_targets *targets, json_t *map, struct fg_err *err)
{
    struct ing_forward_target *target = &targets->items[targets->n];

    if (!json_is_object(map))
        return fg_fail(err, FG_E_INVALID, "not a map");
    targets->n++; /* to be freed, also if it is invalid */
    if (read_settings(map, &target->settings, err) != FG_OK ||
        finish(target, targets->arena, err) != FG_OK)
        return err->code;
    /* A queue in the store belongs to a name, so two targets cannot share one. */
    for (unsigned i = 0; i + 1 < targets->n; i++)
        if (strcmp(targets->items[i].settings.name, target->settings.name) == 0)
            return fg_fail(err, FG_E_INVALID, "the name %s is there twice", target->settings.name);
    return FG_OK;
}

/* ---- all of them ---- */

/* Which tenants a target gets is decided by its selector, when profiles are sent. */
static bool wants_all(void *arg, struct fg_slice tenant)
{
    (void)arg;
    (void)tenant;
    return true;
}

static void make_queues(struct ing_forward_targets *targets)
{
    targets->queues = fg_calloc(targets->n, sizeof *targets->queues);
    for (unsigned i = 0; i < targets->n; i++) {
        const struct ing_target_settings *settings = &targets->items[i].settings;

        targets->queues[i] = (struct ing_outbox_target){
            .name = settings->name,
            .wants = wants_all,
            .queue_max_bytes = settings->queue_max_bytes,
            .when_full = (enum ing_outbox_when_full)settings->when_full,
            .since_ns = targets->items[i].since_ns,
        };
    }
}

static enum fg_code read_list(struct ing_forward_targets *targets, const json_t *list,
                              struct fg_err *err)
{
    size_t n = json_array_size(list);

    if (json_is_null(list))
        return FG_OK;
    if (!json_is_array(list) || n > OUTBOX_TARGETS_MAX)
        return fg_fail(err, FG_E_INVALID, "forward.targets: not a list of up to %d maps",
                       OUTBOX_TARGETS_MAX);
    targets->items = fg_calloc(n, sizeof *targets->items);
    for (size_t i = 0; i < n; i++)
        if (add_target(targets, json_array_get(list, i), err) != FG_OK)
            return fg_wrap(err, "forward.targets[%zu]", i);
    return FG_OK;
}

enum fg_code ing_forward_targets_read(const char *yaml, struct ing_forward_targets **ret_targets,
                                      struct fg_err *err)
{
    struct ing_forward_targets *targets;
    enum fg_code code;
    json_t *list;

    if (fg_document_from_yaml(fg_cstr(yaml), "forward.targets", &list, err) != FG_OK)
        return err->code;
    targets = fg_new(struct ing_forward_targets);
    targets->arena = fg_arena_create(SELECTORS_MAX_BYTES);
    code = read_list(targets, list, err);
    json_decref(list);
    if (code != FG_OK) {
        ing_forward_targets_destroy(targets);
        return code;
    }
    make_queues(targets);
    *ret_targets = targets;
    return FG_OK;
}

void ing_forward_targets_destroy(struct ing_forward_targets *targets)
{
    if (targets == NULL)
        return;
    for (unsigned i = 0; i < targets->n; i++) {
        struct ing_forward_target *target = &targets->items[i];
        struct fg_conf_section section = section_of(&target->settings);

        fg_conf_done(&(struct fg_conf){.sections = &section, .n_sections = 1});
        if (target->uses_oauth2)
            ing_oauth2_done(&target->oauth2);
        fg_selector_done(&target->selector);
        fg_relabel_unref(target->rules);
        fg_relabel_unref(target->type_rules);
    }
    free(targets->items);
    free(targets->queues);
    fg_arena_destroy(targets->arena);
    free(targets);
}
