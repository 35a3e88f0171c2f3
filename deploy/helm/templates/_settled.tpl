{{/* What follows from the values. */}}

{{- define "chorale.pipeline" -}}
{{- .Values.pipeline | default (.Files.Get "pipeline.toml") -}}
{{- end }}

{{/* The services that take no messages. */}}
{{- define "chorale.others" -}}
["sweeper", "flower", "http", "queue-figures"]
{{- end }}

{{/* The queues of the pipeline by the last word of their names, as JSON. */}}
{{- define "chorale.queues" -}}
{{- $written := include "chorale.pipeline" . }}
{{- if hasPrefix "\ufeff" $written }}
{{- fail "pipeline: it begins with a byte order mark, which TOML does not know" }}
{{- end }}
{{- $pipeline := fromToml $written }}
{{- if hasKey $pipeline "Error" }}
{{- fail (printf "pipeline: this is no TOML: %s" $pipeline.Error) }}
{{- end }}
{{- $queues := dict "retrieve" "chorale.retrieve" "fusion" "chorale.fusion" "index" "chorale.index" "bulk" "chorale.bulk" }}
{{- range $branch, $declared := required "pipeline: it declares no branch" $pipeline.branches }}
{{- $queue := $declared.queue | default (printf "chorale.%s" $branch) }}
{{- $name := trimPrefix "chorale." $queue }}
{{- if has ($name | replace "_" "-") (include "chorale.others" . | fromJsonArray) }}
{{- fail (printf "pipeline: branches.%s: beside the service of that name there is no place for the queue %s" $branch $queue) }}
{{- end }}
{{- $_ := set $queues $name $queue }}
{{- end }}
{{- toJson $queues }}
{{- end }}

{{/* The values of one service, `name` of `root`, as JSON: its own win over those of all. */}}
{{- define "chorale.service" -}}
{{- $values := .root.Values }}
{{- $names := concat (keys (fromJson (include "chorale.queues" .root))) (include "chorale.others" . | fromJsonArray) | sortAlpha }}
{{- range $name, $_ := $values.services }}
{{- if not (has $name $names) }}
{{- fail (printf "services.%s: there is no such service; there are %s" $name (join ", " $names)) }}
{{- end }}
{{- end }}
{{- $own := get $values.services .name | default dict }}
{{- $scaling := pick $values.scaling "minReplicas" "maxReplicas" }}
{{- $all := mustMergeOverwrite (deepCopy $values.pod) $scaling (dict "image" $values.image) | deepCopy }}
{{- $service := mustMergeOverwrite $all (deepCopy $own) }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "strategy" }}
{{- if hasKey $own $key }}{{- $_ := set $service $key (get $own $key) }}{{- end }}
{{- end }}
{{- if or (hasKey $own "minReplicas") (hasKey $own "maxReplicas") }}
{{- if has .name (include "chorale.others" . | fromJsonArray) }}
{{- fail (printf "services.%s: it is not scaled: give it `replicas`" .name) }}
{{- end }}
{{- if hasKey $own "replicas" }}
{{- fail (printf "services.%s: it is scaled by minReplicas and maxReplicas, or has `replicas`: set one of the two to null" .name) }}
{{- end }}
{{- end }}
{{- if gt (int $service.minReplicas) (int $service.maxReplicas) }}
{{- fail (printf "services.%s: minReplicas %v is more than maxReplicas %v" .name $service.minReplicas $service.maxReplicas) }}
{{- end }}
{{- toJson $service }}
{{- end }}

{{- define "chorale.labels" -}}
app.kubernetes.io/name: chorale
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .name | quote }}
{{- end }}

{{/* A Service takes only such names (RFC 1035), and KEDA puts `keda-hpa-` before them. */}}
{{- define "chorale.name" -}}
{{- $name := printf "%s-%s" .root.Release.Name (.name | replace "_" "-") }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,52}[a-z0-9])?$" $name) }}
{{- fail (printf "the name %s, of release and service, is not at most 54 of a-z, 0-9 and -, with a letter first and no - last" $name) }}
{{- end }}
{{- $name }}
{{- end }}
