/** Upstreams under prefixes in the operator's notation, and mistakes in that notation. */
import { describe, expect, it } from 'vitest';
import { listRouteSecrets, readUpstreamRoutes, UPSTREAM_PRESETS } from '../../src/domain/upstream-route.ts';

const readBase = (text: string): string | null => (/^https?:\/\/[^\s?#@]+$/.test(text) ? text : null);
const read = (given: unknown) => readUpstreamRoutes(given, readBase);

describe('routes', () => {
  it('are sorted by the length of their prefix, the longest first, and have the values of their preset', () => {
    const routes = read({
      '/openai': 'openai',
      '/vertex/{region}': 'vertex',
      '/team/local': { base: 'http://127.0.0.1:9/v1' },
      '/azure': {
        preset: 'azure',
        base: 'https://mine.example',
        provider: 'azure-eu',
        headers: { 'API-Key': 'k'.repeat(20) },
      },
    });
    expect(
      routes.map(({ prefix, takes_region, base, provider }) => [prefix, takes_region, base, provider]),
    ).toEqual([
      ['/team/local', false, 'http://127.0.0.1:9/v1', 'team.local'],
      ['/openai', false, 'https://api.openai.com', 'openai'],
      ['/vertex', true, 'https://{region}-aiplatform.googleapis.com', 'vertex'],
      ['/azure', false, 'https://mine.example', 'azure-eu'],
    ]);
    expect(routes[2]!.region_bases).toEqual({
      global: 'https://aiplatform.googleapis.com',
      us: 'https://aiplatform.us.rep.googleapis.com',
      eu: 'https://aiplatform.eu.rep.googleapis.com',
    });
    expect(routes[3]!.headers).toEqual([['api-key', 'k'.repeat(20)]]);
  });

  it('know every preset, with a base unless it differs for each customer', () => {
    for (const [preset, { base }] of Object.entries(UPSTREAM_PRESETS)) {
      const prefix = base?.includes('{region}') ? '/x/{region}' : '/x';
      if (base === null) expect(() => read({ [prefix]: preset })).toThrow('the route needs a base');
      else expect(read({ [prefix]: preset })[0]).toMatchObject({ base, provider: preset });
    }
  });

  it.each([
    [[], 'the JSON must be an object'],
    ['openai', 'the JSON must be an object'],
    [{ openai: 'openai' }, 'a prefix is one to four segments'],
    [{ '/': 'openai' }, 'a prefix is one to four segments'],
    [{ '/a/': 'openai' }, 'a prefix is one to four segments'],
    [{ '/a/../b': 'openai' }, 'a prefix is one to four segments'],
    [{ '/a%2f': 'openai' }, 'a prefix is one to four segments'],
    [{ '/__gw/x': 'openai' }, 'a prefix is one to four segments'],
    [{ '/gemini': 'openai' }, '/gemini is reserved'],
    [{ '/bedrock/mine': 'openai' }, '/bedrock is reserved'],
    [{ '/a': 'unknown' }, 'the preset is unknown'],
    [{ '/a': 'constructor' }, 'the preset is unknown'],
    [{ '/a': 7 }, 'a route is the name of a preset'],
    [{ '/a': {} }, 'the route needs a base'],
    [{ '/a': { base: 'ftp://a' } }, 'a base is an http:// or https:// address'],
    [{ '/a': { base: 'https://me:pass@a' } }, 'a base is an http:// or https:// address'],
    [{ '/a': { preset: 'openai', bse: 'x' } }, '"bse" is unknown'],
    [{ '/a': { preset: 'openai', provider: 'a b' } }, 'a provider has'],
    [{ '/a': 'vertex' }, 'the prefix must end with /{region} if the base contains {region}'],
    [{ '/a/{region}': 'openai' }, 'the prefix must end with /{region} if the base contains {region}'],
    [{ '/a': { preset: 'openai', headers: { host: 'b' } } }, 'only the gateway itself sets host'],
    [{ '/a': { preset: 'openai', headers: { 'x a': 'b' } } }, "a header's name is invalid"],
    [
      { '/a': { preset: 'openai', headers: { 'x-a': 'b\r\nx-b: c' } } },
      'the value of x-a must be 1 to 8192 printable ASCII characters',
    ],
    [
      { '/a': { preset: 'openai', headers: { Authorization: 'a', authorization: 'b' } } },
      'the header authorization is given twice',
    ],
    [
      { '/a': { preset: 'openai', headers: { 'x-a': 1 } } },
      'the value of x-a must be 1 to 8192 printable ASCII characters',
    ],
    [Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`/r${at}`, 'openai'])), 'more than 64 routes'],
  ])('%j is refused: %s', (given, why) => {
    expect(() => read(given)).toThrow(why);
  });

  it('name the secrets among their values, which an answer must not show', () => {
    const secret = 'sk-a-key-of-the-operator';
    const routes = read({
      '/a': {
        preset: 'openai',
        headers: { authorization: `Bearer ${secret}`, 'openai-organization': 'org-x' },
      },
      '/b': { preset: 'openai', headers: { 'x-own': 'a long private value' } },
    });
    expect(listRouteSecrets(routes)).toEqual([secret, `Bearer ${secret}`, 'a long private value']);
  });

  it('count no ordinary word as a secret', () => {
    const headers = {
      accept: 'text/event-stream',
      'content-type': 'application/json',
      'Anthropic-Beta': 'prompt-caching-2024-07-31',
      'HTTP-Referer': 'https://an-app.example/',
    };
    expect(listRouteSecrets(read({ '/a': { preset: 'openai', headers } }))).toEqual([]);
  });

  it('count the key of every route as a secret, however many routes there are', () => {
    const keys = Array.from({ length: 64 }, (_, at) => `a-key-of-route-${at}`);
    const routes = keys.map((key, at) => [
      `/r${at}`,
      { preset: 'openai', headers: { authorization: `Bearer ${key}`, cookie: `own=${key}-cookie` } },
    ]);
    expect(listRouteSecrets(read(Object.fromEntries(routes)))).toEqual(expect.arrayContaining(keys));
  });
});
