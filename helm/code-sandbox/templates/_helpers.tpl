{{/* An image by digest, or by tag. */}}
{{- define "code-sandbox.ref" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "code-sandbox.image" -}}
{{ include "code-sandbox.ref" (dict "image" .Values.image "root" .) }}
{{- end -}}

{{- define "code-sandbox.python" -}}
{{ include "code-sandbox.ref" (dict "image" .Values.sandbox.image "root" .) }}
{{- end -}}

{{/* There is one installation in a cluster, so names are fixed; this is what selects a part's pods. */}}
{{- define "code-sandbox.selector" -}}
app.kubernetes.io/name: code-sandbox
app.kubernetes.io/component: {{ . }}
{{- end -}}

{{/* The order: root, component. */}}
{{- define "code-sandbox.labels" -}}
{{- $root := index . 0 -}}
{{ include "code-sandbox.selector" (index . 1) }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "code-sandbox.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "code-sandbox.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Replicas apart from each other, as far as there are nodes. */}}
{{- define "code-sandbox.spread" -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "code-sandbox.selector" $ | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "code-sandbox.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Where pool and injector have the certificate that is given. The files change when the Secret does. */}}
{{- define "code-sandbox.tlsFolder" -}}
/etc/code-sandbox/tls
{{- end -}}

{{- define "code-sandbox.tlsArgs" -}}
{{- if .Values.tls.existingSecret }}
- --tls-cert={{ include "code-sandbox.tlsFolder" . }}/tls.crt
- --tls-key={{ include "code-sandbox.tlsFolder" . }}/tls.key
- --tls-ca={{ include "code-sandbox.tlsFolder" . }}/ca.crt
{{- end }}
{{- end -}}

{{- define "code-sandbox.tlsMount" -}}
{{- if .Values.tls.existingSecret }}
volumeMounts:
  - {name: tls, mountPath: {{ include "code-sandbox.tlsFolder" . }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "code-sandbox.tlsVolume" -}}
{{- with .Values.tls.existingSecret }}
volumes:
  - name: tls
    secret:
      secretName: {{ . | quote }}
      defaultMode: 288 # 0440, for the group of podSecurity
{{- end }}
{{- end -}}

{{/* Who may make sandboxes. */}}
{{- define "code-sandbox.poolUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:code-sandbox-pool
{{- end -}}

{{/* CEL: the kind of the pods that the pool makes in the namespace of a request. */}}
{{- define "code-sandbox.kindHere" -}}
request.namespace == '{{ .Values.runs.namespace }}' ? 'python' : 'copy'
{{- end -}}

{{/* The order: root, name of the policy. */}}
{{- define "code-sandbox.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "code-sandbox.labels" (list (index . 0) "platform") | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end -}}

{{/* Which namespaces the webhook is never asked about. */}}
{{- define "code-sandbox.notInjected" -}}
[kube-system, kube-public, kube-node-lease, {{ .Release.Namespace | quote }}, {{ .Values.runs.namespace | quote }}]
{{- end -}}

{{/* What would fail later, told at once. A cluster is only asked when there is one. */}}
{{- define "code-sandbox.check" -}}
{{- if eq .Release.Namespace .Values.runs.namespace }}
{{- fail (printf "runs.namespace is %q, the release's own: sandboxes need a namespace for themselves" .Values.runs.namespace) }}
{{- end }}
{{- if lookup "v1" "Namespace" "" "kube-system" }}
{{- if not (lookup "v1" "Namespace" "" .Values.runs.namespace) }}
{{- fail (printf "there is no namespace %q for the sandboxes; make it:\n\n  kubectl create namespace %s\n  kubectl label namespace %s pod-security.kubernetes.io/enforce=restricted\n" .Values.runs.namespace .Values.runs.namespace .Values.runs.namespace) }}
{{- end }}
{{- end }}
{{- if gt (mul .Values.pool.replicas .Values.pool.max) (int .Values.runs.quota.pods) }}
{{- fail (printf "pool.replicas × pool.max is %d sandboxes, and runs.quota.pods allows %d pods: raise the quota, or lower pool.max" (mul .Values.pool.replicas .Values.pool.max) (int .Values.runs.quota.pods)) }}
{{- end }}
{{- end -}}
