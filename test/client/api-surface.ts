/**
 * The public surface of the packages for agents, as text: every declaration that a package under `clients` exports, and
 * every declaration to which these refer, as tsc emits them. Declarations outside of the folders for agents (the
 * contract) are left out.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'vitest/node';
import { PACKAGES } from '../../tools/packages.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/**
 * Sources whose declarations are listed. The types of operations are left out: the contract defines them, and
 * `/openapi.json` describes them.
 */
const OWN_ROOMS = /^src\/(client(?!\/operation-types)|label|integrations)\//;

interface Node {
  type: string;
  start: number;
  end: number;
  [key: string]: unknown;
}

/** One emitted module. */
interface Module {
  /** Declarations by name; an overloaded function has several. */
  declarations: Map<string, string[]>;
  /** For each local name, the file from which it comes and its name there. `*` stands for the whole module. */
  imports: Map<string, { file: string; name: string }>;
  /** Public name → local name. */
  exports: Map<string, string>;
  /** Modules whose exports are all exported again. */
  stars: string[];
}

/** @returns a section for each subpath, in Markdown */
export function describeSurface(): string {
  // The folder is below the root, so that the compiled code finds its packages.
  const out = mkdtempSync(join(root, 'node_modules', '.api-'));
  try {
    const subpaths = readSubpaths();
    emit(out, [...subpaths.values()]);
    const modules = new Map<string, Module>();
    const sections = [...subpaths].map(([subpath, file]) => describe(subpath, file, out, modules));
    return sections.join('\n');
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** Subpaths of the packages under `clients`, and the sources behind them. */
function readSubpaths(): Map<string, string> {
  const subpaths = new Map<string, string>();
  for (const folder of PACKAGES) {
    const { name, exports } = JSON.parse(readFileSync(join(root, 'clients', folder, 'package.json'), 'utf8'));
    for (const [key, target] of Object.entries<{ import?: { types: string } }>(exports)) {
      if (target.import === undefined) continue;
      const source = target.import.types.replace('./dist/types/', '').replace(/\.d\.mts$/, '.ts');
      // The edge client has the same interface as the client.
      if (!source.startsWith('src/client/edge/')) subpaths.set(posix.join(name, key), source);
    }
  }
  return subpaths;
}

function emit(out: string, files: string[]): void {
  const compilerOptions = { emitDeclarationOnly: true, removeComments: true, outDir: out, rootDir: root };
  const config = join(out, 'tsconfig.json');
  const content = {
    extends: join(root, 'tsconfig.build.json'),
    compilerOptions,
    include: [],
    files: files.map((file) => join(root, file)),
  };
  writeFileSync(config, JSON.stringify(content));
  const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
  execFileSync(process.execPath, [tsc, '-p', config], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

function describe(subpath: string, file: string, out: string, modules: Map<string, Module>): string {
  const read = (name: string): Module => {
    let module = modules.get(name);
    if (module === undefined) {
      module = readModule(readFileSync(join(out, name.replace(/\.ts$/, '.d.ts')), 'utf8'), name);
      modules.set(name, module);
    }
    return module;
  };
  const told = new Map<string, string>();
  const tell = (from: string, name: string): void => {
    const module = read(from);
    const texts = module.declarations.get(name);
    if (texts === undefined) {
      const imported = module.imports.get(name);
      if (imported !== undefined && OWN_ROOMS.test(imported.file) && existsSync(join(root, imported.file)))
        tellExport(imported.file, imported.name);
      return;
    }
    const key = `${from} ${name}`;
    if (told.has(key)) return;
    told.set(key, texts.join('\n'));
    for (const word of texts.join('\n').match(/[A-Za-z_$][\w$]*/g) ?? []) tell(from, word);
  };
  const tellExport = (from: string, name: string): void => {
    const module = read(from);
    const local = module.exports.get(name);
    if (local !== undefined) return tell(from, local);
    for (const star of module.stars) tellExport(star, name);
  };
  const names = exportedNames(file, read);
  for (const name of names) tellExport(file, name);
  const body = [...told].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
  return `## ${subpath}\n\nExports: ${names.join(', ')}\n\n\`\`\`ts\n${body.join('\n\n')}\n\`\`\`\n`;
}

function exportedNames(file: string, read: (name: string) => Module): string[] {
  const module = read(file);
  const names = [...module.exports.keys(), ...module.stars.flatMap((star) => exportedNames(star, read))];
  return [...new Set(names)].sort();
}

function readModule(source: string, file: string): Module {
  const module: Module = { declarations: new Map(), imports: new Map(), exports: new Map(), stars: [] };
  const { body } = parseAst(source, { lang: 'dts' }) as unknown as { body: Node[] };
  const resolve = (from: Node) => posix.join(posix.dirname(file), from.value as string);
  for (const node of body) {
    if (node.type === 'ImportDeclaration') {
      for (const specifier of node.specifiers as Node[]) {
        const imported = nameOf(specifier.imported) ?? '*';
        const from = { file: resolve(node.source as Node), name: imported };
        module.imports.set(nameOf(specifier.local)!, from);
      }
    } else if (node.type === 'ExportAllDeclaration') {
      module.stars.push(resolve(node.source as Node));
    } else if (node.type === 'ExportNamedDeclaration' && !node.declaration) {
      for (const specifier of node.specifiers as Node[]) {
        const [local, exported] = [nameOf(specifier.local)!, nameOf(specifier.exported)!];
        module.exports.set(exported, local);
        if (node.source) module.imports.set(local, { file: resolve(node.source as Node), name: local });
      }
    } else {
      const declaration = (node.declaration ?? node) as Node;
      for (const name of namesOf(declaration)) {
        const texts = module.declarations.get(name) ?? [];
        module.declarations.set(name, [...texts, source.slice(node.start, node.end)]);
        if (node.type === 'ExportNamedDeclaration') module.exports.set(name, name);
        if (node.type === 'ExportDefaultDeclaration') module.exports.set('default', name);
      }
    }
  }
  return module;
}

function namesOf(declaration: Node): string[] {
  const own = nameOf(declaration.id);
  if (own !== undefined) return [own];
  const declarators = (declaration.declarations ?? []) as Node[];
  return declarators.map(({ id }) => nameOf(id)!).filter((name) => name !== undefined);
}

function nameOf(node: unknown): string | undefined {
  const { name, value } = (node ?? {}) as { name?: string; value?: string };
  return name ?? value;
}
