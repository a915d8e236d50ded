/** Certificates of listeners and of upstreams. Main thread. */
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { type CertificateError, type CertificateFiles, checkCertificate } from '../std/certificate-files.ts';
import { ConfigError } from './config-error.ts';

/** Maximum size of the file that GW_UPSTREAM_CA names. */
const UPSTREAM_CA_BYTES = 1 << 20;

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The variables of a listener's certificate. */
const TLS_NAMES = {
  api: { cert: 'TLS_CERT', key: 'TLS_KEY' },
  gateway: { cert: 'GW_TLS_CERT', key: 'GW_TLS_KEY' },
} as const;

/**
 * Checks the certificate of a listener.
 * @param cert path of the certificate; null: unset
 * @param key path of its key; null: unset
 * @returns the absolute paths; null if both are unset
 * @throws ConfigError when one of the two is missing, or the files are not a certificate and its key
 */
export function readTls(
  listener: keyof typeof TLS_NAMES,
  cert: string | null,
  key: string | null,
): CertificateFiles | null {
  const names = TLS_NAMES[listener];
  if (cert === null && key === null) return null;
  if (cert === null) throw new ConfigError(names.cert, '', `${names.key} is set: set both or neither`);
  if (key === null) throw new ConfigError(names.key, '', `${names.cert} is set: set both or neither`);
  const files = Object.freeze({ cert: resolve(cert), key: resolve(key) });
  try {
    checkCertificate(files);
  } catch (thrown) {
    const { file, message } = thrown as CertificateError;
    throw new ConfigError(names[file], file === 'cert' ? cert : key, message);
  }
  return files;
}

/**
 * Reads the certificates of a file.
 * @returns the certificates in PEM, without other text of the file; null without a file
 * @throws ConfigError when the file cannot be read, or holds no certificate or an invalid one
 */
export function readUpstreamCa(file: string | null): string | null {
  if (file === null) return null;
  const refuse = (why: string) => new ConfigError('GW_UPSTREAM_CA', file, why);
  let text: string;
  try {
    const stat = statSync(file);
    if (!stat.isFile()) throw new Error('the path is not a file');
    if (stat.size > UPSTREAM_CA_BYTES) throw new Error(`the file is larger than ${UPSTREAM_CA_BYTES} bytes`);
    text = readFileSync(file, 'latin1');
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    throw refuse(
      code === 'ENOENT' ? 'there is no such file' : `the file cannot be read (${code ?? message})`,
    );
  }
  const certificates = text.match(PEM_CERTIFICATE) ?? [];
  if (certificates.length === 0)
    throw refuse('the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)');
  try {
    for (const certificate of certificates) new X509Certificate(certificate);
  } catch {
    throw refuse('the file holds a certificate that cannot be read');
  }
  return certificates.join('\n');
}
