/* Asks a server what tenants used (GET /api/usage), for the commands usage and cost. */
#ifndef FG_DEPLOY_CLI_USAGE_ASK_H
#define FG_DEPLOY_CLI_USAGE_ASK_H

#include "deploy/cli/client.h"

#include <jansson.h>

struct cli_usage_question {
    const char *from, *until; /* as cli_time_parse() reads them; NULL: the server's default */
    const char *by;           /* "day", "service"; NULL: day */
};

/* Asks for CSV. ret_reply: to be freed. FG_E_INVALID: a time is wrong. Errors of the client and of
 * the server. */
enum fg_code cli_usage_ask_csv(struct cli_client *client, const struct cli_usage_question *question,
                               struct cli_client_reply *ret_reply,
                               struct fg_err *err) fg_must_check;

/* Asks for JSON. *ret_answer: to be freed with json_decref(); its "days" is an array of objects.
 * Errors as above. */
enum fg_code cli_usage_ask_json(struct cli_client *client,
                                const struct cli_usage_question *question, json_t **ret_answer,
                                struct fg_err *err) fg_must_check;

/* Appends a sentence about what an answer does not have yet: profiles that count for no day, and
 * days whose numbers grow; or that it has none. Nothing if it has all. */
void cli_usage_missing(const json_t *answer, struct fg_buf *out);

/* Returns the number of a member; 0 if it is not there. */
uint64_t cli_usage_number(const json_t *object, const char *key);

#endif
