{{/* What the values come to. */}}

{{- define "chorale.pipeline" -}}
{{- .Values.pipeline | default (.Files.Get "pipeline.toml") -}}
{{- end }}

{{/* The queues of the pipeline by the last word of their names, as JSON. */}}
{{- define "chorale.queues" -}}
{{- $pipeline := fromToml (include "chorale.pipeline" .) }}
{{- if hasKey $pipeline "Error" }}
{{- fail (printf "pipeline: this is no TOML: %s" $pipeline.Error) }}
{{- end }}
{{- $queues := dict "retrieve" "chorale.retrieve" "fusion" "chorale.fusion" "index" "chorale.index" }}
{{- range $branch, $declared := required "pipeline: it declares no branch" $pipeline.branches }}
{{- $queue := $declared.queue | default (printf "chorale.%s" $branch) }}
{{- $_ := set $queues (trimPrefix "chorale." $queue) $queue }}
{{- end }}
{{- toJson $queues }}
{{- end }}

{{/* What holds for one service, `name` of `root`: its own words before those of all, as JSON. */}}
{{- define "chorale.service" -}}
{{- $values := .root.Values }}
{{- $names := concat (keys (fromJson (include "chorale.queues" .root))) (list "sweeper" "flower" "queue-figures") | sortAlpha }}
{{- range $name, $_ := $values.services }}
{{- if not (has $name $names) }}
{{- fail (printf "services.%s: there is no such service; there are %s" $name (join ", " $names)) }}
{{- end }}
{{- end }}
{{- $own := get $values.services .name | default dict }}
{{- $scaling := pick $values.scaling "minReplicas" "maxReplicas" }}
{{- $all := mustMergeOverwrite (deepCopy $values.pod) $scaling (dict "image" $values.image) | deepCopy }}
{{- $service := mustMergeOverwrite $all (deepCopy $own) }}
{{- if gt (int $service.minReplicas) (int $service.maxReplicas) }}
{{- fail (printf "services.%s: minReplicas %v is more than maxReplicas %v" .name $service.minReplicas $service.maxReplicas) }}
{{- end }}
{{- toJson $service }}
{{- end }}

{{- define "chorale.labels" -}}
app.kubernetes.io/name: chorale
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{/* Names of Kubernetes have no underscores. */}}
{{- define "chorale.name" -}}
{{ .root.Release.Name }}-{{ .name | replace "_" "-" }}
{{- end }}
