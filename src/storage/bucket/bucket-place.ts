/**
 * Reads the name of a bucket: `s3://bucket/prefix?endpoint=https://…&region=…`, or of a folder that is used like a bucket:
 * `file:///folder`. Any thread.
 */
import { isIP } from 'node:net';
import { fileURLToPath } from 'node:url';
import { StoreError } from './object-store.ts';

export interface BucketPlace {
  bucket: string;
  /** The prefix of each object's name; '' or with a slash at its end. */
  prefix: string;
  /** null: none is given, and the SDK uses the endpoint of AWS. */
  endpoint: string | null;
  /** null: neither a region nor an endpoint is given, and the SDK's configuration decides. */
  region: string | null;
  /** The place as messages name it. */
  name: string;
}

const BUCKET = /^[a-z\d][a-z\d.-]{1,61}[a-z\d]$/;
const PREFIX = /^(?:[\w.=+@-]+\/)*$/;
const PARAMETERS: ReadonlySet<string> = new Set(['endpoint', 'region', 'insecure']);
const RULE = 'a bucket is named like s3://bucket/prefix?endpoint=https://storage.example&region=eu-central-1';
/** Region for servers other than AWS if the address names none. Such servers do not usually check it. */
const ANY_REGION = 'us-east-1';

export function isBucketPlace(place: string): boolean {
  return /^s3:/i.test(place);
}

/**
 * The path of the folder that a `file:///` address names.
 * @returns a bucket's address, or a path, unchanged
 * @throws StoreError for a `file:` address that names no folder of this machine
 */
export function readFolderAddress(place: string): string {
  if (!/^file:/i.test(place)) return place;
  const url = URL.canParse(place) ? new URL(place) : null;
  // Without three slashes, the first folder of the path would be read as the name of a machine, or from the root.
  const isPlain = /^file:\/\/\//i.test(place) && url?.search === '' && url.hash === '';
  try {
    if (isPlain) return fileURLToPath(url!);
  } catch {
    // For example an encoded slash in the name of a folder.
  }
  throw new StoreError('the address of a folder is written like file:///mnt/other-disk/understudy');
}

/**
 * Reads the address of a bucket.
 * @throws StoreError; its message does not repeat the address, which may contain a credential by mistake
 */
export function readBucketPlace(place: string): BucketPlace {
  if (!URL.canParse(place)) throw new StoreError(RULE);
  const url = new URL(place);
  if (url.username !== '' || url.password !== '')
    throw new StoreError(`${RULE}; credentials come from AWS_ACCESS_KEY_ID and the like`);
  const prefix = url.pathname.replace(/^\/+|\/+$/g, '');
  const unknown = [...url.searchParams.keys()].some((key) => !PARAMETERS.has(key));
  const region = url.searchParams.get('region');
  if (
    !BUCKET.test(url.hostname) ||
    url.port !== '' ||
    url.hash !== '' ||
    unknown ||
    !PREFIX.test(prefix === '' ? '' : `${prefix}/`) ||
    (region !== null && !/^[a-z\d-]{1,40}$/.test(region))
  )
    throw new StoreError(RULE);
  const endpoint = url.searchParams.get('endpoint');
  if (endpoint !== null) checkEndpoint(endpoint, url.searchParams.get('insecure') === '1');
  return {
    bucket: url.hostname,
    prefix: prefix === '' ? '' : `${prefix}/`,
    endpoint,
    region: region ?? (endpoint === null ? null : ANY_REGION),
    name: `s3://${url.hostname}${prefix === '' ? '' : `/${prefix}`}`,
  };
}

function checkEndpoint(text: string, mayBeInsecure: boolean): void {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain = url?.protocol === 'http:' && (mayBeInsecure || isLoopback(url.hostname));
  const isSecure = url?.protocol === 'https:';
  if (url !== null && (isPlain || isSecure) && url.username === '' && url.search === '') return;
  throw new StoreError(
    'the endpoint of a bucket is an https:// address; http:// requires insecure=1, or a host on this machine',
  );
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIP(host) === 4 && host.startsWith('127.'));
}
