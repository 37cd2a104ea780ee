/*
 * Paths of the web page (querier/ui). The querier serves the same file at each of them, and the
 * page shows what its address says; the distributor passes them on. They are named one by one, so
 * that a mistyped path of the API stays a 404, and all are in one folder, so that the page's
 * relative links work below any prefix of a proxy.
 */
#ifndef FG_COMMON_NET_UI_PAGES_H
#define FG_COMMON_NET_UI_PAGES_H

/* clang-format off */
#define FG_UI_PAGES(X) \
    X("/") X("/labels") X("/spans") X("/compare") X("/diff") X("/adhoc") X(FG_UI_TARGETS) X("/status") \
    X("/usage") X("/tenants") X("/tokens") X("/people") X("/audit") \
    X("/comparison") X("/comparison-diff") X("/explore") /* links of Pyroscope's page */
/* clang-format on */
#define FG_UI_TARGETS "/targets" /* as Prometheus calls it */
#define FG_UI_EMBED   "/embed"   /* one picture, to be shown in pages of others */
#define FG_UI_ASSETS  "/assets/"

#endif
