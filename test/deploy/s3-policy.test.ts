/** deploy/s3-policy.json allows what the code does with a bucket, and nothing else. Test thread. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

interface Statement {
  Effect: string;
  Action: string | string[];
  Resource: string;
}

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

it('the policy for a bucket names each right that the code needs, at its resource', () => {
  const { Statement } = JSON.parse(read('deploy/s3-policy.json')) as { Statement: Statement[] };
  const allowed = Statement.flatMap(({ Effect, Action, Resource }) =>
    [Action].flat().map((right) => `${Effect} ${right} ${Resource}`),
  );
  // The store names the right that each of its requests needs, for the error when S3 refuses it.
  const needed = new Set(read('src/storage/bucket/s3-store.ts').match(/'s3:\w+'/g)!);
  expect(needed.size).toBe(4);
  const resourceOf = (right: string) =>
    right === 's3:ListBucket' ? 'arn:aws:s3:::BUCKET' : 'arn:aws:s3:::BUCKET/PREFIX/*';
  const expected = Array.from(needed, (quoted) => quoted.slice(1, -1));
  expect(allowed.sort()).toEqual(expected.map((right) => `Allow ${right} ${resourceOf(right)}`).sort());
});
