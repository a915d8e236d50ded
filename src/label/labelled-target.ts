/**
 * Which requests get a label: those to the paths of model calls, on hosts that are one's own. Any thread, once for each
 * request of a scope, so what was found of a host is remembered.
 */

import { BlockList, isIP } from 'node:net';

/** Hosts and origins that are remembered, each; beyond that all are forgotten. */
const REMEMBERED_HOSTS_MAX = 1_000;

/**
 * How a path of a model call ends. A base address may carry a path, so what stands before does not count. What
 * lives beside a call (`/v1/messages/count_tokens`, `:countTokens`, `/v1/responses/{id}`) is not a call.
 */
const MODEL_CALL =
  /\/v1\/(?:messages|chat\/completions|responses|complete)\/?$|(?::|%3[aA])(?:generate|streamGenerate)Content|\/model\/.+\/(?:converse|converse-stream|invoke|invoke-with-response-stream)$/;

/** Loopback, private and link-local addresses, and the one that means "this machine". */
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
/** To the resolver a number is an address, and may be anybody's. */
const NUMBER = /^(?:\d+|0x[\da-f]*)$/;

/** @param path of a request, with or without a query */
export function isModelCall(path: string): boolean {
  const query = path.indexOf('?');
  return MODEL_CALL.test(query < 0 ? path : path.slice(0, query));
}

/** The hosts whose requests are labelled. */
export class LabelledHosts {
  readonly #listed: ReadonlySet<string>;
  readonly #hosts = new Map<string, boolean>();
  readonly #origins = new Map<string, boolean>();

  /** @param listed names beyond one's own (`SVC_HOSTS`), compared without regard to case; ports are left out */
  constructor(listed: readonly string[]) {
    this.#listed = new Set(listed.map((host) => normalize(host.replace(/^(\[.*\]|[^:]+):\d+$/, '$1'))));
  }

  /** @param host a name or an address, without a port; IPv6 with or without brackets */
  has(host: string): boolean {
    const known = this.#hosts.get(host);
    if (known !== undefined) return known;
    const name = normalize(host);
    return remember(this.#hosts, host, this.#listed.has(name) || isOwnHost(name));
  }

  /** @param origin scheme, host and port, or a whole address */
  hasOrigin(origin: string): boolean {
    return this.#origins.get(origin) ?? remember(this.#origins, origin, this.has(new URL(origin).hostname));
  }

  /**
   * @param origin where the connection leads
   * @param path what is asked for; a whole address where a proxy is asked for it
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
