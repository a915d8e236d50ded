/**
 * The local certificate authority of proxy mode. Its key is created once and stays in DATA_DIR/secrets; its certificate
 * is in DATA_DIR, for clients to trust. The certificate is limited to the configured hosts, so that a stolen key cannot
 * impersonate other hosts. The main thread and the command line create it, and the proxy thread signs with it.
 */
import { createHash, createPrivateKey, createPublicKey, randomBytes, webcrypto } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { getCACertificates } from 'node:tls';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';

/** Validity of certificates, and the remaining validity at which the next one is made. */
const PROXY_AUTHORITY_DAYS = { lifetime: 730, renewal: 120 } as const;
export const PROXY_LEAF_HOURS = { lifetime: 48, renewal: 24 } as const;

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How far in the past the validity of a certificate begins, because the clocks of clients may be slow. */
const BACKDATED_MS = HOUR_MS;
const NAME_CONSTRAINTS = '2.5.29.30';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const FILE_BYTES_MAX = 1 << 20;
const REFUSED_RIGHTS = 0o077;

/** The certificate that a client must trust in addition to its usual ones. */
export function authorityPath(dataDir: string): string {
  return join(dataDir, 'proxy-ca.pem');
}

/**
 * The file with the authority's certificate and all other certificates that the machine trusts, for clients that trust
 * only one file.
 */
export function bundlePath(dataDir: string): string {
  return join(dataDir, 'proxy-ca-bundle.pem');
}

/** A certificate for one host. */
interface Leaf {
  /** PEM. */
  cert: string;
  valid_to_ms: number;
}

export class Authority {
  /** PEM. */
  readonly cert: string;
  readonly valid_to_ms: number;
  readonly #certificate: x509.X509Certificate;
  readonly #key: webcrypto.CryptoKey;

  constructor(certificate: x509.X509Certificate, key: webcrypto.CryptoKey) {
    this.#certificate = certificate;
    this.#key = key;
    this.cert = `${certificate.toString('pem')}\n`;
    this.valid_to_ms = certificate.notAfter.getTime();
  }

  /**
   * Makes a certificate for a host. It does not outlive the authority's certificate.
   * @param host the host's name in lower case
   * @param publicKey the public key of the leaf, as SubjectPublicKeyInfo in DER
   */
  async issue(host: string, publicKey: Buffer, nowMs: number): Promise<Leaf> {
    const valid_to_ms = Math.min(nowMs + PROXY_LEAF_HOURS.lifetime * HOUR_MS, this.valid_to_ms);
    const key = new x509.PublicKey(publicKey);
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: makeSerial(),
      // The host is in the alternative name, because a common name may be too short for it.
      subject: 'CN=Understudy proxy',
      issuer: this.#certificate.subject,
      notBefore: new Date(nowMs - BACKDATED_MS),
      notAfter: new Date(valid_to_ms),
      publicKey: key,
      signingKey: this.#key as never,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([SERVER_AUTH]),
        new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: host }]),
        await x509.AuthorityKeyIdentifierExtension.create(this.#certificate.publicKey),
        await x509.SubjectKeyIdentifierExtension.create(key),
      ],
    });
    return { cert: `${certificate.toString('pem')}\n`, valid_to_ms };
  }
}

/**
 * Opens the authority of a data directory, or creates it. A new certificate with the same key is made when the hosts
 * change, and before the current certificate expires. Clients that trust the earlier certificate work until it expires.
 * @param domains the domains for which the authority may issue certificates, each with all its subdomains
 * @throws Error with a one-line message if a file cannot be read, created or parsed; its `code` marks it as an
 *   operator's error
 */
export async function openAuthority(
  dataDir: string,
  domains: readonly string[],
  nowMs: number,
): Promise<Authority> {
  const key = await openKey(dataDir);
  const place = authorityPath(dataDir);
  const found = readCertificate(place);
  const isNew = found === null || !isGood(found, key, domains, nowMs);
  const authority = new Authority(isNew ? await makeCertificate(key, domains, nowMs) : found, key.signing);
  if (isNew) writeBehind(place, authority.cert);
  writeBundle(dataDir, authority);
  return authority;
}

/** Writes the file of `bundlePath`. This happens at each start, because the machine's trusted certificates change. */
function writeBundle(dataDir: string, { cert }: Authority): void {
  const trusted = new Set([...getCACertificates('bundled'), ...getCACertificates('system')]);
  writeBehind(bundlePath(dataDir), `${[cert, ...trusted].map((pem) => pem.trimEnd()).join('\n')}\n`);
}

/**
 * Like `openAuthority`, for a caller that only needs the certificate. An existing certificate for the key is kept until
 * it expires, even if it names other hosts, because the service may be configured with other hosts.
 */
export async function showAuthority(
  dataDir: string,
  domains: readonly string[],
  nowMs: number,
): Promise<Authority> {
  const key = await openKey(dataDir);
  const found = readCertificate(authorityPath(dataDir));
  if (found === null || !isOf(found, key) || found.notAfter.getTime() <= nowMs)
    return openAuthority(dataDir, domains, nowMs);
  const authority = new Authority(found, key.signing);
  writeBundle(dataDir, authority);
  return authority;
}

interface AuthorityKey {
  signing: webcrypto.CryptoKey;
  /** SubjectPublicKeyInfo in DER. */
  public: Buffer;
}

async function openKey(dataDir: string): Promise<AuthorityKey> {
  x509.cryptoProvider.set(webcrypto as never);
  const folder = join(dataDir, 'secrets');
  const file = join(folder, 'proxy-ca.key');
  makeFolder(folder, 0o700);
  const pem = readKey(file) ?? (await makeKey(file));
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') throw new Error('another kind of key');
    const secret = key.export({ type: 'pkcs8', format: 'der' });
    return {
      signing: await webcrypto.subtle.importKey('pkcs8', secret, ALGORITHM, false, ['sign']),
      public: createPublicKey(key).export({ type: 'spki', format: 'der' }),
    };
  } catch {
    throw refuse(
      `${file} does not contain the key of the proxy's authority: restore the file from a backup, or move it away; clients then have to trust a new authority`,
    );
  }
}

function readKey(file: string): string | null {
  let descriptor: number;
  try {
    // Opening a named pipe would block until another process writes to it.
    descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw namePlace(thrown, file);
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile() || stat.size > FILE_BYTES_MAX)
      throw refuse(`${file} is not a regular file, or is too large for a key`);
    if (process.platform !== 'win32' && (stat.mode & REFUSED_RIGHTS) !== 0)
      throw refuse(
        `other users can read or change ${file}, and could impersonate the proxy's hosts to your clients: run chmod 600 on it`,
      );
    return readFileSync(descriptor, 'latin1');
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Writes the key to a temporary file and links that into place. If two processes start at the same time, one creates
 * the file and both read it.
 */
async function makeKey(file: string): Promise<string> {
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey));
  const draft = writeDraft(file, x509.PemConverter.encode(der, 'PRIVATE KEY'));
  try {
    linkSync(draft, file);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw namePlace(thrown, file);
  } finally {
    rmSync(draft, { force: true });
  }
  return readKey(file)!;
}

/** Replaces the whole file at once, so that readers never get a part of it. */
function writeBehind(file: string, text: string): void {
  const draft = writeDraft(file, text);
  try {
    renameSync(draft, file);
  } catch (thrown) {
    rmSync(draft, { force: true });
    throw namePlace(thrown, file);
  }
}

function writeDraft(file: string, text: string): string {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    const descriptor = openSync(draft, 'wx', 0o600);
    try {
      writeFileSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } catch (thrown) {
    rmSync(draft, { force: true });
    throw namePlace(thrown, file);
  }
  return draft;
}

/** Reads the certificate in a file; null if the file is missing or has no certificate. A new one is then made. */
function readCertificate(file: string): x509.X509Certificate | null {
  try {
    return new x509.X509Certificate(readFileSync(file, 'latin1'));
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === undefined || code === 'ENOENT' || !/^E[A-Z]+$/.test(code)) return null;
    throw namePlace(thrown, file);
  }
}

function isOf(certificate: x509.X509Certificate, key: AuthorityKey): boolean {
  return Buffer.from(certificate.publicKey.rawData).equals(key.public);
}

function isGood(
  certificate: x509.X509Certificate,
  key: AuthorityKey,
  domains: readonly string[],
  nowMs: number,
): boolean {
  const left = certificate.notAfter.getTime() - nowMs;
  const constraints = certificate.getExtension(NAME_CONSTRAINTS);
  return (
    isOf(certificate, key) &&
    left > PROXY_AUTHORITY_DAYS.renewal * DAY_MS &&
    certificate.notBefore.getTime() <= nowMs &&
    constraints !== null &&
    Buffer.from(constraints.value).equals(encodeConstraints(domains))
  );
}

function makeCertificate(
  key: AuthorityKey,
  domains: readonly string[],
  nowMs: number,
): Promise<x509.X509Certificate> {
  const publicKey = new x509.PublicKey(key.public);
  // The name contains a digest of the key, so that the authorities of two machines have different names in a client.
  const name = `CN=Understudy proxy ${createHash('sha256').update(key.public).digest('hex').slice(0, 8)}`;
  return (async () =>
    x509.X509CertificateGenerator.create({
      serialNumber: makeSerial(),
      subject: name,
      issuer: name,
      notBefore: new Date(nowMs - BACKDATED_MS),
      notAfter: new Date(nowMs + PROXY_AUTHORITY_DAYS.lifetime * DAY_MS),
      publicKey,
      signingKey: key.signing as never,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
        new x509.ExtendedKeyUsageExtension([SERVER_AUTH]),
        new x509.Extension(NAME_CONSTRAINTS, true, encodeConstraints(domains)),
        await x509.SubjectKeyIdentifierExtension.create(publicKey),
      ],
    }))();
}

/**
 * NameConstraints (RFC 5280, 4.2.1.10): these domains with their subdomains, and no IP address. The library has no
 * class for this extension.
 */
function encodeConstraints(domains: readonly string[]): Buffer {
  const permitted = domains.map((domain) => encode(0x30, encode(0x82, Buffer.from(domain, 'latin1'))));
  // A zero address with a zero mask excludes every address. There is one entry for IPv4 and one for IPv6.
  const excluded = [8, 32].map((bytes) => encode(0x30, encode(0x87, Buffer.alloc(bytes))));
  return encode(0x30, encode(0xa0, ...permitted), encode(0xa1, ...excluded));
}

/** One value in DER. */
function encode(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  const size = Buffer.alloc(4);
  size.writeUInt32BE(length);
  const digits = size.subarray(size.findIndex((byte) => byte !== 0));
  return Buffer.concat([Buffer.of(tag, 0x80 | digits.length), digits, content]);
}

/** Makes a random serial number of 127 bits. It is positive, and practically never the same as another. */
function makeSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return bytes.toString('hex');
}

function refuse(words: string): Error {
  return Object.assign(new Error(words), { code: 'EAUTHORITY' });
}
