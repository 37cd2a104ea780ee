/*
 * `flamegrid login`: a person logs in at the identity provider of a server, with a browser on any
 * device (RFC 8628), and the token is kept for the other commands.
 *
 *   server    GET /.well-known/oauth-protected-resource    issuer and client id
 *   provider  GET /.well-known/openid-configuration        its endpoints
 *   provider  POST device endpoint                         a code for the person
 *   provider  POST token endpoint, again and again         the token, when the person has agreed
 */
#include "common/access/jwt/discovery.h"
#include "common/access/jwt/jwt.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/login_file.h"
#include "deploy/cli/show.h"

#include <time.h>

enum {
    INTERVAL_DEFAULT_S = 5, /* RFC 8628, 3.2 */
    INTERVAL_MAX_S = 60,
    SLOW_DOWN_S = 5,        /* 3.5 */
    WAIT_MAX_S = 3600,      /* whatever lifetime the provider names for the code */
    REQUEST_TIMEOUT_S = 30, /* people wait at the terminal */
    FORM_MAX_BYTES = 64 * 1024,
};

#define RESOURCE_PATH "/.well-known/oauth-protected-resource"
#define GRANT_TYPE    "urn:ietf:params:oauth:grant-type:device_code"

struct login_command {
    struct cli_client_config server;
    bool forget;
    struct fg_err err;

    struct fg_arena *arena;
    const char *issuer, *client_id, *scopes; /* in the arena */
    struct fg_discovery discovery;
    const char *device_code; /* in the arena */
    int64_t interval_s, deadline_s;
};

static int64_t now_s(void)
{
    return fg_wall_ns(fg_clock_real()) / FG_SECOND_NS;
}

/* A copy of a text member; NULL: there is none. */
static const char *get_text(struct login_command *command, const json_t *document, const char *name)
{
    const char *text = json_string_value(json_object_get(document, name));

    return text == NULL ? NULL : fg_arena_text(command->arena, fg_cstr(text));
}

/* ---- what the server and the provider publish ---- */

static enum fg_code ask_server(struct login_command *command)
{
    fg_auto(cli_client) *client = NULL;
    struct cli_client_config config = command->server;
    struct cli_client_reply reply = {0};
    json_t *document = NULL;

    config.shows = CLIENT_SHOWS_CERTIFICATE; /* whoever logs in has no token */
    if (cli_client_create(&config, &client, &command->err) != FG_OK ||
        cli_client_get(client, RESOURCE_PATH, &reply, &command->err) != FG_OK)
        return command->err.code;
    /* Where people can log in, the document is there for everybody. */
    if (reply.status == 404 || reply.status == 401) {
        cli_client_reply_done(&reply);
        return fg_fail(&command->err, FG_E_PRECONDITION, "%s has no log-in for people",
                       cli_client_url(client));
    }
    if (cli_json_reply(&reply, &document, &command->err) != FG_OK)
        return command->err.code;
    command->client_id = get_text(command, document, "flamegrid_device_client_id");
    command->scopes = get_text(command, document, "flamegrid_scopes");
    command->issuer =
        json_string_value(json_array_get(json_object_get(document, "authorization_servers"), 0));
    if (command->issuer != NULL)
        command->issuer = fg_arena_text(command->arena, fg_cstr(command->issuer));
    json_decref(document);
    if (command->issuer == NULL || fg_access_url_fault(fg_cstr(command->issuer)) != NULL)
        return fg_fail(&command->err, FG_E_DECODE, "the server names no issuer");
    if (command->client_id == NULL || command->scopes == NULL)
        return fg_fail(&command->err, FG_E_PRECONDITION,
                       "the server has no log-in for commands (access.login.device_client_id)");
    return FG_OK;
}

/* Requests to the provider carry nothing that is for the server. Who is trusted may be the
 * authority of both. */
static enum fg_code open_provider(struct login_command *command, const char *url,
                                  struct cli_client **ret_client)
{
    const struct cli_client_config config = {.url = url,
                                             .ca_file = command->server.ca_file,
                                             .timeout_s = REQUEST_TIMEOUT_S,
                                             .shows = CLIENT_SHOWS_NOTHING};

    return cli_client_create(&config, ret_client, &command->err);
}

static enum fg_code ask_provider(struct login_command *command)
{
    fg_auto(cli_client) *client = NULL;
    struct cli_client_reply reply = {0};
    enum fg_code code;

    if (open_provider(command, command->issuer, &client) != FG_OK ||
        cli_client_get(client, FG_DISCOVERY_PATH, &reply, &command->err) != FG_OK)
        return command->err.code;
    code = cli_client_check(&reply, &command->err);
    if (code == FG_OK)
        code = fg_discovery_parse(fg_buf_slice(&reply.body), command->issuer, command->arena,
                                  &command->discovery, &command->err);
    cli_client_reply_done(&reply);
    if (code != FG_OK)
        return fg_wrap(&command->err, "%s", command->issuer);
    if (command->discovery.device == NULL || command->discovery.token == NULL)
        return fg_fail(&command->err, FG_E_PRECONDITION, "%s has no log-in for devices (RFC 8628)",
                       command->issuer);
    return FG_OK;
}

/* ---- the device flow ---- */

static void put_parameter(struct fg_buf *form, const char *name, const char *value)
{
    fg_buf_printf(form, "%s%s=", form->len == 0 ? "" : "&", name);
    fg_buf_url(form, fg_cstr(value));
}

/* Posts the form. The document is that of any status; the caller frees it. */
static enum fg_code post(struct login_command *command, const char *url, struct fg_buf *form,
                         unsigned *ret_status, json_t **ret_document)
{
    fg_auto(cli_client) *client = NULL;
    struct cli_client_reply reply = {0};
    json_t *document;

    if (open_provider(command, url, &client) != FG_OK ||
        cli_client_post(client, "", "application/x-www-form-urlencoded", fg_buf_slice(form), &reply,
                        &command->err) != FG_OK)
        return command->err.code;
    document =
        json_loadb((const char *)reply.body.ptr, reply.body.len, JSON_REJECT_DUPLICATES, NULL);
    *ret_status = reply.status;
    cli_client_reply_done(&reply);
    if (!json_is_object(document)) {
        json_decref(document);
        return fg_fail(&command->err, FG_E_DECODE, "%s answered %u and no JSON", url, *ret_status);
    }
    *ret_document = document;
    return FG_OK;
}

static enum fg_code refused(struct login_command *command, const json_t *document, unsigned status)
{
    const char *error = json_string_value(json_object_get(document, "error"));
    const char *why = json_string_value(json_object_get(document, "error_description"));

    return fg_fail(&command->err, FG_E_DENIED, "the identity provider says %u: %.100s %.200s",
                   status, error == NULL ? "no reason" : error, why == NULL ? "" : why);
}

/* A number of seconds, at most max_s. */
static int64_t seconds_of(const json_t *document, const char *name, int64_t default_s,
                          int64_t max_s)
{
    const json_t *number = json_object_get(document, name);
    int64_t seconds = json_is_integer(number) ? json_integer_value(number) : default_s;

    return seconds < 1 ? default_s : FG_MIN(seconds, max_s);
}

/* Shows a text of the provider without what would change the terminal. */
static void print_line(const char *before, const char *text)
{
    struct fg_buf line;

    fg_buf_init(&line, SIZE_MAX);
    cli_show_text(fg_cstr(text), &line);
    (void)fprintf(stderr, "%s%.*s\n", before, FG_S(fg_buf_slice(&line)));
    fg_buf_done(&line);
}

static enum fg_code begin_login(struct login_command *command)
{
    const char *url, *code, *whole;
    json_t *document = NULL;
    struct fg_buf form;
    unsigned status = 0;

    fg_buf_init(&form, FORM_MAX_BYTES);
    put_parameter(&form, "client_id", command->client_id);
    put_parameter(&form, "scope", command->scopes);
    (void)post(command, command->discovery.device, &form, &status, &document);
    fg_buf_done(&form);
    if (document == NULL)
        return command->err.code;
    command->device_code = get_text(command, document, "device_code");
    url = json_string_value(json_object_get(document, "verification_uri"));
    whole = json_string_value(json_object_get(document, "verification_uri_complete"));
    code = json_string_value(json_object_get(document, "user_code"));
    command->interval_s = seconds_of(document, "interval", INTERVAL_DEFAULT_S, INTERVAL_MAX_S);
    command->deadline_s = now_s() + seconds_of(document, "expires_in", 600, WAIT_MAX_S);
    if (status != 200) {
        (void)refused(command, document, status);
    } else if (command->device_code == NULL || url == NULL || code == NULL) {
        (void)fg_fail(&command->err, FG_E_DECODE, "%s gave no code", command->issuer);
    } else {
        print_line("open in a browser   ", whole == NULL ? url : whole);
        print_line("code                ", code);
        command->err.code = FG_OK;
    }
    json_decref(document);
    return command->err.code;
}

/* The access token if it is a JSON Web Token; else the provider means the ID token to say who one
 * is.
 */
static enum fg_code keep_token(struct login_command *command, const json_t *document)
{
    const char *token = json_string_value(json_object_get(document, "access_token"));
    int64_t expires_s = now_s() + seconds_of(document, "expires_in", 300, INT64_C(365) * 86400);
    fg_auto(cli_client) *client = NULL;

    if (token == NULL || !fg_jwt_is_form(fg_cstr(token)))
        token = json_string_value(json_object_get(document, "id_token"));
    if (token == NULL)
        return fg_fail(&command->err, FG_E_DECODE, "%s gave no token that says who you are",
                       command->issuer);
    if (cli_client_create(
            &(struct cli_client_config){.url = command->server.url, .shows = CLIENT_SHOWS_NOTHING},
            &client, &command->err) != FG_OK)
        return command->err.code;
    return cli_login_file_write(cli_client_url(client), token, expires_s, &command->err);
}

/* Asks once. FG_E_UNAVAILABLE: the person has not agreed yet. */
static enum fg_code poll_once(struct login_command *command)
{
    json_t *document = NULL;
    const char *error;
    struct fg_buf form;
    unsigned status = 0;
    enum fg_code code;

    fg_buf_init(&form, FORM_MAX_BYTES);
    put_parameter(&form, "grant_type", GRANT_TYPE);
    put_parameter(&form, "device_code", command->device_code);
    put_parameter(&form, "client_id", command->client_id);
    code = post(command, command->discovery.token, &form, &status, &document);
    fg_buf_done(&form);
    if (code != FG_OK)
        return code;
    error = json_string_value(json_object_get(document, "error"));
    if (status == 200) {
        code = keep_token(command, document);
    } else if (error != NULL && strcmp(error, "authorization_pending") == 0) {
        code = FG_E_UNAVAILABLE;
    } else if (error != NULL && strcmp(error, "slow_down") == 0) {
        command->interval_s = FG_MIN(command->interval_s + SLOW_DOWN_S, INTERVAL_MAX_S);
        code = FG_E_UNAVAILABLE;
    } else {
        code = refused(command, document, status);
    }
    json_decref(document);
    return code;
}

static enum fg_code poll_until(struct login_command *command)
{
    enum fg_code code = FG_E_UNAVAILABLE;

    while (code == FG_E_UNAVAILABLE) {
        struct timespec pause = {.tv_sec = command->interval_s};

        if (now_s() >= command->deadline_s)
            return fg_fail(&command->err, FG_E_DEADLINE, "nobody has agreed in time");
        (void)nanosleep(&pause, NULL);
        code = poll_once(command);
    }
    return code;
}

static enum fg_code log_in(struct login_command *command)
{
    if (ask_server(command) != FG_OK || ask_provider(command) != FG_OK ||
        begin_login(command) != FG_OK || poll_until(command) != FG_OK)
        return command->err.code;
    (void)fprintf(stderr, "logged in; flamegrid whoami says as whom\n");
    return FG_OK;
}

static enum fg_code forget(struct login_command *command)
{
    fg_auto(cli_client) *client = NULL;

    command->server.shows = CLIENT_SHOWS_NOTHING;
    if (cli_client_create(&command->server, &client, &command->err) != FG_OK)
        return command->err.code;
    return cli_login_file_write(cli_client_url(client), NULL, 0, &command->err);
}

int cli_login(int argc, char **argv)
{
    struct login_command command = {0};
    const struct cli_args_option options[] = {
        {"forget", 0, ARGS_FLAG, &command.forget, NULL, "remove the token of the server", 0, 0},
        CLIENT_SERVER_OPTIONS(command.server),
    };
    const struct cli_args_command args = {
        "login",
        "[options]",
        "Logs you in at the identity provider of a server, with a browser on any device. The "
        "token\n"
        "is kept in ~/.config/flamegrid/tokens, and other commands send it to that server.\n",
        "",
        options,
        FG_COUNT(options),
        NULL};
    enum fg_code code;
    int words, exit_code;

    if (!cli_args_begin(&args, argc, argv, &words, &exit_code))
        return exit_code;
    if (words > 0) {
        (void)fg_fail(&command.err, FG_E_INVALID, "unexpected word \"%.100s\"", argv[0]);
        return cli_args_refuse(&args, &command.err);
    }
    command.arena = fg_arena_create(FG_DISCOVERY_ARENA_BYTES);
    code = command.forget ? forget(&command) : log_in(&command);
    fg_arena_destroy(command.arena);
    return code == FG_OK ? CLI_OK : cli_args_fail(&args, &command.err);
}
