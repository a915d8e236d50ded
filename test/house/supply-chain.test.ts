/** Checks of what is installed and shipped: lock file, binary, base image, bill of materials. */

import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
// @ts-expect-error plain JavaScript, for Nodes that strip no types
import * as binary from '../../native/uwebsockets-binary.mjs';

const { findBinaries, judgeBinaries, readHashes } = binary as {
  findBinaries(from?: string): { name: string; path: string }[];
  judgeBinaries(
    hashes: Map<string, string>,
    binaries: { name: string; path: string }[],
  ): { name: string; hash: string; verdict: string }[];
  readHashes(text: string): Map<string, string>;
};

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface Locked {
  version: string;
  integrity?: string;
  dev?: boolean;
  hasInstallScript?: boolean;
  gypfile?: boolean;
  /** Whether the package is part of this repository. */
  link?: boolean;
}
const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> };
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
const locked = Object.entries(packages).filter(
  ([path, { link = false }]) => path.startsWith('node_modules/') && !link,
);

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-supply-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Packages without a hash in the lock file, because the registry from which the file was made has no hash for them.
 * `npm run pin` adds hashes from another registry. A package that gets a hash must be removed from this list. Do not
 * add a package.
 */
const UNCHECKED = ['darwin-arm64', 'darwin-x64', 'linux-arm', 'linux-arm64', 'win32-x64'].flatMap((of) =>
  [18, 20, 22, 23].map((node) => `@uwsjs/${of}-${node}`),
);

describe('the lock file', () => {
  it('has a hash for every package except those named here', () => {
    const without = locked
      .filter(([, { integrity }]) => integrity === undefined)
      .map(([path]) => nameOf(path));
    expect(without.sort()).toEqual([...UNCHECKED].sort());
    for (const [path, { integrity }] of locked)
      if (integrity !== undefined) expect(integrity, path).toMatch(/^sha512-[A-Za-z\d+/]{86}==$/);
  });
});

it('the lock file forbids the scripts that allowScripts forbids, for older versions of npm', () => {
  const { allowScripts } = JSON.parse(read('package.json')) as { allowScripts: Record<string, boolean> };
  const scripts = Object.entries(packages).filter(([path]) => allowScripts[nameOf(path)] !== undefined);
  expect(scripts.length).toBeGreaterThanOrEqual(Object.keys(allowScripts).length);
  for (const [path, { hasInstallScript, gypfile }] of scripts)
    expect({ path, hasInstallScript, gypfile }).toEqual(
      allowScripts[nameOf(path)]
        ? { path, hasInstallScript: true, gypfile: undefined }
        : { path, hasInstallScript: undefined, gypfile: false },
    );
});

describe('the lock files of clients that tests run', () => {
  const folders = readdirSync(join(root, 'test/real-clients'), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );

  it.each(folders.map(({ name }) => name))('have one version and a hash for every package: %s', (name) => {
    const lock = JSON.parse(read(`test/real-clients/${name}/package-lock.json`)) as {
      packages: Record<string, Locked & { dependencies?: Record<string, string>; resolved?: string }>;
    };
    const { '': own, ...others } = lock.packages;
    const { dependencies } = JSON.parse(read(`test/real-clients/${name}/package.json`));
    expect(own!.dependencies).toEqual(dependencies);
    expect(Object.values(dependencies)).toEqual([expect.stringMatching(/^\d+\.\d+\.\d+$/)]);
    for (const [path, { integrity, resolved }] of Object.entries(others)) {
      expect(integrity, path).toMatch(/^sha512-[A-Za-z\d+/]{86}==$/);
      expect(resolved, path).toBeUndefined();
    }
    expect(read('docs/clients.md')).toContain(
      `| \`${Object.keys(dependencies)[0]}\` | ${Object.values(dependencies)[0]} |`,
    );
  });
});

describe('the binary that reads network data', () => {
  const list = read('native/uwebsockets.sha256');
  const hashes = readHashes(list);
  const { platform, arch, versions } = process;
  const own = `@uwsjs/${platform}-${arch}-${versions.node.split('.')[0]}/uws.node`;
  /** Skipped on a machine whose binary is not listed yet. */
  const listedIt = it.skipIf(!hashes.has(own));

  listedIt('is the one that our own list has', () => {
    const judged = judgeBinaries(hashes, findBinaries());
    expect(judged.map(({ verdict }) => verdict)).toEqual(['listed']);
    expect(judged[0]!.name).toBe(own);
  });

  it('is listed for every platform whose package has a hash in the lock file, in the same version', () => {
    const known = locked.filter(
      ([path, { integrity }]) => /@uwsjs\/.+-\d+$/.test(path) && integrity !== undefined,
    );
    expect([...hashes.keys()].sort()).toEqual(known.map(([path]) => `${nameOf(path)}/uws.node`).sort());
    for (const [, { version }] of known) expect(list).toContain(`version ${version} `);
  });

  it('is checked after every install, and in the container, before anything else', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    expect(scripts.postinstall).toMatch(/^node native\/uwebsockets-binary\.mjs && /);
    expect(read('Dockerfile')).toContain('npm ci --ignore-scripts && node native/uwebsockets-binary.mjs && ');
  });

  /** Runs the check over a copy of what is installed here. */
  function checkCopy(change: (path: string, list: string) => void): SpawnSyncReturns<string> {
    const folder = makeFolder();
    const [{ name, path } = { name: '', path: '' }] = findBinaries();
    for (const copied of ['uWebSockets.js', dirname(name)])
      cpSync(join(root, 'node_modules', copied), join(folder, 'node_modules', copied), { recursive: true });
    expect(path).toContain(dirname(name));
    mkdirSync(join(folder, 'native'));
    for (const file of ['uwebsockets-binary.mjs', 'uwebsockets.sha256'])
      cpSync(join(root, 'native', file), join(folder, 'native', file));
    change(join(folder, 'node_modules', name), join(folder, 'native', 'uwebsockets.sha256'));
    return spawnSync(process.execPath, [join(folder, 'native', 'uwebsockets-binary.mjs')], {
      encoding: 'utf8',
    });
  }

  listedIt('passes in silence when it is the listed one', () => {
    expect(checkCopy(() => {})).toMatchObject({ status: 0, stdout: '', stderr: '' });
  });

  listedIt('ends the install when one bit of it is another', () => {
    const { status, stderr } = checkCopy((path) => {
      const bytes = readFileSync(path);
      bytes[bytes.length >> 1]! ^= 1;
      writeFileSync(path, bytes);
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /uws\.node is not the binary that native\/uwebsockets\.sha256 lists.* SHA-256 [0-9a-f]{64}/,
    );
  });

  it('is reported with its hash if it is not listed', () => {
    const { status, stderr } = checkCopy((_path, place) => writeFileSync(place, '# none\n'));
    expect(status).toBe(0);
    expect(stderr).toMatch(/warning: @uwsjs\/.+ is not verified: .+ SHA-256 [0-9a-f]{64}/);
  });

  it.each(['x', `${'0'.repeat(64)} one-blank`, `${'0'.repeat(63)}  a`, `${'A'.repeat(64)}  a`])(
    'is refused with a list that contains the invalid line %j',
    (line) => {
      expect(() => readHashes(`# a list\n${line}\n`)).toThrow('this line has no valid hash');
    },
  );
});

describe('npm run pin', () => {
  it('adds the hashes that the registry has, changes no existing one, and names the missing ones', {
    tags: 'long',
    timeout: 60_000,
  }, async () => {
    const folder = makeFolder();
    const content = Buffer.from('the binary of another machine');
    const tarball = packTarball(folder, content);
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
    const name = '@uwsjs/linux-arm64-22';
    const registry = createServer((request, response) => {
      const { port } = registry.address() as AddressInfo;
      if (request.url === '/tarball.tgz') return void response.end(tarball);
      if (decodeURIComponent(request.url ?? '') !== `/${name}`) return void response.writeHead(404).end('{}');
      const dist = { integrity, tarball: `http://127.0.0.1:${port}/tarball.tgz` };
      const versions = { '20.51.4': { name, version: '20.51.4', dist } };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ name, 'dist-tags': { latest: '20.51.4' }, versions }));
    });
    registry.listen(0, '127.0.0.1');
    await once(registry, 'listening');
    onTestFinished(() => void registry.close());
    mkdirSync(join(folder, 'native'));
    const listed = `${'1'.repeat(64)}  @uwsjs/linux-x64-22/uws.node\n`;
    writeFileSync(join(folder, 'native', 'uwebsockets.sha256'), `# a list\n${listed}`);
    const before = {
      'node_modules/@uwsjs/darwin-arm64-22': { version: '20.51.4', optional: true },
      [`node_modules/${name}`]: { version: '20.51.4', cpu: ['arm64'] },
      'node_modules/left-alone': { version: '1.0.0', integrity: 'sha512-as-it-was', hasInstallScript: true },
    };
    const silent = { version: '1.0.0', integrity: 'sha512-as-it-was' };
    const lock = {
      packages: { '': {}, ...before, 'node_modules/silent': { ...silent, hasInstallScript: true } },
    };
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock));
    const allowScripts = { 'left-alone': true, silent: false };
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ allowScripts }));

    const { port } = registry.address() as AddressInfo;
    const child = spawn(process.execPath, [join(root, 'tools/pin.ts'), folder], {
      env: {
        ...process.env,
        npm_config_registry: `http://127.0.0.1:${port}/`,
        npm_config_cache: join(folder, 'cache'),
        npm_config_fetch_retries: '0',
      },
    });
    let said = '';
    child.stdout.on('data', (text) => {
      said += text;
    });
    const [status] = await once(child, 'close');
    expect([status, said]).toEqual([
      0,
      'the registry does not have @uwsjs/darwin-arm64-22@20.51.4: no integrity\n' +
        'the registry does not have @uwsjs/darwin-arm64-22@20.51.4: no package\n',
    ]);
    const after = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8'));
    expect(after.packages).toEqual({
      '': {},
      ...before,
      [`node_modules/${name}`]: { version: '20.51.4', integrity, cpu: ['arm64'] },
      'node_modules/silent': { ...silent, gypfile: false },
    });
    const hash = createHash('sha256').update(content).digest('hex');
    expect(readFileSync(join(folder, 'native', 'uwebsockets.sha256'), 'utf8')).toBe(
      `# a list\n${hash}  ${name}/uws.node\n${listed}`,
    );
  });
});

/** A package with one file, as npm packs it. */
function packTarball(folder: string, content: Buffer): Buffer {
  mkdirSync(join(folder, 'package'));
  writeFileSync(
    join(folder, 'package', 'package.json'),
    '{"name":"@uwsjs/linux-arm64-22","version":"20.51.4"}',
  );
  writeFileSync(join(folder, 'package', 'uws.node'), content);
  const { stdout, status } = spawnSync('tar', ['-cz', '-C', folder, 'package']);
  expect(status).toBe(0);
  return stdout;
}

describe('the container', () => {
  it('is built on images that are named by digest', () => {
    const dockerfile = read('Dockerfile');
    const [, image] = /^ARG NODE_IMAGE=(\S+)$/m.exec(dockerfile)!;
    expect(image).toMatch(/^node:22\.\d+\.\d+-bookworm-slim@sha256:[0-9a-f]{64}$/);
    const from = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, name]) => name);
    expect(from.map((name) => name?.replace(/\W/g, ''))).toEqual(['NODE_IMAGE', 'NODE_IMAGE']);
    expect(read('SECURITY.md')).toContain(`imagetools inspect ${image!.split('@')[0]}\n`);
  });
});

describe('npm run sbom', { tags: 'long' }, () => {
  const write = () => {
    const target = join(makeFolder(), 'bom.json');
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'tools/sbom.ts'), target], {
      encoding: 'utf8',
      // The registry cannot be reached.
      env: { ...process.env, npm_config_registry: 'http://127.0.0.1:9/' },
    });
    expect([status, stderr]).toEqual([0, '']);
    return readFileSync(target, 'utf8');
  };

  it('writes what CycloneDX requires, the same each time, without network', () => {
    const text = write();
    expect(write()).toBe(text);
    const bom = JSON.parse(text);
    expect(bom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.5', version: 1 });
    expect(bom.serialNumber).toMatch(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    expect(bom.metadata.component).toMatchObject({ type: 'library', name: 'understudy-gateway' });
    const refs = new Set<string>([bom.metadata.component['bom-ref']]);
    for (const component of bom.components) {
      expect(component.type).toMatch(/^(library|application|framework)$/);
      expect(component.version).toMatch(/^\d/);
      expect(component.purl).toMatch(/^pkg:npm\/(%40[\w.-]+\/)?[\w.-]+@[\w.+-]+$/);
      expect(refs.has(component['bom-ref']), component['bom-ref']).toBe(false);
      refs.add(component['bom-ref']);
      for (const { alg, content } of component.hashes ?? []) {
        expect(alg).toBe('SHA-512');
        expect(content).toMatch(/^[0-9a-f]{128}$/);
      }
      for (const { license, expression } of component.licenses ?? [])
        expect(typeof (license?.id ?? license?.name ?? expression)).toBe('string');
    }
    for (const { ref, dependsOn } of bom.dependencies)
      for (const needed of [ref, ...dependsOn]) expect(refs.has(needed), needed).toBe(true);
  });

  it('names every package that is shipped, with the hash of the lock file, and the listed binaries', () => {
    const { components } = JSON.parse(write()) as {
      components: {
        name: string;
        version: string;
        purl: string;
        hashes?: { content: string }[];
        components?: { name: string; hashes: { content: string }[] }[];
      }[];
    };
    for (const [path, { version, integrity, dev }] of locked) {
      if (dev === true) continue;
      // An alias has its own name or the name of its target, depending on the version of npm.
      const names = path.endsWith('/uWebSockets.js') ? ['uWebSockets.js', '@uwsjs/core'] : [nameOf(path)];
      const found = components.find(
        (component) => component.version === version && names.includes(component.name),
      );
      expect(found, path).toBeDefined();
      if (integrity === undefined) continue;
      const hex = Buffer.from(integrity.slice('sha512-'.length), 'base64').toString('hex');
      expect(
        found!.hashes?.map(({ content }) => content),
        path,
      ).toEqual([hex]);
    }
    for (const [path, hash] of readHashes(read('native/uwebsockets.sha256'))) {
      const owner = components.find(({ name }) => name === dirname(path));
      expect(owner?.components).toMatchObject([
        { name: 'uws.node', hashes: [{ alg: 'SHA-256', content: hash }] },
      ]);
    }
  });
});
