{{/* Names, labels and images. */}}

{{- define "flamegrid.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that find the pods of a part; they can never change. Of (dict "root" $ "part" "ingester"). */}}
{{- define "flamegrid.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "flamegrid.labels" -}}
{{ include "flamegrid.selector" . }}
app.kubernetes.io/part-of: flamegrid
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* Name and labels of an object. Of (dict "root" $ "part" "ingester" "name" "…"). */}}
{{- define "flamegrid.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "flamegrid.labels" . | nindent 2 }}
{{- end -}}

{{/* Annotations of a set whose disks have what nobody else has: Argo CD and Flux delete no such set that values do not name any more,
     as Helm would be refused to (flamegrid.validateSets). The set of Flux stays when its Kustomization is deleted, too. */}}
{{- define "flamegrid.keptAnnotations" -}}
annotations:
  argocd.argoproj.io/sync-options: Prune=false
  kustomize.toolkit.fluxcd.io/prune: disabled
{{- end -}}

{{- define "flamegrid.image" -}}
{{- $image := .Values.image -}}
{{- $registry := default $image.registry .Values.global.imageRegistry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* An account that others made, for example with a role of the cloud, is that of all pods. Of (dict "root" $ "part" "ingester"). */}}
{{- define "flamegrid.serviceAccount" -}}
{{- if not .root.Values.serviceAccount.create -}}
{{ default "default" .root.Values.serviceAccount.name }}
{{- else if has .part (include "flamegrid.apiParts" .root | fromJsonArray) -}}
{{ include "flamegrid.fullname" .root }}-{{ .part }}
{{- else -}}
{{ default (include "flamegrid.fullname" .root) .root.Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* The parts of this mode, in a list. */}}
{{- define "flamegrid.parts" -}}
{{- $parts := list "single" -}}
{{- if eq .Values.mode "cluster" -}}
{{- $parts = list "ingester" "distributor" "querier" "compactor" -}}
{{- if .Values.scraper.enabled }}{{- $parts = append $parts "scraper" }}{{ end -}}
{{- end -}}
{{- if .Values.canary.enabled }}{{- $parts = append $parts "canary" }}{{ end -}}
{{- toJson $parts -}}
{{- end -}}

{{/* The parts that ask the API server, in a list: they have roles, and service accounts of their own if the chart makes accounts. */}}
{{- define "flamegrid.apiParts" -}}
{{- $parts := list -}}
{{- if eq .Values.mode "cluster" -}}
{{- if .Values.ingester.scaleDown }}{{- $parts = append $parts "ingester" }}{{ end -}}
{{- if .Values.scraper.enabled }}{{- $parts = append $parts "scraper" }}{{ end -}}
{{- end -}}
{{- toJson $parts -}}
{{- end -}}

{{/* The StatefulSets of ingesters, in a list: one for each of zones, or one without a zone. A zone is a text, or a map with another name for its set, which is
     empty for the one without a zone, and with replicas of its own. */}}
{{- define "flamegrid.ingesterSets" -}}
{{- $name := printf "%s-ingester" (include "flamegrid.fullname" .) -}}
{{- $sets := list -}}
{{- range (default (list "") .Values.zones) -}}
{{- $zone := ternary . (dict "name" .) (kindIs "map" .) -}}
{{- $sets = append $sets (dict "name" (ternary $name (printf "%s-%s" $name $zone.name) (eq $zone.name "")) "zone" (default $zone.name $zone.zone) "replicas" (ternary $zone.replicas $.Values.ingester.replicas (hasKey $zone "replicas"))) -}}
{{- end -}}
{{- toJson $sets -}}
{{- end -}}

{{/* "true" if the cluster has at least this version. Of (dict "root" $ "version" "1.30"). */}}
{{- define "flamegrid.since" -}}
{{- if semverCompare (printf ">=%s-0" .version) .root.Capabilities.KubeVersion.Version }}true{{ end -}}
{{- end -}}

{{/* Who serves agents and who serves queries: URLs inside the cluster. */}}
{{- define "flamegrid.host" -}}
{{ include "flamegrid.fullname" .root }}-{{ .part }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end -}}

{{- define "flamegrid.url" -}}
{{ ternary "https" "http" (ne .root.Values.tls.existingSecret "") }}://{{ include "flamegrid.host" . }}:4040
{{- end -}}

{{- define "flamegrid.rpcScheme" -}}
{{ ternary "tcp" "tls+tcp" (eq .Values.rpc.tls "off") }}
{{- end -}}

{{- define "flamegrid.rpcListenHost" -}}
{{ ternary "[::]" .Values.rpc.listenHost (eq .Values.rpc.listenHost "::") }}
{{- end -}}

{{/* The families of addresses of a service. */}}
{{- define "flamegrid.ipFamilies" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* The name that all certificates of services have. */}}
{{- define "flamegrid.rpcName" -}}
rpc.{{ include "flamegrid.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}
