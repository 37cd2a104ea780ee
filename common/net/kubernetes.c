#include "common/net/kubernetes.h"

#include "common/base/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fg_code fg_kubernetes_url(const char *given, const char *setting,
                               char out[FG_KUBERNETES_URL_MAX_BYTES], struct fg_err *err)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): nobody sets the environment */
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    /* NOLINTEND(concurrency-mt-unsafe) */
    bool bracket;

    if (given[0] != '\0') {
        (void)snprintf(out, FG_KUBERNETES_URL_MAX_BYTES, "%s", given);
        return fg_slice_starts(fg_cstr(given), "https://")
                   ? FG_OK
                   : fg_fail(err, FG_E_INVALID, "%s: %.200s is not an https URL", setting, given);
    }
    if (host == NULL || port == NULL)
        return fg_fail(err, FG_E_INVALID,
                       "not in a pod (KUBERNETES_SERVICE_HOST is not set), so %s is needed",
                       setting);
    bracket = strchr(host, ':') != NULL; /* an IPv6 address */
    (void)snprintf(out, FG_KUBERNETES_URL_MAX_BYTES, "https://%s%.500s%s:%.100s",
                   bracket ? "[" : "", host, bracket ? "]" : "", port);
    return FG_OK;
}
