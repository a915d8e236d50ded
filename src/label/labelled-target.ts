/**
 * Decides which requests get a label: those to paths of model calls on the operator's own hosts. Any thread. Called
 * for each request in a scope, so the result for a host is cached.
 */

import { BlockList, isIP } from 'node:net';

/** Maximum number of hosts in one cache, and of origins in the other. A full cache is cleared. */
const REMEMBERED_HOSTS_MAX = 1_000;

/**
 * The end of a model call's path. A base address may have a path too, so the beginning is ignored. Similar paths
 * (`/v1/messages/count_tokens`, `:countTokens`, `/v1/responses/{id}`) are not model calls.
 */
const MODEL_CALL =
  /\/v1\/(?:messages|chat\/completions|responses|complete)\/?$|(?::|%3[aA])(?:generate|streamGenerate)Content|\/model\/.+\/(?:converse|converse-stream|invoke|invoke-with-response-stream)$/;

/** Loopback, private and link-local addresses, and the unspecified address, which means "this machine". */
const OWN_ADDRESSES = new BlockList();
for (const [net, bits] of [
  ['0.0.0.0', 32],
  ['10.0.0.0', 8],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const)
  OWN_ADDRESSES.addSubnet(net, bits, 'ipv4');
for (const [net, bits] of [
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
] as const)
  OWN_ADDRESSES.addSubnet(net, bits, 'ipv6');

const OWN_NAME = /\.(?:local|internal|localhost)$/;
/** Matches a host that is a number. The resolver reads it as an address, which may not be a private one. */
const NUMBER = /^(?:\d+|0x[\da-f]*)$/;

/** Whether a path is that of a model call. @param path the path of a request, with or without a query */
export function isModelCall(path: string): boolean {
  const query = path.indexOf('?');
  return MODEL_CALL.test(query < 0 ? path : path.slice(0, query));
}

/** The hosts whose requests are labelled. */
export class LabelledHosts {
  readonly #listed: ReadonlySet<string>;
  readonly #hosts = new Map<string, boolean>();
  readonly #origins = new Map<string, boolean>();

  /** @param listed further hosts of the operator (`SVC_HOSTS`), in upper or lower case; ports are ignored */
  constructor(listed: readonly string[]) {
    this.#listed = new Set(listed.map((host) => normalize(host.replace(/^(\[.*\]|[^:]+):\d+$/, '$1'))));
  }

  /** Whether a host is labelled. @param host a name or an address, without a port; IPv6 with or without brackets */
  has(host: string): boolean {
    const known = this.#hosts.get(host);
    if (known !== undefined) return known;
    const name = normalize(host);
    return remember(this.#hosts, host, this.#listed.has(name) || isOwnHost(name));
  }

  /** Whether the host of an origin is labelled. @param origin scheme, host and port, or a complete URL */
  hasOrigin(origin: string): boolean {
    return this.#origins.get(origin) ?? remember(this.#origins, origin, this.has(new URL(origin).hostname));
  }

  /**
   * Whether a request gets a label: it is a model call, and its host is labelled.
   * @param origin the origin of the connection
   * @param path the requested path; a complete URL in a request to a proxy
   */
  labels(origin: string, path: string): boolean {
    if (!isModelCall(path)) return false;
    return this.hasOrigin(/^https?:\/\//i.test(path) ? new URL(path).origin : origin);
  }
}

function normalize(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
}

function isOwnHost(name: string): boolean {
  const family = isIP(name);
  if (family !== 0) return OWN_ADDRESSES.check(name, family === 4 ? 'ipv4' : 'ipv6');
  if (OWN_NAME.test(name)) return true;
  return name !== '' && !/[.:]/.test(name) && !NUMBER.test(name);
}

function remember(known: Map<string, boolean>, key: string, is_labelled: boolean): boolean {
  if (known.size >= REMEMBERED_HOSTS_MAX) known.clear();
  known.set(key, is_labelled);
  return is_labelled;
}
