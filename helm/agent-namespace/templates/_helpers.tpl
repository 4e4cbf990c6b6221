{{- define "agents.labels" -}}
app.kubernetes.io/name: agent-namespace
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{/* The label is on the namespace, which no chart should own: an uninstall would take all that is in it. */}}
{{- define "agents.check" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}
{{- $ns := lookup "v1" "Namespace" "" .Release.Namespace }}
{{- if $ns }}
{{- if ne (dig "metadata" "labels" "code-sandbox.dev/enabled" "" $ns) "true" }}
{{- fail (printf "the namespace %q is not enrolled; enrol it:\n\n  kubectl label namespace %s code-sandbox.dev/enabled=true\n" .Release.Namespace .Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .Release.Namespace .Values.platformNamespace }}
{{- fail (printf "%q is the platform's own namespace: agents belong into another" .Release.Namespace) }}
{{- end }}
{{- end -}}

{{/* A rule of a NetworkPolicy that opens the way to the cluster's resolvers, and to those on its nodes. */}}
{{- define "agents.lookups" -}}
- to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .Values.network.dns.namespace | quote }}}
      podSelector:
        matchLabels:
          {{- toYaml .Values.network.dns.labels | nindent 10 }}
    {{- range .Values.network.dns.addresses }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    {{- range .Values.network.dns.ports }}
    - {port: {{ int . }}, protocol: UDP}
    - {port: {{ int . }}, protocol: TCP}
    {{- end }}
{{- end -}}
