/**
 * Implements `ObjectStore` with a bucket of S3-compatible storage, through the AWS SDK, which only this file loads. Any
 * thread. Credentials come from the SDK's usual chain (environment, profile, container, machine). Each object is sent
 * with its SHA-256, which the server verifies. When an object is read, the SDK verifies the checksum that the server
 * reports.
 */
import { createHash } from 'node:crypto';
import type { S3Client } from '@aws-sdk/client-s3';
import type { BucketPlace } from './bucket-place.ts';
import { OBJECT_BYTES_MAX, type ObjectStore, type StoredObject, StoreError } from './object-store.ts';
import { explainS3 } from './s3-errors.ts';

const CONNECT_MS = 10_000;
/** Maximum time without data from the server. */
const SILENCE_MS = 60_000;
/** Maximum number of attempts for each request, with growing pauses. */
const ATTEMPTS = 4;
/** Maximum number of keys in one request that lists or removes objects. */
const KEYS_MAX = 1_000;

type Sdk = typeof import('@aws-sdk/client-s3');

/** Loads the S3 client and makes a store for a bucket. Sends no request. */
export async function openS3Store(place: BucketPlace): Promise<ObjectStore> {
  const sdk = await import('@aws-sdk/client-s3');
  return new S3Store(sdk, place);
}

class S3Store implements ObjectStore {
  readonly name: string;
  readonly #sdk: Sdk;
  readonly #client: S3Client;
  readonly #place: BucketPlace;

  constructor(sdk: Sdk, place: BucketPlace) {
    const { endpoint, region } = place;
    this.name = place.name;
    this.#sdk = sdk;
    this.#place = place;
    this.#client = new sdk.S3Client({
      ...(region === null ? {} : { region }),
      // Servers other than AWS expect the bucket in the path, not in the host name.
      ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
      maxAttempts: ATTEMPTS,
      requestChecksumCalculation: 'WHEN_REQUIRED',
      requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: SILENCE_MS },
    });
  }

  put(name: string, bytes: Uint8Array): Promise<void> {
    return this.#try('s3:PutObject', async () => {
      await this.#client.send(
        new this.#sdk.PutObjectCommand({
          ...this.#keyOf(name),
          Body: bytes,
          ContentLength: bytes.length,
          ChecksumSHA256: createHash('sha256').update(bytes).digest('base64'),
        }),
      );
    });
  }

  get(name: string): Promise<Buffer | null> {
    return this.#try('s3:GetObject', async () => {
      try {
        const { Body, ContentLength = 0 } = await this.#client.send(
          new this.#sdk.GetObjectCommand(this.#keyOf(name)),
        );
        if (ContentLength > OBJECT_BYTES_MAX) throw new StoreError(`${name} in ${this.name} is too large`);
        return Buffer.from(await Body!.transformToByteArray());
      } catch (thrown) {
        if ((thrown as Error).name === 'NoSuchKey') return null;
        throw thrown;
      }
    });
  }

  async *list(prefix: string): AsyncGenerator<StoredObject> {
    let token: string | undefined;
    do {
      const after = token === undefined ? {} : { ContinuationToken: token };
      const page = await this.#try('s3:ListBucket', () =>
        this.#client.send(
          new this.#sdk.ListObjectsV2Command({
            Bucket: this.#place.bucket,
            Prefix: `${this.#place.prefix}${prefix}`,
            MaxKeys: KEYS_MAX,
            ...after,
          }),
        ),
      );
      for (const { Key = '', LastModified } of page.Contents ?? [])
        yield { name: Key.slice(this.#place.prefix.length), written_ms: LastModified?.getTime() ?? 0 };
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  async remove(names: readonly string[]): Promise<void> {
    for (let at = 0; at < names.length; at += KEYS_MAX) {
      const Objects = names.slice(at, at + KEYS_MAX).map((name) => ({ Key: `${this.#place.prefix}${name}` }));
      const { Errors = [] } = await this.#try('s3:DeleteObject', () =>
        this.#client.send(
          new this.#sdk.DeleteObjectsCommand({
            Bucket: this.#place.bucket,
            Delete: { Objects, Quiet: true },
          }),
        ),
      );
      const [failed] = Errors.filter(({ Code }) => Code !== 'NoSuchKey');
      if (failed === undefined) continue;
      const why = `an object in ${this.name} could not be removed (${failed.Code ?? 'no reason given'})`;
      throw new StoreError(why);
    }
  }

  close(): void {
    this.#client.destroy();
  }

  #keyOf(name: string): { Bucket: string; Key: string } {
    return { Bucket: this.#place.bucket, Key: `${this.#place.prefix}${name}` };
  }

  /** Runs a request, and turns its errors into a StoreError. @param right the access right that the credentials need */
  async #try<Result>(right: string, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (thrown) {
      throw thrown instanceof StoreError ? thrown : explainS3(thrown, this.#place, right);
    }
  }
}
