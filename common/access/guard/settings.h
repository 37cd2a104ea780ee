/* The settings of access, the section `access`. */
#ifndef FG_COMMON_ACCESS_GUARD_SETTINGS_H
#define FG_COMMON_ACCESS_GUARD_SETTINGS_H

#include "common/runtime/config.h"

struct fg_access_settings {
    unsigned mode; /* enum fg_access_mode */
    char *trusted_cidrs;
    int64_t poll_ns, stale_max_ns;
    char *bootstrap_token_file; /* "": none */
    char *copy;                 /* a folder; "": none */
    uint64_t failures_per_minute;
    char *issuers, *bindings; /* YAML; issuer_settings.h */
    char *master_key_file;    /* "": none */
};

/* The section access.login. */
struct fg_access_login_settings {
    char *issuer; /* "": no log-in for people */
    char *client_id, *client_secret_file, *scopes, *public_url, *device_client_id;
    bool provider_logout;
};

extern const struct fg_conf_field fg_access_fields[];
extern const size_t fg_access_n_fields;
extern const struct fg_conf_field fg_access_login_fields[];
extern const size_t fg_access_login_n_fields;

#endif
