{{/*
One Deployment.  Arguments: `root`; `name` of the service; `command`; `login`, the login for Redis; `port`, `alive` and
`ready` if it answers over HTTP; `lifecycle`; `env`, more variables from the Secret of logins, by name; `without`, what it
does not need: `database`, `more`.
*/}}
{{- define "chorale.deployment" -}}
{{- $values := .root.Values }}
{{- $service := fromJson (include "chorale.service" .) }}
{{- $without := .without | default list }}
{{- $env := dict "CHORALE_REDIS_URL" (printf "redis-url-%s" .login) "CHORALE_BROKER_URL" "broker-url" }}
{{- if not (has "database" $without) }}{{- $_ := set $env "CHORALE_AUDIT_URL" "audit-url" }}{{- end }}
{{- $optional := list "broker-url" "flower-broker-api" "webhook-secret" }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "chorale.name" . }}
  labels: {{- include "chorale.labels" . | nindent 4 }}
spec:
  {{- /* Left out if KEDA scales the service: every upgrade would reset the number. */}}
  {{- if include "chorale.fixed" . }}
  replicas: {{ include "chorale.fixed" . }}
  {{- end }}
  {{- with $service.strategy }}
  strategy: {{ toJson . }}
  {{- end }}
  selector:
    matchLabels: {{- include "chorale.labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "chorale.labels" . | nindent 8 }}
      annotations:
        checksum/settings: {{ include "chorale.settings" .root | sha256sum }}
    spec:
      automountServiceAccountToken: false
      {{- /* Service links would be variables such as CHORALE_FLOWER_PORT, which look like settings. */}}
      enableServiceLinks: false
      terminationGracePeriodSeconds: 20
      securityContext: { runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: { type: RuntimeDefault } }
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{ toJson . }}
      {{- end }}
      {{- range $key := list "nodeSelector" "tolerations" "affinity" }}
      {{- with get $service $key }}
      {{ $key }}: {{ toJson . }}
      {{- end }}
      {{- end }}
      containers:
        - name: {{ .name | replace "_" "-" }}
          image: {{ printf "%s:%s%s" $service.image.repository ($service.image.tag | default .root.Chart.AppVersion) (empty $service.image.digest | ternary "" (printf "@%s" $service.image.digest)) | quote }}
          imagePullPolicy: {{ $service.image.pullPolicy }}
          command: {{ toJson .command }}
          securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
          envFrom:
            - configMapRef: { name: {{ .root.Release.Name }}-settings }
            {{- if not (has "more" $without) }}
            - secretRef: { name: {{ $values.secrets.more }}, optional: true }
            {{- end }}
          env:
            - { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
            {{- range $variable, $key := merge $env (.env | default dict) }}
            - { name: {{ $variable }}, valueFrom: { secretKeyRef: { name: {{ $values.secrets.logins }}, key: {{ $key }}{{ if has $key $optional }}, optional: true{{ end }} } } }
            {{- end }}
          {{- if .port }}
          ports:
            - { name: http, containerPort: {{ .port }} }
          {{- end }}
          {{- $alive := .alive | default (dict "exec" (dict "command" (list "sh" "-c" "exec python -m monitoring.healthy alive \"$POD_NAME\""))) }}
          {{- $ready := .ready | default (dict "exec" (dict "command" (list "sh" "-c" "exec python -m monitoring.healthy ready \"$POD_NAME\""))) }}
          startupProbe: {{ merge (dict "periodSeconds" 5 "timeoutSeconds" 10 "failureThreshold" 36) $alive | toJson }}
          livenessProbe: {{ merge (dict "periodSeconds" 20 "timeoutSeconds" 10 "failureThreshold" 4) $alive | toJson }}
          readinessProbe: {{ merge (dict "periodSeconds" 10 "timeoutSeconds" 10) $ready | toJson }}
          {{- with .lifecycle }}
          lifecycle: {{ toJson . }}
          {{- end }}
          resources: {{ toJson $service.resources }}
          volumeMounts:
            - { name: home, mountPath: /var/lib/chorale }
            {{- if $values.models.claim }}
            - { name: models, mountPath: /var/lib/chorale/models }
            {{- end }}
            - { name: tmp, mountPath: /tmp }
            - { name: pipeline, mountPath: /etc/chorale, readOnly: true }
            - { name: certificates, mountPath: /etc/chorale-certificates, readOnly: true }
      volumes:
        - { name: home, emptyDir: {} }
        {{- with $values.models.claim }}
        - { name: models, persistentVolumeClaim: { claimName: {{ . }} } }
        {{- end }}
        - { name: tmp, emptyDir: {} }
        - { name: pipeline, configMap: { name: {{ .root.Release.Name }}-pipeline } }
        - { name: certificates, secret: { secretName: {{ $values.secrets.certificates }}, optional: true } }
{{- end }}

{{/* How many pods a service has if nothing scales it; else nothing. */}}
{{- define "chorale.fixed" -}}
{{- $service := fromJson (include "chorale.service" .) }}
{{- if hasKey $service "replicas" }}{{ $service.replicas }}
{{- else if has .name (include "chorale.others" . | fromJsonArray) }}1
{{- else if not .root.Values.scaling.enabled }}{{ $service.minReplicas }}
{{- end }}
{{- end }}
