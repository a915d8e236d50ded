/**
 * Upstreams with their prefixes, as an operator configures them: `{"/openai": "openai", "/local": {"base": …}}`.
 * Pure; main thread, at the start.
 */
import { collectCredentials } from '../redaction/credentials.ts';

/** Maximum number of routes that GW_ROUTES may name, and headers that one route may add. */
const UPSTREAM_ROUTES = 64;

/** The destination of requests under a prefix. */
export interface UpstreamRoute {
  /** Begins with `/` and does not end with one; without `{region}`. */
  readonly prefix: string;
  /** Whether the segment after the prefix is a region, which is inserted into the base. */
  readonly takes_region: boolean;
  /** Without a trailing slash; with `{region}` wherever the region goes. */
  readonly base: string;
  /** Bases of regions that do not follow the pattern. */
  readonly region_bases: Readonly<Record<string, string>>;
  /** Label of its captured exchanges. */
  readonly provider: string;
  /** Headers that replace the client's own in every request under the prefix. Secret: never print. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** Shorter header values are not secrets: `x-team`, `openai-project`. */
const SECRET_CHARACTERS_MIN = 16;
/** Headers with ordinary values, such as `application/json`: masking those would damage other texts. */
const PUBLIC_HEADERS = new Set([
  ...['accept', 'accept-encoding', 'accept-language', 'cache-control', 'content-type', 'origin', 'referer'],
  ...['anthropic-beta', 'anthropic-version', 'http-referer', 'openai-beta', 'user-agent', 'x-title'],
]);

/** Lists the secret header values of all routes, which are masked in captures. */
export function listRouteSecrets(routes: readonly UpstreamRoute[]): string[] {
  const headers = routes.flatMap((route) => route.headers);
  const long = headers.filter(
    ([name, value]) => value.length >= SECRET_CHARACTERS_MIN && !PUBLIC_HEADERS.has(name),
  );
  // Collects from each header separately, because `collectCredentials` returns a bounded number of credentials.
  const credentials = headers.flatMap((header) => collectCredentials(header, ''));
  return [...new Set([...credentials, ...long.map(([, value]) => value)])];
}

interface Preset {
  base: string | null;
  region_bases?: Readonly<Record<string, string>>;
}

/**
 * Bases from the providers' API references (read 2026-11). null means that each customer has a separate host. A
 * client's base URL ends as with the provider itself: `/groq/v1`, `/openrouter/v1`, `/openai/v1`.
 */
export const UPSTREAM_PRESETS: Readonly<Record<string, Preset>> = {
  anthropic: { base: 'https://api.anthropic.com' },
  openai: { base: 'https://api.openai.com' },
  azure: { base: null },
  gemini: { base: 'https://generativelanguage.googleapis.com' },
  vertex: {
    base: 'https://{region}-aiplatform.googleapis.com',
    region_bases: {
      global: 'https://aiplatform.googleapis.com',
      us: 'https://aiplatform.us.rep.googleapis.com',
      eu: 'https://aiplatform.eu.rep.googleapis.com',
    },
  },
  bedrock: { base: 'https://bedrock-runtime.{region}.amazonaws.com' },
  openrouter: { base: 'https://openrouter.ai/api' },
  groq: { base: 'https://api.groq.com/openai' },
  mistral: { base: 'https://api.mistral.ai' },
  deepseek: { base: 'https://api.deepseek.com' },
  xai: { base: 'https://api.x.ai' },
  vllm: { base: null },
  ollama: { base: 'http://127.0.0.1:11434' },
  lmstudio: { base: 'http://127.0.0.1:1234' },
};

const PREFIX = /^(?:\/[a-z\d][a-z\d._~-]{0,62}){1,4}$/i;
const REGION_END = '/{region}';
const PROVIDER = /^[a-z\d][a-z\d._-]{0,63}$/i;
const HEADER_NAME = /^[a-z\d!#$%&'*+.^_`|~-]{1,100}$/;
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,8190}[\x21-\x7e])?$/;
/** Headers that the gateway writes itself, and headers of a single connection. */
const OWN_HEADERS = new Set([
  ...['host', 'content-length', 'transfer-encoding', 'connection', 'expect', 'trailer', 'te', 'upgrade'],
  ...['keep-alive', 'proxy-connection', 'x-svc-run', 'x-svc-seq', 'x-svc-tags'],
]);
/** Prefixes that the gateway itself uses: for GW_GEMINI_BASE, for GW_BEDROCK_BASE, and for its admin routes. */
const TAKEN_PREFIXES = new Set(['/gemini', '/bedrock', '/__gw']);

/**
 * Reads GW_ROUTES.
 * @param given the JSON value
 * @param readBase normalizes a base; returns null for invalid text
 * @returns the routes, longest prefix first
 * @throws Error that describes the fault, without values that may be secret
 */
export function readUpstreamRoutes(
  given: unknown,
  readBase: (text: string) => string | null,
): UpstreamRoute[] {
  if (!isRecord(given)) throw new Error('the JSON must be an object: {"/prefix": "preset", …}');
  const entries = Object.entries(given);
  if (entries.length > UPSTREAM_ROUTES) throw new Error(`the object has more than ${UPSTREAM_ROUTES} routes`);
  const routes = entries.map(([written, value]) => readRoute(written, value, readBase));
  routes.sort((a, b) => b.prefix.length - a.prefix.length);
  const seen = new Set<string>();
  for (const { prefix } of routes) {
    if (seen.has(prefix)) throw new Error(`${prefix} is given twice`);
    seen.add(prefix);
  }
  return routes;
}

function readRoute(
  written: string,
  value: unknown,
  readBase: (text: string) => string | null,
): UpstreamRoute {
  const takes_region = written.endsWith(REGION_END);
  const prefix = takes_region ? written.slice(0, -REGION_END.length) : written;
  const name = JSON.stringify(written.slice(0, 100));
  if (!PREFIX.test(prefix))
    throw new Error(
      `${name}: a prefix is one to four segments of letters, digits, dots, dashes, tildes and underscores, such as /openai`,
    );
  const first = prefix.slice(0, prefix.indexOf('/', 1) < 0 ? undefined : prefix.indexOf('/', 1));
  if (TAKEN_PREFIXES.has(first))
    throw new Error(`${name}: ${first} is reserved for the gateway (GW_GEMINI_BASE, GW_BEDROCK_BASE)`);
  const fields = typeof value === 'string' ? { preset: value } : value;
  if (!isRecord(fields)) throw new Error(`${name}: a route is the name of a preset, or an object`);
  const { preset, base, provider, headers, ...others } = fields;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw new Error(
      `${name}: ${JSON.stringify(unknown.slice(0, 100))} is unknown; known are preset, base, provider and headers`,
    );
  const known = preset === undefined ? null : findPreset(name, preset);
  const foundBase = base === undefined ? (known?.base ?? null) : readGivenBase(name, base, readBase);
  if (foundBase === null)
    throw new Error(`${name}: the route needs a base, the address to which the gateway sends its requests`);
  if (foundBase.includes('{region}') !== takes_region)
    throw new Error(
      `${name}: the prefix must end with /{region} if the base contains {region}, and only then`,
    );
  const found = provider ?? (typeof preset === 'string' ? preset : prefix.slice(1).replaceAll('/', '.'));
  if (typeof found !== 'string' || !PROVIDER.test(found))
    throw new Error(
      `${name}: a provider has 1 to 64 letters, digits, dots, dashes and underscores, the first a letter or a digit`,
    );
  return {
    prefix,
    takes_region,
    base: foundBase,
    region_bases: base === undefined ? (known?.region_bases ?? {}) : {},
    provider: found,
    headers: headers === undefined ? [] : readHeaders(name, headers),
  };
}

function findPreset(name: string, preset: unknown): Preset {
  const known = typeof preset === 'string' && Object.hasOwn(UPSTREAM_PRESETS, preset);
  if (!known)
    throw new Error(`${name}: the preset is unknown; known are ${Object.keys(UPSTREAM_PRESETS).join(', ')}`);
  return UPSTREAM_PRESETS[preset]!;
}

function readGivenBase(name: string, base: unknown, readBase: (text: string) => string | null): string {
  const read = typeof base === 'string' ? readBase(base) : null;
  if (read === null)
    throw new Error(`${name}: a base is an http:// or https:// address without credentials, query or #`);
  return read;
}

function readHeaders(name: string, given: unknown): [name: string, value: string][] {
  if (!isRecord(given)) throw new Error(`${name}: headers are an object of names and values`);
  const headers = Object.entries(given);
  if (headers.length > UPSTREAM_ROUTES)
    throw new Error(`${name}: the route has more than ${UPSTREAM_ROUTES} headers`);
  const seen = new Set<string>();
  return headers.map(([written, value]) => {
    const header = written.toLowerCase();
    if (!HEADER_NAME.test(header)) throw new Error(`${name}: a header's name is invalid`);
    if (OWN_HEADERS.has(header)) throw new Error(`${name}: only the gateway itself sets ${header}`);
    if (seen.has(header)) throw new Error(`${name}: the header ${header} is given twice`);
    seen.add(header);
    if (typeof value !== 'string' || !HEADER_VALUE.test(value))
      throw new Error(
        `${name}: the value of ${header} must be 1 to 8192 printable ASCII characters, with no space at either end`,
      );
    return [header, value];
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
