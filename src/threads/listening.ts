/**
 * The options that all listeners of a server thread have in common: upload rate, certificate, URL.
 * Server threads.
 */
import { isMainThread } from 'node:worker_threads';
import type { Config } from '../config.ts';
import type { CertificateOutcome } from '../http/certificate-watch.ts';
import type { ServerOptions } from '../http/http-server.ts';
import { CertificateError, type CertificateFiles } from '../std/certificate-files.ts';

/** The minimum rate of an upload is an average over this time. */
const UPLOAD_PACE_WINDOW_MS = 60_000;

/** Returns the minimum rate of uploads as an option of a listener; {}: there is no minimum. */
export function paceOf({ connections }: Config): Pick<ServerOptions, 'pace'> {
  const bytes_per_sec = connections.min_upload_bytes_per_sec;
  return bytes_per_sec === 0 ? {} : { pace: { bytes_per_sec, window_ms: UPLOAD_PACE_WINDOW_MS } };
}

/** The log of a listener. */
interface ListenerLog {
  info(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The last log line about a certificate file, and the listener that wrote it. */
const told = new Map<string, { text: string; by: object }>();

/**
 * Returns the certificate files of a listener as an option; {}: no certificate. Renewals and failed renewals are
 * logged. Several listeners may use the same files, so a single listener of the main thread logs changes of the files
 * and errors in them. Any other failure is logged by the thread on which it happens.
 */
export function tlsOf(tls: CertificateFiles | null, log: ListenerLog): Pick<ServerOptions, 'tls'> {
  if (tls === null) return {};
  const onChange = (outcome: CertificateOutcome): void => {
    const text = 'facts' in outcome ? String(outcome.facts.valid_to_ms) : outcome.thrown.message;
    const isOfFiles = 'facts' in outcome || outcome.thrown instanceof CertificateError;
    if (isOfFiles && !isMainThread) return;
    const last = told.get(tls.cert);
    if (last?.text === text && last.by !== onChange) return;
    told.set(tls.cert, { text, by: onChange });
    if ('facts' in outcome) {
      const until = new Date(outcome.facts.valid_to_ms).toISOString();
      log.info({ cert: tls.cert, valid_until: until }, 'new connections get the new certificate');
      return;
    }
    log.error(
      { ...tls, reason: text },
      'the changed certificate or key cannot be used: the earlier one stays',
    );
  };
  return { tls: { files: tls, onChange } };
}

/** Writes an address as a URL without a trailing slash. */
export function urlOf({ host, port }: { host: string; port: number }, tls: CertificateFiles | null): string {
  return `${tls === null ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
