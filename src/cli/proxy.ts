/**
 * `understudy proxy --trust`: prints the line that makes the clients of one shell use the proxy and trust its
 * authority. It changes nothing on the machine outside DATA_DIR. Command line.
 */
import { X509Certificate } from 'node:crypto';
import { isLoopback } from '../config/local-address.ts';
import type { Config } from '../config.ts';
import { listDomains } from '../domain/proxy-host.ts';
import { authorityPath, bundlePath, showAuthority } from '../proxy/authority.ts';
import { quoteForShell } from '../std/shell-word.ts';
import { type CliIo, EXIT } from './io.ts';

/** Variables of clients that trust one file in addition to the usual authorities. */
const EXTRA_VARIABLES = ['NODE_EXTRA_CA_CERTS', 'CODEX_CA_CERTIFICATE'];
/** Variables of clients that trust only one file, which therefore includes the usual authorities. */
const BUNDLE_VARIABLES = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'AWS_CA_BUNDLE'];

/**
 * Prints the line on standard output, and the authority's fingerprint on standard error.
 * @param config a configuration with a proxy
 * @returns the exit status
 */
export async function runTrust(config: Config, io: CliIo): Promise<number> {
  const { data_dir, proxy } = config;
  const { cert, valid_to_ms } = await showAuthority(data_dir, listDomains(proxy!.hosts), Date.now());
  const host = proxy!.host.includes(':') ? `[${proxy!.host}]` : proxy!.host;
  // A proxy beyond loopback listens on every address. Its clients are on other machines, and know its name.
  const address = isLoopback(proxy!.host) ? host : 'any:KEY@HOST';
  const settings = [
    ['HTTPS_PROXY', `http://${address}:${proxy!.port}`],
    ...EXTRA_VARIABLES.map((name) => [name, authorityPath(data_dir)]),
    ...BUNDLE_VARIABLES.map((name) => [name, bundlePath(data_dir)]),
  ];
  await io.out(`export ${settings.map(([name, value]) => `${name}=${quoteForShell(value!)}`).join(' ')}\n`);
  const until = new Date(valid_to_ms).toISOString().slice(0, 10);
  io.err(`The authority: SHA-256 ${new X509Certificate(cert).fingerprint256}, valid until ${until}, only for the hosts of GW_PROXY_HOSTS.
`);
  return EXIT.done;
}
