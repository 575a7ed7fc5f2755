{{- define "postdate.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "postdate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "postdate.labels" -}}
{{ include "postdate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "postdate.secret" -}}
{{ required "existingSecret must name a Secret with database-url, secret-key and admin-key" .Values.existingSecret }}
{{- end }}

{{- define "postdate.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{- define "postdate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "postdate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "postdate.environment" -}}
- name: POSTDATE_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ include "postdate.secret" . }}, key: database-url}}
- name: POSTDATE_SECRET_KEY
  valueFrom: {secretKeyRef: {name: {{ include "postdate.secret" . }}, key: secret-key}}
- name: POSTDATE_ADMIN_KEY
  valueFrom: {secretKeyRef: {name: {{ include "postdate.secret" . }}, key: admin-key}}
- name: POSTDATE_DATA_DIR
  value: /data
{{- range $name, $value := .Values.settings }}
- name: POSTDATE_{{ $name | upper }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
