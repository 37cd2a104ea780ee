/* Settings of keys for AWS, which several sections have. */
#ifndef FG_COMMON_NET_AWS_SETTINGS_H
#define FG_COMMON_NET_AWS_SETTINGS_H

#include "common/net/aws/credentials.h"
#include "common/runtime/config.h"

struct fg_aws_settings {
    char *access_key, *secret_key, *session_token;
    char *access_key_file, *secret_key_file, *session_token_file;
    char *role_arn, *web_identity_token_file, *role_session_name, *sts_endpoint;
};

/* The rows of a section's table. AT(field): FG_CONF_AT() of a field of the struct above. */
/* clang-format off */
#define FG_AWS_FIELDS(AT)                                                                          \
    {"access_key", FG_CONF_STRING, AT(access_key), .def = "", .max = "1000",                       \
     .doc = "Access key. If no key is set in this section, the environment supplies it as for AWS clients: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE."}, \
    {"secret_key", FG_CONF_SECRET, AT(secret_key), .def = "", .max = "1000",                       \
     .doc = "Secret key."},                                                                        \
    {"session_token", FG_CONF_SECRET, AT(session_token), .def = "", .max = "8000",                 \
     .doc = "Session token, if the keys require one."},                                            \
    {"access_key_file", FG_CONF_STRING, AT(access_key_file), .def = "", .max = "4000",             \
     .doc = "File with the access key. Changed key files are reloaded."},                          \
    {"secret_key_file", FG_CONF_STRING, AT(secret_key_file), .def = "", .max = "4000",             \
     .doc = "File with the secret key."},                                                          \
    {"session_token_file", FG_CONF_STRING, AT(session_token_file), .def = "", .max = "4000",       \
     .doc = "File with the session token."},                                                       \
    {"role_arn", FG_CONF_STRING, AT(role_arn), .def = "", .max = "2048",                           \
     .doc = "Role to assume through STS with the token in `web_identity_token_file`. Its keys are renewed before they expire."}, \
    {"web_identity_token_file", FG_CONF_STRING, AT(web_identity_token_file), .def = "", .max = "4000", \
     .doc = "File with the web identity token, for example one that Kubernetes writes."},          \
    {"role_session_name", FG_CONF_STRING, AT(role_session_name), .def = "flamegrid", .min = "2", .max = "64", \
     .doc = "Session name for the logs of the service."},                                          \
    {"sts_endpoint", FG_CONF_STRING, AT(sts_endpoint), .def = "", .max = "400",                    \
     .doc = "URL of STS. Empty: the AWS endpoint of the region."}
/* clang-format on */

/* Returns where the keys come from. If the settings have none, the environment as the clients of
 * AWS use it: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; or AWS_ROLE_ARN,
 * AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_SESSION_NAME. Texts are borrowed. */
struct fg_aws_sources fg_aws_sources(const struct fg_aws_settings *settings);

/* Returns the region, if it is set; else AWS_REGION, AWS_DEFAULT_REGION or us-east-1. Borrowed. */
const char *fg_aws_region(const char *region);

#endif
