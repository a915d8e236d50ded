/**
 * Makes one frozen Config of the environment and the command line's flags. In the service, only this file reads
 * `process.env`; every other module gets its part of the Config. Each file of `config/` has the variables of one
 * section. An invalid value ends the start with one line. Main thread, before anything else runs.
 *
 * Outside the service, other files read the environment, too: the code that is loaded into agents' processes
 * (src/client/environment.ts, src/client/edge/environment.ts, src/label/environment.ts), the container's health check,
 * and src/cli/needs-node.mjs and src/cli/understudy.mjs, which run before any module of the service is loaded.
 */

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { z } from 'zod';
import { type AgentConnection, readAgentConnection } from './config/agent-connection.ts';
import { ALERT_VARIABLES, type AlertsConfig, readAlerts } from './config/alerts.ts';
import { API_VARIABLES, type ApiConfig, readApi } from './config/api.ts';
import {
  AUTH_VARIABLES,
  type AuthConfig,
  type OperatorsConfig,
  readAuth,
  readOperators,
} from './config/auth.ts';
import { BILLING_VARIABLES, type BillingConfig, readBilling } from './config/billing.ts';
import { CAPTURE_VARIABLES, type CaptureConfig, readCapture } from './config/capture.ts';
import { ENGINE_VARIABLES, type EnginesConfig, readEngines } from './config/engines.ts';
import { GATEWAY_VARIABLES, type GatewayConfig, readGateway } from './config/gateway.ts';
import {
  type DistillModelConfig,
  type EmbeddingConfig,
  MODEL_VARIABLES,
  readDistillModel,
  readEmbedding,
} from './config/models.ts';
import { OTEL_VARIABLES, type OtelConfig, readOtel } from './config/otel.ts';
import { PROXY_VARIABLES, type ProxyConfig, readProxy } from './config/proxy.ts';
import {
  RELEGATION_VARIABLES,
  type RelegationConfig,
  readRelegation,
  readTeaching,
  type TeachingConfig,
} from './config/relegation.ts';
import { readService, SERVICE_VARIABLES, type ServiceConfig } from './config/service.ts';
import { parseText, path, type Values, type VariableTable } from './config/values.ts';
import { HTTP_HEAD_BYTES } from './limits.ts';

/** Everything that an operator decides. The object and all of its parts are frozen. */
export interface Config extends ServiceConfig, TeachingConfig, EnginesConfig {
  readonly version: string;
  /**
   * Host names under which both ports answer requests without a credential, besides IP addresses and names that only a
   * private network can have; lower case. `*`: any name.
   */
  readonly allowed_hosts: readonly string[];
  readonly api: ApiConfig;
  /** Secrets: never print. */
  readonly auth: AuthConfig;
  /** Who may read what is captured, besides the terminal's link and the static keys. */
  readonly operators: OperatorsConfig;
  readonly billing: BillingConfig;
  /** A model that writes patterns; null: none is set, and patterns keep the extracted words. */
  readonly distill_model: DistillModelConfig | null;
  readonly embedding: EmbeddingConfig;
  readonly gateway: GatewayConfig;
  /** The proxy for `HTTPS_PROXY`; null: no proxy. */
  readonly proxy: ProxyConfig | null;
  readonly capture: CaptureConfig;
  /** The collector for captured turns as spans; null: none. */
  readonly otel: OtelConfig | null;
  /** Secrets: never print. */
  readonly alerts: AlertsConfig;
  /** The student that may answer instead of the upstream; null: relegation is off. */
  readonly relegation: RelegationConfig | null;
}

/** Flags of the command line, each of which replaces a variable or a default. */
export interface ConfigFlags {
  /** The listener that `--host` and `--port` name. `proxy` also gives the proxy its default port. */
  listener: 'api' | 'gateway' | 'proxy';
  host?: string | undefined;
  port?: string | undefined;
  db?: string | undefined;
  note?: string | undefined;
}

/** Every variable of the service. */
const VARIABLES = {
  ...SERVICE_VARIABLES,
  ...API_VARIABLES,
  ...AUTH_VARIABLES,
  ...BILLING_VARIABLES,
  ...MODEL_VARIABLES,
  ...GATEWAY_VARIABLES,
  ...PROXY_VARIABLES,
  ...CAPTURE_VARIABLES,
  ...OTEL_VARIABLES,
  ...ALERT_VARIABLES,
  ...RELEGATION_VARIABLES,
  ...ENGINE_VARIABLES,
} as const satisfies VariableTable;

type VariableName = keyof typeof VARIABLES;

/** Every variable of the service with its default as text; null: no default. */
export const VARIABLE_DEFAULTS: ReadonlyMap<string, string | null> = new Map(
  Object.entries(VARIABLES).map(([name, [, unset]]) => [name, unset ?? null]),
);

type Variables = Values<typeof VARIABLES>;

const LISTENER_PREFIXES = { api: '', gateway: 'GW_', proxy: 'GW_PROXY_' } as const;

/** Default port of `understudy proxy`. */
const PROXY_PORT = 8788;

/**
 * Reads the operator's settings. An empty variable counts as unset, because a compose file passes on an unset variable
 * as an empty one.
 * @param flags from the command line; each replaces its variable
 * @param env the environment; default: that of the process
 * @throws ConfigError for the first invalid value
 */
export function loadConfig(flags: ConfigFlags, env: NodeJS.ProcessEnv = process.env): Config {
  const prefix = LISTENER_PREFIXES[flags.listener];
  const flagOf: Partial<Record<VariableName, [flag: string, text: string | undefined]>> = {
    [`${prefix}HOST`]: ['--host', flags.host],
    [`${prefix}PORT`]: ['--port', flags.port],
    GW_NOTE: ['--note', flags.note],
  };
  const values: Partial<Record<VariableName, unknown>> = {};
  for (const name of Object.keys(VARIABLES) as VariableName[]) {
    const [schema, unset]: readonly [z.ZodType, string | undefined] = VARIABLES[name];
    const [flagName, flagText] = flagOf[name] ?? [];
    const text = flagText ?? (env[name] || unset);
    values[name] =
      text === undefined ? null : parseText(flagText === undefined ? name : flagName!, schema, text);
  }
  const db = flags.db === undefined ? undefined : parseText('--db', path, flags.db);
  if (flags.listener === 'proxy') values.GW_PROXY_PORT ??= PROXY_PORT;
  return freezeConfig(values as Variables, db);
}

/**
 * Reads the connection of commands that call the API from an agent's side.
 * @param url value of `--url`
 * @throws ConfigError for an invalid value, or without a key
 */
export function loadAgentConnection(url: string | undefined): AgentConnection {
  return readAgentConnection(url, process.env);
}

/**
 * Reads the connection of an operator's command to the API.
 * @param url value of `--url`; undefined: SVC_BASE_URL, and without that the service of this machine
 * @returns the API's address, and the credential SVC_API_KEY (null: not set)
 * @throws ConfigError for an invalid value
 */
export function loadOperatorConnection(
  url: string | undefined,
  config: Config,
): { base_url: string; api_key: string | null } {
  const { env } = process;
  const { api } = config;
  const own = `http${api.tls === null ? '' : 's'}://127.0.0.1:${api.port}`;
  const key = env.SVC_API_KEY || null;
  const found = readAgentConnection(url ?? (env.SVC_BASE_URL || own), { ...env, SVC_API_KEY: key ?? 'none' });
  return { base_url: found.base_url, api_key: key === null ? null : found.api_key };
}

/**
 * Makes the environment of a program that a command starts, from that of this process.
 * @param variables replace variables of this process
 * @param defaults values of variables that this process has not set
 */
export function childEnvironment(
  variables: Readonly<Record<string, string>>,
  defaults: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv {
  return { ...defaults, ...process.env, ...variables };
}

function freezeConfig(v: Variables, db: string | undefined): Config {
  const service = readService(v);
  const { data_dir } = service;
  const api = readApi(v);
  const gateway = readGateway(v);
  return Object.freeze({
    version: readVersion(),
    ...service,
    allowed_hosts: Object.freeze(listAllowedHosts(v.ALLOWED_HOSTS ?? [], api, gateway)),
    api,
    auth: readAuth(v),
    operators: readOperators(v),
    billing: readBilling(v),
    distill_model: readDistillModel(v),
    embedding: readEmbedding(v),
    gateway,
    proxy: readProxy(v),
    capture: readCapture(v, db === undefined ? join(data_dir, 'capture.mdb') : resolve(db)),
    otel: readOtel(v),
    alerts: readAlerts(v),
    ...readTeaching(v),
    relegation: readRelegation(v, data_dir, v.GW_PRICES),
    ...readEngines(v),
  });
}

/** The host names that the operator lists, and the names of both listeners and of the public address. */
function listAllowedHosts(listed: readonly string[], api: ApiConfig, gateway: GatewayConfig): string[] {
  const names = [...listed, api.host.toLowerCase(), gateway.host.toLowerCase()];
  if (api.public_url !== null) names.push(new URL(api.public_url).hostname);
  return [...new Set(names)];
}

/**
 * Reads the package's version from package.json, which is one folder above `src/` and two folders above `dist/src/`.
 */
export function readVersion(): string {
  const isBuilt = import.meta.url.endsWith('.js');
  const file = new URL(isBuilt ? '../../package.json' : '../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/**
 * Sets the head limit of uWebSockets.js, which reads it only from the environment when it loads. Call it
 * before the first import of `src/http`; threads started later inherit it. A larger existing value stays.
 */
export function raiseParserHeadLimit(): void {
  const present = Number(process.env.UWS_HTTP_MAX_HEADERS_SIZE);
  if (!(present >= HTTP_HEAD_BYTES)) process.env.UWS_HTTP_MAX_HEADERS_SIZE = String(HTTP_HEAD_BYTES);
}

/**
 * Turns off onnxruntime's telemetry. From version 1.29 on, onnxruntime sends usage data to its makers unless this
 * variable is set before onnxruntime is loaded. Call it on the main thread, because a worker's `process.env` is a copy.
 */
export function silenceModelRuntime(): void {
  process.env.ORT_DISABLE_TELEMETRY = '1';
}
