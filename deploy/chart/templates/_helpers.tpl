{{- define "location-monitor.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "location-monitor.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "location-monitor.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "location-monitor.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "location-monitor.selector" -}}
app.kubernetes.io/name: {{ include "location-monitor.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "location-monitor.labels" -}}
{{ include "location-monitor.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The labels of the instances. Pods of hooks have another component, so that no Service or budget selects them. */}}
{{- define "location-monitor.instances" -}}
{{ include "location-monitor.selector" . }}
app.kubernetes.io/component: instance
{{- end -}}

{{- define "location-monitor.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "location-monitor.job" -}}
{{- default (include "location-monitor.fullname" .) .Values.monitoring.job -}}
{{- end -}}

{{- define "location-monitor.metricsPort" -}}
{{- (dig "metrics" "port" 9108 .Values.config) | int -}}
{{- end -}}

{{/* The configuration, with the files that the chart mounts. */}}
{{- define "location-monitor.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $at := "/run/secrets/location-monitor" -}}
{{- $files := dict "visits" (dict "person_key_file" (printf "%s/person.key" $at)) -}}
{{- $registry := ternary (printf "/var/lib/location-monitor/%s" .Values.registry.file) "locations.csv" (ne .Values.registry.existingClaim "") -}}
{{- $_ := set $files "locations" (dict "file" $registry) -}}
{{- $kafka := dict -}}
{{- $redis := dict -}}
{{- $page := dict -}}
{{- if .Values.page.background -}}{{- $_ := set $page "background" "background.geojson" -}}{{- end -}}
{{- if .Values.page.delays -}}{{- $_ := set $page "delays_file" "delays.csv" -}}{{- end -}}
{{- if $page -}}{{- $_ := set $files "page" $page -}}{{- end -}}
{{- if .Values.auditor.cosignKey.existingSecret -}}{{- $_ := set $files "auditor" (dict "cosign_key_file" (printf "%s/cosign.key" $at)) -}}{{- end -}}
{{- with .Values.secrets -}}
{{- if .signingKey.existingSecret -}}{{- $_ := set $files "signing" (dict "key_file" (printf "%s/signing.key" $at)) -}}{{- end -}}
{{- if .kafkaPassword.existingSecret -}}{{- $_ := set $kafka "password_file" (printf "%s/kafka-password" $at) -}}{{- end -}}
{{- if .kafkaToken.audience -}}{{- $_ := set $kafka "token_file" (printf "%s/kafka-token" $at) -}}{{- end -}}
{{- if .sentinelPassword.existingSecret -}}{{- $_ := set $redis "sentinel_password_file" (printf "%s/sentinel-password" $at) -}}{{- end -}}
{{- if .kafkaCa.existingSecret -}}{{- $_ := set $kafka "ca_file" (printf "%s/kafka-ca.pem" $at) -}}{{- end -}}
{{- if .kafkaClient.existingSecret -}}
{{- $_ := set $kafka "certificate_file" (printf "%s/kafka-client.pem" $at) -}}
{{- $_ := set $kafka "key_file" (printf "%s/kafka-client.key" $at) -}}
{{- end -}}
{{- if .redisPassword.existingSecret -}}{{- $_ := set $redis "password_file" (printf "%s/redis-password" $at) -}}{{- end -}}
{{- if .redisCa.existingSecret -}}{{- $_ := set $redis "ca_file" (printf "%s/redis-ca.pem" $at) -}}{{- end -}}
{{- if .redisClient.existingSecret -}}
{{- $_ := set $redis "certificate_file" (printf "%s/redis-client.pem" $at) -}}
{{- $_ := set $redis "key_file" (printf "%s/redis-client.key" $at) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $files "kafka" $kafka -}}
{{- $_ := set $files "redis" $redis -}}
{{- mustMergeOverwrite $config $files | toYaml -}}
{{- end -}}

{{/* The content of the ConfigMap. The preflight job has a separate copy, because it runs before the release. */}}
{{- define "location-monitor.configData" -}}
config.yaml: |
  {{- include "location-monitor.config" . | nindent 2 }}
{{- with .Values.registry.csv }}
locations.csv: |
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The configuration before the last change, from the cluster: `config` and `registry`. Empty without a cluster. A change
that the instances did not complete, such as one that they refuse, was not in force: then the one before it stays.
*/}}
{{- define "location-monitor.previous" -}}
{{- $name := include "location-monitor.fullname" . -}}
{{- $status := dig "status" dict (lookup "apps/v1" "Deployment" .Release.Namespace $name) -}}
{{- $complete := eq (dig "updatedReplicas" 0 $status | int) (dig "replicas" 0 $status | int) -}}
{{- $now := include "location-monitor.configData" . | fromYaml -}}
{{- $installed := dig "data" dict (lookup "v1" "ConfigMap" .Release.Namespace $name) -}}
{{- $kept := dig "data" dict (lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-earlier" $name)) -}}
{{- if not .Values.auditor.keepPrevious -}}
{{- dict | toYaml -}}
{{- else if and $installed (ne (toYaml $installed) (toYaml $now)) (or $complete (not (hasKey $kept "previous.yaml"))) -}}
{{- dict "config" (get $installed "config.yaml") "registry" (get $installed "locations.csv") | toYaml -}}
{{- else if hasKey $kept "previous.yaml" -}}
{{- dict "config" (get $kept "previous.yaml") "registry" (get $kept "previous.csv") | toYaml -}}
{{- else -}}
{{- dict | toYaml -}}
{{- end -}}
{{- end -}}

{{/* All earlier configurations of the auditor: name to `config` and `registry`. */}}
{{- define "location-monitor.earlier" -}}
{{- $all := deepCopy .Values.auditor.earlier -}}
{{- with include "location-monitor.previous" . | fromYaml -}}
{{- $_ := set $all "previous" . -}}
{{- end -}}
{{- $all | toYaml -}}
{{- end -}}

{{/* The names of the earlier configurations, newest first, separated by spaces. */}}
{{- define "location-monitor.earlierNames" -}}
{{- $all := include "location-monitor.earlier" . | fromYaml -}}
{{- $names := keys $all | sortAlpha | reverse -}}
{{- if has "previous" $names -}}
{{- $names = prepend (without $names "previous") "previous" -}}
{{- end -}}
{{- join " " $names -}}
{{- end -}}

{{/* The sources of the auditor's folder of earlier configurations. Each is beside the registry of its time. */}}
{{- define "location-monitor.earlierSources" -}}
{{- $root := .root -}}
{{- $all := include "location-monitor.earlier" $root | fromYaml -}}
{{- $fullname := include "location-monitor.fullname" $root -}}
{{- range $name := .names }}
{{- $own := (get $all $name).registry }}
- configMap:
    name: {{ $fullname }}-earlier
    items:
      - {key: {{ $name }}.yaml, path: earlier/{{ $name }}/config.yaml}
      {{- if $own }}
      - {key: {{ $name }}.csv, path: earlier/{{ $name }}/locations.csv}
      {{- end }}
{{- if and (not $own) (not $root.Values.registry.existingClaim) }}
- configMap:
    name: {{ default $fullname $root.Values.registry.existingConfigMap }}
    items: [{key: locations.csv, path: earlier/{{ $name }}/locations.csv}]
{{- end }}
{{- end }}
{{- end -}}

{{- define "location-monitor.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "location-monitor.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "location-monitor.mounts" -}}
- {name: config, mountPath: /etc/location-monitor, readOnly: true}
- {name: secrets, mountPath: /run/secrets/location-monitor, readOnly: true}
{{- if .Values.registry.existingClaim }}
- {name: registry, mountPath: /var/lib/location-monitor, readOnly: true}
{{- end }}
{{- end -}}

{{/* The volumes. Call it with (dict "root" $ "configMap" NAME "more" SOURCES). */}}
{{- define "location-monitor.configVolumes" -}}
- name: config
  projected:
    defaultMode: 0444
    sources:
      - configMap:
          name: {{ .configMap }}
      {{- with .root.Values.registry.existingConfigMap }}
      - configMap:
          name: {{ . }}
          items: [{key: locations.csv, path: locations.csv}]
      {{- end }}
      {{- with .more }}
      {{- . | nindent 6 }}
      {{- end }}
{{- with .root.Values.registry.existingClaim }}
- name: registry
  persistentVolumeClaim: {claimName: {{ . }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* The token of the pod's service account, for Kafka. */}}
{{- define "location-monitor.kafkaToken" -}}
{{- with .Values.secrets.kafkaToken }}
{{- if .audience }}
- serviceAccountToken: {audience: {{ .audience | quote }}, expirationSeconds: {{ .expirationSeconds }}, path: kafka-token}
{{- end }}
{{- end }}
{{- end -}}

{{/* The volumes of the service, with its secrets. */}}
{{- define "location-monitor.volumes" -}}
{{- $secrets := .root.Values.secrets -}}
{{ include "location-monitor.configVolumes" . }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ $secrets.personKey.existingSecret }}
          items: [{key: {{ $secrets.personKey.key }}, path: person.key}]
      {{- range $name, $path := dict "signingKey" "signing.key" "kafkaPassword" "kafka-password" "kafkaCa" "kafka-ca.pem" "redisPassword" "redis-password" "sentinelPassword" "sentinel-password" "redisCa" "redis-ca.pem" }}
      {{- $secret := get $secrets $name }}
      {{- if $secret.existingSecret }}
      - secret:
          name: {{ $secret.existingSecret }}
          items: [{key: {{ $secret.key }}, path: {{ $path }}}]
      {{- end }}
      {{- end }}
      {{- range $server, $client := dict "kafka" $secrets.kafkaClient "redis" $secrets.redisClient }}
      {{- if $client.existingSecret }}
      - secret:
          name: {{ $client.existingSecret }}
          items:
            - {key: {{ $client.certificateKey }}, path: {{ $server }}-client.pem}
            - {key: {{ $client.privateKey }}, path: {{ $server }}-client.key}
      {{- end }}
      {{- end }}
      {{- include "location-monitor.kafkaToken" .root | nindent 6 }}
{{- end -}}

{{/* The parts of a pod that all pods of the chart share. */}}
{{- define "location-monitor.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with default .Values.serviceAccountName .serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "location-monitor.podSecurity" . | nindent 2 }}
{{- end -}}

{{/* A duration of the configuration, such as 1h30m, in milliseconds. */}}
{{- define "location-monitor.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9]+(ms|[smhdwy])" . -1 -}}
{{- $total = add $total (mul (regexFind "[0-9]+" .) (get $units (regexFind "[a-z]+" .) | int64)) -}}
{{- end -}}
{{- $total -}}
{{- end -}}

{{/* The retention of input and output, in milliseconds, as `topics --create` sets it: the least, plus one day. */}}
{{- define "location-monitor.retention" -}}
{{- $slot := include "location-monitor.milliseconds" .Values.config.clock.slot | int64 -}}
{{- /* F: accept_ahead and default_stay, each in whole slots, rounded up. */ -}}
{{- $lead := 0 -}}
{{- range list .Values.config.visits.accept_ahead .Values.config.visits.default_stay -}}
{{- $duration := include "location-monitor.milliseconds" . | int64 -}}
{{- $lead = add $lead (div (sub (add $duration $slot) 1) $slot) -}}
{{- end -}}
{{- $history := 0 -}}
{{- range .Values.config.monitors -}}
{{- $back := include "location-monitor.milliseconds" (coalesce .window .reporting_horizon) | int64 -}}
{{- $history = max $history (div (sub (add $back $slot) 1) $slot) -}}
{{- end -}}
{{- $period := div (sub (add (include "location-monitor.milliseconds" .Values.config.privacy.period | int64) $slot) 1) $slot -}}
{{- $day := 86400000 -}}
visits: {{ add (mul (add $history 2 $lead 2) $slot) $day | quote }}
alerts: {{ add (mul (add $history 2 $lead $period 1) $slot) $day | quote }}
{{- end -}}

{{- define "location-monitor.kafkaUser" -}}
{{- coalesce .Values.strimzi.user.name (dig "kafka" "username" "" .Values.config) (include "location-monitor.fullname" .) -}}
{{- end -}}

{{/* The secrets of the values that the namespace lacks. Helm cannot look without a cluster, where it knows no secret. */}}
{{- define "location-monitor.findSecrets" -}}
{{- $found := dict -}}
{{- range dig "items" list (lookup "v1" "Secret" .Release.Namespace "") -}}
{{- $_ := set $found .metadata.name (default dict .data) -}}
{{- end -}}
{{- $wanted := dict "secrets" .Values.secrets -}}
{{- range $part := list "auditor" "page" -}}
{{- if (get $.Values $part).enabled -}}{{- $_ := set $wanted $part (get $.Values $part) -}}{{- end -}}
{{- end -}}
{{- range $group, $secrets := $wanted -}}
{{- range $name, $secret := $secrets -}}
{{- if and $found (kindIs "map" $secret) -}}
{{- with get $secret "existingSecret" -}}
{{- if not (hasKey $found .) -}}
{{- fail (printf "%s.%s.existingSecret is %q: expected a Secret of the namespace %q, which has none of this name. Create it, or correct the name" $group $name . $.Release.Namespace) -}}
{{- end -}}
{{- range $key := list "key" "certificateKey" "privateKey" -}}
{{- if and (hasKey $secret $key) (not (hasKey (get $found $secret.existingSecret) (get $secret $key))) -}}
{{- fail (printf "%s.%s.%s is %q: expected a key of the Secret %q, which lacks it" $group $name $key (get $secret $key) $secret.existingSecret) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $found (not .Release.IsInstall) (not (lookup "apps/v1" "Deployment" .Release.Namespace (include "location-monitor.fullname" .))) -}}
{{- fail (printf "the first installation of %q failed, and an upgrade creates no topics: run `helm --namespace %s uninstall %s`, then install it" .Release.Name .Release.Namespace .Release.Name) -}}
{{- end -}}
{{- end -}}

{{/* What the schema cannot express. Each message names the key. */}}
{{- define "location-monitor.validate" -}}
{{- if .Values.preflight.findSecrets -}}
{{- include "location-monitor.findSecrets" . -}}
{{- end -}}
{{- $url := dig "redis" "url" "" .Values.config | toString -}}
{{- if or (regexMatch "://[^@]*:[^@]+@" $url) (and (contains "?" $url) (not (regexMatch "[?]db=[0-9]+$" $url))) -}}
{{- fail "config.redis.url contains a password: expected one in a secret, because values are kept in ConfigMaps and in the release. Set secrets.redisPassword.existingSecret, and config.redis.username if there is a user" -}}
{{- end -}}
{{- $username := dig "kafka" "username" "" .Values.config -}}
{{- if and (eq .Values.component "kafka") $username (ne $username (include "location-monitor.kafkaUser" .)) -}}
{{- fail (printf "strimzi.user.name is %q: expected config.kafka.username (%q), because the service logs in as this user" .Values.strimzi.user.name $username) -}}
{{- end -}}
{{- if .Values.secrets.kafkaToken.audience -}}
{{- range $part := list "auditor" "page" -}}
{{- $reader := get $.Values $part -}}
{{- if and $reader.enabled (or (not $reader.serviceAccountName) (eq $reader.serviceAccountName $.Values.serviceAccountName)) -}}
{{- fail (printf "%s.serviceAccountName is %q: expected a service account that is not the one of the service (%q), because with secrets.kafkaToken.audience its token logs in to Kafka. Create an account that may only read, and name it here" $part $reader.serviceAccountName $.Values.serviceAccountName) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $partitions := dig "kafka" "partitions" "visits" 8 .Values.config | int -}}
{{- if gt (int .Values.autoscaling.maxReplicas) $partitions -}}
{{- fail (printf "autoscaling.maxReplicas is %d: expected at most config.kafka.partitions.visits (%d), because further instances have nothing to read" (int .Values.autoscaling.maxReplicas) $partitions) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.replicas) (int (default $partitions .Values.autoscaling.maxReplicas))) -}}
{{- fail (printf "replicas is %d: expected at most autoscaling.maxReplicas (%d), because with autoscaling it is the smallest number of instances" (int .Values.replicas) (int (default $partitions .Values.autoscaling.maxReplicas))) -}}
{{- end -}}
{{- end -}}
