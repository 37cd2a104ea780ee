"""What each route of all programs demands: the rules a second time, by hand. A route without a row fails.

A row: a path, which ends with '*' if it serves all below it, methods, and the scopes of which a caller needs one; "open": everybody,
"known": whoever has proved who it is. Routes with the same path and other methods have rows of their own.
"""

import re

ANY = "GET,POST,PUT,DELETE,OPTIONS"  # of Connect, which answers to all of them
PUSH = "push,forward"
GOVERN = "tenant-admin,admin"

BOTH = """
/ready                            GET       open
/healthz                          GET       open
/buildinfo                        GET       known
/api/v1/status/buildinfo          GET       known
/api/v1/*                         GET       known
/grpc.health.v1.Health/{Check,Watch}  ANY   open
"""

# For clients and for operators.
ADMIN = """
/api/tenants                      GET       GOVERN
/api/tenants                      POST      admin
/api/tenants/*                    GET       GOVERN
/api/tenants/*                    POST,PUT,DELETE admin
/api/audit                        GET       GOVERN
/api/tokens                       GET       GOVERN
/api/tokens                       POST      GOVERN
/api/tokens/*                     GET       GOVERN
/api/tokens/*                     POST      GOVERN
/api/bindings                     GET       GOVERN
/api/bindings                     POST      GOVERN
/api/bindings/*                   DELETE    GOVERN
/api/sessions:revoke              POST      admin
/api/forward                      GET       admin
/api/forward/*                    GET       admin
/api/forward/*                    POST      admin
"""

CLIENTS = BOTH + ADMIN + """
/ingest                           POST      PUSH
/pyroscope/ingest                 POST      PUSH
/v1development/profiles           POST      PUSH
/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export  ANY  PUSH
/push.v1.PusherService/Push       ANY       PUSH
/forward.v1.ForwardService/Push   ANY       forward
/api/v1/targets                   GET       admin
/querier.v1.QuerierService/{ProfileTypes,LabelNames,LabelValues,Series,SelectMergeStacktraces,SelectMergeSpanProfile}  ANY  read
/querier.v1.QuerierService/{SelectMergeProfile,SelectSeries,SelectHeatmap,Diff,GetProfileStats,AnalyzeQuery}  ANY  read
/settings.v1.SettingsService/Get  ANY       read
/settings.v1.SettingsService/{Set,Delete}   ANY  rules
/settings.v1.RecordingRulesService/{GetRecordingRule,ListRecordingRules}  ANY  read
/settings.v1.RecordingRulesService/{UpsertRecordingRule,DeleteRecordingRule}  ANY  rules
/capabilities.v1.FeatureFlagsService/GetFeatureFlags  ANY  read
/version.v1.Version/Version       ANY       read
/vcs.v1.VCSService/{GithubApp,GithubLogin,GithubRefresh,GetFile,GetCommit,GetCommits}  ANY  read
/debuginfo.v1alpha1.DebuginfoService/{ShouldInitiateUpload,UploadFinished,ListDebuginfo,DeleteDebuginfo}  ANY  debuginfo
/debuginfo.v1alpha1.DebuginfoService/Upload/*  POST  debuginfo
/pyroscope/{render,render-diff,label-values}  GET  read
/api/{functions,sandwich,status,usage,profiles,labels,metrics,adhoc}  GET  read
/api/{profiles,labels,adhoc}/*    GET       read
/api/compare                      GET,POST  read
/adhocprofiles.v1.AdHocProfileService/{Get,List,Diff}  ANY  read
/adhocprofiles.v1.AdHocProfileService/Upload  ANY  share
/api/adhoc                        POST      share
/api/adhoc/*                      DELETE    share
/api/whoami                       GET       known
/api/settings                     GET       admin
/api/{openapi.json,reference}     GET       open
/                                 GET       open
/{targets,labels,spans,compare,diff,adhoc,status,usage,tenants,tokens,people,audit,comparison,comparison-diff,explore,embed}  GET  open
/assets/FILE                      GET       open
"""

# An agent answers that it has nothing else.
AGENT = CLIENTS + """
/*                                ANY       known
"""

# A distributor passes on what is not its own: who has proved who it is; the querier decides about the rest.
PASSED_ON = """
/{querier.v1.QuerierService,settings.v1.SettingsService,settings.v1.RecordingRulesService}/*  GET,POST  known
/{capabilities.v1.FeatureFlagsService,version.v1.Version,vcs.v1.VCSService}/*  GET,POST  known
/{adhocprofiles.v1.AdHocProfileService,debuginfo.v1alpha1.DebuginfoService}/*  GET,POST  known
/api/*                            GET,POST,PUT,DELETE  known
/api/{compare,adhoc}              GET,POST  known
/pyroscope/{render,render-diff,label-values}  GET  known
/assets/*                         GET       open
"""

OPERATORS = BOTH + """
/config                           GET       admin
/api/v1/status/config             GET       admin
/routes                           GET       admin
/ring                             GET       admin
/metrics                          GET       metrics,admin
/ingester/{flush,salvage,prepare-shutdown}  POST  admin
/ingester/prepare-shutdown        GET,POST,DELETE  admin
/ingester/prepare-shutdown        GET       admin
/ingester/prepare-shutdown        DELETE    admin
/compactor/status                 GET       admin
/compactor/deletions              GET       delete,tenant-admin,admin
/compactor/delete                 POST      delete,admin
/api/v1/targets                   GET       admin
/api/whoami                       GET       known
""" + ADMIN


def expand(path):
    """Each of {a,b}."""
    found = re.fullmatch(r"(.*)\{([^}]*)\}(.*)", path)
    return [found.group(1) + word + found.group(3) for word in found.group(2).split(",")] if found else [path]


def rows(text):
    """{(path, methods): set of scopes}."""
    names = {"ANY": ANY, "PUSH": PUSH, "GOVERN": GOVERN}
    found = {}
    for line in text.split("\n"):
        if line:
            path, methods, scopes = line.split()
            for each in expand(path):
                key = each, frozenset(names.get(methods, methods).split(","))
                assert key not in found, key
                found[key] = set(names.get(scopes, scopes).split(","))
    return found


def listed(routes):
    """The same of what GET /routes says of a server. Files of the page have hashes in their names, so they are one."""
    found = {}
    for route in routes:
        path = re.sub(r"^/assets/.+", "/assets/FILE", route["path"]) + ("*" if route["prefix"] else "")
        found[path, frozenset(route["methods"]) - {"HEAD"}] = set(route["scopes"].split(","))
    return found
