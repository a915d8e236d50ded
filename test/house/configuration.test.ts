/** docs/configuration.md and the help name each variable of the code once, with its default. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { SECRET_NAMES } from '../../src/config/config-error.ts';
import { VARIABLE_DEFAULTS } from '../../src/config.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');

const ROW = /^\| `([A-Z_]+)` \| ([^|]+) \| (.+) \|$/gm;
const rows = [...read('docs/configuration.md').matchAll(ROW)].map(
  ([, name = '', unset = '', words = '']) => ({
    name,
    unset: unset === 'none' ? null : unset.replaceAll('`', ''),
    words,
  }),
);
const [ofService, ofAgents] = [true, false].map((isService) =>
  rows.filter(({ name }) => VARIABLE_DEFAULTS.has(name) === isService),
);

/** Variables that agents' processes read: in the two files that may read them, and in the Python client. */
const agentNames = new Set(
  [
    ...['src/client/environment.ts', 'src/label/environment.ts'].flatMap((path) =>
      [...read(path).matchAll(/const \{ (.+) \} = process\.env/g)].flatMap(([, names = '']) =>
        names.split(',').map((name) => name.replace(/=.*/, '').trim()),
      ),
    ),
    ...readdirSync(join(root, 'clients/python/understudy_gateway'))
      .filter((name) => name.endsWith('.py'))
      .flatMap((name) => [
        ...read(`clients/python/understudy_gateway/${name}`).matchAll(/environ\.get\("(\w+)"/g),
      ])
      .map(([, name]) => name!),
  ].sort(),
);

describe('docs/configuration.md', () => {
  it('lists every variable of the service once, with the default of the code', () => {
    const code = [...VARIABLE_DEFAULTS].map(([name, unset]) => [name, unset === '' ? null : unset]);
    expect(ofService!.map(({ name, unset }) => [name, unset]).sort()).toEqual(code.sort());
  });

  it('lists every variable of an agent’s process once, and no other', () => {
    expect(agentNames.size).toBe(4);
    expect(ofAgents!.map(({ name }) => name).sort()).toEqual([...agentNames]);
  });

  it('says which are secret', () => {
    const told = rows.filter(({ words }) => words.endsWith('; secret')).map(({ name }) => name);
    // Addresses that may contain a password, although they usually do not.
    const addresses = ['VECTOR_STORE_URL', 'AUTH_DB_CONN_URL', 'AUTH_JWKS_URL'];
    expect([...told, ...addresses].sort()).toEqual([...SECRET_NAMES].sort());
  });

  it('is the only table of variables', () => {
    for (const file of readdirSync(join(root, 'docs')).filter((name) => name !== 'configuration.md'))
      for (const [, name = ''] of read(posix.join('docs', file)).matchAll(/^\| `([A-Z_]+)` \|/gm))
        expect(VARIABLE_DEFAULTS.has(name), `${file} has a row of ${name}`).toBe(false);
  });
});

describe('the help of understudy up', () => {
  const help = read('src/cli/start.ts');

  it('names every variable except FRONT_THREADS', () => {
    for (const name of VARIABLE_DEFAULTS.keys())
      if (name !== 'FRONT_THREADS') expect(help, name).toMatch(new RegExp(`\\b${name}\\b`));
  });
});

describe('all docs', () => {
  it('use only variables that exist', () => {
    const known = new Set([...VARIABLE_DEFAULTS.keys(), ...agentNames]);
    for (const file of [
      'README.md',
      ...readdirSync(join(root, 'docs')).map((name) => posix.join('docs', name)),
    ]) {
      if (!file.endsWith('.md')) continue;
      for (const [, name = ''] of read(file).matchAll(
        /(?<![\w$])((?:GW|SVC|AUTH|RETENTION|MAX|RATE|DATA|STRIPE|DISTILL|EMBEDDING)_[A-Z_]+)=/g,
      ))
        expect(known.has(name), `${file}: ${name}`).toBe(true);
    }
  });
});
