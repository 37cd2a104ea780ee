{{/* The settings of the programs: those that the chart knows, and those of the values. */}}

{{/* Bytes of a size of Kubernetes (2Gi, 500M) or of ours (2GiB, 500MB). */}}
{{- define "flamegrid.bytes" -}}
{{- /* Numbers of a file of values are floats, whose text has an exponent. */ -}}
{{- $text := toString (ternary (int64 .) . (kindIs "float64" .)) -}}
{{- $number := regexFind "^[0-9]+" $text -}}
{{- $unit := regexFind "[A-Za-z]*$" $text | trimSuffix "B" -}}
{{- $units := dict "" 1 "K" 1000 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if or (not (hasKey $units $unit)) (ne $text (print $number (regexFind "[A-Za-z]*$" $text))) -}}
{{- fail (printf "%s is not a size such as 2Gi, 512Mi or 2GiB" $text) -}}
{{- end -}}
{{- mul (atoi $number) (get $units $unit) -}}
{{- end -}}

{{/* Nanoseconds of a duration as settings have them. */}}
{{- define "flamegrid.nanoseconds" -}}
{{- $units := dict "ns" 1 "us" 1000 "ms" 1000000 "s" 1000000000 "m" 60000000000 "h" 3600000000000 "d" 86400000000000 "w" 604800000000000 "y" 31536000000000000 -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" (toString .) -1 -}}
{{- $total = add $total (mul (atoi (regexFind "^[0-9]+" .)) (get $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- $total -}}
{{- end -}}

{{/* Fails for sizes and durations out of range, which values.schema.json cannot compare. Of (dict "settings" … "path" "…" "bounds" …). */}}
{{- define "flamegrid.checkBounds" -}}
{{- $path := .path -}}
{{- $bounds := .bounds -}}
{{- range $key, $value := .settings -}}
{{- $at := ternary $key (printf "%s.%s" $path $key) (eq $path "") -}}
{{- if hasKey $bounds $at -}}
{{- $bound := get $bounds $at -}}
{{- $measure := printf "flamegrid.%s" $bound.unit -}}
{{- $have := include $measure $value | int64 -}}
{{- if and (hasKey $bound "min") (lt $have (include $measure $bound.min | int64)) -}}
{{- fail (printf "setting %s: %v is less than %s" $at $value $bound.min) -}}
{{- end -}}
{{- if and (hasKey $bound "max") (gt $have (include $measure $bound.max | int64)) -}}
{{- fail (printf "setting %s: %v is more than %s" $at $value $bound.max) -}}
{{- end -}}
{{- else if kindIs "map" $value -}}
{{- include "flamegrid.checkBounds" (dict "settings" $value "path" $at "bounds" $bounds) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* requests and limits of a part, as a YAML map. Of (dict "root" $ "part" "ingester"). */}}
{{- define "flamegrid.resources" -}}
{{- if not (hasKey .root.Values.sizes .root.Values.size) }}{{ fail (printf "sizes has no row %s" .root.Values.size) }}{{ end -}}
{{- $size := index .root.Values.sizes .root.Values.size .part -}}
{{- $resources := dict "requests" (dict "cpu" $size.cpu "memory" $size.memory) "limits" (dict "memory" $size.memoryLimit) -}}
{{- mergeOverwrite $resources (index .root.Values .part).resources | toYaml -}}
{{- end -}}

{{/* Processors that a part requests, rounded up. */}}
{{- define "flamegrid.processors" -}}
{{- $cpu := toString (include "flamegrid.resources" . | fromYaml).requests.cpu -}}
{{- if hasSuffix "m" $cpu -}}
{{- div (add (trimSuffix "m" $cpu | atoi) 999) 1000 -}}
{{- else -}}
{{- ceil (float64 $cpu) -}}
{{- end -}}
{{- end -}}

{{/* A job starts when three times its input fits beyond the reserve, which is a twentieth of the disk if no setting says more. The rest is for
     what the file system needs itself. */}}
{{- define "flamegrid.scratchSize" -}}
{{- $job := dig "compactor" "job_max_bytes" (dig "compactor" "job_max_bytes" "1GiB" .Values.settings) .Values.compactor.settings -}}
{{- $reserve := default (index .Values.settings "disk_reserve_bytes" | default 0) .Values.compactor.settings.disk_reserve_bytes -}}
{{- $bytes := add (div (mul (include "flamegrid.bytes" $job | int64) 18) 5) (include "flamegrid.bytes" $reserve | int64) -}}
{{- add (div $bytes 1048576) 256 -}}Mi
{{- end -}}

{{/* How long an ingester waits for its turn to stop: half of its time at most, since it hands over after that. */}}
{{- define "flamegrid.maintenanceWait" -}}
{{ printf "%ds" (min 300 (div (sub (int .Values.ingester.terminationGracePeriodSeconds) 60) 2)) }}
{{- end -}}

{{/* Nanoseconds of the shortest limit that keeps the canary from profiles of its own; 0: there is none. */}}
{{- define "flamegrid.canaryReach" -}}
{{- $values := .Values -}}
{{- $reach := 0 -}}
{{- range $limit := list "retention_period" "max_query_lookback" "max_query_length" -}}
{{- $given := list -}}
{{- $of := get $values.tenants (default "anonymous" $values.canary.tenant) | default dict -}}
{{- if hasKey $of $limit -}}
{{- $given = list (get $of $limit) -}}
{{- else -}}
{{- range list $values.settings $values.querier.settings $values.compactor.settings $values.single.settings -}}
{{- $given = append $given (dig "limits" $limit "0" .) -}}
{{- end -}}
{{- end -}}
{{- range $given -}}
{{- $one := include "flamegrid.nanoseconds" . | int64 -}}
{{- if and (gt $one 0) (or (eq $reach 0) (lt $one $reach)) }}{{ $reach = $one }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $reach -}}
{{- end -}}

{{/* How far the canary looks back: a tenth less than it may, so that a slow query is within the limit, too. */}}
{{- define "flamegrid.canaryWindow" -}}
{{- $reach := include "flamegrid.canaryReach" . | int64 -}}
{{- if ne .Values.canary.window "" -}}
{{ .Values.canary.window }}
{{- else if gt $reach 0 -}}
{{ max 1 (min 43200 (div (mul (div $reach 1000000000) 9) 10)) }}s
{{- else -}}
12h
{{- end -}}
{{- end -}}

{{/* Not empty: the part sends profiles of itself to distributors, which take their own. Of (dict "root" $ "part" "ingester"). */}}
{{- define "flamegrid.sendsOwnProfiles" -}}
{{- $access := .root.Values.access -}}
{{- $taken := dict "none" true "header" $access.podsTrusted "token" (ne $access.selfProfilingToken.existingSecret "") -}}
{{- if and (has .part (list "ingester" "querier" "compactor")) (get $taken $access.mode) -}}true{{- end -}}
{{- end -}}

{{/* The file that a part reads. Of (dict "root" $ "part" "ingester"). Later ones of these come before earlier ones: what the chart proposes,
     settings of all, settings of the part, and what only the chart knows. */}}
{{- define "flamegrid.config" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $part := .part -}}
{{- $own := index $values $part -}}
{{- $dir := "/run/secrets/flamegrid" -}}
{{- $resources := include "flamegrid.resources" . | fromYaml -}}
{{- $processors := include "flamegrid.processors" . | int -}}
{{- $threads := mul 2 $processors -}}
{{- $proposed := dict "workers" $threads "loops" $processors "memory_max_bytes" (div (mul (include "flamegrid.bytes" $resources.limits.memory | int64) 3) 4) -}}
{{- $fixed := dict "listen" ":4040" "admin_listen" ":5040" "access" (dict "mode" $values.access.mode) -}}
{{- range $at, $secret := dict "bootstrap_token_file" "bootstrapToken" "master_key_file" "masterKey" -}}
{{- with (index $values.access $secret).existingSecret -}}
{{- $_ := set $fixed.access $at (printf "%s/access/%s" $dir $secret) -}}
{{- end -}}
{{- end -}}
{{- with $values.access.clientSecret.existingSecret -}}
{{- $_ := set $fixed.access "login" (dict "client_secret_file" (printf "%s/access/clientSecret" $dir)) -}}
{{- end -}}
{{- with $values.encryption.key.existingSecret -}}
{{- $_ := set $fixed "encryption" (dict "key_file" (printf "%s/encryption/key" $dir)) -}}
{{- end -}}
{{- with $values.bucket.existingSecret -}}
{{- $_ := set $fixed "bucket" (dict "s3" (dict "access_key_file" (printf "%s/bucket/access_key" $dir) "secret_key_file" (printf "%s/bucket/secret_key" $dir))) -}}
{{- end -}}
{{- with $values.tls.existingSecret -}}
{{- $_ := set $fixed "tls_cert_file" (printf "%s/tls/tls.crt" $dir) -}}
{{- $_ := set $fixed "tls_key_file" (printf "%s/tls/tls.key" $dir) -}}
{{- end -}}
{{- with $values.tenants -}}
{{- $_ := set $fixed "tenants_file" "/etc/flamegrid-tenants/tenants.yaml" -}}
{{- end -}}
{{- if include "flamegrid.sendsOwnProfiles" . -}}
{{- $_ := set $proposed "self_profiling" (dict "url" (include "flamegrid.url" (dict "root" $root "part" "distributor"))) -}}
{{- if and $values.tls.existingSecret $values.tls.caKey -}}
{{- $_ := set $proposed.self_profiling "ca_file" (printf "%s/tls/%s" $dir $values.tls.caKey) -}}
{{- end -}}
{{- with $values.access.selfProfilingToken.existingSecret -}}
{{- $_ := set $proposed.self_profiling "token_file" (printf "%s/access/selfProfilingToken" $dir) -}}
{{- end -}}
{{- end -}}
{{- if has $part (list "ingester" "distributor" "querier" "scraper") -}}
{{- $rpc := dict -}}
{{- $_ := set $proposed "rpc" (dict "cluster" (printf "%s/%s" $root.Release.Namespace (include "flamegrid.fullname" $root))) -}}
{{- if eq $values.rpc.tls "off" -}}
{{- $_ := set $rpc "insecure" true -}}
{{- else if eq $values.rpc.tls "secret" -}}
{{- $_ := set $rpc "secret_file" (printf "%s/rpc/secret" $dir) -}}
{{- else -}}
{{- $_ := set $rpc "tls_cert_file" (printf "%s/rpc/tls.crt" $dir) -}}
{{- $_ := set $rpc "tls_key_file" (printf "%s/rpc/tls.key" $dir) -}}
{{- $_ := set $rpc "tls_ca_file" (printf "%s/rpc/ca.crt" $dir) -}}
{{- $_ := set $proposed.rpc "tls_server_name" (include "flamegrid.rpcName" $root) -}}
{{- end -}}
{{- $_ := set $fixed "rpc" $rpc -}}
{{- end -}}
{{- if or (eq $part "ingester") (eq $part "single") -}}
{{- $_ := set $fixed "data" "/var/lib/flamegrid" -}}
{{- $_ := set $proposed "ingester" (dict "workers" $threads "query_workers" $threads) -}}
{{- end -}}
{{- if eq $part "ingester" -}}
{{- $_ := set $fixed "rpc_listen" (printf "%s://%s:4101" (include "flamegrid.rpcScheme" $root) (include "flamegrid.rpcListenHost" $root)) -}}
{{- $_ := set $proposed "ring" (dict "maintenance_wait" (include "flamegrid.maintenanceWait" $root)) -}}
{{- $_ := set $proposed "leave_timeout" (printf "%ds" (max 1 (sub (int $own.terminationGracePeriodSeconds) 60))) -}}
{{- end -}}
{{- if eq $part "distributor" -}}
{{- if $own.queryProxy -}}
{{- $_ := set $fixed "query_proxy" (dict "urls" (include "flamegrid.url" (dict "root" $root "part" "querier"))) -}}
{{- if and $values.tls.existingSecret $values.tls.caKey -}}
{{- $_ := set $fixed.query_proxy "ca_file" (printf "%s/tls/%s" $dir $values.tls.caKey) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $part "scraper" -}}
{{- $_ := set $fixed "scrape" (dict "share_count" (int $own.replicas)) -}}
{{- if not (hasKey $own.settings "scrape") -}}
{{- $_ := set $proposed "scrape" (dict "kubernetes" (dict "pods" true)) -}}
{{- end -}}
{{- end -}}
{{- if eq $part "querier" -}}
{{- $querier := dict -}}
{{- if ne $own.cache.type "none" -}}
{{- $_ := set $querier "disk_cache" "/var/cache/flamegrid" -}}
{{- $_ := set $proposed "querier" (dict "disk_cache_max_bytes" (div (mul (include "flamegrid.bytes" $own.cache.size | int64) 4) 5)) -}}
{{- end -}}
{{- if $own.share -}}
{{- $scheme := include "flamegrid.rpcScheme" $root -}}
{{- $_ := set $querier "share" (dict "listen" (printf "%s://%s:4102" $scheme (include "flamegrid.rpcListenHost" $root)) "queriers" (printf "%s://%s:4102" $scheme (include "flamegrid.host" (dict "root" $root "part" "querier-share")))) -}}
{{- end -}}
{{- with $querier -}}{{- $_ := set $fixed "querier" $querier -}}{{- end -}}
{{- end -}}
{{- if eq $part "compactor" -}}
{{- $_ := set $fixed "scratch" "/var/lib/flamegrid-scratch" -}}
{{- end -}}
{{- mergeOverwrite $proposed (deepCopy $values.settings) (deepCopy $own.settings) $fixed | toYaml -}}
{{- end -}}

{{/* Helm deletes a set that these values do not name, and its pods stop at once, without handing over: what only their disks have would not be
     found any more. Without a cluster, as for `helm template`, there is nothing to see. */}}
{{- define "flamegrid.validateSets" -}}
{{- $kept := list (printf "%s-single" (include "flamegrid.fullname" .)) -}}
{{- if eq .Values.mode "cluster" -}}
{{- $kept = list -}}
{{- range (include "flamegrid.ingesterSets" . | fromJsonArray) }}{{ $kept = append $kept .name }}{{ end -}}
{{- end -}}
{{- range (lookup "apps/v1" "StatefulSet" .Release.Namespace "").items -}}
{{- $labels := default dict .metadata.labels -}}
{{- $ours := and (eq (get $labels "app.kubernetes.io/part-of") "flamegrid") (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) -}}
{{- if and $ours (has (get $labels "app.kubernetes.io/component") (list "ingester" "single")) (not (has .metadata.name $kept)) (gt (int .spec.replicas) 0) -}}
{{- fail (printf "the StatefulSet %s has %d pods and would be deleted, with profiles that are on its disks only: deploy/helm/README.md, \"Other names, zones and modes\", says how it goes without loss" .metadata.name (int .spec.replicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What cannot work, said before it is installed. */}}
{{- define "flamegrid.validate" -}}
{{- include "flamegrid.validateSets" . -}}
{{- $bounds := .Files.Get "files/bounds.json" | fromJson -}}
{{- include "flamegrid.checkBounds" (dict "settings" .Values.settings "path" "" "bounds" $bounds) -}}
{{- range list "ingester" "distributor" "querier" "compactor" "scraper" "single" -}}
{{- include "flamegrid.checkBounds" (dict "settings" (index $.Values .).settings "path" "" "bounds" $bounds) -}}
{{- end -}}
{{- range .Values.tenants -}}
{{- include "flamegrid.checkBounds" (dict "settings" . "path" "limits" "bounds" $bounds) -}}
{{- end -}}
{{- if eq .Values.mode "cluster" -}}
{{- $ingesters := 0 -}}
{{- range (include "flamegrid.ingesterSets" . | fromJsonArray) }}{{ $ingesters = add $ingesters (int .replicas) | int }}{{ end -}}
{{- $copies := dig "ring" "replicas" (dig "ring" "replicas" 3 .Values.settings) .Values.ingester.settings | int -}}
{{- if lt $ingesters $copies -}}
{{- fail (printf "ingester.replicas: %d ingesters cannot keep %d replicas of each profile (settings.ring.replicas)" $ingesters $copies) -}}
{{- end -}}
{{- $grace := int .Values.ingester.terminationGracePeriodSeconds -}}
{{- if lt $grace 180 -}}
{{- fail (printf "ingester.terminationGracePeriodSeconds: %d s are too short for ingesters that wait for each other and hand over; at least 180" $grace) -}}
{{- end -}}
{{- $wait := dig "ring" "maintenance_wait" (dig "ring" "maintenance_wait" "0" .Values.settings) .Values.ingester.settings -}}
{{- if gt (mul 2 (include "flamegrid.nanoseconds" $wait | int64)) (mul $grace 1000000000) -}}
{{- fail (printf "setting ring.maintenance_wait: %v is more than half of ingester.terminationGracePeriodSeconds, %d" $wait $grace) -}}
{{- end -}}
{{- range (include "flamegrid.ingesterSets" . | fromJsonArray) -}}
{{- /* Kubernetes puts the name and a hash of 10 characters into a label of at most 63. */ -}}
{{- if gt (len .name) 52 -}}
{{- fail (printf "zones: the StatefulSet %s has a name of %d characters, and 52 are allowed: give the zone a shorter name, {name: a, zone: %s}, or the release (fullnameOverride)" .name (len .name) .zone) -}}
{{- end -}}
{{- end -}}
{{- if or (ne (dig "bucket" "type" "" .Values.settings) "s3") (eq (dig "bucket" "s3" "bucket" "" .Values.settings) "") -}}
{{- fail "a cluster needs an object store: set settings.bucket.type to s3 and settings.bucket.s3.bucket to its bucket" -}}
{{- end -}}
{{- if and (eq .Values.rpc.tls "secret") (eq .Values.rpc.secret.existingSecret "") -}}
{{- fail "rpc.tls is secret: rpc.secret.existingSecret names the Secret" -}}
{{- end -}}
{{- if eq .Values.rpc.tls "certificates" -}}
{{- range $part, $secret := .Values.rpc.certificates -}}
{{- if eq $secret "" }}{{ fail (printf "rpc.tls is certificates: rpc.certificates.%s names a Secret" $part) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.rpc.tls "podCertificate" -}}
{{- if not (include "flamegrid.since" (dict "root" . "version" "1.37")) }}{{ fail "rpc.tls podCertificate needs Kubernetes 1.37" }}{{ end -}}
{{- if eq .Values.rpc.podCertificate.signerName "" }}{{ fail "rpc.podCertificate.signerName is missing" }}{{ end -}}
{{- end -}}
{{- if and .Values.scraper.enabled (not (include "flamegrid.since" (dict "root" . "version" "1.28"))) -}}
{{- fail "scrapers need Kubernetes 1.28: they take their share from the pod's index" -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled) (eq .Values.access.mode "token") (eq .Values.access.metricsToken.existingSecret "") -}}
{{- fail "access.mode is token: Prometheus needs access.metricsToken.existingSecret" -}}
{{- end -}}
{{- if and (eq .Values.access.mode "header") (not .Values.access.podsTrusted) -}}
{{- if .Values.canary.enabled -}}
{{- fail "access.mode is header: the canary calls from the address of its pod: set access.podsTrusted to true if settings.access.trusted_cidrs has those of pods, or canary.enabled to false" -}}
{{- end -}}
{{- if and (eq .Values.mode "cluster") .Values.distributor.queryProxy -}}
{{- fail "access.mode is header: distributors pass queries on from the addresses of their pods: set access.podsTrusted to true if settings.access.trusted_cidrs has these, or distributor.queryProxy to false" -}}
{{- end -}}
{{- end -}}
{{- $front := index .Values (ternary "single" "distributor" (eq .Values.mode "single")) -}}
{{- $tenants := dig "multitenancy_enabled" (dig "multitenancy_enabled" false .Values.settings) $front.settings -}}
{{- if and .Values.canary.enabled $tenants (ne .Values.access.mode "token") (eq .Values.canary.tenant "") -}}
{{- fail "settings.multitenancy_enabled is true: canary.tenant names the canary's tenant, or set canary.enabled to false" -}}
{{- end -}}
{{- $reach := include "flamegrid.canaryReach" . | int64 -}}
{{- if and .Values.canary.enabled (gt $reach 0) (gt (include "flamegrid.nanoseconds" (include "flamegrid.canaryWindow" .) | int64) $reach) -}}
{{- fail (printf "canary.window: %s is more than limits.retention_period, max_query_lookback or max_query_length of its tenant: it would miss profiles" .Values.canary.window) -}}
{{- end -}}
{{- if and .Values.canary.enabled (eq .Values.access.mode "token") (eq .Values.access.canaryToken.existingSecret "") -}}
{{- fail "access.mode is token: the canary needs access.canaryToken.existingSecret, or set canary.enabled to false" -}}
{{- end -}}
{{- end -}}
