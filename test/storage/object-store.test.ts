/** Object stores: a folder and a bucket behave the same, and an error of a bucket says in one line what to do. */
import { createServer } from 'node:https';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { ObjectStore } from '../../src/storage/bucket/object-store.ts';
import { StoreError } from '../../src/storage/bucket/object-store.ts';
import { openStore } from '../../src/storage/bucket/open-store.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { runHere } from '../cli/here.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../fixtures/certificate.ts';
import { BUCKET, S3_ENVIRONMENT, startFakeS3, startS3 } from '../fixtures/s3-server.ts';
import { makeFolder } from './folder.ts';
import { listNames, makeFollowed, openFollower, pass, putRows, readRows, restoreTo } from './points.ts';

const before = { ...process.env };
beforeEach(() => Object.assign(process.env, S3_ENVIRONMENT));
afterEach(() => {
  for (const name of Object.keys(S3_ENVIRONMENT)) delete process.env[name];
  Object.assign(process.env, before);
});

const refuseWith = (code: string) => `<Error><Code>${code}</Code><Message>it says no</Message></Error>`;
const bucketAt = (endpoint: string, prefix = '') => `s3://${BUCKET}/${prefix}?endpoint=${endpoint}`;

it('a folder loads no S3 client, and a bucket does', async () => {
  const { cache } = createRequire(import.meta.url);
  const isLoaded = () => Object.keys(cache).some((path) => path.includes('client-s3'));
  await (await openStore(makeFolder())).put('a', Buffer.from('x'));
  expect(isLoaded()).toBe(false);
  (await openStore(bucketAt('http://127.0.0.1:9'))).close();
  expect(isLoaded()).toBe(true);
});

describe.each([
  ['a folder', async () => openStore(join(makeFolder(), 'place'))],
  ['a bucket', async () => openStore(bucketAt(await startS3()))],
  ['a prefix of a bucket', async () => openStore(bucketAt(await startS3(), 'some/where'))],
])('%s', (_, open: () => Promise<ObjectStore>) => {
  it('returns and lists stored objects, and no longer has removed ones', async () => {
    const store = await open();
    expect(await store.get('a/b.json')).toBe(null);
    expect(await listNames(store, 'a/')).toEqual([]);
    const contents = new Map([
      ['a/b.json', Buffer.from('one')],
      ['a/b/2', Buffer.alloc(9 << 20, 7)],
      ['a/b/1', Buffer.alloc(0)],
      ['ab/1', Buffer.from('elsewhere')],
    ]);
    for (const [name, bytes] of contents) await store.put(name, bytes);
    for (const [name, bytes] of contents) expect((await store.get(name))!.equals(bytes), name).toBe(true);
    expect(await listNames(store, 'a/')).toEqual(['a/b.json', 'a/b/1', 'a/b/2']);
    await store.put('a/b.json', Buffer.from('two'));
    expect((await store.get('a/b.json'))!.toString()).toBe('two');
    await store.remove(['a/b/2', 'a/none']);
    await store.remove([]);
    expect(await listNames(store, 'a/')).toEqual(['a/b.json', 'a/b/1']);
    store.close();
  });

  it('stores points, and returns them', async () => {
    const followed = { ...makeFollowed(), store: await open() };
    const main = new LmdbTables(join(followed.source.data_dir, 'main.mdb'), 'disk');
    await putRows(main, 't', [[1, 'first']]);
    const follower = await openFollower(followed);
    const first = await pass(followed, follower);
    await putRows(main, 't', [[1, 'second']]);
    await pass(followed, follower);
    await follower.prune(followed.clock.ms);
    await follower.close();
    await main.close();
    expect(await readRows((await restoreTo(followed, first)).data_dir, 't')).toEqual(['first']);
    expect(await readRows((await restoreTo(followed, null)).data_dir, 't')).toEqual(['second']);
    followed.store.close();
  });
});

it('a bucket is listed completely, in two answers', async () => {
  const asked: (string | null)[] = [];
  const endpoint = await startFakeS3((url) => {
    const token = url.searchParams.get('continuation-token');
    asked.push(token);
    const next =
      token === null
        ? '<IsTruncated>true</IsTruncated><NextContinuationToken>t 1</NextContinuationToken>'
        : '';
    const key = `some/where/many/${asked.length}`;
    return [200, `<ListBucketResult>${next}<Contents><Key>${key}</Key></Contents></ListBucketResult>`];
  });
  const store = await openStore(bucketAt(endpoint, 'some/where'));
  expect(await listNames(store, 'many/')).toEqual(['many/1', 'many/2']);
  expect(asked).toEqual([null, 't 1']);
  store.close();
});

describe('an error says what to do:', () => {
  async function refusal(place: string): Promise<StoreError> {
    const store = await openStore(place);
    const thrown = await store.put('a', Buffer.from('x')).then(
      () => null,
      (error: unknown) => error,
    );
    store.close();
    expect(thrown).toBeInstanceOf(StoreError);
    const { message } = thrown as StoreError;
    expect(message).not.toContain('\n');
    expect(message).not.toContain('S3RVER');
    return thrown as StoreError;
  }

  it.each([
    [404, 'NoSuchBucket', /^there is no bucket understudy-tests at http/],
    [403, 'AccessDenied', /no right to s3:PutObject in s3:\/\/understudy-tests \(AccessDenied\)/],
    [403, 'RequestTimeTooSkewed', /refuses the clock of this machine: set the clock/],
    [403, 'InvalidAccessKeyId', /does not accept the credentials \(InvalidAccessKeyId\)/],
    [403, 'SignatureDoesNotMatch', /does not accept the credentials/],
    [400, 'AuthorizationHeaderMalformed', /is in another region: name that region with region=/],
    [503, 'SlowDown', /cannot serve the request now \(status 503, SlowDown\)/],
    [400, 'EntityTooLarge', /it says no \(EntityTooLarge\)/],
  ])('%i %s', { tags: 'long' }, async (status, code, words) => {
    const thrown = await refusal(bucketAt(await startFakeS3(() => [status, refuseWith(code)])));
    expect(thrown.message).toMatch(words);
  });

  it('for a missing bucket, a missing server, an untrusted certificate, missing credentials', async () => {
    const real = await startS3();
    expect((await refusal(`s3://another-bucket?endpoint=${real}`)).message).toBe(
      `there is no bucket another-bucket at ${real}`,
    );
    expect(await refusal(bucketAt('http://127.0.0.1:9'))).toMatchObject({
      message: 'http://127.0.0.1:9 cannot be reached (ECONNREFUSED)',
    });
    const server = createServer({ cert: TEST_CERTIFICATE, key: TEST_KEY });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const secure = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const untrusted = await refusal(bucketAt(secure));
    expect(untrusted.message).toMatch(/is not trusted \([A-Z_]+\): NODE_EXTRA_CA_CERTS names/);
    for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) delete process.env[name];
    expect((await refusal(bucketAt(real))).message).toMatch(
      /^no credentials for s3:\/\/understudy-tests: set AWS_ACCESS_KEY_ID/,
    );
  });

  it.each([
    's3://',
    's3://UPPER_case',
    's3://bucket/../x?y=1',
    's3://bucket?unknown=1',
    's3://bucket?region=no%20region',
    's3://bucket?endpoint=http://storage.example',
    's3://bucket?endpoint=https://user:secret-word@storage.example',
    's3://key:secret-word@bucket',
  ])('for a wrong place, without a credential that it contains: %s', async (place) => {
    const thrown = (await openStore(place).catch((error: unknown) => error)) as StoreError;
    expect(thrown).toBeInstanceOf(StoreError);
    expect(thrown.message).toMatch(/like s3:\/\/bucket|is an https:\/\/ address/);
    expect(thrown.message).not.toContain('secret-word');
  });

  it('the command ends with that line', async () => {
    const env = { ...S3_ENVIRONMENT, DATA_DIR: makeFolder() };
    const place = bucketAt('http://127.0.0.1:9');
    for (const argv of [
      ['backup', '--follow', '--out', place],
      ['restore', '--from', place],
    ])
      expect(await runHere(argv, env)).toEqual({
        code: 1,
        stdout: '',
        stderr: 'understudy: http://127.0.0.1:9 cannot be reached (ECONNREFUSED)\n',
      });
    expect(await runHere(['backup', '--out', place], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('a bucket requires --follow'),
    });
  });
});
