/** A value that a start refuses, and the variables whose values no error may show. Main thread. */

/** Variables whose values may contain a password or a key. An error names these variables without their values. */
export const SECRET_NAMES: ReadonlySet<string> = new Set([
  'OTEL_EXPORTER_OTLP_HEADERS',
  'ALERT_SMTP_URL',
  'GW_ROUTES',
  'GW_PROXY_KEYS',
  'VECTOR_STORE_URL',
  'AUTH_DB_URL',
  'AUTH_DB_CONN_URL',
  'VECTOR_STORE_API_KEY',
  'AUTH_DB_SERVICE_KEY',
  'AUTH_JWT_SECRET',
  'AUTH_JWKS_URL',
  'SVC_KEYS',
  'DISTILL_MODEL_KEY',
  'SVC_STUDENT_KEY',
  'SVC_STUDENT_KEYS',
  'EMBEDDING_API_KEY',
  'STRIPE_SECRET_KEY',
  'STRIPE_WEBHOOK_SECRET',
  'STRIPE_WEBHOOK_THIN_SECRET',
  'SVC_API_KEY',
]);

/** A value that a start refuses. The message is one line: name, value (unless secret), what is allowed. */
export class ConfigError extends Error {
  /** sysexits.h EX_CONFIG. */
  readonly exit_code = 78;

  constructor(name: string, value: string, allowed: string) {
    super(`${name}=${SECRET_NAMES.has(name) ? '(not shown)' : quoteValue(value)}: ${allowed}`);
    this.name = 'ConfigError';
  }
}

function quoteValue(value: string): string {
  const quoted = JSON.stringify(value.length > 200 ? `${value.slice(0, 200)}…` : value);
  // `scheme://user:password@host` in any variable: a password belongs in no log.
  return quoted.replace(/\/\/[^/\s]*@/g, '//(not shown)@');
}
