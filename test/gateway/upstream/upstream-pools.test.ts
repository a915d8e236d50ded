/** Which pool makes room for a new provider. No connection is opened. */
import { expect, it } from 'vitest';
import { UpstreamPools } from '../../../src/gateway/upstream/upstream-pools.ts';

it('a new provider takes the place of the least recently used one, not of one in constant use', () => {
  const pools = new UpstreamPools();
  const region = (at: number) => pools.get(`https://bedrock-runtime.region-${at}.example`);
  const main = pools.get('https://api.example/base');
  const [first, second] = [region(1), region(2)];
  for (let at = 3; at <= 63; at++) {
    region(at);
    expect(pools.get('https://api.example/base')).toBe(main);
  }
  region(1);
  region(64);
  expect(pools.get('https://api.example/base')).toBe(main);
  expect(region(1)).toBe(first);
  expect(region(2)).not.toBe(second);
  pools.close();
});
