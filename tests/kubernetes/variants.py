"""Values for the tests: one set for each choice that the chart offers."""

BUCKET = {"bucket": {"type": "s3", "s3": {"bucket": "profiles", "endpoint": "https://minio.example:9000"}}}
BEHIND_A_GATEWAY = {**BUCKET, "access": {"trusted_cidrs": "10.0.0.0/8"}}
CLUSTER = {"settings": BUCKET, "bucket": {"existingSecret": "bucket-keys"}}
DIGEST = "sha256:" + "0123456789abcdef" * 4

ACCOUNT = "made-by-others"


def cluster(**more):
    return {**CLUSTER, **more}


TOKENS = {"mode": "token", **{name: {"existingSecret": "tokens", "key": name} for name in ("bootstrapToken", "masterKey", "metricsToken", "canaryToken", "selfProfilingToken")}}
MONITORS = {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True},
            "dashboards": {"enabled": True}, "labels": {"release": "prometheus"}}
GATEWAY = [{"name": "public", "namespace": "gateways"}]
ROUTES = {"http": {"enabled": True, "parentRefs": GATEWAY, "hostnames": ["profiles.example"]},
          "grpc": {"enabled": True, "parentRefs": GATEWAY, "hostnames": ["grpc.profiles.example"]},
          "ingress": {"enabled": True, "className": "nginx", "hosts": ["profiles.example"],
                      "tls": [{"secretName": "profiles-tls", "hosts": ["profiles.example"]}]}}
EXTRAS = {"labels": {"team": "platform"}, "annotations": {"note": "1"}, "nodeSelector": {"disk": "ssd"},
          "tolerations": [{"key": "profiles", "operator": "Exists"}], "priorityClassName": "system-cluster-critical", "hostUsers": False,
          "runtimeClassName": "gvisor", "affinity": {"nodeAffinity": {}},
          "extraArgs": ["--log_level", "debug"], "extraEnv": [{"name": "AWS_REGION", "value": "eu-west-1"}],
          "extraEnvFrom": [{"secretRef": {"name": "more"}}], "extraVolumes": [{"name": "ca", "configMap": {"name": "fg-flamegrid-ingester"}}],
          "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}]}

# Values by name, and the oldest version that they need.
VARIANTS = {
    "cluster": (CLUSTER, 25),
    "single": ({"mode": "single"}, 25),
    "single over an object store": (cluster(mode="single", settings=BEHIND_A_GATEWAY, access={"mode": "header", "podsTrusted": True}), 25),
    "header": (cluster(settings=BEHIND_A_GATEWAY, access={"mode": "header"}, canary={"enabled": False}), 25),
    "header with pods that are trusted": (cluster(settings=BEHIND_A_GATEWAY, access={"mode": "header", "podsTrusted": True}, distributor={"queryProxy": True}), 25),
    "medium": (cluster(size="medium"), 25),
    "large": (cluster(size="large"), 25),
    "names": (cluster(fullnameOverride="flames", **{"global": {"imageRegistry": "registry.example", "imagePullSecrets": [{"name": "pull"}]}},
                      image={"digest": DIGEST}, clusterDomain="k8s.example"), 25),
    "workload identity": ({"settings": BUCKET, "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}}}, 25),
    "calls in the clear": (cluster(rpc={"tls": "off"}), 25),
    "IPv6": (cluster(rpc={"listenHost": "::"}, service={"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}, scraper={"enabled": True},
                     monitoring=MONITORS), 28),
    "certificates": (cluster(rpc={"tls": "certificates", "certificates": {"ingester": "i", "distributor": "d", "querier": "q"}}), 25),
    "cert-manager": (cluster(rpc={"tls": "certManager"}), 25),
    "cert-manager with an issuer": (cluster(rpc={"tls": "certManager", "certManager": {"issuerRef": {"kind": "ClusterIssuer", "name": "ours"}}}), 25),
    "pod certificates": (cluster(rpc={"tls": "podCertificate", "podCertificate": {"signerName": "example.com/flamegrid"}}, monitoring=MONITORS), 37),
    "tokens": (cluster(access=TOKENS, monitoring=MONITORS), 25),
    "tokens without one for self-profiling": (cluster(access={**TOKENS, "selfProfilingToken": {"existingSecret": ""}}), 25),
    "TLS for clients": (cluster(tls={"existingSecret": "tls"}, monitoring=MONITORS, distributor={"queryProxy": True}), 25),
    "single with TLS": ({"mode": "single", "tls": {"existingSecret": "tls"}, "access": TOKENS, "monitoring": MONITORS, "routes": ROUTES}, 25),
    "monitoring": (cluster(monitoring=MONITORS), 25),
    "routes": (cluster(routes=ROUTES), 25),
    "zones": (cluster(zones=["a", "b", "c"], ingester={"replicas": 2}), 25),
    "long names": (cluster(fullnameOverride="f" * 50, zones=[{"name": "c1", "zone": "northamerica-northeast1-a"}, {"name": "c2", "zone": "northamerica-northeast1-b"}],
                           ingester={"replicas": 2}, scraper={"enabled": True}), 28),
    "long zones": (cluster(fullnameOverride="flamegrid", zones=["northamerica-northeast1-a", "northamerica-northeast1-b"], ingester={"replicas": 2}), 25),
    "query proxy": (cluster(distributor={"queryProxy": True}), 25),
    "scrapers": (cluster(scraper={"enabled": True, "replicas": 2}), 28),
    "scrapers of one namespace": (cluster(scraper={"enabled": True, "settings": {"scrape": {"kubernetes": {"pods": True, "namespace": "shop"}}}}), 28),
    "without autoscaling": (cluster(distributor={"autoscaling": {"enabled": False}}, querier={"autoscaling": {"enabled": False}, "replicas": 3}), 25),
    "KEDA": (cluster(querier={"replicas": None, "autoscaling": {"enabled": False}}, compactor={"replicas": None}), 25),
    "OpenShift": (cluster(pod={"securityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}, networkPolicy={"dnsPorts": [53, 5353]}), 25),
    "without budgets": (cluster(**{part: {"podDisruptionBudget": {"enabled": False}} for part in ("ingester", "distributor", "querier", "compactor")}), 25),
    "without a canary": (cluster(canary={"enabled": False}), 25),
    "without policies": (cluster(networkPolicy={"enabled": False}), 25),
    "without a shared cache": (cluster(querier={"share": False, "cache": {"type": "none"}}), 25),
    "cache on a claim": (cluster(querier={"cache": {"type": "ephemeral", "size": "100Gi", "storageClass": "fast"}}), 25),
    "disks": (cluster(ingester={"persistence": {"size": "100Gi", "storageClass": "fast", "whenScaled": "Delete"}}, compactor={"scratch": {"size": "9Gi"}}), 25),
    "tenants": (cluster(settings={**BUCKET, "multitenancy_enabled": True}, tenants={"shop": {
        "ingestion_rate_mb": 8, "retention_period": "14d", "ingestion_relabeling_rules": [{"source_labels": ["env"], "regex": "test", "action": "drop"}]}}, canary={"tenant": "canary"}), 25),
    "encryption": (cluster(settings={**BUCKET, "encryption": {"mode": "per_tenant"}}, encryption={"key": {"existingSecret": "master", "key": "k"}}), 25),
    "extras": (cluster(pod=EXTRAS, querier={"annotations": {"note": "2"}}, extraObjects=[
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "labels": {"app.kubernetes.io/" + label: "x" for label in (
            "name", "instance", "component", "part-of", "version", "managed-by")}}}]), 25),
    "one replica of each profile": (cluster(settings={**BUCKET, "ring": {"replicas": 1}}, ingester={"replicas": 1}), 25),
    "scaled down by hand": (cluster(ingester={"scaleDown": False}), 25),
    "no account of its own": (cluster(serviceAccount={"create": False}), 25),
    "an account of others": ({"settings": BUCKET, "serviceAccount": {"create": False, "name": ACCOUNT}, "scraper": {"enabled": True}}, 28),
    "settings of parts": (cluster(settings={**BUCKET, "log_level": "warn", "limits": {"max_query_length": "31d"}},
                                  ingester={"settings": {"log_level": "debug", "ingester": {"commit_delay": "2ms"}}},
                                  compactor={"settings": {"compactor": {"job_max_bytes": "2GiB"}}}), 25),
    "sizes as numbers": (cluster(settings={"bucket": {"type": "s3", "s3": {"bucket": "profiles", "part_size": 16777216}}},
                                 ingester={"settings": {"memory_max_bytes": 2147483648}}, querier={"resources": {"limits": {"memory": 3000000000}}}), 25),
}

# What `helm template` has to refuse, and what it has to say.
REFUSED = {
    "no bucket": ({}, "a cluster needs an object store"),
    "a folder as the bucket": ({"settings": {"bucket": {"type": "directory"}}}, "a cluster needs an object store"),
    "an unknown value": (cluster(ingesters={}), "additional properties 'ingesters' not allowed"),
    "an unknown size": (cluster(size="huge"), "sizes has no row huge"),
    "an unknown setting": (cluster(settings={**BUCKET, "foo": 1}), "additional properties 'foo' not allowed"),
    "a setting of another program": (cluster(ingester={"settings": {"querier": {"timeout": "1s"}}}), "additional properties 'querier' not allowed"),
    "a number out of range": (cluster(settings={**BUCKET, "ring": {"replicas": 4}}), "maximum: got 4, want 3"),
    "a size out of range": (cluster(settings={**BUCKET, "memory_max_bytes": "1MiB"}), "memory_max_bytes: 1MiB is less than 64MiB"),
    "a number as a size out of range": (cluster(settings={**BUCKET, "memory_max_bytes": 1000}), "memory_max_bytes: 1000 is less than 64MiB"),
    "a duration out of range": (cluster(ingester={"settings": {"ingester": {"commit_delay": "1s1ms"}}}), "commit_delay: 1s1ms is more than 100ms"),
    "a unit that there is not": (cluster(settings={**BUCKET, "drain": "1fortnight"}), "'1fortnight' does not match"),
    "a choice that there is not": (cluster(settings={**BUCKET, "log_level": "loud"}), "/settings/log_level"),
    "a secret": (cluster(settings={"bucket": {"type": "s3", "s3": {"bucket": "profiles", "secret_key": "x"}}}), "additional properties 'secret_key' not allowed"),
    "what the chart sets": (cluster(settings={**BUCKET, "listen": ":80"}), "additional properties 'listen' not allowed"),
    "tokens without one for the canary": (cluster(access={**TOKENS, "canaryToken": {"existingSecret": ""}}), "the canary needs access.canaryToken.existingSecret"),
    "tokens without one for Prometheus": (cluster(access={**TOKENS, "metricsToken": {"existingSecret": ""}}, monitoring=MONITORS),
                                          "Prometheus needs access.metricsToken.existingSecret"),
    "a canary that is not trusted": (cluster(settings=BEHIND_A_GATEWAY, access={"mode": "header"}), "the canary calls from the address of its pod"),
    "a query proxy that is not trusted": (cluster(settings=BEHIND_A_GATEWAY, access={"mode": "header"}, canary={"enabled": False}, distributor={"queryProxy": True}),
                                          "distributors pass queries on from the addresses of their pods"),
    "a canary without a tenant": (cluster(settings={**BUCKET, "multitenancy_enabled": True}), "canary.tenant names the canary's tenant"),
    "a canary without a tenant of a single server": ({"mode": "single", "single": {"settings": {"multitenancy_enabled": True}}}, "canary.tenant names the canary's tenant"),
    "an unknown limit of a tenant": (cluster(tenants={"shop": {"ingestion_rte_mb": 4}}), "additional properties 'ingestion_rte_mb' not allowed"),
    "a limit of a tenant out of range": (cluster(tenants={"shop": {"shard_factor": 13}}), "maximum: got 13, want 12"),
    "a size of a tenant out of range": (cluster(tenants={"shop": {"max_profile_size_bytes": "2GiB"}}), "limits.max_profile_size_bytes: 2GiB is more than 1GiB"),
    "a tenant without limits": (cluster(tenants={"shop": 8}), "/tenants/shop"),
    "fewer ingesters than replicas": (cluster(ingester={"replicas": 2}), "ingester.replicas: 2 ingesters cannot keep 3 replicas"),
    "fewer ingesters than their own setting": (cluster(ingester={"replicas": 1, "settings": {"ring": {"replicas": 2}}}), "1 ingesters cannot keep 2 replicas"),
    "pod certificates before 1.37": (cluster(rpc={"tls": "podCertificate", "podCertificate": {"signerName": "example.com/x"}}), "needs Kubernetes 1.37"),
    "a certificate that is missing": (cluster(rpc={"tls": "certificates", "certificates": {"ingester": "i"}}), "rpc.certificates.distributor names a Secret"),
    "a name that is too long": (cluster(fullnameOverride="flamegrid-of-the-platform-team", zones=["eu-west-1a", "eu-west-1b", "northamerica-northeast1-a"]),
                                "ingester-northamerica-northeast1-a has a name of 65 characters, and 52 are allowed"),
    "no time to stop": (cluster(ingester={"terminationGracePeriodSeconds": 120}), "terminationGracePeriodSeconds: 120 s are too short"),
    "a wait that is too long for the time to stop": (cluster(settings={**BUCKET, "ring": {"maintenance_wait": "4m"}}, ingester={"terminationGracePeriodSeconds": 400}),
                                                     "ring.maintenance_wait: 4m is more than half of"),
    "a canary that looks too far": (cluster(settings={**BUCKET, "limits": {"retention_period": "1d"}}, canary={"window": "25h"}), "canary.window: 25h is more than"),
    "fewer ingesters than replicas in sets": (cluster(zones=["a", "b", {"name": "c", "replicas": 0}], ingester={"replicas": 1}), "2 ingesters cannot keep 3 replicas"),
    "no secret for calls": (cluster(rpc={"secret": {"existingSecret": ""}}), "rpc.secret.existingSecret names the Secret"),
}
