{{- define "tollgate.labels" -}}
app.kubernetes.io/name: tollgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tollgate.hasRedis" -}}
{{- if or .Values.redis.url .Values.redis.urlFrom }}true{{ end }}
{{- end }}

{{- define "tollgate.nodes" -}}
{{- if .Values.autoscaling.enabled }}{{ .Values.autoscaling.maxReplicas }}{{ else }}{{ .Values.replicas }}{{ end }}
{{- end }}

{{- /* Settings that would admit more than the limits, or that contradict each other, are refused. */ -}}
{{- define "tollgate.validate" -}}
{{- if and .Values.autoscaling.enabled (not (include "tollgate.hasRedis" .)) }}
{{- fail "autoscaling.enabled needs redis.url or redis.urlFrom: without Redis each pod counts for itself, and more pods admit more than the limits" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not (include "tollgate.hasRedis" .)) }}
{{- fail "replicas above 1 needs redis.url or redis.urlFrom: without Redis each pod counts for itself, and two pods admit twice the limits" }}
{{- end }}
{{- if and .Values.state.enabled (include "tollgate.hasRedis" .) }}
{{- fail "state.enabled and redis exclude each other: with Redis the counts are there, and a pod has none to keep" }}
{{- end }}
{{- if and .Values.redis.url .Values.redis.urlFrom }}
{{- fail "redis.url and redis.urlFrom exclude each other" }}
{{- end }}
{{- end }}
