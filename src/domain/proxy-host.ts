/**
 * The provider hosts whose tunnels the proxy decrypts: the list, its syntax for operators, and the check of a host.
 * Other tunnels are forwarded without decryption. Pure; called on the main thread at the start, and on the proxy thread
 * for each tunnel.
 */

/**
 * Maximum number of entries of GW_PROXY_HOSTS, after `default` is expanded. Each is a name in the authority's
 * certificate.
 */
export const PROXY_HOSTS_MAX = 500;

/** A host, or all hosts below a domain. */
export interface ProxyHost {
  /** Lower case; a leading `*.` stands for one or more labels. */
  readonly pattern: string;
  readonly port: number;
  /** Label of its captured exchanges. */
  readonly provider: string;
}

/** The word in GW_PROXY_HOSTS for the default list. */
export const DEFAULT_HOSTS_WORD = 'default';

const HTTPS_PORT = 443;

/** Regions that have a host, by the providers' references (read 2026-11). GW_PROXY_HOSTS names further hosts. */
const BEDROCK_REGIONS = [
  ...['us-east-1', 'us-east-2', 'us-west-1', 'us-west-2', 'us-gov-east-1', 'us-gov-west-1'],
  ...['ca-central-1', 'ca-west-1', 'mx-central-1', 'sa-east-1', 'af-south-1', 'il-central-1'],
  ...['eu-central-1', 'eu-central-2', 'eu-north-1', 'eu-south-1', 'eu-south-2'],
  ...['eu-west-1', 'eu-west-2', 'eu-west-3', 'me-central-1', 'me-south-1'],
  ...['ap-east-2', 'ap-northeast-1', 'ap-northeast-2', 'ap-northeast-3', 'ap-south-1', 'ap-south-2'],
  ...['ap-southeast-1', 'ap-southeast-2', 'ap-southeast-3', 'ap-southeast-4', 'ap-southeast-5'],
  'ap-southeast-7',
];
const VERTEX_REGIONS = [
  ...['us-central1', 'us-east1', 'us-east4', 'us-east5', 'us-south1', 'us-west1', 'us-west2', 'us-west3'],
  ...['us-west4', 'northamerica-northeast1', 'northamerica-northeast2', 'southamerica-east1'],
  ...['southamerica-west1', 'europe-central2', 'europe-north1', 'europe-southwest1', 'europe-west1'],
  ...['europe-west2', 'europe-west3', 'europe-west4', 'europe-west6', 'europe-west8', 'europe-west9'],
  ...['europe-west12', 'asia-east1', 'asia-east2', 'asia-northeast1', 'asia-northeast2', 'asia-northeast3'],
  ...['asia-south1', 'asia-southeast1', 'asia-southeast2', 'australia-southeast1', 'australia-southeast2'],
  ...['me-central1', 'me-central2', 'me-west1', 'africa-south1'],
];

/**
 * The hosts of the presets in `upstream-route.ts`, except for local servers. Regional hosts are listed one by one,
 * because the authority's certificate names whole domains, and `amazonaws.com` serves more than models.
 */
const DEFAULT_HOSTS: Readonly<Record<string, readonly string[]>> = {
  anthropic: ['api.anthropic.com'],
  openai: ['api.openai.com'],
  azure: ['*.openai.azure.com'],
  gemini: ['generativelanguage.googleapis.com'],
  vertex: [
    'aiplatform.googleapis.com',
    ...VERTEX_REGIONS.map((region) => `${region}-aiplatform.googleapis.com`),
  ],
  bedrock: BEDROCK_REGIONS.map((region) => `bedrock-runtime.${region}.amazonaws.com`),
  openrouter: ['openrouter.ai'],
  groq: ['api.groq.com'],
  mistral: ['api.mistral.ai'],
  deepseek: ['api.deepseek.com'],
  xai: ['api.x.ai'],
};

const defaultHosts: readonly ProxyHost[] = Object.entries(DEFAULT_HOSTS).flatMap(([provider, patterns]) =>
  patterns.map((pattern) => ({ pattern, port: HTTPS_PORT, provider })),
);

/** Only names: no certificate is requested for an IP address. The last label must not be a number. */
const PATTERN =
  /^(\*\.)?([a-z\d_]([a-z\d_-]{0,61}[a-z\d_])?\.)*[a-z_]([a-z\d_-]{0,61}[a-z\d_])?(:([1-9]\d{0,4}))?$/;
const NAME_CHARACTERS = 253;
const LABEL_CHARACTERS = 64;

/**
 * Reads the entries of GW_PROXY_HOSTS.
 * @param words entries of the list, in lower case
 * @returns the hosts without repetitions; null if a word is not a host, or there are no hosts or too many
 */
export function readProxyHosts(words: readonly string[]): ProxyHost[] | null {
  const hosts = new Map<string, ProxyHost>();
  for (const word of words) {
    for (const host of word === DEFAULT_HOSTS_WORD ? defaultHosts : [readHost(word)]) {
      if (host === null) return null;
      const key = `${host.pattern}:${host.port}`;
      if (!hosts.has(key)) hosts.set(key, host);
    }
  }
  return hosts.size === 0 || hosts.size > PROXY_HOSTS_MAX ? null : [...hosts.values()];
}

function readHost(word: string): ProxyHost | null {
  if (!PATTERN.test(word)) return null;
  const colon = word.indexOf(':');
  const pattern = colon < 0 ? word : word.slice(0, colon);
  const port = colon < 0 ? HTTPS_PORT : Number(word.slice(colon + 1));
  if (pattern.length > NAME_CHARACTERS || port > 65_535) return null;
  // A wildcard for a single label would be a whole top-level domain.
  if (pattern.startsWith('*.') && !pattern.slice(2).includes('.')) return null;
  return { pattern, port, provider: nameProvider(pattern) };
}

/** Finds the provider's label for a default host; for another host, its name without `*.`. */
function nameProvider(pattern: string): string {
  const known = defaultHosts.find((host) => matches(host.pattern, pattern));
  return known?.provider ?? pattern.replace('*.', '').slice(0, LABEL_CHARACTERS);
}

/** Finds the entry for a host; undefined if tunnels to the host are not decrypted. */
export function findProxyHost(
  hosts: readonly ProxyHost[],
  name: string,
  port: number,
): ProxyHost | undefined {
  return hosts.find((host) => host.port === port && matches(host.pattern, name));
}

function matches(pattern: string, name: string): boolean {
  if (!pattern.startsWith('*.')) return pattern === name;
  return name.length > pattern.length - 1 && name.endsWith(pattern.slice(1));
}

/** Lists the domains for which the authority may issue certificates. A domain includes all names below it. */
export function listDomains(hosts: readonly ProxyHost[]): string[] {
  return [...new Set(hosts.map(({ pattern }) => pattern.replace('*.', '')))].sort();
}
