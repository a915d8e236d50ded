/** The gateway's listener and its upstreams. Main thread. */
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { listRouteSecrets, readUpstreamRoutes, type UpstreamRoute } from '../domain/upstream-route.ts';
import type { CertificateFiles } from '../std/certificate-files.ts';
import { readTls, readUpstreamCa } from './certificates.ts';
import { ConfigError } from './config-error.ts';
import { base, host, parseJson, path, port, type Values, type VariableTable } from './values.ts';

/** Maximum length of GW_ROUTES, or of the file that it names. */
const ROUTES_FILE_BYTES = 256 << 10;

export interface GatewayConfig {
  readonly host: string;
  readonly port: number;
  /** null: without TLS. */
  readonly tls: CertificateFiles | null;
  /**
   * The default upstream's address, without a trailing slash; the client's path is appended unchanged. The same applies
   * to `gemini_base` and `bedrock_base`.
   */
  readonly upstream_base: string;
  /** Label of the default upstream's exchanges. */
  readonly provider: string;
  readonly gemini_base: string;
  /** `{region}` is replaced by the region. */
  readonly bedrock_base: string;
  /** Upstreams under their own prefixes, longest prefix first. Their headers are secret: never print. */
  readonly routes: readonly UpstreamRoute[];
  /** Values of the routes' headers that no answer may show. Secret. */
  readonly route_secrets: readonly string[];
  /** Certificate authorities for upstreams in addition to Node's, PEM; null: none. */
  readonly upstream_ca: string | null;
}

const label = z
  .string()
  .regex(/^[a-z\d][a-z\d._-]{0,63}$/i)
  .describe('must be 1 to 64 letters, digits, dots, dashes and underscores, the first a letter or a digit');

const routesText = z
  .string()
  .max(ROUTES_FILE_BYTES)
  .describe(
    `must be a JSON object of at most ${ROUTES_FILE_BYTES} characters, or the path of a file with such an object`,
  );

export const GATEWAY_VARIABLES = {
  GW_HOST: [host, '127.0.0.1'],
  GW_PORT: [port, '8787'],
  GW_TLS_CERT: [path, undefined],
  GW_TLS_KEY: [path, undefined],
  GW_UPSTREAM_BASE: [base(), 'https://api.anthropic.com'],
  GW_PROVIDER: [label, 'anthropic'],
  GW_GEMINI_BASE: [base(), 'https://generativelanguage.googleapis.com'],
  GW_BEDROCK_BASE: [base(true), 'https://bedrock-runtime.{region}.amazonaws.com'],
  GW_ROUTES: [routesText, undefined],
  GW_UPSTREAM_CA: [path, undefined],
} as const satisfies VariableTable;

export function readGateway(v: Values<typeof GATEWAY_VARIABLES>): GatewayConfig {
  const routes = readRoutes(v.GW_ROUTES);
  return Object.freeze({
    host: v.GW_HOST,
    port: v.GW_PORT,
    tls: readTls('gateway', v.GW_TLS_CERT, v.GW_TLS_KEY),
    upstream_base: v.GW_UPSTREAM_BASE,
    provider: v.GW_PROVIDER,
    gemini_base: v.GW_GEMINI_BASE,
    bedrock_base: v.GW_BEDROCK_BASE,
    routes: Object.freeze(routes),
    route_secrets: Object.freeze(listRouteSecrets(routes)),
    upstream_ca: readUpstreamCa(v.GW_UPSTREAM_CA),
  });
}

/**
 * Upstreams with their prefixes, from the variable itself or from a file that it names.
 * @throws ConfigError that describes the error without showing a value
 */
function readRoutes(text: string | null): UpstreamRoute[] {
  if (text === null) return [];
  const refuse = (why: string) => new ConfigError('GW_ROUTES', text, why);
  const isPath = !/^\s*[{[]/.test(text);
  let json = text;
  if (isPath) {
    const file = resolve(text);
    try {
      const stat = statSync(file);
      if (!stat.isFile()) throw new Error('the path is not a file');
      if (stat.size > ROUTES_FILE_BYTES)
        throw new Error(`the file is larger than ${ROUTES_FILE_BYTES} bytes`);
      json = readFileSync(file, 'utf8');
    } catch (thrown) {
      throw refuse(
        `a value that does not begin with { is the path of a file, and the file cannot be read (${(thrown as NodeJS.ErrnoException).code ?? (thrown as Error).message})`,
      );
    }
  }
  const given = parseJson(json);
  if (given === undefined) throw refuse(`the ${isPath ? 'file' : 'value'} is not JSON`);
  const bases = base(true);
  try {
    return readUpstreamRoutes(given, (written) => bases.safeParse(written).data ?? null);
  } catch (thrown) {
    throw refuse((thrown as Error).message);
  }
}
