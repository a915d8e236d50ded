/** Explains an error of the S3 client in one line that says what to do. Any thread. */
import type { BucketPlace } from './bucket-place.ts';
import { StoreError } from './object-store.ts';

const CLOCK: ReadonlySet<string> = new Set(['RequestTimeTooSkewed', 'RequestExpired', 'RequestInTheFuture']);
const WRONG_CREDENTIALS: ReadonlySet<string> = new Set([
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'ExpiredToken',
  'InvalidToken',
  'UnrecognizedClientException',
]);
const WRONG_REGION: ReadonlySet<string> = new Set([
  'PermanentRedirect',
  'AuthorizationHeaderMalformed',
  'IllegalLocationConstraintException',
]);
const UNTRUSTED =
  /^(?:CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(?:GET_ISSUER|VERIFY)|HOSTNAME_)/;
const NETWORK: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'EPROTO',
  'ETIMEDOUT',
  'TimeoutError',
]);

interface S3Failure extends Error {
  code?: string;
  $metadata?: { httpStatusCode?: number };
}

/**
 * Explains an error.
 * @param right the access right that the operation needs
 */
export function explainS3(thrown: unknown, place: BucketPlace, right: string): StoreError {
  const failure = thrown as S3Failure;
  const { name } = failure;
  const code = failure.code ?? (failure.cause as S3Failure | undefined)?.code ?? name;
  const status = failure.$metadata?.httpStatusCode ?? 0;
  const server = place.endpoint ?? 'AWS';
  const refuse = (words: string) => new StoreError(words, { cause: thrown });
  if (CLOCK.has(name))
    return refuse(`${server} refuses the clock of this machine: set the clock to the present time`);
  if (name === 'NoSuchBucket') return refuse(`there is no bucket ${place.bucket} at ${server}`);
  if (name === 'CredentialsProviderError')
    return refuse(
      `no credentials for ${place.name}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use another way of the AWS SDK`,
    );
  if (WRONG_CREDENTIALS.has(name)) return refuse(`${server} does not accept the credentials (${name})`);
  if (WRONG_REGION.has(name) || status === 301)
    return refuse(`the bucket ${place.bucket} is in another region: name that region with region=`);
  if (/Region is missing/.test(failure.message)) return refuse('name the region of the bucket with region=');
  if (status === 401 || status === 403)
    return refuse(`the credentials have no right to ${right} in ${place.name} (${name})`);
  if (UNTRUSTED.test(code))
    return refuse(
      `the certificate of ${server} is not trusted (${code}): NODE_EXTRA_CA_CERTS names a file of further authorities`,
    );
  if (NETWORK.has(code) || NETWORK.has(name)) return refuse(`${server} cannot be reached (${code})`);
  if (status >= 500 || status === 429)
    return refuse(`${server} cannot serve the request now (status ${status}, ${name})`);
  return refuse(`${place.name}: ${failure.message.split('\n', 1)[0]} (${name})`);
}
