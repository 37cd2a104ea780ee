/*
 * The targets of forwarding, as the settings have them: section "forward". Each item of the list
 * `forward.targets` is a map of its own, which is read and checked like a section.
 */
#ifndef FG_INGESTER_FORWARD_TARGETS_H
#define FG_INGESTER_FORWARD_TARGETS_H

#include "common/model/relabel.h"
#include "common/model/selector.h"
#include "common/net/client.h"
#include "common/runtime/config.h"
#include "ingester/forward/oauth2.h"
#include "ingester/forward/outbox.h"

struct ing_forward_settings {
    char *targets; /* YAML */
};
extern const struct fg_conf_field ing_forward_fields[];
extern const size_t ing_n_forward_fields;

enum ing_forward_protocol { FORWARD_AUTO, FORWARD_FLAMEGRID, FORWARD_PUSH };

/* The map of a target. */
struct ing_target_settings {
    char *name, *url, *tenant, *selector, *relabel, *sample_types;
    unsigned protocol; /* enum ing_forward_protocol */
    char *since, *oauth2;
    char *token_file, *ca_file, *cert_file, *key_file;
    char *username, *password_file;
    bool insecure;
    uint64_t queue_max_bytes, rate_max_bytes, connections;
    unsigned when_full; /* enum ing_outbox_when_full */
    double fresh_share;
    int64_t timeout_ns;
};
extern const struct fg_conf_field ing_target_fields[];
extern const size_t ing_n_target_fields;

/* One target, checked. */
struct ing_forward_target {
    struct ing_target_settings settings;
    struct fg_selector selector;   /* no matchers: all profiles */
    struct fg_relabel *rules;      /* for labels */
    struct fg_relabel *type_rules; /* choose among sample types */
    struct fg_client_tls tls;
    int64_t since_ns; /* as of the outbox */
    bool uses_oauth2;
    struct ing_oauth2 oauth2;
};

struct ing_forward_targets {
    struct ing_forward_target *items;
    unsigned n;
    struct ing_outbox_target *queues; /* [n]: the same for the outbox */
    struct fg_arena *arena;           /* of the selectors */
};

/* Reads the setting `forward.targets`. FG_E_INVALID: which target, which key, and why. */
enum fg_code ing_forward_targets_read(const char *yaml, struct ing_forward_targets **ret_targets,
                                      struct fg_err *err) fg_must_check;

/* Frees them. Accepts NULL. */
void ing_forward_targets_destroy(struct ing_forward_targets *targets);

#endif
