/*
 * Reads the settings access.issuers and access.bindings, lists of maps in YAML:
 *
 *     access:
 *       issuers:
 *         - issuer: https://login.example.com
 *           audience: flamegrid
 *         - issuer: https://kubernetes.default.svc.cluster.local
 *           audience: flamegrid
 *           keys_url: https://kubernetes.default.svc/openid/v1/jwks
 *           ca_file: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
 *           token_file: /var/run/secrets/kubernetes.io/serviceaccount/token
 *           tenant_claim: /kubernetes.io/namespace
 *       bindings:
 *         - {issuer: https://login.example.com, claim: groups, value: dev, tenants: team-*, role:
 * editor}
 *
 * Pure. Texts are copied to the arena.
 */
#ifndef FG_COMMON_ACCESS_ISSUER_ISSUER_SETTINGS_H
#define FG_COMMON_ACCESS_ISSUER_ISSUER_SETTINGS_H

#include "common/access/issuer/issuer.h"
#include "common/access/registry/bindings.h"

/* Read a list. FG_E_INVALID says what is wrong, and where. */
enum fg_code fg_issuer_settings_read(struct fg_slice yaml, struct fg_arena *arena,
                                     struct fg_issuer_config list[FG_ISSUERS_MAX], size_t *ret_n,
                                     struct fg_err *err) fg_must_check;
enum fg_code fg_binding_settings_read(struct fg_slice yaml, struct fg_arena *arena,
                                      struct fg_binding **ret_list, uint32_t *ret_n,
                                      struct fg_err *err) fg_must_check;

#endif
