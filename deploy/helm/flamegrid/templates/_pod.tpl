{{/* Pods. All parts have the same shape: one container with one of our programs, its settings in a file, secrets as files. */}}

{{- define "flamegrid.tlsSecret" -}}
{{- $rpc := .root.Values.rpc -}}
{{- $part := ternary "distributor" .part (eq .part "scraper") -}}
{{- if eq $rpc.tls "certManager" -}}
{{ include "flamegrid.fullname" .root }}-rpc-{{ $part }}
{{- else -}}
{{ get $rpc.certificates $part }}
{{- end -}}
{{- end -}}

{{- define "flamegrid.volumes" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $part := .part -}}
{{- $own := index $values $part -}}
{{- $program := ne $part "canary" -}}
{{- if $program }}
- name: config
  configMap:
    name: {{ include "flamegrid.fullname" $root }}-{{ $part }}
{{- if $values.tenants }}
- name: tenants
  configMap:
    name: {{ include "flamegrid.fullname" $root }}-tenants
{{- end }}
{{- with $values.bucket.existingSecret }}
- name: bucket
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - {key: {{ $values.bucket.accessKeyKey }}, path: access_key}
      - {key: {{ $values.bucket.secretKeyKey }}, path: secret_key}
{{- end }}
{{- $access := list -}}
{{- range list "bootstrapToken" "masterKey" "clientSecret" "selfProfilingToken" -}}
{{- $secret := index $values.access . -}}
{{- if $secret.existingSecret -}}
{{- $source := dict "name" $secret.existingSecret "items" (list (dict "key" $secret.key "path" .)) -}}
{{- /* A running server makes this token, so pods start without it. They read the file for each push. */ -}}
{{- if eq . "selfProfilingToken" }}{{ $_ := set $source "optional" true }}{{ end -}}
{{- $access = append $access (dict "secret" $source) -}}
{{- end -}}
{{- end -}}
{{- with $access }}
- name: access
  projected:
    defaultMode: 0440
    sources:
      {{- toYaml . | nindent 6 }}
{{- end }}
{{- with $values.encryption.key.existingSecret }}
- name: encryption
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items: [{key: {{ $values.encryption.key.key }}, path: key}]
{{- end }}
{{- if and (has $part (list "ingester" "distributor" "querier" "scraper")) (ne $values.rpc.tls "off") }}
- name: rpc
{{- if eq $values.rpc.tls "secret" }}
  secret:
    secretName: {{ $values.rpc.secret.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ $values.rpc.secret.key }}, path: secret}]
{{- else if eq $values.rpc.tls "podCertificate" }}
  projected:
    defaultMode: 0440
    sources:
      - podCertificate:
          signerName: {{ $values.rpc.podCertificate.signerName }}
          keyType: {{ $values.rpc.podCertificate.keyType }}
          keyPath: tls.key
          certificateChainPath: tls.crt
      - clusterTrustBundle:
          signerName: {{ default $values.rpc.podCertificate.signerName $values.rpc.podCertificate.trustSignerName }}
          labelSelector: {}
          path: ca.crt
{{- else }}
  secret:
    secretName: {{ include "flamegrid.tlsSecret" . }}
    defaultMode: 0440
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
      - {key: ca.crt, path: ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- if and $values.tls.existingSecret (or $program $values.tls.caKey) }}
- name: tls
  secret:
    secretName: {{ $values.tls.existingSecret }}
    defaultMode: 0440
    items:
      {{- if $program }}
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
      {{- end }}
      {{- with $values.tls.caKey }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}
{{- if eq $part "querier" }}
{{- if eq $own.cache.type "emptyDir" }}
- name: cache
  emptyDir: {sizeLimit: {{ $own.cache.size }}}
{{- else if eq $own.cache.type "ephemeral" }}
- name: cache
  ephemeral:
    volumeClaimTemplate:
      {{- include "flamegrid.claim" (dict "size" $own.cache.size "storageClass" $own.cache.storageClass) | nindent 6 }}
{{- end }}
{{- end }}
{{- if eq $part "compactor" }}
- name: scratch
  ephemeral:
    volumeClaimTemplate:
      {{- include "flamegrid.claim" (dict "size" (default (include "flamegrid.scratchSize" $root) $own.scratch.size) "storageClass" $own.scratch.storageClass) | nindent 6 }}
{{- end }}
{{- if has $part (include "flamegrid.apiParts" $root | fromJsonArray) }}
- name: api
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}
{{- end -}}

{{/* The specification of a claim, without its name. */}}
{{- define "flamegrid.claim" -}}
spec:
  accessModes: [ReadWriteOnce]
  {{- with .storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .size | quote }}
{{- end -}}

{{- define "flamegrid.mounts" -}}
{{- range (include "flamegrid.volumes" . | fromYamlArray) }}
{{- if eq .name "config" }}
- {name: config, mountPath: /etc/flamegrid, readOnly: true}
{{- else if eq .name "tenants" }}
- {name: tenants, mountPath: /etc/flamegrid-tenants, readOnly: true}
{{- else if eq .name "cache" }}
- {name: cache, mountPath: /var/cache/flamegrid}
{{- else if eq .name "scratch" }}
- {name: scratch, mountPath: /var/lib/flamegrid-scratch}
{{- else if eq .name "api" }}
- {name: api, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- else }}
- {name: {{ .name }}, mountPath: /run/secrets/flamegrid/{{ .name }}, readOnly: true}
{{- end }}
{{- end }}
{{- if has .part (list "ingester" "single") }}
- {name: data, mountPath: /var/lib/flamegrid}
{{- end }}
{{- end -}}

{{- define "flamegrid.ports" -}}
{{- if eq .part "canary" }}
- {name: metrics, containerPort: 9090}
{{- else }}
- {name: http, containerPort: 4040}
- {name: admin, containerPort: 5040}
{{- if eq .part "ingester" }}
- {name: rpc, containerPort: 4101}
{{- else if and (eq .part "querier") .root.Values.querier.share }}
- {name: share, containerPort: 4102}
{{- end }}
{{- end }}
{{- end -}}

{{- define "flamegrid.command" -}}
{{- $values := .root.Values -}}
{{- if eq .part "canary" -}}
{{- $single := eq $values.mode "single" -}}
{{- $args := list "/usr/bin/flamegrid" "canary" "--through" (include "flamegrid.url" (dict "root" .root "part" (ternary "single" "distributor" $single))) "--ask" (include "flamegrid.url" (dict "root" .root "part" (ternary "single" "querier" $single))) "--listen" ":9090" "--rate" $values.canary.rate "--reads" $values.canary.reads "--window" (include "flamegrid.canaryWindow" .root) -}}
{{- with $values.canary.tenant }}{{ $args = concat $args (list "--tenant" .) }}{{ end -}}
{{- if and $values.tls.existingSecret $values.tls.caKey }}{{ $args = concat $args (list "--ca-file" (printf "/run/secrets/flamegrid/tls/%s" $values.tls.caKey)) }}{{ end -}}
{{- toYaml $args -}}
{{- else if eq .part "single" -}}
{{- toYaml (list "/usr/bin/flamegrid" "server" "--config" "/etc/flamegrid/flamegrid.yaml") -}}
{{- else -}}
{{- toYaml (list (printf "/usr/bin/flamegrid-%s" (ternary "distributor" .part (eq .part "scraper"))) "--config" "/etc/flamegrid/flamegrid.yaml") -}}
{{- end -}}
{{- end -}}

{{/* What differs between pods of a part. */}}
{{- define "flamegrid.env" -}}
{{- $root := .root -}}
{{- if eq .part "ingester" }}
- name: FG_RING_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: FG_RING_ADDRESS
  value: {{ include "flamegrid.rpcScheme" $root }}://$(FG_RING_NAME).{{ include "flamegrid.host" . }}:4101
- name: FG_RING_HTTP
  value: $(FG_RING_NAME).{{ include "flamegrid.host" . }}:4040
{{- if $root.Values.ingester.scaleDown }}
- {name: FG_INGESTER_KUBERNETES_STATEFULSET, value: {{ .name }}}
{{- end }}
{{- if .zone }}
- {name: FG_RING_ZONE, value: {{ .zone | quote }}}
{{- else if include "flamegrid.since" (dict "root" $root "version" "1.35") }}
- name: FG_RING_ZONE
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}}
{{- end }}
{{- else if eq .part "scraper" }}
- name: FG_SCRAPE_SHARE_INDEX
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
{{- else if eq .part "canary" }}
{{- with $root.Values.access.canaryToken.existingSecret }}
- name: FLAMEGRID_TOKEN
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $root.Values.access.canaryToken.key }}}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "flamegrid.probes" -}}
{{- if eq .part "canary" }}
startupProbe:
  httpGet: {path: /metrics, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /metrics, port: metrics}
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 4
readinessProbe:
  httpGet: {path: /metrics, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
{{- else }}
{{- $scheme := ternary "HTTPS" "HTTP" (ne .root.Values.tls.existingSecret "") }}
# The port for operators: clients cannot use up its connections.
startupProbe:
  httpGet: {path: /healthz, port: admin, scheme: {{ $scheme }}}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: admin, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
# As often as a balancer of our own would ask: deploy/operations/cluster.md.
readinessProbe:
  httpGet: {path: /ready, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 1
  failureThreshold: 2
{{- end }}
{{- end -}}

{{- define "flamegrid.spread" -}}
{{- $kind := .kind -}}
{{- if not .zone }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "flamegrid.selector" . | nindent 6 }}
  {{- if and (eq $kind "Deployment") (include "flamegrid.since" (dict "root" .root "version" "1.27")) }}
  matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" (eq .part "ingester") }}
  labelSelector:
    matchLabels:
      {{- include "flamegrid.selector" . | nindent 6 }}
      {{- with .zone }}
      flamegrid/zone: {{ . | quote }}
      {{- end }}
  {{- if and (eq $kind "Deployment") (include "flamegrid.since" (dict "root" .root "version" "1.27")) }}
  matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end -}}

{{/* metadata and spec of a pod. Of (dict "root" $ "part" "ingester" "kind" "StatefulSet" "zone" ""). */}}
{{- define "flamegrid.pod" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $own := index $values .part -}}
{{- /* Maps and lists of the part add to those of all pods; single values replace them. */ -}}
{{- $pod := deepCopy $values.pod -}}
{{- range $key, $all := $values.pod -}}
{{- if hasKey $own $key -}}
{{- $mine := index $own $key -}}
{{- if kindIs "slice" $all }}{{ $_ := set $pod $key (concat $all $mine) }}{{ else if kindIs "map" $all }}{{ $_ := set $pod $key (mergeOverwrite (deepCopy $all) $mine) }}{{ else }}{{ $_ := set $pod $key $mine }}{{ end -}}
{{- end -}}
{{- end -}}
metadata:
  labels:
    {{- include "flamegrid.labels" . | nindent 4 }}
    {{- with .zone }}
    flamegrid/zone: {{ . | quote }}
    {{- end }}
    {{- with $pod.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or (ne .part "canary") $pod.annotations }}
  annotations:
    {{- if ne .part "canary" }}
    # Pods restart when their settings change.
    checksum/config: {{ include "flamegrid.config" . | sha256sum }}
    {{- end }}
    {{- with $pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "flamegrid.serviceAccount" . }}
  automountServiceAccountToken: false
  # A release called "fg" would set variables FG_…, which are settings of ours.
  enableServiceLinks: false
  {{- with concat $values.global.imagePullSecrets $values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ $own.terminationGracePeriodSeconds }}
  {{- with $pod.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $pod.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- if kindIs "bool" $pod.hostUsers }}
  hostUsers: {{ $pod.hostUsers }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    seccompProfile: {type: RuntimeDefault}
    fsGroupChangePolicy: OnRootMismatch
    {{- with $pod.securityContext }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- $nodes := $pod.nodeSelector }}
  {{- with .zone }}
  {{- $nodes = mergeOverwrite (dict "topology.kubernetes.io/zone" .) $nodes }}
  {{- end }}
  {{- with $nodes }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $pod.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $pod.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $pod.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml $pod.topologySpreadConstraints | nindent 4 }}
  {{- else if not (has .part (list "single" "canary")) }}
  topologySpreadConstraints:
    {{- include "flamegrid.spread" . | trim | nindent 4 }}
  {{- end }}
  {{- with $pod.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .part }}
      image: {{ include "flamegrid.image" $root }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      command:
        {{- include "flamegrid.command" . | nindent 8 }}
      {{- with $pod.extraArgs }}
      args:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $env := include "flamegrid.env" . | trim }}
      {{- if or $env $pod.extraEnv }}
      env:
        {{- with $env }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $pod.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with $pod.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- include "flamegrid.ports" . | trim | nindent 8 }}
      {{- include "flamegrid.probes" . | trim | nindent 6 }}
      {{- if and (has .part (list "distributor" "querier" "single")) (include "flamegrid.since" (dict "root" $root "version" "1.30")) }}
      # Until balancers know that the pod ends, they still send to it.
      lifecycle: {preStop: {sleep: {seconds: 5}}}
      {{- end }}
      resources:
        {{- include "flamegrid.resources" . | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- $mounts := include "flamegrid.mounts" . | trim }}
      {{- if or $mounts $pod.extraVolumeMounts }}
      volumeMounts:
        {{- with $mounts }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $pod.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    {{- with $pod.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- $volumes := include "flamegrid.volumes" . | trim }}
  {{- if or $volumes $pod.extraVolumes }}
  volumes:
    {{- with $volumes }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $pod.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* The claim of a StatefulSet's disk. */}}
{{- define "flamegrid.dataClaim" -}}
{{- $own := index .root.Values .part -}}
- metadata:
    name: data
    labels:
      {{- include "flamegrid.selector" . | nindent 6 }}
    {{- with $own.persistence.annotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- include "flamegrid.claim" $own.persistence | nindent 2 }}
{{- end -}}

{{- define "flamegrid.claimRetention" -}}
{{- if include "flamegrid.since" (dict "root" .root "version" "1.27") }}
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ (index .root.Values .part).persistence.whenDeleted }}
  whenScaled: {{ (index .root.Values .part).persistence.whenScaled }}
{{- end }}
{{- end -}}
