#include "common/net/aws/settings.h"

/* Returns "" if it is not set. */
static const char *environment(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): no thread sets it */

    return value == NULL ? "" : value;
}

static bool is_set(const char *text)
{
    return text[0] != '\0';
}

static struct fg_aws_sources of_environment(const struct fg_aws_settings *settings)
{
    const char *name = environment("AWS_ROLE_SESSION_NAME");

    return (struct fg_aws_sources){
        .access_key = environment("AWS_ACCESS_KEY_ID"),
        .secret_key = environment("AWS_SECRET_ACCESS_KEY"),
        .session_token = environment("AWS_SESSION_TOKEN"),
        .access_key_file = "",
        .secret_key_file = "",
        .session_token_file = "",
        .role_arn = environment("AWS_ROLE_ARN"),
        .web_identity_token_file = environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
        .role_session_name = is_set(name) ? name : settings->role_session_name,
        .sts_endpoint = settings->sts_endpoint,
    };
}

struct fg_aws_sources fg_aws_sources(const struct fg_aws_settings *settings)
{
    if (!is_set(settings->access_key) && !is_set(settings->secret_key) &&
        !is_set(settings->access_key_file) && !is_set(settings->secret_key_file) &&
        !is_set(settings->role_arn) && !is_set(settings->web_identity_token_file))
        return of_environment(settings);
    return (struct fg_aws_sources){
        .access_key = settings->access_key,
        .secret_key = settings->secret_key,
        .session_token = settings->session_token,
        .access_key_file = settings->access_key_file,
        .secret_key_file = settings->secret_key_file,
        .session_token_file = settings->session_token_file,
        .role_arn = settings->role_arn,
        .web_identity_token_file = settings->web_identity_token_file,
        .role_session_name = settings->role_session_name,
        .sts_endpoint = settings->sts_endpoint,
    };
}

const char *fg_aws_region(const char *region)
{
    const char *const from[] = {region, environment("AWS_REGION"),
                                environment("AWS_DEFAULT_REGION")};

    for (size_t i = 0; i < FG_COUNT(from); i++)
        if (is_set(from[i]))
            return from[i];
    return "us-east-1";
}
