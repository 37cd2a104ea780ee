/*
 * What the commands share that govern a server over /api/tenants, /api/tokens, /api/forward and
 * their like: verbs with an id behind them, and requests in JSON.
 *
 * Thread: one. Every call blocks.
 */
#ifndef FG_DEPLOY_CLI_ADMIN_H
#define FG_DEPLOY_CLI_ADMIN_H

#include "deploy/cli/client.h"

#include <jansson.h>

#define CLI_ADMIN_TENANTS  "/api/tenants"
#define CLI_ADMIN_TOKENS   "/api/tokens"
#define CLI_ADMIN_BINDINGS "/api/bindings"

/* A command on its way. */
struct cli_admin {
    struct cli_client_config server;
    const void *options; /* of the command alone; NULL: none */
    bool json;
    char *const *words; /* behind the verb */
    int n_words;
    struct cli_client *client;
    struct fg_err err;
};

/* A row of a command's table of verbs (cli_args_verbs). */
struct cli_admin_verb {
    struct cli_args_verb verb; /* the first of its words is an id */
    /* Leaves the error in admin->err. FG_E_INVALID: the command line is. */
    enum fg_code (*run)(struct cli_admin *admin);
};

/*
 * Runs the command: parses argv into the options and server, finds the verb, connects and runs it.
 * Returns the exit code. args->verbs: a table of struct cli_admin_verb.
 */
int cli_admin_main(struct cli_admin *admin, const struct cli_args_command *args, int argc,
                   char **argv);

/*
 * Send a request to root, or root/ID with the id escaped, and what follows it as it stands
 * (":suspend", "?tenant=a"). The answer is a document that the caller frees. A body is consumed.
 * FG_E_INVALID: the id is too long, or the body is NULL, because a text was not UTF-8. Errors of
 * the client and of the server. admin->err has all.
 */
enum fg_code cli_admin_get(struct cli_admin *admin, const char *root, const char *id,
                           const char *rest, json_t **ret_document) fg_must_check;
enum fg_code cli_admin_post(struct cli_admin *admin, const char *root, const char *id,
                            const char *rest, json_t *body, json_t **ret_document) fg_must_check;
enum fg_code cli_admin_put(struct cli_admin *admin, const char *root, const char *id,
                           const char *rest, json_t *body, json_t **ret_document) fg_must_check;
enum fg_code cli_admin_act(struct cli_admin *admin, const char *root, const char *id,
                           const char *rest, json_t **ret_document) fg_must_check; /* POST */
enum fg_code cli_admin_delete(struct cli_admin *admin, const char *root, const char *id,
                              json_t **ret_document) fg_must_check;

/*
 * Warn on standard error, after a change that succeeded. What the caller may not ask, or the server
 * does not answer, is no warning.
 *   tenant  the server has one tenant only, which is not this one
 *   token   the same for each of its tenants; the server does not know one of them; nobody is asked
 *           for a token. tenants: an array of names, of which "*" stands for all
 */
void cli_admin_warn_tenant(struct cli_admin *admin, const char *name);
void cli_admin_warn_token(struct cli_admin *admin, const json_t *tenants);

#endif
