/** How the listeners of a server thread take requests, and where they are reached. Server threads. */
import type { Config } from '../config.ts';
import type { CertificateOutcome } from '../http/certificate-watch.ts';
import type { ServerOptions } from '../http/server.ts';
import { UPLOAD_PACE_WINDOW_MS } from '../limits.ts';
import type { CertificateFiles } from '../std/certificate-files.ts';

/** The least pace of an upload, where there is one. */
export function paceOf({ connections }: Config): Pick<ServerOptions, 'pace'> {
  const bytes_per_sec = connections.min_upload_bytes_per_sec;
  return bytes_per_sec === 0 ? {} : { pace: { bytes_per_sec, window_ms: UPLOAD_PACE_WINDOW_MS } };
}

/** What an operator is told of a listener. */
interface ListenerLog {
  info(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The certificate, where there is one; says when another takes its place, or could not. */
export function tlsOf(tls: CertificateFiles | null, log: ListenerLog): Pick<ServerOptions, 'tls'> {
  if (tls === null) return {};
  const onChange = (outcome: CertificateOutcome): void => {
    if ('facts' in outcome) {
      const until = new Date(outcome.facts.valid_to_ms).toISOString();
      log.info({ cert: tls.cert, valid_until: until }, 'new connections get the new certificate');
      return;
    }
    const reason = outcome.thrown.message;
    log.error({ ...tls, reason }, 'the changed certificate or key cannot be used: the earlier one stays');
  };
  return { tls: { files: tls, onChange } };
}

/** An address as a URL without a trailing slash. */
export function urlOf({ host, port }: { host: string; port: number }, tls: CertificateFiles | null): string {
  return `${tls === null ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
