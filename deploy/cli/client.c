#include "deploy/cli/client.h"

#include "common/base/str.h"
#include "deploy/cli/login_file.h"
#include "deploy/cli/show.h"

#include <curl/curl.h>
#include <jansson.h>
#include <openssl/x509_vfy.h>

enum {
    CONNECT_TIMEOUT_S = 10,  /* people wait at the terminal */
    REQUEST_TIMEOUT_S = 300, /* large queries take long; the server has limits of its own */
    REPLY_MAX_BYTES = 1024 * 1024 * 1024, /* bounds memory; a pprof of everything is smaller */
    MISSING_MAX_BYTES = 1100,
    TYPE_MAX_BYTES = 100,    /* of a Content-Type; it is shown to a person */
    MESSAGE_MAX_BYTES = 400, /* of the server's words, so that ours fit around them */
};

static const char default_url[] = "http://127.0.0.1:4040";

struct cli_client {
    CURL *curl;
    char *url;                            /* without a slash at the end */
    char *ca_file, *cert_file, *key_file; /* NULL: none */
    struct curl_slist *headers;           /* of every request */
    char missing[MISSING_MAX_BYTES];      /* of the last answer; "": nothing */
    char lacking[MISSING_MAX_BYTES];      /* of the first one that lacked something */
    char type[TYPE_MAX_BYTES];            /* of the last answer; "": none */
    char fault[CURL_ERROR_SIZE];          /* of the last transfer, in libcurl's words; "": none */
    const char *url_option;               /* without -- */
    bool second;                          /* CLIENT_SHOWS_GIVEN: it is not the server of --url */
};

/* ---- life ---- */

static const char *or_env(const char *given, const char *name)
{
    const char *value = given != NULL ? given : getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return value == NULL || value[0] == '\0' ? NULL : value;
}

/* Adds a header, unless the value is NULL. */
static void add_header(struct curl_slist **headers, const char *name, const char *value)
{
    struct fg_buf line;

    if (value == NULL)
        return;
    fg_buf_init(&line, SIZE_MAX);
    fg_buf_printf(&line, "%s: %s", name, value);
    fg_buf_putc(&line, '\0');
    struct curl_slist *longer = curl_slist_append(*headers, (const char *)line.ptr);
    fg_assert(longer != NULL); /* NULL means no memory */
    *headers = longer;
    fg_buf_done(&line);
}

/* Refuses a line end in a header's value: it would begin a header of its own. */
static enum fg_code check_value(const char *what, const char *value, struct fg_err *err)
{
    if (value != NULL && strpbrk(value, "\r\n") != NULL)
        return fg_fail(err, FG_E_INVALID, "%s has a line end in it", what);
    return FG_OK;
}

static char *copy_text(const char *text, size_t len)
{
    char *copy = fg_malloc(len + 1);

    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

static void set_defaults(struct cli_client *client)
{
    CURL *curl = client->curl;

    /* A URL of another scheme (file:) would read something that is no server. */
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_DEFAULT_PROTOCOL, "http");
    curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)REQUEST_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "flamegrid/" FG_VERSION);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->fault);
}

/* Presents a certificate to servers that ask for one. libcurl looks for the key in its file if
 * there is no other. */
static enum fg_code identify(struct cli_client *client, const char *cert_file, const char *key_file,
                             struct fg_err *err)
{
    if (cert_file == NULL && key_file != NULL)
        return fg_fail(err, FG_E_INVALID, "--key-file %s needs a certificate: --cert-file",
                       key_file);
    if (cert_file != NULL) {
        client->cert_file = copy_text(cert_file, strlen(cert_file));
        curl_easy_setopt(client->curl, CURLOPT_SSLCERT, client->cert_file);
    }
    if (key_file != NULL) {
        client->key_file = copy_text(key_file, strlen(key_file));
        curl_easy_setopt(client->curl, CURLOPT_SSLKEY, client->key_file);
    }
    return FG_OK;
}

/* given NULL: the token of a log-in, if there is one and it may be shown. */
static enum fg_code add_token(struct cli_client *client, const char *given, bool log_in,
                              struct fg_err *err)
{
    struct fg_buf kept, bearer;
    enum fg_code code = FG_OK;

    fg_buf_init(&kept, SIZE_MAX);
    fg_buf_init(&bearer, SIZE_MAX);
    if (given == NULL && log_in)
        code = cli_login_file_read(client->url, &kept, err);
    if (kept.len > 0)
        given = (const char *)kept.ptr;
    if (code == FG_OK)
        code = check_value("the token", given, err);
    if (code == FG_OK && given != NULL) {
        fg_buf_printf(&bearer, "Bearer %s", given);
        fg_buf_putc(&bearer, '\0');
        add_header(&client->headers, "Authorization", (const char *)bearer.ptr);
    }
    fg_buf_done(&bearer);
    fg_buf_done(&kept);
    return code;
}

/* User and password instead of a token: a server, or a proxy in front of it, takes one of them. */
static enum fg_code add_basic(struct cli_client *client, const char *basic, struct fg_err *err)
{
    if (strchr(basic, ':') == NULL)
        return fg_fail(err, FG_E_INVALID, "a user has to have a password: USER:PASSWORD");
    curl_easy_setopt(client->curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    curl_easy_setopt(client->curl, CURLOPT_USERPWD, basic);
    return FG_OK;
}

/* Shows for whom the client acts, and why it may. */
static enum fg_code authorize(struct cli_client *client, const struct cli_client_config *config,
                              struct fg_err *err)
{
    bool all = config->shows == CLIENT_SHOWS_ALL;
    const char *tenant = all ? or_env(config->tenant, "FLAMEGRID_TENANT") : config->tenant;
    const char *token =
        all && config->basic == NULL ? or_env(config->token, "FLAMEGRID_TOKEN") : config->token;

    if (check_value("the tenant", tenant, err) != FG_OK)
        return err->code;
    if (config->basic != NULL && token != NULL)
        return fg_fail(err, FG_E_INVALID, "a token or a user, not both at once");
    add_header(&client->headers, "X-Scope-OrgID", tenant);
    return config->basic != NULL ? add_basic(client, config->basic, err)
                                 : add_token(client, token, all, err);
}

enum fg_code cli_client_create(const struct cli_client_config *config,
                               struct cli_client **ret_client, struct fg_err *err)
{
    bool env = config->shows != CLIENT_SHOWS_GIVEN;
    const char *url = env ? or_env(config->url, "FLAMEGRID_URL") : config->url;
    const char *ca_file = env ? or_env(config->ca_file, "FLAMEGRID_CA_FILE") : config->ca_file;
    size_t url_len;
    fg_auto(cli_client) *client = fg_new(struct cli_client);

    client->second = config->shows == CLIENT_SHOWS_GIVEN;
    client->url_option = config->url_option == NULL ? "url" : config->url_option;
    client->curl = curl_easy_init();
    fg_assert(client->curl != NULL); /* memory is gone */
    if (url == NULL)
        url = default_url;
    url_len = strlen(url);
    while (url_len > 0 && url[url_len - 1] == '/') /* paths begin with one */
        url_len--;
    client->url = copy_text(url, url_len);
    set_defaults(client);
    /* The file comes on top of the system's folder of authorities, which libcurl reads in any case:
     * a command may talk to an identity provider of the public network, too. */
    if (ca_file != NULL) {
        client->ca_file = copy_text(ca_file, strlen(ca_file));
        curl_easy_setopt(client->curl, CURLOPT_CAINFO, client->ca_file);
    }
    if (config->timeout_s > 0)
        curl_easy_setopt(client->curl, CURLOPT_TIMEOUT, (long)config->timeout_s);
    /* Waiting for "100 Continue" would cost a second with servers that do not say it. */
    add_header(&client->headers, "Expect", "");
    add_header(&client->headers, "Accept", config->accept);
    if (config->partial)
        add_header(&client->headers, "X-Flamegrid-Partial", "true");
    if (config->shows != CLIENT_SHOWS_NOTHING &&
        identify(client, env ? or_env(config->cert_file, "FLAMEGRID_CERT_FILE") : config->cert_file,
                 env ? or_env(config->key_file, "FLAMEGRID_KEY_FILE") : config->key_file,
                 err) != FG_OK)
        return err->code;
    if ((config->shows == CLIENT_SHOWS_ALL || config->shows == CLIENT_SHOWS_GIVEN) &&
        authorize(client, config, err) != FG_OK)
        return err->code;
    *ret_client = fg_take(client);
    return FG_OK;
}

const char *cli_client_url(const struct cli_client *client)
{
    return client->url;
}

void cli_client_destroy(struct cli_client *client)
{
    if (client == NULL)
        return;
    curl_slist_free_all(client->headers);
    curl_easy_cleanup(client->curl);
    free(client->url);
    free(client->ca_file);
    free(client->cert_file);
    free(client->key_file);
    free(client);
}

void cli_client_reply_done(struct cli_client_reply *reply)
{
    fg_buf_done(&reply->body);
}

/* ---- requests ---- */

/* Appends to the body. Returning less than was offered makes libcurl end the transfer with
 * CURLE_WRITE_ERROR. */
static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct fg_buf *body = arg;

    fg_buf_append(body, bytes, size * count);
    return body->full ? 0 : size * count;
}

/* A character of what came over the network, for a terminal. */
static char harmless(char c)
{
    return (char)(c >= ' ' && c <= '~' ? c : '?');
}

/* Returns true if a certificate was refused because nobody vouches for it, which naming an
 * authority cures; and not for what it says (a name, a date). */
static bool is_unknown_authority(long verified)
{
    switch (verified) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return true;
    default:
        return false;
    }
}

/* Returns what options about this server begin with. */
static const char *options_of(const struct cli_client *client)
{
    return client->second ? "--source-" : "--";
}

/* Says which server the error is about. Of the second one the caller does. */
static enum fg_code say_server(const struct cli_client *client, struct fg_err *err)
{
    return client->second ? err->code : fg_wrap(err, "%s", client->url);
}

/* Of the second server it is no use to ask again. */
static enum fg_code fail_certificate(const struct cli_client *client, struct fg_err *err)
{
    enum fg_code code = client->second ? FG_E_DENIED : FG_E_UNAVAILABLE;
    long verified = X509_V_OK;

    curl_easy_getinfo(client->curl, CURLINFO_SSL_VERIFYRESULT, &verified);
    if (is_unknown_authority(verified))
        return fg_fail(err, code,
                       "%s; if the authority that signed it is your own, name its certificate with "
                       "%sca-file",
                       client->fault, options_of(client));
    return fg_fail(err, code, "%s", client->fault);
}

static enum fg_code fail_connect(const struct cli_client *client, struct fg_err *err)
{
    long os_errno = 0;

    if (!client->second)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "no server at %s: start one with flamegrid server, or say where with --%s",
                       client->url, client->url_option);
    curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &os_errno);
    return fg_fail(err, FG_E_UNAVAILABLE, "%s",
                   os_errno != 0 ? strerrordesc_np((int)os_errno) : client->fault);
}

/* The cases that users meet get a sentence of ours with a way out; all others the text of
 * libcurl. */
static enum fg_code fail_transfer(struct cli_client *client, CURLcode rc, struct fg_err *err)
{
    for (char *c = client->fault; *c != '\0'; c++)
        *c = harmless(*c); /* names in certificates are in it */
    switch (rc) {
    case CURLE_WRITE_ERROR:
        return fg_fail(err, FG_E_LIMIT, "the answer exceeds %d bytes: ask for less",
                       REPLY_MAX_BYTES);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return fg_fail(err, FG_E_INVALID, "%s is no URL of a server", client->url);
    case CURLE_COULDNT_CONNECT:
        return fail_connect(client, err);
    case CURLE_PEER_FAILED_VERIFICATION:
        (void)fail_certificate(client, err);
        return say_server(client, err);
    case CURLE_SSL_CONNECT_ERROR:
        (void)fg_fail(err, FG_E_UNAVAILABLE,
                      "%s; if the server has no TLS, its URL begins with http://", client->fault);
        return say_server(client, err);
    case CURLE_SSL_CACERT_BADFILE:
        return fg_fail(err, FG_E_INVALID, "%sca-file %s: no certificate can be read from it",
                       options_of(client), client->ca_file);
    case CURLE_SSL_CERTPROBLEM:
        return fg_fail(err, FG_E_INVALID, "%scert-file %s%s%s%s%s: %s", options_of(client),
                       client->cert_file, client->key_file == NULL ? "" : ", ",
                       client->key_file == NULL ? "" : options_of(client),
                       client->key_file == NULL ? "" : "key-file ",
                       client->key_file == NULL ? "" : client->key_file, client->fault);
    default:
        (void)fg_fail(err, FG_E_UNAVAILABLE, "%s",
                      client->fault[0] != '\0' ? client->fault : curl_easy_strerror(rc));
        return say_server(client, err);
    }
}

static void put_harmless(const char *text, char *out, size_t out_bytes)
{
    size_t n = 0;

    for (const char *c = text; *c != '\0' && n < out_bytes - 1; c++)
        out[n++] = harmless(*c);
    out[n] = '\0';
}

static void read_type(struct cli_client *client, struct cli_client_reply *reply)
{
    const char *type = NULL;

    curl_easy_getinfo(client->curl, CURLINFO_CONTENT_TYPE, &type);
    put_harmless(type == NULL ? "" : type, client->type, sizeof client->type);
    reply->is_proto = fg_slice_starts(fg_cstr(client->type), "application/proto");
}

const char *cli_client_type(const struct cli_client *client)
{
    return client->type;
}

/* Keeps the reason why the answer is incomplete. */
static void read_missing(struct cli_client *client)
{
    struct curl_header *complete, *missing;

    client->missing[0] = '\0';
    if (curl_easy_header(client->curl, "X-Flamegrid-Complete", 0, CURLH_HEADER, -1, &complete) !=
            CURLHE_OK ||
        strcmp(complete->value, "false") != 0)
        return;
    (void)snprintf(client->missing, sizeof client->missing, "the server does not say why");
    if (curl_easy_header(client->curl, "X-Flamegrid-Missing", 0, CURLH_HEADER, -1, &missing) !=
        CURLHE_OK)
        return;
    put_harmless(missing->value, client->missing, sizeof client->missing);
}

const char *cli_client_missing(const struct cli_client *client)
{
    return client->missing[0] == '\0' ? NULL : client->missing;
}

void cli_client_warn_missing(const struct cli_client *client)
{
    if (client != NULL && client->lacking[0] != '\0')
        (void)fprintf(stderr, "flamegrid: the answer is not complete: %s\n", client->lacking);
}

static void read_meta(CURL *curl, struct cli_client_reply *reply)
{
    curl_off_t retry_after_s = 0;
    struct curl_header *expired, *header;
    long status = 0;

    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after_s);
    reply->status = (unsigned)status;
    reply->retry_after_s = retry_after_s > 0 ? (uint64_t)retry_after_s : 0;
    reply->challenged =
        curl_easy_header(curl, "WWW-Authenticate", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
    reply->empty =
        curl_easy_header(curl, "X-Flamegrid-Empty", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
    if (curl_easy_header(curl, "X-Flamegrid-Expired", 0, CURLH_HEADER, -1, &expired) != CURLHE_OK ||
        !fg_parse_u64(fg_cstr(expired->value), &reply->expired))
        reply->expired = 0;
}

/* The body is bounded by its buffer, since the length of an answer is unknown before it has
 * arrived. */
static enum fg_code perform(struct cli_client *client, const char *path,
                            struct cli_client_reply *ret_reply, struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    struct fg_buf url;

    fg_buf_init(&url, SIZE_MAX);
    fg_buf_init(&reply.body, REPLY_MAX_BYTES);
    fg_buf_printf(&url, "%s%s", client->url, path);
    fg_buf_putc(&url, '\0');
    curl_easy_setopt(client->curl, CURLOPT_URL, (const char *)url.ptr);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, &reply.body);
    client->fault[0] = '\0';
    CURLcode rc = curl_easy_perform(client->curl);
    fg_buf_done(&url);
    if (rc != CURLE_OK) {
        fg_buf_done(&reply.body);
        return fail_transfer(client, rc, err);
    }
    read_meta(client->curl, &reply);
    reply.second = client->second;
    read_type(client, &reply);
    read_missing(client);
    /* A command may ask several times, and its result is made of all answers. */
    if (client->lacking[0] == '\0')
        memcpy(client->lacking, client->missing, sizeof client->lacking);
    *ret_reply = reply;
    return FG_OK;
}

enum fg_code cli_client_get(struct cli_client *client, const char *path,
                            struct cli_client_reply *ret_reply, struct fg_err *err)
{
    curl_easy_setopt(client->curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
    return perform(client, path, ret_reply, err);
}

/* libcurl's lists cannot share a tail, so the headers of every request are copied. */
static struct curl_slist *headers_with(const struct cli_client *client, const char *name,
                                       const char *value)
{
    struct curl_slist *headers = NULL;

    add_header(&headers, name, value);
    for (const struct curl_slist *item = client->headers; item != NULL; item = item->next) {
        struct curl_slist *longer = curl_slist_append(headers, item->data);
        fg_assert(longer != NULL); /* memory is gone */
        headers = longer;
    }
    return headers;
}

/* Posts with these headers, which it frees. */
static enum fg_code post(struct cli_client *client, const char *path, struct curl_slist *headers,
                         struct fg_slice body, struct cli_client_reply *ret_reply,
                         struct fg_err *err)
{
    curl_easy_setopt(client->curl, CURLOPT_POST, 1L);
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    /* NULL would mean "read it from standard input". */
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body.len == 0 ? "" : (const char *)body.ptr);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    enum fg_code code = perform(client, path, ret_reply, err);
    /* The handle keeps the list: forget it before it is freed. */
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    return code;
}

enum fg_code cli_client_post(struct cli_client *client, const char *path, const char *content_type,
                             struct fg_slice body, struct cli_client_reply *ret_reply,
                             struct fg_err *err)
{
    return post(client, path, headers_with(client, "Content-Type", content_type), body, ret_reply,
                err);
}

enum fg_code cli_client_post_once(struct cli_client *client, const char *path,
                                  const char *content_type, const char *key, struct fg_slice body,
                                  struct cli_client_reply *ret_reply, struct fg_err *err)
{
    struct curl_slist *headers = headers_with(client, "Content-Type", content_type);

    add_header(&headers, "Idempotency-Key", key);
    return post(client, path, headers, body, ret_reply, err);
}

enum fg_code cli_client_act(struct cli_client *client, const char *path,
                            struct cli_client_reply *ret_reply, struct fg_err *err)
{
    return post(client, path, headers_with(client, "X-Flamegrid-Action", "post"), FG_LIT(""),
                ret_reply, err);
}

enum fg_code cli_client_put(struct cli_client *client, const char *path, struct fg_slice json,
                            struct cli_client_reply *ret_reply, struct fg_err *err)
{
    enum fg_code code;

    curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, "PUT");
    code = cli_client_post(client, path, "application/json", json, ret_reply, err);
    curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, NULL);
    return code;
}

enum fg_code cli_client_delete(struct cli_client *client, const char *path,
                               struct cli_client_reply *ret_reply, struct fg_err *err)
{
    struct curl_slist *headers = headers_with(client, "X-Flamegrid-Action", "delete");

    curl_easy_setopt(client->curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, "DELETE");
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    enum fg_code code = perform(client, path, ret_reply, err);
    /* The handle keeps both for later requests. */
    curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, NULL);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    return code;
}

enum fg_code cli_client_send(struct cli_client *client, const char *method,
                             const ProtobufCMessage *request, struct cli_client_reply *ret_reply,
                             struct fg_err *err)
{
    size_t len = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = fg_malloc(FG_MAX(len, 1));
    struct fg_buf path;

    (void)protobuf_c_message_pack(request, bytes);
    fg_buf_init(&path, SIZE_MAX);
    fg_buf_printf(&path, "/%s", method);
    fg_buf_putc(&path, '\0');
    enum fg_code code = cli_client_post(client, (const char *)path.ptr, "application/proto",
                                        fg_bytes(bytes, len), ret_reply, err);
    fg_buf_done(&path);
    free(bytes);
    return code;
}

enum fg_code cli_client_call(struct cli_client *client, const char *method,
                             const ProtobufCMessage *request, struct cli_client_reply *ret_reply,
                             struct fg_err *err)
{
    struct cli_client_reply reply = {0};

    if (cli_client_send(client, method, request, &reply, err) != FG_OK)
        return err->code;
    if (cli_client_check(&reply, err) != FG_OK) {
        cli_client_reply_done(&reply);
        return err->code;
    }
    *ret_reply = reply;
    return FG_OK;
}

/* ---- texts ---- */

/* Servers speak of headers and parameters; people at a terminal have options. second: those of a
 * server other than that of --url. */
static const char *hint_of(struct fg_slice message, bool second)
{
    static const struct {
        const char *said, *hint, *second;
    } hints[] = {
        {"no org id", "; --tenant or FLAMEGRID_TENANT names the tenant",
         "; --source-tenant names the tenant"},
        {"client certificate is required", "; --cert-file and --key-file name yours",
         "; --source-cert-file and --source-key-file name yours"},
        {"set partial=true", "; --partial does that", ""},
        {"send Authorization: Bearer",
         "; --token or FLAMEGRID_TOKEN does that, flamegrid login too",
         "; --source-token or FLAMEGRID_SOURCE_TOKEN does that"},
    };

    for (size_t i = 0; i < FG_COUNT(hints); i++)
        if (memmem(message.ptr, message.len, hints[i].said, strlen(hints[i].said)) != NULL)
            return second ? hints[i].second : hints[i].hint;
    return "";
}

const char *cli_client_hint(struct fg_slice message)
{
    return hint_of(message, false);
}

static void put_line(struct fg_slice text, bool second, struct fg_buf *out)
{
    cli_show_text(fg_slice_sub(fg_trim(text), 0, MESSAGE_MAX_BYTES), out);
    fg_buf_puts(out, hint_of(text, second));
}

static void put_message(struct fg_slice body, bool second, struct fg_buf *out)
{
    json_t *root = json_loadb((const char *)body.ptr, body.len, 0, NULL);
    const char *message = json_string_value(json_object_get(root, "message"));

    if (message != NULL)
        put_line(fg_cstr(message), second, out);
    else if (fg_trim(body).len > 0)
        put_line(fg_slice_sub(fg_trim(body), 0, fg_slice_find(fg_trim(body), '\n')), second, out);
    else
        fg_buf_puts(out, "nothing more");
    json_decref(root);
}

void cli_client_message(struct fg_slice body, struct fg_buf *out)
{
    put_message(body, false, out);
}

static enum fg_code code_of(const struct cli_client_reply *reply)
{
    if (reply->status == 401)
        return reply->challenged ? FG_E_DENIED : FG_E_NO_TENANT;
    return reply->status == 403 ? FG_E_DENIED : FG_E_UNKNOWN;
}

enum fg_code cli_client_check(const struct cli_client_reply *reply, struct fg_err *err)
{
    struct fg_buf message;

    if (reply->status == 200)
        return FG_OK;
    fg_buf_init(&message, SIZE_MAX);
    put_message(fg_buf_slice(&reply->body), reply->second, &message);
    enum fg_code code = fg_fail(err, code_of(reply), "the server says %u: %.*s", reply->status,
                                FG_S(fg_buf_slice(&message)));
    fg_buf_done(&message);
    return code;
}
