/** Commands, links, paths and pinned versions in the docs exist. */

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface PackageJson {
  bin: Record<string, string>;
  files: string[];
  scripts: Record<string, string>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  allowScripts: Record<string, boolean>;
}

interface LockedPackage extends Partial<PackageJson> {
  hasInstallScript?: boolean;
}

const manifest = JSON.parse(read('package.json')) as PackageJson;

describe('the README', () => {
  const readme = read('README.md');

  it.each(['npx -y -p node@22 -c "npm ci && npm start"', 'npx -y -p node@22 -c "npm ci && npm test"'])(
    'has the command %s alone on a line',
    (command) => {
      expect(readme.split('\n')).toContain(command);
    },
  );

  it('names the test command with which .ci/run begins', () => {
    const [first] = read('.ci/run')
      .split('\n')
      .filter((line) => line.startsWith('npx '));
    expect(readme.split('\n').find((line) => line.endsWith('npm test"'))).toBe(first);
    expect(statSync(join(root, '.ci/run')).mode & 0o111).not.toBe(0);
  });

  it('lists the compilers that the container installs', () => {
    const packages = /apt-get install -y ([\w+ ]+)/.exec(readme)?.[1];
    expect(packages).toBeDefined();
    expect(read('Dockerfile')).toContain(`apt-get install -y --no-install-recommends ${packages}`);
  });
});

/** Placeholders for names, or for parts of names. */
const NOT_FILES = new Set(['NAME.cc', 'test/native/fuzz/NAME.cc', 'rver.ts', 'snapshot.ts']);

const sources = ['src', 'actors', 'bench', 'native', 'test'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) =>
    posix.join(folder, path),
  ),
);

const docs = ['docs', 'src', 'actors', 'bench', 'native', 'clients'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) =>
    posix.join(folder, path),
  ),
);

describe.each([...readdirSync(root), ...docs].filter((path) => path.endsWith('.md')))(
  'the document %s',
  (doc) => {
    const text = read(doc);

    it('links only to files and headings that exist', () => {
      for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^https?:/.test(target)) continue;
        const [file = '', heading] = target.split('#');
        const path = file === '' ? doc : posix.join(dirname(doc), file);
        expect(existsSync(join(root, path)), `${doc} -> ${target}`).toBe(true);
        if (heading !== undefined) expect(headingsOf(read(path)), `${doc} -> ${target}`).toContain(heading);
      }
    });

    it('names only files that exist', () => {
      for (const [, path = ''] of text.matchAll(/`([\w./-]+\.(?:ts|mjs|cc))`/g)) {
        const isThere = [path, posix.join(dirname(doc), path)].some((each) => existsSync(join(root, each)));
        if (NOT_FILES.has(path) || isThere) continue;
        expect(
          sources.some((each) => each.endsWith(`/${path}`)),
          `${doc} -> ${path}`,
        ).toBe(true);
      }
    });

    it('names only scripts that exist', () => {
      for (const [, name = ''] of text.matchAll(/npm run ([\w-]+)/g))
        expect(manifest.scripts).toHaveProperty(name);
    });
  },
);

function headingsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  );
}

describe('all docs', () => {
  /** Paths of a library, of a build's output, or with a placeholder. */
  const ELSEWHERE = /HttpParser\.h|ChunkedEncoding\.h|^native\/build\/|NAME/;
  const docs = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.md') && !/(^|\/)(node_modules|dist|CHANGELOG\.md)/.test(path),
  );

  it('name files that exist', () => {
    for (const doc of docs)
      for (const [, path = ''] of read(doc).matchAll(
        /`((?:test|src|actors|native|bench|docs|deploy|clients)\/[\w./-]*)`/g,
      ))
        if (!ELSEWHERE.test(path)) expect(existsSync(join(root, path)), `${doc}: ${path}`).toBe(true);
  });
});

describe('package.json', () => {
  it.each(['dependencies', 'devDependencies', 'optionalDependencies'] as const)(
    'pins every one of %s exactly',
    (kind) => {
      for (const [name, version] of Object.entries(manifest[kind])) {
        expect(version, name).toMatch(
          /^(file:native\/no-downloads$|(npm:@?[\w./-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$)/,
        );
      }
    },
  );

  const locked = (JSON.parse(read('package-lock.json')) as { packages: Record<string, LockedPackage> })
    .packages;

  it('agrees with the lock file', () => {
    expect(locked['']).toMatchObject({
      dependencies: manifest.dependencies,
      devDependencies: manifest.devDependencies,
      optionalDependencies: manifest.optionalDependencies,
    });
  });

  it('has the binaries for every platform in its lock file, without which a clean npm ci fails', () => {
    // npm leaves out packages that its registry lacks. A lock file made that way works only with that registry.
    for (const [path, { optionalDependencies = {} }] of Object.entries(locked)) {
      for (const name of Object.keys(optionalDependencies)) {
        const places = [path, ...parentsOf(path)].map((place) => posix.join(place, 'node_modules', name));
        expect(
          places.some((place) => place in locked),
          `${path} -> ${name}`,
        ).toBe(true);
      }
    }
  });

  it('says for every package with an install script whether it may run', () => {
    for (const [path, { hasInstallScript }] of Object.entries(locked)) {
      const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
      if (hasInstallScript && path !== '') expect(manifest.allowScripts).toHaveProperty([name]);
    }
  });

  it('compiles native code itself, from files of the published package', () => {
    // The package's own script would need python3, make and Node's headers from nodejs.org.
    expect(manifest.allowScripts['hnswlib-node']).toBe(false);
    const script = manifest.scripts.postinstall?.split(' ').at(-1);
    expect(manifest.files).toContain(script);
    expect(manifest.files).toContain('native/bytes.cc');
  });

  it('has an executable command', () => {
    expect(statSync(join(root, manifest.bin.understudy!)).mode & 0o111).not.toBe(0);
    expect(manifest.files).toContain(manifest.bin.understudy);
  });
});

/** The folders above a package where npm may have installed its dependencies, the project's own folder last. */
function parentsOf(path: string): string[] {
  const cut = path.lastIndexOf('/node_modules/');
  return cut < 0 ? [''] : [path.slice(0, cut), ...parentsOf(path.slice(0, cut))];
}

describe('embedded.env', () => {
  it('turns every engine on', () => {
    const { engines } = loadConfig({ listener: 'gateway' }, parseEnv(read('embedded.env')));
    expect(Object.values(engines)).toEqual(['embedded:', 'embedded:', 'embedded:']);
  });

  it('is loaded by npm start and the container', () => {
    expect(manifest.scripts.start).toContain('--env-file=embedded.env');
    expect(read('Dockerfile')).toContain('--env-file=/app/embedded.env');
  });
});

describe('Dockerfile', () => {
  const instructions = read('Dockerfile')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => /^([A-Z]+)\s+(.*)$/.exec(line)!.slice(1) as [name: string, rest: string]);
  const rest = (name: string) => instructions.filter(([other]) => other === name).map(([, text]) => text);
  const ignored = read('.dockerignore');

  it('copies existing files that .dockerignore permits', () => {
    const sources = rest('COPY')
      .filter((text) => !text.startsWith('--from='))
      .flatMap((text) => text.split(/\s+/).slice(0, -1));
    expect(sources).toContain('package-lock.json');
    for (const source of sources) {
      expect(existsSync(join(root, source)), source).toBe(true);
      expect(ignored.split('\n'), source).toContain(`!${source.split('/')[0]}`);
    }
  });

  it('runs as a user other than root, sets port and volume for the engine, and receives signals itself', () => {
    expect(rest('USER')).toEqual(['node']);
    expect(rest('EXPOSE')).toEqual(['8000 8787']);
    expect(rest('VOLUME')).toEqual(['/data']);
    expect(instructions.findIndex(([name]) => name === 'USER')).toBeLessThan(
      instructions.findIndex(([name]) => name === 'ENTRYPOINT'),
    );
    for (const text of [...rest('ENTRYPOINT'), ...rest('CMD')])
      expect(Array.isArray(JSON.parse(text))).toBe(true);
  });

  it('starts with the paths and variables that it sets', () => {
    const entry = JSON.parse(rest('ENTRYPOINT')[0]!) as string[];
    const [file] = entry.filter((word) => word.endsWith('.mjs'));
    expect(file).toBe(`/app/${manifest.bin.understudy}`);
    const variables = Object.fromEntries(
      rest('ENV').flatMap((text) => text.split(' ').map((pair) => pair.split('='))),
    );
    const config = loadConfig({ listener: 'gateway' }, variables as NodeJS.ProcessEnv);
    expect(config).toMatchObject({
      data_dir: '/data',
      api: { host: '0.0.0.0', port: 8000 },
      gateway: { host: '127.0.0.1' },
    });
  });

  it('checks its health without tools that the image lacks', () => {
    const command = JSON.parse(/CMD (\[.*\])/.exec(rest('HEALTHCHECK')[0]!)![1]!) as string[];
    expect(command[0]).toBe('node');
    expect(() => new Function(command[2]!)).not.toThrow();
  });
});
