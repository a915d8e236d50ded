{{- define "understudy.labels" -}}
app.kubernetes.io/name: understudy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "understudy.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
{{- define "understudy.probe" -}}
exec:
  command: [node, /app/deploy/healthcheck.mjs]
timeoutSeconds: 5
{{- end }}
